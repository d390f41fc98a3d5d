/* SPDX-License-Identifier: MIT */
/* Definitions of what the report prints:
 *
 *   time       of a rank's compute stream: busy by tag; waiting while bytes it needs are on a link is exposed_comm, any
 *              other waiting is bubble. GPUs of a pool: sums over the workers they serve, divided by the GPUs
 *   memory     bytes at rest + what ops hold, followed through one period on a common clock; the peak is the largest
 *              sum
 *   reserved   peak + what the allocator caches (step-reserved.c); device = reserved + context + communicator buffers
 *   mfu        model FLOPs (3 x forward) / (step time x GPUs x peak of the format); hfu counts recomputed FLOPs too
 *   verdict    oom: device > capacity; tight: less than a tenth of it free */
#include "report-fill.h"
#include "report-assumptions.h"
#include "report-band.h"
#include "report-notes.h"
#include "report-traffic.h"
#include "report-update.h"

#include "critical-path.h"
#include "psi-account.h"

#include <math.h>
#include <string.h>

#define SEGMENT_BYTES (2 << 20)
#define TIGHT_SHARE 0.1

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

static PsiTimePart
part_of_tag (guint tag)
{
  return tag == PSI_TAG_RECOMPUTE   ? PSI_TIME_RECOMPUTE
         : tag == PSI_TAG_OPTIMIZER ? PSI_TIME_OPTIMIZER
                                    : PSI_TIME_COMPUTE;
}

static void
add_time (const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, PsiRankReport *row)
{
  PsiTimeSplit split;

  psi_account_time (step->world, run, rank->id, &split);
  for (guint tag = 0; tag < PSI_TAG_TURN; tag++)
    row->time_ps[part_of_tag (tag)] += split.busy_ps[tag];
  for (guint t = 0; t < PSI_N_TRAFFIC; t++)
    {
      row->time_ps[PSI_TIME_EXPOSED_COMM] += split.moving_ps[PSI_TAG_TRAFFIC + t];
      row->exposed_ps[t] += split.moving_ps[PSI_TAG_TRAFFIC + t];
    }
  row->time_ps[PSI_TIME_BUBBLE] += split.still_ps + split.moving_ps[PSI_TAG_TURN];
}

/* Several workers took turns on `gpus` GPUs: means per GPU that still add up to the period. */
static void
share_time (PsiRankReport *row, guint gpus, PsiTime period_ps)
{
  PsiTime left_ps = period_ps;
  PsiTime exposed_ps = row->time_ps[PSI_TIME_EXPOSED_COMM];

  for (guint part = 0; part < PSI_N_TIME; part++)
    {
      row->time_ps[part] = part == PSI_TIME_BUBBLE ? 0 : MIN (row->time_ps[part] / gpus, left_ps);
      left_ps -= row->time_ps[part];
    }
  row->time_ps[PSI_TIME_BUBBLE] = left_ps;
  for (guint t = 0; t < PSI_N_TRAFFIC && exposed_ps > 0; t++)
    row->exposed_ps[t] =
        (gint64) ((double) row->exposed_ps[t] / (double) exposed_ps * (double) row->time_ps[PSI_TIME_EXPOSED_COMM]);
}

static const PsiSpanKind span_of_tag[] = { [PSI_TAG_FORWARD] = PSI_SPAN_FORWARD,
                                           [PSI_TAG_BACKWARD] = PSI_SPAN_BACKWARD,
                                           [PSI_TAG_WEIGHT] = PSI_SPAN_WEIGHT,
                                           [PSI_TAG_RECOMPUTE] = PSI_SPAN_RECOMPUTE,
                                           [PSI_TAG_OPTIMIZER] = PSI_SPAN_OPTIMIZER };

