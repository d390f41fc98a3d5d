/* SPDX-License-Identifier: MIT */
/* Collectives on a machine: which bytes cross which link, in how many steps, with which latency. One file and one row
 * for each algorithm. */
#pragma once

#include "machine.h"

typedef enum
{
  PSI_COLLECTIVE_ALL_REDUCE,
  PSI_COLLECTIVE_ALL_GATHER,
  PSI_COLLECTIVE_REDUCE_SCATTER,
  PSI_COLLECTIVE_BROADCAST,
  PSI_COLLECTIVE_ALL_TO_ALL,
  PSI_COLLECTIVE_GATHER,  /* everybody sends its buffer to a root, which adds them up */
  PSI_COLLECTIVE_SCATTER, /* a root sends the same buffer to everybody, one by one */
  PSI_COLLECTIVE_SEND_RECV,
  PSI_N_COLLECTIVES
} PsiCollectiveOp;

/* How the members of a group lie on the machine. */
typedef struct
{
  guint n_ranks;
  guint n_nodes;        /* 1 = all inside one node */
  guint ranks_per_node; /* the most members in one node */
  guint nic_sharers;    /* GPUs of a node that send over its adapters at the same time, all groups together;
                         * 0 = ranks_per_node */
  double wire_share;    /* of a member's wires inside the node that lead to the others; 0 = as the mesh gives */
} PsiGroupShape;

/* What one collective does. Bytes are per member and direction; S is the size in nccl-tests' sense: the buffer of an
 * all-reduce, broadcast, send, gather (of each member) or scatter, the gathered result of an all-gather, the whole
 * input of one member of a reduce-scatter or all-to-all (of which it keeps 1/n).
 *
 *                   payload_bytes   steps of the ring or direct
 *   all-reduce      2 (n-1) S       2 (n-1)
 *   all-gather, reduce-scatter, broadcast
 *                   (n-1) S         n-1
 *   all-to-all      (n-1) S         1, all messages at once
 *   gather, scatter (n-1) S         1, but the root's link carries all of it
 *   send-recv       S               1
 *
 * Trees: 2 (members of a node - 1 + log2 of the nodes) steps; in-switch: 2 steps, and 2 log2 of the nodes more. Their
 * payload is that of the ring. Halving and doubling: log2 n steps, an all-reduce twice that. */
typedef struct
{
  const char *algorithm, *protocol;            /* "ring", "simple" */
  guint steps;                                 /* messages that must pass one after another */
  gint64 payload_bytes;                        /* sent by all members together */
  gint64 intra_bytes;                          /* through one member's link inside the node, the busier direction */
  gint64 inter_bytes;                          /* through one member's share of the network, the busier direction */
  double intra_bytes_per_s, inter_bytes_per_s; /* what one member gets of each on an idle machine; INFINITY: no time */
  gint64 latency_ps;                           /* all steps together */
} PsiCollectiveCost;

/* Cost of op over a group of that shape on an idle machine. A group of one, or 0 bytes, costs nothing. On an ideal
 * machine bytes and steps of the ring (of direct messages, where there is no ring) are counted but take no time. */
void psi_collective_cost (const PsiMachine *machine, PsiCollectiveOp op, gint64 bytes, const PsiGroupShape *shape,
                          PsiCollectiveCost *ret_cost);

/* The same with the algorithm of that name. FALSE, and nothing is set, if there is none or it cannot do this. */
gboolean psi_collective_cost_by (const PsiMachine *machine, const char *algorithm, PsiCollectiveOp op, gint64 bytes,
                                 const PsiGroupShape *shape, PsiCollectiveCost *ret_cost);

/* Closed-form time on an idle machine: latency + the slower of the two link times, rounded once. */
gint64 psi_collective_time_ps (const PsiCollectiveCost *cost);

/* busbw / algbw of nccl-tests: 2(n-1)/n, (n-1)/n or 1. */
double psi_collective_bus_factor (PsiCollectiveOp op, guint n_ranks);
extern const char *const psi_collective_names[PSI_N_COLLECTIVES];
extern const char *const psi_collective_summaries[PSI_N_COLLECTIVES]; /* one line each */

/* The algorithms, NULL-ended. */
typedef struct _PsiCollectiveAlgorithm PsiCollectiveAlgorithm;
extern const PsiCollectiveAlgorithm *const psi_collective_algorithms[];
const char *psi_collective_algorithm_name (const PsiCollectiveAlgorithm *algorithm);
const char *psi_collective_algorithm_summary (const PsiCollectiveAlgorithm *algorithm); /* one line */
