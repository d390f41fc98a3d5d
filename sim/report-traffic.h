/* SPDX-License-Identifier: MIT */
/* The report's numbers of what is sent. */
#pragma once

#include "psi-run.h"
#include "report.h"
#include "step.h"

/* Bytes a GPU of the rank sends in a step, also added to by_kind[PSI_N_TRAFFIC]. What the root of a parameter server
 * sends for it goes to *served instead. */
gint64 psi_report_sent_bytes (const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, gint64 *by_kind,
                              gint64 *served);
/* What is on links at once, and the longest chain of messages. `gpus`: [ranks] that each stands for, 0 = counted with
 * another; `curve`: keep it. */
void psi_report_fill_traffic (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run, const guint *gpus,
                              PsiTime origin_ps, gboolean keeps_curve);
