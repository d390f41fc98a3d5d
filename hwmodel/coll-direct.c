/* SPDX-License-Identifier: MIT */
/* Straight from sender to receiver, all messages at once: send, gather and scatter at a root, all-to-all.
 *
 *   bytes     busiest link: send S; gather and scatter (n-1) S at the root; all-to-all (n-1)/n S, of which
 *             (n - ranks per node)/n S leave the node
 *   rate      LL half the wire, at most LL max; Simple the wire, and one member's share of the network
 *   latency   base + one hop of the farthest wire
 *
 * Source: NCCL 2.28.9: point-to-point kernels take the ring's hop times (base and hop of tuning.cc). Assumes receivers
 * are ready. Limits: no congestion between flows of one collective except at the root and at the adapters. */

#include "coll-model.h"

#define LL_SHARE 0.5

static gboolean
direct_applies (const PsiCollectiveCase *c, PsiProtocol protocol)
{
  if (c->op < PSI_COLLECTIVE_ALL_TO_ALL)
    return FALSE;
  return protocol == PSI_PROTOCOL_SIMPLE ||
         (protocol == PSI_PROTOCOL_LL && c->machine->gpu.architecture != PSI_ARCHITECTURE_CPU);
}

static double
direct_rate (const PsiCollectiveCase *c, PsiProtocol protocol, double wire)
{
  return protocol == PSI_PROTOCOL_LL ? MIN (wire * LL_SHARE, psi_nccl_ll_max (c)) : wire;
}

static void
direct_cost (const PsiCollectiveCase *c, PsiProtocol protocol, PsiCollectiveCost *ret_cost)
{
  double n = c->n, inside = c->shape.ranks_per_node - 1.0, outside = n - c->shape.ranks_per_node;
  double bytes = (double) c->bytes;
  gboolean far = c->shape.n_nodes > 1;
  double intra, inter;
  switch (c->op)
    {
    case PSI_COLLECTIVE_SEND_RECV:
      intra = far ? 0 : bytes;
      inter = far ? bytes : 0;
      break;
    case PSI_COLLECTIVE_ALL_TO_ALL:
      intra = inside / n * bytes;
      inter = outside / n * bytes;
      break;
    default: /* the root's link */
      intra = inside * bytes;
      inter = outside * bytes;
      break;
    }
  ret_cost->intra_bytes = psi_coll_bytes (intra);
  ret_cost->inter_bytes = psi_coll_bytes (inter);
  ret_cost->intra_bytes_per_s = direct_rate (c, protocol, c->wire_bytes_per_s);
  ret_cost->inter_bytes_per_s = direct_rate (c, protocol, c->member_net_bytes_per_s);
  ret_cost->latency_ps = psi_coll_ps (
      psi_nccl_base_us (c, PSI_NCCL_RING, protocol) +
      (far ? psi_nccl_inter_us (c, PSI_NCCL_RING, protocol) : psi_nccl_intra_us (c, PSI_NCCL_RING, protocol)));
}

const PsiCollectiveAlgorithm psi_coll_direct = { "direct", "straight from sender to receiver, all at once",
                                                 direct_applies, direct_cost };
