/* SPDX-License-Identifier: MIT */
/* Source of the wires of a DGX-1 with V100: NVIDIA DGX-1 system architecture white paper (WP-08437), figure 4, as
 * `nvidia-smi topo -m` prints it. NCCL goes over a neighbour where there is no wire (its NVB paths). */
#include "topology.h"

#include <math.h>

#define DGX1_GPUS 8
#define DGX1_WIRES 6

static const guint8 dgx1[DGX1_GPUS][DGX1_GPUS] = {
  { 0, 1, 1, 2, 2, 0, 0, 0 }, { 1, 0, 2, 1, 0, 2, 0, 0 }, { 1, 2, 0, 2, 0, 0, 1, 0 }, { 2, 1, 2, 0, 0, 0, 0, 1 },
  { 2, 0, 0, 0, 0, 1, 1, 2 }, { 0, 2, 0, 0, 1, 0, 2, 1 }, { 0, 0, 1, 0, 1, 2, 0, 2 }, { 0, 0, 0, 1, 2, 1, 2, 0 },
};

void
psi_topology_init (PsiTopology *topology, const PsiMachine *machine)
{
  const PsiLink *intra = &machine->intra, *net = &machine->inter;
  guint gpus = MAX (machine->gpus_per_node, 1), nics = net->nics_per_node > 0 ? net->nics_per_node : gpus;
  double adapter = net->bytes_per_s * net->efficiency;

  *topology = (PsiTopology){ .gpus_per_node = gpus, .nics_per_node = nics, .mesh_links = intra->mesh_links };
  if (machine->ideal)
    return;
  topology->rails = net->rails;
  topology->switch_gpus = intra->switch_gpus;
  topology->leaf_nodes = net->leaf_nodes;
  topology->pod_nodes = net->pod_nodes;
  if (intra->switch_gpus > 0 && intra->switch_gpus < gpus)
    topology->bytes_per_s[PSI_LEVEL_SWITCH] =
        (intra->uplink_bytes_per_s > 0 ? intra->uplink_bytes_per_s : intra->bytes_per_s) * intra->efficiency;
  if (nics < gpus)
    topology->bytes_per_s[PSI_LEVEL_ADAPTER] = adapter;
  if (net->leaf_nodes > 0)
    topology->bytes_per_s[PSI_LEVEL_LEAF] =
        adapter * net->leaf_nodes * (net->rails ? 1 : nics) / MAX (net->oversubscription, 1);
  if (net->leaf_nodes > 0 && net->pod_nodes > 0)
    topology->bytes_per_s[PSI_LEVEL_POD] =
        adapter * net->pod_nodes * nics / MAX (net->oversubscription, 1) / MAX (net->pod_oversubscription, 1);
}

guint
psi_topology_domain (const PsiTopology *topology, PsiTopologyLevel level, guint gpu)
{
  guint node = gpu / topology->gpus_per_node, place = gpu % topology->gpus_per_node;
  guint nic = (guint) ((guint64) place * topology->nics_per_node / topology->gpus_per_node);

  switch (level)
    {
    case PSI_LEVEL_SWITCH:
      return node * ((topology->gpus_per_node - 1) / MAX (topology->switch_gpus, 1) + 1) +
             place / MAX (topology->switch_gpus, 1);
    case PSI_LEVEL_ADAPTER:
      return node * topology->nics_per_node + nic;
    case PSI_LEVEL_LEAF:
      return topology->rails ? node / MAX (topology->leaf_nodes, 1) * topology->nics_per_node + nic
                             : node / MAX (topology->leaf_nodes, 1);
    default:
      return node / MAX (topology->pod_nodes, 1);
    }
}

gboolean
psi_topology_crosses (const PsiTopology *topology, PsiTopologyLevel level, guint from, guint to)
{
  gboolean same_node = from / topology->gpus_per_node == to / topology->gpus_per_node;

  if (!psi_topology_has (topology, level) || same_node != (level == PSI_LEVEL_SWITCH))
    return FALSE;
  return level == PSI_LEVEL_ADAPTER ||
         psi_topology_domain (topology, level, from) != psi_topology_domain (topology, level, to);
}

double
psi_topology_wire_share (const PsiTopology *topology, guint from, guint to)
{
  guint a = from % topology->gpus_per_node, b = to % topology->gpus_per_node, most = 0;

  if (topology->mesh_links == 0 || a == b)
    return 1;
  if (topology->gpus_per_node != DGX1_GPUS || topology->mesh_links != DGX1_WIRES)
    return MAX (1, floor ((double) topology->mesh_links / (topology->gpus_per_node - 1))) / topology->mesh_links;
  most = dgx1[a][b];
  for (guint over = 0; over < DGX1_GPUS && dgx1[a][b] == 0; over++)
    most = MAX (most, MIN (dgx1[a][over], dgx1[over][b]));
  return (double) most / DGX1_WIRES;
}
