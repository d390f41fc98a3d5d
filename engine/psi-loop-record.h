/* SPDX-License-Identifier: MIT */
/* What is kept of ops that end: their times, and how far they lie after those of the iteration before. */
#pragma once

#include "psi-loop-state.h"

/* The head op of a stream ends. */
void psi_loop_record (PsiLoop *loop, const PsiStream *stream, PsiStreamDetail *detail, PsiTime now_ps);
/* Keep sums of the iterations that begin from now on: those from the one returned. `ret_weight`: what a sum grows by
 * when all times of an iteration grow by 1 ps. */
guint32 psi_loop_keep_sums (PsiLoop *loop, guint64 *ret_weight);
