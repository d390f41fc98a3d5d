/* SPDX-License-Identifier: MIT */
/* Follow an order of work: every rank runs its list from the front, a token begins when the rank is free and
 *
 *   F       of part k: F of part k - 1
 *   B or I  of part k: F of part k, and B or I of part k + 1
 *   W       its I
 *   op      of step s: the update of step s - 1 of its chunk (@-1: of step s - 2), and what it waits for (>r:op)
 *   U       all B or W of its step for the part, on all ranks
 *
 * is there. What another rank made arrives transfer_ps later. Overlapped tokens begin together and end together after
 * the sum of their times. Updates take no time; a list without U ends in the updates of its chunks, in the order of
 * parts. Lists are unrolled over so many repetitions that two of them follow the one before at the same distance for
 * every token: that distance is the period.
 *
 * Links are never busy and sends never wait: a lower bound of what the simulator, which knows links, finds. */
#include "order-unroll.h"

#define FEWEST_REPEATS 4
#define MOST_REPEATS 64
#define MOST_OPS 6000000 /* of all unrolled lists together */

/* What an op waits for, for messages. */
typedef struct
{
  guint rank;
  guint32 position;
} Need;

/* Is the slot done, and when does the rank have it? Else *ret_need says who must do it. */
static gboolean
have (const PsiOrder *c, guint rank, gint64 micro_batch, guint part, guint slot, gint64 *time_ps, Need *ret_need)
{
  const PsiSlot *at = psi_order_slot (c, rank, micro_batch, part, slot);

  *ret_need = (Need){ (guint) at->rank, at->position };
  /* Of two overlapped ops the second may need the first: its layers follow those of the first. */
  if ((guint) at->rank == rank && at->position >= c->ranks[rank].position && at->position < c->current)
    return TRUE;
  if (at->end_ps < 0)
    return FALSE;
  *time_ps = MAX (*time_ps, at->end_ps + ((guint) at->rank != rank ? c->times->transfer_ps : 0));
  return TRUE;
}

static gboolean
have_update (const PsiOrder *c, guint rank, const PsiOrderOp *op, gint64 *time_ps, Need *ret_need)
{
  const PsiSchedule *s = c->s;
  guint updater = rank, chunk = op->chunk;

  if (c->updates_at[psi_order_update (c, rank, chunk, 0)] == G_MAXUINT32)
    {
      updater = (guint) c->owner[op->part];
      for (chunk = 0; psi_schedule_part (s, updater, chunk) != op->part;)
        chunk++;
    }
  gsize index = psi_order_update (c, updater, chunk, op->version - 1);
  *ret_need = (Need){ updater, c->updates_at[index] };
  *time_ps = MAX (*time_ps, c->updated_ps[index]);
  return c->updated_ps[index] >= 0;
}

/* All weight halves of the step for the part. */
static gboolean
have_gradients (const PsiOrder *c, guint rank, const PsiOrderOp *op, gint64 *time_ps, Need *ret_need)
{
  gsize index = (gsize) op->part * c->n_steps + (gsize) op->step;

  *time_ps = MAX (*time_ps, c->ready_ps[index]);
  for (gint64 n = op->step * c->s->micro_batches; c->left[index] > 0; n++)
    for (guint r = 0; r < (c->s->replicas ? c->s->n_ranks : 1); r++)
      {
        const PsiSlot *at = psi_order_slot (c, r, n, op->part, PSI_SLOT_WEIGHT);

        *ret_need = (Need){ (guint) at->rank, at->position };
        if (at->end_ps < 0)
          return FALSE;
      }
  return TRUE;
}

static gboolean
have_waits (const PsiOrder *c, const PsiOrderOp *op, gint64 *time_ps, Need *ret_need)
{
  for (guint i = 0; i < op->token->n_waits; i++)
    {
      const PsiTokenWait *wait = &g_array_index (c->s->waits, PsiTokenWait, (guint) op->token->first_wait + i);
      guint slot = psi_slot_of_kind (wait->kind);
      gint64 n = wait->micro_batch + op->shift;

      if (n < c->total &&
          !have (c, wait->rank, n, psi_schedule_part (c->s, wait->rank, (guint) wait->chunk), slot, time_ps, ret_need))
        return FALSE;
    }
  return TRUE;
}

