/* SPDX-License-Identifier: MIT */
/* What the trainer asks of the place where tensors live: train-host.c answers with OpenBLAS, train-cuda.c with CUDA.
 * One process drives one device and calls train_device_open() after it was forked. Tensors are float32, matrices are
 * row-major and dense. A call that fails ends the process with a line on stderr; the parent reports it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

extern const char train_device_name[]; /* "host", "cuda" */

/* Devices of this machine; 0: none, and *ret_reason says why. Called in a process of its own. */
int train_device_count (const char **ret_reason);

/* Called once before the fork, where a library must be told how many threads it may use. */
void train_device_prepare (void);
void train_device_open (int rank);
void train_device_close (void);

float *train_device_alloc (size_t n); /* uninitialised */
void train_device_free (float *tensor);
void train_device_upload (float *tensor, const float *host, size_t n);
void train_device_download (float *host, const float *tensor, size_t n);
void train_device_copy (float *to, const float *from, size_t n);
void train_device_wait (void); /* until all work is done, so that clocks can be read */

/* c[m x n] = a b + beta c, where a is [m x k] (or [k x m] if transpose_a), b is [k x n] (or [n x k] if transpose_b). */
void train_device_multiply (bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const float *a,
                            const float *b, float beta, float *c);
void train_device_relu (float *x, size_t n);                                 /* x = max (x, 0) */
void train_device_relu_backward (const float *y, float *gradient, size_t n); /* gradient = 0 where y = 0 */

/* v = momentum v + g; to = from - rate v. `to` may be `from`; v may be NULL where momentum is 0. */
void train_device_sgd (float *to, const float *from, float *v, const float *g, float rate, float momentum, size_t n);

/* All-reduce of the device's own (NCCL) over the holders of a part. has: do all ranks have one? Before the first use
 * every holder joins its part's group, in ascending order of parts: the first holder fills `exchange`
 * (TRAIN_DEVICE_EXCHANGE_BYTES of shared memory) by train_device_group_name() before the others join. */
#define TRAIN_DEVICE_EXCHANGE_BYTES 256
bool train_device_has_all_reduce (int n_ranks);
void train_device_group_name (void *exchange);
void train_device_group_join (int part, int holder, int n_holders, const void *exchange);
void train_device_all_reduce (int part, float *tensor, size_t n); /* in place: the sum */

/* Boundary tensors from device to device. mailbox: make `n` floats that other ranks can read and describe them in
 * `exchange`; false: this device has none, and tensors go through host memory. post writes into the own mailbox, fetch
 * reads that of the rank that `exchange` describes. */
bool train_device_mailbox (size_t n, void *exchange);
void train_device_post (size_t offset, const float *tensor, size_t n);
void train_device_fetch (int from_rank, const void *exchange, size_t offset, float *tensor, size_t n);
