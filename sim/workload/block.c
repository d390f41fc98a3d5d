/* SPDX-License-Identifier: MIT */
/* The transformer block: which products, collectives and saved tensors it has.
 *
 * Saved bytes per token for width e = 2 (h hidden, q = heads x head_dim, k = kv_heads x head_dim, f ffn, a heads,
 * s keys, t tensor-parallel GPUs, S = t with sequence parallelism, else 1):
 *
 *   tensor                      Megatron, compiled          eager PyTorch
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
 * about 9 % for eager PyTorch. Limits: fp8 keeps 16-bit activations; experts are balanced. */
#include "block.h"

static gboolean
check_divides (const char *degree, guint value, gint64 amount, const char *what, const char *name, GError **error)
{
  g_autoptr (GString) allowed = NULL;

  if (value <= 1 || amount % value == 0)
    return TRUE;
  allowed = g_string_new ("1");
  for (gint64 d = 2; d <= MIN (amount, 1024) && allowed->len < 60; d++)
    if (amount % d == 0)
      g_string_append_printf (allowed, " %" G_GINT64_FORMAT, d);
  g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
               "[plan] %s: '%u' does not divide the %" G_GINT64_FORMAT " %s of '%s' (allowed: %s)", degree, value,
               amount, what, name, allowed->str);
  return FALSE;
}

static gboolean
check_degrees (const PsiModelDimensions *d, const PsiLowering *lowering, gint64 sequence, GError **error)
{
  guint tp = MAX (lowering->tp, 1), cp = MAX (lowering->cp, 1), ep = MAX (lowering->ep, 1);

  if (!check_divides ("tp", tp, d->heads, "attention heads", d->name, error) ||
      !check_divides ("tp", tp, d->kv_heads, "key and value heads", d->name, error) ||
      !check_divides ("tp", tp, d->ffn, "feed-forward columns", d->name, error) ||
      !check_divides ("cp", cp, sequence, "tokens of a sample", d->name, error))
    return FALSE;
  if (lowering->sequence_parallel &&
      !check_divides ("tp", tp, sequence / cp, "tokens that sequence_parallel splits", d->name, error))
    return FALSE;
  if (d->experts > 0)
    return check_divides ("ep", ep, d->experts, "experts", d->name, error) &&
           check_divides ("tp", tp, d->expert_ffn, "columns of an expert", d->name, error);
  if (ep > 1)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "[plan] ep: '%u' needs experts, and '%s' has none (allowed: 1)", ep, d->name);
      return FALSE;
    }
  return TRUE;
}

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
                  .qkv_bias = d->qkv_bias,
                  .linear_bias = d->linear_bias };
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

static gboolean
is_eager (const PsiLower *lower)
{
  return !lower->lowering->megatron && !lower->lowering->compile;
}

/* Does the framework run a step as single operators of PyTorch, each of which saves what it reads? */
static gboolean
is_unfused (const PsiLower *lower, PsiKernelSet set)
{
  return lower->lowering->framework != NULL ? set == PSI_KERNELS_EAGER && !lower->lowering->compile : is_eager (lower);
}

static const PsiFrameworkMemory *
memory_of (const PsiLowering *lowering)
{
  return lowering->memory != NULL ? lowering->memory : psi_framework_memory_of_base (lowering->megatron);
}

