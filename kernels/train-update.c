/* SPDX-License-Identifier: MIT */
/* From gradients to the next parameters: v = momentum v + g, theta = theta - rate v, g the sum over all holders of a
 * part.
 *
 * Every holder gives its gradient to shared memory after its last backward of the step. Lists without U words: holder h
 * sums slice h and all wait for all slices (a reduce-scatter and an all-gather). Lists with U words: whoever comes
 * first sums all, the others find the sum. The sum is taken in the order of the ranks, so its bits do not depend on
 * timing. zero 1: each holder keeps momentum for its slice, updates it and the others copy it. zero 2: and frees the
 * gradient once it is given. zero 3: and keeps its slice of the parameters only; whole copies are gathered before each
 * use. With U words, zero 3 keeps a part with its owner, the rank whose list updates it. */
#include "train-run.h"

#include "train-device.h"

#include <stdlib.h>
#include <string.h>

static TrainSharedPart *
shared_part (const TrainRank *self, const TrainChunk *chunk)
{
  return &self->run->shared->parts[chunk->part];
}

static TrainTensor *
theta_of (const TrainRank *self, const TrainChunk *chunk, int version)
{
  return &chunk->theta[version % self->run->plan->n_versions];
}

static int
n_holders (const TrainRank *self, const TrainChunk *chunk)
{
  return self->run->plan->n_holders[chunk->part];
}

static bool
is_cyclic (const TrainRank *self)
{
  return self->run->plan->schedule->updates;
}

/* The device's own all-reduce takes the place of shared memory where all holders come at the same point. */
static bool
uses_device (const TrainRank *self)
{
  return !is_cyclic (self) && self->run->options->zero == 0 &&
         train_device_has_all_reduce (self->run->plan->schedule->n_ranks);
}

/* Slices are cut so that every element has one holder; the last ones may be shorter. */
static void
slice_of (size_t n, int n_slices, int slice, size_t *ret_first, size_t *ret_n)
{
  size_t each = (n + (size_t) n_slices - 1) / (size_t) n_slices, first = each * (size_t) slice;

  *ret_first = first < n ? first : n;
  *ret_n = *ret_first + each < n ? each : n - *ret_first;
}

void
train_chunk_init (TrainRank *self, TrainChunk *chunk)
{
  const TrainRun *run = self->run;
  int zero = run->options->zero;
  float *host = train_new (chunk->n, sizeof (float));
  size_t momentum_n;

  chunk->theta = train_new ((size_t) run->plan->n_versions, sizeof (TrainTensor));
  chunk->shard_n = chunk->n;
  if (zero > 0 && !is_cyclic (self))
    slice_of (chunk->n, n_holders (self, chunk), chunk->holder, &chunk->shard_first, &chunk->shard_n);
  else if (zero > 0 && run->plan->owners[chunk->part] != self->rank)
    chunk->shard_n = 0;
  train_model_init (run->model, chunk->part, run->options->seed, host);
  if (zero == 3)
    {
      memcpy (shared_part (self, chunk)->published[0] + chunk->shard_first, host + chunk->shard_first,
              chunk->shard_n * sizeof (float));
      chunk->theta[0] = train_tensor_new (&self->meter, TRAIN_PARAMETERS, chunk->shard_n);
      train_device_upload (chunk->theta[0].data, host + chunk->shard_first, chunk->shard_n);
    }
  else
    {
      chunk->theta[0] = train_tensor_new (&self->meter, TRAIN_PARAMETERS, chunk->n);
      train_device_upload (chunk->theta[0].data, host, chunk->n);
    }
  momentum_n = run->options->momentum > 0.0 ? chunk->shard_n : 0;
  if (momentum_n > 0)
    {
      memset (host, 0, chunk->n * sizeof (float));
      chunk->momentum = train_tensor_new (&self->meter, TRAIN_OPTIMIZER, momentum_n);
      train_device_upload (chunk->momentum.data, host, momentum_n);
    }
  free (host);
}

void
train_chunk_clear (TrainRank *self, TrainChunk *chunk)
{
  for (int i = 0; i < self->run->plan->n_versions; i++)
    train_tensor_clear (&self->meter, &chunk->theta[i]);
  free (chunk->theta);
  for (int i = 0; i < 2; i++)
    train_tensor_clear (&self->meter, &chunk->gradient[i]);
  train_tensor_clear (&self->meter, &chunk->momentum);
}

