/* SPDX-License-Identifier: MIT */
/* Reports that look real, made by hand: a 1F1B pipeline with flush and the cyclic timeline, both from their closed
 * forms (slots of one forward or one backward), with memory, traffic and spans. For tests of what writes reports. */
#pragma once

#include "report.h"

#include <math.h>

#define FIXTURE_MIB ((gint64) 1 << 20)
#define FIXTURE_GIB ((gint64) 1 << 30)
#define FIXTURE_FORWARD_PS G_GINT64_CONSTANT (10123456789) /* 10.1 ms */
#define FIXTURE_BACKWARD_PS (2 * FIXTURE_FORWARD_PS)
#define FIXTURE_SEND_PS G_GINT64_CONSTANT (700000001)
#define FIXTURE_OPTIMIZER_PS G_GINT64_CONSTANT (4200000000)

static inline void
fixture_span (PsiRankReport *rank, PsiSpanKind kind, gint64 start_ps, gint64 length_ps, int micro_batch, int stage)
{
  PsiSpan span = { start_ps, start_ps + length_ps, (guint8) kind, kind == PSI_SPAN_COMMUNICATION ? 1 : 0, micro_batch,
                   stage };

  g_array_append_val (rank->spans, span);
}

/* Add to one class of memory from time_ps on; points are kept in order of time. */
static inline void
fixture_memory (PsiRankReport *rank, gint64 time_ps, PsiMemoryClass class, gint64 delta_bytes)
{
  GArray *points = rank->memory;
  guint i = points->len;

  while (i > 0 && g_array_index (points, PsiMemoryPoint, i - 1).time_ps > time_ps)
    i--;
  if (i == 0 || g_array_index (points, PsiMemoryPoint, i - 1).time_ps < time_ps)
    {
      PsiMemoryPoint point = { 0 };
      if (i > 0)
        point = g_array_index (points, PsiMemoryPoint, i - 1);
      point.time_ps = time_ps;
      g_array_insert_val (points, i, point);
      i++;
    }
  for (i--; i < points->len; i++)
    g_array_index (points, PsiMemoryPoint, i).bytes[class] += delta_bytes;
}

static inline PsiRankReport *
fixture_rank (PsiPlanReport *plan, guint id, int stage, guint count, gint64 parameters_bytes)
{
  PsiRankReport *rank = psi_plan_report_add_rank (plan);

  rank->rank = id;
  rank->stage = stage;
  rank->count = count;
  rank->overhead_bytes = 1100 * FIXTURE_MIB;
  rank->memory = g_array_new (FALSE, FALSE, sizeof (PsiMemoryPoint));
  rank->spans = g_array_new (FALSE, FALSE, sizeof (PsiSpan));
  fixture_memory (rank, 0, PSI_MEMORY_PARAMETERS, parameters_bytes);
  fixture_memory (rank, 0, PSI_MEMORY_GRADIENTS, 2 * parameters_bytes);
  fixture_memory (rank, 0, PSI_MEMORY_OPTIMIZER, 6 * parameters_bytes);
  fixture_memory (rank, 0, PSI_MEMORY_WORKSPACE, 300 * FIXTURE_MIB);
  return rank;
}

