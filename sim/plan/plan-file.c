/* SPDX-License-Identifier: MIT */
/* A plan whose order of work is a file: the file says who runs what, so it fixes the degrees.
 *
 *   every rank holds every part:   dp = ranks, pp = 1;  micro_batches of one rank
 *   else:                          pp = ranks
 *   vpp = chunks, stages = parts.  A written key that says something else is an error.
 *
 * A file with updates of its own is a cyclic order: ranks that hold the whole model are the workers; else every
 * micro-batch is a worker (or as many in a row as stay on one of the ranks that share a part). */
#include "plan-file.h"

#include "plan-private.h"
#include "schedule-file.h"

#define MOST_SHIFT 127 /* PsiOp.shift */

static gboolean
refuse_key (const PsiSettings *s, PsiKeyId key, gint64 wanted, GError **error)
{
  if (!psi_settings_has (s, key) || psi_settings_count (s, key) == wanted)
    return TRUE;
  g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
               "%s: '%" G_GINT64_FORMAT "' is not what the schedule file has, %" G_GINT64_FORMAT,
               psi_settings_where (s, key), psi_settings_count (s, key), wanted);
  return FALSE;
}

/* Does every part have one place, and every rank one part? */
static gboolean
is_pipeline (const PsiSchedule *file)
{
  return file->places == NULL && !file->whole;
}

/* How many micro-batches in a row the first rank of a shared part runs. */
static gint64
run_length (const PsiSchedule *file)
{
  gint64 longest = file->micro_batches;

  for (guint part = 0; part < file->n_parts; part++)
    for (gint64 n = 1; n < longest; n++)
      if (psi_schedule_place (file, part, n) != psi_schedule_place (file, part, 0))
        longest = n;
  return longest;
}

/* The next token from *position on that is no update, which moves past it; NULL at the end. */
static const PsiToken *
next_work (const GArray *list, guint *position)
{
  while (*position < list->len)
    {
      const PsiToken *token = &g_array_index (list, PsiToken, (*position)++);

      if (token->kind != PSI_TOKEN_UPDATE)
        return token;
    }
  return NULL;
}

/* The same work in the same order, whatever repetition it is counted for (`n`: micro-batches of one). Updates come
 * where causality lets them. */
static gboolean
same_tokens (const GArray *a, const GArray *b, gint64 n)
{
  guint i = 0, j = 0;

  for (;;)
    {
      const PsiToken *x = next_work (a, &i), *y = next_work (b, &j);

      if (x == NULL || y == NULL)
        return x == y;
      if (x->kind != y->kind || x->chunk != y->chunk || (x->micro_batch - y->micro_batch) % n != 0 ||
          (x->kind == PSI_TOKEN_FORWARD && x->stale != y->stale))
        return FALSE;
    }
}

static gboolean
same_lists (const PsiSchedule *a, const PsiSchedule *b)
{
  gint64 n = MAX (a->steps, 1) * a->micro_batches;

  if (a->n_ranks != b->n_ranks || a->n_chunks != b->n_chunks || MAX (b->steps, 1) * b->micro_batches != n)
    return FALSE;
  for (guint r = 0; r < a->n_ranks; r++)
    if (!same_tokens (a->lists[r], b->lists[r], n))
      return FALSE;
  return TRUE;
}

/* Is it the order of PipeDream? That does not depend on times. */
static gboolean
is_pipedream (const PsiSchedule *file)
{
  g_autofree gint64 *ones = g_new (gint64, file->n_parts);
  PsiScheduleShape shape = { .micro_batches = 1,
                             .workers = (guint) file->micro_batches,
                             .stages = file->n_parts,
                             .placement = PSI_PLACEMENT_STAGE,
                             .by_stage = TRUE,
                             .forward_ps = ones,
                             .backward_ps = ones };

  for (guint part = 0; part < file->n_parts; part++)
    ones[part] = 1;
  g_autoptr (PsiSchedule) built = psi_schedule_pipedream.build (&shape, NULL);
  g_autofree char *text = built != NULL ? psi_schedule_to_text (built, 1, NULL) : NULL;
  g_autoptr (PsiSchedule) printed = text != NULL ? psi_schedule_parse (text, "pipedream", NULL) : NULL;
  return printed != NULL && same_lists (printed, file);
}

