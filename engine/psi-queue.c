/* SPDX-License-Identifier: MIT */
/* Pending events: a sorted run of what is due next, a small heap for what is pushed into that run's span, and a ladder
 * of buckets for the rest (Tang, Goh, Thng: "Ladder queue: an O(1) priority queue structure for large-scale discrete
 * event simulation", ACM TOMACS 15(3), 2005).
 *
 *   time ->   [ near, sorted | heap )[ rung: buckets of 2^shift ps )[ far, unsorted
 *                             limit_ps
 *
 * A push before limit_ps goes to the end of `near` if it belongs there (events of one instant mostly come in order),
 * else into the heap. Any other push is appended to a bucket or to `far`. When near and heap are empty the next bucket
 * is sorted into near; one that is too full is first split into a finer rung. A bucket that is already in order, such
 * as many events of one instant, is taken as it is. With few pending events there are no rungs and limit_ps is
 * infinite.
 *
 * All memory is kept and used again. Each event is moved a bounded number of times, whatever the distribution: a new
 * rung covers twice the mean distance of the far events, so it takes at least half of them, and a finer rung has at
 * least 16 buckets. */
#include "psi-queue.h"

#include <string.h>

#define FEW 48         /* so many go into near at once */
#define HEAP_MAX 96    /* so many in the heap alone start the ladder */
#define PER_BUCKET 4   /* events aimed at */
#define CHUNK_EVENTS 7 /* a chunk fills two cache lines */
#define RUNGS_MAX 18   /* a finer rung splits off at least 4 of 62 bits */

typedef struct
{
  PsiEvent events[CHUNK_EVENTS];
  guint32 older;    /* chunk, 0 = none */
  guint32 n_older;  /* events in older chunks */
  guint32 n_events; /* events here */
  guint32 unused;
} Chunk;

typedef struct
{
  PsiTime start_ps;
  guint64 span_ps; /* n_buckets << shift */
  guint shift;
  guint32 current, n_buckets, n_alloc; /* current: next bucket to drain */
  guint32 *buckets;                    /* newest chunk, 0 = empty */
} Rung;

typedef struct
{
  PsiEvent *events;
  gsize n_events, n_alloc;
} Events;

struct _PsiQueue
{
  PsiTime limit_ps;
  gsize near_first; /* near.events[near_first .. n_events - 1] are pending */
  Events near, heap, far;
  gsize n_events;
  guint n_rungs; /* the last is the finest and first in time */
  Rung rungs[RUNGS_MAX];
  Chunk *chunks; /* chunk 0 is not used */
  guint32 n_chunks, n_chunks_alloc, free_chunk;
};

/* One 128-bit comparison: compilers make it without a branch. Times are not negative. */
static inline gboolean
event_before (PsiEvent a, PsiEvent b)
{
  unsigned __int128 a_rank = (unsigned __int128) (guint64) a.time_ps << 64 | a.key;
  unsigned __int128 b_rank = (unsigned __int128) (guint64) b.time_ps << 64 | b.key;

  return a_rank < b_rank;
}

static void
events_reserve (Events *events, gsize n_events)
{
  if (n_events <= events->n_alloc)
    return;
  events->n_alloc = MAX (64, MAX (n_events, events->n_alloc * 2));
  events->events = g_renew (PsiEvent, events->events, events->n_alloc);
}

static inline void
events_append (Events *events, PsiEvent event)
{
  if (G_UNLIKELY (events->n_events == events->n_alloc))
    events_reserve (events, events->n_events + 1);
  events->events[events->n_events++] = event;
}

static void
heap_push (Events *heap, PsiEvent event)
{
  gsize i = heap->n_events;

  events_append (heap, event);
  while (i > 0 && event_before (event, heap->events[(i - 1) / 4]))
    {
      heap->events[i] = heap->events[(i - 1) / 4];
      i = (i - 1) / 4;
    }
  heap->events[i] = event;
}

static void
heap_pop (Events *heap)
{
  PsiEvent *events = heap->events, last = events[--heap->n_events];
  gsize i = 0, n = heap->n_events;

  for (gsize first = 1; first < n; first = 4 * i + 1)
    {
      gsize best = first, end = MIN (first + 4, n);
      for (gsize c = first + 1; c < end; c++)
        best += (c - best) & -(gsize) event_before (events[c], events[best]);
      if (!event_before (events[best], last))
        break;
      events[i] = events[best];
      i = best;
    }
  events[i] = last;
}

static void
sort_few (PsiEvent *events, gsize n_events)
{
  for (gsize i = 1; i < n_events; i++)
    {
      PsiEvent event = events[i];
      gsize hole = i;
      for (; hole > 0 && event_before (event, events[hole - 1]); hole--)
        events[hole] = events[hole - 1];
      events[hole] = event;
    }
}

