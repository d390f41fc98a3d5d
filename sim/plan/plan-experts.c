/* SPDX-License-Identifier: MIT */
/* Groups of experts, as Megatron Core has them (parallel_state.py): the tp x cp x dp GPUs of a pipeline rank, counted
 * with tp innermost, are cut once more, into expert_tp x ep x expert data-parallel ranks. With expert_tp = tp an expert
 * group takes data-parallel ranks only; with less it takes ranks of the tensor-parallel group first, so that ep may be
 * up to dp x cp x tp / expert_tp. */
#include "plan-precision.h"
#include "plan-private.h"

static guint
written_or (const PsiSettings *s, PsiKeyId key, guint otherwise)
{
  return MAX (psi_settings_has (s, key) ? psi_plan_written (s, key) : otherwise, 1);
}

guint
psi_plan_replicas_for_experts (PsiPlan *plan, const PsiSettings *s, guint tp)
{
  guint64 wanted = (guint64) plan->ep * written_or (s, PSI_KEY_EXPERT_TP, tp), divisor = wanted;

  for (guint64 rest = (guint64) tp * plan->cp; rest > 0;)
    {
      guint64 next = divisor % rest;

      divisor = rest;
      rest = next;
    }
  guint n = (guint) MIN (wanted / divisor, 4000000);
  if (n > 1)
    psi_plan_assume (plan, "dp = %u: the least that ep = %u takes, neither gpus nor dp is written", n, plan->ep);
  return n;
}

gboolean
psi_plan_resolve_experts (PsiPlan *plan, const PsiSettings *s, GError **error)
{
  guint64 data = (guint64) plan->dp * plan->cp;

  plan->expert_tp = written_or (s, PSI_KEY_EXPERT_TP, plan->tp);
  if (plan->tp % plan->expert_tp != 0)
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_EXPERT_TP),
                            "'%u' does not divide tp = %u", plan->expert_tp, plan->tp);
  guint64 held = data * (plan->tp / plan->expert_tp);
  if (held % plan->ep == 0)
    return TRUE;
  if (plan->expert_tp < plan->tp)
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_EP),
                            "'%u' does not divide dp x cp x tp / expert_tp = %" G_GUINT64_FORMAT, plan->ep, held);
  return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_EP),
                          "'%u' does not divide dp x cp = %" G_GUINT64_FORMAT "%s", plan->ep, data,
                          plan->tp > 1 ? " (with expert_tp = 1 it may take GPUs of the tp group)" : "");
}
