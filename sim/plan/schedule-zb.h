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
