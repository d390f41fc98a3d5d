/* SPDX-License-Identifier: MIT */
/* The interpreter: one rank of a plan on real tensors. */
#pragma once

#include "train-shared.h"

/* All that the ranks of a run agree on. */
typedef struct
{
  const TrainOptions *options;
  const TrainPlan *plan;
  const TrainModel *model;
  const DataSet *data;
  TrainShared *shared;
  int n_batches;    /* shares of a step's samples */
  int *batch_rows;  /* [n_batches] */
  int *batch_first; /* [n_batches]: the first sample within the step */
  int step_rows;    /* samples of a step */
  int max_rows;
} TrainRun;

/* Share out the samples of a step. */
bool train_run_set_batches (TrainRun *run, int n_batches, TrainError *error);

/* What each sample's loss counts for in the gradient: 1/n, or 1/(batches n_k) for the unweighted mean. */
float train_run_scale (const TrainRun *run, int batch);

/* First sample of a batch of a step, over the whole run. */
size_t train_run_first_sample (const TrainRun *run, int step, int batch);

/* One model part on one rank. */
typedef struct
{
  int part, holder;            /* holder: which of the part's holders this rank is */
  size_t n;                    /* parameters of the part */
  size_t shard_first, shard_n; /* own slice; all of it where nothing is sharded */
  TrainTensor *theta;          /* version v in place v % plan->n_versions; under zero 3 the own slice only */
  TrainTensor gradient[2];     /* by step parity; empty until the step's first backward */
  TrainTensor momentum;
} TrainChunk;

typedef struct
{
  const TrainRun *run;
  int rank;
  TrainMeter meter;
  int64_t waited_ns; /* by the op so far */
  TrainChunk *chunks;
  TrainSaved **saved;    /* [chunk * total + micro_batch] */
  TrainTensor *forward;  /* [part * total + micro_batch]: output of the part, for the next part on this rank */
  TrainTensor *backward; /* likewise: gradient of the part's output */
  int total;             /* micro-batches of the run */
} TrainRank;

/* Run rank `rank` in this process, from train_device_open() to train_device_close(). */
void train_run_rank (const TrainRun *run, int rank);

/* train-update.c: initial state, gathering, giving a gradient away, the optimizer step. */
void train_chunk_init (TrainRank *self, TrainChunk *chunk);
void train_chunk_clear (TrainRank *self, TrainChunk *chunk);
void train_chunk_give_gradient (TrainRank *self, TrainChunk *chunk, int step);
void train_chunk_update (TrainRank *self, TrainChunk *chunk, const TrainOp *op);
void train_chunk_finish (TrainRank *self, TrainChunk *chunk);

/* Parameters of a version: `*ret_gathered` is empty, or a whole copy that the caller clears after use. */
const float *train_chunk_gather (TrainRank *self, TrainChunk *chunk, int version, TrainTensor *ret_gathered);
