/* SPDX-License-Identifier: MIT */
#include "critical-path.h"

#include <stdlib.h>

#define STEP_BEGINS "the step before is over"
#define IN_ORDER "the GPU is free"
#define OTHER_RANK "that rank was waited for"
#define OTHER_STREAM "what it needs is there"
#define NOT_KNOWN "not known"

static guint
kind_of (const PsiOp *op)
{
  if (op == NULL || op->tag == PSI_TAG_TURN)
    return PSI_CRITICAL_WAITING;
  if (op->tag >= PSI_TAG_TRAFFIC)
    return PSI_CRITICAL_TRAFFIC + op->tag - PSI_TAG_TRAFFIC;
  return op->tag == PSI_TAG_RECOMPUTE   ? PSI_CRITICAL_RECOMPUTE
         : op->tag == PSI_TAG_OPTIMIZER ? PSI_CRITICAL_OPTIMIZER
                                        : PSI_CRITICAL_COMPUTE;
}

static const char *
what_is (const PsiOp *op)
{
  static const char *const works[] = { [PSI_TAG_FORWARD] = "forward",
                                       [PSI_TAG_BACKWARD] = "backward",
                                       [PSI_TAG_WEIGHT] = "weight",
                                       [PSI_TAG_RECOMPUTE] = "backward", /* its layer's backward follows */
                                       [PSI_TAG_OPTIMIZER] = "optimizer" };

  return op != NULL && op->tag < PSI_TAG_TURN ? works[op->tag] : psi_critical_kind_name (kind_of (op));
}

/* Is it a collective between two stretches of a layer's work? */
static gboolean
is_inside_pass (const PsiOp *op, guint stream)
{
  return op != NULL && op->kind == PSI_OP_COLLECTIVE && stream == PSI_STREAM_COMPUTE && op->label[0] >= 0;
}

/* Does the op go on with what the segment does? */
static gboolean
continues (const PsiCriticalSegment *segment, const PsiOp *op, guint stream, guint rank)
{
  if (op == NULL || segment->rank != rank || segment->stream != stream || segment->micro_batch != op->label[0])
    return FALSE;
  if (is_inside_pass (op, stream) && segment->what != psi_critical_kind_name (PSI_CRITICAL_WAITING))
    return segment->part == op->label[1];
  /* Updates of all layers of a rank are one segment. */
  return segment->what == what_is (op) && (segment->part == op->label[1] || op->tag == PSI_TAG_OPTIMIZER);
}

static void
add_layer (PsiCriticalSegment *segment, gint32 layer)
{
  if (layer < 0)
    return;
  segment->first_layer = segment->first_layer < 0 ? layer : MIN (segment->first_layer, layer);
  segment->last_layer = MAX (segment->last_layer, layer);
}

static guint
first_gpu_of_pool (const PsiStep *step, const PsiStepRank *rank)
{
  guint gpu = 0;

  for (int j = 0; j < rank->stage; j++)
    gpu += step->schedule->pool[j] * rank->count;
  return gpu;
}

static const PsiStepRank *
step_rank_of (const PsiStep *step, PsiRankId id)
{
  for (guint r = 0; r < step->n_ranks; r++)
    if (step->ranks[(id + r) % step->n_ranks].id == id)
      return &step->ranks[(id + r) % step->n_ranks];
  g_assert_not_reached ();
}

