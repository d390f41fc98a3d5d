/* SPDX-License-Identifier: MIT */
/* Collectives: choose the algorithm and protocol as NCCL does, then say what they cost.
 *
 *   choice   the least of latency + slower of the two link times, rates without ramp (NCCL's own estimate)
 *   cost     the same plus the start of a kernel and what the algorithm says NCCL leaves out; a Simple message of wire
 *            time x takes x + 2 sqrt (ramp x)
 *
 * The ramp is the slow approach of large messages to the full rate, which NCCL's constants leave out: chunks of a
 * pipeline are chosen between fill and overhead, and the best choice costs the square root of both. One constant for
 * each link, from the tables of nccl-tests (see the machine files).
 *
 * A machine with a profile takes the measured time of that operation over that group: cost' = cost x measured / cost of
 * the group alone, in a latency and rates that stay below what the links carry, so that the run gives the measured time
 * on an idle machine and still shares the links.
 *
 * Limits: one collective on an idle machine; all members start together. */

#include "collective.h"

#include "coll-model.h"
#include "profile.h"
#include "psi-time.h"

#include <math.h>

const char *const psi_collective_names[PSI_N_COLLECTIVES] = {
  [PSI_COLLECTIVE_ALL_REDUCE] = "all-reduce",
  [PSI_COLLECTIVE_ALL_GATHER] = "all-gather",
  [PSI_COLLECTIVE_REDUCE_SCATTER] = "reduce-scatter",
  [PSI_COLLECTIVE_BROADCAST] = "broadcast",
  [PSI_COLLECTIVE_ALL_TO_ALL] = "all-to-all",
  [PSI_COLLECTIVE_GATHER] = "gather",
  [PSI_COLLECTIVE_SCATTER] = "scatter",
  [PSI_COLLECTIVE_SEND_RECV] = "send-recv",
};
const char *const psi_collective_summaries[PSI_N_COLLECTIVES] = {
  [PSI_COLLECTIVE_ALL_REDUCE] = "every GPU gets the sum of all buffers",
  [PSI_COLLECTIVE_ALL_GATHER] = "every GPU gets the shards of all",
  [PSI_COLLECTIVE_REDUCE_SCATTER] = "every GPU gets its shard of the sum",
  [PSI_COLLECTIVE_BROADCAST] = "every GPU gets the buffer of the first",
  [PSI_COLLECTIVE_ALL_TO_ALL] = "every GPU gets a part of its own from all",
  [PSI_COLLECTIVE_GATHER] = "the first GPU gets the buffers of all",
  [PSI_COLLECTIVE_SCATTER] = "every GPU gets a part of its own from the first",
  [PSI_COLLECTIVE_SEND_RECV] = "one GPU gets the buffer of another",
};

const PsiCollectiveAlgorithm *const psi_collective_algorithms[] = { &psi_coll_ring,         &psi_coll_tree,
                                                                    &psi_coll_nvls,         &psi_coll_nvls_tree,
                                                                    &psi_coll_direct,       &psi_coll_halving,
                                                                    &psi_coll_hierarchical, NULL };

const char *
psi_collective_algorithm_name (const PsiCollectiveAlgorithm *algorithm)
{
  return algorithm->name;
}

const char *
psi_collective_algorithm_summary (const PsiCollectiveAlgorithm *algorithm)
{
  return algorithm->summary;
}

gint64
psi_coll_ps (double us)
{
  return psi_time_from_s (us * 1e-6);
}

gint64
psi_coll_bytes (double bytes)
{
  return (gint64) ceil (bytes - 1e-6);
}

double
psi_collective_bus_factor (PsiCollectiveOp op, guint n_ranks)
{
  double n = MAX (1, n_ranks);
  switch (op)
    {
    case PSI_COLLECTIVE_ALL_REDUCE:
      return 2 * (n - 1) / n;
    case PSI_COLLECTIVE_ALL_GATHER:
    case PSI_COLLECTIVE_REDUCE_SCATTER:
    case PSI_COLLECTIVE_ALL_TO_ALL:
      return (n - 1) / n;
    default:
      return 1;
    }
}

