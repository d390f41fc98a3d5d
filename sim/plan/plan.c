/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include "plan-check.h"
#include "plan-file.h"
#include "plan-precision.h"
#include "plan-private.h"

#include <string.h>

G_DEFINE_QUARK (psi_plan_error, psi_plan_error)

static const char *const recompute_names[] = { "none", "selective", "full", NULL };
static const char *const vocabulary_names[] = { "no", "vocab-1", "vocab-2", "interlaced", NULL };
static const char *const expert_names[] = { "streams", "loop", "grouped", NULL };
static const char *const graphs_names[] = { "no", "yes", "step", NULL };
static const char *const offload_names[] = { "none", "optimizer", "activations", "parameters", NULL };

#define DEFAULT_STAGES 4
#define PYTORCH_BUCKET_BYTES (25 * 1024 * 1024) /* torch DistributedDataParallel, bucket_cap_mb */
#define MEGATRON_DROPOUT 0.1
#define MEGATRON_BUCKET_ELEMENTS 40000000 /* Megatron-LM, max(40e6, 1e6 dp) elements of a bucket */

/* The degrees, in the order the manual lists. */
static gboolean
resolve_degrees (PsiPlan *plan, const PsiSettings *s, const PsiModelSource *source, GError **error)
{
  if (plan->file != NULL)
    return psi_plan_file_degrees (plan, s, error);

  const PsiNamedPlan *named = plan->named;
  guint gpus = psi_plan_written (s, PSI_KEY_GPUS), stages = psi_plan_written (s, PSI_KEY_STAGES);
  guint dp = psi_plan_written (s, PSI_KEY_DP), tp = psi_plan_written (s, PSI_KEY_TP),
        pp = psi_plan_written (s, PSI_KEY_PP);
  gboolean pp_is_k = named != NULL ? named->pp_is_k : pp > 1;
  gboolean dp_is_n = named != NULL && named->dp_is_n;
  gboolean separate = plan->placement == PSI_PLACEMENT_SEPARATE;
  gboolean stream = psi_plan_is_stream (plan);
  guint vpp = psi_plan_written (s, PSI_KEY_VPP);

  if (stream && dp > 1)
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_DP),
                            "'%u' does not go with schedule '%s'", dp, plan->schedule->name);
  plan->cp = MAX (psi_plan_written (s, PSI_KEY_CP), 1);
  plan->ep = MAX (psi_plan_written (s, PSI_KEY_EP), 1);
  if (vpp == 0)
    vpp = plan->schedule->chunks > 0 ? plan->schedule->chunks : 1;
  plan->vpp = vpp;
  guint copies = MAX (plan->schedule->copies, 1);

  if (plan->cyclic)
    {
      /* cdp+mp, cdp+pp: the model is cut over GPUs; pp is not a degree of its own. */
      plan->by_stage = pp_is_k || stream || plan->placement == PSI_PLACEMENT_STAGE;
      if (pp > 1 && stages > 1 && pp != stages)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_PP),
                                "'%u' does not equal stages '%u'", pp, stages);
      if (pp > 1 && !plan->by_stage)
        return psi_plan_refuse (
            error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_PP),
            "'%u' does not go with plan '%s' (its workers hold all stages; cdp+pp and cdp+mp cut the model)", pp,
            named != NULL ? named->name : "cyclic");
      stages = MAX (stages, pp);
      if (vpp > 1)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_VPP),
                                "'%u' does not go with cyclic schedules", vpp);
      pp = 1;
    }
  else if (pp == 0 && pp_is_k && stages == 0 && gpus > 0)
    {
      guint others = MAX (dp, 1) * MAX (tp, 1) * plan->cp;

      if (gpus % others != 0)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_GPUS),
                                "'%u' is not a multiple of dp x tp x cp = %u", gpus, others);
      pp = gpus / others;
    }
  else if (pp == 0 && pp_is_k)
    {
      if (stages == 0)
        {
          guint n = MAX (dp, dp_is_n ? psi_plan_written (s, PSI_KEY_WORKERS) : 0);

          stages = source->is_uniform && n > 0 ? n : DEFAULT_STAGES;
          psi_plan_assume (plan, "stages = %u: neither gpus, pp nor stages is written", stages);
        }
      if (stages * copies % vpp != 0)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_STAGES),
                                "'%u' is not a multiple of vpp = %u", stages, vpp);
      pp = stages * copies / vpp;
    }
  pp = MAX (pp, 1);

  if (tp == 0 && named != NULL && named->tp_is_k)
    {
      if (gpus > 0 && (dp > 0 || !dp_is_n))
        {
          guint others = MAX (dp, 1) * plan->cp * pp;

          if (gpus % others != 0)
            return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_GPUS),
                                    "'%u' is not a multiple of dp x cp x pp = %u", gpus, others);
          tp = gpus / others;
        }
      else
        tp = stages > 0 ? stages : DEFAULT_STAGES;
    }
  tp = MAX (tp, 1);

  /* N as far as it is known before K. */
  guint n = dp > 0 ? dp : dp_is_n ? psi_plan_written (s, PSI_KEY_WORKERS) : named != NULL ? 1 : 0;
  if (stream)
    n = psi_settings_has (s, PSI_KEY_MICRO_BATCHES) || !psi_settings_has (s, PSI_KEY_GLOBAL_BATCH)
            ? psi_plan_written (s, PSI_KEY_MICRO_BATCHES)
            : psi_plan_written (s, PSI_KEY_GLOBAL_BATCH) / (guint) psi_settings_count (s, PSI_KEY_MICRO_BATCH);
  if (n == 0 && plan->schedule == &psi_schedule_pipedream)
    n = 1;
  if (n == 0 && gpus > 0 && separate)
    {
      guint others = tp * plan->cp * pp;

      if (gpus % others != 0)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_GPUS),
                                "'%u' is not a multiple of tp x cp x pp = %u", gpus, others);
      n = gpus / others;
    }
  else if (n == 0 && named == NULL && !stream)
    n = psi_plan_replicas_for_experts (plan, s, tp);

  if (pp > 1)
    {
      if (vpp % copies != 0)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_VPP),
                                "'%u' does not go with schedule '%s', which keeps every part on %u ranks", vpp,
                                plan->schedule->name, copies);
      if (stages > 0 && stages != pp * vpp / copies)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_STAGES),
                                "'%u' does not equal pp x vpp%s = %u", stages, copies > 1 ? " / 2" : "",
                                pp * vpp / copies);
      stages = pp * vpp / copies;
    }
  else if (stages == 0 && plan->by_stage && plan->placement == PSI_PLACEMENT_STAGE && gpus > 0)
    stages = MAX (gpus / (tp * plan->cp), 1);
  else if (stages == 0)
    {
      guint blocks = psi_model_source_blocks (source);

      if (source->is_uniform)
        stages = n > 0 && (dp_is_n || dp > 0 || (named == NULL && gpus > 0)) ? n : DEFAULT_STAGES;
      else if (plan->cyclic)
        stages = MIN (n > 0 ? n : DEFAULT_STAGES, MAX (blocks, 1));
    }
  if (n == 0)
    {
      n = stages > 0 ? stages : DEFAULT_STAGES;
      psi_plan_assume (plan, "%u workers: neither gpus, dp nor workers is written", n);
    }
  plan->stages = !source->is_uniform && pp == 1 && !plan->cyclic ? 1 : MAX (stages, 1);
  plan->dp = n;
  plan->tp = tp;
  plan->pp = plan->by_stage ? 1 : pp;
  plan->gpus = plan->by_stage ? 0 : separate ? n * tp * plan->cp * pp : tp * plan->cp;
  if (plan->by_stage && plan->placement == PSI_PLACEMENT_STAGE)
    plan->gpus = plan->stages * tp * plan->cp;
  if (plan->by_stage && plan->placement == PSI_PLACEMENT_SEPARATE)
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_PLACEMENT),
                            "'separate' does not go with a cyclic plan over stages (shared, stage)");
  if (gpus > 0 && plan->gpus > 0 && gpus != plan->gpus)
    {
      if (!separate)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_GPUS),
                                "'%u', but this plan runs on %u", gpus, plan->gpus);
      return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_GPUS),
                              "'%u' does not equal dp x tp x cp x pp = %u x %u x %u x %u = %u", gpus, n, tp, plan->cp,
                              pp, plan->gpus);
    }
  if ((guint64) n * tp * plan->cp * pp > 4000000)
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, "[plan] dp",
                            "%u x tp %u x cp %u x pp %u is more than 4,000,000 GPUs", n, tp, plan->cp, pp);
  if (!psi_plan_resolve_experts (plan, s, error))
    return FALSE;
  if (plan->schedule == &psi_schedule_none && pp > 1)
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_SCHEDULE),
                            "'none' does not go with pp = %u", pp);
  if (vpp > 1 && pp == 1)
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_VPP), "'%u' needs pp > 1",
                            vpp);
  return TRUE;
}

