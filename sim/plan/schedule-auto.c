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
#include "schedule-zb.h"

#include <math.h>
#include <string.h>

#define STEPS 3    /* followed to measure a period */
#define N_AHEAD 5  /* warm-ups tried between 1F1B's and the limit's */
#define SLACK 1e-9 /* of floors */
static const double patience[] = { 1, 0.5, 0 };
#define PER_AHEAD (2 + 2 * G_N_ELEMENTS (patience)) /* candidates for each warm-up */

/* One candidate: for every rank a string of F, I, W; numbers follow from the order. */
typedef struct
{
  const PsiScheduleShape *shape;
  guint p;
  gint64 m;
  gint64 limit_bytes;
  char **lists; /* [p], 3 m letters each */
} Order;

static gint64
time_of (const PsiScheduleShape *shape, guint rank, char letter)
{
  return letter == 'F'   ? shape->forward_ps[rank]
         : letter == 'W' ? shape->weight_ps[rank]
                         : shape->backward_ps[rank] - shape->weight_ps[rank];
}

/* When a rank has what its next F or I needs; -1: it is not made yet. */
static gint64
arrival (const Order *o, const gint64 *made, const gint64 *back, guint rank, char letter, gint64 n)
{
  gint64 other;

  if (letter == 'F' && rank == 0)
    return 0;
  if (letter == 'I' && rank + 1 == o->p)
    return made[rank * o->m + n];
  other = letter == 'F' ? made[(rank - 1) * o->m + n] : back[(rank + 1) * o->m + n];
  return other < 0 ? -1 : other + o->shape->transfer_ps;
}

/* Period of an order, by following STEPS steps; G_MAXINT64: it deadlocks. */
static gint64
period_of (const Order *o)
{
  g_autofree gint64 *made = g_new (gint64, o->p * o->m), *back = g_new (gint64, o->p * o->m);
  g_autofree gint64 *free_ps = g_new0 (gint64, o->p), *before_ps = g_new0 (gint64, o->p);
  g_autofree gint64 *at = g_new (gint64, o->p), *next_f = g_new (gint64, o->p), *next_i = g_new (gint64, o->p);
  gint64 period = 0;

  for (guint step = 0; step < STEPS; step++)
    {
      gboolean moved = TRUE;
      guint n_done = 0;

      memset (made, 0xff, o->p * o->m * sizeof *made);
      memset (back, 0xff, o->p * o->m * sizeof *back);
      memset (at, 0, o->p * sizeof *at);
      memset (next_f, 0, o->p * sizeof *next_f);
      memset (next_i, 0, o->p * sizeof *next_i);
      memcpy (before_ps, free_ps, o->p * sizeof *free_ps);
      while (moved)
        {
          moved = FALSE;
          for (guint r = 0; r < o->p; r++)
            for (; at[r] < 3 * o->m; at[r]++, moved = TRUE)
              {
                char letter = o->lists[r][at[r]];
                gint64 *n = letter == 'F' ? &next_f[r] : &next_i[r];
                gint64 ready = letter == 'W' ? 0 : arrival (o, made, back, r, letter, *n);

                if (ready < 0)
                  break;
                free_ps[r] = MAX (free_ps[r], ready) + time_of (o->shape, r, letter);
                if (letter != 'W')
                  (letter == 'F' ? made : back)[r * o->m + (*n)++] = free_ps[r];
                n_done += at[r] + 1 == 3 * o->m;
              }
        }
      if (n_done < o->p)
        return G_MAXINT64;
    }
  for (guint r = 0; r < o->p; r++)
    period = MAX (period, free_ps[r] - before_ps[r]);
  return period;
}

/* By how much the fullest rank is over the limit; 0: it fits. */
static gint64
excess_of (const Order *o)
{
  gint64 peak = 0;

  for (guint r = 0; r < o->p; r++)
    {
      gint64 level = 0, kept = o->shape->kept_bytes[r], late = o->shape->late_bytes[r];

      for (gint64 i = 0; i < 3 * o->m; i++)
        {
          level += o->lists[r][i] == 'F' ? kept : o->lists[r][i] == 'I' ? late - kept : -late;
          peak = MAX (peak, level);
        }
    }
  return MAX (peak - o->limit_bytes, 0);
}

/* Warm-up of x (p - r - 1) forwards, weight halves x r micro-batches late, or at once. */
static gboolean
make_lagging (Order *o, double ahead, gboolean lags)
{
  for (guint r = 0; r < o->p; r++)
    {
      gint64 warm_up = MIN (o->m, (gint64) floor (ahead * (o->p - r - 1) + SLACK));
      gint64 lag = lags ? (gint64) floor (ahead * r + SLACK) : 0;
      char *out = o->lists[r];

      for (gint64 b = 0; b < warm_up; b++)
        *out++ = 'F';
      for (gint64 b = 0; b < o->m; b++)
        {
          if (b + warm_up < o->m)
            *out++ = 'F';
          *out++ = 'I';
          if (b >= lag)
            *out++ = 'W';
        }
      for (gint64 b = MAX (o->m - lag, 0); b < o->m; b++)
        *out++ = 'W';
    }
  return TRUE;
}

/* A list in the making. */
typedef struct
{
  gint64 free_ps, n_forwards, n_inputs, n_weights;
  gint64 most; /* forwards ahead of the input half */
  char *out;
} Maker;