static int
compare_ranks (gconstpointer a, gconstpointer b)
{
  const PsiCriticalRank *x = a, *y = b;

  if (x->time_ps != y->time_ps)
    return x->time_ps > y->time_ps ? -1 : 1;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

static void
sum_up (PsiCriticalPath *path)
{
  g_autoptr (GHashTable) rows = g_hash_table_new (NULL, NULL); /* rank -> index + 1 */

  for (guint i = 0; i < path->segments->len; i++)
    {
      const PsiCriticalSegment *segment = &g_array_index (path->segments, PsiCriticalSegment, i);
      guint row = GPOINTER_TO_UINT (g_hash_table_lookup (rows, GUINT_TO_POINTER (segment->rank)));

      if (row == 0)
        {
          const PsiCriticalRank rank = { .rank = segment->rank, .stage = segment->stage };

          g_array_append_val (path->ranks, rank);
          row = path->ranks->len;
          g_hash_table_insert (rows, GUINT_TO_POINTER (segment->rank), GUINT_TO_POINTER (row));
        }
      g_array_index (path->ranks, PsiCriticalRank, row - 1).time_ps += segment->duration_ps;
    }
  g_array_sort (path->ranks, compare_ranks);
}

PsiCriticalPath *
psi_critical_path_new (const PsiStep *step, const PsiRun *run)
{
  PsiCriticalPath *path = g_new0 (PsiCriticalPath, 1);
  g_autoptr (GArray) ops = psi_critical_path (step->world, run);
  PsiTime first_ps = ops->len > 0 ? g_array_index (ops, PsiCriticalOp, 0).start_ps : 0;

  path->ranks = g_array_new (FALSE, FALSE, sizeof (PsiCriticalRank));
  path->segments = g_array_new (FALSE, FALSE, sizeof (PsiCriticalSegment));
  path->duration_ps = run->period_ps;
  path->origin_ps = first_ps;
  for (guint i = 0; i < ops->len; i++)
    {
      const PsiCriticalOp *at = &g_array_index (ops, PsiCriticalOp, i);
      const PsiStepRank *rank = step_rank_of (step, at->rank);
      const PsiOp *op = at->op != PSI_OP_NONE ? psi_program_op (rank->program, at->op) : NULL;
      guint stream = op != NULL ? PSI_OP_STREAM (at->op) : 0, kind = kind_of (op);
      guint gpu = step->schedule->pool != NULL ? first_gpu_of_pool (step, rank) : rank->first_gpu;
      PsiTime took_ps = at->end_ps - at->start_ps;
      PsiCriticalSegment *before =
          i > 0 ? &g_array_index (path->segments, PsiCriticalSegment, path->segments->len - 1) : NULL;

      if (before == NULL || !continues (before, op, stream, gpu))
        {
          PsiCriticalSegment segment = { .rank = gpu,
                                         .stage = rank->stage,
                                         .what = what_is (op),
                                         .micro_batch = op != NULL ? op->label[0] : -1,
                                         .part = op != NULL ? op->label[1] : -1,
                                         .first_layer = -1,
                                         .last_layer = -1,
                                         .start_ps = at->start_ps - first_ps,
                                         .from_rank = before != NULL ? before->rank : gpu,
                                         .stream = (guint8) stream };

          segment.reason = op == NULL                         ? NOT_KNOWN
                           : before == NULL                   ? STEP_BEGINS
                           : before->rank != gpu              ? OTHER_RANK
                           : before->stream != segment.stream ? OTHER_STREAM
                                                              : IN_ORDER;
          g_array_append_val (path->segments, segment);
          before = &g_array_index (path->segments, PsiCriticalSegment, path->segments->len - 1);
        }
      before->duration_ps += took_ps;
      before->n_ops++;
      if (op != NULL)
        add_layer (before, op->label[2]);
      if (kind >= PSI_CRITICAL_TRAFFIC && kind < PSI_CRITICAL_WAITING)
        before->communication_ps += took_ps;
      before->shared_ps += at->shared_ps;
      path->shared_ps += at->shared_ps;
      path->kind_ps[kind] += took_ps;
    }
  sum_up (path);
  return path;
}

static gint64
scaled (gint64 time_ps, gint64 from_ps, gint64 to_ps)
{
  return (gint64) ((long double) time_ps / (long double) from_ps * (long double) to_ps);
}

void
psi_critical_path_stretch (PsiCriticalPath *path, gint64 to_ps)
{
  gint64 from_ps = path->duration_ps, left_ps = to_ps;
  guint largest = 0;

  if (from_ps <= 0)
    return;
  for (guint i = 0; i < path->segments->len; i++)
    {
      PsiCriticalSegment *segment = &g_array_index (path->segments, PsiCriticalSegment, i);
      gint64 end_ps = segment->start_ps + segment->duration_ps;

      segment->start_ps = scaled (segment->start_ps, from_ps, to_ps);
      segment->duration_ps = (end_ps == from_ps ? to_ps : scaled (end_ps, from_ps, to_ps)) - segment->start_ps;
      segment->communication_ps = MIN (scaled (segment->communication_ps, from_ps, to_ps), segment->duration_ps);
      segment->shared_ps = scaled (segment->shared_ps, from_ps, to_ps);
    }
  for (guint kind = 0; kind < PSI_N_CRITICAL; kind++)
    {
      path->kind_ps[kind] = scaled (path->kind_ps[kind], from_ps, to_ps);
      left_ps -= path->kind_ps[kind];
      if (path->kind_ps[kind] > path->kind_ps[largest])
        largest = kind;
    }
  path->kind_ps[largest] += left_ps;
  path->shared_ps = scaled (path->shared_ps, from_ps, to_ps);
  path->duration_ps = to_ps;
  g_array_set_size (path->ranks, 0);
  sum_up (path);
}
