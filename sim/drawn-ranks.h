/* SPDX-License-Identifier: MIT */
/* Which GPUs of a step a timeline or snapshot shows. Equal GPUs are simulated once, as a class; here they get their
 * numbers back. */
#pragma once

#include "step.h"

typedef struct
{
  guint number;       /* the GPU; workers that share GPUs: the worker's number, stage by stage */
  guint step_rank;    /* index into PsiStep.ranks: whose program it runs */
  guint replica;      /* GPUs that talk to each other by messages have the same */
  guint stands_for;   /* equal GPUs, itself included */
  gboolean is_worker; /* it shares GPUs: `number` is no GPU */
} PsiDrawnRank;

#define PSI_DRAWN_RANKS_ERROR (psi_drawn_ranks_error_quark ())
typedef enum
{
  PSI_DRAWN_RANKS_ERROR_LIST, /* not a list of ranks */
  PSI_DRAWN_RANKS_ERROR_RANGE /* a rank the plan does not have */
} PsiDrawnRanksError;
GQuark psi_drawn_ranks_error_quark (void);

/* Is `text` a list such as "0-7,12"? */
gboolean psi_drawn_ranks_check (const char *text, GError **error);

/* The ranks of `text` in rising order, each once; NULL: the lowest of each class. Returns (transfer full) a GArray of
 * PsiDrawnRank, NULL if the list is wrong or names a rank that is not there; messages begin with --timeline-ranks. */
GArray *psi_drawn_ranks_list (const PsiStep *step, const char *text, GError **error);

/* "rank 4 (stage 1), one of 2 equal". (transfer full) */
char *psi_drawn_rank_title (const PsiStep *step, const PsiDrawnRank *drawn);
/* "compute", "send forward". (transfer full) */
char *psi_drawn_stream_title (const PsiStep *step, guint stream);
/* What an op does, for people: "F3 stage 1 block 12", "gradients stage 0". Writes at most `size` bytes. */
void psi_drawn_op_title (const PsiStep *step, const PsiOp *op, char *ret_title, gsize size);