static gboolean
is_ready (const PsiOrder *c, guint rank, const PsiOrderOp *op, gint64 *time_ps, Need *ret_need)
{
  guint kind = op->token->kind;
  gboolean backward = kind == PSI_TOKEN_BACKWARD || kind == PSI_TOKEN_BACKWARD_INPUT;

  if (kind == PSI_TOKEN_UPDATE)
    return have_waits (c, op, time_ps, ret_need) && have_gradients (c, rank, op, time_ps, ret_need);
  if (kind == PSI_TOKEN_FORWARD && op->part > 0 &&
      !have (c, rank, op->micro_batch, op->part - 1, PSI_SLOT_FORWARD, time_ps, ret_need))
    return FALSE;
  if (backward && !have (c, rank, op->micro_batch, op->part, PSI_SLOT_FORWARD, time_ps, ret_need))
    return FALSE;
  if (backward && op->part + 1 < c->s->n_parts &&
      !have (c, rank, op->micro_batch, op->part + 1, PSI_SLOT_INPUT, time_ps, ret_need))
    return FALSE;
  if (kind == PSI_TOKEN_BACKWARD_WEIGHT)
    return have (c, rank, op->micro_batch, op->part, PSI_SLOT_INPUT, time_ps, ret_need) &&
           have_waits (c, op, time_ps, ret_need);
  return (op->version == 0 || have_update (c, rank, op, time_ps, ret_need)) && have_waits (c, op, time_ps, ret_need);
}

static gint64
duration_ps (const PsiOrder *c, const PsiOrderOp *op)
{
  const PsiScheduleTimes *t = c->times;

  switch (op->token->kind)
    {
    case PSI_TOKEN_FORWARD:
      return t->forward_ps[op->part];
    case PSI_TOKEN_BACKWARD:
      return t->backward_ps[op->part];
    case PSI_TOKEN_BACKWARD_INPUT:
      return t->backward_ps[op->part] - t->weight_ps[op->part];
    case PSI_TOKEN_BACKWARD_WEIGHT:
      return t->weight_ps[op->part];
    default:
      return 0;
    }
}

static void
finish_op (PsiOrder *c, guint rank, PsiOrderOp *op, gint64 start_ps, gint64 end_ps)
{
  guint kind = op->token->kind;

  op->start_ps = start_ps;
  if (kind == PSI_TOKEN_UPDATE)
    {
      c->updated_ps[psi_order_update (c, rank, op->chunk, op->step)] = end_ps;
      return;
    }
  if (kind == PSI_TOKEN_FORWARD)
    psi_order_slot (c, rank, op->micro_batch, op->part, PSI_SLOT_FORWARD)->end_ps = end_ps;
  if (kind == PSI_TOKEN_BACKWARD || kind == PSI_TOKEN_BACKWARD_INPUT)
    psi_order_slot (c, rank, op->micro_batch, op->part, PSI_SLOT_INPUT)->end_ps = end_ps;
  if (kind == PSI_TOKEN_BACKWARD || kind == PSI_TOKEN_BACKWARD_WEIGHT)
    {
      gsize index = (gsize) op->part * c->n_steps + (gsize) op->step;

      psi_order_slot (c, rank, op->micro_batch, op->part, PSI_SLOT_WEIGHT)->end_ps = end_ps;
      c->left[index]--;
      c->ready_ps[index] = MAX (c->ready_ps[index], end_ps);
    }
}

/* Run the next group of overlapped ops of a rank, if they can all begin; else *ret_need says what stops them. */
static gboolean
run_group (PsiOrder *c, guint rank, Need *ret_need)
{
  PsiOrderRank *row = &c->ranks[rank];
  gint64 start_ps = row->free_ps, length_ps = 0;
  guint end = row->position;

  do
    {
      const PsiOrderOp *op = &g_array_index (row->ops, PsiOrderOp, end);

      c->current = end;
      if (!is_ready (c, rank, op, &start_ps, ret_need))
        return FALSE;
      length_ps += duration_ps (c, op);
      end++;
    }
  while (end < row->ops->len && g_array_index (row->ops, PsiOrderOp, end).joined);
  for (; row->position < end; row->position++)
    finish_op (c, rank, &g_array_index (row->ops, PsiOrderOp, row->position), start_ps, start_ps + length_ps);
  row->free_ps = start_ps + length_ps;
  return TRUE;
}

