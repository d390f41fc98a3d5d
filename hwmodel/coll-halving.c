/* SPDX-License-Identifier: MIT */
/* Recursive halving and doubling: members exchange halves, quarters, ... with partners 1, 2, 4, ... places away.
 *
 *   steps     log2 n reduce-scatter or all-gather, 2 log2 n all-reduce
 *   bytes     (1 - 1/r) S inside a node of r members, (1/r - 1/n) S between nodes; all-reduce twice that
 *   rate      the wire and one member's share of the network, one after the other: times add up
 *   latency   base + a hop for each step, of the wire it takes
 *
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1),
 * 2005. n and r powers of two. NCCL does not have it: only when asked for by name. */

#include "coll-model.h"

#include <math.h>

static gboolean
is_power_of_two (guint n)
{
  return n > 0 && (n & (n - 1)) == 0;
}

static gboolean
halving_applies (const PsiCollectiveCase *c, PsiProtocol protocol)
{
  return protocol == PSI_PROTOCOL_SIMPLE && c->op <= PSI_COLLECTIVE_REDUCE_SCATTER && is_power_of_two (c->n) &&
         is_power_of_two (c->shape.ranks_per_node);
}

static guint
laps_of (const PsiCollectiveCase *c)
{
  return c->op == PSI_COLLECTIVE_ALL_REDUCE ? 2 : 1;
}

static guint
halving_steps (const PsiCollectiveCase *c)
{
  return laps_of (c) * (g_bit_storage (c->n) - 1);
}

static void
halving_cost (const PsiCollectiveCase *c, PsiProtocol protocol, PsiCollectiveCost *ret_cost)
{
  double n = c->n, r = c->shape.ranks_per_node, laps = laps_of (c), bytes = (double) c->bytes;

  ret_cost->intra_bytes = psi_coll_bytes (laps * (1 - 1 / r) * bytes);
  ret_cost->inter_bytes = psi_coll_bytes (laps * (1 / r - 1 / n) * bytes);
  psi_coll_one_after_the_other (c, ret_cost);
  ret_cost->latency_ps = psi_coll_ps (psi_nccl_base_us (c, PSI_NCCL_RING, protocol) +
                                      laps * log2 (r) * psi_nccl_intra_us (c, PSI_NCCL_RING, protocol) +
                                      laps * log2 (n / r) * psi_nccl_inter_us (c, PSI_NCCL_RING, protocol));
}

const PsiCollectiveAlgorithm psi_coll_halving = {
  "halving-doubling", "exchange halves with partners 1, 2, 4, ... away; few steps, full bandwidth",
  halving_applies,    halving_cost,
  halving_steps,      TRUE
};
