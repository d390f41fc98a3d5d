/* SPDX-License-Identifier: MIT */
/* Worlds run to their period: orders, waits, messages, collectives, links, and what goes wrong. */
#include "psi-account.h"
#include "world-fixture.h"

#include <math.h>
#include <string.h>

static const PsiTransfer free_transfer = { .cap_bytes_per_s = HUGE_VAL, .hops = 1 };

/* A stream runs in order; its step is the sum. */
static void
test_one_stream (void)
{
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 1);
  PsiOpId first = psi_program_work (program, 0, 30, 1), second = psi_program_work (program, 0, 12, 2);
  PsiRankId rank = psi_world_add_rank (world, program, 1, 0);
  g_autoptr (PsiRun) run = run_world (world, 0, FALSE);

  g_assert_true (run->periodic);
  g_assert_cmpint (run->period_ps, ==, 42);
  g_assert_cmpint (times_of (run, world, rank, second)->start_ps - times_of (run, world, rank, first)->end_ps, ==, 0);
}

/* Two streams that wait for each other's op run one after the other, within a step and across. */
static void
test_waits (void)
{
  for (guint distance = 0; distance <= 1; distance++)
    {
      g_autoptr (PsiWorld) world = psi_world_new ();
      PsiProgram *program = psi_world_add_program (world, 2);
      PsiOpId a = psi_program_work (program, 0, 10, 1), b = psi_program_work (program, 1, 7, 1);

      psi_program_after (program, b, a, 0);
      if (distance > 0)
        psi_program_after (program, a, b, distance);
      psi_world_add_rank (world, program, 1, 0);
      g_autoptr (PsiRun) run = run_world (world, 0, FALSE);
      g_assert_cmpint (run->period_ps, ==, distance > 0 ? 17 : 10);
    }
}

/* The slower of two ranks sets the pace of both; a rank that is slower by a factor as well. */
static void
test_messages (void)
{
  for (guint slow = 0; slow < 2; slow++)
    {
      g_autoptr (PsiWorld) world = psi_world_new ();
      PsiTransferId transfer = psi_world_add_transfer (world, &free_transfer);
      PsiProgram *sender = psi_world_add_program (world, 2), *receiver = psi_world_add_program (world, 2);
      PsiOpId made = psi_program_work (sender, 0, 10, 1);
      PsiOpId send = psi_program_message (sender, 1, PSI_OP_SEND, 0, transfer, 20);
      PsiOpId receive = psi_program_message (receiver, 1, PSI_OP_RECV, 0, transfer, 20);
      PsiOpId used = psi_program_work (receiver, 0, 25, 1);
      PsiRankId from = psi_world_add_rank (world, sender, 1, 0), to = psi_world_add_rank (world, receiver, 1, 0);
      PsiPortId port = psi_world_add_channel (world);

      psi_program_after (sender, send, made, 0);
      psi_program_after (sender, made, send, 1);
      psi_program_after (receiver, used, receive, 0);
      psi_program_after (receiver, receive, used, 1);
      psi_world_bind (world, from, 0, port);
      psi_world_bind (world, to, 0, port);
      if (slow)
        psi_world_rank (world, from)->scale = 5;
      g_autoptr (PsiRun) run = run_world (world, 0, FALSE);
      /* Neither buffers: the receiver posts after its use, the sender makes after its send. */
      g_assert_cmpint (run->period_ps, ==, slow ? 50 : 25);
      g_assert_cmpint (times_of (run, world, to, used)->start_ps, >=, times_of (run, world, from, send)->end_ps);
    }
}

/* Two flows through one link take turns of its rate; latency comes before. */
static void
test_links (void)
{
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiTransfer transfer = { .bytes = 1000, .cap_bytes_per_s = HUGE_VAL, .latency_ps = 500, .weights = { 1 }, .hops = 1 };
  PsiTransferId id = psi_world_add_transfer (world, &transfer);
  PsiLinkId link = psi_links_add (world->links, 1e12); /* a byte in a picosecond */

  for (guint pair = 0; pair < 2; pair++)
    {
      PsiPortId port = psi_world_add_channel (world);

      psi_world_add_path (world, port, link, 0);
      for (guint end = 0; end < 2; end++)
        {
          PsiProgram *program = psi_world_add_program (world, 1);

          psi_program_message (program, 0, end == 0 ? PSI_OP_SEND : PSI_OP_RECV, 0, id, 20);
          psi_world_bind (world, psi_world_add_rank (world, program, 1, 0), 0, port);
        }
    }
  g_autoptr (PsiRun) run = run_world (world, 0, FALSE);
  g_assert_cmpint (run->period_ps, ==, 2500);
}

