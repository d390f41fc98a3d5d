/* SPDX-License-Identifier: MIT */
#include "psi-account.h"

#include "psi-fold.h"

#include <string.h>

#define CHAIN_END G_MAXUINT32

void
psi_account_time (const PsiWorld *world, const PsiRun *run, PsiRankId rank, PsiTimeSplit *ret_split)
{
  const PsiProgram *program = psi_world_rank (world, rank)->program;
  const PsiOpTimes *times = run->times + run->first_op[rank];
  const PsiOpWait *waits = run->waits + run->first_wait[rank];
  guint n = program->streams[0]->len;
  g_autofree gint64 *n_folded = g_new0 (gint64, program->folds->len + 1);

  memset (ret_split, 0, sizeof *ret_split);
  if (n == 0)
    {
      ret_split->still_ps = run->period_ps;
      return;
    }
  PsiTime free_ps = times[n - 1].end_ps - run->period_ps;
  for (guint i = 0; i < n; i++)
    {
      const PsiOp *op = &g_array_index (program->streams[0], PsiOp, i);
      const PsiOpTimes *t = &times[i];
      const PsiOpWait *wait = &waits[i];
      PsiTime moving_ps = 0;

      /* Waiting for an op of another stream of this rank. */
      if (wait->post_ps > free_ps)
        {
          if (wait->released_by != PSI_OP_NONE)
            {
              moving_ps = wait->post_ps - CLAMP (wait->before_ps, free_ps, wait->post_ps);
              ret_split->moving_ps[psi_program_op (program, wait->released_by)->tag] += moving_ps;
            }
          ret_split->still_ps += wait->post_ps - free_ps - moving_ps;
        }
      if (op->kind == PSI_OP_WORK && op->transfer > 0)
        n_folded[op->transfer - 1]++;
      else if (op->kind == PSI_OP_WORK)
        ret_split->busy_ps[op->tag] += t->end_ps - t->start_ps;
      else
        {
          /* Waiting for partners, then for the bytes. */
          moving_ps = t->end_ps - CLAMP (wait->moving_ps, wait->post_ps, t->end_ps);
          ret_split->moving_ps[op->tag] += moving_ps;
          ret_split->still_ps += t->end_ps - wait->post_ps - moving_ps;
        }
      free_ps = t->end_ps;
    }
  for (guint p = 0; p < program->folds->len; p++)
    {
      const PsiFold *fold = &g_array_index (program->folds, PsiFold, p);
      const PsiPart *parts = psi_fold_parts (program, fold);

      for (guint i = 0; i < fold->n_parts; i++)
        {
          PsiTime *sums = parts[i].op.kind == PSI_OP_WORK ? ret_split->busy_ps : ret_split->moving_ps;

          sums[parts[i].op.tag] += n_folded[p] * (parts[i].end_ps - parts[i].start_ps);
        }
    }
}

/* Changes at the start (or the end) of an op. */
static inline void
add_deltas (const PsiProgram *program, const PsiOp *op, gboolean at_end, PsiTime time_ps, gint64 weight,
            PsiLevelWriter *writer)
{
  for (guint32 d = op->first_delta; d != CHAIN_END;)
    {
      const PsiDelta *delta = &g_array_index (program->deltas, PsiDelta, d);

      if (delta->at_end == at_end)
        psi_level_write (writer, time_ps, delta->bytes * weight, delta->memory_class);
      d = delta->next;
    }
}

void
psi_account_memory_events (const PsiWorld *world, const PsiRun *run, PsiRankId rank, gint64 weight, GArray *events)
{
  const PsiProgram *program = psi_world_rank (world, rank)->program;
  const PsiOpTimes *times = run->times + run->first_op[rank];
  PsiLevelWriter writer = { events, events->len };

  for (guint s = 0; s < program->n_streams; s++)
    for (guint i = 0; i < program->streams[s]->len; i++, times++)
      {
        const PsiOp *op = &g_array_index (program->streams[s], PsiOp, i);
        const PsiFold *fold = psi_op_fold (program, op);
        PsiTime shift_ps = op->shift * run->period_ps;

        add_deltas (program, op, FALSE, times->start_ps + shift_ps, weight, &writer);
        for (guint k = 0; fold != NULL && k < fold->n_parts; k++)
          {
            const PsiPart *part = &psi_fold_parts (program, fold)[k];

            add_deltas (program, &part->op, FALSE, times->start_ps + part->start_ps + shift_ps, weight, &writer);
            add_deltas (program, &part->op, TRUE, times->start_ps + part->end_ps + shift_ps, weight, &writer);
          }
        add_deltas (program, op, TRUE, times->end_ps + shift_ps, weight, &writer);
      }
  psi_level_writer_end (&writer);
}

