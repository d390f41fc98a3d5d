/* SPDX-License-Identifier: MIT */
/* What the caching allocator holds of a rank whose framework has a script (block-script.c), after three steps.
 *
 *   at first    parameters one by one, buckets of DistributedDataParallel (dp > 1, ZeRO-0), the fp32 sums of gradients
 *               and the fp32 copy of parameters as one tensor each, workspaces
 *   each step   the rank's list of tokens, layer by layer and line by line
 *   after it    at the first the moments of each parameter, which find the activations' memory free; with ZeRO-1
 *               what is gathered: 2N / D, D times 2N / D, 2N
 *
 * A tensor that a collective's stream has used comes back to the allocator when the GPU has passed the place where it
 * was freed (record_stream), and the host runs ahead of the GPU:
 *
 *   host += H / n        of each of a pass's n calls, and what a check of a collective takes (step-host.c)
 *   gpu   = max (gpu, host) + G / n
 *   host >= end of the call QUEUE calls before
 *
 * H host time, G time of kernels and collectives of the pass (step-cost.c). The host waits for the GPU at the end of a
 * step and when it receives a boundary tensor, whose shape comes first. So tensor parallelism holds up to QUEUE calls'
 * whole tensors where the GPU is the slower one, and none where the host is.
 *
 * In the first step the first forward of every rank takes START longer: it loads kernels and connects communicators.
 * The second boundary tensor that a rank sends waits for that, and the GPU with it, while the host issues forwards.
 *
 * Source: PyTorch 2.1, ProcessGroupNCCL.cpp, CUDACachingAllocator.cpp (insert_events, process_events); nanotron's
 * trainer.py, parallel/pipeline_parallel, optim/zero.py, distributed.py (all_gather_coalesced); the CUDA driver queues
 * 1024 launches before the next one waits. START, 0.1 s, is assumed: what NCCL takes to connect two ranks.
 *
 * Measured: nanotron's published sweep, ACCURACY.md. Where the host is the slower one, runs lie within 0.3 GiB of what
 * is held without lent tensors; where the GPU is, within 1 GiB of what is held with them. Pipelines of four ranks and
 * more hold on up to 16 nodes what a START of 0.3 s and more would leave (tp 16: to 0.3 GiB), on 32 and 64 nodes what
 * none would. The last code of the branch explains the latter: its hosts look every 0.1 s whether a send is over; that
 * of the others does not wait at a send, though the compare of what it announces, on the GPU, would make it wait.
 * Limits: calls of a pass are taken as equally long; which of the two codes a run had is not known, and the first is
 * taken. */
#include "step.h"

#include "allocator.h"

#define QUEUE 1024
#define STEPS 3
#define UPDATE_CALLS 5
#define START_S 0.1
#define LEAST_BACKWARDS 3 /* beyond those in flight: from there on sizes repeat */

typedef struct
{
  double ready_s; /* on the GPU's clock */
  PsiBlockId block;
} Lent;

typedef struct
{
  PsiAllocator *allocator;
  const PsiStep *step;
  const PsiStepRank *rank;
  guint first, end; /* layers */
  double host_s, gpu_s, ends_s[QUEUE];
  guint n_calls;
  double issue_s;  /* host time of a call outside of layers */
  gboolean starts; /* the first step */
  guint n_sent;    /* boundary tensors in it before the first backward */
  GArray *lent;    /* of Lent, in the order of their times */
  guint n_returned;
  PsiBlockId flow;
  PsiBlockId buffers[PSI_SCRIPT_SLOTS];
  gint64 buffer_bytes[PSI_SCRIPT_SLOTS];
  GArray *gradients;  /* of PsiBlockId */
  PsiBlockId **slots; /* [micro_batch] of [layer - first] of [slot]; NULL: not in flight */
} Replay;

static PsiBlockId
take (Replay *replay, gint64 bytes)
{
  while (replay->n_returned < replay->lent->len &&
         g_array_index (replay->lent, Lent, replay->n_returned).ready_s <= replay->host_s)
    psi_allocator_release (replay->allocator, g_array_index (replay->lent, Lent, replay->n_returned++).block);
  return psi_allocator_take (replay->allocator, 0, bytes);
}

