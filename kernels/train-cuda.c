/* SPDX-License-Identifier: MIT */
/* train-cuda: run a schedule file for real on this machine's GPUs. Plain C, CUDA runtime, cuBLAS, NVRTC and NCCL.
 *
 *   cc -O2 -std=gnu11 -o train-cuda $(ls kernels/train-*.c kernels/data-*.c | grep -v train-host) \
 *     -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -Wl,-rpath,/usr/local/cuda/lib64 \
 *     -lcudart -lcublas -lnvrtc -lnccl -lm -pthread
 *
 * Each rank of the schedule is a process; rank r drives GPU r modulo their number. Gradients are summed by NCCL where
 * every rank has a GPU of its own and all come to the sum at one point (-DTRAIN_WITHOUT_NCCL without -lnccl leaves that
 * out), else in host memory; so are shards and the sums of cyclic schedules. Boundary tensors are read by the receiver
 * from the sender's GPU (CUDA IPC), or through host memory with --staged. Needs CUDA 12.8. Exits 77 without a GPU. */
#include "train-device.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>
#ifndef TRAIN_WITHOUT_NCCL
#include <nccl.h>
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if CUDART_VERSION < 12080
#error "train-cuda needs CUDA 12.8 or newer"
#endif

#define MAX_RANKS 1024
#define THREADS 256

const char train_device_name[] = "cuda";

/* The element-wise work, compiled for the GPU at hand. */
static const char kernel_source[] =
    "extern \"C\" __global__ void relu (float *x, size_t n)\n"
    "{\n"
    "  size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) x[i] = x[i] > 0.0f ? x[i] : 0.0f;\n"
    "}\n"
    "extern \"C\" __global__ void relu_backward (const float *y, float *gradient, size_t n)\n"
    "{\n"
    "  size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n && !(y[i] > 0.0f)) gradient[i] = 0.0f;\n"
    "}\n"
    "extern \"C\" __global__ void sgd (float *to, const float *from, float *v, const float *g, float rate,\n"
    "                                float momentum, size_t n)\n"
    "{\n"
    "  size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i >= n) return;\n"
    "  float step = g[i];\n"
    "  if (v) v[i] = step = __fadd_rn (__fmul_rn (momentum, v[i]), step);\n"
    "  to[i] = __fsub_rn (from[i], __fmul_rn (rate, step));\n"
    "}\n";

static struct
{
  cudaStream_t stream;
  cublasHandle_t cublas;
  cudaLibrary_t library;
  cudaKernel_t relu, relu_backward, sgd;
  float *mailbox;
  void *peers[MAX_RANKS]; /* other ranks' mailboxes, opened at first use */
#ifndef TRAIN_WITHOUT_NCCL
  ncclComm_t groups[MAX_RANKS]; /* by part */
#endif
} gpu;

static void
fail (const char *what, const char *why)
{
  fprintf (stderr, "train-cuda: %s: %s\n", what, why);
  _exit (1);
}

static void
check (cudaError_t status, const char *what)
{
  if (status != cudaSuccess)
    fail (what, cudaGetErrorString (status));
}

static void
check_cublas (cublasStatus_t status, const char *what)
{
  if (status != CUBLAS_STATUS_SUCCESS)
    fail (what, cublasGetStatusString (status));
}

static void
check_nvrtc (nvrtcResult status, const char *what)
{
  if (status != NVRTC_SUCCESS)
    fail (what, nvrtcGetErrorString (status));
}

int
train_device_count (const char **ret_reason)
{
  int n = 0, driver = 0;
  cudaError_t status;

  cudaDriverGetVersion (&driver);
  status = cudaGetDeviceCount (&n);
  if (status == cudaSuccess && n > 0)
    return n;
  *ret_reason = driver == 0 ? "no NVIDIA driver is installed" : cudaGetErrorString (status);
  return 0;
}

void
train_device_prepare (void)
{
}

