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
#include "schedule-file.h"

#include <string.h>

#define FEWEST_REPEATS 4
#define MOST_REPEATS 64
#define MOST_OPS 6000000 /* of all unrolled lists together */

/* Where the forward, the input half and the weight half of a micro-batch on a part are done; a full backward is both
 * halves. */
enum
{
  SLOT_FORWARD,
  SLOT_INPUT,
  SLOT_WEIGHT,
  N_SLOTS
};
static const char *const slot_names[N_SLOTS] = { "F", "B or I", "B or W" };

typedef struct
{
  gint64 end_ps; /* -1: not yet */
  gint32 rank;   /* -1: nobody does it */
  guint32 position;
} Slot;

typedef struct
{
  const PsiToken *token;
  guint32 part;
  guint32 chunk;
  gint64 micro_batch; /* of the whole run */
  gint64 shift;       /* what was added to the file's number in this repetition */
  gint32 step, version;
  gboolean joined;
  gint64 start_ps;
} Op;

typedef struct
{
  GArray *ops;    /* of Op */
  guint *begins;  /* [repeats + 1] first op of each repetition */
  guint position; /* next op */
  gint64 free_ps;
} Rank;

typedef struct
{
  const PsiSchedule *s;
  const PsiScheduleTimes *times;
  guint n_repeats, n_steps;
  gint64 total; /* micro-batches of the run */
  Rank *ranks;
  Slot *slots;         /* [((replica * total + micro_batch) * parts + part) * N_SLOTS + slot] */
  gint64 *updated_ps;  /* [(rank * chunks + chunk) * n_steps + step], -1 not yet */
  guint32 *updates_at; /* the same: position of the update, G_MAXUINT32 none */
  gint64 *left;        /* [part * n_steps + step] weight halves that are not done */
  gint64 *ready_ps;    /* the same: end of the latest */
  gint32 *owner;       /* [part] a rank that updates it */
  guint current;       /* the op whose needs are looked at, on its rank */
} Check;

/* What an op waits for, for messages. */
typedef struct
{
  guint rank;
  guint32 position;
} Need;

static Slot *
slot_of (const Check *c, guint rank, gint64 micro_batch, guint part, guint slot)
{
  gint64 replica = c->s->replicas ? rank : 0;

  return &c->slots[((replica * c->total + micro_batch) * c->s->n_parts + part) * N_SLOTS + slot];
}

static gsize
update_index (const Check *c, guint rank, guint chunk, gint32 step)
{
  return (gsize) (rank * c->s->n_chunks + chunk) * c->n_steps + (gsize) step;
}

static char *
op_name (const Check *c, const Op *op)
{
  char letter = psi_token_letters[op->token->kind];

  if (op->token->kind == PSI_TOKEN_UPDATE)
    return g_strdup_printf ("U%u of step %d", op->chunk, op->step);
  return c->s->n_chunks > 1 ? g_strdup_printf ("%c%" G_GINT64_FORMAT ".%u", letter, op->micro_batch, op->chunk)
                            : g_strdup_printf ("%c%" G_GINT64_FORMAT, letter, op->micro_batch);
}

static gboolean fail (GError **error, PsiScheduleError code, const char *format, ...) G_GNUC_PRINTF (3, 4);

static gboolean
fail (GError **error, PsiScheduleError code, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error_literal (error, PSI_SCHEDULE_ERROR, (int) code, text);
  return FALSE;
}

/* ---- Unrolling ---- */

static gboolean
fill (Check *c, guint rank, const Op *op, guint slot, GError **error)
{
  Slot *at = slot_of (c, rank, op->micro_batch, op->part, slot);

  if (at->rank >= 0)
    {
      g_autofree char *name = op_name (c, op);

      return fail (error, PSI_SCHEDULE_ERROR_OPS, "doubled op: rank %u does %s of part %u, which rank %d did already",
                   rank, name, op->part, at->rank);
    }
  *at = (Slot){ .end_ps = -1, .rank = (gint32) rank, .position = c->ranks[rank].ops->len };
  return TRUE;
}

