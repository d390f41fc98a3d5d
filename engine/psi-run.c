/* SPDX-License-Identifier: MIT */
#include "psi-run.h"

#include "psi-queue.h"

#include <string.h>

G_DEFINE_QUARK (psi - run - error - quark, psi_run_error)

#define CHAIN_END G_MAXUINT32
#define RING 4 /* iterations kept: the complete one, the ones compared with it, and one that runs ahead */
#define DEFAULT_ITERATIONS 64

enum
{
  IDLE,    /* head op not yet looked at */
  BLOCKED, /* head op waits for another stream of its rank */
  POSTED,  /* message or collective waits for its partners */
  BUSY     /* work or transfer under way */
};

typedef struct
{
  const PsiOp *ops;
  PsiOpTimes *times[RING];
  guint32 length;
  guint32 position;  /* of the head op */
  guint32 iteration; /* of the head op */
  guint32 rank;
  guint64 done;    /* ops finished since the start */
  guint64 need;    /* BLOCKED: `done` of wait_on that lets it go */
  guint64 waiters; /* streams of this rank that are BLOCKED on this one */
  guint8 state, index, wait_on;
  PsiTime free_ps;   /* end of its last op */
  PsiTime moving_ps; /* of its last op, if that was a message; else PSI_TIME_MAX */
} Stream;

typedef struct
{
  guint32 posted; /* partners waiting now */
  guint32 n_heads;
  guint32 *heads;    /* their streams */
  PsiTime moving_ps; /* of the partner that came last */
} Port;

typedef struct
{
  PsiWorld *world;
  PsiQueue *queue;
  Stream *streams;
  guint32 *first_stream; /* of each rank */
  Port *ports;
  guint32 *left; /* [RING] ops of that iteration still to end, streams counted */
  guint32 n_streams_used;
  guint32 complete; /* iterations complete on all streams */
  guint32 *ready;   /* stack of streams to look at */
  guint32 n_ready;
  GArray *held; /* streams too far ahead of the slowest */
  guint64 n_events;
} Loop;

/* Keys order events of one instant: ends of work first, then latencies that are over; source numbers break ties. */
#define KEY_END(stream) ((guint64) (stream))
#define KEY_LATENCY(port) ((guint64) 1 << 40 | (port))
#define IS_LATENCY(key) ((key) >> 40 == 1)

static inline void
look_at (Loop *loop, guint32 stream)
{
  loop->ready[loop->n_ready++] = stream;
}

static void
finish_op (Loop *loop, guint32 index, PsiTime now_ps)
{
  Stream *stream = &loop->streams[index];
  PsiOpTimes *times = &stream->times[stream->iteration % RING][stream->position];
  guint32 base = loop->first_stream[stream->rank];

  times->end_ps = now_ps;
  stream->moving_ps = stream->ops[stream->position].kind == PSI_OP_WORK ? PSI_TIME_MAX : times->moving_ps;
  stream->free_ps = now_ps;
  stream->done++;
  stream->state = IDLE;
  for (guint64 left = stream->waiters; left != 0; left &= left - 1)
    {
      guint32 waiter = base + (guint32) __builtin_ctzll (left);

      if (loop->streams[waiter].need <= stream->done)
        {
          stream->waiters &= ~(G_GUINT64_CONSTANT (1) << loop->streams[waiter].index);
          loop->streams[waiter].state = IDLE;
          look_at (loop, waiter);
        }
    }
  if (++stream->position == stream->length)
    {
      loop->left[stream->iteration % RING]--;
      stream->position = 0;
      stream->iteration++;
    }
  look_at (loop, index);
}

