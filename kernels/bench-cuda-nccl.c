/* SPDX-License-Identifier: MIT */
/* NCCL collectives over 8 B to 1 GiB for every group size, what communicators take in memory, and how much products and
 * communication slow each other down.
 *
 * `bytes` is the size as nccl-tests counts it: the whole buffer of an all-reduce or broadcast, all shards together for
 * all-gather, reduce-scatter and all-to-all, one message for send_recv (everybody sends to the next rank). Out of
 * place, fp32, calls back to back. A process drives all GPUs of its group that it has; with several processes the first
 * one writes, and what must be the same everywhere (how often, when to stop) is agreed on by a small all-reduce. */
#define _GNU_SOURCE
#include "bench-cuda.h"

#ifdef BENCH_WITHOUT_NCCL

const char *
bench_nccl_version (void)
{
  return NULL;
}

int
bench_nccl_memory_run (void *state, int sweep, double deadline_s)
{
  return 0;
}

int
bench_collective_run (void *state, int sweep, double deadline_s)
{
  BenchGpu *gpu = state;
  bench_warn (gpu->options, "built without NCCL: no collectives");
  return 0;
}

int
bench_contention_run (void *state, int sweep, double deadline_s)
{
  return 0;
}

#else

#include "bench-cuda-group.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

enum
{
  MOST_GROUPS = 32, /* group sizes */
  MOST_SWEEPS = 2
};

typedef enum
{
  OP_ALL_REDUCE,
  OP_ALL_GATHER,
  OP_REDUCE_SCATTER,
  OP_BROADCAST,
  OP_ALL_TO_ALL,
  OP_SEND_RECV,
  N_OPS
} Op;

static const struct
{
  const char *name;
  bool shards; /* the size is that of all shards together */
} ops[N_OPS] = {
  [OP_ALL_REDUCE] = { "all_reduce", false },        [OP_ALL_GATHER] = { "all_gather", true },
  [OP_REDUCE_SCATTER] = { "reduce_scatter", true }, [OP_BROADCAST] = { "broadcast", false },
  [OP_ALL_TO_ALL] = { "all_to_all", true },         [OP_SEND_RECV] = { "send_recv", false },
};

