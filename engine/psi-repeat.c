/* SPDX-License-Identifier: MIT */
#include "psi-repeat.h"

#define STRETCHES 3   /* of which each op has an image D later */
#define MARGIN 4      /* of them stand between these and what is not the same */
#define MOST_BLOCKS 2 /* in a stretch: messages that share links may alternate */

typedef struct
{
  const PsiWorld *world;
  const PsiRun *run;
  PsiTime begin_ps, length_ps; /* the stretch to put in; two more stand before it, one behind */
  guint n_blocks;              /* in it */
  guint32 *lengths;            /* [streams of a rank] ops of so many blocks */
} Search;

/* The first op of a stream that starts at `time_ps` or later. */
static guint32
first_from (const PsiOpTimes *times, guint32 n, PsiTime time_ps)
{
  guint32 low = 0, high = n;

  while (low < high)
    {
      guint32 middle = low + (high - low) / 2;

      if (times[middle].start_ps < time_ps)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

static gboolean
same_needs (const Search *search, const PsiProgram *program, const PsiOp *a, const PsiOp *b)
{
  guint32 d = a->first_dep, e = b->first_dep;

  for (; d != PSI_CHAIN_END && e != PSI_CHAIN_END;)
    {
      const PsiDep *x = &g_array_index (program->deps, PsiDep, d), *y = &g_array_index (program->deps, PsiDep, e);

      if (x->distance != 0 || y->distance != 0 || y->op != x->op + search->lengths[PSI_OP_STREAM (x->op)])
        return FALSE;
      d = x->next;
      e = y->next;
    }
  return d == e;
}

static gboolean
same_op (const Search *search, const PsiProgram *program, const PsiOp *a, const PsiOp *b)
{
  return a->kind == b->kind && a->tag == b->tag && a->slot == b->slot && a->transfer == b->transfer &&
         a->cost_ps == b->cost_ps && a->skip == 0 && b->skip == 0 && a->shift == 0 && b->shift == 0 &&
         b->label[0] == a->label[0] + (gint32) search->n_blocks && same_needs (search, program, a, b) &&
         psi_program_same_memory (program, a, b);
}

static gboolean
is_later (PsiTime b_ps, PsiTime a_ps, PsiTime by_ps)
{
  return a_ps == PSI_TIME_MAX ? b_ps == PSI_TIME_MAX : b_ps == a_ps + by_ps;
}

static gboolean
same_wait (const Search *search, const PsiOpWait *a, const PsiOpWait *b)
{
  guint32 released_by = a->released_by;

  if (released_by != PSI_OP_NONE)
    released_by += search->lengths[PSI_OP_STREAM (released_by)];
  return is_later (b->post_ps, a->post_ps, search->length_ps) &&
         is_later (b->before_ps, a->before_ps, search->length_ps) &&
         is_later (b->moving_ps, a->moving_ps, search->length_ps) && b->released_by == released_by;
}

/* Is the stream idle from the first stretch to the last, in the iterations before and after as well? */
static gboolean
is_idle (const Search *search, const PsiOpTimes *times, guint32 n)
{
  PsiTime from_ps = search->begin_ps - 2 * search->length_ps, to_ps = search->begin_ps + 2 * search->length_ps;

  if (n == 0)
    return TRUE;
  for (int k = -2; k <= 2; k++)
    for (guint32 i = 0; i < n; i++)
      if (times[i].start_ps + k * search->run->period_ps < to_ps &&
          times[i].end_ps + k * search->run->period_ps > from_ps)
        return FALSE;
  return TRUE;
}

static gboolean
check_stream (const Search *search, const PsiProgram *program, guint stream, const PsiOpTimes *times,
              const PsiOpWait *waits, guint32 limit)
{
  const PsiOp *ops = (const PsiOp *) (const void *) program->streams[stream]->data;
  guint32 n = program->streams[stream]->len, length = search->lengths[stream];
  PsiTime span_ps = search->length_ps, period_ps = search->run->period_ps;
  guint32 edges[STRETCHES + 2];

  if (length == 0)
    return is_idle (search, times, n);
  for (guint e = 0; e < G_N_ELEMENTS (edges); e++)
    {
      edges[e] = first_from (times, n, search->begin_ps + ((PsiTime) e - 2) * span_ps);
      if (e > 0 && edges[e] - edges[e - 1] != length)
        return FALSE;
    }
  if (stream == 0 && edges[STRETCHES + 1] + MARGIN * length > limit)
    return FALSE;
  /* Other iterations must not reach in. */
  if (times[n - 1].end_ps - period_ps > search->begin_ps - 2 * span_ps ||
      times[0].start_ps + period_ps < search->begin_ps + 2 * span_ps)
    return FALSE;
  for (guint32 i = edges[0]; i < edges[STRETCHES]; i++)
    if (!is_later (times[i + length].start_ps, times[i].start_ps, span_ps) ||
        !is_later (times[i + length].end_ps, times[i].end_ps, span_ps) ||
        times[i].end_ps - times[i].start_ps > span_ps || !same_op (search, program, &ops[i], &ops[i + length]) ||
        (waits != NULL && !same_wait (search, &waits[i], &waits[i + length])))
      return FALSE;
  /* What follows up to the limit moves n blocks on: it must be blocks as well. */
  for (guint32 i = edges[STRETCHES]; stream == 0 && i + length < limit; i++)
    if (!same_op (search, program, &ops[i], &ops[i + length]))
      return FALSE;
  return TRUE;
}

/* Ops of each stream that belong to blocks from `label` on. */
static void
count_blocks (const PsiProgram *program, gint32 label, guint n_blocks, guint32 *lengths)
{
  for (guint s = 0; s < program->n_streams; s++)
    {
      lengths[s] = 0;
      for (guint32 i = 0; i < program->streams[s]->len; i++)
        {
          gint32 block = g_array_index (program->streams[s], PsiOp, i).label[0];

          lengths[s] += block >= label && block < label + (gint32) n_blocks;
        }
    }
}

static gboolean
check_rank (Search *search, PsiRankId rank, gint32 label, guint32 limit)
{
  const PsiProgram *program = psi_world_rank (search->world, rank)->program;
  const PsiOpTimes *times = search->run->times + search->run->first_op[rank];
  const PsiOpWait *waits = search->run->waits + search->run->first_wait[rank];

  count_blocks (program, label, search->n_blocks, search->lengths);
  for (guint s = 0; s < program->n_streams; times += program->streams[s++]->len)
    if (!check_stream (search, program, s, times, s == 0 ? waits : NULL, limit))
      return FALSE;
  return TRUE;
}

/* Put stretches of so many blocks in. */
static gboolean
try_blocks (const PsiWorld *world, PsiRun *run, const guint32 *limits, guint n_blocks, guint64 n)
{
  guint32 lengths[PSI_MAX_STREAMS];
  Search search = { .world = world, .run = run, .n_blocks = n_blocks, .lengths = lengths };
  /* Rank 0 is the first that comes to the end of its blocks: as late as it allows. */
  const PsiProgram *program = psi_world_rank (world, 0)->program;
  guint32 limit = limits[0];
  gint32 label = limit > 0 ? g_array_index (program->streams[0], PsiOp, limit - 1).label[0] - MARGIN : -1;

  if (label < 0)
    return FALSE;
  count_blocks (program, label, n_blocks, lengths);
  guint32 length = lengths[0], behind = (MARGIN + 2) * length;
  if (length == 0 || limit < behind + 2 * length)
    return FALSE;
  guint32 first = limit - behind;
  search.begin_ps = run->times[first].start_ps;
  search.length_ps = run->times[first + length].start_ps - search.begin_ps;
  if (search.length_ps <= 0 || search.begin_ps < run->times[0].start_ps ||
      search.begin_ps + search.length_ps > run->times[0].start_ps + run->period_ps)
    return FALSE;
  for (guint r = 0; r < world->ranks->len; r++)
    if (!check_rank (&search, r, label, limits[r]))
      return FALSE;
  run->repeat = (PsiRepeat){ n / n_blocks, search.begin_ps, search.length_ps };
  run->period_ps += (PsiTime) run->repeat.n * search.length_ps;
  return TRUE;
}

gboolean
psi_run_put_in (const PsiWorld *world, PsiRun *run, const guint32 *limits, guint64 n)
{
  if (run->cycle != 1 || run->paces_ps != NULL || run->iterations != 2 || run->times == NULL || world->ranks->len == 0)
    return FALSE;
  for (guint n_blocks = 1; n_blocks <= MOST_BLOCKS; n_blocks *= 2)
    if (n % n_blocks == 0 && try_blocks (world, run, limits, n_blocks, n))
      return TRUE;
  return FALSE;
}