typedef struct
{
  TrainSharedPart *part;
  int n_slices, mark;
} SliceWait;

static bool
slices_done (void *data)
{
  const SliceWait *wait = data;

  for (int i = 0; i < wait->n_slices; i++)
    if (atomic_load (&wait->part->slice_step[i]) < wait->mark)
      return false;
  return true;
}

static void
wait_slices (TrainRank *self, TrainSharedPart *part, int n_slices, int mark, const char *what)
{
  SliceWait wait = { part, n_slices, mark };

  if (!slices_done (&wait))
    self->waited_ns += train_shared_wait (self->run->shared, self->rank, slices_done, &wait, what);
}

const float *
train_chunk_gather (TrainRank *self, TrainChunk *chunk, int version, TrainTensor *ret_gathered)
{
  TrainSharedPart *part = shared_part (self, chunk);

  *ret_gathered = (TrainTensor){ NULL, 0, TRAIN_COMMUNICATION };
  if (self->run->options->zero < 3)
    return theta_of (self, chunk, version)->data;
  wait_slices (self, part, is_cyclic (self) ? 1 : n_holders (self, chunk), version, "a gather");
  *ret_gathered = train_tensor_new (&self->meter, TRAIN_COMMUNICATION, chunk->n);
  train_device_upload (ret_gathered->data, part->published[version % 2], chunk->n);
  return ret_gathered->data;
}

void
train_chunk_give_gradient (TrainRank *self, TrainChunk *chunk, int step)
{
  TrainSharedPart *part = shared_part (self, chunk);
  TrainTensor *gradient = &chunk->gradient[step % 2];

  if (n_holders (self, chunk) == 1 || uses_device (self))
    return;
  train_device_download (part->given[step % 2] + (size_t) chunk->holder * chunk->n, gradient->data, chunk->n);
  atomic_store (&part->given_step[2 * chunk->holder + step % 2], step + 1);
  if (self->run->options->zero >= 2)
    {
      train_tensor_clear (&self->meter, gradient);
      if (chunk->shard_n > 0)
        *gradient = train_tensor_new (&self->meter, TRAIN_GRADIENTS, chunk->shard_n);
    }
}

static void
sum_slice (TrainRank *self, TrainChunk *chunk, int step, size_t first, size_t n)
{
  TrainSharedPart *part = shared_part (self, chunk);
  float *sum = part->sum[step % 2] + first;
  bool empty = true;

  for (int holder = 0; holder < n_holders (self, chunk); holder++)
    {
      const float *given = part->given[step % 2] + (size_t) holder * chunk->n + first;

      if (atomic_load (&part->given_step[2 * holder + step % 2]) != step + 1)
        continue; /* this rank had no micro-batch of the step */
      if (empty)
        memcpy (sum, given, n * sizeof (float));
      else
        for (size_t i = 0; i < n; i++)
          sum[i] += given[i];
      empty = false;
    }
}

/* The optimizer on this rank's slice, from version v to v + 1; in place unless the old version is still wanted. */
static void
step_slice (TrainRank *self, TrainChunk *chunk, const TrainOp *op, const float *gradient)
{
  const TrainOptions *options = self->run->options;
  TrainTensor *from = theta_of (self, chunk, op->version), *to = theta_of (self, chunk, op->version + 1);
  size_t offset = options->zero == 3 ? 0 : chunk->shard_first;

  if (op->last_use || options->zero == 3)
    {
      *to = *from;
      *from = (TrainTensor){ NULL, 0, TRAIN_PARAMETERS };
      from = to;
    }
  else
    *to = train_tensor_new (&self->meter, TRAIN_PARAMETERS, from->n);
  train_device_sgd (to->data + offset, from->data + offset, chunk->momentum.data, gradient, (float) options->rate,
                    (float) options->momentum, chunk->shard_n);
}

