/* SPDX-License-Identifier: MIT */
/* Block: h = relu (x W1'), y = x + h W2'. Backward: dW2 = dy' h, dh = (dy W2) where h > 0, dW1 = dh' x, dx = dy + dh
 * W1. Kept from forward to backward: x and h; between the two backward halves also dy and dh. */
#include "train-model.h"

#include "train-device.h"

#include <math.h>
#include <stdlib.h>

#define STREAM_MODEL 16 /* streams below belong to data-set.c */

const char *const train_memory_names[TRAIN_N_MEMORY] = { "parameters", "gradients", "optimizer",    "activations",
                                                         "boundary",   "workspace", "communication" };

static void
count (TrainMeter *meter, TrainMemory class, size_t add_bytes, size_t take_bytes)
{
  meter->live_bytes[class] += add_bytes - take_bytes;
  meter->total_bytes += add_bytes - take_bytes;
  if (meter->live_bytes[TRAIN_ACTIVATIONS] > meter->activations_peak_bytes)
    meter->activations_peak_bytes = meter->live_bytes[TRAIN_ACTIVATIONS];
  if (meter->total_bytes > meter->op_peak_bytes)
    meter->op_peak_bytes = meter->total_bytes;
  if (meter->total_bytes > meter->peak_bytes)
    {
      meter->peak_bytes = meter->total_bytes;
      for (int i = 0; i < TRAIN_N_MEMORY; i++)
        meter->at_peak_bytes[i] = meter->live_bytes[i];
    }
}

TrainTensor
train_tensor_new (TrainMeter *meter, TrainMemory class, size_t n)
{
  TrainTensor tensor = { train_device_alloc (n), n, class };

  count (meter, class, n * sizeof (float), 0);
  return tensor;
}

void
train_tensor_clear (TrainMeter *meter, TrainTensor *tensor)
{
  if (tensor->data == NULL)
    return;
  train_device_free (tensor->data);
  count (meter, tensor->class, 0, tensor->n * sizeof (float));
  *tensor = (TrainTensor){ NULL, 0, tensor->class };
}

void
train_tensor_recount (TrainMeter *meter, TrainTensor *tensor, TrainMemory class)
{
  count (meter, tensor->class, 0, tensor->n * sizeof (float));
  tensor->class = class;
  count (meter, class, tensor->n * sizeof (float), 0);
}

static size_t
layer_size (const TrainLayer *layer)
{
  return (size_t) layer->hidden * (size_t) layer->in +
         (layer->residual ? (size_t) layer->out * (size_t) layer->hidden : 0);
}

static void
append_layer (TrainPart *part, TrainLayer layer)
{
  layer.offset = part->n_parameters;
  part->n_parameters += layer_size (&layer);
  part->layers[part->n_layers++] = layer;
}

TrainModel *
train_model_new (int n_parts, int n_blocks, int width, bool uneven, const DataSet *data)
{
  TrainModel *model = train_new (1, sizeof *model);
  int block = 0;

  *model = (TrainModel){ NULL, n_parts, width, data->n_features, data->n_targets, data->classes };
  model->parts = train_new ((size_t) n_parts, sizeof (TrainPart));
  for (int i = 0; i < n_parts; i++)
    {
      TrainPart *part = &model->parts[i];
      int n = n_blocks / n_parts + (i < n_blocks % n_parts);

      part->layers = train_new ((size_t) n + 2, sizeof (TrainLayer));
      if (i == 0 && data->n_features != width)
        append_layer (part, (TrainLayer){ false, data->n_features, width, width, 0, STREAM_MODEL });
      for (int k = 0; k < n; k++, block++)
        append_layer (part, (TrainLayer){ true, width, uneven ? width * (block % 4 + 1) / 2 : width, width, 0,
                                          STREAM_MODEL + 2 + 2 * (uint64_t) block });
      if (i == n_parts - 1 && (data->classes || data->n_targets != width))
        append_layer (part, (TrainLayer){ false, width, data->n_targets, data->n_targets, 0, STREAM_MODEL + 1 });
    }
  return model;
}

