/* SPDX-License-Identifier: MIT */
/* Collectives between the ops of a layer, each with its mirror in the backward. */
#include "lower-step.h"

static void
add_comm (PsiLower *lower, PsiCommOp forward, PsiCommOp backward, PsiCommGroup group, gint64 forward_bytes,
          gint64 backward_bytes)
{
  PsiLowerStep *step = psi_lower_add_step (lower);

  step->forward_comm = forward;
  step->backward_comm = backward;
  step->group = group;
  step->comm_bytes[0] = forward_bytes;
  step->comm_bytes[1] = backward_bytes;
}

void
psi_lower_comm (PsiLower *lower, PsiCommOp forward, PsiCommOp backward, PsiCommGroup group, gint64 bytes)
{
  add_comm (lower, forward, backward, group, bytes, bytes);
}

/* Under PyTorch tensors in 8 bits are gathered as such (torchtitan's Float8ColwiseParallel), sums stay wide. */
static gint64
gathered_bytes (const PsiLower *lower, gint64 bytes)
{
  return lower->dtype != lower->wide_dtype && !lower->lowering->megatron ? bytes / lower->element_bytes : bytes;
}

void
psi_lower_enter_tp (PsiLower *lower, gint64 bytes)
{
  if (lower->tp > 1 && lower->sequence_shards > 1)
    add_comm (lower, PSI_COMM_ALL_GATHER, PSI_COMM_REDUCE_SCATTER, lower->tp_group, gathered_bytes (lower, bytes),
              bytes);
  else if (lower->tp > 1)
    psi_lower_comm (lower, PSI_COMM_NONE, PSI_COMM_ALL_REDUCE, lower->tp_group, bytes);
  if (lower->tp > 1)
    g_array_index (lower->ops, PsiLowerStep, lower->ops->len - 1).enters = TRUE;
}

void
psi_lower_leave_tp (PsiLower *lower, gint64 bytes)
{
  if (lower->tp > 1 && lower->sequence_shards > 1)
    add_comm (lower, PSI_COMM_REDUCE_SCATTER, PSI_COMM_ALL_GATHER, lower->tp_group, bytes,
              gathered_bytes (lower, bytes));
  else if (lower->tp > 1)
    psi_lower_comm (lower, PSI_COMM_ALL_REDUCE, PSI_COMM_NONE, lower->tp_group, bytes);
  if (lower->tp > 1)
    g_array_index (lower->ops, PsiLowerStep, lower->ops->len - 1).leaves = TRUE;
}
