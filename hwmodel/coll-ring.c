/* SPDX-License-Identifier: MIT */
/* Ring: every member sends to its neighbour; the ring enters and leaves each node once for each channel.
 *
 *   steps     2(n-1) all-reduce, n-1 all-gather, reduce-scatter and broadcast
 *   bytes     through each link of the ring: S steps / n (a broadcast sends S through each)
 *   rate      LL min (B/2, LL max), LL128 min (0.92 B, channels x max), Simple B;
 *             B of the link, and of the node's network
 *   latency   base + (steps - nodes' steps) hop inside + nodes' steps hop between
 *   unseen    Simple between nodes: steps max (0, trip / 2 - max (S / n over the node's network, hop inside)). A trip
 *             is a hop between, its flush included, and the network's latency back; a channel has two chunks under
 *             way, so a ring advances by one step in half a trip at most. NCCL leaves that out when it chooses, but
 *             for the plateau of all-reduces
 *
 * Source: NCCL 2.28.9 src/graph/tuning.cc; two chunks: ALLGATHER_CHUNKSTEPS = NCCL_STEPS / 2 in device.h. A broadcast
 * flows in chunks; its latency is here that of passing through all members, where NCCL counts one hop on a switch.
 * Check: gathers and scattered sums of 16 to 67 MB over 16 and 32 H100 of AWS, ten in a layer of nanotron's sweep where
 * little else takes time, take 0.74 and 1.45 ms there, 0.84 to 1.03 and 1.54 to 1.79 here.
 * Limits: how many links of a mesh without a switch (V100) a ring finds depends on which GPUs are chosen. */

#include "coll-model.h"

#define LL_SHARE 0.5
#define LL128_SHARE 0.92
#define TWO_SHARE 0.85   /* two members are each other's both neighbours: 195 to 200 of 235 GB/s (vTrain, 2 A100) */
#define PLATEAU_BYTES 64 /* bytes for each channel and member above which Simple over the network waits for credits */
#define PLATEAU_AMPERE 1.4
#define PLATEAU_VOLTA 1.9
#define CHUNKS_UNDER_WAY 2

static gboolean
ring_applies (const PsiCollectiveCase *c, PsiProtocol protocol)
{
  if (c->op > PSI_COLLECTIVE_BROADCAST)
    return FALSE;
  if (c->machine->gpu.architecture == PSI_ARCHITECTURE_CPU)
    return protocol == PSI_PROTOCOL_SIMPLE;
  return protocol != PSI_PROTOCOL_LL128 || psi_nccl_has_ll128 (c);
}

static double
ring_rate (const PsiCollectiveCase *c, PsiProtocol protocol, double wire)
{
  if (c->n == 2 && c->machine->intra.kind == PSI_LINK_NVLINK && c->machine->intra.mesh_links == 0 &&
      c->shape.n_nodes == 1)
    wire *= TWO_SHARE;
  switch (protocol)
    {
    case PSI_PROTOCOL_LL:
      return MIN (wire * LL_SHARE, psi_nccl_ll_max (c));
    case PSI_PROTOCOL_LL128:
      return MIN (wire * LL128_SHARE, psi_nccl_ring_ll128_max (c));
    default:
      return wire;
    }
}

static void
ring_cost (const PsiCollectiveCase *c, PsiProtocol protocol, PsiCollectiveCost *ret_cost)
{
  double n = c->n, nodes = c->shape.n_nodes, laps = c->op == PSI_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  double share = c->op == PSI_COLLECTIVE_BROADCAST ? 1 : laps * (n - 1) / n;
  gint64 bytes = psi_coll_bytes (share * (double) c->bytes);

  gboolean inside = c->shape.ranks_per_node > 1;
  ret_cost->intra_bytes = inside ? bytes : 0;
  ret_cost->intra_bytes_per_s = ring_rate (c, protocol, c->wire_bytes_per_s);
  /* What crosses the border of a node is shared by its members. */
  ret_cost->inter_bytes = nodes > 1 ? psi_coll_bytes ((double) bytes / c->shape.ranks_per_node) : 0;
  ret_cost->inter_bytes_per_s = ring_rate (c, protocol, c->node_bytes_per_s) / c->shape.ranks_per_node;

  double inter_steps = laps * (nodes - 1), intra_steps = laps * (n - 1) - inter_steps;
  double latency = psi_nccl_base_us (c, PSI_NCCL_RING, protocol) +
                   intra_steps * psi_nccl_intra_us (c, PSI_NCCL_RING, protocol) +
                   inter_steps * psi_nccl_inter_us (c, PSI_NCCL_RING, protocol);
  if (protocol == PSI_PROTOCOL_SIMPLE && nodes > 1 && c->op == PSI_COLLECTIVE_ALL_REDUCE &&
      (double) c->bytes / (psi_nccl_channels (c) * n) >= PLATEAU_BYTES)
    latency *= c->machine->gpu.architecture <= PSI_ARCHITECTURE_VOLTA ? PLATEAU_VOLTA : PLATEAU_AMPERE;
  ret_cost->latency_ps = psi_coll_ps (latency);
}

static double
ring_unseen_us (const PsiCollectiveCase *c, PsiProtocol protocol)
{
  double laps = c->op == PSI_COLLECTIVE_ALL_REDUCE ? 2 : 1, steps = laps * (c->n - 1);
  double part_us = (double) c->bytes / c->n / c->node_bytes_per_s * 1e6;
  double trip_us = (double) c->machine->inter.latency_ps / 1e6 + psi_nccl_inter_us (c, PSI_NCCL_RING, protocol);

  if (protocol != PSI_PROTOCOL_SIMPLE || c->shape.n_nodes < 2 || c->op >= PSI_COLLECTIVE_BROADCAST ||
      c->machine->gpu.architecture == PSI_ARCHITECTURE_CPU)
    return 0;
  return steps * MAX (0, trip_us / CHUNKS_UNDER_WAY - MAX (part_us, psi_nccl_intra_us (c, PSI_NCCL_RING, protocol)));
}

const PsiCollectiveAlgorithm psi_coll_ring = {
  .name = "ring",
  .summary = "every member sends to its neighbour; full bandwidth, latency grows with the members",
  .applies = ring_applies,
  .cost = ring_cost,
  .unseen_us = ring_unseen_us,
};
