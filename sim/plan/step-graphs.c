/* SPDX-License-Identifier: MIT */
/* Kernels recorded in CUDA graphs (key cuda_graphs).
 *
 *   yes    each layer's forward and backward is a graph of its own, embedding and head aside:
 *            host          GRAPH_CALLS instead of one call for each kernel and five for each collective
 *            GPU           the input is copied into the graph's buffer (forward), so is the gradient of the output
 *                          (backward): 2 bytes moved for each of theirs; the gap between two kernels shrinks to
 *                          GRAPH_GAP of a stream's
 *            memory        input buffers of each layer and each micro-batch in flight stay allocated, beside what the
 *                          layers keep anyway; two buffers for gradients, shared by all. What layers take comes from a
 *                          pool of its own, which nothing else may use (step-reserved.c)
 *   step   forward and backward of all micro-batches, their collectives and messages are one graph: no host time, no
 *          copies, one pool for all of it
 *
 * The optimizer is outside both. Kernels whose sizes are known only while the step runs (experts, see family-moe.c) are
 * outside the first; for the second frameworks pad them. A trace is one module: `yes` records its whole pass.
 *
 * Sources: Megatron-LM docs/user-guide/features/cuda_graph.md and core/transformer/cuda_graphs.py ("local": a runner
 * for each outstanding micro-batch, buffers from one pool, copies at replay; full_iteration: all but the optimizer);
 * Transformer Engine make_graphed_callables, the same for modules of PyTorch (torch.cuda.make_graphed_callables). GPU
 * gap: NVIDIA, "Getting Started with CUDA Graphs" (2019): kernels of 2.9 us follow each other in 3.8 us in a stream, in
 * 3.4 us in a graph, V100. Host: the launch of a straight-line graph takes it 2.5 us and 1 ns a kernel (NVIDIA,
 * "Constant Time Launch for Straight-Line CUDA Graphs", 2024, Ampere; both from memory), less than PyTorch's own call,
 * so each counts as a call.
 *
 * No framework has a default of its own: Megatron-Bridge's recipes record the whole iteration of Llama 3 8B on GB200
 * and GB300, layers or their feed-forward of some 70B runs, and nothing of most.
 *
 * Limits: graphs of parts of a layer (Megatron's modules attn, mlp, moe_router) have no key: four of its functional
 * tests with such graphs take what is predicted without any. Weights that a graph casts to 8 bits once a step are cast
 * with every micro-batch either way; the graphs themselves take some kB of device memory for each kernel, left out; so
 * is what the recording step takes more. */
#include "step.h"

/* The copy into the buffer, and the launch. */
#define GRAPH_CALLS 2
#define GRAPH_GAP (0.5 / 0.9)

PsiStepGraphs
psi_step_graphs (const PsiPlan *plan, const PsiMachine *machine, const PsiModel *model, const PsiLayerKind *kind)
{
  gboolean is_trace = g_strcmp0 (model->family, "trace") == 0;
  PsiStepGraphs graphs = { .whole = plan->graphs == PSI_GRAPHS_STEP };

  graphs.recorded = graphs.whole || (plan->graphs == PSI_GRAPHS_LAYERS && !kind->never_recomputed);
  if (!graphs.recorded || model->is_uniform)
    return (PsiStepGraphs){ .recorded = FALSE };
  /* A profile's gap is measured in a graph already. */
  graphs.gap_s = machine->gpu.profile == NULL ? psi_time_to_s (machine->gpu.launch_ps) * (1 - GRAPH_GAP) : 0;
  if (!graphs.whole && !is_trace)
    {
      graphs.calls = GRAPH_CALLS;
      graphs.copied_bytes[0] = kind->input_bytes;
      graphs.copied_bytes[1] = kind->output_bytes;
    }
  return graphs;
}

/* Most micro-batches of a chunk between their forward and their backward. */
static gint64
in_flight (const PsiStep *step, const PsiStepRank *rank, gint32 chunk)
{
  const GArray *list = step->schedule->lists[rank->list];
  gint64 alive = 0, least = 0, most = 0;

  for (guint i = 0; i < list->len; i++)
    {
      const PsiToken *token = &g_array_index (list, PsiToken, i);

      if ((gint32) token->chunk != chunk)
        continue;
      alive += token->kind == PSI_TOKEN_FORWARD;
      alive -= token->kind == PSI_TOKEN_BACKWARD || token->kind == PSI_TOKEN_BACKWARD_WEIGHT;
      least = MIN (least, alive);
      most = MAX (most, alive);
    }
  return most - least;
}

gint64
psi_step_graph_bytes (const PsiStep *step, const PsiStepRank *rank)
{
  const PsiModel *model = rank->shape->model;
  gint64 bytes = 0, largest_gradient = 0;

  if (step->plan->graphs != PSI_GRAPHS_LAYERS)
    return 0;
  for (guint c = 0; c < step->schedule->n_chunks; c++)
    {
      guint part = psi_schedule_part (step->schedule, rank->list, c);
      gint64 inputs = 0;

      for (guint l = step->partition.first[part]; l < step->partition.first[part + 1]; l++)
        {
          PsiStepGraphs graphs = psi_step_graphs (step->plan, step->machine, model, psi_layer_kind (model, l));

          inputs += (gint64) graphs.copied_bytes[0];
          largest_gradient = MAX (largest_gradient, (gint64) MAX (graphs.copied_bytes[0], graphs.copied_bytes[1]));
        }
      bytes += inputs > 0 ? inputs * in_flight (step, rank, (gint32) c) : 0;
    }
  return bytes + 2 * largest_gradient;
}

PsiTime
psi_step_host_wait_ps (const PsiStep *step, const PsiStepRank *rank)
{
  const PsiPlan *plan = step->plan;
  const PsiModel *model = rank->shape->model;
  double wait_ps = 0;

  for (guint c = 0; c < step->schedule->n_chunks; c++)
    {
      guint part = psi_schedule_part (step->schedule, rank->list, c);

      for (guint l = step->partition.first[part]; l < step->partition.first[part + 1]; l++)
        {
          const PsiLayerKind *kind = psi_layer_kind (model, l);
          const PsiKindCost *cost = &rank->shape->costs[g_array_index (model->layers, PsiLayer, l).kind];

          for (guint pass = 0; pass < PSI_N_PASSES; pass++)
            wait_ps += (double) cost->host_wait_ps[pass];
          if (plan->recompute == PSI_RECOMPUTE_FULL && !kind->never_recomputed && l % plan->recompute_every == 0)
            wait_ps += (double) cost->host_wait_ps[PSI_PASS_FORWARD];
        }
    }
  return (PsiTime) (wait_ps * (double) plan->micro_batches * rank->scale);
}