/* Sums and maxima that follow from the curves. */
static inline void
fixture_finish (PsiPlanReport *plan)
{
  gint64 sent = 0, bubble_ps = 0;
  guint gpus = 0;

  for (guint i = 0; i < plan->ranks->len; i++)
    {
      PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, i);
      for (guint p = 0; p < rank->memory->len; p++)
        {
          const PsiMemoryPoint *point = &g_array_index (rank->memory, PsiMemoryPoint, p);
          gint64 sum = 0;
          for (guint c = 0; c < PSI_N_MEMORY; c++)
            sum += point->bytes[c];
          if (sum > rank->peak_bytes)
            {
              rank->peak_bytes = sum;
              rank->peak_at_ps = point->time_ps;
              for (guint c = 0; c < PSI_N_MEMORY; c++)
                rank->at_peak[c] = point->bytes[c];
            }
          rank->activations_peak_bytes = MAX (rank->activations_peak_bytes, point->bytes[PSI_MEMORY_ACTIVATIONS]);
        }
      rank->steady_bytes = rank->at_peak[0] + rank->at_peak[1] + rank->at_peak[2];
      rank->reserved_bytes = rank->peak_bytes + 700 * FIXTURE_MIB;
      rank->device_bytes = rank->reserved_bytes + rank->overhead_bytes;
      rank->time_ps[PSI_TIME_BUBBLE] = plan->step_time_ps - rank->time_ps[PSI_TIME_COMPUTE] -
                                       rank->time_ps[PSI_TIME_EXPOSED_COMM] - rank->time_ps[PSI_TIME_OPTIMIZER] -
                                       rank->time_ps[PSI_TIME_OTHER];
      bubble_ps += rank->count * rank->time_ps[PSI_TIME_BUBBLE];
      plan->peak_bytes = MAX (plan->peak_bytes, rank->peak_bytes);
      plan->steady_bytes = MAX (plan->steady_bytes, rank->steady_bytes);
      plan->reserved_bytes = MAX (plan->reserved_bytes, rank->reserved_bytes);
      plan->device_bytes = MAX (plan->device_bytes, rank->device_bytes);
      plan->per_gpu_max_bytes = MAX (plan->per_gpu_max_bytes, rank->sent_bytes);
      sent += rank->count * rank->sent_bytes;
      gpus += rank->count;
    }
  plan->gpus = gpus;
  plan->total_bytes = sent;
  plan->per_gpu_bytes = sent / gpus;
  plan->bubble_fraction = (double) bubble_ps / ((double) plan->step_time_ps * gpus);
  if (plan->capacity_bytes >= 0)
    plan->verdict = plan->device_bytes > plan->capacity_bytes            ? PSI_VERDICT_OOM
                    : plan->device_bytes > plan->capacity_bytes / 10 * 9 ? PSI_VERDICT_TIGHT
                                                                         : PSI_VERDICT_FITS;
}

