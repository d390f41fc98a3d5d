/* SPDX-License-Identifier: MIT */
/* ZB-H2: split backwards and twice the forwards ahead of 1F1B, so that no rank ever waits if F = I = W.
 *
 *   rank r of p  warm-up of 2 (p - r - 1) forwards; then F, I and the W of 2 r micro-batches before; the rest
 *   period       m (F + I + W) + (p - 1) max (F + I - 2 W, I - F, 0)              m >= 2 p - 1
 *                at F = I = W: 3 m
 *                m < 2 p - 1: 3 m + 2 (p - 1) - (m - 1)
 *   bubble       (p - 1)(F + I - 2 W) for W <= F: the time a rank waits in one period
 *   in flight    (forward done, weight half not) min (m, 2 p - 1) on the worst rank
 *   transfers    2 m (p - 1), as 1F1B; delay 0
 *
 * Symbols as in schedule-zb-h1.c. A rank begins its next step when its own last weight half is done: with a barrier
 * between ranks (clipping by the global norm) the skew of p - 1 slots comes back as bubble. Equal stages, free
 * transfers. Source: Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241, sections 2.3 and 4. */
#include "schedule-zb.h"

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  PsiSchedule *schedule = psi_schedule_new_one_part ("zb-h2", shape, error);

  for (guint r = 0; schedule != NULL && r < shape->ranks; r++)
    psi_schedule_add_lagging (schedule, r, 2 * (shape->ranks - r - 1), 2 * r);
  return schedule;
}

const PsiScheduleKind psi_schedule_zb_h2 = {
  .name = "zb-h2",
  .summary = "zero-bubble pipeline: no bubble at equal times; twice the memory of 1f1b",
  .chunks = 1,
  .build = build,
};
