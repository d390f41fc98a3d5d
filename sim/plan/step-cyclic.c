/* SPDX-License-Identifier: MIT */
/* The cyclic update: partial gradient sums hop from worker to worker, versions travel in order of first use.
 *
 * Gradients of part j: worker i adds its own and sends the sum to i + 1, which needs it by the end of its own backward.
 * The last worker updates (cdp-zero: the part's owner, the first worker to use the new version).
 * Versions: user u is worker i, `lag` steps after the step whose gradients made the version (1 fresh, 2 stale), in
 * order of virtual time. A hop to a separate worker starts when that worker has ended the backward that used its old
 * version; the receiver sends on after its own first op of the part, or at once if the next user cannot wait so long
 * (more workers than stages). Workers that share the GPUs of a stage keep a
 * second version instead, and only the first g users are on other GPUs (g GPUs in the pool, micro-batch n on n mod g);
 * gradients are added up on each GPU first, so the last g micro-batches hop. cdp-zero passes one copy from use to use.
 *
 * Source: Fournier and Oyallon, arXiv 2403.08837, section on communication; the placement rules are ours. */
#include "step-hop.h"
#include "step-uses.h"

/* Kinds of hops; each has channels of its own. Boundary messages count from 0. */
enum
{
  HOP_GRADIENT = 1 << 24,
  HOP_OWNER = HOP_GRADIENT + PSI_HOP_WHATS,
  HOP_TURN = HOP_OWNER + PSI_HOP_WHATS,
  HOP_VERSION = HOP_TURN + PSI_HOP_WHATS, /* the next from a backward, the next two to a backward */
};

/* The rank that works for a worker on a part. */
static PsiStepRank *
rank_of (PsiStep *step, guint worker, guint part)
{
  if (step->schedule->n_ranks == step->schedule->n_workers && !step->plan->by_stage)
    return &step->ranks[worker * step->n_classes];
  return psi_step_rank_of_part (step, &step->ranks[0], part, worker * step->schedule->worker_micro_batches);
}

static gboolean
is_separate (const PsiStep *step)
{
  return step->plan->placement == PSI_PLACEMENT_SEPARATE;
}

static double
part_elements (const PsiStep *step, const PsiStepRank *rank, guint part, gint64 *ret_gradient_bytes,
               gint64 *ret_parameter_bytes)
{
  double elements = 0;

  *ret_gradient_bytes = *ret_parameter_bytes = 0;
  for (guint l = step->partition.first[part]; l < step->partition.first[part + 1]; l++)
    {
      const PsiLayerKind *kind = psi_layer_kind (rank->shape->model, l);

      elements += (double) psi_kind_trainable (kind);
      *ret_gradient_bytes += psi_layer_gradient_bytes (step, kind);
      *ret_parameter_bytes +=
          step->plan->zero == 3 ? psi_layer_parameter_bytes (step, kind) : psi_layer_trained_bytes (step, kind);
    }
  return elements;
}

static gsize
first_index (const PsiStep *step, guint worker, guint chunk)
{
  return psi_token_index (step, chunk, worker * step->schedule->worker_micro_batches);
}

static gsize
last_index (const PsiStep *step, guint worker, guint chunk)
{
  return psi_token_index (step, chunk, (worker + 1) * step->schedule->worker_micro_batches - 1);
}

static guint
chunk_of (const PsiStep *step, guint part)
{
  return step->plan->by_stage ? 0 : part;
}

static void
add_update (PsiStep *step, PsiStepRank *rank, guint part)
{
  gint64 gradient_bytes, parameter_bytes;
  double elements = part_elements (step, rank, part, &gradient_bytes, &parameter_bytes);

  rank->update[part] = psi_step_optimizer (step, rank, elements, (int) part);
}

void
psi_step_cyclic_before (PsiStep *step, PsiStepRank *rank, const PsiToken *token)
{
  guint part = psi_schedule_part (step->schedule, rank->list, (guint) token->chunk);
  guint worker = (guint) (token->micro_batch / step->schedule->worker_micro_batches);

  if (step->plan->zero == 3 && token->kind == PSI_TOKEN_FORWARD &&
      token->micro_batch % step->schedule->worker_micro_batches == 0 && worker == step->schedule->owner[part])
    {
      /* An owner that is the last worker itself releases gradients of an earlier step: an op of that step. */
      if (worker == step->schedule->n_workers - 1)
        psi_program_shift (rank->program, psi_program_work (rank->program, PSI_STREAM_COMPUTE, 0, PSI_TAG_OPTIMIZER),
                           (int) psi_step_lag (step, worker, part));
      add_update (step, rank, part);
    }
}