/* All partners of a port are there: start its latency, then its flow. */
static void
start_transfer (Loop *loop, PsiPortId id, PsiTime now_ps)
{
  Port *port = &loop->ports[id];
  const Stream *first = &loop->streams[port->heads[0]];
  const PsiTransfer *transfer =
      &g_array_index (loop->world->transfers, PsiTransfer, first->ops[first->position].transfer);

  for (guint32 i = 0; i < port->n_heads; i++)
    {
      Stream *stream = &loop->streams[port->heads[i]];
      PsiOpTimes *times = &stream->times[stream->iteration % RING][stream->position];

      stream->state = BUSY;
      times->start_ps = now_ps;
      times->moving_ps = MIN (port->moving_ps, now_ps);
    }
  psi_queue_push (loop->queue, (PsiEvent){ psi_time_add (now_ps, transfer->latency_ps), KEY_LATENCY (id) });
}

static void
end_transfer (Loop *loop, PsiPortId id, PsiTime now_ps)
{
  Port *port = &loop->ports[id];
  guint32 n = port->posted;

  port->posted = 0;
  for (guint32 i = 0; i < n; i++)
    finish_op (loop, port->heads[i], now_ps);
}

/* Latency is over: put the bytes on the links. */
static void
start_flow (Loop *loop, PsiPortId id, PsiTime now_ps)
{
  Port *port = &loop->ports[id];
  const PsiPort *shape = &g_array_index (loop->world->ports, PsiPort, id);
  const Stream *first = &loop->streams[port->heads[0]];
  const PsiTransfer *transfer =
      &g_array_index (loop->world->transfers, PsiTransfer, first->ops[first->position].transfer);
  PsiLinkUse uses_local[64];
  PsiLinkUse *uses = shape->path->len <= G_N_ELEMENTS (uses_local) ? uses_local : g_new (PsiLinkUse, shape->path->len);
  guint n = 0;

  if (transfer->bytes > 0)
    for (guint i = 0; i < shape->path->len; i++)
      {
        const PsiPathLink *step = &g_array_index (shape->path, PsiPathLink, i);

        if (transfer->weights[step->tier] > 0)
          uses[n++] = (PsiLinkUse){ step->link, transfer->weights[step->tier] };
      }
  if (transfer->bytes == 0 || (n == 0 && isinf (transfer->cap_bytes_per_s)))
    end_transfer (loop, id, now_ps);
  else
    psi_links_start (loop->world->links, now_ps, transfer->bytes, transfer->cap_bytes_per_s, uses, n, id);
  if (uses != uses_local)
    g_free (uses);
}

/* Look at the head op of a stream: start it, post it, or note what it waits for. */
static void
try_head (Loop *loop, guint32 index, PsiTime now_ps)
{
  Stream *stream = &loop->streams[index];
  const PsiRank *rank = psi_world_rank (loop->world, stream->rank);
  guint32 base = loop->first_stream[stream->rank];
  PsiTime moving_ps = PSI_TIME_MAX;
  PsiOpId released_by = PSI_OP_NONE;

  if (stream->state != IDLE || stream->length == 0)
    return;
  if (stream->iteration >= loop->complete + RING - 1)
    {
      g_array_append_val (loop->held, index);
      return;
    }
  const PsiOp *op = &stream->ops[stream->position];
  for (guint32 d = op->first_dep; d != CHAIN_END;)
    {
      const PsiDep *dep = &g_array_index (rank->program->deps, PsiDep, d);
      Stream *before = &loop->streams[base + PSI_OP_STREAM (dep->op)];

      d = dep->next;
      if (dep->distance > stream->iteration)
        continue;
      guint64 need = (guint64) (stream->iteration - dep->distance) * before->length + PSI_OP_POSITION (dep->op) + 1;
      if (before->done < need)
        {
          stream->state = BLOCKED;
          stream->need = need;
          stream->wait_on = before->index;
          before->waiters |= G_GUINT64_CONSTANT (1) << stream->index;
          return;
        }
      /* The op that ended just now is the one that let this one go. */
      if (before->done == need && before->free_ps == now_ps && before->free_ps > stream->free_ps)
        {
          released_by = dep->op;
          moving_ps = MIN (moving_ps, before->moving_ps);
        }
    }
  if (stream->position == 0 && stream->iteration == 0 && now_ps < rank->offset_ps)
    {
      stream->state = BUSY;
      psi_queue_push (loop->queue, (PsiEvent){ rank->offset_ps, KEY_END (index) });
      return;
    }

  PsiOpTimes *times = &stream->times[stream->iteration % RING][stream->position];
  if (released_by == PSI_OP_NONE && stream->free_ps == now_ps)
    moving_ps = stream->moving_ps;
  times->post_ps = now_ps;
  times->start_ps = now_ps;
  times->moving_ps = moving_ps;
  times->released_by = released_by;
  loop->n_events++;
  if (op->kind == PSI_OP_WORK)
    {
      PsiTime cost_ps = rank->scale == 1.0 ? op->cost_ps : (PsiTime) llrint ((double) op->cost_ps * rank->scale);

      stream->state = BUSY;
      if (cost_ps == 0)
        finish_op (loop, index, now_ps);
      else
        psi_queue_push (loop->queue, (PsiEvent){ psi_time_add (now_ps, cost_ps), KEY_END (index) });
      return;
    }
  PsiPortId id = g_array_index (rank->ports, PsiPortId, op->slot);
  const PsiPort *shape = &g_array_index (loop->world->ports, PsiPort, id);
  Port *port = &loop->ports[id];
  if (stream->iteration < op->skip)
    {
      finish_op (loop, index, now_ps);
      return;
    }
  stream->state = POSTED;
  port->heads[port->posted++] = index;
  port->moving_ps = moving_ps; /* the last to come decides */
  if (port->posted == shape->n_members)
    {
      port->n_heads = port->posted;
      start_transfer (loop, id, now_ps);
    }
}

