/* SPDX-License-Identifier: MIT */
/* Every named strategy, one row each. To add one: a row here and a lesson in sim/lessons. */
#include "named-plans.h"

#include <string.h>

/* clang-format off */
const PsiNamedPlan psi_named_plans[] = {
  { .name = "single", .dp_is_n = TRUE, .schedule = "none", .update = "synchronous", .placement = "shared", .keeps_all = TRUE,
    .summary = "one GPU, all N micro-batches kept at once: what data parallelism would need on one device" },
  { .name = "accumulate", .schedule = "none",
    .summary = "one GPU, micro-batches one after another, gradients accumulated" },
  { .name = "cdp-single", .dp_is_n = TRUE, .schedule = "cyclic", .update = "cyclic-v2", .placement = "shared",
    .summary = "one GPU, N workers in cyclic order: constant activation memory" },
  { .name = "dp", .dp_is_n = TRUE, .schedule = "none",
    .summary = "data parallelism: N replicas, gradients averaged by all-reduce during the backward" },
  { .name = "ddp", .alias_of = "dp" },
  { .name = "mirrored", .alias_of = "dp" },
  { .name = "cdp-v1", .dp_is_n = TRUE, .schedule = "cyclic", .update = "cyclic-v1",
    .summary = "cyclic data parallelism, every worker one step old: gradients hop from worker to worker" },
  { .name = "cdp-v2", .dp_is_n = TRUE, .schedule = "cyclic", .update = "cyclic-v2",
    .summary = "cyclic data parallelism, the freshest parameters that causality allows" },
  { .name = "tp", .tp_is_k = TRUE, .schedule = "none",
    .summary = "tensor parallelism: every layer's parameters split over the GPUs" },
  { .name = "dp+tp", .dp_is_n = TRUE, .tp_is_k = TRUE, .schedule = "none",
    .summary = "N replicas of a tensor-parallel group" },
  { .name = "mp", .pp_is_k = TRUE, .schedule = "naive",
    .summary = "naive model parallelism: stages on different GPUs, one micro-batch at a time" },
  { .name = "rpc-pipeline", .alias_of = "mp" },
  { .name = "dp+mp", .dp_is_n = TRUE, .pp_is_k = TRUE, .schedule = "naive",
    .summary = "N replicas of naive model parallelism on N x K GPUs" },
  { .name = "cdp+mp", .dp_is_n = TRUE, .pp_is_k = TRUE, .schedule = "cyclic", .update = "cyclic-v2", .placement = "shared",
    .summary = "cyclic model parallelism: workers share the GPUs of a stage, N(N+1)/2 instead of N x N" },
  { .name = "cdp+pp", .dp_is_n = TRUE, .pp_is_k = TRUE, .schedule = "cyclic", .update = "cyclic-v2", .placement = "stage",
    .summary = "cyclic pipeline: one GPU per stage, all workers pass through, no flush" },
  { .name = "gpipe", .pp_is_k = TRUE, .schedule = "gpipe",
    .summary = "pipeline: all forwards, then all backwards" },
  { .name = "1f1b", .pp_is_k = TRUE, .schedule = "1f1b",
    .summary = "pipeline: one forward, one backward; same bubble as gpipe, fewer activations" },
  { .name = "interleaved", .pp_is_k = TRUE, .schedule = "interleaved", .vpp = 2,
    .summary = "pipeline with several model parts per GPU: smaller bubble, more messages" },
  { .name = "zb-h1", .pp_is_k = TRUE, .schedule = "zb-h1", .summary = "zero-bubble pipeline, memory of 1f1b" },
  { .name = "zb-h2", .pp_is_k = TRUE, .schedule = "zb-h2", .summary = "zero-bubble pipeline, twice the memory" },
  { .name = "zb-v", .pp_is_k = TRUE, .schedule = "zb-v", .vpp = 2, .summary = "zero-bubble pipeline in V shape" },
  { .name = "dualpipe-v", .pp_is_k = TRUE, .schedule = "dualpipe-v", .vpp = 2,
    .summary = "bidirectional pipeline in V shape" },
  { .name = "v-half", .pp_is_k = TRUE, .schedule = "v-half", .vpp = 2,
    .summary = "zero-bubble V with half the activations of 1f1b" },
  { .name = "v-min", .pp_is_k = TRUE, .schedule = "v-min", .vpp = 2,
    .summary = "zero-bubble V with a third of the activations of 1f1b" },
  { .name = "breadth-first", .pp_is_k = TRUE, .schedule = "breadth-first", .vpp = 2,
    .summary = "pipeline that takes all micro-batches through one model part before the next" },
  { .name = "dualpipe", .pp_is_k = TRUE, .schedule = "dualpipe",
    .summary = "two pipelines in opposite directions on two copies of the model" },
  { .name = "pipedream", .pp_is_k = TRUE, .schedule = "pipedream", .update = "asynchronous", .placement = "stage",
    .summary = "pipeline that never flushes: an update after every micro-batch (or micro_batches of them), weights stashed" },
  { .name = "zero-1", .dp_is_n = TRUE, .schedule = "none", .zero = 1,
    .summary = "data parallelism with the optimizer state shared out" },
  { .name = "zero-2", .dp_is_n = TRUE, .schedule = "none", .zero = 2,
    .summary = "data parallelism with optimizer state and gradients shared out" },
  { .name = "zero-3", .dp_is_n = TRUE, .schedule = "none", .zero = 3,
    .summary = "data parallelism with parameters shared out too, gathered for each use" },
  { .name = "fsdp", .alias_of = "zero-3" },
  { .name = "cdp-zero", .dp_is_n = TRUE, .schedule = "cyclic", .update = "cyclic-v2", .zero = 3,
    .summary = "cyclic data parallelism with one copy of each stage that travels from user to user" },
  { .name = "parameter-server", .dp_is_n = TRUE, .schedule = "none", .gradients = "parameter-server",
    .summary = "data parallelism whose gradients are gathered at a main rank" },
  { .name = "parameter-server-strategy", .alias_of = "parameter-server" },
  { .name = "async", .dp_is_n = TRUE, .schedule = "none", .update = "asynchronous", .gradients = "parameter-server",
    .summary = "parameter server that applies each gradient when it comes: nobody waits, gradients are late" },
  { .name = NULL }
};
/* clang-format on */

const PsiNamedPlan *
psi_named_plan_find (const char *name)
{
  for (const PsiNamedPlan *row = psi_named_plans; row->name != NULL; row++)
    if (strcmp (row->name, name) == 0)
      return row->alias_of != NULL ? psi_named_plan_find (row->alias_of) : row;
  return NULL;
}
