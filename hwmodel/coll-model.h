/* SPDX-License-Identifier: MIT */
/* What the collective algorithms share: NCCL's protocols and constants, the wires of a group. For hwmodel only. */
#pragma once

#include "collective.h"

typedef enum
{
  PSI_PROTOCOL_LL,     /* 4 bytes of data and 4 of flag: low latency, less than half the bandwidth */
  PSI_PROTOCOL_LL128,  /* 120 of 128 bytes are data; NVLink only */
  PSI_PROTOCOL_SIMPLE, /* whole chunks and a barrier for each: full bandwidth, most latency */
  PSI_N_PROTOCOLS
} PsiProtocol;

extern const char *const psi_protocol_names[PSI_N_PROTOCOLS];

/* A question put to an algorithm. */
typedef struct
{
  const PsiMachine *machine;
  PsiCollectiveOp op;
  gint64 bytes;
  PsiGroupShape shape;
  const PsiCollectiveAlgorithm *asked; /* NULL = the fastest */
  guint n;                             /* shape.n_ranks */
  double wire_bytes_per_s;             /* one member's link inside the node, large messages */
  double node_bytes_per_s;       /* what the members in one node together get of the network; INFINITY with one node */
  double member_net_bytes_per_s; /* the same for one member */
} PsiCollectiveCase;

struct _PsiCollectiveAlgorithm
{
  const char *name, *summary;
  gboolean (*applies) (const PsiCollectiveCase *c, PsiProtocol protocol);
  /* Fills all of the cost except name, protocol, steps, payload; rates without the ramp of psi_coll_ramp(). */
  void (*cost) (const PsiCollectiveCase *c, PsiProtocol protocol, PsiCollectiveCost *ret_cost);
  guint (*steps) (const PsiCollectiveCase *c); /* NULL: see count_steps() */
  gboolean is_asked_for;                       /* never chosen, only by name */
  /* What it takes beyond its cost and NCCL does not count when it chooses, in us; NULL: nothing. */
  double (*unseen_us) (const PsiCollectiveCase *c, PsiProtocol protocol);
};

extern const PsiCollectiveAlgorithm psi_coll_ring, psi_coll_tree, psi_coll_nvls, psi_coll_nvls_tree, psi_coll_direct,
    psi_coll_halving, psi_coll_hierarchical;

/* NCCL's constants for one case, in us and bytes/s. */
typedef enum
{
  PSI_NCCL_TREE,
  PSI_NCCL_RING,
  PSI_NCCL_NVLS,
  PSI_NCCL_NVLS_TREE,
  PSI_N_NCCL_ALGORITHMS
} PsiNcclAlgorithm;

double psi_nccl_base_us (const PsiCollectiveCase *c, PsiNcclAlgorithm algorithm, PsiProtocol protocol);
double psi_nccl_intra_us (const PsiCollectiveCase *c, PsiNcclAlgorithm algorithm, PsiProtocol protocol);
double psi_nccl_inter_us (const PsiCollectiveCase *c, PsiNcclAlgorithm algorithm, PsiProtocol protocol);
guint psi_nccl_channels (const PsiCollectiveCase *c);
double psi_nccl_ll_max (const PsiCollectiveCase *c);
double psi_nccl_ring_ll128_max (const PsiCollectiveCase *c);
double psi_nccl_tree_max (const PsiCollectiveCase *c);
double psi_nccl_tree_ll128_max (const PsiCollectiveCase *c);
double psi_nccl_nvls_efficiency (const PsiCollectiveCase *c);
double psi_nccl_tree_correction (PsiProtocol protocol, gint64 bytes);
gboolean psi_nccl_has_ll128 (const PsiCollectiveCase *c);

/* Rates of phases inside and between nodes that do not overlap: each as if it took the time of both. */
void psi_coll_one_after_the_other (const PsiCollectiveCase *c, PsiCollectiveCost *cost);

/* Microseconds to ps, and bytes rounded up. */
gint64 psi_coll_ps (double us);
gint64 psi_coll_bytes (double bytes);
