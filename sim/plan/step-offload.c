/* SPDX-License-Identifier: MIT */
/* State that lives in the host's memory and passes over the link between GPU and host.
 *
 *   optimizer     moments and master copies never touch the GPU: each element's gradient goes to the host, which
 *                 updates it, and the parameter comes back: t = elements (g + p + K traffic) / B
 *   parameters    the same, and a layer's parameters come for its forward and again for its backward; two layers are
 *                 on the GPU, and no more gradients than those of the layer at work
 *   activations   what a layer keeps leaves after its forward and returns for its backward; with offload_layers = n
 *                 the first n blocks do so (Megatron's cpu_offloading_num_layers)
 *
 * B is the machine's host link, one direction; g, p, K bytes of gradient, parameter and optimizer traffic. Transfers of
 * a layer run beside its own work: the longer of the two counts. The host's update is taken to run at the rate of the
 * link. Source: Ren et al., ZeRO-Offload, arXiv 2101.06840; Rajbhandari et al., ZeRO-Infinity, arXiv 2104.07857;
 * torch.distributed.fsdp CPUOffloadPolicy: parameters, gradients and optimizer state.
 * Limits: GPUs of a node do not share host memory bandwidth; host memory is not checked. */
#include "step.h"

#include <math.h>

static PsiTime
host_time_ps (const PsiStep *step, double bytes)
{
  double bytes_per_s = step->machine->host.bytes_per_s;

  return bytes > 0 && bytes_per_s > 0 && isfinite (bytes_per_s) ? psi_time_from_s (bytes / bytes_per_s) : 0;
}

gboolean
psi_step_updates_on_host (const PsiStep *step)
{
  return step->plan->offload == PSI_OFFLOAD_OPTIMIZER || step->plan->offload == PSI_OFFLOAD_PARAMETERS;
}

PsiTime
psi_step_offload_optimizer_ps (const PsiStep *step, double elements)
{
  const PsiPlan *plan = step->plan;

  if (!psi_step_updates_on_host (step))
    return 0;
  return host_time_ps (
      step, elements * (plan->gradient_bytes_each + plan->parameter_bytes_each + plan->optimizer_traffic_each));
}

gboolean
psi_step_offloads_activations (const PsiStep *step, guint layer)
{
  const PsiPlan *plan = step->plan;
  guint first = psi_step_model (step)->first_block;

  return plan->offload == PSI_OFFLOAD_ACTIVATIONS &&
         (plan->offload_layers == G_MAXUINT || (layer >= first && layer - first < plan->offload_layers));
}

PsiTime
psi_step_offload_layer_ps (const PsiStep *step, const PsiLayerKind *kind, guint layer, gint64 kept_bytes,
                           PsiTime work_ps)
{
  PsiOffload offload = step->plan->offload;
  gint64 bytes = psi_step_offloads_activations (step, layer) ? kept_bytes
                 : offload == PSI_OFFLOAD_PARAMETERS         ? psi_layer_parameter_bytes (step, kind)
                                                             : 0;

  if (offload == PSI_OFFLOAD_PARAMETERS && step->plan->zero == 3)
    bytes /= psi_step_group_size (step, PSI_DIMENSION_SHARD);
  return MAX (host_time_ps (step, (double) bytes) - work_ps, 0);
}

void
psi_step_offload_state (const PsiStep *step, PsiStepRank *rank)
{
  const PsiModel *model = rank->shape->model;
  gint64 largest_bytes = 0;

  if (psi_step_updates_on_host (step))
    rank->base[PSI_MEMORY_OPTIMIZER] = 0;
  if (step->plan->offload != PSI_OFFLOAD_PARAMETERS)
    return;
  rank->base[PSI_MEMORY_GRADIENTS] = 0;
  for (guint k = 0; k < model->kinds->len; k++)
    largest_bytes = MAX (largest_bytes, psi_layer_parameter_bytes (step, psi_model_kind (model, k)));
  if (step->plan->zero == 3) /* gathered copies are counted where they are gathered */
    largest_bytes /= psi_step_group_size (step, PSI_DIMENSION_SHARD);
  rank->base[PSI_MEMORY_PARAMETERS] = MIN (rank->base[PSI_MEMORY_PARAMETERS], 2 * largest_bytes);
}
