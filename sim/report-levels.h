/* SPDX-License-Identifier: MIT */
/* What the memory of a GPU goes through in a step. */
#pragma once

#include "psi-run.h"
#include "step.h"

/* Appends the memory changes of a rank (times `weight`) to an array of PsiLevelEvent, to be followed from rank->base
 * through the period of the run. Where no step goes like the one before (run->cycle is not 1) one step stands for all:
 * an op that works for the step before may then seem to give back what is not there yet. It is taken to give back that
 * of the period before, so that no level falls below 0. */
void psi_report_memory_events (const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, gint64 weight,
                               GArray *events);
