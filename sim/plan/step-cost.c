/* SPDX-License-Identifier: MIT */
/* Time of every stretch of work of every kind of layer.
 *
 *   pass = max (kernels on the GPU + collectives of the tensor-parallel group, calls x issue time of the host)
 *
 * The host runs ahead of the GPU: it issues kernels one after another at the pace of its framework, and only over a
 * whole pass of a layer does the slower of the two decide (small models become launch-bound). What the GPU waits for
 * its host is spread over the pass by calls; where the host awaits each kernel (CUDA_LAUNCH_BLOCKING=1) both add up. A
 * collective costs the host PSI_COLLECTIVE_CALLS kernels, at most 60 us, in every framework the same, and what checks
 * of it cost (step-host.c). Kernel times come from hwmodel, those of matrix products and attention at the clock of a
 * GPU in training. Kernels of FIXED time launch nothing. What is recorded in CUDA graphs is not issued one by one:
 * step-graphs.c.
 *
 *   work W beside a collective of time C:   W' = min (W / (1 - s), W + s C)
 *
 * since the collective's kernel holds a share s of the multiprocessors as long as it runs (24 of 132 on an H100; 18.9 %
 * slower on average in arXiv 2507.03114). The collective is not slowed down by the work. Where products are cut into t
 * pieces for the t members of the group, copy engines move the pieces and leave the multiprocessors alone; the pieces
 * of a scattered sum are added up by a kernel that reads S and writes S / t.
 *
 * Limits: the group is taken as neighbouring GPUs here; the time on links comes from the run. */
#include "step.h"

#define COLLECTIVE_MOST_S 60e-6

typedef struct
{
  double gpu_s, host_s, launches;
} Work;

/* Seconds of the host for one kernel, of a framework like all of its base. */
static double
base_issue_s (const PsiPlan *plan, const PsiMachine *machine)
{
  return psi_time_to_s (plan->megatron ? machine->host.issue_ps_megatron : machine->host.issue_ps_pytorch);
}

/* Is a kernel launched with the graph it is recorded in? */
static gboolean
is_in_graph (const PsiStepGraphs *graphs, const PsiKernel *kernel)
{
  return graphs->recorded && (graphs->whole || !kernel->varies);
}

/* A collective: does the host issue it by itself? */
static gboolean
is_issued (const PsiStepGraphs *graphs, const PsiLayerKind *kind, const PsiSegment *segment)
{
  guint last = segment->first_kernel + segment->n_kernels;

  if (!graphs->recorded || graphs->whole)
    return !graphs->recorded;
  return segment->comm_group == PSI_GROUP_EP ||
         (segment->n_kernels > 0 && g_array_index (kind->kernels, PsiKernel, last - 1).varies);
}

static Work
work_of (const PsiPlan *plan, const PsiMachine *machine, const PsiLayerKind *kind, const PsiStepGraphs *graphs,
         guint first, guint n, double *ret_flops)
{
  Work work = { 0, 0, 0 };
  double issue_s = base_issue_s (plan, machine), operator_s = issue_s * plan->framework->host_factor;

  for (guint i = first; i < first + n; i++)
    {
      const PsiKernel *kernel = &g_array_index (kind->kernels, PsiKernel, i);
      double kernel_s = psi_gpu_kernel_s (&machine->gpu, kernel);

      if (kernel->kind == PSI_KERNEL_GEMM || kernel->kind == PSI_KERNEL_ATTENTION)
        kernel_s /= machine->gpu.training_clock;
      if (ret_flops != NULL)
        *ret_flops += kernel->flops;
      if (is_in_graph (graphs, kernel) && kernel->kind != PSI_KERNEL_FIXED)
        {
          work.gpu_s += MAX (kernel_s - kernel->launches * graphs->gap_s, 0);
          continue;
        }
      work.gpu_s += kernel_s;
      /* Equal products of many experts come from one call: what the framework does about it, it does once. */
      if (kernel->kind == PSI_KERNEL_GEMM && operator_s > issue_s)
        work.host_s += operator_s + (double) (kernel->launches - 1) * issue_s;
      else if (kernel->kind != PSI_KERNEL_FIXED)
        work.host_s += (double) kernel->launches * operator_s;
      work.launches += kernel->kind != PSI_KERNEL_FIXED ? (double) kernel->launches : 0;
    }
  return work;
}

