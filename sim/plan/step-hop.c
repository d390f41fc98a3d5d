/* SPDX-License-Identifier: MIT */
/* Hops in the streams of their ranks: nobody waits in a circle, and on links that take no time nobody waits at all.
 *
 * A stream runs in program order, one repetition a step, so each side of a hop needs a repetition and a place in it:
 *
 *   repetition = floor ((t - S) / P), at t - S - repetition * P
 *
 * with t the virtual time at which it passes, S the virtual start of that side's worker, P the period. Within a stream
 * hops stand in the order of t, of two that pass at once the one of the earlier step first, then by serial number.
 *
 * No deadlock. Hops of all steps are in one total order, that of (t, step, serial), and every stream of every rank has
 * its hops in this order, on both sides: windows of one length, repeated, cut time into pieces, and two hops at one t
 * fall into the same repetition. A hop waits for hops before it in the order (of its streams; after_hop passes no later
 * and has a smaller serial number, of the same step), and for ops that have ended on the virtual timeline by t; these
 * take time there, so they began before t. An op waits for hops that pass no later than it begins, and for ops of its
 * rank that have ended by then. So an op that begins at t waits for hops up to t only, a hop at t for ops that begin
 * before t and hops before it: whatever is first in time, hops before ops at one instant, can go. That holds for any
 * number of workers, stages and micro-batches, and for any time that transfers really take.
 *
 * Period. If transfers take no time, the virtual timeline meets every one of these conditions: the real one, which does
 * everything as soon as it can, is never later, and repeats with P. A transfer costs time where it takes longer than
 * from the end of what it waits for to the start of what waits for it.
 *
 * Source: ours; it is the argument that an event graph has no cycle if a clock can be found for it. */
#include "step-hop.h"

PsiHop *
psi_hop_add (GPtrArray *hops, PsiStepRank *from, guint from_worker, PsiStepRank *to, guint to_worker)
{
  PsiHop *hop = g_new0 (PsiHop, 1);

  hop->from = from;
  hop->from_worker = from_worker;
  hop->to = to;
  hop->to_worker = to_worker;
  hop->after_from.op = hop->after_to.op = hop->before.op = hop->arrival = PSI_OP_NONE;
  hop->serial = hops->len;
  g_ptr_array_add (hops, hop);
  return hop;
}

static gint64
floor_of (gint64 a, gint64 b)
{
  return a / b - (a % b < 0);
}

/* Repetitions, and places in them. */
static void
place (const PsiSchedule *s, PsiHop *hop)
{
  gint64 sent_ps = hop->pass_ps - s->first_use_ps[hop->from_worker * s->n_parts];
  gint64 received_ps = hop->pass_ps - s->first_use_ps[hop->to_worker * s->n_parts];

  hop->sent = (gint) floor_of (sent_ps, s->period_ps);
  hop->sent_at_ps = sent_ps - hop->sent * s->period_ps;
  hop->received = (gint) floor_of (received_ps, s->period_ps);
  hop->received_at_ps = received_ps - hop->received * s->period_ps;
}

static int
compare_places (gint64 x_ps, gint x_repetition, const PsiHop *x, gint64 y_ps, gint y_repetition, const PsiHop *y)
{
  if (x_ps != y_ps)
    return x_ps < y_ps ? -1 : 1;
  if (x_repetition != y_repetition) /* in one repetition of the stream, the later one is about an earlier step */
    return x_repetition > y_repetition ? -1 : 1;
  return (x->serial > y->serial) - (x->serial < y->serial);
}

static int
compare_sends (gconstpointer a, gconstpointer b)
{
  const PsiHop *x = *(PsiHop *const *) a, *y = *(PsiHop *const *) b;

  return compare_places (x->sent_at_ps, x->sent, x, y->sent_at_ps, y->sent, y);
}

static int
compare_receives (gconstpointer a, gconstpointer b)
{
  const PsiHop *x = *(PsiHop *const *) a, *y = *(PsiHop *const *) b;

  return compare_places (x->received_at_ps, x->received, x, y->received_at_ps, y->received, y);
}

/* Messages of one channel keep their order within a repetition on both sides: those that reach into another repetition
 * have a channel of their own. */
static guint
channel_of (const PsiHop *hop)
{
  return hop->what + (guint) (hop->sent - hop->received + PSI_HOP_WHATS / 2) % PSI_HOP_WHATS;
}

static void
wait_for (PsiProgram *program, PsiOpId op, gint at, PsiHopOp before)
{
  if (before.op == PSI_OP_NONE)
    return;
  g_assert (at >= before.step);
  psi_program_after (program, op, before.op, (guint) (at - before.step));
}

static void
write_receive (PsiStep *step, PsiHop *hop)
{
  PsiProgram *program = hop->to->program;
  PsiOpId op = psi_step_receive (step, hop->from, hop->to, hop->stream_in, channel_of (hop), hop->part, hop->bytes,
                                 hop->traffic);

  psi_program_skip (program, op, (guint) MAX (hop->received - hop->sent, 0));
  psi_program_label (program, op, -1, (gint32) hop->part);
  wait_for (program, op, hop->received, hop->after_to);
  if (hop->before.op != PSI_OP_NONE)
    wait_for (program, hop->before.op, hop->before.step, (PsiHopOp){ op, hop->received });
  if (hop->takes_memory)
    {
      psi_program_delta (program, op, FALSE, hop->memory_class, hop->bytes);
      psi_program_shift (program, op, hop->received - hop->to_memory_step);
    }
  hop->arrival = op;
}

static void
write_send (PsiStep *step, PsiHop *hop)
{
  PsiProgram *program = hop->from->program;
  PsiOpId op =
      psi_step_send (step, hop->from, hop->to, hop->stream_out, channel_of (hop), hop->part, hop->bytes, hop->traffic);

  psi_program_skip (program, op, (guint) MAX (hop->sent - hop->received, 0));
  psi_program_label (program, op, -1, (gint32) hop->part);
  wait_for (program, op, hop->sent, hop->after_from);
  if (hop->after_hop != NULL)
    wait_for (program, op, hop->sent, (PsiHopOp){ hop->after_hop->arrival, hop->after_hop->received });
  if (hop->takes_memory && !hop->leaves_copy)
    {
      psi_program_delta (program, op, TRUE, hop->memory_class, -hop->bytes);
      psi_program_shift (program, op, hop->sent - hop->from_memory_step);
    }
}

void
psi_hops_write (PsiStep *step, GPtrArray *hops)
{
  g_autoptr (GPtrArray) order = g_ptr_array_copy (hops, NULL, NULL);

  g_ptr_array_set_free_func (order, NULL);
  for (guint i = 0; i < order->len; i++)
    place (step->schedule, g_ptr_array_index (order, i));
  g_ptr_array_sort (order, compare_receives);
  for (guint i = 0; i < order->len; i++)
    write_receive (step, g_ptr_array_index (order, i));
  g_ptr_array_sort (order, compare_sends);
  for (guint i = 0; i < order->len; i++)
    write_send (step, g_ptr_array_index (order, i));
}
