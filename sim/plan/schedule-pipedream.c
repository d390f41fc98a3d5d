/* SPDX-License-Identifier: MIT */
/* PipeDream: 1F1B that never flushes and stashes weights. Rank r (from 0, of p) has p - r micro-batches under way; each
 * ends on the parameters it began with, and every m of them are one update. m = 1 is the paper's.
 *
 *   period       m max_j (f_j + b_j), no bubble where stages are equal
 *   in flight    p - r on rank r
 *   delay        ceil ((p - 1 - r - i) / m) steps for micro-batch i of a step, 0 if that is negative; m = 1: p - 1 - r
 *   versions     1 + ceil ((p - 1 - r) / m) of stage r; m = 1: p - r
 *   transfers    2 m (p - 1)
 *   update       m = 1: theta_{t+1} = theta_t - g grad f (theta^0_{t-p+1}, theta^1_{t-p+2}, ..., theta^{p-1}_t)
 *
 * Rank r runs F of micro-batch n + p - 1 - r, then B of micro-batch n. Lists begin where the virtual timeline of equal
 * stages has all ranks in the same step, so that none has to run far ahead of the others. With m >= p it is the order
 * of cdp+pp. Source: Narayanan et al., PipeDream, SOSP 2019, sections 3.2 and 3.3 (weight stashing, without vertical
 * sync); several micro-batches to an update as in the update interval of its authors' code. */
#include "schedule.h"

#define MOST_SHIFT 127 /* PsiOp.shift */

typedef struct
{
  gint64 period_ps; /* of one micro-batch */
  gint64 m;
} Stream;

/* Micro-batch i + offset of the stream, offset <= 0. */
static void
add_token (PsiSchedule *schedule, const Stream *stream, guint rank, PsiTokenKind kind, gint64 i, gint64 offset)
{
  gint64 n = i + offset, shift = n < 0 ? (stream->m - 1 - n) / stream->m : 0;

  psi_schedule_add (schedule, rank, kind, n + shift * stream->m, 0);
  g_array_index (schedule->lists[rank], PsiToken, schedule->lists[rank]->len - 1).shift = (guint8) shift;
}

/* What the step builder asks of orders whose steps overlap. */
static void
note_stage (PsiSchedule *schedule, const PsiScheduleShape *shape, const Stream *stream, guint r, gint64 begin_ps)
{
  gint64 late = shape->stages - 1 - r;

  schedule->forward_ps[r] = shape->forward_ps[r];
  schedule->backward_ps[r] = shape->backward_ps[r];
  schedule->lifetime_ps[r] = late * stream->period_ps + MAX (shape->forward_ps[r] + shape->backward_ps[r], 1);
  for (gint64 i = 0; i < stream->m; i++)
    {
      gint64 at = i * shape->stages + r;

      schedule->stale[at] = (guint8) MAX ((late - i + stream->m - 1) / stream->m, 0);
      schedule->first_use_ps[at] = i * stream->period_ps + begin_ps;
    }
}

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  guint p = shape->stages;
  Stream stream = { .m = shape->workers };
  gint64 forward_ps = 1, both_ps = 1, begin_ps = 0; /* of the slowest stage */

  if (p - 1 > MOST_SHIFT * stream.m)
    {
      g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
                   "schedule 'pipedream' looks back at most %d steps: %u ranks need more micro-batches in a step",
                   MOST_SHIFT, p);
      return NULL;
    }
  for (guint r = 0; r < p; r++)
    if (shape->forward_ps[r] + shape->backward_ps[r] > stream.period_ps)
      {
        stream.period_ps = both_ps = shape->forward_ps[r] + shape->backward_ps[r];
        forward_ps = shape->forward_ps[r];
      }
  PsiSchedule *schedule = psi_schedule_new (p, 1, stream.m);
  schedule->n_workers = shape->workers;
  schedule->worker_micro_batches = 1;
  schedule->period_ps = stream.m * stream.period_ps;
  schedule->start_ps = g_new0 (gint64, shape->workers);
  schedule->start_token = g_new0 (guint, shape->workers);
  schedule->stale = g_new0 (guint8, shape->workers * p);
  schedule->first_use_ps = g_new0 (gint64, shape->workers * p);
  schedule->lifetime_ps = g_new0 (gint64, p);
  schedule->forward_ps = g_new0 (gint64, p);
  schedule->backward_ps = g_new0 (gint64, p);
  for (guint i = 0; i < shape->workers; i++)
    schedule->start_ps[i] = i * stream.period_ps;
  /* B of rank r comes (p - 1 - r) backwards after that of the last rank: so many micro-batches earlier in its list. */
  double share = (double) (both_ps - forward_ps) / (double) both_ps;
  gint64 ahead = p - 1 - (gint64) ((p - 1) * share);
  for (guint r = 0; r < p; r++)
    {
      gint64 late = p - 1 - r, back = (gint64) ((double) late * share);

      note_stage (schedule, shape, &stream, r, begin_ps);
      begin_ps += shape->forward_ps[r];
      for (gint64 i = 0; i < stream.m; i++)
        {
          add_token (schedule, &stream, r, PSI_TOKEN_FORWARD, i, late - back - ahead);
          add_token (schedule, &stream, r, PSI_TOKEN_BACKWARD, i, -back - ahead);
        }
    }
  return schedule;
}

const PsiScheduleKind psi_schedule_pipedream = {
  .name = "pipedream",
  .summary =
      "pipeline without a flush: no bubble, an update after each micro-batch, weights stashed for those under way",
  .cyclic = TRUE,
  .build = build,
};
