/* SPDX-License-Identifier: MIT */
/* The transformer block: which products, collectives and saved tensors it has.
 *
 * Saved bytes per token for width e = 2 (h hidden, q = heads x head_dim, k = kv_heads x head_dim, f ffn, a heads,
 * s keys, t tensor-parallel GPUs, S = t with sequence parallelism, else 1):
 *
 *   tensor                         Megatron, compiled       eager PyTorch
 *   block input, second residual   (2h + 2h) / S            the same
 *   outputs of both norms          (2h + 2h) / S            layernorm the same, rmsnorm 8h each (fp32 copy, normed)
 *   dropout masks                  (h + h) / S              the same
 *   queries, keys, values          2 (q + 2k) / t           6q / t: keys and values are expanded to all heads
 *   attention output               2q / t                   the same
 *   feed-forward                   (2f + 2f) / t            the same
 *     gated                        (4f + 2f) / t            8f / t: gate, its activation, up, product
 *   scores (math)                  5 a s / t with dropout, 2 a s / t without
 *   log-sum-exp (fused attention)  4 a / t
 *
 *   norm behind a half             2h / S                   rmsnorm 8h: its input, fp32 copy, normed
 *   norms of queries and keys      2 (q + k) / t            the same
 *
 * Halves side by side (GPT-J, Falcon, Cohere) share one norm, or have one each (GPT-NeoX), and one sum over the
 * tensor-parallel group forward.
 *
 * so gpt with dropout and math attention is s b h (10 + 24/t + 5 a s / (h t)), with sequence parallelism
 * s b h (34 + 5 a s / h) / t: equations 1, 2 and 4 of Korthikanti et al., arXiv 2205.05198. Selective recompute drops
 * the scores or the log-sum-exp (equation 6), full recompute keeps the block's input (2 s b h).
 *
 * Selective recompute under PyTorch is torchtitan's: the block's input, every second product (queries, values, gate,
 * the last one), the fused attention's output and log-sum-exp stay, 2h/S + 2h/S + (4q + 2k + 2f + 4a) / t; the rest
 * runs again, its collectives not counted. Models with experts drop the attention core there too. Weight half of a
 * split backward: inputs of the products and gradients of their outputs, 32 h of 34 h.
 *
 * Context parallelism divides the tokens; keys and values travel once around the group forward, twice backward.
 * Source: Megatron-LM, Transformer Engine and torchtitan code; measured peaks to 1-2 % for Megatron,
 * about 9 % for eager PyTorch. */
#include "block.h"

void
psi_block_init (PsiBlock *block, const PsiModelDimensions *d, const PsiLowering *lowering, gint64 sequence)
{
  *block =
      (PsiBlock){ .hidden = d->hidden,
                  .heads = d->heads,
                  .kv_heads = d->kv_heads,
                  .head_dim = d->head_dim,
                  .ffn = d->ffn,
                  .sequences = MAX (lowering->micro_batch, 1),
                  .queries = sequence / MAX (lowering->cp, 1),
                  .keys = sequence,
                  .rms = g_strcmp0 (d->norm, "rmsnorm") == 0,
                  .gated = g_strcmp0 (d->activation, "swiglu") == 0 || g_strcmp0 (d->activation, "gated-gelu") == 0,
                  .traits = &d->traits };
}

gint64
psi_block_tokens (const PsiLowering *lowering, gint64 sequence)
{
  return MAX (lowering->micro_batch, 1) * (sequence / MAX (lowering->cp, 1));
}

gint64
psi_block_padded_vocabulary (gint64 vocab, const PsiLowering *lowering)
{
  gint64 unit = (lowering->megatron ? 128 : 1) * (gint64) MAX (lowering->tp, 1);

  return (vocab + unit - 1) / unit * unit;
}

gint64
psi_block_whole_bytes (const PsiLower *lower, const PsiBlock *block)
{
  return lower->tokens * block->hidden * lower->element_bytes;
}

gint64
psi_block_stream_bytes (const PsiLower *lower, const PsiBlock *block)
{
  return psi_block_whole_bytes (lower, block) / lower->sequence_shards;
}

