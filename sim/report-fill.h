/* SPDX-License-Identifier: MIT */
/* From a run to the report's numbers. */
#pragma once

#include "psi-account.h"
#include "report.h"
#include "step.h"

void psi_report_describe (PsiReport *report, const PsiMachine *machine, const PsiModelSource *source,
                          const PsiModel *model);

/* (transfer full); `curves`: keep memory and traffic curves and spans. */
PsiPlanReport *psi_plan_report_fill (const char *name, const PsiStep *step, const PsiRun *run, gboolean curves);

/* The same with step time, throughput, memory and verdict only: no more is needed to choose among many plans. */
PsiPlanReport *psi_plan_report_fill_fit (const char *name, const PsiStep *step, const PsiRun *run);
/* Is what is at rest on some GPU more than it has? Then no run is needed to say so. */
gboolean psi_report_cannot_fit (const PsiStep *step);

/* Of several runs with jitter, of which `plan` tells one: the step takes the mean, its parts in proportion. */
void psi_plan_report_set_trials (PsiPlanReport *plan, const PsiStep *step, const PsiTrials *trials);

/* report-update.c: rule, delays, versions. */
void psi_report_fill_update (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run);
/* What a rank does in a step on average, from what it does in an iteration. */
gint64 psi_report_per_step (const PsiRun *run, PsiRankId rank, gint64 bytes);
/* Bytes that the root of a parameter server sends in a step. */
void psi_report_add_served (PsiPlanReport *plan, gint64 bytes);
/* Spans and memory of ranks at paces of their own, over the window that is drawn. */
void psi_report_repeat (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run);