/* The chunk of a rank with the n-th smallest part. */
static guint
chunk_by_part (const PsiSchedule *s, guint rank, guint n)
{
  for (guint chunk = 0; chunk < s->n_chunks; chunk++)
    {
      guint smaller = 0;

      for (guint other = 0; other < s->n_chunks; other++)
        smaller += psi_schedule_part (s, rank, other) < psi_schedule_part (s, rank, chunk);
      if (smaller == n)
        return chunk;
    }
  g_assert_not_reached ();
}

/* One repetition of a list; what lies beyond the run is left out. */
static gboolean
append_list (Check *c, guint rank, const GArray *list, gint64 shift, gint32 *n_updates, GError **error)
{
  static const PsiToken implied = { .kind = PSI_TOKEN_UPDATE, .micro_batch = -1 };
  const PsiSchedule *s = c->s;
  guint n_tokens = list->len + (s->has_updates ? 0 : s->n_chunks);
  gboolean skipped = FALSE;

  for (guint t = 0; t < n_tokens; t++)
    {
      const PsiToken *token = t < list->len ? &g_array_index (list, PsiToken, t) : &implied;
      gboolean update = token->kind == PSI_TOKEN_UPDATE;
      guint chunk = t < list->len ? (guint) token->chunk : chunk_by_part (s, rank, t - list->len);
      Op op = { .token = token, .chunk = chunk, .part = psi_schedule_part (s, rank, chunk), .shift = shift };

      op.micro_batch = update ? -1 : token->micro_batch + shift;
      op.step = update ? n_updates[chunk]++ : (gint32) (op.micro_batch / s->micro_batches);
      op.version = MAX (op.step - token->stale, 0);
      if ((guint) op.step >= c->n_steps)
        {
          skipped = !token->joined || skipped;
          continue;
        }
      op.joined = token->joined && !skipped;
      skipped = FALSE;
      if (update)
        {
          c->updates_at[update_index (c, rank, chunk, op.step)] = c->ranks[rank].ops->len;
          c->owner[op.part] = (gint32) rank;
        }
      else if ((token->kind == PSI_TOKEN_FORWARD && !fill (c, rank, &op, SLOT_FORWARD, error)) ||
               ((token->kind == PSI_TOKEN_BACKWARD || token->kind == PSI_TOKEN_BACKWARD_INPUT) &&
                !fill (c, rank, &op, SLOT_INPUT, error)) ||
               ((token->kind == PSI_TOKEN_BACKWARD || token->kind == PSI_TOKEN_BACKWARD_WEIGHT) &&
                !fill (c, rank, &op, SLOT_WEIGHT, error)))
        return FALSE;
      g_array_append_val (c->ranks[rank].ops, op);
    }
  return TRUE;
}

static gboolean
unroll (Check *c, guint rank, GError **error)
{
  const PsiSchedule *s = c->s;
  g_autofree gint32 *n_updates = g_new0 (gint32, s->n_chunks);
  guint n_lists = c->n_steps / MAX (s->steps, 1) + 2;
  Rank *row = &c->ranks[rank];

  row->ops = g_array_new (FALSE, FALSE, sizeof (Op));
  row->begins = g_new0 (guint, c->n_repeats + 1);
  if (s->once != NULL && !append_list (c, rank, s->once[rank], 0, n_updates, error))
    return FALSE;
  for (guint i = 0; i < n_lists; i++)
    {
      if (i <= c->n_repeats)
        row->begins[i] = row->ops->len;
      if (!append_list (c, rank, s->lists[rank], i * MAX (s->steps, 1) * s->micro_batches, n_updates, error))
        return FALSE;
    }
  return TRUE;
}

