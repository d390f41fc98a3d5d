/* SPDX-License-Identifier: MIT */
#include "report-walk.h"

#include <math.h>
#include <string.h>

/* ---- Numbers ---- */

void
psi_append_seconds (GString *out, gint64 time_ps)
{
  const guint64 ps_per_s = 1000000000000;
  guint64 ps = time_ps < 0 ? -(guint64) time_ps : (guint64) time_ps;
  guint64 fraction = ps % ps_per_s;
  int digits = 12;

  g_string_append_printf (out, "%s%" G_GUINT64_FORMAT, time_ps < 0 ? "-" : "", ps / ps_per_s);
  if (fraction == 0)
    return;
  while (fraction % 10 == 0)
    {
      fraction /= 10;
      digits--;
    }
  g_string_append_printf (out, ".%0*" G_GUINT64_FORMAT, digits, fraction);
}

void
psi_append_real (GString *out, double value)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  const char *const formats[] = { "%.15g", "%.16g", "%.17g" };

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      g_ascii_formatd (text, sizeof text, formats[i], value);
      double back = g_ascii_strtod (text, NULL);
      if (memcmp (&back, &value, sizeof back) == 0)
        break;
    }
  g_string_append (out, text);
}

/* ---- The walk ---- */

/* "peak" + "_bytes" on the caller's stack. */
#define KEY(name, unit) join_key (buffer, sizeof buffer, name, unit)
static const char *
join_key (char *buffer, gsize size, const char *name, const char *unit)
{
  g_strlcpy (buffer, name, size);
  g_strlcat (buffer, unit, size);
  return buffer;
}

static void
put_real (PsiReportSink *sink, const char *key, double value)
{
  if (isfinite (value))
    sink->real (sink, key, value);
  else
    sink->null (sink, key);
}

static void
put_text (PsiReportSink *sink, const char *key, const char *text)
{
  if (text != NULL)
    sink->text (sink, key, text);
  else
    sink->null (sink, key);
}

/* A count or size where a negative number says that it does not apply. */
static void
put_natural (PsiReportSink *sink, const char *key, gint64 value)
{
  if (value >= 0)
    sink->integer (sink, key, value);
  else
    sink->null (sink, key);
}

static void
put_time_parts (PsiReportSink *sink, const gint64 time_ps[PSI_N_TIME])
{
  char buffer[64];

  for (guint i = 0; i < PSI_N_TIME; i++)
    sink->seconds (sink, KEY (psi_time_part_names[i], "_s"), time_ps[i]);
}

static void
put_exposed (PsiReportSink *sink, const gint64 exposed_ps[PSI_N_TRAFFIC])
{
  sink->begin (sink, "exposed_comm_by_kind_s", '{');
  for (guint i = 0; i < PSI_N_TRAFFIC; i++)
    sink->seconds (sink, psi_traffic_names[i], exposed_ps[i]);
  sink->end (sink, '}');
}

static void
put_rank_id (PsiReportSink *sink, const PsiRankReport *rank)
{
  sink->integer (sink, "rank", rank->rank);
  put_natural (sink, "stage", rank->stage);
  sink->integer (sink, "count", rank->count);
}

static void
walk_time (const PsiPlanReport *plan, PsiReportSink *sink)
{
  static const PsiRankReport none;
  const PsiRankReport *main_rank =
      plan->main_rank < plan->ranks->len ? &g_array_index (plan->ranks, PsiRankReport, plan->main_rank) : &none;

  sink->begin (sink, "time", '{');
  put_time_parts (sink, main_rank->time_ps);
  sink->end (sink, '}');

  sink->begin (sink, "time_detail", '{');
  sink->integer (sink, "rank", main_rank->rank);
  put_exposed (sink, main_rank->exposed_ps);
  sink->seconds (sink, "host_wait_s", plan->host_wait_ps);
  sink->begin (sink, "ranks", '[');
  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, i);
      sink->begin (sink, NULL, '{');
      put_rank_id (sink, rank);
      put_time_parts (sink, rank->time_ps);
      put_exposed (sink, rank->exposed_ps);
      sink->end (sink, '}');
    }
  sink->end (sink, ']');
  sink->end (sink, '}');
}

/* Only with jitter. */
static void
walk_trials (const PsiTrials *trials, PsiReportSink *sink)
{
  sink->begin (sink, "trials", '{');
  sink->integer (sink, "n", trials->n);
  put_real (sink, "mean_s", trials->mean_s);
  put_real (sink, "p10_s", trials->p10_s);
  put_real (sink, "p50_s", trials->p50_s);
  put_real (sink, "p90_s", trials->p90_s);
  put_real (sink, "max_s", trials->max_s);
  sink->end (sink, '}');
}

static void
walk_throughput (const PsiPlanReport *plan, PsiReportSink *sink)
{
  sink->begin (sink, "throughput", '{');
  put_real (sink, "samples_per_s", plan->samples_per_s);
  put_real (sink, "tokens_per_s", plan->tokens_per_s);
  put_real (sink, "tokens_per_s_per_gpu", plan->tokens_per_s / MAX (plan->gpus, 1));
  put_real (sink, "model_tflops_per_gpu", plan->model_tflops_per_gpu);
  put_real (sink, "mfu", plan->mfu);
  put_real (sink, "hfu", plan->hfu);
  sink->end (sink, '}');
}

