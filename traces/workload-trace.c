/* SPDX-License-Identifier: MIT */
/* Reader of workload traces. Strict: whatever is not in the format's description is an error with its line. */
#include "workload-trace.h"

#include "in-file.h"

#include <stddef.h>
#include <string.h>

#define TRACE_VERSION "1"
#define MAXIMUM_LAYERS 1000000

G_DEFINE_QUARK (psi_trace_error, psi_trace_error)

typedef enum
{
  COLUMN_NAME,
  COLUMN_COUNT,
  COLUMN_REAL,
  COLUMN_INPUTS
} ColumnKind;

typedef struct
{
  const char *name;
  ColumnKind kind;
  gsize offset;
  gboolean optional;
} Column;

static const Column columns[] = {
  { "name", COLUMN_NAME, offsetof (PsiTraceLayer, name), FALSE },
  { "parameters", COLUMN_COUNT, offsetof (PsiTraceLayer, parameters), FALSE },
  { "forward_flops", COLUMN_REAL, offsetof (PsiTraceLayer, forward_flops), FALSE },
  { "backward_flops", COLUMN_REAL, offsetof (PsiTraceLayer, backward_flops), FALSE },
  { "forward_bytes", COLUMN_REAL, offsetof (PsiTraceLayer, forward_bytes), FALSE },
  { "backward_bytes", COLUMN_REAL, offsetof (PsiTraceLayer, backward_bytes), FALSE },
  { "saved_bytes", COLUMN_COUNT, offsetof (PsiTraceLayer, saved_bytes), FALSE },
  { "output_bytes", COLUMN_COUNT, offsetof (PsiTraceLayer, output_bytes), FALSE },
  { "inputs", COLUMN_INPUTS, 0, FALSE },
  { "saved_index_bytes", COLUMN_COUNT, offsetof (PsiTraceLayer, saved_index_bytes), TRUE },
  { "product_outputs", COLUMN_COUNT, offsetof (PsiTraceLayer, product_outputs), TRUE },
  { "product_inputs", COLUMN_COUNT, offsetof (PsiTraceLayer, product_inputs), TRUE },
  { "product_window", COLUMN_COUNT, offsetof (PsiTraceLayer, product_window), TRUE },
  { "product_groups", COLUMN_COUNT, offsetof (PsiTraceLayer, product_groups), TRUE },
};

/* Where the reader stands. */
typedef struct
{
  const char *file;
  guint line; /* from 1 */
  PsiWorkloadTrace *trace;
  gboolean has_parameters, has_element_bytes, has_groups;
  const Column *order[G_N_ELEMENTS (columns)]; /* as in the header line; n_order = 0 before it */
  guint n_order;
  gint64 row_parameters;
} Reader;

static void
layer_clear (gpointer data)
{
  PsiTraceLayer *layer = data;

  g_clear_pointer (&layer->name, g_free);
}

static gboolean G_GNUC_PRINTF (3, 4) fail (const Reader *reader, GError **error, const char *format, ...)
{
  va_list arguments;
  g_autofree char *message = NULL;

  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, PSI_TRACE_ERROR, PSI_TRACE_ERROR_SYNTAX, "%s:%u: %s", reader->file, reader->line, message);
  return FALSE;
}

static gboolean
parse_count (const Reader *reader, const char *field, const char *text, gint64 *ret_value, GError **error)
{
  if (!g_ascii_string_to_signed (text, 10, 0, G_GINT64_CONSTANT (1) << 60, ret_value, NULL))
    return fail (reader, error, "%s: '%s' is not a whole number from 0 to 2^60", field, text);
  return TRUE;
}

static gboolean
parse_real (const Reader *reader, const char *field, const char *text, double *ret_value, GError **error)
{
  char *end = NULL;
  double value = g_ascii_strtod (text, &end);

  /* No leading blanks, hexadecimals, "inf" or "nan": digits first. */
  if (!g_ascii_isdigit (text[0]) || *end != '\0' || strpbrk (text, "xX") != NULL || !(value >= 0.0 && value <= 1e24))
    return fail (reader, error, "%s: '%s' is not a number from 0 to 1e24", field, text);
  *ret_value = value;
  return TRUE;
}

static gboolean
parse_inputs (const Reader *reader, const char *text, PsiTraceLayer *layer, GError **error)
{
  g_auto (GStrv) words = NULL;
  guint row = reader->trace->layers->len;

  if (g_str_equal (text, "-"))
    return TRUE;
  words = g_strsplit (text, ",", -1);
  for (guint i = 0; words[i] != NULL; i++)
    {
      gint64 value;

      if (i == G_N_ELEMENTS (layer->inputs))
        return fail (reader, error, "inputs: '%s' names more than %u layers", text, i);
      if (!g_ascii_string_to_signed (words[i], 10, 0, G_MAXUINT32, &value, NULL))
        return fail (reader, error, "inputs: '%s' is neither '-' nor row numbers like 3,7", text);
      if (value >= row)
        return fail (reader, error, "inputs: '%s' names row %" G_GINT64_FORMAT ", allowed are rows before this one, %u",
                     text, value, row);
      if (i > 0 && value <= layer->inputs[i - 1])
        return fail (reader, error, "inputs: '%s' is not in ascending order", text);
      layer->inputs[layer->n_inputs++] = (guint) value;
    }
  if (layer->n_inputs == 0)
    return fail (reader, error, "inputs: '' is neither '-' nor row numbers like 3,7");
  return TRUE;
}

