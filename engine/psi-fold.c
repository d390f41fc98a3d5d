/* SPDX-License-Identifier: MIT */
#include "psi-fold.h"

#include <math.h>

PsiTime
psi_world_idle_time_ps (const PsiWorld *world, PsiPortId port, const PsiTransfer *transfer)
{
  const GArray *path = g_array_index (world->ports, PsiPort, port).path;
  guint rounds = MAX (transfer->rounds, 1);
  double rate = transfer->cap_bytes_per_s;
  PsiTime time_ps = transfer->latency_ps + (rounds - 1) * transfer->round_latency_ps;

  if (transfer->bytes <= 0)
    return time_ps;
  for (guint i = 0; i < path->len; i++)
    {
      const PsiPathLink *step = &g_array_index (path, PsiPathLink, i);
      double load = 0;

      /* A link that several members share stands more than once in the path. */
      for (guint k = 0; k < path->len; k++)
        {
          const PsiPathLink *other = &g_array_index (path, PsiPathLink, k);

          if (other->link == step->link)
            load += transfer->weights[other->tier] * other->share;
        }
      if (load > 0)
        rate = MIN (rate, psi_links_rate (world->links, step->link) / load);
    }
  if (!(rate > 0))
    return PSI_TIME_MAX;
  return isinf (rate) ? time_ps : time_ps + rounds * psi_time_from_s ((double) transfer->bytes / rate);
}

static PsiTime
time_of (const PsiWorld *world, const PsiRank *rank, const PsiOp *op)
{
  const PsiTransfer *transfer;

  if (op->kind == PSI_OP_WORK)
    return op->cost_ps;
  transfer = &g_array_index (world->transfers, PsiTransfer, op->transfer);
  if (op->kind != PSI_OP_COLLECTIVE || op->skip > 0 || transfer->rounds > 1)
    return PSI_TIME_MAX;
  return psi_world_idle_time_ps (world, g_array_index (rank->ports, PsiPortId, op->slot), transfer);
}

guint32
psi_world_fold (PsiWorld *world, PsiRankId id, guint position)
{
  const PsiRank *rank = psi_world_rank (world, id);
  PsiProgram *program = rank->program;
  GArray *ops = program->streams[0];
  PsiFold fold = { .first_part = psi_program_n_parts (program), .n_parts = ops->len - position };
  const PsiOp *first = &g_array_index (ops, PsiOp, position);
  guint hops = 0;

  if (fold.n_parts < 2 || first->kind != PSI_OP_WORK)
    return G_MAXUINT32;
  if (program->folds == NULL)
    {
      program->parts = g_array_new (FALSE, FALSE, sizeof (PsiPart));
      program->folds = g_array_new (FALSE, FALSE, sizeof (PsiFold));
    }
  for (guint i = position; i < ops->len; i++)
    {
      PsiPart part = { .op = g_array_index (ops, PsiOp, i), .start_ps = fold.cost_ps };
      PsiTime time_ps = time_of (world, rank, &part.op);

      if (part.op.first_dep != PSI_CHAIN_END || psi_op_fold (program, &part.op) != NULL ||
          fold.cost_ps + time_ps >= PSI_TIME_MAX / 2)
        {
          g_array_set_size (program->parts, fold.first_part);
          return G_MAXUINT32;
        }
      fold.ends_in_message = part.op.kind != PSI_OP_WORK;
      hops = fold.ends_in_message ? hops + g_array_index (world->transfers, PsiTransfer, part.op.transfer).hops : 0;
      fold.tail_ps = fold.ends_in_message ? fold.tail_ps + time_ps : 0;
      fold.most_hops = MAX (fold.most_hops, hops);
      part.end_ps = fold.cost_ps += time_ps;
      g_array_append_val (program->parts, part);
    }
  fold.tail_hops = hops;
  g_array_append_val (program->folds, fold);
  g_array_set_size (ops, position);
  psi_program_add_fold (program, program->folds->len - 1);
  return program->folds->len - 1;
}

PsiOpId
psi_program_add_fold (PsiProgram *program, guint32 number)
{
  const PsiFold *fold = &g_array_index (program->folds, PsiFold, number);
  const PsiOp *first = &psi_fold_parts (program, fold)->op;
  PsiOpId id = psi_program_work (program, 0, fold->cost_ps, first->tag);

  psi_program_op (program, id)->transfer = number + 1;
  program->n_unfolded += fold->n_parts - 1;
  psi_program_label (program, id, first->label[0], first->label[1]);
  return id;
}

