/* SPDX-License-Identifier: MIT */
#include "plan-check.h"

#include "plan-precision.h"
#include "plan-private.h"

#include <math.h>

/* What of a cyclic plan does not go with zero = 3 (cdp-zero): key and what is allowed. FALSE: nothing. */
static gboolean
find_culprit (const PsiPlan *plan, PsiKeyId *ret_key, const char **ret_allowed)
{
  if (plan->by_stage || plan->placement != PSI_PLACEMENT_SEPARATE)
    {
      *ret_key = PSI_KEY_PLACEMENT;
      *ret_allowed = "separate";
      return TRUE;
    }
  if (plan->update != PSI_UPDATE_CYCLIC_V2)
    {
      *ret_key = PSI_KEY_UPDATE;
      *ret_allowed = "cyclic-v2";
      return TRUE;
    }
  return FALSE;
}

gboolean
psi_plan_check_zero (const PsiPlan *plan, const PsiSettings *s, GError **error)
{
  const char *where = psi_settings_where (s, PSI_KEY_ZERO), *allowed;
  PsiKeyId key;

  if (plan->zero == 0)
    return TRUE;
  if (plan->parameter_server)
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "%s: '%u' does not go with gradients parameter-server (allowed: 0)", where, plan->zero);
  else if (!plan->cyclic)
    return TRUE;
  else if (plan->zero != 3)
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "%s: '%u' does not go with cyclic plans (allowed: 0, and 3 as cdp-zero has it)", where, plan->zero);
  else if (!find_culprit (plan, &key, &allowed))
    return TRUE;
  else if (psi_settings_has (s, key))
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "%s: '%s' does not go with zero 3 of a cyclic plan (allowed: %s)", psi_settings_where (s, key),
                 psi_settings_text (s, key), allowed);
  else
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "%s: '3' needs %s %s in a cyclic plan, which plan '%s' has not (cdp-zero has)", where,
                 psi_keys[key].name, allowed, plan->named != NULL ? plan->named->name : "cyclic");
  return FALSE;
}

gboolean
psi_plan_check_graphs (const PsiPlan *plan, const PsiSettings *s, GError **error)
{
  const char *where = psi_settings_where (s, PSI_KEY_CUDA_GRAPHS), *graphs = psi_settings_text (s, PSI_KEY_CUDA_GRAPHS);

  if (plan->graphs == PSI_GRAPHS_NONE)
    return TRUE;
  if (plan->offload == PSI_OFFLOAD_ACTIVATIONS || plan->offload == PSI_OFFLOAD_PARAMETERS)
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "%s: '%s' does not go with offload '%s': tensors have to stay where they were recorded (allowed: no)",
                 where, graphs, psi_settings_text (s, PSI_KEY_OFFLOAD));
  else if (plan->graphs == PSI_GRAPHS_LAYERS && plan->zero == 3)
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "%s: '%s' does not go with zero 3, which gathers parameters to places that change (allowed: no step)",
                 where, graphs);
  else if (plan->worker_batches != NULL || plan->asynchronous)
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES, "%s: '%s' does not go with %s (allowed: no)", where,
                 graphs, plan->asynchronous ? "workers that do not wait" : "worker_batches");
  else
    return TRUE;
  return FALSE;
}

/* ---- Numbers that are more than what they count ---- */

static double
tokens_of (const PsiPlan *plan)
{
  return (double) plan->micro_batch * (double) MAX (plan->sequence, 1);
}

gboolean
psi_plan_check_counts (const PsiPlan *plan, const PsiSettings *s, const PsiModelSource *source, GError **error)
{
  double layers = source->is_uniform ? plan->stages : psi_model_source_blocks (source);
  const struct
  {
    PsiKeyId key;
    double most;
    const char *what;
  } counts[] = {
    { PSI_KEY_OFFLOAD_LAYERS, layers, "layers of the model" },
    { PSI_KEY_RECOMPUTE_EVERY, layers, "layers of the model" },
    { PSI_KEY_PREFETCH, layers, "layers of the model" },
    { PSI_KEY_LORA_RANK, source->dimensions != NULL ? (double) source->dimensions->hidden : (double) INFINITY,
      "channels of the model" },
    { PSI_KEY_LOSS_CHUNKS, tokens_of (plan), "tokens of a micro-batch" },
    { PSI_KEY_IN_FLIGHT, MAX ((double) plan->micro_batches, plan->pp), "micro-batches a rank can hold" },
  };

  if (plan->ep > 1 && source->dimensions != NULL && source->dimensions->experts == 0)
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_EP),
                            "'%u' needs experts, and '%s' has none (allowed: 1)", plan->ep, source->name);
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    if (psi_settings_has (s, counts[i].key) && psi_settings_real (s, counts[i].key) > counts[i].most)
      return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, counts[i].key),
                              "'%s' is more than the %.0f %s", psi_settings_text (s, counts[i].key), counts[i].most,
                              counts[i].what);
  return TRUE;
}