static void
update_whole (TrainRank *self, TrainChunk *chunk, const TrainOp *op)
{
  const TrainRun *run = self->run;
  TrainSharedPart *part = shared_part (self, chunk);
  TrainTensor *gradient = &chunk->gradient[op->step % 2];
  int n = n_holders (self, chunk), n_slices = is_cyclic (self) ? 1 : n, free_step = op->step;
  size_t first = 0, slice_n = chunk->n;

  if (gradient->data == NULL)
    *gradient = train_tensor_new (&self->meter, TRAIN_GRADIENTS, chunk->n);
  if (n > 1 && uses_device (self))
    train_device_all_reduce (chunk->part, gradient->data, chunk->n);
  else if (n > 1)
    {
      int slice = is_cyclic (self) ? 0 : chunk->holder;

      if (!is_cyclic (self))
        slice_of (chunk->n, n, slice, &first, &slice_n);
      if (atomic_compare_exchange_strong (&part->slice_claim[slice], &free_step, op->step + 1))
        {
          sum_slice (self, chunk, op->step, first, slice_n);
          atomic_store (&part->slice_step[slice], op->step + 1);
          train_shared_notify (run->shared, self->rank);
        }
      wait_slices (self, part, n_slices, op->step + 1, "an all-reduce");
      train_device_upload (gradient->data, part->sum[op->step % 2], chunk->n);
    }
  step_slice (self, chunk, op, gradient->data);
}

static void
update_sharded (TrainRank *self, TrainChunk *chunk, const TrainOp *op)
{
  const TrainRun *run = self->run;
  TrainSharedPart *part = shared_part (self, chunk);
  TrainTensor *gradient = &chunk->gradient[op->step % 2];
  int slice = is_cyclic (self) ? 0 : chunk->holder, zero = run->options->zero;
  float *published = part->published[(op->version + 1) % 2] + chunk->shard_first;
  TrainTensor *theta = theta_of (self, chunk, op->version + 1);
  float *mine;

  if (chunk->shard_n > 0)
    {
      sum_slice (self, chunk, op->step, chunk->shard_first, chunk->shard_n);
      if (gradient->data == NULL)
        *gradient = train_tensor_new (&self->meter, TRAIN_GRADIENTS, chunk->shard_n);
      mine = gradient->data + (zero == 1 ? chunk->shard_first : 0);
      train_device_upload (mine, part->sum[op->step % 2] + chunk->shard_first, chunk->shard_n);
      step_slice (self, chunk, op, mine);
      train_device_download (published, theta->data + (zero == 3 ? 0 : chunk->shard_first), chunk->shard_n);
    }
  atomic_store (&part->slice_step[slice], op->step + 1);
  train_shared_notify (run->shared, self->rank);
  if (zero == 3)
    return;
  wait_slices (self, part, n_holders (self, chunk), op->step + 1, "an all-gather");
  if (theta->data == NULL) /* an empty slice: nothing was stepped */
    {
      *theta = *theta_of (self, chunk, op->version);
      *theta_of (self, chunk, op->version) = (TrainTensor){ NULL, 0, TRAIN_PARAMETERS };
    }
  train_device_upload (theta->data, part->published[(op->version + 1) % 2], chunk->n);
}

void
train_chunk_update (TrainRank *self, TrainChunk *chunk, const TrainOp *op)
{
  bool sharded = self->run->options->zero > 0 && n_holders (self, chunk) > 1;

  if (sharded && is_cyclic (self) && self->run->plan->owners[chunk->part] != self->rank)
    ; /* the owner's U does it */
  else if (sharded)
    update_sharded (self, chunk, op);
  else
    update_whole (self, chunk, op);
  train_tensor_clear (&self->meter, &chunk->gradient[op->step % 2]);
}

/* The lowest holder writes the part's final parameters, or each its slice; replicas are compared with them. */
void
train_chunk_finish (TrainRank *self, TrainChunk *chunk)
{
  const TrainRun *run = self->run;
  TrainSharedPart *part = shared_part (self, chunk);
  TrainTensor *theta = theta_of (self, chunk, run->plan->n_steps);
  float *host;

  if (run->options->zero == 3)
    {
      train_device_download (part->final + chunk->shard_first, theta->data, chunk->shard_n);
      return;
    }
  if (chunk->holder == 0)
    {
      train_device_download (part->final, theta->data, chunk->n);
      return;
    }
  /* `given` of this step's parity is free after the last update; the parent compares it with `final`. */
  host = part->given[run->plan->n_steps % 2] + (size_t) chunk->holder * chunk->n;
  train_device_download (host, theta->data, chunk->n);
}
