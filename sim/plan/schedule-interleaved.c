/* SPDX-License-Identifier: MIT */
/* Interleaved 1F1B: v model parts per rank, micro-batches in groups of g = the smallest divisor of m that is >= p (m if
 * m < p).
 *
 *   m a multiple of p:  makespan = m (F + B) + (p - 1)(F + B) / v, rank 0 keeps min(m v, (v + 1) p - 1) chunks
 *   warm-up of rank r:  min(m v, 2 (p - r - 1) + (v - 1) g) chunk forwards
 *
 * F and B are the times of all v parts of a rank together. The k-th forward of a rank is micro-batch
 * g (k / (g v)) + k mod g of chunk (k / g) mod v; backwards take the chunks in reverse. Source: Narayanan et al.,
 * arXiv 2104.04473, and the warm-up and group rules of Megatron-LM. */
#include "schedule.h"

static gint64
group_size (gint64 micro_batches, guint ranks)
{
  for (gint64 g = ranks; g < micro_batches; g++)
    if (micro_batches % g == 0)
      return g;
  return micro_batches;
}

/* The k-th chunk pass of a rank: a group goes through all chunks before the next one starts. */
static void
add_pass (PsiSchedule *schedule, guint rank, PsiTokenKind kind, gint64 k, gint64 group)
{
  guint chunks = schedule->n_chunks;
  guint chunk = (guint) (k / group % chunks);

  if (kind == PSI_TOKEN_BACKWARD)
    chunk = chunks - 1 - chunk;
  psi_schedule_add (schedule, rank, kind, k / (group * chunks) * group + k % group, chunk);
}

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  PsiSchedule *schedule = psi_schedule_new (shape->ranks, shape->chunks, shape->micro_batches);
  gint64 passes = shape->micro_batches * shape->chunks;
  gint64 group = group_size (shape->micro_batches, shape->ranks);

  for (guint r = 0; r < shape->ranks; r++)
    {
      gint64 warm_up = 2 * (gint64) (shape->ranks - r - 1) + (gint64) (shape->chunks - 1) * group;

      warm_up = shape->chunks == 1 ? (gint64) (shape->ranks - r - 1) : warm_up;
      warm_up = MIN (warm_up, passes);
      for (gint64 k = 0; k < warm_up; k++)
        add_pass (schedule, r, PSI_TOKEN_FORWARD, k, group);
      for (gint64 k = warm_up; k < passes; k++)
        {
          add_pass (schedule, r, PSI_TOKEN_FORWARD, k, group);
          add_pass (schedule, r, PSI_TOKEN_BACKWARD, k - warm_up, group);
        }
      for (gint64 k = passes - warm_up; k < passes; k++)
        add_pass (schedule, r, PSI_TOKEN_BACKWARD, k, group);
    }
  return schedule;
}

const PsiScheduleKind psi_schedule_interleaved = {
  .name = "interleaved",
  .summary = "pipeline with several model parts per rank: smaller bubble, more messages",
  .chunks = 2,
  .build = build,
};
