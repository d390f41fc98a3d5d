/* SPDX-License-Identifier: MIT */
/* Collectives, messages and turns at a desk as ops of a rank.
 *
 * A step repeats the same few calls thousands of times: the port's slot and the transfer are found once for each kind
 * of call of a rank, and another rank of the list can take them over if all lead to the same for it. */
#include "step-call.h"

#include <string.h>

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
slot_for (PsiStep *step, PsiStepRank *rank, const PsiCallTarget *target)
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

/* ---- Calls ---- */

typedef struct
{
  PsiCallKey key;
  guint slot;
  PsiTransferId transfer;
  PsiTime alone_ps; /* of a collective on an idle machine */
} Call;

static const Call *
find_call (const PsiStepRank *rank, const PsiCallKey *key)
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

  for (gsize i = 0; i < sizeof (PsiCallKey) / sizeof *words; i++)
    hash = (hash ^ words[i]) * 0x9e3779b1u;
  return hash ^ hash >> 15;
}

static gboolean
call_equal (gconstpointer a, gconstpointer b)
{
  return memcmp (a, b, sizeof (PsiCallKey)) == 0;
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
    g_hash_table_insert (rank->call_index, g_memdup2 (&g_array_index (rank->calls, Call, i).key, sizeof (PsiCallKey)),
                         GUINT_TO_POINTER (i + 1));
  return &g_array_index (rank->calls, Call, rank->calls->len - 1);
}

/* NULL: there is nobody to call. */
static const Call *
know_call (PsiStep *step, PsiStepRank *rank, const PsiCallKey *key)
{
  const Call *known = find_call (rank, key);
  PsiCallTarget target;

  if (known == NULL)
    {
      if (!psi_call_rows[key->kind].target (step, rank, key, &target))
        return NULL;
      Call call = {
        .key = *key, .slot = slot_for (step, rank, &target), .transfer = target.transfer, .alone_ps = target.alone_ps
      };

      known = add_call (rank, &call);
    }
  return known;
}

/* Append the op of a call to the rank's program. */
static PsiOpId
make_call (PsiStep *step, PsiStepRank *rank, const PsiCallKey *key)
{
  const Call *known = know_call (step, rank, key);
  gboolean is_turn = key->bytes <= 0 && psi_call_rows[key->kind].kind != PSI_OP_COLLECTIVE;

  if (known == NULL)
    return PSI_OP_NONE;
  return psi_program_message (rank->program, key->stream, psi_call_rows[key->kind].kind, known->slot, known->transfer,
                              is_turn ? PSI_TAG_TURN : PSI_TAG_TRAFFIC + key->traffic);
}

gboolean
psi_step_follow (PsiStep *step, const PsiStepRank *leader, PsiStepRank *rank)
{
  guint n = leader->calls != NULL ? leader->calls->len : 0;
  g_autofree PsiCallTarget *targets = g_new (PsiCallTarget, n + 1);
  GArray *ports = psi_world_rank (step->world, rank->id)->ports;
  g_autoptr (GArray) slots = g_array_new (FALSE, FALSE, sizeof (PsiPortId));

  for (guint i = 0; i < n; i++)
    {
      const Call *call = &g_array_index (leader->calls, Call, i);
      guint slot = 0;

      if (!psi_call_rows[call->key.kind].target (step, rank, &call->key, &targets[i]) ||
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
  const PsiCallKey key = {
    .bytes = bytes, .kind = PSI_CALL_COLLECTIVE, .stream = stream, .what = op, .index = dimension, .traffic = traffic
  };

  return make_call (step, rank, &key);
}

PsiTime
psi_step_collective_alone_ps (PsiStep *step, PsiStepRank *rank, guint stream, PsiCollectiveOp op,
                              PsiDimension dimension, gint64 bytes, PsiTraffic traffic)
{
  const PsiCallKey key = {
    .bytes = bytes, .kind = PSI_CALL_COLLECTIVE, .stream = stream, .what = op, .index = dimension, .traffic = traffic
  };
  const Call *call = know_call (step, rank, &key);
  return call != NULL ? call->alone_ps : 0;
}

PsiOpId
psi_step_copies_collective (PsiStep *step, PsiStepRank *rank, PsiCollectiveOp op, guint part, gint64 bytes,
                            PsiTraffic traffic)
{
  const PsiCallKey key = { .bytes = bytes,
                           .kind = PSI_CALL_COPIES,
                           .stream = PSI_STREAM_GRADIENTS,
                           .what = op,
                           .index = part,
                           .traffic = traffic };

  return make_call (step, rank, &key);
}

PsiOpId
psi_step_server_message (PsiStep *step, PsiStepRank *rank, gboolean outward, gint64 bytes, PsiTraffic traffic)
{
  const PsiCallKey key = { .bytes = bytes,
                           .kind = PSI_CALL_SERVER,
                           .stream = outward ? PSI_STREAM_PARAMETERS : PSI_STREAM_GRADIENTS,
                           .what = outward != FALSE,
                           .traffic = traffic };

  return make_call (step, rank, &key);
}

PsiOpId
psi_step_worker_message (PsiStep *step, PsiStepRank *rank, gboolean outward, gint64 bytes, PsiTraffic traffic)
{
  const PsiCallKey key = { .bytes = bytes,
                           .kind = PSI_CALL_WORKER,
                           .stream = outward ? PSI_STREAM_PARAMETERS : PSI_STREAM_GRADIENTS,
                           .what = outward != FALSE,
                           .traffic = traffic };

  return make_call (step, rank, &key);
}

PsiOpId
psi_step_serve (PsiStep *step, PsiStepRank *rank, guint bucket, PsiTime time_ps)
{
  const PsiCallKey key = { .kind = PSI_CALL_SERVE, .stream = PSI_STREAM_GRADIENTS_IN };
  const Call *known = know_call (step, rank, &key);

  return psi_program_serve (rank->program, key.stream, known->slot, bucket, time_ps, PSI_TAG_OPTIMIZER);
}

PsiOpId
psi_step_send (PsiStep *step, PsiStepRank *from, PsiStepRank *to, guint stream, guint what, guint index, gint64 bytes,
               PsiTraffic traffic)
{
  const PsiCallKey key = { .bytes = bytes,
                           .kind = PSI_CALL_SEND,
                           .stream = stream,
                           .what = what,
                           .index = index,
                           .other = to->list,
                           .traffic = traffic };

  return make_call (step, from, &key);
}

PsiOpId
psi_step_receive (PsiStep *step, PsiStepRank *from, PsiStepRank *to, guint stream, guint what, guint index,
                  gint64 bytes, PsiTraffic traffic)
{
  const PsiCallKey key = { .bytes = bytes,
                           .kind = PSI_CALL_RECEIVE,
                           .stream = stream,
                           .what = what,
                           .index = index,
                           .other = from->list,
                           .traffic = traffic };

  return make_call (step, to, &key);
}
