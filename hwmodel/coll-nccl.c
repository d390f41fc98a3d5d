/* SPDX-License-Identifier: MIT */
/* NCCL's constants, as the library tunes itself with them.
 *
 * Source: NVIDIA/nccl 2.28.9 and (formulas, corrections) 2.30.7, src/graph/tuning.cc: base latency of an algorithm and
 * protocol, latency of one hop by kind of wire (both us), highest bandwidths by generation and number of nodes (GB/s),
 * correction of trees by size. LL over several nodes depends on the host CPU: AMD for Ampere (DGX A100), Intel else.
 *
 * Not NVIDIA's: the in-switch efficiency of Hopper is 0.80, not 0.85 (8 H200 reach 480 GB/s bus bandwidth); channels
 * are typical numbers, not the result of a search; a link's own latency is added to each of its hops (as NCCL adds what
 * the network plugin says: 75 us for EFA of p4d, 20 as measured for p5), and a CPU has only that; the rows of Ada are
 * those of Ampere. Blocks: 24 on an A100
 * (12 rings, each twice) and on an H100 (forums.developer.nvidia.com 337991). */

#include "coll-model.h"

#include <math.h>

const char *const psi_protocol_names[PSI_N_PROTOCOLS] = { "ll", "ll128", "simple" };

enum
{
  WIRE_NVLINK,
  WIRE_PCIE,
  WIRE_NETWORK,
  N_WIRES
};

static const double base_us[PSI_N_NCCL_ALGORITHMS][PSI_N_PROTOCOLS] = {
  [PSI_NCCL_TREE] = { 6.8, 14, 8.4 },
  [PSI_NCCL_RING] = { 6.6, 14, 8.4 },
  [PSI_NCCL_NVLS] = { 0, 0, 0 },
  [PSI_NCCL_NVLS_TREE] = { 0, 0, 0 },
};

static const double hop_us[N_WIRES][PSI_N_NCCL_ALGORITHMS][PSI_N_PROTOCOLS] = {
  [WIRE_NVLINK] = { { 0.6, 1.25, 4 }, { 0.6, 1.9, 3.4 }, { 0, 0, 25 }, { 0, 0, 25 } },
  [WIRE_PCIE] = { { 1, 1.9, 4 }, { 1, 2.5, 5.7 }, { 0, 0, 0 }, { 0, 0, 0 } },
  [WIRE_NETWORK] = { { 5, 8.5, 14 }, { 2.7, 4, 14 }, { 0, 0, 18 }, { 0, 0, 20.9 } },
};

/* With several nodes a ring's hop is never shorter than what the network's proxy thread needs (AMD 2 us, Intel 1 us;
 * Simple three times). */
#define PROXY_US_AMD 2
#define PROXY_US_INTEL 1
#define PROXY_SIMPLE 3

/* One row for each generation; columns: 1, 2, more nodes. */
typedef struct
{
  guint channels; /* of a search over NVLink */
  guint blocks;   /* of threads in a large collective: channels are doubled where one alone cannot fill its links */
  double ll[3], ring_ll128[3], tree_ll128[3], tree[3];
  double nvls_efficiency;
} Generation;

static const Generation generations[PSI_N_ARCHITECTURES] = {
  [PSI_ARCHITECTURE_CPU] = { 1, 0, { 1e9, 1e9, 1e9 }, { 1e9, 1e9, 1e9 }, { 1e9, 1e9, 1e9 }, { 1e9, 1e9, 1e9 }, 0 },
  [PSI_ARCHITECTURE_VOLTA] = { 6, 12, { 39, 39, 20.4 }, { 20, 20, 20 }, { 20, 20, 20 }, { 26.5, 18.5, 10 }, 0 },
  [PSI_ARCHITECTURE_AMPERE] = { 12, 24, { 87.7, 22.5, 19 }, { 20, 20, 20 }, { 20, 20, 20 }, { 24, 23.6, 17.8 }, 0 },
  [PSI_ARCHITECTURE_ADA] = { 12, 24, { 87.7, 22.5, 19 }, { 20, 20, 20 }, { 20, 20, 20 }, { 24, 23.6, 17.8 }, 0 },
  [PSI_ARCHITECTURE_HOPPER] = { 16,
                                24,
                                { 141, 39, 20.4 },
                                { 36.7, 36.7, 36.7 },
                                { 36.7, 36.7, 29 },
                                { 38.7, 41.4, 36 },
                                0.80 },
  [PSI_ARCHITECTURE_BLACKWELL] = { 32,
                                   32,
                                   { 282, 39, 20.4 },
                                   { 73.4, 34.6, 73.4 },
                                   { 55.6, 31.67, 20 },
                                   { 70, 42.8, 24 },
                                   0.74 },
};

#define PCIE_BLOCKS 4 /* two channels, doubled */

