/* SPDX-License-Identifier: MIT */
/* A step whose kernels take a little more or less than their time: simulated again and again, each time with other
 * random numbers, over all cores. */
#pragma once

#include "psi-run.h"
#include "report.h"

/* Run the world `trials` times with spread `jitter`. The random numbers of a trial depend on `seed` and its number
 * only, so the number of threads (0 = one for each core) does not matter. Percentiles are those of the sorted step
 * times at rank (n - 1) p / 100, between neighbours along a straight line. Returns (transfer full) the run whose step
 * time is nearest to the mean, the first of several, for all that is told about one step. */
PsiRun *psi_trials_run (const PsiWorld *world, const PsiRunOptions *options, double jitter, guint64 seed, guint trials,
                        guint threads, PsiTrials *ret_trials, GError **error);