static void
wait_for_gpu (Replay *replay)
{
  replay->host_s = MAX (replay->host_s, replay->gpu_s);
}

/* The allocator is full: it waits for the events of all streams. */
static void
return_lent (gpointer data)
{
  Replay *replay = data;

  wait_for_gpu (replay);
  while (replay->n_returned < replay->lent->len)
    psi_allocator_release (replay->allocator, g_array_index (replay->lent, Lent, replay->n_returned++).block);
}

static void
lend (Replay *replay, PsiBlockId block)
{
  const Lent lent = { .ready_s = replay->gpu_s, .block = block };

  if (block != 0)
    g_array_append_val (replay->lent, lent);
}

static void
call (Replay *replay, gint64 n, double host_s, double gpu_s)
{
  for (gint64 i = 0; i < n; i++)
    {
      double *end_s = &replay->ends_s[replay->n_calls++ % QUEUE];

      replay->host_s = MAX (replay->host_s + host_s, *end_s);
      replay->gpu_s = MAX (replay->gpu_s, replay->host_s) + gpu_s;
      *end_s = replay->gpu_s;
    }
}

static void
run_layer (Replay *replay, const PsiLayerKind *kind, const PsiKindCost *cost, guint pass, PsiBlockId *slots)
{
  const GArray *script = kind->script[pass];
  double check_s = psi_step_check_s (replay->step->plan, replay->step->plan->tp);
  gint64 calls = 0, collectives = 0;

  for (guint i = 0; i < script->len; i++)
    {
      const PsiScriptLine *line = &g_array_index (script, PsiScriptLine, i);

      collectives += line->verb == PSI_SCRIPT_COMM;
      calls += line->verb == PSI_SCRIPT_COMM || line->verb == PSI_SCRIPT_LAUNCH ? line->bytes : 0;
    }
  const PsiRace *race = &cost->races[pass == 0 ? PSI_RACE_FORWARD : PSI_RACE_BACKWARD];
  double host_s = MAX (race->host_s - (double) collectives * check_s, 0) / (double) MAX (calls, 1),
         gpu_s = race->busy_s / (double) MAX (calls, 1);
  for (guint i = 0; i < script->len; i++)
    {
      const PsiScriptLine *line = &g_array_index (script, PsiScriptLine, i);
      PsiBlockId *block = line->slot == PSI_SCRIPT_FLOW ? &replay->flow : &slots[line->slot];

      switch ((PsiScriptVerb) line->verb)
        {
        case PSI_SCRIPT_TAKE:
          *block = take (replay, line->bytes);
          break;
        case PSI_SCRIPT_MOVE:
          *block = replay->flow;
          replay->flow = 0;
          break;
        case PSI_SCRIPT_FREE:
          psi_allocator_release (replay->allocator, *block);
          *block = 0;
          break;
        case PSI_SCRIPT_LEND:
          lend (replay, *block);
          *block = 0;
          break;
        case PSI_SCRIPT_COMM:
          replay->host_s += check_s;
          call (replay, line->bytes, host_s, gpu_s);
          break;
        case PSI_SCRIPT_LAUNCH:
          call (replay, line->bytes, host_s, gpu_s);
          break;
        case PSI_SCRIPT_BUFFER:
          if (replay->buffer_bytes[line->slot] >= line->bytes)
            break;
          lend (replay, replay->buffers[line->slot]);
          replay->buffers[line->slot] = take (replay, line->bytes);
          replay->buffer_bytes[line->slot] = line->bytes;
          break;
        case PSI_SCRIPT_GRADIENT:
          {
            PsiBlockId gradient = take (replay, line->bytes);

            g_array_append_val (replay->gradients, gradient);
            break;
          }
        }
    }
}

static const PsiKindCost *
cost_of (const Replay *replay, guint layer)
{
  const PsiShapeCost *shape = replay->rank->shape;

  return &shape->costs[g_array_index (shape->model->layers, PsiLayer, layer).kind];
}

