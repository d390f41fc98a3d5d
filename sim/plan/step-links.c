/* SPDX-License-Identifier: MIT */
/* Links that GPUs share: what a collective or message puts on PCIe uplinks, adapters, leaf and spine links.
 *
 *   ring     a member loads the link above it if the next member of its ring sits elsewhere, and the link down to it if
 *            the one before does; between nodes the ring goes through members at the same place of each node
 *   spread   a member loads both with the share of the others that sit elsewhere
 *   message  the sender's link up, the receiver's link down, if they sit in different domains
 *
 * Trees and in-switch sums are taken as rings: they leave a node, a leaf, a pod as often.
 *
 * A class of equal GPUs loads the links of its first GPU with what all its members below them do. That is exact when
 * every domain with members of the class looks the same, which psi_step_links_alike() checks; else GPUs are simulated
 * one by one. */
#include "step.h"

#include "psi-hash.h"

#include <math.h>

typedef struct
{
  guint tp, cp, dp;
  guint base; /* GPU number without tp, cp and dp */
} Place;

static guint
gpu_of (const PsiStep *step, const Place *place)
{
  return place->base + place->tp * step->strides[0] + place->cp * step->strides[1] + place->dp * step->strides[2];
}

/* The member of a group that stands `steps` further round the ring. */
static guint
ring_neighbour (const PsiStep *step, const Place *place, PsiDimension dimension, int steps)
{
  const PsiPlan *plan = step->plan;
  guint n = psi_step_group_size (step, dimension), data = place->dp * plan->cp + place->cp;
  Place other = *place;

  steps = (steps % (int) n + (int) n) % (int) n;
  switch (dimension)
    {
    case PSI_DIMENSION_TP:
      other.tp = (place->tp + (guint) steps) % n;
      return gpu_of (step, &other);
    case PSI_DIMENSION_CP:
      other.cp = (place->cp + (guint) steps) % n;
      return gpu_of (step, &other);
    case PSI_DIMENSION_ALL:
      return (gpu_of (step, place) + (guint) steps) % n;
    case PSI_DIMENSION_EP:
    case PSI_DIMENSION_EXPERT_DP:
    case PSI_DIMENSION_EXPERT_TP:
      {
        guint stride = psi_step_expert_stride (step, dimension), x = data * plan->tp + place->tp;

        x = x / (stride * n) * (stride * n) + (x / stride + (guint) steps) % n * stride + x % stride;
        other.tp = x % plan->tp;
        data = x / plan->tp;
        break;
      }
    default:
      data = data / n * n + (data % n + (guint) steps) % n;
    }
  other.dp = data / plan->cp;
  other.cp = data % plan->cp;
  return gpu_of (step, &other);
}

/* What one GPU puts on the link above its domain (up) or the link down to it, in shares of what it sends. */
static double
share_of (const PsiStep *step, const PsiRoute *route, PsiTopologyLevel level, const Place *place, gboolean up)
{
  const PsiTopology *topology = &step->topology;
  guint gpu = gpu_of (step, place), n = psi_step_group_size (step, route->dimension), inside = 0, elsewhere = 0;
  guint other;

  switch (route->kind)
    {
    case PSI_ROUTE_MESSAGE:
      other = (guint) ((gint64) gpu + route->shift);
      return up ? psi_topology_crosses (topology, level, gpu, other)
                : psi_topology_crosses (topology, level, other, gpu);
    case PSI_ROUTE_SPREAD:
      for (guint i = 1; i < n; i++)
        {
          other = ring_neighbour (step, place, route->dimension, (int) i);
          if ((other / topology->gpus_per_node == gpu / topology->gpus_per_node) != (level == PSI_LEVEL_SWITCH))
            continue;
          inside++;
          elsewhere += psi_topology_crosses (topology, level, gpu, other);
        }
      return inside > 0 ? (double) elsewhere / inside : 0;
    default:
      other = ring_neighbour (step, place, route->dimension,
                              (up ? 1 : -1) * (level == PSI_LEVEL_SWITCH ? 1 : (int) route->per_node));
      /* A ring over one node that does not close inside it is still a line there. */
      return psi_topology_crosses (topology, level, gpu, other);
    }
}

/* The GPUs a rank stands for: how many steps along tp, cp and dp. */
static void
extent (const PsiStep *step, const PsiStepRank *rank, guint *ret_tp, guint *ret_cp, guint *ret_dp)
{
  const PsiPlan *plan = step->plan;
  guint each = plan->tp * plan->cp;

  *ret_tp = rank->count >= each ? plan->tp : 1;
  *ret_cp = rank->count >= each ? plan->cp : 1;
  *ret_dp = rank->count >= each ? rank->count / each : 1;
}

static PsiLinkId
shared_link (PsiStep *step, PsiTopologyLevel level, guint domain, gboolean up)
{
  guint64 key = ((guint64) level << 1 | (up != FALSE)) << 40 | domain;
  gpointer found = g_hash_table_lookup (step->shared_links, &key);

  if (found == NULL)
    {
      found = GUINT_TO_POINTER (psi_links_add (step->world->links, step->topology.bytes_per_s[level]) + 1);
      g_hash_table_insert (step->shared_links, g_memdup2 (&key, sizeof key), found);
    }
  return GPOINTER_TO_UINT (found) - 1;
}

