/* SPDX-License-Identifier: MIT */
/* Hierarchical: a ring inside each node, then rings of the members at the same place of all nodes over what each of
 * them holds, then a ring inside again.
 *
 *   steps     all-reduce 2 (r - 1) + 2 (nodes - 1); reduce-scatter and all-gather half of that
 *   bytes     (1 - 1/r) S inside a node of r members, (1/r - 1/n) S between nodes; all-reduce twice that
 *   rate      the wire and one member's share of the network, one after the other: times add up
 *   latency   base + a hop for each step, of the wire it takes
 *
 * Source: Jia et al., "Highly Scalable Deep Learning Training System with Mixed-Precision", arXiv 1807.11205, section
 * 3.2; Horovod's hierarchical all-reduce. NCCL does it inside its trees: only when asked for by name. */

#include "coll-model.h"

static gboolean
hierarchical_applies (const PsiCollectiveCase *c, PsiProtocol protocol)
{
  return protocol == PSI_PROTOCOL_SIMPLE && c->op <= PSI_COLLECTIVE_REDUCE_SCATTER && c->shape.n_nodes > 1 &&
         c->shape.ranks_per_node > 1 && c->n == c->shape.n_nodes * c->shape.ranks_per_node;
}

static guint
laps_of (const PsiCollectiveCase *c)
{
  return c->op == PSI_COLLECTIVE_ALL_REDUCE ? 2 : 1;
}

static guint
hierarchical_steps (const PsiCollectiveCase *c)
{
  return laps_of (c) * (c->shape.ranks_per_node - 1 + c->shape.n_nodes - 1);
}

static void
hierarchical_cost (const PsiCollectiveCase *c, PsiProtocol protocol, PsiCollectiveCost *ret_cost)
{
  double n = c->n, r = c->shape.ranks_per_node, laps = laps_of (c), bytes = (double) c->bytes;

  ret_cost->intra_bytes = psi_coll_bytes (laps * (1 - 1 / r) * bytes);
  ret_cost->inter_bytes = psi_coll_bytes (laps * (1 / r - 1 / n) * bytes);
  psi_coll_one_after_the_other (c, ret_cost);
  ret_cost->latency_ps = psi_coll_ps (psi_nccl_base_us (c, PSI_NCCL_RING, protocol) +
                                      laps * (r - 1) * psi_nccl_intra_us (c, PSI_NCCL_RING, protocol) +
                                      laps * (n / r - 1) * psi_nccl_inter_us (c, PSI_NCCL_RING, protocol));
}

const PsiCollectiveAlgorithm psi_coll_hierarchical = {
  "hierarchical",       "rings inside the nodes and over the nodes, one after the other",
  hierarchical_applies, hierarchical_cost,
  hierarchical_steps,   TRUE
};