static void
add_spans (const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, PsiTime origin_ps, GArray *spans)
{
  const PsiOpTimes *times = run->times + run->first_op[rank->id];
  PsiTime pace_ps = psi_run_fold_ps (run, rank->id);

  for (guint s = 0; s < rank->program->n_streams; s++)
    for (guint i = 0; i < rank->program->streams[s]->len; i++, times++)
      {
        const PsiOp *op = &g_array_index (rank->program->streams[s], PsiOp, i);
        PsiTime start_ps = times->start_ps - origin_ps;
        PsiSpan span = { .track = (guint8) s, .micro_batch = op->label[0], .stage = op->label[1] };

        if (times->end_ps == times->start_ps || op->tag == PSI_TAG_TURN)
          continue;
        if (pace_ps > 0)
          start_ps -= (start_ps / pace_ps - (start_ps % pace_ps < 0)) * pace_ps;
        span.start_ps = start_ps;
        span.end_ps = start_ps + times->end_ps - times->start_ps;
        span.kind = (guint8) (op->tag >= PSI_TAG_TRAFFIC ? PSI_SPAN_COMMUNICATION : span_of_tag[op->tag]);
        /* Layers of one part that follow without a break are one span. */
        if (spans->len > 0)
          {
            PsiSpan *before = &g_array_index (spans, PsiSpan, spans->len - 1);

            if (before->track == span.track && before->kind == span.kind && before->micro_batch == span.micro_batch &&
                before->stage == span.stage && before->end_ps == span.start_ps)
              {
                before->end_ps = span.end_ps;
                continue;
              }
          }
        g_array_append_val (spans, span);
      }
}

static void
add_memory (const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, PsiTime origin_ps, gboolean curves,
            PsiRankReport *row)
{
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
  g_autoptr (GArray) curve = curves && row->memory == NULL ? g_array_new (FALSE, FALSE, sizeof (PsiLevelPoint)) : NULL;
  PsiLevels levels;

  psi_account_memory_events (step->world, run, rank->id, 1, events);
  psi_account_run_levels (events, run, rank->id, origin_ps, rank->base, FALSE, &levels, curve);
  row->activations_peak_bytes = MAX (row->activations_peak_bytes, levels.class_peak[PSI_MEMORY_ACTIVATIONS]);
  if (levels.peak_bytes > row->peak_bytes)
    {
      row->peak_bytes = levels.peak_bytes;
      row->peak_at_ps = levels.peak_at_ps;
      memcpy (row->at_peak, levels.at_peak, sizeof row->at_peak);
    }
  gint64 steady_bytes = 0;
  for (guint c = 0; c < PSI_N_MEMORY; c++)
    steady_bytes += rank->base[c];
  row->steady_bytes = MAX (row->steady_bytes, steady_bytes);
  if (curve != NULL)
    {
      row->memory = g_array_sized_new (FALSE, FALSE, sizeof (PsiMemoryPoint), curve->len);
      for (guint i = 0; i < curve->len; i++)
        {
          const PsiLevelPoint *from = &g_array_index (curve, PsiLevelPoint, i);
          PsiMemoryPoint point = { .time_ps = from->time_ps };

          memcpy (point.bytes, from->bytes, sizeof point.bytes);
          g_array_append_val (row->memory, point);
        }
    }
}

/* Ranks simulated one by one that did the same at the same times. */
typedef struct
{
  PsiRankId *first; /* [n_ranks] the lowest of those equal to a rank */
  guint *gpus;      /* [n_ranks] of all equal ones, where the rank is the lowest; else 0 */
} Equals;

static void
equals_init (Equals *equals, const PsiStep *step, const PsiRun *run)
{
  equals->first = psi_account_equals (step->world, run);
  equals->gpus = g_new0 (guint, step->n_ranks + 1);
  for (guint r = 0; r < step->n_ranks; r++)
    {
      /* What is always there must be the same too. */
      if (memcmp (step->ranks[r].base, step->ranks[equals->first[r]].base, sizeof step->ranks[r].base) != 0)
        equals->first[r] = r;
      equals->gpus[equals->first[r]] += step->ranks[r].count;
    }
}

