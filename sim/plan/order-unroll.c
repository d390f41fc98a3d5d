/* SPDX-License-Identifier: MIT */
#include "order-unroll.h"

#include <string.h>

static const char *const slot_names[PSI_N_SLOTS] = { "F", "B or I", "B or W" };

char *
psi_order_op_name (const PsiOrder *c, const PsiOrderOp *op)
{
  char letter = psi_token_letters[op->token->kind];

  if (op->token->kind == PSI_TOKEN_UPDATE)
    return g_strdup_printf ("U%u of step %d", op->chunk, op->step);
  return c->s->n_chunks > 1 ? g_strdup_printf ("%c%" G_GINT64_FORMAT ".%u", letter, op->micro_batch, op->chunk)
                            : g_strdup_printf ("%c%" G_GINT64_FORMAT, letter, op->micro_batch);
}

static gboolean fail (GError **error, const char *format, ...) G_GNUC_PRINTF (2, 3);

static gboolean
fail (GError **error, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error_literal (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_OPS, text);
  return FALSE;
}

static gboolean
fill (PsiOrder *c, guint rank, const PsiOrderOp *op, guint slot, GError **error)
{
  PsiSlot *at = psi_order_slot (c, rank, op->micro_batch, op->part, slot);

  if (at->rank >= 0)
    {
      g_autofree char *name = psi_order_op_name (c, op);

      return fail (error, "doubled op: rank %u does %s of part %u, which rank %d did already", rank, name, op->part,
                   at->rank);
    }
  *at = (PsiSlot){ .end_ps = -1, .rank = (gint32) rank, .position = c->ranks[rank].ops->len };
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
append_list (PsiOrder *c, guint rank, const GArray *list, gint64 shift, gint32 *n_updates, GError **error)
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
      PsiOrderOp op = { .token = token, .chunk = chunk, .part = psi_schedule_part (s, rank, chunk), .shift = shift };

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
          c->updates_at[psi_order_update (c, rank, chunk, op.step)] = c->ranks[rank].ops->len;
          c->owner[op.part] = (gint32) rank;
        }
      else if ((token->kind == PSI_TOKEN_FORWARD && !fill (c, rank, &op, PSI_SLOT_FORWARD, error)) ||
               ((token->kind == PSI_TOKEN_BACKWARD || token->kind == PSI_TOKEN_BACKWARD_INPUT) &&
                !fill (c, rank, &op, PSI_SLOT_INPUT, error)) ||
               ((token->kind == PSI_TOKEN_BACKWARD || token->kind == PSI_TOKEN_BACKWARD_WEIGHT) &&
                !fill (c, rank, &op, PSI_SLOT_WEIGHT, error)))
        return FALSE;
      g_array_append_val (c->ranks[rank].ops, op);
    }
  return TRUE;
}

