/* SPDX-License-Identifier: MIT */
#include "train-run.h"

#include "train-device.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

bool
train_run_set_batches (TrainRun *run, int n_batches, TrainError *error)
{
  const TrainOptions *options = run->options;

  if (options->n_worker_batches > 0 && options->n_worker_batches != n_batches)
    return train_fail (error, "--worker-batches: %d numbers for %d micro-batches of a step", options->n_worker_batches,
                       n_batches);
  run->n_batches = n_batches;
  run->batch_rows = train_new ((size_t) n_batches, sizeof (int));
  run->batch_first = train_new ((size_t) n_batches, sizeof (int));
  for (int i = 0; i < n_batches; i++)
    {
      run->batch_rows[i] = options->n_worker_batches > 0 ? options->worker_batches[i] : options->batch;
      run->batch_first[i] = run->step_rows;
      run->step_rows += run->batch_rows[i];
      run->max_rows = run->batch_rows[i] > run->max_rows ? run->batch_rows[i] : run->max_rows;
    }
  return true;
}

float
train_run_scale (const TrainRun *run, int batch)
{
  if (run->options->unweighted)
    return (float) (1.0 / ((double) run->n_batches * (double) run->batch_rows[batch]));
  return (float) (1.0 / (double) run->step_rows);
}

size_t
train_run_first_sample (const TrainRun *run, int step, int batch)
{
  return (size_t) step * (size_t) run->step_rows + (size_t) run->batch_first[batch];
}

static TrainTensor *
boundary (TrainRank *self, bool backward, int part, int micro_batch)
{
  return &(backward ? self->backward : self->forward)[(size_t) part * (size_t) self->total + (size_t) micro_batch];
}

/* A boundary tensor of `rows` that another rank put into shared memory, or that this rank kept. */
static TrainTensor
take_boundary (TrainRank *self, const TrainOp *op, bool backward, int part, int rows)
{
  TrainTensor *kept = boundary (self, backward, part, op->micro_batch), tensor = *kept;

  if (op->input_rank >= 0 && op->input_rank != self->rank)
    {
      TrainShared *shared = self->run->shared;
      size_t at = train_shared_message (shared, backward, part, op->micro_batch, op->step);

      tensor = train_tensor_new (&self->meter, TRAIN_BOUNDARY, (size_t) rows * (size_t) self->run->model->width);
      if (atomic_load (&shared->n_staged) > 0)
        train_device_upload (tensor.data, shared->messages + at, tensor.n);
      else
        train_device_fetch (op->input_rank, shared->mailboxes + op->input_rank * TRAIN_DEVICE_EXCHANGE_BYTES, at,
                            tensor.data, tensor.n);
    }
  *kept = (TrainTensor){ NULL, 0, TRAIN_BOUNDARY };
  return tensor;
}

static void
pass_boundary (TrainRank *self, const TrainOp *op, bool backward, int part, TrainTensor tensor)
{
  TrainShared *shared = self->run->shared;
  size_t at = train_shared_message (shared, backward, part, op->micro_batch, op->step);

  if (op->output_rank == self->rank)
    {
      *boundary (self, backward, part, op->micro_batch) = tensor;
      return;
    }
  if (atomic_load (&shared->n_staged) > 0)
    train_device_download (shared->messages + at, tensor.data, tensor.n);
  else
    train_device_post (at, tensor.data, tensor.n);
  train_tensor_clear (&self->meter, &tensor);
}

/* The outputs of the last part become the gradient of the loss with respect to them. */
static void
take_loss (TrainRank *self, const TrainOp *op, int rows, TrainTensor outputs)
{
  const TrainRun *run = self->run;
  size_t width = (size_t) run->model->n_targets;
  float *targets = train_new ((size_t) rows * width, sizeof (float)), *host = train_new (outputs.n, sizeof (float));
  float scale = train_run_scale (run, op->batch);

  data_set_rows (run->data, train_run_first_sample (run, op->step, op->batch), (size_t) rows, NULL, targets);
  train_device_download (host, outputs.data, outputs.n);
  run->shared->losses[op->step * run->n_batches + op->batch] =
      (double) scale * train_loss (host, targets, (size_t) rows, width, run->data->classes, scale);
  train_device_upload (outputs.data, host, outputs.n);
  free (host);
  free (targets);
}

