/* SPDX-License-Identifier: MIT */
/* Forward and backward of one part for one micro-batch.
 *
 * Forward: receive the boundary tensors of the parts it reads, then layer by layer gather sharded parameters, compute,
 * keep what the backward needs; send the output to the parts that read it. Backward mirrors it. A receive is posted
 * when the token before it begins, so that one message travels while the rank computes. What full recompute does not
 * keep is computed again at the start of a layer's backward. */
#include "step.h"

enum
{
  IN_FORWARD,
  IN_BACKWARD,
  OUT_FORWARD,
  OUT_BACKWARD
};

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

/* Frameworks that wait for a boundary tensor to leave do nothing else before; zero-bubble schedules never wait, and
 * several parts a rank only hand on from one to the next: where branches cross cuts, nobody knows a framework that
 * waits. */
static gboolean
waits_for_sends (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;

  return plan->framework->blocking_sends && plan->pp > 1 && (step->is_chain || step->schedule->n_chunks == 1) &&
         (plan->schedule == &psi_schedule_1f1b || plan->schedule == &psi_schedule_interleaved ||
          plan->schedule == &psi_schedule_gpipe);
}

static void
note_send (const PsiStep *step, PsiStepRank *rank, PsiOpId op)
{
  if (waits_for_sends (step))
    g_array_append_val (rank->sends, op);
}

/* Is a boundary tensor that its sender waits for taken in as soon as it comes, long before it is used? From the last
 * rank of a pipeline to the first, or back, it is where groups of micro-batches are longer than the pipeline: Megatron
 * keeps buffers for those. Otherwise nobody would begin: the last rank would wait for the first, which has the whole
 * group to send before it takes anything. */
static gboolean
is_taken_early (const PsiStep *step, guint to)
{
  const PsiSchedule *schedule = step->schedule;
  gboolean in_groups = step->plan->schedule == &psi_schedule_interleaved;

  return waits_for_sends (step) && to % schedule->n_ranks == 0 && schedule->micro_batches > schedule->n_ranks &&
         !(in_groups && schedule->micro_batches % schedule->n_ranks == 0);
}

/* The first op of a token comes after what the token before sent. */
static void
wait_for_sends (PsiStepRank *rank, PsiOpId first)
{
  for (guint i = 0; i < rank->sends->len; i++)
    psi_program_after (rank->program, first, g_array_index (rank->sends, PsiOpId, i), 0);
}

/* When a receive is posted: as the token before its own begins, or, where messages go one by one, as that ends. Then it
 * comes after what that token sent; only the gradient that a backward sends leaves after the next forward's input is
 * there. */
static void
gate_receive (const PsiStep *step, PsiStepRank *rank, PsiOpId op, gboolean forward)
{
  gboolean serial =
      step->plan->framework->serial_messages && step->plan->schedule == &psi_schedule_1f1b && waits_for_sends (step);
  PsiGate gate = { .op = op, .position = (int) rank->marks->len - (serial ? 1 : 2) };

  g_array_append_val (rank->receives, gate);
  for (guint i = 0; i < rank->sends->len && serial; i++)
    {
      PsiOpId sent = g_array_index (rank->sends, PsiOpId, i);

      if (forward && (PSI_OP_STREAM (sent) - PSI_STREAM_BOUNDARY) % 4 == OUT_BACKWARD)
        psi_program_after (rank->program, sent, op, 0);
      else
        psi_program_after (rank->program, op, sent, 0);
    }
}

/* Bytes of the boundary tensor from a layer to the parts after it. */
static gint64
boundary_bytes (const PsiStepRank *rank, guint layer)
{
  return psi_layer_kind (rank->shape->model, layer)->output_bytes;
}

