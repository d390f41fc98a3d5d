/* SPDX-License-Identifier: MIT */
/* The critical path: the ops, one after another, that decide how long a period is.
 *
 * An op starts at the moment when the last thing it waits for ends: the op before it on its stream, an op of another
 * stream, or, for a message or collective, what its last partner waited for. Going back from op to op along that last
 * thing leads into a circuit that repeats from period to period; it holds no waiting, so its length is the period
 * (n periods, if it goes through n steps before it comes back to where it was). */
#pragma once

#include "psi-run.h"

typedef struct
{
  PsiRankId rank;
  PsiOpId op;               /* PSI_OP_NONE: what is known of the run does not say what was waited for */
  PsiTime start_ps, end_ps; /* on the clock of PsiRun.times */
  PsiTime shared_ps;        /* a message: so much longer than with its links to itself */
} PsiCriticalOp;

/* One period of the critical path, in the order of time. The first op starts where the step of its rank begins; every
 * op starts when the one before it ends, and together they take run->period_ps, to the picosecond: what reaches beyond
 * the period is cut. Ops that take no time are left out. Of several things that end at the same moment the path takes
 * those of the rank itself, its own stream first. Returns (transfer full) an array of PsiCriticalOp; `run` must have
 * recorded its ops. */
GArray *psi_critical_path (const PsiWorld *world, const PsiRun *run);
