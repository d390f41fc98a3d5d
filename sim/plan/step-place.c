/* SPDX-License-Identifier: MIT */
/* Who meets whom: the shape of groups, and the ends of messages.
 *
 * A collective loads each member's links with what its algorithm sends over them; equal members are one member. What
 * one worker alone exchanges with the root of a parameter server loads the links of both. */
#include "step.h"

#include <string.h>

static guint
stride_of (const PsiStep *step, guint dimension)
{
  return step->strides[dimension];
}

guint
psi_step_group_size (const PsiStep *step, PsiDimension dimension)
{
  const PsiPlan *plan = step->plan;
  guint data = (plan->keeps_all ? 1 : plan->dp) * plan->cp; /* `single`: the workers are one GPU */
  const guint sizes[PSI_N_DIMENSIONS] = {
    data, plan->tp, plan->cp, plan->ep, MAX (data / plan->ep, 1), plan->shard_group, step->gpus
  };

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

static PsiGroupShape
dimension_shape (const PsiStep *step, PsiDimension dimension)
{
  guint n = psi_step_group_size (step, dimension);
  guint data_stride = step->plan->cp > 1 ? MIN (stride_of (step, PSI_STRIDE_CP), stride_of (step, PSI_STRIDE_DP))
                                         : stride_of (step, PSI_STRIDE_DP);
  const guint strides[PSI_N_DIMENSIONS] = { data_stride,
                                            stride_of (step, PSI_STRIDE_TP),
                                            stride_of (step, PSI_STRIDE_CP),
                                            data_stride,
                                            data_stride * step->plan->ep,
                                            data_stride,
                                            1 };

  return group_shape (step, n, strides[dimension]);
}

guint
psi_step_ranks_per_node (const PsiStep *step, PsiDimension dimension)
{
  return dimension_shape (step, dimension).ranks_per_node;
}

/* ---- Ports ---- */

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

#define FEW 32 /* ports or calls that are looked through one by one */

/* The slot under which the rank knows a port, or -1. */
static int
known_slot (PsiStepRank *rank, const GArray *ports, PsiPortId port)
{
  if (rank->slot_index != NULL)
    return GPOINTER_TO_INT (g_hash_table_lookup (rank->slot_index, GUINT_TO_POINTER (port))) - 1;
  for (guint slot = 0; slot < ports->len; slot++)
    if (g_array_index (ports, PsiPortId, slot) == port)
      return (int) slot;
  return -1;
}

static void
index_slots (PsiStepRank *rank, const GArray *ports)
{
  guint first = ports->len - 1;

  if (ports->len <= FEW)
    return;
  if (rank->slot_index == NULL)
    {
      rank->slot_index = g_hash_table_new (NULL, NULL);
      first = 0;
    }
  for (guint slot = first; slot < ports->len; slot++)
    g_hash_table_insert (rank->slot_index, GUINT_TO_POINTER (g_array_index (ports, PsiPortId, slot)),
                         GUINT_TO_POINTER (slot + 1));
}

/* Where a call of a rank leads. */
typedef struct
{
  PsiPortId port;
  PsiTransferId transfer; /* serve: 0 */
  PsiRoute route;
  const PsiStepRank *server; /* worker: the other end, and how the bytes get there */
  PsiRoute server_route;
} Target;

static void
add_links (PsiStep *step, const PsiStepRank *rank, PsiPortId port, const PsiRoute *route)
{
  gboolean own_adapter = !psi_topology_has (&step->topology, PSI_LEVEL_ADAPTER);

  for (guint tier = 0; tier < 4; tier++)
    {
      gboolean outward = tier == PSI_TIER_INTRA_OUT || tier == PSI_TIER_INTER_OUT;

      if ((outward ? route->up : route->down) && (tier < PSI_TIER_INTER_OUT || own_adapter))
        psi_world_add_path (step->world, port, rank->links[tier], tier);
    }
  psi_step_add_shared_links (step, rank, port, route);
}

/* The slot under which the rank knows a port; binds it, and adds its links to the port's path, at first sight. */
static guint
slot_for (PsiStep *step, PsiStepRank *rank, const Target *target)
{
  GArray *ports = psi_world_rank (step->world, rank->id)->ports;

  int known = known_slot (rank, ports, target->port);

  if (known >= 0)
    return (guint) known;
  psi_world_bind (step->world, rank->id, ports->len, target->port);
  index_slots (rank, ports);
  add_links (step, rank, target->port, &target->route);
  if (target->server != NULL)
    add_links (step, target->server, target->port, &target->server_route);
  return ports->len - 1;
}

/* ---- Calls: what an op says to the engine, found once for each kind of call of a rank ---- */

typedef enum
{
  CALL_COLLECTIVE,
  CALL_COPIES,
  CALL_SERVER,
  CALL_WORKER,
  CALL_SERVE,
  CALL_SEND,
  CALL_RECEIVE
} CallKind;

/* The same key means the same call for every rank of a list: groups and partners follow from the rank's place. */
typedef struct
{
  gint64 bytes;
  guint32 kind, stream;
  guint32 what;  /* collective, copies: op; server, worker: outward; message: what */
  guint32 index; /* collective: dimension; copies: part; message: index */
  guint32 other; /* message: list of the other rank, of the same class */
  guint32 traffic;
} CallKey;

typedef struct
{
  CallKey key;
  guint slot;
  PsiTransferId transfer;
} Call;

static gboolean
collective_target (PsiStep *step, PsiStepRank *rank, const CallKey *call, Target *ret_target)
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
  gboolean over_data = dimension != PSI_DIMENSION_TP && dimension != PSI_DIMENSION_CP;
  guint size = dimension == PSI_DIMENSION_CP || dimension == PSI_DIMENSION_TP || dimension == PSI_DIMENSION_ALL
                   ? 1
                   : shape.n_ranks;
  guint data_index = rank->dp_index * step->plan->cp + rank->cp_index;
  g_autofree char *key =
      dimension == PSI_DIMENSION_ALL
          ? g_strdup_printf ("all/%u", call->stream)
          : g_strdup_printf ("group/%u/%u/%u/%u/%u/%u", dimension, call->stream,
                             over_data && psi_step_lists_are_workers (step) ? 0 : rank->list,
                             full && dimension != PSI_DIMENSION_TP ? rank->tp_index : 0,
                             full && dimension != PSI_DIMENSION_CP && !over_data ? rank->cp_index : 0,
                             !over_data                             ? rank->dp_index
                             : !full                                ? 0
                             : dimension == PSI_DIMENSION_EXPERT_DP ? data_index % step->plan->ep
                                                                    : data_index / size);

  PsiRouteKind kind = call->what == PSI_COLLECTIVE_ALL_TO_ALL ? PSI_ROUTE_SPREAD : PSI_ROUTE_RING;
  *ret_target = (Target){ port_for (step, key, FALSE),
                          psi_step_transfer (step, &cost, &info),
                          { kind, dimension, shape.ranks_per_node, 0, TRUE, TRUE } };
  return TRUE;
}

