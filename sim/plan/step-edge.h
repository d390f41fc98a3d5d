/* SPDX-License-Identifier: MIT */
/* Inside sim/plan: what a token receives before its work and sends behind it. */
#pragma once

#include "step.h"

/* Ops of a part's pass. A layer waits only for what it reads itself, so that branches run at the same time. */
typedef struct
{
  PsiOps ops;     /* of the whole part */
  PsiOps *layers; /* [layers of the part]; owned */
  guint first_layer;
  gint64 received_bytes; /* gradients of outputs, and outputs kept for them: alive until the end of the pass */
} PsiPartOps;

static inline void
psi_part_ops_clear (PsiPartOps *part)
{
  g_free (part->layers);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsiPartOps, psi_part_ops_clear)

/* Those of one layer of the part, by its number in the model. */
static inline PsiOps *
psi_part_layer_ops (const PsiPartOps *part, guint layer)
{
  return &part->layers[layer - part->first_layer];
}

/* Messages of a token whose work is there, with the memory they take: receives, then sends to the parts that read the
 * output, or that the input came from. A token that is only the weight half of a backward has none. */
void psi_step_forward_edges (PsiStep *step, PsiStepRank *rank, const PsiToken *token, PsiPartOps *part);
void psi_step_backward_edges (PsiStep *step, PsiStepRank *rank, const PsiToken *token, PsiPartOps *part);