/* A collective begins when its last member is there. */
static void
test_collective (void)
{
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiTransferId transfer = psi_world_add_transfer (world, &free_transfer);
  PsiPortId port = psi_world_add_communicator (world);
  PsiOpId op = PSI_OP_NONE;

  for (guint r = 0; r < 5; r++)
    {
      PsiProgram *program = psi_world_add_program (world, 1);

      psi_program_work (program, 0, 10 * (r + 1), 1);
      op = psi_program_message (program, 0, PSI_OP_COLLECTIVE, 0, transfer, 20);
      psi_world_bind (world, psi_world_add_rank (world, program, 1, 0), 0, port);
    }
  g_autoptr (PsiRun) run = run_world (world, 0, FALSE);
  g_assert_cmpint (run->period_ps, ==, 50);
  for (PsiRankId r = 1; r < 5; r++)
    g_assert_cmpint (times_of (run, world, r, op)->start_ps, ==, times_of (run, world, 0, op)->start_ps);
}

/* Two ranks that meet with a lag: rank 1 receives in its step n what rank 0 sends in step n + 1. Rank 0 would be
 * faster; until the lag is used up it does not wait, and the period must not be taken from those steps. */
static PsiWorld *
lagging_world (guint skip, PsiTime fast_ps, PsiTime slow_ps, PsiTime offset_ps)
{
  PsiWorld *world = psi_world_new ();
  PsiTransferId transfer = psi_world_add_transfer (world, &free_transfer);
  PsiProgram *a = psi_world_add_program (world, 2), *b = psi_world_add_program (world, 2);
  PsiOpId work = psi_program_work (a, 0, fast_ps, 1);
  PsiOpId receive = psi_program_message (a, 1, PSI_OP_RECV, 0, transfer, 20);
  PsiOpId other = psi_program_work (b, 0, slow_ps, 1);
  PsiOpId send = psi_program_message (b, 1, PSI_OP_SEND, 0, transfer, 20);
  PsiPortId port = psi_world_add_channel (world);

  psi_program_after (a, work, receive, 0);
  psi_program_skip (a, receive, skip);
  psi_program_after (b, send, other, 0);
  psi_program_after (b, other, send, 1);
  psi_world_bind (world, psi_world_add_rank (world, a, 1, 0), 0, port);
  psi_world_bind (world, psi_world_add_rank (world, b, 1, offset_ps), 0, port);
  return world;
}

static void
test_lag (void)
{
  for (guint skip = 0; skip <= 2; skip++)
    for (PsiTime offset_ps = 0; offset_ps <= 300; offset_ps += 100)
      {
        g_autoptr (PsiWorld) world = lagging_world (skip, 100, 130, offset_ps);
        g_autoptr (PsiRun) run = run_world (world, 0, FALSE);
        g_autoptr (PsiRun) whole = run_world (world, 0, TRUE);

        g_assert_true (run->periodic);
        g_assert_cmpint (run->period_ps, ==, 130);
        g_assert_cmpint (whole->period_ps, ==, 130);
        g_assert_cmpuint (whole->iterations, >=, run->iterations);
      }
}

/* A slack that is used up by a picosecond a step: the period is found long after the usual number of steps, and a
 * caller's limit leaves the pace of the slowest. */
static void
test_drift (void)
{
  g_autoptr (PsiWorld) world = lagging_world (2, 1000, 1001, 0);
  g_autoptr (PsiRun) run = run_world (world, 0, FALSE);
  g_autoptr (PsiRun) cut = run_world (world, 16, FALSE);
  g_autoptr (PsiRun) known = run_world (world, 60, FALSE);

  g_assert_true (run->periodic);
  g_assert_cmpint (run->period_ps, ==, 1001);
  g_assert_cmpuint (run->iterations, >, 64);
  g_assert_false (cut->periodic);
  g_assert_cmpint (cut->period_ps, ==, 1001);
  g_assert_cmpuint (cut->iterations, ==, 16);
  g_assert_false (cut->drifts);
  g_assert_false (run->drifts);
  g_assert_false (known->periodic);
  g_assert_true (known->drifts);
  g_assert_cmpint (known->period_ps, ==, 1001);
}