/* ---- Keys that change nothing ---- */

static void
note_workers (PsiPlan *plan, const PsiSettings *s)
{
  if (!psi_settings_has (s, PSI_KEY_WORKERS) || plan->file != NULL || (plan->named != NULL && plan->named->dp_is_n))
    return;
  g_autofree char *of = plan->named != NULL
                            ? g_strdup_printf ("plan '%s' has one replica unless dp is written", plan->named->name)
                            : g_strdup ("without a named plan, dp sets the replicas");
  psi_plan_assume (plan, "workers = %" G_GINT64_FORMAT " is ignored: %s", psi_settings_count (s, PSI_KEY_WORKERS), of);
}

void
psi_plan_note_ignored (PsiPlan *plan, const PsiSettings *s, const PsiModelSource *source)
{
  const char *given = source->trace != NULL ? "a trace has its shapes"
                      : source->is_uniform  ? "stages of 'uniform' have their times and bytes"
                                            : NULL;
  const char *tokens = source->dimensions != NULL && source->dimensions->image_size > 0
                           ? "an image has as many tokens as patches"
                           : given;
  const gint64 experts = source->dimensions != NULL ? source->dimensions->experts : 0;
  const struct
  {
    PsiKeyId key;
    const char *why; /* NULL: it counts */
  } of_model[] = { { PSI_KEY_SEQUENCE, tokens }, { PSI_KEY_DROPOUT, given }, { PSI_KEY_LOSS_CHUNKS, given } };
  const struct
  {
    PsiKeyId key;
    gboolean is_useless;
    const char *why;
  } of_plan[] = {
    { PSI_KEY_SHARD_GROUP, plan->zero == 0, "with zero 0 nothing is shared out" },
    { PSI_KEY_PREFETCH, plan->zero < 3, "below zero 3 no parameters are gathered" },
    { PSI_KEY_RECOMPUTE_EVERY, plan->recompute == PSI_RECOMPUTE_NONE, "nothing is recomputed" },
    { PSI_KEY_REDUCE_EVERY,
      psi_settings_has (s, PSI_KEY_REDUCE_EVERY) && psi_settings_count (s, PSI_KEY_REDUCE_EVERY) > plan->micro_batches,
      "a step has fewer micro-batches, gradients are summed once" },
    { PSI_KEY_CUDA_GRAPHS, source->is_uniform, given },
    { PSI_KEY_COMPILE, given != NULL, given },
    { PSI_KEY_ATTENTION, given != NULL, given },
    { PSI_KEY_FUSED_LOSS, given != NULL || plan->memory->fused_loss_bytes == 0,
      given != NULL ? given : "the framework has no such kernel" },
    { PSI_KEY_CHANNELS_LAST, source->trace == NULL, "only convolutions of a trace have a layout" },
    { PSI_KEY_EXPERT_GEMM, experts == 0, "the model has no experts" },
    { PSI_KEY_EXPERT_IMBALANCE, plan->ep <= 1, "with ep 1 all tokens stay on their GPU" },
    { PSI_KEY_DENSE_FFN, experts > 0 && source->dimensions->first_dense_layers == 0,
      "no layer is dense (dense_layers is 0)" },
    { PSI_KEY_COLLECTIVE_CHECKS, plan->dp * plan->tp * plan->cp * plan->pp == 1, "one GPU has no collectives" },
    { PSI_KEY_TRIALS, psi_settings_real (s, PSI_KEY_JITTER) <= 0, "without jitter every step is the same" },
  };

  note_workers (plan, s);
  if (source->dimensions != NULL && source->dimensions->beside != NULL)
    psi_plan_assume (plan, "the language model of '%s' alone: what its %s describes is left out", source->name,
                     source->dimensions->beside);
  for (guint i = 0; i < G_N_ELEMENTS (of_plan); i++)
    if (of_plan[i].is_useless && psi_settings_has (s, of_plan[i].key))
      psi_plan_assume (plan, "%s = %s is ignored: %s", psi_keys[of_plan[i].key].name,
                       psi_settings_text (s, of_plan[i].key), of_plan[i].why);
  for (guint i = 0; i < G_N_ELEMENTS (of_model); i++)
    if (of_model[i].why != NULL && psi_settings_has (s, of_model[i].key))
      g_ptr_array_add (plan->ignored, g_strdup_printf ("%s = %s is ignored: %s", psi_keys[of_model[i].key].name,
                                                       psi_settings_text (s, of_model[i].key), of_model[i].why));
}
