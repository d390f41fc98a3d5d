/* SPDX-License-Identifier: MIT */
/* Ranks on the machine: GPU numbers and links.
 *
 * GPU number = sum over tp, cp, dp, pp of coordinate x stride; the first dimension of group_order has stride 1. Every
 * rank has four links: into and out of the node's fabric and of the network. */
#include "step.h"

#include <string.h>

static guint
degree (const PsiStep *step, guint dimension)
{
  const PsiPlan *plan = step->plan;

  return dimension == PSI_STRIDE_TP   ? plan->tp
         : dimension == PSI_STRIDE_CP ? plan->cp
         : dimension == PSI_STRIDE_DP ? plan->dp
                                      : plan->pp;
}

static void
place_groups (PsiStep *step)
{
  g_auto (GStrv) order = g_strsplit (psi_settings_text (step->settings, PSI_KEY_GROUP_ORDER), ",", -1);
  static const char *const names[] = { "tp", "cp", "dp", "pp" };
  guint stride = 1;

  if (step->strides[PSI_STRIDE_TP] > 0)
    return;
  for (guint i = 0; order[i] != NULL; i++)
    for (guint d = 0; d < G_N_ELEMENTS (names); d++)
      if (strcmp (g_strstrip (order[i]), names[d]) == 0)
        {
          step->strides[d] = stride;
          stride *= degree (step, d);
        }
}

gboolean
psi_step_replicas_alike (PsiStep *step)
{
  const PsiPlan *plan = step->plan;
  guint node = step->machine->gpus_per_node;

  place_groups (step);
  for (guint replica = 1; plan->pp > 1 && replica < plan->tp * plan->cp * plan->dp; replica++)
    {
      guint at = replica % plan->tp * step->strides[PSI_STRIDE_TP] +
                 replica / plan->tp % plan->cp * step->strides[PSI_STRIDE_CP] +
                 replica / plan->tp / plan->cp * step->strides[PSI_STRIDE_DP];

      for (guint s = 0; s < plan->pp; s++)
        {
          guint from = s * step->strides[PSI_STRIDE_PP], to = (s + 1) % plan->pp * step->strides[PSI_STRIDE_PP];

          if ((from / node == to / node) != ((at + from) / node == (at + to) / node) ||
              psi_topology_wire_share (&step->topology, from, to) !=
                  psi_topology_wire_share (&step->topology, at + from, at + to))
            return FALSE;
        }
    }
  return psi_step_links_alike (step);
}

void
psi_step_place_rank (PsiStep *step, PsiStepRank *rank)
{
  const PsiMachine *machine = step->machine;
  double rates[4] = { machine->intra.bytes_per_s * machine->intra.efficiency, 0, 0, 0 };

  place_groups (step);
  guint pp = rank->stage >= 0 && !step->plan->by_stage ? (guint) rank->stage : 0;
  rank->first_gpu = rank->tp_index * step->strides[PSI_STRIDE_TP] + rank->cp_index * step->strides[PSI_STRIDE_CP] +
                    rank->dp_index * step->strides[PSI_STRIDE_DP] + pp * step->strides[PSI_STRIDE_PP];
  /* One GPU for each stage serves all workers: dp counts no GPUs. */
  if (step->plan->placement == PSI_PLACEMENT_STAGE)
    rank->first_gpu = (guint) rank->stage * step->plan->tp * step->plan->cp;
  rates[PSI_TIER_INTRA_IN] = rates[PSI_TIER_INTRA_OUT];
  double nics = machine->inter.nics_per_node > 0 ? (double) machine->inter.nics_per_node / machine->gpus_per_node : 1;
  rates[PSI_TIER_INTER_OUT] = rates[PSI_TIER_INTER_IN] =
      machine->inter.bytes_per_s * machine->inter.efficiency * MIN (nics, 1) /
      (machine->inter.leaf_nodes > 0 ? 1 : MAX (machine->inter.oversubscription, 1));
  for (guint t = 0; t < 4; t++)
    rank->links[t] = psi_links_add (step->world->links, machine->ideal ? HUGE_VAL : rates[t]);
}
