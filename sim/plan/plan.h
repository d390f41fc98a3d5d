/* SPDX-License-Identifier: MIT */
/* A plan with every degree resolved: written keys, then the strategy's presets, then the rules of the manual. */
#pragma once

#include "keys.h"
#include "named-plans.h"
#include "schedule.h"
#include "workload.h"

typedef enum
{
  PSI_UPDATE_SYNCHRONOUS,
  PSI_UPDATE_CYCLIC_V1,
  PSI_UPDATE_CYCLIC_V2,
  PSI_UPDATE_ASYNCHRONOUS /* each micro-batch's gradient when it is there (pipedream: every micro_batches of them) */
} PsiUpdateRule;
extern const char *const psi_update_names[]; /* "synchronous", ... NULL-ended */

typedef enum
{
  PSI_RECOMPUTE_NONE,
  PSI_RECOMPUTE_SELECTIVE,
  PSI_RECOMPUTE_FULL
} PsiRecompute;

typedef enum
{
  PSI_OFFLOAD_NONE,
  PSI_OFFLOAD_OPTIMIZER,
  PSI_OFFLOAD_ACTIVATIONS,
  PSI_OFFLOAD_PARAMETERS
} PsiOffload;

/* What is recorded in CUDA graphs. */
typedef enum
{
  PSI_GRAPHS_NONE,
  PSI_GRAPHS_LAYERS, /* each layer's forward and backward */
  PSI_GRAPHS_STEP    /* everything but the optimizer, in one */
} PsiGraphs;

typedef struct
{
  const PsiNamedPlan *named;     /* NULL: only keys */
  guint dp, tp, cp, pp, vpp, ep; /* cyclic: dp = N */
  guint expert_tp;               /* GPUs that split each expert; divides tp */
  guint stages;                  /* K: parts the model is cut into; 1 = not cut */
  guint gpus;                    /* 0 until the schedule is known (shared placement of stages) */
  guint zero, shard_group;       /* shard_group: GPUs that share one sharded copy */
  gboolean fsdp;                 /* zero 3 as FullyShardedDataParallel does it, of a real model */
  const PsiScheduleKind *schedule;
  PsiSchedule *file; /* the order, when the schedule is a file; owned */
  PsiVocabulary vocabulary;
  gint64 in_flight; /* schedule auto: memory of 1F1B with so many ranks; 0 = pp */
  PsiUpdateRule update;
  PsiPlacement placement;
  gboolean cyclic, by_stage; /* by_stage: the model is cut over GPUs */
  gboolean random_delay;     /* workers of a cyclic plan begin at random within the step */
  gboolean parameter_server, keeps_all, sequence_parallel;
  gboolean asynchronous; /* workers of a parameter server that do not wait for each other */

  gint64 micro_batch;           /* samples */
  gint64 micro_batches;         /* per replica (cyclic: per worker) and step */
  gint64 global_batch;          /* samples per step */
  const gint64 *worker_batches; /* [dp] samples of each worker's micro-batch, or NULL; borrowed from the settings */

  PsiRecompute recompute;
  guint recompute_every;
  PsiOffload offload;   /* what lives in the host's memory */
  guint offload_layers; /* activations: of the first n layers */
  PsiDtype dtype;
  guint parameter_bytes_each, gradient_bytes_each; /* per element */
  guint resting_parameter_bytes_each; /* of the shard that zero 3 keeps; FSDP's is fp32, which is no copy then */
  double optimizer_bytes_each;        /* per trainable element */
  double moments_bytes_each;          /* of them, what is no master copy of the parameters */
  double optimizer_traffic_each;      /* bytes read and written per element by one update */
  gboolean grad_clip, overlap_grads, megatron, flash, compile;
  PsiGraphs graphs;
  gboolean channels_last;
  PsiExpertGemm expert_gemm;
  double expert_imbalance; /* tokens of the fullest GPU's experts over the mean */
  const PsiFramework *framework;
  const PsiFrameworkMemory *memory;
  guint extra_gradient_bytes_each; /* per element: copies of gradients that nobody sends */
  gboolean deterministic, fused_loss;
  gboolean collective_checks; /* the host compares every collective with the other ranks before it starts */
  guint flash_generation;     /* of FlashAttention */
  gint64 bucket_bytes;        /* G_MAXINT64: one message for everything */
  guint prefetch;
  gint64 sequence;
  double dropout;
  guint loss_chunks;
  GPtrArray *assumptions; /* of char* */
  GPtrArray *ignored;     /* of char*: keys that the model has no use for, and why */
} PsiPlan;

/* Resolve degrees, batch and presets for a model. Errors name the key at fault. (transfer full) */
PsiPlan *psi_plan_resolve (const PsiSettings *settings, const PsiModelSource *source, guint machine_gpus_per_node,
                           GError **error);
void psi_plan_free (PsiPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiPlan, psi_plan_free)

/* The model's lowering for this plan and `micro_batch` samples. */
PsiLowering psi_plan_lowering (const PsiPlan *plan, gint64 micro_batch);

#define PSI_PLAN_ERROR (psi_plan_error_quark ())
typedef enum
{
  PSI_PLAN_ERROR_UNKNOWN, /* no such strategy */
  PSI_PLAN_ERROR_DEGREES, /* degrees that do not multiply or divide */
  PSI_PLAN_ERROR_BATCH,
  PSI_PLAN_ERROR_LATER /* not in this version */
} PsiPlanError;
GQuark psi_plan_error_quark (void);