static gboolean
resolve_batch (PsiPlan *plan, const PsiSettings *s, GError **error)
{
  gint64 global = psi_settings_has (s, PSI_KEY_GLOBAL_BATCH) ? psi_settings_count (s, PSI_KEY_GLOBAL_BATCH) : 0;
  gint64 several = psi_settings_has (s, PSI_KEY_MICRO_BATCHES) ? psi_settings_count (s, PSI_KEY_MICRO_BATCHES) : 0;
  gboolean sized = psi_settings_has (s, PSI_KEY_MICRO_BATCH);
  gint64 size = psi_settings_count (s, PSI_KEY_MICRO_BATCH);
  gint64 dp = plan->dp;
  guint n_workers = 0;

  if (psi_settings_has (s, PSI_KEY_WORKER_BATCHES))
    {
      const char *where = psi_settings_where (s, PSI_KEY_WORKER_BATCHES);
      gint64 sum = 0;

      plan->worker_batches = psi_settings_counts (s, PSI_KEY_WORKER_BATCHES, &n_workers);
      if (plan->cyclic || plan->by_stage || plan->pp > 1 || plan->keeps_all)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_BATCH, where,
                                "uneven batches need data parallelism without a pipeline");
      if (n_workers != plan->dp)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_BATCH, where, "'%u' numbers for dp = %u workers", n_workers,
                                plan->dp);
      for (guint i = 0; i < n_workers; i++)
        sum += plan->worker_batches[i];
      if (several > 1)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_BATCH, psi_settings_where (s, PSI_KEY_MICRO_BATCHES),
                                "'%" G_GINT64_FORMAT "' does not go with worker_batches", several);
      if (global > 0 && global != sum)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_BATCH, psi_settings_where (s, PSI_KEY_GLOBAL_BATCH),
                                "'%" G_GINT64_FORMAT "' is not the sum of worker_batches, %" G_GINT64_FORMAT, global,
                                sum);
      plan->global_batch = sum;
      plan->micro_batch = plan->worker_batches[0];
      plan->micro_batches = 1;
      psi_plan_assume (plan,
                       "gradients are weighted by the samples of each worker, n_k / n; a plain mean would be wrong");
      return TRUE;
    }
  if (plan->file != NULL)
    several = plan->micro_batches;
  else if (psi_plan_is_stream (plan))
    several = 1;
  else if (several == 0 && global == 0)
    several = plan->keeps_all || plan->cyclic                                        ? 1
              : plan->schedule->copies > 1                                           ? 2 * plan->pp
              : plan->named != NULL && plan->named->dp_is_n && !plan->named->pp_is_k ? 1
              : plan->named != NULL &&
                      (plan->pp > 1 || plan->named == psi_named_plan_find ("accumulate") || plan->named->pp_is_k)
                  ? (plan->named->dp_is_n
                         ? 1
                         : MAX (plan->stages, plan->named->pp_is_k ? 1 : psi_plan_written (s, PSI_KEY_STAGES)))
                  : 1;
  if (several == 0)
    {
      if (global % (size * dp) != 0)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_BATCH, psi_settings_where (s, PSI_KEY_GLOBAL_BATCH),
                                "'%" G_GINT64_FORMAT "' is not a multiple of micro_batch x dp = %" G_GINT64_FORMAT
                                " x %" G_GINT64_FORMAT,
                                global, size, dp);
      several = global / (size * dp);
    }
  else if (global > 0 && !sized)
    {
      if (global % (several * dp) != 0)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_BATCH, psi_settings_where (s, PSI_KEY_GLOBAL_BATCH),
                                "'%" G_GINT64_FORMAT "' is not a multiple of micro_batches x dp = %" G_GINT64_FORMAT
                                " x %" G_GINT64_FORMAT,
                                global, several, dp);
      size = global / (several * dp);
    }
  else if (global > 0 && global != size * several * dp)
    return psi_plan_refuse (error, PSI_PLAN_ERROR_BATCH, psi_settings_where (s, PSI_KEY_GLOBAL_BATCH),
                            "'%" G_GINT64_FORMAT
                            "' does not equal micro_batch x micro_batches x dp = %" G_GINT64_FORMAT,
                            global, size * several * dp);
  if (several > 1000000 || several * plan->stages > 20000000)
    return psi_plan_refuse (error, PSI_PLAN_ERROR_BATCH, psi_settings_where (s, PSI_KEY_MICRO_BATCHES),
                            "'%" G_GINT64_FORMAT "' micro-batches are more than a million", several);
  plan->micro_batch = size;
  plan->micro_batches = several;
  plan->global_batch = size * several * dp;
  return TRUE;
}