PsiTime
psi_step_beside_ps (const PsiMachine *machine, PsiTime work_ps, PsiTime collective_ps)
{
  double share = psi_collective_sm_share (machine);

  return (PsiTime) MIN ((double) work_ps / (1 - share), (double) work_ps + share * (double) collective_ps);
}

/* Of the tensor-parallel group alone on the machine. */
static double
collective_s (const PsiPlan *plan, const PsiMachine *machine, PsiCommOp comm, const PsiSegment *segment)
{
  static const PsiCollectiveOp ops[] = { [PSI_COMM_ALL_REDUCE] = PSI_COLLECTIVE_ALL_REDUCE,
                                         [PSI_COMM_ALL_GATHER] = PSI_COLLECTIVE_ALL_GATHER,
                                         [PSI_COMM_REDUCE_SCATTER] = PSI_COLLECTIVE_REDUCE_SCATTER,
                                         [PSI_COMM_ALL_TO_ALL] = PSI_COLLECTIVE_ALL_TO_ALL,
                                         [PSI_COMM_SEND_RECV] = PSI_COLLECTIVE_SEND_RECV };
  guint inside = MIN (plan->tp, machine->gpus_per_node);
  PsiGroupShape shape = { .n_ranks = plan->tp,
                          .ranks_per_node = inside,
                          .n_nodes = (plan->tp + inside - 1) / inside,
                          .nic_sharers = machine->gpus_per_node };
  PsiCollectiveCost cost;

  if (segment->comm_group != PSI_GROUP_TP)
    return 0;
  psi_collective_cost (machine, ops[comm], segment->comm_bytes, &shape, &cost);
  return psi_time_to_s (psi_collective_time_ps (&cost));
}

/* What a segment's kernels and collectives are, before the host has its say. */
typedef struct
{
  Work work, beside, again; /* all kernels of the segment; of the weight half, beside the collective; its last ones */
  double comm_s, gather_s;
  double whole_s, pieces_s; /* products beside the collective, at once and piece by piece */
  gboolean before;          /* they stand before it, else after it */
  double sum_s;             /* a scattered sum in pieces leaves them to be added up */
} Stretch;

/* Products cut along their rows, one piece for each member of the group. Each piece is a kernel of its own. */
static void
cut (Stretch *stretch, const PsiPlan *plan, const PsiMachine *machine, const PsiLayerKind *kind,
     const PsiStepGraphs *graphs, guint first, guint n, double issue_s)
{
  stretch->whole_s = work_of (plan, machine, kind, graphs, first, n, NULL).gpu_s;
  for (guint i = first; i < first + n; i++)
    {
      PsiKernel piece = g_array_index (kind->kernels, PsiKernel, i);
      double piece_s;

      piece.m = MAX (piece.m / plan->tp, 1);
      piece.flops /= plan->tp;
      piece.bytes /= plan->tp;
      piece_s = psi_gpu_kernel_s (&machine->gpu, &piece);
      if (piece.kind == PSI_KERNEL_GEMM)
        piece_s /= machine->gpu.training_clock;
      if (is_in_graph (graphs, &piece))
        piece_s = MAX (piece_s - piece.launches * graphs->gap_s, 0);
      else
        stretch->work.host_s += (plan->tp - 1) * piece.launches * issue_s;
      stretch->pieces_s += plan->tp * piece_s;
    }
}

