/* SPDX-License-Identifier: MIT */
#include "schedule.h"

#include <string.h>

G_DEFINE_QUARK (psi - schedule - error - quark, psi_schedule_error)

const PsiScheduleKind *const psi_schedules[] = { &psi_schedule_none,
                                                 &psi_schedule_naive,
                                                 &psi_schedule_gpipe,
                                                 &psi_schedule_1f1b,
                                                 &psi_schedule_interleaved,
                                                 &psi_schedule_cyclic,
                                                 NULL };

const PsiScheduleKind *
psi_schedule_kind_find (const char *name)
{
  for (guint i = 0; psi_schedules[i] != NULL; i++)
    if (strcmp (psi_schedules[i]->name, name) == 0)
      return psi_schedules[i];
  return NULL;
}

PsiSchedule *
psi_schedule_new (guint n_ranks, guint n_chunks, gint64 micro_batches)
{
  PsiSchedule *schedule = g_new0 (PsiSchedule, 1);

  schedule->n_ranks = n_ranks;
  schedule->n_chunks = n_chunks;
  schedule->n_parts = n_ranks * n_chunks;
  schedule->micro_batches = micro_batches;
  schedule->parts = g_new (guint, n_ranks * n_chunks);
  schedule->lists = g_new (GArray *, n_ranks);
  for (guint r = 0; r < n_ranks; r++)
    schedule->lists[r] = g_array_new (FALSE, FALSE, sizeof (PsiToken));
  for (guint i = 0; i < n_ranks * n_chunks; i++)
    schedule->parts[i] = i;
  return schedule;
}

void
psi_schedule_free (PsiSchedule *schedule)
{
  if (schedule == NULL)
    return;
  for (guint r = 0; r < schedule->n_ranks; r++)
    g_array_unref (schedule->lists[r]);
  g_free (schedule->lists);
  g_free (schedule->parts);
  g_free (schedule->stale);
  g_free (schedule->first_use_ps);
  g_free (schedule->lifetime_ps);
  g_free (schedule->forward_ps);
  g_free (schedule->backward_ps);
  g_free (schedule->pool);
  g_free (schedule);
}

void
psi_schedule_add (PsiSchedule *schedule, guint rank, PsiTokenKind kind, gint64 micro_batch, guint chunk)
{
  PsiToken token = { .kind = (guint8) kind, .chunk = (gint16) chunk, .micro_batch = (gint32) micro_batch };

  g_array_append_val (schedule->lists[rank], token);
}
