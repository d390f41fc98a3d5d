/* SPDX-License-Identifier: MIT */
/* Who meets whom: the shape of groups, and the ends of messages.
 *
 * A collective loads each member's links with what its algorithm sends over them; equal members are one member. What
 * one worker alone exchanges with the root of a parameter server loads the links of both. */
#include "step-call.h"

guint
psi_step_group_size (const PsiStep *step, PsiDimension dimension)
{
  const PsiPlan *plan = step->plan;
  guint data = (plan->keeps_all ? 1 : plan->dp) * plan->cp; /* `single`: the workers are one GPU */
  const guint sizes[PSI_N_DIMENSIONS] = { data,
                                          plan->tp,
                                          plan->cp,
                                          plan->ep,
                                          MAX (data * plan->tp / (plan->ep * plan->expert_tp), 1),
                                          plan->expert_tp,
                                          plan->shard_group,
                                          step->gpus };

  return sizes[dimension];
}

/* Adapters that several GPUs share are links of their own: there the sharing happens. */
static guint
nic_sharers (const PsiStep *step)
{
  return psi_topology_has (&step->topology, PSI_LEVEL_ADAPTER)
             ? 0
             : MIN (step->machine->gpus_per_node, MAX (step->gpus, 1));
}

/* Members that sit in one node, for `n` members `stride` GPUs apart. */
static PsiGroupShape
group_shape (const PsiStep *step, guint n, guint stride)
{
  guint node = step->machine->gpus_per_node;
  guint inside = stride >= node ? 1 : MIN (n, MAX (node / stride, 1));
  PsiGroupShape shape = {
    .n_ranks = n, .ranks_per_node = inside, .n_nodes = (n + inside - 1) / inside, .nic_sharers = nic_sharers (step)
  };

  return shape;
}

guint
psi_step_expert_stride (const PsiStep *step, PsiDimension dimension)
{
  return dimension == PSI_DIMENSION_EXPERT_TP ? 1
         : dimension == PSI_DIMENSION_EP      ? step->plan->expert_tp
                                              : step->plan->expert_tp * step->plan->ep;
}

/* Members of a group that lies across tensor-parallel ranks, `stride` apart in the count of plan-experts.c. */
static PsiGroupShape
folded_shape (const PsiStep *step, guint n, guint stride)
{
  const PsiPlan *plan = step->plan;
  guint node = step->machine->gpus_per_node, inside = 0;

  for (guint i = 0; i < n; i++)
    {
      guint x = i * stride;
      guint gpu = x % plan->tp * step->strides[PSI_STRIDE_TP] + x / plan->tp % plan->cp * step->strides[PSI_STRIDE_CP] +
                  x / plan->tp / plan->cp * step->strides[PSI_STRIDE_DP];

      inside += gpu < node;
    }
  return (PsiGroupShape){
    .n_ranks = n, .ranks_per_node = inside, .n_nodes = (n + inside - 1) / inside, .nic_sharers = nic_sharers (step)
  };
}

static PsiGroupShape
dimension_shape (const PsiStep *step, PsiDimension dimension)
{
  guint n = psi_step_group_size (step, dimension);
  guint data_stride = step->plan->cp > 1 ? MIN (step->strides[PSI_STRIDE_CP], step->strides[PSI_STRIDE_DP])
                                         : step->strides[PSI_STRIDE_DP];
  const guint strides[PSI_N_DIMENSIONS] = { data_stride,
                                            step->strides[PSI_STRIDE_TP],
                                            step->strides[PSI_STRIDE_CP],
                                            data_stride,
                                            data_stride * step->plan->ep,
                                            step->strides[PSI_STRIDE_TP],
                                            data_stride,
                                            1 };

  if (step->plan->expert_tp < step->plan->tp && (dimension == PSI_DIMENSION_EP || dimension == PSI_DIMENSION_EXPERT_DP))
    return folded_shape (step, n, psi_step_expert_stride (step, dimension));
  return group_shape (step, n, strides[dimension]);
}

guint
psi_step_ranks_per_node (const PsiStep *step, PsiDimension dimension)
{
  return dimension_shape (step, dimension).ranks_per_node;
}

