/* SPDX-License-Identifier: MIT */
/* Time of every stretch of work of every kind of layer.
 *
 *   pass = max (kernels on the GPU + collectives of the tensor-parallel group, calls x issue time of the host)
 *
 * The host runs ahead of the GPU: it issues kernels one after another at the pace of its framework, and only over a
 * whole pass of a layer does the slower of the two decide (small models become launch-bound). What the GPU waits for
 * its host is spread over the pass by calls. A collective costs the host COLLECTIVE_CALLS kernels: output tensor, work
 * object, two events and two waits between streams (ProcessGroupNCCL), about 60 us, in every framework the same. Kernel
 * times come from hwmodel, those of matrix products and attention at the clock of a GPU in training. Kernels of FIXED
 * time launch nothing.
 *
 * Limits: the group is taken as neighbouring GPUs here; the time on links comes from the run. */
#include "step.h"

#define COLLECTIVE_CALLS 5

typedef struct
{
  double gpu_s, host_s;
} Work;

static Work
work_of (const PsiPlan *plan, const PsiMachine *machine, const PsiLayerKind *kind, guint first, guint n,
         double *ret_flops)
{
  Work work = { 0, 0 };
  gint64 issue_ps = plan->megatron ? machine->host.issue_ps_megatron : machine->host.issue_ps_pytorch;
  double issue_s = psi_time_to_s (issue_ps) * plan->framework->host_factor;

  for (guint i = first; i < first + n; i++)
    {
      const PsiKernel *kernel = &g_array_index (kind->kernels, PsiKernel, i);

      double kernel_s = psi_gpu_kernel_s (&machine->gpu, kernel);

      if (kernel->kind == PSI_KERNEL_GEMM || kernel->kind == PSI_KERNEL_ATTENTION)
        kernel_s /= machine->gpu.training_clock;
      work.gpu_s += kernel_s;
      if (kernel->kind != PSI_KERNEL_FIXED)
        work.host_s += (double) kernel->launches * issue_s;
      if (ret_flops != NULL)
        *ret_flops += kernel->flops;
    }
  return work;
}

/* Of the tensor-parallel group alone on the machine. */
static double
collective_s (const PsiPlan *plan, const PsiMachine *machine, const PsiSegment *segment)
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
  psi_collective_cost (machine, ops[segment->comm], segment->comm_bytes, &shape, &cost);
  return psi_time_to_s (psi_collective_time_ps (&cost));
}

/* Passes that follow without a break, first .. last, of one layer. */
static void
cost_passes (PsiKindCost *cost, const PsiPlan *plan, const PsiMachine *machine, const PsiLayerKind *kind, guint first,
             guint last)
{
  double busy_s = 0, host_s = 0;
  g_autoptr (GArray) works = g_array_new (FALSE, FALSE, sizeof (Work));

  for (guint pass = first; pass <= last; pass++)
    for (guint i = 0; i < kind->segments[pass]->len; i++)
      {
        const PsiSegment *segment = &g_array_index (kind->segments[pass], PsiSegment, i);
        Work work = work_of (plan, machine, kind, segment->first_kernel, segment->n_kernels, &cost->flops[pass]);

        busy_s += work.gpu_s;
        if (segment->comm != PSI_COMM_NONE)
          {
            gint64 issue_ps = plan->megatron ? machine->host.issue_ps_megatron : machine->host.issue_ps_pytorch;

            work.host_s += COLLECTIVE_CALLS * psi_time_to_s (issue_ps);
            busy_s += collective_s (plan, machine, segment);
          }
        host_s += work.host_s;
        g_array_append_val (works, work);
      }
  double late = host_s > busy_s ? (host_s - busy_s) / host_s : 0;
  guint w = 0;
  for (guint pass = first; pass <= last; pass++)
    for (guint i = 0; i < kind->segments[pass]->len; i++, w++)
      {
        const PsiSegment *segment = &g_array_index (kind->segments[pass], PsiSegment, i);
        const Work *work = &g_array_index (works, Work, w);
        PsiPiece piece = { .comm = segment->comm, .group = segment->comm_group, .comm_bytes = segment->comm_bytes };

        piece.time_ps = psi_time_from_s (work->gpu_s + late * work->host_s);
        cost->pass_ps[pass] += piece.time_ps;
        g_array_append_val (cost->pieces[pass], piece);
      }
}

static void
cost_kind (PsiKindCost *cost, const PsiPlan *plan, const PsiMachine *machine, const PsiLayerKind *kind)
{
  for (guint pass = 0; pass < PSI_N_PASSES; pass++)
    cost->pieces[pass] = g_array_new (FALSE, FALSE, sizeof (PsiPiece));
  cost_passes (cost, plan, machine, kind, PSI_PASS_FORWARD, PSI_PASS_FORWARD);
  cost_passes (cost, plan, machine, kind, PSI_PASS_BACKWARD_INPUT, PSI_PASS_BACKWARD_WEIGHT);
  Work again = work_of (plan, machine, kind, kind->selective_first, kind->selective_n, NULL);
  cost->selective_ps = psi_time_from_s (MAX (again.gpu_s, again.host_s));
}

PsiShapeCost *
psi_shape_cost_new (const PsiPlan *plan, const PsiMachine *machine, const PsiModelSource *source,
                    const PsiSettings *settings, gint64 micro_batch, GError **error)
{
  PsiLowering lowering = psi_plan_lowering (plan, micro_batch);

  lowering.attention_copy =
      micro_batch > 1 && plan->cp == 1 &&
      (plan->memory->attention_copies > 1 ||
       (plan->memory->attention_copies == 1 && machine->gpu.architecture < PSI_ARCHITECTURE_HOPPER));
  PsiModel *model = psi_model_source_expand (source, settings, &lowering, plan->stages, error);

  if (model == NULL)
    return NULL;
  PsiShapeCost *shape = g_new0 (PsiShapeCost, 1);
  shape->micro_batch = micro_batch;
  shape->model = model;
  shape->costs = g_new0 (PsiKindCost, model->kinds->len);
  for (guint k = 0; k < model->kinds->len; k++)
    cost_kind (&shape->costs[k], plan, machine, psi_model_kind (model, k));
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
