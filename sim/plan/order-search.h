/* SPDX-License-Identifier: MIT */
/* Candidates of a searched order: making them, and what they come to. */
#pragma once

#include "schedule.h"

/* One candidate: for every rank a string of F, I, W; numbers follow from the order. */
typedef struct
{
  const PsiScheduleShape *shape;
  guint p;
  gint64 m;
  gint64 limit_bytes;
  char **lists; /* [p], 3 m letters each */
} PsiTrial;

PsiTrial psi_trial_init (const PsiScheduleShape *shape, gint64 limit_bytes);
void psi_trial_clear (PsiTrial *o);

/* Warm-up of `ahead` x (p - r - 1) forwards, weight halves `ahead` x r micro-batches late, or at once. Always TRUE. */
gboolean psi_trial_make_lagging (PsiTrial *o, double ahead, gboolean lags);
/* In order of time: whatever of the next forward and the next input half can begin first (the input half on a tie if
 * input_first); a weight half where the rank would wait at least `wait` of it, or is full. FALSE if memory does not let
 * it end. */
gboolean psi_trial_make_by_time (PsiTrial *o, double ahead, double wait, gboolean input_first);

/* Period, by following three steps; G_MAXINT64: it deadlocks. */
gint64 psi_trial_period_ps (const PsiTrial *o);
/* By how much the fullest rank is over the limit; 0: it fits. */
gint64 psi_trial_excess_bytes (const PsiTrial *o);
