/* SPDX-License-Identifier: MIT */
#include "step.h"

#include "psi-fold.h"

#include <string.h>

#define MOST_RANKS 1048576
#define MOST_OPS 6000000       /* of all programs: 300 bytes each */
#define MOST_RANK_OPS 64000000 /* of all ranks: 80 bytes each */
#define MOST_NOTES 250000000   /* of all lists, for each layer, part and token: 4 bytes each */
#define MOST_UNLIKE_GPUS 4096  /* beyond, replicas count as equal even if only some cross nodes; the report says so */

/* One class of ranks for all replicas when they are equal; one for each worker when their batches differ; root and
 * others of a parameter server; every GPU by itself when the user asks, or singles one out. */
static guint
count_classes (PsiStep *step)
{
  const PsiPlan *plan = step->plan;

  if (plan->cyclic || plan->keeps_all || psi_step_lists_are_workers (step))
    return 1;
  if (plan->asynchronous)
    return MAX (plan->dp, 1);
  gboolean one_by_one =
      !psi_settings_bool (step->settings, PSI_KEY_COLLAPSE) || psi_settings_has (step->settings, PSI_KEY_SLOW_RANK) ||
      psi_settings_has (step->settings, PSI_KEY_SLOW_LINK) || psi_settings_real (step->settings, PSI_KEY_JITTER) > 0;
  if (!one_by_one && !psi_step_replicas_alike (step))
    {
      one_by_one = step->gpus <= MOST_UNLIKE_GPUS;
      step->warning = one_by_one ? NULL
                                 : "replicas lie differently on their nodes and are counted as equal to the first "
                                   "(collapse = no follows every GPU)";
    }
  if (one_by_one)
    return plan->parameter_server ? MAX (plan->dp, 1) : plan->dp * plan->tp * plan->cp;
  if (plan->worker_batches != NULL)
    return plan->dp;
  return plan->parameter_server && plan->dp > 1 ? 2 : 1;
}

static PsiShapeCost *
shape_for (PsiStep *step, const PsiModelSource *source, gint64 micro_batch, GError **error)
{
  for (guint i = 0; i < step->shapes->len; i++)
    {
      PsiShapeCost *shape = g_ptr_array_index (step->shapes, i);

      if (shape->micro_batch == micro_batch)
        return shape;
    }
  PsiShapeCost *shape = psi_shape_cost_new (step->plan, step->machine, source, step->settings, micro_batch, error);
  if (shape != NULL)
    g_ptr_array_add (step->shapes, shape);
  return shape;
}

static PsiOpId *
new_ops (gsize n)
{
  PsiOpId *ops = g_new (PsiOpId, MAX (n, 1));

  memset (ops, 0xff, MAX (n, 1) * sizeof *ops);
  return ops;
}

static gboolean
init_rank (PsiStep *step, guint list, guint class, const PsiModelSource *source, GError **error)
{
  const PsiPlan *plan = step->plan;
  const PsiSchedule *schedule = step->schedule;
  PsiStepRank *rank = &step->ranks[list * step->n_classes + class];
  gboolean workers = psi_step_lists_are_workers (step);
  guint replicas = plan->cyclic || plan->keeps_all || workers ? plan->tp * plan->cp : plan->dp * plan->tp * plan->cp;
  guint data_classes = step->n_classes;
  gboolean full = step->n_classes > plan->dp && !workers;

  rank->list = list;
  rank->scale = 1;
  if (full)
    {
      rank->tp_index = class % plan->tp;
      rank->cp_index = class / plan->tp % plan->cp;
      rank->dp_index = class / plan->tp / plan->cp;
    }
  else
    rank->dp_index = class;
  if (workers || (plan->cyclic && !plan->by_stage && plan->placement == PSI_PLACEMENT_SEPARATE))
    rank->dp_index = list;
  rank->is_root = plan->parameter_server && class == 0;
  rank->count = plan->parameter_server && step->n_classes == 2 && plan->dp > 2
                    ? (class == 0 ? 1 : plan->dp - 1) * plan->tp * plan->cp
                    : replicas / data_classes;
  rank->stage = plan->pp > 1 ? (int) list : plan->by_stage ? (int) psi_schedule_part (schedule, list, 0) : -1;
  rank->shape = plan->worker_batches != NULL ? shape_for (step, source, plan->worker_batches[rank->dp_index], error)
                                             : g_ptr_array_index (step->shapes, 0);
  if (rank->shape == NULL)
    return FALSE;
  PsiTime offset_ps = 0;
  if (plan->cyclic && plan->placement != PSI_PLACEMENT_STAGE && schedule->n_ranks > 1)
    offset_ps = schedule->start_ps[schedule->pool != NULL ? list % schedule->n_workers : list];
  rank->id = psi_world_add_rank (step->world, NULL, rank->count, offset_ps);
  psi_step_place_rank (step, rank);
  return TRUE;
}

