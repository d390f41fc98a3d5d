/* SPDX-License-Identifier: MIT */
/* Measure NVIDIA GPUs: cuBLAS products, copies, launches, host links, NCCL collectives, memory of the libraries.
 * Plain C; builds with
 *
 *   cc -O2 -std=gnu11 -o bench-cuda bench-cuda*.c bench-nvml.c bench-common.c -I/usr/local/cuda/include \
 *     -L/usr/local/cuda/lib64 -Wl,-rpath,/usr/local/cuda/lib64 -lcudart -lcublas -lnccl -ldl -lm
 *
 * (-DBENCH_WITHOUT_NCCL without -lnccl leaves the collectives out.) Several nodes: start one process on each node, or
 * with --one-gpu-each one for each GPU, through mpirun, srun, or by hand:
 *
 *   bench-cuda --ranks 2 --rank 0 --id-file /shared/id -o samples.jsonl    (and --rank 1 on the other node)
 *
 * Only collectives are measured then. Method: warm-up of half a second, random data, buffers that rotate through more
 * than twice the L2 cache, medians of at least ten batches timed by events, two sweeps in opposite order. Clocks,
 * temperature, power and what holds the clocks down are in every record; nothing is ever set. */
#define _GNU_SOURCE
#include "bench-cuda.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool
bench_cuda_ok (const BenchGpu *gpu, cudaError_t status, const char *what)
{
  if (status == cudaSuccess)
    return true;
  bench_warn (gpu->options, "%s: %s", what, cudaGetErrorString (status));
  cudaGetLastError ();
  return false;
}

bool
bench_cublas_ok (const BenchGpu *gpu, cublasStatus_t status, const char *what)
{
  if (status == CUBLAS_STATUS_SUCCESS)
    return true;
  bench_warn (gpu->options, "%s: %s", what, cublasGetStatusString (status));
  return false;
}

/* ---- Pools ---- */

size_t
bench_rotate (size_t bytes, size_t pool_bytes, long iteration)
{
  size_t step = (bytes + 255) & ~(size_t) 255;
  size_t slots = pool_bytes / step;
  return slots > 1 ? (size_t) iteration % slots * step : 0;
}

/* A block of random numbers made on the host and repeated: no kernel of our own needed. */
bool
bench_gpu_fill (const BenchGpu *gpu, char *memory, size_t bytes, BenchFill fill)
{
  size_t block = bytes < (size_t) 32 << 20 ? bytes : (size_t) 32 << 20;
  void *host = malloc (block);
  if (!host)
    return false;
  switch (fill)
    {
    case BENCH_FILL_BF16:
      bench_fill_bf16 (host, block / 2, 1);
      break;
    case BENCH_FILL_FP16:
      bench_fill_fp16 (host, block / 2, 1);
      break;
    case BENCH_FILL_FP32:
      bench_fill_fp32 (host, block / 4, 1);
      break;
    }
  cudaError_t status = cudaMemcpy (memory, host, block, cudaMemcpyHostToDevice);
  free (host);
  for (size_t done = block; status == cudaSuccess && done < bytes; done += block)
    status = cudaMemcpy (memory + done, memory, bytes - done < block ? bytes - done : block, cudaMemcpyDeviceToDevice);
  return bench_cuda_ok (gpu, status, "cannot fill the GPU's memory");
}

bool
bench_gpu_pools (BenchGpu *gpu, BenchFill fill)
{
  if (!gpu->in)
    {
      size_t free_bytes = 0, total_bytes, most = (size_t) (gpu->options->quick ? 1 : 6) << 30;
      cudaMemGetInfo (&free_bytes, &total_bytes);
      gpu->in_bytes = free_bytes / 2 < most ? free_bytes / 2 : most;
      gpu->in_bytes &= ~((size_t) (1 << 20) - 1);
      gpu->out_bytes = gpu->in_bytes / 2;
      while (gpu->in_bytes >= (size_t) 64 << 20)
        {
          if (cudaMalloc ((void **) &gpu->in, gpu->in_bytes) == cudaSuccess &&
              cudaMalloc ((void **) &gpu->out, gpu->out_bytes) == cudaSuccess)
            break;
          cudaGetLastError ();
          bench_gpu_pools_free (gpu);
          gpu->in_bytes /= 2;
          gpu->out_bytes /= 2;
        }
      if (!gpu->in || !gpu->out)
        {
          bench_warn (gpu->options,
                      "out of GPU memory: no room for buffers of 64 MiB; does another program use the GPU?");
          return false;
        }
      gpu->filled = -1;
    }
  if (gpu->filled != (int) fill)
    {
      gpu->filled = (int) fill;
      return bench_gpu_fill (gpu, gpu->in, gpu->in_bytes, fill) &&
             bench_cuda_ok (gpu, cudaMemset (gpu->out, 0, gpu->out_bytes), "cannot clear the GPU's memory");
    }
  return true;
}

