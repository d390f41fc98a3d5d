/* SPDX-License-Identifier: MIT */
/* A GPU that is none: the calls of the CUDA runtime, cuBLAS and NCCL that bench-cuda makes, in virtual time. Every
 * stream has a clock; work advances it by a closed form, events read it. So bench-cuda runs on any machine, and a test
 * knows what it must measure:
 *
 *   product     3 us + the longer of 2 m n k / 800 TFLOP/s (tf32 400, fp32 50) and bytes / 4 TB/s
 *   copies      2 us + bytes read and written / 4 TB/s; to and from the host 5 us + bytes / 50 GB/s
 *   collective  20 us + bus factor x bytes / 400 GB/s
 *
 * Every pointer must lie in one allocation, or the program aborts. FAKE_GPUS says how many GPUs there are (default 1).
 */
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum
{
  MOST_ALLOCATIONS = 1000,
  MOST_MEMCPY = 1 << 20 /* larger copies only take time */
};
#define DEVICE_BYTES ((size_t) 16 << 30)

static struct
{
  char *memory;
  size_t bytes;
  bool host;
} allocations[MOST_ALLOCATIONS];
static int n_allocations;
static int current_device;
static size_t used_bytes;

struct CUstream_st
{
  double now_ns;
  bool capturing;
  double captured_ns; /* of the graph that is being captured */
};
struct CUevent_st
{
  double at_ns;
};
struct cublasContext
{
  cudaStream_t stream;
};
struct ncclComm
{
  int n, rank;
};
struct CUgraph_st
{
  double ns;
};

static void
check (const void *pointer, size_t bytes, const char *what)
{
  const char *begin = pointer;
  for (int i = 0; i < n_allocations; i++)
    if (begin >= allocations[i].memory && begin + bytes <= allocations[i].memory + allocations[i].bytes)
      return;
  fprintf (stderr, "fake GPU: %s: %zu bytes outside of any allocation\n", what, bytes);
  abort ();
}

static cudaError_t
allocate (void **ret_pointer, size_t bytes, bool host)
{
  if (!host && used_bytes + bytes > DEVICE_BYTES)
    return cudaErrorMemoryAllocation;
  /* Not committed until touched, so that gigabytes cost nothing. */
  void *memory = mmap (NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || n_allocations == MOST_ALLOCATIONS)
    return cudaErrorMemoryAllocation;
  allocations[n_allocations].memory = memory;
  allocations[n_allocations].bytes = bytes;
  allocations[n_allocations++].host = host;
  used_bytes += host ? 0 : bytes;
  *ret_pointer = memory;
  return cudaSuccess;
}

static cudaError_t
release (void *pointer, bool host)
{
  for (int i = 0; pointer && i < n_allocations; i++)
    if (allocations[i].memory == pointer)
      {
        if (allocations[i].host != host)
          abort ();
        munmap (pointer, allocations[i].bytes);
        used_bytes -= host ? 0 : allocations[i].bytes;
        allocations[i] = allocations[--n_allocations];
        return cudaSuccess;
      }
  return pointer ? cudaErrorInvalidValue : cudaSuccess;
}

/* A kernel on a stream. */
static void
work (cudaStream_t stream, double ns)
{
  if (stream->capturing)
    stream->captured_ns += ns;
  else
    stream->now_ns += ns;
}

/* ---- CUDA runtime ---- */