/* 1F1B with flush on p stages, m micro-batches, `replicas` GPUs in each class. Slots follow from the dependencies. */
static inline PsiPlanReport *
fixture_pipeline (const char *name, guint p, guint m, guint replicas)
{
  PsiPlanReport *plan = psi_plan_report_new (name);
  g_autofree gint64 *forward_end = g_new0 (gint64, p * m), *backward_end = g_new0 (gint64, p * m);
  g_autofree gint64 *clock = g_new0 (gint64, p);
  g_autofree guint *n_forward = g_new0 (guint, p), *n_backward = g_new0 (guint, p);
  const gint64 activations_bytes = 3 * FIXTURE_GIB + 217 * FIXTURE_MIB, boundary_bytes = 64 * FIXTURE_MIB;
  gint64 last = 0;

  for (guint r = 0; r < p; r++)
    {
      PsiRankReport *rank = fixture_rank (plan, r * replicas, (int) r, replicas,
                                          3 * FIXTURE_GIB + (r == 0 || r + 1 == p ? 250 : 0) * FIXTURE_MIB);
      rank->sent_bytes = (gint64) m * boundary_bytes * ((r > 0) + (r + 1 < p));
    }
  for (gboolean moved = TRUE; moved;)
    {
      moved = FALSE;
      for (guint r = 0; r < p; r++)
        {
          PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, r);
          guint warm = MIN (m, p - r);
          gboolean is_forward = n_forward[r] < m && n_forward[r] < n_backward[r] + warm;
          guint mb = is_forward ? n_forward[r] : n_backward[r];
          gint64 ready = clock[r];
          if (mb >= m)
            continue;
          if (is_forward && r > 0)
            {
              if (forward_end[(r - 1) * m + mb] == 0)
                continue;
              ready = MAX (ready, forward_end[(r - 1) * m + mb] + FIXTURE_SEND_PS);
            }
          if (!is_forward && r + 1 < p)
            {
              if (backward_end[(r + 1) * m + mb] == 0)
                continue;
              ready = MAX (ready, backward_end[(r + 1) * m + mb] + FIXTURE_SEND_PS);
            }
          gint64 length = is_forward ? FIXTURE_FORWARD_PS : FIXTURE_BACKWARD_PS;
          fixture_span (rank, is_forward ? PSI_SPAN_FORWARD : PSI_SPAN_BACKWARD, ready, length, (int) mb, (int) r);
          fixture_memory (rank, is_forward ? ready : ready + length, PSI_MEMORY_ACTIVATIONS,
                          is_forward ? activations_bytes : -activations_bytes);
          if (is_forward ? r + 1 < p : r > 0)
            {
              fixture_span (rank, PSI_SPAN_COMMUNICATION, ready + length, FIXTURE_SEND_PS, (int) mb, (int) r);
              fixture_memory (rank, ready + length, PSI_MEMORY_BOUNDARY, boundary_bytes);
              fixture_memory (rank, ready + length + FIXTURE_SEND_PS, PSI_MEMORY_BOUNDARY, -boundary_bytes);
            }
          clock[r] = ready + length;
          last = MAX (last, clock[r]);
          *(is_forward ? &forward_end[r * m + mb] : &backward_end[r * m + mb]) = clock[r];
          (*(is_forward ? &n_forward[r] : &n_backward[r]))++;
          moved = TRUE;
        }
    }
  plan->step_time_ps = last + FIXTURE_OPTIMIZER_PS;
  for (guint r = 0; r < p; r++)
    {
      PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, r);
      fixture_span (rank, PSI_SPAN_OPTIMIZER, clock[r], FIXTURE_OPTIMIZER_PS, -1, (int) r);
      rank->time_ps[PSI_TIME_COMPUTE] = m * (FIXTURE_FORWARD_PS + FIXTURE_BACKWARD_PS);
      rank->exposed_ps[PSI_TRAFFIC_BOUNDARY] = p > 1 ? 2 * FIXTURE_SEND_PS : 0;
      rank->time_ps[PSI_TIME_EXPOSED_COMM] = rank->exposed_ps[PSI_TRAFFIC_BOUNDARY];
      rank->time_ps[PSI_TIME_OPTIMIZER] = FIXTURE_OPTIMIZER_PS;
      plan->by_kind[PSI_TRAFFIC_BOUNDARY] += rank->count * rank->sent_bytes;
    }
  plan->capacity_bytes = 79 * FIXTURE_GIB + 150 * FIXTURE_MIB;
  plan->layout = g_strdup_printf ("dp %u x tp 1 x pp %u, K = %u, 1f1b, %u micro-batches", replicas, p, p, m);
  plan->samples_per_s = m * replicas / ((double) plan->step_time_ps / 1e12);
  plan->tokens_per_s = plan->samples_per_s * 4096;
  plan->model_tflops_per_gpu = 141.5;
  plan->mfu = 0.4535;
  plan->hfu = 0.4535;
  plan->step_time_low_s = (double) plan->step_time_ps / 1e12 * 0.96;
  plan->step_time_high_s = (double) plan->step_time_ps / 1e12 * 1.05;
  plan->update_rule = g_strdup ("synchronous");
  plan->parameter_versions = 1;
  plan->sequential_steps = p > 1 ? 1 : 0;
  plan->concurrent_peak_bytes = p > 1 ? 2 * boundary_bytes : 0;
  plan->digest = 0x00c0ffee12345678u;
  plan->activation_total_peak_bytes = (gint64) (p + 1) * p / 2 * activations_bytes * replicas;
  plan->activation_total_mean_bytes = 0.71 * (double) plan->activation_total_peak_bytes;
  g_ptr_array_add (plan->assumptions, g_strdup ("micro_batch = 1: not written"));
  g_ptr_array_add (plan->assumptions, g_strdup ("attention = flash: the framework's default"));
  fixture_finish (plan);

  plan->traffic = g_array_new (FALSE, FALSE, sizeof (PsiTrafficPoint));
  for (guint i = 0; i < 4 * m; i++)
    {
      PsiTrafficPoint point = { plan->step_time_ps / (4 * m) * i, (i % 3) * boundary_bytes * (p > 1) };
      g_array_append_val (plan->traffic, point);
    }
  return plan;
}

