/* SPDX-License-Identifier: MIT */
/* A group of GPUs with NCCL communicators, streams and buffers; of one process or of several. */
#pragma once

#include "bench-cuda.h"

#include <nccl.h>

enum
{
  BENCH_MOST_GPUS = 16, /* of one process */
  BENCH_VOTES = 3
};

typedef struct
{
  BenchGpu *gpu;
  int n_ranks, n_local, n_nodes;
  ncclComm_t comms[BENCH_MOST_GPUS];
  cudaStream_t streams[BENCH_MOST_GPUS];
  cudaEvent_t begin[BENCH_MOST_GPUS], end[BENCH_MOST_GPUS];
  char *send[BENCH_MOST_GPUS], *recv[BENCH_MOST_GPUS];
  double *votes[BENCH_MOST_GPUS]; /* BENCH_VOTES doubles */
  size_t pool_bytes;              /* of each send and receive buffer */
} BenchGroup;

/* Print a warning unless `status` is success. */
bool bench_nccl_ok (const BenchGpu *gpu, ncclResult_t status, const char *what);

/* Communicators of the first `n_ranks` GPUs of all processes; `id` is NULL when this process is alone. Close the group
 * also when this fails. */
bool bench_group_open (BenchGroup *group, BenchGpu *gpu, int n_ranks, const ncclUniqueId *id);
void bench_group_close (BenchGroup *group);

/* Send and receive buffers of `bytes` on each GPU, half as large until they fit. */
bool bench_group_buffers (BenchGroup *group, size_t bytes);

/* Make what must be the same everywhere the same: how many nodes there are, and the smallest buffers. Needs buffers. */
bool bench_group_settle (BenchGroup *group);

/* Replace all values by their maximum over all ranks. Nothing to do for one process. */
bool bench_group_agree (const BenchGroup *group, double values[BENCH_VOTES]);

/* Rank 0 makes n ids and leaves them in the file of --id-file; the others wait for it. */
bool bench_group_share_ids (const BenchOptions *options, ncclUniqueId *ids, int n);
