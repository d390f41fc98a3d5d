/* SPDX-License-Identifier: MIT */
/* Everything bound by memory or by launching: copies and elementwise kernels on the device, launch overhead, copies
 * between host and device and between devices. Records `copy` have `what`, `bytes` (the buffer; a device copy reads and
 * writes it) and `moved_bytes` (read plus written). */
#define _GNU_SOURCE
#include "bench-cuda.h"

#include <stdlib.h>
#include <string.h>

typedef enum
{
  COPY_DEVICE,
  COPY_SCALE,
  COPY_AXPY,
  COPY_TO_DEVICE,
  COPY_TO_HOST,
  COPY_BOTH_WAYS,
  COPY_PEER
} What;

static const struct
{
  const char *name;
  double moved; /* read plus written, per byte of the buffer */
} whats[] = {
  [COPY_DEVICE] = { "device_copy", 2 },  [COPY_SCALE] = { "scale", 2 },     [COPY_AXPY] = { "axpy", 3 },
  [COPY_TO_DEVICE] = { "to_device", 1 }, [COPY_TO_HOST] = { "to_host", 1 }, [COPY_BOTH_WAYS] = { "both_ways", 2 },
  [COPY_PEER] = { "peer_copy", 1 },
};

typedef struct
{
  What what;
  size_t bytes;
  bool pinned;
  char *host;        /* two host buffers, for the two directions */
  size_t host_bytes; /* of each */
  int peer;          /* the other device */
  char *peer_memory;
} Copy;

/* The other direction runs beside on a second stream, joined before and after by events. */
static bool
copy_both_ways (BenchGpu *gpu, const Copy *copy, size_t device_at, size_t host_at)
{
  return cudaEventRecord (gpu->begin, gpu->stream) == cudaSuccess &&
         cudaStreamWaitEvent (gpu->contender, gpu->begin, 0) == cudaSuccess &&
         cudaMemcpyAsync (gpu->in + device_at, copy->host + host_at, copy->bytes, cudaMemcpyHostToDevice,
                          gpu->stream) == cudaSuccess &&
         cudaMemcpyAsync (copy->host + copy->host_bytes + host_at, gpu->out + device_at, copy->bytes,
                          cudaMemcpyDeviceToHost, gpu->contender) == cudaSuccess &&
         cudaEventRecord (gpu->end, gpu->contender) == cudaSuccess &&
         cudaStreamWaitEvent (gpu->stream, gpu->end, 0) == cudaSuccess;
}

static bool
copy_work (BenchGpu *gpu, void *data, long iteration)
{
  const Copy *copy = data;
  size_t smaller = gpu->out_bytes; /* `in` is the larger pool */
  size_t at = bench_rotate (copy->bytes, smaller, iteration);
  size_t host_at = copy->host ? bench_rotate (copy->bytes, copy->host_bytes, iteration) : 0;
  float alpha = 0.999f;
  int n = (int) (copy->bytes / sizeof (float));

  switch (copy->what)
    {
    case COPY_DEVICE:
      return bench_cuda_ok (
          gpu, cudaMemcpyAsync (gpu->out + at, gpu->in + at, copy->bytes, cudaMemcpyDeviceToDevice, gpu->stream),
          "copy");
    case COPY_SCALE:
      return bench_cublas_ok (gpu, cublasSscal (gpu->cublas, n, &alpha, (float *) (void *) (gpu->in + at), 1), "scale");
    case COPY_AXPY:
      return bench_cublas_ok (gpu,
                              cublasSaxpy (gpu->cublas, n, &alpha, (const float *) (const void *) (gpu->in + at), 1,
                                           (float *) (void *) (gpu->out + at), 1),
                              "axpy");
    case COPY_TO_DEVICE:
      return bench_cuda_ok (
          gpu, cudaMemcpyAsync (gpu->in + at, copy->host + host_at, copy->bytes, cudaMemcpyHostToDevice, gpu->stream),
          "copy to device");
    case COPY_TO_HOST:
      return bench_cuda_ok (
          gpu, cudaMemcpyAsync (copy->host + host_at, gpu->out + at, copy->bytes, cudaMemcpyDeviceToHost, gpu->stream),
          "copy to host");
    case COPY_PEER:
      return bench_cuda_ok (
          gpu, cudaMemcpyPeerAsync (copy->peer_memory, copy->peer, gpu->in + at, gpu->device, copy->bytes, gpu->stream),
          "copy between devices");
    case COPY_BOTH_WAYS:
      break;
    }
  return copy_both_ways (gpu, copy, at, host_at);
}

