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

static guint64
gcd_of (guint64 a, guint64 b)
{
  return b == 0 ? a : gcd_of (b, a % b);
}

/* Slots of N <= K workers, ascending and different modulo K, each the nearest to its place (the later of two). FALSE:
 * one finds none behind the one before. */
static gboolean
find_slots (gint64 *slots, guint n, guint k, gint64 m)
{
  g_autofree gboolean *taken = g_new0 (gboolean, k);
  gint64 last = m * k;

  for (guint i = 0; i < n; i++)
    {
      gint64 place = (i + 1) * last / n - last / n, found = -1;

      for (gint64 away = 0; away < last && found < 0; away++)
        for (int sign = 1; sign >= -1 && found < 0; sign -= 2)
          {
            gint64 slot = place + sign * away;

            if (slot >= (i > 0 ? slots[i - 1] + 1 : 0) && slot < last && !taken[slot % k])
              found = slot;
          }
      if (found < 0)
        return FALSE;
      slots[i] = found;
      taken[found % k] = TRUE;
    }
  return TRUE;
}

/* One GPU for each stage. A slot is a forward and a backward of the longest stage; stages take their turns as if all
 * were as long, so a micro-batch that begins in slot s is in the last stage K - 1 slots later. Two never meet on a GPU
 * iff they begin in different slots modulo the period. A worker begins a micro-batch when its last one has ended, at
 * least K slots after that began, so N workers of m micro-batches need
 *
 *   m max (K, N) slots
 *
 * and with these there is a place for all:
 *
 * N <= K: micro-batches K slots apart, and s_i different modulo K: as near as can be to where workers T / N apart have
 * their versions from, floor ((i + 1) m K / N) - floor (m K / N); with m = 1 that is the slot itself.
 *
 * N > K: s_i = i m and micro-batches g slots apart, with the smallest g of K .. N that has no factor in common with m,
 * so that the g b are different modulo m. If there is none, s_i = i and micro-batches N apart.
 *
 * Source: ours; a slot of two ops is the conflict-free spacing of the paper's timeline. */
static void
place_in_slots (PsiCyclicTimeline *timeline, guint n, guint k, gint64 m, gint64 slot)
{
  gint64 apart = k;

  if (n > k)
    while (apart < n && gcd_of ((guint64) apart, (guint64) m) > 1)
      apart++;
  gboolean spread = n > k && gcd_of ((guint64) apart, (guint64) m) == 1;

  if (n > k)
    for (guint i = 0; i < n; i++)
      timeline->start[i] = spread ? i * m : i;
  else if (!find_slots (timeline->start, n, k, m))
    for (guint i = 0; i < n; i++)
      timeline->start[i] = i;
  for (guint i = 0; i < n; i++)
    timeline->start[i] *= slot;
  timeline->turn = apart * slot;
  timeline->period = m * MAX (n, k) * slot;
  timeline->spacing = timeline->period / n;
}

/* Stages in slots take their turns as if all were as long as the longest. */
static void
set_times (PsiCyclicTimeline *timeline, const PsiScheduleShape *shape, gboolean in_slots)
{
  guint k = shape->stages;
  gint64 longest = 0, forward = 0, all = 0;

  for (guint j = 0; j < k; j++)
    {
      timeline->forward[j] = timeline->slots ? 1 : virtual_ps (shape->forward_ps[j]);
      timeline->backward[j] = timeline->slots ? 1 : virtual_ps (shape->backward_ps[j]);
      longest = MAX (longest, timeline->forward[j] + timeline->backward[j]);
      forward += timeline->forward[j];
      all += timeline->forward[j] + timeline->backward[j];
    }
  for (guint j = 0; j < k && in_slots; j++)
    {
      timeline->forward[j] = CLAMP ((gint64) ((double) longest * ((double) forward / (double) all)), 1, longest - 1);
      timeline->backward[j] = longest - timeline->forward[j];
    }
}

static void
add_ops (PsiCyclicTimeline *timeline, const PsiScheduleShape *shape)
{
  guint n = shape->workers, k = shape->stages;

  for (gint64 b = 0; b < shape->micro_batches; b++)
    {
      gint64 now = b * timeline->turn;

      for (guint pass = 0; pass < 2 * k; pass++)
        {
          guint part = pass < k ? pass : 2 * k - 1 - pass;
          PsiVirtualOp op = { now, pass < k ? PSI_TOKEN_FORWARD : PSI_TOKEN_BACKWARD, part, b };

          g_array_append_val (timeline->ops, op);
          if (pass < k && b == 0)
            timeline->first[part] = now;
          now += (pass < k ? timeline->forward[part] : timeline->backward[part]) * n;
          timeline->end[part] = now;
        }
    }
}

