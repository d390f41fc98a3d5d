/* SPDX-License-Identifier: MIT */
/* An order searched for the stages' own times: the best of a few families under a memory limit.
 *
 *   memory of a rank = a (forwards without their input half) + w (input halves without their weight half) <= limit
 *   a, w    bytes of the stage's activations of one micro-batch, and of those its weight half still needs
 *   limit   n / p of what the worst rank of 1F1B keeps, max over r of min (m, p - r) a; n: key in_flight, else p
 *
 * Families: a warm-up of x (p - r - 1) forwards with weight halves that lag by x r (x = 1 is ZB-H1, x = 2 ZB-H2) or not
 * at all, and lists made in order of time: whatever of the next forward and the next input half can begin first is
 * next, a weight half goes where the rank would wait at least `patience` of it, or where memory is full. Every list is
 * followed for three steps with the stages' times and transfers; the one with the shortest period wins, the first on a
 * tie.
 *
 * Equal stages, F = I = W: n = p gives ZB-H1, period 3 m + p - 1 (m >= p), n = 2 p - 1 gives ZB-H2, 3 m (m >= 2 p - 1).
 * With w = a, n = p and W <= F nothing is better than ZB-H1: rank 0 must wait (p - 1) I for the first input half with
 * full memory, and (p - 1)(F - W) for the last. After Qi et al., arXiv 2401.10241, section 3.1, without an integer
 * program. */
#include "order-search.h"
#include "schedule-zb.h"

#include <math.h>

#define N_AHEAD 5 /* warm-ups tried between 1F1B's and the limit's */
static const double patience[] = { 1, 0.5, 0 };
#define PER_AHEAD (2 + 2 * G_N_ELEMENTS (patience)) /* candidates for each warm-up */

/* The n-th candidate; FALSE: it cannot be made. */
static gboolean
make (PsiTrial *o, guint n)
{
  guint per_ahead = PER_AHEAD, variant = n % per_ahead;
  double most = o->p > 1 ? (double) (o->shape->in_flight - 1) / (o->p - 1) : 1;
  double least = MIN (1, most), ahead = least + (MIN (most, 2) - least) * (n / per_ahead) / (N_AHEAD - 1);

  if (variant < 2)
    return psi_trial_make_lagging (o, ahead, variant == 0);
  return psi_trial_make_by_time (o, ahead, patience[variant / 2 - 1], variant % 2 == 0);
}

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  PsiScheduleShape limited = *shape;
  PsiSchedule *schedule = psi_schedule_new_one_part ("auto", shape, error);
  gint64 best_ps = G_MAXINT64, best_excess = G_MAXINT64, limit_bytes = 0;

  if (schedule == NULL)
    return NULL;
  if (limited.in_flight == 0)
    limited.in_flight = shape->ranks;
  for (guint r = 0; r < shape->ranks; r++)
    limit_bytes = MAX (limit_bytes, MIN (shape->micro_batches, (gint64) (shape->ranks - r)) * shape->kept_bytes[r]);
  limit_bytes = (gint64) ceil ((double) limit_bytes * (double) limited.in_flight / shape->ranks);
  PsiTrial best = psi_trial_init (&limited, limit_bytes), trial = psi_trial_init (&limited, limit_bytes);
  for (guint n = 0; n < N_AHEAD * PER_AHEAD; n++)
    {
      gboolean made = make (&trial, n);
      gint64 excess = made ? psi_trial_excess_bytes (&trial) : G_MAXINT64;
      gint64 period_ps = excess <= best_excess && made ? psi_trial_period_ps (&trial) : G_MAXINT64;

      /* What does not fit is taken only while nothing better is there. */
      if (period_ps < G_MAXINT64 && (excess < best_excess || period_ps < best_ps))
        {
          PsiTrial swap = best;

          best = trial;
          trial = swap;
          best_ps = period_ps;
          best_excess = excess;
        }
    }
  g_assert (best_ps < G_MAXINT64); /* a warm-up with lagging weight halves never deadlocks */
  for (guint r = 0; r < best.p; r++)
    {
      gint64 next[PSI_N_TOKEN_KINDS] = { 0 };

      for (gint64 i = 0; i < 3 * best.m; i++)
        {
          char letter = best.lists[r][i];
          PsiTokenKind kind = letter == 'F'   ? PSI_TOKEN_FORWARD
                              : letter == 'W' ? PSI_TOKEN_BACKWARD_WEIGHT
                                              : PSI_TOKEN_BACKWARD_INPUT;

          psi_schedule_add (schedule, r, kind, next[kind]++, 0);
        }
    }
  psi_trial_clear (&best);
  psi_trial_clear (&trial);
  return schedule;
}

const PsiScheduleKind psi_schedule_auto = {
  .name = "auto",
  .summary = "zero-bubble pipeline searched for the stages' own times under a memory limit (in_flight)",
  .chunks = 1,
  .build = build,
};
