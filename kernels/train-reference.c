/* SPDX-License-Identifier: MIT */
/* synchronous: theta_{t+1} = theta_t - g/n sum over the whole batch of grad f (theta_t), one forward and backward of
 * all n samples at once; cyclic-v1:   theta_{t+1} = theta_t - g/N sum_i grad f_i (theta_{t-1}), theta_{-1} = theta_0;
 * cyclic-v2:   theta_{t+1} = theta_t - g/N sum_i grad f_i (thetahat_{i,t}), stage j of thetahat_{i,t} being theta_t
 * where train_delay() says fresh, else theta_{t-1} (arXiv 2403.08837); asynchronous: stage j of thetahat_{i,t} is
 * theta_{t-train_delay()}; random:      each stage of each worker takes
 * theta_t or theta_{t-1} with equal chance. With momentum the bracket is the gradient that enters v = m v + g. Uneven
 * workers count n_i/n instead of 1/N. */
#include "train-reference.h"

#include "train-device.h"

#include <stdlib.h>
#include <string.h>

#define STREAM_DELAY 1000003 /* random numbers of the delays; no layer's stream is as large */

typedef struct
{
  TrainTensor *theta; /* version v in place v % n_versions */
  TrainTensor gradient, momentum;
} Stage;

typedef struct
{
  const TrainRun *run;
  TrainMeter meter;
  int n_versions;
  Stage *stages;
  TrainSaved **saved;
} Reference;

static const float *
parameters_of (const Reference *self, int stage, int version)
{
  return self->stages[stage].theta[version % self->n_versions].data;
}

/* Forward and backward of `rows` samples; versions[stage]: which parameters. Returns the weighted loss. */
static double
pass (Reference *self, size_t first_sample, int rows, const int *versions, float scale, bool first)
{
  const TrainRun *run = self->run;
  const TrainModel *model = run->model;
  size_t in = (size_t) rows * (size_t) model->n_features, out = (size_t) rows * (size_t) model->n_targets;
  float *features = train_new (in, sizeof (float)), *targets = train_new (out, sizeof (float));
  float *outputs = train_new (out, sizeof (float));
  TrainTensor x = train_tensor_new (&self->meter, TRAIN_ACTIVATIONS, in);
  double loss;

  data_set_rows (run->data, first_sample, (size_t) rows, features, targets);
  train_device_upload (x.data, features, in);
  for (int i = 0; i < model->n_parts; i++)
    {
      self->saved[i] = train_saved_new (&model->parts[i], rows);
      x = train_part_forward (&model->parts[i], parameters_of (self, i, versions[i]), x, self->saved[i], &self->meter);
    }
  train_device_download (outputs, x.data, out);
  loss =
      (double) scale * train_loss (outputs, targets, (size_t) rows, (size_t) model->n_targets, model->classes, scale);
  train_device_upload (x.data, outputs, out);
  for (int i = model->n_parts - 1; i >= 0; i--)
    {
      x = train_part_backward (&model->parts[i], parameters_of (self, i, versions[i]), x, i > 0,
                               self->stages[i].gradient.data, first, self->saved[i], &self->meter);
      train_saved_free (self->saved[i], &model->parts[i], &self->meter);
    }
  free (features);
  free (targets);
  free (outputs);
  return loss;
}

static void
start (Reference *self)
{
  const TrainModel *model = self->run->model;

  for (int i = 0; i < model->n_parts; i++)
    {
      Stage *stage = &self->stages[i];
      size_t n = model->parts[i].n_parameters;
      float *host = train_new (n, sizeof (float));

      stage->gradient = train_tensor_new (&self->meter, TRAIN_GRADIENTS, n);
      stage->momentum = train_tensor_new (&self->meter, TRAIN_OPTIMIZER, n);
      train_device_upload (stage->momentum.data, host, n);
      train_model_init (model, i, self->run->options->seed, host);
      stage->theta = train_new ((size_t) self->n_versions, sizeof (TrainTensor));
      for (int version = 0; version < self->n_versions; version++)
        {
          stage->theta[version] = train_tensor_new (&self->meter, TRAIN_PARAMETERS, n);
          train_device_upload (stage->theta[version].data, host, n);
        }
      free (host);
    }
}

static int
delay_of (const Reference *self, TrainUpdate update, int step, int worker, int part, int n_workers)
{
  int n_parts = self->run->model->n_parts;
  uint64_t index = ((uint64_t) step * (uint64_t) n_workers + (uint64_t) worker) * (uint64_t) n_parts + (uint64_t) part;

  if (update == TRAIN_UPDATE_RANDOM)
    return data_random_bits (self->run->options->seed, STREAM_DELAY, index) % 2 == 1;
  return train_delay (update, worker, part, n_workers, n_parts);
}

static double
run_step (Reference *self, TrainUpdate update, int step, int n_workers)
{
  const TrainRun *run = self->run;
  int n_parts = run->model->n_parts;
  int *versions = train_new ((size_t) n_parts, sizeof (int));
  double loss = 0.0;

  for (int i = 0; i < n_parts; i++)
    versions[i] = step;
  if (update <= TRAIN_UPDATE_SYNCHRONOUS && !run->options->unweighted)
    loss = pass (self, train_run_first_sample (run, step, 0), run->step_rows, versions, train_run_scale (run, 0), true);
  else
    for (int batch = 0; batch < run->n_batches; batch++)
      {
        int worker = batch * n_workers / run->n_batches;

        for (int i = 0; i < n_parts; i++)
          {
            int delay = delay_of (self, update, step, worker, i, n_workers);

            versions[i] = step > delay ? step - delay : 0;
          }
        loss += pass (self, train_run_first_sample (run, step, batch), run->batch_rows[batch], versions,
                      train_run_scale (run, batch), batch == 0);
      }
  for (int i = 0; i < n_parts; i++)
    {
      Stage *stage = &self->stages[i];

      train_device_sgd (stage->theta[(step + 1) % self->n_versions].data, stage->theta[step % self->n_versions].data,
                        stage->momentum.data, stage->gradient.data, (float) run->options->rate,
                        (float) run->options->momentum, stage->gradient.n);
    }
  free (versions);
  return loss;
}

void
train_reference (const TrainRun *run, TrainUpdate update, int n_workers, double *losses, float *final)
{
  Reference self = { .run = run };
  size_t n_parts = (size_t) run->model->n_parts;

  train_device_open (0);
  self.stages = train_new (n_parts, sizeof (Stage));
  self.saved = train_new (n_parts, sizeof (TrainSaved *));
  self.n_versions = 2;
  for (int part = 0; part < run->model->n_parts; part++)
    if (train_delay (update, 0, part, n_workers, run->model->n_parts) >= self.n_versions)
      self.n_versions = train_delay (update, 0, part, n_workers, run->model->n_parts) + 1;
  start (&self);
  for (int step = 0; step < run->options->steps; step++)
    losses[step] = run_step (&self, update, step, n_workers);
  for (size_t i = 0; i < n_parts; i++)
    {
      Stage *stage = &self.stages[i];

      train_device_download (final, stage->theta[run->options->steps % self.n_versions].data, stage->gradient.n);
      final += stage->gradient.n;
      for (int version = 0; version < self.n_versions; version++)
        train_tensor_clear (&self.meter, &stage->theta[version]);
      free (stage->theta);
      train_tensor_clear (&self.meter, &stage->gradient);
      train_tensor_clear (&self.meter, &stage->momentum);
    }
  free (self.stages);
  free (self.saved);
  train_device_close ();
}