static gboolean
unroll_rank (PsiOrder *c, guint rank, GError **error)
{
  const PsiSchedule *s = c->s;
  g_autofree gint32 *n_updates = g_new0 (gint32, s->n_chunks);
  guint n_lists = c->n_steps / MAX (s->steps, 1) + 2;
  PsiOrderRank *row = &c->ranks[rank];

  row->ops = g_array_new (FALSE, FALSE, sizeof (PsiOrderOp));
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

static gboolean
ever_updates (const PsiOrder *c, guint rank, guint chunk)
{
  return c->updates_at[psi_order_update (c, rank, chunk, 0)] != G_MAXUINT32;
}

/* Whoever holds a part updates it in every step, unless one holder does it for all: its versions go to the others. */
static gboolean
check_updates (const PsiOrder *c, GError **error)
{
  const PsiSchedule *s = c->s;
  g_autofree guint *n_updaters = g_new0 (guint, s->n_parts);

  for (guint rank = 0; rank < s->n_ranks; rank++)
    for (guint chunk = 0; chunk < s->n_chunks; chunk++)
      n_updaters[psi_schedule_part (s, rank, chunk)] += ever_updates (c, rank, chunk);
  for (guint rank = 0; rank < s->n_ranks; rank++)
    for (guint chunk = 0; chunk < s->n_chunks; chunk++)
      {
        gboolean others = s->whole && n_updaters[psi_schedule_part (s, rank, chunk)] == 1;

        for (gint32 step = 0; step < (gint32) c->n_steps; step++)
          if ((ever_updates (c, rank, chunk) || !others) &&
              c->updates_at[psi_order_update (c, rank, chunk, step)] == G_MAXUINT32)
            return fail (error, "missing op: rank %u has no U%u of step %d", rank, chunk, step);
      }
  return TRUE;
}

/* What a word waits for is done by that rank, in that form. */
static gboolean
check_waits (const PsiOrder *c, GError **error)
{
  const PsiSchedule *s = c->s;

  for (guint rank = 0; rank < s->n_ranks; rank++)
    for (guint at = 0; at < c->ranks[rank].ops->len; at++)
      {
        const PsiOrderOp *op = &g_array_index (c->ranks[rank].ops, PsiOrderOp, at);

        for (guint i = 0; i < op->token->n_waits; i++)
          {
            const PsiTokenWait *wait = &g_array_index (s->waits, PsiTokenWait, (guint) op->token->first_wait + i);
            gint64 n = wait->micro_batch + op->shift;

            if (n >= c->total)
              continue;
            const PsiSlot *slot =
                psi_order_slot (c, wait->rank, n, psi_schedule_part (s, wait->rank, (guint) wait->chunk),
                                psi_slot_of_kind (wait->kind));
            if ((guint) slot->rank != wait->rank ||
                g_array_index (c->ranks[wait->rank].ops, PsiOrderOp, slot->position).token->kind != wait->kind)
              return fail (error,
                           "missing op: rank %u waits for %c%" G_GINT64_FORMAT " of chunk %d of rank %u, which never "
                           "does it",
                           rank, psi_token_letters[wait->kind], n, wait->chunk, wait->rank);
          }
      }
  return TRUE;
}

/* Every op is there, and the halves of a backward where the forward ran. */
static gboolean
check_complete (const PsiOrder *c, GError **error)
{
  const PsiSchedule *s = c->s;

  for (guint rank = 0; rank < (s->replicas ? s->n_ranks : 1); rank++)
    for (gint64 n = 0; n < c->total; n++)
      for (guint part = 0; part < s->n_parts; part++)
        for (guint slot = 0; slot < PSI_N_SLOTS; slot++)
          {
            const PsiSlot *at = psi_order_slot (c, rank, n, part, slot),
                          *forward = psi_order_slot (c, rank, n, part, PSI_SLOT_FORWARD);

            if (at->rank < 0 && s->replicas)
              return fail (error, "missing op: rank %u has no %s of micro-batch %" G_GINT64_FORMAT " on part %u", rank,
                           slot_names[slot], n, part);
            if (at->rank < 0)
              return fail (error, "missing op: no rank does %s of micro-batch %" G_GINT64_FORMAT " on part %u",
                           slot_names[slot], n, part);
            if (at->rank != forward->rank)
              return fail (error,
                           "misplaced op: %s of micro-batch %" G_GINT64_FORMAT " on part %u is not where its F ran "
                           "(rank %d)",
                           slot_names[slot], n, part, forward->rank);
          }
  return check_updates (c, error) && check_waits (c, error);
}

guint
psi_order_skew (const PsiSchedule *s)
{
  gint64 most = 0;

  for (guint r = 0; r < s->n_ranks; r++)
    for (guint t = 0; t < s->lists[r]->len; t++)
      most = MAX (most, g_array_index (s->lists[r], PsiToken, t).micro_batch);
  for (guint i = 0; s->waits != NULL && i < s->waits->len; i++)
    most = MAX (most, g_array_index (s->waits, PsiTokenWait, i).micro_batch);
  return (guint) MAX (most / s->micro_batches + 1 - MAX (s->steps, 1), 0);
}

void
psi_order_clear (PsiOrder *c)
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

gboolean
psi_order_unroll (PsiOrder *c, const PsiSchedule *s, const PsiScheduleTimes *times, guint n_repeats, guint skew,
                  GError **error)
{
  guint n_steps = n_repeats * MAX (s->steps, 1) + skew;
  gsize n_updates = (gsize) s->n_ranks * s->n_chunks * n_steps, n_ready = (gsize) s->n_parts * n_steps;

  *c = (PsiOrder){ .s = s, .times = times, .n_repeats = n_repeats, .n_steps = n_steps };
  c->total = n_steps * s->micro_batches;
  gsize n_slots = (gsize) c->total * (s->replicas ? s->n_ranks : 1) * s->n_parts * PSI_N_SLOTS;
  c->ranks = g_new0 (PsiOrderRank, s->n_ranks);
  c->slots = g_new (PsiSlot, n_slots);
  for (gsize i = 0; i < n_slots; i++)
    c->slots[i] = (PsiSlot){ .end_ps = -1, .rank = -1 };
  c->updated_ps = g_new (gint64, n_updates);
  c->updates_at = g_new (guint32, n_updates);
  memset (c->updated_ps, 0xff, n_updates * sizeof *c->updated_ps);
  memset (c->updates_at, 0xff, n_updates * sizeof *c->updates_at);
  c->left = g_new (gint64, n_ready);
  c->ready_ps = g_new0 (gint64, n_ready);
  for (gsize i = 0; i < n_ready; i++)
    c->left[i] = s->micro_batches * (s->replicas ? s->n_ranks : 1);
  c->owner = g_new (gint32, s->n_parts);
  memset (c->owner, 0xff, s->n_parts * sizeof *c->owner);
  for (guint r = 0; r < s->n_ranks; r++)
    if (!unroll_rank (c, r, error))
      return FALSE;
  if (!check_complete (c, error))
    return FALSE;
  /* A gradient is taken where its forward was, whatever the backward's own word says. */
  for (guint r = 0; r < s->n_ranks; r++)
    for (guint at = 0; at < c->ranks[r].ops->len; at++)
      {
        PsiOrderOp *op = &g_array_index (c->ranks[r].ops, PsiOrderOp, at);

        if (op->token->kind == PSI_TOKEN_BACKWARD || op->token->kind == PSI_TOKEN_BACKWARD_INPUT)
          op->version = g_array_index (c->ranks[r].ops, PsiOrderOp,
                                       psi_order_slot (c, r, op->micro_batch, op->part, PSI_SLOT_FORWARD)->position)
                            .version;
      }
  return TRUE;
}
