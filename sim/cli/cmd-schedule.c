/* SPDX-License-Identifier: MIT */
/* schedule show: the order of work of a plan, as text that `schedule = FILE`, `train` and other tools read.
 * schedule check: is an order that somebody wrote sound, and what does it amount to? */
#include "commands.h"
#include "schedule-file.h"
#include "simulate-plan.h"
#include "step.h"
#include "table-units.h"

/* ---- show ---- */

static char *
show (const char *name, const PsiSettings *settings, GError **error)
{
  g_autoptr (PsiMachine) machine = psi_simulate_machine (settings, error);
  g_autoptr (PsiModelSource) source = machine != NULL ? psi_model_source_load (settings, error) : NULL;
  g_autoptr (PsiPlan) plan = source != NULL ? psi_plan_resolve (settings, source, machine->gpus_per_node, error) : NULL;
  g_autoptr (PsiStep) step = plan != NULL ? psi_step_new (plan, machine, source, settings, error) : NULL;

  if (step == NULL)
    return NULL;
  if (plan->asynchronous)
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                   "plan '%s' has no order that could be shown: its workers do not wait for each other", name);
      return NULL;
    }
  /* Without a pipeline the uniform model still has its stages: they are parts, so that the file keeps their number. */
  g_autoptr (PsiSchedule) by_stage = NULL;
  if (source->is_uniform && plan->file == NULL && step->schedule->n_parts == 1 && plan->stages > 1)
    by_stage = psi_schedule_by_part (step->schedule, plan->stages);
  const PsiSchedule *schedule = by_stage != NULL ? by_stage : step->schedule;
  g_autofree char *comment = g_strdup_printf ("%s: %u part%s, %" G_GINT64_FORMAT " micro-batch%s a step", name,
                                              schedule->n_parts, schedule->n_parts == 1 ? "" : "s",
                                              schedule->micro_batches, schedule->micro_batches == 1 ? "" : "es");
  char *text = psi_schedule_to_text (schedule, plan->keeps_all ? 1 : plan->dp, comment);
  if (text == NULL)
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "plan '%s' repeats only after thousands of steps; fewer workers or stages can be shown", name);
  return text;
}

int
psi_cmd_schedule (const PsiArguments *arguments)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiScenario) scenario = psi_arguments_scenario (arguments, TRUE, &error);

  if (scenario == NULL)
    return psi_fail (error);
  const PsiPlanRequest *request = g_ptr_array_index (scenario->plans, 0);
  g_autoptr (PsiSettings) settings = psi_settings_copy (request->settings);
  if (!psi_settings_has (settings, PSI_KEY_MODEL))
    psi_settings_set (settings, PSI_KEY_MODEL, "uniform", "schedule show", NULL);
  g_autofree char *text = show (request->name, settings, &error);
  if (text == NULL)
    return psi_fail (error);
  return psi_output_write (text);
}

/* ---- check ---- */

/* The flags that say how long a part takes. */
static PsiSettings *
read_flags (const PsiArguments *arguments, GError **error)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();

  for (guint i = 0; i < arguments->flags->len; i++)
    {
      const PsiKeyFlag *flag = &g_array_index (arguments->flags, PsiKeyFlag, i);
      g_autofree char *name = psi_key_flag_name (flag->key);

      if (flag->key != PSI_KEY_FORWARD && flag->key != PSI_KEY_BACKWARD && flag->key != PSI_KEY_BACKWARD_WEIGHT)
        {
          g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_OPTION,
                       "%s is not an option of 'schedule check' (allowed: --forward --backward --backward-weight)",
                       name);
          return NULL;
        }
      if (!psi_settings_set (settings, flag->key, flag->text, name, error))
        return NULL;
    }
  return g_steal_pointer (&settings);
}

static gint64 *
repeat (guint n, gint64 value)
{
  gint64 *values = g_new (gint64, MAX (n, 1));

  for (guint i = 0; i < n; i++)
    values[i] = value;
  return values;
}

