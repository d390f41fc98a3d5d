/* SPDX-License-Identifier: MIT */
#include "psi-rounds.h"

#include "psi-hash.h"
#include "psi-pace.h"

#include <math.h>
#include <string.h>

#define LEAST_ROUNDS 12
#define MOST_ROUNDS 4096
#define MOST_OPS 120000 /* of all rounds: a large program gets fewer of them */

typedef struct
{
  PsiTime time_ps;
  gsize n_lags;
  guint64 *done;        /* [n_ranks] of stream 0 */
  PsiTime *free_ps;     /* [n_ranks] of stream 0 */
  PsiTimeSplit *splits; /* [n_ranks] since the start */
} Mark;

typedef struct
{
  GArray *states;       /* of guint64: hash at the end of each round */
  GHashTable *latest;   /* hash -> round + 1 */
  guint same_from;      /* the round that the cycle followed now repeats ... */
  guint n_same, length; /* ... so many of its rounds so far; length 0 = no cycle is followed */
  Mark begin;           /* of the cycle followed now */
  Mark half;            /* of the second half of the run */
} Rounds;

static void
mark_init (Mark *mark, guint n_ranks)
{
  mark->done = g_new0 (guint64, n_ranks + 1);
  mark->free_ps = g_new0 (PsiTime, n_ranks + 1);
  mark->splits = g_new0 (PsiTimeSplit, n_ranks + 1);
}

static void
mark_clear (Mark *mark)
{
  g_free (mark->done);
  g_free (mark->free_ps);
  g_free (mark->splits);
}

static void
rounds_init (Rounds *rounds, guint n_ranks)
{
  rounds->states = g_array_new (FALSE, FALSE, sizeof (guint64));
  rounds->latest = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  mark_init (&rounds->begin, n_ranks);
  mark_init (&rounds->half, n_ranks);
}

static void
rounds_clear (Rounds *rounds)
{
  g_array_unref (rounds->states);
  g_hash_table_unref (rounds->latest);
  mark_clear (&rounds->begin);
  mark_clear (&rounds->half);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Rounds, rounds_clear)

static void
take_mark (const PsiLoop *loop, PsiTime now_ps, Mark *mark)
{
  guint n_ranks = loop->world->ranks->len;

  mark->time_ps = now_ps;
  mark->n_lags = loop->pace->lags->len;
  memcpy (mark->splits, loop->pace->splits, n_ranks * sizeof *mark->splits);
  for (guint r = 0; r < n_ranks; r++)
    {
      mark->done[r] = loop->streams[loop->first_stream[r]].done;
      mark->free_ps[r] = loop->streams[loop->first_stream[r]].free_ps;
    }
}

/* ---- Cycles ---- */

static guint64
state_of (const PsiLoop *loop, PsiTime now_ps)
{
  guint64 hash = 0x13198a2e03707344;

  for (guint32 s = 0; s < loop->n_streams; s++)
    {
      const PsiStream *stream = &loop->streams[s];
      const PsiStream *first = &loop->streams[loop->first_stream[loop->details[s].rank]];

      if (stream->length == 0)
        continue;
      hash = psi_hash_add (hash, (guint64) stream->position << 32 | (guint64) stream->state << 24 |
                                     ((stream->iteration - first->iteration) & 0xffffff));
      hash = psi_hash_add (hash, (guint64) (now_ps - loop->details[s].start_ps));
    }
  for (guint p = 0; p < loop->world->ports->len; p++)
    if (g_array_index (loop->world->ports, PsiPort, p).is_desk)
      hash = psi_hash_add (hash, (guint64) loop->meetings[p].posted << 1 | (loop->meetings[p].is_busy != FALSE));
  return hash;
}

/* From here on the cycle that began in that round should come again. */
static void
follow_cycle (Rounds *rounds, const PsiLoop *loop, guint from, PsiTime now_ps)
{
  rounds->same_from = from;
  rounds->length = rounds->states->len - 1 - from;
  rounds->n_same = 0;
  take_mark (loop, now_ps, &rounds->begin);
}

