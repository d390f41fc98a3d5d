/* SPDX-License-Identifier: MIT */
/* Cyclic data parallelism: N workers run the same step, each T / N later than the one before it.
 *
 *   worker i begins at i d;  d = T / N, T = m sum_j (f_j + b_j) the step of one worker with m micro-batches
 *                            d = max (T / N, max_j m (f_j + b_j)) with one GPU for each stage
 *   part j of step t+1 exists when the last worker has ended its last backward of step t:  P_j = (N-1) d + end of B_j -
 * N d worker i uses the new version of part j (v2) iff its first forward of part j begins no earlier than P_j; else,
 * and always under v1, the version before it GPUs of a stage that workers share: ceil ((end of last B_j - start of
 * first F_j) / d), the most alive at once
 *
 * On one GPU, or one GPU for each stage, the workers' ops are merged into one list in order of their virtual times
 * modulo the period N d, backwards first on a tie; an op that falls into a later period has a shift. One GPU with N = K
 * counts slots: all times are taken as 1.
 *
 * Source: Fournier and Oyallon, Cyclic Data Parallelism, arXiv 2403.08837; the rule for unequal stages and for K != N
 * is the same causality applied to the virtual timeline. Transfers do not enter the virtual timeline. */
#include "schedule.h"

#include <string.h>

typedef struct
{
  gint64 time; /* of one worker from its own start, times scaled by N */
  guint8 kind;
  guint part;
  gint64 micro_batch;
} VirtualOp;

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
  gboolean slots = shape->placement == PSI_PLACEMENT_SHARED && !shape->by_stage && n == k;
  g_autoptr (GArray) ops = g_array_new (FALSE, FALSE, sizeof (VirtualOp));
  g_autofree gint64 *first = g_new0 (gint64, k), *end = g_new0 (gint64, k);
  gint64 now = 0, longest = 0;

  /* One worker's step, in units of 1/N ps. */
  for (gint64 b = 0; b < m; b++)
    for (guint pass = 0; pass < 2 * k; pass++)
      {
        guint part = pass < k ? pass : 2 * k - 1 - pass;
        gint64 time = slots ? 1 : pass < k ? shape->forward_ps[part] : shape->backward_ps[part];
        VirtualOp op = { now, pass < k ? PSI_TOKEN_FORWARD : PSI_TOKEN_BACKWARD, part, b };

        if (time > G_MAXINT64 / 8 / (gint64) n / (gint64) (2 * k * (guint64) m))
          {
            g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
                         "a cyclic step of %u workers takes too long to simulate", n);
            return NULL;
          }
        g_array_append_val (ops, op);
        if (pass < k && b == 0)
          first[part] = now;
        now += time * n;
        end[part] = now;
        if (pass >= k)
          longest = MAX (longest, m * n * (slots ? 2 : shape->forward_ps[part] + shape->backward_ps[part]));
      }
  gint64 spacing = now / n;
  if (shape->placement == PSI_PLACEMENT_STAGE)
    spacing = MAX (spacing, longest);
  gint64 period = spacing * n;

  gboolean shared_stages = shape->placement == PSI_PLACEMENT_SHARED && shape->by_stage;
  guint n_ranks = shared_stages                              ? n * k
                  : shape->placement == PSI_PLACEMENT_STAGE  ? k
                  : shape->placement == PSI_PLACEMENT_SHARED ? 1
                                                             : n;
  guint n_chunks = shape->by_stage ? 1 : k;
  PsiSchedule *schedule = psi_schedule_new (n_ranks, n_chunks, m * n);
  schedule->n_parts = k;
  for (guint r = 0; r < n_ranks; r++)
    for (guint c = 0; c < n_chunks; c++)
      schedule->parts[c * n_ranks + r] = !shape->by_stage ? c : shared_stages ? r / n : r;
  schedule->n_workers = n;
  schedule->worker_micro_batches = m;
  schedule->one_worker = shared_stages || (n_ranks == n && !shape->by_stage);
  schedule->spacing_ps = spacing / n;
  schedule->stale = g_new0 (guint8, n * k);
  schedule->first_use_ps = g_new0 (gint64, n * k);
  schedule->pool = shared_stages ? g_new0 (guint, k) : NULL;

  schedule->lifetime_ps = g_new0 (gint64, k);
  schedule->forward_ps = g_new0 (gint64, k);
  schedule->backward_ps = g_new0 (gint64, k);
  schedule->period_ps = period / n;
  for (guint j = 0; j < k; j++)
    {
      schedule->lifetime_ps[j] = (end[j] - first[j]) / n;
      schedule->forward_ps[j] = slots ? 1 : shape->forward_ps[j];
      schedule->backward_ps[j] = slots ? 1 : shape->backward_ps[j];
      if (schedule->pool != NULL)
        schedule->pool[j] = MIN (n, (guint) ((end[j] - first[j] + spacing - 1) / MAX (spacing, 1)));
      for (guint i = 0; i < n; i++)
        {
          gint64 use = i * spacing + first[j];

          schedule->stale[i * k + j] = n > 1 && (shape->delayed || use < (n - 1) * spacing + end[j] - period);
          schedule->first_use_ps[i * k + j] = use / n;
        }
    }

  g_autoptr (GArray) merged = g_array_new (FALSE, FALSE, sizeof (Merged));
  for (guint i = 0; i < n; i++)
    for (guint o = 0; o < ops->len; o++)
      {
        const VirtualOp *op = &g_array_index (ops, VirtualOp, o);
        gint64 time = i * spacing + op->time;
        Merged row = { .rank = shared_stages ? op->part * n + i : shape->by_stage ? op->part : n_ranks == 1 ? 0 : i };

        row.token = (PsiToken){ .kind = op->kind,
                                .chunk = (gint16) (shape->by_stage ? 0 : op->part),
                                .micro_batch = (gint32) (i * m + op->micro_batch) };
        /* A rank of one worker keeps its own order; merged lists fold into the period. */
        if (n_ranks == n && !shape->by_stage)
          row.time = op->time;
        else if (shared_stages)
          row.time = op->time;
        else
          {
            row.time = period > 0 ? time % period : o;
            row.token.shift = (guint8) (period > 0 ? time / period : 0);
          }
        g_array_append_val (merged, row);
      }
  if (period > 0)
    g_array_sort (merged, compare_merged);
  for (guint o = 0; o < merged->len; o++)
    {
      const Merged *row = &g_array_index (merged, Merged, o);

      g_array_append_val (schedule->lists[row->rank], row->token);
    }
  while (schedule->spacing_token + 1 < ops->len &&
         g_array_index (ops, VirtualOp, schedule->spacing_token + 1).time < spacing)
    schedule->spacing_token++;
  return schedule;
}

const PsiScheduleKind psi_schedule_cyclic = {
  .name = "cyclic",
  .summary = "cyclic data parallelism: worker i runs i T/N later, memory is constant",
  .cyclic = TRUE,
  .build = build,
};
