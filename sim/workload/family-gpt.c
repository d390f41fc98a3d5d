/* SPDX-License-Identifier: MIT */
/* GPT-2 and GPT-3: learned positions, layer norms before each half, biases everywhere, causal attention, tied head.
 *
 *   parameters = V h + positions h + L (4 h q' + 2 h f + norms + biases) + final norm,   q' = heads x head_dim
 *
 * V vocabulary, h hidden, f ffn, L layers. Saved tensors: block.c. Source: Radford et al. 2019, Brown et al. 2020,
 * Megatron-LM. Limits: GPT-3's alternating sparse attention is taken as dense, as everybody does. */
#include "block.h"

static PsiModel *
build (const PsiModelDimensions *d, const PsiLowering *lowering, gint64 sequence)
{
  PsiModel *model = psi_model_new (d->name, d->family);
  gint64 tokens = psi_block_tokens (lowering, sequence);
  PsiBlock block;
  guint embedding, middle, head;

  psi_block_init (&block, d, lowering, sequence);
  block.causal = TRUE;
  block.rope = d->positions == 0 && !d->traits.alibi;
  embedding = psi_block_add_embedding (model, lowering, &block, tokens, d->vocab, d->positions * d->hidden,
                                       d->traits.embedding_norm);
  middle = psi_block_add (model, "block", lowering, &block, tokens);
  head = psi_block_add_head (model, lowering, &block, tokens, d->vocab, d->tied, FALSE);
  return psi_block_stack (model, embedding, middle, (guint) d->layers, head);
}

const PsiFamily psi_family_gpt = {
  .name = "gpt",
  .summary = "GPT-2 and GPT-3: layer norm, gelu, biases, learned positions",
  .build = build,
};
