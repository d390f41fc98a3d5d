/* SPDX-License-Identifier: MIT */
#include "report-traffic.h"

#include "psi-account.h"
#include "psi-fold.h"
#include "report-update.h"

/* Bytes of a step; what the root of a parameter server sends for this rank goes to *served. */
static gint64
add_sent (const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, const PsiOp *op, gint64 times,
          gint64 *by_kind, gint64 *served)
{
  const PsiTransferInfo *info = &g_array_index (step->infos, PsiTransferInfo, op->transfer);
  gint64 bytes = times * psi_report_per_step (run, rank->id, info->sent_bytes);

  by_kind[info->traffic] += bytes;
  if (!info->by_server)
    return bytes;
  *served += bytes;
  return 0;
}

gint64
psi_report_sent_bytes (const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, gint64 *by_kind, gint64 *served)
{
  const PsiProgram *program = rank->program;
  g_autofree gint64 *n_folded = g_new0 (gint64, psi_program_n_folds (program) + 1);
  const PsiOpTimes *times = run->times + run->first_op[rank->id];
  gint64 sum = 0;

  for (guint s = 0; s < program->n_streams; s++)
    for (guint i = 0; i < program->streams[s]->len; i++, times++)
      {
        const PsiOp *op = &g_array_index (program->streams[s], PsiOp, i);
        gint64 times_over = (gint64) psi_run_times_over (run, times->start_ps);

        if (!psi_op_is_work (op))
          sum += add_sent (step, run, rank, op, times_over, by_kind, served);
        else if (psi_op_fold (program, op) != NULL)
          n_folded[op->transfer - 1] += times_over;
      }
  for (guint p = 0; p < psi_program_n_folds (program); p++)
    {
      const PsiFold *fold = &g_array_index (program->folds, PsiFold, p);
      const PsiPart *parts = psi_fold_parts (program, fold);

      for (guint i = 0; i < fold->n_parts; i++)
        if (parts[i].op.kind != PSI_OP_WORK)
          sum += add_sent (step, run, rank, &parts[i].op, n_folded[p], by_kind, served);
    }
  return sum;
}

/* Bytes rise when a message starts and fall when it ends. */
static void
add_flight (const PsiStep *step, const PsiOp *op, PsiTime start_ps, PsiTime end_ps, guint gpus, PsiLevelWriter *writer)
{
  gint64 bytes = g_array_index (step->infos, PsiTransferInfo, op->transfer).flight_bytes * gpus;

  if (bytes == 0)
    return;
  psi_level_write (writer, start_ps, bytes, 0);
  psi_level_write (writer, end_ps, -bytes, 0);
}

static void
add_flights (const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, guint gpus, PsiLevelWriter *writer)
{
  const PsiProgram *program = rank->program;
  const PsiOpTimes *times = run->times + run->first_op[rank->id];

  for (guint s = 0; s < program->n_streams; s++)
    for (guint i = 0; i < program->streams[s]->len; i++, times++)
      {
        const PsiOp *op = &g_array_index (program->streams[s], PsiOp, i);
        const PsiFold *fold = psi_op_fold (program, op);

        if (!psi_op_is_work (op))
          add_flight (step, op, times->start_ps, times->end_ps, gpus, writer);
        for (guint k = 0; fold != NULL && k < fold->n_parts; k++)
          {
            const PsiPart *part = &psi_fold_parts (program, fold)[k];

            if (part->op.kind != PSI_OP_WORK)
              add_flight (step, &part->op, times->start_ps + part->start_ps, times->start_ps + part->end_ps, gpus,
                          writer);
          }
      }
}

void
psi_report_fill_traffic (PsiPlanReport *plan, const PsiStep *step, const PsiRun *run, const guint *gpus,
                         PsiTime origin_ps, gboolean keeps_curve)
{
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
  g_autoptr (GArray) curve =
      keeps_curve && run->paces_ps == NULL ? g_array_new (FALSE, FALSE, sizeof (PsiLevelPoint)) : NULL;
  PsiLevels levels;

  /* Nothing keeps ranks at paces of their own apart: their peaks are taken to meet. */
  for (guint r = 0; r < step->n_ranks; r++)
    {
      PsiLevelWriter writer = { events, events->len };

      if (gpus[r] > 0)
        add_flights (step, run, &step->ranks[r], gpus[r], &writer);
      psi_level_writer_end (&writer);
      if (run->paces_ps == NULL && r + 1 < step->n_ranks)
        continue;
      psi_account_run_levels (events, run, step->ranks[r].id, origin_ps, NULL, TRUE, &levels, curve);
      plan->concurrent_peak_bytes += levels.peak_bytes;
      g_array_set_size (events, 0);
    }
  plan->sequential_steps = psi_account_chain (step->world);
  if (curve != NULL)
    {
      plan->traffic = g_array_new (FALSE, FALSE, sizeof (PsiTrafficPoint));
      for (guint i = 0; i < curve->len; i++)
        {
          const PsiLevelPoint *from = &g_array_index (curve, PsiLevelPoint, i);
          PsiTrafficPoint point = { from->time_ps, from->bytes[0] };

          g_array_append_val (plan->traffic, point);
        }
    }
}