/* A chain of ops, each on a stream of its own, that waits for the chain some steps before: so many chains take turns,
 * and no two steps in a row are alike. */
static void
test_cycle (void)
{
  for (guint length = 2; length <= 3; length++)
    {
      g_autoptr (PsiWorld) world = psi_world_new ();
      PsiProgram *program = psi_world_add_program (world, 8);
      PsiOpId first = psi_program_work (program, 0, 10, 1), op = first;

      for (guint s = 1; s < 8; s++)
        {
          PsiOpId next = psi_program_work (program, s, 10, 1);

          psi_program_after (program, next, op, 0);
          op = next;
        }
      psi_program_after (program, first, op, length);
      psi_world_add_rank (world, program, 1, 0);
      g_autoptr (PsiRun) run = run_world (world, 0, FALSE);
      g_autoptr (PsiRun) whole = run_world (world, 0, TRUE);

      /* Steps of a chain begin 10 after one another until the first is through: then all wait, 80 in all. */
      g_assert_true (run->periodic);
      g_assert_cmpuint (run->cycle, ==, length);
      g_assert_cmpint (run->period_ps, ==, (80 + length - 1) / length);
      g_assert_cmpuint (run->iterations % length, ==, 0);
      g_assert_cmpuint (run->iterations, ==, whole->iterations); /* groups are followed to the end */
      g_assert_cmpuint (whole->cycle, ==, length);
      g_assert_cmpint (whole->period_ps, ==, run->period_ps);
      g_assert_cmpuint (whole->iterations, >=, 64);
      g_assert_cmpuint (psi_account_digest (world, run), ==, psi_account_digest (world, whole));
      PsiTimeSplit split;
      psi_account_time (world, run, 0, &split);
      g_assert_cmpint (split.busy_ps[1] + split.still_ps, ==, run->period_ps);
    }
}

static void
test_offset (void)
{
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 1);
  PsiOpId op = psi_program_work (program, 0, 100, 1);

  psi_world_add_rank (world, program, 1, 0);
  psi_world_add_rank (world, program, 1, 37);
  g_autoptr (PsiRun) run = run_world (world, 0, FALSE);
  g_assert_cmpint (times_of (run, world, 1, op)->start_ps - times_of (run, world, 0, op)->start_ps, ==, 37);
}

static void
test_deadlock (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiTransferId transfer = psi_world_add_transfer (world, &free_transfer);
  PsiPortId there = psi_world_add_channel (world), back = psi_world_add_channel (world);

  /* Both receive before they send. */
  for (guint r = 0; r < 2; r++)
    {
      PsiProgram *program = psi_world_add_program (world, 1);
      PsiRankId rank = psi_world_add_rank (world, program, 1, 0);

      psi_program_message (program, 0, PSI_OP_RECV, r, transfer, 20);
      psi_program_message (program, 0, PSI_OP_SEND, 1 - r, transfer, 20);
      psi_world_bind (world, rank, 0, there);
      psi_world_bind (world, rank, 1, back);
    }
  g_assert_null (psi_run (world, NULL, &error));
  g_assert_error (error, PSI_RUN_ERROR, PSI_RUN_ERROR_DEADLOCK);
  g_assert_nonnull (strstr (error->message, "rank 0"));
  g_assert_nonnull (strstr (error->message, "rank 1"));
  g_assert_nonnull (strstr (error->message, "waits for its partner in a receive"));
}

static void
test_unmatched (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiTransferId transfer = psi_world_add_transfer (world, &free_transfer);
  PsiProgram *program = psi_world_add_program (world, 1);

  psi_program_message (program, 0, PSI_OP_SEND, 0, transfer, 20);
  psi_world_bind (world, psi_world_add_rank (world, program, 1, 0), 0, psi_world_add_channel (world));
  g_assert_null (psi_run (world, NULL, &error));
  g_assert_error (error, PSI_RUN_ERROR, PSI_RUN_ERROR_UNMATCHED);
}

