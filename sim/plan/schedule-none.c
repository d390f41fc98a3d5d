/* SPDX-License-Identifier: MIT */
/* No pipeline: one rank runs its micro-batches one after another, forward then backward.
 *
 *   time = m (F + B); one micro-batch's activations are kept, or all m of them with keeps_all.
 *
 * keeps_all is what one device would need to do in one step what m data-parallel workers do at the same time. */
#include "schedule.h"

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  PsiSchedule *schedule = psi_schedule_new (1, 1, shape->micro_batches);

  for (gint64 m = 0; m < shape->micro_batches; m++)
    {
      psi_schedule_add (schedule, 0, PSI_TOKEN_FORWARD, m, 0);
      if (!shape->keeps_all)
        psi_schedule_add (schedule, 0, PSI_TOKEN_BACKWARD, m, 0);
    }
  for (gint64 m = shape->micro_batches; shape->keeps_all && m > 0; m--)
    psi_schedule_add (schedule, 0, PSI_TOKEN_BACKWARD, m - 1, 0);
  return schedule;
}

const PsiScheduleKind psi_schedule_none = {
  .name = "none",
  .summary = "no pipeline: micro-batches one after another on one GPU",
  .build = build,
};
