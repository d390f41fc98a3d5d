/* SPDX-License-Identifier: MIT */
/* Ranks at paces of their own: the stretch of the run that stands for all of it.
 *
 * Nothing ties the iterations of two ranks together but the desks at which they wait. A *round* ends when as many
 * iterations of streams have ended as there are streams. At the end of a round the state of all streams (where each
 * stands, since when its op runs, who waits at which desk) is hashed. A state that was there q rounds ago, and again
 * after q more with the same states in between, makes a cycle: every mean over it is exact. Without one the second half
 * of the run stands for the whole. */
#pragma once

#include "psi-loop.h"

/* Run to a cycle or the limit; fills the run. FALSE: stuck, as psi_loop_iterate() says. */
gboolean psi_rounds_follow (PsiLoop *loop, PsiRun *run, const PsiRunOptions *options, PsiTime *now_ps);

/* Once it is over: each rank's latest iteration that all its streams have ended, as the recorded one. */
void psi_rounds_settle (PsiLoop *loop, PsiRun *run);