gboolean
psi_block_is_eager (const PsiLower *lower)
{
  return !lower->lowering->megatron && !lower->lowering->compile;
}

/* Does the framework run a step as single operators of PyTorch, each of which saves what it reads? */
static gboolean
is_unfused (const PsiLower *lower, PsiKernelSet set)
{
  return lower->lowering->framework != NULL ? set == PSI_KERNELS_EAGER && !lower->lowering->compile
                                            : psi_block_is_eager (lower);
}

const PsiFrameworkMemory *
psi_block_memory (const PsiLowering *lowering)
{
  return lowering->memory != NULL ? lowering->memory : psi_framework_memory_of_base (lowering->megatron);
}

/* What a product keeps of its 16-bit input: Transformer Engine saves it as it was cast for the product. mxfp8 has a
 * scale byte for each 32 elements, nvfp4 one for each 16. */
gint64
psi_block_kept_input_bytes (const PsiLower *lower, gint64 bytes)
{
  gint64 elements = bytes / lower->element_bytes;

  if (!psi_block_memory (lower->lowering)->narrow_inputs)
    return bytes;
  switch (lower->dtype)
    {
    case PSI_DTYPE_FP8:
      return elements;
    case PSI_DTYPE_MXFP8:
      return elements + elements / 32;
    case PSI_DTYPE_NVFP4:
      return elements / 2 + elements / 16;
    default:
      return bytes;
    }
}

void
psi_block_save_whole_input (PsiLower *lower, const PsiBlock *block, guint targets)
{
  if (lower->sequence_shards > 1 && psi_lower_wants_input (lower, targets) &&
      psi_block_memory (lower->lowering)->whole_inputs)
    psi_lower_save (lower, psi_block_whole_bytes (lower, block));
}

/* Ops from here on run again under PyTorch's selective recompute ... */
static void
begin_rerun (PsiLower *lower)
{
  if (lower->select_products)
    psi_lower_begin_core (lower);
}

/* ... and those from here on do not: their results, `kept_bytes`, stay. */
static void
end_rerun (PsiLower *lower, gint64 kept_bytes)
{
  if (!lower->select_products)
    return;
  psi_lower_end_core (lower);
  psi_lower_keep (lower, kept_bytes);
}

/* A norm and what it saves: its input; its result, if a product that is `fed` by it reads it; what single operators
 * keep between: an fp32 copy, and what the weight's gradient wants. */
static void
add_norm (PsiLower *lower, const PsiBlock *block, gboolean is_fed)
{
  gint64 stream_bytes = psi_block_stream_bytes (lower, block);
  const PsiFramework *framework = lower->lowering->framework;
  gboolean unfused = block->rms && is_unfused (lower, framework != NULL ? framework->norm : PSI_KERNELS_FUSED);
  gboolean trained = lower->lowering->adapters.rank == 0;
  gboolean gathers = lower->sequence_shards > 1 && psi_block_memory (lower->lowering)->whole_inputs;
  gboolean wanted = is_fed && !gathers && psi_lower_wants_input (lower, lower->feeds);
  gint64 result_bytes = !wanted                        ? 0
                        : unfused || lower->feeds == 0 ? stream_bytes
                                                       : psi_block_kept_input_bytes (lower, stream_bytes);
  gint64 between = unfused ? (lower->element_bytes == 4 ? 0 : 2) + trained : 0;

  psi_lower_save (lower, stream_bytes); /* before a half: the residual */
  psi_lower_element (lower, block->rms ? PSI_ELEMENT_RMSNORM : PSI_ELEMENT_LAYERNORM,
                     (double) stream_bytes / lower->element_bytes);
  psi_lower_save (lower, between * stream_bytes + result_bytes);
  psi_lower_add_parameters (lower, block->rms || block->traits->bare_norms ? block->hidden : 2 * block->hidden);
}

void
psi_block_norm (PsiLower *lower, const PsiBlock *block)
{
  add_norm (lower, block, TRUE);
}