/* Is y before x? Of one instant the falls come first, or the rises. */
static inline gboolean
is_before (const PsiLevelEvent *y, const PsiLevelEvent *x, gboolean rises_first)
{
  if (x->time_ps != y->time_ps)
    return y->time_ps < x->time_ps;
  return rises_first ? y->bytes > 0 && x->bytes <= 0 : y->bytes <= 0 && x->bytes > 0;
}

/* Merge the sorted stretches [0, middle) and [middle, n) of `from` into `to`. */
static void
merge_events (const PsiLevelEvent *from, gsize middle, gsize n, gboolean rises_first, PsiLevelEvent *to)
{
  gsize a = 0, b = middle;

  while (a < middle && b < n)
    *to++ = is_before (&from[b], &from[a], rises_first) ? from[b++] : from[a++];
  memcpy (to, from + a, (middle - a) * sizeof *to);
  memcpy (to + (middle - a), from + b, (n - b) * sizeof *to);
}

/* Events of a stream come in the order of time: sorted stretches are merged, two by two. Equal ones stay in order. */
static void
sort_events (GArray *events, gboolean rises_first)
{
  PsiLevelEvent *from = (PsiLevelEvent *) (void *) events->data, *to = NULL, *spare = NULL;
  g_autoptr (GArray) ends = g_array_new (FALSE, FALSE, sizeof (gsize));
  gsize n = events->len;

  for (gsize i = 1; i <= n; i++)
    if (i == n || is_before (&from[i], &from[i - 1], rises_first))
      g_array_append_val (ends, i);
  if (ends->len > 1)
    to = spare = g_new (PsiLevelEvent, n);
  while (ends->len > 1)
    {
      guint kept = 0;
      gsize begin = 0;
      PsiLevelEvent *sorted = to;

      for (guint e = 0; e < ends->len; e += 2)
        {
          gsize middle = g_array_index (ends, gsize, e);
          gsize end = e + 1 < ends->len ? g_array_index (ends, gsize, e + 1) : middle;

          merge_events (from + begin, middle - begin, end - begin, rises_first, to + begin);
          g_array_index (ends, gsize, kept++) = end;
          begin = end;
        }
      g_array_set_size (ends, kept);
      to = from;
      from = sorted;
    }
  if (spare != NULL && from == spare)
    memcpy (events->data, spare, n * sizeof *spare);
  g_free (spare);
}

void
psi_account_levels (GArray *events, PsiTime period_ps, PsiTime origin_ps, const gint64 *base, gboolean rises_first,
                    PsiLevels *ret_levels, GArray *curve)
{
  PsiLevelEvent *event = (PsiLevelEvent *) (void *) events->data;
  gint64 level[PSI_MAX_CLASSES] = { 0 }, sum = 0;
  double area = 0;

  memset (ret_levels, 0, sizeof *ret_levels);
  if (base != NULL)
    memcpy (level, base, sizeof level);
  /* Fold every event into the period. What began q periods ago and goes on is there at the origin. */
  for (guint i = 0; i < events->len; i++)
    {
      PsiTime x = event[i].time_ps - origin_ps;

      if (x >= 0 && x < period_ps)
        {
          event[i].time_ps = x;
          continue;
        }
      gint64 q = period_ps > 0 ? x / period_ps - (x % period_ps < 0) : 0;

      event[i].time_ps = period_ps > 0 ? x - q * period_ps : 0;
      level[event[i].level] -= q * event[i].bytes;
    }
  sort_events (events, rises_first);
  for (guint c = 0; c < PSI_MAX_CLASSES; c++)
    {
      sum += level[c];
      ret_levels->class_peak[c] = level[c];
    }
  ret_levels->peak_bytes = sum;
  memcpy (ret_levels->at_peak, level, sizeof level);
  area = (double) sum * (double) period_ps;
  PsiLevelPoint point = { 0 };
  memcpy (point.bytes, level, sizeof level);
  for (guint i = 0; i < events->len; i++)
    {
      guint c = event[i].level;

      if (curve != NULL && event[i].time_ps != point.time_ps)
        {
          g_array_append_val (curve, point);
          point.time_ps = event[i].time_ps;
        }
      level[c] += event[i].bytes;
      sum += event[i].bytes;
      area += (double) event[i].bytes * (double) (period_ps - event[i].time_ps);
      point.bytes[c] = level[c];
      ret_levels->class_peak[c] = MAX (ret_levels->class_peak[c], level[c]);
      if (sum > ret_levels->peak_bytes)
        {
          ret_levels->peak_bytes = sum;
          ret_levels->peak_at_ps = event[i].time_ps;
          memcpy (ret_levels->at_peak, level, sizeof level);
        }
    }
  if (curve != NULL)
    g_array_append_val (curve, point);
  ret_levels->mean_bytes = period_ps > 0 ? area / (double) period_ps : (double) sum;
}