static void
compile_kernels (int device)
{
  char architecture[64];
  const char *options[1] = { architecture };
  int major = 0, minor = 0;
  size_t n_bytes = 0;
  nvrtcProgram program;
  char *binary;

  check (cudaDeviceGetAttribute (&major, cudaDevAttrComputeCapabilityMajor, device), "compute capability");
  check (cudaDeviceGetAttribute (&minor, cudaDevAttrComputeCapabilityMinor, device), "compute capability");
  snprintf (architecture, sizeof architecture, "--gpu-architecture=sm_%d%d", major, minor);
  check_nvrtc (nvrtcCreateProgram (&program, kernel_source, "train.cu", 0, NULL, NULL), "nvrtcCreateProgram");
  check_nvrtc (nvrtcCompileProgram (program, 1, options), "nvrtcCompileProgram");
  check_nvrtc (nvrtcGetCUBINSize (program, &n_bytes), "nvrtcGetCUBINSize");
  binary = malloc (n_bytes);
  if (binary == NULL)
    fail ("nvrtcGetCUBIN", "out of host memory");
  check_nvrtc (nvrtcGetCUBIN (program, binary), "nvrtcGetCUBIN");
  check (cudaLibraryLoadData (&gpu.library, binary, NULL, NULL, 0, NULL, NULL, 0), "cudaLibraryLoadData");
  check (cudaLibraryGetKernel (&gpu.relu, gpu.library, "relu"), "kernel relu");
  check (cudaLibraryGetKernel (&gpu.relu_backward, gpu.library, "relu_backward"), "kernel relu_backward");
  check (cudaLibraryGetKernel (&gpu.sgd, gpu.library, "sgd"), "kernel sgd");
  nvrtcDestroyProgram (&program);
  free (binary);
}

