/* SPDX-License-Identifier: MIT */
/* Bytes that are always there, per rank and class.
 *
 *   parameters  P            zero 3: P / D, in FSDP of the fp32 copy; cyclic with one shared copy: x versions in use;
 *                            asynchronous: 2 P where the server is
 *   gradients   G            zero 2, 3: G / D
 *   optimizer   K elements   zero 1, 2, 3: / D; only on the rank that updates (cyclic, parameter server)
 *
 * D is the size of the shard group (dp x cp unless shard_group is written; experts: x tp / (ep expert_tp)). Every
 * layer's share is rounded up. Source: Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3; K by optimizer in plan.c.
 */
#include "step.h"

static gint64
share (gint64 bytes, guint n)
{
  return (bytes + n - 1) / n;
}

/* Bytes of a layer's elements, `each` of those that are not frozen in a narrow format. */
static gint64
stored_bytes (const PsiLayerKind *kind, guint each)
{
  return (kind->parameters - kind->narrow_parameters) * each + kind->narrow_bytes;
}

gint64
psi_layer_parameter_bytes (const PsiStep *step, const PsiLayerKind *kind)
{
  return kind->parameter_bytes > 0 ? kind->parameter_bytes : stored_bytes (kind, step->plan->parameter_bytes_each);
}

gint64
psi_layer_trained (const PsiLayerKind *kind)
{
  if (kind->parameter_bytes > 0)
    return (gint64) ((double) (kind->parameter_bytes / 2) * kind->trainable_fraction);
  return psi_kind_trainable (kind);
}

gint64
psi_layer_trained_experts (const PsiLayerKind *kind)
{
  return kind->parameter_bytes > 0 ? 0 : psi_kind_trainable_experts (kind);
}

gint64
psi_layer_trained_bytes (const PsiStep *step, const PsiLayerKind *kind)
{
  if (kind->parameter_bytes > 0)
    return (gint64) ((double) kind->parameter_bytes * kind->trainable_fraction);
  return psi_kind_trainable (kind) * step->plan->parameter_bytes_each;
}

gint64
psi_layer_gradient_bytes (const PsiStep *step, const PsiLayerKind *kind)
{
  if (kind->parameter_bytes > 0)
    return kind->parameter_bytes;
  return psi_kind_trainable (kind) * step->plan->gradient_bytes_each;
}

gint64
psi_step_tied_trained (const PsiModel *model)
{
  const PsiLayerKind *kind = psi_layer_kind (model, 0);

  return kind->is_frozen ? 0 : (gint64) ((double) model->tied_parameters * kind->trainable_fraction);
}

/* What a layer keeps of its parameters when they are shared out: only what is trained has a master copy. */
static gint64
resting_bytes (const PsiStep *step, const PsiLayerKind *kind)
{
  gint64 bytes = psi_layer_parameter_bytes (step, kind);

  if (kind->parameter_bytes > 0)
    return bytes;
  return bytes + psi_kind_trainable (kind) *
                     (gint64) (step->plan->resting_parameter_bytes_each - step->plan->parameter_bytes_each);
}

/* Does this rank keep the optimizer state of the part? */
static gboolean
updates_part (const PsiStep *step, const PsiStepRank *rank, guint part)
{
  if (step->plan->parameter_server)
    return rank->is_root;
  return !step->plan->cyclic || rank->update[part] != PSI_OP_NONE;
}

guint
psi_step_expert_shards (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;

  return MAX (psi_step_group_size (step, PSI_DIMENSION_SHARD) * plan->tp / (plan->ep * plan->expert_tp), 1);
}

#define GROUPED_STREAMS 4 /* of Transformer Engine's grouped products, each with a workspace of its own */

/* Workspaces of matrix products, allocated by the first of them and kept: PyTorch gives each cuBLAS handle (one for the
 * forward, one for the thread of the backward) 32 MiB on Hopper or when deterministic (:4096:8), else 8.125 MiB
 * (:4096:2:16:8); Transformer Engine takes another 4 MiB, 32 MiB from Hopper on. Megatron without it has two handles
 * more in its extension for weight gradients (measured: 128 MiB, deterministic). */