/* Where a half begins: the first norm of the block, or the second. */
static void
begin_half (PsiLower *lower, const PsiBlock *block, gboolean is_first)
{
  if (block->traits->norms == PSI_NORMS_AFTER)
    psi_lower_save (lower, psi_block_stream_bytes (lower, block)); /* the residual itself is the products' input */
  else if (is_first || block->traits->norms != PSI_NORMS_SHARED)
    add_norm (lower, block, TRUE);
}

static void
end_half (PsiLower *lower, const PsiBlock *block)
{
  if (block->traits->norms == PSI_NORMS_AROUND || block->traits->norms == PSI_NORMS_AFTER)
    add_norm (lower, block, FALSE);
  psi_block_residual (lower, block);
}

/* Norms of queries and keys. */
static void
add_qk_norm (PsiLower *lower, const PsiBlock *block, gint64 qk_bytes)
{
  gint64 heads = block->heads + block->kv_heads;

  if (block->traits->qk_norm == PSI_QK_NORM_NONE)
    return;
  psi_lower_element (lower, block->rms ? PSI_ELEMENT_RMSNORM : PSI_ELEMENT_LAYERNORM,
                     (double) qk_bytes / (double) lower->element_bytes);
  psi_lower_save (lower, qk_bytes);
  psi_lower_add_parameters (lower, block->head_dim *
                                       (block->traits->qk_norm == PSI_QK_NORM_HEAD ? 2 : heads / (gint64) lower->tp));
}

void
psi_block_residual (PsiLower *lower, const PsiBlock *block)
{
  gint64 elements = psi_block_stream_bytes (lower, block) / lower->element_bytes;

  psi_lower_element (lower, PSI_ELEMENT_RESIDUAL, (double) elements);
  if (lower->lowering->dropout)
    psi_lower_save (lower, elements); /* the mask, one byte each */
  if (psi_block_memory (lower->lowering)->residual_inputs)
    psi_lower_save (lower, elements * lower->element_bytes);
}

/* Ring of keys and values: whole tensors of the group, gathered forward; backward gathered again and their gradients
 * scattered. */
static void
add_context_ring (PsiLower *lower, gint64 local_bytes)
{
  guint cp = MAX (lower->lowering->cp, 1);

  if (cp == 1)
    return;
  psi_lower_comm (lower, PSI_COMM_ALL_GATHER, PSI_COMM_REDUCE_SCATTER, PSI_GROUP_CP, local_bytes * cp);
}