static gboolean
copies_target (PsiStep *step, PsiStepRank *rank, const CallKey *call, Target *ret_target)
{
  const PsiSchedule *schedule = step->schedule;
  PsiGroupShape shape = dimension_shape (step, PSI_DIMENSION_DP);
  guint holders = 0, nearest = G_MAXUINT;
  PsiCollectiveCost cost;

  for (guint r = 0; r < schedule->n_ranks; r++)
    for (guint c = 0; c < schedule->n_chunks; c++)
      if (psi_schedule_part (schedule, r, c) == call->index)
        {
          const PsiStepRank *other = &step->ranks[r * step->n_classes];

          holders++;
          if (r != rank->list)
            nearest = MIN (nearest, (guint) ABS ((int) other->first_gpu - (int) rank->first_gpu));
        }
  if (holders > 1)
    shape = group_shape (step, shape.n_ranks * holders,
                         shape.n_ranks > 1 ? MIN (nearest, stride_of (step, PSI_STRIDE_DP)) : MAX (nearest, 1));
  if (shape.n_ranks <= 1 || call->bytes <= 0)
    return FALSE;
  psi_collective_cost (step->machine, call->what, call->bytes, &shape, &cost);
  PsiTransferInfo info = psi_step_transfer_info (call->traffic, cost.payload_bytes / shape.n_ranks, cost.steps);
  gboolean full = step->n_classes > step->plan->dp;
  g_autofree char *key = g_strdup_printf ("copies/%u/%u", call->index, full ? rank->tp_index : 0);

  *ret_target =
      (Target){ port_for (step, key, FALSE),
                psi_step_transfer (step, &cost, &info),
                { PSI_ROUTE_RING, PSI_DIMENSION_DP, psi_step_ranks_per_node (step, PSI_DIMENSION_DP), 0, TRUE, TRUE } };
  return TRUE;
}