/* Megatron trains its gpt, bert and t5 with hidden_dropout = attention_dropout = 0.1 unless told otherwise. */
static void
resolve_dropout (PsiPlan *plan, const PsiSettings *s, const PsiModelSource *source)
{
  static const char *const families[] = { "gpt", "bert", "t5", NULL };

  plan->dropout = psi_settings_real (s, PSI_KEY_DROPOUT);
  if (psi_settings_has (s, PSI_KEY_DROPOUT) || !plan->megatron || source->dimensions == NULL ||
      !g_strv_contains (families, source->dimensions->family))
    return;
  plan->dropout = MEGATRON_DROPOUT;
  psi_plan_assume (plan, "dropout = %g, the framework's default", plan->dropout);
}

/* "flash-2", or "flash": the framework's. */
static guint
flash_generation (const PsiPlan *plan, const char *attention)
{
  return strncmp (attention, "flash-", 6) == 0 ? (guint) (attention[6] - '0') : plan->framework->flash;
}

/* Workers that do not wait have nothing that takes all of them. */
static gboolean
check_asynchronous (const PsiPlan *plan, const PsiSettings *s, GError **error)
{
  const struct
  {
    PsiKeyId key;
    gboolean wanted;
  } together[] = { { PSI_KEY_CP, plan->cp > 1 },
                   { PSI_KEY_EP, plan->ep > 1 },
                   { PSI_KEY_GRAD_CLIP, plan->grad_clip },
                   { PSI_KEY_WORKER_BATCHES, plan->worker_batches != NULL } };

  for (guint i = 0; i < G_N_ELEMENTS (together) && plan->asynchronous; i++)
    if (together[i].wanted)
      return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, together[i].key),
                              "'%s' does not go with workers that do not wait for each other (update asynchronous)",
                              psi_settings_text (s, together[i].key));
  return TRUE;
}