void
psi_step_add_shared_links (PsiStep *step, const PsiStepRank *rank, PsiPortId port, const PsiRoute *route)
{
  guint n_tp, n_cp, n_dp;

  extent (step, rank, &n_tp, &n_cp, &n_dp);
  for (guint level = 0; level < PSI_N_LEVELS; level++)
    for (guint up = 0; up < 2 && psi_topology_has (&step->topology, level); up++)
      {
        guint domain = psi_topology_domain (&step->topology, level, rank->first_gpu), tier;
        double share = 0;

        if (up ? !route->up : !route->down)
          continue;
        for (guint i = 0; i < n_tp * n_cp * n_dp; i++)
          {
            Place place = { rank->tp_index + i % n_tp, rank->cp_index + i / n_tp % n_cp,
                            rank->dp_index + i / n_tp / n_cp, 0 };

            place.base = rank->first_gpu - rank->tp_index * step->strides[0] - rank->cp_index * step->strides[1] -
                         rank->dp_index * step->strides[2];
            if (psi_topology_domain (&step->topology, level, gpu_of (step, &place)) == domain)
              share += share_of (step, route, level, &place, up);
          }
        tier = level == PSI_LEVEL_SWITCH ? (up ? PSI_TIER_INTRA_OUT : PSI_TIER_INTRA_IN)
                                         : (up ? PSI_TIER_INTER_OUT : PSI_TIER_INTER_IN);
        if (share > 0)
          psi_world_add_shared_path (step->world, port, shared_link (step, level, domain, up), tier, share);
      }
}

/* What a GPU adds to the looks of its domain: its pipeline rank, and which of its rings leave. */
static guint64
look_of (const PsiStep *step, PsiTopologyLevel level, const Place *place, guint stage)
{
  static const PsiDimension dimensions[] = { PSI_DIMENSION_TP,       PSI_DIMENSION_CP,    PSI_DIMENSION_DP,
                                             PSI_DIMENSION_EP,       PSI_DIMENSION_SHARD, PSI_DIMENSION_EXPERT_DP,
                                             PSI_DIMENSION_EXPERT_TP };
  guint64 hash = psi_hash_add (level, stage);
  guint n = step->topology.gpus_per_node;
  int shift = (int) step->strides[3];

  for (guint d = 0; d < G_N_ELEMENTS (dimensions); d++)
    {
      const PsiRoute ring = { PSI_ROUTE_RING, dimensions[d], psi_step_ranks_per_node (step, dimensions[d]), 0,
                              TRUE,           TRUE };
      const PsiRoute spread = { PSI_ROUTE_SPREAD, dimensions[d], 1, 0, TRUE, TRUE };

      for (guint up = 0; up < 2 && psi_step_group_size (step, dimensions[d]) > 1; up++)
        {
          hash = psi_hash_add (hash, (guint64) share_of (step, &ring, level, place, up));
          if (dimensions[d] == PSI_DIMENSION_EP)
            hash = psi_hash_add (hash, (guint64) (n * share_of (step, &spread, level, place, up)));
        }
    }
  for (int side = -1; side <= 1; side += 2)
    {
      gint64 other = (gint64) gpu_of (step, place) + side * shift;

      if (step->plan->pp > 1 && (int) stage + side >= 0 && (int) stage + side < (int) step->plan->pp)
        hash = psi_hash_add (hash, psi_topology_crosses (&step->topology, level, gpu_of (step, place), (guint) other));
    }
  return hash;
}

gboolean
psi_step_links_alike (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;
  const guint *strides = step->strides;
  guint n = plan->tp * plan->cp * plan->dp * plan->pp;
  gboolean alike = TRUE;

  for (guint level = 0; level < PSI_N_LEVELS && alike; level++)
    {
      if (!psi_topology_has (&step->topology, level))
        continue;
      guint n_domains = psi_topology_domain (&step->topology, level, n - 1) + step->topology.nics_per_node + 1;
      g_autofree guint64 *looks = g_new0 (guint64, n_domains);

      for (guint gpu = 0; gpu < n; gpu++)
        {
          guint stage = gpu / strides[3] % plan->pp;
          Place place = { gpu / strides[0] % plan->tp, gpu / strides[1] % plan->cp, gpu / strides[2] % plan->dp,
                          stage * strides[3] };

          looks[psi_topology_domain (&step->topology, level, gpu)] += look_of (step, level, &place, stage);
        }
      for (guint gpu = 0; gpu < n && alike; gpu++)
        {
          guint first = gpu / strides[3] % plan->pp * strides[3];

          alike = looks[psi_topology_domain (&step->topology, level, gpu)] ==
                  looks[psi_topology_domain (&step->topology, level, first)];
        }
    }
  return alike;
}

double
psi_step_narrowest_wires (const PsiStep *step, const PsiStepRank *from, const PsiStepRank *to)
{
  const PsiPlan *plan = step->plan;
  guint replicas = from->count > 1 ? MIN (plan->dp * plan->tp * plan->cp, step->machine->gpus_per_node) : 1;
  double share = 1;

  for (guint i = 0; i < replicas; i++)
    {
      guint at = i % plan->tp * step->strides[PSI_STRIDE_TP] + i / plan->tp % plan->cp * step->strides[PSI_STRIDE_CP] +
                 i / plan->tp / plan->cp * step->strides[PSI_STRIDE_DP];

      share = MIN (share, psi_topology_wire_share (&step->topology, from->first_gpu + at, to->first_gpu + at));
    }
  return share;
}
