/* SPDX-License-Identifier: MIT */
/* Mixture of experts: Mixtral, and DeepSeek V2 and V3 with latent attention, shared experts and first dense layers.
 *
 *   feed-forward of a token = sum over its n chosen experts + the shared experts
 *   rows of one expert      = tokens n / experts           (balanced)
 *   dispatch and combine    = all-to-all of tokens n h / S over the expert-parallel group, each direction
 *   parameters of a layer   = attention + h E (router) + 3 h fe (E + shared) + norms,   DeepSeek V3: + E (router bias)
 *   latent attention        = h ql + ql + ql a (dn + dr) + h (kl + dr) + kl + kl a (dn + dv) + a dv h
 *
 * h hidden, E experts, n experts per token, fe width of an expert, a heads, ql and kl ranks of queries and keys, dn,
 * dr, dv head dimensions without and with rotation and of values; S = tp with sequence parallelism, else 1. Kept per
 * token: routed copies of the input (2 n h), gate and up (4 n fe / t), product (2 n fe / t), expert outputs (2 n h /
 * S; where the scores multiply the activation, none, but 2 n fe / t of one that is no gate), router scores in fp32.
 * Experts are split over expert_tp GPUs inside (tp unless told otherwise), over ep among each other. With fewer than tp
 * each GPU sends its T / tp tokens to experts anywhere in its dp, cp and tp ranks, and expert_tp of them gather what
 * came: rows = T n expert_tp / tp. Source: Jiang et al. 2024, DeepSeek-AI 2024, transformers modeling_mixtral.py and
 * modeling_deepseek_v3.py, Megatron-LM all-to-all dispatcher.
 *
 * Router: softmax over E in fp32, the n largest, their weights, and a table of who goes where, about four passes of 8
 * bytes forward. Experts in a loop (transformers): for each the kernels that find, gather, weigh and add its tokens,
 * five forward and four backward, and an activation of its own; that the host waits to learn their number is left out.
 * With ep > 1 every GPU is taken for the fullest: expert_imbalance times the mean of tokens arrives, is computed, kept
 * and sent back.
 *
 * Limits: experts of one GPU are equally full; multi-token prediction is left out. */
#include "block.h"

#include <math.h>

static void
add_latent_attention (PsiLower *lower, const PsiBlock *block, const PsiModelDimensions *d)
{
  gint64 tokens = lower->tokens, width = lower->element_bytes, heads = d->heads / lower->tp;
  gint64 whole_bytes = psi_block_whole_bytes (lower, block);
  gint64 d_key = d->qk_nope_head_dim + d->qk_rope_head_dim;
  gint64 shards = lower->sequence_shards;

  psi_block_norm (lower, block);
  psi_lower_enter_tp (lower, whole_bytes);
  if (d->q_lora_rank > 0)
    {
      psi_lower_linear (lower, tokens, d->hidden, d->q_lora_rank, PSI_SPLIT_NONE, FALSE);
      psi_lower_element (lower, PSI_ELEMENT_RMSNORM, (double) (tokens * d->q_lora_rank));
      psi_lower_add_parameters (lower, d->q_lora_rank);
      psi_lower_save (lower, 2 * tokens * d->q_lora_rank * width / shards);
      psi_lower_linear (lower, tokens, d->q_lora_rank, d->heads * d_key, PSI_SPLIT_COLUMN, FALSE);
    }
  else
    psi_lower_linear (lower, tokens, d->hidden, d->heads * d_key, PSI_SPLIT_COLUMN, FALSE);
  psi_lower_adapter (lower, PSI_TARGET_Q, tokens, d->q_lora_rank > 0 ? d->q_lora_rank : d->hidden, d->heads * d_key,
                     PSI_SPLIT_COLUMN);
  psi_lower_linear (lower, tokens, d->hidden, d->kv_lora_rank + d->qk_rope_head_dim, PSI_SPLIT_NONE, FALSE);
  psi_lower_element (lower, PSI_ELEMENT_RMSNORM, (double) (tokens * d->kv_lora_rank));
  psi_lower_add_parameters (lower, d->kv_lora_rank);
  psi_lower_save (lower, (2 * d->kv_lora_rank + d->qk_rope_head_dim) * tokens * width / shards);
  psi_lower_linear (lower, tokens, d->kv_lora_rank, d->heads * (d->qk_nope_head_dim + d->v_head_dim), PSI_SPLIT_COLUMN,
                    FALSE);
  psi_lower_adapter (lower, PSI_TARGET_K | PSI_TARGET_V, tokens, d->kv_lora_rank,
                     d->heads * (d->qk_nope_head_dim + d->v_head_dim), PSI_SPLIT_COLUMN);
  psi_lower_element (lower, PSI_ELEMENT_ROPE, (double) (tokens * (heads + 1) * d->qk_rope_head_dim));
  psi_lower_element (lower, PSI_ELEMENT_LAYOUT, (double) (tokens * heads * (2 * d_key + d->v_head_dim)));
  psi_lower_save (lower, tokens * heads * (2 * d_key + d->v_head_dim) * width);

  if (MAX (lower->lowering->cp, 1) > 1)
    psi_lower_comm (lower, PSI_COMM_ALL_GATHER, PSI_COMM_REDUCE_SCATTER, PSI_GROUP_CP,
                    tokens * heads * (d_key + d->v_head_dim) * width * lower->lowering->cp);
  psi_lower_begin_core (lower);
  psi_lower_attention (lower, block->sequences, heads, block->queries, block->keys, d_key, d->v_head_dim, TRUE);
  psi_lower_end_core (lower);
  if (MAX (lower->lowering->cp, 1) > 1)
    psi_lower_comm (lower, PSI_COMM_NONE, PSI_COMM_ALL_GATHER, PSI_GROUP_CP,
                    tokens * heads * (d_key + d->v_head_dim) * width * lower->lowering->cp);

  psi_lower_save (lower, tokens * heads * d->v_head_dim * width);
  psi_lower_linear (lower, tokens, d->heads * d->v_head_dim, d->hidden, PSI_SPLIT_ROW, FALSE);
  psi_lower_adapter (lower, PSI_TARGET_O, tokens, d->heads * d->v_head_dim, d->hidden, PSI_SPLIT_ROW);
  psi_lower_leave_tp (lower, whole_bytes);
  psi_block_residual (lower, block);
}

