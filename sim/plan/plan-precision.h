/* SPDX-License-Identifier: MIT */
/* Inside sim/plan: number formats, and the list of assumptions. */
#pragma once

#include "plan.h"

/* Fill the formats and bytes of `plan`, whose batch, framework and sharding are resolved. */
void psi_plan_resolve_precision (PsiPlan *plan, const PsiSettings *s, const PsiModelSource *source);

/* Name a default that mattered, for the report. */
void psi_plan_assume (PsiPlan *plan, const char *format, ...) G_GNUC_PRINTF (2, 3);
