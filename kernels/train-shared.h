/* SPDX-License-Identifier: MIT */
/* Memory shared by the ranks of a run: how far each is, boundary tensors, gradients, losses, records. It is anonymous,
 * so nothing is left behind however a run ends. Ranks that wait sleep on a semaphore; no wait is without end. */
#pragma once

#include "train-model.h"
#include "train-options.h"
#include "train-device.h"

#include <semaphore.h>
#include <stdatomic.h>

/* One op as it was run. Times count from the common start. */
typedef struct
{
  int64_t begin_ns, wait_ns, end_ns, cpu_ns; /* wait: part of begin..end spent waiting for others */
  size_t live_bytes, peak_bytes;             /* after the op; the most during it */
} TrainRecord;

typedef struct
{
  TrainMeter meter;
  int64_t start_ns, cpu_ns; /* cpu: the whole rank, CLOCK_PROCESS_CPUTIME_ID */
  long n_involuntary, n_voluntary, max_rss_kib;
} TrainRankEnd;

/* What belongs to one part; arrays lie in shared memory. */
typedef struct
{
  size_t n;                 /* parameters of the part */
  float *given[2];          /* [holder * n]: each holder's gradient, by step parity */
  float *sum[2];            /* the sum over holders */
  float *published[2];      /* parameters by version parity, where they are sharded */
  float *final;             /* after the last step */
  _Atomic int *given_step;  /* [2 * holder + parity]: step + 1 of what lies there */
  _Atomic int *slice_step;  /* [holder]: step + 1 when the slice is summed or published */
  _Atomic int *slice_claim; /* [holder]: step + 1 when somebody took it */
  atomic_int *named;        /* 1 when `exchange` is filled */
  void *exchange;           /* for the device's own collective */
} TrainSharedPart;

typedef struct
{
  atomic_int stopped; /* a rank failed: everybody ends */
  atomic_int n_ready;
  atomic_flag failed; /* the first error is kept */
  char error[512];
  _Atomic size_t *progress; /* [rank]: ops done */
  atomic_int *asleep;       /* [rank] */
  sem_t *bell;              /* [rank] */
  double *losses;           /* [step * n_batches + batch], already weighted: a step's loss is their sum */
  atomic_int n_staged;      /* ranks whose device has no mailbox: any, and all tensors go through `messages` */
  char *mailboxes;          /* [rank * TRAIN_DEVICE_EXCHANGE_BYTES]: describes each rank's mailbox */
  size_t n_messages;
  float *messages; /* see train_shared_message() */
  size_t message_floats;
  TrainSharedPart *parts;
  TrainRecord **records; /* [rank][op] */
  TrainRankEnd *ends;    /* [rank] */
  int64_t start_ns;      /* CLOCK_MONOTONIC at the common start */
  int n_ranks, n_parts, micro_batches;
  double timeout_s;
  size_t n_bytes; /* of the whole mapping */
} TrainShared;

int64_t train_clock_ns (int clock_id);

TrainShared *train_shared_new (const TrainPlan *plan, const TrainModel *model, int max_rows, bool sharded,
                               double timeout_s, TrainError *error);
void train_shared_free (TrainShared *shared);

/* Where the boundary tensor behind `part` (forward) or its gradient (backward) of a micro-batch lies in `messages` or
 * in its sender's mailbox, in floats. */
size_t train_shared_message (const TrainShared *shared, bool backward, int part, int micro_batch, int step);

/* Wait as `rank` until ready (data); `what` names it in the error of a timeout. Ends the process when the run stops or
 * the time is up. Returns the nanoseconds spent. */
int64_t train_shared_wait (TrainShared *shared, int rank, bool (*ready) (void *data), void *data, const char *what);

void train_shared_notify (TrainShared *shared, int rank); /* something changed: wake the others */

/* Keep the first error and stop everybody; the caller goes on. */
void train_shared_stop (TrainShared *shared, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