/* Both directions end in two streams, so the wall clock times them: batches of copies between two synchronisations. */
static bool
measure_both_ways (BenchGpu *gpu, Copy *copy, double seconds, BenchStats *ret_stats)
{
  double samples_ns[50];
  int n = 0;
  long batch = 1 + (long) ((4u << 20) / copy->bytes), iteration = 0;
  double start_s = bench_now_s ();

  memset (ret_stats, 0, sizeof *ret_stats);
  if (!copy_work (gpu, copy, iteration++) || cudaStreamSynchronize (gpu->stream) != cudaSuccess)
    return false;
  while (n < 50 && (n < 10 || bench_now_s () - start_s < seconds) && (n < 3 || bench_now_s () - start_s < 2))
    {
      double begin_s = bench_now_s ();
      for (long i = 0; i < batch; i++)
        if (!copy_work (gpu, copy, iteration++))
          return false;
      if (!bench_cuda_ok (gpu, cudaStreamSynchronize (gpu->stream), "copies both ways"))
        return false;
      samples_ns[n++] = (bench_now_s () - begin_s) * 1e9 / (double) batch;
    }
  bench_stats (samples_ns, n, ret_stats);
  ret_stats->iterations = n * batch;
  return true;
}

static void
measure_copy (BenchGpu *gpu, Copy *copy, int sweep, double seconds)
{
  const BenchOptions *options = gpu->options;
  BenchStats stats;
  unsigned long long throttle = bench_nvml_throttle (&gpu->nvml);
  bool ok = copy->what == COPY_BOTH_WAYS
                ? measure_both_ways (gpu, copy, seconds, &stats)
                : bench_gpu_measure (gpu, copy_work, copy, seconds, copy->what <= COPY_AXPY, &stats);
  if (!ok)
    return;
  bench_line_begin (options, "copy");
  bench_line_text (options, "what", whats[copy->what].name);
  if (copy->host)
    bench_line_text (options, "memory", copy->pinned ? "pinned" : "pageable");
  if (copy->what == COPY_PEER)
    bench_line_number (options, "peer", copy->peer);
  bench_line_number (options, "bytes", (double) copy->bytes);
  bench_line_number (options, "moved_bytes", (double) copy->bytes * whats[copy->what].moved);
  bench_line_number (options, "sweep", sweep);
  bench_line_stats (options, &stats);
  bench_nvml_line (options, &gpu->nvml, throttle);
  bench_line_end (options);
}

/* Sizes 4 KiB to `largest` by powers of two (of four with --quick) for each of `n` kinds, `proto` says the rest. */
static void
measure_sizes (BenchGpu *gpu, const Copy *proto, const What *kinds, int n, size_t largest, int sweep, double deadline_s)
{
  int step = gpu->options->quick ? 4 : 1, steps = 0;
  while ((size_t) 4096 << (steps * step) <= largest)
    steps++;
  int points = steps * n;
  double seconds = points ? (deadline_s - bench_now_s ()) / points : 0;
  seconds = seconds < 0.01 ? 0.01 : seconds > 0.2 ? 0.2 : seconds;
  for (int i = 0; i < points && !bench_interrupted () && bench_now_s () < deadline_s; i++)
    {
      int at = bench_order (i, points, sweep);
      Copy copy = *proto;
      copy.what = kinds[at % n];
      copy.bytes = (size_t) 4096 << (at / n * step);
      measure_copy (gpu, &copy, sweep, seconds);
    }
}

int
bench_copy_run (void *state, int sweep, double deadline_s)
{
  BenchGpu *gpu = state;
  const What kinds[] = { COPY_DEVICE, COPY_SCALE, COPY_AXPY };
  Copy copy = { 0 };

  if (!bench_gpu_pools (gpu, BENCH_FILL_FP32))
    return 1;
  measure_sizes (gpu, &copy, kinds, 3, gpu->out_bytes < (size_t) 4 << 30 ? gpu->out_bytes : (size_t) 4 << 30, sweep,
                 deadline_s);
  return 0;
}

int
bench_host_copy_run (void *state, int sweep, double deadline_s)
{
  BenchGpu *gpu = state;
  const What kinds[] = { COPY_TO_DEVICE, COPY_TO_HOST, COPY_BOTH_WAYS };
  size_t largest = (size_t) (gpu->options->quick ? 64 : 512) << 20;

  if (!bench_gpu_pools (gpu, BENCH_FILL_BF16))
    return 1;
  if (deadline_s - bench_now_s () < 5) /* touching the buffers takes time, too */
    largest = (size_t) 64 << 20;
  if (largest > gpu->out_bytes)
    largest = gpu->out_bytes;
  for (int pinned = 1; pinned >= 0; pinned--)
    {
      Copy copy = { .pinned = pinned, .host_bytes = largest };
      double now_s = bench_now_s ();
      if (pinned ? cudaMallocHost ((void **) &copy.host, 2 * largest) != cudaSuccess
                 : !(copy.host = malloc (2 * largest)))
        {
          cudaGetLastError ();
          bench_warn (gpu->options, "hostcopy: no room for %zu MiB of %s host memory", 2 * largest >> 20,
                      pinned ? "pinned" : "pageable");
          continue;
        }
      memset (copy.host, 1, 2 * largest);
      /* Pageable memory cannot go both ways at once: such a copy waits for the host. */
      measure_sizes (gpu, &copy, kinds, pinned ? 3 : 2, largest, sweep,
                     pinned ? now_s + 0.6 * (deadline_s - now_s) : deadline_s);
      if (pinned)
        cudaFreeHost (copy.host);
      else
        free (copy.host);
    }
  return 0;
}

