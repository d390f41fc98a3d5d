/* SPDX-License-Identifier: MIT */
/* From the command line to the result of `run` and `compare`. Everything that can fail comes before the first byte on
 * stdout. */
#include "results.h"
#include "html-report.h"
#include "out-file.h"
#include "plot.h"
#include "simulate.h"
#include "table-report.h"
#include "timeline-option.h"

#include <string.h>

static PsiReport *
simulate (const PsiArguments *arguments, gboolean one_plan, GError **error)
{
  PsiTimelineOption timeline = { .arguments = arguments };
  const PsiSimulateOptions options = {
    .curves = arguments->given[PSI_OPTION_PLOT] || arguments->given[PSI_OPTION_REPORT],
    .critical_path = arguments->given[PSI_OPTION_CRITICAL_PATH],
    .what_helps = arguments->given[PSI_OPTION_WHAT_HELPS],
    .advice = TRUE,
    .observe = arguments->given[PSI_OPTION_TIMELINE] ? psi_timeline_option_observe : NULL,
    .observe_data = &timeline,
  };

  if (!psi_timeline_option_check (arguments, error))
    return NULL;
  g_autoptr (PsiScenario) scenario = psi_arguments_scenario (arguments, one_plan, error);
  if (scenario == NULL)
    return NULL;
  timeline.scenario = scenario;
  g_autofree char *what =
      g_strdup_printf ("simulating %u plan%s", scenario->plans->len, scenario->plans->len == 1 ? "" : "s");
  psi_progress_begin (arguments, what);
  PsiReport *report = psi_simulate (scenario, &options, error);
  psi_progress_end ();
  return report;
}

static gboolean
draw (const PsiArguments *arguments, const PsiReport *report, GError **error)
{
  if (!arguments->given[PSI_OPTION_PLOT])
    return TRUE;
  psi_progress_begin (arguments, "drawing");
  guint n_figures = psi_plot_report (report, arguments->values[PSI_OPTION_PLOT], error);
  psi_progress_end ();
  return n_figures > 0;
}

static gboolean
write_page (const PsiArguments *arguments, const PsiReport *report, GError **error)
{
  if (!arguments->given[PSI_OPTION_REPORT])
    return TRUE;
  g_autofree char *page = psi_html_report (report, error);
  return page != NULL && psi_out_file_write (arguments->values[PSI_OPTION_REPORT], page, strlen (page), error);
}

static char *
verdict_lines (const PsiReport *report)
{
  g_autoptr (GString) out = g_string_new (NULL);

  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      g_autofree char *line = psi_verdict_line (plan);
      if (report->plans->len > 1)
        g_string_append_printf (out, "%s: ", plan->name);
      g_string_append_printf (out, "%s\n", line);
    }
  return g_strdup (out->str);
}

static char *
result_text (const PsiArguments *arguments, const PsiReport *report, PsiPage page)
{
  if (arguments->given[PSI_OPTION_JSON])
    return psi_report_to_json (report);
  if (arguments->given[PSI_OPTION_CSV])
    return psi_report_to_csv (report);
  if (arguments->given[PSI_OPTION_QUIET])
    return verdict_lines (report);
  const PsiTerminal terminal = psi_terminal_detect ();
  return page (report, &terminal, arguments->given[PSI_OPTION_VERBOSE]);
}

/* Returns TRUE if some plan is out of memory. */
static gboolean
warn_of_plans (const PsiArguments *arguments, const PsiReport *report)
{
  gboolean has_oom = FALSE;

  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      has_oom |= plan->verdict == PSI_VERDICT_OOM;
      for (guint k = 0; k < plan->warnings->len; k++)
        {
          g_autofree char *text = report->plans->len > 1
                                      ? g_strdup_printf ("%s: %s", plan->name, (const char *) plan->warnings->pdata[k])
                                      : g_strdup (plan->warnings->pdata[k]);
          psi_warn (arguments, text);
        }
    }
  return has_oom;
}

int
psi_results_run (const PsiArguments *arguments, gboolean one_plan, PsiPage page)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiReport) report = simulate (arguments, one_plan, &error);

  if (report == NULL || !draw (arguments, report, &error) || !write_page (arguments, report, &error))
    return psi_fail (error);
  gboolean has_oom = warn_of_plans (arguments, report);
  g_autofree char *text = result_text (arguments, report, page);
  int status = psi_output_write (text);
  if (status == 0 && has_oom && arguments->given[PSI_OPTION_CHECK])
    return 3;
  return status;
}
