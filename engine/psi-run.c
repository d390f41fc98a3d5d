/* SPDX-License-Identifier: MIT */
#include "psi-run.h"

#include "psi-cycle.h"
#include "psi-loop-record.h"
#include "psi-rounds.h"

#include <math.h>

#define DEFAULT_ITERATIONS 64
/* Ranks that run at different paces until the slack between them is used up may need many more. */
#define MOST_ITERATIONS 16384
#define MOST_EVENTS 500000
#define MOST_OPS 12000000 /* of all iterations: a large program gets fewer of them */
#define LEAST_ITERATIONS 8
#define FIRST_SUMS 16 /* iterations before a cycle of several is looked for, and for which a drift must have lasted */

/* Where a rank's stream 0 stood at some moment. */
typedef struct
{
  guint64 done;
  PsiTime free_ps;
} Mark;

static void
mark_ranks (const PsiLoop *loop, Mark *marks)
{
  for (guint r = 0; r < loop->world->ranks->len; r++)
    {
      const PsiStream *stream = &loop->streams[loop->first_stream[r]];

      marks[r] = (Mark){ stream->done, stream->free_ps };
    }
}

/* The pace of the slowest rank since the marks: where all depend on each other, all will run at it in the end. */
static PsiTime
slowest_pace_ps (const PsiLoop *loop, const Mark *marks)
{
  double slowest_ps = 0;

  for (guint r = 0; r < loop->world->ranks->len; r++)
    {
      const PsiStream *stream = &loop->streams[loop->first_stream[r]];

      if (stream->done > marks[r].done)
        slowest_ps = MAX (slowest_ps, (double) (stream->free_ps - marks[r].free_ps) * stream->length /
                                          (double) (stream->done - marks[r].done));
    }
  return (PsiTime) ceil (slowest_ps);
}

/* Streams stand in different iterations: bring every recorded op to iteration `last`. */
static void
align_times (PsiLoop *loop, PsiRun *run, guint32 last)
{
  for (guint32 s = 0; s < loop->n_streams; s++)
    {
      const PsiStream *stream = &loop->streams[s];
      const PsiStreamDetail *detail = &loop->details[s];

      for (guint32 i = 0; i < stream->length; i++)
        {
          guint32 iteration = i < stream->position ? stream->iteration : stream->iteration - 1;
          PsiTime back_ps = (PsiTime) (iteration - last) * run->period_ps;

          detail->times[i].start_ps -= back_ps;
          detail->times[i].end_ps -= back_ps;
          if (detail->waits == NULL)
            continue;
          detail->waits[i].post_ps -= back_ps;
          if (detail->waits[i].before_ps < PSI_TIME_MAX)
            detail->waits[i].before_ps -= back_ps;
          if (detail->waits[i].moving_ps < PSI_TIME_MAX)
            detail->waits[i].moving_ps -= back_ps;
        }
    }
}

/* Are bytes on the way, and no link that never moves any? They come when time is out of range. */
static gboolean
are_bytes_late (const PsiLinks *links)
{
  guint n_dead = 0;

  for (guint l = 0; l < psi_links_n_links (links); l++)
    n_dead += psi_links_rate (links, l) <= 0;
  return psi_links_n_flows (links) > 0 && n_dead == 0;
}

static void
set_stuck (const PsiLoop *loop, GError **error)
{
  g_autofree char *waiting = psi_loop_describe_waiting (loop);
  gboolean late = (psi_queue_next_ps (loop->queue) == PSI_TIME_MAX && psi_queue_size (loop->queue) > 0) ||
                  are_bytes_late (loop->world->links);

  g_set_error (error, PSI_RUN_ERROR, late ? PSI_RUN_ERROR_TIME : PSI_RUN_ERROR_DEADLOCK, "%s",
               late ? "simulated time is out of range: an op would end after more than 26 days" : waiting);
}

/* Ranks at paces of their own. */
static PsiRun *
run_paces (PsiLoop *loop, PsiRun *run, const PsiRunOptions *options, GError **error)
{
  PsiTime now_ps = 0;

  if (!psi_rounds_follow (loop, run, options, &now_ps))
    {
      set_stuck (loop, error);
      psi_run_free (run);
      return NULL;
    }
  psi_rounds_settle (loop, run);
  run->cycle = run->periodic ? 1 : 0;
  run->iterations = loop->complete;
  run->makespan_ps = now_ps;
  run->n_events = loop->n_events;
  return run;
}