/* A program of its own for a rank, and room for what is noted while it is built. */
static gboolean
begin_program (PsiStep *step, PsiStepRank *rank, GError **error)
{
  const PsiPlan *plan = step->plan;
  const PsiSchedule *schedule = step->schedule;
  gsize n_tokens = psi_token_index (step, schedule->n_chunks, 0);
  guint n_layers = psi_step_model (step)->layers->len;
  gboolean boundaries = plan->pp > 1 || plan->by_stage;
  guint n_streams = PSI_STREAM_BOUNDARY + (boundaries     ? 4 * schedule->n_chunks
                                           : plan->cyclic ? 2 * MIN (plan->stages, PSI_CYCLIC_PARTS)
                                                          : 0);
  if (n_streams > PSI_MAX_STREAMS)
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES, "%s: '%u' is more than this version can follow (%u)",
                   psi_settings_where (step->settings, PSI_KEY_VPP), schedule->n_chunks,
                   (PSI_MAX_STREAMS - PSI_STREAM_BOUNDARY) / 4);
      return FALSE;
    }
  rank->program = psi_world_add_program (step->world, n_streams);
  psi_world_rank (step->world, rank->id)->program = rank->program;
  rank->forward_first = new_ops (n_tokens);
  rank->forward_last = new_ops (n_tokens);
  rank->backward_first = new_ops (n_tokens);
  rank->backward_last = new_ops (n_tokens);
  rank->group_start = g_new0 (guint, n_streams);
  rank->marks = g_array_new (FALSE, FALSE, sizeof (PsiOpId));
  rank->sends = g_array_new (FALSE, FALSE, sizeof (PsiOpId));
  rank->receives = g_array_new (FALSE, FALSE, sizeof (PsiGate));
  rank->uses = g_array_new (FALSE, FALSE, sizeof (PsiOpId));
  rank->gathers = g_array_new (FALSE, FALSE, sizeof (PsiGate));
  rank->first_use = new_ops (n_layers);
  rank->ready = new_ops (n_layers);
  rank->update = new_ops (step->partition.n_parts);
  return TRUE;
}

/* What begin_program() makes room for, in all programs. */
static double
notes_of (const PsiStep *step)
{
  double of_one = 2.0 * psi_step_model (step)->layers->len + step->partition.n_parts +
                  4.0 * (double) psi_token_index (step, step->schedule->n_chunks, 0);

  return of_one * step->schedule->n_ranks;
}

/* slow_rank or slow_link = 3:1.5,7:2: the factor of every class, NULL if there are none. */
static gboolean
read_factors (const PsiStep *step, PsiKeyId key, double **ret_factors, GError **error)
{
  if (!psi_settings_has (step->settings, key))
    return TRUE;
  g_autofree double *factors = g_new (double, step->n_ranks);
  g_auto (GStrv) rows = g_strsplit (psi_settings_text (step->settings, key), ",", -1);
  for (guint r = 0; r < step->n_ranks; r++)
    factors[r] = 1;
  for (guint i = 0; rows[i] != NULL; i++)
    {
      char *end = NULL;
      guint64 gpu = g_ascii_strtoull (g_strstrip (rows[i]), &end, 10);
      double factor = end != rows[i] && *end == ':' ? g_ascii_strtod (end + 1, &end) : 0;
      gboolean found = FALSE;

      for (guint r = 0; r < step->n_ranks && factor >= 0.01 && factor <= 1e6 && *end == '\0'; r++)
        if (step->ranks[r].first_gpu == gpu)
          {
            factors[r] = factor;
            found = TRUE;
          }
      if (!found)
        {
          g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                       "%s: '%s' is not RANK:FACTOR with a rank below %u and a factor from 0.01 to 1e6",
                       psi_settings_where (step->settings, key), rows[i], step->gpus);
          return FALSE;
        }
    }
  *ret_factors = g_steal_pointer (&factors);
  return TRUE;
}