/* ---- Where calls lead ---- */

static PsiPortId
port_for (PsiStep *step, const char *key, gboolean channel)
{
  gpointer found = g_hash_table_lookup (step->ports, key);

  if (found == NULL)
    {
      PsiPortId port = channel ? psi_world_add_channel (step->world) : psi_world_add_communicator (step->world);

      found = GUINT_TO_POINTER (port + 1);
      g_hash_table_insert (step->ports, g_strdup (key), found);
    }
  return GPOINTER_TO_UINT (found) - 1;
}

static gboolean
collective_target (PsiStep *step, PsiStepRank *rank, const PsiCallKey *call, PsiCallTarget *ret_target)
{
  PsiDimension dimension = call->index;
  PsiGroupShape shape = dimension_shape (step, dimension);
  PsiCollectiveCost cost;

  if (shape.n_ranks <= 1 || call->bytes <= 0)
    return FALSE;
  psi_collective_cost (step->machine, call->what, call->bytes, &shape, &cost);
  PsiTransferInfo info = psi_step_transfer_info (call->traffic, cost.payload_bytes / shape.n_ranks, cost.steps);
  /* Ranks that are simulated one by one meet in a communicator of their group and stream; a class meets itself. */
  gboolean full = step->n_classes > step->plan->dp;
  gboolean over_tp = dimension == PSI_DIMENSION_TP || dimension == PSI_DIMENSION_EXPERT_TP;
  gboolean over_data = !over_tp && dimension != PSI_DIMENSION_CP;
  guint size = dimension == PSI_DIMENSION_CP || over_tp || dimension == PSI_DIMENSION_ALL ? 1 : shape.n_ranks;
  guint data_index = rank->dp_index * step->plan->cp + rank->cp_index;
  /* Which of the groups of a dimension: by its tp rank, and its place among the data-parallel ranks. */
  guint at_tp = full && dimension != PSI_DIMENSION_TP ? rank->tp_index : 0;
  guint at_data = !over_data ? rank->dp_index : !full ? 0 : data_index / size;

  if (full &&
      (dimension == PSI_DIMENSION_EP || dimension == PSI_DIMENSION_EXPERT_DP || dimension == PSI_DIMENSION_EXPERT_TP))
    {
      guint stride = psi_step_expert_stride (step, dimension), x = data_index * step->plan->tp + rank->tp_index;

      at_tp = x % stride;
      at_data = x / (stride * shape.n_ranks);
    }
  g_autofree char *key =
      dimension == PSI_DIMENSION_ALL
          ? g_strdup_printf ("all/%u", call->stream)
          : g_strdup_printf ("group/%u/%u/%u/%u/%u/%u", dimension, call->stream,
                             over_data && psi_step_lists_are_workers (step) ? 0 : rank->list, at_tp,
                             full && dimension != PSI_DIMENSION_CP && !over_data ? rank->cp_index : 0, at_data);

  PsiRouteKind kind = call->what == PSI_COLLECTIVE_ALL_TO_ALL ? PSI_ROUTE_SPREAD : PSI_ROUTE_RING;
  *ret_target = (PsiCallTarget){ .port = port_for (step, key, FALSE),
                                 .transfer = psi_step_transfer (step, &cost, &info),
                                 .route = { kind, dimension, shape.ranks_per_node, 0, TRUE, TRUE },
                                 .alone_ps = psi_collective_time_ps (&cost) };
  return TRUE;
}

