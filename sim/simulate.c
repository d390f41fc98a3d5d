/* SPDX-License-Identifier: MIT */
#include "simulate.h"

#include "advise.h"
#include "what-helps.h"

PsiReport *
psi_simulate (const PsiScenario *scenario, const PsiSimulateOptions *options, GError **error)
{
  g_autoptr (PsiReport) report = psi_report_new ();

  report->scenario = g_strdup (scenario->file);
  report->title = g_strdup (scenario->title);
  for (guint i = 0; i < scenario->plans->len; i++)
    {
      const PsiPlanRequest *request = g_ptr_array_index (scenario->plans, i);
      PsiPlanReport *plan = psi_simulate_plan (request->name, request->settings, options, report, error);

      if (plan == NULL)
        {
          if (scenario->plans->len > 1)
            g_prefix_error (error, "plan '%s': ", request->name);
          return NULL;
        }
      if (options->advice && plan->verdict != PSI_VERDICT_FITS)
        psi_advise (request->settings, plan);
      if (options->advice)
        psi_warn_if_slower_than_one (request->settings, plan);
      if (options->what_helps)
        psi_what_helps (request->settings, plan);
      g_ptr_array_add (report->plans, plan);
    }
  return g_steal_pointer (&report);
}
