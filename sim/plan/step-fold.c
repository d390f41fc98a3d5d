/* SPDX-License-Identifier: MIT */
/* Tokens as one op: the layers of a part, all alike from micro-batch to micro-batch, folded into a fold of the engine.
 *
 * Folded are tokens that no other op reaches into and that do as others do: not the first forward of a part, whose
 * layers wait for their updated parameters one by one, nor its first backward, which may begin the gradients, nor its
 * last, whose layers let them go one by one; no token that gathers parameters or scatters gradients beside its work; no
 * model whose layers skip over others into another part. The next token of a kind must come out the same as the one
 * before; from then on they are taken to be equal. What remains is checked by the engine once the world is built
 * (psi_world_folds_hold()); if something shares links with the collectives inside, the step is built anew without.
 * Every number of the report stays what it is, to the last bit. */
#include "step.h"

#include "psi-fold.h"
#include "psi-repeat.h"

#include <string.h>

#define FOLD_OF(chunk, kind) (4 * (guint) (chunk) + (guint) (kind))

gboolean
psi_step_can_fold (const PsiStep *step)
{
  const PsiPlan *plan = step->plan;
  const PsiSettings *settings = step->settings;
  const char *detail = psi_settings_text (settings, PSI_KEY_DETAIL);
  gboolean one_by_one = step->n_classes > plan->dp;

  return !plan->cyclic && !plan->asynchronous && step->schedule->places == NULL && step->schedule->pool == NULL &&
         !psi_settings_has (settings, PSI_KEY_REDUCE_EVERY) && !psi_settings_has (settings, PSI_KEY_SLOW_RANK) &&
         !psi_settings_has (settings, PSI_KEY_SLOW_LINK) && psi_settings_real (settings, PSI_KEY_JITTER) <= 0 &&
         (strcmp (detail, "flow") == 0 || strcmp (detail, "closed") == 0) &&
         (!one_by_one || plan->tp * plan->cp * plan->ep == 1) && (plan->pp == 1 || step->is_chain);
}

/* Micro-batches to run for a plan of many: a pipeline is full after pp of them, and most show their pace within a few
 * more; if it does not, no more than half the work is lost. 0: all. */
gint64
psi_step_short_micro_batches (const PsiPlan *plan)
{
  gboolean is_loop = plan->schedule == &psi_schedule_1f1b || (plan->schedule == &psi_schedule_none && plan->pp == 1);
  gint64 few = (gint64) plan->pp + 20;

  if (!is_loop || plan->file != NULL || plan->cyclic || plan->keeps_all || plan->vpp != 1 ||
      plan->micro_batches < 2 * few)
    return 0;
  return few + (plan->micro_batches - few) % 2;
}

gboolean
psi_step_run_whole (const PsiStep *step, PsiRun *run)
{
  g_autofree guint32 *limits = g_new0 (guint32, step->n_ranks + 1);

  if (step->micro_batches == 0)
    return TRUE;
  for (guint r = 0; r < step->n_ranks; r++)
    {
      const PsiStepRank *rank = &step->ranks[r];
      const GArray *list = step->schedule->lists[rank->list];
      guint last = 0;

      if (rank->leader != NULL || rank->id != r)
        return FALSE;
      /* Up to its last forward a list is what it is with more micro-batches. */
      for (guint i = 0; i < list->len; i++)
        if (g_array_index (list, PsiToken, i).kind == PSI_TOKEN_FORWARD)
          last = i;
      if (last == 0 || rank->marks->len != list->len)
        return FALSE;
      limits[r] = PSI_OP_POSITION (g_array_index (rank->marks, PsiOpId, last - 1)) + 1;
    }
  return psi_run_put_in (step->world, run, limits, (guint64) (step->plan->micro_batches - step->micro_batches));
}

gboolean
psi_step_may_fold (PsiStep *step, PsiStepRank *rank, const PsiToken *token)
{
  guint n_chunks = step->schedule->n_chunks;

  if (!step->folds)
    return FALSE;
  if (rank->folds == NULL)
    {
      const GArray *list = step->schedule->lists[rank->list];

      rank->folds = g_new (guint32, FOLD_OF (n_chunks, 0));
      memset (rank->folds, 0xff, FOLD_OF (n_chunks, 0) * sizeof *rank->folds);
      rank->updates_left = g_new0 (guint32, n_chunks);
      for (guint i = 0; i < list->len; i++)
        {
          const PsiToken *other = &g_array_index (list, PsiToken, i);

          if (other->kind == PSI_TOKEN_BACKWARD || other->kind == PSI_TOKEN_BACKWARD_WEIGHT)
            rank->updates_left[other->chunk]++;
        }
    }
  guint part = psi_schedule_part (step->schedule, rank->list, (guint) token->chunk);

  if (token->kind == PSI_TOKEN_FORWARD)
    return rank->first_use[step->partition.first[part]] != PSI_OP_NONE;
  if (token->kind == PSI_TOKEN_BACKWARD_INPUT)
    return TRUE;
  return --rank->updates_left[token->chunk] > 0 && rank->ready[step->partition.first[part]] != PSI_OP_NONE;
}

/* rank->folds: nothing yet; or a fold that the next token of its kind must be equal to; or one to use from then on; or
 * tokens are not equal after all. */
#define NOTHING G_MAXUINT32
#define NOT_EQUAL (G_MAXUINT32 - 1)
#define CANDIDATE 0x80000000u

PsiOpId
psi_step_add_fold (PsiStepRank *rank, const PsiToken *token)
{
  guint32 fold = rank->folds[FOLD_OF (token->chunk, token->kind)];

  return fold < CANDIDATE ? psi_program_add_fold (rank->program, fold) : PSI_OP_NONE;
}

PsiOpId
psi_step_fold (PsiStep *step, PsiStepRank *rank, const PsiToken *token, const guint *before)
{
  guint32 *known = &rank->folds[FOLD_OF (token->chunk, token->kind)], fold;

  if (*known == NOT_EQUAL)
    return PSI_OP_NONE;
  for (guint s = 1; s < rank->program->n_streams; s++)
    if (rank->program->streams[s]->len != before[s])
      return PSI_OP_NONE; /* something goes on beside it */
  fold = psi_world_fold (step->world, rank->id, before[0]);
  if (fold == G_MAXUINT32)
    return PSI_OP_NONE;
  if (*known == NOTHING)
    *known = fold | CANDIDATE;
  else
    *known = psi_program_folds_equal (rank->program, *known & ~CANDIDATE, fold) ? fold : NOT_EQUAL;
  return PSI_OP_ID (PSI_STREAM_COMPUTE, before[0]);
}
