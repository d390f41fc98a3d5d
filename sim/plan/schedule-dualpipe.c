/* SPDX-License-Identifier: MIT */
/* DualPipe: half of the micro-batches go down the ranks, half go up; every rank holds two parts, so each part has two
 * copies. A forward of one direction is overlapped with a backward of the other (F4+B1.1).
 *
 *   period    m (F + B) + (p / 2 - 1)(FB + B - 3 W)         p even, m even, m >= 2 p;  B = I + W
 *             at F = I; else within (p / 2 - 1) |F - I| of it
 *             FB = F + B: what an overlapped pair takes when overlap hides transfers and nothing else
 *             p = 8, m = 20, F = I = W = 1: 66, of which each rank waits 6
 *   in flight at most p + 1 on every rank; parameters twice; transfers 2 m (p - 1); delay 0
 *   every step the gradients of the two copies of a part are summed
 *
 * F, I, W: times of one part for one micro-batch. Equal parts, free transfers. Source: DeepSeek-V3, arXiv 2412.19437,
 * section 3.2.1; the counts of each phase as in deepseek-ai/DualPipe (dualpipe.py). */
#include "schedule-zb.h"

typedef struct
{
  PsiSchedule *schedule;
  const PsiTwoWays *ways;
  gint64 forward[2], backward[2];
  GQueue late; /* weight halves that wait: direction | number << 1 */
} Writer;

static void
forward (Writer *w, guint way)
{
  psi_schedule_add (w->schedule, w->ways->rank, PSI_TOKEN_FORWARD, w->ways->first[way] + w->forward[way]++,
                    w->ways->chunk[way]);
}

static void
backward (Writer *w, guint way, gboolean joined)
{
  (joined ? psi_schedule_add_joined : psi_schedule_add) (w->schedule, w->ways->rank, PSI_TOKEN_BACKWARD,
                                                         w->ways->first[way] + w->backward[way]++, w->ways->chunk[way]);
}

static void
input_half (Writer *w, guint way)
{
  gint64 number = w->backward[way]++;

  psi_schedule_add (w->schedule, w->ways->rank, PSI_TOKEN_BACKWARD_INPUT, w->ways->first[way] + number,
                    w->ways->chunk[way]);
  g_queue_push_tail (&w->late, GSIZE_TO_POINTER ((gsize) number << 1 | way));
}

static void
weight_half (Writer *w)
{
  gsize entry = GPOINTER_TO_SIZE (g_queue_pop_head (&w->late));

  psi_schedule_add (w->schedule, w->ways->rank, PSI_TOKEN_BACKWARD_WEIGHT,
                    w->ways->first[entry & 1] + (gint64) (entry >> 1), w->ways->chunk[entry & 1]);
}

void
psi_schedule_add_two_ways (PsiSchedule *schedule, const PsiTwoWays *ways)
{
  guint depth = ways->depth, behind = ways->n_depths - ways->depth - 1;
  Writer w = { .schedule = schedule, .ways = ways, .late = G_QUEUE_INIT };

  for (guint i = 0; i < 2 * behind; i++)
    forward (&w, 0);
  for (guint i = 0; i <= depth; i++)
    {
      forward (&w, 0);
      forward (&w, 1);
    }
  for (guint i = 0; i < behind; i++)
    {
      input_half (&w, 1);
      weight_half (&w);
      forward (&w, 1);
    }
  for (gint64 i = 0; i < ways->n - 2 * (gint64) ways->n_depths + depth + 1; i++)
    {
      forward (&w, 0);
      backward (&w, 1, i > 0 || behind > 0); /* where the directions meet the first pair is not overlapped */
      forward (&w, 1);
      backward (&w, 0, TRUE);
    }
  for (guint i = 0; i < behind; i++)
    {
      backward (&w, 1, FALSE);
      forward (&w, 1);
      backward (&w, 0, TRUE);
    }
  for (guint i = 0; i <= depth; i++) /* the second half of these splits its backwards */
    for (guint way = 2; way > 0; way--)
      if (2 * i + (2 - way) < 2 * ((depth + 1) / 2) + (depth % 2 == 0 ? 1 : 0))
        backward (&w, way - 1, FALSE);
      else
        input_half (&w, way - 1);
  for (guint i = 0; i < behind; i++)
    {
      weight_half (&w);
      input_half (&w, 0);
    }
  while (!g_queue_is_empty (&w.late))
    weight_half (&w);
}

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  guint p = shape->ranks;
  gint64 m = shape->micro_batches;
  PsiSchedule *schedule;

  if (shape->chunks != 2 || p % 2 != 0 || m % 2 != 0 || m < 2 * (gint64) p)
    {
      g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
                   "schedule 'dualpipe' needs an even number of ranks, not %u, an even number of micro-batches of at "
                   "least 2 x ranks, not %" G_GINT64_FORMAT ", and vpp 2, not %u",
                   p, m, shape->chunks);
      return NULL;
    }
  schedule = psi_schedule_new (p, 2, m);
  schedule->n_parts = p;
  for (guint r = 0; r < p; r++)
    {
      gboolean upper = r >= p / 2; /* nearer to where the way up begins */
      PsiTwoWays ways = { .rank = r,
                          .depth = upper ? p - 1 - r : r,
                          .n_depths = p / 2,
                          .n = m / 2,
                          .first = { upper ? m / 2 : 0, upper ? 0 : m / 2 },
                          .chunk = { upper ? 1 : 0, upper ? 0 : 1 } };

      schedule->parts[p + r] = p - 1 - r;
      psi_schedule_add_two_ways (schedule, &ways);
    }
  psi_schedule_find_places (schedule);
  return schedule;
}

const PsiScheduleKind psi_schedule_dualpipe = {
  .name = "dualpipe",
  .summary = "bidirectional pipeline: micro-batches from both ends, forward and backward overlapped; parameters twice",
  .chunks = 2,
  .copies = 2,
  .build = build,
};
