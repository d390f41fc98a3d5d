/* SPDX-License-Identifier: MIT */
/* The inner loop of a run. */
#pragma once

#include "psi-loop-state.h"

/* Everything at the start; `run` gets its offsets and, unless no_record, room for times and waits. FALSE: a port lacks
 * a partner. */
gboolean psi_loop_init (PsiLoop *loop, PsiWorld *world, PsiRun *run, const PsiRunOptions *options, GError **error);
void psi_loop_clear (PsiLoop *loop);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsiLoop, psi_loop_clear)

/* Run until `complete` has grown by one. FALSE: nothing can happen any more, or time is out of range. */
gboolean psi_loop_iterate (PsiLoop *loop, PsiTime *now_ps);
/* An iteration has been taken note of: forget it, and look again at streams that were too far ahead. */
void psi_loop_next (PsiLoop *loop);
/* Who waits for what. (transfer full) */
char *psi_loop_describe_waiting (const PsiLoop *loop);