static char *
describe_waiting (const Loop *loop)
{
  GString *text = g_string_new ("deadlock: ");
  guint shown = 0;

  for (guint r = 0; r < loop->world->ranks->len && shown < 4; r++)
    for (guint32 i = loop->first_stream[r]; i < loop->first_stream[r + 1] && shown < 4; i++)
      {
        const Stream *stream = &loop->streams[i];

        if (stream->state != BLOCKED && stream->state != POSTED)
          continue;
        const PsiOp *op = &stream->ops[stream->position];
        g_string_append_printf (text, "%srank %u stream %u op %u (step %u)", shown > 0 ? "; " : "", r, stream->index,
                                stream->position, stream->iteration);
        if (stream->state == BLOCKED)
          g_string_append_printf (text, " waits for stream %u", stream->wait_on);
        else
          g_string_append_printf (text, " waits for its partner in a %s",
                                  op->kind == PSI_OP_SEND   ? "send"
                                  : op->kind == PSI_OP_RECV ? "receive"
                                                            : "collective");
        shown++;
      }
  if (shown == 0)
    g_string_append (text, "bytes wait on a link that carries nothing");
  return g_string_free (text, FALSE);
}

/* Is the iteration `last` exactly `gap` iterations' shift of the one before it? */
static gboolean
same_shift (const Loop *loop, const PsiRun *run, PsiOpTimes *const *rings, guint32 last, guint32 gap,
            PsiTime *ret_shift)
{
  const PsiOpTimes *now = rings[last % RING], *before = rings[(last - gap) % RING];
  gsize n = run->first_op[loop->world->ranks->len];
  PsiTime shift = n > 0 ? now[0].end_ps - before[0].end_ps : 0;

  for (gsize i = 0; i < n; i++)
    if (now[i].end_ps - before[i].end_ps != shift || now[i].start_ps - before[i].start_ps != shift)
      return FALSE;
  *ret_shift = shift;
  return TRUE;
}

