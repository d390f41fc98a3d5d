/* SPDX-License-Identifier: MIT */
#include "step-uses.h"

static int
compare_uses (gconstpointer a, gconstpointer b)
{
  const PsiVersionUse *x = a, *y = b;

  if (x->time_ps != y->time_ps)
    return x->time_ps < y->time_ps ? -1 : 1;
  return x->worker != y->worker ? (x->worker < y->worker ? -1 : 1) : x->is_backward - y->is_backward;
}

guint
psi_step_lag (const PsiStep *step, guint worker, guint part)
{
  return 1u + step->schedule->stale[worker * step->schedule->n_parts + part];
}

GArray *
psi_step_uses_of_part (const PsiStep *step, guint part, gboolean both)
{
  const PsiSchedule *s = step->schedule;
  GArray *uses = g_array_new (FALSE, FALSE, sizeof (PsiVersionUse));
  gint64 turn_ps = s->period_ps / s->worker_micro_batches; /* one micro-batch of a worker of its own */
  gint64 to_backward_ps = s->lifetime_ps[part] - s->backward_ps[part] - (s->worker_micro_batches - 1) * turn_ps;

  for (guint i = 0; i < s->n_workers; i++)
    for (guint b = 0; b < (both ? s->worker_micro_batches : 1); b++)
      {
        guint at = i * s->n_parts + part;
        PsiVersionUse use = { .worker = i, .lag = psi_step_lag (step, i, part), .micro_batch = b };

        use.time_ps = use.lag * s->period_ps + s->first_use_ps[at] + b * turn_ps;
        g_array_append_val (uses, use);
        use.is_backward = TRUE;
        use.time_ps += to_backward_ps;
        if (both)
          g_array_append_val (uses, use);
      }
  g_array_sort (uses, compare_uses);
  return uses;
}

/* Of the versions a stage needs from `begin` until before `end`. */
static void
hold_version (gint *changes, gint64 begin, gint64 end)
{
  changes[begin]++;
  changes[MAX (end, begin)]--;
}

/* A stage on one GPU: what its list holds on to, followed until steps repeat. A version is there from the update that
 * makes it until the next one, and until the last backward of a micro-batch that begins with it, now or later. */
static guint
versions_of_list (const PsiSchedule *s, guint part)
{
  guint rank = 0;
  gint64 reach = 0, latest = 0;
  gint held = 0, most = 1;

  while (rank + 1 < s->n_ranks && psi_schedule_part (s, rank, 0) != part)
    rank++;
  const GArray *list = s->lists[rank];
  for (guint t = 0; t < list->len; t++)
    {
      const PsiToken *token = &g_array_index (list, PsiToken, t);
      guint stale = s->stale[(guint) (token->micro_batch / s->worker_micro_batches) * s->n_parts + part];

      reach = MAX (reach, (gint64) token->shift + stale);
    }
  gint64 n_rounds = 2 * reach + 3, n_tokens = n_rounds * list->len;
  g_autofree gint64 *made = g_new0 (gint64, n_rounds + 2), *end = g_new0 (gint64, n_rounds + 2); /* [version] */
  g_autofree gint *changes = g_new0 (gint, n_tokens + 1); /* of what is held, [token of all rounds] */
  for (gint64 at = 0; at < n_tokens; at++)
    {
      const PsiToken *token = &g_array_index (list, PsiToken, at % list->len);
      gint64 step = at / list->len - token->shift;
      gint64 version = step - s->stale[(guint) (token->micro_batch / s->worker_micro_batches) * s->n_parts + part];

      if (step < 0)
        continue;
      end[MAX (version, 0)] = MAX (end[MAX (version, 0)], at);
      if (token->kind != PSI_TOKEN_BACKWARD || token->micro_batch != s->micro_batches - 1)
        continue;
      end[latest] = MAX (end[latest], at);
      latest = step + 1;
      made[latest] = at;
    }
  end[latest] = n_tokens;
  for (gint64 version = 0; version <= latest; version++)
    hold_version (changes, made[version], end[version]);
  for (gint64 at = 0; at < n_tokens; at++)
    {
      held += changes[at];
      most = MAX (most, held);
    }
  return (guint) most;
}

guint
psi_step_versions (const PsiStep *step, guint part)
{
  const PsiSchedule *s = step->schedule;
  gint64 first = G_MAXINT64, last = 0;

  if (step->plan->placement == PSI_PLACEMENT_STAGE)
    return versions_of_list (s, part);

  for (guint i = 0; i < s->n_workers; i++)
    {
      guint at = i * s->n_parts + part;
      gint64 begin = (1 + s->stale[at]) * s->period_ps + s->first_use_ps[at];

      first = MIN (first, begin);
      last = MAX (last, begin + s->lifetime_ps[part]);
    }
  return last - s->period_ps > first ? 2 : 1;
}
