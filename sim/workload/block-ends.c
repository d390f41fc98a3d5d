/* SPDX-License-Identifier: MIT */
/* What stands before the first block and behind the last.
 *
 *   embedding   V h / t parameters; keeps the numbers of the words, 8 bytes a token, and the mask of its dropout
 *   head        final norm, logits of V / t columns in 16 bits, loss over them; keeps and takes so many bytes of a
 *               logit as framework-memory.c says, chunk by chunk; V h / t parameters unless tied to the embedding
 *
 * V rows of the embedding as they are allocated, h hidden, t tensor-parallel GPUs. The vocabulary-parallel loss sums
 * three numbers a token over the group; where the framework gathers the logits, all GPUs of it make the whole loss.
 *
 * Source: as block.c; Megatron-LM tensor_parallel/cross_entropy.py. A pipeline that shares both out:
 * block-vocabulary.c. Limits: one loss, the cross entropy, whatever the task; labels take no memory. */
#include "block.h"

/* Bytes of the gradient that the look-up of an embedding makes of all its tables before it is added to the sum, where
 * products add theirs in place; `lower` has the embedding's parameters and no others. */
static gint64
table_gradient_bytes (const PsiLower *lower)
{
  const PsiLowering *lowering = lower->lowering;

  if (!lowering->megatron || lowering->adapters.rank > 0 || psi_block_memory (lowering)->autograd_gradient_bytes > 0)
    return 0;
  return lower->parameters * lower->element_bytes;
}

guint
psi_block_add_embedding (PsiModel *model, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens,
                         gint64 vocab, gint64 replicated, gboolean norm)
{
  guint index = psi_model_add_kind (model, "embedding");
  PsiLayerKind *kind = psi_model_kind (model, index);
  PsiLower lower;
  gint64 stream_bytes, elements;

  psi_lower_init (&lower, lowering, tokens);
  stream_bytes = psi_block_stream_bytes (&lower, block);
  elements = stream_bytes / lower.element_bytes;
  if (lowering->vocabulary_shards <= 1)
    psi_lower_add_parameters (&lower, psi_block_padded_vocabulary (vocab, lowering) / lower.tp * block->hidden);
  psi_lower_add_parameters (&lower, replicated);
  psi_lower_element (&lower, PSI_ELEMENT_EMBEDDING, (double) (tokens * block->hidden));
  psi_lower_leave_tp (&lower, psi_block_whole_bytes (&lower, block));
  psi_lower_save (&lower, tokens * 8); /* token numbers, int64 */
  if (norm)
    psi_block_norm (&lower, block);
  if (lowering->dropout)
    {
      psi_lower_element (&lower, PSI_ELEMENT_DROPOUT, (double) elements);
      psi_lower_save (&lower, elements);
    }
  kind->output_bytes = stream_bytes;
  kind->input_bytes = tokens * 8;
  kind->forward_workspace_bytes = psi_block_whole_bytes (&lower, block);
  kind->backward_workspace_bytes = psi_block_whole_bytes (&lower, block) + table_gradient_bytes (&lower);
  kind->never_recomputed = TRUE;
  psi_lower_finish (&lower, kind);
  if (replicated == 0 && !norm)
    psi_block_script_embedding (kind, lowering, block, tokens, vocab);
  return index;
}

