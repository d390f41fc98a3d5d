/* SPDX-License-Identifier: MIT */
#ifndef BENCH_WITHOUT_NCCL
#define _GNU_SOURCE
#include "bench-cuda-group.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool
bench_nccl_ok (const BenchGpu *gpu, ncclResult_t status, const char *what)
{
  if (status == ncclSuccess)
    return true;
  bench_warn (gpu->options, "%s: %s", what, ncclGetErrorString (status));
  return false;
}

void
bench_group_close (BenchGroup *group)
{
  for (int i = 0; i < group->n_local; i++)
    {
      cudaSetDevice (group->gpu->device + i);
      if (group->comms[i])
        ncclCommDestroy (group->comms[i]);
      if (group->streams[i])
        cudaStreamDestroy (group->streams[i]);
      if (group->begin[i])
        cudaEventDestroy (group->begin[i]);
      if (group->end[i])
        cudaEventDestroy (group->end[i]);
      cudaFree (group->send[i]);
      cudaFree (group->recv[i]);
      cudaFree (group->votes[i]);
    }
  cudaSetDevice (group->gpu->device);
}

/* Communicators of the first `n_ranks` GPUs of all processes; `id` is NULL when this process is alone. */
bool
bench_group_open (BenchGroup *group, BenchGpu *gpu, int n_ranks, const ncclUniqueId *id)
{
  int first = gpu->options->rank * gpu->n_devices;
  int devices[BENCH_MOST_GPUS];

  memset (group, 0, sizeof *group);
  group->gpu = gpu;
  group->n_ranks = n_ranks;
  group->n_nodes = 1;
  group->n_local = n_ranks - first < gpu->n_devices ? n_ranks - first : gpu->n_devices;
  for (int i = 0; i < group->n_local; i++)
    {
      devices[i] = gpu->device + i;
      if (!bench_cuda_ok (gpu, cudaSetDevice (devices[i]), "cannot use a GPU of the group") ||
          !bench_cuda_ok (gpu, cudaStreamCreateWithFlags (&group->streams[i], cudaStreamNonBlocking), "stream") ||
          !bench_cuda_ok (gpu, cudaEventCreate (&group->begin[i]), "event") ||
          !bench_cuda_ok (gpu, cudaEventCreate (&group->end[i]), "event") ||
          !bench_cuda_ok (gpu, cudaMalloc ((void **) &group->votes[i], 64), "memory"))
        return false;
    }
  cudaSetDevice (gpu->device);
  if (!id)
    return bench_nccl_ok (gpu, ncclCommInitAll (group->comms, group->n_local, devices), "NCCL does not start");
  if (!bench_nccl_ok (gpu, ncclGroupStart (), "NCCL"))
    return false;
  for (int i = 0; i < group->n_local; i++)
    {
      cudaSetDevice (devices[i]);
      if (!bench_nccl_ok (gpu, ncclCommInitRank (&group->comms[i], n_ranks, *id, first + i), "NCCL does not start"))
        return false;
    }
  cudaSetDevice (gpu->device);
  return bench_nccl_ok (gpu, ncclGroupEnd (), "NCCL does not start");
}

/* Send and receive buffers of `bytes` on each GPU, half as large until they fit. */
bool
bench_group_buffers (BenchGroup *group, size_t bytes)
{
  for (group->pool_bytes = bytes; group->pool_bytes >= (size_t) 1 << 20; group->pool_bytes /= 2)
    {
      bool ok = true;
      for (int i = 0; ok && i < group->n_local; i++)
        {
          cudaSetDevice (group->gpu->device + i);
          ok = cudaMalloc ((void **) &group->send[i], group->pool_bytes) == cudaSuccess &&
               cudaMalloc ((void **) &group->recv[i], group->pool_bytes) == cudaSuccess &&
               bench_gpu_fill (group->gpu, group->send[i], group->pool_bytes, BENCH_FILL_FP32);
        }
      for (int i = 0; !ok && i < group->n_local; i++)
        {
          cudaSetDevice (group->gpu->device + i);
          cudaGetLastError ();
          cudaFree (group->send[i]);
          cudaFree (group->recv[i]);
          group->send[i] = group->recv[i] = NULL;
        }
      cudaSetDevice (group->gpu->device);
      if (ok)
        return true;
    }
  bench_warn (group->gpu->options, "out of GPU memory: no room for buffers of the collectives");
  return false;
}