/* One end of a channel, or any member of a communicator. */
typedef struct
{
  PsiRankId rank;
  guint slot;
} PortEnd;

typedef struct
{
  const PsiWorld *world;
  gsize *first_op, *first_slot; /* of each rank */
  PsiRankId *same;              /* a rank whose chains are those of this one */
  gint32 *chain;                /* -1 = not known yet */
  guint32 *nth;                 /* messages before an op in its stream, of its kind and slot */
  PortEnd *ends;                /* [2 * port] */
  GArray **sends;               /* [slots of all ranks] of PsiOpId in program order, NULL if none */
} Chain;

static guint chain_of (Chain *chain, PsiRankId rank, PsiOpId id);

static gsize
op_index (const Chain *chain, PsiRankId rank, PsiOpId id)
{
  const PsiProgram *program = psi_world_rank (chain->world, rank)->program;
  gsize index = chain->first_op[rank] + PSI_OP_POSITION (id);

  for (guint s = 0; s < PSI_OP_STREAM (id); s++)
    index += program->streams[s]->len;
  return index;
}

static gboolean
ends_in_work (const PsiProgram *program, const PsiOp *op)
{
  const PsiFold *fold = psi_op_fold (program, op);

  return op->kind == PSI_OP_WORK && (fold == NULL || !fold->ends_in_message);
}

/* Messages before an op can start, since the last work it needs. */
static guint
chain_before (Chain *chain, PsiRankId rank, PsiOpId id)
{
  const PsiProgram *program = psi_world_rank (chain->world, rank)->program;
  guint most = 0;

  /* A message that waits for its sender's own work begins a new chain. */
  if (psi_program_op (program, id)->kind == PSI_OP_SEND)
    for (guint32 d = psi_program_op (program, id)->first_dep; d != CHAIN_END;)
      {
        const PsiDep *dep = &g_array_index (program->deps, PsiDep, d);

        if (ends_in_work (program, psi_program_op (program, dep->op)))
          return 0;
        d = dep->next;
      }
  if (PSI_OP_STREAM (id) == 0)
    {
      guint position = PSI_OP_POSITION (id), n = program->streams[0]->len;
      PsiOpId before = PSI_OP_ID (0, (position + n - 1) % n);

      if (before != id)
        most = chain_of (chain, rank, before);
    }
  for (guint32 d = psi_program_op (program, id)->first_dep; d != CHAIN_END;)
    {
      const PsiDep *dep = &g_array_index (program->deps, PsiDep, d);

      most = MAX (most, chain_of (chain, rank, dep->op));
      d = dep->next;
    }
  return most;
}

/* Number the messages of a rank, and list the sends of each of its slots. */
static void
number_messages (Chain *chain, PsiRankId rank)
{
  const PsiRank *owner = psi_world_rank (chain->world, rank);
  const PsiProgram *program = owner->program;
  guint n_slots = owner->ports->len;
  g_autofree guint32 *counts = g_new (guint32, 3 * n_slots + 1);
  guint32 *nth = chain->nth + chain->first_op[rank];

  for (guint s = 0; s < program->n_streams; s++)
    {
      memset (counts, 0, 3 * n_slots * sizeof *counts);
      for (guint i = 0; i < program->streams[s]->len; i++)
        {
          const PsiOp *op = &g_array_index (program->streams[s], PsiOp, i);
          guint which = op->kind == PSI_OP_SEND ? 0 : op->kind == PSI_OP_RECV ? 1 : 2;
          GArray **sends = &chain->sends[chain->first_slot[rank] + op->slot];
          PsiOpId id = PSI_OP_ID (s, i);

          *nth++ = op->kind == PSI_OP_WORK ? 0 : counts[which * n_slots + op->slot]++;
          if (op->kind != PSI_OP_SEND)
            continue;
          if (*sends == NULL)
            *sends = g_array_new (FALSE, FALSE, sizeof (PsiOpId));
          g_array_append_val (*sends, id);
        }
    }
}

/* The other end of a slot's channel. */
static const PortEnd *
other_end (const Chain *chain, PsiRankId rank, guint slot)
{
  PsiPortId port = g_array_index (psi_world_rank (chain->world, rank)->ports, PsiPortId, slot);
  const PortEnd *end = &chain->ends[2 * port];

  return end->rank == rank && end->slot == slot ? end + 1 : end;
}