static char *
describe (const PsiSchedule *schedule, const PsiScheduleFacts *facts, gint64 forward_ps, gint64 backward_ps,
          gint64 weight_ps)
{
  GString *text = g_string_new (NULL);
  g_autofree char *period = psi_format_time (facts->period_ps), *forward = psi_format_time (forward_ps),
                  *backward = psi_format_time (backward_ps), *weight = psi_format_time (weight_ps);

  g_string_append_printf (
      text, "sound: %u rank%s x %u chunk%s, %u part%s, %" G_GINT64_FORMAT " micro-batch%s a step%s\n",
      schedule->n_ranks, schedule->n_ranks == 1 ? "" : "s", schedule->n_chunks, schedule->n_chunks == 1 ? "" : "s",
      schedule->n_parts, schedule->n_parts == 1 ? "" : "s", schedule->micro_batches,
      schedule->micro_batches == 1 ? "" : "es", schedule->replicas ? " and rank" : "");
  g_string_append_printf (text, "times      forward %s, backward %s (weight half %s) per part and micro-batch\n",
                          forward, backward, weight);
  g_string_append_printf (text, "period     %s a step%s\n", period,
                          facts->periodic ? "" : " (mean: the order does not repeat exactly)");
  g_string_append_printf (text, "bubble     %.4g %% of the period (%.4g %% of the work)\n",
                          100 * facts->bubble_fraction,
                          100 * facts->bubble_fraction / MAX (1 - facts->bubble_fraction, 1e-9));
  g_string_append (text, "in flight ");
  for (guint r = 0; r < facts->n_ranks; r++)
    g_string_append_printf (text, " %u", facts->in_flight[r]);
  g_string_append (text, " (most chunks whose backward is not over, by rank)\n");
  g_string_append_printf (text, "transfers  %.6g boundary tensors a step\n", facts->transfers);
  if (schedule->has_updates)
    g_string_append_printf (text, "delay      %.4g steps on average\n", facts->delay_mean);
  return g_string_free (text, FALSE);
}

int
psi_cmd_schedule_check (const PsiArguments *arguments)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiSettings) settings = read_flags (arguments, &error);

  if (settings == NULL)
    return psi_fail (error);
  const char *file = g_ptr_array_index (arguments->words, 0);
  g_autoptr (PsiSchedule) schedule = psi_schedule_load (file, &error);
  if (schedule == NULL)
    return psi_fail (error);
  gint64 forward_ps = psi_settings_time_ps (settings, PSI_KEY_FORWARD);
  gint64 backward_ps = psi_settings_has (settings, PSI_KEY_BACKWARD) ? psi_settings_time_ps (settings, PSI_KEY_BACKWARD)
                                                                     : 2 * forward_ps;
  gint64 weight_ps = psi_settings_has (settings, PSI_KEY_BACKWARD_WEIGHT)
                         ? psi_settings_time_ps (settings, PSI_KEY_BACKWARD_WEIGHT)
                         : backward_ps / 2;
  if (weight_ps > backward_ps)
    {
      g_set_error (&error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE,
                   "--backward-weight: '%g s' is longer than the whole backward, %g s, of which it is a part",
                   (double) weight_ps * 1e-12, (double) backward_ps * 1e-12);
      return psi_fail (error);
    }
  g_autofree gint64 *forwards = repeat (schedule->n_parts, forward_ps),
                    *backwards = repeat (schedule->n_parts, backward_ps),
                    *weights = repeat (schedule->n_parts, weight_ps);
  PsiScheduleTimes times = { .forward_ps = forwards, .backward_ps = backwards, .weight_ps = weights };
  g_auto (PsiScheduleFacts) facts = { .n_ranks = 0 };
  if (!psi_schedule_check (schedule, &times, &facts, &error))
    {
      g_prefix_error (&error, "%s: ", file);
      return psi_fail (error);
    }
  g_autofree char *text = describe (schedule, &facts, forward_ps, backward_ps, weight_ps);
  return psi_output_write (text);
}
