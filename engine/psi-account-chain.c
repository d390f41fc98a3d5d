/* SPDX-License-Identifier: MIT */
/* The longest chain of messages, by what needs what; no times. */
#include "psi-account.h"

#include "psi-fold.h"

#include <string.h>

/* One end of a channel, or any member of a communicator. */
typedef struct
{
  PsiRankId rank;
  guint slot;
} PortEnd;

typedef struct
{
  const PsiWorld *world;
  gsize *first_op, *first_slot; /* of each rank */
  PsiRankId *same;              /* a rank whose chains are those of this one */
  gint32 *chain;                /* -1 = not known yet */
  guint32 *nth;                 /* messages before an op in its stream, of its kind and slot */
  PortEnd *ends;                /* [2 * port] */
  GArray **sends;               /* [slots of all ranks] of PsiOpId in program order, NULL if none */
} Chain;

static guint chain_of (Chain *chain, PsiRankId rank, PsiOpId id);

static gsize
op_index (const Chain *chain, PsiRankId rank, PsiOpId id)
{
  const PsiProgram *program = psi_world_rank (chain->world, rank)->program;
  gsize index = chain->first_op[rank] + PSI_OP_POSITION (id);

  for (guint s = 0; s < PSI_OP_STREAM (id); s++)
    index += program->streams[s]->len;
  return index;
}

static gboolean
ends_in_work (const PsiProgram *program, const PsiOp *op)
{
  const PsiFold *fold = psi_op_fold (program, op);

  return psi_op_is_work (op) && (fold == NULL || !fold->ends_in_message);
}

/* Messages before an op can start, since the last work it needs. */
static guint
chain_before (Chain *chain, PsiRankId rank, PsiOpId id)
{
  const PsiProgram *program = psi_world_rank (chain->world, rank)->program;
  guint most = 0;

  /* A message that waits for its sender's own work begins a new chain. */
  if (psi_program_op (program, id)->kind == PSI_OP_SEND)
    for (guint32 d = psi_program_op (program, id)->first_dep; d != PSI_CHAIN_END;)
      {
        const PsiDep *dep = &g_array_index (program->deps, PsiDep, d);

        if (ends_in_work (program, psi_program_op (program, dep->op)))
          return 0;
        d = dep->next;
      }
  if (PSI_OP_STREAM (id) == 0)
    {
      guint position = PSI_OP_POSITION (id), n = program->streams[0]->len;
      PsiOpId before = PSI_OP_ID (0, (position + n - 1) % n);

      if (before != id)
        most = chain_of (chain, rank, before);
    }
  for (guint32 d = psi_program_op (program, id)->first_dep; d != PSI_CHAIN_END;)
    {
      const PsiDep *dep = &g_array_index (program->deps, PsiDep, d);

      most = MAX (most, chain_of (chain, rank, dep->op));
      d = dep->next;
    }
  return most;
}

/* Number the messages of a rank, and list the sends of each of its slots. */
static void
number_messages (Chain *chain, PsiRankId rank)
{
  const PsiRank *owner = psi_world_rank (chain->world, rank);
  const PsiProgram *program = owner->program;
  guint n_slots = owner->ports->len;
  g_autofree guint32 *counts = g_new (guint32, 3 * n_slots + 1);
  guint32 *nth = chain->nth + chain->first_op[rank];

  for (guint s = 0; s < program->n_streams; s++)
    {
      memset (counts, 0, 3 * n_slots * sizeof *counts);
      for (guint i = 0; i < program->streams[s]->len; i++)
        {
          const PsiOp *op = &g_array_index (program->streams[s], PsiOp, i);
          guint which = op->kind == PSI_OP_SEND ? 0 : op->kind == PSI_OP_RECV ? 1 : 2;
          GArray **sends = &chain->sends[chain->first_slot[rank] + op->slot];
          PsiOpId id = PSI_OP_ID (s, i);

          *nth++ = psi_op_is_work (op) ? 0 : counts[which * n_slots + op->slot]++;
          if (op->kind != PSI_OP_SEND)
            continue;
          if (*sends == NULL)
            *sends = g_array_new (FALSE, FALSE, sizeof (PsiOpId));
          g_array_append_val (*sends, id);
        }
    }
}

/* The other end of a slot's channel. */
static const PortEnd *
other_end (const Chain *chain, PsiRankId rank, guint slot)
{
  PsiPortId port = g_array_index (psi_world_rank (chain->world, rank)->ports, PsiPortId, slot);
  const PortEnd *end = &chain->ends[2 * port];

  return end->rank == rank && end->slot == slot ? end + 1 : end;
}

/* Do two ranks with one program talk to ranks with one program, slot by slot? */
static gboolean
have_like_partners (const Chain *chain, PsiRankId a, PsiRankId b)
{
  const GArray *ports = psi_world_rank (chain->world, a)->ports, *others = psi_world_rank (chain->world, b)->ports;

  if (ports->len != others->len)
    return FALSE;
  for (guint slot = 0; slot < ports->len; slot++)
    {
      PsiPortId x = g_array_index (ports, PsiPortId, slot), y = g_array_index (others, PsiPortId, slot);

      if (x == G_MAXUINT32 || y == G_MAXUINT32 || !g_array_index (chain->world->ports, PsiPort, x).is_channel)
        continue;
      const PortEnd *p = other_end (chain, a, slot), *q = other_end (chain, b, slot);
      if (p->slot != q->slot ||
          psi_world_rank (chain->world, p->rank)->program != psi_world_rank (chain->world, q->rank)->program)
        return FALSE;
    }
  return TRUE;
}

