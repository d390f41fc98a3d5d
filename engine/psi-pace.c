/* SPDX-License-Identifier: MIT */
#include "psi-pace.h"

#include "psi-account.h"

static gsize
count_subjects (const PsiWorld *world)
{
  gsize n = 1;

  for (guint p = 0; p < world->programs->len; p++)
    {
      const PsiProgram *program = g_ptr_array_index (world->programs, p);

      for (guint s = 0; s < program->n_streams && program->serves; s++)
        for (guint i = 0; i < program->streams[s]->len; i++)
          {
            const PsiOp *op = &g_array_index (program->streams[s], PsiOp, i);

            if (op->kind == PSI_OP_SERVE)
              n = MAX (n, (gsize) op->transfer + 1);
          }
    }
  return n;
}

void
psi_pace_init (PsiLoop *loop, const PsiRun *run)
{
  guint n_ranks = loop->world->ranks->len;
  PsiPace *pace = g_new0 (PsiPace, 1);

  pace->n_ops = (gssize) run->first_op[n_ranks];
  pace->n_waits = (gssize) run->first_wait[n_ranks];
  pace->turns = g_new0 (guint32, run->first_op[n_ranks] + 1);
  pace->served = g_new0 (guint32, count_subjects (loop->world));
  pace->splits = g_new0 (PsiTimeSplit, n_ranks + 1);
  pace->lags = g_array_new (FALSE, FALSE, sizeof (guint32));
  loop->pace = pace;
  loop->horizon = G_MAXUINT32;
}

void
psi_pace_clear (PsiLoop *loop)
{
  PsiPace *pace = g_steal_pointer (&loop->pace);

  if (pace == NULL)
    return;
  g_free (pace->turns);
  g_free (pace->served);
  g_free (pace->splits);
  g_array_unref (pace->lags);
  g_free (pace);
}

void
psi_pace_account (PsiLoop *loop, const PsiStream *stream, const PsiStreamDetail *detail, PsiTime now_ps)
{
  const PsiOpTimes times = { detail->start_ps, now_ps };

  const PsiRank *rank = psi_world_rank (loop->world, detail->rank);

  if (stream->index == 0)
    psi_account_op (rank->program, &stream->ops[stream->position], &times, &detail->wait, stream->free_ps, rank->scale,
                    &loop->pace->splits[detail->rank]);
}

PsiTime
psi_pace_sent_ps (const PsiStreamDetail *detail, PsiTime now_ps)
{
  return detail->wait.before_ps == PSI_TIME_MAX ? PSI_TIME_MAX
                                                : now_ps - (detail->wait.post_ps - detail->wait.before_ps);
}
