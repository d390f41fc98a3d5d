/* SPDX-License-Identifier: MIT */
/* The report's numbers of updates, and of ranks that run at paces of their own. */
#pragma once

#include "psi-run.h"
#include "report.h"
#include "step.h"

/* Rule, delays, versions. */
void psi_report_fill_update (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run);
/* What a rank does in a step on average, from what it does in an iteration. */
gint64 psi_report_per_step (const PsiRun *run, PsiRankId rank, gint64 bytes);
/* Bytes that the root of a parameter server sends in a step. */
void psi_report_add_served (PsiPlanReport *plan, gint64 bytes);
/* Spans and memory of ranks at paces of their own, over the window that is drawn. */
void psi_report_repeat (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run);
