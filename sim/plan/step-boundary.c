/* SPDX-License-Identifier: MIT */
/* Boundary tensors that travel in shares, made whole again.
 *
 *   each rank of a tensor-parallel group of t receives B / t and gathers B from the group before it computes:
 *
 *   forward    the input           t_gather (B) + c B / memory bandwidth
 *   backward   the gradient        the same; DeepSpeed has its output in shares too and gathers it again: twice
 *
 * c: bytes moved for each of B beside the gather itself. all_gather into a list writes a buffer of its own that is then
 * copied into the list (2); DeepSpeed also clears the tensor before and clones it after (5). Since 2022 Megatron-LM
 * gathers in place (_all_gather_base, 0).
 *
 * Source: Megatron-LM megatron/p2p_communication.py and gather_split_1d_tensor in megatron/mpu; DeepSpeed
 * PartitionedTensor.full in runtime/utils.py, _exec_forward_pass and _exec_backward_pass in runtime/pipe/engine.py.
 * With sequence parallelism shares are what the layers work on. Limits: models with branches (T5's decoder reads its
 * encoder) send shares too, but their gathers are left out. */
#include "step.h"

static gboolean
is_scattered (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;

  return plan->framework->scattered_boundaries && !plan->sequence_parallel && plan->pp > 1 && plan->tp > 1 &&
         step->is_chain && !psi_step_model (step)->is_uniform;
}

/* Does the tensor behind layer `producer` come from another rank, to the token's part or back to it? */
static gboolean
travels (PsiStep *step, PsiStepRank *rank, const PsiToken *token, guint producer)
{
  guint part = psi_schedule_part (step->schedule, rank->list, (guint) token->chunk);
  guint from = step->partition.part_of[producer], other = from == part ? part + 1 : from;

  return psi_step_rank_of_part (step, rank, other, token->micro_batch) != rank;
}

void
psi_step_make_whole (PsiStep *step, PsiStepRank *rank, const PsiToken *token, guint tag, guint producer, PsiOps *ops)
{
  const PsiFramework *framework = step->plan->framework;
  guint part = psi_schedule_part (step->schedule, rank->list, (guint) token->chunk);
  gint64 bytes = psi_layer_kind (rank->shape->model, producer)->output_bytes;
  guint n = token->kind != PSI_TOKEN_FORWARD && framework->gathers_outputs ? 2 : 1;

  if (!is_scattered (step) || !travels (step, rank, token, producer))
    return;
  /* A stretch that can be folded begins with work. */
  psi_step_flush_work (rank, tag, token, part,
                       psi_step_memory_time_ps (step, (double) n * framework->gather_copies * (double) bytes), ops);
  for (guint i = 0; i < n; i++)
    {
      ops->last = psi_step_collective (step, rank, PSI_STREAM_COMPUTE, PSI_COLLECTIVE_ALL_GATHER, PSI_DIMENSION_TP,
                                       bytes, PSI_TRAFFIC_TENSOR);
      psi_program_label (rank->program, ops->last, token->micro_batch, (gint32) part);
    }
}
