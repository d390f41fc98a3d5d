/* SPDX-License-Identifier: MIT */
/* What PyTorch's caching allocator holds beyond what is allocated: the tensors of a rank's step replayed on it.
 *
 *   start       parameters, gradients, master copies, workspaces: one allocation each
 *   forward     of a layer: gathered parameters, working tensors, kept tensors, then what is not kept is freed
 *   backward    recomputed tensors, working tensors, unreduced gradients; everything of the layer is freed at its end
 *
 *   end         of the first step: the optimizer's moments, where activations were; then the second step, whose
 *               activations find other holes
 *
 * in the order of the rank's token list, until as many backwards are done as parts can be in flight: from there on the
 * sizes repeat. Gathered parameters and unreduced gradients live in pools of their own, as FSDP's streams have them; so
 * does what is recorded in CUDA graphs layer by layer.
 * Sizes: saved tensors one by one; working tensors in pieces no larger than the largest saved tensor of the layer.
 * Source: allocator.c. Limits: frees take effect at once, so buffers that a side stream still holds are not seen;
 * cyclic plans, whose lists interleave steps, are taken as without such waste. */
#include "step.h"

#include "allocator.h"

#define MOST_PIECES 4

typedef struct
{
  guint layer;
  PsiBlockId block;
} Held;

typedef struct
{
  PsiAllocator *allocator;
  const PsiStep *step;
  const PsiStepRank *rank;
  GArray **held;        /* [chunk * micro_batches + micro_batch] of Held */
  GArray *gathered;     /* of PsiBlockId: released when the next layer has its own */
  PsiBlockId *resident; /* [layers]: copies that stay, 0 = none */
  PsiBlockId gradient;  /* of the layer before */
} Replay;

/* Streams of the allocator: computing, gathering, gradients, and the pool of what is recorded. */
enum
{
  OWN,
  GATHERED,
  GRADIENTS,
  RECORDED
};

static PsiBlockId
take (Replay *replay, guint stream, gint64 bytes)
{
  return psi_allocator_take (replay->allocator, stream, bytes);
}

static void
take_pieces (Replay *replay, guint stream, gint64 bytes, gint64 piece_bytes, GArray *blocks)
{
  guint n = piece_bytes > 0 ? (guint) CLAMP ((bytes + piece_bytes - 1) / piece_bytes, 1, MOST_PIECES) : 1;

  for (guint i = 0; i < n; i++)
    {
      PsiBlockId block = take (replay, stream, bytes / n);

      g_array_append_val (blocks, block);
    }
}

static void
release_all (Replay *replay, GArray *blocks)
{
  for (guint i = 0; i < blocks->len; i++)
    psi_allocator_release (replay->allocator, g_array_index (blocks, PsiBlockId, i));
  g_array_set_size (blocks, 0);
}

/* Where the tensors of a layer come from. */
static guint
stream_of (const Replay *replay, const PsiLayerKind *kind)
{
  const PsiStep *step = replay->step;

  if (step->plan->graphs != PSI_GRAPHS_LAYERS)
    return OWN;
  PsiStepGraphs graphs = psi_step_graphs (step->plan, step->machine, replay->rank->shape->model, kind);

  return graphs.recorded ? RECORDED : OWN;
}

static gint64
largest_tensor (const PsiLayerKind *kind)
{
  gint64 largest = kind->output_bytes;

  for (guint i = 0; i < kind->n_saved_tensors; i++)
    largest = MAX (largest, kind->saved_tensors[i]);
  return largest;
}

/* The parameters of a layer come: into a buffer of the stream that gathers, then, with fully_shard, into tensors of the
 * compute stream. Copies that stay are taken once. */
static void
gather (Replay *replay, const PsiLayerKind *kind, guint layer, gboolean forward)
{
  const PsiPlan *plan = replay->step->plan;
  gint64 bytes = psi_layer_parameter_bytes (replay->step, kind);
  gboolean stays = psi_step_stays_gathered (replay->step, kind), copies = plan->fsdp && plan->memory->fsdp == 2;

  if (plan->zero < 3 || (stays && replay->resident[layer] != 0) || (stays && !forward))
    return;
  PsiBlockId buffer = take (replay, GATHERED, bytes);
  PsiBlockId block = copies ? take (replay, OWN, bytes) : buffer;
  if (copies)
    psi_allocator_release (replay->allocator, buffer);
  if (stays)
    {
      replay->resident[layer] = block;
      return;
    }
  g_array_append_val (replay->gathered, block);
  if (replay->gathered->len > (copies ? 1 : plan->prefetch + 1))
    {
      psi_allocator_release (replay->allocator, g_array_index (replay->gathered, PsiBlockId, 0));
      g_array_remove_index (replay->gathered, 0);
    }
}

