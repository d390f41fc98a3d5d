/* SPDX-License-Identifier: MIT */
/* What a report took for granted, in words. */
#pragma once

#include "report.h"
#include "step.h"

/* Fills `assumptions`, and `warnings` with those that nobody should miss. */
void psi_report_fill_assumptions (PsiPlanReport *plan, const PsiStep *step, gint64 overhead_bytes);
