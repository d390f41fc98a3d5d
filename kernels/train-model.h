/* SPDX-License-Identifier: MIT */
/* What is trained: residual blocks y = x + W2 relu (W1 x), cut into parts. Data of another width than the blocks, or
 * with classes, adds a linear layer at the start of the first part and one at the end of the last. */
#pragma once

#include "data-set.h"

/* What a rank's memory holds. The order is that of the output. */
typedef enum
{
  TRAIN_PARAMETERS,
  TRAIN_GRADIENTS,
  TRAIN_OPTIMIZER,
  TRAIN_ACTIVATIONS,
  TRAIN_BOUNDARY,
  TRAIN_WORKSPACE,
  TRAIN_COMMUNICATION,
  TRAIN_N_MEMORY
} TrainMemory;
extern const char *const train_memory_names[TRAIN_N_MEMORY];

/* Bytes of live tensors of one rank. */
typedef struct
{
  size_t live_bytes[TRAIN_N_MEMORY], total_bytes;
  size_t peak_bytes, at_peak_bytes[TRAIN_N_MEMORY], activations_peak_bytes;
  size_t op_peak_bytes; /* since the op began; set back by the interpreter */
} TrainMeter;

/* A tensor that knows its size and what it is counted as. */
typedef struct
{
  float *data;
  size_t n;
  TrainMemory class;
} TrainTensor;

TrainTensor train_tensor_new (TrainMeter *meter, TrainMemory class, size_t n);
void train_tensor_clear (TrainMeter *meter, TrainTensor *tensor); /* frees; an empty tensor is allowed */
void train_tensor_recount (TrainMeter *meter, TrainTensor *tensor, TrainMemory class);

typedef struct
{
  bool residual;       /* y = x + W2 relu (W1 x), else y = W1 x */
  int in, hidden, out; /* W1 [hidden x in], W2 [out x hidden]; a linear layer has W1 [out x in] only */
  size_t offset;       /* of W1 in the part's parameters; W2 follows */
  uint64_t stream;     /* of its initial values: the same however the model is cut */
} TrainLayer;

typedef struct
{
  TrainLayer *layers;
  int n_layers;
  size_t n_parameters;
} TrainPart;

typedef struct
{
  TrainPart *parts;
  int n_parts, width, n_features, n_targets;
  bool classes;
} TrainModel;

/* `n_blocks` blocks of `width` in `n_parts` parts, earlier parts get the rest. Uneven: the hidden widths are 1/2, 1,
 * 3/2 and 2 times `width`, in turn. Returns a model that the caller frees. */
TrainModel *train_model_new (int n_parts, int n_blocks, int width, bool uneven, const DataSet *data);
void train_model_free (TrainModel *model);

/* Initial parameters of a part, into host memory. */
void train_model_init (const TrainModel *model, int part, uint64_t seed, float *parameters);

int train_model_input (const TrainModel *model, int part);  /* width of the part's input */
int train_model_output (const TrainModel *model, int part); /* width of its output */

/* What one micro-batch keeps between the forward and the last backward half of a part. */
typedef struct
{
  TrainTensor x, h, dy, dh;
} TrainKept;

typedef struct
{
  int rows;
  TrainKept *layers;
} TrainSaved;

TrainSaved *train_saved_new (const TrainPart *part, int rows);
void train_saved_free (TrainSaved *saved, const TrainPart *part, TrainMeter *meter);

/* Forward of a part: takes `x` [rows x in], returns y [rows x out] counted as boundary. */
TrainTensor train_part_forward (const TrainPart *part, const float *parameters, TrainTensor x, TrainSaved *saved,
                                TrainMeter *meter);

/* Input half of the backward: takes dy, returns dx (empty if !want_dx), keeps what the weight half needs. */
TrainTensor train_part_backward_input (const TrainPart *part, const float *parameters, TrainTensor dy, bool want_dx,
                                       TrainSaved *saved, TrainMeter *meter);

/* Weight half: gradient (+)= dL/dW; `first`: the gradient is set, not added to. Frees what was kept. */
void train_part_backward_weight (const TrainPart *part, float *gradient, bool first, TrainSaved *saved,
                                 TrainMeter *meter);

/* Both, layer by layer, so that less is alive at once. The same sums in the same order as the two halves. */
TrainTensor train_part_backward (const TrainPart *part, const float *parameters, TrainTensor dy, bool want_dx,
                                 float *gradient, bool first, TrainSaved *saved, TrainMeter *meter);

/* Loss of `rows` samples of `width` outputs, in host memory. classes: softmax cross-entropy against one-hot targets,
 * else half the mean squared error. `outputs` becomes scale * d(sum of losses)/d(outputs). Returns the sum of the
 * losses. */
double train_loss (float *outputs, const float *targets, size_t rows, size_t width, bool classes, float scale);