static gboolean
choose_cyclic (PsiPlan *plan, const PsiSettings *s, GError **error)
{
  const PsiSchedule *file = plan->file;
  gint64 workers = psi_settings_has (s, PSI_KEY_WORKERS) ? psi_settings_count (s, PSI_KEY_WORKERS) : 0;
  gboolean all_stale = TRUE, very_stale = FALSE, owned = FALSE;

  for (guint r = 0; r < file->n_ranks; r++)
    {
      guint n_updates = 0;

      for (guint t = 0; t < file->lists[r]->len; t++)
        {
          const PsiToken *token = &g_array_index (file->lists[r], PsiToken, t);

          all_stale = all_stale && (token->kind != PSI_TOKEN_FORWARD || token->stale);
          very_stale = very_stale || token->stale > 1;
          n_updates += token->kind == PSI_TOKEN_UPDATE;
          if (token->kind == PSI_TOKEN_BACKWARD_INPUT || token->kind == PSI_TOKEN_BACKWARD_WEIGHT || token->joined)
            {
              g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_LATER,
                           "%s: lists with 'U' have whole forwards and backwards only (F, B), none split or overlapped",
                           psi_settings_where (s, PSI_KEY_SCHEDULE));
              return FALSE;
            }
        }
      owned = owned || n_updates < file->n_chunks * MAX (file->steps, 1);
    }
  plan->cyclic = TRUE;
  plan->schedule = &psi_schedule_cyclic;
  plan->update = very_stale ? PSI_UPDATE_ASYNCHRONOUS : all_stale ? PSI_UPDATE_CYCLIC_V1 : PSI_UPDATE_CYCLIC_V2;
  plan->by_stage = !file->whole;
  plan->placement = file->whole          ? (file->n_ranks > 1 ? PSI_PLACEMENT_SEPARATE : PSI_PLACEMENT_SHARED)
                    : is_pipeline (file) ? PSI_PLACEMENT_STAGE
                                         : PSI_PLACEMENT_SHARED;
  if (plan->by_stage && file->n_chunks > 1)
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_LATER,
                   "%s: lists with 'U' have one chunk on each rank of a pipeline, not %u",
                   psi_settings_where (s, PSI_KEY_SCHEDULE), file->n_chunks);
      return FALSE;
    }
  if (plan->placement == PSI_PLACEMENT_STAGE && file->n_parts > 1 && is_pipedream (file))
    {
      plan->schedule = &psi_schedule_pipedream;
      plan->update = PSI_UPDATE_ASYNCHRONOUS;
    }
  if (owned && plan->placement == PSI_PLACEMENT_SEPARATE)
    plan->zero = 3; /* only its owner updates a part: one copy that travels */
  if (plan->placement == PSI_PLACEMENT_SEPARATE)
    plan->dp = file->n_ranks;
  else if (workers > 0 && file->micro_batches % workers == 0)
    plan->dp = (guint) workers;
  else
    plan->dp = (guint) (file->micro_batches /
                        (plan->by_stage && plan->placement == PSI_PLACEMENT_SHARED ? run_length (file) : 1));
  if (!file->replicas && file->micro_batches % plan->dp != 0)
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_BATCH,
                   "%s: '%" G_GINT64_FORMAT "' micro-batches do not divide among %u workers",
                   psi_settings_where (s, PSI_KEY_SCHEDULE), file->micro_batches, plan->dp);
      return FALSE;
    }
  plan->micro_batches = file->replicas ? file->micro_batches : file->micro_batches / plan->dp;
  return TRUE;
}

/* U at the end of a step that nobody overtakes is what every list without U does as well. */
static void
drop_plain_updates (PsiSchedule *file)
{
  if (file->once != NULL || MAX (file->steps, 1) > 1)
    return;
  for (guint r = 0; r < file->n_ranks; r++)
    for (guint t = 0; t < file->lists[r]->len; t++)
      if (g_array_index (file->lists[r], PsiToken, t).stale)
        return;
  for (guint r = 0; r < file->n_ranks; r++)
    for (guint t = file->lists[r]->len; t > 0; t--)
      if (g_array_index (file->lists[r], PsiToken, t - 1).kind == PSI_TOKEN_UPDATE)
        g_array_remove_index (file->lists[r], t - 1);
  file->has_updates = FALSE;
}