/* A product has all three sizes, groups that divide its channels, and at least one row of its outputs is made of all
 * its weights. */
static gboolean
check_product (const Reader *reader, const PsiTraceLayer *layer, GError **error)
{
  gint64 groups = layer->product_groups;
  double weights = (double) layer->product_outputs * (double) layer->product_inputs * (double) layer->product_window /
                   (double) MAX (groups, 1);
  g_autofree char *sizes = g_strdup_printf ("%" G_GINT64_FORMAT " x %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT,
                                            layer->product_outputs, layer->product_inputs, layer->product_window);

  if (layer->product_outputs + layer->product_inputs + layer->product_window + groups == 0)
    return TRUE;
  if (weights <= 0)
    return fail (reader, error,
                 "product_outputs, product_inputs, product_window: '%s' is no product (allowed: all above "
                 "0, or all 0)",
                 sizes);
  if (groups > 0 && (layer->product_outputs % groups != 0 || layer->product_inputs % groups != 0))
    return fail (reader, error,
                 "product_groups: '%" G_GINT64_FORMAT "' does not divide the channels, %" G_GINT64_FORMAT
                 " and %" G_GINT64_FORMAT,
                 groups, layer->product_outputs, layer->product_inputs);
  if (2 * weights > layer->forward_flops)
    return fail (reader, error,
                 "product_outputs, product_inputs, product_window: '%s' takes more than the %g "
                 "forward_flops",
                 sizes, layer->forward_flops);
  return TRUE;
}

static gboolean
read_row (Reader *reader, char **fields, GError **error)
{
  PsiTraceLayer layer = { 0 };
  guint n = g_strv_length (fields);
  gboolean ok = TRUE;

  if (n != reader->n_order)
    return fail (reader, error, "%u columns where the header has %u", n, reader->n_order);
  if (reader->trace->layers->len == MAXIMUM_LAYERS)
    return fail (reader, error, "more than %d layers", MAXIMUM_LAYERS);
  for (guint i = 0; ok && i < n; i++)
    {
      const Column *column = reader->order[i];
      char *target = (char *) &layer + column->offset;

      switch (column->kind)
        {
        case COLUMN_NAME:
          if (fields[i][0] == '\0')
            ok = fail (reader, error, "name: '' is empty");
          else
            layer.name = g_strdup (fields[i]);
          break;
        case COLUMN_COUNT:
          ok = parse_count (reader, column->name, fields[i], (gint64 *) (gpointer) target, error);
          break;
        case COLUMN_REAL:
          ok = parse_real (reader, column->name, fields[i], (double *) (gpointer) target, error);
          break;
        case COLUMN_INPUTS:
          ok = parse_inputs (reader, fields[i], &layer, error);
          break;
        }
    }
  if (!ok || !check_product (reader, &layer, error))
    {
      layer_clear (&layer);
      return FALSE;
    }
  if (!reader->has_groups && layer.product_window > 1)
    layer.product_groups = 1;
  reader->row_parameters += layer.parameters;
  g_array_append_val (reader->trace->layers, layer);
  return TRUE;
}

static gboolean
read_columns (Reader *reader, char **fields, GError **error)
{
  gboolean seen[G_N_ELEMENTS (columns)] = { FALSE };

  for (guint i = 0; fields[i] != NULL; i++)
    {
      guint c = 0;

      while (c < G_N_ELEMENTS (columns) && !g_str_equal (fields[i], columns[c].name))
        c++;
      if (c == G_N_ELEMENTS (columns))
        return fail (reader, error,
                     "unknown column '%s' (allowed: name parameters forward_flops backward_flops forward_bytes "
                     "backward_bytes saved_bytes output_bytes inputs saved_index_bytes product_outputs product_inputs "
                     "product_window product_groups)",
                     fields[i]);
      if (seen[c])
        return fail (reader, error, "column '%s' is there twice", fields[i]);
      seen[c] = TRUE;
      reader->has_groups |= columns[c].offset == offsetof (PsiTraceLayer, product_groups);
      reader->order[reader->n_order++] = &columns[c];
    }
  for (guint c = 0; c < G_N_ELEMENTS (columns); c++)
    if (!seen[c] && !columns[c].optional)
      return fail (reader, error, "column '%s' is missing", columns[c].name);
  return TRUE;
}