static void
run_forward (TrainRank *self, TrainChunk *chunk, const TrainOp *op)
{
  const TrainRun *run = self->run;
  const TrainPart *part = &run->model->parts[op->part];
  int rows = run->batch_rows[op->batch];
  TrainSaved *saved = train_saved_new (part, rows);
  TrainTensor gathered, x, y;
  const float *theta = train_chunk_gather (self, chunk, op->version, &gathered);

  if (op->part == 0)
    {
      float *host = train_new ((size_t) rows * (size_t) run->data->n_features, sizeof (float));

      data_set_rows (run->data, train_run_first_sample (run, op->step, op->batch), (size_t) rows, host, NULL);
      x = train_tensor_new (&self->meter, TRAIN_ACTIVATIONS, (size_t) rows * (size_t) run->data->n_features);
      train_device_upload (x.data, host, x.n);
      free (host);
    }
  else
    x = take_boundary (self, op, false, op->part - 1, rows);
  self->saved[op->chunk * self->total + op->micro_batch] = saved;
  y = train_part_forward (part, theta, x, saved, &self->meter);
  if (op->part < run->model->n_parts - 1)
    pass_boundary (self, op, false, op->part, y);
  else
    {
      take_loss (self, op, rows, y);
      *boundary (self, true, op->part, op->micro_batch) = y;
    }
  train_tensor_clear (&self->meter, &gathered);
}

static void
run_backward (TrainRank *self, TrainChunk *chunk, const TrainOp *op)
{
  const TrainPart *part = &self->run->model->parts[op->part];
  TrainSaved **saved = &self->saved[op->chunk * self->total + op->micro_batch];
  TrainTensor *gradient = &chunk->gradient[op->step % 2], gathered, dy, dx = { NULL, 0, TRAIN_BOUNDARY };
  bool first = gradient->data == NULL;
  const float *theta;

  if (op->kind != 'I' && first)
    *gradient = train_tensor_new (&self->meter, TRAIN_GRADIENTS, chunk->n);
  if (op->kind == 'W')
    train_part_backward_weight (part, gradient->data, first, *saved, &self->meter);
  else
    {
      theta = train_chunk_gather (self, chunk, op->version, &gathered);
      dy = take_boundary (self, op, true, op->part, (*saved)->rows);
      if (op->kind == 'B')
        dx = train_part_backward (part, theta, dy, op->part > 0, gradient->data, first, *saved, &self->meter);
      else
        dx = train_part_backward_input (part, theta, dy, op->part > 0, *saved, &self->meter);
      train_tensor_clear (&self->meter, &gathered);
    }
  if (dx.data != NULL)
    pass_boundary (self, op, true, op->part - 1, dx);
  if (op->kind == 'I')
    return;
  train_saved_free (*saved, part, &self->meter);
  *saved = NULL;
  if (op->last_gradient)
    train_chunk_give_gradient (self, chunk, op->step);
}

typedef struct
{
  const TrainRank *self;
  const TrainOp *op;
} NeedsWait;

static bool
needs_done (void *data)
{
  const NeedsWait *wait = data;
  const TrainRun *run = wait->self->run;

  for (int i = 0; i < wait->op->n_needs; i++)
    {
      const TrainNeed *need = &run->plan->needs[wait->op->first_need + i];

      if (atomic_load (&run->shared->progress[need->rank]) <= (size_t) need->position)
        return false;
    }
  return true;
}

static void
run_op (TrainRank *self, size_t position)
{
  const TrainRun *run = self->run;
  const TrainOp *op = &run->plan->programs[self->rank].ops[position];
  TrainRecord *record = &run->shared->records[self->rank][position];
  NeedsWait wait = { self, op };
  TrainChunk *chunk = &self->chunks[op->chunk];
  char token[32];

  record->begin_ns = train_clock_ns (CLOCK_MONOTONIC) - run->shared->start_ns;
  record->cpu_ns = train_clock_ns (CLOCK_THREAD_CPUTIME_ID);
  self->waited_ns = 0;
  self->meter.op_peak_bytes = self->meter.total_bytes;
  if (!needs_done (&wait))
    self->waited_ns =
        train_shared_wait (run->shared, self->rank, needs_done, &wait,
                           train_token_print (run->plan->schedule, op->kind, op->micro_batch, op->chunk, token));
  if (op->kind == 'F')
    run_forward (self, chunk, op);
  else if (op->kind == 'U')
    train_chunk_update (self, chunk, op);
  else
    run_backward (self, chunk, op);
  if (op->last_use && op->kind != 'U' && run->options->zero < 3)
    train_tensor_clear (&self->meter, &chunk->theta[op->version % run->plan->n_versions]);
  train_device_wait ();
  record->cpu_ns = train_clock_ns (CLOCK_THREAD_CPUTIME_ID) - record->cpu_ns;
  record->end_ns = train_clock_ns (CLOCK_MONOTONIC) - run->shared->start_ns;
  record->wait_ns = self->waited_ns;
  record->live_bytes = self->meter.total_bytes;
  record->peak_bytes = self->meter.op_peak_bytes;
  atomic_store (&run->shared->progress[self->rank], position + 1);
  train_shared_notify (run->shared, self->rank);
}