/* A product along the sequence's tp shards that keeps its gathered input. */
static void
save_whole_input (PsiLower *lower, const PsiBlock *block)
{
  if (lower->sequence_shards > 1 && memory_of (lower->lowering)->whole_inputs)
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

void
psi_block_norm (PsiLower *lower, const PsiBlock *block)
{
  gint64 stream_bytes = psi_block_stream_bytes (lower, block);

  psi_lower_save (lower, stream_bytes); /* input, that is the residual */
  psi_lower_element (lower, block->rms ? PSI_ELEMENT_RMSNORM : PSI_ELEMENT_LAYERNORM,
                     (double) stream_bytes / lower->element_bytes);
  const PsiFramework *framework = lower->lowering->framework;
  if (block->rms && is_unfused (lower, framework != NULL ? framework->norm : PSI_KERNELS_FUSED))
    psi_lower_save (lower, lower->element_bytes == 4 ? 2 * stream_bytes : 4 * stream_bytes);
  else
    psi_lower_save (lower, stream_bytes);
  psi_lower_add_parameters (lower, block->rms ? block->hidden : 2 * block->hidden);
}

void
psi_block_residual (PsiLower *lower, const PsiBlock *block)
{
  gint64 elements = psi_block_stream_bytes (lower, block) / lower->element_bytes;

  psi_lower_element (lower, PSI_ELEMENT_RESIDUAL, (double) elements);
  if (lower->lowering->dropout)
    psi_lower_save (lower, elements); /* the mask, one byte each */
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
  psi_block_norm (lower, block);
  psi_lower_enter_tp (lower, whole_bytes);
  save_whole_input (lower, block);
  if (cross || (!lower->lowering->megatron && block->rope))
    {
      end_rerun (lower, q_bytes);
      psi_lower_linear (lower, tokens, block->hidden, q, PSI_SPLIT_COLUMN, block->qkv_bias);
      begin_rerun (lower);
      psi_lower_linear (lower, key_tokens, block->hidden, k, PSI_SPLIT_COLUMN, block->qkv_bias);
      end_rerun (lower, kv_bytes / 2);
      psi_lower_linear (lower, key_tokens, block->hidden, k, PSI_SPLIT_COLUMN, block->qkv_bias);
    }
  else
    {
      end_rerun (lower, q_bytes + kv_bytes);
      psi_lower_linear (lower, tokens, block->hidden, q + 2 * k, PSI_SPLIT_COLUMN, block->qkv_bias);
    }
  begin_rerun (lower);
  psi_lower_element (lower, PSI_ELEMENT_LAYOUT, (double) (q_bytes + kv_bytes) / (double) width);
  if (block->rope)
    psi_lower_element (lower, PSI_ELEMENT_ROPE, ((double) q_bytes + (double) kv_bytes / 2.0) / (double) width);
  psi_lower_save (lower, is_eager (lower) ? 3 * q_bytes : q_bytes + kv_bytes);
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

  psi_lower_save (lower, q_bytes);
  if (lower->lowering->attention_copy && lower->lowering->flash)
    psi_lower_save (lower, q_bytes);
  psi_lower_linear (lower, tokens, q, block->hidden, PSI_SPLIT_ROW, block->linear_bias);
  psi_lower_leave_tp (lower, whole_bytes);
  psi_block_residual (lower, block);
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
      psi_lower_linear (lower, tokens, block->hidden, ffn, PSI_SPLIT_COLUMN, block->linear_bias);
      begin_rerun (lower);
      psi_lower_linear (lower, tokens, block->hidden, ffn, PSI_SPLIT_COLUMN, block->linear_bias);
    }
  else
    psi_lower_linear (lower, tokens, block->hidden, block->gated ? 2 * ffn : ffn, PSI_SPLIT_COLUMN, block->linear_bias);
  psi_lower_element (lower, block->gated ? PSI_ELEMENT_GATED : PSI_ELEMENT_GELU,
                     (double) inner_bytes / lower->element_bytes);
  const PsiFramework *framework = lower->lowering->framework;
  gboolean unfused = is_unfused (lower, framework != NULL ? framework->gate : PSI_KERNELS_FUSED);
  psi_lower_save (lower, inner_bytes * (!block->gated ? 2 : unfused ? 4 : 3));
  /* Of three products the last one's result stays, of two nothing needs it. */
  end_rerun (lower, block->gated ? psi_block_stream_bytes (lower, block) : 0);
  psi_lower_linear (lower, tokens, ffn, block->hidden, PSI_SPLIT_ROW, block->linear_bias);
}