/* Messages one after another. */
static guint
count_steps (PsiCollectiveOp op, const char *algorithm, const PsiGroupShape *shape)
{
  guint n = shape->n_ranks;
  if (g_str_equal (algorithm, psi_coll_direct.name))
    return 1;
  if (g_str_equal (algorithm, psi_coll_nvls.name))
    return 2; /* to the switch and back */
  if (g_str_equal (algorithm, psi_coll_ring.name))
    return op == PSI_COLLECTIVE_ALL_REDUCE ? 2 * (n - 1) : n - 1;
  guint depth = g_bit_storage (shape->n_nodes) - 1;
  guint inside = g_str_equal (algorithm, psi_coll_tree.name) ? shape->ranks_per_node - 1 : 1;
  return 2 * (inside + depth);
}

static gint64
count_payload (PsiCollectiveOp op, guint n, gint64 bytes)
{
  switch (op)
    {
    case PSI_COLLECTIVE_ALL_REDUCE:
      return 2 * (gint64) (n - 1) * bytes;
    case PSI_COLLECTIVE_SEND_RECV:
      return bytes;
    default:
      return (gint64) (n - 1) * bytes;
    }
}

/* Without a switch a GPU has one of its links to most other members, and rings over a part of the node find at most
 * MESH_PART of them (vTrain's tables of 2, 3, 5, 6 and 8 V100: 22, 45, 37, 49 and 134 GB/s). */
#define MESH_PART (1 / 3.0)
static double
mesh_share (const PsiCollectiveCase *c)
{
  guint links = c->machine->intra.mesh_links, members = c->shape.ranks_per_node;
  if (c->shape.wire_share > 0)
    return c->shape.wire_share;
  if (links == 0 || members >= c->machine->gpus_per_node)
    return 1;
  return MIN (MESH_PART, MAX (1, members - 1.0) / links);
}

static void
fill_wires (PsiCollectiveCase *c)
{
  const PsiMachine *machine = c->machine;
  const PsiLink *net = &machine->inter;
  c->wire_bytes_per_s = machine->intra.bytes_per_s * machine->intra.efficiency * mesh_share (c);
  c->node_bytes_per_s = c->member_net_bytes_per_s = INFINITY;
  if (c->shape.n_nodes <= 1)
    return;
  /* Links above a leaf switch are shared links of the topology. */
  double adapter = net->bytes_per_s * net->efficiency / (net->leaf_nodes > 0 ? 1 : net->oversubscription);
  double gpus = MAX (1, machine->gpus_per_node), nics = net->nics_per_node ? net->nics_per_node : gpus;
  double sharers = c->shape.nic_sharers ? c->shape.nic_sharers : c->shape.ranks_per_node;
  /* A GPU sends over the adapters next to it, not over all of its node. */
  c->member_net_bytes_per_s = MIN (nics * adapter / sharers, adapter * MAX (1, nics / gpus));
  c->node_bytes_per_s = c->member_net_bytes_per_s * c->shape.ranks_per_node;
}

/* The rate at which bytes pass when the full rate is reached only slowly. */
static double
ramped (double bytes, double bytes_per_s, gint64 ramp_ps)
{
  if (!(bytes > 0) || isinf (bytes_per_s) || ramp_ps <= 0)
    return bytes_per_s;
  double wire_s = bytes / bytes_per_s;
  return bytes / (wire_s + 2 * sqrt (psi_time_to_s (ramp_ps) * wire_s));
}

static double
estimate_s (const PsiCollectiveCost *cost)
{
  double intra = cost->intra_bytes ? (double) cost->intra_bytes / cost->intra_bytes_per_s : 0;
  double inter = cost->inter_bytes ? (double) cost->inter_bytes / cost->inter_bytes_per_s : 0;
  return psi_time_to_s (cost->latency_ps) + MAX (intra, inter);
}

gint64
psi_collective_time_ps (const PsiCollectiveCost *cost)
{
  return psi_time_from_s (estimate_s (cost));
}

