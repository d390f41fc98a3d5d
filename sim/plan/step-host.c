/* SPDX-License-Identifier: MIT */
/* What the host does around collectives besides launching them.
 *
 * Checks, with TORCH_DISTRIBUTED_DEBUG=DETAIL: before each collective of a group of n the hosts meet at a barrier,
 * where the first hears from each of the others and answers, and gather what they are about to do twice around a ring:
 *
 *   check = c + 4 (n - 1) m
 *
 *   m = 69 us, a message between two processes by TCP; c = 110 us. Measured on one machine with PyTorch 1.13, gloo: two
 *   processes all-reduce four numbers (two messages, one after the other) in 138 us, and in 386 us more with the
 *   checks; three and four processes need 4 (n - 1) messages more.
 *
 * ZeRO-1 that cuts every tensor by itself, as nanotron's:
 *
 *   scatter = B (D 2 i + check)    each bucket of the reducer: a copy of each rank's slices into a list, of the list
 *                                  into one buffer
 *   gather  = T L D 3/2 i          each tensor: a slice for each rank before the gather, a copy from the buffer behind;
 *                                  the gather is one for all of them, whose single check is left out
 *
 * ZeRO-3 of DeepSpeed in 2021: each tensor of a layer is gathered for the forward and for the backward and its gradient
 * scattered, one by one, through lists with a view for each rank, which the library copies into or out of one buffer.
 * Each gather first waits for the whole GPU (torch.cuda.synchronize), so all of it counts:
 *
 *   layer   = T D i + 3 P / memory bandwidth        P bytes of the layer: cleared, and copied to or from the buffer;
 *                                  the copies are launched by the library, which costs half of an operator
 *
 *   D     ranks that share the optimizer's states
 *   B     buckets of DistributedDataParallel: each is closed by the tensor that brings its 16-bit gradients to 25 MiB,
 *         so it holds half a tensor more on average
 *   T, L  tensors of a layer, layers
 *   i     host time of a PyTorch operator that launches a kernel; one that makes a view costs half of it
 *
 * The kernels are small, so the host's time is all of it. A flat buffer as Megatron's has nothing of this. Source:
 * ProcessGroupWrapper.cpp (runCollectiveChecks); nanotron, reduce_scatter_coalesced and all_gather_coalesced in
 * distributed.py, _all_gather_params in optim/zero.py; DeepSpeed c814abdad, _allgather_param and
 * _reduce_scatter_gradient in runtime/zero/partition_parameters.py. Checked: published steps of 175 and 530 billion
 * parameters on 384 to 2240 A100 (arXiv 2104.04473, table 2) take 0.74 to 1.28 of what comes out, without the lists 1.4
 * to 4 times that. Limit: beside the backward the host's time delays collectives, not kernels. */
#include "step.h"

#define CHECK_S 110e-6
#define MESSAGE_S 69e-6
#define REDUCER_BYTES (25 << 20)

double
psi_step_check_s (const PsiPlan *plan, guint n_ranks)
{
  return plan->collective_checks && n_ranks > 1 ? CHECK_S + 4 * (n_ranks - 1) * MESSAGE_S : 0;
}

PsiTime
psi_step_host_reduce_ps (const PsiStep *step, guint n_layers, double elements)
{
  const PsiPlan *plan = step->plan;
  guint ranks = psi_step_group_size (step, plan->zero > 0 ? PSI_DIMENSION_SHARD : PSI_DIMENSION_DP);
  double issue_s = psi_time_to_s (step->machine->host.issue_ps_pytorch), slices_s = 0, buckets = 1;

  if (ranks < 2)
    return 0;
  if (plan->framework->matrices > 0)
    {
      double n = (double) plan->framework->matrices * n_layers;

      buckets = MAX (MIN (n, 2 * elements / (REDUCER_BYTES + elements / n)), 1);
      slices_s = plan->zero == 1 ? ranks * 2 * issue_s : 0;
    }
  return psi_time_from_s (buckets * (slices_s + psi_step_check_s (plan, ranks)));
}

PsiTime
psi_step_host_gather_ps (const PsiStep *step, guint n_layers)
{
  guint ranks = psi_step_group_size (step, PSI_DIMENSION_SHARD);
  double slices = ranks > 1 ? (double) step->plan->framework->tensors * n_layers * ranks : 0;

  return psi_time_from_s (slices * 1.5 * psi_time_to_s (step->machine->host.issue_ps_pytorch));
}

PsiTime
psi_step_host_lists_ps (const PsiStep *step, const PsiLayerKind *kind)
{
  guint ranks = psi_step_group_size (step, PSI_DIMENSION_SHARD), listed = step->plan->framework->listed_tensors;
  guint tensors = kind->never_recomputed ? MIN (listed, 2) : listed; /* embedding and head have two each */

  if (step->plan->zero < 3 || ranks < 2 || tensors == 0)
    return 0;
  return psi_time_from_s ((double) tensors * ranks * psi_time_to_s (step->machine->host.issue_ps_pytorch)) +
         psi_step_memory_time_ps (step, 3.0 * (double) psi_layer_parameter_bytes (step, kind));
}
