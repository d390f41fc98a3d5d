/* SPDX-License-Identifier: MIT */
/* V-Min: a V of two parts per rank in which a micro-batch goes there and back without a pause: the least activations.
 *
 *   bubble       4 (p - 1) -+ 1 chunk passes of a rank at F = I = W, m >= 2 p: two thirds of 1F1B's 6 (p - 1)
 *   in flight    (forward done, weight half not) at most 2 ceil ((p + 2) / 3) of 1F1B's 2 p chunks
 *   transfers    4 m (p - 1), twice 1F1B; delay 0
 *
 * Source: Qi et al., arXiv 2405.15362 (V-Min; offsets 1, 1, 1, 1). Equal parts, free transfers; unequal times cost
 * more bubble than in V-Half. */
#include "schedule-zb.h"

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  static const guint steps[] = { 1, 1, 1, 1 };
  PsiSchedule *schedule = psi_schedule_new_v ("v-min", shape, error);

  if (schedule != NULL)
    psi_schedule_add_blocks (schedule, steps, 0);
  return schedule;
}

const PsiScheduleKind psi_schedule_v_min = {
  .name = "v-min",
  .summary = "pipeline in V shape with a third of 1f1b's activations and two thirds of its bubble",
  .chunks = 2,
  .build = build,
};
