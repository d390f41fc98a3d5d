/* SPDX-License-Identifier: MIT */
#include "psi-account.h"

#include "psi-fold.h"
#include "psi-hash.h"

#include <string.h>

/* Iterations of a cycle, or of a run without a period, are not all as long as their mean: work is, so waiting is taken
 * in proportion. */
static void
fit_waits (PsiTimeSplit *split, PsiTime period_ps)
{
  PsiTime busy_ps = 0, waits_ps = split->still_ps, left_ps;

  for (guint t = 0; t < PSI_MAX_TAGS; t++)
    {
      busy_ps += split->busy_ps[t];
      waits_ps += split->moving_ps[t];
    }
  left_ps = period_ps - busy_ps;
  if (left_ps == waits_ps || left_ps < 0)
    return;
  for (guint t = 0; t < PSI_MAX_TAGS; t++)
    if (split->moving_ps[t] > 0)
      {
        split->moving_ps[t] =
            (PsiTime) ((double) split->moving_ps[t] / (double) waits_ps * (double) (period_ps - busy_ps));
        split->moving_ps[t] = MIN (split->moving_ps[t], left_ps);
        left_ps -= split->moving_ps[t];
      }
  split->still_ps = left_ps;
}

void
psi_account_op (const PsiProgram *program, const PsiOp *op, const PsiOpTimes *times, const PsiOpWait *wait,
                PsiTime free_ps, double scale, PsiTimeSplit *split)
{
  PsiTime moving_ps = 0, served_ps = 0;

  /* Waiting for an op of another stream of this rank. */
  if (wait->post_ps > free_ps)
    {
      if (wait->released_by != PSI_OP_NONE)
        {
          const PsiOp *before = psi_program_op (program, wait->released_by);

          moving_ps = wait->post_ps - CLAMP (wait->before_ps, free_ps, wait->post_ps);
          split->moving_ps[before->tag] += moving_ps;
          if (before->kind == PSI_OP_SERVE)
            served_ps = CLAMP ((PsiTime) ((double) before->cost_ps * scale), 0, wait->post_ps - free_ps - moving_ps);
          split->busy_ps[before->tag] += served_ps;
        }
      split->still_ps += wait->post_ps - free_ps - moving_ps - served_ps;
    }
  const PsiFold *fold = psi_op_fold (program, op);
  for (guint i = 0; fold != NULL && i < fold->n_parts; i++)
    {
      const PsiPart *part = &psi_fold_parts (program, fold)[i];

      (part->op.kind == PSI_OP_WORK ? split->busy_ps : split->moving_ps)[part->op.tag] += part->end_ps - part->start_ps;
    }
  if (fold != NULL)
    return;
  if (op->kind == PSI_OP_WORK)
    split->busy_ps[op->tag] += times->end_ps - times->start_ps;
  else if (op->kind == PSI_OP_SERVE)
    {
      split->still_ps += times->start_ps - wait->post_ps;
      split->busy_ps[op->tag] += times->end_ps - times->start_ps;
    }
  else
    {
      /* Waiting for partners, then for the bytes. */
      moving_ps = times->end_ps - CLAMP (wait->moving_ps, wait->post_ps, times->end_ps);
      split->moving_ps[op->tag] += moving_ps;
      split->still_ps += times->end_ps - wait->post_ps - moving_ps;
    }
}

/* What a repeat puts in is as what it repeats. */
static void
add_repeated (PsiTimeSplit *split, const PsiTimeSplit *stretch, guint64 n)
{
  for (guint t = 0; t < PSI_MAX_TAGS; t++)
    {
      split->busy_ps[t] += (PsiTime) n * stretch->busy_ps[t];
      split->moving_ps[t] += (PsiTime) n * stretch->moving_ps[t];
    }
  split->still_ps += (PsiTime) n * stretch->still_ps;
}