/* Nothing to do is no error, and a world can run again. */
static void
test_empty_and_again (void)
{
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 2);

  psi_world_add_rank (world, program, 1, 0);
  g_autoptr (PsiRun) nothing = run_world (world, 0, FALSE);
  g_assert_cmpint (nothing->period_ps, ==, 0);
  psi_program_work (program, 0, 9, 1);
  g_autoptr (PsiRun) first = run_world (world, 0, FALSE);
  g_autoptr (PsiRun) second = run_world (world, 0, FALSE);
  g_assert_cmpint (first->period_ps, ==, 9);
  g_assert_cmpint (second->period_ps, ==, 9);
  g_assert_cmpuint (first->n_events, ==, second->n_events);
}

/* ---- Odd worlds: the right answer or a clear error, never a hang ---- */

/* One rank that sends itself `bytes` over a link of that rate. */
static PsiWorld *
self_world (gint64 bytes, double bytes_per_s, gboolean shared)
{
  PsiWorld *world = psi_world_new ();
  PsiTransfer transfer = { .bytes = bytes, .cap_bytes_per_s = HUGE_VAL, .latency_ps = 70, .weights = { 1 }, .hops = 1 };
  PsiTransferId id = psi_world_add_transfer (world, &transfer);
  PsiProgram *program = psi_world_add_program (world, 2);
  PsiRankId rank = psi_world_add_rank (world, program, 1, 0);
  PsiPortId port = psi_world_add_channel (world);
  PsiLinkId link = psi_links_add (world->links, bytes_per_s);

  psi_program_message (program, 0, PSI_OP_SEND, 0, id, 20);
  psi_program_message (program, 1, PSI_OP_RECV, 1, id, 20);
  psi_world_bind (world, rank, 0, port);
  psi_world_bind (world, rank, 1, port);
  psi_world_add_path (world, port, link, 0);
  if (shared) /* the solver's way instead of the short one */
    {
      PsiPortId other = psi_world_add_communicator (world);

      psi_world_add_path (world, other, link, 0);
      psi_world_bind (world, rank, 2, other);
    }
  return world;
}

static void
check_fails (PsiWorld *world, int code, const char *word)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (psi_run (world, NULL, &error));
  g_assert_error (error, PSI_RUN_ERROR, code);
  if (strstr (error->message, word) == NULL)
    g_error ("'%s' does not say '%s'", error->message, word);
}

static void
test_self (void)
{
  for (guint shared = 0; shared < 2; shared++)
    {
      g_autoptr (PsiWorld) some = self_world (1000, 1e12, shared), none = self_world (0, 1e12, shared);
      g_autoptr (PsiRun) first = run_world (some, 0, FALSE), second = run_world (none, 0, FALSE);

      g_assert_cmpint (first->period_ps, ==, 1070);
      g_assert_cmpint (second->period_ps, ==, 70);
    }
}

static void
test_dead_link (void)
{
  for (guint shared = 0; shared < 2; shared++)
    {
      g_autoptr (PsiWorld) world = self_world (1, 0, shared);

      check_fails (world, PSI_RUN_ERROR_DEADLOCK, "carries nothing");
    }
}

/* 2^40 bytes at 1 B/s are 34,865 years. */
static void
test_too_long (void)
{
  g_autoptr (PsiWorld) slow = self_world (G_GINT64_CONSTANT (1) << 40, 1, FALSE), work = psi_world_new ();
  PsiProgram *program = psi_world_add_program (work, 1);

  check_fails (slow, PSI_RUN_ERROR_TIME, "out of range");
  psi_program_work (program, 0, PSI_TIME_MAX, 1);
  psi_world_add_rank (work, program, 1, 0);
  check_fails (work, PSI_RUN_ERROR_TIME, "out of range");
}