/* Every op is there, and the halves of a backward where the forward ran. */
static gboolean
check_complete (const Check *c, GError **error)
{
  const PsiSchedule *s = c->s;

  for (guint rank = 0; rank < (s->replicas ? s->n_ranks : 1); rank++)
    for (gint64 n = 0; n < c->total; n++)
      for (guint part = 0; part < s->n_parts; part++)
        for (guint slot = 0; slot < N_SLOTS; slot++)
          {
            const Slot *at = slot_of (c, rank, n, part, slot), *forward = slot_of (c, rank, n, part, SLOT_FORWARD);

            if (at->rank < 0 && s->replicas)
              return fail (error, PSI_SCHEDULE_ERROR_OPS,
                           "missing op: rank %u has no %s of micro-batch %" G_GINT64_FORMAT " on part %u", rank,
                           slot_names[slot], n, part);
            if (at->rank < 0)
              return fail (error, PSI_SCHEDULE_ERROR_OPS,
                           "missing op: no rank does %s of micro-batch %" G_GINT64_FORMAT " on part %u",
                           slot_names[slot], n, part);
            if (at->rank != forward->rank)
              return fail (error, PSI_SCHEDULE_ERROR_OPS,
                           "misplaced op: %s of micro-batch %" G_GINT64_FORMAT " on part %u is not where its F ran "
                           "(rank %d)",
                           slot_names[slot], n, part, forward->rank);
          }
  /* A rank that never updates a chunk gets its versions from one that does; one that begins must go on. */
  for (guint rank = 0; rank < s->n_ranks; rank++)
    for (guint chunk = 0; chunk < s->n_chunks; chunk++)
      {
        guint part = psi_schedule_part (s, rank, chunk);
        gboolean ever = c->updates_at[update_index (c, rank, chunk, 0)] != G_MAXUINT32;

        for (gint32 step = 0; step < (gint32) c->n_steps; step++)
          if ((ever || c->owner[part] < 0) && c->updates_at[update_index (c, rank, chunk, step)] == G_MAXUINT32)
            return fail (error, PSI_SCHEDULE_ERROR_OPS, "missing op: rank %u has no U%u of step %d", rank, chunk, step);
      }
  return TRUE;
}

/* ---- Following ---- */