static gboolean
is_sound (const PsiSchedule *file, GError **error)
{
  g_autofree gint64 *ones = g_new (gint64, file->n_parts), *twos = g_new (gint64, file->n_parts);
  PsiScheduleTimes times = { .forward_ps = ones, .backward_ps = twos, .weight_ps = ones };
  g_auto (PsiScheduleFacts) facts = { .n_ranks = 0 };

  for (guint part = 0; part < file->n_parts; part++)
    twos[part] = 2 * (ones[part] = 1);
  return psi_schedule_check (file, &times, &facts, error);
}

gboolean
psi_plan_choose_file (PsiPlan *plan, const PsiSettings *s, GError **error)
{
  const char *where = psi_settings_where (s, PSI_KEY_SCHEDULE);

  plan->file = psi_schedule_load (psi_settings_text (s, PSI_KEY_SCHEDULE), error);
  if (plan->file == NULL || !is_sound (plan->file, error))
    {
      g_prefix_error (error, "%s: ", where);
      return FALSE;
    }
  plan->keeps_all = FALSE;
  plan->schedule = &psi_schedule_file;
  plan->placement = PSI_PLACEMENT_SEPARATE;
  plan->update = PSI_UPDATE_SYNCHRONOUS;
  if (plan->parameter_server)
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                   "%s: 'parameter-server' does not go with a schedule file",
                   psi_settings_where (s, PSI_KEY_GRADIENTS));
      return FALSE;
    }
  drop_plain_updates (plan->file);
  if (plan->file->has_updates && !choose_cyclic (plan, s, error))
    return FALSE;
  if (psi_settings_has (s, PSI_KEY_UPDATE) &&
      g_strcmp0 (psi_settings_text (s, PSI_KEY_UPDATE), psi_update_names[plan->update]) != 0)
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES, "%s: '%s' is not what the schedule file has, %s",
                   psi_settings_where (s, PSI_KEY_UPDATE), psi_settings_text (s, PSI_KEY_UPDATE),
                   psi_update_names[plan->update]);
      return FALSE;
    }
  return TRUE;
}

gboolean
psi_plan_file_degrees (PsiPlan *plan, const PsiSettings *s, GError **error)
{
  const PsiSchedule *file = plan->file;
  guint others = (guint) ((psi_settings_has (s, PSI_KEY_TP) ? psi_settings_count (s, PSI_KEY_TP) : 1) *
                          (psi_settings_has (s, PSI_KEY_CP) ? psi_settings_count (s, PSI_KEY_CP) : 1));
  guint pp = file->whole ? 1 : file->n_ranks;

  plan->tp = psi_settings_has (s, PSI_KEY_TP) ? (guint) psi_settings_count (s, PSI_KEY_TP) : 1;
  plan->cp = others / plan->tp;
  plan->ep = psi_settings_has (s, PSI_KEY_EP) ? (guint) psi_settings_count (s, PSI_KEY_EP) : 1;
  plan->stages = file->n_parts;
  plan->vpp = file->n_chunks;
  plan->pp = plan->cyclic ? 1 : pp;
  if (!refuse_key (s, PSI_KEY_PP, pp, error) || !refuse_key (s, PSI_KEY_VPP, file->n_chunks, error) ||
      !refuse_key (s, PSI_KEY_STAGES, file->n_parts, error) ||
      ((file->whole || plan->cyclic) && !refuse_key (s, PSI_KEY_DP, file->whole ? file->n_ranks : 1, error)))
    return FALSE;
  if (!plan->cyclic)
    {
      plan->dp = file->whole                        ? file->n_ranks
                 : psi_settings_has (s, PSI_KEY_DP) ? (guint) psi_settings_count (s, PSI_KEY_DP)
                 : psi_settings_has (s, PSI_KEY_GPUS)
                     ? (guint) MAX (psi_settings_count (s, PSI_KEY_GPUS) / (pp * others), 1)
                     : 1;
      plan->micro_batches = file->whole && !file->replicas ? file->micro_batches / file->n_ranks : file->micro_batches;
      if (file->whole && !file->replicas && file->micro_batches % file->n_ranks != 0)
        {
          g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_BATCH,
                       "%s: '%" G_GINT64_FORMAT "' micro-batches do not divide among %u ranks",
                       psi_settings_where (s, PSI_KEY_SCHEDULE), file->micro_batches, file->n_ranks);
          return FALSE;
        }
    }
  if (psi_settings_has (s, PSI_KEY_MICRO_BATCHES) &&
      psi_settings_count (s, PSI_KEY_MICRO_BATCHES) != file->micro_batches &&
      !refuse_key (s, PSI_KEY_MICRO_BATCHES, plan->micro_batches, error))
    return FALSE;
  if (!psi_plan_resolve_experts (plan, s, error))
    return FALSE;
  /* A cyclic pipeline runs on the ranks of the file; else every replica has them. */
  plan->gpus = (plan->cyclic || file->whole ? file->n_ranks : plan->dp * file->n_ranks) * others;
  if (!refuse_key (s, PSI_KEY_GPUS, plan->gpus, error))
    return FALSE;
  if (plan->cyclic && plan->by_stage && plan->placement == PSI_PLACEMENT_SHARED)
    plan->gpus = 0; /* counted from the pools */
  return TRUE;
}

