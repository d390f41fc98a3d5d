/* SPDX-License-Identifier: MIT */
/* Processes that measure together: forked, pinned, and joined by memory they share. The parent is rank 0; it says what
 * to measure, all ranks do it at once. Barriers and semaphores block and do not spin, so that ranks that wait leave
 * their core to others. */
#pragma once

#include "bench-common.h"

#include <pthread.h>
#include <semaphore.h>

enum
{
  BENCH_MOST_RANKS = 16
};

typedef struct
{
  int what; /* caller's; negative: end */
  int ints[4];
  size_t bytes;
  long batch; /* calls for each sample */
  int samples;
} BenchCommand;

/* At the beginning of the shared memory; buffers of all ranks follow. */
typedef struct
{
  pthread_barrier_t barrier;
  sem_t full[BENCH_MOST_RANKS], empty[BENCH_MOST_RANKS]; /* mailbox of each receiving rank */
  BenchCommand command;
} BenchShared;

typedef struct
{
  int n, rank;
  BenchShared *shared;
  char *buffers; /* n + 1 of buffer_bytes: one each, then the result */
  size_t buffer_bytes;
} BenchRanks;

/* Fork n - 1 children. Returns in all of them with ranks->rank set; FALSE (in the parent) if that failed. A child that
 * dies takes the parent with it, and the other way round. */
bool bench_ranks_open (BenchRanks *ranks, const BenchOptions *options, int n, size_t buffer_bytes);
void bench_ranks_close (BenchRanks *ranks); /* parent: end the children and wait for them */

void bench_ranks_barrier (const BenchRanks *ranks);

/* Sum `n` floats over all ranks: everybody copies its values in, adds up its part of all of them, copies the sum out.
 * Three barriers. */
void bench_ranks_all_reduce (const BenchRanks *ranks, float *values, size_t n);

/* Everybody sends `n` floats to the next rank through that rank's mailbox and receives from the one before. */
void bench_ranks_send_recv (const BenchRanks *ranks, const float *send, float *recv, size_t n);