static void
walk_rank_memory (const PsiRankReport *rank, PsiReportSink *sink)
{
  char buffer[64];

  sink->begin (sink, NULL, '{');
  put_rank_id (sink, rank);
  sink->integer (sink, "peak_bytes", rank->peak_bytes);
  sink->seconds (sink, "peak_at_s", rank->peak_at_ps);
  for (guint i = 0; i < PSI_N_MEMORY; i++)
    sink->integer (sink, KEY (psi_memory_class_names[i], "_bytes"), rank->at_peak[i]);
  sink->integer (sink, "activations_peak_bytes", rank->activations_peak_bytes);
  sink->integer (sink, "overhead_bytes", rank->overhead_bytes);
  sink->integer (sink, "steady_bytes", rank->steady_bytes);
  sink->integer (sink, "reserved_bytes", rank->reserved_bytes);
  sink->integer (sink, "device_bytes", rank->device_bytes);
  sink->integer (sink, "sent_bytes", rank->sent_bytes);
  sink->end (sink, '}');
}

static void
walk_memory (const PsiPlanReport *plan, PsiReportSink *sink)
{
  sink->begin (sink, "memory", '{');
  put_natural (sink, "capacity_bytes", plan->capacity_bytes);
  sink->integer (sink, "steady_bytes", plan->steady_bytes);
  sink->integer (sink, "peak_bytes", plan->peak_bytes);
  sink->integer (sink, "reserved_bytes", plan->reserved_bytes);
  sink->integer (sink, "device_bytes", plan->device_bytes);
  sink->integer (sink, "activation_total_peak_bytes", plan->activation_total_peak_bytes);
  put_real (sink, "activation_total_mean_bytes", plan->activation_total_mean_bytes);
  sink->begin (sink, "ranks", '[');
  for (guint i = 0; i < plan->ranks->len; i++)
    walk_rank_memory (&g_array_index (plan->ranks, PsiRankReport, i), sink);
  sink->end (sink, ']');
  sink->end (sink, '}');
}

static void
walk_communication (const PsiPlanReport *plan, PsiReportSink *sink)
{
  sink->begin (sink, "communication", '{');
  sink->integer (sink, "total_bytes", plan->total_bytes);
  sink->integer (sink, "per_gpu_bytes", plan->per_gpu_bytes);
  sink->integer (sink, "per_gpu_max_bytes", plan->per_gpu_max_bytes);
  sink->begin (sink, "by_kind", '{');
  for (guint i = 0; i < PSI_N_TRAFFIC; i++)
    sink->integer (sink, psi_traffic_names[i], plan->by_kind[i]);
  sink->end (sink, '}');
  sink->integer (sink, "sequential_steps", plan->sequential_steps);
  sink->integer (sink, "concurrent_peak_bytes", plan->concurrent_peak_bytes);
  sink->end (sink, '}');
}

static void
walk_texts (PsiReportSink *sink, const char *key, const GPtrArray *texts)
{
  sink->begin (sink, key, '[');
  for (guint i = 0; i < texts->len; i++)
    sink->text (sink, NULL, texts->pdata[i]);
  sink->end (sink, ']');
}

static void
walk_critical_path (const PsiCriticalPath *path, PsiReportSink *sink)
{
  char buffer[64];

  if (path == NULL)
    {
      sink->null (sink, "critical_path");
      return;
    }
  sink->begin (sink, "critical_path", '{');
  sink->seconds (sink, "duration_s", path->duration_ps);
  sink->begin (sink, "by_kind", '{');
  for (guint kind = 0; kind < PSI_N_CRITICAL; kind++)
    sink->seconds (sink, KEY (psi_critical_kind_name (kind), "_s"), path->kind_ps[kind]);
  sink->end (sink, '}');
  sink->seconds (sink, "shared_links_s", path->shared_ps);
  sink->begin (sink, "by_rank", '[');
  for (guint i = 0; i < path->ranks->len; i++)
    {
      const PsiCriticalRank *rank = &g_array_index (path->ranks, PsiCriticalRank, i);

      sink->begin (sink, NULL, '{');
      sink->integer (sink, "rank", rank->rank);
      put_natural (sink, "stage", rank->stage);
      sink->seconds (sink, "time_s", rank->time_ps);
      sink->end (sink, '}');
    }
  sink->end (sink, ']');
  sink->begin (sink, "segments", '[');
  for (guint i = 0; i < path->segments->len; i++)
    {
      const PsiCriticalSegment *segment = &g_array_index (path->segments, PsiCriticalSegment, i);

      sink->begin (sink, NULL, '{');
      sink->integer (sink, "rank", segment->rank);
      put_natural (sink, "stage", segment->stage);
      put_text (sink, "kind", segment->what);
      put_natural (sink, "micro_batch", segment->micro_batch);
      put_natural (sink, "part", segment->part);
      put_natural (sink, "first_layer", segment->first_layer);
      put_natural (sink, "last_layer", segment->last_layer);
      sink->integer (sink, "ops", segment->n_ops);
      sink->seconds (sink, "start_s", segment->start_ps);
      sink->seconds (sink, "duration_s", segment->duration_ps);
      sink->seconds (sink, "communication_s", segment->communication_ps);
      sink->seconds (sink, "shared_links_s", segment->shared_ps);
      put_text (sink, "reason", segment->reason);
      sink->integer (sink, "from_rank", segment->from_rank);
      sink->end (sink, '}');
    }
  sink->end (sink, ']');
  sink->end (sink, '}');
}