void
bench_gpu_pools_free (BenchGpu *gpu)
{
  cudaFree (gpu->in);
  cudaFree (gpu->out);
  gpu->in = gpu->out = NULL;
}

/* ---- Measuring ---- */

/* Time of `n` calls between two events. One more goes before them, so that the host is ahead when the clock starts. */
static bool
time_batch (BenchGpu *gpu, BenchWork work, void *data, long n, long *iteration, double *ret_ns)
{
  float ms = 0;

  if (!work (gpu, data, (*iteration)++) || !bench_cuda_ok (gpu, cudaEventRecord (gpu->begin, gpu->stream), "event"))
    return false;
  for (long i = 0; i < n; i++)
    if (!work (gpu, data, (*iteration)++))
      return false;
  if (!bench_cuda_ok (gpu, cudaEventRecord (gpu->end, gpu->stream), "event") ||
      !bench_cuda_ok (gpu, cudaEventSynchronize (gpu->end), "measured call") ||
      !bench_cuda_ok (gpu, cudaEventElapsedTime (&ms, gpu->begin, gpu->end), "event"))
    return false;
  *ret_ns = (double) ms * 1e6;
  return true;
}

/* `n` calls as one graph: the GPU alone sets the pace. NULL if they cannot be captured. */
static cudaGraphExec_t
capture (BenchGpu *gpu, BenchWork work, void *data, long n, long *iteration)
{
  cudaGraph_t graph = NULL;
  cudaGraphExec_t executable = NULL;
  bool ok = true;

  if (cudaStreamBeginCapture (gpu->stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
    return NULL;
  for (long i = 0; ok && i < n; i++)
    ok = work (gpu, data, (*iteration)++);
  if (cudaStreamEndCapture (gpu->stream, &graph) != cudaSuccess || !ok ||
      cudaGraphInstantiateWithFlags (&executable, graph, 0) != cudaSuccess)
    executable = NULL;
  if (graph)
    cudaGraphDestroy (graph);
  cudaGetLastError ();
  return executable;
}

static bool
replay (BenchGpu *gpu, void *data, long iteration)
{
  return bench_cuda_ok (gpu, cudaGraphLaunch (data, gpu->stream), "graph");
}

bool
bench_gpu_measure (BenchGpu *gpu, BenchWork work, void *data, double seconds, bool graph, BenchStats *ret_stats)
{
  enum
  {
    MOST_SAMPLES = 200
  };
  const double quick_ns = 2e4; /* shorter calls may take the host longer to issue than the GPU to do */
  double samples_ns[MOST_SAMPLES], batch_ns;
  long iteration = 0, batch = 1;
  cudaGraphExec_t executable = NULL;
  bool ok = true;
  int n = 0;

  memset (ret_stats, 0, sizeof *ret_stats);
  if (!time_batch (gpu, work, data, 1, &iteration, &batch_ns) ||
      !time_batch (gpu, work, data, 1, &iteration, &batch_ns))
    return false;
  while (batch_ns < 2e5 && batch < 512) /* 0.2 ms: an event resolves about half a microsecond */
    {
      batch *= 2;
      if (!time_batch (gpu, work, data, batch, &iteration, &batch_ns))
        return false;
    }
  if (graph && batch_ns / (double) batch < quick_ns)
    executable = capture (gpu, work, data, batch, &iteration);
  double begin_s = bench_now_s (), now_s = begin_s;
  while (ok && n < MOST_SAMPLES && !bench_interrupted () && (n < 10 || now_s - begin_s < seconds) &&
         (n < 3 || now_s - begin_s < 2))
    {
      ok = executable ? time_batch (gpu, replay, executable, 1, &iteration, &batch_ns)
                      : time_batch (gpu, work, data, batch, &iteration, &batch_ns);
      samples_ns[n++] = batch_ns / (double) batch;
      now_s = bench_now_s ();
    }
  ret_stats->graph = executable != NULL;
  if (executable)
    cudaGraphExecDestroy (executable);
  if (!ok || !n)
    return false;
  bench_stats (samples_ns, n, ret_stats);
  ret_stats->iterations = (long) n * batch;
  return true;
}

void
bench_memory_record (const BenchGpu *gpu, const char *what, int ranks, double bytes)
{
  if (!bench_section_wanted (gpu->options, "memory"))
    return;
  bench_line_begin (gpu->options, "memory");
  bench_line_text (gpu->options, "what", what);
  if (ranks)
    bench_line_number (gpu->options, "ranks", ranks);
  bench_line_number (gpu->options, "bytes", bytes);
  bench_line_end (gpu->options);
}

/* ---- Devices ---- */

/* How many GPUs there are; ends the program when there is nothing to measure. */
static int
count_devices (const BenchOptions *options)
{
  int n = 0, driver = 0;
  cudaError_t status = cudaGetDeviceCount (&n);

  if (status == cudaSuccess && n > 0)
    return n;
  cudaDriverGetVersion (&driver);
  if (driver == 0)
    bench_warn (options, "no NVIDIA driver on this machine, nothing to measure");
  else if (status == cudaErrorInsufficientDriver)
    bench_warn (options, "the NVIDIA driver (CUDA %d.%d) is older than this program's CUDA %d.%d, nothing to measure",
                driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  else
    bench_warn (options, "no GPU to measure: %s",
                cudaGetErrorString (status == cudaSuccess ? cudaErrorNoDevice : status));
  exit (BENCH_EXIT_SKIP);
}

static int
attribute (int device, enum cudaDeviceAttr which)
{
  int value = 0;
  cudaDeviceGetAttribute (&value, which, device);
  return value;
}

static void
write_device_record (BenchGpu *gpu)
{
  const BenchOptions *options = gpu->options;
  struct cudaDeviceProp properties;
  size_t free_bytes = 0, total_bytes = 0;
  int runtime = 0, cublas = 0;
  char text[32];

  memset (&properties, 0, sizeof properties);
  cudaGetDeviceProperties (&properties, gpu->device);
  cudaMemGetInfo (&free_bytes, &total_bytes);
  cudaRuntimeGetVersion (&runtime);
  cublasGetVersion (gpu->cublas, &cublas);
  gpu->total_bytes = total_bytes;

  bench_line_begin (options, "device");
  bench_line_text (options, "gpu", properties.name);
  bench_line_number (options, "gpus", gpu->n_devices);
  snprintf (text, sizeof text, "%d.%d", attribute (gpu->device, cudaDevAttrComputeCapabilityMajor),
            attribute (gpu->device, cudaDevAttrComputeCapabilityMinor));
  bench_line_text (options, "compute_capability", text);
  bench_line_number (options, "sms", gpu->sms);
  bench_line_number (options, "l2_bytes", (double) gpu->l2_bytes);
  bench_line_number (options, "memory_total_bytes", (double) total_bytes);
  bench_line_number (options, "memory_usable_bytes", (double) free_bytes);
  bench_line_number (options, "memory_bus_bits", attribute (gpu->device, cudaDevAttrGlobalMemoryBusWidth));
  snprintf (text, sizeof text, "%d.%d", runtime / 1000, runtime % 1000 / 10);
  bench_line_text (options, "cuda", text);
  bench_line_number (options, "cublas", cublas);
  bench_line_text (options, "nccl", bench_nccl_version ());
  bench_nvml_provenance (options, &gpu->nvml);
  bench_line_end (options);
}

/* Work until the clocks have settled: at least half a second. */
static bool
warm_up (BenchGpu *gpu)
{
  double until_s = bench_now_s () + (gpu->options->quick ? 0.3 : 0.7);
  long iteration = 0;

  if (!bench_gpu_pools (gpu, BENCH_FILL_BF16))
    return false;
  while (bench_now_s () < until_s && !bench_interrupted ())
    {
      for (int i = 0; i < 10; i++)
        if (!bench_gemm_square (gpu, 4096, iteration++))
          return false;
      if (!bench_cuda_ok (gpu, cudaStreamSynchronize (gpu->stream), "warm-up"))
        return false;
    }
  return true;
}

/* Make the context and the handles, one by one, and note how much memory each takes. */
static bool
open_gpu (BenchGpu *gpu, int argc, char **argv)
{
  const BenchOptions *options = gpu->options;
  char bus_id[32] = "";
  double used[5];

  cudaDeviceGetPCIBusId (bus_id, sizeof bus_id, gpu->device);
  if (!bench_nvml_open (&gpu->nvml, bus_id))
    bench_warn (options, "NVML is not there: samples have no clocks, temperature and power");
  used[0] = bench_nvml_used_bytes (&gpu->nvml);
  if (!bench_cuda_ok (gpu, cudaSetDevice (gpu->device), "cannot use the GPU") ||
      !bench_cuda_ok (gpu, cudaFree (0), "cannot make a context on the GPU"))
    return false;
  used[1] = bench_nvml_used_bytes (&gpu->nvml);
  gpu->sms = attribute (gpu->device, cudaDevAttrMultiProcessorCount);
  gpu->l2_bytes = (size_t) attribute (gpu->device, cudaDevAttrL2CacheSize);
  if (!bench_cuda_ok (gpu, cudaStreamCreateWithFlags (&gpu->stream, cudaStreamNonBlocking), "stream") ||
      !bench_cuda_ok (gpu, cudaStreamCreateWithFlags (&gpu->contender, cudaStreamNonBlocking), "stream") ||
      !bench_cuda_ok (gpu, cudaEventCreate (&gpu->begin), "event") ||
      !bench_cuda_ok (gpu, cudaEventCreate (&gpu->end), "event") ||
      !bench_cublas_ok (gpu, cublasCreate (&gpu->cublas), "cuBLAS does not start"))
    return false;
  used[2] = bench_nvml_used_bytes (&gpu->nvml);

  bench_start_record (options, "cuda", argc, argv);
  write_device_record (gpu);
  if (!bench_cuda_ok (gpu, cudaMalloc (&gpu->workspace, BENCH_WORKSPACE_BYTES), "workspace of cuBLAS") ||
      !bench_cublas_ok (gpu, cublasSetStream (gpu->cublas, gpu->stream), "cuBLAS") ||
      !bench_cublas_ok (gpu, cublasSetWorkspace (gpu->cublas, gpu->workspace, BENCH_WORKSPACE_BYTES), "cuBLAS") ||
      !bench_gpu_pools (gpu, BENCH_FILL_BF16))
    return false;
  used[3] = bench_nvml_used_bytes (&gpu->nvml);
  if (!bench_gemm_square (gpu, 1024, 0) || !bench_cuda_ok (gpu, cudaStreamSynchronize (gpu->stream), "first product"))
    return false;
  used[4] = bench_nvml_used_bytes (&gpu->nvml);
  if (used[0] >= 0)
    {
      bench_memory_record (gpu, "idle", 0, used[0]);
      bench_memory_record (gpu, "context", 0, used[1] - used[0]);
      bench_memory_record (gpu, "cublas_create", 0, used[2] - used[1]);
      bench_memory_record (gpu, "first_gemm", 0, used[4] - used[3]);
    }
  return true;
}

static void
close_gpu (BenchGpu *gpu)
{
  cublasDestroy (gpu->cublas);
  cudaFree (gpu->workspace);
  cudaEventDestroy (gpu->begin);
  cudaEventDestroy (gpu->end);
  cudaStreamDestroy (gpu->stream);
  cudaStreamDestroy (gpu->contender);
  bench_nvml_close (&gpu->nvml);
}

int
main (int argc, char **argv)
{
  static const BenchSection sections[] = {
    { "memory", 0.5, true, bench_nccl_memory_run },
    { "launch", 0.5, false, bench_launch_run },
    { "copy", 1, false, bench_copy_run },
    { "gemm", 3, false, bench_gemm_run },
    { "hostcopy", 0.7, false, bench_host_copy_run },
    { "peer", 0.5, false, bench_peer_run },
    { "collective", 3, false, bench_collective_run },
    { "contention", 0.3, false, bench_contention_run },
  };
  static const BenchSection sections_of_many[] = { { "collective", 1, false, bench_collective_run } };
  BenchOptions options = {
    .program = "bench-cuda",
    .usage = "                     (memory launch copy gemm hostcopy peer collective contention)\n"
             "  --ranks N --rank R --id-file PATH\n"
             "                     measure collectives over N processes; PATH is on a file system that all see\n"
             "                     (N and R also come from mpirun and srun)\n"
             "  --one-gpu-each     each process uses one GPU (default: all GPUs of its node)\n"
  };
  BenchGpu gpu = { .options = &options, .filled = -1 };

  bench_options_parse (&options, argc, argv);
  if (!bench_sections_check (&options, sections, sizeof sections / sizeof sections[0]))
    return 2;
  if (options.ranks > 1 && !options.id_file)
    {
      bench_warn (&options, "several processes need --id-file PATH on a file system that all of them see");
      return 2;
    }
  gpu.n_devices = count_devices (&options);
  if (options.one_gpu_each)
    {
      gpu.device = (options.local_rank >= 0 ? options.local_rank : options.rank) % gpu.n_devices;
      gpu.n_devices = 1;
    }
  if (!bench_output_open (&options) || !open_gpu (&gpu, argc, argv) || !warm_up (&gpu))
    return 1;

  int status = options.ranks > 1 ? bench_sections_run (&options, sections_of_many, 1, &gpu)
                                 : bench_sections_run (&options, sections, sizeof sections / sizeof sections[0], &gpu);
  bench_gpu_pools_free (&gpu);
  close_gpu (&gpu);
  return status;
}
