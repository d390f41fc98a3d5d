/* SPDX-License-Identifier: MIT */
/* A run knows the times of one iteration, the ops of which may belong to several steps. A micro-batch passes its stages
 * in a known order (forward, up the stages; backward, down; the weight half after the input half), so each op is moved
 * by whole periods until it follows the one before: that gives the first step as it would run from an empty start, and
 * step s lies s periods later. */
#include "grid-private.h"

#include <math.h>

#define STEADY_STEPS 3 /* after so many a step that takes up to two periods repeats */

/* Position of an op in the passage of its micro-batch. */
static guint
passage (const PsiGridOp *op, guint n_stages)
{
  guint stage = (guint) op->stage;

  return op->kind == PSI_SPAN_FORWARD ? stage : n_stages + 2 * (n_stages - 1 - stage) + (op->kind == PSI_SPAN_WEIGHT);
}

static int
compare_passage (gconstpointer a, gconstpointer b, gpointer n_stages)
{
  const PsiGridOp *x = a, *y = b;
  guint first = passage (x, GPOINTER_TO_UINT (n_stages)), second = passage (y, GPOINTER_TO_UINT (n_stages));

  if (x->micro_batch != y->micro_batch)
    return x->micro_batch < y->micro_batch ? -1 : 1;
  return (first > second) - (first < second);
}

static guint
kind_of (guint tag)
{
  return tag == PSI_TAG_FORWARD ? PSI_SPAN_FORWARD : tag == PSI_TAG_BACKWARD ? PSI_SPAN_BACKWARD : PSI_SPAN_WEIGHT;
}

/* The time of the pass that begins at op `at` and goes through all layers of a part; *ret_end is the op behind it. */
static PsiTime
pass_ps (const GArray *stream, const PsiOpTimes *times, guint at, guint *ret_end)
{
  const PsiOp *first = &g_array_index (stream, PsiOp, at);
  PsiTime sum_ps = 0;

  for (; at < stream->len; at++)
    {
      const PsiOp *op = &g_array_index (stream, PsiOp, at);

      if (psi_op_is_work (op) &&
          (op->tag != first->tag || op->label[0] != first->label[0] || op->label[1] != first->label[1]))
        break;
      if (psi_op_is_work (op))
        sum_ps += times[at].end_ps - times[at].start_ps;
    }
  *ret_end = at;
  return sum_ps;
}

/* The passes of one rank; its GPUs are drawn in rows from `first_row` on, one for each replica, or for each GPU of a
 * pool. A stage is a layer, and the layers of a part take equally long: a part of several is cut by time. */
static void
collect_ops (PsiGrid *grid, const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, guint first_row,
             guint copies, guint replica, guint pool)
{
  const PsiOpTimes *times = run->times + run->first_op[rank->id];
  const GArray *stream = rank->program->streams[PSI_STREAM_COMPUTE];
  guint pass_end = 0;
  PsiTime whole_ps = 0, done_ps = 0;
  int layer_before = -1;

  for (guint i = 0; i < stream->len; i++)
    {
      const PsiOp *work = &g_array_index (stream, PsiOp, i);
      PsiTime length_ps = times[i].end_ps - times[i].start_ps;

      if (!psi_op_is_work (work) || work->tag > PSI_TAG_WEIGHT || length_ps == 0)
        continue;
      if (i >= pass_end)
        {
          whole_ps = pass_ps (stream, times, i, &pass_end);
          done_ps = 0;
          layer_before = -1;
        }
      guint first = step->partition.first[work->label[1]], n_layers = step->partition.first[work->label[1] + 1] - first;
      guint nth = (guint) (done_ps * n_layers / MAX (whole_ps, 1));
      guint layer = work->tag == PSI_TAG_FORWARD ? first + nth : first + n_layers - 1 - nth;
      done_ps += length_ps;
      if ((int) layer == layer_before)
        {
          for (guint c = 1; c <= copies; c++)
            g_array_index (grid->ops, PsiGridOp, grid->ops->len - c).end_ps = times[i].end_ps;
          continue;
        }
      layer_before = (int) layer;
      PsiGridOp op = { .start_ps = times[i].start_ps,
                       .end_ps = times[i].end_ps,
                       .kind = (guint8) kind_of (work->tag),
                       .stage = (gint32) layer,
                       .pool = pool };
      grid->n_stages = MAX (grid->n_stages, layer + 1);
      for (guint c = 0; c < copies; c++)
        {
          op.gpu = first_row + c;
          op.micro_batch = (gint32) (work->label[0] + (replica + c) * (guint) step->schedule->micro_batches);
          grid->n_micro_batches = MAX (grid->n_micro_batches, (guint) op.micro_batch + 1);
          g_array_append_val (grid->ops, op);
        }
    }
}