void
psi_account_time (const PsiWorld *world, const PsiRun *run, PsiRankId rank, PsiTimeSplit *ret_split)
{
  const PsiProgram *program = psi_world_rank (world, rank)->program;
  const PsiOpTimes *times = run->times + run->first_op[rank];
  const PsiOpWait *waits = run->waits + run->first_wait[rank];
  PsiTimeSplit stretch = { .still_ps = 0 };
  guint n = program->streams[0]->len;

  memset (ret_split, 0, sizeof *ret_split);
  if (run->splits != NULL)
    *ret_split = run->splits[rank];
  else if (n == 0)
    ret_split->still_ps = run->period_ps;
  else
    {
      for (guint i = 0; i < n; i++)
        psi_account_op (program, &g_array_index (program->streams[0], PsiOp, i), &times[i], &waits[i],
                        i > 0 ? times[i - 1].end_ps : times[n - 1].end_ps - psi_run_recorded_ps (run),
                        psi_world_rank (world, rank)->scale,
                        psi_run_times_over (run, times[i].start_ps) > 1 ? &stretch : ret_split);
      add_repeated (ret_split, &stretch, run->repeat.n + 1);
      fit_waits (ret_split, run->period_ps);
    }
}

/* Changes at the start (or the end) of an op. */
static inline void
add_deltas (const PsiProgram *program, const PsiOp *op, gboolean at_end, PsiTime time_ps, gint64 weight,
            PsiLevelWriter *writer)
{
  for (guint32 d = op->first_delta; d != PSI_CHAIN_END;)
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
        PsiTime shift_ps = op->shift * psi_run_fold_ps (run, rank);

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

/* Bytes times ps: whole numbers, so that sums do not depend on their order. */
typedef __int128 Area;

/* The area under the levels from begin_ps to end_ps. */
static inline Area
area_between (gint64 bytes, PsiTime from_ps, PsiTime to_ps, PsiTime begin_ps, PsiTime end_ps)
{
  PsiTime width_ps = MIN (to_ps, end_ps) - MAX (from_ps, begin_ps);

  return width_ps > 0 ? (Area) bytes * width_ps : 0;
}

static void
follow_levels (GArray *events, PsiTime period_ps, PsiTime origin_ps, const PsiRepeat *repeat, const gint64 *base,
               gboolean rises_first, PsiLevels *ret_levels, GArray *curve)
{
  PsiLevelEvent *event = (PsiLevelEvent *) (void *) events->data;
  gint64 level[PSI_MAX_CLASSES] = { 0 }, sum = 0;
  PsiTime again_ps = repeat->begin_ps - origin_ps, over_ps = again_ps + repeat->length_ps;
  Area area = 0, again = 0;

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
  area = (Area) sum * period_ps;
  PsiLevelPoint point = { 0 };
  memcpy (point.bytes, level, sizeof level);
  PsiTime last_ps = 0;
  for (guint i = 0; i < events->len; i++)
    {
      guint c = event[i].level;

      if (curve != NULL && event[i].time_ps != point.time_ps)
        {
          g_array_append_val (curve, point);
          point.time_ps = event[i].time_ps;
        }
      if (repeat->n > 0)
        {
          again += area_between (sum, last_ps, event[i].time_ps, again_ps, over_ps);
          last_ps = event[i].time_ps;
        }
      level[c] += event[i].bytes;
      sum += event[i].bytes;
      area += (Area) event[i].bytes * (period_ps - event[i].time_ps);
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
  if (repeat->n > 0)
    {
      again += area_between (sum, last_ps, period_ps, again_ps, over_ps);
      area += again * (Area) repeat->n;
      if (ret_levels->peak_at_ps >= over_ps)
        ret_levels->peak_at_ps += (PsiTime) repeat->n * repeat->length_ps;
      period_ps += (PsiTime) repeat->n * repeat->length_ps;
    }
  ret_levels->mean_bytes = period_ps > 0 ? (double) area / (double) period_ps : (double) sum;
}

void
psi_account_levels (GArray *events, PsiTime period_ps, PsiTime origin_ps, const gint64 *base, gboolean rises_first,
                    PsiLevels *ret_levels, GArray *curve)
{
  static const PsiRepeat none = { 0, 0, 0 };

  follow_levels (events, period_ps, origin_ps, &none, base, rises_first, ret_levels, curve);
}

void
psi_account_run_levels (GArray *events, const PsiRun *run, PsiRankId rank, PsiTime origin_ps, const gint64 *base,
                        gboolean rises_first, PsiLevels *ret_levels, GArray *curve)
{
  PsiTime period_ps = run->repeat.n > 0 ? psi_run_recorded_ps (run) : psi_run_fold_ps (run, rank);

  g_assert (run->repeat.n == 0 || curve == NULL);
  follow_levels (events, period_ps, origin_ps, &run->repeat, base, rises_first, ret_levels, curve);
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
        hash = psi_hash_add (hash, (guint64) (times[i].start_ps ^ times[i].end_ps << 1));
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

/* Times of one op, its parts one by one. */
static inline guint64
mix_op (guint64 hash, const PsiProgram *program, const PsiOp *op, PsiTime start_ps, PsiTime end_ps)
{
  const PsiFold *fold = psi_op_fold (program, op);

  if (fold == NULL)
    return psi_hash_add (psi_hash_add (hash, (guint64) start_ps), (guint64) end_ps);
  for (const PsiPart *part = psi_fold_parts (program, fold), *end = part + fold->n_parts; part < end; part++)
    hash =
        psi_hash_add (psi_hash_add (hash, (guint64) (start_ps + part->start_ps)), (guint64) (start_ps + part->end_ps));
  return hash;
}

/* A stream with all that the repeat of the run puts in. */
static guint64
mix_stream (guint64 hash, const PsiRun *run, const PsiProgram *program, const GArray *ops, const PsiOpTimes *times,
            PsiTime origin_ps)
{
  const PsiRepeat *repeat = &run->repeat;
  guint i = 0, begin;

  for (; i < ops->len && (repeat->n == 0 || times[i].start_ps < repeat->begin_ps + repeat->length_ps); i++)
    hash = mix_op (hash, program, &g_array_index (ops, PsiOp, i), times[i].start_ps - origin_ps,
                   times[i].end_ps - origin_ps);
  for (begin = i; begin > 0 && times[begin - 1].start_ps >= repeat->begin_ps && repeat->n > 0;)
    begin--;
  for (guint64 again = 1; again <= repeat->n && begin < i; again++)
    for (guint k = begin; k < i; k++)
      hash = mix_op (hash, program, &g_array_index (ops, PsiOp, k),
                     times[k].start_ps - origin_ps + (PsiTime) again * repeat->length_ps,
                     times[k].end_ps - origin_ps + (PsiTime) again * repeat->length_ps);
  origin_ps -= (PsiTime) repeat->n * repeat->length_ps;
  for (; i < ops->len; i++)
    hash = mix_op (hash, program, &g_array_index (ops, PsiOp, i), times[i].start_ps - origin_ps,
                   times[i].end_ps - origin_ps);
  return hash;
}

guint64
psi_account_digest (const PsiWorld *world, const PsiRun *run)
{
  guint64 digest = 0;

  for (guint r = 0; r < world->ranks->len; r++)
    {
      const PsiRank *rank = psi_world_rank (world, r);
      const PsiOpTimes *times = run->times + run->first_op[r];
      guint64 hash = psi_hash_add (0x243f6a8885a308d3, (guint64) run->period_ps);
      PsiTime origin_ps = times->start_ps;

      for (guint s = 0; s < rank->program->n_streams; times += rank->program->streams[s++]->len)
        hash = mix_stream (hash, run, rank->program, rank->program->streams[s], times, origin_ps);
      digest += hash * rank->weight;
    }
  return digest;
}
