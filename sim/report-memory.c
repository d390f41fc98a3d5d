/* SPDX-License-Identifier: MIT */
/* From peaks to what a GPU needs:
 *
 *   reserved   peak + what the allocator caches (step-reserved.c, step-replay.c)
 *   device     reserved + context + buffers of communicators
 *   verdict    oom: device > capacity; tight: less than a tenth of it free */
#include "report-memory.h"

#include "psi-account.h"
#include "report-levels.h"

#define SEGMENT_BYTES (2 << 20)
#define TIGHT_SHARE 0.1

/* NCCL's buffers: channels x connections x (LL + LL128 + Simple = 9.19 MiB, NCCL 2.28 device.h and init.cc), and the
 * context. Nothing on a machine without a context. */
gint64
psi_report_overhead_bytes (const PsiStep *step)
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

/* What the allocator caches on a rank. */
static gint64
cache_bytes_of (const PsiPlanReport *plan, const PsiStep *step, guint rank)
{
  gint64 capacity_bytes =
      plan->capacity_bytes < 0 ? -1 : MAX (plan->capacity_bytes - psi_report_overhead_bytes (step), 0);

  if (step->schedule->pool != NULL || plan->ranks->len != step->n_ranks)
    return 0;
  if (psi_step_has_script (step))
    return psi_step_replayed_bytes (step, &step->ranks[rank], capacity_bytes) -
           g_array_index (plan->ranks, PsiRankReport, rank).peak_bytes;
  return psi_step_cache_bytes (step, &step->ranks[rank], capacity_bytes);
}

static guint
fullest_of (const PsiPlanReport *plan)
{
  guint fullest = 0;

  for (guint i = 1; i < plan->ranks->len; i++)
    if (g_array_index (plan->ranks, PsiRankReport, i).peak_bytes >
        g_array_index (plan->ranks, PsiRankReport, fullest).peak_bytes)
      fullest = i;
  return fullest;
}

/* The allocator is followed on the fullest rank, and on the first where a script says what it does; the others are
 * taken to cache as much as the fullest. */
void
psi_report_fill_memory (PsiPlanReport *plan, const PsiStep *step)
{
  gboolean real = step->machine->gpu.context_bytes > 0;
  guint fullest = fullest_of (plan);

  plan->capacity_bytes = step->machine->gpu.memory_bytes;
  gint64 cache_bytes = real ? cache_bytes_of (plan, step, fullest) : 0;
  gint64 first_bytes = real && fullest > 0 && psi_step_has_script (step) ? cache_bytes_of (plan, step, 0) : cache_bytes;
  for (guint i = 0; i < plan->ranks->len; i++)
    {
      PsiRankReport *row = &g_array_index (plan->ranks, PsiRankReport, i);
      gint64 held_bytes = row->peak_bytes + MAX (i == 0 ? first_bytes : cache_bytes, 0);

      row->overhead_bytes = psi_report_overhead_bytes (step);
      row->reserved_bytes = real ? (held_bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES * SEGMENT_BYTES : row->peak_bytes;
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
void
psi_report_fill_activations (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run, const PsiReportEquals *equals,
                             PsiTime origin_ps)
{
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
  PsiLevels levels;

  /* Ranks at paces of their own each on its own clock. */
  for (guint r = 0; r < step->n_ranks; r++)
    {
      if (equals->gpus[r] > 0)
        psi_report_memory_events (step, run, &step->ranks[r], equals->gpus[r], events);
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
  gint64 least_bytes = psi_report_overhead_bytes (step) + least_activation_bytes (rank->program);

  for (guint c = 0; c < PSI_N_MEMORY; c++)
    least_bytes += rank->base[c];
  return capacity_bytes >= 0 && least_bytes > capacity_bytes;
}
