/* SPDX-License-Identifier: MIT */
/* Time of every stretch of work of every kind of layer.
 *
 *   piece = max (sum of kernel times on the GPU, kernels launched x issue time of the host)
 *
 * The host issues kernels one after another at the pace of its framework; when the GPU is faster, the host decides
 * (small models become launch-bound). Kernel times come from hwmodel. Kernels of FIXED time launch nothing. */
#include "step.h"

static PsiTime
piece_time_ps (const PsiPlan *plan, const PsiMachine *machine, const PsiLayerKind *kind, guint first, guint n,
               double *ret_flops)
{
  double gpu_s = 0, host_s = 0;
  gint64 issue_ps = plan->megatron ? machine->host.issue_ps_megatron : machine->host.issue_ps_pytorch;
  double issue_s = psi_time_to_s (issue_ps) * plan->framework->host_factor;

  for (guint i = first; i < first + n; i++)
    {
      const PsiKernel *kernel = &g_array_index (kind->kernels, PsiKernel, i);

      gpu_s += psi_gpu_kernel_s (&machine->gpu, kernel);
      if (kernel->kind != PSI_KERNEL_FIXED)
        host_s += (double) kernel->launches * issue_s;
      if (ret_flops != NULL)
        *ret_flops += kernel->flops;
    }
  return psi_time_from_s (MAX (gpu_s, host_s));
}

static void
cost_kind (PsiKindCost *cost, const PsiPlan *plan, const PsiMachine *machine, const PsiLayerKind *kind)
{
  for (guint pass = 0; pass < PSI_N_PASSES; pass++)
    {
      cost->pieces[pass] = g_array_new (FALSE, FALSE, sizeof (PsiPiece));
      for (guint i = 0; i < kind->segments[pass]->len; i++)
        {
          const PsiSegment *segment = &g_array_index (kind->segments[pass], PsiSegment, i);
          PsiPiece piece = { .comm = segment->comm, .group = segment->comm_group, .comm_bytes = segment->comm_bytes };

          piece.time_ps =
              piece_time_ps (plan, machine, kind, segment->first_kernel, segment->n_kernels, &cost->flops[pass]);
          cost->pass_ps[pass] += piece.time_ps;
          g_array_append_val (cost->pieces[pass], piece);
        }
    }
  cost->selective_ps = piece_time_ps (plan, machine, kind, kind->selective_first, kind->selective_n, NULL);
}

PsiShapeCost *
psi_shape_cost_new (const PsiPlan *plan, const PsiMachine *machine, const PsiModelSource *source,
                    const PsiSettings *settings, gint64 micro_batch, GError **error)
{
  PsiLowering lowering = psi_plan_lowering (plan, micro_batch);
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
