/* SPDX-License-Identifier: MIT */
#include "order-search.h"

#include <math.h>
#include <string.h>

#define STEPS 3    /* followed to measure a period */
#define SLACK 1e-9 /* of floors */

static gint64
time_of (const PsiScheduleShape *shape, guint rank, char letter)
{
  return letter == 'F'   ? shape->forward_ps[rank]
         : letter == 'W' ? shape->weight_ps[rank]
                         : shape->backward_ps[rank] - shape->weight_ps[rank];
}

/* When a rank has what its next F or I needs; -1: it is not made yet. */
static gint64
arrival (const PsiTrial *o, const gint64 *made, const gint64 *back, guint rank, char letter, gint64 n)
{
  gint64 other;

  if (letter == 'F' && rank == 0)
    return 0;
  if (letter == 'I' && rank + 1 == o->p)
    return made[rank * o->m + n];
  other = letter == 'F' ? made[(rank - 1) * o->m + n] : back[(rank + 1) * o->m + n];
  return other < 0 ? -1 : other + o->shape->transfer_ps;
}

gint64
psi_trial_period_ps (const PsiTrial *o)
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

gint64
psi_trial_excess_bytes (const PsiTrial *o)
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

gboolean
psi_trial_make_lagging (PsiTrial *o, double ahead, gboolean lags)
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

gboolean
psi_trial_make_by_time (PsiTrial *o, double ahead, double wait, gboolean input_first)
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

PsiTrial
psi_trial_init (const PsiScheduleShape *shape, gint64 limit_bytes)
{
  PsiTrial o = { .shape = shape,
                 .p = shape->ranks,
                 .m = shape->micro_batches,
                 .limit_bytes = limit_bytes,
                 .lists = g_new (char *, shape->ranks) };

  for (guint r = 0; r < o.p; r++)
    o.lists[r] = g_malloc (3 * o.m);
  return o;
}

void
psi_trial_clear (PsiTrial *o)
{
  for (guint r = 0; r < o->p; r++)
    g_free (o->lists[r]);
  g_free (o->lists);
}