/* Ranks with one program have the same chains when that holds for their partners too; if it fails anywhere, each rank
 * is looked at by itself. */
static void
find_same (Chain *chain)
{
  guint n_ranks = chain->world->ranks->len;
  g_autoptr (GHashTable) first = g_hash_table_new (NULL, NULL);
  gboolean alike = TRUE;

  for (guint r = 0; r < n_ranks; r++)
    {
      gpointer program = psi_world_rank (chain->world, r)->program, found;

      chain->same[r] = r;
      if (g_hash_table_lookup_extended (first, program, NULL, &found))
        chain->same[r] = GPOINTER_TO_UINT (found);
      else
        g_hash_table_insert (first, program, GUINT_TO_POINTER (r));
    }
  for (guint r = 0; r < n_ranks && alike; r++)
    alike = chain->same[r] == r || have_like_partners (chain, r, chain->same[r]);
  for (guint r = 0; r < n_ranks && !alike; r++)
    chain->same[r] = r;
}

static guint
chain_of (Chain *chain, PsiRankId rank, PsiOpId id)
{
  const PsiProgram *program = psi_world_rank (chain->world, rank)->program;
  const PsiOp *op = psi_program_op (program, id);

  if (psi_op_is_work (op))
    return psi_op_fold (program, op) != NULL ? psi_op_fold (program, op)->tail_hops : 0;
  gint32 *known = &chain->chain[op_index (chain, rank, id)];
  if (*known >= 0)
    return (guint) *known;
  *known = 0; /* cuts loops through earlier iterations */
  guint most = chain_before (chain, rank, id);
  if (op->kind == PSI_OP_RECV)
    {
      const PortEnd *end = other_end (chain, rank, op->slot);
      PsiRankId sender = chain->same[end->rank];
      const GArray *sends = chain->sends[chain->first_slot[sender] + end->slot];
      guint nth = chain->nth[op_index (chain, rank, id)];

      if (sends != NULL && nth < sends->len)
        most = MAX (most, chain_before (chain, sender, g_array_index (sends, PsiOpId, nth)));
    }
  const PsiTransfer *transfer = &g_array_index (chain->world->transfers, PsiTransfer, op->transfer);
  *known = (gint32) (most + transfer->hops);
  return (guint) *known;
}

/* Offsets of ranks, and who stands at each port. */
static void
find_ends (Chain *chain)
{
  const PsiWorld *world = chain->world;
  g_autofree guint8 *n_ends = g_new0 (guint8, world->ports->len + 1);

  for (guint r = 0; r < world->ranks->len; r++)
    {
      const PsiRank *rank = psi_world_rank (world, r);

      chain->first_op[r + 1] = chain->first_op[r] + psi_program_n_ops (rank->program);
      chain->first_slot[r + 1] = chain->first_slot[r] + rank->ports->len;
      for (guint slot = 0; slot < rank->ports->len; slot++)
        {
          PsiPortId port = g_array_index (rank->ports, PsiPortId, slot);

          if (port != G_MAXUINT32 && n_ends[port] < 2)
            chain->ends[2 * port + n_ends[port]++] = (PortEnd){ r, slot };
        }
    }
}

guint
psi_account_chain (const PsiWorld *world)
{
  guint n_ranks = world->ranks->len, longest = 0;
  g_autofree gsize *first_op = g_new0 (gsize, n_ranks + 1), *first_slot = g_new0 (gsize, n_ranks + 1);
  g_autofree PortEnd *ends = g_new0 (PortEnd, 2 * world->ports->len + 2);
  g_autofree PsiRankId *same = g_new (PsiRankId, n_ranks + 1);
  Chain chain = { .world = world, .first_op = first_op, .first_slot = first_slot, .same = same, .ends = ends };

  find_ends (&chain);
  find_same (&chain);
  g_autofree gint32 *known = g_new (gint32, first_op[n_ranks] + 1);
  g_autofree guint32 *nth = g_new (guint32, first_op[n_ranks] + 1);
  g_autofree GArray **sends = g_new0 (GArray *, first_slot[n_ranks] + 1);
  chain.chain = known;
  chain.nth = nth;
  chain.sends = sends;
  for (guint r = 0; r < n_ranks; r++)
    if (same[r] == r)
      {
        memset (known + first_op[r], 0xff, (first_op[r + 1] - first_op[r]) * sizeof *known);
        number_messages (&chain, r);
      }
  for (guint r = 0; r < n_ranks; r++)
    {
      const PsiProgram *program = psi_world_rank (world, r)->program;

      for (guint s = 0; s < program->n_streams && same[r] == r; s++)
        for (guint i = 0; i < program->streams[s]->len; i++)
          longest = MAX (longest, chain_of (&chain, r, PSI_OP_ID (s, i)));
      for (guint p = 0; p < psi_program_n_folds (program) && same[r] == r; p++)
        longest = MAX (longest, g_array_index (program->folds, PsiFold, p).most_hops);
    }
  for (gsize i = 0; i < first_slot[n_ranks]; i++)
    g_clear_pointer (&sends[i], g_array_unref);
  return longest;
}
