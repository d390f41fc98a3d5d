/* SPDX-License-Identifier: MIT */
/* Boundary tensors between parts on different ranks: who sends them, when a receive is posted, what waits for what.
 *
 * A receive is posted when the token before its own begins, so that one message travels while the rank computes, or,
 * where messages go one by one, as that token ends. Source: Megatron-LM p2p_communication.py and schedules.py;
 * DeepSpeed TrainSchedule (runtime/pipe/schedule.py). What frameworks do about it is in framework.c. */
#include "step-edge.h"

enum
{
  IN_FORWARD,
  IN_BACKWARD,
  OUT_FORWARD,
  OUT_BACKWARD
};

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
  PsiPartOps *edge = data;
  gint64 bytes = boundary_bytes (rank, layer);
  PsiOpId op = psi_step_receive (step, other, rank, boundary_stream (token, IN_FORWARD), IN_FORWARD + 4 * to,
                                 edge_number (from, layer), sent_bytes (step, rank, layer), PSI_TRAFFIC_BOUNDARY);

  psi_program_label (rank->program, op, token->micro_batch, (gint32) to);
  psi_program_skip (rank->program, op,
                    token->shift - shift_of (step, other, PSI_TOKEN_FORWARD, from, token->micro_batch));
  if (!is_taken_early (step, to))
    gate_receive (step, rank, op, TRUE);
  psi_program_delta (rank->program, op, FALSE, PSI_MEMORY_BOUNDARY, bytes);
  psi_program_after (rank->program, psi_part_layer_ops (edge, reader)->first, op, 0);
  psi_program_delta (rank->program, psi_part_layer_ops (edge, reader)->first, FALSE, PSI_MEMORY_BOUNDARY, -bytes);
}

static void
send_forward (PsiStep *step, PsiStepRank *rank, PsiStepRank *other, const PsiToken *token, guint layer, guint reader,
              guint from, guint to, gpointer data)
{
  PsiPartOps *edge = data;
  gint64 bytes = boundary_bytes (rank, layer);
  PsiOpId op = psi_step_send (step, rank, other, boundary_stream (token, OUT_FORWARD), IN_FORWARD + 4 * to,
                              edge_number (from, layer), sent_bytes (step, rank, layer), PSI_TRAFFIC_BOUNDARY);

  psi_program_label (rank->program, op, token->micro_batch, (gint32) from);
  psi_program_after (rank->program, op, psi_part_layer_ops (edge, layer)->last, 0);
  psi_program_delta (rank->program, psi_part_layer_ops (edge, layer)->last, TRUE, PSI_MEMORY_BOUNDARY, bytes);
  if (!keeps_outputs (step))
    psi_program_delta (rank->program, op, TRUE, PSI_MEMORY_BOUNDARY, -bytes);
  note_send (step, rank, op);
}

static void
receive_backward (PsiStep *step, PsiStepRank *rank, PsiStepRank *other, const PsiToken *token, guint layer,
                  guint reader, guint from, guint to, gpointer data)
{
  PsiPartOps *edge = data;
  gint64 bytes = boundary_bytes (rank, layer);
  PsiOpId op = psi_step_receive (step, other, rank, boundary_stream (token, IN_BACKWARD), IN_BACKWARD + 4 * to,
                                 edge_number (from, layer), sent_bytes (step, rank, layer), PSI_TRAFFIC_BOUNDARY);
  PsiTokenKind kind = token->kind == PSI_TOKEN_BACKWARD ? PSI_TOKEN_BACKWARD : PSI_TOKEN_BACKWARD_INPUT;

  psi_program_label (rank->program, op, token->micro_batch, (gint32) from);
  psi_program_skip (rank->program, op, token->shift - shift_of (step, other, kind, to, token->micro_batch));
  if (!is_taken_early (step, to))
    gate_receive (step, rank, op, FALSE);
  psi_program_delta (rank->program, op, FALSE, PSI_MEMORY_BOUNDARY, bytes);
  psi_program_after (rank->program, psi_part_layer_ops (edge, layer)->first, op, 0);
  edge->received_bytes += keeps_outputs (step) ? 2 * bytes : bytes;
}

static void
send_backward (PsiStep *step, PsiStepRank *rank, PsiStepRank *other, const PsiToken *token, guint layer, guint reader,
               guint from, guint to, gpointer data)
{
  PsiPartOps *edge = data;
  gint64 bytes = boundary_bytes (rank, layer);
  PsiOpId op = psi_step_send (step, rank, other, boundary_stream (token, OUT_BACKWARD), IN_BACKWARD + 4 * to,
                              edge_number (from, layer), sent_bytes (step, rank, layer), PSI_TRAFFIC_BOUNDARY);

  psi_program_label (rank->program, op, token->micro_batch, (gint32) to);
  psi_program_after (rank->program, op, psi_part_layer_ops (edge, reader)->last, 0);
  psi_program_delta (rank->program, psi_part_layer_ops (edge, reader)->last, TRUE, PSI_MEMORY_BOUNDARY, bytes);
  psi_program_delta (rank->program, op, TRUE, PSI_MEMORY_BOUNDARY, -bytes);
  note_send (step, rank, op);
}

void
psi_step_forward_edges (PsiStep *step, PsiStepRank *rank, const PsiToken *token, PsiPartOps *part)
{
  wait_for_sends (rank, part->ops.first);
  visit_edges (step, rank, token, TRUE, receive_forward, part);
  g_array_set_size (rank->sends, 0);
  visit_edges (step, rank, token, FALSE, send_forward, part);
}

void
psi_step_backward_edges (PsiStep *step, PsiStepRank *rank, const PsiToken *token, PsiPartOps *part)
{
  wait_for_sends (rank, part->ops.first);
  if (token->kind == PSI_TOKEN_BACKWARD_WEIGHT)
    {
      g_array_set_size (rank->sends, 0);
      return;
    }
  visit_edges (step, rank, token, FALSE, receive_backward, part);
  g_array_set_size (rank->sends, 0);
  psi_program_delta (rank->program, part->ops.last, TRUE, PSI_MEMORY_BOUNDARY, -part->received_bytes);
  visit_edges (step, rank, token, TRUE, send_backward, part);
}
