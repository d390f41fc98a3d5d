/* SPDX-License-Identifier: MIT */
/* A row of the report:
 *
 *   time       of a rank's compute stream: busy by tag; waiting while bytes it needs are on a link is exposed_comm, any
 *              other waiting is bubble. GPUs of a pool: sums over the workers they serve, divided by the GPUs
 *   memory     bytes at rest + what ops hold, followed through one period on a common clock; the peak is the largest
 *              sum */
#include "report-ranks.h"

#include "report-levels.h"
#include "report-traffic.h"
#include "report-update.h"

#include "psi-account.h"

#include <string.h>

#define MOST_BYTES 4e18 /* of all GPUs together: what still fits 64 bits */

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

  psi_report_memory_events (step, run, rank, 1, events);
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

void
psi_report_equals_init (PsiReportEquals *equals, const PsiStep *step, const PsiRun *run)
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

void
psi_report_equals_clear (PsiReportEquals *equals)
{
  g_free (equals->first);
  g_free (equals->gpus);
}

/* The row of an equal rank, for another GPU. FALSE: it must be filled. */
static gboolean
copy_row (PsiPlanReport *plan, const PsiStep *step, const PsiReportEquals *equals, guint r, PsiRankReport *row)
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

/* One row for each class of equal GPUs; the workers of a pool share a row. */
gboolean
psi_report_fill_ranks (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run, const PsiReportEquals *equals,
                       PsiTime origin_ps, PsiReportDepth depth)
{
  gboolean curves = depth == PSI_REPORT_CURVES;
  const guint *pool = step->schedule->pool;
  guint first_gpu = 0;
  gint64 served = 0;
  double in_all_bytes = 0;

  for (guint r = 0; r < step->n_ranks;)
    {
      const PsiStepRank *rank = &step->ranks[r];
      guint members = pool != NULL ? step->schedule->n_workers : 1;
      PsiRankReport *row = psi_plan_report_add_rank (plan);
      gint64 sent = 0, by_kind[PSI_N_TRAFFIC] = { 0 };

      row->stage = rank->stage;
      row->rank = pool != NULL ? first_gpu : rank->first_gpu;
      row->count = pool != NULL ? pool[rank->stage] * rank->count : rank->count;
      first_gpu += row->count;
      if (curves)
        row->spans = g_array_new (FALSE, FALSE, sizeof (PsiSpan));
      gboolean copied = copy_row (plan, step, equals, r, row);
      for (guint m = 0; m < members; m++)
        {
          if (depth > PSI_REPORT_FIT)
            sent += psi_report_sent_bytes (step, run, &rank[m], by_kind, &served);
          if (copied)
            continue;
          if (depth > PSI_REPORT_FIT || step->machine->band_high > 0)
            add_time (step, run, &rank[m], row);
          add_memory (step, run, &rank[m], origin_ps, curves, row);
          if (curves)
            add_spans (step, run, &rank[m], origin_ps, row->spans);
        }
      in_all_bytes += ((double) sent + (double) row->peak_bytes) * row->count;
      if (in_all_bytes > MOST_BYTES)
        return FALSE;
      for (guint k = 0; k < PSI_N_TRAFFIC; k++)
        plan->by_kind[k] += by_kind[k] * rank->count;
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
  return TRUE;
}
