/* SPDX-License-Identifier: MIT */
#include "psi-program.h"

static void
program_free (gpointer data)
{
  PsiProgram *program = data;

  for (guint s = 0; s < program->n_streams; s++)
    g_array_unref (program->streams[s]);
  g_array_unref (program->deps);
  g_array_unref (program->deltas);
  g_clear_pointer (&program->parts, g_array_unref);
  g_clear_pointer (&program->folds, g_array_unref);
  g_free (program);
}

static void
rank_clear (gpointer data)
{
  g_array_unref (((PsiRank *) data)->ports);
}

static void
port_clear (gpointer data)
{
  g_array_unref (((PsiPort *) data)->path);
}

PsiWorld *
psi_world_new (void)
{
  PsiWorld *world = g_new0 (PsiWorld, 1);

  world->programs = g_ptr_array_new_with_free_func (program_free);
  world->ranks = g_array_new (FALSE, TRUE, sizeof (PsiRank));
  g_array_set_clear_func (world->ranks, rank_clear);
  world->ports = g_array_new (FALSE, TRUE, sizeof (PsiPort));
  g_array_set_clear_func (world->ports, port_clear);
  world->transfers = g_array_new (FALSE, TRUE, sizeof (PsiTransfer));
  world->links = psi_links_new ();
  return world;
}

void
psi_world_free (PsiWorld *world)
{
  if (world == NULL)
    return;
  g_ptr_array_unref (world->programs);
  g_array_unref (world->ranks);
  g_array_unref (world->ports);
  g_array_unref (world->transfers);
  psi_links_free (world->links);
  g_free (world);
}

PsiProgram *
psi_world_add_program (PsiWorld *world, guint n_streams)
{
  PsiProgram *program = g_new0 (PsiProgram, 1);

  g_assert (n_streams >= 1 && n_streams <= PSI_MAX_STREAMS);
  program->n_streams = n_streams;
  for (guint s = 0; s < n_streams; s++)
    program->streams[s] = g_array_new (FALSE, FALSE, sizeof (PsiOp));
  program->deps = g_array_new (FALSE, FALSE, sizeof (PsiDep));
  program->deltas = g_array_new (FALSE, FALSE, sizeof (PsiDelta));
  g_ptr_array_add (world->programs, program);
  return program;
}

PsiRankId
psi_world_add_rank (PsiWorld *world, PsiProgram *program, guint weight, PsiTime offset_ps)
{
  PsiRank rank = { .program = program, .weight = weight, .offset_ps = offset_ps, .scale = 1.0 };

  rank.ports = g_array_new (FALSE, FALSE, sizeof (PsiPortId));
  g_array_append_val (world->ranks, rank);
  return world->ranks->len - 1;
}

PsiTransferId
psi_world_add_transfer (PsiWorld *world, const PsiTransfer *transfer)
{
  g_array_append_vals (world->transfers, transfer, 1);
  return world->transfers->len - 1;
}

static PsiPortId
add_port (PsiWorld *world, gboolean is_channel)
{
  PsiPort port = { .is_channel = is_channel };

  port.path = g_array_new (FALSE, FALSE, sizeof (PsiPathLink));
  g_array_append_val (world->ports, port);
  return world->ports->len - 1;
}

PsiPortId
psi_world_add_channel (PsiWorld *world)
{
  return add_port (world, TRUE);
}

PsiPortId
psi_world_add_communicator (PsiWorld *world)
{
  return add_port (world, FALSE);
}

PsiPortId
psi_world_add_desk (PsiWorld *world, PsiRankId keeper)
{
  PsiPortId port = add_port (world, FALSE);

  g_array_index (world->ports, PsiPort, port).is_desk = TRUE;
  g_array_index (world->ports, PsiPort, port).keeper = keeper;
  return port;
}

void
psi_world_add_path (PsiWorld *world, PsiPortId port, PsiLinkId link, guint tier)
{
  psi_world_add_shared_path (world, port, link, tier, 1);
}

void
psi_world_add_shared_path (PsiWorld *world, PsiPortId port, PsiLinkId link, guint tier, double share)
{
  PsiPort *owner = &g_array_index (world->ports, PsiPort, port);
  PsiPathLink step = {
    .link = link, .tier = (guint8) tier, .share = share, .member = owner->n_members > 0 ? owner->n_members - 1 : 0
  };

  g_assert (tier < PSI_MAX_TIERS);
  g_array_append_val (owner->path, step);
}

void
psi_world_bind (PsiWorld *world, PsiRankId rank, guint slot, PsiPortId port)
{
  GArray *ports = psi_world_rank (world, rank)->ports;
  const PsiPortId none = G_MAXUINT32;

  while (ports->len <= slot)
    g_array_append_val (ports, none);
  g_array_index (ports, PsiPortId, slot) = port;
  g_array_index (world->ports, PsiPort, port).n_members++;
}