/* Steps that repeat end before time does, whether or not they are jumped over. */
static void
test_long_steps (void)
{
  for (guint no_jump = 0; no_jump < 2; no_jump++)
    {
      g_autoptr (PsiWorld) world = psi_world_new ();
      PsiProgram *program = psi_world_add_program (world, 1);

      psi_program_work (program, 0, PSI_TIME_MAX / 20, 1);
      psi_world_add_rank (world, program, 1, 0);
      g_autoptr (PsiRun) run = run_world (world, 0, no_jump == 1);
      g_assert_true (run->periodic);
      g_assert_cmpint (run->period_ps, ==, PSI_TIME_MAX / 20);
    }
}

static void
test_no_port (void)
{
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 1);

  psi_program_message (program, 0, PSI_OP_COLLECTIVE, 3, psi_world_add_transfer (world, &free_transfer), 20);
  psi_world_add_rank (world, program, 1, 0);
  check_fails (world, PSI_RUN_ERROR_UNMATCHED, "slot 3 has no port");
}

/* A loop of ops that take no time: a deadlock within a step, a step of no time across steps. */
static void
test_zero_loop (void)
{
  for (guint distance = 0; distance < 2; distance++)
    {
      g_autoptr (PsiWorld) world = psi_world_new ();
      PsiProgram *program = psi_world_add_program (world, 2);
      PsiOpId a = psi_program_work (program, 0, 0, 1), b = psi_program_work (program, 1, 0, 1);

      psi_program_after (program, a, b, 0);
      psi_program_after (program, b, a, distance);
      psi_world_add_rank (world, program, 1, 0);
      if (distance == 0)
        check_fails (world, PSI_RUN_ERROR_DEADLOCK, "waits for stream");
      else
        {
          g_autoptr (PsiRun) run = run_world (world, 0, FALSE);

          g_assert_cmpint (run->period_ps, ==, 0);
        }
    }
}

/* ---- Rounds and rings ---- */

/* n ranks, each with a link out and a link in, in one collective of several rounds. */
static PsiTime
rounds_ps (guint n, guint rounds, gboolean is_ring, double slow_factor)
{
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiTransfer transfer = { .bytes = 1000,
                           .cap_bytes_per_s = HUGE_VAL,
                           .latency_ps = 90,
                           .round_latency_ps = 20,
                           .rounds = rounds,
                           .is_ring = is_ring,
                           .weights = { 1, 1 },
                           .hops = 1 };
  PsiTransferId id = psi_world_add_transfer (world, &transfer);
  PsiPortId port = psi_world_add_communicator (world);
  PsiProgram *program = psi_world_add_program (world, 1);

  psi_program_message (program, 0, PSI_OP_COLLECTIVE, 0, id, 20);
  for (guint r = 0; r < n; r++)
    {
      psi_world_bind (world, psi_world_add_rank (world, program, 1, 0), 0, port);
      for (guint tier = 0; tier < 2; tier++)
        psi_world_add_path (world, port, psi_links_add (world->links, 1e12 / (r == 0 ? slow_factor : 1)), tier);
    }
  g_autoptr (PsiRun) run = run_world (world, 0, FALSE);
  return run->period_ps;
}

/* On like links a ring takes what the rounds take. With one slow member every flow of a round waits for it, while in
 * the ring only its own two messages are slow, and the others catch up only as far as the ring lets them. */
static void
test_rounds (void)
{
  for (guint n = 1; n <= 9; n++)
    for (guint ring = 0; ring < 2; ring++)
      g_assert_cmpint (rounds_ps (n, 7, ring, 1), ==, 90 + 6 * 20 + 7 * 1000);
  g_assert_cmpint (rounds_ps (4, 7, FALSE, 2), ==, 90 + 6 * 20 + 7 * 2000);
  g_assert_cmpint (rounds_ps (4, 7, TRUE, 2), ==, 90 + 6 * 20 + 7 * 2000);
}

