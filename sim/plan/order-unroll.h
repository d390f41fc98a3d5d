/* SPDX-License-Identifier: MIT */
/* An order of work unrolled over several repetitions: who does what, for which step, and where. */
#pragma once

#include "schedule-file.h"

/* Where the forward, the input half and the weight half of a micro-batch on a part are done; a full backward is both
 * halves. */
enum
{
  PSI_SLOT_FORWARD,
  PSI_SLOT_INPUT,
  PSI_SLOT_WEIGHT,
  PSI_N_SLOTS
};

typedef struct
{
  gint64 end_ps; /* -1: not yet */
  gint32 rank;   /* -1: nobody does it */
  guint32 position;
} PsiSlot;

typedef struct
{
  const PsiToken *token;
  guint32 part;
  guint32 chunk;
  gint64 micro_batch; /* of the whole run */
  gint64 shift;       /* what was added to the file's number in this repetition */
  gint32 step, version;
  gboolean joined;
  gint64 start_ps;
} PsiOrderOp;

typedef struct
{
  GArray *ops;    /* of PsiOrderOp */
  guint *begins;  /* [repeats + 1] first op of each repetition */
  guint position; /* next op */
  gint64 free_ps;
} PsiOrderRank;

typedef struct
{
  const PsiSchedule *s;
  const PsiScheduleTimes *times;
  guint n_repeats, n_steps;
  gint64 total; /* micro-batches of the run */
  PsiOrderRank *ranks;
  PsiSlot *slots;      /* [((replica * total + micro_batch) * parts + part) * PSI_N_SLOTS + slot] */
  gint64 *updated_ps;  /* [(rank * chunks + chunk) * n_steps + step], -1 not yet */
  guint32 *updates_at; /* the same: position of the update, G_MAXUINT32 none */
  gint64 *left;        /* [part * n_steps + step] weight halves that are not done */
  gint64 *ready_ps;    /* the same: end of the latest */
  gint32 *owner;       /* [part] a rank that updates it */
  guint current;       /* the op whose needs are looked at, on its rank */
} PsiOrder;

static inline PsiSlot *
psi_order_slot (const PsiOrder *c, guint rank, gint64 micro_batch, guint part, guint slot)
{
  gint64 replica = c->s->replicas ? rank : 0;

  return &c->slots[((replica * c->total + micro_batch) * c->s->n_parts + part) * PSI_N_SLOTS + slot];
}

static inline gsize
psi_order_update (const PsiOrder *c, guint rank, guint chunk, gint32 step)
{
  return (gsize) (rank * c->s->n_chunks + chunk) * c->n_steps + (gsize) step;
}

static inline guint
psi_slot_of_kind (guint kind)
{
  return kind == PSI_TOKEN_FORWARD           ? PSI_SLOT_FORWARD
         : kind == PSI_TOKEN_BACKWARD_WEIGHT ? PSI_SLOT_WEIGHT
                                             : PSI_SLOT_INPUT;
}

/* "B3.1", for messages. (transfer full) */
char *psi_order_op_name (const PsiOrder *c, const PsiOrderOp *op);

/* Steps by which the repeated lists run ahead of the first repetition's own. */
guint psi_order_skew (const PsiSchedule *schedule);

/* Unroll so many repetitions, and the `skew` steps that begin within them. FALSE: a missing, doubled or misplaced op.
 * Clear with psi_order_clear() in either case. */
gboolean psi_order_unroll (PsiOrder *c, const PsiSchedule *schedule, const PsiScheduleTimes *times, guint n_repeats,
                           guint skew, GError **error);
void psi_order_clear (PsiOrder *c);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsiOrder, psi_order_clear)
