/* SPDX-License-Identifier: MIT */
/* Logs of nccl-tests. Text: comment lines say program, ranks and columns, then one row for each size. Columns are found
 * by their names, since they changed over the versions; the out-of-place time is taken. JSON: the file that option -J
 * writes (versions 2.16 and later), where `devices` has one entry for each process. */
#include "samples.h"

#include "in-file.h"

#include <math.h>
#include <string.h>

enum
{
  MOST_COLUMNS = 40
};

typedef struct
{
  PsiSamples *samples;
  const char *file;
  guint line;
  const char *given;     /* operation from the caller */
  const char *operation; /* of the table at hand, NULL = not known yet */
  guint n_ranks;
  GHashTable *hosts;
  char **columns;  /* names, NULL = no table */
  guint first_row; /* in samples->curves, of the table at hand */
  const char *redop;
  gboolean has_root;
  double bus_ratio;     /* of the row with the largest bandwidth */
  double bus_bandwidth; /* of that row */
} Log;

/* "[1,0]<stdout>:" and the like, which launchers put before every line. */
static const char *
skip_prefix (const char *line)
{
  if (*line == '[')
    {
      const char *end = strstr (line, ">:");
      if (end && end - line < 40)
        line = end + 2;
    }
  return line + strspn (line, " \t");
}

/* The name of a program of nccl-tests in a line: "... ./build/all_reduce_perf -b 8". */
static const char *
find_program (const char *line)
{
  const char *end = strstr (line, "_perf"), *begin = end;

  while (begin && begin > line && (g_ascii_isalnum (begin[-1]) || begin[-1] == '_'))
    begin--;
  if (begin == NULL)
    return NULL;
  g_autofree char *name = g_strndup (begin, (gsize) (end - begin));
  return psi_samples_operation (name);
}

/* The rows of a table waited for what only the whole table tells. */
static gboolean
finish_table (Log *log, GError **error)
{
  GArray *curves = log->samples->curves;

  g_clear_pointer (&log->columns, g_strfreev);
  if (log->first_row == curves->len)
    return TRUE;
  const char *operation = log->given ? log->given : log->operation;
  if (operation == NULL)
    operation = psi_samples_guess_operation (log->file, log->redop, log->has_root, log->bus_ratio);
  if (log->n_ranks < 2 && operation)
    log->n_ranks = psi_samples_guess_ranks (operation, log->bus_ratio);
  if (operation == NULL || log->n_ranks < 2)
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_OPERATION,
                   operation ? "%s:%u: the log does not say how many ranks took part"
                             : "%s:%u: the log does not say which collective it measured; name it with --op",
                   log->file, log->line);
      return FALSE;
    }
  for (guint i = log->first_row; i < curves->len; i++)
    {
      PsiCurveSample *sample = &g_array_index (curves, PsiCurveSample, i);
      sample->curve = g_intern_string (operation);
      sample->n_ranks = log->n_ranks;
      sample->n_nodes = MAX (1, g_hash_table_size (log->hosts));
    }
  log->first_row = curves->len;
  return TRUE;
}

static void
note_rank (Log *log, const char *line)
{
  const char *group = strstr (line, " Group "), *on = strstr (line, " on "), *gpu = strchr (line, ']');

  if (group && strtol (group + 7, NULL, 10) != 0)
    return; /* several groups at once: all are alike */
  log->n_ranks++;
  if (on)
    {
      on += 4 + strspn (on + 4, " ");
      g_hash_table_add (log->hosts, g_strndup (on, strcspn (on, " ")));
    }
  if (gpu && !json_object_has_member (log->samples->provenance, "gpu"))
    json_object_set_string_member (log->samples->provenance, "gpu", gpu + 1 + strspn (gpu + 1, " "));
}

