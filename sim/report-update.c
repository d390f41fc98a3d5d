/* SPDX-License-Identifier: MIT */
/* How late gradients are, and rows of ranks that run at paces of their own.
 *
 *   delay      cyclic orders: steps, from the schedule, each worker and part alike; asynchronous workers: updates of
 *              others between two of a worker's own, as they came about in the run
 *   versions   asynchronous workers: each computes with another one
 *   traffic    a rank with pace T does P / T iterations in a step of P = N / sum 1 / T_k: its traffic counts so often
 *   peaks      nothing keeps such ranks apart, so their peaks (activations, bytes on links) are taken to meet: sums */
#include "report-update.h"

#define MOST_ITERATIONS 12 /* of the fastest rank in a picture */

static int
compare_lags (gconstpointer a, gconstpointer b)
{
  const guint32 *x = a, *y = b;

  return (*x > *y) - (*x < *y);
}

/* `lags` is sorted in place. */
static void
fill_delay (PsiPlanReport *plan, guint32 *lags, gsize n)
{
  double sum = 0;

  if (n == 0)
    return;
  qsort (lags, n, sizeof *lags, compare_lags);
  for (gsize i = 0; i < n; i++)
    sum += lags[i];
  plan->delay_mean = sum / (double) n;
  plan->delay_p90 = lags[(9 * n + 9) / 10 - 1];
  plan->delay_max = lags[n - 1];
}

void
psi_report_fill_update (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run)
{
  const PsiSchedule *schedule = step->schedule;
  gsize n = step->plan->cyclic ? (gsize) schedule->n_workers * schedule->n_parts : run->n_lags;
  g_autofree guint32 *lags = g_new (guint32, n + 1);

  plan->update_rule = g_strdup (psi_update_names[step->plan->update]);
  plan->parameter_versions = step->plan->asynchronous ? step->plan->dp : 1;
  for (gsize i = 0; i < n; i++)
    lags[i] = step->plan->cyclic ? schedule->stale[i] : run->lags[i];
  fill_delay (plan, lags, n);
  for (guint part = 0; part < schedule->n_parts && step->plan->cyclic; part++)
    plan->parameter_versions = MAX (plan->parameter_versions, psi_step_versions (step, part));
  if (step->plan->asynchronous)
    g_ptr_array_add (
        plan->assumptions,
        g_strdup_printf ("workers begin evenly spread; a step is the mean time of %u updates, delays count "
                         "updates; the server updates beside the work of its own GPU, without buffers for what "
                         "arrives; the worker of that GPU sends nothing, so where links are slow it makes more of the "
                         "updates than the others",
                         step->plan->dp));
}

gint64
psi_report_per_step (const PsiRun *run, PsiRankId rank, gint64 bytes)
{
  if (run->paces_ps == NULL || run->paces_ps[rank] <= 0)
    return bytes;
  return (gint64) ((double) bytes * ((double) run->period_ps / (double) run->paces_ps[rank]) + 0.5);
}

void
psi_report_add_served (PsiPlanReport *plan, gint64 bytes)
{
  PsiRankReport *root = &g_array_index (plan->ranks, PsiRankReport, 0);

  root->sent_bytes += bytes;
  plan->total_bytes += bytes * root->count;
  plan->per_gpu_max_bytes = MAX (plan->per_gpu_max_bytes, root->sent_bytes);
}

static int
compare_spans (gconstpointer a, gconstpointer b)
{
  const PsiSpan *x = a, *y = b;

  if (x->track != y->track)
    return x->track < y->track ? -1 : 1;
  return (x->start_ps > y->start_ps) - (x->start_ps < y->start_ps);
}

/* Layers of one pass that a fold has put apart are one span again. */
static void
join_spans (GArray *spans)
{
  guint n = 0;

  g_array_sort (spans, compare_spans);
  for (guint i = 0; i < spans->len; i++)
    {
      const PsiSpan *span = &g_array_index (spans, PsiSpan, i);
      PsiSpan *before = n > 0 ? &g_array_index (spans, PsiSpan, n - 1) : NULL;

      if (before != NULL && before->track == span->track && before->kind == span->kind &&
          before->micro_batch == span->micro_batch && before->stage == span->stage && before->end_ps == span->start_ps)
        before->end_ps = span->end_ps;
      else
        g_array_index (spans, PsiSpan, n++) = *span;
    }
  g_array_set_size (spans, n);
}

static void
repeat_spans (PsiRankReport *row, PsiTime pace_ps, PsiTime window_ps)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (PsiSpan));

  for (PsiTime shift_ps = -pace_ps; shift_ps < window_ps; shift_ps += pace_ps)
    for (guint i = 0; i < row->spans->len; i++)
      {
        PsiSpan span = g_array_index (row->spans, PsiSpan, i);

        span.start_ps = MAX (span.start_ps + shift_ps, 0);
        span.end_ps = MIN (span.end_ps + shift_ps, window_ps);
        if (span.start_ps < span.end_ps)
          g_array_append_val (all, span);
      }
  join_spans (all);
  g_array_unref (row->spans);
  row->spans = all;
}

static void
repeat_memory (PsiRankReport *row, PsiTime pace_ps, PsiTime step_ps)
{
  guint n = row->memory->len;

  for (PsiTime shift_ps = pace_ps; shift_ps < step_ps; shift_ps += pace_ps)
    for (guint i = 0; i < n; i++)
      {
        PsiMemoryPoint point = g_array_index (row->memory, PsiMemoryPoint, i);

        point.time_ps += shift_ps;
        g_array_append_val (row->memory, point);
      }
  while (row->memory->len > 1 && g_array_index (row->memory, PsiMemoryPoint, row->memory->len - 1).time_ps >= step_ps)
    g_array_set_size (row->memory, row->memory->len - 1);
}

void
psi_report_repeat (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run)
{
  PsiTime shortest_ps = PSI_TIME_MAX, longest_ps = 1;

  if (run->paces_ps == NULL || run->period_ps <= 0)
    return;
  for (guint r = 0; r < step->n_ranks; r++)
    {
      shortest_ps = MIN (shortest_ps, MAX (run->paces_ps[step->ranks[r].id], 1));
      longest_ps = MAX (longest_ps, run->paces_ps[step->ranks[r].id]);
    }
  plan->window_ps = MAX (run->period_ps, MIN (2 * longest_ps, MOST_ITERATIONS * shortest_ps));
  for (guint r = 0; r < plan->ranks->len; r++)
    {
      PsiRankReport *row = &g_array_index (plan->ranks, PsiRankReport, r);
      PsiTime pace_ps = MAX (psi_run_fold_ps (run, step->ranks[r].id), 1);

      if (row->spans != NULL)
        repeat_spans (row, pace_ps, plan->window_ps);
      if (row->memory != NULL && row->memory->len > 0)
        repeat_memory (row, pace_ps, run->period_ps);
    }
}