static void
walk_what_helps (const PsiPlanReport *plan, PsiReportSink *sink)
{
  const PsiWhatHelps *helps = plan->what_helps;

  if (helps == NULL)
    {
      sink->null (sink, "what_helps");
      return;
    }
  sink->begin (sink, "what_helps", '{');
  sink->begin (sink, "links", '[');
  for (guint i = 0; i < helps->links->len; i++)
    {
      const PsiLinkHelp *link = &g_array_index (helps->links, PsiLinkHelp, i);

      sink->begin (sink, NULL, '{');
      put_text (sink, "link", link->name);
      put_text (sink, "tier", link->between_nodes ? "between nodes" : "inside a node");
      put_real (sink, "bytes_per_s", link->bytes_per_s);
      put_real (sink, "step_time_unlimited_s", link->unlimited_step_s);
      put_real (sink, "tenth_longer_bytes_per_s", link->tenth_bytes_per_s);
      put_real (sink, "twice_as_long_bytes_per_s", link->twice_bytes_per_s);
      sink->end (sink, '}');
    }
  sink->end (sink, ']');
  sink->begin (sink, "degrees", '[');
  for (guint i = 0; i < helps->degrees->len; i++)
    {
      const PsiDegreeHelp *degree = &g_array_index (helps->degrees, PsiDegreeHelp, i);

      sink->begin (sink, NULL, '{');
      put_text (sink, "set", degree->set);
      sink->integer (sink, "gpus", degree->gpus);
      put_text (sink, "verdict", psi_verdict_names[degree->verdict]);
      sink->integer (sink, "peak_bytes", degree->peak_bytes);
      sink->seconds (sink, "step_time_s", degree->step_time_ps);
      put_real (sink, "samples_per_s", degree->samples_per_s);
      sink->end (sink, '}');
    }
  sink->end (sink, ']');
  put_real (sink, "one_gpu_samples_per_s", helps->one_gpu_samples_per_s);
  put_text (sink, "one_gpu_verdict",
            isnan (helps->one_gpu_samples_per_s) ? NULL
            : helps->one_gpu_fits                ? "fits"
                                                 : "oom");
  put_real (sink, "speedup_over_one_gpu", plan->samples_per_s / helps->one_gpu_samples_per_s);
  sink->end (sink, '}');
}

void
psi_plan_report_walk (const PsiPlanReport *plan, PsiReportSink *sink)
{
  put_text (sink, "name", plan->name);
  put_text (sink, "layout", plan->layout);
  sink->text (sink, "verdict", psi_verdict_names[plan->verdict]);
  sink->integer (sink, "gpus", plan->gpus);
  sink->seconds (sink, "step_time_s", plan->step_time_ps);
  put_real (sink, "step_time_low_s", plan->step_time_low_s);
  put_real (sink, "step_time_high_s", plan->step_time_high_s);
  if (plan->trials.n > 0)
    walk_trials (&plan->trials, sink);
  walk_time (plan, sink);
  put_real (sink, "bubble_fraction", plan->bubble_fraction);
  walk_throughput (plan, sink);
  walk_memory (plan, sink);
  walk_communication (plan, sink);

  sink->begin (sink, "update", '{');
  put_text (sink, "rule", plan->update_rule);
  put_real (sink, "delay_mean", plan->delay_mean);
  put_real (sink, "delay_p90", plan->delay_p90);
  put_real (sink, "delay_max", plan->delay_max);
  sink->integer (sink, "parameter_versions", plan->parameter_versions);
  sink->end (sink, '}');

  walk_texts (sink, "assumptions", plan->assumptions);
  sink->begin (sink, "advice", '[');
  for (guint i = 0; i < plan->advice->len; i++)
    {
      const PsiAdvice *advice = &g_array_index (plan->advice, PsiAdvice, i);
      sink->begin (sink, NULL, '{');
      put_text (sink, "set", advice->set);
      sink->integer (sink, "peak_bytes", advice->peak_bytes);
      sink->seconds (sink, "step_time_s", advice->step_time_ps);
      sink->end (sink, '}');
    }
  sink->end (sink, ']');
  walk_critical_path (plan->critical_path, sink);
  walk_what_helps (plan, sink);
  walk_texts (sink, "warnings", plan->warnings);

  char digest[32];
  g_snprintf (digest, sizeof digest, "0x%016" G_GINT64_MODIFIER "x", plan->digest);
  sink->text (sink, "digest", digest);
}