/* Ranks as the report groups them: the workers of a pool share its GPUs. */
static void
collect_ranks (PsiGrid *grid, const PsiStep *step, const PsiRun *run)
{
  const PsiPlan *plan = step->plan;
  const guint *pool = step->schedule->pool;
  guint replicas = plan->cyclic || plan->keeps_all ? 1 : plan->dp, unit = MAX (plan->tp * plan->cp, 1);
  guint next_gpu = 0;

  for (guint r = 0; r < step->n_ranks;)
    {
      const PsiStepRank *rank = &step->ranks[r];
      guint members = pool != NULL ? step->schedule->n_workers : 1, first_row = grid->gpu_rows->len;
      guint copies = replicas > 1 ? MAX (rank->count / unit, 1) : 1;
      guint rows = pool != NULL ? pool[rank->stage] : copies;
      guint first_gpu = pool != NULL ? next_gpu : rank->first_gpu;

      for (guint i = 0; i < rows; i++)
        {
          PsiGpuRow row = { first_gpu + i * unit, first_gpu + (i + 1) * unit - 1 };
          g_array_append_val (grid->gpu_rows, row);
        }
      for (guint m = 0; m < members; m++)
        collect_ops (grid, step, run, &rank[m], first_row, copies, replicas > 1 ? rank->dp_index : 0,
                     pool != NULL ? rows : 1);
      next_gpu += rows * unit;
      r += members;
    }
}

/* Times count from the first forward of the first micro-batch, and lie within one period from there. */
static void
move_origin (PsiGrid *grid)
{
  for (guint i = 0; i < grid->ops->len && grid->period_ps > 0; i++)
    {
      PsiGridOp *op = &g_array_index (grid->ops, PsiGridOp, i);
      PsiTime start_ps = (op->start_ps - grid->origin_ps) % grid->period_ps;

      if (start_ps < 0)
        start_ps += grid->period_ps;
      op->end_ps = start_ps + op->end_ps - op->start_ps;
      op->start_ps = start_ps;
    }
}

static void
unroll_ops (PsiGrid *grid)
{
  g_array_sort_with_data (grid->ops, compare_passage, GUINT_TO_POINTER (grid->n_stages));
  grid->origin_ps = grid->ops->len > 0 ? g_array_index (grid->ops, PsiGridOp, 0).start_ps : 0;
  move_origin (grid);
  gint64 before_ps = 0;
  for (guint i = 0; i < grid->ops->len; i++)
    {
      PsiGridOp *op = &g_array_index (grid->ops, PsiGridOp, i);
      gboolean is_first = i == 0 || op[-1].micro_batch != op->micro_batch;

      if (!is_first && op->start_ps < before_ps && grid->period_ps > 0)
        {
          gint64 shift_ps = (before_ps - op->start_ps + grid->period_ps - 1) / grid->period_ps * grid->period_ps;
          op->start_ps += shift_ps;
          op->end_ps += shift_ps;
        }
      /* The next stage does not wait for a weight half. */
      if (op->kind != PSI_SPAN_WEIGHT)
        before_ps = op->end_ps;
    }
  for (guint i = 0; i < grid->ops->len; i++)
    for (guint k = i + 1; k < grid->ops->len; k++)
      {
        PsiGridOp *op = &g_array_index (grid->ops, PsiGridOp, i);
        const PsiGridOp *later = &g_array_index (grid->ops, PsiGridOp, k);

        if (later->micro_batch != op->micro_batch)
          break;
        if (op->kind == PSI_SPAN_FORWARD && later->kind != PSI_SPAN_FORWARD && later->stage == op->stage)
          op->freed_ps = MAX (op->freed_ps, later->end_ps);
      }
}