static void
bucket_append (PsiQueue *queue, guint32 *bucket, PsiEvent event)
{
  Chunk *chunk = queue->chunks + *bucket;

  if (*bucket == 0 || chunk->n_events == CHUNK_EVENTS)
    {
      guint32 older = *bucket, n_older = older ? chunk->n_older + CHUNK_EVENTS : 0;
      if (queue->free_chunk)
        *bucket = queue->free_chunk;
      else
        {
          if (queue->n_chunks == queue->n_chunks_alloc)
            queue->chunks = g_renew (Chunk, queue->chunks, queue->n_chunks_alloc *= 2);
          *bucket = queue->n_chunks++;
          queue->chunks[*bucket].older = 0;
        }
      chunk = queue->chunks + *bucket;
      queue->free_chunk = chunk->older;
      chunk->older = older;
      chunk->n_older = n_older;
      chunk->n_events = 0;
    }
  chunk->events[chunk->n_events++] = event;
}

static inline void
rung_append (PsiQueue *queue, Rung *rung, PsiEvent event)
{
  bucket_append (queue, rung->buckets + ((guint64) (event.time_ps - rung->start_ps) >> rung->shift), event);
}

/* Open a rung of 2^log2_buckets buckets, finer than all others. */
static Rung *
open_rung (PsiQueue *queue, PsiTime start_ps, guint log2_buckets, guint shift)
{
  Rung *rung = &queue->rungs[queue->n_rungs++];

  g_assert (queue->n_rungs <= RUNGS_MAX);
  rung->start_ps = start_ps;
  rung->shift = shift;
  rung->current = 0;
  rung->n_buckets = 1u << log2_buckets;
  rung->span_ps = (guint64) rung->n_buckets << shift;
  if (rung->n_buckets > rung->n_alloc)
    {
      g_free (rung->buckets);
      rung->n_alloc = rung->n_buckets;
      rung->buckets = g_new0 (guint32, rung->n_alloc); /* drained buckets are 0 again */
    }
  return rung;
}

/* Move the nearer part of far into a first rung, or all of it into near if it is small. */
static void
take_far (PsiQueue *queue)
{
  Events *far = &queue->far;
  PsiTime first_ps = PSI_TIME_MAX;
  double mean_ps = 0;
  guint shift = 0, log2_buckets;
  gsize n_kept = 0;
  Rung *rung;

  if (far->n_events <= FEW)
    {
      Events taken = queue->near; /* empty */
      queue->near = *far;
      *far = taken;
      sort_few (queue->near.events, queue->near.n_events);
      queue->limit_ps = G_MAXINT64;
      return;
    }
  for (gsize i = 0; i < far->n_events; i++)
    first_ps = MIN (first_ps, far->events[i].time_ps);
  for (gsize i = 0; i < far->n_events; i++)
    mean_ps += (double) (far->events[i].time_ps - first_ps);
  mean_ps /= (double) far->n_events;
  log2_buckets = MIN (g_bit_storage (2 * far->n_events / PER_BUCKET), 24);
  while (shift + log2_buckets < 62 && ldexp (1, shift + log2_buckets) < 2 * mean_ps + 1)
    shift++;
  rung = open_rung (queue, first_ps, log2_buckets, shift);
  for (gsize i = 0; i < far->n_events; i++)
    if ((guint64) (far->events[i].time_ps - first_ps) < rung->span_ps)
      rung_append (queue, rung, far->events[i]);
    else
      far->events[n_kept++] = far->events[i];
  far->n_events = n_kept;
}

/* Move the events of a bucket into near, oldest first; TRUE if they are in order. */
static gboolean
take_bucket (PsiQueue *queue, guint32 bucket)
{
  gsize n_events = queue->chunks[bucket].n_older + queue->chunks[bucket].n_events;
  guint32 index = bucket, last = bucket;
  PsiEvent *events;
  gboolean sorted = TRUE;

  events_reserve (&queue->near, n_events);
  queue->near.n_events = n_events;
  events = queue->near.events;
  for (; index; index = queue->chunks[index].older)
    {
      const Chunk *chunk = queue->chunks + index;
      memcpy (events + chunk->n_older, chunk->events, chunk->n_events * sizeof (PsiEvent));
      last = index;
    }
  queue->chunks[last].older = queue->free_chunk;
  queue->free_chunk = bucket;
  for (gsize i = 1; i < n_events && sorted; i++)
    sorted = !event_before (events[i], events[i - 1]);
  return sorted;
}

/* Split the unsorted events of near, which fill the span of 2^shift ps from start_ps: into a finer rung, or into the
 * heap if they are of one instant. */
static void
split_near (PsiQueue *queue, PsiTime start_ps, guint shift)
{
  guint log2_buckets = MIN (g_bit_storage (queue->near.n_events / PER_BUCKET), shift);
  Rung *finer = shift > 0 ? open_rung (queue, start_ps, log2_buckets, shift - log2_buckets) : NULL;

  for (gsize i = 0; i < queue->near.n_events; i++)
    if (finer)
      rung_append (queue, finer, queue->near.events[i]);
    else
      heap_push (&queue->heap, queue->near.events[i]);
  queue->near.n_events = 0;
}

