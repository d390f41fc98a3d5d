/* SPDX-License-Identifier: MIT */
/* Between which times four of five real runs lie. */
#pragma once

#include "report.h"
#include "step.h"

/* Fills step_time_low_s and step_time_high_s from the step time and the times of the ranks, which must be filled; NAN
 * where the machine or the model has no measured runs to compare with. */
void psi_report_fill_band (PsiPlanReport *plan, const PsiStep *step);

/* What makes the band as wide as it is, in words: "8 of 10 measured runs: kernels -6 +7 %, ...". NULL if there is none.
 * (transfer full) */
char *psi_report_describe_band (const PsiPlanReport *plan, const PsiStep *step);
