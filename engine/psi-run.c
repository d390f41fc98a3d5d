/* SPDX-License-Identifier: MIT */
#include "psi-run.h"

#include "psi-queue.h"

#include <math.h>
#include <string.h>

G_DEFINE_QUARK (psi - run - error - quark, psi_run_error)

#define CHAIN_END G_MAXUINT32
#define AHEAD 4 /* iterations under way at once: the slowest stream's and those that run ahead */
#define DEFAULT_ITERATIONS 64
/* Ranks that run at different paces until the slack between them is used up may need many more. */
#define MOST_ITERATIONS 16384
#define MOST_EVENTS 2000000

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
  PsiOpTimes *times; /* of its ops; NULL: not recorded */
  PsiOpWait *waits;  /* stream 0 only */
  guint64 done;      /* ops finished since the start */
  guint64 need;      /* BLOCKED: `done` of another stream that lets it go */
  guint64 waiters;   /* streams of this rank that are BLOCKED on this one */
  PsiTime free_ps;   /* end of its last op */
  PsiTime sent_ps;   /* since when that op's bytes were moving, if it was a message; else PSI_TIME_MAX */
  PsiTime start_ps;  /* head op, BUSY */
  PsiOpWait wait;    /* head op */
  guint32 length;
  guint32 position;  /* of the head op */
  guint32 iteration; /* of the head op */
  guint32 rank;
  guint8 state, index;
} Stream;

typedef struct
{
  guint32 posted; /* partners waiting now */
  guint32 n_members;
  guint32 *heads;    /* [n_members] their streams */
  PsiTime moving_ps; /* of the partner that came last */
} Port;

/* How far an iteration lies after the one before, over all ops that have ended in it. */
typedef struct
{
  PsiTime least_ps, most_ps;
  guint32 left; /* streams that have not ended it */
} Iteration;