static gint64
product_workspace_bytes (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;
  PsiArchitecture architecture = step->machine->gpu.architecture;
  gint64 handle_bytes = plan->deterministic || architecture == PSI_ARCHITECTURE_HOPPER ? 32 << 20 : 8320 << 10;

  if (psi_step_model (step)->is_uniform || architecture == PSI_ARCHITECTURE_CPU || step->machine->ideal)
    return 0;
  if (!plan->memory->transformer_engine)
    return (plan->megatron ? 4 : 2) * handle_bytes;
  gint64 own_bytes = architecture >= PSI_ARCHITECTURE_HOPPER ? 32 << 20 : 4 << 20;
  return 2 * handle_bytes + own_bytes * (psi_model_has_experts (psi_step_model (step)) ? 1 + GROUPED_STREAMS : 1);
}

/* Transformer Engine hands autograd an empty 16-bit gradient for each shape of weight when the product has added the
 * real one into the fp32 sum (get_dummy_wgrad), and keeps them: one layer's matrices. Deterministic runs do not fuse
 * that. */
static gint64
dummy_gradient_bytes (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;
  const PsiModel *model = psi_step_model (step);

  if (!plan->memory->transformer_engine || plan->deterministic || model->is_uniform || model->n_blocks == 0)
    return 0;
  const PsiLayerKind *kind = psi_layer_kind (model, model->first_block);
  return (psi_kind_trainable (kind) - psi_kind_trainable_experts (kind)) * plan->parameter_bytes_each;
}

/* Buffers into which all layers gather: inputs and gradients of the products of a tensor-parallel group. */
gint64
psi_step_shared_gather_bytes (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;
  const PsiModel *model = psi_step_model (step);

  if (!plan->memory->shared_gathers || plan->tp == 1 || !plan->sequence_parallel || model->is_uniform ||
      model->n_blocks == 0)
    return 0;
  return 2 * (gint64) plan->tp * psi_layer_kind (model, model->first_block)->output_bytes;
}

/* Megatron keeps its lists of boundary tensors until the next step makes them anew: input and output of each model
 * part. */
static gint64
boundary_bytes_kept (const PsiStep *step, const PsiStepRank *rank)
{
  const PsiModel *model = rank->shape->model;

  if (!step->plan->megatron || step->plan->pp == 1 || step->plan->cyclic || model->is_uniform)
    return 0;
  return 2 * (gint64) step->schedule->n_chunks * psi_layer_kind (model, model->first_block)->output_bytes;
}

/* Room for micro-batches beyond those in flight, of frameworks that plan it before the run. */
static gint64
spare_bytes (const PsiStep *step, const PsiStepRank *rank)
{
  const PsiPlan *plan = step->plan;
  const PsiModel *model = rank->shape->model;
  gint64 room = (gint64) plan->memory->stage_buffers * plan->pp, sum = 0;

  if (room == 0 || plan->pp == 1 || plan->cyclic || model->is_uniform || rank->stage == (int) plan->pp - 1)
    return 0;
  gint64 in_flight = MIN (plan->micro_batches, (gint64) plan->pp - rank->stage);
  for (guint c = 0; c < step->schedule->n_chunks; c++)
    {
      guint part = psi_schedule_part (step->schedule, rank->list, c);

      for (guint l = step->partition.first[part]; l < step->partition.first[part + 1]; l++)
        sum += psi_step_kept_bytes (step, psi_layer_kind (model, l), l);
    }
  return MAX (room - in_flight, 0) * sum;
}

