/* SPDX-License-Identifier: MIT */
/* What a rank does, step after step, and who talks to whom.
 *
 * A *program* is one step of work: ops in several streams, each stream in order, as CUDA streams are. It repeats for
 * ever. Ranks with equal work share one program. An op may wait for ops of other streams of its rank, of the same
 * iteration or of an earlier one (`distance`). Ranks meet at *ports*: a channel joins a send with a receive, a
 * communicator joins the same collective of all members, a desk serves one op at a time, whoever comes first; programs
 * name ports by slot, each rank binds its slots.
 *
 * A *world* holds programs, ranks, ports and links. Build it, then psi_run() it. Nothing is freed before the world. */
#pragma once

#include "psi-links.h"

#define PSI_MAX_STREAMS 252 /* of 256 that a PsiOpId can name */
#define PSI_MAX_TIERS 4
#define PSI_MAX_CLASSES 8

typedef enum
{
  PSI_OP_WORK, /* keeps its stream busy for cost_ps */
  PSI_OP_SEND, /* starts when the receive is posted as well; ends when the bytes have arrived */
  PSI_OP_RECV,
  PSI_OP_COLLECTIVE, /* starts when all members are there */
  PSI_OP_SERVE       /* waits for its turn at a desk, then takes cost_ps there */
} PsiOpKind;

/* An op of a program: stream in the upper 8 bits, position in the lower 24. */
typedef guint32 PsiOpId;
#define PSI_OP_NONE G_MAXUINT32
#define PSI_CHAIN_END G_MAXUINT32 /* of first_dep, first_delta and next: nothing follows */
#define PSI_OP_ID(stream, position) ((PsiOpId) (stream) << 24 | (position))
#define PSI_OP_STREAM(op) ((op) >> 24)
#define PSI_OP_POSITION(op) ((op) &0xffffffu)

/* How bytes of one message or collective load the links of its port. */
typedef struct
{
  gint64 bytes;                  /* the flow's work; 0 = only latency */
  double cap_bytes_per_s;        /* HUGE_VAL = none */
  PsiTime latency_ps;            /* before the bytes start to flow */
  PsiTime round_latency_ps;      /* the same in all rounds but the first */
  guint rounds;                  /* so many times one after another; 0 = once */
  gboolean is_ring;              /* communicator: a round is a message of each member to the next, see psi-ring.c */
  double weights[PSI_MAX_TIERS]; /* bytes on a link of that tier for each byte of the flow; 0 = link not used */
  guint hops;                    /* messages that pass one after another in it; for psi_account_chain() */
} PsiTransfer;
typedef guint32 PsiTransferId;

typedef struct
{
  guint8 kind;
  guint8 tag;             /* the builder's own meaning: what the time is spent on */
  guint8 skip;            /* SEND, RECV: in so many first iterations there is no partner, and it ends at once */
  gint8 shift;            /* works for the step so many iterations earlier: its memory belongs there */
  guint32 slot;           /* port slot: SEND, RECV, COLLECTIVE, SERVE */
  PsiTransferId transfer; /* SERVE: what it works on at the desk, see psi_program_serve(); WORK: 0, or the number of its
                             fold + 1, see psi-fold.h */
  gint32 label[3];        /* the builder's own: e.g. micro-batch, part and layer; -1 = none */
  PsiTime cost_ps;        /* WORK, SERVE */
  guint32 first_dep;      /* chain of deps, ends with PSI_CHAIN_END */
  guint32 first_delta;    /* chain of memory deltas */
} PsiOp;

typedef struct
{
  PsiOpId op;
  guint32 distance; /* iterations back; before the first iteration it counts as done */
  guint32 next;
} PsiDep;

/* Memory taken (> 0) or given back (< 0) when the op starts or ends. */
typedef struct
{
  gint64 bytes;
  guint8 memory_class;
  guint8 at_end;
  guint32 next;
} PsiDelta;

typedef struct
{
  GArray *streams[PSI_MAX_STREAMS]; /* of PsiOp */
  guint n_streams;
  GArray *deps, *deltas;
  GArray *parts, *folds; /* of PsiPart and PsiFold: psi-fold.h; NULL: none */
  guint64 n_unfolded;    /* ops there would be without folds, beyond those there are */
  guint32 max_distance;
  gboolean skips;  /* messages join different iterations of two ranks */
  gboolean serves; /* it waits at desks: its ranks run at paces of their own */
} PsiProgram;

typedef guint32 PsiRankId;
typedef guint32 PsiPortId;

typedef struct
{
  PsiProgram *program;
  guint weight;      /* equal ranks it stands for */
  PsiTime offset_ps; /* its first op starts no earlier */
  double scale;      /* its work takes so many times the cost */
  GArray *ports;     /* PsiPortId of each slot */
} PsiRank;

