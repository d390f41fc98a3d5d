/* SPDX-License-Identifier: MIT */
#pragma once

#include "plan.h"

/* Does `zero` go with the rest of the plan? The error blames what was written. */
gboolean psi_plan_check_zero (const PsiPlan *plan, const PsiSettings *settings, GError **error);
/* `workers` says nothing where the plan has no N: then an assumption says so. */
void psi_plan_note_workers (PsiPlan *plan, const PsiSettings *settings);