typedef struct
{
  PsiWorld *world;
  PsiQueue *queue;
  Stream *streams;
  guint32 *first_stream; /* of each rank */
  Port *ports;
  guint32 *heads;
  Iteration iterations[AHEAD];
  guint32 n_streams_used;
  guint32 complete; /* iterations complete on all streams */
  guint32 *ready;   /* stack of streams to look at */
  guint32 n_ready;
  GArray *held;     /* streams too far ahead of the slowest */
  PsiLinkUse *uses; /* room for one flow */
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

static inline void
record (Loop *loop, Stream *stream, PsiTime now_ps)
{
  PsiOpTimes *times = &stream->times[stream->position];

  if (stream->iteration > 0)
    {
      Iteration *iteration = &loop->iterations[stream->iteration % AHEAD];
      PsiTime start_shift_ps = stream->start_ps - times->start_ps, end_shift_ps = now_ps - times->end_ps;

      iteration->least_ps = MIN (iteration->least_ps, MIN (start_shift_ps, end_shift_ps));
      iteration->most_ps = MAX (iteration->most_ps, MAX (start_shift_ps, end_shift_ps));
    }
  times->start_ps = stream->start_ps;
  times->end_ps = now_ps;
  if (stream->waits != NULL)
    stream->waits[stream->position] = stream->wait;
}

static inline void
finish_op (Loop *loop, guint32 index, PsiTime now_ps)
{
  Stream *stream = &loop->streams[index];
  guint32 base = loop->first_stream[stream->rank];

  if (stream->times != NULL)
    record (loop, stream, now_ps);
  stream->sent_ps = stream->ops[stream->position].kind == PSI_OP_WORK ? PSI_TIME_MAX : stream->wait.moving_ps;
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
      loop->iterations[stream->iteration % AHEAD].left--;
      stream->position = 0;
      stream->iteration++;
    }
  look_at (loop, index);
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

static inline const PsiTransfer *
transfer_of (const Loop *loop, const Port *port)
{
  const Stream *first = &loop->streams[port->heads[0]];

  return &g_array_index (loop->world->transfers, PsiTransfer, first->ops[first->position].transfer);
}

/* Latency is over: put the bytes on the links. */
static void
start_flow (Loop *loop, PsiPortId id, PsiTime now_ps)
{
  const PsiPort *shape = &g_array_index (loop->world->ports, PsiPort, id);
  const PsiTransfer *transfer = transfer_of (loop, &loop->ports[id]);
  guint n = 0;

  for (guint i = 0; i < shape->path->len && transfer->bytes > 0; i++)
    {
      const PsiPathLink *step = &g_array_index (shape->path, PsiPathLink, i);

      if (transfer->weights[step->tier] > 0)
        loop->uses[n++] = (PsiLinkUse){ step->link, transfer->weights[step->tier] };
    }
  if (transfer->bytes == 0 || (n == 0 && isinf (transfer->cap_bytes_per_s)))
    end_transfer (loop, id, now_ps);
  else
    psi_links_start (loop->world->links, now_ps, transfer->bytes, transfer->cap_bytes_per_s, loop->uses, n, id);
}

/* All partners of a port are there: its latency begins, then its flow. */
static void
start_transfer (Loop *loop, PsiPortId id, PsiTime now_ps)
{
  Port *port = &loop->ports[id];
  PsiTime latency_ps = transfer_of (loop, port)->latency_ps;

  for (guint32 i = 0; i < port->posted; i++)
    {
      Stream *stream = &loop->streams[port->heads[i]];

      stream->state = BUSY;
      stream->start_ps = now_ps;
      stream->wait.moving_ps = MIN (port->moving_ps, now_ps);
    }
  if (latency_ps == 0)
    start_flow (loop, id, now_ps);
  else
    psi_queue_push (loop->queue, (PsiEvent){ psi_time_add (now_ps, latency_ps), KEY_LATENCY (id) });
}

/* Look at the head op of a stream: start it, post it, or note what it waits for. */
static void
try_head (Loop *loop, guint32 index, PsiTime now_ps)
{
  Stream *stream = &loop->streams[index];
  const PsiRank *rank = psi_world_rank (loop->world, stream->rank);
  guint32 base = loop->first_stream[stream->rank];
  const PsiOp *op = &stream->ops[stream->position];
  PsiTime moving_ps = PSI_TIME_MAX;
  PsiOpId released_by = PSI_OP_NONE;

  if (stream->state != IDLE || stream->length == 0)
    return;
  if (stream->iteration >= loop->complete + AHEAD - 1)
    {
      g_array_append_val (loop->held, index);
      return;
    }
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
          before->waiters |= G_GUINT64_CONSTANT (1) << stream->index;
          return;
        }
      /* The op that ended just now is the one that let this one go. */
      if (before->done == need && before->free_ps == now_ps && before->free_ps > stream->free_ps)
        {
          released_by = dep->op;
          moving_ps = MIN (moving_ps, before->sent_ps);
        }
    }
  if (now_ps < rank->offset_ps && stream->done == 0)
    {
      stream->state = BUSY;
      stream->start_ps = -1; /* not an op: its end is the rank's first moment */
      psi_queue_push (loop->queue, (PsiEvent){ rank->offset_ps, KEY_END (index) });
      return;
    }

  if (released_by == PSI_OP_NONE && stream->free_ps == now_ps)
    moving_ps = stream->sent_ps;
  stream->start_ps = now_ps;
  stream->wait = (PsiOpWait){ now_ps, moving_ps, PSI_TIME_MAX, released_by };
  loop->n_events++;
  if (op->kind == PSI_OP_WORK)
    {
      PsiTime cost_ps = rank->scale == 1.0 ? op->cost_ps : psi_time_from_s (psi_time_to_s (op->cost_ps) * rank->scale);

      stream->state = BUSY;
      if (cost_ps == 0)
        finish_op (loop, index, now_ps);
      else
        psi_queue_push (loop->queue, (PsiEvent){ psi_time_add (now_ps, cost_ps), KEY_END (index) });
      return;
    }
  if (stream->iteration < op->skip)
    {
      finish_op (loop, index, now_ps);
      return;
    }
  PsiPortId id = g_array_index (rank->ports, PsiPortId, op->slot);
  Port *port = &loop->ports[id];
  stream->state = POSTED;
  port->heads[port->posted++] = index;
  port->moving_ps = moving_ps; /* the last to come decides */
  if (port->posted == port->n_members)
    start_transfer (loop, id, now_ps);
}

static char *
describe_waiting (const Loop *loop)
{
  GString *text = g_string_new ("deadlock: ");
  static const char *const partners[] = {
    [PSI_OP_SEND] = "send", [PSI_OP_RECV] = "receive", [PSI_OP_COLLECTIVE] = "collective"
  };
  guint shown = 0;

  for (guint r = 0; r < loop->world->ranks->len && shown < 4; r++)
    for (guint32 i = loop->first_stream[r]; i < loop->first_stream[r + 1] && shown < 4; i++)
      {
        const Stream *stream = &loop->streams[i];

        if (stream->state != BLOCKED && stream->state != POSTED)
          continue;
        g_string_append_printf (text, "%srank %u stream %u op %u (step %u)", shown > 0 ? "; " : "", r, stream->index,
                                stream->position, stream->iteration);
        if (stream->state == POSTED)
          g_string_append_printf (text, " waits for its partner in a %s", partners[stream->ops[stream->position].kind]);
        else
          for (guint32 j = loop->first_stream[r]; j < loop->first_stream[r + 1]; j++)
            if (loop->streams[j].waiters >> stream->index & 1)
              g_string_append_printf (text, " waits for stream %u", loop->streams[j].index);
        shown++;
      }
  if (shown == 0)
    g_string_append (text, "bytes wait on a link that carries nothing");
  return g_string_free (text, FALSE);
}

