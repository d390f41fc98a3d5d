/* SPDX-License-Identifier: MIT */
#include "psi-critical.h"

#include "psi-fold.h"

#define NOT_SEEN G_MAXUINT32

/* Messages of a program by slot. A channel joins the n-th send with the n-th receive, over all iterations. */
typedef struct
{
  guint n_slots;
  GArray **ops;   /* [n_slots] of PsiOpId, NULL: none */
  guint32 *nth;   /* [ops of the program] place in the list of its slot */
  guint32 *skips; /* [n_slots] messages that the first iterations leave out */
} Messages;

typedef struct
{
  PsiRankId rank;
  guint slot;
} PortEnd;

/* An op of an iteration; 0 is the recorded one. */
typedef struct
{
  PsiRankId rank;
  PsiOpId op;
  gint64 iteration;
} Place;

typedef struct
{
  Place at;
  PsiTime waited_ps; /* before it, for nothing that is known */
} Visit;

typedef struct
{
  const PsiWorld *world;
  const PsiRun *run;
  GHashTable *messages; /* PsiProgram -> Messages */
  guint *first_end;     /* [ports + 1] */
  PortEnd *ends;        /* of all ports, in the order of ranks */
} Walk;

static const PsiOp *
op_at (const Walk *walk, const Place *at)
{
  return psi_program_op (psi_world_rank (walk->world, at->rank)->program, at->op);
}

static gsize
number_of (const Walk *walk, const Place *at)
{
  const PsiProgram *program = psi_world_rank (walk->world, at->rank)->program;
  gsize number = PSI_OP_POSITION (at->op);

  for (guint s = 0; s < PSI_OP_STREAM (at->op); s++)
    number += program->streams[s]->len;
  return number;
}

static PsiTime
start_of (const Walk *walk, const Place *at)
{
  return walk->run->times[walk->run->first_op[at->rank] + number_of (walk, at)].start_ps +
         at->iteration * walk->run->period_ps;
}

static PsiTime
end_of (const Walk *walk, const Place *at)
{
  return walk->run->times[walk->run->first_op[at->rank] + number_of (walk, at)].end_ps +
         at->iteration * walk->run->period_ps;
}

/* ---- Partners ---- */

static void
messages_free (gpointer data)
{
  Messages *messages = data;

  for (guint slot = 0; slot < messages->n_slots; slot++)
    g_clear_pointer (&messages->ops[slot], g_array_unref);
  g_free (messages->ops);
  g_free (messages->nth);
  g_free (messages->skips);
  g_free (messages);
}

static const Messages *
messages_of (Walk *walk, PsiRankId rank)
{
  const PsiRank *owner = psi_world_rank (walk->world, rank);
  const PsiProgram *program = owner->program;
  Messages *messages = g_hash_table_lookup (walk->messages, program);
  guint32 number = 0;

  if (messages != NULL)
    return messages;
  messages = g_new0 (Messages, 1);
  messages->n_slots = owner->ports->len;
  messages->ops = g_new0 (GArray *, messages->n_slots + 1);
  messages->skips = g_new0 (guint32, messages->n_slots + 1);
  messages->nth = g_new0 (guint32, psi_program_n_ops (program) + 1);
  for (guint s = 0; s < program->n_streams; s++)
    for (guint i = 0; i < program->streams[s]->len; i++, number++)
      {
        const PsiOp *op = &g_array_index (program->streams[s], PsiOp, i);
        PsiOpId id = PSI_OP_ID (s, i);

        if (psi_op_is_work (op))
          continue;
        if (messages->ops[op->slot] == NULL)
          messages->ops[op->slot] = g_array_new (FALSE, FALSE, sizeof (PsiOpId));
        messages->nth[number] = messages->ops[op->slot]->len;
        g_array_append_val (messages->ops[op->slot], id);
        messages->skips[op->slot] += op->skip;
      }
  g_hash_table_insert (walk->messages, (gpointer) program, messages);
  return messages;
}

static void
find_ends (Walk *walk)
{
  const PsiWorld *world = walk->world;
  guint n_ports = world->ports->len;
  g_autofree guint *filled = NULL;

  walk->first_end = g_new0 (guint, n_ports + 1);
  for (guint p = 0; p < n_ports; p++)
    walk->first_end[p + 1] = walk->first_end[p] + g_array_index (world->ports, PsiPort, p).n_members;
  walk->ends = g_new (PortEnd, walk->first_end[n_ports] + 1);
  filled = g_memdup2 (walk->first_end, (n_ports + 1) * sizeof *filled);
  for (guint r = 0; r < world->ranks->len; r++)
    {
      const GArray *ports = psi_world_rank (world, r)->ports;

      for (guint slot = 0; slot < ports->len; slot++)
        {
          PsiPortId port = g_array_index (ports, PsiPortId, slot);

          if (port != G_MAXUINT32 && filled[port] < walk->first_end[port + 1])
            walk->ends[filled[port]++] = (PortEnd){ r, slot };
        }
    }
}