/* The same numbers in any order of the ranks: only who they are changes. */
static guint64
shuffled_makespan (guint32 seed)
{
  enum
  {
    N = 12
  };
  g_autoptr (GRand) random = g_rand_new_with_seed (seed);
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiTransfer transfer = { .bytes = 5000, .cap_bytes_per_s = HUGE_VAL, .latency_ps = 30, .weights = { 1 }, .hops = 1 };
  PsiTransferId id = psi_world_add_transfer (world, &transfer);
  PsiRankId ranks[N];
  guint order[N];

  for (guint i = 0; i < N; i++)
    order[i] = i;
  for (guint i = 0; seed > 0 && i < N; i++)
    {
      guint j = (guint) g_rand_int_range (random, (gint32) i, N), kept = order[i];

      order[i] = order[j];
      order[j] = kept;
    }
  for (guint i = 0; i < N; i++)
    {
      PsiProgram *program = psi_world_add_program (world, 2);
      PsiOpId receive = psi_program_message (program, 1, PSI_OP_RECV, 1, id, 20);
      PsiOpId work = psi_program_work (program, 0, 1000 + 37 * order[i], 1);

      psi_program_after (program, work, receive, 1);
      psi_program_message (program, 0, PSI_OP_SEND, 0, id, 20);
      ranks[order[i]] = psi_world_add_rank (world, program, 1, 0);
    }
  /* Three links, each shared by every third sender. */
  for (guint l = 0; l < 3; l++)
    psi_links_add (world->links, 1e12);
  for (guint i = 0; i < N; i++)
    {
      PsiPortId port = psi_world_add_channel (world);

      psi_world_bind (world, ranks[i], 0, port);
      psi_world_bind (world, ranks[(i + 1) % N], 1, port);
      psi_world_add_path (world, port, i % 3, 0);
    }
  g_autoptr (PsiRun) run = run_world (world, 0, FALSE);
  return (guint64) run->makespan_ps;
}

static void
test_renumbering (void)
{
  for (guint32 seed = 1; seed <= 20; seed++)
    g_assert_cmpuint (shuffled_makespan (seed), ==, shuffled_makespan (0));
}

/* Noise has the mean and spread it should have, and depends on the seed only. */
static void
test_jitter (void)
{
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 1);
  double sum = 0, squares = 0;
  enum
  {
    N = 20000
  };

  psi_program_work (program, 0, 1000000, 1);
  for (guint r = 0; r < N; r++)
    psi_world_add_rank (world, program, 1, 0);
  PsiRunOptions options = { .max_iterations = 1, .jitter = 0.1, .seed = 7 };
  g_autoptr (PsiRun) run = psi_run (world, &options, NULL), again = psi_run (world, &options, NULL);
  options.seed = 8;
  g_autoptr (PsiRun) other = psi_run (world, &options, NULL);
  for (guint r = 0; r < N; r++)
    {
      double x = (double) (run->times[r].end_ps - run->times[r].start_ps - 1000000) / 1e5;

      sum += x;
      squares += x * x;
    }
  g_assert_cmpfloat (fabs (sum / N), <, 0.03);
  g_assert_cmpfloat (fabs (squares / N - 1), <, 0.05);
  g_assert_cmpint (run->makespan_ps, ==, again->makespan_ps);
  g_assert_cmpint (run->makespan_ps, !=, other->makespan_ps);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/run/one-stream", test_one_stream);
  g_test_add_func ("/engine/run/long-steps", test_long_steps);
  g_test_add_func ("/engine/run/waits", test_waits);
  g_test_add_func ("/engine/run/messages", test_messages);
  g_test_add_func ("/engine/run/links", test_links);
  g_test_add_func ("/engine/run/collective", test_collective);
  g_test_add_func ("/engine/run/lag", test_lag);
  g_test_add_func ("/engine/run/drift", test_drift);
  g_test_add_func ("/engine/run/cycle", test_cycle);
  g_test_add_func ("/engine/run/offset", test_offset);
  g_test_add_func ("/engine/run/deadlock", test_deadlock);
  g_test_add_func ("/engine/run/unmatched", test_unmatched);
  g_test_add_func ("/engine/run/empty-and-again", test_empty_and_again);
  g_test_add_func ("/engine/run/self-send", test_self);
  g_test_add_func ("/engine/run/dead-link", test_dead_link);
  g_test_add_func ("/engine/run/too-long", test_too_long);
  g_test_add_func ("/engine/run/no-port", test_no_port);
  g_test_add_func ("/engine/run/zero-loop", test_zero_loop);
  g_test_add_func ("/engine/run/rounds", test_rounds);
  g_test_add_func ("/engine/run/renumbering", test_renumbering);
  g_test_add_func ("/engine/run/jitter", test_jitter);
  return g_test_run ();
}
