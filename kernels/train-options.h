/* SPDX-License-Identifier: MIT */
/* The flags of train-host and train-cuda. */
#pragma once

#include "train-plan.h"

#include <stdint.h>

typedef enum
{
  TRAIN_LOG_OPS,   /* a line per op, per step and per rank, and the final line */
  TRAIN_LOG_STEPS, /* without ops */
  TRAIN_LOG_END,   /* the final line only */
  TRAIN_N_LOGS
} TrainLog;

typedef struct
{
  const char *schedule_path; /* NULL: reference only */
  int width, blocks, batch, steps, zero, stages, workers;
  int *worker_batches, n_worker_batches;
  TrainUpdate update;
  double rate, momentum, timeout_s;
  uint64_t seed;
  const char *data, *parameters_path, *compare_path;
  double tolerance;
  bool uneven, reference, unweighted, unchecked, staged;
  TrainLog log;
} TrainOptions;

/* Fill *options from the arguments. Returns false with *error set for what the user got wrong; *ret_help says that help
 * was asked for. train_options_clear() frees what was allocated. */
bool train_options_parse (int argc, char **argv, TrainOptions *options, bool *ret_help, TrainError *error);
void train_options_clear (TrainOptions *options);
void train_options_help (const char *program);