/* A round has ended. TRUE: with it a cycle that begins at rounds->begin. */
static gboolean
ends_cycle (Rounds *rounds, const PsiLoop *loop, PsiTime now_ps)
{
  guint64 state = state_of (loop, now_ps);
  guint round = rounds->states->len;
  gpointer found = g_hash_table_lookup (rounds->latest, &state);

  g_array_append_val (rounds->states, state);
  g_hash_table_insert (rounds->latest, g_memdup2 (&state, sizeof state), GUINT_TO_POINTER (round + 1));
  if (rounds->length > 0 && state == g_array_index (rounds->states, guint64, rounds->same_from + rounds->n_same + 1))
    return ++rounds->n_same == rounds->length;
  rounds->length = 0;
  if (found != NULL)
    follow_cycle (rounds, loop, GPOINTER_TO_UINT (found) - 1, now_ps);
  return FALSE;
}

/* ---- What the stretch amounts to ---- */

static PsiTime
scaled (PsiTime part_ps, PsiTime from_ps, PsiTime to_ps)
{
  return from_ps > 0 ? (PsiTime) floor ((double) part_ps / (double) from_ps * (double) to_ps) : 0;
}

/* Where the rank's time went since the mark, as parts of period_ps. What is under way belongs to the head op. */
static void
fill_split (const PsiLoop *loop, guint rank, const PsiTimeSplit *before, PsiTime span_ps, PsiTime period_ps,
            PsiTimeSplit *split)
{
  const PsiTimeSplit *now = &loop->pace->splits[rank];
  const PsiStream *stream = &loop->streams[loop->first_stream[rank]];
  const PsiOp *head = &stream->ops[stream->position];
  PsiTime sum_ps = now->still_ps - before->still_ps, left_ps = period_ps;

  for (guint t = 0; t < PSI_MAX_TAGS; t++)
    sum_ps += now->busy_ps[t] - before->busy_ps[t] + now->moving_ps[t] - before->moving_ps[t];
  sum_ps = MAX (sum_ps, span_ps);
  for (guint t = 0; t < PSI_MAX_TAGS; t++)
    {
      split->busy_ps[t] = scaled (now->busy_ps[t] - before->busy_ps[t], sum_ps, period_ps);
      split->moving_ps[t] = scaled (now->moving_ps[t] - before->moving_ps[t], sum_ps, period_ps);
      left_ps -= split->busy_ps[t] + split->moving_ps[t];
    }
  split->still_ps = scaled (now->still_ps - before->still_ps, sum_ps, period_ps);
  left_ps -= split->still_ps;
  if (stream->length > 0 && head->kind == PSI_OP_WORK)
    split->busy_ps[head->tag] += left_ps;
  else
    split->still_ps += left_ps;
}

/* Paces from the mark until now; `exact`: each rank does a whole number of iterations in it. */
static void
fill_run (const PsiLoop *loop, PsiRun *run, const Mark *mark, PsiTime now_ps, gboolean exact)
{
  guint n_ranks = loop->world->ranks->len, n_used = 0;
  PsiTime span_ps = now_ps - mark->time_ps;
  g_autofree PsiTime *paces_ps = g_new (PsiTime, n_ranks + 1);
  g_autofree PsiTimeSplit *splits = g_new0 (PsiTimeSplit, n_ranks + 1);
  double rate = 0; /* iterations of all ranks per ps */
  gboolean one = exact;

  for (guint r = 0; r < n_ranks; r++)
    {
      const PsiStream *stream = &loop->streams[loop->first_stream[r]];
      double n = stream->length > 0 ? (double) (stream->done - mark->done[r]) / stream->length : 0;
      double length_ps = (double) (exact ? span_ps : stream->free_ps - mark->free_ps[r]);

      paces_ps[r] = n > 0 ? llround (length_ps / n) : span_ps;
      if (stream->length == 0)
        continue;
      n_used++;
      rate += n > 0 && length_ps > 0 ? n / length_ps : 0;
      one = one && n == 1;
    }
  run->periodic = exact;
  run->period_ps = one ? span_ps : rate > 0 ? llround (n_used / rate) : span_ps;
  run->n_lags = loop->pace->lags->len - mark->n_lags;
  g_free (run->lags);
  run->lags = run->n_lags == 0 ? NULL
                               : g_memdup2 (&g_array_index (loop->pace->lags, guint32, mark->n_lags),
                                            run->n_lags * sizeof *run->lags);
  g_clear_pointer (&run->paces_ps, g_free);
  g_clear_pointer (&run->splits, g_free);
  if (one)
    return;
  for (guint r = 0; r < n_ranks; r++)
    fill_split (loop, r, &mark->splits[r], span_ps, run->period_ps, &splits[r]);
  run->paces_ps = g_steal_pointer (&paces_ps);
  run->splits = g_steal_pointer (&splits);
}