/* A backward is over: what stayed for it goes, unless the next micro-batch uses it. */
static void
end_stay (Replay *replay, guint layer)
{
  if (replay->step->plan->pp > 1 || replay->resident[layer] == 0)
    return;
  psi_allocator_release (replay->allocator, replay->resident[layer]);
  replay->resident[layer] = 0;
}

/* Saved tensors of a layer that are among the first `kept_bytes` go to `held`, the others to `passing`. */
static void
take_saved (Replay *replay, const PsiLayerKind *kind, guint layer, gint64 from_bytes, gint64 kept_bytes, GArray *held,
            GArray *passing)
{
  gint64 sum = 0;

  for (guint i = 0; i < kind->n_saved_tensors; i++)
    {
      gint64 bytes = kind->saved_tensors[i], begin = sum;

      sum += bytes;
      if (begin < from_bytes)
        continue;
      Held entry = { layer, take (replay, stream_of (replay, kind), bytes) };
      if (begin < kept_bytes)
        g_array_append_val (held, entry);
      else
        g_array_append_val (passing, entry.block);
    }
}

static void
forward (Replay *replay, guint part, GArray *held)
{
  const PsiModel *model = replay->rank->shape->model;
  g_autoptr (GArray) working = g_array_new (FALSE, FALSE, sizeof (PsiBlockId));

  for (guint l = replay->step->partition.first[part]; l < replay->step->partition.first[part + 1]; l++)
    {
      const PsiLayerKind *kind = psi_layer_kind (model, l);

      gather (replay, kind, l, TRUE);
      take_pieces (replay, stream_of (replay, kind), kind->forward_workspace_bytes, largest_tensor (kind), working);
      take_saved (replay, kind, l, 0, psi_step_kept_bytes (replay->step, kind, l), held, working);
      release_all (replay, working);
    }
}

static void
backward (Replay *replay, guint part, GArray *held)
{
  const PsiModel *model = replay->rank->shape->model;
  g_autoptr (GArray) working = g_array_new (FALSE, FALSE, sizeof (PsiBlockId));

  for (guint l = replay->step->partition.first[part + 1]; l-- > replay->step->partition.first[part];)
    {
      const PsiLayerKind *kind = psi_layer_kind (model, l);
      PsiBlockId gradient = 0;

      gather (replay, kind, l, FALSE);
      take_saved (replay, kind, l, psi_step_kept_bytes (replay->step, kind, l), 0, held, working);
      take_pieces (replay, stream_of (replay, kind), kind->backward_workspace_bytes, largest_tensor (kind), working);
      if (replay->step->plan->zero >= 2)
        gradient = take (replay, GRADIENTS, psi_layer_gradient_bytes (replay->step, kind));
      while (held->len > 0 && g_array_index (held, Held, held->len - 1).layer == l)
        {
          psi_allocator_release (replay->allocator, g_array_index (held, Held, held->len - 1).block);
          g_array_set_size (held, held->len - 1);
        }
      release_all (replay, working);
      end_stay (replay, l);
      psi_allocator_release (replay->allocator, replay->gradient);
      replay->gradient = gradient;
    }
}

