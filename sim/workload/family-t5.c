/* SPDX-License-Identifier: MIT */
/* T5: an encoder and a decoder with cross attention, relative positions, rms norms, no biases.
 *
 *   parameters = V h + Le (4 h q + m h f + 2 h) + Ld (8 h q + m h f + 3 h) + 2 h + 2 buckets heads
 *
 * V vocabulary, h hidden, q = heads x head_dim, f ffn, m = 2, or 3 when the feed-forward is gated; Le, Ld layers.
 * Layers run encoder first, then decoder; both read `sequence` tokens. The last encoder block carries the encoder's
 * final norm, the first blocks of each stack their table of relative positions. A decoder block hands on its own
 * stream and the encoder's output, which later cross attentions read: its boundary is twice as large. The encoder's
 * output is kept once, by the first decoder block, which also looks up the decoder's embeddings.
 * Source: Raffel et al. 2019, transformers modeling_t5.py.
 * Limits: the embedding's second copy on the decoder's stage is not counted. */
#include "block.h"

static guint
add_block (PsiModel *model, const char *name, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens,
           gboolean decoder, gboolean first, gboolean last, gint64 buckets)
{
  guint index = psi_model_add_kind (model, name);
  PsiLayerKind *kind = psi_model_kind (model, index);
  PsiBlock self = *block, cross = *block;
  PsiLower lower;
  gint64 stream_bytes;

  psi_lower_init (&lower, lowering, tokens);
  stream_bytes = psi_block_stream_bytes (&lower, block);
  self.causal = decoder;
  if (first)
    psi_lower_add_parameters (&lower, buckets * block->heads / lower.tp);
  if (first && decoder)
    {
      psi_lower_element (&lower, PSI_ELEMENT_EMBEDDING, (double) (tokens * block->hidden));
      psi_lower_save (&lower, stream_bytes);
    }
  psi_block_attention (&lower, &self, FALSE);
  if (decoder)
    psi_block_attention (&lower, &cross, TRUE);
  psi_block_mlp (&lower, block);
  if (last && !decoder)
    psi_block_norm (&lower, block);
  psi_block_finish (&lower, block, kind);
  if (decoder)
    {
      kind->output_bytes = 2 * stream_bytes;
      kind->input_bytes = first ? stream_bytes : 2 * stream_bytes;
    }
  return index;
}

/* `count` blocks of one stack, whose ends may differ. */
static void
add_stack (PsiModel *model, const PsiModelDimensions *d, const PsiLowering *lowering, const PsiBlock *block,
           gint64 tokens, gboolean decoder, guint count)
{
  static const char *const names[2][3] = { { "encoder", "encoder_first", "encoder_last" },
                                           { "decoder", "decoder_first", "decoder" } };
  guint middle = 0;
  gboolean has_middle = FALSE;

  for (guint i = 0; i < count; i++)
    {
      gboolean first = i == 0, last = i == count - 1 && !decoder;

      if (first || last)
        {
          guint end = add_block (model, names[decoder][first ? 1 : 2], lowering, block, tokens, decoder, first, last,
                                 d->relative_buckets);

          psi_model_add_layers (model, end, 1);
          continue;
        }
      if (!has_middle)
        middle = add_block (model, names[decoder][0], lowering, block, tokens, decoder, FALSE, FALSE, 0);
      has_middle = TRUE;
      psi_model_add_layers (model, middle, 1);
    }
}

static PsiModel *
build (const PsiModelDimensions *d, const PsiLowering *lowering, gint64 sequence)
{
  PsiModel *model = psi_model_new (d->name, d->family);
  gint64 tokens = psi_block_tokens (lowering, sequence);
  PsiBlock block;

  psi_block_init (&block, d, lowering, sequence);
  psi_model_add_layers (model, psi_block_add_embedding (model, lowering, &block, tokens, d->vocab, 0, FALSE), 1);
  add_stack (model, d, lowering, &block, tokens, FALSE, (guint) d->layers);
  add_stack (model, d, lowering, &block, tokens, TRUE, (guint) d->decoder_layers);
  psi_model_add_layers (model, psi_block_add_head (model, lowering, &block, tokens, d->vocab, d->tied, FALSE), 1);
  model->first_block = 1;
  model->n_blocks = (guint) (d->layers + d->decoder_layers);
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

const PsiFamily psi_family_t5 = {
  .name = "t5",
  .summary = "T5: encoder and decoder, relative positions, gated feed-forward or not",
  .count_parameters = count_parameters,
  .expand = expand,
};
