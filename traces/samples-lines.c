/* SPDX-License-Identifier: MIT */
/* Samples of bench-cuda and bench-host: one JSON object on each line, told apart by `record`. Records and keys that are
 * not known are skipped, so that older programs read newer files. */
#include "samples.h"

#include "in-file.h"

#include <math.h>
#include <string.h>

enum
{
  THROTTLE_BAD = 0x8 | 0x20 | 0x40 /* hardware slow-down, temperature: the numbers are not the GPU's own */
};

/* Where a message is about. */
typedef struct
{
  const char *file;
  guint line;
  JsonObject *object;
  GError **error;
} Line;

G_GNUC_PRINTF (2, 3)
static gboolean
fail (const Line *line, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (line->error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_SYNTAX, "%s:%u: %s", line->file, line->line, message);
  return FALSE;
}

static gboolean
is_number (JsonNode *node)
{
  return node && JSON_NODE_HOLDS_VALUE (node) &&
         (json_node_get_value_type (node) == G_TYPE_INT64 || json_node_get_value_type (node) == G_TYPE_DOUBLE);
}

/* A number in [minimum, maximum]; absent or null: the fallback, unless that is NAN. */
static gboolean
get_number (const Line *line, const char *key, double minimum, double maximum, double fallback, double *ret_value)
{
  JsonNode *node = json_object_get_member (line->object, key);

  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    {
      if (isnan (fallback))
        return fail (line, "'%s' is missing", key);
      *ret_value = fallback;
      return TRUE;
    }
  if (!is_number (node))
    return fail (line, "'%s' is not a number", key);
  double value = json_node_get_double (node);
  if (!(value >= minimum && value <= maximum))
    return fail (line, "'%s' is %g, allowed are %g to %g", key, value, minimum, maximum);
  *ret_value = value;
  return TRUE;
}

static gboolean
get_text (const Line *line, const char *key, const char **ret_text)
{
  JsonNode *node = json_object_get_member (line->object, key);
  if (node == NULL || !JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING)
    return fail (line, "'%s' is missing or not a text", key);
  *ret_text = g_intern_string (json_node_get_string (node));
  return TRUE;
}

/* Median and percentiles. A CPU record whose core was shared counts by its CPU time if `cpu_time`. */
static gboolean
get_times (PsiSamples *samples, const Line *line, gboolean cpu_time, double *ret_time_ns, double *ret_p10_ns,
           double *ret_p90_ns)
{
  double time_ns = 0, p10_ns = 0, p90_ns = 0, cpu_ns = 0;

  if (!get_number (line, "time_ns", 1e-3, 1e15, (double) NAN, &time_ns) ||
      !get_number (line, "p10_ns", 0, 1e15, time_ns, &p10_ns) ||
      !get_number (line, "p90_ns", 0, 1e15, time_ns, &p90_ns) || !get_number (line, "cpu_ns", 0, 1e15, 0, &cpu_ns))
    return FALSE;
  if (cpu_time && cpu_ns > 0 && time_ns > 1.05 * cpu_ns)
    {
      samples->n_contended++;
      time_ns = cpu_ns;
      p10_ns = MIN (p10_ns, cpu_ns);
      p90_ns = cpu_ns;
    }
  *ret_time_ns = time_ns;
  *ret_p10_ns = p10_ns;
  *ret_p90_ns = p90_ns;
  return TRUE;
}

static gboolean
read_gemm (PsiSamples *samples, const Line *line)
{
  PsiGemmSample sample;
  double batch = 1, m = 0, n = 0, k = 0, sweep = 0;

  if (!get_text (line, "dtype", &sample.dtype) || !get_text (line, "pass", &sample.pass) ||
      !get_number (line, "batch", 1, 1e9, 1, &batch) || !get_number (line, "m", 1, 1e9, (double) NAN, &m) ||
      !get_number (line, "n", 1, 1e9, (double) NAN, &n) || !get_number (line, "k", 1, 1e9, (double) NAN, &k) ||
      !get_number (line, "sweep", 0, 1000, 0, &sweep) ||
      !get_times (samples, line, TRUE, &sample.time_ns, &sample.p10_ns, &sample.p90_ns))
    return FALSE;
  sample.batch = (gint64) batch;
  sample.m = (gint64) m;
  sample.n = (gint64) n;
  sample.k = (gint64) k;
  sample.sweep = (guint) sweep;
  g_array_append_val (samples->gemms, sample);
  return TRUE;
}

static gboolean
read_copy (PsiSamples *samples, const Line *line)
{
  PsiCurveSample sample = { .n_ranks = 1, .n_nodes = 1 };
  const char *what = NULL;
  double bytes = 0, moved = 0, sweep = 0;

  if (!get_text (line, "what", &what) || !get_number (line, "bytes", 1, 1e15, (double) NAN, &bytes) ||
      !get_number (line, "moved_bytes", 1, 1e16, bytes, &moved) || !get_number (line, "sweep", 0, 1000, 0, &sweep) ||
      !get_times (samples, line, TRUE, &sample.time_ns, &sample.p10_ns, &sample.p90_ns))
    return FALSE;
  const char *memory = NULL;
  if (json_object_has_member (line->object, "memory") && !get_text (line, "memory", &memory))
    return FALSE;
  g_autofree char *name = memory ? g_strdup_printf ("%s_%s", what, memory) : g_strdup (what);
  sample.curve = g_intern_string (name);
  sample.bytes = (gint64) moved;
  sample.sweep = (guint) sweep;
  g_array_append_val (samples->curves, sample);
  return TRUE;
}