cudaError_t
cudaGetDeviceCount (int *count)
{
  const char *text = getenv ("FAKE_GPUS");
  *count = text ? atoi (text) : 1;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t
cudaSetDevice (int device)
{
  int n;
  cudaGetDeviceCount (&n);
  current_device = device;
  return device >= 0 && device < n ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t
cudaGetDeviceProperties (struct cudaDeviceProp *properties, int device)
{
  strcpy (properties->name, "Fake GPU");
  return cudaSuccess;
}
cudaError_t
cudaDeviceGetAttribute (int *value, enum cudaDeviceAttr attribute, int device)
{
  *value = attribute == cudaDevAttrMultiProcessorCount ? 132 : attribute == cudaDevAttrL2CacheSize ? 50 << 20 : 9;
  return cudaSuccess;
}
cudaError_t
cudaDeviceGetPCIBusId (char *text, int length, int device)
{
  snprintf (text, (size_t) length, "0000:%02x:00.0", device);
  return cudaSuccess;
}
cudaError_t
cudaMemGetInfo (size_t *free_bytes, size_t *total_bytes)
{
  *free_bytes = DEVICE_BYTES - used_bytes;
  *total_bytes = DEVICE_BYTES;
  return cudaSuccess;
}
cudaError_t
cudaDriverGetVersion (int *version)
{
  *version = 13000;
  return cudaSuccess;
}
cudaError_t
cudaRuntimeGetVersion (int *version)
{
  *version = 13000;
  return cudaSuccess;
}
const char *
cudaGetErrorString (cudaError_t error)
{
  return error == cudaErrorMemoryAllocation ? "out of memory" : "fake error";
}
cudaError_t
cudaGetLastError (void)
{
  return cudaSuccess;
}
cudaError_t
cudaMalloc (void **pointer, size_t bytes)
{
  return allocate (pointer, bytes, false);
}
cudaError_t
cudaFree (void *pointer)
{
  return release (pointer, false);
}
cudaError_t
cudaMallocHost (void **pointer, size_t bytes)
{
  return allocate (pointer, bytes, true);
}
cudaError_t
cudaFreeHost (void *pointer)
{
  return release (pointer, true);
}
cudaError_t
cudaStreamCreateWithFlags (cudaStream_t *stream, unsigned flags)
{
  *stream = calloc (1, sizeof **stream);
  return cudaSuccess;
}
cudaError_t
cudaStreamDestroy (cudaStream_t stream)
{
  free (stream);
  return cudaSuccess;
}
cudaError_t
cudaStreamSynchronize (cudaStream_t stream)
{
  return cudaSuccess;
}
cudaError_t
cudaDeviceSynchronize (void)
{
  return cudaSuccess;
}
cudaError_t
cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
  if (event->at_ns > stream->now_ns)
    stream->now_ns = event->at_ns;
  return cudaSuccess;
}
cudaError_t
cudaEventCreate (cudaEvent_t *event)
{
  *event = calloc (1, sizeof **event);
  return cudaSuccess;
}
cudaError_t
cudaEventDestroy (cudaEvent_t event)
{
  free (event);
  return cudaSuccess;
}
cudaError_t
cudaEventRecord (cudaEvent_t event, cudaStream_t stream)
{
  event->at_ns = stream->now_ns;
  return cudaSuccess;
}
cudaError_t
cudaEventSynchronize (cudaEvent_t event)
{
  return cudaSuccess;
}
cudaError_t
cudaEventElapsedTime (float *ms, cudaEvent_t begin, cudaEvent_t end)
{
  *ms = (float) ((end->at_ns - begin->at_ns) * 1e-6);
  return cudaSuccess;
}

static cudaError_t
copy (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
  if (kind != cudaMemcpyHostToDevice)
    check (from, bytes, "copy from");
  if (kind != cudaMemcpyDeviceToHost)
    check (to, bytes, "copy to");
  if (bytes <= MOST_MEMCPY)
    memmove (to, from, bytes);
  if (stream)
    work (stream, kind == cudaMemcpyDeviceToDevice ? 2e3 + 2 * (double) bytes / 4e3 : 5e3 + (double) bytes / 50);
  return cudaSuccess;
}
cudaError_t
cudaMemcpy (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
  return copy (to, from, bytes, kind, NULL);
}
cudaError_t
cudaMemcpyAsync (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
  return copy (to, from, bytes, kind, stream);
}
cudaError_t
cudaMemcpyPeerAsync (void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream)
{
  check (to, bytes, "peer copy to");
  check (from, bytes, "peer copy from");
  work (stream, 10e3 + (double) bytes / 350);
  return cudaSuccess;
}
cudaError_t
cudaMemset (void *pointer, int value, size_t bytes)
{
  check (pointer, bytes, "memset");
  return cudaSuccess;
}
cudaError_t
cudaDeviceCanAccessPeer (int *can, int device, int peer)
{
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t
cudaDeviceEnablePeerAccess (int peer, unsigned flags)
{
  return cudaSuccess;
}
cudaError_t
cudaStreamBeginCapture (cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
  stream->capturing = true;
  stream->captured_ns = 0;
  return cudaSuccess;
}
cudaError_t
cudaStreamEndCapture (cudaStream_t stream, cudaGraph_t *graph)
{
  *graph = calloc (1, sizeof **graph);
  (*graph)->ns = stream->captured_ns;
  stream->capturing = false;
  return cudaSuccess;
}
cudaError_t
cudaGraphInstantiateWithFlags (cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)
{
  double *ns = malloc (sizeof *ns);
  *ns = graph->ns;
  *executable = (cudaGraphExec_t) (void *) ns;
  return cudaSuccess;
}
cudaError_t
cudaGraphLaunch (cudaGraphExec_t executable, cudaStream_t stream)
{
  work (stream, *(double *) (void *) executable);
  return cudaSuccess;
}
cudaError_t
cudaGraphExecDestroy (cudaGraphExec_t executable)
{
  free (executable);
  return cudaSuccess;
}
cudaError_t
cudaGraphDestroy (cudaGraph_t graph)
{
  free (graph);
  return cudaSuccess;
}

/* ---- cuBLAS ---- */

cublasStatus_t
cublasCreate_v2 (cublasHandle_t *handle)
{
  *handle = calloc (1, sizeof **handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasDestroy_v2 (cublasHandle_t handle)
{
  free (handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasSetStream_v2 (cublasHandle_t handle, cudaStream_t stream)
{
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasSetWorkspace_v2 (cublasHandle_t handle, void *workspace, size_t bytes)
{
  check (workspace, bytes, "workspace");
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasGetVersion_v2 (cublasHandle_t handle, int *version)
{
  *version = 130100;
  return CUBLAS_STATUS_SUCCESS;
}
const char *
cublasGetStatusString (cublasStatus_t status)
{
  return "fake error";
}
cublasStatus_t
cublasGemmStridedBatchedEx (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, const void *alpha, const void *a, cudaDataType a_type, int lda, long long stride_a,
                            const void *b, cudaDataType b_type, int ldb, long long stride_b, const void *beta, void *c,
                            cudaDataType c_type, int ldc, long long stride_c, int batch, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm)
{
  size_t element = a_type == CUDA_R_32F ? 4 : 2;
  double tera = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? 400 : a_type == CUDA_R_32F ? 50 : 800;
  int a_columns = transa == CUBLAS_OP_N ? k : m, b_columns = transb == CUBLAS_OP_N ? n : k;

  if (lda < (transa == CUBLAS_OP_N ? m : k) || ldb < (transb == CUBLAS_OP_N ? k : n) || ldc < m)
    return CUBLAS_STATUS_INVALID_VALUE;
  check (a, ((size_t) (batch - 1) * (size_t) stride_a + (size_t) lda * (size_t) a_columns) * element, "first factor");
  check (b, ((size_t) (batch - 1) * (size_t) stride_b + (size_t) ldb * (size_t) b_columns) * element, "second factor");
  check (c, ((size_t) (batch - 1) * (size_t) stride_c + (size_t) ldc * (size_t) n) * element, "product");
  double compute_ns = 2.0 * batch * m * n * k / (tera * 1e3);
  double bytes = (double) element * batch * ((double) m * n + (double) m * k + (double) n * k);
  work (handle->stream, 3e3 + (compute_ns > bytes / 4e3 ? compute_ns : bytes / 4e3));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasGemmEx (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
              const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b, cudaDataType b_type,
              int ldb, const void *beta, void *c, cudaDataType c_type, int ldc, cublasComputeType_t compute,
              cublasGemmAlgo_t algorithm)
{
  return cublasGemmStridedBatchedEx (handle, transa, transb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0, beta,
                                     c, c_type, ldc, 0, 1, compute, algorithm);
}
cublasStatus_t
cublasSscal_v2 (cublasHandle_t handle, int n, const float *alpha, float *x, int step)
{
  check (x, (size_t) n * sizeof *x, "scale");
  work (handle->stream, 2e3 + 8.0 * n / 4e3);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t
cublasSaxpy_v2 (cublasHandle_t handle, int n, const float *alpha, const float *x, int step_x, float *y, int step_y)
{
  check (x, (size_t) n * sizeof *x, "axpy");
  check (y, (size_t) n * sizeof *y, "axpy");
  work (handle->stream, 2e3 + 12.0 * n / 4e3);
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- NCCL ---- */

ncclResult_t
ncclGetVersion (int *version)
{
  *version = 22809;
  return ncclSuccess;
}
const char *
ncclGetErrorString (ncclResult_t result)
{
  return "fake error";
}
ncclResult_t
ncclGetUniqueId (ncclUniqueId *id)
{
  memset (id, 1, sizeof *id);
  return ncclSuccess;
}
ncclResult_t
ncclCommInitRank (ncclComm_t *comm, int n, ncclUniqueId id, int rank)
{
  *comm = malloc (sizeof **comm);
  **comm = (struct ncclComm){ n, rank };
  return ncclSuccess;
}
ncclResult_t
ncclCommInitAll (ncclComm_t *comms, int n, const int *devices)
{
  ncclUniqueId id = { { 0 } };
  for (int i = 0; i < n; i++)
    ncclCommInitRank (&comms[i], n, id, i);
  return ncclSuccess;
}
ncclResult_t
ncclCommDestroy (ncclComm_t comm)
{
  free (comm);
  return ncclSuccess;
}
ncclResult_t ncclGroupStart (void); /* nccl.h leaves the arguments open */
ncclResult_t ncclGroupEnd (void);

ncclResult_t
ncclGroupStart (void)
{
  return ncclSuccess;
}
ncclResult_t
ncclGroupEnd (void)
{
  return ncclSuccess;
}

static ncclResult_t
collective (const void *send, size_t send_count, void *recv, size_t recv_count, ncclDataType_t type, double bus_bytes,
            cudaStream_t stream)
{
  size_t element = type == ncclDouble || type == ncclUint64 ? 8 : 4;
  check (send, send_count * element, "send buffer");
  check (recv, recv_count * element, "receive buffer");
  work (stream, 20e3 + bus_bytes / 400);
  return ncclSuccess;
}
ncclResult_t
ncclAllReduce (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
               cudaStream_t stream)
{
  return collective (send, count, recv, count, type, 8.0 * (double) count * (comm->n - 1) / comm->n, stream);
}
ncclResult_t
ncclAllGather (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
  return collective (send, count, recv, count * (size_t) comm->n, type, 4.0 * (double) count * (comm->n - 1), stream);
}
ncclResult_t
ncclReduceScatter (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                   cudaStream_t stream)
{
  return collective (send, count * (size_t) comm->n, recv, count, type, 4.0 * (double) count * (comm->n - 1), stream);
}
ncclResult_t
ncclBroadcast (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
               cudaStream_t stream)
{
  return collective (send, count, recv, count, type, 4.0 * (double) count, stream);
}
ncclResult_t
ncclSend (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
  check (send, count * 4, "send");
  work (stream, 10e3 + 2.0 * (double) count / 400);
  return peer >= 0 && peer < comm->n ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t
ncclRecv (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
  check (recv, count * 4, "receive");
  work (stream, 10e3 + 2.0 * (double) count / 400);
  return peer >= 0 && peer < comm->n ? ncclSuccess : ncclInvalidArgument;
}
