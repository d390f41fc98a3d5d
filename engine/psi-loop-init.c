/* SPDX-License-Identifier: MIT */
/* A world made ready for the loop: streams, ports, and which ports are alone on their links. */
#include "psi-loop.h"

#include "psi-pace.h"

#include <string.h>

G_DEFINE_QUARK (psi - run - error - quark, psi_run_error)

void
psi_loop_clear (PsiLoop *loop)
{
  g_free (loop->meetings);
  g_free (loop->heads);
  g_free (loop->rings);
  psi_pace_clear (loop);
  free (loop->streams);
  g_free (loop->details);
  g_free (loop->first_stream);
  g_free (loop->ready);
  g_free (loop->uses);
  g_clear_pointer (&loop->held, g_array_unref);
  g_clear_pointer (&loop->queue, psi_queue_free);
  if (loop->world != NULL)
    psi_links_reset (loop->world->links);
}

#define SLOT_IN_USE (1u << PSI_MAX_TIERS)

/* For each slot of a program SLOT_IN_USE, if an op names it, and a bit for each tier that its transfers load. */
static GArray *
tiers_of_slots (const PsiLoop *loop, const PsiProgram *program)
{
  GArray *slots = g_array_new (FALSE, TRUE, sizeof (guint32));

  for (guint s = 0; s < program->n_streams; s++)
    for (guint i = 0; i < program->streams[s]->len; i++)
      {
        const PsiOp *op = &g_array_index (program->streams[s], PsiOp, i);

        if (op->kind == PSI_OP_WORK)
          continue;
        if (op->slot >= slots->len)
          g_array_set_size (slots, op->slot + 1);
        g_array_index (slots, guint32, op->slot) |= SLOT_IN_USE;
        if (op->kind == PSI_OP_SERVE)
          continue;
        for (guint tier = 0; tier < PSI_MAX_TIERS; tier++)
          if (loop->transfers[op->transfer].bytes > 0 && loop->transfers[op->transfer].weights[tier] > 0)
            g_array_index (slots, guint32, op->slot) |= 1u << tier;
      }
  return slots;
}

/* The tiers that each port loads. FALSE: an op names a slot that is bound to no port. */
static gboolean
tiers_of_ports (const PsiLoop *loop, guint32 *tiers, GError **error)
{
  g_autoptr (GHashTable) programs = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_array_unref);

  for (guint p = 0; p < loop->world->programs->len; p++)
    {
      PsiProgram *program = g_ptr_array_index (loop->world->programs, p);

      g_hash_table_insert (programs, program, tiers_of_slots (loop, program));
    }
  for (guint r = 0; r < loop->world->ranks->len; r++)
    {
      const PsiRank *rank = psi_world_rank (loop->world, r);
      const GArray *slots = g_hash_table_lookup (programs, rank->program);

      for (guint slot = 0; slot < slots->len; slot++)
        {
          PsiPortId port = slot < rank->ports->len ? g_array_index (rank->ports, PsiPortId, slot) : G_MAXUINT32;

          if (port != G_MAXUINT32)
            tiers[port] |= g_array_index (slots, guint32, slot);
          else if (g_array_index (slots, guint32, slot) != 0)
            {
              g_set_error (error, PSI_RUN_ERROR, PSI_RUN_ERROR_UNMATCHED, "rank %u: slot %u has no port", r, slot);
              return FALSE;
            }
        }
    }
  return TRUE;
}

static gboolean
prepare_ports (PsiLoop *loop, GError **error)
{
  const GArray *ports = loop->world->ports;
  g_autofree guint32 *n_users = g_new0 (guint32, psi_links_n_links (loop->world->links) + 1);
  g_autofree guint32 *tiers = g_new0 (guint32, ports->len + 1);
  gsize n_heads = 0;
  guint longest = 0;

  if (!tiers_of_ports (loop, tiers, error))
    return FALSE;
  for (guint p = 0; p < ports->len; p++)
    {
      const PsiPort *port = &g_array_index (ports, PsiPort, p);

      if (port->is_channel && port->n_members != 2)
        {
          g_set_error (error, PSI_RUN_ERROR, PSI_RUN_ERROR_UNMATCHED, "channel %u joins %u ranks, not 2", p,
                       port->n_members);
          return FALSE;
        }
      n_heads += port->n_members;
      longest = MAX (longest, port->path->len);
      for (guint i = 0; i < port->path->len; i++)
        n_users[g_array_index (port->path, PsiPathLink, i).link] +=
            tiers[p] >> g_array_index (port->path, PsiPathLink, i).tier & 1;
    }
  loop->meetings = g_new0 (PsiMeeting, MAX (ports->len, 1));
  loop->heads = g_new (guint32, MAX (n_heads, 1));
  loop->uses = g_new (PsiLinkUse, MAX (longest, 1));
  for (guint t = 0; t < loop->world->transfers->len && loop->rings == NULL; t++)
    if (loop->transfers[t].is_ring)
      loop->rings = g_new0 (PsiRing, MAX (n_heads, 1));
  n_heads = 0;
  for (guint p = 0; p < ports->len; p++)
    {
      const PsiPort *port = &g_array_index (ports, PsiPort, p);
      PsiMeeting *meeting = &loop->meetings[p];

      meeting->n_members = port->n_members;
      meeting->heads = loop->heads + n_heads;
      meeting->is_alone = TRUE;
      meeting->alone_transfer = PSI_LOOP_NO_TRANSFER;
      for (guint i = 0; i < port->path->len; i++)
        {
          const PsiPathLink *step = &g_array_index (port->path, PsiPathLink, i);

          meeting->is_alone = meeting->is_alone && (!(tiers[p] >> step->tier & 1) || n_users[step->link] == 1);
        }
      n_heads += port->n_members;
    }
  return TRUE;
}

