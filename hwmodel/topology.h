/* SPDX-License-Identifier: MIT */
/* Which links GPUs share, and which of them lie between two GPUs.
 *
 * GPUs are numbered node by node. Above a GPU's own link stand up to four levels; a domain of a level (a PCIe switch,
 * an adapter, a leaf switch, a pod) has one link up and one down, which all GPUs below it share:
 *
 *   switch   GPUs of a node below one PCIe switch         machine keys switch_gpus, uplink of the link inside the node
 *   adapter  GPUs of a node that send over one adapter    nics of the network link; only if fewer than GPUs
 *   leaf     adapters below one leaf switch               leaf_nodes, oversubscription, rails
 *   pod      leaf switches below one spine                pod_nodes, pod_oversubscription
 *
 * With rails, adapter i of every node goes to leaf switch i of its group of nodes; traffic between rails passes the
 * spine. Limits: one path between two GPUs, no adaptive routing; adapters sit below the PCIe switch of their GPUs. */
#pragma once

#include "machine.h"

typedef enum
{
  PSI_LEVEL_SWITCH,
  PSI_LEVEL_ADAPTER,
  PSI_LEVEL_LEAF,
  PSI_LEVEL_POD,
  PSI_N_LEVELS
} PsiTopologyLevel;

typedef struct
{
  guint gpus_per_node;
  guint nics_per_node;
  guint switch_gpus, leaf_nodes, pod_nodes;
  guint mesh_links;
  gboolean rails;
  double bytes_per_s[PSI_N_LEVELS]; /* one domain's link, one direction; 0 = the machine has no such level */
} PsiTopology;

void psi_topology_init (PsiTopology *topology, const PsiMachine *machine);

static inline gboolean
psi_topology_has (const PsiTopology *topology, PsiTopologyLevel level)
{
  return topology->bytes_per_s[level] > 0;
}

/* The domain of a level in which a GPU sits. */
guint psi_topology_domain (const PsiTopology *topology, PsiTopologyLevel level, guint gpu);

/* Does traffic from one GPU to another pass the level: up from the domain of the first, down into that of the second?
 * Inside a node only the switch level counts, between nodes only the others. */
gboolean psi_topology_crosses (const PsiTopology *topology, PsiTopologyLevel level, guint from, guint to);

/* Share of a GPU's wires inside the node that lead to another one, directly or over the neighbour with the most: 1 with
 * a switch. Eight GPUs of six wires are joined as in a DGX-1 (hybrid cube mesh), any other mesh evenly. */
double psi_topology_wire_share (const PsiTopology *topology, guint from, guint to);