void
psi_step_cyclic_after (PsiStep *step, PsiStepRank *rank, const PsiToken *token)
{
  guint part = psi_schedule_part (step->schedule, rank->list, (guint) token->chunk);

  if (step->plan->zero != 3 && token->kind == PSI_TOKEN_BACKWARD &&
      token->micro_batch == step->schedule->micro_batches - 1)
    add_update (step, rank, part);
}

/* Virtual end of a worker's last backward of a part, in its step 0. */
static gint64
backward_end (const PsiStep *step, guint worker, guint part)
{
  return step->schedule->first_use_ps[worker * step->schedule->n_parts + part] + step->schedule->lifetime_ps[part];
}

static PsiHop *
add_hop (PsiStep *step, GPtrArray *hops, guint from, guint to, guint what, guint part, gint64 bytes)
{
  PsiHop *hop = psi_hop_add (hops, rank_of (step, from, part), from, rank_of (step, to, part), to);
  gboolean version = what == HOP_VERSION;
  /* Versions of different parts do not wait for each other: a pair of streams for each part (as many as there are). */
  guint own = PSI_STREAM_BOUNDARY + 2 * (part % PSI_CYCLIC_PARTS);

  hop->what = what;
  hop->part = part;
  hop->bytes = bytes;
  hop->traffic = what == HOP_TURN ? PSI_TRAFFIC_BOUNDARY : version ? PSI_TRAFFIC_PARAMETERS : PSI_TRAFFIC_GRADIENTS;
  hop->memory_class = version ? PSI_MEMORY_PARAMETERS : PSI_MEMORY_GRADIENTS;
  hop->stream_out = what == HOP_TURN       ? PSI_STREAM_TURN_OUT
                    : !version             ? PSI_STREAM_GRADIENTS
                    : step->plan->by_stage ? PSI_STREAM_PARAMETERS
                                           : own;
  hop->stream_in = what == HOP_TURN       ? PSI_STREAM_TURN_IN
                   : !version             ? PSI_STREAM_GRADIENTS_IN
                   : step->plan->by_stage ? PSI_STREAM_PARAMETERS_IN
                                          : own + 1;
  return hop;
}

/* Partial sums of one part: each worker's backward, then the sum of those before it, then on to the next. Returns the
 * last hop, which brings the sum of all before it to the last worker. */
static const PsiHop *
gradient_hops (PsiStep *step, guint part, GPtrArray *hops)
{
  const PsiSchedule *s = step->schedule;
  guint n = s->n_workers, chunk = chunk_of (step, part);
  guint first = s->pool != NULL ? n - MIN (s->pool[part], n) : 0;
  gint64 gradient_bytes, parameter_bytes;
  const PsiHop *before = NULL;

  part_elements (step, rank_of (step, 0, part), part, &gradient_bytes, &parameter_bytes);
  for (guint i = first; i + 1 < n; i++)
    {
      PsiHop *hop = add_hop (step, hops, i, i + 1, HOP_GRADIENT, part, gradient_bytes);

      hop->pass_ps = backward_end (step, i, part);
      hop->after_from = (PsiHopOp){ hop->from->backward_last[last_index (step, i, chunk)], 0 };
      hop->takes_memory = step->plan->zero == 3;
      hop->after_hop = before; /* a sum goes on together with what came in */
      before = hop;
      /* The next hop, or the update, needs this sum and the worker's own gradients. */
      if (i + 2 == n && step->plan->zero != 3)
        hop->before = (PsiHopOp){ hop->to->update[part], 0 };
      else if (i + 2 == n && s->owner[part] == n - 1) /* an owner updates where it first uses the version */
        hop->before = (PsiHopOp){ hop->to->update[part], (gint) psi_step_lag (step, n - 1, part) };
    }
  return before;
}

/* The last worker's sum goes to the owner, which turns it into the new version. */
static void
owner_hop (PsiStep *step, guint part, const PsiHop *sum, gint64 gradient_bytes, GPtrArray *hops)
{
  guint last = step->schedule->n_workers - 1, owner = step->schedule->owner[part];
  gint lag = (gint) psi_step_lag (step, owner, part);
  PsiHop *hop = add_hop (step, hops, last, owner, HOP_OWNER, part, gradient_bytes);

  hop->pass_ps = backward_end (step, last, part);
  hop->after_from = (PsiHopOp){ hop->from->backward_last[last_index (step, last, chunk_of (step, part))], 0 };
  hop->after_hop = sum;
  hop->before = (PsiHopOp){ hop->to->update[part], lag };
  hop->takes_memory = TRUE;
  hop->to_memory_step = lag;
}