static gboolean
is_last (const Replay *replay)
{
  return replay->end == replay->rank->shape->model->layers->len;
}

/* What flows between two ranks. */
static void
receive (Replay *replay, guint layer)
{
  wait_for_gpu (replay);
  replay->flow = take (replay, psi_layer_kind (replay->rank->shape->model, layer)->output_bytes);
}

static void
send (Replay *replay)
{
  lend (replay, replay->flow);
  replay->flow = 0;
}

static void
forward (Replay *replay, gint64 micro_batch)
{
  const PsiModel *model = replay->rank->shape->model;
  PsiBlockId *slots = g_new0 (PsiBlockId, (replay->end - replay->first) * PSI_SCRIPT_SLOTS);

  replay->slots[micro_batch] = slots;
  if (replay->n_sent > 1)
    replay->gpu_s = MAX (replay->gpu_s, replay->host_s + START_S);
  if (replay->first > 0)
    receive (replay, replay->first - 1);
  for (guint l = replay->first; l < replay->end; l++)
    run_layer (replay, psi_layer_kind (model, l), cost_of (replay, l), 0,
               &slots[(l - replay->first) * PSI_SCRIPT_SLOTS]);
  if (is_last (replay))
    return;
  send (replay);
  replay->n_sent += replay->starts;
}

static void
backward (Replay *replay, gint64 micro_batch)
{
  const PsiModel *model = replay->rank->shape->model;
  PsiBlockId *slots = replay->slots[micro_batch];

  replay->n_sent = 0;
  if (!is_last (replay))
    receive (replay, replay->end - 1);
  for (guint l = replay->end; l-- > replay->first;)
    run_layer (replay, psi_layer_kind (model, l), cost_of (replay, l), 1,
               &slots[(l - replay->first) * PSI_SCRIPT_SLOTS]);
  if (replay->first > 0)
    send (replay);
  call (replay, replay->gradients->len, replay->issue_s, 0); /* each is added to its sum */
  for (guint i = 0; i < replay->gradients->len; i++)
    psi_allocator_release (replay->allocator, g_array_index (replay->gradients, PsiBlockId, i));
  g_array_set_size (replay->gradients, 0);
  g_clear_pointer (&replay->slots[micro_batch], g_free);
}

/* The tokens of a step, without those in the middle that do what others do. */
static void
run_tokens (Replay *replay)
{
  const PsiSchedule *schedule = replay->step->schedule;
  const GArray *list = schedule->lists[replay->rank->list];
  guint n_backwards = 0, most = MAX (replay->step->plan->pp, 1) + LEAST_BACKWARDS;

  for (guint i = 0; i < list->len; i++)
    {
      const PsiToken *token = &g_array_index (list, PsiToken, i);

      if (token->kind == PSI_TOKEN_FORWARD && n_backwards < most)
        forward (replay, token->micro_batch);
      else if (token->kind == PSI_TOKEN_BACKWARD && replay->slots[token->micro_batch] != NULL)
        {
          backward (replay, token->micro_batch);
          n_backwards++;
        }
    }
}

/* `copies` tensors for each parameter of the rank, 1 / n of its elements. Returns the sum of the elements. */
static gint64
take_each (Replay *replay, guint bytes, guint n, guint copies)
{
  const PsiModel *model = replay->rank->shape->model;
  gint64 sum = 0;

  for (guint l = replay->first; l < replay->end; l++)
    {
      const GArray *tensors = psi_layer_kind (model, l)->tensors;

      for (guint i = 0; i < tensors->len; i++)
        {
          gint64 elements = (g_array_index (tensors, gint64, i) + n - 1) / n;

          sum += elements;
          for (guint c = 0; c < copies; c++)
            take (replay, elements * bytes);
        }
    }
  /* A head on another rank than the embedding it is tied to has a copy of its own. */
  if (model->tied_parameters > 0 && replay->first > 0 && is_last (replay))
    {
      gint64 elements = (model->tied_parameters + n - 1) / n;

      sum += elements;
      for (guint c = 0; c < copies; c++)
        take (replay, elements * bytes);
    }
  return sum;
}

