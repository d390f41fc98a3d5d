/* SPDX-License-Identifier: MIT */
/* Gathered copies of sharded parameters (zero 3): when they come and how long they stay.
 *
 *   every use       gathered for the forward and again for the backward of each micro-batch, freed after each
 *   FSDP's root     what belongs to no block, embedding and head, stays from its forward to its backward
 *   FSDP, pipeline  every layer is gathered once a step, and gradients are summed whole (step-gradients.c)
 *
 * Source: torch.distributed.fsdp fully_shard, reshard_after_forward: the root never does; torchtitan's
 * parallelize_llama.py switches it off under a pipeline, whose stages also defer the sum of gradients
 * (torch.distributed.pipelining, stage.py). Limit: FSDP frees the root's copy at the end of the backward, here it goes
 * part by part. */
#include "step.h"

/* Is this token the last of its step that uses its part's parameters? */
gboolean
psi_step_is_last_use (const PsiStep *step, const PsiStepRank *rank, const PsiToken *token)
{
  const GArray *list = step->schedule->lists[rank->list];

  for (guint i = list->len; i-- > 0;)
    {
      const PsiToken *other = &g_array_index (list, PsiToken, i);

      if (other->chunk == token->chunk && other->kind != PSI_TOKEN_UPDATE)
        return other->kind == token->kind && other->micro_batch == token->micro_batch;
    }
  return FALSE;
}

/* FSDP's root unit, that is what belongs to no block, does not reshard between forward and backward; under a pipeline
 * no unit does. The root's second gather costs nothing then, and is counted all the same: as in every plan of zero 3.
 */
gboolean
psi_step_stays_gathered (const PsiStep *step, const PsiLayerKind *kind)
{
  return step->plan->fsdp && (step->plan->pp > 1 || kind->never_recomputed);
}

/* Gather a layer's sharded parameters for the use that follows. FSDP under a pipeline does so once a step. */
PsiOpId
psi_step_gather (PsiStep *step, PsiStepRank *rank, guint layer, gboolean forward)
{
  const PsiPlan *plan = step->plan;
  const PsiLayerKind *kind = psi_layer_kind (rank->shape->model, layer);

  if (plan->zero < 3 || plan->cyclic || kind->parameters == 0)
    return PSI_OP_NONE;
  if (plan->fsdp && plan->pp > 1 && rank->first_use[layer] != PSI_OP_NONE)
    return PSI_OP_NONE;
  PsiOpId op = psi_step_collective (step, rank, PSI_STREAM_PARAMETERS, PSI_COLLECTIVE_ALL_GATHER, PSI_DIMENSION_SHARD,
                                    psi_layer_parameter_bytes (step, kind), PSI_TRAFFIC_PARAMETERS);
  if (op == PSI_OP_NONE)
    return op;
  PsiGate gate = { .op = op, .position = (int) rank->uses->len - 1 - (int) plan->prefetch, .layer = layer };
  g_array_append_val (rank->gathers, gate);
  if (forward || !psi_step_stays_gathered (step, kind))
    psi_program_delta (rank->program, op, FALSE, PSI_MEMORY_COMMUNICATION, psi_layer_parameter_bytes (step, kind));
  return op;
}

void
psi_step_end_use (PsiStep *step, PsiStepRank *rank, const PsiToken *token, guint layer, PsiOpId gathered, PsiOpId first,
                  PsiOpId last)
{
  const PsiPlan *plan = step->plan;
  const PsiLayerKind *kind = psi_layer_kind (rank->shape->model, layer);
  gboolean once = plan->fsdp && plan->pp > 1 && psi_step_group_size (step, PSI_DIMENSION_SHARD) > 1;

  if (gathered == PSI_OP_NONE && !once)
    return;
  if (gathered != PSI_OP_NONE)
    psi_program_after (rank->program, first, gathered, 0);
  if (once ? psi_step_is_last_use (step, rank, token)
           : !psi_step_stays_gathered (step, kind) || token->kind == PSI_TOKEN_BACKWARD ||
                 token->kind == PSI_TOKEN_BACKWARD_WEIGHT)
    psi_program_delta (rank->program, last, TRUE, PSI_MEMORY_COMMUNICATION, -psi_layer_parameter_bytes (step, kind));
  if (gathered != PSI_OP_NONE)
    g_array_append_val (rank->uses, last);
}