/* Just in time: what a rank takes in for an op of its step may not come before the op in front of it begins, which is
 * when the one before that ends. */
static PsiHopOp
gate_of (const PsiStepRank *rank, PsiHopOp before)
{
  const GArray *marks = rank->marks;
  guint low = 0, high = marks->len; /* marks in front of it */

  while (low < high)
    {
      guint middle = (low + high) / 2;

      if (PSI_OP_POSITION (g_array_index (marks, PsiOpId, middle)) < PSI_OP_POSITION (before.op))
        low = middle + 1;
      else
        high = middle;
    }
  return low >= 2 ? (PsiHopOp){ g_array_index (marks, PsiOpId, low - 2), before.step }
                  : (PsiHopOp){ g_array_index (marks, PsiOpId, marks->len + low - 2), before.step - 1 };
}

/* The copy of a part passes from use to use, born at the owner's update (cdp-zero). */
static void
travelling_hops (PsiStep *step, guint part, const PsiHop *sum, GPtrArray *hops)
{
  const PsiSchedule *s = step->schedule;
  guint n = s->n_workers, chunk = chunk_of (step, part), owner = s->owner[part];
  g_autoptr (GArray) uses = psi_step_uses_of_part (step, part, TRUE);
  gint64 gradient_bytes, parameter_bytes;
  PsiStepRank *home = rank_of (step, owner, part);
  const PsiHop *arrival = NULL; /* of the copy in use */

  part_elements (step, home, part, &gradient_bytes, &parameter_bytes);
  if (owner != n - 1)
    owner_hop (step, part, sum, gradient_bytes, hops);
  /* The update turns the gradient sum into the new version; the last use ends it. */
  psi_program_delta (home->program, home->update[part], FALSE, PSI_MEMORY_PARAMETERS, parameter_bytes);
  psi_program_delta (home->program, owner == n - 1 ? home->update[part] - 1 : home->update[part], owner != n - 1,
                     PSI_MEMORY_GRADIENTS, -gradient_bytes);
  for (guint u = 0; u < uses->len; u++)
    {
      const PsiVersionUse *use = &g_array_index (uses, PsiVersionUse, u);
      PsiStepRank *from = rank_of (step, use->worker, part);
      gsize at = first_index (step, use->worker, chunk) + use->micro_batch;
      PsiOpId op = use->is_backward ? from->backward_last[at] : from->forward_last[at];

      if (use->is_backward && use->micro_batch == 0)
        psi_program_delta (from->program, from->backward_first[at], FALSE, PSI_MEMORY_GRADIENTS, gradient_bytes);
      /* What came from the worker before is added in place. */
      if (use->is_backward && use->micro_batch + 1 == s->worker_micro_batches && use->worker > 0)
        psi_program_delta (from->program, op, TRUE, PSI_MEMORY_GRADIENTS, -gradient_bytes);
      if (u + 1 == uses->len)
        {
          psi_program_delta (from->program, op, TRUE, PSI_MEMORY_PARAMETERS, -parameter_bytes);
          break;
        }
      const PsiVersionUse *next = &g_array_index (uses, PsiVersionUse, u + 1);
      if (next->worker == use->worker)
        continue;
      PsiHop *hop = add_hop (step, hops, use->worker, next->worker, HOP_VERSION, part, parameter_bytes);
      /* Each kind of hand-over has its own channel. */
      hop->what += (use->is_backward + 2u * next->is_backward) * PSI_HOP_WHATS;
      hop->pass_ps = next->time_ps;
      /* The next user begins while this one is at work (more workers than stages): the copy goes on at once. */
      hop->leaves_copy = next->time_ps < use->time_ps + (use->is_backward ? s->backward_ps[part] : s->forward_ps[part]);
      if (hop->leaves_copy)
        {
          psi_program_delta (from->program, op, TRUE, PSI_MEMORY_PARAMETERS, -parameter_bytes);
          hop->after_hop = arrival;
          if (arrival == NULL)
            hop->after_from = (PsiHopOp){ home->update[part], (gint) use->lag };
        }
      else
        hop->after_from = (PsiHopOp){ op, (gint) use->lag };
      arrival = hop;
      at = first_index (step, next->worker, chunk) + next->micro_batch;
      hop->before.op = next->is_backward ? hop->to->backward_first[at] : hop->to->forward_first[at];
      hop->before.step = (gint) next->lag;
      hop->after_to = gate_of (hop->to, hop->before);
      hop->takes_memory = TRUE;
      hop->from_memory_step = (gint) use->lag;
      hop->to_memory_step = (gint) next->lag;
    }
}