/* The op with which the rank at that end takes part in a message. FALSE: it cannot be told. */
static gboolean
find_partner (Walk *walk, const Place *at, const PortEnd *end, Place *ret_partner)
{
  guint slot = op_at (walk, at)->slot;
  const Messages *own = messages_of (walk, at->rank), *other = messages_of (walk, end->rank);
  const GArray *ops = end->slot < other->n_slots ? other->ops[end->slot] : NULL;

  if (ops == NULL || ops->len != own->ops[slot]->len)
    return FALSE;
  gint64 n = ops->len, nth = at->iteration * n + own->nth[number_of (walk, at)] - own->skips[slot];
  nth += other->skips[end->slot];
  gint64 iteration = nth / n - (nth % n < 0);
  *ret_partner = (Place){ end->rank, g_array_index (ops, PsiOpId, (guint) (nth - iteration * n)), iteration };
  return start_of (walk, ret_partner) == start_of (walk, at);
}

/* ---- What an op waited for ---- */

typedef struct
{
  PsiTime start_ps;
  Place best;
  PsiTime best_end_ps;
  gboolean found;
} Search;

/* The latest end that is not after the start: the first of several. */
static void
consider (const Walk *walk, Search *search, const Place *before)
{
  PsiTime end_ps = end_of (walk, before);

  if (end_ps > search->start_ps || (search->found && end_ps <= search->best_end_ps))
    return;
  search->best = *before;
  search->best_end_ps = end_ps;
  search->found = TRUE;
}

static void
consider_needs (const Walk *walk, Search *search, const Place *at)
{
  const PsiProgram *program = psi_world_rank (walk->world, at->rank)->program;
  guint stream = PSI_OP_STREAM (at->op), position = PSI_OP_POSITION (at->op);
  Place before = { at->rank, PSI_OP_ID (stream, position - 1), at->iteration };

  if (position == 0)
    before = (Place){ at->rank, PSI_OP_ID (stream, program->streams[stream]->len - 1), at->iteration - 1 };
  consider (walk, search, &before);
  for (guint32 d = psi_program_op (program, at->op)->first_dep; d != PSI_CHAIN_END;)
    {
      const PsiDep *dep = &g_array_index (program->deps, PsiDep, d);

      before = (Place){ at->rank, dep->op, at->iteration - dep->distance };
      consider (walk, search, &before);
      d = dep->next;
    }
}

static Place
step_back (Walk *walk, const Place *at, PsiTime *ret_waited_ps)
{
  const PsiOp *op = op_at (walk, at);
  Search search = { .start_ps = start_of (walk, at) };

  consider_needs (walk, &search, at);
  if (!psi_op_is_work (op) && !(search.found && search.best_end_ps == search.start_ps))
    {
      PsiPortId port = g_array_index (psi_world_rank (walk->world, at->rank)->ports, PsiPortId, op->slot);

      for (guint e = walk->first_end[port]; e < walk->first_end[port + 1]; e++)
        {
          Place partner;

          if (walk->ends[e].rank != at->rank && find_partner (walk, at, &walk->ends[e], &partner))
            consider_needs (walk, &search, &partner);
        }
    }
  *ret_waited_ps = search.found ? search.start_ps - search.best_end_ps : 0;
  /* Without anything before it (times of a run that is not periodic) it follows itself. */
  return search.found ? search.best : (Place){ at->rank, at->op, at->iteration - 1 };
}

/* ---- The circuit ---- */

/* The op of a stream 0 that ends last; FALSE: there are no ops. */
static gboolean
find_last (const Walk *walk, Place *ret_last)
{
  gboolean found = FALSE;
  PsiTime last_ps = 0;

  for (guint r = 0; r < walk->world->ranks->len; r++)
    {
      const PsiProgram *program = psi_world_rank (walk->world, r)->program;
      guint s = 0;

      while (s < program->n_streams && program->streams[s]->len == 0)
        s++;
      if (s == program->n_streams)
        continue;
      Place at = { r, PSI_OP_ID (s, program->streams[s]->len - 1), 0 };
      PsiTime end_ps = end_of (walk, &at);

      if (found && end_ps <= last_ps)
        continue;
      found = TRUE;
      last_ps = end_ps;
      *ret_last = at;
    }
  return found;
}

/* Go back until an op is met again. Returns the visits of the circuit, the latest first, and how many steps later it
 * closes. */
static GArray *
find_circuit (Walk *walk, Place at, gint64 *ret_steps)
{
  const PsiRun *run = walk->run;
  gsize n_ops = run->first_op[walk->world->ranks->len];
  g_autofree guint32 *seen = g_new (guint32, n_ops + 1);
  GArray *visits = g_array_new (FALSE, FALSE, sizeof (Visit));

  for (gsize i = 0; i < n_ops; i++)
    seen[i] = NOT_SEEN;
  for (;;)
    {
      guint32 *first = &seen[run->first_op[at.rank] + number_of (walk, &at)];
      Visit visit = { .at = at };

      if (*first != NOT_SEEN)
        {
          *ret_steps = g_array_index (visits, Visit, *first).at.iteration - at.iteration;
          g_array_remove_range (visits, 0, *first);
          return visits;
        }
      *first = visits->len;
      at = step_back (walk, &visit.at, &visit.waited_ps);
      g_array_append_val (visits, visit);
    }
}