/* near and heap are empty: fill one of them. FALSE if there is nothing left. */
static gboolean
refill (PsiQueue *queue)
{
  queue->near.n_events = queue->near_first = 0;
  while (queue->near.n_events == 0 && queue->heap.n_events == 0)
    {
      Rung *rung = &queue->rungs[MAX (queue->n_rungs, 1) - 1];
      guint32 bucket = 0;
      PsiTime start_ps;

      if (queue->n_rungs == 0)
        {
          if (queue->far.n_events == 0)
            return FALSE;
          take_far (queue);
          continue;
        }
      while (rung->current < rung->n_buckets && !(bucket = rung->buckets[rung->current]))
        rung->current++;
      if (!bucket)
        {
          queue->n_rungs--;
          continue;
        }
      rung->buckets[rung->current] = 0;
      start_ps = rung->start_ps + (PsiTime) ((guint64) rung->current++ << rung->shift);
      queue->limit_ps = start_ps + (PsiTime) MIN ((guint64) 1 << rung->shift, (guint64) (G_MAXINT64 - start_ps));
      if (rung->current < rung->n_buckets)
        __builtin_prefetch (queue->chunks + rung->buckets[rung->current]);
      if (take_bucket (queue, bucket))
        break;
      if (queue->near.n_events <= FEW)
        sort_few (queue->near.events, queue->near.n_events);
      else
        split_near (queue, start_ps, rung->shift);
    }
  return TRUE;
}

/* Out of line: an event that is due before limit_ps but not at the end of near. */
static void
push_heap (PsiQueue *queue, PsiEvent event)
{
  heap_push (&queue->heap, event);
  if (queue->heap.n_events <= HEAP_MAX || queue->limit_ps < G_MAXINT64)
    return;
  for (gsize i = queue->near_first; i < queue->near.n_events; i++)
    events_append (&queue->far, queue->near.events[i]);
  for (gsize i = 0; i < queue->heap.n_events; i++)
    events_append (&queue->far, queue->heap.events[i]);
  queue->near.n_events = queue->near_first = queue->heap.n_events = 0;
  queue->limit_ps = G_MININT64;
}

PsiQueue *
psi_queue_new (void)
{
  PsiQueue *queue = g_new0 (PsiQueue, 1);

  queue->n_chunks = 1;
  queue->n_chunks_alloc = 16;
  queue->chunks = g_new (Chunk, queue->n_chunks_alloc);
  queue->limit_ps = G_MAXINT64;
  return queue;
}

void
psi_queue_free (PsiQueue *queue)
{
  if (!queue)
    return;
  for (guint i = 0; i < RUNGS_MAX; i++)
    g_free (queue->rungs[i].buckets);
  g_free (queue->chunks);
  g_free (queue->near.events);
  g_free (queue->heap.events);
  g_free (queue->far.events);
  g_free (queue);
}

void
psi_queue_push (PsiQueue *queue, PsiEvent event)
{
  Events *near = &queue->near;

  queue->n_events++;
  if (event.time_ps >= queue->limit_ps)
    {
      for (guint i = queue->n_rungs; i-- > 0;)
        if ((guint64) (event.time_ps - queue->rungs[i].start_ps) < queue->rungs[i].span_ps)
          {
            rung_append (queue, &queue->rungs[i], event);
            return;
          }
      events_append (&queue->far, event);
    }
  else if (near->n_events > queue->near_first && event_before (event, near->events[near->n_events - 1]))
    push_heap (queue, event);
  else
    {
      if (near->n_events == near->n_alloc && 2 * queue->near_first > near->n_events)
        {
          near->n_events -= queue->near_first;
          memcpy (near->events, near->events + queue->near_first, near->n_events * sizeof event);
          queue->near_first = 0;
        }
      events_append (near, event);
    }
}

/* NULL if there is none. */
static inline const PsiEvent *
first_event (PsiQueue *queue)
{
  Events *near = &queue->near, *heap = &queue->heap;

  if (queue->near_first == near->n_events && heap->n_events == 0 && !refill (queue))
    return NULL;
  if (queue->near_first == near->n_events ||
      (heap->n_events > 0 && event_before (heap->events[0], near->events[queue->near_first])))
    return heap->events;
  return near->events + queue->near_first;
}

gboolean
psi_queue_pop (PsiQueue *queue, PsiEvent *ret_event)
{
  const PsiEvent *first = first_event (queue);

  if (!first)
    return FALSE;
  *ret_event = *first;
  queue->n_events--;
  if (first == queue->heap.events)
    heap_pop (&queue->heap);
  else
    queue->near_first++;
  return TRUE;
}

PsiTime
psi_queue_next_ps (PsiQueue *queue)
{
  const PsiEvent *first = first_event (queue);
  return first ? first->time_ps : PSI_TIME_MAX;
}

guint64
psi_queue_hint (const PsiQueue *queue, guint n)
{
  gsize place = queue->near_first + n;
  return place < queue->near.n_events ? queue->near.events[place].key : G_MAXUINT64;
}

gsize
psi_queue_size (const PsiQueue *queue)
{
  return queue->n_events;
}
