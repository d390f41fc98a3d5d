/* SPDX-License-Identifier: MIT */
/* The report's rows: one for each class of equal GPUs. */
#pragma once

#include "psi-run.h"
#include "report.h"
#include "step.h"

/* Ranks simulated one by one that did the same at the same times. */
typedef struct
{
  PsiRankId *first; /* [n_ranks] the lowest of those equal to a rank */
  guint *gpus;      /* [n_ranks] of all equal ones, where the rank is the lowest; else 0 */
} PsiReportEquals;

/* Compare all ranks of a run. `equals` is the caller's, what it holds is freed by psi_report_equals_clear(). */
void psi_report_equals_init (PsiReportEquals *equals, const PsiStep *step, const PsiRun *run);
void psi_report_equals_clear (PsiReportEquals *equals);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsiReportEquals, psi_report_equals_clear)

/* How much of a report is wanted. */
typedef enum
{
  PSI_REPORT_FIT,     /* memory, step time, its band and throughput: enough to compare plans that might fit */
  PSI_REPORT_NUMBERS, /* all but curves */
  PSI_REPORT_CURVES
} PsiReportDepth;

/* Add the rows to plan->ranks, with time, memory and what is sent; the workers of a pool share one. FALSE: the bytes of
 * all GPUs together are more than 64 bits count. */
gboolean psi_report_fill_ranks (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run,
                                const PsiReportEquals *equals, PsiTime origin_ps, PsiReportDepth depth);