void
train_device_open (int rank)
{
  int n = 0, device;
  cudaMemPool_t pool;
  uint64_t keep_bytes = UINT64_MAX;

  check (cudaGetDeviceCount (&n), "cudaGetDeviceCount");
  device = rank % n;
  check (cudaSetDevice (device), "cudaSetDevice");
  check (cudaStreamCreateWithFlags (&gpu.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  check (cudaDeviceGetDefaultMemPool (&pool, device), "cudaDeviceGetDefaultMemPool");
  check (cudaMemPoolSetAttribute (pool, cudaMemPoolAttrReleaseThreshold, &keep_bytes), "cudaMemPoolSetAttribute");
  check_cublas (cublasCreate (&gpu.cublas), "cublasCreate");
  check_cublas (cublasSetStream (gpu.cublas, gpu.stream), "cublasSetStream");
  compile_kernels (device);
}

void
train_device_close (void)
{
  for (int i = 0; i < MAX_RANKS; i++)
    if (gpu.peers[i] != NULL)
      cudaIpcCloseMemHandle (gpu.peers[i]);
#ifndef TRAIN_WITHOUT_NCCL
  for (int i = 0; i < MAX_RANKS; i++)
    if (gpu.groups[i] != NULL)
      ncclCommDestroy (gpu.groups[i]);
#endif
  cublasDestroy (gpu.cublas);
  cudaLibraryUnload (gpu.library);
  cudaStreamDestroy (gpu.stream);
  cudaFree (gpu.mailbox);
}

float *
train_device_alloc (size_t n)
{
  void *tensor = NULL;

  check (cudaMallocAsync (&tensor, n > 0 ? n * sizeof (float) : sizeof (float), gpu.stream), "cudaMallocAsync");
  return tensor;
}

void
train_device_free (float *tensor)
{
  check (cudaFreeAsync (tensor, gpu.stream), "cudaFreeAsync");
}

static void
copy (void *to, const void *from, size_t n, enum cudaMemcpyKind kind)
{
  check (cudaMemcpyAsync (to, from, n * sizeof (float), kind, gpu.stream), "cudaMemcpyAsync");
}

void
train_device_upload (float *tensor, const float *host, size_t n)
{
  copy (tensor, host, n, cudaMemcpyHostToDevice);
  train_device_wait ();
}

void
train_device_download (float *host, const float *tensor, size_t n)
{
  copy (host, tensor, n, cudaMemcpyDeviceToHost);
  train_device_wait ();
}

void
train_device_copy (float *to, const float *from, size_t n)
{
  copy (to, from, n, cudaMemcpyDeviceToDevice);
}

void
train_device_wait (void)
{
  check (cudaStreamSynchronize (gpu.stream), "cudaStreamSynchronize");
}

/* cuBLAS counts by columns: a row-major matrix is its transpose, and c' = b' a'. */
void
train_device_multiply (bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const float *a, const float *b,
                       float beta, float *c)
{
  float one = 1.0f;

  check_cublas (cublasSgemm (gpu.cublas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                             transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int) n, (int) m, (int) k, &one, b,
                             (int) (transpose_b ? k : n), a, (int) (transpose_a ? m : k), &beta, c, (int) n),
                "cublasSgemm");
}

static void
launch (cudaKernel_t kernel, void **arguments, size_t n)
{
  struct dim3 blocks = { (unsigned) ((n + THREADS - 1) / THREADS), 1, 1 }, threads = { THREADS, 1, 1 };

  if (n > 0)
    check (cudaLaunchKernel ((const void *) kernel, blocks, threads, arguments, 0, gpu.stream), "cudaLaunchKernel");
}

void
train_device_relu (float *x, size_t n)
{
  void *arguments[] = { &x, &n };

  launch (gpu.relu, arguments, n);
}

void
train_device_relu_backward (const float *y, float *gradient, size_t n)
{
  void *arguments[] = { &y, &gradient, &n };

  launch (gpu.relu_backward, arguments, n);
}

void
train_device_sgd (float *to, const float *from, float *v, const float *g, float rate, float momentum, size_t n)
{
  void *arguments[] = { &to, &from, &v, &g, &rate, &momentum, &n };

  launch (gpu.sgd, arguments, n);
}

#ifndef TRAIN_WITHOUT_NCCL
static void
check_nccl (ncclResult_t status, const char *what)
{
  if (status != ncclSuccess)
    fail (what, ncclGetErrorString (status));
}

bool
train_device_has_all_reduce (int n_ranks)
{
  int n = 0;

  return n_ranks <= MAX_RANKS && cudaGetDeviceCount (&n) == cudaSuccess && n >= n_ranks;
}

void
train_device_group_name (void *exchange)
{
  _Static_assert(sizeof (ncclUniqueId) <= TRAIN_DEVICE_EXCHANGE_BYTES, "an id must fit the exchange");
  check_nccl (ncclGetUniqueId (exchange), "ncclGetUniqueId");
}

void
train_device_group_join (int part, int holder, int n_holders, const void *exchange)
{
  ncclUniqueId id;

  if (part >= MAX_RANKS)
    fail ("ncclCommInitRank", "too many parts");
  memcpy (&id, exchange, sizeof id);
  check_nccl (ncclCommInitRank (&gpu.groups[part], n_holders, id, holder), "ncclCommInitRank");
}

void
train_device_all_reduce (int part, float *tensor, size_t n)
{
  check_nccl (ncclAllReduce (tensor, tensor, n, ncclFloat, ncclSum, gpu.groups[part], gpu.stream), "ncclAllReduce");
}
#else
bool
train_device_has_all_reduce (int n_ranks)
{
  (void) n_ranks;
  return false;
}

void
train_device_group_name (void *exchange)
{
  (void) exchange;
}

void
train_device_group_join (int part, int holder, int n_holders, const void *exchange)
{
  (void) part, (void) holder, (void) n_holders, (void) exchange;
}

void
train_device_all_reduce (int part, float *tensor, size_t n)
{
  (void) part, (void) tensor, (void) n;
}
#endif

bool
train_device_mailbox (size_t n, void *exchange)
{
  cudaIpcMemHandle_t handle;

  _Static_assert(sizeof (cudaIpcMemHandle_t) <= TRAIN_DEVICE_EXCHANGE_BYTES, "a handle must fit the exchange");
  if (cudaMalloc ((void **) &gpu.mailbox, n * sizeof (float)) != cudaSuccess ||
      cudaIpcGetMemHandle (&handle, gpu.mailbox) != cudaSuccess)
    {
      cudaGetLastError ();
      return false;
    }
  memcpy (exchange, &handle, sizeof handle);
  return true;
}

void
train_device_post (size_t offset, const float *tensor, size_t n)
{
  copy (gpu.mailbox + offset, tensor, n, cudaMemcpyDeviceToDevice);
}

void
train_device_fetch (int from_rank, const void *exchange, size_t offset, float *tensor, size_t n)
{
  if (from_rank >= MAX_RANKS)
    fail ("cudaIpcOpenMemHandle", "too many ranks");
  if (gpu.peers[from_rank] == NULL)
    {
      cudaIpcMemHandle_t handle;

      memcpy (&handle, exchange, sizeof handle);
      check (cudaIpcOpenMemHandle (&gpu.peers[from_rank], handle, cudaIpcMemLazyEnablePeerAccess),
             "cudaIpcOpenMemHandle (--staged goes through host memory)");
    }
  copy (tensor, (const float *) gpu.peers[from_rank] + offset, n, cudaMemcpyDefault);
}
