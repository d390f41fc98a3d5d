/* SPDX-License-Identifier: MIT */
/* Breadth-first pipeline: v model parts per rank, all micro-batches through one part before the next part begins, and
 * the same backwards; every part's gradients are complete once, so that they can be summed while the next part runs.
 *
 *   period    m (F + B) + (p - 1)(F + B) / v      m >= p; F and B: all v parts of a rank together
 *   in flight m v chunks on every rank; transfers 2 m (p v - 1); delay 0
 *
 * Source: Lamy-Poirier, Breadth-First Pipeline Parallelism, arXiv 2211.05953. Equal parts, free transfers. */
#include "schedule.h"

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  return psi_schedule_gpipe.build (shape, error); /* GPipe with several parts on a rank goes part by part */
}

const PsiScheduleKind psi_schedule_breadth_first = {
  .name = "breadth-first",
  .summary = "pipeline with several model parts per rank, all micro-batches through one part at a time",
  .chunks = 2,
  .build = build,
};