static Stretch
stretch_of (const PsiPlan *plan, const PsiMachine *machine, const PsiLayerKind *kind, const PsiStepGraphs *graphs,
            const PsiSegment *segment, double *flops)
{
  double issue_s = base_issue_s (plan, machine);
  double calls_s = is_issued (graphs, kind, segment)
                       ? MIN (PSI_COLLECTIVE_CALLS * issue_s, COLLECTIVE_MOST_S) + psi_step_check_s (plan, plan->tp)
                       : 0;
  Stretch stretch = { .before = segment->pieces_before_n > 0 };
  guint end = segment->first_kernel + segment->n_kernels;

  stretch.work = work_of (plan, machine, kind, graphs, segment->first_kernel, segment->n_kernels, flops);
  if (segment->comm == PSI_COMM_NONE)
    return stretch;
  stretch.comm_s = collective_s (plan, machine, segment->comm, segment);
  stretch.work.host_s += calls_s;
  if (segment->comm == PSI_COMM_ALL_GATHER && segment->comm_group == PSI_GROUP_TP && calls_s > 0)
    stretch.work.host_s +=
        (MAX (MIN (plan->framework->parts_of_gathered, plan->tp), 1) - 1) * issue_s * plan->framework->host_factor;
  if (segment->beside_n > 0)
    stretch.beside = work_of (plan, machine, kind, graphs, segment->beside_first, segment->beside_n, NULL);
  if (stretch.comm_s > 0 && stretch.before)
    {
      const PsiKernel sum = { .kind = PSI_KERNEL_MEMORY,
                              .dtype = PSI_DTYPE_BF16,
                              .launches = 1,
                              .batch = 1,
                              .bytes = (double) segment->comm_bytes * (1 + 1.0 / plan->tp) };

      cut (&stretch, plan, machine, kind, graphs, end - segment->pieces_before_n, segment->pieces_before_n, issue_s);
      stretch.sum_s = psi_gpu_kernel_s (&machine->gpu, &sum);
    }
  else if (stretch.comm_s > 0 && segment->pieces_after_n > 0)
    cut (&stretch, plan, machine, kind, graphs, end, segment->pieces_after_n, issue_s);
  if (segment->again_n > 0)
    {
      stretch.again = work_of (plan, machine, kind, graphs, end - segment->again_n, segment->again_n, NULL);
      stretch.gather_s = collective_s (plan, machine, PSI_COMM_ALL_GATHER, segment);
      stretch.work.host_s += calls_s;
    }
  return stretch;
}

/* Passes that follow without a break, first .. last, of one layer. */
static PsiRace
cost_passes (PsiKindCost *cost, const PsiPlan *plan, const PsiMachine *machine, const PsiLayerKind *kind,
             const PsiStepGraphs *graphs, guint first, guint last)
{
  PsiKernel copy = { .kind = PSI_KERNEL_MEMORY,
                     .launches = 1,
                     .bytes = 2 * graphs->copied_bytes[first != PSI_PASS_FORWARD] };
  PsiRace race = { 0, 0, 0 };
  g_autoptr (GArray) stretches = g_array_new (FALSE, FALSE, sizeof (Stretch));

  for (guint pass = first; pass <= last; pass++)
    for (guint i = 0; i < kind->segments[pass]->len; i++)
      {
        const PsiSegment *segment = &g_array_index (kind->segments[pass], PsiSegment, i);
        Stretch stretch = stretch_of (plan, machine, kind, graphs, segment, &cost->flops[pass]);

        if (stretches->len == 0 && graphs->calls > 0)
          {
            stretch.work.gpu_s += psi_gpu_kernel_s (&machine->gpu, &copy);
            stretch.work.host_s += graphs->calls * base_issue_s (plan, machine) * plan->framework->host_factor;
            stretch.work.launches += graphs->calls;
          }
        double hidden_s = stretch.pieces_s > 0 ? stretch.pieces_s * (plan->tp - 1) / plan->tp : stretch.beside.gpu_s;

        race.busy_s += stretch.work.gpu_s + stretch.pieces_s - stretch.whole_s + stretch.sum_s +
                       MAX (stretch.comm_s - hidden_s, 0) + MAX (stretch.gather_s - stretch.again.gpu_s, 0);
        race.host_s += stretch.work.host_s;
        race.launches += stretch.work.launches;
        g_array_append_val (stretches, stretch);
      }
  double late = plan->framework->awaits_kernels ? 1
                : race.host_s > race.busy_s     ? (race.host_s - race.busy_s) / race.host_s
                                                : 0;
  guint w = 0;
  double moved_s = 0; /* from the beginning of a stretch to beside the collective before it; negative: to it */
  for (guint pass = first; pass <= last; pass++)
    for (guint i = 0; i < kind->segments[pass]->len; i++, w++)
      {
        const PsiSegment *segment = &g_array_index (kind->segments[pass], PsiSegment, i);
        const Stretch *stretch = &g_array_index (stretches, Stretch, w);
        PsiPiece piece = { .comm = segment->comm, .group = segment->comm_group, .comm_bytes = segment->comm_bytes };
        PsiTime beside_ps = psi_time_from_s (stretch->beside.gpu_s + late * stretch->beside.host_s);
        double first_s = stretch->pieces_s / plan->tp, own_s = stretch->work.gpu_s - moved_s;

        cost->pass_ps[pass] += psi_time_from_s (stretch->work.gpu_s + late * stretch->work.host_s);
        cost->host_wait_ps[pass] += psi_time_from_s (late * stretch->work.host_s);
        moved_s = stretch->before ? -stretch->sum_s : stretch->whole_s - first_s;
        if (stretch->before)
          own_s -= stretch->whole_s - first_s;
        piece.pieces_ps = psi_time_from_s (stretch->pieces_s - first_s);
        piece.time_ps = psi_time_from_s (MAX (own_s, 0) + late * stretch->work.host_s);
        piece.again_ps = psi_time_from_s (stretch->again.gpu_s + late * stretch->again.host_s);
        piece.stretch_ps =
            psi_step_beside_ps (machine, piece.again_ps, psi_time_from_s (stretch->gather_s)) - piece.again_ps;
        piece.beside_ps = psi_step_beside_ps (machine, beside_ps, psi_time_from_s (stretch->comm_s));
        cost->beside_ps += beside_ps;
        g_array_append_val (cost->pieces[pass], piece);
      }
  return race;
}