int
bench_peer_run (void *state, int sweep, double deadline_s)
{
  BenchGpu *gpu = state;
  const What kinds[] = { COPY_PEER };

  if (gpu->n_devices < 2)
    return 0;
  if (!bench_gpu_pools (gpu, BENCH_FILL_BF16))
    return 1;
  for (int peer = 0; peer < gpu->n_devices && !bench_interrupted (); peer++)
    {
      Copy copy = { .peer = peer };
      size_t largest = gpu->out_bytes < (size_t) 1 << 30 ? gpu->out_bytes : (size_t) 1 << 30;
      int can = 0;
      double now_s = bench_now_s ();
      if (peer == gpu->device)
        continue;
      cudaDeviceCanAccessPeer (&can, gpu->device, peer);
      if (can && cudaDeviceEnablePeerAccess (peer, 0) != cudaSuccess)
        cudaGetLastError (); /* already on */
      cudaSetDevice (peer);
      cudaError_t status = cudaMalloc ((void **) &copy.peer_memory, largest);
      cudaSetDevice (gpu->device);
      if (!bench_cuda_ok (gpu, status, "memory on the other device"))
        continue;
      measure_sizes (gpu, &copy, kinds, 1, largest, sweep, now_s + (deadline_s - now_s) / (gpu->n_devices - peer));
      cudaSetDevice (peer);
      cudaFree (copy.peer_memory);
      cudaSetDevice (gpu->device);
    }
  return 0;
}

/* ---- Launch overhead ---- */

static void
write_launch (const BenchGpu *gpu, const char *what, int sweep, double *samples_ns, int n)
{
  BenchStats stats = { 0 };
  bench_stats (samples_ns, n, &stats);
  bench_line_begin (gpu->options, "launch");
  bench_line_text (gpu->options, "what", what);
  bench_line_number (gpu->options, "sweep", sweep);
  bench_line_stats (gpu->options, &stats);
  bench_line_end (gpu->options);
}

static bool
tiny_kernel (BenchGpu *gpu)
{
  float alpha = 0.999f;
  return bench_cublas_ok (gpu, cublasSscal (gpu->cublas, 64, &alpha, (float *) (void *) gpu->in, 1), "tiny kernel");
}

/* A kernel so small that the gap between two of them is what is seen: in a stream, and replayed from a graph. `issue`
 * is the time the host takes to enqueue one. */
int
bench_launch_run (void *state, int sweep, double deadline_s)
{
  enum
  {
    REPEATS = 20,
    KERNELS = 500
  };
  BenchGpu *gpu = state;
  double stream_ns[REPEATS], issue_ns[REPEATS], graph_ns[REPEATS];
  cudaGraph_t graph = NULL;
  cudaGraphExec_t executable = NULL;
  int n = 0;
  float ms;

  if (!bench_gpu_pools (gpu, BENCH_FILL_FP32))
    return 1;
  for (; n < REPEATS && !bench_interrupted (); n++)
    {
      double begin_s = bench_now_s ();
      cudaEventRecord (gpu->begin, gpu->stream);
      for (int i = 0; i < KERNELS; i++)
        if (!tiny_kernel (gpu))
          return 0;
      issue_ns[n] = (bench_now_s () - begin_s) * 1e9 / KERNELS;
      cudaEventRecord (gpu->end, gpu->stream);
      if (!bench_cuda_ok (gpu, cudaEventSynchronize (gpu->end), "launches") ||
          !bench_cuda_ok (gpu, cudaEventElapsedTime (&ms, gpu->begin, gpu->end), "event"))
        return 0;
      stream_ns[n] = (double) ms * 1e6 / KERNELS;
    }
  if (!n)
    return 0;
  write_launch (gpu, "stream", sweep, stream_ns, n);
  write_launch (gpu, "issue", sweep, issue_ns, n);

  if (!bench_cuda_ok (gpu, cudaStreamBeginCapture (gpu->stream, cudaStreamCaptureModeThreadLocal), "graph"))
    return 0;
  bool ok = true;
  for (int i = 0; ok && i < KERNELS; i++)
    ok = tiny_kernel (gpu);
  if (!bench_cuda_ok (gpu, cudaStreamEndCapture (gpu->stream, &graph), "graph") || !ok ||
      !bench_cuda_ok (gpu, cudaGraphInstantiateWithFlags (&executable, graph, 0), "graph"))
    return 0;
  for (n = 0; n < REPEATS && !bench_interrupted (); n++)
    {
      if (!bench_cuda_ok (gpu, cudaGraphLaunch (executable, gpu->stream), "graph"))
        break;
      cudaEventRecord (gpu->begin, gpu->stream);
      cudaGraphLaunch (executable, gpu->stream);
      cudaEventRecord (gpu->end, gpu->stream);
      if (!bench_cuda_ok (gpu, cudaEventSynchronize (gpu->end), "graph"))
        break;
      cudaEventElapsedTime (&ms, gpu->begin, gpu->end);
      graph_ns[n] = (double) ms * 1e6 / KERNELS;
    }
  if (n)
    write_launch (gpu, "graph", sweep, graph_ns, n);
  cudaGraphExecDestroy (executable);
  cudaGraphDestroy (graph);
  return 0;
}
