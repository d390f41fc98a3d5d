/* SPDX-License-Identifier: MIT */
/* ZB-V: two model parts per rank, placed as a V (rank r has parts r and 2 p - 1 - r), split backwards.
 *
 *   rank r of p  2 (p - r) - 1 forwards of chunk 0; r times F.1 F; p - r times F.1 I.1 W.1;
 *                then F I W F.1 I.1 W.1 as long as there are forwards;
 *                then r times I I.1, p - r times I W, and the weight halves that are left
 *   period       2 m (F + I + W) + 2 (p - 1)(max (F, I) - W)         m >= 2 p - 1, W <= I; if F > I at most that
 *                at F = I = W: 6 m
 *                m < 2 p - 1: 6 m + 2 (2 p - 1 - m)
 *   in flight    (forward done, weight half not) at most 2 p chunks on every rank, the p stages of 1F1B's peak
 *   transfers    4 m (p - 1), twice 1F1B (the turn of the V stays on its rank); delay 0
 *
 * F, I, W: times of one of the 2 p parts for one micro-batch. Equal parts, free transfers. A step of fewer than
 * 2 p - 1 micro-batches runs the order of 2 p - 1 without those it has not. Source: Qi et al., arXiv 2401.10241,
 * section 6; the counts of each phase as in PyTorch's ScheduleZBVZeroBubble. */
#include "schedule-zb.h"

/* One rank while its list is written: next forward and next input half of each chunk. */
typedef struct
{
  PsiSchedule *schedule;
  guint rank;
  gint64 forward[2], input[2], weight[2];
} Writer;

static void
add (Writer *w, PsiTokenKind kind, guint chunk)
{
  gint64 *next = kind == PSI_TOKEN_FORWARD ? w->forward : kind == PSI_TOKEN_BACKWARD_INPUT ? w->input : w->weight;
  gint64 micro_batch = next[chunk]++;

  if (micro_batch < w->schedule->micro_batches)
    psi_schedule_add (w->schedule, w->rank, kind, micro_batch, chunk);
}

static void
add_backward (Writer *w, guint chunk)
{
  add (w, PSI_TOKEN_BACKWARD_INPUT, chunk);
  add (w, PSI_TOKEN_BACKWARD_WEIGHT, chunk);
}

static void
write_rank (PsiSchedule *schedule, guint rank)
{
  guint p = schedule->n_ranks;
  gint64 m = MAX (schedule->micro_batches, 2 * (gint64) p - 1);
  Writer w = { .schedule = schedule, .rank = rank };

  for (guint i = 0; i < 2 * (p - rank) - 1; i++)
    add (&w, PSI_TOKEN_FORWARD, 0);
  for (guint i = 0; i < rank; i++)
    {
      add (&w, PSI_TOKEN_FORWARD, 1);
      add (&w, PSI_TOKEN_FORWARD, 0);
    }
  for (guint i = rank; i < p; i++)
    {
      add (&w, PSI_TOKEN_FORWARD, 1);
      add_backward (&w, 1);
    }
  while (w.forward[1] < w.forward[0] || w.forward[0] < m)
    {
      if (w.forward[0] < m)
        add (&w, PSI_TOKEN_FORWARD, 0);
      add_backward (&w, 0);
      add (&w, PSI_TOKEN_FORWARD, 1);
      add_backward (&w, 1);
    }
  for (guint i = 0; i < rank; i++)
    {
      add (&w, PSI_TOKEN_BACKWARD_INPUT, 0);
      add (&w, PSI_TOKEN_BACKWARD_INPUT, 1);
    }
  for (guint i = rank; i < p; i++)
    add_backward (&w, 0);
  for (guint chunk = 2; chunk > 0; chunk--)
    while (w.weight[chunk - 1] < w.input[chunk - 1])
      add (&w, PSI_TOKEN_BACKWARD_WEIGHT, chunk - 1);
}

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  PsiSchedule *schedule = psi_schedule_new_v ("zb-v", shape, error);

  for (guint r = 0; schedule != NULL && r < shape->ranks; r++)
    write_rank (schedule, r);
  return schedule;
}

const PsiScheduleKind psi_schedule_zb_v = {
  .name = "zb-v",
  .summary = "zero-bubble pipeline in V shape: no bubble at equal times, memory of 1f1b, twice the messages",
  .chunks = 2,
  .build = build,
};