static gboolean
copies_target (PsiStep *step, PsiStepRank *rank, const PsiCallKey *call, PsiCallTarget *ret_target)
{
  const PsiSchedule *schedule = step->schedule;
  PsiGroupShape shape = dimension_shape (step, PSI_DIMENSION_DP);
  guint holders = 0, nearest = G_MAXUINT, class = (guint) (rank - step->ranks) % step->n_classes;
  PsiCollectiveCost cost;

  for (guint r = 0; r < schedule->n_ranks; r++)
    for (guint c = 0; c < schedule->n_chunks; c++)
      if (psi_schedule_part (schedule, r, c) == call->index)
        {
          const PsiStepRank *other = &step->ranks[r * step->n_classes + class];

          holders++;
          if (r != rank->list)
            nearest = MIN (nearest, (guint) ABS ((int) other->first_gpu - (int) rank->first_gpu));
        }
  if (holders > 1)
    shape = group_shape (step, shape.n_ranks * holders,
                         shape.n_ranks > 1 ? MIN (nearest, step->strides[PSI_STRIDE_DP]) : MAX (nearest, 1));
  if (shape.n_ranks <= 1 || call->bytes <= 0)
    return FALSE;
  psi_collective_cost (step->machine, call->what, call->bytes, &shape, &cost);
  PsiTransferInfo info = psi_step_transfer_info (call->traffic, cost.payload_bytes / shape.n_ranks, cost.steps);
  gboolean full = step->n_classes > step->plan->dp;
  g_autofree char *key = g_strdup_printf ("copies/%u/%u", call->index, full ? rank->tp_index : 0);

  *ret_target = (PsiCallTarget){ port_for (step, key, FALSE),
                                 psi_step_transfer (step, &cost, &info),
                                 { PSI_ROUTE_RING, PSI_DIMENSION_DP, psi_step_ranks_per_node (step, PSI_DIMENSION_DP),
                                   0, TRUE, TRUE } };
  return TRUE;
}

/* The root's link decides: it carries everybody's bytes. */
static gboolean
server_target (PsiStep *step, PsiStepRank *rank, const PsiCallKey *call, PsiCallTarget *ret_target)
{
  PsiGroupShape shape = dimension_shape (step, PSI_DIMENSION_DP);
  gboolean outward = call->what != 0;
  PsiCollectiveCost cost;

  if (shape.n_ranks <= 1)
    return FALSE;
  psi_collective_cost (step->machine, outward ? PSI_COLLECTIVE_SCATTER : PSI_COLLECTIVE_GATHER, call->bytes, &shape,
                       &cost);
  gint64 sent = outward == rank->is_root ? (outward ? call->bytes * (shape.n_ranks - 1) : call->bytes) : 0;
  PsiTransferInfo info = psi_step_transfer_info (call->traffic, sent, cost.steps);
  g_autofree char *key = g_strdup_printf ("server/%d", outward);

  *ret_target = (PsiCallTarget){ port_for (step, key, FALSE),
                                 psi_step_transfer (step, &cost, &info),
                                 { PSI_ROUTE_SPREAD, PSI_DIMENSION_DP, shape.ranks_per_node, 0,
                                   rank->is_root && outward, rank->is_root && !outward } };
  return TRUE;
}

/* Are two ranks, or any two of the equal ranks they stand for, on different nodes? */
static gboolean
crosses_node (const PsiStep *step, const PsiStepRank *from, const PsiStepRank *to)
{
  guint node = step->machine->gpus_per_node;

  if (from->count == 1 && to->count == 1)
    return from->first_gpu / node != to->first_gpu / node;
  guint low = MIN (from->first_gpu, to->first_gpu), distance = MAX (from->first_gpu, to->first_gpu) - low;
  if (distance == 0)
    return FALSE;
  if (distance >= node)
    return TRUE;
  /* Replicas of the pair sit at other offsets: one that crosses decides for all. */
  for (guint d = 0; d < step->plan->dp && from->count > 1; d++)
    {
      guint gpu = low + d * step->strides[PSI_STRIDE_DP];

      if (gpu / node != (gpu + distance) / node)
        return TRUE;
    }
  return low / node != (low + distance) / node;
}