/* Lists in order of time. Returns FALSE if memory does not let it end. */
static gboolean
make_by_time (Order *o, double ahead, double wait, gboolean input_first)
{
  g_autofree gint64 *made = g_new (gint64, o->p * o->m), *back = g_new (gint64, o->p * o->m);
  g_autofree Maker *makers = g_new0 (Maker, o->p);

  memset (made, 0xff, o->p * o->m * sizeof *made);
  memset (back, 0xff, o->p * o->m * sizeof *back);
  for (guint r = 0; r < o->p; r++)
    makers[r] = (Maker){ .most = (gint64) floor (ahead * (o->p - r - 1) + SLACK) + 1, .out = o->lists[r] };
  for (;;)
    {
      guint best = G_MAXUINT;
      gint64 best_ps = G_MAXINT64;
      char letter = 'F';

      for (guint r = 0; r < o->p; r++)
        {
          const Maker *m = &makers[r];
          gint64 f = m->n_forwards < o->m && m->n_forwards - m->n_inputs < m->most
                         ? arrival (o, made, back, r, 'F', m->n_forwards)
                         : -1;
          gint64 i = m->n_inputs < m->n_forwards ? arrival (o, made, back, r, 'I', m->n_inputs) : -1;
          gint64 f_ps = f < 0 ? G_MAXINT64 : MAX (f, m->free_ps), i_ps = i < 0 ? G_MAXINT64 : MAX (i, m->free_ps);
          gboolean takes_input = input_first ? i_ps <= f_ps : i_ps < f_ps;

          if (MIN (f_ps, i_ps) < best_ps)
            {
              best = r;
              best_ps = MIN (f_ps, i_ps);
              letter = takes_input ? 'I' : 'F';
            }
        }
      if (best == G_MAXUINT)
        break;
      Maker *m = &makers[best];
      gint64 level = o->shape->kept_bytes[best] * (m->n_forwards - m->n_inputs) +
                     o->shape->late_bytes[best] * (m->n_inputs - m->n_weights);
      gboolean full = letter == 'F' && level + o->shape->kept_bytes[best] > o->limit_bytes;
      gint64 weight_ps = o->shape->weight_ps[best];
      if (m->n_weights < m->n_inputs &&
          (full || (best_ps > m->free_ps && (double) (best_ps - m->free_ps) >= wait * (double) weight_ps)))
        {
          *m->out++ = 'W';
          m->n_weights++;
          m->free_ps += weight_ps;
          continue;
        }
      if (full)
        {
          /* No more ahead than now: the next is an input half. */
          m->most = m->n_forwards - m->n_inputs;
          if (m->most < 1)
            return FALSE;
          continue;
        }
      *m->out++ = letter;
      m->free_ps = best_ps + time_of (o->shape, best, letter);
      if (letter == 'F')
        made[best * o->m + m->n_forwards++] = m->free_ps;
      else
        back[best * o->m + m->n_inputs++] = m->free_ps;
    }
  for (guint r = 0; r < o->p; r++)
    {
      if (makers[r].n_inputs < o->m)
        return FALSE;
      for (; makers[r].n_weights < o->m; makers[r].n_weights++)
        *makers[r].out++ = 'W';
    }
  return TRUE;
}

static Order
order_new (const PsiScheduleShape *shape, gint64 limit_bytes)
{
  Order o = { .shape = shape,
              .p = shape->ranks,
              .m = shape->micro_batches,
              .limit_bytes = limit_bytes,
              .lists = g_new (char *, shape->ranks) };

  for (guint r = 0; r < o.p; r++)
    o.lists[r] = g_malloc (3 * o.m);
  return o;
}

static void
order_clear (Order *o)
{
  for (guint r = 0; r < o->p; r++)
    g_free (o->lists[r]);
  g_free (o->lists);
}

/* The n-th candidate; FALSE: it cannot be made. */
static gboolean
make (Order *o, guint n)
{
  guint per_ahead = PER_AHEAD, variant = n % per_ahead;
  double most = o->p > 1 ? (double) (o->shape->in_flight - 1) / (o->p - 1) : 1;
  double least = MIN (1, most), ahead = least + (MIN (most, 2) - least) * (n / per_ahead) / (N_AHEAD - 1);

  if (variant < 2)
    return make_lagging (o, ahead, variant == 0);
  return make_by_time (o, ahead, patience[variant / 2 - 1], variant % 2 == 0);
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
  Order best = order_new (&limited, limit_bytes), trial = order_new (&limited, limit_bytes);
  for (guint n = 0; n < N_AHEAD * PER_AHEAD; n++)
    {
      gboolean made = make (&trial, n);
      gint64 excess = made ? excess_of (&trial) : G_MAXINT64;
      gint64 period_ps = excess <= best_excess && made ? period_of (&trial) : G_MAXINT64;

      /* What does not fit is taken only while nothing better is there. */
      if (period_ps < G_MAXINT64 && (excess < best_excess || period_ps < best_ps))
        {
          Order swap = best;

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
  order_clear (&best);
  order_clear (&trial);
  return schedule;
}

const PsiScheduleKind psi_schedule_auto = {
  .name = "auto",
  .summary = "zero-bubble pipeline searched for the stages' own times under a memory limit (in_flight)",
  .chunks = 1,
  .build = build,
};
