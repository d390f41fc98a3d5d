/* SPDX-License-Identifier: MIT */
/* Iterations that repeat in groups: where equal ranks share a link, the one that gives way in one iteration may be
 * another one's turn in the next, and only after some of them all is as it was.
 *
 *   x(i) = sum over ops of w(op) t(op, i)  modulo 2^64     times of iteration i, weights w as good as random
 *
 * If every op of iteration i comes S later than in iteration i - c, then x(i) - x(i - c) = S sum of w; if not, that
 * holds by chance, once in about 2^64. As with a period of one iteration, c is a cycle when this is so, with one S, for
 * as many iterations in a row as anything reaches back.
 *
 * Where ranks run at different paces until the faster have used up their slack, every op comes later by a time of its
 * own in each iteration: x(i) - 2 x(i - 1) + x(i - 2) = 0. The pace that all come to is then known, if links are not
 * shared otherwise by then: that of the slowest, as a circuit of waits that takes longer in the mean would have slowed
 * down its ops already. */
#pragma once

#include "psi-time.h"

#include <glib.h>

#define PSI_CYCLE_MOST 64 /* iterations, longer ones are not looked for */

typedef struct
{
  guint64 weight; /* sum of w */
  guint64 sums[PSI_CYCLE_MOST];
  PsiTime at_ps[PSI_CYCLE_MOST];    /* of one op of each iteration, the same in all */
  guint matches[PSI_CYCLE_MOST];    /* [c] in a row */
  PsiTime apart_ps[PSI_CYCLE_MOST]; /* [c] S of the last */
  guint steady;                     /* iterations in a row in which every op kept the pace it had */
  guint n;                          /* iterations seen */
} PsiCycle;

/* Take note of the next iteration. Returns the shortest cycle that has lasted for `reach` iterations, 0 if none. */
guint psi_cycle_add (PsiCycle *cycle, guint64 sum, PsiTime at_ps, guint reach);
/* Time of the last `length` iterations. */
PsiTime psi_cycle_time_ps (const PsiCycle *cycle, guint length);
