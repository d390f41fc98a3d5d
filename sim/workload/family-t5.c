/* SPDX-License-Identifier: MIT */
/* T5: an encoder and a decoder with cross attention, relative positions, rms norms, no biases.
 *
 *   parameters = V h + Le (4 h q + m h f + 2 h) + Ld (8 h q + m h f + 3 h) + 2 h + 2 buckets heads
 *   scores     = a (Le se^2 + Ld (sd^2 + sd se)) of a sample
 *
 * V vocabulary, h hidden, q = heads x head_dim, f ffn, m = 2, or 3 when the feed-forward is gated; Le, Ld layers, a
 * heads. Layers run encoder first, then decoder; the encoder reads se = `sequence` tokens, the decoder sd =
 * `decoder_sequence`, the same unless written. The last encoder block carries the encoder's final norm, the first
 * blocks of each stack their table of relative positions. A decoder block hands on its own stream and the encoder's
 * output, which later cross attentions read: both are its boundary. The encoder's output is kept once, by the first
 * decoder block, which also looks up the decoder's embeddings; keys and values of cross attention have se tokens, head
 * and loss sd.
 * Source: Raffel et al. 2019, transformers modeling_t5.py; Megatron-LM pretrain_t5.py (encoder 512 tokens, decoder
 * 128). Limits: the embedding's second copy on the decoder's stage is not counted. */
#include "block.h"

/* What a stack of the two is. */
typedef struct
{
  gboolean decoder;
  gint64 tokens;        /* of this stack, of one micro-batch on one GPU */
  gint64 encoder_bytes; /* of the encoder's output */
  PsiBlock self, cross;
} Stack;

static guint
add_block (PsiModel *model, const char *name, const PsiLowering *lowering, const Stack *stack, gboolean first,
           gboolean last, gint64 buckets)
{
  guint index = psi_model_add_kind (model, name);
  PsiLayerKind *kind = psi_model_kind (model, index);
  PsiLower lower;
  gint64 stream_bytes;

  psi_lower_init (&lower, lowering, stack->tokens);
  stream_bytes = psi_block_stream_bytes (&lower, &stack->self);
  if (first)
    psi_lower_add_parameters (&lower, buckets * stack->self.heads / lower.tp);
  if (first && stack->decoder)
    {
      psi_lower_element (&lower, PSI_ELEMENT_EMBEDDING, (double) (stack->tokens * stack->self.hidden));
      psi_lower_save (&lower, stack->encoder_bytes);
    }
  psi_block_attention (&lower, &stack->self, FALSE);
  if (stack->decoder)
    psi_block_attention (&lower, &stack->cross, TRUE);
  psi_block_mlp (&lower, &stack->self);
  if (last && !stack->decoder)
    psi_block_norm (&lower, &stack->self);
  psi_block_finish (&lower, &stack->self, kind);
  if (stack->decoder)
    {
      kind->output_bytes = stream_bytes + stack->encoder_bytes;
      kind->input_bytes = first ? stack->encoder_bytes : stream_bytes + stack->encoder_bytes;
    }
  return index;
}

/* `count` blocks of one stack, whose ends may differ. */
static void
add_stack (PsiModel *model, const PsiModelDimensions *d, const PsiLowering *lowering, const Stack *stack, guint count)
{
  static const char *const names[2][3] = { { "encoder", "encoder_first", "encoder_last" },
                                           { "decoder", "decoder_first", "decoder" } };
  guint middle = 0;
  gboolean has_middle = FALSE;

  for (guint i = 0; i < count; i++)
    {
      gboolean first = i == 0, last = i == count - 1 && !stack->decoder;

      if (first || last)
        {
          guint end = add_block (model, names[stack->decoder][first ? 1 : 2], lowering, stack, first, last,
                                 d->relative_buckets);

          psi_model_add_layers (model, end, 1);
          continue;
        }
      if (!has_middle)
        middle = add_block (model, names[stack->decoder][0], lowering, stack, FALSE, FALSE, 0);
      has_middle = TRUE;
      psi_model_add_layers (model, middle, 1);
    }
}

static PsiModel *
build (const PsiModelDimensions *d, const PsiLowering *lowering, gint64 sequence)
{
  PsiModel *model = psi_model_new (d->name, d->family);
  gint64 outputs = d->decoder_sequence > 0 ? d->decoder_sequence : sequence;
  Stack encoder = { .decoder = FALSE, .tokens = psi_block_tokens (lowering, sequence) };
  Stack decoder = { .decoder = TRUE, .tokens = psi_block_tokens (lowering, outputs) };
  PsiLower lower;

  psi_block_init (&encoder.self, d, lowering, sequence);
  psi_block_init (&decoder.self, d, lowering, outputs);
  decoder.self.causal = TRUE;
  decoder.cross = decoder.self;
  decoder.cross.causal = FALSE;
  decoder.cross.keys = sequence;
  psi_lower_init (&lower, lowering, encoder.tokens);
  decoder.encoder_bytes = psi_block_stream_bytes (&lower, &encoder.self);
  psi_lower_clear (&lower);

  psi_model_add_layers (
      model, psi_block_add_embedding (model, lowering, &encoder.self, encoder.tokens, d->vocab, 0, FALSE), 1);
  add_stack (model, d, lowering, &encoder, (guint) d->layers);
  add_stack (model, d, lowering, &decoder, (guint) d->decoder_layers);
  psi_model_add_layers (
      model, psi_block_add_head (model, lowering, &decoder.self, decoder.tokens, d->vocab, d->tied, FALSE), 1);
  model->first_block = 1;
  model->n_blocks = (guint) (d->layers + d->decoder_layers);
  return model;
}

const PsiFamily psi_family_t5 = {
  .name = "t5",
  .summary = "T5: encoder and decoder, relative positions, gated feed-forward or not",
  .build = build,
};
