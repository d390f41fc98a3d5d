/* SPDX-License-Identifier: MIT */
/* A schedule unrolled over the steps of a run: every op knows its step, the version of the parameters it uses, and what
 * it waits for as (rank, position) pairs. A plan that was made has no missing or doubled op and cannot deadlock. */
#pragma once

#include "train-schedule.h"

typedef enum
{
  TRAIN_UPDATE_FILE,         /* what the file's U and @-1 words say */
  TRAIN_UPDATE_SYNCHRONOUS,  /* all gradients at theta_t */
  TRAIN_UPDATE_CYCLIC_V1,    /* all gradients at theta_{t-1} */
  TRAIN_UPDATE_CYCLIC_V2,    /* the freshest version that causality allows on the cyclic timeline */
  TRAIN_UPDATE_ASYNCHRONOUS, /* a pipeline that never flushes: what has come back when the micro-batch begins */
  TRAIN_UPDATE_RANDOM,       /* theta_t or theta_{t-1} at random, per worker, part and step; reference only */
  TRAIN_N_UPDATES
} TrainUpdate;
extern const char *const train_update_names[TRAIN_N_UPDATES];

/* How many steps worker `worker` (from 0, of n_workers) is behind in part `part` (from 0, of n_parts).
 * v2: fresh iff (worker + 1) K + (part + 1) N >= (K + 1) N: on the cyclic timeline the last worker has then finished
 * its backward of that part (for K = N: i + j >= N + 1 counted from 1, arXiv 2403.08837).
 * asynchronous: a pipeline without a flush, worker i the i-th micro-batch of a step: the last K - 1 - part
 * micro-batches have not come back when it begins (PipeDream, SOSP 2019). */
int train_delay (TrainUpdate update, int worker, int part, int n_workers, int n_parts);

typedef struct
{
  int rank, position;
} TrainNeed;

typedef struct
{
  char kind; /* F B I W U */
  bool joined;
  bool last_gradient; /* the rank's last weight gradient of this part in this step */
  bool last_use;      /* no later op of the rank uses this version of the chunk's parameters */
  int micro_batch;    /* numbered over the whole run; -1 for U */
  int shift;          /* what was added to the file's number in this repetition */
  int batch;          /* which share of the step's samples: 0 .. n_batches-1 */
  int chunk, part, step;
  int version;     /* parameters used: theta_version; for U: the version it replaces */
  int input_rank;  /* rank that made the boundary tensor this op takes; the own rank or -1: no transfer */
  int output_rank; /* rank that takes the boundary tensor this op makes; the own rank or -1: no transfer */
  int first_need, n_needs;
} TrainOp;

typedef struct
{
  TrainOp *ops;
  size_t n_ops;
} TrainProgram;

typedef struct
{
  const TrainSchedule *schedule;
  int n_steps, n_batches; /* n_batches: shares of one step's samples, over all ranks */
  int n_workers;          /* data-parallel workers for the update rule */
  TrainProgram *programs; /* one per rank */
  TrainNeed *needs;
  size_t n_needs;
  int *n_holders; /* [part] */
  int *holders;   /* [part * n_ranks + i]: ranks that hold the part, ascending */
  int n_versions; /* of a part's parameters at once, at least 2: version v lies in place v % n_versions */
  int *owners;    /* [part]: the rank whose U words update it when sharded and cyclic (the last that has any) */
} TrainPlan;

typedef enum
{
  TRAIN_PLAN_OWNED = 1,    /* zero 3: a part lives with its owner, so ranks without U words may use it */
  TRAIN_PLAN_UNCHECKED = 2 /* leave the search for deadlocks out; for tests of the time limit */
} TrainPlanFlags;

/* Unroll and check. `update` other than FILE is applied to files without U and @-1 words. The schedule must
 * outlive the plan. Returns a plan that the caller frees, or NULL with *error set; a deadlock names the tokens of the
 * cycle. */
TrainPlan *train_plan_new (const TrainSchedule *schedule, int n_steps, TrainUpdate update, TrainPlanFlags flags,
                           TrainError *error);
void train_plan_free (TrainPlan *plan);