/* Products from here on are split over `tp` GPUs of a group, and what they enter and leave is theirs. */
static void
set_tp (PsiLower *lower, guint tp, PsiCommGroup group)
{
  lower->tp = tp;
  lower->sequence_shards = lower->lowering->sequence_parallel ? tp : 1;
  lower->tp_group = group;
}

static void
add_experts (PsiLower *lower, const PsiBlock *block, const PsiModelDimensions *d)
{
  guint ep = MAX (lower->lowering->ep, 1), cp = MAX (lower->lowering->cp, 1);
  double fullest = ep > 1 ? MAX (lower->lowering->expert_imbalance, 1) : 1;
  guint local = (guint) (d->experts / ep);
  gboolean loops = lower->lowering->expert_gemm == PSI_EXPERTS_LOOP;
  gint64 width = lower->element_bytes;
  gint64 local_tokens = lower->tokens / lower->sequence_shards;
  gint64 local_routed_bytes = local_tokens * d->experts_per_token * d->hidden * width;
  gint64 sent_bytes = llround ((double) local_routed_bytes * fullest);
  gint64 shared_ffn = d->shared_ffn > 0 ? d->shared_ffn : d->shared_experts * d->expert_ffn;

  psi_block_norm (lower, block);
  psi_lower_linear (lower, local_tokens, d->hidden, d->experts, PSI_SPLIT_NONE, FALSE);
  if (d->traits.router_bias)
    psi_lower_add_parameters (lower, d->experts);
  psi_lower_element (lower, PSI_ELEMENT_ROUTER, (double) (local_tokens * d->experts));
  psi_lower_save (lower, local_tokens * (d->experts * 8 + d->experts_per_token * 12)); /* scores, softmax, choices */
  if (shared_ffn > 0)
    {
      if (d->traits.shared_gate)
        psi_lower_linear (lower, local_tokens, d->hidden, 1, PSI_SPLIT_NONE, FALSE);
      psi_lower_enter_tp (lower, psi_block_whole_bytes (lower, block));
      psi_block_mlp_products (lower, block, shared_ffn);
      psi_lower_leave_tp (lower, psi_block_whole_bytes (lower, block));
    }

  lower->varies = TRUE; /* how many tokens each expert gets */
  psi_lower_element (lower, PSI_ELEMENT_PERMUTE, (double) local_routed_bytes / (double) width);
  if (loops)
    psi_lower_set_launches (lower, 3 * local, local);
  if (ep > 1)
    psi_lower_comm (lower, PSI_COMM_ALL_TO_ALL, PSI_COMM_ALL_TO_ALL, PSI_GROUP_EP, sent_bytes);
  guint tp = lower->tp, expert_tp = lower->lowering->expert_tp > 0 ? lower->lowering->expert_tp : tp;
  if (expert_tp != tp)
    set_tp (lower, expert_tp, PSI_GROUP_EXPERT_TP);
  gint64 routed = llround ((double) (local_tokens * d->experts_per_token * lower->sequence_shards) * fullest);
  gint64 model_rows = lower->tokens * d->experts_per_token * cp;
  gint64 routed_bytes = routed * d->hidden * width, inner = routed * d->expert_ffn / lower->tp;
  gint64 biases = d->traits.expert_bias ? (block->gated ? 2 : 1) * d->expert_ffn / lower->tp + d->hidden : 0;
  psi_lower_enter_tp (lower, routed_bytes);
  if (psi_lower_wants_input (lower, PSI_TARGET_GATE | PSI_TARGET_UP))
    psi_lower_save (lower, psi_block_kept_input_bytes (lower, routed_bytes));
  psi_lower_experts (lower, routed, model_rows, d->hidden, block->gated ? 2 * d->expert_ffn : d->expert_ffn,
                     PSI_SPLIT_COLUMN, d->experts / ep);
  if (block->gated)
    psi_lower_expert_adapters (lower, PSI_TARGET_GATE, routed, model_rows, d->hidden, d->expert_ffn, PSI_SPLIT_COLUMN,
                               d->experts / ep);
  psi_lower_expert_adapters (lower, PSI_TARGET_UP, routed, model_rows, d->hidden, d->expert_ffn, PSI_SPLIT_COLUMN,
                             d->experts / ep);
  psi_lower_element (lower, block->gated ? PSI_ELEMENT_GATED : PSI_ELEMENT_GELU, (double) inner);
  if (loops)
    psi_lower_set_launches (lower, (block->gated ? 2 : 1) * local, (block->gated ? 4 : 1) * local);
  gboolean scored = psi_block_memory (lower->lowering)->scored_activations;
  psi_lower_save (lower, inner * width *
                             (!block->gated                                           ? (scored ? 2 : 1)
                              : lower->lowering->megatron || lower->lowering->compile ? 2
                                                                                      : 3));
  if (psi_lower_wants_input (lower, PSI_TARGET_DOWN))
    psi_lower_save (lower, psi_block_kept_input_bytes (lower, inner * width));
  psi_lower_experts (lower, routed, model_rows, d->expert_ffn, d->hidden, PSI_SPLIT_ROW, d->experts / ep);
  psi_lower_expert_adapters (lower, PSI_TARGET_DOWN, routed, model_rows, d->expert_ffn, d->hidden, PSI_SPLIT_ROW,
                             d->experts / ep);
  psi_lower_add_expert_parameters (lower, d->experts / ep * biases);
  psi_lower_leave_tp (lower, routed_bytes);
  set_tp (lower, tp, PSI_GROUP_TP);
  if (ep > 1)
    psi_lower_comm (lower, PSI_COMM_ALL_TO_ALL, PSI_COMM_ALL_TO_ALL, PSI_GROUP_EP, sent_bytes);
  psi_lower_element (lower, PSI_ELEMENT_PERMUTE, (double) local_routed_bytes / (double) width);
  if (loops)
    psi_lower_set_launches (lower, 2 * local, 3 * local);
  lower->varies = FALSE;
  if (!scored)
    psi_lower_save (lower, local_routed_bytes); /* outputs, weighted by the router's scores */
  psi_block_residual (lower, block);
}

