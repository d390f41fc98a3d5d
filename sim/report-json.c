/* SPDX-License-Identifier: MIT */
/* The report as JSON. A small streaming writer: no tree is built, and times keep every picosecond as decimals. */
#include "report-walk.h"

#include "psi-config.h"

typedef struct
{
  PsiReportSink sink;
  GString *out;
  guint depth;
  gboolean first; /* no comma yet at this depth */
} JsonSink;

/* A string in quotes. Bytes that are no UTF-8 (a file name, say) become U+FFFD, so the result is always valid. */
static void
append_quoted (GString *out, const char *text)
{
  g_autofree char *valid = NULL;

  if (!g_utf8_validate (text, -1, NULL))
    text = valid = g_utf8_make_valid (text, -1);
  g_string_append_c (out, '"');
  for (const char *c = text; *c != '\0'; c++)
    if (*c == '"' || *c == '\\')
      {
        g_string_append_c (out, '\\');
        g_string_append_c (out, *c);
      }
    else if (*c == '\n')
      g_string_append (out, "\\n");
    else if ((guchar) *c < 0x20 || *c == 0x7f)
      g_string_append_printf (out, "\\u%04x", (guint) (guchar) *c);
    else
      g_string_append_c (out, *c);
  g_string_append_c (out, '"');
}

static void
new_line (JsonSink *json)
{
  static const char blanks[] = "                                ";

  g_string_append_c (json->out, '\n');
  g_string_append_len (json->out, blanks, MIN (2 * json->depth, sizeof blanks - 1));
}

static GString *
start_value (PsiReportSink *sink, const char *key)
{
  JsonSink *json = (JsonSink *) sink;

  if (!json->first)
    g_string_append_c (json->out, ',');
  json->first = FALSE;
  if (json->depth > 0)
    new_line (json);
  if (key != NULL)
    {
      append_quoted (json->out, key);
      g_string_append (json->out, ": ");
    }
  return json->out;
}

static void
json_begin (PsiReportSink *sink, const char *key, char bracket)
{
  JsonSink *json = (JsonSink *) sink;

  g_string_append_c (start_value (sink, key), bracket);
  json->depth++;
  json->first = TRUE;
}

static void
json_end (PsiReportSink *sink, char bracket)
{
  JsonSink *json = (JsonSink *) sink;

  json->depth--;
  if (!json->first)
    new_line (json);
  g_string_append_c (json->out, bracket);
  json->first = FALSE;
}

static void
json_null (PsiReportSink *sink, const char *key)
{
  g_string_append (start_value (sink, key), "null");
}

static void
json_integer (PsiReportSink *sink, const char *key, gint64 value)
{
  char text[32];

  g_snprintf (text, sizeof text, "%" G_GINT64_FORMAT, value);
  g_string_append (start_value (sink, key), text);
}

static void
json_seconds (PsiReportSink *sink, const char *key, gint64 time_ps)
{
  psi_append_seconds (start_value (sink, key), time_ps);
}

static void
json_real (PsiReportSink *sink, const char *key, double value)
{
  psi_append_real (start_value (sink, key), value);
}

static void
json_text (PsiReportSink *sink, const char *key, const char *text)
{
  append_quoted (start_value (sink, key), text);
}

static void
text_or_null (PsiReportSink *sink, const char *key, const char *text)
{
  if (text != NULL)
    json_text (sink, key, text);
  else
    json_null (sink, key);
}

char *
psi_report_to_json (const PsiReport *report)
{
  JsonSink json = {
    .sink = { json_begin, json_end, json_null, json_integer, json_seconds, json_real, json_text },
    .out = g_string_sized_new (8192),
    .first = TRUE,
  };
  PsiReportSink *sink = &json.sink;

  json_begin (sink, NULL, '{');
  json_text (sink, "psisim", PSI_VERSION);
  text_or_null (sink, "scenario", report->scenario);
  text_or_null (sink, "title", report->title);
  text_or_null (sink, "machine", report->machine);
  json_begin (sink, "machine_detail", '{');
  text_or_null (sink, "description", report->machine_description);
  text_or_null (sink, "kind", report->machine_kind);
  json_end (sink, '}');
  text_or_null (sink, "model", report->model);
  json_begin (sink, "model_detail", '{');
  text_or_null (sink, "description", report->model_description);
  json_integer (sink, "parameters", report->model_parameters);
  json_end (sink, '}');
  json_begin (sink, "plans", '[');
  for (guint i = 0; i < report->plans->len; i++)
    {
      json_begin (sink, NULL, '{');
      psi_plan_report_walk (report->plans->pdata[i], sink);
      json_end (sink, '}');
    }
  json_end (sink, ']');
  json_end (sink, '}');
  g_string_append_c (json.out, '\n');
  return g_string_free (json.out, FALSE);
}