/* A line before the rows: "name VALUE" and the like, or the line of column names. */
static gboolean
read_head (Reader *reader, const char *line, GError **error)
{
  gsize length = strcspn (line, " \t");
  g_autofree char *word = g_strndup (line, length);
  const char *value = line[length] == '\0' ? "" : line + length + 1;
  gint64 number;

  if (strchr (value, '\t') != NULL)
    {
      g_auto (GStrv) fields = g_strsplit (line, "\t", -1);

      return read_columns (reader, fields, error);
    }
  if (g_str_equal (word, "name"))
    {
      if (reader->trace->name != NULL)
        return fail (reader, error, "'name' is there twice");
      if (*value == '\0')
        return fail (reader, error, "name: '' is empty");
      reader->trace->name = g_strdup (value);
      return TRUE;
    }
  if (g_str_equal (word, "parameters"))
    {
      if (reader->has_parameters)
        return fail (reader, error, "'parameters' is there twice");
      reader->has_parameters = TRUE;
      return parse_count (reader, "parameters", value, &reader->trace->parameters, error);
    }
  if (g_str_equal (word, "element_bytes"))
    {
      if (reader->has_element_bytes)
        return fail (reader, error, "'element_bytes' is there twice");
      reader->has_element_bytes = TRUE;
      if (!parse_count (reader, "element_bytes", value, &number, error))
        return FALSE;
      if (number != 2 && number != 4)
        return fail (reader, error, "element_bytes: '%s' is not 2 or 4", value);
      reader->trace->element_bytes = (guint) number;
      return TRUE;
    }
  return fail (reader, error, "unknown word '%s' (allowed: name, parameters, element_bytes, the column names)", word);
}

static gboolean
read_line (Reader *reader, char *line, GError **error)
{
  g_auto (GStrv) fields = NULL;

  if (reader->line == 1)
    {
      if (!g_str_has_prefix (line, "psisim-trace "))
        return fail (reader, error, "not a workload trace: the first line is not 'psisim-trace %s'", TRACE_VERSION);
      if (!g_str_equal (line + strlen ("psisim-trace "), TRACE_VERSION))
        return fail (reader, error, "version '%s' of the format is unknown (allowed: %s)",
                     line + strlen ("psisim-trace "), TRACE_VERSION);
      return TRUE;
    }
  if (line[0] == '#' || line[0] == '\0')
    return TRUE;
  if (reader->n_order == 0)
    return read_head (reader, line, error);
  fields = g_strsplit (line, "\t", -1);
  return read_row (reader, fields, error);
}

PsiWorkloadTrace *
psi_workload_trace_load (const char *file, GError **error)
{
  g_autoptr (PsiWorkloadTrace) trace = g_new0 (PsiWorkloadTrace, 1);
  g_autoptr (GError) local = NULL;
  g_autofree char *text = NULL;
  gsize length = 0;
  Reader reader = { .file = file, .trace = trace };
  char *line;

  trace->element_bytes = 4;
  trace->layers = g_array_new (FALSE, TRUE, sizeof (PsiTraceLayer));
  g_array_set_clear_func (trace->layers, layer_clear);
  if (!psi_in_file_read (file, PSI_IN_FILE_MOST_TEXT_BYTES, &text, &length, &local))
    {
      g_set_error (error, PSI_TRACE_ERROR, PSI_TRACE_ERROR_READ, "%s: %s", file, local->message);
      return NULL;
    }
  if (!g_utf8_validate_len (text, length, NULL))
    {
      g_set_error (error, PSI_TRACE_ERROR, PSI_TRACE_ERROR_SYNTAX, "%s: not a text file in UTF-8", file);
      return NULL;
    }
  for (line = text; line != NULL;)
    {
      char *end = strchr (line, '\n');

      if (end != NULL)
        *end = '\0';
      if (g_str_has_suffix (line, "\r"))
        line[strlen (line) - 1] = '\0';
      reader.line++;
      if (!read_line (&reader, line, error))
        return NULL;
      line = end == NULL ? NULL : end + 1;
    }

  if (trace->name == NULL || !reader.has_parameters || reader.n_order == 0 || trace->layers->len == 0)
    {
      fail (&reader, error, "the file ends without %s",
            trace->name == NULL      ? "'name'"
            : !reader.has_parameters ? "'parameters'"
            : reader.n_order == 0    ? "the line of column names"
                                     : "a single row");
      return NULL;
    }
  if (reader.row_parameters != trace->parameters)
    {
      fail (&reader, error, "parameters: %" G_GINT64_FORMAT " in the head, but the rows add up to %" G_GINT64_FORMAT,
            trace->parameters, reader.row_parameters);
      return NULL;
    }
  return g_steal_pointer (&trace);
}

void
psi_workload_trace_free (PsiWorkloadTrace *trace)
{
  if (trace == NULL)
    return;
  g_free (trace->name);
  g_array_unref (trace->layers);
  g_free (trace);
}
