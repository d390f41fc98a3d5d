/* SPDX-License-Identifier: MIT */
/* The report as CSV (RFC 4180 quoting, lines end in a line feed): one row for each plan, keys of nested objects joined
 * by dots, lists left out. A value that does not apply is an empty cell. */
#include "report-walk.h"

#include <string.h>

typedef struct
{
  PsiReportSink sink;
  GString *out;
  GString *prefix;    /* "memory." */
  guint list_depth;   /* inside a list nothing is written */
  gboolean is_header; /* write keys instead of values */
  gboolean first;
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

/* Returns the string to write the value to, or NULL when there is nothing to write. */
static GString *
start_cell (PsiReportSink *sink, const char *key)
{
  CsvSink *csv = (CsvSink *) sink;

  if (csv->list_depth > 0)
    return NULL;
  if (!csv->first)
    g_string_append_c (csv->out, ',');
  csv->first = FALSE;
  if (!csv->is_header)
    return csv->out;
  g_string_append_len (csv->out, csv->prefix->str, (gssize) csv->prefix->len);
  g_string_append (csv->out, key);
  return NULL;
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
write_row (CsvSink *csv, const PsiReport *report, const PsiPlanReport *plan)
{
  const struct
  {
    const char *key, *text;
  } source[] = {
    { "scenario", report->scenario },
    { "machine", report->machine },
    { "model", report->model },
  };

  csv->first = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (source); i++)
    csv_text (&csv->sink, source[i].key, source[i].text != NULL ? source[i].text : "");
  psi_plan_report_walk (plan, &csv->sink);
  g_string_append_c (csv->out, '\n');
}

char *
psi_report_to_csv (const PsiReport *report)
{
  CsvSink csv = {
    .sink = { csv_begin, csv_end, csv_null, csv_integer, csv_seconds, csv_real, csv_text },
    .out = g_string_sized_new (2048),
    .prefix = g_string_new (NULL),
  };
  g_autoptr (PsiPlanReport) empty = psi_plan_report_new ("");

  csv.is_header = TRUE;
  /* What only some runs have (trials, critical path) all plans of a report have. */
  write_row (&csv, report, report->plans->len > 0 ? report->plans->pdata[0] : empty);
  csv.is_header = FALSE;
  for (guint i = 0; i < report->plans->len; i++)
    write_row (&csv, report, report->plans->pdata[i]);
  g_string_free (csv.prefix, TRUE);
  return g_string_free (csv.out, FALSE);
}