typedef struct
{
  TrainShared *shared;
  int n; /* how many must have come */
} Meeting;

static bool
all_came (void *data)
{
  Meeting *meeting = data;

  return atomic_load (&meeting->shared->n_ready) >= meeting->n;
}

/* Wait until every rank has come for the `round`-th time. */
static void
meet (TrainRank *self, int round, const char *what)
{
  TrainShared *shared = self->run->shared;
  Meeting meeting = { shared, round * shared->n_ranks };

  atomic_fetch_add (&shared->n_ready, 1);
  train_shared_notify (shared, self->rank);
  train_shared_wait (shared, self->rank, all_came, &meeting, what);
}

static bool
is_named (void *data)
{
  return atomic_load (((TrainSharedPart *) data)->named) != 0;
}

/* Join the device's own groups, part by part; the first holder of a part names its group. */
static void
join_groups (TrainRank *self)
{
  const TrainRun *run = self->run;
  const TrainPlan *plan = run->plan;
  int n_ranks = plan->schedule->n_ranks;

  if (!train_device_has_all_reduce (n_ranks))
    return;
  for (int part = 0; part < plan->schedule->n_parts; part++)
    {
      TrainSharedPart *shared = &run->shared->parts[part];
      int n = plan->n_holders[part];

      for (int holder = 0; holder < n && n > 1; holder++)
        {
          if (plan->holders[part * n_ranks + holder] != self->rank)
            continue;
          if (holder == 0)
            {
              train_device_group_name (shared->exchange);
              atomic_store (shared->named, 1);
              train_shared_notify (run->shared, self->rank);
            }
          train_shared_wait (run->shared, self->rank, is_named, shared, "the name of a group");
          train_device_group_join (part, holder, n, shared->exchange);
        }
    }
}

/* Without a mailbox on any rank all go through host memory. */
static void
open_mailbox (TrainRank *self)
{
  TrainShared *shared = self->run->shared;

  if (self->run->options->staged ||
      !train_device_mailbox (shared->n_messages * shared->message_floats,
                             shared->mailboxes + self->rank * TRAIN_DEVICE_EXCHANGE_BYTES))
    atomic_fetch_add (&shared->n_staged, 1);
}

static void
report_end (TrainRank *self)
{
  TrainRankEnd *end = &self->run->shared->ends[self->rank];
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  end->meter = self->meter;
  end->cpu_ns = train_clock_ns (CLOCK_PROCESS_CPUTIME_ID);
  end->n_involuntary = usage.ru_nivcsw;
  end->n_voluntary = usage.ru_nvcsw;
  end->max_rss_kib = usage.ru_maxrss;
}

void
train_run_rank (const TrainRun *run, int rank)
{
  const TrainSchedule *schedule = run->plan->schedule;
  TrainRank self = { .run = run, .rank = rank, .total = schedule->micro_batches * run->plan->n_steps };
  size_t n_chunks = (size_t) schedule->n_chunks, total = (size_t) self.total;

  train_device_open (rank);
  self.chunks = train_new (n_chunks, sizeof (TrainChunk));
  self.saved = train_new (n_chunks * total, sizeof (TrainSaved *));
  self.forward = train_new ((size_t) schedule->n_parts * total, sizeof (TrainTensor));
  self.backward = train_new ((size_t) schedule->n_parts * total, sizeof (TrainTensor));
  for (int i = 0; i < schedule->n_chunks; i++)
    {
      TrainChunk *chunk = &self.chunks[i];

      chunk->part = train_schedule_part (schedule, rank, i);
      chunk->n = run->model->parts[chunk->part].n_parameters;
      while (run->plan->holders[chunk->part * schedule->n_ranks + chunk->holder] != rank)
        chunk->holder++;
      train_chunk_init (&self, chunk);
    }
  join_groups (&self);
  open_mailbox (&self);
  run->shared->start_ns = train_clock_ns (CLOCK_MONOTONIC); /* the last to come sets the clock to zero */
  meet (&self, 1, "the start");
  for (size_t i = 0; i < run->plan->programs[rank].n_ops; i++)
    run_op (&self, i);
  report_end (&self);
  meet (&self, 2, "the end"); /* until then others may read this rank's mailbox */
  for (int i = 0; i < schedule->n_chunks; i++)
    {
      train_chunk_finish (&self, &self.chunks[i]);
      train_chunk_clear (&self, &self.chunks[i]);
    }
  free (self.chunks);
  free (self.saved);
  free (self.forward);
  free (self.backward);
  train_device_close ();
}