/* ---- From a file with updates to a cyclic order ---- */

/* The file's order and versions in place of those of the cyclic order `built` of the same shape. */
static gboolean
take_order (const PsiSchedule *file, PsiSchedule *built, GError **error)
{
  gint64 m = file->micro_batches, most = 0;

  if (built->pool != NULL || built->n_ranks != file->n_ranks || MAX (file->steps, 1) > 1)
    {
      g_set_error (
          error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_LATER,
          "ranks that share the parts of a pipeline take the workers in turn, as cdp+mp does; another order can "
          "be checked and trained, not simulated");
      return FALSE;
    }
  for (guint r = 0; r < file->n_ranks; r++)
    for (guint t = 0; t < file->lists[r]->len; t++)
      most = MAX (most, g_array_index (file->lists[r], PsiToken, t).micro_batch / m);
  if (most > MOST_SHIFT && !(file->whole && file->n_ranks > 1))
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_LATER,
                   "lists that begin %" G_GINT64_FORMAT
                   " steps ahead can be checked and trained, not simulated (at most "
                   "%d)",
                   most, MOST_SHIFT);
      return FALSE;
    }
  for (guint r = 0; r < file->n_ranks; r++)
    {
      g_array_set_size (built->lists[r], 0);
      for (guint t = 0; t < file->lists[r]->len; t++)
        {
          PsiToken token = g_array_index (file->lists[r], PsiToken, t);

          if (token.kind == PSI_TOKEN_UPDATE)
            continue;
          guint part = psi_schedule_part (file, r, (guint) token.chunk);
          token.shift = file->whole && file->n_ranks > 1 ? 0 : (guint8) (most - token.micro_batch / m);
          token.micro_batch = (gint32) (token.micro_batch % m + (file->replicas ? r * m : 0));
          token.chunk = (gint16) (built->n_chunks > 1 ? part : 0); /* cyclic lists count chunks by part */
          token.n_waits = 0;
          if (token.kind == PSI_TOKEN_FORWARD)
            built->stale[token.micro_batch / built->worker_micro_batches * built->n_parts + part] = token.stale;
          g_array_append_val (built->lists[r], token);
        }
    }
  return TRUE;
}

PsiSchedule *
psi_plan_cyclic_from_file (const PsiPlan *plan, const PsiScheduleShape *shape, GError **error)
{
  g_autoptr (PsiSchedule) built = plan->schedule->build (shape, error);
  g_autofree char *text = built != NULL ? psi_schedule_to_text (built, 1, NULL) : NULL;
  g_autoptr (PsiSchedule) printed = text != NULL ? psi_schedule_parse (text, "cyclic", NULL) : NULL;

  if (built == NULL)
    return NULL;
  if ((printed == NULL || !same_lists (printed, plan->file)) && !take_order (plan->file, built, error))
    return NULL;
  return g_steal_pointer (&built);
}

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  g_assert_not_reached (); /* the plan has the lists */
}

const PsiScheduleKind psi_schedule_file = {
  .name = "file",
  .summary = "the order of a schedule file",
  .build = build,
};