guint
psi_block_add_head (PsiModel *model, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens, gint64 vocab,
                    gboolean tied, gboolean transform)
{
  guint index = psi_model_add_kind (model, "head");
  PsiLayerKind *kind = psi_model_kind (model, index);
  gint64 columns = psi_block_padded_vocabulary (vocab, lowering) / MAX (lowering->tp, 1);
  gint64 matrix = columns * block->hidden;
  gint64 logits, whole, chunk, kept_bytes, loss_bytes, gradient_bytes, whole_bytes, width;
  PsiLower lower;

  psi_lower_init (&lower, lowering, tokens);
  width = lower.element_bytes;
  whole_bytes = psi_block_whole_bytes (&lower, block);
  logits = tokens * columns;
  whole = psi_block_memory (lowering)->gathered_logits ? logits * lower.tp : logits;
  chunk = (whole + MAX (lowering->loss_chunks, 1) - 1) / MAX (lowering->loss_chunks, 1);
  if (transform)
    {
      psi_lower_linear (&lower, tokens / lower.sequence_shards, block->hidden, block->hidden, PSI_SPLIT_NONE, TRUE);
      psi_lower_element (&lower, PSI_ELEMENT_GELU, (double) tokens * (double) block->hidden / lower.sequence_shards);
      psi_lower_save (&lower, 2 * psi_block_stream_bytes (&lower, block));
    }
  else
    psi_block_norm (&lower, block);
  kind->input_bytes = psi_block_stream_bytes (&lower, block);
  kind->never_recomputed = TRUE;
  if (lowering->vocabulary_shards > 1) /* the rest is in block-vocabulary.c */
    {
      psi_lower_finish (&lower, kind);
      return index;
    }
  psi_lower_enter_tp (&lower, whole_bytes);
  psi_block_save_whole_input (&lower, block, 0);
  psi_lower_tied_linear (&lower, tokens, block->hidden, columns * lower.tp);
  if (!tied)
    psi_lower_add_parameters (&lower, matrix);
  else
    model->tied_parameters = matrix;
  if (block->traits->head_bias)
    psi_lower_add_parameters (&lower, columns);
  if (whole > logits) /* gathered, put in order, and the loss made by every GPU of the group */
    {
      psi_lower_comm (&lower, PSI_COMM_ALL_GATHER, PSI_COMM_NONE, PSI_GROUP_TP, whole * width);
      psi_lower_element (&lower, PSI_ELEMENT_LAYOUT, (double) whole);
    }
  psi_lower_element (&lower, PSI_ELEMENT_LOSS, (double) whole);
  if (lower.tp > 1 && whole == logits) /* maximum, target logit and sum of the vocabulary-parallel loss, fp32 */
    psi_lower_comm (&lower, PSI_COMM_ALL_REDUCE, PSI_COMM_NONE, PSI_GROUP_TP, tokens * 12);

  /* framework-memory.c has the bytes of a logit; compiled PyTorch keeps the logits and writes their gradient, 4. */
  const PsiFrameworkMemory *memory = psi_block_memory (lowering);
  gboolean fused = lowering->fused_loss && memory->fused_loss_bytes > 0,
           compiled = lowering->compile && !lowering->megatron;
  guint wide = width == 4 ? 2 : 0; /* fp32 logits are 2 bytes wider and need no fp32 copy of their own */
  kept_bytes = chunk * (fused      ? memory->fused_loss_bytes
                        : compiled ? memory->compiled_loss_bytes[0]
                                   : memory->loss_kept_bytes + wide);
  guint sharded_bytes = lower.tp > 1 ? memory->sharded_loss_bytes[compiled] : 0;
  loss_bytes = chunk * (fused               ? memory->fused_loss_bytes
                        : sharded_bytes > 0 ? sharded_bytes
                        : compiled          ? memory->compiled_loss_bytes[1]
                                            : memory->loss_peak_bytes);
  gradient_bytes = chunk * width + (lowering->adapters.rank == 0 ? matrix * width : 0);
  /* Chunks one after another: each is through before the next begins, or all keep what their backward needs. */
  gint64 others_bytes = memory->chunks_stay ? kept_bytes / MAX (chunk, 1) * (whole - chunk) : 0;
  psi_lower_save (&lower, kept_bytes + others_bytes);
  kind->stale_bytes = memory->stale_logits ? whole * width : 0;

  gint64 gathered_bytes = lower.sequence_shards > 1 ? whole_bytes : 0;
  gint64 again_bytes = memory->whole_inputs || memory->shared_gathers ? 0 : gathered_bytes; /* if it is not kept */
  kind->forward_workspace_bytes =
      again_bytes + (psi_block_is_eager (&lower) && width == 2 && memory->loss_kept_bytes > width ? chunk * width : 0);
  kind->backward_workspace_bytes =
      MAX (MAX (loss_bytes, gradient_bytes) - kept_bytes, 0) + again_bytes + gathered_bytes;
  psi_lower_finish (&lower, kind);
  if (!transform)
    psi_block_script_head (kind, lowering, block, tokens, vocab, tied);
  return index;
}
