/* SPDX-License-Identifier: MIT */
/* The stretches of work of a layer as ops of the compute stream, with the collectives between them.
 *
 * A collective is waited for where it stands, or runs on a stream of its own beside the weight gradients of the
 * products that made its bytes, when the framework does so and the whole backward is one token. With sequence
 * parallelism the input of those products is gathered again before, beside their other half:
 *
 *   compute   ... | gradient of the input | weight gradient | ...
 *   tensor          gather                  scattered sum           each begins when both before it are over
 *
 * Frameworks that cut products into pieces make all but one of them while the others travel.
 *
 * Work beside collectives takes longer, see step-cost.c. Sharded parameters and summed gradients of data-parallel ranks
 * slow down the layers beside which they travel in the same way. */
#include "step.h"

static const struct
{
  PsiCollectiveOp op;
} comm_ops[] = { [PSI_COMM_ALL_REDUCE] = { PSI_COLLECTIVE_ALL_REDUCE },
                 [PSI_COMM_ALL_GATHER] = { PSI_COLLECTIVE_ALL_GATHER },
                 [PSI_COMM_REDUCE_SCATTER] = { PSI_COLLECTIVE_REDUCE_SCATTER },
                 [PSI_COMM_ALL_TO_ALL] = { PSI_COLLECTIVE_ALL_TO_ALL },
                 [PSI_COMM_SEND_RECV] = { PSI_COLLECTIVE_SEND_RECV } };
static const PsiDimension comm_dimensions[] = { [PSI_GROUP_TP] = PSI_DIMENSION_TP,
                                                [PSI_GROUP_CP] = PSI_DIMENSION_CP,
                                                [PSI_GROUP_EP] = PSI_DIMENSION_EP,
                                                [PSI_GROUP_EXPERT_TP] = PSI_DIMENSION_EXPERT_TP };
static const PsiTraffic comm_traffic[] = { [PSI_GROUP_TP] = PSI_TRAFFIC_TENSOR,
                                           [PSI_GROUP_CP] = PSI_TRAFFIC_CONTEXT,
                                           [PSI_GROUP_EP] = PSI_TRAFFIC_EXPERTS,
                                           [PSI_GROUP_EXPERT_TP] = PSI_TRAFFIC_TENSOR };

/* A stretch of work, after the collective that runs beside what came before. */
static void
add_work (PsiStepRank *rank, guint tag, const PsiToken *token, guint part, PsiTime time_ps, PsiOps *ops)
{
  ops->last = psi_program_work (rank->program, PSI_STREAM_COMPUTE, time_ps, tag);
  psi_program_label (rank->program, ops->last, token->micro_batch, (gint32) part);
  if (ops->beside != PSI_OP_NONE)
    psi_program_after (rank->program, ops->last, ops->beside, 0);
  ops->beside = PSI_OP_NONE;
  if (ops->first == PSI_OP_NONE)
    ops->first = ops->last;
}

/* A collective on a stream of its own that begins after `after`. */
static PsiOpId
add_beside (PsiStep *step, PsiStepRank *rank, PsiCommOp comm, const PsiPiece *piece, const PsiToken *token, guint part,
            PsiOpId after)
{
  PsiOpId op = psi_step_collective (step, rank, PSI_STREAM_TENSOR, comm_ops[comm].op, comm_dimensions[piece->group],
                                    piece->comm_bytes, comm_traffic[piece->group]);

  psi_program_label (rank->program, op, token->micro_batch, (gint32) part);
  psi_program_after (rank->program, op, after, 0);
  return op;
}

void
psi_step_add_pieces (PsiStep *step, PsiStepRank *rank, const GArray *pieces, guint tag, const PsiToken *token,
                     guint part, gboolean whole, PsiTime *pending_ps, PsiOps *ops)
{
  for (guint i = 0; i < pieces->len; i++)
    {
      const PsiPiece *piece = &g_array_index (pieces, PsiPiece, i);
      PsiOpId gathered = PSI_OP_NONE;

      *pending_ps += piece->time_ps;
      if (piece->comm == PSI_COMM_NONE || piece->comm_bytes <= 0 ||
          psi_step_group_size (step, comm_dimensions[piece->group]) <= 1)
        continue;
      if (whole && piece->again_ps > 0)
        {
          PsiTime before_ps = MAX (*pending_ps - piece->again_ps, 0);

          if (before_ps > 0 || ops->first == PSI_OP_NONE || ops->beside != PSI_OP_NONE)
            add_work (rank, tag, token, part, before_ps, ops);
          gathered = add_beside (step, rank, PSI_COMM_ALL_GATHER, piece, token, part, ops->last);
          *pending_ps = piece->again_ps + piece->stretch_ps;
        }
      if (*pending_ps > 0 || ops->first == PSI_OP_NONE || ops->beside != PSI_OP_NONE)
        {
          add_work (rank, tag, token, part, *pending_ps, ops);
          *pending_ps = 0;
        }
      PsiTime beside_ps = piece->pieces_ps > 0 ? piece->pieces_ps : whole ? piece->beside_ps : 0;

      if (beside_ps > 0)
        {
          PsiOpId sum = add_beside (step, rank, piece->comm, piece, token, part, ops->last);

          ops->beside = gathered;
          add_work (rank, tag, token, part, beside_ps, ops);
          ops->beside = sum;
          continue;
        }
      PsiOpId op = psi_step_collective (step, rank, PSI_STREAM_COMPUTE, comm_ops[piece->comm].op,
                                        comm_dimensions[piece->group], piece->comm_bytes, comm_traffic[piece->group]);
      if (op != PSI_OP_NONE)
        {
          psi_program_label (rank->program, op, token->micro_batch, (gint32) part);
          ops->last = op;
        }
    }
}

void
psi_step_flush_work (PsiStepRank *rank, guint tag, const PsiToken *token, guint part, PsiTime pending_ps, PsiOps *ops)
{
  if (pending_ps == 0 && ops->first != PSI_OP_NONE && ops->beside == PSI_OP_NONE)
    return;
  add_work (rank, tag, token, part, pending_ps, ops);
}

PsiTime
psi_step_shared_ps (PsiStep *step, PsiStepRank *rank, guint layer, PsiOpId gathered, PsiTime sums_ps, PsiTime work_ps)
{
  const PsiLayerKind *kind = psi_layer_kind (rank->shape->model, layer);
  PsiTime beside_ps = sums_ps;

  if (rank->shape->model->is_uniform) /* times that are given are what they are */
    return 0;
  if (gathered != PSI_OP_NONE && step->plan->prefetch > 0)
    beside_ps +=
        psi_step_collective_alone_ps (step, rank, PSI_STREAM_PARAMETERS, PSI_COLLECTIVE_ALL_GATHER, PSI_DIMENSION_SHARD,
                                      psi_layer_parameter_bytes (step, kind), PSI_TRAFFIC_PARAMETERS);
  return beside_ps > 0 ? psi_step_beside_ps (step->machine, work_ps, beside_ps) - work_ps : 0;
}
