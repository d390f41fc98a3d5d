/* SPDX-License-Identifier: MIT */
/* The program on one screen: scenario in, report out. */
#pragma once

#include "scenario.h"
#include "simulate-plan.h"

/* Simulate every plan of the scenario, in order. Returns (transfer full) a report, or NULL: a plan that cannot be
 * resolved fails the whole call; running out of memory is a result, not an error. */
PsiReport *psi_simulate (const PsiScenario *scenario, const PsiSimulateOptions *options, GError **error);
