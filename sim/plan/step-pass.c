/* SPDX-License-Identifier: MIT */
/* Forward and backward of one part for one micro-batch.
 *
 * Forward: receive the boundary tensors of the parts it reads, then layer by layer gather sharded parameters, compute,
 * keep what the backward needs; send the output to the parts that read it. Backward mirrors it. What full recompute
 * does not keep is computed again at the start of a layer's backward. Messages: step-edge.c. */
#include "step-edge.h"

PsiStepRank *
psi_step_rank_of_part (PsiStep *step, const PsiStepRank *like, guint part, gint64 micro_batch)
{
  const PsiSchedule *schedule = step->schedule;
  guint class = (guint) (like - step->ranks) % step->n_classes;

  if (schedule->pool != NULL)
    return &step->ranks[part * schedule->n_workers + (guint) (micro_batch / schedule->worker_micro_batches)];
  if (schedule->places != NULL)
    return &step->ranks[psi_schedule_place (schedule, part, micro_batch) * step->n_classes + class];
  for (guint c = 0; c < schedule->n_chunks; c++)
    if (psi_schedule_part (schedule, like->list, c) == part)
      return (PsiStepRank *) like;
  for (guint i = 0; i < schedule->n_ranks * schedule->n_chunks; i++)
    if (schedule->parts[i] == part)
      return &step->ranks[i % schedule->n_ranks * step->n_classes + class];
  g_assert_not_reached ();
}

/* What the forward of a layer keeps for its backward. */
static gint64
kept_bytes (const PsiPlan *plan, const PsiLayerKind *kind, guint layer)
{
  if (plan->recompute == PSI_RECOMPUTE_NONE || kind->never_recomputed || layer % plan->recompute_every != 0)
    return kind->saved_bytes;
  return plan->recompute == PSI_RECOMPUTE_FULL ? MIN (kind->input_bytes, kind->saved_bytes)
                                               : kind->selective_saved_bytes;
}

/* The uniform model keeps the stage input under full recompute, and counts its activations without it otherwise. */
gint64
psi_step_kept_bytes (const PsiStep *step, const PsiLayerKind *kind, guint layer)
{
  if (psi_step_model (step)->is_uniform && step->plan->recompute == PSI_RECOMPUTE_FULL)
    return kind->input_bytes;
  return kept_bytes (step->plan, kind, layer);
}

/* Say of the ops from `before` on what they work for: only names for people hang on it. */
static void
label_layer (PsiStepRank *rank, const guint *before, const PsiToken *token, guint part, guint layer)
{
  for (guint s = PSI_STREAM_COMPUTE; s <= PSI_STREAM_PARAMETERS; s++)
    for (guint i = before[s]; i < rank->program->streams[s]->len; i++)
      {
        psi_program_label (rank->program, PSI_OP_ID (s, i), token->micro_batch, (gint32) part);
        psi_program_op (rank->program, PSI_OP_ID (s, i))->label[2] = (gint32) layer;
      }
}

static void
note_lengths (const PsiStepRank *rank, guint *ret_before)
{
  for (guint s = PSI_STREAM_COMPUTE; s <= PSI_STREAM_PARAMETERS; s++)
    ret_before[s] = rank->program->streams[s]->len;
}

/* The whole part is one op. */
static void
be_one_op (PsiPartOps *edge, guint n_layers, PsiOpId op)
{
  edge->ops = (PsiOps){ op, op, PSI_OP_NONE };
  for (guint l = 0; l < n_layers; l++)
    edge->layers[l] = edge->ops;
}

/* How the layers of a token are built: one by one, or all as the fold of an earlier token like it. */
typedef struct
{
  gboolean folds;                 /* they may be one op */
  PsiOpId whole;                  /* that op, PSI_OP_NONE: not yet */
  guint lengths[PSI_MAX_STREAMS]; /* of the streams before them, if they may be one op */
} Layers;

static void
begin_layers (PsiStep *step, PsiStepRank *rank, const PsiToken *token, Layers *ret_layers)
{
  ret_layers->folds = psi_step_may_fold (step, rank, token);
  ret_layers->whole = ret_layers->folds ? psi_step_add_fold (rank, token) : PSI_OP_NONE;
  for (guint s = 0; s < rank->program->n_streams && ret_layers->folds; s++)
    ret_layers->lengths[s] = rank->program->streams[s]->len;
}

