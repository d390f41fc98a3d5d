/* SPDX-License-Identifier: MIT */
/* Ranks at paces of their own: desks, and the stretch of the run that stands for all of it.
 *
 * Nothing ties the iterations of two ranks together but the desks at which they wait. A *round* ends when as many
 * iterations of streams have ended as there are streams. At the end of a round the state of all streams (where each
 * stands, since when its op runs, who waits at which desk) is hashed. A state that was there q rounds ago, and again
 * after q more with the same states in between, makes a cycle: every mean over it is exact. Without one the second half
 * of the run stands for the whole. */
#pragma once

#include "psi-loop.h"

typedef struct
{
  PsiTime time_ps;
  gsize n_lags;
  guint64 *done;        /* [n_ranks] of stream 0 */
  PsiTime *free_ps;     /* [n_ranks] of stream 0 */
  PsiTimeSplit *splits; /* [n_ranks] since the start */
} PsiPaceMark;

struct _PsiPace
{
  gssize n_ops, n_waits; /* of all ranks: times and waits have two halves, for even and odd iterations */
  guint32 *turns;        /* [ops of all ranks] turns that the op's subject had had after its last own, 0 = none yet */
  guint32 *served;       /* [subjects] turns so far */
  PsiTimeSplit *splits;  /* [n_ranks] since the start */
  GArray *lags;          /* of guint32 */
  GArray *states;        /* of guint64: hash at the end of each round */
  GHashTable *latest;    /* hash -> round + 1 */
  guint same_from;       /* the round that the cycle followed now repeats ... */
  guint n_same, length;  /* ... so many of its rounds so far; length 0 = no cycle is followed */
  PsiPaceMark begin;     /* of the cycle followed now */
  PsiPaceMark half;      /* of the second half of the run */
};

void psi_pace_init (PsiLoop *loop, const PsiRun *run);
void psi_pace_clear (PsiLoop *loop);
/* Run to a cycle or the limit; fills the run. FALSE: stuck, as psi_loop_iterate() says. */
gboolean psi_pace_follow (PsiLoop *loop, PsiRun *run, const PsiRunOptions *options, PsiTime *now_ps);

/* Once it is over: each rank's latest iteration that all its streams have ended, as the recorded one. */
void psi_pace_settle (PsiLoop *loop, PsiRun *run);

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

/* psi-desk.c: the head op of a stream waits; the next in turn begins, and its stream is returned; the turn is over. */
void psi_desk_post (PsiLoop *loop, guint32 index, PsiTime now_ps);
guint32 psi_desk_begin (PsiLoop *loop, PsiPortId id, PsiTime now_ps);
guint32 psi_desk_over (PsiLoop *loop, PsiPortId id, PsiTime now_ps);
