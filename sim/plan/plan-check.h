/* SPDX-License-Identifier: MIT */
#pragma once

#include "plan.h"

/* Does `zero` go with the rest of the plan? The error blames what was written. */
gboolean psi_plan_check_zero (const PsiPlan *plan, const PsiSettings *settings, GError **error);
/* Does `cuda_graphs`? */
gboolean psi_plan_check_graphs (const PsiPlan *plan, const PsiSettings *settings, GError **error);
/* Is a written number more than what it counts, layers or tokens? */
gboolean psi_plan_check_counts (const PsiPlan *plan, const PsiSettings *settings, const PsiModelSource *source,
                                GError **error);
/* What of the model is left out, and written keys that change nothing: those this plan has no use for are assumptions,
 * as several plans may share keys; those the model has no use for go into plan->ignored. */
void psi_plan_note_ignored (PsiPlan *plan, const PsiSettings *settings, const PsiModelSource *source);