/* They are there: make them one op if they can be. */
static void
end_layers (PsiStep *step, PsiStepRank *rank, const PsiToken *token, guint part, const Layers *layers, PsiPartOps *edge,
            guint n_layers)
{
  PsiOpId whole = layers->whole;

  if (layers->folds && whole == PSI_OP_NONE)
    whole = psi_step_fold (step, rank, token, layers->lengths);
  if (whole == PSI_OP_NONE)
    return;
  psi_program_label (rank->program, whole, token->micro_batch, (gint32) part);
  be_one_op (edge, n_layers, whole);
}

void
psi_step_forward (PsiStep *step, PsiStepRank *rank, const PsiToken *token)
{
  const PsiModel *model = rank->shape->model;
  guint part = psi_schedule_part (step->schedule, rank->list, (guint) token->chunk);
  gsize index = psi_token_index (step, (guint) token->chunk, token->micro_batch);
  guint first_layer = step->partition.first[part], n_layers = step->partition.first[part + 1] - first_layer;
  g_auto (PsiPartOps) edge = { .ops = PSI_NO_OPS, .layers = g_new (PsiOps, n_layers), .first_layer = first_layer };
  Layers layers;

  begin_layers (step, rank, token, &layers);
  for (guint l = first_layer; l < first_layer + n_layers && layers.whole == PSI_OP_NONE; l++)
    {
      const PsiLayerKind *kind = psi_layer_kind (model, l);
      const PsiKindCost *cost = &rank->shape->costs[g_array_index (model->layers, PsiLayer, l).kind];
      gint64 kept = psi_step_kept_bytes (step, kind, l),
             transient = MAX (kind->saved_bytes - kept, 0) + kind->forward_workspace_bytes;
      guint before[PSI_STREAM_PARAMETERS + 1];
      note_lengths (rank, before);
      PsiOpId gathered = psi_step_gather (step, rank, l, TRUE);
      PsiOps ops = PSI_NO_OPS;
      PsiTime pending_ps = gathered != PSI_OP_NONE ? psi_step_host_lists_ps (step, kind) : 0;

      if (l == first_layer && part > 0)
        psi_step_make_whole (step, rank, token, PSI_TAG_FORWARD, l - 1, &ops);
      psi_step_add_pieces (step, rank, cost->pieces[PSI_PASS_FORWARD], PSI_TAG_FORWARD, token, part, FALSE, &pending_ps,
                           &ops);
      pending_ps += psi_step_offload_layer_ps (step, kind, l, kept, cost->pass_ps[PSI_PASS_FORWARD]);
      pending_ps += psi_step_shared_ps (step, rank, l, gathered, 0, cost->pass_ps[PSI_PASS_FORWARD]);
      psi_step_flush_work (rank, PSI_TAG_FORWARD, token, part, pending_ps, &ops);
      psi_step_end_use (step, rank, token, l, gathered, ops.first, ops.last);
      psi_program_delta (rank->program, ops.first, FALSE, PSI_MEMORY_ACTIVATIONS, kept);
      if (psi_step_offloads_activations (step, l))
        psi_program_delta (rank->program, ops.last, TRUE, PSI_MEMORY_ACTIVATIONS, -kept);
      if (!model->is_uniform)
        {
          psi_program_delta (rank->program, ops.first, FALSE, PSI_MEMORY_WORKSPACE, transient);
          psi_program_delta (rank->program, ops.last, TRUE, PSI_MEMORY_WORKSPACE, -transient);
        }
      if (rank->first_use[l] == PSI_OP_NONE)
        rank->first_use[l] = ops.first;
      if (edge.ops.first == PSI_OP_NONE)
        edge.ops.first = ops.first;
      edge.ops.last = ops.last;
      *psi_part_layer_ops (&edge, l) = ops;
      label_layer (rank, before, token, part, l);
    }
  end_layers (step, rank, token, part, &layers, &edge, n_layers);
  psi_step_forward_edges (step, rank, token, &edge);
  rank->forward_first[index] = edge.ops.first;
  rank->forward_last[index] = edge.ops.last;
  g_array_append_val (rank->marks, edge.ops.last);
}