gboolean
psi_program_folds_equal (const PsiProgram *program, guint32 a, guint32 b)
{
  const PsiFold *first = &g_array_index (program->folds, PsiFold, a),
                *second = &g_array_index (program->folds, PsiFold, b);
  const PsiPart *x = psi_fold_parts (program, first), *y = psi_fold_parts (program, second);

  if (first->n_parts != second->n_parts || first->cost_ps != second->cost_ps)
    return FALSE;
  for (guint i = 0; i < first->n_parts; i++)
    if (x[i].start_ps != y[i].start_ps || x[i].end_ps != y[i].end_ps || x[i].op.kind != y[i].op.kind ||
        x[i].op.tag != y[i].op.tag || x[i].op.slot != y[i].op.slot || x[i].op.transfer != y[i].op.transfer ||
        !psi_program_same_memory (program, &x[i].op, &y[i].op))
      return FALSE;
  return TRUE;
}

/* ---- Who loads which links ---- */

#define NOBODY G_MAXUINT32

/* Tiers that the ops of a program load over a slot, by stream; those of its folds by themselves. */
typedef struct
{
  guint n_slots;
  guint8 *tiers;      /* [streams * n_slots] */
  guint8 *fold_tiers; /* [n_slots] */
} Loads;

static void
loads_free (gpointer data)
{
  Loads *loads = data;

  g_free (loads->tiers);
  g_free (loads->fold_tiers);
  g_free (loads);
}

static guint8
tiers_of (const PsiWorld *world, const PsiOp *op)
{
  const PsiTransfer *transfer = &g_array_index (world->transfers, PsiTransfer, op->transfer);
  guint8 tiers = 0;

  for (guint t = 0; t < PSI_MAX_TIERS && transfer->bytes > 0; t++)
    tiers |= (guint8) ((transfer->weights[t] > 0) << t);
  return tiers;
}

static Loads *
loads_of (const PsiWorld *world, const PsiRank *rank)
{
  const PsiProgram *program = rank->program;
  Loads *loads = g_new0 (Loads, 1);

  loads->n_slots = rank->ports->len;
  loads->tiers = g_new0 (guint8, program->n_streams * loads->n_slots + 1);
  loads->fold_tiers = g_new0 (guint8, loads->n_slots + 1);
  for (guint s = 0; s < program->n_streams; s++)
    for (guint i = 0; i < program->streams[s]->len; i++)
      {
        const PsiOp *op = &g_array_index (program->streams[s], PsiOp, i);

        if (op->kind != PSI_OP_WORK)
          loads->tiers[s * loads->n_slots + op->slot] |= tiers_of (world, op);
      }
  for (guint i = 0; i < psi_program_n_parts (program); i++)
    {
      const PsiOp *op = &g_array_index (program->parts, PsiPart, i).op;

      if (op->kind != PSI_OP_WORK)
        loads->fold_tiers[op->slot] |= tiers_of (world, op);
    }
  return loads;
}

/* When the messages of a stream are on their way, as positions of stream 0 that it has left behind (`after`) and not
 * yet begun (`before`), counted from the iteration of the message: by what they and those before them wait for, and
 * what waits for them or those behind them. FALSE: not bounded on both sides. */
static gboolean
find_windows (const PsiProgram *program, guint stream, gint64 *after, gint64 *before)
{
  gint64 n = program->streams[0]->len;
  guint n_messages = program->streams[stream]->len;

  for (guint i = 0; i < n_messages; i++)
    {
      after[i] = i > 0 ? after[i - 1] : G_MININT64;
      before[i] = G_MAXINT64;
      for (guint32 d = g_array_index (program->streams[stream], PsiOp, i).first_dep; d != PSI_CHAIN_END;)
        {
          const PsiDep *dep = &g_array_index (program->deps, PsiDep, d);

          if (PSI_OP_STREAM (dep->op) == 0)
            after[i] = MAX (after[i], (gint64) PSI_OP_POSITION (dep->op) - dep->distance * n);
          d = dep->next;
        }
    }
  for (gint64 p = 0; p < n; p++)
    for (guint32 d = g_array_index (program->streams[0], PsiOp, p).first_dep; d != PSI_CHAIN_END;)
      {
        const PsiDep *dep = &g_array_index (program->deps, PsiDep, d);

        if (PSI_OP_STREAM (dep->op) == stream)
          before[PSI_OP_POSITION (dep->op)] = MIN (before[PSI_OP_POSITION (dep->op)], p + dep->distance * n);
        d = dep->next;
      }
  for (guint i = n_messages; i > 1; i--)
    before[i - 2] = MIN (before[i - 2], before[i - 1]);
  return n_messages > 0 && after[0] > G_MININT64 && before[n_messages - 1] < G_MAXINT64;
}