/* A new version goes to the workers that hold the old one, in order of first use. */
static void
version_hops (PsiStep *step, guint part, GPtrArray *hops)
{
  const PsiSchedule *s = step->schedule;
  guint n = s->n_workers, chunk = chunk_of (step, part), holder = n - 1;
  guint pool = s->pool != NULL ? MIN (s->pool[part], n) : n;
  g_autoptr (GArray) uses = psi_step_uses_of_part (step, part, FALSE);
  gint64 gradient_bytes, parameter_bytes;
  const PsiHopOp updated = { rank_of (step, n - 1, part)->update[part], 0 };
  PsiHopOp ready = updated;
  gint64 ready_ps = backward_end (step, n - 1, part), arrived_ps = ready_ps;
  const PsiHop *arrival = NULL; /* what brought the version to the holder */

  part_elements (step, rank_of (step, 0, part), part, &gradient_bytes, &parameter_bytes);
  for (guint u = 0; u < uses->len && u < pool; u++)
    {
      const PsiVersionUse *use = &g_array_index (uses, PsiVersionUse, u);
      PsiStepRank *to = rank_of (step, use->worker, part);
      /* The GPU that updated has it already. Under v1 it installs it after its own next backward, by stream order. */
      guint gpu = (use->lag * n + use->worker) % pool;
      gboolean has_it = is_separate (step) ? use->worker == n - 1 : gpu == (n - 1) % pool;

      if (has_it)
        {
          arrival = NULL;
          arrived_ps = backward_end (step, n - 1, part);
        }
      else
        {
          /* The next user begins while the holder is at work (more workers than stages): the version goes on at once,
           * after what brought it, or from the worker that made it; that one itself, on another GPU of the pool this
           * time, takes it from the holder. */
          gboolean at_once = use->time_ps < ready_ps, from_maker = at_once && arrival == NULL && use->worker != n - 1;
          PsiHop *hop =
              add_hop (step, hops, from_maker ? n - 1 : holder, use->worker, HOP_VERSION, part, parameter_bytes);

          hop->pass_ps = at_once ? arrived_ps : ready_ps;
          if (!at_once)
            hop->after_from = ready;
          else if (from_maker)
            hop->after_from = updated;
          else if (arrival == NULL)
            hop->after_to = updated;
          else
            hop->after_hop = arrival;
          if (is_separate (step)) /* it has done with the old version */
            {
              hop->after_to =
                  (PsiHopOp){ to->backward_last[last_index (step, use->worker, chunk)], (gint) use->lag - 1 };
              hop->pass_ps = MAX (hop->pass_ps, (use->lag - 1) * s->period_ps + backward_end (step, use->worker, part));
            }
          hop->before = (PsiHopOp){ to->forward_first[first_index (step, use->worker, chunk)], (gint) use->lag };
          arrival = hop;
          arrived_ps = hop->pass_ps;
        }
      holder = use->worker;
      ready = (PsiHopOp){ to->forward_last[first_index (step, use->worker, chunk)], (gint) use->lag };
      ready_ps = use->time_ps + s->forward_ps[part];
    }
}

/* Micro-batch n takes the GPU of a pool when micro-batch n - g has left it. */
static void
turn_hops (PsiStep *step, guint part, GPtrArray *hops)
{
  const PsiSchedule *s = step->schedule;
  guint n = s->n_workers, g = MIN (s->pool[part], n);

  for (guint i = 0; i < n && g < n; i++)
    {
      guint before = (i + n - g) % n;
      PsiHop *hop = add_hop (step, hops, before, i, HOP_TURN, part, 0);

      hop->pass_ps = backward_end (step, before, part);
      hop->after_from = (PsiHopOp){ hop->from->backward_last[last_index (step, before, 0)], 0 };
      hop->before = (PsiHopOp){ hop->to->forward_first[first_index (step, i, 0)], i < g ? 1 : 0 };
    }
}

void
psi_step_cyclic_messages (PsiStep *step)
{
  const PsiSchedule *s = step->schedule;
  g_autoptr (GPtrArray) hops = g_ptr_array_new_with_free_func (g_free);

  if (s->n_workers < 2 || (s->pool == NULL && !is_separate (step)))
    return; /* one GPU, or one for each stage: everything is there already */
  for (guint part = 0; part < s->n_parts; part++)
    {
      const PsiHop *sum = gradient_hops (step, part, hops);

      if (step->plan->zero == 3)
        travelling_hops (step, part, sum, hops);
      else
        version_hops (step, part, hops);
      if (s->pool != NULL)
        turn_hops (step, part, hops);
    }
  psi_hops_write (step, hops);
}