bool
bench_group_agree (const BenchGroup *group, double values[BENCH_VOTES])
{
  if (group->gpu->options->ranks == 1)
    return true;
  bool ok = bench_nccl_ok (group->gpu, ncclGroupStart (), "NCCL");
  for (int i = 0; ok && i < group->n_local; i++)
    {
      cudaSetDevice (group->gpu->device + i);
      ok = cudaMemcpyAsync (group->votes[i], values, BENCH_VOTES * sizeof (double), cudaMemcpyHostToDevice,
                            group->streams[i]) == cudaSuccess &&
           bench_nccl_ok (group->gpu,
                          ncclAllReduce (group->votes[i], group->votes[i], BENCH_VOTES, ncclDouble, ncclMax,
                                         group->comms[i], group->streams[i]),
                          "agreement");
    }
  cudaSetDevice (group->gpu->device);
  ok = bench_nccl_ok (group->gpu, ncclGroupEnd (), "NCCL") && ok;
  return ok &&
         cudaMemcpyAsync (values, group->votes[0], BENCH_VOTES * sizeof (double), cudaMemcpyDeviceToHost,
                          group->streams[0]) == cudaSuccess &&
         bench_cuda_ok (group->gpu, cudaStreamSynchronize (group->streams[0]), "agreement");
}

/* How many nodes the group spans: distinct host names, told by their hash. */
static bool
count_nodes (BenchGroup *group)
{
  char name[256] = "";
  uint64_t own = 14695981039346656037ull, all[1024];
  const BenchGroup *g = group;

  if (group->gpu->options->ranks == 1 || group->n_ranks > 1024)
    return true;
  gethostname (name, sizeof name - 1);
  for (const char *at = name; *at; at++)
    own = (own ^ (unsigned char) *at) * 1099511628211ull;
  bool ok = bench_nccl_ok (g->gpu, ncclGroupStart (), "NCCL");
  for (int i = 0; ok && i < g->n_local; i++)
    {
      cudaSetDevice (g->gpu->device + i);
      ok = cudaMemcpyAsync (g->votes[i], &own, sizeof own, cudaMemcpyHostToDevice, g->streams[i]) == cudaSuccess &&
           bench_nccl_ok (g->gpu, ncclAllGather (g->votes[i], g->recv[i], 1, ncclUint64, g->comms[i], g->streams[i]),
                          "host names");
    }
  cudaSetDevice (g->gpu->device);
  if (!bench_nccl_ok (g->gpu, ncclGroupEnd (), "NCCL") || !ok ||
      cudaMemcpyAsync (all, g->recv[0], (size_t) g->n_ranks * sizeof own, cudaMemcpyDeviceToHost, g->streams[0]) !=
          cudaSuccess ||
      cudaStreamSynchronize (g->streams[0]) != cudaSuccess)
    return false;
  group->n_nodes = 0;
  for (int i = 0; i < g->n_ranks; i++)
    {
      bool seen = false;
      for (int j = 0; j < i; j++)
        seen |= all[j] == all[i];
      group->n_nodes += !seen;
    }
  return true;
}

bool
bench_group_settle (BenchGroup *group)
{
  double values[BENCH_VOTES] = { -(double) group->pool_bytes };

  if (!bench_group_agree (group, values))
    return false;
  group->pool_bytes = (size_t) -values[0];
  return count_nodes (group);
}

/* ---- Ids for several processes ---- */

/* Rank 0 makes the ids of all groups and leaves them in a file; the others wait for it. The file is removed at the end
 * of the run; one older than five minutes is left over from another run. */
bool
bench_group_share_ids (const BenchOptions *options, ncclUniqueId *ids, int n)
{
  char temporary[4096];
  size_t bytes = (size_t) n * sizeof *ids;

  if (options->rank == 0)
    {
      snprintf (temporary, sizeof temporary, "%s.part", options->id_file);
      unlink (options->id_file);
      FILE *file = fopen (temporary, "wb");
      bool ok = file != NULL;
      for (int i = 0; ok && i < n; i++)
        ok = ncclGetUniqueId (&ids[i]) == ncclSuccess;
      ok = ok && fwrite (ids, 1, bytes, file) == bytes;
      if (file && fclose (file))
        ok = false;
      if (!ok || rename (temporary, options->id_file))
        {
          bench_warn (options, "%s: cannot write the ids: %s", options->id_file, strerror (errno));
          return false;
        }
      return true;
    }
  time_t started = time (NULL);
  for (int tries = 0; tries < 1200 && !bench_interrupted (); tries++)
    {
      struct stat status;
      FILE *file = stat (options->id_file, &status) == 0 && status.st_mtime > started - 300
                       ? fopen (options->id_file, "rb")
                       : NULL;
      bool ok = file && fread (ids, 1, bytes, file) == bytes;
      if (file)
        fclose (file);
      if (ok)
        return true;
      nanosleep (&(struct timespec){ 0, 100000000 }, NULL);
    }
  bench_warn (options, "%s: no ids from rank 0 within two minutes", options->id_file);
  return false;
}

#endif
