/* SPDX-License-Identifier: MIT */
/* DualPipe-V: DualPipe cut in half. The way down and the way back up are the two halves of one model in V shape (rank r
 * has parts r and 2 p - 1 - r), so no part has a copy.
 *
 *   period    2 m (F + B) + (p - 1)(FB + B - 3 W)           m >= 2 p;  B = I + W
 *             at F = I; else within (p - 1) |F - I| of it
 *             FB = F + B: what an overlapped pair takes when overlap hides transfers and nothing else
 *             p = 4, m = 10, F = I = W = 1: 66, of which each rank waits 6
 *   in flight at most 2 p + 1 chunks on every rank; transfers 4 m (p - 1); delay 0
 *
 * F, I, W: times of one of the 2 p parts for one micro-batch. Equal parts, free transfers. Source: deepseek-ai/DualPipe
 * (README and dualpipev.py), after the cut in half of Sea AI Lab. */
#include "schedule-zb.h"

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  PsiSchedule *schedule = psi_schedule_new_v ("dualpipe-v", shape, error);

  if (schedule != NULL && shape->micro_batches < 2 * (gint64) shape->ranks)
    {
      g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
                   "schedule 'dualpipe-v' needs at least 2 x ranks = %u micro-batches, not %" G_GINT64_FORMAT,
                   2 * shape->ranks, shape->micro_batches);
      g_clear_pointer (&schedule, psi_schedule_free);
    }
  for (guint r = 0; schedule != NULL && r < shape->ranks; r++)
    psi_schedule_add_two_ways (
        schedule,
        &(PsiTwoWays){ .rank = r, .depth = r, .n_depths = shape->ranks, .n = shape->micro_batches, .chunk = { 0, 1 } });
  return schedule;
}

const PsiScheduleKind psi_schedule_dualpipe_v = {
  .name = "dualpipe-v",
  .summary = "bidirectional pipeline in V shape: forward of one chunk overlapped with backward of the other",
  .chunks = 2,
  .build = build,
};
