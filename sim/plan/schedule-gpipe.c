/* SPDX-License-Identifier: MIT */
/* GPipe: all forwards, then all backwards, then the flush.
 *
 *   makespan = (m + p - 1)(F + B), bubble (p - 1) / (m + p - 1) of the total, m micro-batches in flight
 *
 * Source: Huang et al., GPipe, arXiv 1811.06965. Equal stages, free transfers. */
#include "schedule.h"

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  PsiSchedule *schedule = psi_schedule_new (shape->ranks, shape->chunks, shape->micro_batches);

  for (guint r = 0; r < shape->ranks; r++)
    {
      for (guint c = 0; c < shape->chunks; c++)
        for (gint64 m = 0; m < shape->micro_batches; m++)
          psi_schedule_add (schedule, r, PSI_TOKEN_FORWARD, m, c);
      for (guint c = shape->chunks; c > 0; c--)
        for (gint64 m = 0; m < shape->micro_batches; m++)
          psi_schedule_add (schedule, r, PSI_TOKEN_BACKWARD, m, c - 1);
    }
  return schedule;
}

const PsiScheduleKind psi_schedule_gpipe = {
  .name = "gpipe",
  .summary = "pipeline: all forwards, then all backwards",
  .build = build,
};