/* Is the slot done, and when does the rank have it? Else *ret_need says who must do it. */
static gboolean
have (const Check *c, guint rank, gint64 micro_batch, guint part, guint slot, gint64 *time_ps, Need *ret_need)
{
  const Slot *at = slot_of (c, rank, micro_batch, part, slot);

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
have_update (const Check *c, guint rank, const Op *op, gint64 *time_ps, Need *ret_need)
{
  const PsiSchedule *s = c->s;
  guint updater = rank, chunk = op->chunk;

  if (c->updates_at[update_index (c, rank, chunk, 0)] == G_MAXUINT32)
    {
      updater = (guint) c->owner[op->part];
      for (chunk = 0; psi_schedule_part (s, updater, chunk) != op->part;)
        chunk++;
    }
  gsize index = update_index (c, updater, chunk, op->version - 1);
  *ret_need = (Need){ updater, c->updates_at[index] };
  *time_ps = MAX (*time_ps, c->updated_ps[index]);
  return c->updated_ps[index] >= 0;
}

/* All weight halves of the step for the part. */
static gboolean
have_gradients (const Check *c, guint rank, const Op *op, gint64 *time_ps, Need *ret_need)
{
  gsize index = (gsize) op->part * c->n_steps + (gsize) op->step;

  *time_ps = MAX (*time_ps, c->ready_ps[index]);
  for (gint64 n = op->step * c->s->micro_batches; c->left[index] > 0; n++)
    for (guint r = 0; r < (c->s->replicas ? c->s->n_ranks : 1); r++)
      {
        const Slot *at = slot_of (c, r, n, op->part, SLOT_WEIGHT);

        *ret_need = (Need){ (guint) at->rank, at->position };
        if (at->end_ps < 0)
          return FALSE;
      }
  return TRUE;
}

static gboolean
have_waits (const Check *c, const Op *op, gint64 *time_ps, Need *ret_need)
{
  for (guint i = 0; i < op->token->n_waits; i++)
    {
      const PsiTokenWait *wait = &g_array_index (c->s->waits, PsiTokenWait, (guint) op->token->first_wait + i);
      guint slot = wait->kind == PSI_TOKEN_FORWARD           ? SLOT_FORWARD
                   : wait->kind == PSI_TOKEN_BACKWARD_WEIGHT ? SLOT_WEIGHT
                                                             : SLOT_INPUT;
      gint64 n = wait->micro_batch + op->shift;

      if (n < c->total &&
          !have (c, wait->rank, n, psi_schedule_part (c->s, wait->rank, (guint) wait->chunk), slot, time_ps, ret_need))
        return FALSE;
    }
  return TRUE;
}

static gboolean
is_ready (const Check *c, guint rank, const Op *op, gint64 *time_ps, Need *ret_need)
{
  guint kind = op->token->kind;
  gboolean backward = kind == PSI_TOKEN_BACKWARD || kind == PSI_TOKEN_BACKWARD_INPUT;

  if (kind == PSI_TOKEN_UPDATE)
    return have_waits (c, op, time_ps, ret_need) && have_gradients (c, rank, op, time_ps, ret_need);
  if (kind == PSI_TOKEN_FORWARD && op->part > 0 &&
      !have (c, rank, op->micro_batch, op->part - 1, SLOT_FORWARD, time_ps, ret_need))
    return FALSE;
  if (backward && !have (c, rank, op->micro_batch, op->part, SLOT_FORWARD, time_ps, ret_need))
    return FALSE;
  if (backward && op->part + 1 < c->s->n_parts &&
      !have (c, rank, op->micro_batch, op->part + 1, SLOT_INPUT, time_ps, ret_need))
    return FALSE;
  if (kind == PSI_TOKEN_BACKWARD_WEIGHT)
    return have (c, rank, op->micro_batch, op->part, SLOT_INPUT, time_ps, ret_need) &&
           have_waits (c, op, time_ps, ret_need);
  return (op->version == 0 || have_update (c, rank, op, time_ps, ret_need)) && have_waits (c, op, time_ps, ret_need);
}

static gint64
duration_ps (const Check *c, const Op *op)
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
finish_op (Check *c, guint rank, Op *op, gint64 start_ps, gint64 end_ps)
{
  guint kind = op->token->kind;

  op->start_ps = start_ps;
  if (kind == PSI_TOKEN_UPDATE)
    {
      c->updated_ps[update_index (c, rank, op->chunk, op->step)] = end_ps;
      return;
    }
  if (kind == PSI_TOKEN_FORWARD)
    slot_of (c, rank, op->micro_batch, op->part, SLOT_FORWARD)->end_ps = end_ps;
  if (kind == PSI_TOKEN_BACKWARD || kind == PSI_TOKEN_BACKWARD_INPUT)
    slot_of (c, rank, op->micro_batch, op->part, SLOT_INPUT)->end_ps = end_ps;
  if (kind == PSI_TOKEN_BACKWARD || kind == PSI_TOKEN_BACKWARD_WEIGHT)
    {
      gsize index = (gsize) op->part * c->n_steps + (gsize) op->step;

      slot_of (c, rank, op->micro_batch, op->part, SLOT_WEIGHT)->end_ps = end_ps;
      c->left[index]--;
      c->ready_ps[index] = MAX (c->ready_ps[index], end_ps);
    }
}

/* Run the next group of overlapped ops of a rank, if they can all begin; else *ret_need says what stops them. */
static gboolean
run_group (Check *c, guint rank, Need *ret_need)
{
  Rank *row = &c->ranks[rank];
  gint64 start_ps = row->free_ps, length_ps = 0;
  guint end = row->position;

  do
    {
      const Op *op = &g_array_index (row->ops, Op, end);

      c->current = end;
      if (!is_ready (c, rank, op, &start_ps, ret_need))
        return FALSE;
      length_ps += duration_ps (c, op);
      end++;
    }
  while (end < row->ops->len && g_array_index (row->ops, Op, end).joined);
  for (; row->position < end; row->position++)
    finish_op (c, rank, &g_array_index (row->ops, Op, row->position), start_ps, start_ps + length_ps);
  row->free_ps = start_ps + length_ps;
  return TRUE;
}

/* Nothing moves: walk from rank to rank along what each waits for until one comes again. */
static gboolean
report_deadlock (Check *c, GError **error)
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
      g_autofree char *head = op_name (c, &g_array_index (c->ranks[at].ops, Op, c->ranks[at].position));
      g_autofree char *wanted = op_name (c, &g_array_index (c->ranks[need.rank].ops, Op, need.position));
      g_string_append_printf (text, "%srank %u at %s waits for %s of rank %u", i + 1 > seen[rank] ? ", " : "", at, head,
                              wanted, need.rank);
    }
  g_string_append (text, walk->len == seen[rank] ? ", which comes after it" : ", which comes after that");
  return fail (error, PSI_SCHEDULE_ERROR_DEADLOCK, "%s", text->str);
}