/* A slow rank's work takes longer; a slow link carries less. */
static gboolean
apply_factors (PsiStep *step, GError **error)
{
  g_autofree double *ranks = NULL, *links = NULL;

  if (!read_factors (step, PSI_KEY_SLOW_RANK, &ranks, error) || !read_factors (step, PSI_KEY_SLOW_LINK, &links, error))
    return FALSE;
  for (guint r = 0; r < step->n_ranks; r++)
    {
      if (ranks != NULL)
        psi_world_rank (step->world, step->ranks[r].id)->scale = ranks[r];
      for (guint l = 0; l < G_N_ELEMENTS (step->ranks[r].links) && links != NULL; l++)
        psi_links_scale (step->world->links, step->ranks[r].links[l], 1 / links[r]);
    }
  return TRUE;
}

/* Ops of a program, folded or not: what is read off a run looks at them all. */
static guint64
size_of (const PsiProgram *program)
{
  return psi_program_n_ops (program) + program->n_unfolded;
}

/* A plan that would take minutes and gigabytes is refused. */
static gboolean
check_size (guint64 n_ops, guint64 most, GError **error)
{
  if (n_ops <= most)
    return TRUE;
  g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
               "the plan is too large to follow: more than %" G_GUINT64_FORMAT
               " ops in one step (fewer workers, micro-batches or GPUs one by one would do)",
               most);
  return FALSE;
}

static gboolean
build_program (PsiStep *step, PsiStepRank *rank, guint64 n_ops_before, GError **error)
{
  const GArray *list = step->schedule->lists[rank->list];
  gboolean cyclic = step->plan->cyclic;

  if (rank->program == NULL && !begin_program (step, rank, error))
    return FALSE;
  for (guint t = 0; t < list->len; t++)
    {
      const PsiToken *token = &g_array_index (list, PsiToken, t);

      if (cyclic)
        psi_step_cyclic_before (step, rank, token);
      psi_step_token (step, rank, token);
      if (cyclic)
        psi_step_cyclic_after (step, rank, token);
      if (!check_size (n_ops_before + size_of (rank->program), MOST_OPS, error))
        return FALSE;
    }
  psi_step_close_gates (rank);
  if (step->plan->asynchronous && step->plan->dp > 1)
    psi_step_asynchronous_update (step, rank);
  else if (!cyclic)
    psi_step_synchronous_update (step, rank);
  return TRUE;
}

/* Does an earlier rank of the list do the same work? Then run its program. */
static gboolean
follow_another (PsiStep *step, PsiStepRank *rank)
{
  PsiStepRank *leader = &step->ranks[rank->list * step->n_classes], *last = NULL;

  for (; leader != NULL && leader != rank; leader = leader->next_leader)
    {
      if (leader->shape == rank->shape && leader->is_root == rank->is_root && psi_step_follow (step, leader, rank))
        {
          rank->leader = leader;
          rank->program = leader->program;
          psi_world_rank (step->world, rank->id)->program = rank->program;
          return TRUE;
        }
      last = leader;
    }
  if (last != NULL)
    last->next_leader = rank;
  return FALSE;
}

/* Workers that nothing keeps in step begin evenly spread over the work of one. */
static void
spread_workers (PsiStep *step)
{
  for (guint r = 0; r < step->n_ranks; r++)
    {
      const GArray *stream = step->ranks[r].program->streams[PSI_STREAM_COMPUTE];
      PsiTime work_ps = 0;

      for (guint i = 0; i < stream->len; i++)
        work_ps = psi_time_add (work_ps, g_array_index (stream, PsiOp, i).cost_ps);
      psi_world_rank (step->world, step->ranks[r].id)->offset_ps =
          (PsiTime) ((double) work_ps * step->ranks[r].dp_index / step->plan->dp);
    }
}