static void
choose (const PsiCollectiveCase *c, PsiCollectiveCost *best)
{
  double best_s = INFINITY;
  PsiProtocol best_protocol = PSI_PROTOCOL_SIMPLE;
  const PsiCollectiveAlgorithm *chosen = NULL;
  for (const PsiCollectiveAlgorithm *const *row = psi_collective_algorithms; *row; row++)
    for (guint protocol = 0; protocol < PSI_N_PROTOCOLS; protocol++)
      {
        PsiCollectiveCost cost = { .algorithm = (*row)->name, .protocol = psi_protocol_names[protocol] };
        if (protocol != PSI_PROTOCOL_SIMPLE && c->machine->inter.simple_only)
          continue;
        if ((c->asked ? *row != c->asked : (*row)->is_asked_for) || !(*row)->applies (c, protocol))
          continue;
        (*row)->cost (c, protocol, &cost);
        double time_s = estimate_s (&cost);
        if (time_s >= best_s)
          continue;
        best_s = time_s;
        best_protocol = protocol;
        chosen = *row;
        *best = cost;
      }
  g_assert (best->latency_ps > 0 || best->algorithm);

  if (best_protocol == PSI_PROTOCOL_SIMPLE)
    {
      best->intra_bytes_per_s = ramped ((double) best->intra_bytes, best->intra_bytes_per_s, c->machine->intra.ramp_ps);
      best->inter_bytes_per_s = ramped ((double) best->inter_bytes, best->inter_bytes_per_s, c->machine->inter.ramp_ps);
    }
  if (chosen != NULL && chosen->unseen_us != NULL)
    best->latency_ps += psi_coll_ps (chosen->unseen_us (c, best_protocol));
  best->latency_ps += c->machine->gpu.launch_ps + c->machine->gpu.minimum_kernel_ps;
}

/* What the profile says about the group, in seconds; negative if nothing. A message is as fast between two as in the
 * smallest ring that was measured. */
static double
measured_s (const PsiCollectiveCase *c)
{
  const PsiProfile *profile = c->machine->profile;
  guint n_ranks = c->n;

  if (c->op == PSI_COLLECTIVE_SEND_RECV)
    {
      n_ranks = G_MAXUINT;
      for (guint i = 0; i < profile->curves->len; i++)
        {
          const PsiCurve *curve = profile->curves->pdata[i];
          if (curve->n_nodes == c->shape.n_nodes && g_str_equal (curve->name, "send_recv"))
            n_ranks = MIN (n_ranks, curve->n_ranks);
        }
    }
  return psi_profile_curve_time (profile, psi_collective_names[c->op], n_ranks, c->shape.n_nodes, c->bytes);
}

/* Give the cost the measured time. */
static void
take_measured (const PsiCollectiveCase *c, PsiCollectiveCost *cost)
{
  double time_s = measured_s (c);
  PsiCollectiveCase alone = *c;
  PsiCollectiveCost alone_cost = *cost;

  if (time_s <= 0)
    return;
  alone.shape.nic_sharers = 0;
  if (c->shape.n_nodes > 1 && c->shape.nic_sharers > c->shape.ranks_per_node)
    {
      fill_wires (&alone);
      choose (&alone, &alone_cost);
      time_s *= estimate_s (cost) / estimate_s (&alone_cost);
    }
  double intra_s = (double) cost->intra_bytes / cost->intra_bytes_per_s;
  double inter_s = (double) cost->inter_bytes / cost->inter_bytes_per_s;
  double wire_s = MAX (intra_s, inter_s);
  /* As fast as the links go, and no faster: a group between two measured ones may load them more than either. */
  double least_s = MAX ((double) cost->intra_bytes / (c->machine->intra.bytes_per_s * c->machine->intra.efficiency),
                        (double) cost->inter_bytes / c->member_net_bytes_per_s);
  time_s = MAX (time_s, least_s);
  double slow_s = CLAMP (time_s - psi_time_to_s (cost->latency_ps), least_s, time_s);
  cost->latency_ps = (gint64) floor ((time_s - slow_s) * 1e12);
  slow_s = time_s - psi_time_to_s (cost->latency_ps);
  if (!(wire_s > 0) || !(slow_s > 0))
    return;
  cost->intra_bytes_per_s *= wire_s / slow_s;
  cost->inter_bytes_per_s *= wire_s / slow_s;
}