/* One step of the rank's list, until as many backwards are done as parts can be in flight; then all is given back. */
static void
run_step (Replay *replay)
{
  const PsiSchedule *schedule = replay->step->schedule;
  const GArray *list = schedule->lists[replay->rank->list];
  gsize n_held = (gsize) schedule->n_chunks * (gsize) schedule->micro_batches;
  guint n_backwards = 0, most_backwards = MAX (replay->step->plan->pp, 1) * schedule->n_chunks + 2;

  for (guint i = 0; i < list->len && n_backwards < most_backwards; i++)
    {
      const PsiToken *token = &g_array_index (list, PsiToken, i);
      gsize index = (gsize) (token->chunk * schedule->micro_batches + token->micro_batch);

      if (token->kind == PSI_TOKEN_UPDATE || index >= n_held)
        continue;
      guint part = psi_schedule_part (schedule, replay->rank->list, (guint) token->chunk);
      if (replay->held[index] == NULL)
        replay->held[index] = g_array_new (FALSE, FALSE, sizeof (Held));
      if (token->kind == PSI_TOKEN_FORWARD)
        forward (replay, part, replay->held[index]);
      else if (token->kind != PSI_TOKEN_BACKWARD_INPUT)
        {
          backward (replay, part, replay->held[index]);
          n_backwards++;
        }
    }
  for (gsize i = 0; i < n_held; i++)
    {
      GArray *held = replay->held[i];

      for (guint h = 0; held != NULL && h < held->len; h++)
        psi_allocator_release (replay->allocator, g_array_index (held, Held, h).block);
      if (held != NULL)
        g_array_set_size (held, 0);
    }
  psi_allocator_release (replay->allocator, replay->gradient);
  replay->gradient = 0;
}

/* What the optimizer makes at the end of the first step, not before it: all but a master copy. */
static gint64
late_optimizer_bytes (const PsiStep *step, const PsiStepRank *rank)
{
  const PsiPlan *plan = step->plan;

  if (plan->memory->early_moments || plan->optimizer_bytes_each <= 0)
    return 0;
  return (gint64) ((double) rank->base[PSI_MEMORY_OPTIMIZER] * plan->moments_bytes_each / plan->optimizer_bytes_each);
}

/* Two moments, tensor by tensor, where activations were: embedding and head are one matrix each, blocks four. */
static void
take_moments (Replay *replay, gint64 bytes)
{
  const PsiModel *model = replay->rank->shape->model;
  const PsiStep *step = replay->step;
  double all = 0;

  for (guint pass = 0; pass < 2; pass++)
    for (guint c = 0; c < step->schedule->n_chunks && (pass == 0 || all > 0); c++)
      {
        guint part = psi_schedule_part (step->schedule, replay->rank->list, c);

        for (guint l = step->partition.first[part]; l < step->partition.first[part + 1]; l++)
          {
            const PsiLayerKind *kind = psi_layer_kind (model, l);
            double trained = (double) psi_layer_trained (kind);
            guint tensors = kind->never_recomputed ? 1 : 4;

            all += pass == 0 ? trained : 0;
            for (guint i = 0; pass == 1 && i < 2 * tensors; i++)
              take (replay, OWN, (gint64) ((double) bytes * trained / all / (2 * tensors)));
          }
      }
}

gint64
psi_step_cache_bytes (const PsiStep *step, const PsiStepRank *rank, gint64 capacity_bytes)
{
  const PsiSchedule *schedule = step->schedule;
  gsize n_held = (gsize) schedule->n_chunks * (gsize) schedule->micro_batches;

  if (step->plan->cyclic || step->plan->keeps_all || psi_step_model (step)->is_uniform ||
      step->plan->memory->static_memory)
    return 0;
  g_autoptr (PsiAllocator) allocator = psi_allocator_new (capacity_bytes, step->plan->memory->expandable);
  Replay replay = { .allocator = allocator,
                    .step = step,
                    .rank = rank,
                    .held = g_new0 (GArray *, n_held),
                    .gathered = g_array_new (FALSE, FALSE, sizeof (PsiBlockId)),
                    .resident = g_new0 (PsiBlockId, rank->shape->model->layers->len) };
  gint64 late_bytes = late_optimizer_bytes (step, rank);

  for (guint c = 0; c < PSI_N_MEMORY; c++)
    take (&replay, OWN, rank->base[c] - (c == PSI_MEMORY_OPTIMIZER ? late_bytes : 0));
  if (late_bytes > 0)
    {
      run_step (&replay);
      take_moments (&replay, late_bytes);
    }
  run_step (&replay);
  for (gsize i = 0; i < n_held; i++)
    if (replay.held[i] != NULL)
      g_array_unref (replay.held[i]);
  g_free (replay.held);
  g_free (replay.resident);
  g_array_unref (replay.gathered);
  return psi_allocator_reserved_peak_bytes (allocator) - psi_allocator_allocated_peak_bytes (allocator);
}