static gboolean
build_programs (PsiStep *step, const PsiModelSource *source, PsiStepMisfitFunc is_misfit, GError **error)
{
  const PsiPlan *plan = step->plan;
  const PsiSchedule *schedule = step->schedule; /* may be made anew */
  guint64 n_ops = 0, n_rank_ops = 0;

  step->n_classes = count_classes (step);
  if (step->micro_batches > 0 && (step->n_classes > 1 || !psi_step_can_fold (step)))
    {
      /* GPUs one by one, or not the same from micro-batch to micro-batch. */
      step->micro_batches = 0;
      psi_schedule_free (step->schedule);
      step->schedule = psi_step_schedule (step, g_ptr_array_index (step->shapes, 0), error);
      if (step->schedule == NULL)
        return FALSE;
      schedule = step->schedule;
    }
  if ((guint64) schedule->n_ranks * step->n_classes > MOST_RANKS)
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                   "%u ranks one by one are more than this version can follow (%u)",
                   schedule->n_ranks * step->n_classes, MOST_RANKS);
      return FALSE;
    }
  if (notes_of (step) > MOST_NOTES)
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                   "the plan is too large to follow: %u ranks of a pipeline over %u layers", schedule->n_ranks,
                   psi_step_model (step)->layers->len);
      return FALSE;
    }
  step->n_ranks = schedule->n_ranks * step->n_classes;
  step->folds = step->folds && psi_step_can_fold (step);
  step->ranks = g_new0 (PsiStepRank, step->n_ranks);
  for (guint list = 0; list < schedule->n_ranks; list++)
    for (guint class = 0; class < step->n_classes; class ++)
      if (!init_rank (step, list, class, source, error) ||
          (class == 0 && !begin_program (step, &step->ranks[list * step->n_classes], error)))
        return FALSE;
  for (guint r = 0; r < step->n_ranks; r++)
    {
      if (!follow_another (step, &step->ranks[r]))
        {
          if (!build_program (step, &step->ranks[r], n_ops, error))
            return FALSE;
          n_ops += size_of (step->ranks[r].program);
          psi_step_add_state (step, &step->ranks[r]);
          if (is_misfit != NULL && is_misfit (step, &step->ranks[r]))
            {
              step->is_misfit = TRUE;
              return TRUE;
            }
        }
      n_rank_ops += size_of (step->ranks[r].program);
      if (!check_size (n_rank_ops, MOST_RANK_OPS, error))
        return FALSE;
    }
  if (plan->cyclic)
    psi_step_cyclic_messages (step);
  if (plan->asynchronous)
    spread_workers (step);
  for (guint r = 0; r < step->n_ranks; r++)
    if (step->ranks[r].leader != NULL)
      memcpy (step->ranks[r].base, step->ranks[r].leader->base, sizeof step->ranks[r].base);
  return apply_factors (step, error);
}

/* Does each layer read the one before it and nothing else? */
static gboolean
is_chain (const PsiModel *model)
{
  for (guint l = 1; l < model->layers->len; l++)
    {
      const PsiLayer *layer = &g_array_index (model->layers, PsiLayer, l);

      if (layer->n_inputs != 1 || layer->inputs[0] != l - 1)
        return FALSE;
    }
  return TRUE;
}

