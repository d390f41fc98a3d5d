/* SPDX-License-Identifier: MIT */
/* In-switch reduction (NVLink SHARP): the switch adds up what the members of a node hold and sends the sum to all, so
 * each link carries S once per direction. Over several nodes the sums go up and down a tree (NVLS tree).
 *
 *   bytes     all-reduce S through each link; all-gather and reduce-scatter (n-1)/n S;
 *             2 (nodes - 1)/nodes S leave each node
 *   rate      B x efficiency x (channels - 1)/channels; all-gather and reduce-scatter x ((n-1)/n)^2
 *   latency   one hop of the switch, + 2 log2 (nodes) hops between nodes
 *
 * Source: NCCL 2.28.9 src/graph/tuning.cc. Assumes Simple protocol, Hopper or later, NVSwitch.
 * Limits: 2 nodes of H100 on EFA took a fourth longer than this from 1 MiB to 8 MiB, less at 16 MiB to 256 MiB. */

#include "coll-model.h"

#include <math.h>

#define FEWEST_RANKS 4 /* of a node; with fewer the ring is used */

static gboolean
nvls_applies (const PsiCollectiveCase *c, PsiProtocol protocol)
{
  return protocol == PSI_PROTOCOL_SIMPLE && c->machine->gpu.architecture >= PSI_ARCHITECTURE_HOPPER &&
         c->machine->intra.kind == PSI_LINK_NVLINK && c->shape.ranks_per_node >= FEWEST_RANKS;
}

static gboolean
one_node_applies (const PsiCollectiveCase *c, PsiProtocol protocol)
{
  return c->shape.n_nodes == 1 && c->op <= PSI_COLLECTIVE_REDUCE_SCATTER && nvls_applies (c, protocol);
}

static gboolean
tree_applies (const PsiCollectiveCase *c, PsiProtocol protocol)
{
  return c->shape.n_nodes > 1 && c->op == PSI_COLLECTIVE_ALL_REDUCE && nvls_applies (c, protocol);
}

static double
switch_rate (const PsiCollectiveCase *c)
{
  return c->wire_bytes_per_s * psi_nccl_nvls_efficiency (c);
}

static void
one_node_cost (const PsiCollectiveCase *c, PsiProtocol protocol, PsiCollectiveCost *ret_cost)
{
  double share = c->op == PSI_COLLECTIVE_ALL_REDUCE ? 1 : (c->n - 1.0) / c->n;
  ret_cost->intra_bytes = psi_coll_bytes (share * (double) c->bytes);
  /* NCCL: S bytes at rate x share, of which share x S are on this link. */
  ret_cost->intra_bytes_per_s = switch_rate (c) * share * share;
  ret_cost->inter_bytes = 0;
  ret_cost->inter_bytes_per_s = c->member_net_bytes_per_s;
  ret_cost->latency_ps = psi_coll_ps (psi_nccl_intra_us (c, PSI_NCCL_NVLS, protocol));
}

static void
tree_cost (const PsiCollectiveCase *c, PsiProtocol protocol, PsiCollectiveCost *ret_cost)
{
  double nodes = c->shape.n_nodes;
  ret_cost->intra_bytes = c->bytes;
  ret_cost->intra_bytes_per_s = switch_rate (c);
  ret_cost->inter_bytes = psi_coll_bytes (2 * (nodes - 1) / nodes * (double) c->bytes / c->shape.ranks_per_node);
  ret_cost->inter_bytes_per_s = c->member_net_bytes_per_s;
  ret_cost->latency_ps = psi_coll_ps (psi_nccl_intra_us (c, PSI_NCCL_NVLS_TREE, protocol) +
                                      2 * floor (log2 (nodes)) * psi_nccl_inter_us (c, PSI_NCCL_NVLS_TREE, protocol));
}

const PsiCollectiveAlgorithm psi_coll_nvls = { "nvls",
                                               "the switch of a node adds up; each link carries the buffer once",
                                               one_node_applies, one_node_cost };
const PsiCollectiveAlgorithm psi_coll_nvls_tree = { "nvls-tree",
                                                    "the switch of each node adds up, a tree joins the nodes",
                                                    tree_applies, tree_cost };
