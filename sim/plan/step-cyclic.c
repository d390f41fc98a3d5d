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
#include "step.h"

#include <stdlib.h>

/* Kinds of hops; each has channels of its own. Boundary messages count from 0. */
enum
{
  HOP_GRADIENT = 1 << 24,
  HOP_OWNER,
  HOP_TURN,
  HOP_VERSION /* + 1 from a backward, + 2 to a backward */
};

/* One use of a version by a worker. */
typedef struct
{
  guint worker;
  guint lag; /* steps after the one whose gradients made the version */
  gboolean is_backward;
  guint micro_batch; /* of the worker */
  gint64 time_ps;    /* virtual, from the start of the step that made the version */
} Use;

static int
compare_uses (gconstpointer a, gconstpointer b)
{
  const Use *x = a, *y = b;

  if (x->time_ps != y->time_ps)
    return x->time_ps < y->time_ps ? -1 : 1;
  return x->worker != y->worker ? (x->worker < y->worker ? -1 : 1) : x->is_backward - y->is_backward;
}

/* First uses of one version of a part in order; every forward and backward if `both`. */
static GArray *
uses_of_part (const PsiStep *step, guint part, gboolean both)
{
  const PsiSchedule *s = step->schedule;
  GArray *uses = g_array_new (FALSE, FALSE, sizeof (Use));
  gint64 turn_ps = s->period_ps / s->worker_micro_batches; /* one micro-batch of a worker of its own */
  gint64 to_backward_ps = s->lifetime_ps[part] - s->backward_ps[part] - (s->worker_micro_batches - 1) * turn_ps;

  for (guint i = 0; i < s->n_workers; i++)
    for (guint b = 0; b < (both ? s->worker_micro_batches : 1); b++)
      {
        guint at = i * s->n_parts + part;
        Use use = { .worker = i, .lag = 1 + s->stale[at], .micro_batch = b };

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

guint
psi_step_versions (const PsiStep *step, guint part)
{
  const PsiSchedule *s = step->schedule;
  gint64 first = G_MAXINT64, last = 0;

  for (guint i = 0; i < s->n_workers; i++)
    {
      guint at = i * s->n_parts + part;
      gint64 begin = (1 + s->stale[at]) * s->period_ps + s->first_use_ps[at];

      first = MIN (first, begin);
      last = MAX (last, begin + s->lifetime_ps[part]);
    }
  return last - s->period_ps > first ? 2 : 1;
}

static guint
owner_of (const PsiStep *step, guint part)
{
  g_autoptr (GArray) uses = uses_of_part (step, part, FALSE);

  return g_array_index (uses, Use, 0).worker;
}

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
      token->micro_batch % step->schedule->worker_micro_batches == 0 && worker == owner_of (step, part))
    {
      /* An owner that is the last worker itself releases gradients of the step before: an op of that step. */
      if (worker == step->schedule->n_workers - 1)
        psi_program_shift (rank->program, psi_program_work (rank->program, PSI_STREAM_COMPUTE, 0, PSI_TAG_OPTIMIZER),
                           1);
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

/* A message of the ring before it is written into its streams, which need one order on both sides: by the
 * virtual time at which it can pass. */
typedef struct _Hop Hop;
struct _Hop
{
  PsiStepRank *from, *to;
  const Hop *after_hop;                 /* waits until that one has arrived */
  PsiOpId received;                     /* its receive, once written */
  PsiOpId after_from, after_to, before; /* ops it waits for on either side, and the one that waits for it */
  guint before_distance, skip_send, skip_receive, after_from_distance;
  guint what, part;
  gint64 bytes;
  PsiTraffic traffic;
  gint64 send_time_ps, receive_time_ps; /* within the step of either side */
  PsiMemoryClass memory_class;          /* what the bytes are on the receiver, if they take memory of their own */
  gboolean takes_memory;                /* received bytes are new on the receiver ... */
  gboolean leaves_copy;                 /* ... and stay on the sender, else they go with the message */
};

static void
write_hop (PsiStep *step, const Hop *hop, gboolean sending, PsiOpId *ret_op)
{
  gboolean version = hop->traffic == PSI_TRAFFIC_PARAMETERS;
  /* Versions of different parts do not wait for each other: a pair of streams for each part (as many as there are). */
  guint own = PSI_STREAM_BOUNDARY + 2 * (hop->part % PSI_CYCLIC_PARTS);
  guint out = hop->what == HOP_TURN  ? PSI_STREAM_TURN_OUT
              : !version             ? PSI_STREAM_GRADIENTS
              : step->plan->by_stage ? PSI_STREAM_PARAMETERS
                                     : own;
  guint in = hop->what == HOP_TURN  ? PSI_STREAM_TURN_IN
             : !version             ? PSI_STREAM_GRADIENTS_IN
             : step->plan->by_stage ? PSI_STREAM_PARAMETERS_IN
                                    : own + 1;
  PsiOpId op = sending
                   ? psi_step_send (step, hop->from, hop->to, out, hop->what, hop->part, hop->bytes, hop->traffic)
                   : psi_step_receive (step, hop->from, hop->to, in, hop->what, hop->part, hop->bytes, hop->traffic);
  PsiProgram *program = sending ? hop->from->program : hop->to->program;

  psi_program_skip (program, op, sending ? hop->skip_send : hop->skip_receive);
  psi_program_label (program, op, -1, (gint32) hop->part);
  if (sending)
    {
      psi_program_after (program, op, hop->after_from, hop->after_from_distance);
      if (hop->takes_memory && !hop->leaves_copy)
        psi_program_delta (program, op, TRUE, hop->memory_class, -hop->bytes);
    }
  else
    {
      psi_program_after (program, op, hop->after_to, 0);
      if (hop->before != PSI_OP_NONE)
        psi_program_after (program, hop->before, op, hop->before_distance);
      if (hop->takes_memory)
        psi_program_delta (program, op, FALSE, hop->memory_class, hop->bytes);
    }
  *ret_op = op;
}

static int
compare_sends (gconstpointer a, gconstpointer b)
{
  const Hop *x = *(Hop *const *) a, *y = *(Hop *const *) b;

  if (x->send_time_ps != y->send_time_ps)
    return x->send_time_ps < y->send_time_ps ? -1 : 1;
  return (x->part > y->part) - (x->part < y->part);
}

static int
compare_receives (gconstpointer a, gconstpointer b)
{
  const Hop *x = *(Hop *const *) a, *y = *(Hop *const *) b;

  if (x->receive_time_ps != y->receive_time_ps)
    return x->receive_time_ps < y->receive_time_ps ? -1 : 1;
  return (x->part > y->part) - (x->part < y->part);
}

/* Virtual start of a worker's step. */
static gint64
start_of (const PsiStep *step, guint worker)
{
  return step->schedule->start_ps[worker];
}

/* Virtual end of a worker's last backward of a part, in its step 0. */
static gint64
backward_end (const PsiStep *step, guint worker, guint part)
{
  return step->schedule->first_use_ps[worker * step->schedule->n_parts + part] + step->schedule->lifetime_ps[part];
}

static Hop *
add_hop (GPtrArray *hops, PsiStepRank *from, PsiStepRank *to, guint what, guint part, gint64 bytes, PsiTraffic traffic)
{
  Hop *hop = g_new0 (Hop, 1);

  hop->from = from;
  hop->to = to;
  hop->what = what;
  hop->part = part;
  hop->bytes = bytes;
  hop->traffic = traffic;
  hop->after_from = hop->after_to = hop->before = PSI_OP_NONE;
  hop->memory_class = traffic == PSI_TRAFFIC_PARAMETERS ? PSI_MEMORY_PARAMETERS : PSI_MEMORY_GRADIENTS;
  g_ptr_array_add (hops, hop);
  return hop;
}

/* Partial sums of one part: each worker's backward, then the sum of those before it, then on to the next. Returns the
 * last hop, which brings the sum of all before it to the last worker. */
static const Hop *
gradient_hops (PsiStep *step, guint part, GPtrArray *hops)
{
  const PsiSchedule *s = step->schedule;
  guint n = s->n_workers, chunk = chunk_of (step, part);
  guint first = s->pool != NULL ? n - MIN (s->pool[part], n) : 0;
  gint64 gradient_bytes, parameter_bytes;
  const Hop *before = NULL;

  part_elements (step, rank_of (step, 0, part), part, &gradient_bytes, &parameter_bytes);
  for (guint i = first; i + 1 < n; i++)
    {
      PsiStepRank *from = rank_of (step, i, part), *to = rank_of (step, i + 1, part);
      Hop *hop = add_hop (hops, from, to, HOP_GRADIENT, part, gradient_bytes, PSI_TRAFFIC_GRADIENTS);

      hop->after_from = from->backward_last[last_index (step, i, chunk)];
      hop->send_time_ps = backward_end (step, i, part) - start_of (step, i);
      hop->receive_time_ps = backward_end (step, i, part) - start_of (step, i + 1);
      hop->takes_memory = step->plan->zero == 3;
      hop->after_hop = before; /* a sum goes on together with what came in */
      before = hop;
      /* The next hop, or the update, needs this sum and the worker's own gradients. */
      if (i + 2 == n && (step->plan->zero != 3 || owner_of (step, part) == n - 1))
        {
          hop->before = to->update[part];
          hop->before_distance = step->plan->zero == 3 ? 1 : 0; /* an owner updates at the start of the next step */
        }
    }
  return before;
}

/* The copy of a part passes from use to use, born at the owner's update (cdp-zero). */
static void
travelling_hops (PsiStep *step, guint part, const Hop *sum, GPtrArray *hops)
{
  const PsiSchedule *s = step->schedule;
  guint n = s->n_workers, chunk = chunk_of (step, part), owner = owner_of (step, part);
  g_autoptr (GArray) uses = uses_of_part (step, part, TRUE);
  gint64 gradient_bytes, parameter_bytes;
  PsiStepRank *last = rank_of (step, n - 1, part), *home = rank_of (step, owner, part);

  part_elements (step, last, part, &gradient_bytes, &parameter_bytes);
  if (owner != n - 1)
    {
      Hop *hop = add_hop (hops, last, home, HOP_OWNER, part, gradient_bytes, PSI_TRAFFIC_GRADIENTS);

      hop->after_from = last->backward_last[last_index (step, n - 1, chunk)];
      hop->after_hop = sum;
      hop->before = home->update[part];
      hop->skip_receive = 1; /* the owner updates in the step after */
      hop->send_time_ps = backward_end (step, n - 1, part) - start_of (step, n - 1);
      hop->receive_time_ps = backward_end (step, n - 1, part) - s->period_ps - start_of (step, owner);
      hop->takes_memory = TRUE;
    }
  /* The update turns the gradient sum into the new version; the last use ends it. */
  psi_program_delta (home->program, home->update[part], FALSE, PSI_MEMORY_PARAMETERS, parameter_bytes);
  psi_program_delta (home->program, owner == n - 1 ? home->update[part] - 1 : home->update[part], owner != n - 1,
                     PSI_MEMORY_GRADIENTS, -gradient_bytes);
  const Hop *arrival = NULL; /* of the copy in use */
  for (guint u = 0; u < uses->len; u++)
    {
      const Use *use = &g_array_index (uses, Use, u);
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
      const Use *next = &g_array_index (uses, Use, u + 1);
      if (next->worker == use->worker)
        continue;
      PsiStepRank *to = rank_of (step, next->worker, part);
      Hop *hop = add_hop (hops, from, to, HOP_VERSION, part, parameter_bytes, PSI_TRAFFIC_PARAMETERS);
      hop->what += use->is_backward + 2 * next->is_backward; /* each kind of hand-over has its own channel */
      /* The next user begins while this one is at work (more workers than stages): the copy goes on at once. */
      hop->leaves_copy = next->time_ps < use->time_ps + (use->is_backward ? s->backward_ps[part] : s->forward_ps[part]);
      if (hop->leaves_copy)
        {
          psi_program_delta (from->program, op, TRUE, PSI_MEMORY_PARAMETERS, -parameter_bytes);
          hop->after_hop = arrival;
          hop->after_from = arrival == NULL ? home->update[part] : PSI_OP_NONE;
        }
      else
        hop->after_from = op;
      arrival = hop;
      at = first_index (step, next->worker, chunk) + next->micro_batch;
      hop->before = next->is_backward ? to->backward_first[at] : to->forward_first[at];
      hop->skip_send = use->lag > next->lag ? use->lag - next->lag : 0;
      hop->skip_receive = next->lag > use->lag ? next->lag - use->lag : 0;
      hop->send_time_ps = next->time_ps - use->lag * s->period_ps - start_of (step, use->worker);
      hop->receive_time_ps = next->time_ps - next->lag * s->period_ps - start_of (step, next->worker);
      hop->takes_memory = TRUE;
      /* Just in time: not before the op in front of the use begins. */
      for (guint m = 0; m < to->marks->len; m++)
        if (PSI_OP_POSITION (g_array_index (to->marks, PsiOpId, m)) < PSI_OP_POSITION (hop->before))
          hop->after_to = m > 0 ? g_array_index (to->marks, PsiOpId, m - 1) : PSI_OP_NONE;
    }
}

/* A new version goes to the workers that hold the old one, in order of first use. */
static void
version_hops (PsiStep *step, guint part, GPtrArray *hops)
{
  const PsiSchedule *s = step->schedule;
  guint n = s->n_workers, chunk = chunk_of (step, part);
  guint pool = s->pool != NULL ? MIN (s->pool[part], n) : n;
  g_autoptr (GArray) uses = uses_of_part (step, part, FALSE);
  gint64 gradient_bytes, parameter_bytes;
  PsiStepRank *from = rank_of (step, n - 1, part);
  PsiOpId ready = from->update[part];
  gint64 ready_ps = backward_end (step, n - 1, part), pass_ps = ready_ps, busy_until_ps = 0;
  guint lag = 0, holder = n - 1;
  const Hop *arrival = NULL; /* what brought the version to the holder */

  part_elements (step, from, part, &gradient_bytes, &parameter_bytes);
  for (guint u = 0; u < uses->len && u < pool; u++)
    {
      const Use *use = &g_array_index (uses, Use, u);
      PsiStepRank *to = rank_of (step, use->worker, part);
      PsiOpId forward = to->forward_last[first_index (step, use->worker, chunk)];
      /* The GPU that updated has it already. Under v1 it installs it after its own next backward, by stream order. */
      guint gpu = (use->lag * n + use->worker) % pool;
      gboolean has_it = is_separate (step) ? use->worker == n - 1 : gpu == (n - 1) % pool;

      if (!has_it)
        {
          Hop *hop = add_hop (hops, from, to, HOP_VERSION, part, parameter_bytes, PSI_TRAFFIC_PARAMETERS);
          gint64 gate_ps = (use->lag - 1) * s->period_ps + backward_end (step, use->worker, part);
          /* The next user begins while this one is at work (more workers than stages): the version goes on at once. */
          gboolean at_once = use->time_ps < busy_until_ps && (arrival != NULL || holder == n - 1);

          pass_ps = MAX (at_once ? pass_ps : ready_ps, is_separate (step) ? gate_ps : 0);
          hop->after_from = ready;
          if (at_once && arrival != NULL)
            {
              hop->after_from = PSI_OP_NONE;
              hop->after_hop = arrival;
            }
          else if (at_once)
            {
              hop->after_from = from->update[part];
              hop->after_from_distance = lag;
            }
          hop->skip_send = lag;
          hop->skip_receive = use->lag - 1;
          hop->after_to = is_separate (step) ? to->backward_last[last_index (step, use->worker, chunk)] : PSI_OP_NONE;
          hop->before = to->forward_first[first_index (step, use->worker, chunk)];
          hop->before_distance = 1;
          hop->send_time_ps = pass_ps - lag * s->period_ps - start_of (step, holder);
          hop->receive_time_ps = pass_ps - (use->lag - 1) * s->period_ps - start_of (step, use->worker);
          arrival = hop;
        }
      else
        arrival = NULL;
      from = to;
      ready = forward;
      busy_until_ps = use->time_ps + s->forward_ps[part];
      ready_ps = use->time_ps + 1;
      lag = use->lag;
      holder = use->worker;
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
      PsiStepRank *from = rank_of (step, before, part), *to = rank_of (step, i, part);
      Hop *hop = add_hop (hops, from, to, HOP_TURN, part, 0, PSI_TRAFFIC_BOUNDARY);

      hop->after_from = from->backward_last[last_index (step, before, 0)];
      hop->before = to->forward_first[first_index (step, i, 0)];
      hop->skip_receive = i < g ? 1 : 0;
    }
}

void
psi_step_cyclic_messages (PsiStep *step)
{
  const PsiSchedule *s = step->schedule;
  g_autoptr (GPtrArray) hops = g_ptr_array_new_with_free_func (g_free);
  gboolean travels = step->plan->zero == 3;

  if (s->n_workers < 2 || (s->pool == NULL && !is_separate (step)))
    return; /* one GPU, or one for each stage: everything is there already */
  for (guint part = 0; part < s->n_parts; part++)
    {
      const Hop *sum = gradient_hops (step, part, hops);

      if (travels)
        travelling_hops (step, part, sum, hops);
      else
        version_hops (step, part, hops);
      if (s->pool != NULL)
        turn_hops (step, part, hops);
    }
  g_autoptr (GPtrArray) order = g_ptr_array_copy (hops, NULL, NULL);
  g_ptr_array_set_free_func (order, NULL);
  g_ptr_array_sort (order, compare_receives);
  for (guint i = 0; i < order->len; i++)
    {
      Hop *hop = g_ptr_array_index (order, i);

      write_hop (step, hop, FALSE, &hop->received);
    }
  g_ptr_array_sort (order, compare_sends);
  for (guint i = 0; i < order->len; i++)
    {
      Hop *hop = g_ptr_array_index (order, i);
      PsiOpId op;

      write_hop (step, hop, TRUE, &op);
      if (hop->after_hop != NULL)
        psi_program_after (hop->from->program, op, hop->after_hop->received, hop->after_hop->before_distance);
    }
}
