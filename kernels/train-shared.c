/* SPDX-License-Identifier: MIT */
#include "train-shared.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int64_t
train_clock_ns (int clock_id)
{
  struct timespec now;

  clock_gettime ((clockid_t) clock_id, &now);
  return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Carve `n` items out of the mapping, or only count them while `base` is NULL. */
typedef struct
{
  char *base;
  size_t used_bytes;
} Arena;

static void *
carve (Arena *arena, size_t n, size_t size_bytes)
{
  size_t at = arena->used_bytes;

  arena->used_bytes += (n * size_bytes + 63) / 64 * 64;
  return arena->base != NULL ? arena->base + at : NULL;
}

static void
lay_out (Arena *arena, TrainShared *shared, const TrainPlan *plan, const TrainModel *model, bool sharded)
{
  size_t n_ranks = (size_t) shared->n_ranks, n_parts = (size_t) shared->n_parts;
  TrainSharedPart *parts;
  TrainRecord **records;

  shared->progress = carve (arena, n_ranks, sizeof *shared->progress);
  shared->asleep = carve (arena, n_ranks, sizeof *shared->asleep);
  shared->bell = carve (arena, n_ranks, sizeof *shared->bell);
  shared->ends = carve (arena, n_ranks, sizeof *shared->ends);
  shared->mailboxes = carve (arena, n_ranks, TRAIN_DEVICE_EXCHANGE_BYTES);
  shared->losses = carve (arena, (size_t) plan->n_steps * (size_t) plan->n_batches, sizeof *shared->losses);
  shared->messages = carve (arena, shared->n_messages * shared->message_floats, sizeof *shared->messages);
  shared->parts = parts = carve (arena, n_parts, sizeof *parts);
  shared->records = records = carve (arena, n_ranks, sizeof *records);
  for (size_t rank = 0; rank < n_ranks; rank++)
    {
      void *list = carve (arena, plan->programs[rank].n_ops, sizeof **records);

      if (records != NULL)
        records[rank] = list;
    }
  for (size_t i = 0; i < n_parts; i++)
    {
      TrainSharedPart part = { .n = model->parts[i].n_parameters };
      size_t n_holders = (size_t) plan->n_holders[i];

      for (int parity = 0; parity < 2; parity++)
        {
          part.given[parity] = carve (arena, n_holders > 1 ? n_holders * part.n : 0, sizeof (float));
          part.sum[parity] = carve (arena, n_holders > 1 ? part.n : 0, sizeof (float));
          part.published[parity] = carve (arena, sharded ? part.n : 0, sizeof (float));
        }
      part.final = carve (arena, part.n, sizeof (float));
      part.given_step = carve (arena, 2 * n_holders, sizeof *part.given_step);
      part.slice_step = carve (arena, n_holders, sizeof *part.slice_step);
      part.slice_claim = carve (arena, n_holders, sizeof *part.slice_claim);
      part.named = carve (arena, 1, sizeof *part.named);
      part.exchange = carve (arena, TRAIN_DEVICE_EXCHANGE_BYTES, 1);
      if (parts != NULL)
        parts[i] = part;
    }
}

TrainShared *
train_shared_new (const TrainPlan *plan, const TrainModel *model, int max_rows, bool sharded, double timeout_s,
                  TrainError *error)
{
  TrainShared draft = { .n_ranks = plan->schedule->n_ranks,
                        .n_parts = plan->schedule->n_parts,
                        .micro_batches = plan->schedule->micro_batches,
                        .timeout_s = timeout_s,
                        .message_floats = (size_t) max_rows * (size_t) model->width };
  Arena arena = { NULL, sizeof (TrainShared) };
  TrainShared *shared;

  draft.n_messages = 4 * (size_t) draft.n_parts * (size_t) draft.micro_batches;
  arena.used_bytes = (arena.used_bytes + 63) / 64 * 64;
  lay_out (&arena, &draft, plan, model, sharded);
  draft.n_bytes = arena.used_bytes;
  arena.base = mmap (NULL, draft.n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena.base == MAP_FAILED)
    {
      train_fail (error, "cannot share %zu bytes between the ranks: %s", draft.n_bytes, strerror (errno));
      return NULL;
    }
  shared = (TrainShared *) arena.base;
  memcpy (shared, &draft, sizeof draft);
  arena.used_bytes = (sizeof (TrainShared) + 63) / 64 * 64;
  lay_out (&arena, shared, plan, model, sharded);
  atomic_flag_clear (&shared->failed);
  for (int rank = 0; rank < shared->n_ranks; rank++)
    sem_init (&shared->bell[rank], 1, 0);
  return shared;
}

void
train_shared_free (TrainShared *shared)
{
  if (shared == NULL)
    return;
  for (int rank = 0; rank < shared->n_ranks; rank++)
    sem_destroy (&shared->bell[rank]);
  munmap (shared, shared->n_bytes);
}

size_t
train_shared_message (const TrainShared *shared, bool backward, int part, int micro_batch, int step)
{
  size_t slot = (size_t) (micro_batch % shared->micro_batches);

  slot = ((slot * (size_t) shared->n_parts + (size_t) part) * 2 + backward) * 2 + (size_t) (step % 2);
  return slot * shared->message_floats;
}

void
train_shared_stop (TrainShared *shared, const char *format, ...)
{
  va_list arguments;

  if (!atomic_flag_test_and_set (&shared->failed))
    {
      va_start (arguments, format);
      vsnprintf (shared->error, sizeof shared->error, format, arguments);
      va_end (arguments);
    }
  atomic_store (&shared->stopped, 1);
  for (int rank = 0; rank < shared->n_ranks; rank++)
    sem_post (&shared->bell[rank]);
}

void
train_shared_notify (TrainShared *shared, int rank)
{
  for (int other = 0; other < shared->n_ranks; other++)
    if (other != rank && atomic_exchange (&shared->asleep[other], 0) != 0)
      sem_post (&shared->bell[other]);
}

static size_t
total_progress (const TrainShared *shared)
{
  size_t total = 0;

  for (int rank = 0; rank < shared->n_ranks; rank++)
    total += atomic_load (&shared->progress[rank]);
  return total;
}

static struct timespec
deadline_in (double seconds)
{
  int64_t ns = train_clock_ns (CLOCK_REALTIME) + (int64_t) (seconds * 1e9);

  return (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

/* The flag is raised before the last look: whoever makes it true after that look sees the flag and rings. The time runs
 * anew as long as any rank gets on. */
int64_t
train_shared_wait (TrainShared *shared, int rank, bool (*ready) (void *data), void *data, const char *what)
{
  int64_t begin_ns = train_clock_ns (CLOCK_MONOTONIC);
  struct timespec deadline = deadline_in (shared->timeout_s);
  size_t progress = total_progress (shared);

  for (;;)
    {
      if (atomic_load (&shared->stopped))
        _exit (1);
      atomic_store (&shared->asleep[rank], 1);
      if (ready (data))
        break;
      if (sem_timedwait (&shared->bell[rank], &deadline) == 0 || errno != ETIMEDOUT)
        continue;
      if (total_progress (shared) == progress)
        {
          train_shared_stop (shared, "deadlock or a rank that is too slow: rank %d at %s waited for %g s", rank, what,
                             shared->timeout_s);
          _exit (1);
        }
      progress = total_progress (shared);
      deadline = deadline_in (shared->timeout_s);
    }
  atomic_store (&shared->asleep[rank], 0);
  return train_clock_ns (CLOCK_MONOTONIC) - begin_ns;
}
