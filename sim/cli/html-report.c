/* SPDX-License-Identifier: MIT */
/* Puts the page together: the template names its parts as @NAME@, each of which stands once in it. */
#include "html-report.h"
#include "data-dirs.h"
#include "table-report.h"

#include <string.h>

G_DEFINE_QUARK (psi_html_report_error, psi_html_report_error)

static char *
read_part (const char *file, GError **error)
{
  g_autofree char *path = psi_data_find ("plots", file);
  g_autoptr (GError) cause = NULL;
  char *text = NULL;

  if (path == NULL)
    g_set_error (error, PSI_HTML_REPORT_ERROR, PSI_HTML_REPORT_ERROR_TEMPLATE,
                 "cannot find '%s', a part of the page's template", file);
  else if (!g_file_get_contents (path, &text, NULL, &cause))
    g_set_error (error, PSI_HTML_REPORT_ERROR, PSI_HTML_REPORT_ERROR_TEMPLATE, "cannot read '%s': %s", path,
                 cause->message);
  return text;
}

/* JSON inside a script element: "</script" must not occur, and '<' only occurs in strings. */
static char *
escape_for_script (const char *json)
{
  GString *out = g_string_sized_new (strlen (json) + 64);

  for (; *json != '\0'; json++)
    if (*json == '<')
      g_string_append (out, "\\u003c");
    else
      g_string_append_c (out, *json);
  return g_string_free (out, FALSE);
}

static char *
title_of (const PsiReport *report)
{
  g_autofree char *plain = report->title != NULL ? g_utf8_make_valid (report->title, -1)
                                                 : g_strdup_printf ("%s on %s", report->model, report->machine);

  return g_markup_escape_text (plain, -1);
}

/* The page as text, for browsers without scripts. */
static char *
text_of (const PsiReport *report)
{
  const PsiTerminal terminal = { .utf8 = TRUE };
  g_autofree char *text = report->plans->len == 1 ? psi_table_run (report, report->plans->pdata[0], &terminal, TRUE)
                                                  : psi_table_compare (report, &terminal, TRUE);

  return g_markup_escape_text (text, -1);
}

typedef struct
{
  const char *mark;
  char *text;
} Part;

char *
psi_html_report (const PsiReport *report, GError **error)
{
  g_autofree char *page = read_part ("report.html", error), *style = page ? read_part ("report.css", error) : NULL;
  g_autofree char *charts = style != NULL ? read_part ("report-charts.js", error) : NULL;
  g_autofree char *script = charts != NULL ? read_part ("report-page.js", error) : NULL;

  if (script == NULL)
    return NULL;
  g_autofree char *json = psi_report_to_json (report), *numbers = escape_for_script (json);
  g_autofree char *curves = psi_html_report_curves (report), *title = title_of (report), *text = text_of (report);
  const Part parts[] = { { "@TITLE@", title },   { "@STYLE@", style },   { "@TEXT@", text },    { "@REPORT@", numbers },
                         { "@CURVES@", curves }, { "@CHARTS@", charts }, { "@SCRIPT@", script } };
  GString *out = g_string_new (NULL);
  const char *rest = page;

  /* In the order of the template, so that no text that was put in is searched again. */
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      const char *mark = strstr (rest, parts[i].mark);

      if (mark == NULL)
        {
          g_set_error (error, PSI_HTML_REPORT_ERROR, PSI_HTML_REPORT_ERROR_TEMPLATE,
                       "the page's template 'report.html' has no %s in its place", parts[i].mark);
          g_string_free (out, TRUE);
          return NULL;
        }
      g_string_append_len (out, rest, mark - rest);
      g_string_append (out, parts[i].text);
      rest = mark + strlen (parts[i].mark);
    }
  g_string_append (out, rest);
  return g_string_free (out, FALSE);
}