/* Of them on the wire: ranks of a tensor-parallel group hold the same tensor and may send a share each. */
static gint64
sent_bytes (const PsiStep *step, const PsiStepRank *rank, guint layer)
{
  const PsiPlan *plan = step->plan;
  gint64 bytes = boundary_bytes (rank, layer);

  if (!plan->framework->scattered_boundaries || plan->sequence_parallel || plan->pp == 1)
    return bytes;
  return (bytes + plan->tp - 1) / plan->tp;
}

/* Does a layer of the part, before input `i` of layer `l`, read the producer already? Both sides ask the same. */
static gboolean
is_there (const PsiModel *model, guint first_layer, guint l, guint i, guint producer)
{
  for (guint k = first_layer; k <= l; k++)
    {
      const PsiLayer *layer = &g_array_index (model->layers, PsiLayer, k);

      for (guint n = 0; n < (k < l ? layer->n_inputs : i); n++)
        if (layer->inputs[n] == producer)
          return TRUE;
    }
  return FALSE;
}

/* Call `visit` for each edge between this part and a part on another rank: the layer whose output travels, and the
 * first that reads it there. Each producer travels once to each part that reads it.
 *
 * Edges come in the order of their readers, in a backward pass from the last to the first, on both sides: what an edge
 * waits for on its way are edges before it in this order, so branches that cross several cuts never wait in a circle.
 */
typedef void (*EdgeVisitor) (PsiStep *step, PsiStepRank *rank, PsiStepRank *other, const PsiToken *token, guint layer,
                             guint reader, guint from_part, guint to_part, gpointer data);

static void
visit_edges (PsiStep *step, PsiStepRank *rank, const PsiToken *token, gboolean incoming, EdgeVisitor visit,
             gpointer data)
{
  const PsiModel *model = rank->shape->model;
  guint part = psi_schedule_part (step->schedule, rank->list, (guint) token->chunk);
  guint begin = incoming ? step->partition.first[part] : step->partition.first[part + 1];
  guint end = incoming ? step->partition.first[part + 1] : model->layers->len;

  if (!incoming && part + 1 == step->partition.n_parts)
    return;
  /* Where each layer reads the one before it, only the first behind the cut reads across. */
  if (step->is_chain)
    end = MIN (end, begin + 1);
  for (guint n = begin; n < end; n++)
    {
      guint l = token->kind == PSI_TOKEN_FORWARD ? n : begin + end - 1 - n;
      const PsiLayer *layer = &g_array_index (model->layers, PsiLayer, l);

      for (guint i = 0; i < layer->n_inputs; i++)
        {
          guint producer = layer->inputs[i];
          guint from = step->partition.part_of[producer], to = step->partition.part_of[l];

          if (from == to || (incoming ? to != part : from != part) ||
              is_there (model, step->partition.first[to], l, i, producer))
            continue;
          PsiStepRank *other = psi_step_rank_of_part (step, rank, incoming ? from : to, token->micro_batch);
          if (other != rank)
            visit (step, rank, other, token, producer, l, from, to, data);
        }
    }
}

static guint
boundary_stream (const PsiToken *token, guint which)
{
  return PSI_STREAM_BOUNDARY + 4 * (guint) token->chunk + which;
}

/* Shift of the matching token on the other rank: set when that rank's list was walked, or found in the list. */
static guint
shift_of (const PsiStep *step, const PsiStepRank *rank, PsiTokenKind kind, guint part, gint64 micro_batch)
{
  const GArray *list = step->schedule->lists[rank->list];

  if (!step->plan->cyclic)
    return 0;
  for (guint i = 0; i < list->len; i++)
    {
      const PsiToken *token = &g_array_index (list, PsiToken, i);

      if (token->kind == kind && token->micro_batch == micro_batch &&
          psi_schedule_part (step->schedule, rank->list, (guint) token->chunk) == part)
        return token->shift;
    }
  return 0;
}

/* Ops of a part's pass. A layer waits only for what it reads itself, so that branches run at the same time. */
typedef struct
{
  PsiOps ops;     /* of the whole part */
  PsiOps *layers; /* [layers of the part] */
  guint first_layer;
  gint64 bytes;
} EdgeData;