/* Where one step follows another: the visit that ends a step, of its own rank if there is one. */
static guint
find_step_end (const GArray *circuit, gint64 steps)
{
  guint n = circuit->len;

  for (guint any_rank = 0; any_rank < 2; any_rank++)
    for (guint i = 0; i < n; i++)
      {
        const Place *at = &g_array_index (circuit, Visit, i).at;
        const Place *next = &g_array_index (circuit, Visit, (i + n - 1) % n).at;

        if (next->iteration + (i == 0 ? steps : 0) > at->iteration && (any_rank || next->rank == at->rank))
          return i;
      }
  return 0;
}

static PsiTime
shared_time_ps (Walk *walk, const Place *at)
{
  const PsiOp *op = op_at (walk, at);
  PsiTime took_ps = end_of (walk, at) - start_of (walk, at);

  if (psi_op_is_work (op))
    return 0;
  const PsiTransfer *transfer = &g_array_index (walk->world->transfers, PsiTransfer, op->transfer);
  PsiPortId port = g_array_index (psi_world_rank (walk->world, at->rank)->ports, PsiPortId, op->slot);
  PsiTime idle_ps = transfer->is_ring ? took_ps : psi_world_idle_time_ps (walk->world, port, transfer);
  /* Rounding of the rates on shared links is no sharing. */
  return took_ps - idle_ps > MAX (transfer->rounds, 1) ? took_ps - idle_ps : 0;
}

/* The path is made backward and turned round at the end. */
static void
prepend (GArray *path, const PsiCriticalOp *op)
{
  if (op->end_ps > op->start_ps)
    g_array_append_vals (path, op, 1);
}

/* Back round the circuit from the end of visit `last`, for one period. */
static GArray *
unroll (Walk *walk, const GArray *circuit, guint last)
{
  GArray *path = g_array_new (FALSE, FALSE, sizeof (PsiCriticalOp));
  PsiTime now_ps = end_of (walk, &g_array_index (circuit, Visit, last).at), first_ps = now_ps - walk->run->period_ps;
  PsiTime round_start_ps = now_ps;
  PsiRankId rank = g_array_index (circuit, Visit, last).at.rank;

  for (guint i = last; now_ps > first_ps; i = (i + 1) % circuit->len)
    {
      const Visit *visit = &g_array_index (circuit, Visit, i);
      PsiTime took_ps = end_of (walk, &visit->at) - start_of (walk, &visit->at);
      PsiCriticalOp op = { .rank = visit->at.rank, .op = visit->at.op, .end_ps = now_ps };

      op.start_ps = MAX (now_ps - took_ps, first_ps);
      op.shared_ps = MIN (shared_time_ps (walk, &visit->at), op.end_ps - op.start_ps);
      prepend (path, &op);
      now_ps = op.start_ps;
      op = (PsiCriticalOp){ .rank = rank = visit->at.rank, .op = PSI_OP_NONE, .end_ps = now_ps };
      op.start_ps = now_ps = MAX (now_ps - visit->waited_ps, first_ps);
      prepend (path, &op);
      if ((i + 1) % circuit->len != last)
        continue;
      if (now_ps == round_start_ps)
        break; /* nothing takes time */
      round_start_ps = now_ps;
    }
  const PsiCriticalOp rest = { .rank = rank, .op = PSI_OP_NONE, .start_ps = first_ps, .end_ps = now_ps };
  prepend (path, &rest);
  for (guint i = 0; i < path->len / 2; i++)
    {
      PsiCriticalOp *a = &g_array_index (path, PsiCriticalOp, i),
                    *b = &g_array_index (path, PsiCriticalOp, path->len - 1 - i), kept = *a;

      *a = *b;
      *b = kept;
    }
  return path;
}

GArray *
psi_critical_path (const PsiWorld *world, const PsiRun *run)
{
  g_autoptr (GHashTable) messages = g_hash_table_new_full (NULL, NULL, NULL, messages_free);
  Walk walk = { .world = world, .run = run, .messages = messages };
  Place last;

  if (run->period_ps <= 0 || !find_last (&walk, &last))
    return g_array_new (FALSE, FALSE, sizeof (PsiCriticalOp));
  find_ends (&walk);
  gint64 steps;
  g_autoptr (GArray) circuit = find_circuit (&walk, last, &steps);
  GArray *path = unroll (&walk, circuit, find_step_end (circuit, steps));
  g_free (walk.first_end);
  g_free (walk.ends);
  return path;
}
