/* SPDX-License-Identifier: MIT */
/* One plan, from settings to its report: load, resolve, build, run, account. */
#pragma once

#include "simulate.h"
#include "step.h"

/* The machine of the settings (`ideal` for the uniform model, a100-sxm-80 otherwise, when none is written), overrides
 * applied. (transfer full) */
PsiMachine *psi_simulate_machine (const PsiSettings *settings, GError **error);

/* `report`, if not NULL, gets the description of machine and model. (transfer full) */
PsiPlanReport *psi_simulate_plan (const char *name, const PsiSettings *settings, const PsiSimulateOptions *options,
                                  PsiReport *report, GError **error);
