/* SPDX-License-Identifier: MIT */
/* A stream looks at its head op when that may be able to start: it waits for ops of other streams (BLOCKED), for
 * partners (POSTED), or for its end (BUSY). Whatever ends wakes those that wait for it; all that happens at one instant
 * happens in a fixed order, whatever the order in which ranks and ports were added up to then.
 *
 * A port whose links no other port uses needs no solver: its transfer takes latency + bytes / rate, as a flow alone on
 * its links does, to the picosecond. */
#include "psi-loop.h"

#include "psi-desk.h"
#include "psi-hash.h"
#include "psi-loop-record.h"
#include "psi-pace.h"
#include "psi-ring.h"

#define NEVER G_MAXINT64

/* An op of a stream is over: let go those of the far streams of its rank that waited for it. */
static void
wake_far (PsiLoop *loop, guint32 index)
{
  PsiStream *stream = &loop->streams[index];
  guint32 first = index - stream->index, end = loop->first_stream[loop->details[index].rank + 1];

  stream->waiters &= ~(G_GUINT64_CONSTANT (1) << PSI_LOOP_FAR);
  for (guint32 waiter = first + PSI_LOOP_FAR; waiter < end; waiter++)
    {
      if (loop->streams[waiter].state != PSI_HEAD_BLOCKED || loop->details[waiter].blocked_on != index)
        continue;
      if (loop->details[waiter].need > stream->done)
        {
          stream->waiters |= G_GUINT64_CONSTANT (1) << PSI_LOOP_FAR;
          continue;
        }
      loop->streams[waiter].state = PSI_HEAD_IDLE;
      psi_loop_look_at (loop, waiter);
    }
}

static inline void
finish_op (PsiLoop *loop, guint32 index, PsiTime now_ps)
{
  PsiStream *stream = &loop->streams[index];

  if (loop->records)
    psi_loop_record (loop, stream, &loop->details[index], now_ps);
  stream->free_ps = now_ps;
  stream->done++;
  stream->state = PSI_HEAD_IDLE;
  for (guint64 left = stream->waiters; left != 0; left &= left - 1)
    {
      guint32 bit = (guint32) __builtin_ctzll (left), waiter = index - stream->index + bit;

      if (bit == PSI_LOOP_FAR)
        {
          wake_far (loop, index);
          break;
        }
      if (loop->details[waiter].need > stream->done)
        continue;
      stream->waiters ^= left & -left;
      loop->streams[waiter].state = PSI_HEAD_IDLE;
      psi_loop_look_at (loop, waiter);
    }
  if (++stream->position == stream->length)
    {
      if (loop->pace != NULL)
        psi_pace_end_iteration (loop, stream, &loop->details[index]);
      else
        loop->iterations[stream->iteration % PSI_LOOP_AHEAD].left--;
      stream->position = 0;
      stream->iteration++;
    }
  psi_loop_look_at (loop, index);
}

static void start_round (PsiLoop *loop, PsiPortId id, PsiTime now_ps, PsiTime latency_ps);

/* A transfer is over, or a round of it. */
static void
end_transfer (PsiLoop *loop, PsiPortId id, PsiTime now_ps)
{
  PsiMeeting *meeting = &loop->meetings[id];
  guint32 n = meeting->posted;

  if (meeting->rounds_left > 1)
    {
      meeting->rounds_left--;
      start_round (loop, id, now_ps, loop->transfers[meeting->transfer].round_latency_ps);
      return;
    }
  meeting->rounds_left = 0;
  meeting->posted = 0;
  for (guint32 i = 0; i < n; i++)
    finish_op (loop, meeting->heads[i], now_ps);
}

static inline PsiTransferId
transfer_of (const PsiLoop *loop, const PsiMeeting *meeting)
{
  const PsiStream *first = &loop->streams[meeting->heads[0]];

  return first->ops[first->position].transfer;
}

/* The links that carry bytes of a transfer, into loop->uses. */
static guint
find_uses (PsiLoop *loop, PsiPortId id, const PsiTransfer *transfer)
{
  const GArray *path = g_array_index (loop->world->ports, PsiPort, id).path;
  guint n = 0;

  for (guint i = 0; i < path->len; i++)
    {
      const PsiPathLink *step = &g_array_index (path, PsiPathLink, i);
      double weight = transfer->weights[step->tier] * step->share;

      if (weight > 0)
        loop->uses[n++] = (PsiLinkUse){ step->link, weight };
    }
  return n;
}