void
psi_block_attention (PsiLower *lower, const PsiBlock *block, gboolean cross)
{
  gint64 whole_bytes = psi_block_whole_bytes (lower, block);
  gint64 q = block->heads * block->head_dim, k = block->kv_heads * block->head_dim;
  gint64 tokens = lower->tokens;
  gint64 key_tokens = cross ? block->sequences * (block->keys / MAX (lower->lowering->cp, 1)) : tokens;
  gint64 width = lower->element_bytes, tp = lower->tp;
  gint64 q_bytes = tokens * q * width / tp, kv_bytes = 2 * key_tokens * k * width / tp;

  begin_rerun (lower);
  lower->feeds = cross ? PSI_TARGET_Q : PSI_TARGET_Q | PSI_TARGET_K | PSI_TARGET_V;
  begin_half (lower, block, TRUE);
  psi_lower_enter_tp (lower, whole_bytes);
  psi_block_save_whole_input (lower, block, lower->feeds);
  lower->feeds = 0;
  if (cross || (!lower->lowering->megatron && block->rope))
    {
      end_rerun (lower, q_bytes);
      psi_lower_linear (lower, tokens, block->hidden, q, PSI_SPLIT_COLUMN, block->traits->qkv_bias);
      begin_rerun (lower);
      psi_lower_linear (lower, key_tokens, block->hidden, k, PSI_SPLIT_COLUMN, block->traits->qkv_bias);
      end_rerun (lower, kv_bytes / 2);
      psi_lower_linear (lower, key_tokens, block->hidden, k, PSI_SPLIT_COLUMN, block->traits->qkv_bias);
    }
  else
    {
      end_rerun (lower, q_bytes + kv_bytes);
      psi_lower_linear (lower, tokens, block->hidden, q + 2 * k, PSI_SPLIT_COLUMN, block->traits->qkv_bias);
    }
  psi_lower_adapter (lower, PSI_TARGET_Q, tokens, block->hidden, q, PSI_SPLIT_COLUMN);
  psi_lower_adapter (lower, PSI_TARGET_K, key_tokens, block->hidden, k, PSI_SPLIT_COLUMN);
  psi_lower_adapter (lower, PSI_TARGET_V, key_tokens, block->hidden, k, PSI_SPLIT_COLUMN);
  begin_rerun (lower);
  add_qk_norm (lower, block, q_bytes + kv_bytes / 2);
  psi_lower_element (lower, PSI_ELEMENT_LAYOUT, (double) (q_bytes + kv_bytes) / (double) width);
  if (block->rope)
    psi_lower_element (lower, PSI_ELEMENT_ROPE, ((double) q_bytes + (double) kv_bytes / 2.0) / (double) width);
  psi_lower_save (lower, q_bytes + (psi_block_is_eager (lower) ? 2 * key_tokens * q * width / tp : kv_bytes));
  if (psi_block_memory (lower->lowering)->whole_qkv && !cross)
    {
      psi_lower_save (lower, block->rope ? q_bytes + kv_bytes / 2 : 0); /* before they are rotated */
      psi_lower_save (lower, block->rope ? 4 * tokens * block->head_dim * width : 0);
    }
  if (psi_block_memory (lower->lowering)->packed_queries && block->heads == block->kv_heads)
    psi_lower_save (lower, kv_bytes); /* not used any more */
  add_context_ring (lower, kv_bytes);

  if (lower->select_products && lower->lowering->flash)
    end_rerun (lower, q_bytes + tokens * block->heads / tp * 4);
  else
    psi_lower_begin_core (lower);
  psi_lower_attention (lower, block->sequences, block->heads / tp, block->queries, block->keys, block->head_dim,
                       block->head_dim, block->causal);
  psi_lower_end_core (lower);
  begin_rerun (lower);
  if (MAX (lower->lowering->cp, 1) > 1)
    psi_lower_comm (lower, PSI_COMM_NONE, PSI_COMM_ALL_GATHER, PSI_GROUP_CP, kv_bytes * lower->lowering->cp);

  gboolean wanted = psi_lower_wants_input (lower, PSI_TARGET_O);
  if (wanted || lower->lowering->flash)
    psi_lower_save (lower, q_bytes);
  if (wanted && psi_block_kept_input_bytes (lower, q_bytes) <
                    q_bytes) /* the attention keeps its output, the product its own cast */
    psi_lower_save (lower, psi_block_kept_input_bytes (lower, q_bytes));
  if (lower->lowering->attention_copy && lower->lowering->flash)
    psi_lower_save (lower, q_bytes);
  psi_lower_linear (lower, tokens, q, block->hidden, PSI_SPLIT_ROW, block->traits->out_bias);
  psi_lower_adapter (lower, PSI_TARGET_O, tokens, q, block->hidden, PSI_SPLIT_ROW);
  if (block->traits->sinks)
    psi_lower_add_parameters (lower, block->heads / tp);
  if (!block->traits->parallel) /* else one sum for both halves */
    psi_lower_leave_tp (lower, whole_bytes);
  end_half (lower, block);
  end_rerun (lower, 0);
}

