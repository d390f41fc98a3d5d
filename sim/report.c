/* SPDX-License-Identifier: MIT */
/* Life of a report, and its names. */
#include "report.h"

#include <math.h>

const char *const psi_verdict_names[] = {
  [PSI_VERDICT_FITS] = "fits",
  [PSI_VERDICT_TIGHT] = "tight",
  [PSI_VERDICT_OOM] = "oom",
  NULL,
};

static void
rank_report_clear (gpointer data)
{
  PsiRankReport *rank = data;

  g_clear_pointer (&rank->memory, g_array_unref);
  g_clear_pointer (&rank->spans, g_array_unref);
}

static void
advice_clear (gpointer data)
{
  PsiAdvice *advice = data;

  g_clear_pointer (&advice->set, g_free);
}

static void
link_help_clear (gpointer data)
{
  g_free (((PsiLinkHelp *) data)->name);
}

static void
degree_help_clear (gpointer data)
{
  g_free (((PsiDegreeHelp *) data)->set);
}

PsiWhatHelps *
psi_what_helps_new (void)
{
  PsiWhatHelps *helps = g_new0 (PsiWhatHelps, 1);

  helps->links = g_array_new (FALSE, FALSE, sizeof (PsiLinkHelp));
  g_array_set_clear_func (helps->links, link_help_clear);
  helps->degrees = g_array_new (FALSE, FALSE, sizeof (PsiDegreeHelp));
  g_array_set_clear_func (helps->degrees, degree_help_clear);
  helps->one_gpu_samples_per_s = (double) NAN;
  return helps;
}

static void
what_helps_free (PsiWhatHelps *helps)
{
  if (helps == NULL)
    return;
  g_array_unref (helps->links);
  g_array_unref (helps->degrees);
  g_free (helps);
}

void
psi_critical_path_free (PsiCriticalPath *path)
{
  if (path == NULL)
    return;
  g_array_unref (path->ranks);
  g_array_unref (path->segments);
  g_free (path);
}

const char *
psi_critical_kind_name (guint kind)
{
  static const char *const names[] = { [PSI_CRITICAL_COMPUTE] = "compute",
                                       [PSI_CRITICAL_RECOMPUTE] = "recompute",
                                       [PSI_CRITICAL_OPTIMIZER] = "optimizer",
                                       [PSI_CRITICAL_WAITING] = "waiting" };

  if (kind >= PSI_CRITICAL_TRAFFIC && kind < PSI_CRITICAL_WAITING)
    return psi_traffic_names[kind - PSI_CRITICAL_TRAFFIC];
  return names[kind];
}

PsiPlanReport *
psi_plan_report_new (const char *name)
{
  PsiPlanReport *plan = g_new0 (PsiPlanReport, 1);

  plan->name = g_strdup (name);
  plan->step_time_low_s = plan->step_time_high_s = (double) NAN;
  plan->samples_per_s = plan->tokens_per_s = plan->model_tflops_per_gpu = (double) NAN;
  plan->mfu = plan->hfu = (double) NAN;
  plan->capacity_bytes = -1;
  plan->ranks = g_array_new (FALSE, TRUE, sizeof (PsiRankReport));
  g_array_set_clear_func (plan->ranks, rank_report_clear);
  plan->assumptions = g_ptr_array_new_with_free_func (g_free);
  plan->advice = g_array_new (FALSE, TRUE, sizeof (PsiAdvice));
  g_array_set_clear_func (plan->advice, advice_clear);
  plan->warnings = g_ptr_array_new_with_free_func (g_free);
  return plan;
}

void
psi_plan_report_free (PsiPlanReport *plan)
{
  if (plan == NULL)
    return;
  g_free (plan->name);
  g_free (plan->layout);
  g_free (plan->update_rule);
  g_array_unref (plan->ranks);
  g_clear_pointer (&plan->traffic, g_array_unref);
  g_ptr_array_unref (plan->assumptions);
  g_array_unref (plan->advice);
  g_ptr_array_unref (plan->warnings);
  psi_critical_path_free (plan->critical_path);
  what_helps_free (plan->what_helps);
  g_free (plan);
}

static void
plan_report_free_item (gpointer data)
{
  psi_plan_report_free (data);
}

PsiReport *
psi_report_new (void)
{
  PsiReport *report = g_new0 (PsiReport, 1);

  report->plans = g_ptr_array_new_with_free_func (plan_report_free_item);
  return report;
}

void
psi_report_free (PsiReport *report)
{
  if (report == NULL)
    return;
  g_free (report->scenario);
  g_free (report->title);
  g_free (report->machine);
  g_free (report->machine_description);
  g_free (report->machine_kind);
  g_free (report->model);
  g_free (report->model_description);
  g_ptr_array_unref (report->plans);
  g_free (report);
}

PsiRankReport *
psi_plan_report_add_rank (PsiPlanReport *plan)
{
  g_array_set_size (plan->ranks, plan->ranks->len + 1);
  PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, plan->ranks->len - 1);

  rank->stage = -1;
  rank->count = 1;
  return rank;
}