static void
collect_traffic (PsiGrid *grid, const PsiStep *step, const PsiRun *run)
{
  for (guint r = 0; r < step->n_ranks; r++)
    {
      const PsiStepRank *rank = &step->ranks[r];
      const PsiOpTimes *times = run->times + run->first_op[rank->id];

      for (guint s = 0; s < rank->program->n_streams; s++)
        for (guint i = 0; i < rank->program->streams[s]->len; i++, times++)
          {
            const PsiOp *op = &g_array_index (rank->program->streams[s], PsiOp, i);
            if (psi_op_is_work (op))
              continue;
            const PsiTransferInfo *info = &g_array_index (step->infos, PsiTransferInfo, op->transfer);
            if (info->sent_bytes == 0)
              continue;
            /* The slot that ends when the message begins. */
            double at = (double) (times->start_ps - grid->origin_ps) / (double) grid->slot_ps - 1e-3;
            guint column = (guint) fmod (floor (at) + 1024.0 * grid->period_columns, grid->period_columns);
            if (grid->sent_bytes[info->traffic] == NULL)
              grid->sent_bytes[info->traffic] = g_new0 (double, grid->period_columns);
            grid->sent_bytes[info->traffic][column] += (double) info->sent_bytes * rank->count;
          }
    }
}

PsiGrid *
psi_grid_new (const PsiStep *step, const PsiRun *run, guint n_steps)
{
  PsiGrid *grid = g_new0 (PsiGrid, 1);
  gint64 end_ps = 0;

  grid->ops = g_array_new (FALSE, FALSE, sizeof (PsiGridOp));
  grid->gpu_rows = g_array_new (FALSE, FALSE, sizeof (PsiGpuRow));
  grid->period_ps = run->period_ps;
  grid->slot_ps = MAX (run->period_ps, 1);
  grid->n_steps = n_steps > 0 ? n_steps : STEADY_STEPS;
  collect_ranks (grid, step, run);
  for (guint i = 0; i < grid->ops->len; i++)
    {
      const PsiGridOp *op = &g_array_index (grid->ops, PsiGridOp, i);
      grid->slot_ps = MIN (grid->slot_ps, op->end_ps - op->start_ps);
    }
  unroll_ops (grid);
  for (guint i = 0; i < grid->ops->len; i++)
    end_ps = MAX (end_ps, g_array_index (grid->ops, PsiGridOp, i).end_ps);
  grid->period_columns = MAX (psi_grid_column (grid, grid->period_ps), 1);
  grid->n_columns = psi_grid_column (grid, end_ps + (grid->n_steps - 1) * grid->period_ps);
  if (n_steps == 0)
    {
      grid->first_column = (STEADY_STEPS - 1) * grid->period_columns;
      grid->n_columns = STEADY_STEPS * grid->period_columns;
    }
  collect_traffic (grid, step, run);
  return grid;
}

void
psi_grid_free (PsiGrid *grid)
{
  if (grid == NULL)
    return;
  g_array_unref (grid->ops);
  g_array_unref (grid->gpu_rows);
  for (guint t = 0; t < PSI_N_TRAFFIC; t++)
    g_free (grid->sent_bytes[t]);
  g_free (grid);
}