/* N workers that begin T/N apart (cyclic) or together (data parallel), K = N stages. */
static inline PsiPlanReport *
fixture_workers (const char *name, guint n, gboolean is_cyclic, gint64 activations_bytes)
{
  PsiPlanReport *plan = psi_plan_report_new (name);
  const gint64 slot_ps = FIXTURE_FORWARD_PS + FIXTURE_BACKWARD_PS, pass_ps = n * slot_ps;
  const gint64 exposed_ps = is_cyclic ? (n - 1) * FIXTURE_SEND_PS : 11 * FIXTURE_SEND_PS;

  plan->step_time_ps = pass_ps + exposed_ps;
  for (guint w = 0; w < (is_cyclic ? n : 1); w++)
    {
      PsiRankReport *rank = fixture_rank (plan, w, -1, is_cyclic ? 1 : n, 5 * FIXTURE_GIB);
      gint64 step_ps = plan->step_time_ps;
      for (guint j = 0; j < n; j++)
        {
          gint64 forward = (w * slot_ps + j * FIXTURE_FORWARD_PS) % step_ps;
          gint64 backward = (w * slot_ps + n * FIXTURE_FORWARD_PS + (n - 1 - j) * FIXTURE_BACKWARD_PS) % step_ps;
          gint64 free_at = (backward + FIXTURE_BACKWARD_PS) % step_ps;
          fixture_span (rank, PSI_SPAN_FORWARD, forward, FIXTURE_FORWARD_PS, (int) w, (int) j);
          fixture_span (rank, PSI_SPAN_BACKWARD, backward, FIXTURE_BACKWARD_PS, (int) w, (int) j);
          fixture_span (rank, PSI_SPAN_COMMUNICATION, free_at, FIXTURE_SEND_PS, (int) w, (int) j);
          fixture_memory (rank, forward, PSI_MEMORY_ACTIVATIONS, activations_bytes / n);
          fixture_memory (rank, free_at, PSI_MEMORY_ACTIVATIONS, -activations_bytes / n);
          if (free_at < forward) /* alive across the seam between two steps */
            fixture_memory (rank, 0, PSI_MEMORY_ACTIVATIONS, activations_bytes / n);
        }
      rank->time_ps[PSI_TIME_COMPUTE] = pass_ps;
      rank->time_ps[PSI_TIME_EXPOSED_COMM] = rank->exposed_ps[PSI_TRAFFIC_GRADIENTS] = exposed_ps;
      rank->sent_bytes = 2 * (n - 1) * 10 * FIXTURE_GIB / n;
    }
  plan->capacity_bytes = 79 * FIXTURE_GIB + 150 * FIXTURE_MIB;
  plan->layout = g_strdup_printf ("dp %u x tp 1 x pp 1, K = %u, %s", n, n, is_cyclic ? "cyclic" : "none");
  plan->samples_per_s = n / ((double) plan->step_time_ps / 1e12);
  plan->tokens_per_s = plan->samples_per_s * 4096;
  plan->model_tflops_per_gpu = 150.25;
  plan->mfu = 0.4816;
  plan->hfu = 0.4816;
  plan->update_rule = g_strdup (is_cyclic ? "cyclic-v2" : "synchronous");
  plan->delay_mean = is_cyclic ? (n - 1) / (2.0 * n) : 0;
  plan->delay_max = is_cyclic ? 1 : 0;
  plan->parameter_versions = is_cyclic ? 2 : 1;
  plan->sequential_steps = is_cyclic ? 1 : 2 * (n - 1);
  plan->activation_total_peak_bytes = is_cyclic ? activations_bytes / 2 * (n + 1) : activations_bytes * n;
  plan->activation_total_mean_bytes = (double) activations_bytes / 2 * (n + 1);
  plan->digest = 0xfedcba9876543210u;
  g_ptr_array_add (plan->assumptions, g_strdup ("optimizer = adam: not written"));
  fixture_finish (plan);
  plan->by_kind[PSI_TRAFFIC_GRADIENTS] = plan->total_bytes;
  plan->concurrent_peak_bytes = plan->total_bytes / 8;
  if (plan->verdict == PSI_VERDICT_OOM)
    {
      PsiAdvice advice = { g_strdup ("recompute=selective"), 61 * FIXTURE_GIB, plan->step_time_ps / 4 * 5 };
      g_array_append_val (plan->advice, advice);
    }

  plan->traffic = g_array_new (FALSE, FALSE, sizeof (PsiTrafficPoint));
  for (guint i = 0; i < 2 * n; i++)
    {
      PsiTrafficPoint point = { plan->step_time_ps / (2 * n) * i, is_cyclic       ? (gint64) (2 + i % 2) * FIXTURE_GIB
                                                                  : i + 2 < 2 * n ? 0
                                                                                  : 20 * FIXTURE_GIB };
      g_array_append_val (plan->traffic, point);
    }
  return plan;
}