/* Run until `complete` has grown by one. FALSE: deadlock. */
static gboolean
run_iteration (Loop *loop, PsiTime *now_ps)
{
  guint32 target = loop->complete + 1;

  for (;;)
    {
      while (loop->n_ready > 0)
        try_head (loop, loop->ready[--loop->n_ready], *now_ps);
      if (loop->left[(target - 1) % RING] == 0)
        {
          loop->complete = target;
          return TRUE;
        }

      PsiTime event_ps = psi_queue_next_ps (loop->queue);
      PsiTime flow_ps = psi_links_next_ps (loop->world->links);
      PsiTime next_ps = MIN (event_ps, flow_ps);
      if (next_ps >= PSI_TIME_MAX)
        return FALSE;
      *now_ps = next_ps;
      guint64 cookie;
      while (psi_links_pop (loop->world->links, next_ps, &cookie))
        end_transfer (loop, (PsiPortId) cookie, next_ps);
      while (psi_queue_next_ps (loop->queue) == next_ps)
        {
          PsiEvent event;

          psi_queue_pop (loop->queue, &event);
          loop->n_events++;
          if (IS_LATENCY (event.key))
            start_flow (loop, (PsiPortId) (event.key & G_MAXUINT32), next_ps);
          else
            {
              Stream *stream = &loop->streams[event.key];
              /* A rank's offset is over, or its op is. */
              if (stream->done == 0 && stream->position == 0 &&
                  next_ps == psi_world_rank (loop->world, stream->rank)->offset_ps && stream->times[0][0].post_ps < 0)
                {
                  stream->state = IDLE;
                  look_at (loop, (guint32) event.key);
                }
              else
                finish_op (loop, (guint32) event.key, next_ps);
            }
        }
    }
}

static void
loop_clear (Loop *loop)
{
  if (loop->ports != NULL)
    for (guint i = 0; i < loop->world->ports->len; i++)
      g_free (loop->ports[i].heads);
  g_free (loop->ports);
  g_free (loop->streams);
  g_free (loop->first_stream);
  g_free (loop->left);
  g_free (loop->ready);
  g_clear_pointer (&loop->held, g_array_unref);
  g_clear_pointer (&loop->queue, psi_queue_free);
  psi_links_reset (loop->world->links);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Loop, loop_clear)

static gboolean
prepare (Loop *loop, PsiRun *run, PsiOpTimes **rings, GError **error)
{
  PsiWorld *world = loop->world;
  guint n_ranks = world->ranks->len, n_streams = 0;

  run->first_op = g_new (gsize, n_ranks + 1);
  loop->first_stream = g_new (guint32, n_ranks + 1);
  run->first_op[0] = 0;
  for (guint r = 0; r < n_ranks; r++)
    {
      const PsiProgram *program = psi_world_rank (world, r)->program;

      loop->first_stream[r] = n_streams;
      n_streams += program->n_streams;
      run->first_op[r + 1] = run->first_op[r] + psi_program_n_ops (program);
    }
  loop->first_stream[n_ranks] = n_streams;
  for (guint i = 0; i < RING; i++)
    {
      rings[i] = g_new0 (PsiOpTimes, run->first_op[n_ranks] + 1);
      rings[i][0].post_ps = -1;
    }
  loop->streams = g_new0 (Stream, n_streams);
  loop->ready = g_new (guint32, (gsize) n_streams * 3 + 64);
  loop->held = g_array_new (FALSE, FALSE, sizeof (guint32));
  loop->left = g_new0 (guint32, RING);
  loop->ports = g_new0 (Port, world->ports->len);
  loop->queue = psi_queue_new ();
  for (guint p = 0; p < world->ports->len; p++)
    {
      const PsiPort *port = &g_array_index (world->ports, PsiPort, p);

      if (port->is_channel && port->n_members != 2)
        {
          g_set_error (error, PSI_RUN_ERROR, PSI_RUN_ERROR_UNMATCHED, "channel %u joins %u ranks, not 2", p,
                       port->n_members);
          return FALSE;
        }
      loop->ports[p].heads = g_new (guint32, MAX (port->n_members, 1));
    }
  for (guint r = 0; r < n_ranks; r++)
    {
      const PsiProgram *program = psi_world_rank (world, r)->program;
      gsize offset = run->first_op[r];

      for (guint s = 0; s < program->n_streams; s++)
        {
          Stream *stream = &loop->streams[loop->first_stream[r] + s];

          stream->ops = (const PsiOp *) (void *) program->streams[s]->data;
          stream->length = program->streams[s]->len;
          stream->rank = r;
          stream->index = (guint8) s;
          stream->free_ps = 0;
          stream->moving_ps = PSI_TIME_MAX;
          for (guint i = 0; i < RING; i++)
            {
              stream->times[i] = rings[i] + offset;
              if (stream->length > 0)
                stream->times[i][0].post_ps = -1;
            }
          offset += stream->length;
          if (stream->length > 0)
            {
              loop->n_streams_used++;
              look_at (loop, loop->first_stream[r] + s);
            }
        }
    }
  for (guint i = 0; i < RING; i++)
    loop->left[i] = loop->n_streams_used;
  return TRUE;
}

