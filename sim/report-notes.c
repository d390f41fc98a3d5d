/* SPDX-License-Identifier: MIT */
#include "report-notes.h"

void
psi_report_note_run (PsiPlanReport *plan, const PsiRun *run)
{
  if (run->drifts)
    g_ptr_array_add (
        plan->assumptions,
        g_strdup_printf (
            "after %u steps the faster GPUs have not used up their slack; the step time is the pace of the slowest",
            run->iterations));
  else if (!run->periodic)
    g_ptr_array_add (plan->warnings,
                     g_strdup_printf ("no exact period after %u steps; the step time is a mean", run->iterations));
  else if (run->cycle > 1)
    g_ptr_array_add (plan->assumptions,
                     g_strdup_printf ("on the links no step goes like the one before; %u steps repeat "
                                      "exactly, and the step time is their mean",
                                      run->cycle));
}