static inline PsiReport *
fixture_report_empty (void)
{
  PsiReport *report = psi_report_new ();

  report->scenario = g_strdup ("gpt.scn");
  report->title = g_strdup ("Pipeline against cyclic data parallelism");
  report->machine = g_strdup ("a100-sxm-80");
  report->machine_description = g_strdup ("8 x NVIDIA A100-SXM4-80GB, NVLink 300 GB/s");
  report->machine_kind = g_strdup ("datasheet");
  report->model = g_strdup ("llama-2-7b");
  report->model_description = g_strdup ("32 layers, hidden 4096, sequence 4096, bf16");
  report->model_parameters = 6738415616;
  return report;
}

/* Down the pipeline, the work of its last rank, and up again, with messages: enough to print. */
static inline PsiCriticalPath *
fixture_critical_path (const PsiPlanReport *plan)
{
  PsiCriticalPath *path = g_new0 (PsiCriticalPath, 1);
  const guint n = 40;

  path->duration_ps = plan->step_time_ps;
  path->segments = g_array_new (FALSE, FALSE, sizeof (PsiCriticalSegment));
  path->ranks = g_array_new (FALSE, FALSE, sizeof (PsiCriticalRank));
  for (guint i = 0; i < n; i++)
    {
      const PsiCriticalSegment segment = { .rank = i % 4,
                                           .stage = (int) i % 4,
                                           .what = i % 2 == 0 ? "forward" : "boundary",
                                           .micro_batch = (gint32) i,
                                           .part = -1,
                                           .first_layer = -1,
                                           .last_layer = -1,
                                           .start_ps = plan->step_time_ps / n * i,
                                           .duration_ps = plan->step_time_ps / n,
                                           .from_rank = i > 0 ? (i - 1) % 4 : 0,
                                           .reason = i > 0 ? "that rank was waited for" : "the step before is over" };

      g_array_append_val (path->segments, segment);
    }
  for (guint r = 0; r < 4; r++)
    {
      const PsiCriticalRank rank = { r, (int) r, plan->step_time_ps / 4 };

      g_array_append_val (path->ranks, rank);
    }
  path->kind_ps[PSI_CRITICAL_COMPUTE] = plan->step_time_ps / 2;
  path->kind_ps[PSI_CRITICAL_TRAFFIC + PSI_TRAFFIC_BOUNDARY] = plan->step_time_ps - plan->step_time_ps / 2;
  path->shared_ps = 1000000;
  return path;
}

static inline PsiWhatHelps *
fixture_what_helps (const PsiPlanReport *plan)
{
  PsiWhatHelps *helps = psi_what_helps_new ();
  const PsiLinkHelp inside = { g_strdup ("nvlink3"), FALSE, 300e9, 0.1, 120e9, 8e9 };
  const PsiLinkHelp between = { g_strdup ("hdr200"), TRUE, 25e9, 0.1, (double) NAN, (double) NAN };
  const PsiDegreeHelp degree = { g_strdup ("tp=2 dp=4"), 8, PSI_VERDICT_FITS, 41 * FIXTURE_GIB, plan->step_time_ps / 2,
                                 2 * plan->samples_per_s };

  g_array_append_val (helps->links, inside);
  g_array_append_val (helps->links, between);
  g_array_append_val (helps->degrees, degree);
  helps->one_gpu_samples_per_s = plan->samples_per_s / 4;
  return helps;
}

/* Two plans: a pipeline of four rank classes that fits, and four cyclic workers that do not. */
static inline PsiReport *
fixture_report (void)
{
  PsiReport *report = fixture_report_empty ();

  g_ptr_array_add (report->plans, fixture_pipeline ("1f1b", 4, 8, 2));
  g_ptr_array_add (report->plans, fixture_workers ("cdp-v2", 4, TRUE, 36 * FIXTURE_GIB));
  for (guint i = 0; i < report->plans->len; i++) /* asked for: all plans have one */
    {
      PsiPlanReport *plan = report->plans->pdata[i];

      plan->critical_path = fixture_critical_path (plan);
      plan->what_helps = fixture_what_helps (plan);
    }
  return report;
}
