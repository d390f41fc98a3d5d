/* SPDX-License-Identifier: MIT */
/* A report as one page for a browser: no network, no other file, a few hundred kilobytes. */
#pragma once

#include "report.h"

/* What the page draws beside the report's own numbers: spans and memory curves of at most 64 classes of each plan,
 * thinned so that a page of any size stays below 2 MB. One JSON object:
 *   { "step_ticks": 1000000, "plans": [ { "drawn": ROWS, "of": CLASSES, "thinned": BOOLEAN, "rows": [ ROW, ... ] } ] }
 *   ROW: { "rank", "stage", "count",
 *          "spans": [kind, micro_batch, stage, ticks since the start before, length in ticks, ...]  (fives)
 *          "memory": [[ticks since the point before, class, change in bytes, class, change, ...], ...] }
 * A tick is a millionth of the plan's step. (transfer full) */
char *psi_html_report_curves (const PsiReport *report);

/* The page. The template (report.html and what it names) is looked for among the plots. (transfer full), NULL on
 * error. */
char *psi_html_report (const PsiReport *report, GError **error);

#define PSI_HTML_REPORT_ERROR (psi_html_report_error_quark ())
typedef enum
{
  PSI_HTML_REPORT_ERROR_TEMPLATE /* a part of the template is not there or cannot be read */
} PsiHtmlReportError;
GQuark psi_html_report_error_quark (void);
