/* SPDX-License-Identifier: MIT */
/* Llama, Mistral, Qwen2: rms norms, rotary positions, grouped queries, a gated feed-forward of three matrices.
 *
 *   parameters = 2 V h (V h if tied) + L (2 h q + 2 h k + 3 h f + 2 h [+ q + 2k biases: Qwen2]) + h
 *
 * V vocabulary, h hidden, q = heads x head_dim, k = kv_heads x head_dim, f ffn, L layers. Saved tensors: block.c.
 * Source: Touvron et al. 2023, transformers modeling_llama.py, modeling_qwen2.py.
 * Limits: Mistral's sliding window is taken as full attention (the same up to 4096 tokens). */
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
  block.rope = TRUE;
  embedding = psi_block_add_embedding (model, lowering, &block, tokens, d->vocab, 0, FALSE);
  middle = psi_block_add (model, "block", lowering, &block, tokens);
  head = psi_block_add_head (model, lowering, &block, tokens, d->vocab, d->tied, FALSE);
  return psi_block_stack (model, embedding, middle, (guint) d->layers, head);
}

const PsiFamily psi_family_llama = {
  .name = "llama",
  .summary = "Llama, Mistral, Qwen2: rms norm, rotary positions, grouped queries, gated feed-forward",
  .build = build,
};
