/* SPDX-License-Identifier: MIT */
/* BERT: learned positions and token types, bidirectional attention, biases, a masked-language-model head.
 *
 *   parameters = (V + positions + types) h + 2 h + L (4 h h + 2 h f + 9 h + f) + pooler (h h + h)
 *
 * V vocabulary, h hidden, f ffn, L layers. BERT normalises after each half instead of before; the tensors kept and the
 * kernels run are the same in number and size, so the shared block serves (embedding norm = the one before block 1).
 * The transform before the logits is as large as the pooler; the pooler's parameters stand for it, as the published
 * count has one of them. Logits are computed at every position, as Megatron and transformers do.
 * Source: Devlin et al. 2018, transformers modeling_bert.py. Limits: no next-sentence loss. */
#include "block.h"

static PsiModel *
build (const PsiModelDimensions *d, const PsiLowering *lowering, gint64 sequence)
{
  PsiModel *model = psi_model_new (d->name, d->family);
  gint64 tokens = psi_block_tokens (lowering, sequence);
  PsiBlock block;
  guint embedding, middle, head;

  psi_block_init (&block, d, lowering, sequence);
  embedding = psi_block_add_embedding (model, lowering, &block, tokens, d->vocab,
                                       (d->positions + d->token_types) * d->hidden, TRUE);
  middle = psi_block_add (model, "block", lowering, &block, tokens);
  head = psi_block_add_head (model, lowering, &block, tokens, d->vocab, d->tied, d->traits.pooler);
  return psi_block_stack (model, embedding, middle, (guint) d->layers, head);
}

const PsiFamily psi_family_bert = {
  .name = "bert",
  .summary = "BERT: bidirectional attention, masked-language-model head",
  .build = build,
};
