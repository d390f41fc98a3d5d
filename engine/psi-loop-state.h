/* SPDX-License-Identifier: MIT */
/* What the inner loop of a run keeps: streams, ports, the clock. Who includes and calls whom, one way:
 *
 *   psi-run.c           from iteration to iteration, until they repeat
 *   psi-rounds.[ch]     the same where ranks run at paces of their own
 *   psi-loop.[ch]       one iteration; psi-loop-init.c makes a world ready for it, psi-loop-waiting.c says who waits
 *   psi-ring.[ch]       messages of rings
 *   psi-desk.[ch]       turns at desks
 *   psi-loop-record.[ch]  what is kept of ops that end
 *   psi-pace.[ch]       what is noted of ranks that wait at desks
 *   psi-loop-state.h    this
 *   psi-run-data.h      what is asked and left
 *   psi-queue.h, psi-links.h, psi-program.h    pending events, bytes on links, what ranks do */
#pragma once

#include "psi-queue.h"
#include "psi-run-data.h"

#define PSI_LOOP_FAR 63  /* streams of a rank from this one on share a bit of `waiters` */
#define PSI_LOOP_AHEAD 4 /* iterations under way at once: the slowest stream's and those that run ahead */

/* PsiStream.state */
enum
{
  PSI_HEAD_IDLE,    /* head op not yet looked at */
  PSI_HEAD_BLOCKED, /* head op waits for another stream of its rank */
  PSI_HEAD_POSTED,  /* message or collective waits for its partners */
  PSI_HEAD_BUSY,    /* work or transfer under way */
  PSI_HEAD_EARLY    /* its rank has not begun */
};

/* A stream of a rank: one cache line, all that is touched when nothing is recorded. */
typedef struct
{
  const PsiOp *ops;
  const PsiDep *deps;     /* of its program */
  const PsiPortId *ports; /* of its rank */
  guint64 done;           /* ops finished since the start */
  guint64 waiters; /* streams of this rank that are blocked on this one; the last bit: some of PSI_LOOP_FAR and more */
  PsiTime free_ps; /* end of its last op */
  guint32 length;
  guint32 position;  /* of the head op */
  guint32 iteration; /* of the head op */
  guint8 state, index;
  guint8 is_ready; /* stands in `ready` */
  guint8 is_plain; /* its rank starts at 0 and its work takes what it costs */
} __attribute__ ((aligned (64))) PsiStream;

/* The rest of a stream. */
typedef struct
{
  guint64 need;      /* BLOCKED: `done` of another stream that lets it go; at a desk: when it came */
  PsiOpTimes *times; /* of its ops; NULL: not recorded */
  PsiOpWait *waits;  /* stream 0 only */
  guint32 *turns;    /* of its ops at desks, see psi-pace.h; NULL: there are no desks */
  PsiTime sent_ps;   /* since when its last op's bytes were moving, if it was a message; else PSI_TIME_MAX */
  PsiTime start_ps;  /* head op, BUSY */
  PsiOpWait wait;    /* head op */
  guint32 rank;
  guint32 blocked_on; /* BLOCKED, PSI_LOOP_FAR and more: which stream that is */
} PsiStreamDetail;

typedef struct
{
  guint32 posted; /* partners waiting now */
  guint32 n_members;
  guint32 *heads;               /* [n_members] their streams */
  PsiTime moving_ps;            /* of the partner that came last */
  PsiTime alone_ps;             /* no other port uses its links: what the last transfer took, latency included */
  PsiTransferId alone_transfer; /* that transfer */
  PsiTransferId transfer;       /* under way: with several rounds */
  guint32 rounds_left;
  guint32 ring_left; /* members that have not sent all their messages */
  gboolean is_alone;
  gboolean is_busy; /* a desk that serves the first of those that wait */
  guint32 first;    /* where in heads, a ring, that one is */
} PsiMeeting;

/* A member of a ring, at the place of its head in `heads`. */
typedef struct
{
  PsiPortId port;
  guint32 sent, received; /* messages */
  gboolean is_sending;
} PsiRing;

/* How far an iteration lies after the one before, over all ops that have ended in it. */
typedef struct
{
  PsiTime least_ps, most_ps;
  guint32 left;         /* streams that have not ended it */
  guint64 sum;          /* of all its ops: start and end times, each with a weight of its own, modulo 2^64 */
  PsiTime reference_ps; /* end of the first op of stream `reference` */
} PsiIteration;

typedef struct _PsiPace PsiPace; /* psi-pace.h */

typedef struct
{
  PsiWorld *world;
  PsiPace *pace;   /* ranks run at paces of their own, NULL: they do not */
  guint32 horizon; /* iterations that no stream begins yet */
  const PsiTransfer *transfers;
  PsiQueue *queue;
  PsiStream *streams;
  PsiStreamDetail *details;
  guint32 *first_stream; /* [n_ranks + 1] */
  PsiMeeting *meetings;  /* one for each port */
  guint32 *heads;
  PsiRing *rings; /* [heads], NULL: no transfer is a ring */
  PsiIteration iterations[PSI_LOOP_AHEAD];
  guint32 n_streams, n_streams_used;
  guint32 complete; /* iterations complete on all streams */
  guint32 *ready;   /* ring of the streams to look at, each at most once */
  guint32 ready_first, n_ready;
  GArray *held;           /* streams too far ahead of the slowest */
  PsiLinkUse *uses;       /* room for one flow */
  gboolean records, sums; /* keep op times; keep sums of iterations */
  guint32 reference;
  double jitter;
  guint64 seed;
  guint64 n_events;
} PsiLoop;

#define PSI_LOOP_NO_TRANSFER G_MAXUINT32

/* A stream whose head op may be able to start. */
static inline void
psi_loop_look_at (PsiLoop *loop, guint32 index)
{
  guint32 place = loop->ready_first + loop->n_ready;

  if (loop->streams[index].is_ready)
    return;
  loop->streams[index].is_ready = TRUE;
  loop->ready[place >= loop->n_streams ? place - loop->n_streams : place] = index;
  loop->n_ready++;
}

/* Keys order events of one instant: ends of work first, then latencies that are over, then transfers of ports alone,
 * then messages of rings, then turns at desks; source numbers break ties. */
#define PSI_LOOP_KEY_SHIFT 40
#define PSI_LOOP_KEY(kind, source) ((guint64) (kind) << PSI_LOOP_KEY_SHIFT | (source))
enum
{
  PSI_LOOP_WORK,
  PSI_LOOP_LATENCY,
  PSI_LOOP_TRANSFER,
  PSI_LOOP_RING,
  PSI_LOOP_DESK
};
