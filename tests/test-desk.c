/* SPDX-License-Identifier: MIT */
/* Ranks at paces of their own: workers that push to one server over its link, take their turn at its desk, and begin
 * again. Closed forms of pace and lag, order of turns, cycles, digests. */
#include "psi-account.h"
#include "psi-run.h"

#include <math.h>

#define RATE 1e12 /* bytes per second: a byte is a ps */

typedef struct
{
  guint n;
  PsiTime work_ps, push_ps, serve_ps;
  gboolean apart;        /* they begin evenly spread; else all at once */
  const PsiTime *works;  /* [n] each worker's own work, or NULL */
  gboolean backwards;    /* the last is added first */
  gboolean split_stream; /* turns in a stream of their own */
} Case;

static PsiWorld *
build (const Case *c)
{
  PsiWorld *world = psi_world_new ();
  PsiTransfer push = { .bytes = c->push_ps, .cap_bytes_per_s = HUGE_VAL, .weights = { 0, 1 }, .hops = 1 };
  PsiTransferId transfer = psi_world_add_transfer (world, &push);
  PsiLinkId link = psi_links_add (world->links, RATE);
  PsiPortId desk = psi_world_add_desk (world, 0);

  for (guint i = 0; i < c->n; i++)
    {
      guint worker = c->backwards ? c->n - 1 - i : i;
      PsiProgram *program = psi_world_add_program (world, 2);
      PsiTime work_ps = c->works != NULL ? c->works[worker] : c->work_ps;
      PsiOpId work = psi_program_work (program, 0, work_ps, 1);
      PsiOpId message = psi_program_message (program, c->split_stream, PSI_OP_COLLECTIVE, 0, transfer, 20);
      PsiOpId turn = psi_program_serve (program, c->split_stream, 1, 7, c->serve_ps, 2);
      PsiRankId rank = psi_world_add_rank (world, program, 1,
                                           c->apart ? (c->work_ps + c->push_ps + c->serve_ps) * worker / c->n : 0);
      PsiPortId port = psi_world_add_communicator (world);

      psi_program_after (program, message, work, 0);
      psi_program_after (program, work, turn, 1);
      psi_world_bind (world, rank, 0, port);
      psi_world_add_path (world, port, link, 1);
      psi_world_bind (world, rank, 1, desk);
    }
  return world;
}

static PsiRun *
run_world (PsiWorld *world, gboolean no_jump)
{
  g_autoptr (GError) error = NULL;
  PsiRunOptions options = { .no_jump = no_jump };
  PsiRun *run = psi_run (world, &options, &error);

  g_assert_no_error (error);
  return run;
}

static double
mean_lag (const PsiRun *run)
{
  double sum = 0;

  for (gsize i = 0; i < run->n_lags; i++)
    sum += run->lags[i];
  return sum / (double) run->n_lags;
}

static PsiTime
sum_of (const PsiTimeSplit *split)
{
  PsiTime sum_ps = split->still_ps;

  for (guint t = 0; t < PSI_MAX_TAGS; t++)
    sum_ps += split->busy_ps[t] + split->moving_ps[t];
  return sum_ps;
}

static void
check_splits (const PsiWorld *world, const PsiRun *run)
{
  for (guint r = 0; r < world->ranks->len; r++)
    {
      PsiTimeSplit split;

      psi_account_time (world, run, r, &split);
      g_assert_cmpint (sum_of (&split), ==, run->period_ps);
    }
}

/* Equal workers, apart: max (work + push + turn, N turn) while N pushes fit into it one after another; pushes that
 * overlap share the link, so that they end later than one by one, but no later than all at once. Between two turns of
 * one worker all the others have one. */
