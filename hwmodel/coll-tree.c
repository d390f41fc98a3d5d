/* SPDX-License-Identifier: MIT */
/* Double binary tree over the nodes, a chain inside each node: an all-reduce goes up and down once.
 *
 *   bytes     S through each link inside a node, up one way and down the other; 2 (nodes - 1)/nodes S leave each node:
 *             half of S goes up and half comes down each of the two trees, and the inner nodes of one are leaves of the
 *             other
 *   rate      inside a node so that the time is NCCL's: S at half of R, R = 0.85 c(S) x
 *             Simple   R' = min (0.92 B, channels x max)
 *             LL       min (R'/3.8, LL max)
 *             LL128    min (R' x 7/9 in one node or 120/128 in several, channels x max)
 *             c(S) being the correction by size. Between nodes the bytes above pass at what the network gives: Simple
 *             all of it, LL128 120/128, LL half, no more than half of R' at the wire of a node's members together. NCCL
 *             counts 2 S there too, which is true of many nodes only: two nodes with few adapters reach twice that.
 *             On Volta (libraries of 2020 and 2021) NCCL's count is kept: 2 and 4 nodes with one adapter each took
 *             what a ring takes (DLPerf, data parallel steps of 16 and 32 V100).
 *   latency   base + 2 ((n/nodes - 1) hop inside + log2 (nodes) hop between)
 *   unseen    LL128 between nodes: k / 8 x 2 x the network's latency. A channel has 8 chunks under way, so each eighth
 *             of the k chunks of a channel waits for a round trip. NCCL halves chunks of 576 000 bytes down to 72 000
 *             until a channel has x = 64 (1 + log2 (nodes) + n/10 nodes) / (n/nodes) of them, then down to 18 000 until
 *             it has x / 4; on average between that and its double:
 *             k = max (min (s / 18 000, x sqrt 2 / 4), min (s / 72 000, x sqrt 2), s / 576 000), s = S / channels
 *
 * Source: NCCL 2.28.9 src/graph/tuning.cc, chunks: calcCollChunking in src/enqueue.cc, NCCL_STEPS in device.h; trees:
 * Sanders, Speck, Traeff 2009.
 * Check: 16 A100 on two nodes with four 100 Gb/s adapters each: bus bandwidth 77 GB/s of 1 GiB where a ring cannot pass
 * 47; 1 MiB takes 308 us there and 122 us on 16 H100 with p5's adapters, 91 and 18 us of it for round trips
 * (aws-samples/awsome-distributed-training). */

#include "coll-model.h"

#include <math.h>

#define TREE_SHARE 0.92
#define TREE_PATTERN 0.85
#define LL_DIVISOR 3.8
#define LL_SHARE 0.5
#define LL128_ONE_NODE (7.0 / 9.0)
#define LL128_NODES (120.0 / 128.0)
/* Bytes of a chunk of LL128: 640 threads x 120 words, 15 of 16 of them data; halved three and five times. */
#define CHUNK_LARGE 576000.0
#define CHUNK_MIDDLE 72000.0
#define CHUNK_SMALL 18000.0
#define CHUNKS_UNDER_WAY 8

static gboolean
tree_applies (const PsiCollectiveCase *c, PsiProtocol protocol)
{
  return c->op == PSI_COLLECTIVE_ALL_REDUCE && c->machine->gpu.architecture != PSI_ARCHITECTURE_CPU &&
         (protocol != PSI_PROTOCOL_LL128 || psi_nccl_has_ll128 (c));
}

static double
tree_rate (const PsiCollectiveCase *c, PsiProtocol protocol, double wire)
{
  double rate = MIN (wire * TREE_SHARE, psi_nccl_tree_max (c));
  if (protocol == PSI_PROTOCOL_LL)
    rate = MIN (rate / LL_DIVISOR, psi_nccl_ll_max (c));
  else if (protocol == PSI_PROTOCOL_LL128)
    rate = MIN (rate * (c->shape.n_nodes == 1 ? LL128_ONE_NODE : LL128_NODES), psi_nccl_tree_ll128_max (c));
  return rate * TREE_PATTERN * psi_nccl_tree_correction (protocol, c->bytes);
}

/* What a node's network gives to one member. NCCL counts 2 S there; so it was on Volta. */
static double
net_rate (const PsiCollectiveCase *c, PsiProtocol protocol, double leaving)
{
  double share = protocol == PSI_PROTOCOL_LL ? LL_SHARE : protocol == PSI_PROTOCOL_LL128 ? LL128_NODES : 1;
  double most = protocol == PSI_PROTOCOL_LL ? psi_nccl_ll_max (c) : psi_nccl_tree_max (c);

  if (c->machine->gpu.architecture <= PSI_ARCHITECTURE_VOLTA)
    return tree_rate (c, protocol, c->node_bytes_per_s) / 2 / c->shape.ranks_per_node * MAX (leaving, 1);
  return MIN (c->node_bytes_per_s * share, most) / c->shape.ranks_per_node;
}

static void
tree_cost (const PsiCollectiveCase *c, PsiProtocol protocol, PsiCollectiveCost *ret_cost)
{
  double nodes = c->shape.n_nodes, per_node = c->shape.ranks_per_node;
  double bytes = (double) c->bytes, leaving = 2 * (nodes - 1) / nodes;
  ret_cost->intra_bytes = per_node > 1 ? c->bytes : 0;
  ret_cost->intra_bytes_per_s = tree_rate (c, protocol, c->wire_bytes_per_s) / 2;
  ret_cost->inter_bytes = nodes > 1 ? psi_coll_bytes (leaving * bytes / per_node) : 0;
  ret_cost->inter_bytes_per_s = net_rate (c, protocol, leaving);

  double depth = floor (log2 (nodes));
  double latency = psi_nccl_base_us (c, PSI_NCCL_TREE, protocol) +
                   2 * ((c->n / nodes - 1) * psi_nccl_intra_us (c, PSI_NCCL_TREE, protocol) +
                        depth * psi_nccl_inter_us (c, PSI_NCCL_TREE, protocol));
  ret_cost->latency_ps = psi_coll_ps (latency);
}

static double
tree_unseen_us (const PsiCollectiveCase *c, PsiProtocol protocol)
{
  double nodes = c->shape.n_nodes, per_node = c->shape.ranks_per_node;
  double share = (double) c->bytes / psi_nccl_channels (c);
  double many = 64 * (1 + floor (log2 (nodes)) + 0.1 * per_node) / per_node * M_SQRT2;
  double chunks =
      MAX (MAX (MIN (share / CHUNK_SMALL, many / 4), MIN (share / CHUNK_MIDDLE, many)), share / CHUNK_LARGE);

  if (protocol != PSI_PROTOCOL_LL128 || c->shape.n_nodes < 2)
    return 0;
  return chunks / CHUNKS_UNDER_WAY * 2 * (double) c->machine->inter.latency_ps / 1e6;
}

const PsiCollectiveAlgorithm psi_coll_tree = {
  .name = "tree",
  .summary = "up and down a double binary tree of nodes; few steps, less bandwidth",
  .applies = tree_applies,
  .cost = tree_cost,
  .unseen_us = tree_unseen_us,
};