PsiPlan *
psi_plan_resolve (const PsiSettings *s, const PsiModelSource *source, guint machine_gpus_per_node, GError **error)
{
  g_autoptr (PsiPlan) plan = g_new0 (PsiPlan, 1);

  plan->assumptions = g_ptr_array_new_with_free_func (g_free);
  plan->ignored = g_ptr_array_new_with_free_func (g_free);
  plan->framework = psi_framework_find (psi_settings_text (s, PSI_KEY_FRAMEWORK));
  plan->memory = psi_framework_memory (plan->framework);
  plan->megatron = plan->framework->megatron;
  plan->deterministic = psi_settings_bool (s, PSI_KEY_DETERMINISTIC);
  plan->fused_loss = psi_settings_bool (s, PSI_KEY_FUSED_LOSS);
  plan->sequence_parallel = psi_settings_bool (s, PSI_KEY_SEQUENCE_PARALLEL);
  if (!psi_plan_choose_kinds (plan, s, error) || !resolve_degrees (plan, s, source, error) ||
      !resolve_batch (plan, s, error))
    return NULL;

  plan->in_flight = psi_settings_has (s, PSI_KEY_IN_FLIGHT) ? psi_settings_count (s, PSI_KEY_IN_FLIGHT) : 0;
  if (plan->in_flight > 0 && plan->schedule != &psi_schedule_auto)
    {
      psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_IN_FLIGHT),
                       "'%" G_GINT64_FORMAT "' goes with schedule 'auto' only", plan->in_flight);
      return NULL;
    }
  plan->vocabulary =
      (PsiVocabulary) psi_plan_index_of (vocabulary_names, psi_settings_text (s, PSI_KEY_VOCAB_PARALLEL));
  if (plan->vocabulary != PSI_VOCABULARY_ENDS &&
      (plan->schedule != &psi_schedule_1f1b || plan->pp == 1 || plan->vpp > 1 || source->family == NULL ||
       source->family->build == NULL || source->dimensions->vocab == 0 || psi_settings_has (s, PSI_KEY_PARTITION)))
    {
      psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_VOCAB_PARALLEL),
                       "'%s' goes with schedule '1f1b', pp > 1, vpp 1, a model with a vocabulary, and cuts it evenly",
                       vocabulary_names[plan->vocabulary]);
      return NULL;
    }
  plan->recompute = (PsiRecompute) psi_plan_index_of (recompute_names, psi_settings_text (s, PSI_KEY_RECOMPUTE));
  plan->offload = (PsiOffload) psi_plan_index_of (offload_names, psi_settings_text (s, PSI_KEY_OFFLOAD));
  plan->offload_layers =
      psi_settings_has (s, PSI_KEY_OFFLOAD_LAYERS) ? (guint) psi_settings_count (s, PSI_KEY_OFFLOAD_LAYERS) : G_MAXUINT;
  if (psi_settings_has (s, PSI_KEY_OFFLOAD_LAYERS) && plan->offload != PSI_OFFLOAD_ACTIVATIONS)
    {
      psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_OFFLOAD_LAYERS),
                       "'%u' goes with offload 'activations' only", plan->offload_layers);
      return NULL;
    }
  plan->recompute_every = (guint) psi_settings_count (s, PSI_KEY_RECOMPUTE_EVERY);
  plan->flash = strcmp (psi_settings_text (s, PSI_KEY_ATTENTION), "math") != 0;
  plan->flash_generation = flash_generation (plan, psi_settings_text (s, PSI_KEY_ATTENTION));
  plan->compile = psi_settings_bool (s, PSI_KEY_COMPILE);
  plan->collective_checks = psi_settings_has (s, PSI_KEY_COLLECTIVE_CHECKS)
                                ? psi_settings_bool (s, PSI_KEY_COLLECTIVE_CHECKS)
                                : plan->framework->checks_over_nodes && plan->pp > 1 && plan->tp > 1 &&
                                      plan->dp * plan->tp * plan->cp * plan->pp > machine_gpus_per_node;
  if (plan->collective_checks && !psi_settings_has (s, PSI_KEY_COLLECTIVE_CHECKS))
    psi_plan_assume (plan,
                     "collective_checks = yes, as the framework launches tensor-parallel pipelines over several nodes");
  plan->expert_gemm = psi_settings_has (s, PSI_KEY_EXPERT_GEMM)
                          ? (PsiExpertGemm) psi_plan_index_of (expert_names, psi_settings_text (s, PSI_KEY_EXPERT_GEMM))
                      : plan->compile && !plan->megatron ? PSI_EXPERTS_GROUPED
                                                         : plan->framework->expert_gemm;
  plan->expert_imbalance = psi_settings_real (s, PSI_KEY_EXPERT_IMBALANCE);
  plan->channels_last = psi_settings_bool (s, PSI_KEY_CHANNELS_LAST);
  plan->graphs = (PsiGraphs) psi_plan_index_of (graphs_names, psi_settings_text (s, PSI_KEY_CUDA_GRAPHS));
  plan->overlap_grads = psi_settings_has (s, PSI_KEY_OVERLAP_GRADS) ? psi_settings_bool (s, PSI_KEY_OVERLAP_GRADS)
                                                                    : plan->framework->overlap_grads;
  plan->grad_clip = psi_settings_has (s, PSI_KEY_GRAD_CLIP)
                        ? psi_settings_bool (s, PSI_KEY_GRAD_CLIP)
                        : !source->is_uniform && !plan->cyclic && !plan->asynchronous;
  plan->prefetch = (guint) psi_settings_count (s, PSI_KEY_PREFETCH);
  resolve_dropout (plan, s, source);
  plan->loss_chunks = psi_settings_has (s, PSI_KEY_LOSS_CHUNKS) ? (guint) psi_settings_count (s, PSI_KEY_LOSS_CHUNKS)
                                                                : plan->memory->loss_chunks;
  plan->sequence = psi_settings_has (s, PSI_KEY_SEQUENCE) ? psi_settings_count (s, PSI_KEY_SEQUENCE)
                   : source->dimensions != NULL           ? source->dimensions->sequence
                                                          : 1;
  plan->shard_group = psi_settings_has (s, PSI_KEY_SHARD_GROUP) ? (guint) psi_settings_count (s, PSI_KEY_SHARD_GROUP)
                                                                : plan->dp * plan->cp;
  if (plan->zero > 0 && (plan->dp * plan->cp) % plan->shard_group != 0)
    {
      psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_SHARD_GROUP),
                       "'%u' does not divide dp x cp = %u", plan->shard_group, plan->dp * plan->cp);
      return NULL;
    }
  if (!psi_plan_check_zero (plan, s, error) || !psi_plan_check_graphs (plan, s, error))
    return NULL;
  if (plan->zero > 0 && plan->schedule->copies > 1)
    {
      psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_ZERO),
                       "'%u' does not go with schedule '%s', which keeps every part twice", plan->zero,
                       plan->schedule->name);
      return NULL;
    }
  if (plan->parameter_server && (plan->cyclic || plan->pp > 1))
    {
      psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_GRADIENTS),
                       "'parameter-server' needs data parallelism without a pipeline");
      return NULL;
    }
  if (plan->grad_clip && plan->cyclic)
    {
      psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_GRAD_CLIP),
                       "'yes' needs all gradients at once; cyclic plans update stage by stage");
      return NULL;
    }
  if (!check_asynchronous (plan, s, error) || !psi_plan_check_counts (plan, s, source, error))
    return NULL;
  psi_plan_note_ignored (plan, s, source);
  plan->fsdp = plan->zero == 3 && plan->memory->fsdp > 0 && !plan->cyclic && !source->is_uniform;
  psi_plan_resolve_precision (plan, s, source);
  plan->bucket_bytes = psi_settings_has (s, PSI_KEY_BUCKET) ? psi_settings_count (s, PSI_KEY_BUCKET)
                       : plan->megatron
                           ? MAX (MEGATRON_BUCKET_ELEMENTS, 1000000 * (gint64) plan->dp) * plan->gradient_bytes_each
                           : PYTORCH_BUCKET_BYTES;
  if (plan->dp > 1 && !source->is_uniform && plan->zero < 3)
    psi_plan_assume (plan, "gradients are summed in buckets of %.4g MiB%s", (double) plan->bucket_bytes / 1048576.0,
                     plan->overlap_grads ? " while the backward runs" : " after the backward");
  return g_steal_pointer (&plan);
}

