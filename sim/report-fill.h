/* SPDX-License-Identifier: MIT */
/* From a run to the report's numbers. */
#pragma once

#include "psi-run.h"
#include "report.h"
#include "step.h"

/* Machine and model, once for all plans. */
void psi_report_describe (PsiReport *report, const PsiMachine *machine, const PsiModelSource *source,
                          const PsiModel *model);

/* (transfer full); `curves`: keep memory and traffic curves and spans. Error: counts beyond 64 bits. */
PsiPlanReport *psi_plan_report_fill (const char *name, const PsiStep *step, const PsiRun *run, gboolean curves,
                                     GError **error);

/* The same with step time, throughput, memory and verdict only: no more is needed to choose among many plans. */
PsiPlanReport *psi_plan_report_fill_fit (const char *name, const PsiStep *step, const PsiRun *run, GError **error);
/* Of several runs with jitter, of which `plan` tells one: the step takes the mean, its parts in proportion. */
void psi_plan_report_set_trials (PsiPlanReport *plan, const PsiStep *step, const PsiTrials *trials);
