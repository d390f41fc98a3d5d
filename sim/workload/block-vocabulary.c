/* SPDX-License-Identifier: MIT */
/* Embedding and head split over the ranks of a pipeline.
 *
 *   parameters   V h / p of the embedding on every rank, and as many of the head unless tied
 *   work         of a micro-batch on every rank: logits of V / p columns, their share of the softmax (pass S),
 *                gradients of input and weight (pass T): 1 / p of the head's
 *   alive        the last block's output and the logits of V / p columns of the micro-batches between S and T: two
 *                with barriers, one in lockstep
 *   in flight    schedule-1f1b.c
 *
 * S stands with the forward of the rank's own part, T with its backward: in the steady state every rank does one of
 * each per interval, whichever micro-batches they are for. Source: Yeung et al., Balancing Pipeline Parallelism with
 * Vocabulary Parallelism, arXiv 2411.05288, sections 3 to 5. Limits: the messages (one broadcast and one sum of the
 * last block's output, sums of a few numbers a token) run beside the work and are left out, 4 T h bytes a micro-batch.
 */
#include "block.h"

static guint
add_vocabulary (PsiModel *model, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens, gint64 vocab,
                gboolean tied)
{
  guint index = psi_model_add_kind (model, "vocabulary");
  PsiLayerKind *kind = psi_model_kind (model, index);
  const PsiFrameworkMemory *memory = psi_block_memory (lowering);
  gint64 shards = lowering->vocabulary_shards, tp = MAX (lowering->tp, 1), live = MAX (lowering->vocabulary_live, 1);
  gint64 columns = (psi_block_padded_vocabulary (vocab, lowering) / tp + shards - 1) / shards;
  PsiLower lower;

  psi_lower_init (&lower, lowering, tokens);
  psi_lower_add_parameters (&lower, (tied ? 1 : 2) * columns * block->hidden);
  psi_lower_element (&lower, PSI_ELEMENT_EMBEDDING, (double) (tokens * block->hidden) / (double) shards);
  psi_lower_tied_linear (&lower, tokens, block->hidden, columns * tp);
  psi_lower_element (&lower, PSI_ELEMENT_LOSS, (double) (tokens * columns));
  gint64 kept_bytes = tokens * columns * memory->loss_kept_bytes,
         peak_bytes = tokens * columns * memory->loss_peak_bytes;
  gint64 input_bytes = psi_block_whole_bytes (&lower, block);

  kind->input_bytes = kind->output_bytes = psi_block_stream_bytes (&lower, block);
  kind->forward_workspace_bytes = live * (kept_bytes + input_bytes);
  kind->backward_workspace_bytes = (live - 1) * (kept_bytes + input_bytes) + peak_bytes + 2 * input_bytes;
  kind->never_recomputed = TRUE;
  psi_lower_finish (&lower, kind);
  return index;
}

void
psi_block_shard_vocabulary (PsiModel *model, const PsiLowering *lowering, const PsiModelDimensions *d, gint64 sequence)
{
  gint64 outputs = d->decoder_sequence > 0 ? d->decoder_sequence : sequence;
  guint shards = lowering->vocabulary_shards, n_blocks = model->n_blocks, n_layers = model->layers->len, done = 0;
  g_autoptr (GArray) layers = model->layers;
  PsiBlock block;

  psi_block_init (&block, d, lowering, outputs);
  guint vocabulary = add_vocabulary (model, lowering, &block, psi_block_tokens (lowering, outputs), d->vocab, d->tied);

  model->layers = g_array_new (FALSE, TRUE, sizeof (PsiLayer));
  for (guint l = 0; l < n_layers; l++)
    {
      psi_model_add_layers (model, g_array_index (layers, PsiLayer, l).kind, 1);
      while (l + 1 >= model->first_block && done < shards &&
             l + 1 - model->first_block >= (guint) ((guint64) n_blocks * (done + 1) / shards))
        {
          psi_model_add_layers (model, vocabulary, 1);
          done++;
        }
    }
  model->n_blocks = n_blocks + shards;
  model->vocabulary_shards = shards;
  model->tied_parameters = 0;
}