static PsiStep *
new_step (const PsiPlan *plan, const PsiMachine *machine, const PsiModelSource *source, const PsiSettings *settings,
          gboolean folds, gint64 micro_batches, PsiStepMisfitFunc is_misfit, GError **error)
{
  g_autoptr (PsiStep) step = g_new0 (PsiStep, 1);

  step->folds = folds;
  step->micro_batches = micro_batches;
  step->plan = plan;
  step->machine = machine;
  step->settings = settings;
  step->shapes = g_ptr_array_new_with_free_func ((GDestroyNotify) psi_shape_cost_free);
  step->world = psi_world_new ();
  psi_topology_init (&step->topology, machine);
  step->shared_links = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  step->infos = g_array_new (FALSE, FALSE, sizeof (PsiTransferInfo));
  step->ports = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  step->transfers = g_hash_table_new_full (psi_step_transfer_hash, psi_step_transfer_equal, g_free, NULL);

  PsiShapeCost *shape = shape_for (step, source, plan->micro_batch, error);
  if (shape == NULL)
    return NULL;
  step->is_chain = is_chain (shape->model);
  guint n_layers = shape->model->layers->len;
  g_autofree double *cost = g_new (double, n_layers);
  for (guint l = 0; l < n_layers; l++)
    {
      const PsiKindCost *layer = &shape->costs[g_array_index (shape->model->layers, PsiLayer, l).kind];

      cost[l] = layer->flops[PSI_PASS_FORWARD] + layer->flops[PSI_PASS_BACKWARD_INPUT] +
                layer->flops[PSI_PASS_BACKWARD_WEIGHT];
    }
  gboolean whole = plan->pp == 1 && !plan->cyclic && (plan->file == NULL || plan->file->n_parts == 1);
  if (whole)
    {
      /* One part that holds every layer. */
      step->partition = (PsiPartition){
        .n_parts = 1, .first = g_new0 (guint, 2), .part_of = g_new0 (guint, n_layers), .rule = "whole"
      };
      step->partition.first[1] = n_layers;
    }
  else if (!psi_partition_cut (shape->model, plan->stages, settings, cost, &step->partition, error))
    return NULL;
  step->schedule = psi_step_schedule (step, shape, error);
  if (step->schedule == NULL)
    return NULL;
  step->gpus = plan->gpus;
  if (step->schedule->pool != NULL)
    {
      for (guint j = 0; j < plan->stages; j++)
        step->gpus += step->schedule->pool[j] * plan->tp * plan->cp;
      if (psi_settings_has (settings, PSI_KEY_GPUS) && psi_settings_count (settings, PSI_KEY_GPUS) != step->gpus)
        {
          g_set_error (
              error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES, "%s: '%" G_GINT64_FORMAT "', but this plan runs on %u",
              psi_settings_where (settings, PSI_KEY_GPUS), psi_settings_count (settings, PSI_KEY_GPUS), step->gpus);
          return NULL;
        }
    }
  return build_programs (step, source, is_misfit, error) ? g_steal_pointer (&step) : NULL;
}

PsiStep *
psi_step_new (const PsiPlan *plan, const PsiMachine *machine, const PsiModelSource *source, const PsiSettings *settings,
              GError **error)
{
  return new_step (plan, machine, source, settings, FALSE, 0, NULL, error);
}

PsiStep *
psi_step_new_folded (const PsiPlan *plan, const PsiMachine *machine, const PsiModelSource *source,
                     const PsiSettings *settings, gboolean shortens, PsiStepMisfitFunc is_misfit, GError **error)
{
  gint64 micro_batches = shortens ? psi_step_short_micro_batches (plan) : 0;
  g_autoptr (PsiStep) step = new_step (plan, machine, source, settings, TRUE, micro_batches, is_misfit, error);

  if (step == NULL || step->is_misfit || !step->folds || psi_world_folds_hold (step->world))
    return g_steal_pointer (&step);
  return new_step (plan, machine, source, settings, FALSE, step->micro_batches, is_misfit, error);
}

void
psi_step_free (PsiStep *step)
{
  if (step == NULL)
    return;
  for (guint r = 0; r < step->n_ranks; r++)
    {
      PsiStepRank *rank = &step->ranks[r];

      g_free (rank->forward_first);
      g_free (rank->forward_last);
      g_free (rank->backward_first);
      g_free (rank->backward_last);
      g_clear_pointer (&rank->marks, g_array_unref);
      g_clear_pointer (&rank->receives, g_array_unref);
      g_clear_pointer (&rank->uses, g_array_unref);
      g_clear_pointer (&rank->gathers, g_array_unref);
      g_clear_pointer (&rank->calls, g_array_unref);
      g_clear_pointer (&rank->call_index, g_hash_table_unref);
      g_clear_pointer (&rank->slot_index, g_hash_table_unref);
      g_clear_pointer (&rank->sends, g_array_unref);
      g_free (rank->first_use);
      g_free (rank->ready);
      g_free (rank->update);
      g_free (rank->folds);
      g_free (rank->group_start);
      g_free (rank->updates_left);
    }
  g_free (step->ranks);
  g_ptr_array_unref (step->shapes);
  psi_partition_clear (&step->partition);
  psi_schedule_free (step->schedule);
  psi_world_free (step->world);
  g_array_unref (step->infos);
  g_hash_table_unref (step->ports);
  g_hash_table_unref (step->shared_links);
  g_hash_table_unref (step->transfers);
  g_free (step);
}