typedef struct
{
  PsiLinkId link;
  guint8 tier;
  guint32 member; /* whose link it is: the one bound last when it was added */
  double share;   /* bytes on the link for each byte the transfer puts on its tier */
} PsiPathLink;

typedef struct
{
  gboolean is_channel;
  gboolean is_desk;
  PsiRankId keeper; /* desk: whose scale its work takes */
  guint n_members;  /* ranks that bind it */
  GArray *path;     /* of PsiPathLink: the links its bytes load */
} PsiPort;

typedef struct
{
  GPtrArray *programs; /* of PsiProgram* */
  GArray *ranks;       /* of PsiRank */
  GArray *ports;       /* of PsiPort */
  GArray *transfers;   /* of PsiTransfer */
  PsiLinks *links;
} PsiWorld;

PsiWorld *psi_world_new (void);
void psi_world_free (PsiWorld *world);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiWorld, psi_world_free)

/* Add a program (owned by the world) with that many empty streams. Stream 0 is the one whose waiting is accounted. */
PsiProgram *psi_world_add_program (PsiWorld *world, guint n_streams);
PsiRankId psi_world_add_rank (PsiWorld *world, PsiProgram *program, guint weight, PsiTime offset_ps);
PsiTransferId psi_world_add_transfer (PsiWorld *world, const PsiTransfer *transfer);
PsiPortId psi_world_add_channel (PsiWorld *world);
PsiPortId psi_world_add_communicator (PsiWorld *world);
/* A desk serves the ops that wait at it one at a time: first come, first served, the lower rank if they come at one
 * instant. Its work takes the scale of `keeper`. With desks, all ranks run at paces of their own: see psi_run(). */
PsiPortId psi_world_add_desk (PsiWorld *world, PsiRankId keeper);
/* `tier`: even = out of the member that was bound last, odd = into it. */
void psi_world_add_path (PsiWorld *world, PsiPortId port, PsiLinkId link, guint tier);
/* The same for a link that carries `share` times what the transfer says of the tier: several members behind it. */
void psi_world_add_shared_path (PsiWorld *world, PsiPortId port, PsiLinkId link, guint tier, double share);
/* Give `rank` the port under `slot`; a communicator counts it as a member. */
void psi_world_bind (PsiWorld *world, PsiRankId rank, guint slot, PsiPortId port);

static inline PsiRank *
psi_world_rank (const PsiWorld *world, PsiRankId rank)
{
  return &g_array_index (world->ranks, PsiRank, rank);
}

/* Does it keep somebody busy, rather than a link? */
static inline gboolean
psi_op_is_work (const PsiOp *op)
{
  return op->kind == PSI_OP_WORK || op->kind == PSI_OP_SERVE;
}

/* Append an op to the end of a stream. */
PsiOpId psi_program_work (PsiProgram *program, guint stream, PsiTime cost_ps, guint tag);
PsiOpId psi_program_message (PsiProgram *program, guint stream, PsiOpKind kind, guint slot, PsiTransferId transfer,
                             guint tag);
/* Wait for a turn at the desk under `slot` and take cost_ps there. `subject` (0, 1, ...) tells what it
 * works on: lags are counted for each. All ops of a rank at one desk are in one stream. */
PsiOpId psi_program_serve (PsiProgram *program, guint stream, guint slot, guint subject, PsiTime cost_ps, guint tag);
/* `op` waits for `before`, `distance` iterations back. PSI_OP_NONE is ignored. */
void psi_program_after (PsiProgram *program, PsiOpId op, PsiOpId before, guint distance);
void psi_program_delta (PsiProgram *program, PsiOpId op, gboolean at_end, guint memory_class, gint64 bytes);
/* In the first `iterations` of a rank the message has no partner: it belongs to a step before the first. */
void psi_program_skip (PsiProgram *program, PsiOpId op, guint iterations);
/* The op, run in iteration n, does work of step n - iterations. */
void psi_program_shift (PsiProgram *program, PsiOpId op, int iterations);
void psi_program_label (PsiProgram *program, PsiOpId op, gint32 first, gint32 second);
guint psi_program_n_ops (const PsiProgram *program);
/* Do two ops take and give back the same memory? */
gboolean psi_program_same_memory (const PsiProgram *program, const PsiOp *a, const PsiOp *b);

static inline PsiOp *
psi_program_op (const PsiProgram *program, PsiOpId op)
{
  return &g_array_index (program->streams[PSI_OP_STREAM (op)], PsiOp, PSI_OP_POSITION (op));
}
