/* SPDX-License-Identifier: MIT */
/* The whole of a plan's report; rows in report-ranks.c, memory in report-memory.c:
 *
 *   mfu        model FLOPs (3 x forward) / (step time x GPUs x peak of the format); hfu counts recomputed FLOPs too */
#include "report-fill.h"
#include "report-assumptions.h"
#include "report-band.h"
#include "report-memory.h"
#include "report-notes.h"
#include "report-ranks.h"
#include "report-traffic.h"
#include "report-update.h"

#include "critical-path.h"
#include "psi-account.h"

#include <math.h>
#include <string.h>

void
psi_report_describe (PsiReport *report, const PsiMachine *machine, const PsiModelSource *source, const PsiModel *model)
{
  if (report->machine != NULL)
    return;
  report->machine = g_strdup (machine->name);
  report->machine_description = g_strdup (machine->description);
  report->machine_kind = g_strdup (machine->kind);
  report->model = g_strdup (source->name);
  report->model_description = g_strdup (model->description);
  report->model_parameters = source->parameters;
}

static void
fill_throughput (PsiPlanReport *plan, const PsiStep *step)
{
  const PsiModel *model = psi_step_model (step);
  const PsiGpu *gpu = &step->machine->gpu;
  double step_s = psi_time_to_s (plan->step_time_ps), peak = gpu->peak_flops[psi_gpu_dtype (gpu, step->plan->dtype)];
  __int128 compute_ps = 0, recompute_ps = 0; /* exact: the same however ranks are grouped */

  plan->tokens_per_s = plan->samples_per_s = plan->model_tflops_per_gpu = plan->mfu = plan->hfu = NAN;
  if (step_s <= 0)
    return;
  plan->samples_per_s = (double) step->plan->global_batch / step_s;
  if (model->tokens_per_sample > 1)
    plan->tokens_per_s = plan->samples_per_s * (double) model->tokens_per_sample;
  if (model->model_flops_per_sample <= 0)
    return;
  double per_sample = 3 * model->model_flops_per_sample - model->frozen_flops_per_sample;
  double flops = per_sample * plan->samples_per_s / plan->gpus;
  plan->model_tflops_per_gpu = flops / 1e12;
  if (peak <= 0)
    return;
  plan->mfu = flops / peak;
  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *row = &g_array_index (plan->ranks, PsiRankReport, i);

      compute_ps += (__int128) row->time_ps[PSI_TIME_COMPUTE] * row->count;
      recompute_ps += (__int128) row->time_ps[PSI_TIME_RECOMPUTE] * row->count;
    }
  plan->hfu = compute_ps > 0 ? plan->mfu * (1 + (double) recompute_ps / (double) compute_ps) : plan->mfu;
}

static char *
describe_layout (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, plan->cyclic || plan->keeps_all ? "N %u" : "dp %u", plan->dp);
  if (plan->tp > 1)
    g_string_append_printf (text, " x tp %u%s", plan->tp, plan->sequence_parallel ? " (sequence parallel)" : "");
  if (plan->cp > 1)
    g_string_append_printf (text, " x cp %u", plan->cp);
  if (plan->pp > 1)
    g_string_append_printf (text, " x pp %u", plan->pp);
  if (plan->ep > 1)
    g_string_append_printf (text, ", ep %u", plan->ep);
  if (plan->expert_tp < plan->tp && plan->ep > 1)
    g_string_append_printf (text, ", expert tp %u", plan->expert_tp);
  if (plan->stages > 1 || plan->cyclic)
    g_string_append_printf (text, ", K %u", plan->stages);
  if (plan->zero > 0)
    g_string_append_printf (text, ", zero %u", plan->zero);
  g_string_append_printf (text, ", schedule %s%s", plan->schedule->name, plan->random_delay ? ", delay random" : "");
  g_string_append_printf (text, ", %" G_GINT64_FORMAT " micro-batch%s of %" G_GINT64_FORMAT, plan->micro_batches,
                          plan->micro_batches == 1 ? "" : "es", plan->micro_batch);
  return g_string_free (text, FALSE);
}

/* Memory, pace and its band; the rest is for `depth` to say. */
static PsiPlanReport *
begin_report (const char *name, const PsiStep *step, const PsiRun *run, const PsiReportEquals *equals,
              PsiTime origin_ps, PsiReportDepth depth, GError **error)
{
  PsiPlanReport *plan = psi_plan_report_new (name);

  plan->gpus = step->gpus;
  plan->step_time_ps = run->period_ps;
  if (!psi_report_fill_ranks (plan, step, run, equals, origin_ps, depth))
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                   "the bytes of %u GPUs together are more than 64-bit counts hold", step->gpus);
      psi_plan_report_free (plan);
      return NULL;
    }
  psi_report_repeat (plan, step, run);
  psi_report_fill_memory (plan, step);
  psi_report_fill_band (plan, step);
  return plan;
}

