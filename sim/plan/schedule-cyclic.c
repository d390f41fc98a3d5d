/* SPDX-License-Identifier: MIT */
/* Cyclic data parallelism: N workers run the same step, each T / N later than the one before it.
 *
 *   T = m sum_j (f_j + b_j)   the step of one worker with m micro-batches
 *   s_i                       worker i begins; evenly: i T / N
 *                             delay random: anywhere in [0, T), in ascending order, worker 0 at 0
 *                             one GPU for each stage: in whole slots, see cyclic-timeline.c
 *   P                         period: T; one GPU for each stage: max (T, N m (f + b)) with equal stages, not less with
 *                             others
 *   s_(N-1) + end of the last B_j - P   part j of the next step is there: the last worker has ended its backward
 *
 * Worker i uses the new version of part j (v2) iff its first forward of part j begins no earlier than that; else, and
 * always under v1, the version before it. GPUs of a stage that workers share: ceil (N (end of the last B_j - start of
 * the first F_j) / T), the most alive at once.
 *
 * On one GPU, or one GPU for each stage, the workers' ops are merged into one list in order of their virtual times
 * modulo the period, backwards first on a tie; an op that falls into a later period has a shift. One GPU with N = K
 * counts slots: all times are taken as 1.
 *
 * Source: Fournier and Oyallon, Cyclic Data Parallelism, arXiv 2403.08837; the rule for unequal stages and for K != N
 * is the same causality applied to the virtual timeline. Transfers do not enter the virtual timeline. */
#include "cyclic-timeline.h"

/* Every worker is followed by itself: more would take minutes. GPUs of a pool have an order for each worker. */
#define MOST_OPS 600000
#define MOST_POOL_OPS 200000

typedef struct
{
  gint64 time;
  PsiToken token;
  guint rank;
} Merged;

static int
compare_merged (gconstpointer a, gconstpointer b)
{
  const Merged *x = a, *y = b;

  if (x->time != y->time)
    return x->time < y->time ? -1 : 1;
  if (x->token.kind != y->token.kind)
    return x->token.kind == PSI_TOKEN_BACKWARD ? -1 : 1;
  return (x->token.micro_batch > y->token.micro_batch) - (x->token.micro_batch < y->token.micro_batch);
}

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  guint n = shape->workers, k = shape->stages;
  gint64 m = shape->micro_batches;
  gboolean pools = shape->placement == PSI_PLACEMENT_SHARED && shape->by_stage;
  gboolean one_gpu = shape->placement == PSI_PLACEMENT_SHARED && !shape->by_stage;
  guint n_ranks = pools ? n * k : shape->by_stage ? k : one_gpu ? 1 : n;
  guint n_chunks = shape->by_stage ? 1 : k;
  g_auto (PsiCyclicTimeline) timeline = { NULL };
  guint64 n_ops = 2 * (guint64) n * k * (guint64) m, most = pools ? MOST_POOL_OPS : MOST_OPS;

  if (n_ops > most)
    {
      g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
                   "workers %u, stages %u, micro_batches %" G_GINT64_FORMAT ": a cyclic step of %" G_GUINT64_FORMAT
                   " forwards and backwards is too large to follow (at most %" G_GUINT64_FORMAT ")",
                   n, k, m, n_ops, most);
      return NULL;
    }
  if (!psi_cyclic_timeline_init (&timeline, shape, error))
    return NULL;
  PsiSchedule *schedule = psi_schedule_new (n_ranks, n_chunks, m * n);
  schedule->n_parts = k;
  for (guint r = 0; r < n_ranks; r++)
    for (guint c = 0; c < n_chunks; c++)
      schedule->parts[c * n_ranks + r] = !shape->by_stage ? c : pools ? r / n : r;
  schedule->n_workers = n;
  schedule->worker_micro_batches = m;
  schedule->one_worker = pools || (!shape->by_stage && !one_gpu);
  psi_cyclic_timeline_note (&timeline, shape, pools, schedule);

  g_autoptr (GArray) merged = g_array_new (FALSE, FALSE, sizeof (Merged));
  for (guint i = 0; i < n; i++)
    for (guint o = 0; o < timeline.ops->len; o++)
      {
        const PsiVirtualOp *op = &g_array_index (timeline.ops, PsiVirtualOp, o);
        gint64 time = timeline.start[i] + op->time;
        Merged row = { .time = op->time,
                       .rank = pools             ? op->part * n + i
                               : shape->by_stage ? op->part
                               : one_gpu         ? 0
                                                 : i };

        row.token = (PsiToken){ .kind = op->kind,
                                .chunk = (gint16) (shape->by_stage ? 0 : op->part),
                                .micro_batch = (gint32) (i * m + op->micro_batch) };
        /* A rank of one worker keeps its own order; lists of several fold into the period. */
        if (!schedule->one_worker && timeline.period > 0)
          {
            row.time = time % timeline.period;
            row.token.shift = (guint8) (time / timeline.period);
          }
        g_array_append_val (merged, row);
      }
  if (timeline.period > 0)
    g_array_sort (merged, compare_merged);
  for (guint o = 0; o < merged->len; o++)
    {
      const Merged *row = &g_array_index (merged, Merged, o);

      g_array_append_val (schedule->lists[row->rank], row->token);
    }
  return schedule;
}

const PsiScheduleKind psi_schedule_cyclic = {
  .name = "cyclic",
  .summary = "cyclic data parallelism: worker i runs i T/N later, memory is constant",
  .cyclic = TRUE,
  .build = build,
};
