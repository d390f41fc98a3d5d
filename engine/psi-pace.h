/* SPDX-License-Identifier: MIT */
/* Ranks at paces of their own, which nothing but desks ties together: what is noted while they run. */
#pragma once

#include "psi-loop-state.h"

struct _PsiPace
{
  gssize n_ops, n_waits; /* of all ranks: times and waits have two halves, for even and odd iterations */
  guint32 *turns;        /* [ops of all ranks] turns that the op's subject had had after its last own, 0 = none yet */
  guint32 *served;       /* [subjects] turns so far */
  PsiTimeSplit *splits;  /* [n_ranks] since the start */
  GArray *lags;          /* of guint32 */
};

void psi_pace_init (PsiLoop *loop, const PsiRun *run);
void psi_pace_clear (PsiLoop *loop);
/* A stream has ended an iteration: the next is recorded in the other half. */
static inline void
psi_pace_end_iteration (PsiLoop *loop, const PsiStream *stream, PsiStreamDetail *detail)
{
  PsiIteration *round = &loop->iterations[loop->complete % PSI_LOOP_AHEAD];
  gboolean odd = stream->iteration % 2 != 0;

  round->left -= round->left > 0;
  if (detail->times != NULL)
    detail->times += odd ? -loop->pace->n_ops : loop->pace->n_ops;
  if (detail->waits != NULL)
    detail->waits += odd ? -loop->pace->n_waits : loop->pace->n_waits;
}

/* An op has ended: note where the time of its rank went. */
void psi_pace_account (PsiLoop *loop, const PsiStream *stream, const PsiStreamDetail *detail, PsiTime now_ps);
/* Since when bytes had been moving without a break, time at the desk left out: as late as if there had been none. */
PsiTime psi_pace_sent_ps (const PsiStreamDetail *detail, PsiTime now_ps);