/* Gradients of a layer that a framework keeps beside their sums until the whole part's are there. */
static gint64
own_gradient_bytes (const PsiPlan *plan, const PsiLayerKind *kind)
{
  if (plan->parameter_bytes_each != 2 || kind->parameter_bytes > 0)
    return 0;
  return psi_kind_trainable (kind) * plan->memory->autograd_gradient_bytes;
}

/* Full backward, or only its input or weight half. */
void
psi_step_backward (PsiStep *step, PsiStepRank *rank, const PsiToken *token)
{
  const PsiPlan *plan = step->plan;
  const PsiModel *model = rank->shape->model;
  guint part = psi_schedule_part (step->schedule, rank->list, (guint) token->chunk);
  gsize index = psi_token_index (step, (guint) token->chunk, token->micro_batch);
  gboolean input_half = token->kind != PSI_TOKEN_BACKWARD_WEIGHT, weight_half = token->kind != PSI_TOKEN_BACKWARD_INPUT;
  guint first_layer = step->partition.first[part], n_layers = step->partition.first[part + 1] - first_layer;
  g_auto (PsiPartOps) edge = { .ops = PSI_NO_OPS, .layers = g_new (PsiOps, n_layers), .first_layer = first_layer };
  Layers layers;
  gint64 gradient_bytes = 0; /* the backward's own, until all are added to the sums */

  begin_layers (step, rank, token, &layers);
  for (guint l = first_layer + n_layers; l > first_layer && layers.whole == PSI_OP_NONE; l--)
    {
      guint layer = l - 1;
      const PsiLayerKind *kind = psi_layer_kind (model, layer);
      const PsiKindCost *cost = &rank->shape->costs[g_array_index (model->layers, PsiLayer, layer).kind];
      gint64 kept = psi_step_kept_bytes (step, kind, layer), again = kind->saved_bytes - kept;
      gint64 held = again > 0 ? kind->saved_bytes : kept; /* once what was dropped is there again */
      gboolean recomputes = plan->recompute != PSI_RECOMPUTE_NONE && !kind->never_recomputed &&
                            layer % plan->recompute_every == 0 && (again > 0 || plan->recompute == PSI_RECOMPUTE_FULL);
      guint before[PSI_STREAM_PARAMETERS + 1];
      note_lengths (rank, before);
      PsiOpId gathered = psi_step_gather (step, rank, layer, FALSE), begin = PSI_OP_NONE;
      PsiOps ops = PSI_NO_OPS;
      PsiTime lists_ps = psi_step_host_lists_ps (step, kind);
      PsiTime pending_ps = (gathered != PSI_OP_NONE ? lists_ps : 0) + (weight_half ? lists_ps : 0);
      PsiTime work_ps = (input_half ? cost->pass_ps[PSI_PASS_BACKWARD_INPUT] : 0) +
                        (weight_half ? cost->pass_ps[PSI_PASS_BACKWARD_WEIGHT] : 0);

      PsiOps again_ops = PSI_NO_OPS;
      if (input_half && l == first_layer + n_layers && part + 1 < step->partition.n_parts)
        psi_step_make_whole (step, rank, token, PSI_TAG_BACKWARD, layer, recomputes ? &again_ops : &ops);
      if (recomputes && input_half)
        {
          PsiTime again_ps = plan->recompute == PSI_RECOMPUTE_SELECTIVE ? cost->selective_ps : 0;

          if (plan->recompute == PSI_RECOMPUTE_FULL)
            psi_step_add_pieces (step, rank, cost->pieces[PSI_PASS_FORWARD], PSI_TAG_RECOMPUTE, token, part, FALSE,
                                 &again_ps, &again_ops);
          psi_step_flush_work (rank, PSI_TAG_RECOMPUTE, token, part, again_ps, &again_ops);
          psi_program_delta (rank->program, again_ops.first, FALSE, PSI_MEMORY_ACTIVATIONS, MAX (again, 0));
          psi_program_after (rank->program, again_ops.first, gathered, 0);
          begin = again_ops.first;
        }
      if (input_half)
        psi_step_add_pieces (step, rank, cost->pieces[PSI_PASS_BACKWARD_INPUT], PSI_TAG_BACKWARD, token, part,
                             weight_half, &pending_ps, &ops);
      if (input_half && weight_half) /* has run already */
        pending_ps -= cost->beside_ps;
      if (weight_half)
        psi_step_add_pieces (step, rank, cost->pieces[PSI_PASS_BACKWARD_WEIGHT],
                             input_half ? PSI_TAG_BACKWARD : PSI_TAG_WEIGHT, token, part, FALSE, &pending_ps, &ops);
      pending_ps = MAX (pending_ps, 0);
      if (recomputes && input_half)
        work_ps += plan->recompute == PSI_RECOMPUTE_SELECTIVE ? cost->selective_ps : cost->pass_ps[PSI_PASS_FORWARD];
      pending_ps +=
          psi_step_shared_ps (step, rank, layer, gathered,
                              weight_half ? psi_step_gradients_beside_ps (step, rank, layer, token) : 0, work_ps);
      if (input_half)
        pending_ps += psi_step_offload_layer_ps (step, kind, layer, kept, cost->pass_ps[PSI_PASS_BACKWARD_INPUT]);
      psi_step_flush_work (rank, input_half ? PSI_TAG_BACKWARD : PSI_TAG_WEIGHT, token, part, pending_ps, &ops);
      if (input_half && psi_step_offloads_activations (step, layer))
        psi_program_delta (rank->program, begin != PSI_OP_NONE ? begin : ops.first, FALSE, PSI_MEMORY_ACTIVATIONS,
                           kept);
      psi_step_end_use (step, rank, token, layer, gathered, ops.first, ops.last);
      gint64 freed = input_half && weight_half ? held
                     : weight_half             ? MIN (kind->weight_saved_bytes, held)
                                               : held - MIN (kind->weight_saved_bytes, held);
      psi_program_delta (rank->program, ops.last, TRUE, PSI_MEMORY_ACTIVATIONS, -freed);
      if (!model->is_uniform)
        {
          psi_program_delta (rank->program, ops.first, FALSE, PSI_MEMORY_WORKSPACE, kind->backward_workspace_bytes);
          psi_program_delta (rank->program, ops.last, TRUE, PSI_MEMORY_WORKSPACE, -kind->backward_workspace_bytes);
        }
      gint64 own_bytes = weight_half ? own_gradient_bytes (plan, kind) : 0;
      gradient_bytes += own_bytes;
      psi_program_delta (rank->program, ops.first, FALSE, PSI_MEMORY_GRADIENTS, own_bytes);
      if (layer == first_layer)
        psi_program_delta (rank->program, ops.last, TRUE, PSI_MEMORY_GRADIENTS, -gradient_bytes);
      if (weight_half)
        {
          gboolean is_first = rank->ready[layer] == PSI_OP_NONE;

          rank->ready[layer] = ops.last;
          if (plan->zero >= 2 && !plan->cyclic)
            psi_step_scatter_gradients (step, rank, token, layer, is_first, ops.first, ops.last);
        }
      *psi_part_layer_ops (&edge, layer) = (PsiOps){ begin != PSI_OP_NONE ? begin : ops.first, ops.last, PSI_OP_NONE };
      if (edge.ops.first == PSI_OP_NONE)
        edge.ops.first = psi_part_layer_ops (&edge, layer)->first;
      edge.ops.last = ops.last;
      label_layer (rank, before, token, part, layer);
    }
  end_layers (step, rank, token, part, &layers, &edge, n_layers);
  psi_step_backward_edges (step, rank, token, &edge);
  if (weight_half && !plan->cyclic)
    psi_step_reduce_early (step, rank, part, token->micro_batch);
  if (input_half || rank->backward_first[index] == PSI_OP_NONE)
    rank->backward_first[index] = edge.ops.first;
  rank->backward_last[index] = edge.ops.last;
  g_array_append_val (rank->marks, edge.ops.last);
}