/* Ring or direct, bytes and steps, no time. */
static void
count_ideal (const PsiCollectiveCase *c, PsiCollectiveCost *ret_cost)
{
  const PsiCollectiveAlgorithm *algorithm = c->op < PSI_COLLECTIVE_ALL_TO_ALL ? &psi_coll_ring : &psi_coll_direct;
  algorithm->cost (c, PSI_PROTOCOL_SIMPLE, ret_cost);
  ret_cost->algorithm = algorithm->name;
  ret_cost->protocol = psi_protocol_names[PSI_PROTOCOL_SIMPLE];
  ret_cost->intra_bytes_per_s = ret_cost->inter_bytes_per_s = INFINITY;
  ret_cost->latency_ps = 0;
}

void
psi_coll_one_after_the_other (const PsiCollectiveCase *c, PsiCollectiveCost *cost)
{
  double intra_s = (double) cost->intra_bytes / c->wire_bytes_per_s;
  double inter_s = (double) cost->inter_bytes / c->member_net_bytes_per_s;
  double share = intra_s + inter_s > 0 ? intra_s / (intra_s + inter_s) : 1;
  cost->intra_bytes_per_s = c->wire_bytes_per_s * (share > 0 ? share : 1);
  cost->inter_bytes_per_s = c->member_net_bytes_per_s * (share < 1 ? 1 - share : 1);
}

static void
make_case (PsiCollectiveCase *c, const PsiMachine *machine, PsiCollectiveOp op, gint64 bytes,
           const PsiGroupShape *shape)
{
  *c = (PsiCollectiveCase){ .machine = machine, .op = op, .bytes = bytes, .shape = *shape, .n = shape->n_ranks };
  c->shape.n_nodes = MAX (1, c->shape.n_nodes);
  c->shape.ranks_per_node = CLAMP (c->shape.ranks_per_node, 1, MAX (1, c->n));
  if (c->shape.n_nodes == 1)
    c->shape.ranks_per_node = MAX (1, c->n);
  fill_wires (c);
}

static const PsiCollectiveAlgorithm *
find_algorithm (const char *name)
{
  for (const PsiCollectiveAlgorithm *const *row = psi_collective_algorithms; *row; row++)
    if (g_str_equal ((*row)->name, name))
      return *row;
  return NULL;
}

static void
count (const PsiCollectiveCase *c, PsiCollectiveCost *cost)
{
  const PsiCollectiveAlgorithm *algorithm = find_algorithm (cost->algorithm);
  cost->steps = algorithm->steps ? algorithm->steps (c) : count_steps (c->op, cost->algorithm, &c->shape);
  cost->payload_bytes = count_payload (c->op, c->n, c->bytes);
}

gboolean
psi_collective_cost_by (const PsiMachine *machine, const char *algorithm, PsiCollectiveOp op, gint64 bytes,
                        const PsiGroupShape *shape, PsiCollectiveCost *ret_cost)
{
  PsiCollectiveCase c;
  PsiCollectiveCost cost = { .algorithm = "none", .protocol = "none" };
  gboolean applies = FALSE;
  make_case (&c, machine, op, bytes, shape);
  c.asked = find_algorithm (algorithm);
  for (guint protocol = 0; c.asked && protocol < PSI_N_PROTOCOLS; protocol++)
    applies = applies || c.asked->applies (&c, protocol);
  if (!applies || c.n <= 1 || bytes <= 0 || machine->ideal)
    return FALSE;
  choose (&c, &cost);
  count (&c, &cost);
  *ret_cost = cost;
  return TRUE;
}

void
psi_collective_cost (const PsiMachine *machine, PsiCollectiveOp op, gint64 bytes, const PsiGroupShape *shape,
                     PsiCollectiveCost *ret_cost)
{
  PsiCollectiveCase c;
  PsiCollectiveCost cost = { .algorithm = "none", .protocol = "none" };
  make_case (&c, machine, op, bytes, shape);
  cost.intra_bytes_per_s = c.wire_bytes_per_s;
  cost.inter_bytes_per_s = c.member_net_bytes_per_s;

  if (c.n > 1 && bytes > 0)
    {
      if (machine->ideal)
        count_ideal (&c, &cost);
      else
        {
          choose (&c, &cost);
          if (machine->profile)
            take_measured (&c, &cost);
        }
      count (&c, &cost);
    }
  *ret_cost = cost;
}