void
train_model_free (TrainModel *model)
{
  for (int i = 0; model != NULL && i < model->n_parts; i++)
    free (model->parts[i].layers);
  if (model != NULL)
    free (model->parts);
  free (model);
}

void
train_model_init (const TrainModel *model, int part, uint64_t seed, float *parameters)
{
  for (int i = 0; i < model->parts[part].n_layers; i++)
    {
      const TrainLayer *layer = &model->parts[part].layers[i];
      size_t n_first = (size_t) layer->hidden * (size_t) layer->in, n = layer_size (layer);
      float *at = parameters + layer->offset;

      for (size_t k = 0; k < n; k++)
        at[k] = k < n_first
                    ? data_random_normal (seed, layer->stream, k) / sqrtf ((float) layer->in)
                    : 0.3f * data_random_normal (seed, layer->stream + 1, k - n_first) / sqrtf ((float) layer->hidden);
    }
}

int
train_model_input (const TrainModel *model, int part)
{
  return part == 0 ? model->n_features : model->width;
}

int
train_model_output (const TrainModel *model, int part)
{
  return part == model->n_parts - 1 ? model->n_targets : model->width;
}

TrainSaved *
train_saved_new (const TrainPart *part, int rows)
{
  TrainSaved *saved = train_new (1, sizeof *saved);

  saved->rows = rows;
  saved->layers = train_new ((size_t) part->n_layers, sizeof (TrainKept));
  return saved;
}

static void
forget (TrainKept *kept, TrainMeter *meter)
{
  train_tensor_clear (meter, &kept->x);
  train_tensor_clear (meter, &kept->h);
  train_tensor_clear (meter, &kept->dy);
  train_tensor_clear (meter, &kept->dh);
}

void
train_saved_free (TrainSaved *saved, const TrainPart *part, TrainMeter *meter)
{
  if (saved == NULL)
    return;
  for (int i = 0; i < part->n_layers; i++)
    forget (&saved->layers[i], meter);
  free (saved->layers);
  free (saved);
}

TrainTensor
train_part_forward (const TrainPart *part, const float *parameters, TrainTensor x, TrainSaved *saved, TrainMeter *meter)
{
  size_t rows = (size_t) saved->rows;

  for (int i = 0; i < part->n_layers; i++)
    {
      const TrainLayer *layer = &part->layers[i];
      TrainKept *kept = &saved->layers[i];
      size_t in = (size_t) layer->in, hidden = (size_t) layer->hidden, out = (size_t) layer->out;
      const float *first = parameters + layer->offset, *second = first + hidden * in;
      TrainTensor y;

      train_tensor_recount (meter, &x, TRAIN_ACTIVATIONS);
      kept->x = x;
      if (layer->residual)
        {
          kept->h = train_tensor_new (meter, TRAIN_ACTIVATIONS, rows * hidden);
          train_device_multiply (false, true, rows, hidden, in, x.data, first, 0.0f, kept->h.data);
          train_device_relu (kept->h.data, rows * hidden);
          y = train_tensor_new (meter, TRAIN_BOUNDARY, rows * out);
          train_device_copy (y.data, x.data, rows * out);
          train_device_multiply (false, true, rows, out, hidden, kept->h.data, second, 1.0f, y.data);
        }
      else
        {
          y = train_tensor_new (meter, TRAIN_BOUNDARY, rows * out);
          train_device_multiply (false, true, rows, out, in, x.data, first, 0.0f, y.data);
        }
      x = y;
    }
  return x;
}

/* dh = (dy W2) where h > 0. */
static TrainTensor
layer_hidden_gradient (const TrainLayer *layer, const float *parameters, size_t rows, const TrainTensor *dy,
                       const TrainKept *kept, TrainMemory class, TrainMeter *meter)
{
  size_t hidden = (size_t) layer->hidden;
  const float *second = parameters + layer->offset + hidden * (size_t) layer->in;
  TrainTensor dh = train_tensor_new (meter, class, rows * hidden);

  train_device_multiply (false, false, rows, hidden, (size_t) layer->out, dy->data, second, 0.0f, dh.data);
  train_device_relu_backward (kept->h.data, dh.data, rows * hidden);
  return dh;
}

