/* SPDX-License-Identifier: MIT */
/* What schedules with split backwards share. */
#pragma once

#include "schedule.h"

/* An empty schedule with one model part per rank, or NULL if the shape asks for more. (transfer full) */
PsiSchedule *psi_schedule_new_one_part (const char *name, const PsiScheduleShape *shape, GError **error);
/* An empty schedule with two parts per rank, folded into a V, or NULL if the shape asks for another number. (transfer
 * full) */
PsiSchedule *psi_schedule_new_v (const char *name, const PsiScheduleShape *shape, GError **error);

/* One rank's list: `warm_up` forwards, then F, I and the W of `lag` micro-batches before, then what is left. */
void psi_schedule_add_lagging (PsiSchedule *schedule, guint rank, gint64 warm_up, gint64 lag);

/* One rank's list of a bidirectional pipeline. `depth` counts from the rank where a direction enters (0) to the rank
 * where both meet (n_depths - 1); each direction runs `n` micro-batches, numbered from first[0] and first[1], on
 * chunk[0] and chunk[1]; direction 0 is the one that entered nearer to this rank. */
typedef struct
{
  guint rank, depth, n_depths;
  gint64 n;
  gint64 first[2];
  guint chunk[2];
} PsiTwoWays;
void psi_schedule_add_two_ways (PsiSchedule *schedule, const PsiTwoWays *ways);

/* A V-shaped schedule from one building block, repeated every 6 slots of one chunk pass: the block of micro-batch i
 * takes, on rank r, a slot for F, F.1, I.1 and I, and from rank to rank these move by steps[0] (F), steps[1] (F.1,
 * towards rank 0), steps[2] (I.1), steps[3] (I, towards rank 0) slots. `most_chunks` > 0: weight halves wait until a
 * rank would idle or keeps so many chunks; 0: they take the block's two slots that are left. */
void psi_schedule_add_blocks (PsiSchedule *schedule, const guint *steps, guint most_chunks);
