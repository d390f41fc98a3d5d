/* SPDX-License-Identifier: MIT */
/* Naive model parallelism: a micro-batch goes forward through all stages and back before the next one starts.
 *
 *   makespan = m p (F + B), bubble (p - 1) / p, one micro-batch in flight   (equal stages, free transfers)
 *
 * Source: the schedule of a plain layer-by-layer split; Lei Mao, "Data Parallelism VS Model Parallelism", 2019, calls
 * it model serialization. Stages that do not depend on each other (branches) do run at the same time. */
#include "schedule.h"

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  PsiSchedule *schedule = psi_schedule_new (shape->ranks, shape->chunks, shape->micro_batches);

  for (guint r = 0; r < shape->ranks; r++)
    for (gint64 m = 0; m < shape->micro_batches; m++)
      {
        for (guint c = 0; c < shape->chunks; c++)
          psi_schedule_add (schedule, r, PSI_TOKEN_FORWARD, m, c);
        for (guint c = shape->chunks; c > 0; c--)
          psi_schedule_add (schedule, r, PSI_TOKEN_BACKWARD, m, c - 1);
      }
  return schedule;
}

const PsiScheduleKind psi_schedule_naive = {
  .name = "naive",
  .summary = "model parallelism: one micro-batch at a time through all stages",
  .build = build,
};
