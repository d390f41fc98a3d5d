/* SPDX-License-Identifier: MIT */
/* V-Half: a V of two parts per rank in which a micro-batch comes back so soon that half of 1F1B's activations are
 * kept.
 *
 *   bubble       3 (p - 1) - 2 .. 3 (p - 1) chunk passes of a rank at F = I = W, m >= 2 p: half of 1F1B's 6 (p - 1)
 *   in flight    (forward done, weight half not) at most p + 2 of 1F1B's 2 p chunks
 *   transfers    4 m (p - 1), twice 1F1B; delay 0
 *
 * Source: Qi et al., arXiv 2405.15362 (V-Half; offsets 1, 2, 1, 2). Equal parts, free transfers. */
#include "schedule-zb.h"

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  static const guint steps[] = { 1, 2, 1, 2 };
  PsiSchedule *schedule = psi_schedule_new_v ("v-half", shape, error);

  if (schedule != NULL)
    psi_schedule_add_blocks (schedule, steps, shape->ranks + 2);
  return schedule;
}

const PsiScheduleKind psi_schedule_v_half = {
  .name = "v-half",
  .summary = "pipeline in V shape with half of 1f1b's activations and half of its bubble",
  .chunks = 2,
  .build = build,
};
