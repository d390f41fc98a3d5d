/* SPDX-License-Identifier: MIT */
/* A lesson's small case, simulated, and what is measured on it. The case is the uniform model on links that take no
 * time unless the lesson's [case] says otherwise; its sizes divide evenly by every small number of stages and GPUs. */
#include "lesson.h"
#include "report-fill.h"
#include "simulate-plan.h"
#include "step.h"

static const struct
{
  PsiKeyId key;
  const char *value;
} defaults[] = {
  { PSI_KEY_MODEL, "uniform" },  { PSI_KEY_MACHINE, "ideal" }, { PSI_KEY_FORWARD, "1 ms" },
  { PSI_KEY_BACKWARD, "1 ms" },  { PSI_KEY_PSI_P, "3.6 GB" },  { PSI_KEY_PSI_A, "3.6 GB" },
  { PSI_KEY_PSI_INT, "3.6 MB" },
};

static gboolean
set (const PsiLesson *lesson, PsiSettings *settings, PsiKeyId key, const char *value, GError **error)
{
  g_autofree char *where = g_strdup_printf ("lesson '%s': [case] %s", lesson->name, psi_keys[key].name);

  return psi_settings_set (settings, key, value, where, error);
}

static PsiSettings *
read_case (const PsiLesson *lesson, const char *plan, GError **error)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();
  g_auto (GStrv) lines = g_strsplit (psi_lesson_section (lesson, "case"), "\n", -1);

  for (guint i = 0; i < G_N_ELEMENTS (defaults); i++)
    if (!set (lesson, settings, defaults[i].key, defaults[i].value, error))
      return NULL;
  for (char **line = lines; *line != NULL; line++)
    {
      char *equals = strchr (*line, '=');
      int key;

      if (equals == NULL)
        continue;
      *equals = '\0';
      key = psi_key_find (g_strstrip (*line));
      if (key < 0)
        {
          g_set_error (error, PSI_LESSON_ERROR, PSI_LESSON_ERROR_FORM, "lesson '%s': [case] unknown key '%s'",
                       lesson->name, *line);
          return NULL;
        }
      if (!set (lesson, settings, (PsiKeyId) key, g_strstrip (equals + 1), error))
        return NULL;
    }
  if (!set (lesson, settings, PSI_KEY_PLAN, plan, error))
    return NULL;
  return g_steal_pointer (&settings);
}

PsiTrial *
psi_trial_new (const PsiLesson *lesson, const char *plan, GError **error)
{
  g_autoptr (PsiTrial) trial = g_new0 (PsiTrial, 1);
  const PsiRunOptions options = { 0 };

  trial->settings = read_case (lesson, plan, error);
  if (trial->settings == NULL)
    return NULL;
  trial->machine = psi_simulate_machine (trial->settings, error);
  if (trial->machine == NULL)
    return NULL;
  trial->source = psi_model_source_load (trial->settings, error);
  if (trial->source == NULL)
    return NULL;
  trial->plan = psi_plan_resolve (trial->settings, trial->source, trial->machine->gpus_per_node, error);
  if (trial->plan == NULL)
    return NULL;
  trial->step = psi_step_new (trial->plan, trial->machine, trial->source, trial->settings, error);
  if (trial->step == NULL)
    return NULL;
  trial->run = psi_run (trial->step->world, &options, error);
  if (trial->run == NULL)
    return NULL;
  trial->report = psi_plan_report_fill (plan, trial->step, trial->run, TRUE, error);
  return trial->report == NULL ? NULL : g_steal_pointer (&trial);
}

void
psi_trial_free (PsiTrial *trial)
{
  if (trial == NULL)
    return;
  g_clear_pointer (&trial->report, psi_plan_report_free);
  g_clear_pointer (&trial->run, psi_run_free);
  g_clear_pointer (&trial->step, psi_step_free);
  g_clear_pointer (&trial->plan, psi_plan_free);
  g_clear_pointer (&trial->source, psi_model_source_free);
  g_clear_pointer (&trial->machine, psi_machine_free);
  g_clear_pointer (&trial->settings, psi_settings_free);
  g_free (trial);
}

static double
forward_s (const PsiTrial *trial)
{
  return psi_settings_real (trial->settings, PSI_KEY_FORWARD);
}

static double
backward_slots (const PsiTrial *trial)
{
  return psi_settings_real (trial->settings, PSI_KEY_BACKWARD) / forward_s (trial);
}