/* The root's link decides: it carries everybody's bytes. */
static gboolean
server_target (PsiStep *step, PsiStepRank *rank, const CallKey *call, Target *ret_target)
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

  *ret_target = (Target){ port_for (step, key, FALSE),
                          psi_step_transfer (step, &cost, &info),
                          { PSI_ROUTE_SPREAD, PSI_DIMENSION_DP, shape.ranks_per_node, 0, rank->is_root && outward,
                            rank->is_root && !outward } };
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

/* Between two GPUs of a mesh, or any two of the equal ones they stand for. */
static double
narrowest_wires (const PsiStep *step, const PsiStepRank *from, const PsiStepRank *to)
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

/* Between a worker and the root. Only the worker waits for it: the port is its own, the links are both ends'. */
static gboolean
worker_target (PsiStep *step, PsiStepRank *rank, const CallKey *call, Target *ret_target)
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
    shape.wire_share = narrowest_wires (step, root, rank);
  psi_collective_cost (step->machine, PSI_COLLECTIVE_SEND_RECV, call->bytes, &shape, &cost);
  PsiTransferInfo info = psi_step_transfer_info (call->traffic, call->bytes, 1);
  g_autofree char *key = g_strdup_printf ("worker/%u/%d", rank->id, outward);

  info.by_server = outward;
  *ret_target = (Target){ .port = port_for (step, key, FALSE),
                          .transfer = psi_step_transfer (step, &cost, &info),
                          .route = { PSI_ROUTE_MESSAGE, PSI_DIMENSION_ALL, 1, shift, !outward, outward },
                          .server = root,
                          .server_route = { PSI_ROUTE_MESSAGE, PSI_DIMENSION_ALL, 1, -shift, outward, !outward } };
  return TRUE;
}

/* The root's desk. */
static gboolean
serve_target (PsiStep *step, PsiStepRank *rank, const CallKey *call, Target *ret_target)
{
  const PsiStepRank *root = &step->ranks[rank->list * step->n_classes];
  gpointer found = g_hash_table_lookup (step->ports, "desk");

  if (found == NULL)
    {
      found = GUINT_TO_POINTER (psi_world_add_desk (step->world, root->id) + 1);
      g_hash_table_insert (step->ports, g_strdup ("desk"), found);
    }
  *ret_target = (Target){ .port = GPOINTER_TO_UINT (found) - 1, .transfer = 0 };
  return TRUE;
}

static gboolean
message_target (PsiStep *step, PsiStepRank *rank, const CallKey *call, Target *ret_target)
{
  gboolean sending = call->kind == CALL_SEND;
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
    shape.wire_share = narrowest_wires (step, from, to);
  if (call->bytes > 0)
    psi_collective_cost (step->machine, PSI_COLLECTIVE_SEND_RECV, call->bytes, &shape, &cost);
  *ret_target = (Target){ port_for (step, key, TRUE),
                          psi_step_transfer (step, &cost, &info),
                          { PSI_ROUTE_MESSAGE, PSI_DIMENSION_ALL, 1,
                            (gint64) other->first_gpu - (gint64) rank->first_gpu, sending, !sending } };
  return TRUE;
}

