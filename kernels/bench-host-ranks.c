/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "bench-host-ranks.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t closing;

static void
on_child (int number)
{
  static const char message[] = "bench-host: a measuring process ended early; what was measured is kept\n";
  if (closing)
    return;
  (void) !write (STDERR_FILENO, message, sizeof message - 1);
  _exit (1);
}

/* One core for each rank, if there are enough. */
static void
pin (int rank, int n)
{
  cpu_set_t allowed, own;
  int seen = 0;

  if (sched_getaffinity (0, sizeof allowed, &allowed) || CPU_COUNT (&allowed) < n)
    return;
  CPU_ZERO (&own);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET (cpu, &allowed) && seen++ == rank)
      CPU_SET (cpu, &own);
  sched_setaffinity (0, sizeof own, &own);
}

bool
bench_ranks_open (BenchRanks *ranks, const BenchOptions *options, int n, size_t buffer_bytes)
{
  size_t head = (sizeof (BenchShared) + 4095) & ~(size_t) 4095;
  size_t total = head + ((size_t) n + 1) * buffer_bytes;
  pthread_barrierattr_t attributes;
  char *memory = mmap (NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

  if (memory == MAP_FAILED)
    {
      bench_warn (options, "no room for %zu MiB of shared memory: %s", total >> 20, strerror (errno));
      return false;
    }
  *ranks = (BenchRanks){
    .n = n, .shared = (BenchShared *) (void *) memory, .buffers = memory + head, .buffer_bytes = buffer_bytes
  };
  pthread_barrierattr_init (&attributes);
  pthread_barrierattr_setpshared (&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init (&ranks->shared->barrier, &attributes, (unsigned) n);
  for (int i = 0; i < n; i++)
    {
      sem_init (&ranks->shared->full[i], 1, 0);
      sem_init (&ranks->shared->empty[i], 1, 1);
    }
  fflush (NULL);
  closing = 0;
  signal (SIGCHLD, on_child);
  for (int rank = 1; rank < n; rank++)
    {
      pid_t parent = getpid (), child = fork ();
      if (child < 0)
        {
          bench_warn (options, "cannot start a measuring process: %s", strerror (errno));
          return false;
        }
      if (child == 0)
        {
          signal (SIGINT, SIG_IGN); /* the parent ends us */
          signal (SIGCHLD, SIG_DFL);
          prctl (PR_SET_PDEATHSIG, SIGKILL);
          if (getppid () != parent)
            _exit (1);
          ranks->rank = rank;
          break;
        }
    }
  pin (ranks->rank, n);
  return true;
}

void
bench_ranks_close (BenchRanks *ranks)
{
  closing = 1;
  ranks->shared->command.what = -1;
  bench_ranks_barrier (ranks);
  while (wait (NULL) > 0 || errno == EINTR)
    ;
  signal (SIGCHLD, SIG_DFL);
  munmap (ranks->shared,
          (size_t) (ranks->buffers - (char *) ranks->shared) + ((size_t) ranks->n + 1) * ranks->buffer_bytes);
}

void
bench_ranks_barrier (const BenchRanks *ranks)
{
  pthread_barrier_wait (&ranks->shared->barrier);
}

static float *
buffer_of (const BenchRanks *ranks, int rank)
{
  return (float *) (void *) (ranks->buffers + (size_t) rank * ranks->buffer_bytes);
}

void
bench_ranks_all_reduce (const BenchRanks *ranks, float *values, size_t n)
{
  size_t first = n * (size_t) ranks->rank / (size_t) ranks->n, end = n * ((size_t) ranks->rank + 1) / (size_t) ranks->n;
  float *sum = buffer_of (ranks, ranks->n);

  memcpy (buffer_of (ranks, ranks->rank), values, n * sizeof *values);
  bench_ranks_barrier (ranks);
  memcpy (sum + first, buffer_of (ranks, 0) + first, (end - first) * sizeof *sum);
  for (int rank = 1; rank < ranks->n; rank++)
    {
      const float *other = buffer_of (ranks, rank);
      for (size_t i = first; i < end; i++)
        sum[i] += other[i];
    }
  bench_ranks_barrier (ranks);
  memcpy (values, sum, n * sizeof *values);
  bench_ranks_barrier (ranks);
}

static void
semaphore_wait (sem_t *semaphore)
{
  while (sem_wait (semaphore) && errno == EINTR)
    ;
}

void
bench_ranks_send_recv (const BenchRanks *ranks, const float *send, float *recv, size_t n)
{
  int next = (ranks->rank + 1) % ranks->n;

  semaphore_wait (&ranks->shared->empty[next]);
  memcpy (buffer_of (ranks, next), send, n * sizeof *send);
  sem_post (&ranks->shared->full[next]);
  semaphore_wait (&ranks->shared->full[ranks->rank]);
  memcpy (recv, buffer_of (ranks, ranks->rank), n * sizeof *recv);
  sem_post (&ranks->shared->empty[ranks->rank]);
}
