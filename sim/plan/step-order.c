/* SPDX-License-Identifier: MIT */
/* The plan's order as data: what its schedule, or its file, makes of the times and bytes of the parts. */
#include "step.h"

#include "plan-file.h"

/* Times of each part from its layers: too long ones add up to PSI_TIME_MAX, which no run reaches. */
static void
part_times (const PsiPlan *plan, const PsiPartition *partition, const PsiShapeCost *shape, gint64 *forward_ps,
            gint64 *backward_ps, gint64 *weight_ps)
{
  for (guint part = 0; part < partition->n_parts; part++)
    for (guint l = partition->first[part]; l < partition->first[part + 1]; l++)
      {
        const PsiKindCost *cost = &shape->costs[g_array_index (shape->model->layers, PsiLayer, l).kind];
        const PsiLayerKind *kind = psi_layer_kind (shape->model, l);

        forward_ps[part] = psi_time_add (forward_ps[part], cost->pass_ps[PSI_PASS_FORWARD]);
        weight_ps[part] = psi_time_add (weight_ps[part], cost->pass_ps[PSI_PASS_BACKWARD_WEIGHT]);
        backward_ps[part] = psi_time_add (backward_ps[part], psi_time_add (cost->pass_ps[PSI_PASS_BACKWARD_INPUT],
                                                                           cost->pass_ps[PSI_PASS_BACKWARD_WEIGHT]));
        if (plan->recompute == PSI_RECOMPUTE_FULL && !kind->never_recomputed && l % plan->recompute_every == 0)
          backward_ps[part] = psi_time_add (backward_ps[part], cost->pass_ps[PSI_PASS_FORWARD]);
        else if (plan->recompute == PSI_RECOMPUTE_SELECTIVE && l % plan->recompute_every == 0)
          backward_ps[part] = psi_time_add (backward_ps[part], cost->selective_ps);
      }
}

/* Bytes of each part's activations, and those its weight half still needs. */
static void
part_bytes (const PsiPartition *partition, const PsiModel *model, gint64 *kept_bytes, gint64 *late_bytes)
{
  for (guint part = 0; part < partition->n_parts; part++)
    for (guint l = partition->first[part]; l < partition->first[part + 1]; l++)
      {
        const PsiLayerKind *kind = psi_layer_kind (model, l);

        /* What no memory holds, 64 bits hold. */
        kept_bytes[part] += MIN (kind->saved_bytes, G_MAXINT64 - kept_bytes[part]);
        late_bytes[part] += MIN (MIN (kind->weight_saved_bytes, kind->saved_bytes), G_MAXINT64 - late_bytes[part]);
      }
}

/* Time of the largest boundary tensor on idle links, across nodes if the pipeline spans several. */
static PsiTime
boundary_time_ps (const PsiStep *step, const PsiModel *model)
{
  const PsiPlan *plan = step->plan;
  guint nodes = plan->pp * plan->tp * plan->cp > step->machine->gpus_per_node ? 2 : 1;
  PsiGroupShape shape = {
    .n_ranks = 2, .n_nodes = nodes, .ranks_per_node = 3 - nodes, .nic_sharers = step->machine->gpus_per_node
  };
  gint64 bytes = 0;
  PsiCollectiveCost cost;

  for (guint part = 0; part + 1 < step->partition.n_parts; part++)
    bytes = MAX (bytes, psi_layer_kind (model, step->partition.first[part + 1] - 1)->output_bytes);
  if (plan->pp == 1 || step->machine->ideal || bytes == 0)
    return 0;
  psi_collective_cost (step->machine, PSI_COLLECTIVE_SEND_RECV, bytes, &shape, &cost);
  return psi_collective_time_ps (&cost);
}

/* Begin the error of a schedule that cannot be with the place where somebody asked for it. */
static void
blame_schedule (const PsiSettings *settings, GError **error)
{
  static const PsiKeyId asked[] = { PSI_KEY_SCHEDULE, PSI_KEY_PLAN, PSI_KEY_VPP };

  for (guint i = 0; i < G_N_ELEMENTS (asked); i++)
    if (psi_settings_has (settings, asked[i]))
      {
        g_prefix_error (error, "%s: ", psi_settings_where (settings, asked[i]));
        return;
      }
}

PsiSchedule *
psi_step_schedule (const PsiStep *step, const PsiShapeCost *shape, GError **error)
{
  const PsiPlan *plan = step->plan;
  const PsiPartition *partition = &step->partition;
  g_autofree gint64 *forward_ps = g_new0 (gint64, partition->n_parts),
                    *backward_ps = g_new0 (gint64, partition->n_parts),
                    *weight_ps = g_new0 (gint64, partition->n_parts), *kept_bytes = g_new0 (gint64, partition->n_parts),
                    *late_bytes = g_new0 (gint64, partition->n_parts);
  PsiScheduleShape order = { .ranks = plan->pp,
                             .chunks = plan->vpp,
                             .micro_batches = step->micro_batches > 0 ? step->micro_batches : plan->micro_batches,
                             .keeps_all = plan->keeps_all,
                             .workers = plan->dp,
                             .stages = plan->stages,
                             .placement = plan->placement,
                             .by_stage = plan->by_stage,
                             .delayed = plan->update == PSI_UPDATE_CYCLIC_V1,
                             .random = plan->random_delay,
                             .seed = (guint64) psi_settings_count (step->settings, PSI_KEY_SEED),
                             .forward_ps = forward_ps,
                             .backward_ps = backward_ps,
                             .weight_ps = weight_ps,
                             .transfer_ps = boundary_time_ps (step, shape->model),
                             .vocabulary = plan->vocabulary,
                             .in_flight = plan->in_flight,
                             .kept_bytes = kept_bytes,
                             .late_bytes = late_bytes };

  part_times (plan, partition, shape, forward_ps, backward_ps, weight_ps);
  part_bytes (partition, shape->model, kept_bytes, late_bytes);
  if (plan->keeps_all) /* `single`: the workers' micro-batches, on one GPU */
    order.micro_batches *= plan->dp;
  if (plan->pp == 1 && !plan->cyclic)
    {
      /* Without a pipeline a rank holds the whole model: its stages are the layers of its one part. */
      order.ranks = order.chunks = 1;
    }
  if (plan->file != NULL)
    return plan->cyclic ? psi_plan_cyclic_from_file (plan, &order, error) : psi_schedule_copy (plan->file);
  PsiSchedule *schedule = plan->schedule->build (&order, error);
  if (schedule == NULL)
    blame_schedule (step->settings, error);
  return schedule;
}