static const struct
{
  gboolean (*target) (PsiStep *step, PsiStepRank *rank, const CallKey *call, Target *ret_target);
  PsiOpKind kind;
} call_kinds[] = { [CALL_COLLECTIVE] = { collective_target, PSI_OP_COLLECTIVE },
                   [CALL_COPIES] = { copies_target, PSI_OP_COLLECTIVE },
                   [CALL_SERVER] = { server_target, PSI_OP_COLLECTIVE },
                   [CALL_WORKER] = { worker_target, PSI_OP_COLLECTIVE },
                   [CALL_SERVE] = { serve_target, PSI_OP_SERVE },
                   [CALL_SEND] = { message_target, PSI_OP_SEND },
                   [CALL_RECEIVE] = { message_target, PSI_OP_RECV } };

/* A step repeats the same few calls thousands of times. */
static const Call *
find_call (const PsiStepRank *rank, const CallKey *key)
{
  guint n = rank->calls != NULL ? rank->calls->len : 0;

  if (rank->call_index != NULL)
    {
      guint found = GPOINTER_TO_UINT (g_hash_table_lookup (rank->call_index, key));

      return found > 0 ? &g_array_index (rank->calls, Call, found - 1) : NULL;
    }
  for (guint i = 0; i < n; i++)
    {
      const Call *call = &g_array_index (rank->calls, Call, i);

      if (memcmp (&call->key, key, sizeof *key) == 0)
        return call;
    }
  return NULL;
}

static guint
call_hash (gconstpointer key)
{
  const guint32 *words = key;
  guint hash = 0;

  for (gsize i = 0; i < sizeof (CallKey) / sizeof *words; i++)
    hash = (hash ^ words[i]) * 0x9e3779b1u;
  return hash ^ hash >> 15;
}

static gboolean
call_equal (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, sizeof (CallKey)) == 0;
}

static const Call *
add_call (PsiStepRank *rank, const Call *call)
{
  if (rank->calls == NULL)
    rank->calls = g_array_new (FALSE, FALSE, sizeof (Call));
  guint first = rank->calls->len;
  g_array_append_vals (rank->calls, call, 1);
  if (rank->calls->len > FEW && rank->call_index == NULL)
    {
      rank->call_index = g_hash_table_new_full (call_hash, call_equal, g_free, NULL);
      first = 0;
    }
  for (guint i = first; i < rank->calls->len && rank->call_index != NULL; i++)
    g_hash_table_insert (rank->call_index, g_memdup2 (&g_array_index (rank->calls, Call, i).key, sizeof (CallKey)),
                         GUINT_TO_POINTER (i + 1));
  return &g_array_index (rank->calls, Call, rank->calls->len - 1);
}

/* NULL: there is nobody to call. */
static const Call *
know_call (PsiStep *step, PsiStepRank *rank, const CallKey *key)
{
  const Call *known = find_call (rank, key);
  Target target;

  if (known == NULL)
    {
      if (!call_kinds[key->kind].target (step, rank, key, &target))
        return NULL;
      Call call = { .key = *key, .slot = slot_for (step, rank, &target), .transfer = target.transfer };

      known = add_call (rank, &call);
    }
  return known;
}

/* Append the op of a call to the rank's program. */
static PsiOpId
make_call (PsiStep *step, PsiStepRank *rank, const CallKey *key)
{
  const Call *known = know_call (step, rank, key);
  gboolean is_turn = key->bytes <= 0 && call_kinds[key->kind].kind != PSI_OP_COLLECTIVE;

  if (known == NULL)
    return PSI_OP_NONE;
  return psi_program_message (rank->program, key->stream, call_kinds[key->kind].kind, known->slot, known->transfer,
                              is_turn ? PSI_TAG_TURN : PSI_TAG_TRAFFIC + key->traffic);
}