const char *
bench_nccl_version (void)
{
  static char text[32];
  int version = 0;
  ncclGetVersion (&version);
  snprintf (text, sizeof text, "%d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
  return text;
}

static bool
enqueue_on (const BenchGroup *group, Op op, size_t bytes, int i, long iteration)
{
  ncclComm_t comm = group->comms[i];
  cudaStream_t stream = group->streams[i];
  size_t at = bench_rotate (bytes, group->pool_bytes, iteration);
  char *send = group->send[i] + at, *recv = group->recv[i] + at;
  int n = group->n_ranks, rank = group->gpu->options->rank * group->gpu->n_devices + i;
  size_t count = bytes / sizeof (float), shard = count / (size_t) n;
  ncclResult_t status = ncclSuccess;

  switch (op)
    {
    case OP_ALL_REDUCE:
      status = ncclAllReduce (send, recv, count, ncclFloat, ncclSum, comm, stream);
      break;
    case OP_ALL_GATHER:
      status = ncclAllGather (send, recv, shard, ncclFloat, comm, stream);
      break;
    case OP_REDUCE_SCATTER:
      status = ncclReduceScatter (send, recv, shard, ncclFloat, ncclSum, comm, stream);
      break;
    case OP_BROADCAST:
      status = ncclBroadcast (send, recv, count, ncclFloat, 0, comm, stream);
      break;
    case OP_ALL_TO_ALL:
      for (int peer = 0; peer < n && status == ncclSuccess; peer++)
        {
          size_t offset = (size_t) peer * shard * sizeof (float);
          status = ncclSend (send + offset, shard, ncclFloat, peer, comm, stream);
          if (status == ncclSuccess)
            status = ncclRecv (recv + offset, shard, ncclFloat, peer, comm, stream);
        }
      break;
    case OP_SEND_RECV:
      status = ncclSend (send, count, ncclFloat, (rank + 1) % n, comm, stream);
      if (status == ncclSuccess)
        status = ncclRecv (recv, count, ncclFloat, (rank + n - 1) % n, comm, stream);
      break;
    case N_OPS:
      return false;
    }
  return bench_nccl_ok (group->gpu, status, ops[op].name);
}

static bool
enqueue (const BenchGroup *group, Op op, size_t bytes, long iteration)
{
  bool ok = bench_nccl_ok (group->gpu, ncclGroupStart (), "NCCL");
  for (int i = 0; ok && i < group->n_local; i++)
    ok = enqueue_on (group, op, bytes, i, iteration);
  return bench_nccl_ok (group->gpu, ncclGroupEnd (), "NCCL") && ok;
}

/* Wall time on the GPUs of `n` calls: the slowest of this process, after one call that lines everybody up. */
static bool
time_calls (const BenchGroup *group, Op op, size_t bytes, long n, long *iteration, double *ret_ns)
{
  double slowest_ns = 0;

  if (!enqueue (group, op, bytes, (*iteration)++))
    return false;
  for (int i = 0; i < group->n_local; i++)
    if (cudaEventRecord (group->begin[i], group->streams[i]) != cudaSuccess)
      return false;
  for (long j = 0; j < n; j++)
    if (!enqueue (group, op, bytes, (*iteration)++))
      return false;
  for (int i = 0; i < group->n_local; i++)
    if (cudaEventRecord (group->end[i], group->streams[i]) != cudaSuccess)
      return false;
  for (int i = 0; i < group->n_local; i++)
    {
      float ms = 0;
      if (!bench_cuda_ok (group->gpu, cudaEventSynchronize (group->end[i]), ops[op].name) ||
          cudaEventElapsedTime (&ms, group->begin[i], group->end[i]) != cudaSuccess)
        return false;
      if ((double) ms * 1e6 > slowest_ns)
        slowest_ns = (double) ms * 1e6;
    }
  *ret_ns = slowest_ns;
  return true;
}

static void
on_alarm (int number)
{
  static const char message[] = "bench-cuda: the other processes do not answer; what was measured is kept\n";
  (void) !write (STDERR_FILENO, message, sizeof message - 1);
  _exit (1);
}

/* Group sizes, the largest first: all within a process, then whole processes; powers of two if that is too many. */
static int
group_sizes (const BenchGpu *gpu, int *ret_sizes)
{
  int local = gpu->n_devices, total = gpu->options->ranks * local, n = 0;
  bool all = local + gpu->options->ranks <= MOST_GROUPS - 2;

  for (int size = total; size >= 2 && n < MOST_GROUPS; size--)
    {
      bool power = (size & (size - 1)) == 0;
      if (size == total || power || (all && (size <= local || size % local == 0)))
        ret_sizes[n++] = size;
    }
  return n;
}

/* ---- Collectives ---- */

/* FALSE when everybody should stop: out of time, interrupted, or an error. */
static bool
measure_point (const BenchGroup *group, Op op, size_t bytes, int sweep, double seconds, double deadline_s)
{
  enum
  {
    MOST_SAMPLES = 100
  };
  const BenchOptions *options = group->gpu->options;
  double samples_ns[MOST_SAMPLES], once_ns = 0;
  BenchStats stats = { 0 };
  long iteration = 0;

  if (!time_calls (group, op, bytes, 1, &iteration, &once_ns) ||
      !time_calls (group, op, bytes, 4, &iteration, &once_ns))
    return false;
  double votes[BENCH_VOTES] = { once_ns / 4, bench_interrupted () || bench_now_s () > deadline_s, seconds };
  if (!bench_group_agree (group, votes) || votes[1] > 0)
    return false;
  double each_ns = votes[0] > 1000 ? votes[0] : 1000;
  long batch = each_ns > 5e5 ? 1 : (long) (5e5 / each_ns) + 1;
  if (batch > 50)
    batch = 50;
  double most = votes[2] * 1e9 / (each_ns * (double) batch), cap = 2e9 / (each_ns * (double) batch);
  int n = (int) fmax (fmin (fmax (most, 10), fmin (cap, MOST_SAMPLES)), 3);
  unsigned long long throttle = bench_nvml_throttle (&group->gpu->nvml);
  for (int i = 0; i < n; i++)
    {
      double batch_ns;
      if (!time_calls (group, op, bytes, batch, &iteration, &batch_ns))
        return false;
      samples_ns[i] = batch_ns / (double) batch;
    }
  bench_stats (samples_ns, n, &stats);
  stats.iterations = (long) n * batch;
  bench_line_begin (options, "collective");
  bench_line_text (options, "op", ops[op].name);
  bench_line_number (options, "ranks", group->n_ranks);
  bench_line_number (options, "nodes", group->n_nodes);
  bench_line_number (options, "bytes", (double) bytes);
  bench_line_number (options, "sweep", sweep);
  bench_line_stats (options, &stats);
  bench_nvml_line (options, &group->gpu->nvml, throttle);
  bench_line_end (options);
  return true;
}

/* All operations and sizes of one group. */
static void
measure_group (BenchGroup *group, int sweep, double deadline_s)
{
  bool quick = group->gpu->options->quick;
  int step = quick ? 3 : 1;
  int sizes = (quick ? 24 : 28) / step; /* 8 B to 1 GiB (64 MiB with --quick) */
  int points = sizes * N_OPS;
  double seconds = fmin (0.2, fmax (0.005, (deadline_s - bench_now_s ()) / points));

  for (int i = 0; i < points; i++)
    {
      int at = bench_order (i, points, sweep);
      Op op = (Op) (at % N_OPS);
      size_t bytes = (size_t) 8 << (at / N_OPS * step);
      if (ops[op].shards) /* whole floats for everybody */
        bytes -= bytes % ((size_t) group->n_ranks * sizeof (float));
      if (bytes == 0 || bytes > group->pool_bytes)
        continue;
      if (!measure_point (group, op, bytes, sweep, seconds, deadline_s))
        return;
    }
}

int
bench_collective_run (void *state, int sweep, double deadline_s)
{
  static ncclUniqueId ids[MOST_SWEEPS][MOST_GROUPS];
  BenchGpu *gpu = state;
  const BenchOptions *options = gpu->options;
  int sizes[MOST_GROUPS], n = group_sizes (gpu, sizes);
  bool many = options->ranks > 1;

  if (gpu->n_devices > BENCH_MOST_GPUS)
    gpu->n_devices = BENCH_MOST_GPUS;
  if (n == 0)
    {
      if (sweep == 0)
        bench_warn (options, "one GPU: no collectives to measure");
      return 0;
    }
  if (many)
    {
      signal (SIGALRM, on_alarm);
      alarm ((unsigned) options->budget_s + 150);
      if (sweep == 0 && !bench_group_share_ids (options, &ids[0][0], MOST_SWEEPS * MOST_GROUPS))
        return 1;
    }
  bench_gpu_pools_free (gpu);
  for (int i = 0; i < n && !bench_interrupted (); i++)
    {
      BenchGroup group;
      double now_s = bench_now_s ();
      if (options->rank * gpu->n_devices >= sizes[i])
        continue; /* no GPU of this process is in it */
      bool ok = bench_group_open (&group, gpu, sizes[i], many ? &ids[sweep][i] : NULL) &&
                bench_group_buffers (&group, (size_t) (options->quick ? 64 : 1024) << 20) &&
                bench_group_settle (&group);
      if (ok)
        measure_group (&group, sweep, now_s + (deadline_s - now_s) / (n - i));
      bench_group_close (&group);
      if (!ok && many)
        return 1;
    }
  alarm (0);
  if (many && options->rank == 0 && sweep + 1 == options->sweeps)
    unlink (options->id_file);
  return 0;
}

/* ---- Memory of communicators ---- */

int
bench_nccl_memory_run (void *state, int sweep, double deadline_s)
{
  BenchGpu *gpu = state;
  BenchGroup group;
  double before = bench_nvml_used_bytes (&gpu->nvml);

  if (before < 0)
    return 0;
  if (gpu->n_devices > BENCH_MOST_GPUS)
    gpu->n_devices = BENCH_MOST_GPUS;
  if (bench_group_open (&group, gpu, gpu->n_devices, NULL))
    {
      double opened = bench_nvml_used_bytes (&gpu->nvml);
      bench_memory_record (gpu, "nccl_init", gpu->n_devices, opened - before);
      if (bench_group_buffers (&group, (size_t) 32 << 20))
        {
          double buffers = bench_nvml_used_bytes (&gpu->nvml);
          if (enqueue (&group, OP_ALL_REDUCE, (size_t) 16 << 20, 0) &&
              cudaStreamSynchronize (group.streams[0]) == cudaSuccess)
            bench_memory_record (gpu, "first_all_reduce", gpu->n_devices, bench_nvml_used_bytes (&gpu->nvml) - buffers);
        }
    }
  bench_group_close (&group);
  return 0;
}

/* ---- Contention ---- */

enum
{
  CONTENTION_GEMM = 8192
};

/* Communication that is enqueued beside a product: a collective, or a copy if there is one GPU. */
static bool
contend (const BenchGroup *group, size_t bytes, long iteration)
{
  BenchGpu *gpu = group->gpu;
  if (group->n_ranks > 1)
    return enqueue (group, OP_ALL_REDUCE, bytes, iteration);
  size_t half = gpu->out_bytes / 2;
  return bench_cuda_ok (gpu,
                        cudaMemcpyAsync (gpu->out + half, gpu->out, bytes < half ? bytes : half,
                                         cudaMemcpyDeviceToDevice, group->streams[0]),
                        "copy");
}

/* Time per product and per communication when `n_gemm` and `n_comm` of them run at once; 0 of one: the other alone. */
static bool
time_both (const BenchGroup *group, size_t bytes, int n_gemm, int n_comm, double *ret_gemm_ns, double *ret_comm_ns)
{
  BenchGpu *gpu = group->gpu;
  float ms = 0;
  bool ok = true;

  cudaDeviceSynchronize ();
  cudaEventRecord (gpu->begin, gpu->stream);
  cudaEventRecord (group->begin[0], group->streams[0]);
  for (int i = 0; ok && (i < n_gemm || i < n_comm); i++)
    ok = (i >= n_comm || contend (group, bytes, i)) && (i >= n_gemm || bench_gemm_square (gpu, CONTENTION_GEMM, i));
  cudaEventRecord (gpu->end, gpu->stream);
  cudaEventRecord (group->end[0], group->streams[0]);
  if (!ok || !bench_cuda_ok (gpu, cudaEventSynchronize (gpu->end), "contention") ||
      !bench_cuda_ok (gpu, cudaEventSynchronize (group->end[0]), "contention"))
    return false;
  if (n_gemm && cudaEventElapsedTime (&ms, gpu->begin, gpu->end) == cudaSuccess)
    *ret_gemm_ns = (double) ms * 1e6 / n_gemm;
  if (n_comm && cudaEventElapsedTime (&ms, group->begin[0], group->end[0]) == cudaSuccess)
    *ret_comm_ns = (double) ms * 1e6 / n_comm;
  return true;
}

int
bench_contention_run (void *state, int sweep, double deadline_s)
{
  BenchGpu *gpu = state;
  BenchGroup group;
  size_t bytes = (size_t) (gpu->options->quick ? 16 : 256) << 20;
  double gemm_ns = 0, comm_ns = 0, gemm_both_ns = 0, comm_both_ns = 0, unused;

  if (!bench_gpu_pools (gpu, BENCH_FILL_BF16) || gpu->in_bytes < (size_t) 2 * CONTENTION_GEMM * CONTENTION_GEMM * 2)
    return 0;
  bool ok = bench_group_open (&group, gpu, gpu->n_devices, NULL) && bench_group_buffers (&group, bytes);
  if (ok && group.pool_bytes < bytes)
    bytes = group.pool_bytes;
  ok = ok && time_both (&group, bytes, 2, 2, &unused, &unused) && time_both (&group, bytes, 20, 0, &gemm_ns, &unused) &&
       time_both (&group, bytes, 0, 20, &unused, &comm_ns);
  if (ok && gemm_ns > 0 && comm_ns > 0)
    {
      /* The one that is timed must end first, so that it has company all the time. */
      int n_comm = (int) fmin (200, 3 * 10 * gemm_ns / comm_ns + 4),
          n_gemm = (int) fmin (200, 3 * 10 * comm_ns / gemm_ns + 4);
      ok = time_both (&group, bytes, 10, n_comm, &gemm_both_ns, &unused) &&
           time_both (&group, bytes, n_gemm, 10, &unused, &comm_both_ns);
    }
  if (ok)
    {
      const BenchOptions *options = gpu->options;
      bench_line_begin (options, "contention");
      bench_line_text (options, "with", group.n_ranks > 1 ? "all_reduce" : "device_copy");
      bench_line_number (options, "ranks", group.n_ranks);
      bench_line_number (options, "bytes", (double) bytes);
      bench_line_number (options, "gemm_size", CONTENTION_GEMM);
      bench_line_number (options, "gemm_alone_ns", gemm_ns);
      bench_line_number (options, "gemm_ns", gemm_both_ns);
      bench_line_number (options, "comm_alone_ns", comm_ns);
      bench_line_number (options, "comm_ns", comm_both_ns);
      bench_line_number (options, "gemm_slowdown", gemm_both_ns / gemm_ns);
      bench_line_number (options, "comm_slowdown", comm_both_ns / comm_ns);
      bench_line_number (options, "sweep", sweep);
      bench_nvml_line (options, &gpu->nvml, 0);
      bench_line_end (options);
    }
  bench_group_close (&group);
  return 0;
}

#endif