void
psi_step_add_state (PsiStep *step, PsiStepRank *rank)
{
  const PsiPlan *plan = step->plan;
  const PsiModel *model = rank->shape->model;
  guint shards = psi_step_group_size (step, PSI_DIMENSION_SHARD);
  gboolean travels = plan->cyclic && plan->zero == 3; /* states are not at rest anywhere */

  rank->base[PSI_MEMORY_WORKSPACE] += product_workspace_bytes (step) + dummy_gradient_bytes (step) +
                                      psi_step_graph_bytes (step, rank) + psi_step_shared_gather_bytes (step);
  rank->base[PSI_MEMORY_BOUNDARY] += boundary_bytes_kept (step, rank);
  rank->base[PSI_MEMORY_WORKSPACE] += spare_bytes (step, rank);
  for (guint c = 0; c < step->schedule->n_chunks; c++)
    {
      guint part = psi_schedule_part (step->schedule, rank->list, c);
      /* The root keeps the newest version beside the one that its own worker uses. */
      guint copies = plan->asynchronous && rank->is_root && plan->dp > 1         ? 2
                     : plan->cyclic && plan->placement != PSI_PLACEMENT_SEPARATE ? psi_step_versions (step, part)
                                                                                 : 1;

      for (guint l = step->partition.first[part]; l < step->partition.first[part + 1]; l++)
        {
          const PsiLayerKind *kind = psi_layer_kind (model, l);
          gint64 elements = kind->parameter_bytes > 0 ? kind->parameter_bytes / 2 : kind->parameters;
          gint64 trained = psi_layer_trained (kind);
          gint64 parameter_bytes =
              plan->zero == 3 ? resting_bytes (step, kind) : psi_layer_parameter_bytes (step, kind);
          gint64 gradient_bytes = psi_layer_gradient_bytes (step, kind);
          double experts = elements > 0 ? (double) kind->expert_parameters / (double) elements : 0;
          double trained_experts = trained > 0 ? (double) psi_layer_trained_experts (kind) / (double) trained : 0;
          double optimizer_bytes = plan->optimizer_bytes_each * (double) trained;
          guint expert_shards = psi_step_expert_shards (step);

          if (plan->micro_batches > 1)
            rank->base[PSI_MEMORY_WORKSPACE] += kind->stale_bytes;

          if (travels)
            {
              if (updates_part (step, rank, part))
                rank->base[PSI_MEMORY_OPTIMIZER] += (gint64) optimizer_bytes;
              continue;
            }
          gint64 dense = (gint64) ((1 - experts) * (double) parameter_bytes), routed = parameter_bytes - dense;
          rank->base[PSI_MEMORY_PARAMETERS] +=
              plan->zero >= 3 ? share (dense, shards) + share (routed, expert_shards) : parameter_bytes * copies;
          gint64 dense_gradients = (gint64) ((1 - trained_experts) * (double) gradient_bytes);
          rank->base[PSI_MEMORY_GRADIENTS] +=
              plan->zero >= 2
                  ? share (dense_gradients, shards) + share (gradient_bytes - dense_gradients, expert_shards)
                  : gradient_bytes;
          rank->base[PSI_MEMORY_GRADIENTS] += trained * plan->extra_gradient_bytes_each;
          if (updates_part (step, rank, part))
            rank->base[PSI_MEMORY_OPTIMIZER] +=
                plan->zero >= 1 ? share ((gint64) ((1 - trained_experts) * optimizer_bytes), shards) +
                                      share ((gint64) (trained_experts * optimizer_bytes), expert_shards)
                                : (gint64) optimizer_bytes;
        }
      /* Tied tensors: the last rank holds a copy of its own when the first layer is elsewhere. */
      if (model->tied_parameters > 0 && part == step->partition.n_parts - 1 && part > 0 &&
          psi_step_rank_of_part (step, rank, 0, 0) != rank)
        {
          guint n = plan->zero >= 1 ? shards : 1;

          rank->base[PSI_MEMORY_PARAMETERS] +=
              share (model->tied_parameters * (plan->zero == 3 && psi_step_tied_trained (model) > 0
                                                   ? plan->resting_parameter_bytes_each
                                                   : plan->parameter_bytes_each),
                     plan->zero >= 3 ? n : 1);
          rank->base[PSI_MEMORY_GRADIENTS] +=
              share (psi_step_tied_trained (model) * plan->gradient_bytes_each, plan->zero >= 2 ? n : 1);
          rank->base[PSI_MEMORY_OPTIMIZER] +=
              share ((gint64) (plan->optimizer_bytes_each * (double) psi_step_tied_trained (model)), n);
        }
    }
  psi_step_offload_state (step, rank);
}