static void
fill (PsiCyclicTimeline *timeline, const PsiScheduleShape *shape, gboolean in_slots)
{
  guint n = shape->workers, k = shape->stages;
  gint64 m = shape->micro_batches, longest = 0;

  *timeline = (PsiCyclicTimeline){ .ops = g_array_new (FALSE, FALSE, sizeof (PsiVirtualOp)),
                                   .first = g_new0 (gint64, k),
                                   .end = g_new0 (gint64, k),
                                   .forward = g_new0 (gint64, k),
                                   .backward = g_new0 (gint64, k),
                                   .start = g_new0 (gint64, n) };
  timeline->slots = shape->placement == PSI_PLACEMENT_SHARED && !shape->by_stage && n == k;
  set_times (timeline, shape, in_slots);
  for (guint j = 0; j < k; j++)
    {
      longest = MAX (longest, timeline->forward[j] + timeline->backward[j]);
      timeline->turn += (timeline->forward[j] + timeline->backward[j]) * n;
    }
  timeline->spacing = timeline->turn * m / n;
  if (shape->placement == PSI_PLACEMENT_STAGE)
    timeline->spacing = MAX (timeline->spacing, m * longest * n);
  timeline->period = timeline->spacing * n;
  if (in_slots)
    place_in_slots (timeline, n, k, m, longest * n);
  else if (shape->random)
    draw_starts (timeline, n, shape->seed);
  else
    for (guint i = 0; i < n; i++)
      timeline->start[i] = i * timeline->spacing;
  add_ops (timeline, shape);
}

/* With stages of different lengths, slots of the longest keep them in the order of 1F1B, which mostly is best; where
 * workers are few it may let stages wait for slots that nobody takes, and evenly spread workers with the true times do
 * better. The order that runs faster is taken; a very large one is not tried. */
#define MOST_TRIED 100000

static gboolean
are_equal (const PsiScheduleShape *shape)
{
  for (guint j = 1; j < shape->stages; j++)
    if (shape->forward_ps[j] != shape->forward_ps[0] || shape->backward_ps[j] != shape->backward_ps[0])
      return FALSE;
  return TRUE;
}

gboolean
psi_cyclic_timeline_init (PsiCyclicTimeline *timeline, const PsiScheduleShape *shape, GError **error)
{
  guint n = shape->workers, k = shape->stages;
  gboolean by_stage = shape->placement == PSI_PLACEMENT_STAGE;
  gint64 longest = 1;

  for (guint j = 0; j < k; j++)
    longest = MAX (longest, MAX (shape->forward_ps[j], shape->backward_ps[j]));
  if (longest > G_MAXINT64 / 16 / n / (by_stage ? MAX (n, k) : k) / shape->micro_batches)
    {
      g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
                   "a cyclic step of %u workers takes too long to simulate", n);
      return FALSE;
    }
  fill (timeline, shape, by_stage);
  if (by_stage && !are_equal (shape) && shape->micro_batches <= MOST_TRIED / (2 * k) / n)
    {
      PsiCyclicTimeline even;

      fill (&even, shape, FALSE);
      if (psi_cyclic_timeline_pace_ps (&even, shape) < psi_cyclic_timeline_pace_ps (timeline, shape))
        {
          PsiCyclicTimeline slower = *timeline;

          *timeline = even;
          even = slower;
        }
      psi_cyclic_timeline_clear (&even);
    }
  return TRUE;
}

void
psi_cyclic_timeline_clear (PsiCyclicTimeline *timeline)
{
  g_clear_pointer (&timeline->ops, g_array_unref);
  g_clear_pointer (&timeline->first, g_free);
  g_clear_pointer (&timeline->end, g_free);
  g_clear_pointer (&timeline->forward, g_free);
  g_clear_pointer (&timeline->backward, g_free);
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
      schedule->forward_ps[j] = timeline->forward[j];
      schedule->backward_ps[j] = timeline->backward[j];
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
      schedule->start_ps[i] =
          shape->random || shape->placement == PSI_PLACEMENT_STAGE ? timeline->start[i] / n : i * (spacing / n);
      while (i > 0 && *token + 1 < timeline->ops->len &&
             g_array_index (timeline->ops, PsiVirtualOp, *token + 1).time < timeline->start[i] - timeline->start[i - 1])
        ++*token;
    }
}