/* A comment line. FALSE: an error. */
static gboolean
read_comment (Log *log, const char *line, GError **error)
{
  const char *program = find_program (line);
  const char *text = line + 1 + strspn (line + 1, " \t");

  if (g_str_has_prefix (text, "nThread") || g_str_has_prefix (text, "nccl-tests version"))
    {
      if (!finish_table (log, error))
        return FALSE;
      if (log->columns == NULL && g_str_has_prefix (text, "nThread") && log->n_ranks)
        log->n_ranks = 0, g_hash_table_remove_all (log->hosts);
    }
  if (program)
    {
      if (log->first_row < log->samples->curves->len && !finish_table (log, error))
        return FALSE;
      log->operation = program;
    }
  if (strstr (text, PSI_SAMPLES_PREDICTED) != NULL)
    json_object_set_string_member (log->samples->provenance, "predicted_by", "psisim");
  if (g_str_has_prefix (text, "Rank "))
    note_rank (log, line);
  if (g_str_has_prefix (text, "size ") && strstr (text, "algbw"))
    {
      if (!finish_table (log, error))
        return FALSE;
      g_autofree char *squeezed = g_strdup (text);
      char *to = squeezed;
      for (const char *from = squeezed; *from; from++)
        if (!g_ascii_isspace (*from) || (to > squeezed && to[-1] != ' '))
          *to++ = g_ascii_isspace (*from) ? ' ' : *from;
      *to = 0;
      log->columns = g_strsplit (g_strstrip (squeezed), " ", MOST_COLUMNS);
      log->bus_ratio = log->bus_bandwidth = 0;
      log->redop = NULL;
      log->has_root = FALSE;
    }
  if (g_str_has_prefix (text, "Out of bounds") || g_str_has_prefix (text, "Avg bus"))
    return finish_table (log, error);
  return TRUE;
}

static const char *
field_of (const Log *log, char **fields, const char *column)
{
  for (guint i = 0; log->columns[i] && fields[i]; i++)
    if (g_str_equal (log->columns[i], column))
      return fields[i];
  return NULL;
}

static double
number_of (const Log *log, char **fields, const char *column)
{
  const char *text = field_of (log, fields, column);
  char *end;
  double value = text ? g_ascii_strtod (text, &end) : (double) NAN;
  return text && end != text && *end == 0 ? value : (double) NAN;
}

static gboolean
read_row (Log *log, const char *line, GError **error)
{
  g_auto (GStrv) words = g_strsplit_set (line, " \t", -1);
  char *fields[MOST_COLUMNS + 1];
  guint n = 0;

  for (guint i = 0; words[i] && n < MOST_COLUMNS; i++)
    if (*words[i])
      fields[n++] = words[i];
  fields[n] = NULL;
  if (n < g_strv_length (log->columns))
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_SYNTAX, "%s:%u: %u columns, but the header has %u",
                   log->file, log->line, n, g_strv_length (log->columns));
      return FALSE;
    }
  double bytes = number_of (log, fields, "size"), time_us = number_of (log, fields, "time");
  double algbw = number_of (log, fields, "algbw"), busbw = number_of (log, fields, "busbw");
  if (isnan (bytes) || bytes < 0 || bytes > 1e15 || isnan (time_us) || !(time_us >= 0) || time_us > 1e12)
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_SYNTAX, "%s:%u: size or time is not a number", log->file,
                   log->line);
      return FALSE;
    }
  const char *redop = field_of (log, fields, "redop"), *root = field_of (log, fields, "root");
  log->redop = redop ? g_intern_string (redop) : NULL;
  log->has_root = root && *root != '-';
  if (algbw > log->bus_bandwidth)
    {
      log->bus_bandwidth = algbw;
      log->bus_ratio = busbw / algbw;
    }
  if (bytes > 0 && time_us > 0)
    {
      double ns = time_us * 1e3;
      PsiCurveSample sample = { .bytes = (gint64) bytes, .time_ns = ns, .p10_ns = ns, .p90_ns = ns };
      g_array_append_val (log->samples->curves, sample);
    }
  return TRUE;
}

gboolean
psi_samples_read_nccl_text (PsiSamples *samples, const char *file, const char *text, const char *operation,
                            GError **error)
{
  g_autoptr (GHashTable) hosts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Log log = { .samples = samples, .file = file, .given = operation, .hosts = hosts, .first_row = samples->curves->len };
  guint before = samples->curves->len;
  gboolean ok = TRUE;

  while (*text && ok)
    {
      gsize length = strcspn (text, "\n");
      g_autofree char *copy = g_strchomp (g_strndup (text, length));
      const char *line = skip_prefix (copy);

      text += length + (text[length] == '\n');
      log.line++;
      if (*line == '#')
        ok = read_comment (&log, line, error);
      else if (log.columns && g_ascii_isdigit (*line))
        ok = read_row (&log, line, error);
      else if (find_program (line) && log.columns == NULL)
        log.operation = find_program (line); /* the command, as typed */
    }
  ok = ok && finish_table (&log, error);
  g_strfreev (log.columns);
  if (!ok)
    return FALSE;
  if (samples->curves->len == before)
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_SYNTAX,
                   "%s: neither samples of psisim nor a table of nccl-tests", file);
      return FALSE;
    }
  return TRUE;
}

/* ---- JSON ---- */

static JsonArray *
member_array (JsonObject *object, const char *key)
{
  JsonNode *node = object ? json_object_get_member (object, key) : NULL;
  return node && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
}