static PsiTime
origin_of (const PsiRun *run)
{
  return run->first_op[1] > 0 ? run->times[0].start_ps : 0;
}

PsiPlanReport *
psi_plan_report_fill_fit (const char *name, const PsiStep *step, const PsiRun *run, GError **error)
{
  g_auto (PsiReportEquals) equals = { NULL, NULL };

  psi_report_equals_init (&equals, step, run);
  PsiPlanReport *plan = begin_report (name, step, run, &equals, origin_of (run), PSI_REPORT_FIT, error);
  fill_throughput (plan, step);
  return plan;
}

PsiPlanReport *
psi_plan_report_fill (const char *name, const PsiStep *step, const PsiRun *run, gboolean curves, GError **error)
{
  PsiTime origin_ps = origin_of (run);
  g_auto (PsiReportEquals) equals = { NULL, NULL };
  __int128 bubble_ps = 0; /* exact: the same however ranks are grouped */

  psi_report_equals_init (&equals, step, run);
  PsiPlanReport *plan =
      begin_report (name, step, run, &equals, origin_ps, curves ? PSI_REPORT_CURVES : PSI_REPORT_NUMBERS, error);
  if (plan == NULL)
    return NULL;
  plan->layout = describe_layout (step);
  psi_report_fill_activations (plan, step, run, &equals, origin_ps);
  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *row = &g_array_index (plan->ranks, PsiRankReport, i);

      bubble_ps += (__int128) row->time_ps[PSI_TIME_BUBBLE] * row->count;
      if (row->time_ps[PSI_TIME_COMPUTE] >
          g_array_index (plan->ranks, PsiRankReport, plan->main_rank).time_ps[PSI_TIME_COMPUTE])
        plan->main_rank = i;
    }
  /* Shared GPUs take turns: who waits for whose host is not known then. */
  if (step->schedule->pool == NULL && plan->main_rank < step->n_ranks)
    {
      const PsiRankReport *row = &g_array_index (plan->ranks, PsiRankReport, plan->main_rank);

      plan->host_wait_ps = MIN (psi_step_host_wait_ps (step, &step->ranks[plan->main_rank]),
                                row->time_ps[PSI_TIME_COMPUTE] + row->time_ps[PSI_TIME_RECOMPUTE]);
    }
  plan->graphs = step->plan->graphs != PSI_GRAPHS_NONE;
  plan->bubble_fraction = run->period_ps > 0 ? (double) bubble_ps / ((double) run->period_ps * plan->gpus) : 0;
  psi_report_fill_traffic (plan, step, run, equals.gpus, origin_ps, curves);
  fill_throughput (plan, step);
  psi_report_fill_update (plan, step, run);
  psi_report_fill_assumptions (plan, step, psi_report_overhead_bytes (step));
  psi_report_note_run (plan, run);
  if (step->warning != NULL)
    g_ptr_array_add (plan->warnings, g_strdup (step->warning));
  plan->digest = psi_account_digest (step->world, run);
  return plan;
}

/* Parts of `from_ps` as parts of `to_ps`; what rounding leaves goes to the largest. */
static void
stretch_parts (gint64 *parts, guint n, PsiTime from_ps, PsiTime to_ps)
{
  PsiTime left_ps = to_ps;
  guint largest = 0;

  for (guint i = 0; i < n; i++)
    {
      parts[i] = from_ps > 0 ? (gint64) ((double) parts[i] / (double) from_ps * (double) to_ps) : 0;
      left_ps -= parts[i];
      if (parts[i] > parts[largest])
        largest = i;
    }
  parts[largest] += from_ps > 0 ? left_ps : 0;
}

void
psi_plan_report_set_trials (PsiPlanReport *plan, const PsiStep *step, const PsiTrials *trials)
{
  PsiTime run_ps = plan->step_time_ps;

  plan->trials = *trials;
  plan->host_wait_ps =
      run_ps > 0 ? (gint64) ((double) plan->host_wait_ps / (double) run_ps * trials->mean_s * 1e12) : 0;
  plan->step_time_ps = psi_time_from_s (trials->mean_s);
  for (guint i = 0; i < plan->ranks->len; i++)
    {
      PsiRankReport *row = &g_array_index (plan->ranks, PsiRankReport, i);
      PsiTime exposed_ps = row->time_ps[PSI_TIME_EXPOSED_COMM];

      stretch_parts (row->time_ps, PSI_N_TIME, run_ps, plan->step_time_ps);
      stretch_parts (row->exposed_ps, PSI_N_TRAFFIC, exposed_ps, row->time_ps[PSI_TIME_EXPOSED_COMM]);
    }
  if (plan->critical_path != NULL)
    psi_critical_path_stretch (plan->critical_path, plan->step_time_ps);
  psi_report_fill_band (plan, step);
  fill_throughput (plan, step);
}