/* Do two ranks with one program talk to ranks with one program, slot by slot? */
static gboolean
have_like_partners (const Chain *chain, PsiRankId a, PsiRankId b)
{
  const GArray *ports = psi_world_rank (chain->world, a)->ports, *others = psi_world_rank (chain->world, b)->ports;

  if (ports->len != others->len)
    return FALSE;
  for (guint slot = 0; slot < ports->len; slot++)
    {
      PsiPortId x = g_array_index (ports, PsiPortId, slot), y = g_array_index (others, PsiPortId, slot);

      if (x == G_MAXUINT32 || y == G_MAXUINT32 || !g_array_index (chain->world->ports, PsiPort, x).is_channel)
        continue;
      const PortEnd *p = other_end (chain, a, slot), *q = other_end (chain, b, slot);
      if (p->slot != q->slot ||
          psi_world_rank (chain->world, p->rank)->program != psi_world_rank (chain->world, q->rank)->program)
        return FALSE;
    }
  return TRUE;
}

/* Ranks with one program have the same chains when that holds for their partners too; if it fails anywhere, each rank
 * is looked at by itself. */
static void
find_same (Chain *chain)
{
  guint n_ranks = chain->world->ranks->len;
  g_autoptr (GHashTable) first = g_hash_table_new (NULL, NULL);
  gboolean alike = TRUE;

  for (guint r = 0; r < n_ranks; r++)
    {
      gpointer program = psi_world_rank (chain->world, r)->program, found;

      chain->same[r] = r;
      if (g_hash_table_lookup_extended (first, program, NULL, &found))
        chain->same[r] = GPOINTER_TO_UINT (found);
      else
        g_hash_table_insert (first, program, GUINT_TO_POINTER (r));
    }
  for (guint r = 0; r < n_ranks && alike; r++)
    alike = chain->same[r] == r || have_like_partners (chain, r, chain->same[r]);
  for (guint r = 0; r < n_ranks && !alike; r++)
    chain->same[r] = r;
}

static guint
chain_of (Chain *chain, PsiRankId rank, PsiOpId id)
{
  const PsiProgram *program = psi_world_rank (chain->world, rank)->program;
  const PsiOp *op = psi_program_op (program, id);

  if (op->kind == PSI_OP_WORK)
    return op->transfer > 0 ? psi_op_fold (program, op)->tail_hops : 0;
  gint32 *known = &chain->chain[op_index (chain, rank, id)];
  if (*known >= 0)
    return (guint) *known;
  *known = 0; /* cuts loops through earlier iterations */
  guint most = chain_before (chain, rank, id);
  if (op->kind == PSI_OP_RECV)
    {
      const PortEnd *end = other_end (chain, rank, op->slot);
      PsiRankId sender = chain->same[end->rank];
      const GArray *sends = chain->sends[chain->first_slot[sender] + end->slot];
      guint nth = chain->nth[op_index (chain, rank, id)];

      if (sends != NULL && nth < sends->len)
        most = MAX (most, chain_before (chain, sender, g_array_index (sends, PsiOpId, nth)));
    }
  const PsiTransfer *transfer = &g_array_index (chain->world->transfers, PsiTransfer, op->transfer);
  *known = (gint32) (most + transfer->hops);
  return (guint) *known;
}

/* Offsets of ranks, and who stands at each port. */
static void
find_ends (Chain *chain)
{
  const PsiWorld *world = chain->world;
  g_autofree guint8 *n_ends = g_new0 (guint8, world->ports->len + 1);

  for (guint r = 0; r < world->ranks->len; r++)
    {
      const PsiRank *rank = psi_world_rank (world, r);

      chain->first_op[r + 1] = chain->first_op[r] + psi_program_n_ops (rank->program);
      chain->first_slot[r + 1] = chain->first_slot[r] + rank->ports->len;
      for (guint slot = 0; slot < rank->ports->len; slot++)
        {
          PsiPortId port = g_array_index (rank->ports, PsiPortId, slot);

          if (port != G_MAXUINT32 && n_ends[port] < 2)
            chain->ends[2 * port + n_ends[port]++] = (PortEnd){ r, slot };
        }
    }
}