static void
test_equal (void)
{
  static const PsiTime times[][3] = { { 1200, 0, 0 },  { 1200, 0, 10 },  { 1200, 10, 0 },
                                      { 1200, 7, 11 }, { 1200, 0, 700 }, { 1200, 900, 0 } };

  for (guint n = 1; n <= 8; n++)
    for (guint t = 0; t < G_N_ELEMENTS (times); t++)
      for (guint split = 0; split < 2; split++)
        {
          Case c = { .n = n,
                     .work_ps = times[t][0],
                     .push_ps = times[t][1],
                     .serve_ps = times[t][2],
                     .apart = TRUE,
                     .split_stream = split != 0 };
          g_autoptr (PsiWorld) world = build (&c);
          g_autoptr (PsiRun) run = run_world (world, FALSE);
          PsiTime alone_ps = c.work_ps + c.push_ps + c.serve_ps;

          if (n * c.push_ps <= alone_ps)
            {
              g_assert_true (run->periodic);
              g_assert_cmpint (run->period_ps, ==, MAX (alone_ps, n * c.serve_ps));
              for (gsize i = 0; i < run->n_lags; i++)
                g_assert_cmpuint (run->lags[i], ==, n - 1);
            }
          g_assert_cmpint (run->period_ps, >=, MAX (alone_ps, n * MAX (c.push_ps, c.serve_ps)));
          g_assert_cmpint (run->period_ps, <=, c.work_ps + n * (c.push_ps + c.serve_ps));
          g_assert_cmpuint (run->n_lags, >, 0);
          g_assert_cmpfloat_with_epsilon (mean_lag (run), n - 1, 0.01);
          check_splits (world, run);
          /* A turn is the rank's own work, in whichever stream it is; waiting for it is not. */
          PsiTimeSplit parts;
          psi_account_time (world, run, n - 1, &parts);
          if (c.push_ps == 0)
            {
              g_assert_cmpint (parts.busy_ps[2], ==, c.serve_ps);
              g_assert_cmpint (parts.still_ps, ==, run->period_ps - alone_ps);
            }
        }
}

/* In step with each other from the start they share the link in every iteration: work + N push. */
static void
test_in_step (void)
{
  Case c = { .n = 4, .work_ps = 1000, .push_ps = 50 };
  g_autoptr (PsiWorld) world = build (&c);
  g_autoptr (PsiRun) run = run_world (world, FALSE);
  PsiTimeSplit split;

  g_assert_cmpint (run->period_ps, ==, 1200);
  psi_account_time (world, run, 3, &split);
  g_assert_cmpint (split.busy_ps[1], ==, 1000);
  g_assert_cmpint (split.moving_ps[20], ==, 200);
  g_assert_cmpint (split.still_ps, ==, 0);
}

/* One worker slower by half: the others do not wait. In 3 work each fast one ends 3 iterations, the slow one 2; the
 * mean lag is N - 1 whatever the paces are, that of the slow one 3 (N - 1) / 2. */
static void
test_slow (void)
{
  for (guint n = 2; n <= 8; n++)
    {
      Case c = { .n = n, .work_ps = 1000, .apart = n % 2 == 0 };
      g_autoptr (PsiWorld) world = build (&c);
      guint sum = 0, most = 0;

      psi_world_rank (world, n - 1)->scale = 1.5;
      g_autoptr (PsiRun) run = run_world (world, FALSE);
      g_assert_true (run->periodic);
      for (guint r = 0; r < n; r++)
        g_assert_cmpint (run->paces_ps[r], ==, r + 1 < n ? 1000 : 1500);
      g_assert_cmpint (run->period_ps, ==, llround (n / ((n - 1) / 1000.0 + 1 / 1500.0)));
      g_assert_cmpuint (run->n_lags % (3 * (n - 1) + 2), ==, 0);
      for (gsize i = 0; i < run->n_lags; i++)
        {
          sum += run->lags[i];
          most = MAX (most, run->lags[i]);
        }
      g_assert_cmpuint (sum, ==, (n - 1) * run->n_lags);
      g_assert_cmpuint (most, >=, 3 * (n - 1) / 2);
      g_assert_cmpuint (most, <=, 2 * (n - 1));
      check_splits (world, run);
    }
}

/* The desk is kept by rank 0: a slow keeper serves slowly, a slow worker is served as fast as the others. */
static void
test_keeper (void)
{
  for (guint slow = 0; slow < 2; slow++)
    {
      Case c = { .n = 2, .work_ps = 100, .serve_ps = 1000 };
      g_autoptr (PsiWorld) world = build (&c);

      psi_world_rank (world, slow)->scale = 3;
      g_autoptr (PsiRun) run = run_world (world, FALSE);
      g_assert_cmpint (run->period_ps, ==, slow == 0 ? 6000 : 2000);
    }
}