/* Latency is over: put the bytes on the links. */
static void
start_flow (PsiLoop *loop, PsiPortId id, PsiTime now_ps)
{
  const PsiTransfer *transfer = &loop->transfers[transfer_of (loop, &loop->meetings[id])];
  guint n = transfer->bytes > 0 ? find_uses (loop, id, transfer) : 0;

  if (transfer->bytes <= 0 || (n == 0 && isinf (transfer->cap_bytes_per_s)))
    end_transfer (loop, id, now_ps);
  else
    psi_links_start (loop->world->links, now_ps, transfer->bytes, transfer->cap_bytes_per_s, loop->uses, n, id);
}

static PsiTime
time_alone_ps (PsiLoop *loop, PsiPortId id, const PsiTransfer *transfer)
{
  double rate = transfer->cap_bytes_per_s;
  guint n = find_uses (loop, id, transfer);

  if (transfer->bytes <= 0)
    return transfer->latency_ps;
  for (guint i = 0; i < n; i++)
    rate = MIN (rate, psi_links_rate (loop->world->links, loop->uses[i].link) / loop->uses[i].weight);
  if (!(rate > 0))
    return NEVER;
  return psi_time_add (transfer->latency_ps, psi_time_from_s ((double) transfer->bytes / rate));
}

/* All partners of a port are there: its latency begins, then its flow. */
static void
start_transfer (PsiLoop *loop, PsiPortId id, PsiTime now_ps)
{
  PsiMeeting *meeting = &loop->meetings[id];
  PsiTransferId which = transfer_of (loop, meeting);
  const PsiTransfer *transfer = &loop->transfers[which];

  for (guint32 i = 0; i < meeting->posted; i++)
    {
      guint32 head = meeting->heads[i];

      loop->streams[head].state = PSI_HEAD_BUSY;
      if (!loop->records)
        continue;
      loop->details[head].start_ps = now_ps;
      loop->details[head].wait.moving_ps = MIN (meeting->moving_ps, now_ps);
    }
  meeting->transfer = which;
  meeting->rounds_left = transfer->is_ring ? 1 : transfer->rounds;
  if (transfer->is_ring)
    psi_ring_start (loop, id, now_ps);
  else if (meeting->is_alone && transfer->rounds <= 1)
    {
      if (meeting->alone_transfer != which)
        {
          meeting->alone_transfer = which;
          meeting->alone_ps = time_alone_ps (loop, id, transfer);
        }
      if (meeting->alone_ps == 0)
        end_transfer (loop, id, now_ps);
      else if (meeting->alone_ps != NEVER)
        psi_queue_push (loop->queue,
                        (PsiEvent){ psi_time_add (now_ps, meeting->alone_ps), PSI_LOOP_KEY (PSI_LOOP_TRANSFER, id) });
    }
  else
    start_round (loop, id, now_ps, transfer->latency_ps);
}

static void
start_round (PsiLoop *loop, PsiPortId id, PsiTime now_ps, PsiTime latency_ps)
{
  if (latency_ps == 0 && loop->meetings[id].rounds_left <= 1)
    start_flow (loop, id, now_ps);
  else
    psi_queue_push (loop->queue, (PsiEvent){ psi_time_add (now_ps, latency_ps), PSI_LOOP_KEY (PSI_LOOP_LATENCY, id) });
}

/* Is the head op's turn? FALSE: it waits for another stream, which is told so. */
static inline gboolean
deps_are_over (PsiLoop *loop, guint32 index, PsiTime now_ps, PsiOpId *ret_released_by, PsiTime *ret_moving_ps)
{
  PsiStream *stream = &loop->streams[index];

  for (guint32 d = stream->ops[stream->position].first_dep; d != PSI_CHAIN_END; d = stream->deps[d].next)
    {
      const PsiDep *dep = &stream->deps[d];
      guint32 other = index - stream->index + PSI_OP_STREAM (dep->op);
      PsiStream *before = &loop->streams[other];

      if (dep->distance > stream->iteration)
        continue;
      guint64 need = (guint64) (stream->iteration - dep->distance) * before->length + PSI_OP_POSITION (dep->op) + 1;
      if (before->done < need)
        {
          stream->state = PSI_HEAD_BLOCKED;
          loop->details[index].need = need;
          before->waiters |= G_GUINT64_CONSTANT (1) << MIN (stream->index, PSI_LOOP_FAR);
          if (stream->index >= PSI_LOOP_FAR)
            loop->details[index].blocked_on = other;
          return FALSE;
        }
      /* The op that ended just now is the one that let this one go. */
      if (loop->records && before->done == need && before->free_ps == now_ps && before->free_ps > stream->free_ps)
        {
          *ret_released_by = dep->op;
          *ret_moving_ps = MIN (*ret_moving_ps, loop->details[other].sent_ps);
        }
    }
  return TRUE;
}