void
psi_plan_free (PsiPlan *plan)
{
  if (plan == NULL)
    return;
  g_ptr_array_unref (plan->assumptions);
  g_ptr_array_unref (plan->ignored);
  psi_schedule_free (plan->file);
  g_free (plan);
}

PsiLowering
psi_plan_lowering (const PsiPlan *plan, gint64 micro_batch)
{
  return (PsiLowering){ .micro_batch = micro_batch,
                        .sequence = plan->sequence,
                        .tp = plan->tp,
                        .cp = plan->cp,
                        .ep = plan->ep,
                        .expert_tp = plan->expert_tp,
                        .sequence_parallel = plan->sequence_parallel && plan->tp > 1,
                        .dtype = plan->dtype,
                        .flash = plan->flash,
                        .flash_generation = plan->flash_generation,
                        .compile = plan->compile,
                        .megatron = plan->megatron,
                        .sum_bytes = plan->gradient_bytes_each,
                        .framework = plan->framework,
                        .memory = plan->memory,
                        .fused_loss = plan->fused_loss,
                        .dropout = plan->dropout > 0,
                        .channels_first = !plan->channels_last,
                        .expert_gemm = plan->expert_gemm,
                        .expert_imbalance = plan->expert_imbalance,
                        .vocabulary_shards = plan->vocabulary != PSI_VOCABULARY_ENDS ? plan->pp : 0,
                        .vocabulary_live = plan->vocabulary == PSI_VOCABULARY_INTERLACED ? 1 : 2,
                        .loss_chunks = plan->loss_chunks };
}