PsiRun *
psi_run (PsiWorld *world, const PsiRunOptions *options, GError **error)
{
  static const PsiRunOptions defaults = { 0 };
  g_autoptr (PsiRun) run = g_new0 (PsiRun, 1);
  g_auto (PsiLoop) loop = { 0 };
  g_autofree Mark *marks = g_new0 (Mark, world->ranks->len + 1);
  PsiTime now_ps = 0, shift_ps = 0, most_ps = 0;
  guint32 reach = 1, lead = 0, matches = 0, limit, first_sum = 0;
  PsiCycle cycle = { 0 };

  options = options != NULL ? options : &defaults;
  limit = options->max_iterations > 0 ? options->max_iterations : DEFAULT_ITERATIONS;
  psi_links_reset (world->links);
  for (guint p = 0; p < world->programs->len; p++)
    {
      const PsiProgram *program = g_ptr_array_index (world->programs, p);

      reach = MAX (reach, program->max_distance);
      if (program->skips)
        lead = PSI_LOOP_AHEAD - 1;
    }
  reach += lead;
  if (!psi_loop_init (&loop, world, run, options, error))
    return NULL;
  if (loop.pace != NULL)
    return run_paces (&loop, g_steal_pointer (&run), options, error);
  if (options->max_iterations == 0)
    {
      guint64 n_ops = 1;

      for (guint32 s = 0; s < loop.n_streams; s++)
        n_ops += loop.streams[s].length;
      limit = (guint32) CLAMP (MOST_OPS / n_ops, MAX (LEAST_ITERATIONS, reach + 2), limit);
    }
  guint32 next_mark = (limit + 1) / 2;

  /* With a limit of the caller's it ends there, periodic or not. */
  while (loop.complete < limit ||
         (options->max_iterations == 0 && (run->cycle == 0 || loop.complete % run->cycle > 0) &&
          loop.complete < MOST_ITERATIONS && loop.n_events < MOST_EVENTS))
    {
      if (loop.complete == next_mark)
        {
          mark_ranks (&loop, marks);
          next_mark *= 2;
        }
      if (!psi_loop_iterate (&loop, &now_ps))
        {
          set_stuck (&loop, error);
          return NULL;
        }
      const PsiIteration *iteration = &loop.iterations[(loop.complete - 1) % PSI_LOOP_AHEAD];
      matches = iteration->least_ps != iteration->most_ps ? 0 : iteration->least_ps == shift_ps ? matches + 1 : 1;
      shift_ps = iteration->least_ps;
      most_ps = iteration->most_ps;
      run->cycle = matches >= reach ? 1 : 0;
      if (loop.sums && loop.complete > first_sum)
        {
          guint found = psi_cycle_add (&cycle, iteration->sum, iteration->reference_ps, reach);

          run->cycle = run->cycle > 0 ? run->cycle : found;
        }
      /* Steps that repeat one by one go on so. Groups of them hang on rests of flows smaller than a picosecond, and may
       * yet change: they are followed to the end. */
      if (run->cycle == 1 && (!options->no_jump || (PSI_TIME_MAX - now_ps) / (reach + 2) < shift_ps))
        break; /* nothing else will happen, or time runs out of range */
      if (loop.complete == FIRST_SUMS && !options->no_record)
        first_sum = psi_loop_keep_sums (&loop, &cycle.weight);
      psi_loop_next (&loop);
    }
  if (loop.n_streams_used == 0)
    run->cycle = 1;
  run->periodic = run->cycle > 0;
  run->drifts = !run->periodic && cycle.steady >= reach + FIRST_SUMS;
  run->iterations = loop.complete;
  run->makespan_ps = now_ps;
  run->n_events = loop.n_events;
  run->period_ps = loop.n_streams_used == 0 ? 0
                   : run->cycle > 1         ? (psi_cycle_time_ps (&cycle, run->cycle) + run->cycle - 1) / run->cycle
                   : run->periodic          ? shift_ps
                   : run->drifts            ? most_ps
                   : loop.complete > 1      ? slowest_pace_ps (&loop, marks)
                                            : now_ps;
  if (!options->no_record)
    align_times (&loop, run, loop.complete - 1);
  return g_steal_pointer (&run);
}

void
psi_run_free (PsiRun *run)
{
  if (run == NULL)
    return;
  g_free (run->first_op);
  g_free (run->first_wait);
  g_free (run->times);
  g_free (run->waits);
  g_free (run->paces_ps);
  g_free (run->folds_ps);
  g_free (run->splits);
  g_free (run->lags);
  g_free (run);
}
