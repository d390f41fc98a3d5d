/* SPDX-License-Identifier: MIT */
/* Changes that would make a plan fit, found by simulating them. */
#pragma once

#include "report.h"
#include "keys.h"

/* Try single changes of the plan's keys, then pairs when no single one helps; append those that fit to plan->advice,
 * on fewest GPUs and fastest for a sample first, at most six. A plan that is `tight` gets changes that make it `fits`.
 * Where GPUs are simulated one by one the search ends with fewer, of 64 GPUs with the first, and the time of steps that
 * do not repeat is that of the first eight. */
void psi_advise (const PsiSettings *settings, PsiPlanReport *plan);
