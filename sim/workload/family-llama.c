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
  PsiLower lower;
  guint embedding, middle, head;

  psi_block_init (&block, d, lowering, sequence);
  block.causal = TRUE;
  block.rope = TRUE;
  embedding = psi_block_add_embedding (model, lowering, &block, tokens, d->vocab, 0, FALSE);
  middle = psi_model_add_kind (model, "block");
  psi_lower_init (&lower, lowering, tokens);
  psi_block_attention (&lower, &block, FALSE);
  psi_block_mlp (&lower, &block);
  psi_block_finish (&lower, &block, psi_model_kind (model, middle));
  head = psi_block_add_head (model, lowering, &block, tokens, d->vocab, d->tied, FALSE);

  psi_model_add_layers (model, embedding, 1);
  psi_model_add_layers (model, middle, (guint) d->layers);
  psi_model_add_layers (model, head, 1);
  model->first_block = 1;
  model->n_blocks = (guint) d->layers;
  return model;
}

static gint64
count_parameters (const PsiModelDimensions *d)
{
  return psi_block_count (d, build);
}

static PsiModel *
expand (const PsiModelDimensions *d, const PsiLowering *lowering, GError **error)
{
  return psi_block_expand (d, lowering, build, error);
}

const PsiFamily psi_family_llama = {
  .name = "llama",
  .summary = "Llama, Mistral, Qwen2: rms norm, rotary positions, grouped queries, gated feed-forward",
  .count_parameters = count_parameters,
  .expand = expand,
};
