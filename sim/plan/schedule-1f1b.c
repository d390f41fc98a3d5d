/* SPDX-License-Identifier: MIT */
/* 1F1B with flush: rank r warms up with p - r - 1 forwards, then alternates one forward and one backward.
 *
 *   makespan = (m + p - 1)(F + B), bubble (p - 1) / (m + p - 1) of the total, min(m, p - r) micro-batches in flight
 *
 * With the vocabulary split over the ranks the loss of a micro-batch takes an interval for each barrier, and more
 * micro-batches are in flight: p - r + 2 with two barriers, p - r + 1 with one, 1.5 (p - r) rounded down in
 * lockstep (arXiv 2411.05288, section 5; sail-sg/VocabularyParallelism, interlaced_schedule.py).
 *
 * Source: Narayanan et al., PipeDream-Flush, arXiv 2006.09503. Equal stages, free transfers. */
#include "schedule.h"

/* Forwards of rank r before its first backward. */
static gint64
warm_up_of (const PsiScheduleShape *shape, guint r)
{
  gint64 distance = shape->ranks - r;

  switch (shape->vocabulary)
    {
    case PSI_VOCABULARY_TWO_BARRIERS:
      return distance + 1;
    case PSI_VOCABULARY_ONE_BARRIER:
      return distance;
    case PSI_VOCABULARY_INTERLACED:
      return distance + distance / 2 - 1;
    case PSI_VOCABULARY_ENDS:
    default:
      return distance - 1;
    }
}

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  PsiSchedule *schedule = psi_schedule_new (shape->ranks, 1, shape->micro_batches);

  if (shape->chunks != 1)
    {
      g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
                   "schedule '1f1b' has one model part per rank, not vpp = %u (interleaved allows more)",
                   shape->chunks);
      psi_schedule_free (schedule);
      return NULL;
    }
  for (guint r = 0; r < shape->ranks; r++)
    {
      gint64 warm_up = MIN (shape->micro_batches, warm_up_of (shape, r));

      for (gint64 m = 0; m < warm_up; m++)
        psi_schedule_add (schedule, r, PSI_TOKEN_FORWARD, m, 0);
      for (gint64 m = warm_up; m < shape->micro_batches; m++)
        {
          psi_schedule_add (schedule, r, PSI_TOKEN_FORWARD, m, 0);
          psi_schedule_add (schedule, r, PSI_TOKEN_BACKWARD, m - warm_up, 0);
        }
      for (gint64 m = shape->micro_batches - warm_up; m < shape->micro_batches; m++)
        psi_schedule_add (schedule, r, PSI_TOKEN_BACKWARD, m, 0);
    }
  return schedule;
}

const PsiScheduleKind psi_schedule_1f1b = {
  .name = "1f1b",
  .summary = "pipeline: one forward, one backward; few activations",
  .build = build,
};
