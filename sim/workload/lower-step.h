/* SPDX-License-Identifier: MIT */
/* What the lower*.c files share: the steps of a layer while it is lowered. */
#pragma once

#include "lower.h"

/* One step of the forward with its mirror. At most three kernels a pass. */
typedef struct
{
  PsiKernel kernels[PSI_N_PASSES][3];
  guint n_kernels[PSI_N_PASSES];
  PsiCommOp forward_comm, backward_comm;
  PsiCommGroup group;
  gint64 comm_bytes[2]; /* forward, backward */
  gboolean core, varies;
  gboolean column, row;           /* a product split by columns, by rows */
  gboolean enters, leaves;        /* a collective where a split part begins, ends */
  guint segment, forward_segment; /* of the input half and the forward, that end with this step's collective */
} PsiLowerStep;

/* Append an empty step; the pointer is valid until the next. */
PsiLowerStep *psi_lower_add_step (PsiLower *lower);

gboolean psi_lower_is_work (const PsiKernel *kernel);

/* Note in the segments which collectives of the tensor-parallel group run beside which kernels, as the framework does
 * it. `first_weights`: where the kernels of each step's weight half begin. */
void psi_lower_overlap (const PsiLower *lower, PsiLayerKind *kind, const guint *first_weights);

/* The kernels that selective recompute runs again, as one run of the kind's list: those of the forward if they are
 * neighbours, else copies behind all others. */
void psi_lower_emit_core (const PsiLower *lower, PsiLayerKind *kind, const guint *first_kernels);
