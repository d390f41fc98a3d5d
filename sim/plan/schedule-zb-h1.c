/* SPDX-License-Identifier: MIT */
/* ZB-H1: 1F1B with split backwards. Weight halves lag so far behind that every rank keeps what rank 0 of 1F1B does.
 *
 *   rank r of p  warm-up of p - r - 1 forwards; then F, I and the W of r micro-batches before; the last r W
 *   period       m (F + I + W) + (p - 1) max (F + I - W, I)                       m >= p
 *                at F = I = W: 3 m + p - 1, against 3 (m + p - 1) of 1F1B
 *                m < p: 3 m + 2 (p - 1) - (m - 1)
 *   bubble       (p - 1)(F + I - W) for W <= F: the time a rank waits in one period
 *   in flight    (forward done, weight half not) min (m, p) on every rank, as the worst rank of 1F1B
 *   transfers    2 m (p - 1), as 1F1B; delay 0
 *
 * F, I, W: times of one stage for one micro-batch, forward, input half (the paper's B) and weight half. Equal
 * stages, free transfers. Source: Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 2.3. */
#include "schedule-zb.h"

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  PsiSchedule *schedule = psi_schedule_new_one_part ("zb-h1", shape, error);

  for (guint r = 0; schedule != NULL && r < shape->ranks; r++)
    psi_schedule_add_lagging (schedule, r, shape->ranks - r - 1, r);
  return schedule;
}

const PsiScheduleKind psi_schedule_zb_h1 = {
  .name = "zb-h1",
  .summary = "zero-bubble pipeline: weight gradients fill a part of the bubble; memory of 1f1b",
  .chunks = 1,
  .build = build,
};