/* Nothing moves: walk from rank to rank along what each waits for until one comes again. */
static gboolean
report_deadlock (PsiOrder *c, GError **error)
{
  g_autoptr (GString) text = g_string_new ("deadlock: ");
  g_autofree guint *seen = g_new0 (guint, c->s->n_ranks); /* place in the walk, from 1 */
  g_autoptr (GArray) walk = g_array_new (FALSE, FALSE, sizeof (guint));
  guint rank = 0;
  Need need = { 0, 0 };

  while (c->ranks[rank].position == c->ranks[rank].ops->len)
    rank++;
  while (seen[rank] == 0)
    {
      g_array_append_val (walk, rank);
      seen[rank] = walk->len;
      run_group (c, rank, &need);
      rank = need.rank;
    }
  for (guint i = seen[rank] - 1; i < walk->len; i++)
    {
      guint at = g_array_index (walk, guint, i);

      run_group (c, at, &need);
      g_autofree char *head =
          psi_order_op_name (c, &g_array_index (c->ranks[at].ops, PsiOrderOp, c->ranks[at].position));
      g_autofree char *wanted =
          psi_order_op_name (c, &g_array_index (c->ranks[need.rank].ops, PsiOrderOp, need.position));
      g_string_append_printf (text, "%srank %u at %s waits for %s of rank %u", i + 1 > seen[rank] ? ", " : "", at, head,
                              wanted, need.rank);
    }
  g_string_append (text, walk->len == seen[rank] ? ", which comes after it" : ", which comes after that");
  g_set_error_literal (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_DEADLOCK, text->str);
  return FALSE;
}

static gboolean
follow (PsiOrder *c, GError **error)
{
  gboolean moved = TRUE, left = TRUE;
  Need need;

  while (left && moved)
    {
      left = moved = FALSE;
      for (guint r = 0; r < c->s->n_ranks; r++)
        {
          while (c->ranks[r].position < c->ranks[r].ops->len && run_group (c, r, &need))
            moved = TRUE;
          left = left || c->ranks[r].position < c->ranks[r].ops->len;
        }
    }
  return !left || report_deadlock (c, error);
}

/* ---- What it amounts to ---- */

/* Does every op of repetition i begin exactly so much after that of repetition i - 1? */
static gboolean
repeats_after (const PsiOrder *c, guint i, gint64 *ret_distance_ps)
{
  gboolean first = TRUE;

  for (guint r = 0; r < c->s->n_ranks; r++)
    {
      const PsiOrderRank *row = &c->ranks[r];

      for (guint at = row->begins[i]; at < row->begins[i + 1]; at++)
        {
          gint64 distance_ps = g_array_index (row->ops, PsiOrderOp, at).start_ps -
                               g_array_index (row->ops, PsiOrderOp, at - row->begins[i] + row->begins[i - 1]).start_ps;

          if (first)
            *ret_distance_ps = distance_ps;
          first = FALSE;
          if (distance_ps != *ret_distance_ps)
            return FALSE;
        }
    }
  return !first;
}

static guint
peak_of (const PsiOrderRank *row, guint end)
{
  guint level = 0, peak = 0;

  for (guint at = 0; at < end;)
    {
      guint freed = 0;

      do
        {
          guint kind = g_array_index (row->ops, PsiOrderOp, at).token->kind;

          level += kind == PSI_TOKEN_FORWARD;
          freed += kind == PSI_TOKEN_BACKWARD || kind == PSI_TOKEN_BACKWARD_WEIGHT;
          at++;
        }
      while (at < end && g_array_index (row->ops, PsiOrderOp, at).joined);
      peak = MAX (peak, level);
      level -= MIN (freed, level);
    }
  return peak;
}