guint
psi_account_chain (const PsiWorld *world)
{
  guint n_ranks = world->ranks->len, longest = 0;
  g_autofree gsize *first_op = g_new0 (gsize, n_ranks + 1), *first_slot = g_new0 (gsize, n_ranks + 1);
  g_autofree PortEnd *ends = g_new0 (PortEnd, 2 * world->ports->len + 2);
  g_autofree PsiRankId *same = g_new (PsiRankId, n_ranks + 1);
  Chain chain = { .world = world, .first_op = first_op, .first_slot = first_slot, .same = same, .ends = ends };

  find_ends (&chain);
  find_same (&chain);
  g_autofree gint32 *known = g_new (gint32, first_op[n_ranks] + 1);
  g_autofree guint32 *nth = g_new (guint32, first_op[n_ranks] + 1);
  g_autofree GArray **sends = g_new0 (GArray *, first_slot[n_ranks] + 1);
  chain.chain = known;
  chain.nth = nth;
  chain.sends = sends;
  for (guint r = 0; r < n_ranks; r++)
    if (same[r] == r)
      {
        memset (known + first_op[r], 0xff, (first_op[r + 1] - first_op[r]) * sizeof *known);
        number_messages (&chain, r);
      }
  for (guint r = 0; r < n_ranks; r++)
    {
      const PsiProgram *program = psi_world_rank (world, r)->program;

      for (guint s = 0; s < program->n_streams && same[r] == r; s++)
        for (guint i = 0; i < program->streams[s]->len; i++)
          longest = MAX (longest, chain_of (&chain, r, PSI_OP_ID (s, i)));
      for (guint p = 0; p < program->folds->len && same[r] == r; p++)
        longest = MAX (longest, g_array_index (program->folds, PsiFold, p).most_hops);
    }
  for (gsize i = 0; i < first_slot[n_ranks]; i++)
    g_clear_pointer (&sends[i], g_array_unref);
  return longest;
}

static guint64
mix (guint64 hash, guint64 value)
{
  hash = (hash ^ value) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

PsiRankId *
psi_account_equals (const PsiWorld *world, const PsiRun *run)
{
  guint n_ranks = world->ranks->len;
  PsiRankId *equals = g_new (PsiRankId, n_ranks + 1);
  g_autoptr (GHashTable) first = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);

  for (guint r = 0; r < n_ranks; r++)
    {
      const PsiProgram *program = psi_world_rank (world, r)->program;
      const PsiOpTimes *times = run->times + run->first_op[r];
      const PsiOpWait *waits = run->waits + run->first_wait[r];
      gsize n = run->first_op[r + 1] - run->first_op[r], n_waits = run->first_wait[r + 1] - run->first_wait[r];
      guint64 hash = (guint64) (gsize) program;
      gpointer found;

      /* Op times of ranks that differ do so in many places: some are enough to tell them apart. */
      for (gsize i = 0; i < n; i += 1 + n / 64)
        hash = mix (hash, (guint64) (times[i].start_ps ^ times[i].end_ps << 1));
      equals[r] = r;
      if (g_hash_table_lookup_extended (first, &hash, NULL, &found))
        {
          PsiRankId other = GPOINTER_TO_UINT (found);

          if (psi_world_rank (world, other)->program == program &&
              memcmp (times, run->times + run->first_op[other], n * sizeof *times) == 0 &&
              memcmp (waits, run->waits + run->first_wait[other], n_waits * sizeof *waits) == 0)
            equals[r] = other;
        }
      else
        g_hash_table_insert (first, g_memdup2 (&hash, sizeof hash), GUINT_TO_POINTER (r));
    }
  return equals;
}

static guint64
mix_times (guint64 hash, PsiTime start_ps, PsiTime end_ps)
{
  return mix (mix (hash, (guint64) start_ps), (guint64) end_ps);
}

guint64
psi_account_digest (const PsiWorld *world, const PsiRun *run)
{
  guint64 digest = 0;

  for (guint r = 0; r < world->ranks->len; r++)
    {
      const PsiRank *rank = psi_world_rank (world, r);
      const PsiProgram *program = rank->program;
      const PsiOpTimes *times = run->times + run->first_op[r];
      guint64 hash = mix (0x243f6a8885a308d3, (guint64) run->period_ps);
      PsiTime origin_ps = times->start_ps;

      for (guint s = 0; s < program->n_streams; s++)
        for (guint i = 0; i < program->streams[s]->len; i++, times++)
          {
            const PsiFold *fold = psi_op_fold (program, &g_array_index (program->streams[s], PsiOp, i));
            PsiTime start_ps = times->start_ps - origin_ps;
            const PsiPart *part = fold != NULL ? psi_fold_parts (program, fold) : NULL;

            if (fold == NULL)
              hash = mix_times (hash, start_ps, times->end_ps - origin_ps);
            else
              for (const PsiPart *end = part + fold->n_parts; part < end; part++)
                hash = mix_times (hash, start_ps + part->start_ps, start_ps + part->end_ps);
          }
      digest += hash * rank->weight;
    }
  return digest;
}