void
psi_block_mlp (PsiLower *lower, const PsiBlock *block)
{
  gint64 whole_bytes = psi_block_whole_bytes (lower, block);

  begin_rerun (lower);
  psi_block_norm (lower, block);
  psi_lower_enter_tp (lower, whole_bytes);
  save_whole_input (lower, block);
  psi_block_mlp_products (lower, block, block->ffn);
  psi_lower_leave_tp (lower, whole_bytes);
  psi_block_residual (lower, block);
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
  /* Gradients of the residual and of the widest inner tensor, gathered input and its gradient; PyTorch makes a weight
   * gradient before it adds it, Megatron's products add in place. */
  kind->backward_workspace_bytes = 2 * stream_bytes + lower->flow_bytes + 2 * gathered_bytes +
                                   (lower->lowering->megatron ? 0 : lower->largest_matrix * lower->element_bytes);
  psi_lower_finish (lower, kind);
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
  kind->backward_workspace_bytes = psi_block_whole_bytes (&lower, block);
  kind->never_recomputed = TRUE;
  psi_lower_finish (&lower, kind);
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
  whole = memory_of (lowering)->gathered_logits ? logits * lower.tp : logits;
  chunk = (whole + MAX (lowering->loss_chunks, 1) - 1) / MAX (lowering->loss_chunks, 1);
  if (transform)
    {
      psi_lower_linear (&lower, tokens / lower.sequence_shards, block->hidden, block->hidden, PSI_SPLIT_NONE, TRUE);
      psi_lower_element (&lower, PSI_ELEMENT_GELU, (double) tokens * (double) block->hidden / lower.sequence_shards);
      psi_lower_save (&lower, 2 * psi_block_stream_bytes (&lower, block));
    }
  else
    psi_block_norm (&lower, block);
  psi_lower_enter_tp (&lower, whole_bytes);
  psi_lower_tied_linear (&lower, tokens, block->hidden, columns * lower.tp);
  if (!tied)
    psi_lower_add_parameters (&lower, matrix);
  else
    model->tied_parameters = matrix;
  psi_lower_element (&lower, PSI_ELEMENT_LOSS, (double) logits);
  if (lower.tp > 1) /* maximum, target logit and sum of the vocabulary-parallel loss, fp32 */
    psi_lower_comm (&lower, PSI_COMM_ALL_REDUCE, PSI_COMM_NONE, PSI_GROUP_TP, tokens * 12);

  /* framework-memory.c has the bytes of a logit; compiled PyTorch keeps the logits and writes their gradient, 4. */
  const PsiFrameworkMemory *memory = memory_of (lowering);
  gboolean fused = lowering->fused_loss && memory->fused_loss_bytes > 0,
           compiled = lowering->compile && !lowering->megatron;
  guint wide = width == 4 ? 2 : 0; /* fp32 logits are 2 bytes wider and need no fp32 copy of their own */
  kept_bytes = chunk * (fused      ? memory->fused_loss_bytes
                        : compiled ? memory->compiled_loss_bytes[0]
                                   : memory->loss_kept_bytes + wide);
  loss_bytes = chunk * (fused      ? memory->fused_loss_bytes
                        : compiled ? memory->compiled_loss_bytes[1]
                                   : memory->loss_peak_bytes);
  gradient_bytes = chunk * width + matrix * width;
  psi_lower_save (&lower, kept_bytes);

  kind->input_bytes = psi_block_stream_bytes (&lower, block);
  kind->forward_workspace_bytes =
      (lower.sequence_shards > 1 ? whole_bytes : 0) + (is_eager (&lower) && width == 2 ? chunk * width : 0);
  kind->backward_workspace_bytes =
      MAX (MAX (loss_bytes, gradient_bytes) - kept_bytes, 0) + (lower.sequence_shards > 1 ? 2 * whole_bytes : 0);
  kind->never_recomputed = TRUE;
  psi_lower_finish (&lower, kind);
  return index;
}

gint64
psi_block_count (const PsiModelDimensions *dimensions, PsiBlockBuild build)
{
  const PsiLowering plain = {
    .micro_batch = 1, .tp = 1, .cp = 1, .ep = 1, .dtype = PSI_DTYPE_BF16, .flash = TRUE, .loss_chunks = 1
  };
  g_autoptr (PsiModel) model = build (dimensions, &plain, dimensions->sequence);
  gint64 sum = 0;

  for (guint i = 0; i < model->layers->len; i++)
    sum += psi_model_kind (model, g_array_index (model->layers, PsiLayer, i).kind)->parameters;
  return sum;
}

PsiModel *
psi_block_expand (const PsiModelDimensions *d, const PsiLowering *lowering, PsiBlockBuild build, GError **error)
{
  gint64 sequence = lowering->sequence > 0 && d->image_size == 0 ? lowering->sequence : d->sequence;
  double flops = 0.0;
  PsiModel *model;

  if (!check_degrees (d, lowering, sequence, error))
    return NULL;
  model = build (d, lowering, sequence);
  for (guint i = 0; i < model->layers->len; i++)
    flops += psi_model_kind (model, g_array_index (model->layers, PsiLayer, i).kind)->model_flops;
  model->model_flops_per_sample = flops / (double) MAX (lowering->micro_batch, 1);
  model->tokens_per_sample = sequence;
  model->parameters = psi_block_count (d, build);
  model->description =
      g_strdup_printf ("%s: %" G_GINT64_FORMAT " layers, hidden %" G_GINT64_FORMAT ", heads %" G_GINT64_FORMAT
                       "/%" G_GINT64_FORMAT ", ffn %" G_GINT64_FORMAT ", vocabulary %" G_GINT64_FORMAT,
                       d->family, d->layers + d->decoder_layers, d->hidden, d->heads, d->kv_heads, d->ffn, d->vocab);
  return model;
}
