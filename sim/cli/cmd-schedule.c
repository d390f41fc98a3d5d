/* SPDX-License-Identifier: MIT */
/* schedule show: the order of work of a plan, as text that `train` and other tools read. */
#include "commands.h"

#include "simulate-plan.h"

static char *
show (const char *name, const PsiSettings *settings, GError **error)
{
  g_autoptr (PsiMachine) machine = psi_simulate_machine (settings, error);
  g_autoptr (PsiModelSource) source = machine != NULL ? psi_model_source_load (settings, error) : NULL;
  g_autoptr (PsiPlan) plan = source != NULL ? psi_plan_resolve (settings, source, machine->gpus_per_node, error) : NULL;
  g_autoptr (PsiStep) step = plan != NULL ? psi_step_new (plan, machine, source, settings, error) : NULL;

  if (step == NULL)
    return NULL;
  g_autofree char *comment = g_strdup_printf ("%s: %u part%s, %" G_GINT64_FORMAT " micro-batches a step", name, step->schedule->n_parts,
                                              step->schedule->n_parts == 1 ? "" : "s", step->schedule->micro_batches);
  char *text = psi_schedule_to_text (step->schedule, plan->keeps_all ? 1 : plan->dp, comment);
  if (text == NULL)
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES, "plan '%s' repeats only after thousands of steps; fewer workers or stages can be shown", name);
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
  g_autofree char *text = show (request->name, request->settings, &error);
  if (text == NULL)
    return psi_fail (error);
  return psi_output_write (text);
}