/* About a standard normal number: the sum of 16 uniform ones of 16 bits, so that every machine gets the same. */
static double
normal (guint64 key)
{
  gint64 sum = 0;

  for (guint i = 1; i <= 4; i++)
    {
      guint64 bits = psi_hash_mix (psi_hash_mix (key) + i * PSI_HASH_STEP);

      sum += (gint64) ((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    }
  /* The mean is 8 x 65535; a uniform number has a variance of 65536^2 / 12. */
  return (double) (sum - 8 * 65535) / 65536 * sqrt (12.0 / 16);
}

static inline PsiTime
cost_of (const PsiLoop *loop, guint32 index, const PsiOp *op)
{
  const PsiRank *rank;

  if (loop->streams[index].is_plain)
    return op->cost_ps;
  rank = psi_world_rank (loop->world, loop->details[index].rank);
  double factor = rank->scale;
  if (loop->jitter > 0)
    factor *=
        MAX (0, 1 + loop->jitter * normal (psi_hash_mix (loop->seed) ^ (guint64) loop->details[index].rank << 32 ^
                                           PSI_OP_ID (loop->streams[index].index, loop->streams[index].position)));
  return psi_time_from_s (psi_time_to_s (op->cost_ps) * factor);
}

/* Its rank has not begun yet: come back then. */
static gboolean
is_early (PsiLoop *loop, guint32 index, PsiTime now_ps)
{
  PsiTime offset_ps = psi_world_rank (loop->world, loop->details[index].rank)->offset_ps;

  if (now_ps >= offset_ps || loop->streams[index].done > 0)
    return FALSE;
  loop->streams[index].state = PSI_HEAD_EARLY;
  psi_queue_push (loop->queue, (PsiEvent){ offset_ps, PSI_LOOP_KEY (PSI_LOOP_WORK, index) });
  return TRUE;
}

/* Look at the head op of a stream: start it, post it, or note what it waits for. */
static void
try_head (PsiLoop *loop, guint32 index, PsiTime now_ps)
{
  PsiStream *stream = &loop->streams[index];
  const PsiOp *op = &stream->ops[stream->position];
  PsiTime moving_ps = PSI_TIME_MAX;
  PsiOpId released_by = PSI_OP_NONE;

  if (stream->state != PSI_HEAD_IDLE)
    return;
  if (stream->iteration >= loop->horizon)
    {
      g_array_append_val (loop->held, index);
      return;
    }
  if (!deps_are_over (loop, index, now_ps, &released_by, &moving_ps))
    return;
  if (!stream->is_plain && is_early (loop, index, now_ps))
    return;
  loop->n_events++;
  __builtin_prefetch (op + 1);
  if (loop->records)
    {
      PsiStreamDetail *detail = &loop->details[index];

      if (released_by == PSI_OP_NONE && stream->free_ps == now_ps)
        moving_ps = detail->sent_ps;
      detail->start_ps = now_ps;
      detail->wait = (PsiOpWait){ now_ps, moving_ps, PSI_TIME_MAX, released_by };
    }
  if (op->kind == PSI_OP_WORK)
    {
      PsiTime cost_ps = cost_of (loop, index, op);

      stream->state = PSI_HEAD_BUSY;
      if (cost_ps == 0)
        finish_op (loop, index, now_ps);
      else
        psi_queue_push (loop->queue, (PsiEvent){ psi_time_add (now_ps, cost_ps), PSI_LOOP_KEY (PSI_LOOP_WORK, index) });
      return;
    }
  if (op->kind == PSI_OP_SERVE)
    {
      stream->state = PSI_HEAD_POSTED;
      psi_desk_post (loop, index, now_ps);
      return;
    }
  if (stream->iteration < op->skip)
    {
      finish_op (loop, index, now_ps);
      return;
    }
  PsiPortId id = stream->ports[op->slot];
  PsiMeeting *meeting = &loop->meetings[id];
  stream->state = PSI_HEAD_POSTED;
  meeting->heads[meeting->posted++] = index;
  meeting->moving_ps = moving_ps; /* the last to come decides */
  if (meeting->posted == meeting->n_members)
    start_transfer (loop, id, now_ps);
}

/* Streams and ops of many ranks do not fit the nearest cache: ask for those of the events to come. */
static inline void
fetch_ahead (const PsiLoop *loop)
{
  guint64 near = psi_queue_hint (loop->queue, 1), far = psi_queue_hint (loop->queue, 3);

  if (far < loop->n_streams)
    __builtin_prefetch (&loop->streams[far]);
  if (near < loop->n_streams)
    __builtin_prefetch (&loop->streams[near].ops[loop->streams[near].position + 1]);
}

/* All events of one instant. */
static void
step_clock (PsiLoop *loop, PsiTime now_ps)
{
  guint64 cookie;
  PsiEvent event;

  while (psi_links_pop (loop->world->links, now_ps, &cookie))
    {
      loop->n_events++;
      if (cookie >> PSI_LOOP_KEY_SHIFT != PSI_LOOP_RING)
        end_transfer (loop, (PsiPortId) cookie, now_ps);
      else if (psi_ring_message_over (loop, (guint32) cookie, now_ps))
        end_transfer (loop, loop->rings[(guint32) cookie].port, now_ps);
    }
  while (psi_queue_next_ps (loop->queue) == now_ps)
    {
      psi_queue_pop (loop->queue, &event);
      fetch_ahead (loop);
      guint32 source = (guint32) event.key;

      loop->n_events++;
      switch (event.key >> PSI_LOOP_KEY_SHIFT)
        {
        case PSI_LOOP_LATENCY:
          start_flow (loop, source, now_ps);
          break;
        case PSI_LOOP_TRANSFER:
          end_transfer (loop, source, now_ps);
          break;
        case PSI_LOOP_RING:
          if (psi_ring_latency_over (loop, source, now_ps))
            end_transfer (loop, loop->rings[source].port, now_ps);
          break;
        case PSI_LOOP_DESK:
          if (loop->meetings[source].is_busy)
            finish_op (loop, psi_desk_over (loop, source, now_ps), now_ps);
          else
            loop->streams[psi_desk_begin (loop, source, now_ps)].state = PSI_HEAD_BUSY;
          break;
        default:
          if (loop->streams[source].state == PSI_HEAD_EARLY)
            {
              loop->streams[source].state = PSI_HEAD_IDLE;
              psi_loop_look_at (loop, source);
            }
          else
            finish_op (loop, source, now_ps);
        }
    }
}

gboolean
psi_loop_iterate (PsiLoop *loop, PsiTime *now_ps)
{
  for (;;)
    {
      while (loop->n_ready > 0)
        {
          guint32 index = loop->ready[loop->ready_first];

          loop->ready_first = loop->ready_first + 1 == loop->n_streams ? 0 : loop->ready_first + 1;
          loop->n_ready--;
          loop->streams[index].is_ready = FALSE;
          try_head (loop, index, *now_ps);
        }
      if (loop->iterations[loop->complete % PSI_LOOP_AHEAD].left == 0)
        {
          loop->complete++;
          loop->horizon += loop->pace == NULL;
          return TRUE;
        }
      PsiTime next_ps = MIN (psi_queue_next_ps (loop->queue), psi_links_next_ps (loop->world->links));
      if (next_ps >= PSI_TIME_MAX)
        return FALSE;
      *now_ps = next_ps;
      step_clock (loop, next_ps);
    }
}

void
psi_loop_next (PsiLoop *loop)
{
  loop->iterations[(loop->complete - 1) % PSI_LOOP_AHEAD] =
      (PsiIteration){ PSI_TIME_MAX, -PSI_TIME_MAX, loop->n_streams_used, 0, 0 };
  for (guint i = 0; i < loop->held->len; i++)
    psi_loop_look_at (loop, g_array_index (loop->held, guint32, i));
  g_array_set_size (loop->held, 0);
}