PsiFormulaVariable *
psi_trial_variables (const PsiTrial *trial)
{
  const PsiPlan *plan = trial->plan;
  const PsiFormulaVariable variables[] = {
    { "N", plan->dp },
    { "K", plan->stages },
    { "m", (double) plan->micro_batches },
    { "p", plan->pp },
    { "v", MAX (plan->vpp, 1) },
    { "t", plan->tp },
    { "f", 1 },
    { "b", backward_slots (trial) },
    { "w", psi_settings_has (trial->settings, PSI_KEY_BACKWARD_WEIGHT)
               ? psi_settings_real (trial->settings, PSI_KEY_BACKWARD_WEIGHT) / forward_s (trial)
               : backward_slots (trial) / 2 },
    { NULL },
  };

  return g_memdup2 (variables, sizeof variables);
}

/* ---- Measures ---- */

static double
in_psi (const PsiTrial *trial, PsiKeyId key, gint64 bytes)
{
  return (double) bytes / (double) psi_settings_count (trial->settings, key);
}

static double
gpus (const PsiTrial *trial)
{
  return trial->report->gpus;
}

static double
slots (const PsiTrial *trial)
{
  return psi_time_to_s (trial->report->step_time_ps) / forward_s (trial);
}

static double
bubble (const PsiTrial *trial)
{
  return trial->report->bubble_fraction;
}

static double
activations (const PsiTrial *trial)
{
  gint64 bytes = 0;

  for (guint i = 0; i < trial->report->ranks->len; i++)
    bytes = MAX (bytes, g_array_index (trial->report->ranks, PsiRankReport, i).activations_peak_bytes);
  return in_psi (trial, PSI_KEY_PSI_A, bytes);
}

static double
total (const PsiTrial *trial)
{
  return in_psi (trial, PSI_KEY_PSI_A, trial->report->activation_total_peak_bytes);
}

static double
worst_of_class (const PsiTrial *trial, PsiMemoryClass memory_class)
{
  gint64 bytes = 0;

  for (guint i = 0; i < trial->report->ranks->len; i++)
    bytes = MAX (bytes, g_array_index (trial->report->ranks, PsiRankReport, i).at_peak[memory_class]);
  return in_psi (trial, PSI_KEY_PSI_P, bytes);
}

static double
parameters (const PsiTrial *trial)
{
  return worst_of_class (trial, PSI_MEMORY_PARAMETERS);
}

static double
copies (const PsiTrial *trial)
{
  return worst_of_class (trial, PSI_MEMORY_COMMUNICATION);
}

static double
gradients (const PsiTrial *trial)
{
  return worst_of_class (trial, PSI_MEMORY_GRADIENTS);
}

static double
sent (const PsiTrial *trial)
{
  const gint64 *kinds = trial->report->by_kind;

  return in_psi (trial, PSI_KEY_PSI_P, kinds[PSI_TRAFFIC_GRADIENTS] + kinds[PSI_TRAFFIC_PARAMETERS]);
}

static double
boundary (const PsiTrial *trial)
{
  const gint64 *kinds = trial->report->by_kind;

  return in_psi (trial, PSI_KEY_PSI_INT, kinds[PSI_TRAFFIC_BOUNDARY] + kinds[PSI_TRAFFIC_TENSOR]);
}

static double
sequential (const PsiTrial *trial)
{
  return trial->report->sequential_steps;
}

static double
delay (const PsiTrial *trial)
{
  return trial->report->delay_mean;
}

static double
versions (const PsiTrial *trial)
{
  return trial->report->parameter_versions;
}

const PsiMeasure psi_measures[] = {
  { "gpus", "GPUs", "", gpus },
  { "slots", "step time, slots", "", slots },
  { "bubble", "idle share of the time", "", bubble },
  { "activations", "activations/GPU", "Ψ_A", activations },
  { "total", "all activations", "Ψ_A", total },
  { "parameters", "parameters/GPU", "Ψ_P", parameters },
  { "gradients", "gradients/GPU", "Ψ_P", gradients },
  { "copies", "passing through", "Ψ_P", copies },
  { "sent", "update traffic", "Ψ_P", sent },
  { "boundary", "boundary traffic", "Ψ_int", boundary },
  { "sequential", "messages in a row", "", sequential },
  { "delay", "age of parameters", "", delay },
  { "versions", "parameter versions", "", versions },
  { NULL },
};
