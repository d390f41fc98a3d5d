/* SPDX-License-Identifier: MIT */
/* A schedule as text, in the format `psisim-schedule 1` (man 5 psisim-scenario).
 *
 * Synchronous orders are printed as they are. A cyclic order is printed as the first step of every rank, where the work
 * of steps before the first is left out, then `repeat` and the next step with U and @-1 where versions change. Workers
 * that share the GPUs of a stage are printed GPU by GPU: micro-batch n on GPU n mod g, over as many steps as it takes
 * until every GPU begins again. */
#include "schedule.h"

#include "psi-time.h"

#define MOST_TOKENS 4096 /* of one rank's list; more is no text for people */

static void
write_header (GString *text, const PsiSchedule *schedule, guint n_ranks, gint64 micro_batches, const char *comment)
{
  g_string_append (text, "psisim-schedule 1\n");
  if (comment != NULL)
    g_string_append_printf (text, "# %s\n", comment);
  g_string_append_printf (text, "ranks %u\nchunks %u\n", n_ranks, schedule->n_chunks);
  g_string_append_printf (text, "micro_batches %" G_GINT64_FORMAT "\n", micro_batches);
}

static void
write_parts (GString *text, const PsiSchedule *schedule)
{
  for (guint c = 0; c < schedule->n_chunks; c++)
    {
      gboolean usual = TRUE;

      for (guint r = 0; r < schedule->n_ranks; r++)
        usual = usual && psi_schedule_part (schedule, r, c) == c * schedule->n_ranks + r;
      if (usual)
        continue;
      g_string_append_printf (text, "part %u:", c);
      for (guint r = 0; r < schedule->n_ranks; r++)
        g_string_append_printf (text, " %u", psi_schedule_part (schedule, r, c));
      g_string_append_c (text, '\n');
    }
}

static void
write_token (GString *text, const PsiSchedule *schedule, const PsiToken *token, gint64 micro_batch)
{
  g_string_append_printf (text, "%c%c%" G_GINT64_FORMAT, token->joined ? '+' : ' ', psi_token_letters[token->kind],
                          micro_batch);
  if (schedule->n_chunks > 1 && token->chunk > 0)
    g_string_append_printf (text, ".%d", token->chunk);
}

static guint
stale_of (const PsiSchedule *schedule, gint64 micro_batch, guint part)
{
  return schedule->stale[(guint) (micro_batch / schedule->worker_micro_batches) * schedule->n_parts + part];
}

/* One repetition of a rank's list, `round` 0 for the first. */
static void
write_round (GString *text, const PsiSchedule *schedule, guint rank, guint round, gboolean updates)
{
  const GArray *list = schedule->lists[rank];
  gint64 m = schedule->worker_micro_batches;
  gboolean one_worker = schedule->n_ranks == schedule->n_workers && schedule->n_chunks == schedule->n_parts;

  for (guint t = 0; t < list->len; t++)
    {
      const PsiToken *token = &g_array_index (list, PsiToken, t);
      guint part = psi_schedule_part (schedule, rank, (guint) token->chunk);
      guint stale = stale_of (schedule, token->micro_batch, part);
      gboolean forward = token->kind == PSI_TOKEN_FORWARD;
      gboolean first = token->micro_batch % m == 0, last = token->micro_batch % m == m - 1;

      if (token->shift > round)
        continue;
      if (updates && one_worker && forward && first && !stale)
        g_string_append_printf (text, schedule->n_chunks > 1 ? " U%d" : " U", token->chunk);
      if (round == 0 && t == 0 && one_worker && rank > 0)
        {
          const PsiToken *before = &g_array_index (schedule->lists[rank - 1], PsiToken, schedule->start_token[rank]);

          g_string_append_printf (text, " >%u:%c%d.%d", rank - 1, psi_token_letters[before->kind], before->micro_batch,
                                  before->chunk);
        }
      write_token (text, schedule, token,
                   (gint64) (round - token->shift) * schedule->micro_batches + token->micro_batch);
      if (stale > 0) /* of step 0 there is no older version; the same words come again later */
        g_string_append_printf (text, "@-%u", stale);
      /* A shared store is updated once the last worker is through; a worker of its own after its old version's end. */
      if (one_worker ? updates && !forward && last && stale
                     : !forward && token->micro_batch == schedule->micro_batches - 1)
        g_string_append_printf (text, schedule->n_chunks > 1 ? " U%d" : " U", token->chunk);
    }
}

static guint
greatest_shift (const PsiSchedule *schedule)
{
  guint shift = 1;

  for (guint r = 0; r < schedule->n_ranks; r++)
    for (guint t = 0; t < schedule->lists[r]->len; t++)
      shift = MAX (shift, g_array_index (schedule->lists[r], PsiToken, t).shift);
  return shift;
}