void
psi_block_mlp_products (PsiLower *lower, const PsiBlock *block, gint64 ffn)
{
  gint64 tokens = lower->tokens;
  gint64 inner_bytes = tokens * ffn * lower->element_bytes / lower->tp;

  end_rerun (lower, inner_bytes);
  if (block->gated && !lower->lowering->megatron)
    {
      psi_lower_linear (lower, tokens, block->hidden, ffn, PSI_SPLIT_COLUMN, block->traits->mlp_bias);
      begin_rerun (lower);
      psi_lower_linear (lower, tokens, block->hidden, ffn, PSI_SPLIT_COLUMN, block->traits->mlp_bias);
    }
  else
    psi_lower_linear (lower, tokens, block->hidden, block->gated ? 2 * ffn : ffn, PSI_SPLIT_COLUMN,
                      block->traits->mlp_bias);
  if (block->gated)
    psi_lower_adapter (lower, PSI_TARGET_GATE, tokens, block->hidden, ffn, PSI_SPLIT_COLUMN);
  psi_lower_adapter (lower, PSI_TARGET_UP, tokens, block->hidden, ffn, PSI_SPLIT_COLUMN);
  psi_lower_element (lower, block->gated ? PSI_ELEMENT_GATED : PSI_ELEMENT_GELU,
                     (double) inner_bytes / lower->element_bytes);
  const PsiFramework *framework = lower->lowering->framework;
  gboolean unfused = is_unfused (lower, framework != NULL ? framework->gate : PSI_KERNELS_FUSED);
  for (guint i = 0; i < (!block->gated ? 1u : unfused ? 3u : 2u); i++) /* tensors of their own */
    psi_lower_save (lower, inner_bytes);
  if (psi_lower_wants_input (lower, PSI_TARGET_DOWN))
    psi_lower_save (lower, psi_block_kept_input_bytes (lower, inner_bytes));
  /* Of three products the last one's result stays, of two nothing needs it. */
  end_rerun (lower, block->gated ? psi_block_stream_bytes (lower, block) : 0);
  psi_lower_linear (lower, tokens, ffn, block->hidden, PSI_SPLIT_ROW, block->traits->mlp_bias);
  psi_lower_adapter (lower, PSI_TARGET_DOWN, tokens, ffn, block->hidden, PSI_SPLIT_ROW);
}

/* Do gate and up sum the gradient of their input one by one? */
static gboolean
sums_each_product (const PsiLower *lower, const PsiBlock *block)
{
  const PsiFramework *framework = lower->lowering->framework;

  return block->gated && lower->sequence_shards == 1 && framework != NULL && framework->sums_each_product;
}

void
psi_block_mlp (PsiLower *lower, const PsiBlock *block)
{
  gint64 whole_bytes = psi_block_whole_bytes (lower, block);

  begin_rerun (lower);
  lower->feeds = PSI_TARGET_GATE | PSI_TARGET_UP;
  begin_half (lower, block, FALSE);
  if (block->traits->norms != PSI_NORMS_SHARED)
    psi_lower_enter_tp (lower, whole_bytes);
  if (sums_each_product (lower, block))
    psi_lower_enter_tp (lower, whole_bytes);
  psi_block_save_whole_input (lower, block, lower->feeds);
  lower->feeds = 0;
  psi_block_mlp_products (lower, block, block->ffn);
  psi_lower_leave_tp (lower, whole_bytes);
  end_half (lower, block);
  end_rerun (lower, 0);
}

void
psi_block_finish (PsiLower *lower, const PsiBlock *block, PsiLayerKind *kind)
{
  gint64 stream_bytes = psi_block_stream_bytes (lower, block);
  gint64 gathered_bytes = lower->sequence_shards > 1 ? psi_block_whole_bytes (lower, block) : 0;

  kind->input_bytes = kind->output_bytes = stream_bytes;
  psi_lower_keep (lower, stream_bytes);
  kind->forward_workspace_bytes = stream_bytes + gathered_bytes;
  /* Gradients of the residual and of the widest inner tensor, gathered input (if it has no buffer of its own) and its
   * gradient; PyTorch makes a weight gradient before it adds it, Megatron's products add in place. */
  kind->backward_workspace_bytes = 2 * stream_bytes + lower->flow_bytes +
                                   (psi_block_memory (lower->lowering)->shared_gathers ? 1 : 2) * gathered_bytes +
                                   (lower->lowering->megatron ? 0 : lower->largest_matrix * lower->element_bytes);
  psi_lower_finish (lower, kind);
}
