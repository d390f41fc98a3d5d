/* SPDX-License-Identifier: MIT */
/* Run a world until its step repeats exactly, by itself or together with a few others.
 *
 * The dynamics do not depend on absolute time, so once every op of one iteration starts and ends exactly P later than
 * in the iteration before (for as many iterations as dependencies reach back, and as ranks may be ahead of each other
 * where messages join different iterations), all later iterations do the same: P is the period, and one iteration
 * holds everything there is to know. Where ranks share links the same may be true of several iterations only, a cycle:
 * P is then their mean, and the recorded iteration is the last of the cycle, counted from the first iteration; such a
 * run goes on to max_iterations, since rests of flows below a picosecond may yet change what repeats. With `no_jump`
 * every run does, unless time would run out of range; the answer must be the same.
 *
 * Where ranks wait at desks nothing ties their iterations together: each runs at its own pace. The whole then repeats
 * after a cycle in which every rank does some whole number of iterations, or never in the time that is looked at;
 * either way the answer is about a stretch of it, see psi-rounds.h. An iteration, then, is the mean time in which as
 * many iterations end as there are ranks. */
#pragma once

#include "psi-run-data.h"

/* Returns (transfer full), NULL on error. The world's links are reset first and left clean. */
PsiRun *psi_run (PsiWorld *world, const PsiRunOptions *options, GError **error);
void psi_run_free (PsiRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiRun, psi_run_free)