/* All come at once: they are served by rank. */
static void
test_ties (void)
{
  Case c = { .n = 5, .work_ps = 1000, .serve_ps = 10 };
  g_autoptr (PsiWorld) world = build (&c);
  PsiRunOptions options = { .max_iterations = 1 };
  g_autoptr (PsiRun) run = psi_run (world, &options, NULL);

  for (guint r = 0; r < c.n; r++)
    g_assert_cmpint (run->times[run->first_op[r] + 2].start_ps - run->times[run->first_op[0] + 2].start_ps, ==,
                     10 * (PsiTime) r);
}

/* Paces without a common measure: no cycle in the time that is looked at, but an end, and paces that are exact. */
static void
test_no_cycle (void)
{
  static const PsiTime works[] = { 1000003, 1618033, 1414213 };
  Case c = { .n = G_N_ELEMENTS (works), .works = works };
  g_autoptr (PsiWorld) world = build (&c);
  g_autoptr (PsiRun) run = run_world (world, FALSE);
  double rate = 0;

  g_assert_false (run->periodic);
  for (guint r = 0; r < c.n; r++)
    {
      g_assert_cmpint (run->paces_ps[r], ==, works[r]);
      rate += 1 / (double) works[r];
    }
  g_assert_cmpint (run->period_ps, ==, llround (c.n / rate));
  g_assert_cmpfloat_with_epsilon (mean_lag (run), c.n - 1, 0.01);
  g_assert_cmpuint (run->iterations, <=, 4096);
  check_splits (world, run);
}

/* A worker that does not end one iteration in all that time is at work, and does not stop the others. */
static void
test_very_slow (void)
{
  static const PsiTime works[] = { 1000, 1001, 1000000000 };
  Case c = { .n = G_N_ELEMENTS (works), .works = works };
  g_autoptr (PsiWorld) world = build (&c);
  g_autoptr (PsiRun) run = run_world (world, FALSE);
  PsiTimeSplit split;

  g_assert_cmpint (run->period_ps, ==, llround (3 / (1 / 1000.0 + 1 / 1001.0)));
  psi_account_time (world, run, 2, &split);
  g_assert_cmpint (split.busy_ps[1], ==, run->period_ps);
}

static guint64
digest_of (const Case *c, gboolean no_jump, PsiTime *ret_period_ps)
{
  g_autoptr (PsiWorld) world = build (c);
  g_autoptr (PsiRun) run = run_world (world, no_jump);

  *ret_period_ps = run->period_ps;
  return psi_account_digest (world, run);
}

/* The same from every run, with and without the jump, and for workers renumbered. */
static void
test_digests (void)
{
  static const PsiTime works[] = { 1000, 1500, 1000, 2000 };
  const Case cases[] = { { .n = 4, .work_ps = 1000, .push_ps = 10, .serve_ps = 3, .apart = TRUE },
                         { .n = 4, .works = works, .push_ps = 90, .serve_ps = 20 },
                         { .n = 4, .works = works, .push_ps = 600, .split_stream = TRUE },
                         { .n = 4, .works = works } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      PsiTime period_ps, other_ps;
      guint64 digest = digest_of (&cases[i], FALSE, &period_ps);

      g_assert_cmpuint (digest_of (&cases[i], FALSE, &other_ps), ==, digest);
      g_assert_cmpuint (digest_of (&cases[i], TRUE, &other_ps), ==, digest);
      g_assert_cmpint (other_ps, ==, period_ps);
    }
  Case backwards = cases[3];
  PsiTime period_ps, other_ps;
  backwards.backwards = TRUE;
  g_assert_cmpuint (digest_of (&backwards, FALSE, &other_ps), ==, digest_of (&cases[3], FALSE, &period_ps));
  g_assert_cmpint (other_ps, ==, period_ps);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/desk/equal", test_equal);
  g_test_add_func ("/engine/desk/in-step", test_in_step);
  g_test_add_func ("/engine/desk/slow", test_slow);
  g_test_add_func ("/engine/desk/keeper", test_keeper);
  g_test_add_func ("/engine/desk/ties", test_ties);
  g_test_add_func ("/engine/desk/no-cycle", test_no_cycle);
  g_test_add_func ("/engine/desk/very-slow", test_very_slow);
  g_test_add_func ("/engine/desk/digests", test_digests);
  return g_test_run ();
}
