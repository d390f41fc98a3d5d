/* SPDX-License-Identifier: MIT */
/* The report as CSV (RFC 4180 quoting, lines end in a line feed): one row for each plan, keys of nested objects joined
 * by dots, lists left out. A value that does not apply is an empty cell. The columns are those of all plans: what one
 * of them has (a critical path) is empty for the others. */
#include "report-walk.h"

#include <string.h>

typedef struct
{
  PsiReportSink sink;
  GString *prefix;   /* "memory." */
  guint list_depth;  /* inside a list nothing is kept */
  GPtrArray *keys;   /* of all plans, in order */
  guint next;        /* where in `keys` the next key stands, or is put */
  GHashTable *cells; /* of this plan: key -> GString */
} CsvSink;

static void
append_cell (GString *out, const char *text)
{
  if (strpbrk (text, ",\"\r\n") == NULL)
    {
      g_string_append (out, text);
      return;
    }
  g_string_append_c (out, '"');
  for (const char *c = text; *c != '\0'; c++)
    {
      if (*c == '"')
        g_string_append_c (out, '"');
      g_string_append_c (out, *c);
    }
  g_string_append_c (out, '"');
}

/* The place of a key among those of all plans; a new one is put behind the key before it. */
static const char *
place_key (CsvSink *csv, const char *name)
{
  guint i = csv->next;

  while (i < csv->keys->len && strcmp (csv->keys->pdata[i], name) != 0)
    i++;
  if (i == csv->keys->len)
    g_ptr_array_insert (csv->keys, (gint) (i = csv->next), g_strdup (name));
  csv->next = i + 1;
  return csv->keys->pdata[i];
}

/* Returns the string to write the value to, or NULL when there is nothing to write. */
static GString *
start_cell (PsiReportSink *sink, const char *key)
{
  CsvSink *csv = (CsvSink *) sink;
  g_autofree char *name = g_strconcat (csv->prefix->str, key, NULL);

  if (csv->list_depth > 0)
    return NULL;
  GString *text = g_string_new (NULL);
  g_hash_table_insert (csv->cells, (gpointer) place_key (csv, name), text);
  return text;
}

static void
csv_begin (PsiReportSink *sink, const char *key, char bracket)
{
  CsvSink *csv = (CsvSink *) sink;

  if (bracket == '[' || csv->list_depth > 0)
    csv->list_depth++;
  else
    g_string_append_printf (csv->prefix, "%s.", key);
}

static void
csv_end (PsiReportSink *sink, char bracket)
{
  CsvSink *csv = (CsvSink *) sink;

  if (csv->list_depth > 0)
    {
      csv->list_depth--;
      return;
    }
  g_string_truncate (csv->prefix, csv->prefix->len - 1);
  const char *dot = strrchr (csv->prefix->str, '.');
  g_string_truncate (csv->prefix, dot != NULL ? (gsize) (dot - csv->prefix->str) + 1 : 0);
}

static void
csv_null (PsiReportSink *sink, const char *key)
{
  start_cell (sink, key);
}

static void
csv_integer (PsiReportSink *sink, const char *key, gint64 value)
{
  GString *out = start_cell (sink, key);

  if (out != NULL)
    g_string_append_printf (out, "%" G_GINT64_FORMAT, value);
}

static void
csv_seconds (PsiReportSink *sink, const char *key, gint64 time_ps)
{
  GString *out = start_cell (sink, key);

  if (out != NULL)
    psi_append_seconds (out, time_ps);
}

static void
csv_real (PsiReportSink *sink, const char *key, double value)
{
  GString *out = start_cell (sink, key);

  if (out != NULL)
    psi_append_real (out, value);
}

static void
csv_text (PsiReportSink *sink, const char *key, const char *text)
{
  GString *out = start_cell (sink, key);

  if (out != NULL)
    append_cell (out, text);
}

static void
free_string (gpointer data)
{
  g_string_free (data, TRUE);
}

/* (transfer full) The cells of a plan by key. */
static GHashTable *
collect_cells (CsvSink *csv, const PsiReport *report, const PsiPlanReport *plan)
{
  const struct
  {
    const char *key, *text;
  } source[] = {
    { "scenario", report->scenario },
    { "machine", report->machine },
    { "model", report->model },
  };

  csv->cells = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, free_string);
  csv->next = 0;
  for (guint i = 0; i < G_N_ELEMENTS (source); i++)
    csv_text (&csv->sink, source[i].key, source[i].text != NULL ? source[i].text : "");
  psi_plan_report_walk (plan, &csv->sink);
  return csv->cells;
}

/* Nothing in the place of an object whose parts other plans have is no column. */
static gboolean
has_parts (const GPtrArray *keys, const char *key)
{
  gsize length = strlen (key);

  for (guint i = 0; i < keys->len; i++)
    if (strncmp (keys->pdata[i], key, length) == 0 && ((const char *) keys->pdata[i])[length] == '.')
      return TRUE;
  return FALSE;
}

/* cells NULL: the header */
static void
append_row (GString *out, const GPtrArray *keys, GHashTable *cells)
{
  gboolean first = TRUE;

  for (guint i = 0; i < keys->len; i++)
    {
      if (has_parts (keys, keys->pdata[i]))
        continue;
      const GString *cell = cells != NULL ? g_hash_table_lookup (cells, keys->pdata[i]) : NULL;
      if (!first)
        g_string_append_c (out, ',');
      first = FALSE;
      if (cells == NULL || cell != NULL)
        g_string_append (out, cells == NULL ? keys->pdata[i] : cell->str);
    }
  g_string_append_c (out, '\n');
}

char *
psi_report_to_csv (const PsiReport *report)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify) g_hash_table_unref);
  CsvSink csv = {
    .sink = { csv_begin, csv_end, csv_null, csv_integer, csv_seconds, csv_real, csv_text },
    .prefix = g_string_new (NULL),
    .keys = keys,
  };
  g_autoptr (PsiPlanReport) empty = psi_plan_report_new ("");
  GString *out = g_string_sized_new (2048);

  for (guint i = 0; i < report->plans->len; i++)
    g_ptr_array_add (rows, collect_cells (&csv, report, report->plans->pdata[i]));
  if (rows->len == 0)
    g_hash_table_unref (collect_cells (&csv, report, empty));
  append_row (out, keys, NULL);
  for (guint i = 0; i < rows->len; i++)
    append_row (out, keys, rows->pdata[i]);
  g_string_free (csv.prefix, TRUE);
  return g_string_free (out, FALSE);
}