static PsiOpId
append (PsiProgram *program, guint stream, const PsiOp *op)
{
  GArray *ops = program->streams[stream];

  g_assert (stream < program->n_streams && ops->len < 0xffffffu);
  g_array_append_vals (ops, op, 1);
  return PSI_OP_ID (stream, ops->len - 1);
}

PsiOpId
psi_program_work (PsiProgram *program, guint stream, PsiTime cost_ps, guint tag)
{
  PsiOp op = { .kind = PSI_OP_WORK,
               .tag = (guint8) tag,
               .cost_ps = MAX (cost_ps, 0),
               .first_dep = PSI_CHAIN_END,
               .first_delta = PSI_CHAIN_END,
               .label = { -1, -1, -1 } };

  return append (program, stream, &op);
}

PsiOpId
psi_program_message (PsiProgram *program, guint stream, PsiOpKind kind, guint slot, PsiTransferId transfer, guint tag)
{
  PsiOp op = { .kind = (guint8) kind,
               .tag = (guint8) tag,
               .slot = slot,
               .transfer = transfer,
               .first_dep = PSI_CHAIN_END,
               .first_delta = PSI_CHAIN_END,
               .label = { -1, -1, -1 } };

  g_assert (kind != PSI_OP_WORK && kind != PSI_OP_SERVE);
  return append (program, stream, &op);
}

PsiOpId
psi_program_serve (PsiProgram *program, guint stream, guint slot, guint subject, PsiTime cost_ps, guint tag)
{
  PsiOp op = { .kind = PSI_OP_SERVE,
               .tag = (guint8) tag,
               .slot = slot,
               .transfer = subject,
               .cost_ps = MAX (cost_ps, 0),
               .first_dep = PSI_CHAIN_END,
               .first_delta = PSI_CHAIN_END,
               .label = { -1, -1, -1 } };

  program->serves = TRUE;
  return append (program, stream, &op);
}

void
psi_program_after (PsiProgram *program, PsiOpId op, PsiOpId before, guint distance)
{
  PsiOp *waiting = psi_program_op (program, op);
  PsiDep dep = { .op = before, .distance = distance, .next = waiting->first_dep };

  if (before == PSI_OP_NONE)
    return;
  /* A stream is in order already. */
  if (PSI_OP_STREAM (op) == PSI_OP_STREAM (before) && (distance > 0 || before < op))
    return;
  g_array_append_val (program->deps, dep);
  waiting->first_dep = program->deps->len - 1;
  program->max_distance = MAX (program->max_distance, distance);
}

void
psi_program_delta (PsiProgram *program, PsiOpId op, gboolean at_end, guint memory_class, gint64 bytes)
{
  PsiOp *owner = psi_program_op (program, op);
  PsiDelta delta = {
    .bytes = bytes, .memory_class = (guint8) memory_class, .at_end = at_end != FALSE, .next = owner->first_delta
  };

  g_assert (memory_class < PSI_MAX_CLASSES);
  if (bytes == 0)
    return;
  g_array_append_val (program->deltas, delta);
  owner->first_delta = program->deltas->len - 1;
}

void
psi_program_skip (PsiProgram *program, PsiOpId op, guint iterations)
{
  g_assert (iterations <= G_MAXUINT8);
  psi_program_op (program, op)->skip = (guint8) iterations;
  program->max_distance = MAX (program->max_distance, iterations);
  program->skips = program->skips || iterations > 0;
}

void
psi_program_shift (PsiProgram *program, PsiOpId op, int iterations)
{
  g_assert (iterations >= G_MININT8 && iterations <= G_MAXINT8);
  psi_program_op (program, op)->shift = (gint8) iterations;
}

void
psi_program_label (PsiProgram *program, PsiOpId op, gint32 first, gint32 second)
{
  PsiOp *labelled = psi_program_op (program, op);

  labelled->label[0] = first;
  labelled->label[1] = second;
}

guint
psi_program_n_ops (const PsiProgram *program)
{
  guint n = 0;

  for (guint s = 0; s < program->n_streams; s++)
    n += program->streams[s]->len;
  return n;
}

gboolean
psi_program_same_memory (const PsiProgram *program, const PsiOp *a, const PsiOp *b)
{
  guint32 d = a->first_delta, e = b->first_delta;

  while (d != PSI_CHAIN_END && e != PSI_CHAIN_END)
    {
      const PsiDelta *x = &g_array_index (program->deltas, PsiDelta, d),
                     *y = &g_array_index (program->deltas, PsiDelta, e);

      if (x->bytes != y->bytes || x->memory_class != y->memory_class || x->at_end != y->at_end)
        return FALSE;
      d = x->next;
      e = y->next;
    }
  return d == e;
}
