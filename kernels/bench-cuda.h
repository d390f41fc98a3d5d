/* SPDX-License-Identifier: MIT */
/* Parts of bench-cuda: one GPU with its pools, and the sections that measure. */
#pragma once

#include "bench-common.h"
#include "bench-nvml.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

typedef enum
{
  BENCH_FILL_BF16,
  BENCH_FILL_FP16,
  BENCH_FILL_FP32
} BenchFill;

typedef struct
{
  BenchOptions *options;
  int device;    /* the one that sections about a single GPU use */
  int n_devices; /* visible to this process */
  int sms;
  size_t l2_bytes, total_bytes;
  cudaStream_t stream, contender;
  cublasHandle_t cublas;
  void *workspace; /* of cuBLAS, set explicitly so that it is always the same */
  cudaEvent_t begin, end;
  /* Pools, allocated on first use: operands of random numbers, results. Calls rotate through them so that the L2 cache
   * does not hold what they read. */
  char *in, *out;
  size_t in_bytes, out_bytes;
  int filled; /* BenchFill of `in`, -1 = none */
  BenchNvml nvml;
} BenchGpu;

#define BENCH_WORKSPACE_BYTES ((size_t) 32 << 20)

/* Enqueue call number `iteration` on gpu->stream. FALSE: it failed, and a warning was printed. */
typedef bool (*BenchWork) (BenchGpu *gpu, void *data, long iteration);

/* Measure a call with events: batches long enough for their resolution, at least 10 of them and about `seconds` (at
 * most 2). With `graph` short calls are replayed from a graph, so that what is measured is the GPU and not the host
 * that issues them. FALSE if a call failed. */
bool bench_gpu_measure (BenchGpu *gpu, BenchWork work, void *data, double seconds, bool graph, BenchStats *ret_stats);

/* Print a warning unless `status` is success. */
bool bench_cuda_ok (const BenchGpu *gpu, cudaError_t status, const char *what);
bool bench_cublas_ok (const BenchGpu *gpu, cublasStatus_t status, const char *what);

/* Fill memory of the current device with random numbers, at least those of one 32 MiB block. */
bool bench_gpu_fill (const BenchGpu *gpu, char *memory, size_t bytes, BenchFill fill);

/* Allocate the pools and fill the first with random numbers of that type. */
bool bench_gpu_pools (BenchGpu *gpu, BenchFill fill);
void bench_gpu_pools_free (BenchGpu *gpu);

/* Offset of the iteration-th object of `bytes` in a pool of `pool_bytes`, aligned to 256 bytes. */
size_t bench_rotate (size_t bytes, size_t pool_bytes, long iteration);

/* A record `memory`: bytes the device lost by `what`. */
void bench_memory_record (const BenchGpu *gpu, const char *what, int ranks, double bytes);

/* Sections. */
int bench_gemm_run (void *gpu, int sweep, double deadline_s);
int bench_copy_run (void *gpu, int sweep, double deadline_s);
int bench_host_copy_run (void *gpu, int sweep, double deadline_s);
int bench_launch_run (void *gpu, int sweep, double deadline_s);
int bench_peer_run (void *gpu, int sweep, double deadline_s);
int bench_collective_run (void *gpu, int sweep, double deadline_s);
int bench_contention_run (void *gpu, int sweep, double deadline_s);
int bench_nccl_memory_run (void *gpu, int sweep, double deadline_s);

/* One square bf16 product of that size on gpu->stream: warm-up, contention, memory probe. */
bool bench_gemm_square (BenchGpu *gpu, int n, long iteration);

const char *bench_nccl_version (void); /* NULL: built without */
