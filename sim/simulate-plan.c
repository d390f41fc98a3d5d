/* SPDX-License-Identifier: MIT */
#include "simulate-plan.h"
#include "step.h"

#include "critical-path.h"
#include "report-fill.h"
#include "report-memory.h"
#include "trials.h"

PsiMachine *
psi_simulate_machine (const PsiSettings *settings, GError **error)
{
  const char *model = psi_settings_text (settings, PSI_KEY_MODEL);
  const char *name = psi_settings_text (settings, PSI_KEY_MACHINE);
  gboolean uniform = model == NULL || strcmp (model, "uniform") == 0;
  g_autoptr (PsiMachine) machine = psi_machine_load (name != NULL ? name : uniform ? "ideal" : "a100-sxm-80", error);

  if (machine == NULL)
    return NULL;
  if (psi_settings_has (settings, PSI_KEY_NETWORK) &&
      !psi_machine_choose_network (machine, psi_settings_text (settings, PSI_KEY_NETWORK), error))
    {
      g_prefix_error (error, "%s: ", psi_settings_where (settings, PSI_KEY_NETWORK));
      return NULL;
    }
  psi_machine_override (
      machine,
      psi_settings_has (settings, PSI_KEY_GPUS_PER_NODE) ? (guint) psi_settings_count (settings, PSI_KEY_GPUS_PER_NODE)
                                                         : 0,
      psi_settings_has (settings, PSI_KEY_INTERNODE) ? psi_settings_real (settings, PSI_KEY_INTERNODE) : 0);
  if (psi_settings_has (settings, PSI_KEY_CONTEXT) && !machine->ideal)
    machine->gpu.context_bytes = psi_settings_count (settings, PSI_KEY_CONTEXT);
  return g_steal_pointer (&machine);
}

static PsiStep *
build (const PsiPlan *plan, const PsiMachine *machine, const PsiModelSource *source, const PsiSettings *settings,
       gboolean shows_ops, gboolean shortens, gboolean skips_misfits, GError **error)
{
  return shows_ops ? psi_step_new (plan, machine, source, settings, error)
                   : psi_step_new_folded (plan, machine, source, settings, shortens,
                                          skips_misfits ? psi_report_cannot_fit : NULL, error);
}

static PsiRun *
run_step (const PsiStep *step, const PsiSettings *settings, guint most_steps, PsiTrials *ret_trials, GError **error)
{
  const PsiRunOptions options = { .max_iterations = most_steps,
                                  .no_jump = !psi_settings_bool (settings, PSI_KEY_JUMP) };
  double jitter = psi_settings_real (settings, PSI_KEY_JITTER);

  if (jitter <= 0)
    return psi_run (step->world, &options, error);
  return psi_trials_run (step->world, &options, jitter, (guint64) psi_settings_count (settings, PSI_KEY_SEED),
                         (guint) psi_settings_count (settings, PSI_KEY_TRIALS), 0, ret_trials, error);
}

PsiPlanReport *
psi_simulate_plan (const char *name, const PsiSettings *settings, const PsiSimulateOptions *options, PsiReport *report,
                   GError **error)
{
  g_autoptr (PsiMachine) machine = psi_simulate_machine (settings, error);
  if (machine == NULL)
    return NULL;
  if (options->link_factors[0] > 0)
    psi_machine_scale_links (machine, options->link_factors[0], options->link_factors[1]);
  g_autoptr (PsiModelSource) source = psi_model_source_load (settings, error);
  if (source == NULL)
    return NULL;
  g_autoptr (PsiPlan) plan = psi_plan_resolve (settings, source, machine->gpus_per_node, error);
  if (plan == NULL)
    return NULL;
  /* Ops that nobody looks at one by one are folded, and few micro-batches stand for many. */
  gboolean shows_ops = options->curves || options->critical_path || options->observe != NULL;
  gboolean shortens = !shows_ops && psi_settings_bool (settings, PSI_KEY_JUMP);
  g_autoptr (PsiStep) step =
      build (plan, machine, source, settings, shows_ops, shortens, options->skips_misfits, error);
  if (step == NULL)
    return NULL;
  if (step->is_misfit)
    {
      PsiPlanReport *refused = psi_plan_report_new (name);

      refused->verdict = PSI_VERDICT_OOM;
      return refused;
    }
  PsiTrials trials = { 0 };
  guint most_steps = plan->asynchronous ? 0 : options->most_steps;
  g_autoptr (PsiRun) run = run_step (step, settings, most_steps, &trials, error);
  if (run != NULL && !psi_step_run_whole (step, run))
    {
      g_clear_pointer (&run, psi_run_free);
      psi_step_free (step);
      step = build (plan, machine, source, settings, shows_ops, FALSE, FALSE, error);
      run = step != NULL ? run_step (step, settings, most_steps, &trials, error) : NULL;
    }
  if (run == NULL)
    return NULL;
  if (report != NULL)
    psi_report_describe (report, machine, source, psi_step_model (step));
  if (options->observe != NULL && !options->observe (name, step, run, options->observe_data, error))
    return NULL;
  PsiPlanReport *filled = options->fit_only ? psi_plan_report_fill_fit (name, step, run, error)
                                            : psi_plan_report_fill (name, step, run, options->curves, error);
  if (filled == NULL)
    return NULL;
  if (options->critical_path && (plan->asynchronous || run->paces_ps != NULL))
    g_ptr_array_add (filled->warnings,
                     g_strdup ("no critical path: workers that do not wait for each other have no step in common"));
  else if (options->critical_path)
    filled->critical_path = psi_critical_path_new (step, run);
  if (trials.n > 0)
    psi_plan_report_set_trials (filled, step, &trials);
  return filled;
}