static void
cost_kind (PsiKindCost *cost, const PsiPlan *plan, const PsiMachine *machine, const PsiModel *model,
           const PsiLayerKind *kind)
{
  PsiStepGraphs graphs = psi_step_graphs (plan, machine, model, kind);

  for (guint pass = 0; pass < PSI_N_PASSES; pass++)
    cost->pieces[pass] = g_array_new (FALSE, FALSE, sizeof (PsiPiece));
  cost->races[PSI_RACE_FORWARD] = cost_passes (cost, plan, machine, kind, &graphs, PSI_PASS_FORWARD, PSI_PASS_FORWARD);
  cost->races[PSI_RACE_BACKWARD] =
      cost_passes (cost, plan, machine, kind, &graphs, PSI_PASS_BACKWARD_INPUT, PSI_PASS_BACKWARD_WEIGHT);
  Work again = work_of (plan, machine, kind, &graphs, kind->selective_first, kind->selective_n, NULL);
  cost->selective_ps =
      psi_time_from_s (plan->framework->awaits_kernels ? again.gpu_s + again.host_s : MAX (again.gpu_s, again.host_s));
}

PsiShapeCost *
psi_shape_cost_new (const PsiPlan *plan, const PsiMachine *machine, const PsiModelSource *source,
                    const PsiSettings *settings, gint64 micro_batch, GError **error)
{
  PsiLowering lowering = psi_plan_lowering (plan, micro_batch);

  lowering.attention_copy =
      micro_batch > 1 && plan->cp == 1 &&
      (plan->memory->attention_copies > 2 ||
       (plan->memory->attention_copies == 2 && plan->tp > 1 && !plan->sequence_parallel) ||
       (plan->memory->attention_copies == 1 && machine->gpu.architecture < PSI_ARCHITECTURE_HOPPER));
  PsiModel *model = psi_model_source_expand (source, settings, &lowering, plan->stages, error);

  if (model == NULL)
    return NULL;
  PsiShapeCost *shape = g_new0 (PsiShapeCost, 1);
  shape->micro_batch = micro_batch;
  shape->model = model;
  shape->costs = g_new0 (PsiKindCost, model->kinds->len);
  for (guint k = 0; k < model->kinds->len; k++)
    cost_kind (&shape->costs[k], plan, machine, model, psi_model_kind (model, k));
  return shape;
}

void
psi_shape_cost_free (PsiShapeCost *shape)
{
  if (shape == NULL)
    return;
  for (guint k = 0; k < shape->model->kinds->len; k++)
    for (guint pass = 0; pass < PSI_N_PASSES; pass++)
      g_array_unref (shape->costs[k].pieces[pass]);
  g_free (shape->costs);
  psi_model_free (shape->model);
  g_free (shape);
}

PsiTime
psi_step_memory_time_ps (const PsiStep *step, double bytes)
{
  PsiKernel kernel = { .kind = PSI_KERNEL_MEMORY, .dtype = PSI_DTYPE_FP32, .launches = 1, .batch = 1, .bytes = bytes };

  return bytes > 0 ? psi_time_from_s (psi_gpu_kernel_s (&step->machine->gpu, &kernel)) : 0;
}
