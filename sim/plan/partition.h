/* SPDX-License-Identifier: MIT */
/* Which layers make up which part of a model. */
#pragma once

#include "keys.h"
#include "model.h"

typedef struct
{
  guint n_parts;
  guint *first;     /* [n_parts + 1] first layer of each part */
  guint *part_of;   /* [layers] */
  const char *rule; /* how it was cut, for the report */
} PsiPartition;

/* Cut by the key `partition`: layers (n_parts divides the blocks; embedding and head ride along) | layers+2 | flops
 * (smallest largest part) | a list in part order; without the key the first of the three that goes. Errors name the
 * key. `cost` [layers] is what `flops` balances. */
gboolean psi_partition_cut (const PsiModel *model, guint n_parts, const PsiSettings *settings, const double *cost,
                            PsiPartition *ret_partition, GError **error);
void psi_partition_clear (PsiPartition *partition);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsiPartition, psi_partition_clear)