static void
layer_weight_gradient (const TrainLayer *layer, float *gradient, float beta, size_t rows, const TrainKept *kept)
{
  size_t in = (size_t) layer->in, hidden = (size_t) layer->hidden, out = (size_t) layer->out;
  float *first = gradient + layer->offset, *second = first + hidden * in;

  if (layer->residual)
    {
      train_device_multiply (true, false, out, hidden, rows, kept->dy.data, kept->h.data, beta, second);
      train_device_multiply (true, false, hidden, in, rows, kept->dh.data, kept->x.data, beta, first);
    }
  else
    train_device_multiply (true, false, out, in, rows, kept->dy.data, kept->x.data, beta, first);
}

/* dx = dy + dh W1 of a block, dy W1 of a linear layer. A block may do it in dy's own memory. */
static TrainTensor
layer_input_gradient (const TrainLayer *layer, const float *parameters, size_t rows, TrainKept *kept, bool keep_dy,
                      TrainMeter *meter)
{
  size_t in = (size_t) layer->in, hidden = (size_t) layer->hidden;
  const float *first = parameters + layer->offset;
  TrainTensor dx;

  if (!layer->residual)
    {
      dx = train_tensor_new (meter, TRAIN_BOUNDARY, rows * in);
      train_device_multiply (false, false, rows, in, hidden, kept->dy.data, first, 0.0f, dx.data);
      return dx;
    }
  if (keep_dy)
    {
      dx = train_tensor_new (meter, TRAIN_BOUNDARY, rows * in);
      train_device_copy (dx.data, kept->dy.data, rows * in);
    }
  else
    {
      dx = kept->dy;
      kept->dy = (TrainTensor){ NULL, 0, TRAIN_BOUNDARY };
      train_tensor_recount (meter, &dx, TRAIN_BOUNDARY);
    }
  train_device_multiply (false, false, rows, in, hidden, kept->dh.data, first, 1.0f, dx.data);
  return dx;
}

static TrainTensor
backward (const TrainPart *part, const float *parameters, TrainTensor dy, bool want_dx, float *gradient, bool first,
          TrainSaved *saved, TrainMeter *meter)
{
  size_t rows = (size_t) saved->rows;
  TrainMemory class = gradient != NULL ? TRAIN_WORKSPACE : TRAIN_ACTIVATIONS; /* the halves keep dy and dh */

  for (int i = part->n_layers - 1; i >= 0; i--)
    {
      const TrainLayer *layer = &part->layers[i];
      TrainKept *kept = &saved->layers[i];

      train_tensor_recount (meter, &dy, class);
      kept->dy = dy;
      dy = (TrainTensor){ NULL, 0, TRAIN_BOUNDARY };
      if (layer->residual)
        kept->dh = layer_hidden_gradient (layer, parameters, rows, &kept->dy, kept, class, meter);
      if (gradient != NULL)
        layer_weight_gradient (layer, gradient, first ? 0.0f : 1.0f, rows, kept);
      if (i > 0 || want_dx)
        dy = layer_input_gradient (layer, parameters, rows, kept, gradient == NULL, meter);
      if (gradient != NULL)
        forget (kept, meter);
    }
  return dy;
}

TrainTensor
train_part_backward_input (const TrainPart *part, const float *parameters, TrainTensor dy, bool want_dx,
                           TrainSaved *saved, TrainMeter *meter)
{
  return backward (part, parameters, dy, want_dx, NULL, false, saved, meter);
}

TrainTensor
train_part_backward (const TrainPart *part, const float *parameters, TrainTensor dy, bool want_dx, float *gradient,
                     bool first, TrainSaved *saved, TrainMeter *meter)
{
  return backward (part, parameters, dy, want_dx, gradient, first, saved, meter);
}

void
train_part_backward_weight (const TrainPart *part, float *gradient, bool first, TrainSaved *saved, TrainMeter *meter)
{
  for (int i = part->n_layers - 1; i >= 0; i--)
    {
      layer_weight_gradient (&part->layers[i], gradient, first ? 0.0f : 1.0f, (size_t) saved->rows, &saved->layers[i]);
      forget (&saved->layers[i], meter);
    }
}