static double
member_number (JsonObject *object, const char *key, double fallback)
{
  JsonNode *node = object ? json_object_get_member (object, key) : NULL;
  return node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) != G_TYPE_STRING
             ? json_node_get_double (node)
             : fallback;
}

static const char *
member_text (JsonObject *object, const char *key)
{
  JsonNode *node = object ? json_object_get_member (object, key) : NULL;
  return node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

static void
read_devices (PsiSamples *samples, JsonObject *config, guint *ret_n_ranks, guint *ret_n_nodes)
{
  g_autoptr (GHashTable) hosts = g_hash_table_new (g_str_hash, g_str_equal);
  JsonArray *devices = member_array (config, "devices");
  guint n = devices ? json_array_get_length (devices) : 0;

  for (guint i = 0; i < n; i++)
    {
      JsonNode *node = json_array_get_element (devices, i);
      JsonObject *device = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
      const char *host = member_text (device, "hostname"), *gpu = member_text (device, "device_info");
      if (host)
        g_hash_table_add (hosts, (gpointer) host);
      if (gpu && !json_object_has_member (samples->provenance, "gpu"))
        json_object_set_string_member (samples->provenance, "gpu", gpu);
    }
  *ret_n_ranks = (guint) CLAMP (n * member_number (config, "ngpus", 1) * member_number (config, "nthreads", 1), 0, 1e7);
  *ret_n_nodes = MAX (1, g_hash_table_size (hosts));
}

gboolean
psi_samples_read_nccl_json (PsiSamples *samples, const char *file, JsonObject *log, const char *operation,
                            GError **error)
{
  JsonArray *results = member_array (log, "results"), *args = member_array (log, "args");
  guint n_ranks, n_nodes, n = results ? json_array_get_length (results) : 0, before = samples->curves->len;
  double bus_ratio = 0, bandwidth = 0;
  const char *redop = NULL, *root = NULL;

  if (results == NULL)
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_SYNTAX,
                   "%s:1: a JSON object without 'record' and without 'results': neither samples of psisim nor a log of "
                   "nccl-tests",
                   file);
      return FALSE;
    }
  read_devices (samples, psi_json_member_object (log, "config"), &n_ranks, &n_nodes);
  if (operation == NULL && args && json_array_get_length (args) > 0)
    {
      JsonNode *program = json_array_get_element (args, 0);
      if (JSON_NODE_HOLDS_VALUE (program) && json_node_get_value_type (program) == G_TYPE_STRING)
        operation = find_program (json_node_get_string (program));
    }
  for (guint i = 0; i < n; i++)
    {
      JsonNode *node = json_array_get_element (results, i);
      JsonObject *row = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
      JsonObject *timed = row ? psi_json_member_object (row, "out_of_place") : NULL;
      if (row && timed == NULL)
        timed = psi_json_member_object (row, "in_place");
      double bytes = member_number (row, "size", (double) NAN), time_us = member_number (timed, "time", (double) NAN);
      if (isnan (bytes) || isnan (time_us) || bytes < 0 || time_us < 0 || bytes > 1e15 || time_us > 1e12)
        {
          g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_SYNTAX,
                       "%s: result %u: size or time is not a number", file, i);
          return FALSE;
        }
      redop = member_text (row, "redop");
      root = member_text (row, "root");
      if (member_number (timed, "alg_bw", 0) > bandwidth)
        {
          bandwidth = member_number (timed, "alg_bw", 0);
          bus_ratio = member_number (timed, "bus_bw", 0) / bandwidth;
        }
      if (bytes > 0 && time_us > 0)
        {
          double ns = time_us * 1e3;
          PsiCurveSample sample = { .bytes = (gint64) bytes, .time_ns = ns, .p10_ns = ns, .p90_ns = ns };
          g_array_append_val (samples->curves, sample);
        }
    }
  if (operation == NULL)
    operation = psi_samples_guess_operation (file, redop, root && !strchr (root, '-'), bus_ratio);
  if (n_ranks < 2 && operation)
    n_ranks = psi_samples_guess_ranks (operation, bus_ratio);
  if (operation == NULL || n_ranks < 2 || samples->curves->len == before)
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_OPERATION, "%s: %s", file,
                   operation == NULL ? "the log does not say which collective it measured; name it with --op"
                   : n_ranks < 2     ? "the log does not say how many ranks took part"
                                     : "no measured sizes");
      return FALSE;
    }
  for (guint i = before; i < samples->curves->len; i++)
    {
      PsiCurveSample *sample = &g_array_index (samples->curves, PsiCurveSample, i);
      sample->curve = g_intern_string (operation);
      sample->n_ranks = n_ranks;
      sample->n_nodes = n_nodes;
    }
  return TRUE;
}