/* Between a worker and the root. Only the worker waits for it: the port is its own, the links are both ends'. */
static gboolean
worker_target (PsiStep *step, PsiStepRank *rank, const PsiCallKey *call, PsiCallTarget *ret_target)
{
  const PsiStepRank *root = &step->ranks[rank->list * step->n_classes];
  gboolean outward = call->what != 0, crosses = crosses_node (step, root, rank);
  PsiGroupShape shape = {
    .n_ranks = 2, .n_nodes = crosses ? 2 : 1, .ranks_per_node = crosses ? 1 : 2, .nic_sharers = nic_sharers (step)
  };
  gint64 shift = (gint64) root->first_gpu - (gint64) rank->first_gpu;
  PsiCollectiveCost cost;

  if (rank->is_root || call->bytes <= 0)
    return FALSE;
  if (!crosses && step->topology.mesh_links > 0)
    shape.wire_share = psi_step_narrowest_wires (step, root, rank);
  psi_collective_cost (step->machine, PSI_COLLECTIVE_SEND_RECV, call->bytes, &shape, &cost);
  PsiTransferInfo info = psi_step_transfer_info (call->traffic, call->bytes, 1);
  g_autofree char *key = g_strdup_printf ("worker/%u/%d", rank->id, outward);

  info.by_server = outward;
  *ret_target =
      (PsiCallTarget){ .port = port_for (step, key, FALSE),
                       .transfer = psi_step_transfer (step, &cost, &info),
                       .route = { PSI_ROUTE_MESSAGE, PSI_DIMENSION_ALL, 1, shift, !outward, outward },
                       .server = root,
                       .server_route = { PSI_ROUTE_MESSAGE, PSI_DIMENSION_ALL, 1, -shift, outward, !outward } };
  return TRUE;
}

/* The root's desk. */
static gboolean
serve_target (PsiStep *step, PsiStepRank *rank, const PsiCallKey *call, PsiCallTarget *ret_target)
{
  const PsiStepRank *root = &step->ranks[rank->list * step->n_classes];
  gpointer found = g_hash_table_lookup (step->ports, "desk");

  if (found == NULL)
    {
      found = GUINT_TO_POINTER (psi_world_add_desk (step->world, root->id) + 1);
      g_hash_table_insert (step->ports, g_strdup ("desk"), found);
    }
  *ret_target = (PsiCallTarget){ .port = GPOINTER_TO_UINT (found) - 1, .transfer = 0 };
  return TRUE;
}

static gboolean
message_target (PsiStep *step, PsiStepRank *rank, const PsiCallKey *call, PsiCallTarget *ret_target)
{
  gboolean sending = call->kind == PSI_CALL_SEND;
  PsiStepRank *other = &step->ranks[call->other * step->n_classes + rank->id % step->n_classes];
  PsiStepRank *from = sending ? rank : other, *to = sending ? other : rank;
  gboolean crosses = crosses_node (step, from, to);
  PsiGroupShape shape = {
    .n_ranks = 2, .n_nodes = crosses ? 2 : 1, .ranks_per_node = crosses ? 1 : 2, .nic_sharers = nic_sharers (step)
  };
  PsiCollectiveCost cost = { .steps = 0 };
  PsiTransferInfo info = psi_step_transfer_info (call->traffic, sending ? call->bytes : 0, 1);
  g_autofree char *key = g_strdup_printf ("pair/%u/%u/%u/%u", from->id, to->id, call->what, call->index);

  if (!crosses && step->topology.mesh_links > 0)
    shape.wire_share = psi_step_narrowest_wires (step, from, to);
  if (call->bytes > 0)
    psi_collective_cost (step->machine, PSI_COLLECTIVE_SEND_RECV, call->bytes, &shape, &cost);
  *ret_target = (PsiCallTarget){ port_for (step, key, TRUE),
                                 psi_step_transfer (step, &cost, &info),
                                 { PSI_ROUTE_MESSAGE, PSI_DIMENSION_ALL, 1,
                                   (gint64) other->first_gpu - (gint64) rank->first_gpu, sending, !sending } };
  return TRUE;
}

const PsiCallRow psi_call_rows[] = { [PSI_CALL_COLLECTIVE] = { collective_target, PSI_OP_COLLECTIVE },
                                     [PSI_CALL_COPIES] = { copies_target, PSI_OP_COLLECTIVE },
                                     [PSI_CALL_SERVER] = { server_target, PSI_OP_COLLECTIVE },
                                     [PSI_CALL_WORKER] = { worker_target, PSI_OP_COLLECTIVE },
                                     [PSI_CALL_SERVE] = { serve_target, PSI_OP_SERVE },
                                     [PSI_CALL_SEND] = { message_target, PSI_OP_SEND },
                                     [PSI_CALL_RECEIVE] = { message_target, PSI_OP_RECV } };