/* 64 B to 256 MB by powers of two. */
#define N_CORRECTIONS 23
static const double tree_correction[PSI_N_PROTOCOLS][N_CORRECTIONS] = {
  { 1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1 },
  { 1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1 },
  { .9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9 },
};

static const Generation *
generation (const PsiCollectiveCase *c)
{
  return &generations[c->machine->gpu.architecture];
}

static guint
column (const PsiCollectiveCase *c)
{
  return MIN (c->shape.n_nodes, 3) - 1;
}

static gboolean
is_nccl (const PsiCollectiveCase *c)
{
  return c->machine->gpu.architecture != PSI_ARCHITECTURE_CPU;
}

double
psi_nccl_base_us (const PsiCollectiveCase *c, PsiNcclAlgorithm algorithm, PsiProtocol protocol)
{
  return is_nccl (c) ? base_us[algorithm][protocol] : 0;
}

double
psi_nccl_intra_us (const PsiCollectiveCase *c, PsiNcclAlgorithm algorithm, PsiProtocol protocol)
{
  double own = (double) c->machine->intra.latency_ps / 1e6;
  if (!is_nccl (c))
    return own;
  guint wire = c->machine->intra.kind == PSI_LINK_NVLINK ? WIRE_NVLINK : WIRE_PCIE;
  double hop = hop_us[wire][algorithm][protocol], proxy = 0;
  if (algorithm == PSI_NCCL_RING && c->shape.n_nodes > 1)
    proxy = (c->machine->gpu.architecture == PSI_ARCHITECTURE_AMPERE ? PROXY_US_AMD : PROXY_US_INTEL) *
            (protocol == PSI_PROTOCOL_SIMPLE ? PROXY_SIMPLE : 1);
  return MAX (hop, proxy) + own;
}

double
psi_nccl_inter_us (const PsiCollectiveCase *c, PsiNcclAlgorithm algorithm, PsiProtocol protocol)
{
  double own = (double) c->machine->inter.latency_ps / 1e6;
  if (!is_nccl (c))
    return own;
  /* With one member in each node nothing hides the latency: NCCL takes the tree's. */
  PsiNcclAlgorithm row = c->shape.ranks_per_node == 1 ? PSI_NCCL_TREE : algorithm;
  /* Simple flushes what the adapter wrote before the GPU reads it: once more over the network's latency. */
  return hop_us[WIRE_NETWORK][row][protocol] + (protocol == PSI_PROTOCOL_SIMPLE ? 2 : 1) * own;
}

guint
psi_nccl_channels (const PsiCollectiveCase *c)
{
  return c->machine->intra.kind == PSI_LINK_NVLINK ? generation (c)->channels : 2;
}

double
psi_collective_sm_share (const PsiMachine *machine)
{
  guint blocks = machine->intra.kind == PSI_LINK_NVLINK ? generations[machine->gpu.architecture].blocks : PCIE_BLOCKS;

  if (machine->ideal || machine->gpu.architecture == PSI_ARCHITECTURE_CPU)
    return 0;
  return MIN ((double) blocks / MAX (machine->gpu.sms, 1), 0.5);
}

double
psi_nccl_ll_max (const PsiCollectiveCase *c)
{
  return generation (c)->ll[column (c)] * 1e9;
}

double
psi_nccl_ring_ll128_max (const PsiCollectiveCase *c)
{
  return psi_nccl_channels (c) * generation (c)->ring_ll128[column (c)] * 1e9;
}

double
psi_nccl_tree_max (const PsiCollectiveCase *c)
{
  return psi_nccl_channels (c) * generation (c)->tree[column (c)] * 1e9;
}

double
psi_nccl_tree_ll128_max (const PsiCollectiveCase *c)
{
  return psi_nccl_channels (c) * generation (c)->tree_ll128[column (c)] * 1e9;
}

double
psi_nccl_nvls_efficiency (const PsiCollectiveCase *c)
{
  double channels = psi_nccl_channels (c);
  return generation (c)->nvls_efficiency * (channels - 1) / channels;
}

/* NCCL takes the entry of the next lower power of two; a straight line between entries keeps more bytes from taking
 * less time. */
double
psi_nccl_tree_correction (PsiProtocol protocol, gint64 bytes)
{
  double place = CLAMP (log2 ((double) bytes / 64), 0, N_CORRECTIONS - 1);
  guint low = (guint) place, high = MIN (low + 1, N_CORRECTIONS - 1);
  double share = place - low;
  return tree_correction[protocol][low] * (1 - share) + tree_correction[protocol][high] * share;
}

gboolean
psi_nccl_has_ll128 (const PsiCollectiveCase *c)
{
  return is_nccl (c) && c->machine->intra.kind == PSI_LINK_NVLINK;
}