PsiRun *
psi_run (PsiWorld *world, const PsiRunOptions *options, GError **error)
{
  g_autoptr (PsiRun) run = g_new0 (PsiRun, 1);
  g_auto (Loop) loop = { .world = world };
  PsiOpTimes *rings[RING] = { NULL };
  PsiTime now_ps = 0, shift_ps = 0, middle_ps = 0;
  guint32 max_distance = 1, matches = 0;

  guint32 limit = options != NULL && options->max_iterations > 0 ? options->max_iterations : DEFAULT_ITERATIONS;

  psi_links_reset (world->links);
  for (guint p = 0; p < world->programs->len; p++)
    max_distance = MAX (max_distance, ((PsiProgram *) g_ptr_array_index (world->programs, p))->max_distance);
  gboolean ok = prepare (&loop, run, rings, error);
  while (ok && loop.complete < limit)
    {
      ok = run_iteration (&loop, &now_ps);
      if (!ok)
        {
          g_autofree char *waiting = describe_waiting (&loop);

          g_set_error (error, PSI_RUN_ERROR, now_ps >= PSI_TIME_MAX ? PSI_RUN_ERROR_TIME : PSI_RUN_ERROR_DEADLOCK, "%s",
                       waiting);
          break;
        }
      guint32 last = loop.complete - 1;
      if (last == (limit - 1) / 2)
        middle_ps = now_ps;
      if (last > 0 && same_shift (&loop, run, rings, last, 1, &shift_ps))
        matches++;
      else
        matches = 0;
      if (matches >= max_distance && !(options != NULL && options->no_jump))
        break;
      loop.left[last % RING] = loop.n_streams_used;
      for (guint i = 0; i < loop.held->len; i++)
        look_at (&loop, g_array_index (loop.held, guint32, i));
      g_array_set_size (loop.held, 0);
    }
  if (ok)
    {
      guint32 last = loop.complete - 1;

      run->periodic = matches >= max_distance || loop.complete == 1;
      run->period_ps = run->periodic && loop.complete > 1 ? shift_ps
                       : loop.complete > 1                ? (now_ps - middle_ps) / MAX (1, last - (limit - 1) / 2)
                                                          : now_ps;
      run->iterations = loop.complete;
      run->n_events = loop.n_events;
      run->times = g_steal_pointer (&rings[last % RING]);
    }
  for (guint i = 0; i < RING; i++)
    g_free (rings[i]);
  return ok ? g_steal_pointer (&run) : NULL;
}

void
psi_run_free (PsiRun *run)
{
  if (run == NULL)
    return;
  g_free (run->first_op);
  g_free (run->times);
  g_free (run);
}

const PsiOpTimes *
psi_run_times (const PsiRun *run, const PsiWorld *world, PsiRankId rank, PsiOpId op)
{
  const PsiProgram *program = psi_world_rank (world, rank)->program;
  gsize offset = run->first_op[rank];

  for (guint s = 0; s < PSI_OP_STREAM (op); s++)
    offset += program->streams[s]->len;
  return &run->times[offset + PSI_OP_POSITION (op)];
}