/* All events of one instant. */
static void
step_clock (Loop *loop, PsiTime now_ps)
{
  guint64 cookie;

  while (psi_links_pop (loop->world->links, now_ps, &cookie))
    {
      loop->n_events++;
      end_transfer (loop, (PsiPortId) cookie, now_ps);
    }
  while (psi_queue_next_ps (loop->queue) == now_ps)
    {
      PsiEvent event;

      psi_queue_pop (loop->queue, &event);
      loop->n_events++;
      if (IS_LATENCY (event.key))
        start_flow (loop, (PsiPortId) (event.key & G_MAXUINT32), now_ps);
      else if (loop->streams[event.key].start_ps < 0)
        {
          loop->streams[event.key].state = IDLE;
          look_at (loop, (guint32) event.key);
        }
      else
        finish_op (loop, (guint32) event.key, now_ps);
    }
}

/* Run until `complete` has grown by one. FALSE: nothing can happen any more. */
static gboolean
run_iteration (Loop *loop, PsiTime *now_ps)
{
  for (;;)
    {
      while (loop->n_ready > 0)
        try_head (loop, loop->ready[--loop->n_ready], *now_ps);
      if (loop->iterations[loop->complete % AHEAD].left == 0)
        {
          loop->complete++;
          return TRUE;
        }
      PsiTime next_ps = MIN (psi_queue_next_ps (loop->queue), psi_links_next_ps (loop->world->links));
      if (next_ps >= PSI_TIME_MAX)
        return FALSE;
      *now_ps = next_ps;
      step_clock (loop, next_ps);
    }
}

static void
loop_clear (Loop *loop)
{
  g_free (loop->ports);
  g_free (loop->heads);
  g_free (loop->streams);
  g_free (loop->first_stream);
  g_free (loop->ready);
  g_free (loop->uses);
  g_clear_pointer (&loop->held, g_array_unref);
  g_clear_pointer (&loop->queue, psi_queue_free);
  psi_links_reset (loop->world->links);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Loop, loop_clear)

static gboolean
prepare_ports (Loop *loop, GError **error)
{
  const GArray *ports = loop->world->ports;
  gsize n_heads = 0;
  guint longest = 0;

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
    }
  loop->ports = g_new0 (Port, ports->len);
  loop->heads = g_new (guint32, MAX (n_heads, 1));
  loop->uses = g_new (PsiLinkUse, MAX (longest, 1));
  n_heads = 0;
  for (guint p = 0; p < ports->len; p++)
    {
      loop->ports[p].n_members = g_array_index (ports, PsiPort, p).n_members;
      loop->ports[p].heads = loop->heads + n_heads;
      n_heads += loop->ports[p].n_members;
    }
  return TRUE;
}

static void
prepare_streams (Loop *loop, PsiRun *run, gboolean record_times)
{
  PsiWorld *world = loop->world;
  guint n_ranks = world->ranks->len;
  guint32 n_streams = 0;

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
  n_streams = loop->first_stream[n_ranks];
  if (record_times)
    {
      run->times = g_new0 (PsiOpTimes, run->first_op[n_ranks] + 1);
      run->waits = g_new0 (PsiOpWait, run->first_wait[n_ranks] + 1);
    }
  loop->streams = g_new0 (Stream, MAX (n_streams, 1));
  loop->ready = g_new (guint32, (gsize) n_streams * 3 + 64);
  loop->held = g_array_new (FALSE, FALSE, sizeof (guint32));
  loop->queue = psi_queue_new ();
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
          stream->sent_ps = PSI_TIME_MAX;
          stream->times = record_times ? run->times + offset : NULL;
          stream->waits = record_times && s == 0 ? run->waits + run->first_wait[r] : NULL;
          offset += stream->length;
          if (stream->length > 0)
            {
              loop->n_streams_used++;
              look_at (loop, loop->first_stream[r] + s);
            }
        }
    }
  for (guint i = 0; i < AHEAD; i++)
    loop->iterations[i] = (Iteration){ PSI_TIME_MAX, -PSI_TIME_MAX, loop->n_streams_used };
}

/* Where a rank's stream 0 stood at some moment. */
typedef struct
{
  guint64 done;
  PsiTime free_ps;
} Mark;

static void
mark_ranks (const Loop *loop, Mark *marks)
{
  for (guint r = 0; r < loop->world->ranks->len; r++)
    {
      const Stream *stream = &loop->streams[loop->first_stream[r]];

      marks[r] = (Mark){ stream->done, stream->free_ps };
    }
}