static guint
add_block (PsiModel *model, const char *name, const PsiModelDimensions *d, const PsiLowering *lowering,
           const PsiBlock *block, gint64 tokens, gboolean dense)
{
  guint index = psi_model_add_kind (model, name);
  PsiLower lower;

  psi_lower_init (&lower, lowering, tokens);
  lower.select_products = FALSE; /* experts: drop the attention core, whatever the framework */
  if (d->kv_lora_rank > 0)
    add_latent_attention (&lower, block, d);
  else
    psi_block_attention (&lower, block, FALSE);
  if (dense)
    psi_block_mlp (&lower, block);
  else
    add_experts (&lower, block, d);
  psi_block_finish (&lower, block, psi_model_kind (model, index));
  return index;
}

static PsiModel *
build (const PsiModelDimensions *d, const PsiLowering *lowering, gint64 sequence)
{
  PsiModel *model = psi_model_new (d->name, d->family);
  gint64 tokens = psi_block_tokens (lowering, sequence);
  guint n_dense = (guint) d->first_dense_layers, n_sparse = (guint) (d->layers - d->first_dense_layers);
  PsiBlock block;

  psi_block_init (&block, d, lowering, sequence);
  block.causal = block.rope = TRUE;
  psi_model_add_layers (model, psi_block_add_embedding (model, lowering, &block, tokens, d->vocab, 0, FALSE), 1);
  if (n_dense > 0)
    psi_model_add_layers (model, add_block (model, "dense_block", d, lowering, &block, tokens, TRUE), n_dense);
  if (n_sparse > 0)
    psi_model_add_layers (model, add_block (model, "block", d, lowering, &block, tokens, FALSE), n_sparse);
  psi_model_add_layers (model, psi_block_add_head (model, lowering, &block, tokens, d->vocab, d->tied, FALSE), 1);
  model->first_block = 1;
  model->n_blocks = (guint) d->layers;
  return model;
}

const PsiFamily psi_family_moe = {
  .name = "moe",
  .summary = "Mixtral, DeepSeek V2 and V3: routed and shared experts, latent attention",
  .build = build,
};
