/* SPDX-License-Identifier: MIT */
#include "cyclic-timeline.h"

#include <stdlib.h>

static int
compare_starts (gconstpointer a, gconstpointer b)
{
  const gint64 *x = a, *y = b;

  return (*x > *y) - (*x < *y);
}

/* Time has to pass from op to op, or their order would mean nothing. */
static gint64
virtual_ps (gint64 ps)
{
  return MAX (ps, 1);
}

/* Worker 0 begins at 0, the others anywhere within the period, at whole ps. */
static void
draw_starts (PsiCyclicTimeline *timeline, guint n, guint64 seed)
{
  guint32 words[] = { (guint32) seed, (guint32) (seed >> 32) };
  GRand *numbers = g_rand_new_with_seed_array (words, G_N_ELEMENTS (words));

  for (guint i = 1; i < n; i++)
    timeline->start[i] = (gint64) (g_rand_double (numbers) * (double) (timeline->period / n)) * n;
  g_rand_free (numbers);
  qsort (timeline->start, n, sizeof *timeline->start, compare_starts);
}

gboolean
psi_cyclic_timeline_init (PsiCyclicTimeline *timeline, const PsiScheduleShape *shape, GError **error)
{
  guint n = shape->workers, k = shape->stages;
  gint64 m = shape->micro_batches, now = 0, longest = 0;

  *timeline = (PsiCyclicTimeline){ .ops = g_array_new (FALSE, FALSE, sizeof (PsiVirtualOp)),
                                   .first = g_new0 (gint64, k),
                                   .end = g_new0 (gint64, k),
                                   .start = g_new0 (gint64, n) };
  timeline->slots = shape->placement == PSI_PLACEMENT_SHARED && !shape->by_stage && n == k;
  for (gint64 b = 0; b < m; b++)
    for (guint pass = 0; pass < 2 * k; pass++)
      {
        guint part = pass < k ? pass : 2 * k - 1 - pass;
        gint64 time = timeline->slots ? 1 : virtual_ps (pass < k ? shape->forward_ps[part] : shape->backward_ps[part]);
        PsiVirtualOp op = { now, pass < k ? PSI_TOKEN_FORWARD : PSI_TOKEN_BACKWARD, part, b };

        if (time > G_MAXINT64 / 8 / (gint64) n / (gint64) (2 * k * (guint64) m))
          {
            g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
                         "a cyclic step of %u workers takes too long to simulate", n);
            return FALSE;
          }
        g_array_append_val (timeline->ops, op);
        if (pass < k && b == 0)
          timeline->first[part] = now;
        now += time * n;
        timeline->end[part] = now;
        if (pass >= k)
          longest = MAX (longest, m * n * (timeline->slots ? 2 : virtual_ps (shape->forward_ps[part]) + time));
      }
  timeline->spacing = now / n;
  if (shape->placement == PSI_PLACEMENT_STAGE)
    timeline->spacing = MAX (timeline->spacing, longest);
  timeline->period = timeline->spacing * n;
  if (shape->random)
    draw_starts (timeline, n, shape->seed);
  else
    for (guint i = 0; i < n; i++)
      timeline->start[i] = i * timeline->spacing;
  return TRUE;
}

void
psi_cyclic_timeline_clear (PsiCyclicTimeline *timeline)
{
  g_clear_pointer (&timeline->ops, g_array_unref);
  g_clear_pointer (&timeline->first, g_free);
  g_clear_pointer (&timeline->end, g_free);
  g_clear_pointer (&timeline->start, g_free);
}

void
psi_cyclic_timeline_note (const PsiCyclicTimeline *timeline, const PsiScheduleShape *shape, gboolean pools,
                          PsiSchedule *schedule)
{
  guint n = shape->workers, k = shape->stages;
  gint64 spacing = timeline->spacing;

  schedule->start_ps = g_new0 (gint64, n);
  schedule->start_token = g_new0 (guint, n);
  schedule->period_ps = timeline->period / n;
  schedule->owner = g_new0 (guint, k);
  schedule->stale = g_new0 (guint8, n * k);
  schedule->first_use_ps = g_new0 (gint64, n * k);
  schedule->lifetime_ps = g_new0 (gint64, k);
  schedule->forward_ps = g_new0 (gint64, k);
  schedule->backward_ps = g_new0 (gint64, k);
  schedule->pool = pools ? g_new0 (guint, k) : NULL;
  for (guint j = 0; j < k; j++)
    {
      gint64 lifetime = timeline->end[j] - timeline->first[j], earliest = G_MAXINT64;

      schedule->lifetime_ps[j] = lifetime / n;
      schedule->forward_ps[j] = timeline->slots ? 1 : virtual_ps (shape->forward_ps[j]);
      schedule->backward_ps[j] = timeline->slots ? 1 : virtual_ps (shape->backward_ps[j]);
      if (pools)
        schedule->pool[j] = MIN (n, (guint) ((lifetime + spacing - 1) / MAX (spacing, 1)));
      for (guint i = 0; i < n; i++)
        {
          gint64 use = timeline->start[i] + timeline->first[j], made = timeline->start[n - 1] + timeline->end[j];

          schedule->stale[i * k + j] = n > 1 && (shape->delayed || use < made - timeline->period);
          schedule->first_use_ps[i * k + j] = use / n;
          if (use + schedule->stale[i * k + j] * timeline->period < earliest)
            {
              earliest = use + schedule->stale[i * k + j] * timeline->period;
              schedule->owner[j] = i;
            }
        }
    }
  for (guint i = 0; i < n; i++)
    {
      guint *token = &schedule->start_token[i];

      /* Evenly spread workers are a whole number of ps apart. */
      schedule->start_ps[i] = shape->random ? timeline->start[i] / n : i * (spacing / n);
      while (i > 0 && *token + 1 < timeline->ops->len &&
             g_array_index (timeline->ops, PsiVirtualOp, *token + 1).time < timeline->start[i] - timeline->start[i - 1])
        ++*token;
    }
}