/* Parameters come back from their owners. */
static void
gather_parameters (Replay *replay, guint shards)
{
  gint64 share = 2 * take_each (replay, 0, shards, 0);
  g_autoptr (GArray) blocks = g_array_new (FALSE, FALSE, sizeof (PsiBlockId));

  for (guint i = 0; i < shards + 2; i++)
    {
      PsiBlockId block = take (replay, i <= shards ? share : share * shards);

      g_array_append_val (blocks, block);
    }
  for (guint i = 0; i < blocks->len; i++)
    psi_allocator_release (replay->allocator, g_array_index (blocks, PsiBlockId, i));
}

gboolean
psi_step_has_script (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;
  const PsiSchedule *schedule = step->schedule;
  const PsiModel *model = psi_step_model (step);

  for (guint k = 0; k < model->kinds->len; k++)
    if (psi_model_kind (model, k)->script[0] == NULL)
      return FALSE;
  return plan->recompute == PSI_RECOMPUTE_NONE && plan->zero <= 1 && plan->ep == 1 && !plan->cyclic &&
         (plan->pp == 1 || plan->schedule == &psi_schedule_1f1b || plan->schedule == &psi_schedule_gpipe) &&
         schedule->n_chunks == 1 && schedule->pool == NULL && schedule->places == NULL && step->is_chain &&
         plan->optimizer_bytes_each >= 4 && !psi_settings_has (step->settings, PSI_KEY_OFFLOAD);
}

gint64
psi_step_replayed_bytes (const PsiStep *step, const PsiStepRank *rank, gint64 capacity_bytes)
{
  const PsiPlan *plan = step->plan;
  guint part = psi_schedule_part (step->schedule, rank->list, 0);
  guint shards = plan->zero >= 1 ? psi_step_group_size (step, PSI_DIMENSION_SHARD) : 1;
  gsize n_slots = (gsize) MAX (step->schedule->micro_batches, 1);
  g_autoptr (PsiAllocator) allocator = psi_allocator_new (capacity_bytes, plan->memory->expandable);
  g_autofree Replay *replay = g_new0 (Replay, 1);

  *replay = (Replay){ .allocator = allocator,
                      .step = step,
                      .rank = rank,
                      .first = step->partition.first[part],
                      .end = step->partition.first[part + 1],
                      .lent = g_array_new (FALSE, FALSE, sizeof (Lent)),
                      .gradients = g_array_new (FALSE, FALSE, sizeof (PsiBlockId)),
                      .slots = g_new0 (PsiBlockId *, n_slots),
                      .starts = TRUE,
                      .issue_s = psi_time_to_s (step->machine->host.issue_ps_pytorch) };
  psi_allocator_when_full (allocator, return_lent, replay);
  gint64 elements = take_each (replay, 2, 1, 1);
  if (plan->dp > 1 && plan->zero == 0)
    take_each (replay, plan->memory->bucket_copy_bytes, 1, 1);
  take (replay, plan->gradient_bytes_each * elements);
  take (replay, 4 * take_each (replay, 0, shards, 0));
  take (replay, rank->base[PSI_MEMORY_WORKSPACE] - psi_step_shared_gather_bytes (step)); /* those are in the script */
  for (guint n = 0; n < STEPS; n++)
    {
      run_tokens (replay);
      replay->starts = FALSE;
      /* Of each parameter: norm of the gradient and what it is summed in, its scale, update, copy to 16 bits. */
      call (replay, UPDATE_CALLS * take_each (replay, 0, G_MAXUINT, 0), replay->issue_s, 0);
      if (n == 0)
        take_each (replay, 4, shards, (guint) plan->optimizer_bytes_each / 4 - 1);
      if (shards > 1)
        gather_parameters (replay, shards);
      wait_for_gpu (replay);
    }
  g_array_unref (replay->lent);
  g_array_unref (replay->gradients);
  for (gsize i = 0; i < n_slots; i++)
    g_free (replay->slots[i]);
  g_free (replay->slots);
  return psi_allocator_reserved_bytes (allocator);
}