static void
write_cyclic (GString *text, const PsiSchedule *schedule)
{
  guint rounds = greatest_shift (schedule);

  for (guint r = 0; r < schedule->n_ranks; r++)
    {
      g_string_append_printf (text, "rank %u:", r);
      for (guint round = 0; round < rounds; round++)
        write_round (text, schedule, r, round, round > 0);
      g_string_append_c (text, '\n');
    }
  g_string_append (text, "repeat\n");
  for (guint r = 0; r < schedule->n_ranks; r++)
    {
      g_string_append_printf (text, "rank %u:", r);
      write_round (text, schedule, r, rounds, TRUE);
      g_string_append_c (text, '\n');
    }
}

static guint
gcd (guint a, guint b)
{
  return b == 0 ? a : gcd (b, a % b);
}

/* The turns of a GPU of a pool in some steps: it takes every g-th worker, and is updated just before it needs the
 * version. */
static void
write_turns (GString *text, const PsiSchedule *schedule, guint part, guint gpu, guint first_step, guint end_step)
{
  guint n = schedule->n_workers, updates = 0;
  gint64 m = schedule->worker_micro_batches;

  for (guint i = gpu; i < end_step * n; i += schedule->pool[part])
    {
      guint stale = schedule->stale[i % n * schedule->n_parts + part];
      gboolean written = i >= first_step * n;

      for (; updates < i / n - MIN (stale, i / n); updates++)
        if (written)
          g_string_append (text, " U");
      for (gint64 b = 0; b < m && written; b++)
        g_string_append_printf (text, " F%" G_GINT64_FORMAT "%s B%" G_GINT64_FORMAT "%s", i * m + b, stale ? "@-1" : "",
                                i * m + b, stale ? "@-1" : "");
    }
}

/* The pools of a cyclic plan with shared stages: the GPU's own micro-batches, in turn. */
static gboolean
write_pools (GString *text, const PsiSchedule *schedule, const char *comment)
{
  guint n = schedule->n_workers, steps = 1, n_gpus = 0;

  for (guint j = 0; j < schedule->n_parts; j++)
    {
      guint turn = schedule->pool[j] / gcd (schedule->pool[j], n); /* steps until a GPU begins again */

      steps = steps / gcd (steps, turn) * turn;
      n_gpus += schedule->pool[j];
      if (steps > MOST_TOKENS / (2 * n))
        return FALSE;
    }
  write_header (text, schedule, n_gpus, schedule->micro_batches, comment);
  g_string_append (text, "part 0:");
  for (guint j = 0; j < schedule->n_parts; j++)
    for (guint q = 0; q < schedule->pool[j]; q++)
      g_string_append_printf (text, " %u", j);
  g_string_append_printf (text, "\nsteps %u\n", steps);
  /* The first update of a rank that begins one version behind comes in the third repetition. */
  for (guint loop = 0; loop < 2; loop++)
    {
      if (loop > 0)
        g_string_append (text, "repeat\n");
      for (guint j = 0, gpu = 0; j < schedule->n_parts; j++)
        for (guint q = 0; q < schedule->pool[j]; q++, gpu++)
          {
            g_string_append_printf (text, "rank %u:", gpu);
            write_turns (text, schedule, j, q, 2 * loop * steps, (loop + 2) * steps);
            g_string_append_c (text, '\n');
          }
    }
  return TRUE;
}

char *
psi_schedule_to_text (const PsiSchedule *schedule, guint replicas, const char *comment)
{
  GString *text = g_string_new (NULL);

  if (schedule->pool != NULL)
    {
      if (write_pools (text, schedule, comment))
        return g_string_free (text, FALSE);
      g_string_free (text, TRUE);
      return NULL;
    }
  /* One rank that holds the whole model stands for its replicas. */
  guint copies = schedule->n_ranks == 1 && schedule->n_workers == 0 ? MAX (replicas, 1) : 1;
  write_header (text, schedule, schedule->n_ranks * copies, schedule->micro_batches * copies, comment);
  write_parts (text, schedule);
  if (schedule->n_workers > 0)
    {
      write_cyclic (text, schedule);
      return g_string_free (text, FALSE);
    }
  if (copies > 1)
    {
      for (guint c = 0; c < schedule->n_chunks; c++)
        {
          g_string_append_printf (text, "part %u:", c);
          for (guint copy = 0; copy < copies; copy++)
            g_string_append_printf (text, " %u", psi_schedule_part (schedule, 0, c));
          g_string_append_c (text, '\n');
        }
    }
  for (guint copy = 0; copy < copies; copy++)
    for (guint r = 0; r < schedule->n_ranks; r++)
      {
        g_string_append_printf (text, "rank %u:", copy * schedule->n_ranks + r);
        for (guint t = 0; t < schedule->lists[r]->len; t++)
          {
            const PsiToken *token = &g_array_index (schedule->lists[r], PsiToken, t);

            write_token (text, schedule, token, copy * schedule->micro_batches + token->micro_batch);
          }
        g_string_append_c (text, '\n');
      }
  return g_string_free (text, FALSE);
}