static gboolean
follow (Check *c, GError **error)
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
repeats_after (const Check *c, guint i, gint64 *ret_distance_ps)
{
  gboolean first = TRUE;

  for (guint r = 0; r < c->s->n_ranks; r++)
    {
      const Rank *row = &c->ranks[r];

      for (guint at = row->begins[i]; at < row->begins[i + 1]; at++)
        {
          gint64 distance_ps = g_array_index (row->ops, Op, at).start_ps -
                               g_array_index (row->ops, Op, at - row->begins[i] + row->begins[i - 1]).start_ps;

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
peak_of (const Rank *row, guint end)
{
  guint level = 0, peak = 0;

  for (guint at = 0; at < end;)
    {
      guint freed = 0;

      do
        {
          guint kind = g_array_index (row->ops, Op, at).token->kind;

          level += kind == PSI_TOKEN_FORWARD;
          freed += kind == PSI_TOKEN_BACKWARD || kind == PSI_TOKEN_BACKWARD_WEIGHT;
          at++;
        }
      while (at < end && g_array_index (row->ops, Op, at).joined);
      peak = MAX (peak, level);
      level -= MIN (freed, level);
    }
  return peak;
}

static gboolean
fill_facts (const Check *c, PsiScheduleFacts *facts)
{
  guint last = c->n_repeats - 1, steps = MAX (c->s->steps, 1);
  gint64 distance_ps = 0, before_ps = 0, earliest_ps = G_MAXINT64;
  double busy_ps = 0, stale = 0, forwards = 0, transfers = 0;

  facts->periodic =
      repeats_after (c, last, &distance_ps) && repeats_after (c, last - 1, &before_ps) && distance_ps == before_ps;
  for (guint r = 0; r < c->s->n_ranks; r++)
    {
      const Rank *row = &c->ranks[r];
      guint begin = row->begins[last];

      if (!facts->periodic && row->begins[last + 1] > begin)
        distance_ps = MAX (distance_ps, (g_array_index (row->ops, Op, begin).start_ps -
                                         g_array_index (row->ops, Op, row->begins[last / 2]).start_ps) /
                                            (last - last / 2));
      facts->in_flight[r] = peak_of (row, row->begins[last + 1]);
      facts->begins_ps[r] = row->begins[last + 1] > begin ? g_array_index (row->ops, Op, begin).start_ps : 0;
      if (row->begins[last + 1] > begin)
        earliest_ps = MIN (earliest_ps, facts->begins_ps[r]);
      for (guint at = begin; at < row->begins[last + 1]; at++)
        {
          const Op *op = &g_array_index (row->ops, Op, at);
          guint kind = op->token->kind;
          gboolean forward = kind == PSI_TOKEN_FORWARD;
          gboolean backward = kind == PSI_TOKEN_BACKWARD || kind == PSI_TOKEN_BACKWARD_INPUT;

          busy_ps += (double) duration_ps (c, op);
          forwards += forward;
          stale += forward && op->token->stale;
          if ((forward && op->part > 0 &&
               slot_of (c, r, op->micro_batch, op->part - 1, SLOT_FORWARD)->rank != (gint32) r) ||
              (backward && op->part + 1 < c->s->n_parts &&
               slot_of (c, r, op->micro_batch, op->part + 1, SLOT_INPUT)->rank != (gint32) r))
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

/* Steps by which the repeated lists run ahead of the first repetition's own. */
static guint
skew_of (const PsiSchedule *s)
{
  gint64 most = 0;

  for (guint r = 0; r < s->n_ranks; r++)
    for (guint t = 0; t < s->lists[r]->len; t++)
      most = MAX (most, g_array_index (s->lists[r], PsiToken, t).micro_batch);
  return (guint) MAX (most / s->micro_batches + 1 - MAX (s->steps, 1), 0);
}

static void
check_clear (Check *c)
{
  for (guint r = 0; c->ranks != NULL && r < c->s->n_ranks; r++)
    {
      g_clear_pointer (&c->ranks[r].ops, g_array_unref);
      g_free (c->ranks[r].begins);
    }
  g_free (c->ranks);
  g_free (c->slots);
  g_free (c->updated_ps);
  g_free (c->updates_at);
  g_free (c->left);
  g_free (c->ready_ps);
  g_free (c->owner);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Check, check_clear)

static gboolean
check_repeats (const PsiSchedule *s, const PsiScheduleTimes *times, guint n_repeats, guint skew,
               PsiScheduleFacts *facts, gboolean *ret_periodic, GError **error)
{
  guint n_steps = n_repeats * MAX (s->steps, 1) + skew;
  g_auto (Check) c = { .s = s, .times = times, .n_repeats = n_repeats, .n_steps = n_steps };
  gsize n_updates = (gsize) s->n_ranks * s->n_chunks * n_steps, n_ready = (gsize) s->n_parts * n_steps;

  c.total = n_steps * s->micro_batches;
  gsize n_slots = (gsize) c.total * (s->replicas ? s->n_ranks : 1) * s->n_parts * N_SLOTS;
  c.ranks = g_new0 (Rank, s->n_ranks);
  c.slots = g_new (Slot, n_slots);
  for (gsize i = 0; i < n_slots; i++)
    c.slots[i] = (Slot){ .end_ps = -1, .rank = -1 };
  c.updated_ps = g_new (gint64, n_updates);
  c.updates_at = g_new (guint32, n_updates);
  memset (c.updated_ps, 0xff, n_updates * sizeof *c.updated_ps);
  memset (c.updates_at, 0xff, n_updates * sizeof *c.updates_at);
  c.left = g_new (gint64, n_ready);
  c.ready_ps = g_new0 (gint64, n_ready);
  for (gsize i = 0; i < n_ready; i++)
    c.left[i] = s->micro_batches * (s->replicas ? s->n_ranks : 1);
  c.owner = g_new (gint32, s->n_parts);
  memset (c.owner, 0xff, s->n_parts * sizeof *c.owner);
  for (guint r = 0; r < s->n_ranks; r++)
    if (!unroll (&c, r, error))
      return FALSE;
  if (!check_complete (&c, error) || !follow (&c, error))
    return FALSE;
  *ret_periodic = fill_facts (&c, facts);
  return TRUE;
}

gboolean
psi_schedule_check (const PsiSchedule *schedule, const PsiScheduleTimes *times, PsiScheduleFacts *ret_facts,
                    GError **error)
{
  g_auto (PsiScheduleFacts) facts = { .n_ranks = schedule->n_ranks };
  guint skew = skew_of (schedule), n_tokens = 1;
  gboolean periodic = FALSE;

  for (guint r = 0; r < schedule->n_ranks; r++)
    n_tokens += schedule->lists[r]->len;
  facts.in_flight = g_new0 (guint, schedule->n_ranks);
  facts.begins_ps = g_new0 (gint64, schedule->n_ranks);
  for (guint n = FEWEST_REPEATS; n <= MOST_REPEATS && !periodic; n *= 2)
    {
      if (n > FEWEST_REPEATS && (guint64) n * n_tokens > MOST_OPS)
        break;
      if (!check_repeats (schedule, times, n, skew, &facts, &periodic, error))
        return FALSE;
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