gboolean
psi_step_follow (PsiStep *step, const PsiStepRank *leader, PsiStepRank *rank)
{
  guint n = leader->calls != NULL ? leader->calls->len : 0;
  g_autofree Target *targets = g_new (Target, n + 1);
  GArray *ports = psi_world_rank (step->world, rank->id)->ports;
  g_autoptr (GArray) slots = g_array_new (FALSE, FALSE, sizeof (PsiPortId));

  for (guint i = 0; i < n; i++)
    {
      const Call *call = &g_array_index (leader->calls, Call, i);
      guint slot = 0;

      if (!call_kinds[call->key.kind].target (step, rank, &call->key, &targets[i]) ||
          targets[i].transfer != call->transfer)
        return FALSE;
      while (slot < slots->len && g_array_index (slots, PsiPortId, slot) != targets[i].port)
        slot++;
      if (slot == slots->len)
        g_array_append_val (slots, targets[i].port);
      if (slot != call->slot)
        return FALSE;
    }
  g_assert (ports->len == 0);
  for (guint i = 0; i < n; i++)
    slot_for (step, rank, &targets[i]);
  return TRUE;
}

/* ---- The verbs ---- */

PsiOpId
psi_step_collective (PsiStep *step, PsiStepRank *rank, guint stream, PsiCollectiveOp op, PsiDimension dimension,
                     gint64 bytes, PsiTraffic traffic)
{
  const CallKey key = { bytes, CALL_COLLECTIVE, stream, op, dimension, 0, traffic };

  return make_call (step, rank, &key);
}

PsiOpId
psi_step_copies_collective (PsiStep *step, PsiStepRank *rank, PsiCollectiveOp op, guint part, gint64 bytes,
                            PsiTraffic traffic)
{
  const CallKey key = { bytes, CALL_COPIES, PSI_STREAM_GRADIENTS, op, part, 0, traffic };

  return make_call (step, rank, &key);
}

PsiOpId
psi_step_server_message (PsiStep *step, PsiStepRank *rank, gboolean outward, gint64 bytes, PsiTraffic traffic)
{
  const CallKey key = { bytes, CALL_SERVER, outward ? PSI_STREAM_PARAMETERS : PSI_STREAM_GRADIENTS, outward != FALSE, 0,
                        0,     traffic };

  return make_call (step, rank, &key);
}

PsiOpId
psi_step_worker_message (PsiStep *step, PsiStepRank *rank, gboolean outward, gint64 bytes, PsiTraffic traffic)
{
  const CallKey key = { bytes, CALL_WORKER, outward ? PSI_STREAM_PARAMETERS : PSI_STREAM_GRADIENTS, outward != FALSE, 0,
                        0,     traffic };

  return make_call (step, rank, &key);
}

PsiOpId
psi_step_serve (PsiStep *step, PsiStepRank *rank, guint bucket, PsiTime time_ps)
{
  const CallKey key = { 0, CALL_SERVE, PSI_STREAM_GRADIENTS_IN, 0, 0, 0, 0 };
  const Call *known = know_call (step, rank, &key);

  return psi_program_serve (rank->program, key.stream, known->slot, bucket, time_ps, PSI_TAG_OPTIMIZER);
}

PsiOpId
psi_step_send (PsiStep *step, PsiStepRank *from, PsiStepRank *to, guint stream, guint what, guint index, gint64 bytes,
               PsiTraffic traffic)
{
  const CallKey key = { bytes, CALL_SEND, stream, what, index, to->list, traffic };

  return make_call (step, from, &key);
}

PsiOpId
psi_step_receive (PsiStep *step, PsiStepRank *from, PsiStepRank *to, guint stream, guint what, guint index,
                  gint64 bytes, PsiTraffic traffic)
{
  const CallKey key = { bytes, CALL_RECEIVE, stream, what, index, from->list, traffic };

  return make_call (step, to, &key);
}
