/* SPDX-License-Identifier: MIT */
/* How fast an order of stages runs:
 *
 *   end of op = max (end of the op before it on its stage, end of the worker's op before it) + its time
 *
 * repeated, until what is left of the start no longer counts. The order is that of the virtual times modulo the period,
 * backwards first on a tie, as the schedule has it. */
#include "cyclic-timeline.h"

#include <stdlib.h>

#define REPETITIONS 64
#define STEPS_KEPT 4 /* a worker's op lies at most two periods behind the first op of its step */

typedef struct
{
  gint64 time;
  gint64 cost_ps;
  guint stage, shift;
  guint index; /* of the step: worker, then op */
  gboolean is_first;
} PacedOp;

static int
compare_ops (const void *a, const void *b)
{
  const PacedOp *x = a, *y = b;

  return x->time != y->time ? (x->time > y->time) - (x->time < y->time) : (x->index > y->index) - (x->index < y->index);
}

double
psi_cyclic_timeline_pace_ps (const PsiCyclicTimeline *timeline, const PsiScheduleShape *shape)
{
  guint n = shape->workers, n_worker_ops = timeline->ops->len, n_ops = n * n_worker_ops;
  g_autofree PacedOp *ops = g_new (PacedOp, n_ops);
  g_autofree gint64 *ends = g_new0 (gint64, (gsize) n_ops * STEPS_KEPT), *free_ps = g_new0 (gint64, shape->stages);
  gint64 half_ps = 0, all_ps = 0;

  for (guint i = 0; i < n; i++)
    for (guint o = 0; o < n_worker_ops; o++)
      {
        const PsiVirtualOp *op = &g_array_index (timeline->ops, PsiVirtualOp, o);
        gboolean backward = op->kind == PSI_TOKEN_BACKWARD;
        gint64 time = timeline->start[i] + op->time;

        /* Twice the time, a backward a little earlier: first of those at one time. */
        ops[i * n_worker_ops + o] =
            (PacedOp){ .time = 2 * (time % timeline->period) + !backward,
                       .cost_ps = backward ? shape->backward_ps[op->part] : shape->forward_ps[op->part],
                       .stage = op->part,
                       .shift = (guint) (time / timeline->period),
                       .index = i * n_worker_ops + o,
                       .is_first = o == 0 };
      }
  qsort (ops, n_ops, sizeof *ops, compare_ops);
  for (guint r = 0; r < REPETITIONS; r++)
    {
      for (guint o = 0; o < n_ops; o++)
        {
          const PacedOp *op = &ops[o];
          guint step = (r + STEPS_KEPT - op->shift) % STEPS_KEPT;
          gint64 start_ps = free_ps[op->stage];

          if (!op->is_first)
            start_ps = MAX (start_ps, ends[(gsize) (op->index - 1) * STEPS_KEPT + step]);
          free_ps[op->stage] = ends[(gsize) op->index * STEPS_KEPT + step] = start_ps + op->cost_ps;
          all_ps = MAX (all_ps, free_ps[op->stage]);
        }
      if (r + 1 == REPETITIONS / 2)
        half_ps = all_ps;
    }
  return (double) (all_ps - half_ps) / (REPETITIONS - REPETITIONS / 2);
}
