/* SPDX-License-Identifier: MIT */
/* train-host: run a schedule file for real on this machine's cores. Plain C, OpenBLAS and forked processes.
 *
 *   cc -O3 -std=gnu11 -o train-host $(ls kernels/train-*.c kernels/data-*.c | grep -v cuda) -lopenblas -lm -pthread
 *
 * Each rank of the schedule is a process with one BLAS thread; tensors between ranks go through shared memory.
 * `train-host --help` lists the flags; the interpreter is train-run.c, and this file is the place where tensors live.
 */
#include "train-device.h"

#include <cblas.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char train_device_name[] = "host";

int
train_device_count (const char **ret_reason)
{
  (void) ret_reason;
  return 1;
}

void
train_device_prepare (void)
{
  openblas_set_num_threads (1);
}

void
train_device_open (int rank)
{
  (void) rank;
}

void
train_device_close (void)
{
}

float *
train_device_alloc (size_t n)
{
  float *tensor = aligned_alloc (64, (n * sizeof (float) + 63) / 64 * 64 + 64);

  if (tensor == NULL)
    {
      fprintf (stderr, "train-host: out of memory (%zu bytes)\n", n * sizeof (float));
      exit (1);
    }
  return tensor;
}

void
train_device_free (float *tensor)
{
  free (tensor);
}

void
train_device_upload (float *tensor, const float *host, size_t n)
{
  memcpy (tensor, host, n * sizeof (float));
}

void
train_device_download (float *host, const float *tensor, size_t n)
{
  memcpy (host, tensor, n * sizeof (float));
}

void
train_device_copy (float *to, const float *from, size_t n)
{
  memcpy (to, from, n * sizeof (float));
}

void
train_device_wait (void)
{
}

void
train_device_multiply (bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const float *a, const float *b,
                       float beta, float *c)
{
  cblas_sgemm (CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, (int) m,
               (int) n, (int) k, 1.0f, a, (int) (transpose_a ? m : k), b, (int) (transpose_b ? k : n), beta, c,
               (int) n);
}

/* x or 0, without a jump: signs are random, and each wrong guess of the processor costs more than the element. */
static inline float
keep_if (bool keep, float x)
{
  union
  {
    float value;
    uint32_t bits;
  } both = { x };

  both.bits &= keep ? UINT32_MAX : 0;
  return both.value;
}

void
train_device_relu (float *x, size_t n)
{
  for (size_t i = 0; i < n; i++)
    x[i] = keep_if (x[i] > 0.0f, x[i]);
}

void
train_device_relu_backward (const float *y, float *gradient, size_t n)
{
  for (size_t i = 0; i < n; i++)
    gradient[i] = keep_if (y[i] > 0.0f, gradient[i]);
}

void
train_device_sgd (float *to, const float *from, float *v, const float *g, float rate, float momentum, size_t n)
{
  if (v == NULL)
    for (size_t i = 0; i < n; i++)
      to[i] = from[i] - rate * g[i];
  else
    for (size_t i = 0; i < n; i++)
      {
        v[i] = momentum * v[i] + g[i];
        to[i] = from[i] - rate * v[i];
      }
}

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

bool
train_device_mailbox (size_t n, void *exchange)
{
  (void) n, (void) exchange;
  return false;
}

void
train_device_post (size_t offset, const float *tensor, size_t n)
{
  (void) offset, (void) tensor, (void) n;
}

void
train_device_fetch (int from_rank, const void *exchange, size_t offset, float *tensor, size_t n)
{
  (void) from_rank, (void) exchange, (void) offset, (void) tensor, (void) n;
}