static gboolean
fill_facts (const PsiOrder *c, PsiScheduleFacts *facts)
{
  guint last = c->n_repeats - 1, steps = MAX (c->s->steps, 1);
  gint64 distance_ps = 0, before_ps = 0, earliest_ps = G_MAXINT64;
  double busy_ps = 0, stale = 0, forwards = 0, transfers = 0;

  facts->periodic =
      repeats_after (c, last, &distance_ps) && repeats_after (c, last - 1, &before_ps) && distance_ps == before_ps;
  for (guint r = 0; r < c->s->n_ranks; r++)
    {
      const PsiOrderRank *row = &c->ranks[r];
      guint begin = row->begins[last];

      if (!facts->periodic && row->begins[last + 1] > begin)
        distance_ps = MAX (distance_ps, (g_array_index (row->ops, PsiOrderOp, begin).start_ps -
                                         g_array_index (row->ops, PsiOrderOp, row->begins[last / 2]).start_ps) /
                                            (last - last / 2));
      facts->in_flight[r] = peak_of (row, row->begins[last + 1]);
      facts->begins_ps[r] = row->begins[last + 1] > begin ? g_array_index (row->ops, PsiOrderOp, begin).start_ps : 0;
      if (row->begins[last + 1] > begin)
        earliest_ps = MIN (earliest_ps, facts->begins_ps[r]);
      for (guint at = begin; at < row->begins[last + 1]; at++)
        {
          const PsiOrderOp *op = &g_array_index (row->ops, PsiOrderOp, at);
          guint kind = op->token->kind;
          gboolean forward = kind == PSI_TOKEN_FORWARD;
          gboolean backward = kind == PSI_TOKEN_BACKWARD || kind == PSI_TOKEN_BACKWARD_INPUT;

          busy_ps += (double) duration_ps (c, op);
          forwards += forward;
          stale += forward ? op->token->stale : 0;
          if ((forward && op->part > 0 &&
               psi_order_slot (c, r, op->micro_batch, op->part - 1, PSI_SLOT_FORWARD)->rank != (gint32) r) ||
              (backward && op->part + 1 < c->s->n_parts &&
               psi_order_slot (c, r, op->micro_batch, op->part + 1, PSI_SLOT_INPUT)->rank != (gint32) r))
            transfers++;
        }
    }
  for (guint r = 0; r < c->s->n_ranks; r++)
    facts->begins_ps[r] = MAX (facts->begins_ps[r] - earliest_ps, 0);
  facts->period_ps = distance_ps / steps;
  facts->bubble_fraction = distance_ps > 0 ? 1 - busy_ps / ((double) distance_ps * c->s->n_ranks) : 0;
  facts->transfers = transfers / steps;
  facts->delay_mean = forwards > 0 ? stale / forwards : 0;
  return facts->periodic;
}

gboolean
psi_schedule_check (const PsiSchedule *schedule, const PsiScheduleTimes *times, PsiScheduleFacts *ret_facts,
                    GError **error)
{
  g_auto (PsiScheduleFacts) facts = { .n_ranks = schedule->n_ranks };
  guint skew = psi_order_skew (schedule), n_tokens = 1;
  gboolean periodic = FALSE;

  for (guint r = 0; r < schedule->n_ranks; r++)
    n_tokens += schedule->lists[r]->len;
  facts.in_flight = g_new0 (guint, schedule->n_ranks);
  facts.begins_ps = g_new0 (gint64, schedule->n_ranks);
  for (guint n = FEWEST_REPEATS; n <= MOST_REPEATS && !periodic; n *= 2)
    {
      if (n > FEWEST_REPEATS && (guint64) n * n_tokens > MOST_OPS)
        break;
      g_auto (PsiOrder) order = { .s = schedule };
      if (!psi_order_unroll (&order, schedule, times, n, skew, error) || !follow (&order, error))
        return FALSE;
      periodic = fill_facts (&order, &facts);
    }
  *ret_facts = facts;
  facts.in_flight = NULL;
  facts.begins_ps = NULL;
  return TRUE;
}

void
psi_schedule_facts_clear (PsiScheduleFacts *facts)
{
  g_clear_pointer (&facts->in_flight, g_free);
  g_clear_pointer (&facts->begins_ps, g_free);
}