static void
equals_clear (Equals *equals)
{
  g_free (equals->first);
  g_free (equals->gpus);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Equals, equals_clear)

/* The row of an equal rank, for another GPU. FALSE: it must be filled. */
static gboolean
copy_row (PsiPlanReport *plan, const PsiStep *step, const Equals *equals, guint r, PsiRankReport *row)
{
  const PsiRankReport *from = &g_array_index (plan->ranks, PsiRankReport, equals->first[r]);
  int stage = row->stage;
  guint rank = row->rank, count = row->count;

  if (step->schedule->pool != NULL || equals->first[r] == r || row->spans != NULL)
    return FALSE;
  *row = *from;
  row->stage = stage;
  row->rank = rank;
  row->count = count;
  return TRUE;
}

/* How much of a report is wanted. */
typedef enum
{
  FIT,     /* memory, step time, its band and throughput: enough to compare plans that might fit */
  NUMBERS, /* all but curves */
  CURVES
} Depth;

/* One row for each class of equal GPUs; the workers of a pool share a row. */
static void
fill_ranks (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run, const Equals *equals, PsiTime origin_ps,
            Depth depth)
{
  gboolean curves = depth == CURVES;
  const guint *pool = step->schedule->pool;
  guint first_gpu = 0;
  gint64 served = 0;

  for (guint r = 0; r < step->n_ranks;)
    {
      const PsiStepRank *rank = &step->ranks[r];
      guint members = pool != NULL ? step->schedule->n_workers : 1;
      PsiRankReport *row = psi_plan_report_add_rank (plan);
      gint64 sent = 0;

      row->stage = rank->stage;
      row->rank = pool != NULL ? first_gpu : rank->first_gpu;
      row->count = pool != NULL ? pool[rank->stage] * rank->count : rank->count;
      first_gpu += row->count;
      if (curves)
        row->spans = g_array_new (FALSE, FALSE, sizeof (PsiSpan));
      gboolean copied = copy_row (plan, step, equals, r, row);
      for (guint m = 0; m < members; m++)
        {
          if (depth > FIT)
            sent += psi_report_sent_bytes (step, run, &rank[m], plan->by_kind, &served);
          if (copied)
            continue;
          if (depth > FIT || step->machine->band_high > 0)
            add_time (step, run, &rank[m], row);
          add_memory (step, run, &rank[m], origin_ps, curves, row);
          if (curves)
            add_spans (step, run, &rank[m], origin_ps, row->spans);
        }
      if (pool != NULL)
        {
          share_time (row, pool[rank->stage], run->period_ps);
          plan->total_bytes += sent * rank->count;
          sent /= pool[rank->stage];
        }
      else
        plan->total_bytes += sent * row->count;
      row->sent_bytes = sent;
      plan->per_gpu_max_bytes = MAX (plan->per_gpu_max_bytes, sent);
      r += members;
    }
  if (served > 0)
    psi_report_add_served (plan, served);
  plan->per_gpu_bytes = plan->total_bytes / MAX (plan->gpus, 1);
}

/* NCCL's buffers: channels x connections x (LL + LL128 + Simple = 9.19 MiB, NCCL 2.28 device.h and init.cc), and the
 * context. Nothing on a machine without a context. */
static gint64
overhead_bytes (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;
  const guint degrees[] = { plan->dp * plan->cp, plan->tp, plan->cp, plan->pp };
  guint communicators = 0, channels = step->machine->intra.kind == PSI_LINK_NVLINK ? 20 : 2;

  if (step->machine->gpu.context_bytes == 0)
    return 0;
  for (guint i = 0; i < G_N_ELEMENTS (degrees); i++)
    communicators += degrees[i] > 1 && step->gpus > 1;
  communicators += plan->grad_clip && communicators > 1; /* the norm's, over all of them */
  return step->machine->gpu.context_bytes + (gint64) communicators * channels * 2 * (gint64) (9.19 * 1048576);
}