/* The pace of the slowest rank since the marks: where all depend on each other, all will run at it in the end. */
static PsiTime
slowest_pace_ps (const Loop *loop, const Mark *marks)
{
  double slowest_ps = 0;

  for (guint r = 0; r < loop->world->ranks->len; r++)
    {
      const Stream *stream = &loop->streams[loop->first_stream[r]];

      if (stream->done > marks[r].done)
        slowest_ps = MAX (slowest_ps, (double) (stream->free_ps - marks[r].free_ps) * stream->length /
                                          (double) (stream->done - marks[r].done));
    }
  return (PsiTime) ceil (slowest_ps);
}

/* Streams stand in different iterations: bring every recorded op to iteration `last`. */
static void
align_times (Loop *loop, PsiRun *run, guint32 last)
{
  for (guint32 s = 0; s < loop->first_stream[loop->world->ranks->len]; s++)
    {
      const Stream *stream = &loop->streams[s];

      for (guint32 i = 0; i < stream->length; i++)
        {
          guint32 iteration = i < stream->position ? stream->iteration : stream->iteration - 1;
          PsiTime back_ps = (PsiTime) (iteration - last) * run->period_ps;

          stream->times[i].start_ps -= back_ps;
          stream->times[i].end_ps -= back_ps;
          if (stream->waits == NULL)
            continue;
          stream->waits[i].post_ps -= back_ps;
          if (stream->waits[i].before_ps < PSI_TIME_MAX)
            stream->waits[i].before_ps -= back_ps;
          if (stream->waits[i].moving_ps < PSI_TIME_MAX)
            stream->waits[i].moving_ps -= back_ps;
        }
    }
}

PsiRun *
psi_run (PsiWorld *world, const PsiRunOptions *options, GError **error)
{
  static const PsiRunOptions defaults = { 0 };
  g_autoptr (PsiRun) run = g_new0 (PsiRun, 1);
  g_auto (Loop) loop = { .world = world };
  g_autofree Mark *marks = g_new0 (Mark, world->ranks->len + 1);
  PsiTime now_ps = 0, shift_ps = 0;
  guint32 reach = 1, lead = 0, matches = 0, limit;

  options = options != NULL ? options : &defaults;
  limit = options->max_iterations > 0 ? options->max_iterations : DEFAULT_ITERATIONS;
  psi_links_reset (world->links);
  for (guint p = 0; p < world->programs->len; p++)
    {
      const PsiProgram *program = g_ptr_array_index (world->programs, p);

      reach = MAX (reach, program->max_distance);
      if (program->skips)
        lead = AHEAD - 1;
    }
  reach += lead;
  if (!prepare_ports (&loop, error))
    return NULL;
  prepare_streams (&loop, run, !options->no_record);
  guint32 next_mark = (limit + 1) / 2;

  /* With a limit of the caller's it ends there, periodic or not. */
  while (loop.complete < limit || (options->max_iterations == 0 && matches < reach && loop.complete < MOST_ITERATIONS &&
                                   loop.n_events < MOST_EVENTS))
    {
      if (loop.complete == next_mark)
        {
          mark_ranks (&loop, marks);
          next_mark *= 2;
        }
      if (!run_iteration (&loop, &now_ps))
        {
          g_autofree char *waiting = describe_waiting (&loop);
          gboolean late = now_ps >= PSI_TIME_MAX / 2;

          g_set_error (error, PSI_RUN_ERROR, late ? PSI_RUN_ERROR_TIME : PSI_RUN_ERROR_DEADLOCK, "%s",
                       late ? "simulated time is out of range" : waiting);
          return NULL;
        }
      Iteration *iteration = &loop.iterations[(loop.complete - 1) % AHEAD];
      shift_ps = iteration->least_ps;
      matches = iteration->least_ps == iteration->most_ps ? matches + 1 : 0;
      *iteration = (Iteration){ PSI_TIME_MAX, -PSI_TIME_MAX, loop.n_streams_used };
      if (matches >= reach && !options->no_jump)
        break;
      for (guint i = 0; i < loop.held->len; i++)
        look_at (&loop, g_array_index (loop.held, guint32, i));
      g_array_set_size (loop.held, 0);
    }
  run->periodic = matches >= reach || loop.n_streams_used == 0;
  run->iterations = loop.complete;
  run->makespan_ps = now_ps;
  run->n_events = loop.n_events;
  run->period_ps = loop.n_streams_used == 0 ? 0
                   : run->periodic          ? shift_ps
                   : loop.complete > 1      ? slowest_pace_ps (&loop, marks)
                                            : now_ps;
  if (!options->no_record)
    align_times (&loop, run, loop.complete - 1);
  return g_steal_pointer (&run);
}

void
psi_run_free (PsiRun *run)
{
  if (run == NULL)
    return;
  g_free (run->first_op);
  g_free (run->first_wait);
  g_free (run->times);
  g_free (run->waits);
  g_free (run);
}