/* The rank's own iteration `last`, from whichever half it is in. */
static PsiTime
settle_rank (const PsiLoop *loop, PsiRun *run, guint rank, guint32 last)
{
  PsiOpTimes *times = run->times + run->first_op[rank];
  PsiOpWait *waits = run->waits + run->first_wait[rank];
  PsiTime longest_ps = 0;

  if (last % 2 != 0)
    memcpy (waits, waits + loop->pace->n_waits, (run->first_wait[rank + 1] - run->first_wait[rank]) * sizeof *waits);
  if (last % 2 != 0)
    memcpy (times, times + loop->pace->n_ops, (run->first_op[rank + 1] - run->first_op[rank]) * sizeof *times);
  for (guint32 s = loop->first_stream[rank]; s < loop->first_stream[rank + 1]; s++)
    {
      const PsiStream *stream = &loop->streams[s];

      /* Not one iteration in all that time: what is left takes no time. */
      for (guint32 i = stream->position; i < stream->length && stream->iteration == 0; i++)
        times[i].start_ps = times[i].end_ps = stream->free_ps;
      if (stream->length > 0)
        longest_ps = MAX (longest_ps, times[stream->length - 1].end_ps - times[0].start_ps);
      times += stream->length;
    }
  return longest_ps;
}

void
psi_rounds_settle (PsiLoop *loop, PsiRun *run)
{
  guint n_ranks = loop->world->ranks->len;

  run->folds_ps = g_new0 (PsiTime, n_ranks + 1);
  for (guint r = 0; r < n_ranks && loop->records; r++)
    {
      guint32 last = G_MAXUINT32;

      for (guint32 s = loop->first_stream[r]; s < loop->first_stream[r + 1]; s++)
        if (loop->streams[s].length > 0)
          last = MIN (last, MAX (loop->streams[s].iteration, 1) - 1);
      run->folds_ps[r] = MAX (settle_rank (loop, run, r, last), psi_run_pace_ps (run, r));
    }
}

gboolean
psi_rounds_follow (PsiLoop *loop, PsiRun *run, const PsiRunOptions *options, PsiTime *now_ps)
{
  g_auto (Rounds) rounds = { NULL };
  guint64 n_ops = 1;
  gboolean found = FALSE;

  rounds_init (&rounds, loop->world->ranks->len);
  for (guint32 s = 0; s < loop->n_streams; s++)
    n_ops += loop->streams[s].length;
  guint32 limit = options->max_iterations > 0 ? options->max_iterations
                                              : (guint32) CLAMP (MOST_OPS / n_ops, LEAST_ROUNDS, MOST_ROUNDS);
  while (loop->complete < limit || found)
    {
      if (loop->complete == (limit + 1) / 2)
        take_mark (loop, *now_ps, &rounds.half);
      if (!psi_loop_iterate (loop, now_ps))
        return FALSE;
      if (ends_cycle (&rounds, loop, *now_ps))
        {
          fill_run (loop, run, &rounds.begin, *now_ps, TRUE);
          found = TRUE;
          if (!options->no_jump || loop->complete >= limit)
            return TRUE;
          follow_cycle (&rounds, loop, rounds.states->len - 1 - rounds.length, *now_ps);
        }
      psi_loop_next (loop);
    }
  fill_run (loop, run, &rounds.half, *now_ps, FALSE);
  return TRUE;
}