/* What the allocator caches on the fullest rank; the others are taken to cache as much. */
static gint64
cache_bytes_of_fullest (const PsiPlanReport *plan, const PsiStep *step)
{
  guint fullest = 0, n = plan->ranks->len;

  if (step->schedule->pool != NULL || n != step->n_ranks)
    return 0;
  for (guint i = 1; i < n; i++)
    if (g_array_index (plan->ranks, PsiRankReport, i).peak_bytes >
        g_array_index (plan->ranks, PsiRankReport, fullest).peak_bytes)
      fullest = i;
  return psi_step_cache_bytes (step, &step->ranks[fullest],
                               plan->capacity_bytes < 0 ? -1 : MAX (plan->capacity_bytes - overhead_bytes (step), 0));
}

static void
fill_memory (PsiPlanReport *plan, const PsiStep *step)
{
  gboolean real = step->machine->gpu.context_bytes > 0;

  plan->capacity_bytes = step->machine->gpu.memory_bytes;
  gint64 cache_bytes = real ? cache_bytes_of_fullest (plan, step) : 0;
  for (guint i = 0; i < plan->ranks->len; i++)
    {
      PsiRankReport *row = &g_array_index (plan->ranks, PsiRankReport, i);

      row->overhead_bytes = overhead_bytes (step);
      row->reserved_bytes =
          real ? (row->peak_bytes + cache_bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES * SEGMENT_BYTES : row->peak_bytes;
      row->device_bytes = row->reserved_bytes + row->overhead_bytes;
      plan->steady_bytes = MAX (plan->steady_bytes, row->steady_bytes);
      plan->peak_bytes = MAX (plan->peak_bytes, row->peak_bytes);
      plan->reserved_bytes = MAX (plan->reserved_bytes, row->reserved_bytes);
      plan->device_bytes = MAX (plan->device_bytes, row->device_bytes);
    }
  plan->verdict = plan->capacity_bytes < 0                    ? PSI_VERDICT_FITS
                  : plan->device_bytes > plan->capacity_bytes ? PSI_VERDICT_OOM
                  : (double) (plan->capacity_bytes - plan->device_bytes) < TIGHT_SHARE * (double) plan->capacity_bytes
                      ? PSI_VERDICT_TIGHT
                      : PSI_VERDICT_FITS;
}

/* All GPUs' activations on one clock. */
static void
fill_activations (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run, const Equals *equals, PsiTime origin_ps)
{
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
  PsiLevels levels;

  /* Ranks at paces of their own each on its own clock. */
  for (guint r = 0; r < step->n_ranks; r++)
    {
      if (equals->gpus[r] > 0)
        psi_account_memory_events (step->world, run, step->ranks[r].id, equals->gpus[r], events);
      if (run->paces_ps == NULL && r + 1 < step->n_ranks)
        continue;
      guint kept = 0;
      for (guint i = 0; i < events->len; i++)
        if (g_array_index (events, PsiLevelEvent, i).level == PSI_MEMORY_ACTIVATIONS)
          g_array_index (events, PsiLevelEvent, kept++) = g_array_index (events, PsiLevelEvent, i);
      g_array_set_size (events, kept);
      psi_account_run_levels (events, run, step->ranks[r].id, origin_ps, NULL, FALSE, &levels, NULL);
      plan->activation_total_peak_bytes += levels.peak_bytes;
      plan->activation_total_mean_bytes += levels.mean_bytes;
      g_array_set_size (events, 0);
    }
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
begin_report (const char *name, const PsiStep *step, const PsiRun *run, const Equals *equals, PsiTime origin_ps,
              Depth depth)
{
  PsiPlanReport *plan = psi_plan_report_new (name);

  plan->gpus = step->gpus;
  plan->step_time_ps = run->period_ps;
  fill_ranks (plan, step, run, equals, origin_ps, depth);
  psi_report_repeat (plan, step, run);
  fill_memory (plan, step);
  psi_report_fill_band (plan, step);
  return plan;
}

static PsiTime
origin_of (const PsiRun *run)
{
  return run->first_op[1] > 0 ? run->times[0].start_ps : 0;
}

PsiPlanReport *
psi_plan_report_fill_fit (const char *name, const PsiStep *step, const PsiRun *run)
{
  g_auto (Equals) equals = { NULL, NULL };

  equals_init (&equals, step, run);
  PsiPlanReport *plan = begin_report (name, step, run, &equals, origin_of (run), FIT);
  fill_throughput (plan, step);
  return plan;
}

/* The least that activations take at their worst instant: what ops of one stream take and give back in turn. 0: they
 * come and go in several streams, or behind folds, and do not tell. */
static gint64
least_activation_bytes (const PsiProgram *program)
{
  gint64 level_bytes = 0, most_bytes = 0;
  guint n_streams = 0;

  if (program->folds != NULL)
    return 0;
  for (guint s = 0; s < program->n_streams; s++)
    {
      const GArray *stream = program->streams[s];
      gboolean has_any = FALSE;

      for (guint i = 0; i < stream->len; i++)
        {
          gint64 sides_bytes[2] = { 0 }; /* when it starts, when it ends */

          for (guint32 d = g_array_index (stream, PsiOp, i).first_delta; d != PSI_CHAIN_END;)
            {
              const PsiDelta *delta = &g_array_index (program->deltas, PsiDelta, d);

              if (delta->memory_class == PSI_MEMORY_ACTIVATIONS)
                {
                  sides_bytes[delta->at_end != 0] += delta->bytes;
                  has_any = TRUE;
                }
              d = delta->next;
            }
          level_bytes += sides_bytes[0];
          most_bytes = MAX (most_bytes, level_bytes);
          level_bytes += sides_bytes[1];
          most_bytes = MAX (most_bytes, level_bytes);
        }
      n_streams += has_any;
    }
  return n_streams <= 1 ? most_bytes : 0;
}

gboolean
psi_report_cannot_fit (const PsiStep *step, const PsiStepRank *rank)
{
  gint64 capacity_bytes = step->machine->gpu.memory_bytes;
  gint64 least_bytes = overhead_bytes (step) + least_activation_bytes (rank->program);

  for (guint c = 0; c < PSI_N_MEMORY; c++)
    least_bytes += rank->base[c];
  return capacity_bytes >= 0 && least_bytes > capacity_bytes;
}

PsiPlanReport *
psi_plan_report_fill (const char *name, const PsiStep *step, const PsiRun *run, gboolean curves)
{
  PsiTime origin_ps = origin_of (run);
  g_auto (Equals) equals = { NULL, NULL };
  __int128 bubble_ps = 0; /* exact: the same however ranks are grouped */

  equals_init (&equals, step, run);
  PsiPlanReport *plan = begin_report (name, step, run, &equals, origin_ps, curves ? CURVES : NUMBERS);
  plan->layout = describe_layout (step);
  fill_activations (plan, step, run, &equals, origin_ps);
  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *row = &g_array_index (plan->ranks, PsiRankReport, i);

      bubble_ps += (__int128) row->time_ps[PSI_TIME_BUBBLE] * row->count;
      if (row->time_ps[PSI_TIME_COMPUTE] >
          g_array_index (plan->ranks, PsiRankReport, plan->main_rank).time_ps[PSI_TIME_COMPUTE])
        plan->main_rank = i;
    }
  plan->bubble_fraction = run->period_ps > 0 ? (double) bubble_ps / ((double) run->period_ps * plan->gpus) : 0;
  psi_report_fill_traffic (plan, step, run, equals.gpus, origin_ps, curves);
  fill_throughput (plan, step);
  psi_report_fill_update (plan, step, run);
  psi_report_fill_assumptions (plan, step, overhead_bytes (step));
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
