/* SPDX-License-Identifier: MIT */
#include "schedule.h"

#include <string.h>

G_DEFINE_QUARK (psi_schedule_error, psi_schedule_error)

const PsiScheduleKind *const psi_schedules[] = {
  &psi_schedule_none,          &psi_schedule_naive,  &psi_schedule_gpipe,
  &psi_schedule_breadth_first, &psi_schedule_1f1b,   &psi_schedule_interleaved,
  &psi_schedule_zb_h1,         &psi_schedule_zb_h2,  &psi_schedule_zb_v,
  &psi_schedule_v_half,        &psi_schedule_v_min,  &psi_schedule_dualpipe,
  &psi_schedule_dualpipe_v,    &psi_schedule_cyclic, &psi_schedule_pipedream,
  &psi_schedule_pipedream_2bw, &psi_schedule_auto,   NULL
};

const char psi_token_letters[PSI_N_TOKEN_KINDS] = { 'F', 'B', 'I', 'W', 'U' };

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

static GArray **
copy_lists (GArray **lists, guint n)
{
  GArray **copies = g_new (GArray *, n);

  for (guint r = 0; r < n; r++)
    {
      copies[r] = g_array_sized_new (FALSE, FALSE, sizeof (PsiToken), lists[r]->len);
      g_array_append_vals (copies[r], lists[r]->data, lists[r]->len);
    }
  return copies;
}

PsiSchedule *
psi_schedule_copy (const PsiSchedule *schedule)
{
  PsiSchedule *copy = g_new (PsiSchedule, 1);

  g_assert (schedule->n_workers == 0);
  *copy = *schedule;
  copy->parts = g_memdup2 (schedule->parts, schedule->n_ranks * schedule->n_chunks * sizeof *schedule->parts);
  copy->lists = copy_lists (schedule->lists, schedule->n_ranks);
  copy->once = schedule->once != NULL ? copy_lists (schedule->once, schedule->n_ranks) : NULL;
  copy->waits = schedule->waits != NULL ? g_array_copy (schedule->waits) : NULL;
  copy->places = NULL;
  if (schedule->places != NULL)
    psi_schedule_find_places (copy);
  return copy;
}

void
psi_schedule_free (PsiSchedule *schedule)
{
  if (schedule == NULL)
    return;
  for (guint r = 0; r < schedule->n_ranks; r++)
    g_array_unref (schedule->lists[r]);
  for (guint r = 0; schedule->once != NULL && r < schedule->n_ranks; r++)
    g_array_unref (schedule->once[r]);
  g_free (schedule->lists);
  g_free (schedule->once);
  if (schedule->waits != NULL)
    g_array_unref (schedule->waits);
  g_free (schedule->parts);
  g_free (schedule->places);
  g_free (schedule->start_ps);
  g_free (schedule->start_token);
  g_free (schedule->stale);
  g_free (schedule->owner);
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

void
psi_schedule_add_joined (PsiSchedule *schedule, guint rank, PsiTokenKind kind, gint64 micro_batch, guint chunk)
{
  psi_schedule_add (schedule, rank, kind, micro_batch, chunk);
  g_array_index (schedule->lists[rank], PsiToken, schedule->lists[rank]->len - 1).joined = 1;
}

void
psi_schedule_fold (PsiSchedule *schedule)
{
  for (guint r = 0; r < schedule->n_ranks; r++)
    schedule->parts[schedule->n_ranks + r] = 2 * schedule->n_ranks - 1 - r;
}

static gint64
n_numbers (const PsiSchedule *schedule)
{
  return schedule->micro_batches * MAX (schedule->steps, 1);
}

void
psi_schedule_find_places (PsiSchedule *schedule)
{
  gint64 n = n_numbers (schedule);

  g_assert (schedule->places == NULL);
  schedule->places = g_new0 (guint, schedule->n_parts * n);
  for (guint r = 0; r < schedule->n_ranks; r++)
    for (guint t = 0; t < schedule->lists[r]->len; t++)
      {
        const PsiToken *token = &g_array_index (schedule->lists[r], PsiToken, t);
        guint part = psi_schedule_part (schedule, r, (guint) token->chunk);

        if (token->kind == PSI_TOKEN_FORWARD)
          schedule->places[part * n + token->micro_batch % n] = (guint) token->chunk * schedule->n_ranks + r;
      }
}

guint
psi_schedule_place (const PsiSchedule *schedule, guint part, gint64 micro_batch)
{
  gint64 n = n_numbers (schedule);

  return schedule->places[part * n + micro_batch % n] % schedule->n_ranks;
}

PsiSchedule *
psi_schedule_by_part (const PsiSchedule *schedule, guint n_parts)
{
  PsiSchedule *cut = psi_schedule_new (1, n_parts, schedule->micro_batches);

  g_assert (schedule->n_ranks == 1 && schedule->n_chunks == 1);
  for (guint t = 0; t < schedule->lists[0]->len; t++)
    {
      const PsiToken *token = &g_array_index (schedule->lists[0], PsiToken, t);

      for (guint part = 0; part < n_parts; part++)
        psi_schedule_add (cut, 0, (PsiTokenKind) token->kind, token->micro_batch,
                          token->kind == PSI_TOKEN_FORWARD ? part : n_parts - 1 - part);
    }
  return cut;
}
