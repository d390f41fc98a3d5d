/* SPDX-License-Identifier: MIT */
/* The report's numbers of memory. */
#pragma once

#include "report-ranks.h"

/* What a GPU holds beyond tensors: context, communicators. */
gint64 psi_report_overhead_bytes (const PsiStep *step);
/* The fullest of plan->ranks, the allocator's share, and the verdict. */
void psi_report_fill_memory (PsiPlanReport *plan, const PsiStep *step);
/* Activations of all GPUs on one clock. */
void psi_report_fill_activations (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run,
                                  const PsiReportEquals *equals, PsiTime origin_ps);
/* Is what is at rest on a rank's GPUs, with the least that activations take, more than they have? Then no run is needed
 * to say so. A PsiStepMisfitFunc. */
gboolean psi_report_cannot_fit (const PsiStep *step, const PsiStepRank *rank);