static void
edge_data_clear (EdgeData *edge)
{
  g_free (edge->layers);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (EdgeData, edge_data_clear)

static PsiOps *
ops_of (const EdgeData *edge, guint layer)
{
  return &edge->layers[layer - edge->first_layer];
}

/* The whole part is one op. */
static void
be_one_op (EdgeData *edge, guint n_layers, PsiOpId op)
{
  edge->ops = (PsiOps){ op, op, PSI_OP_NONE };
  for (guint l = 0; l < n_layers; l++)
    edge->layers[l] = edge->ops;
}

static guint
edge_number (guint from, guint layer)
{
  return from * 65536 + layer % 65536;
}

/* Does the output of a stage stay for its own backward? */
static gboolean
keeps_outputs (const PsiStep *step)
{
  return step->plan->memory->keeps_outputs && !step->plan->cyclic && !psi_step_model (step)->is_uniform;
}

static void
receive_forward (PsiStep *step, PsiStepRank *rank, PsiStepRank *other, const PsiToken *token, guint layer, guint reader,
                 guint from, guint to, gpointer data)
{
  EdgeData *edge = data;
  gint64 bytes = boundary_bytes (rank, layer);
  PsiOpId op = psi_step_receive (step, other, rank, boundary_stream (token, IN_FORWARD), IN_FORWARD + 4 * to,
                                 edge_number (from, layer), sent_bytes (step, rank, layer), PSI_TRAFFIC_BOUNDARY);

  psi_program_label (rank->program, op, token->micro_batch, (gint32) to);
  psi_program_skip (rank->program, op,
                    token->shift - shift_of (step, other, PSI_TOKEN_FORWARD, from, token->micro_batch));
  if (!is_taken_early (step, to))
    gate_receive (step, rank, op, TRUE);
  psi_program_delta (rank->program, op, FALSE, PSI_MEMORY_BOUNDARY, bytes);
  psi_program_after (rank->program, ops_of (edge, reader)->first, op, 0);
  psi_program_delta (rank->program, ops_of (edge, reader)->first, FALSE, PSI_MEMORY_BOUNDARY, -bytes);
}

static void
send_forward (PsiStep *step, PsiStepRank *rank, PsiStepRank *other, const PsiToken *token, guint layer, guint reader,
              guint from, guint to, gpointer data)
{
  EdgeData *edge = data;
  gint64 bytes = boundary_bytes (rank, layer);
  PsiOpId op = psi_step_send (step, rank, other, boundary_stream (token, OUT_FORWARD), IN_FORWARD + 4 * to,
                              edge_number (from, layer), sent_bytes (step, rank, layer), PSI_TRAFFIC_BOUNDARY);

  psi_program_label (rank->program, op, token->micro_batch, (gint32) from);
  psi_program_after (rank->program, op, ops_of (edge, layer)->last, 0);
  psi_program_delta (rank->program, ops_of (edge, layer)->last, TRUE, PSI_MEMORY_BOUNDARY, bytes);
  if (!keeps_outputs (step))
    psi_program_delta (rank->program, op, TRUE, PSI_MEMORY_BOUNDARY, -bytes);
  note_send (step, rank, op);
}

static void
receive_backward (PsiStep *step, PsiStepRank *rank, PsiStepRank *other, const PsiToken *token, guint layer,
                  guint reader, guint from, guint to, gpointer data)
{
  EdgeData *edge = data;
  gint64 bytes = boundary_bytes (rank, layer);
  PsiOpId op = psi_step_receive (step, other, rank, boundary_stream (token, IN_BACKWARD), IN_BACKWARD + 4 * to,
                                 edge_number (from, layer), sent_bytes (step, rank, layer), PSI_TRAFFIC_BOUNDARY);
  PsiTokenKind kind = token->kind == PSI_TOKEN_BACKWARD ? PSI_TOKEN_BACKWARD : PSI_TOKEN_BACKWARD_INPUT;

  psi_program_label (rank->program, op, token->micro_batch, (gint32) from);
  psi_program_skip (rank->program, op, token->shift - shift_of (step, other, kind, to, token->micro_batch));
  if (!is_taken_early (step, to))
    gate_receive (step, rank, op, FALSE);
  psi_program_delta (rank->program, op, FALSE, PSI_MEMORY_BOUNDARY, bytes);
  psi_program_after (rank->program, ops_of (edge, layer)->first, op, 0);
  edge->bytes += keeps_outputs (step) ? 2 * bytes : bytes;
}

static void
send_backward (PsiStep *step, PsiStepRank *rank, PsiStepRank *other, const PsiToken *token, guint layer, guint reader,
               guint from, guint to, gpointer data)
{
  EdgeData *edge = data;
  gint64 bytes = boundary_bytes (rank, layer);
  PsiOpId op = psi_step_send (step, rank, other, boundary_stream (token, OUT_BACKWARD), IN_BACKWARD + 4 * to,
                              edge_number (from, layer), sent_bytes (step, rank, layer), PSI_TRAFFIC_BOUNDARY);

  psi_program_label (rank->program, op, token->micro_batch, (gint32) to);
  psi_program_after (rank->program, op, ops_of (edge, reader)->last, 0);
  psi_program_delta (rank->program, ops_of (edge, reader)->last, TRUE, PSI_MEMORY_BOUNDARY, bytes);
  psi_program_delta (rank->program, op, TRUE, PSI_MEMORY_BOUNDARY, -bytes);
  note_send (step, rank, op);
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
end_layers (PsiStep *step, PsiStepRank *rank, const PsiToken *token, guint part, const Layers *layers, EdgeData *edge,
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
  g_auto (EdgeData) edge = { .ops = PSI_NO_OPS, .layers = g_new (PsiOps, n_layers), .first_layer = first_layer };
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
      *ops_of (&edge, l) = ops;
      label_layer (rank, before, token, part, l);
    }
  end_layers (step, rank, token, part, &layers, &edge, n_layers);
  wait_for_sends (rank, edge.ops.first);
  visit_edges (step, rank, token, TRUE, receive_forward, &edge);
  g_array_set_size (rank->sends, 0);
  visit_edges (step, rank, token, FALSE, send_forward, &edge);
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
  g_auto (EdgeData) edge = { .ops = PSI_NO_OPS, .layers = g_new (PsiOps, n_layers), .first_layer = first_layer };
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
      *ops_of (&edge, layer) = (PsiOps){ begin != PSI_OP_NONE ? begin : ops.first, ops.last, PSI_OP_NONE };
      if (edge.ops.first == PSI_OP_NONE)
        edge.ops.first = ops_of (&edge, layer)->first;
      edge.ops.last = ops.last;
      label_layer (rank, before, token, part, layer);
    }
  end_layers (step, rank, token, part, &layers, &edge, n_layers);
  wait_for_sends (rank, edge.ops.first);
  if (!input_half)
    g_array_set_size (rank->sends, 0);
  else
    {
      visit_edges (step, rank, token, FALSE, receive_backward, &edge);
      g_array_set_size (rank->sends, 0);
      psi_program_delta (rank->program, edge.ops.last, TRUE, PSI_MEMORY_BOUNDARY, -edge.bytes);
      visit_edges (step, rank, token, TRUE, send_backward, &edge);
    }
  if (weight_half && !plan->cyclic)
    psi_step_reduce_early (step, rank, part, token->micro_batch);
  if (input_half || rank->backward_first[index] == PSI_OP_NONE)
    rank->backward_first[index] = edge.ops.first;
  rank->backward_last[index] = edge.ops.last;
  g_array_append_val (rank->marks, edge.ops.last);
}