/* Is none of the stream's messages over a slot on its way while a fold runs? */
static gboolean
keeps_clear (const PsiProgram *program, guint stream, guint slot)
{
  gint64 n = program->streams[0]->len;
  guint n_messages = program->streams[stream]->len;
  g_autofree gint64 *after = g_new (gint64, n_messages + 1), *before = g_new (gint64, n_messages + 1);
  g_autofree guint32 *n_folds = g_new0 (guint32, n + 1); /* before a position */

  if (!find_windows (program, stream, after, before))
    return FALSE;
  for (gint64 p = 0; p < n; p++)
    n_folds[p + 1] = n_folds[p] + (psi_op_fold (program, &g_array_index (program->streams[0], PsiOp, p)) != NULL);
  for (guint i = 0; i < n_messages; i++)
    {
      const PsiOp *op = &g_array_index (program->streams[stream], PsiOp, i);

      if (op->kind == PSI_OP_WORK || op->slot != slot)
        continue;
      for (gint64 p = after[i] + 1; p < before[i];)
        {
          /* A stretch within one iteration. */
          gint64 base = p - ((p % n) + n) % n, end = MIN (before[i], base + n);

          if (n_folds[end - base] > n_folds[p - base])
            return FALSE;
          p = end;
        }
    }
  return TRUE;
}

static gboolean
is_bound (const PsiRank *rank, PsiPortId port)
{
  for (guint slot = 0; slot < rank->ports->len; slot++)
    if (g_array_index (rank->ports, PsiPortId, slot) == port)
      return TRUE;
  return FALSE;
}

/* Say whose folds load which links. FALSE: those of two ranks, or over a port with more than one member. */
static gboolean
find_owners (const PsiWorld *world, GHashTable *programs, guint32 *owners)
{
  for (guint r = 0; r < world->ranks->len; r++)
    {
      const PsiRank *rank = psi_world_rank (world, r);
      Loads *loads = g_hash_table_lookup (programs, rank->program);

      if (loads == NULL)
        g_hash_table_insert (programs, rank->program, loads = loads_of (world, rank));
      if (rank->scale != 1.0 && psi_program_n_folds (rank->program) > 0)
        return FALSE;
      for (guint i = 0; i < psi_program_n_parts (rank->program); i++)
        {
          const PsiOp *op = &g_array_index (rank->program->parts, PsiPart, i).op;
          const PsiPort *port;

          if (op->kind == PSI_OP_WORK)
            continue;
          port = &g_array_index (world->ports, PsiPort, g_array_index (rank->ports, PsiPortId, op->slot));
          if (port->n_members != 1)
            return FALSE;
          for (guint k = 0; k < port->path->len; k++)
            {
              const PsiPathLink *step = &g_array_index (port->path, PsiPathLink, k);

              if (!(loads->fold_tiers[op->slot] >> step->tier & 1))
                continue;
              if (owners[step->link] != NOBODY && owners[step->link] != r)
                return FALSE;
              owners[step->link] = r;
            }
        }
    }
  return TRUE;
}

gboolean
psi_world_folds_hold (const PsiWorld *world)
{
  g_autoptr (GHashTable) programs = g_hash_table_new_full (NULL, NULL, NULL, loads_free);
  g_autofree guint32 *owners = g_new (guint32, psi_links_n_links (world->links) + 1);

  for (guint l = 0; l < psi_links_n_links (world->links); l++)
    owners[l] = NOBODY;
  if (!find_owners (world, programs, owners))
    return FALSE;
  for (guint r = 0; r < world->ranks->len; r++)
    {
      const PsiRank *rank = psi_world_rank (world, r);
      const Loads *loads = g_hash_table_lookup (programs, rank->program);

      for (guint s = 0; s < rank->program->n_streams; s++)
        for (guint slot = 0; slot < loads->n_slots; slot++)
          {
            guint8 tiers = loads->tiers[s * loads->n_slots + slot];
            PsiPortId id = g_array_index (rank->ports, PsiPortId, slot);
            gboolean is_clear = s == 0; /* the ops of a stream follow each other */

            for (guint i = 0; tiers != 0 && i < g_array_index (world->ports, PsiPort, id).path->len; i++)
              {
                const PsiPathLink *step =
                    &g_array_index (g_array_index (world->ports, PsiPort, id).path, PsiPathLink, i);
                guint32 owner = owners[step->link];

                if (!(tiers >> step->tier & 1) || owner == NOBODY)
                  continue;
                /* A partner's message is the owner's own as well, and is looked at there. */
                if (owner != r && !is_bound (psi_world_rank (world, owner), id))
                  return FALSE;
                if (owner != r || is_clear)
                  continue;
                if (!keeps_clear (rank->program, s, slot))
                  return FALSE;
                is_clear = TRUE;
              }
          }
    }
  return TRUE;
}
