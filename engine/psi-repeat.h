/* SPDX-License-Identifier: MIT */
/* A step that holds the same block of work many times over, run with few of the blocks.
 *
 * A pipeline with m micro-batches does the same thing from micro-batch to micro-batch once it is full. If at two
 * moments a time D apart every stream stands at the same place of two blocks that follow each other, with the same ops
 * under way for as long, then what comes after the second is what came after the first, as long as the programs go on
 * alike: a program with n more blocks runs as this one does with the stretch between the two moments put in n more
 * times.
 *
 * Which moments, is found in the recorded iteration: every op of three stretches of length D in a row must have its
 * image D later, with the same needs, costs, memory and waits; no op may last longer than D, so nothing older is under
 * way, and what is on the links is the same. The iteration must be like the first one, as then all of them are. */
#pragma once

#include "psi-run.h"

/* Take the run of a world for one of programs with n more blocks (an even number helps). Blocks are told apart by
 * label[0], which counts them; `limits`: [ranks] the ops of stream 0 before that position, and the messages that belong
 * to them, are the same in the longer programs, where more such blocks follow. On success run->period_ps is the longer
 * one's and run->repeat says where the blocks go: psi-account.h takes it into account, the recorded times are those of
 * the run. FALSE: the run does not show it, and nothing is done. */
gboolean psi_run_put_in (const PsiWorld *world, PsiRun *run, const guint32 *limits, guint64 n);