static gboolean
read_collective (PsiSamples *samples, const Line *line)
{
  PsiCurveSample sample;
  const char *operation = NULL;
  double bytes = 0, ranks = 0, nodes = 1, sweep = 0;

  if (!get_text (line, "op", &operation) || !get_number (line, "bytes", 1, 1e15, (double) NAN, &bytes) ||
      !get_number (line, "ranks", 2, 1e7, (double) NAN, &ranks) || !get_number (line, "nodes", 1, 1e6, 1, &nodes) ||
      !get_number (line, "sweep", 0, 1000, 0, &sweep) ||
      !get_times (samples, line, FALSE, &sample.time_ns, &sample.p10_ns, &sample.p90_ns))
    return FALSE;
  sample.curve = psi_samples_operation (operation);
  if (sample.curve == NULL)
    return fail (line, "'op': unknown collective '%s'", operation);
  sample.bytes = (gint64) bytes;
  sample.n_ranks = (guint) ranks;
  sample.n_nodes = (guint) nodes;
  sample.sweep = (guint) sweep;
  g_array_append_val (samples->curves, sample);
  if (!get_number (line, "cpu_ns", 0, 1e15, 0, &sample.time_ns))
    return FALSE;
  if (sample.time_ns > 0) /* processes that wait for each other take more wall time than CPU time: a curve of its own */
    {
      g_autofree char *name = g_strconcat (sample.curve, "_cpu", NULL);
      sample.curve = g_intern_string (name);
      sample.p10_ns = sample.p90_ns = sample.time_ns;
      g_array_append_val (samples->curves, sample);
    }
  return TRUE;
}

static void
add_value (PsiSamples *samples, const char *prefix, const char *name, const char *suffix, guint n_ranks, double value)
{
  g_autofree char *full = g_strconcat (prefix, "_", name, suffix, NULL);
  PsiValueSample sample = { .name = g_intern_string (full), .n_ranks = n_ranks, .value = value };
  g_array_append_val (samples->values, sample);
}

static gboolean
read_launch (PsiSamples *samples, const Line *line)
{
  const char *what = NULL;
  double time_ns;
  if (!get_text (line, "what", &what) || !get_number (line, "time_ns", 1e-3, 1e12, (double) NAN, &time_ns))
    return FALSE;
  add_value (samples, "launch", what, "_ns", 0, time_ns);
  return TRUE;
}

static gboolean
read_memory (PsiSamples *samples, const Line *line)
{
  const char *what = NULL;
  double bytes, ranks;
  if (!get_text (line, "what", &what) || !get_number (line, "bytes", -1e15, 1e15, (double) NAN, &bytes) ||
      !get_number (line, "ranks", 0, 1e7, 0, &ranks))
    return FALSE;
  add_value (samples, "memory", what, "_bytes", (guint) ranks, bytes);
  return TRUE;
}

static gboolean
read_contention (PsiSamples *samples, const Line *line)
{
  double gemm = 0, comm = 0, ranks = 0;
  if (!get_number (line, "gemm_slowdown", 0, 1e6, (double) NAN, &gemm) ||
      !get_number (line, "comm_slowdown", 0, 1e6, (double) NAN, &comm) ||
      !get_number (line, "ranks", 0, 1e7, 1, &ranks))
    return FALSE;
  add_value (samples, "contention", "gemm_slowdown", "", (guint) ranks, gemm);
  add_value (samples, "contention", "comm_slowdown", "", (guint) ranks, comm);
  return TRUE;
}

static gboolean
read_provenance (PsiSamples *samples, const Line *line)
{
  JsonObjectIter iter;
  const char *key;
  JsonNode *node;
  double version;

  if (!get_number (line, "psisim_samples", 1, 1, 1, &version))
    return FALSE;
  json_object_iter_init_ordered (&iter, line->object);
  while (json_object_iter_next_ordered (&iter, &key, &node))
    if (!g_str_equal (key, "record") && !g_str_equal (key, "psisim_samples") &&
        !json_object_has_member (samples->provenance, key) &&
        (JSON_NODE_HOLDS_VALUE (node) || JSON_NODE_HOLDS_NULL (node)))
      json_object_set_member (samples->provenance, key, json_node_copy (node));
  return TRUE;
}

static const struct
{
  const char *record;
  gboolean (*read) (PsiSamples *samples, const Line *line);
} readers[] = {
  { "start", read_provenance }, { "device", read_provenance },     { "gemm", read_gemm },
  { "copy", read_copy },        { "collective", read_collective }, { "launch", read_launch },
  { "memory", read_memory },    { "contention", read_contention },
};

static gboolean
read_line (PsiSamples *samples, const Line *line)
{
  const char *record = NULL;
  double throttle;

  if (!get_text (line, "record", &record) || !get_number (line, "throttle", 0, 1e18, 0, &throttle))
    return FALSE;
  if ((gint64) throttle & THROTTLE_BAD)
    samples->n_throttled++;
  for (guint i = 0; i < G_N_ELEMENTS (readers); i++)
    if (g_str_equal (record, readers[i].record))
      return readers[i].read (samples, line);
  return TRUE;
}

gboolean
psi_samples_read_lines (PsiSamples *samples, const char *file, const char *text, GError **error)
{
  Line line = { .file = file, .error = error };
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();

  while (*text)
    {
      gsize length = strcspn (text, "\n");
      gboolean complete = text[length] == '\n';
      g_autofree char *copy = g_strstrip (g_strndup (text, length));

      text += length + complete;
      line.line++;
      if (*copy == 0)
        continue;
      if (!psi_in_file_parse_json (parser, copy, -1, NULL) || !JSON_NODE_HOLDS_OBJECT (json_parser_get_root (parser)))
        {
          if (!complete)
            break; /* the program was ended while it wrote this line */
          return fail (&line, "not a JSON object");
        }
      line.object = json_node_get_object (json_parser_get_root (parser));
      if (!read_line (samples, &line))
        return FALSE;
    }
  return TRUE;
}