static void
prepare_streams (PsiLoop *loop, PsiRun *run)
{
  PsiWorld *world = loop->world;

  for (guint r = 0; r < world->ranks->len; r++)
    {
      const PsiRank *rank = psi_world_rank (world, r);
      gsize offset = run->first_op[r];

      for (guint s = 0; s < rank->program->n_streams; s++)
        {
          PsiStream *stream = &loop->streams[loop->first_stream[r] + s];
          PsiStreamDetail *detail = &loop->details[loop->first_stream[r] + s];

          stream->ops = (const PsiOp *) (void *) rank->program->streams[s]->data;
          stream->deps = (const PsiDep *) (void *) rank->program->deps->data;
          stream->ports = (const PsiPortId *) (void *) rank->ports->data;
          stream->length = rank->program->streams[s]->len;
          stream->index = (guint8) s;
          detail->turns = loop->pace != NULL ? loop->pace->turns + offset : NULL;
          stream->is_plain = rank->scale == 1.0 && rank->offset_ps <= 0 && loop->jitter <= 0;
          detail->rank = r;
          detail->sent_ps = PSI_TIME_MAX;
          detail->times = loop->records ? run->times + offset : NULL;
          detail->waits = loop->records && s == 0 ? run->waits + run->first_wait[r] : NULL;
          offset += stream->length;
          if (stream->length > 0)
            {
              loop->n_streams_used++;
              psi_loop_look_at (loop, loop->first_stream[r] + s);
            }
        }
    }
  for (guint i = 0; i < PSI_LOOP_AHEAD; i++)
    loop->iterations[i] = (PsiIteration){ PSI_TIME_MAX, -PSI_TIME_MAX, loop->n_streams_used };
}

gboolean
psi_loop_init (PsiLoop *loop, PsiWorld *world, PsiRun *run, const PsiRunOptions *options, GError **error)
{
  guint n_ranks = world->ranks->len;

  loop->world = world;
  loop->transfers = (const PsiTransfer *) (void *) world->transfers->data;
  loop->records = !options->no_record;
  loop->horizon = PSI_LOOP_AHEAD - 1;
  loop->jitter = options->jitter;
  loop->seed = options->seed;
  if (!prepare_ports (loop, error))
    return FALSE;
  run->first_op = g_new0 (gsize, n_ranks + 1);
  run->first_wait = g_new0 (gsize, n_ranks + 1);
  loop->first_stream = g_new0 (guint32, n_ranks + 1);
  for (guint r = 0; r < n_ranks; r++)
    {
      const PsiProgram *program = psi_world_rank (world, r)->program;

      loop->first_stream[r + 1] = loop->first_stream[r] + program->n_streams;
      run->first_op[r + 1] = run->first_op[r] + psi_program_n_ops (program);
      run->first_wait[r + 1] = run->first_wait[r] + program->streams[0]->len;
    }
  loop->n_streams = loop->first_stream[n_ranks];
  for (guint p = 0; p < world->programs->len && loop->pace == NULL; p++)
    if (((const PsiProgram *) g_ptr_array_index (world->programs, p))->serves)
      psi_pace_init (loop, run);
  gsize halves = loop->pace != NULL ? 2 : 1;
  if (loop->records)
    {
      run->times = g_new0 (PsiOpTimes, halves * run->first_op[n_ranks] + 1);
      run->waits = g_new0 (PsiOpWait, halves * run->first_wait[n_ranks] + 1);
    }
  gsize bytes = MAX (loop->n_streams, 1) * sizeof (PsiStream);
  loop->streams = aligned_alloc (sizeof (PsiStream), bytes);
  g_assert (loop->streams != NULL);
  memset (loop->streams, 0, bytes);
  loop->details = g_new0 (PsiStreamDetail, MAX (loop->n_streams, 1));
  loop->ready = g_new (guint32, MAX (loop->n_streams, 1));
  loop->held = g_array_new (FALSE, FALSE, sizeof (guint32));
  loop->queue = psi_queue_new ();
  prepare_streams (loop, run);
  return TRUE;
}
