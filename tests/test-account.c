/* SPDX-License-Identifier: MIT */
/* What is read off a run: the split of time, levels over a period, chains of messages, the digest. */
#include "psi-account.h"
#include "psi-run.h"

#include <math.h>

static void
add (GArray *events, PsiTime time_ps, gint64 bytes, guint level)
{
  PsiLevelEvent event = { time_ps, bytes, level };

  g_array_append_val (events, event);
}

/* Levels rise and fall; falls of an instant come first unless what touches counts together. */
static void
test_levels (void)
{
  for (guint rises_first = 0; rises_first < 2; rises_first++)
    {
      g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
      g_autoptr (GArray) curve = g_array_new (FALSE, FALSE, sizeof (PsiLevelPoint));
      const gint64 base[PSI_MAX_CLASSES] = { 100, 0, 7 };
      PsiLevels levels;

      add (events, 10, 50, 1);
      add (events, 20, -50, 1);
      add (events, 20, 40, 2);
      add (events, 60, -40, 2);
      psi_account_levels (events, 100, 0, base, rises_first, &levels, curve);
      g_assert_cmpint (levels.peak_bytes, ==, rises_first ? 197 : 157);
      g_assert_cmpint (levels.peak_at_ps, ==, rises_first ? 20 : 10);
      g_assert_cmpint (levels.at_peak[0], ==, 100);
      g_assert_cmpint (levels.at_peak[1], ==, 50);
      g_assert_cmpint (levels.at_peak[2], ==, rises_first ? 47 : 7);
      g_assert_cmpint (levels.class_peak[1], ==, 50);
      g_assert_cmpint (levels.class_peak[2], ==, 47);
      g_assert_cmpfloat (levels.mean_bytes, ==, 107 + 50 * 0.1 + 40 * 0.4);
      g_assert_cmpuint (curve->len, ==, 4);
      g_assert_cmpint (g_array_index (curve, PsiLevelPoint, 2).time_ps, ==, 20);
      g_assert_cmpint (g_array_index (curve, PsiLevelPoint, 2).bytes[1], ==, 0);
      g_assert_cmpint (g_array_index (curve, PsiLevelPoint, 2).bytes[2], ==, 47);
    }
}

/* What lasts over the end of the period, or for several, is there at its start. */
static void
test_wrapped_levels (void)
{
  for (PsiTime origin_ps = -230; origin_ps <= 300; origin_ps += 10)
    {
      g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
      PsiLevels levels;

      add (events, 80, 5, 0);
      add (events, 80 + 250, -5, 0); /* two and a half periods: two or three at once */
      psi_account_levels (events, 100, origin_ps, NULL, FALSE, &levels, NULL);
      g_assert_cmpint (levels.peak_bytes, ==, 15);
      g_assert_cmpfloat (levels.mean_bytes, ==, 12.5);
    }
}

/* A rank that works 10, waits for a partner, then for bytes: three parts that add up to the period. */
static void
test_time (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiTransfer transfer = { .bytes = 0, .cap_bytes_per_s = HUGE_VAL, .latency_ps = 15, .hops = 1 };
  PsiTransferId id = psi_world_add_transfer (world, &transfer);
  PsiPortId port = psi_world_add_communicator (world);

  for (guint r = 0; r < 2; r++)
    {
      PsiProgram *program = psi_world_add_program (world, 1);

      psi_program_work (program, 0, r == 0 ? 10 : 40, 3);
      psi_program_message (program, 0, PSI_OP_COLLECTIVE, 0, id, 20);
      psi_world_bind (world, psi_world_add_rank (world, program, 1, 0), 0, port);
    }
  g_autoptr (PsiRun) run = psi_run (world, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (run->period_ps, ==, 55);
  for (guint r = 0; r < 2; r++)
    {
      PsiTimeSplit split;

      psi_account_time (world, run, r, &split);
      g_assert_cmpint (split.busy_ps[3], ==, r == 0 ? 10 : 40);
      g_assert_cmpint (split.still_ps, ==, r == 0 ? 30 : 0);
      g_assert_cmpint (split.moving_ps[20], ==, 15);
    }
}

/* Memory of a rank: taken at an op's start, given back at another's end, in the step it belongs to. */
static void
test_memory (void)
{
  for (guint shift = 0; shift < 2; shift++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiWorld) world = psi_world_new ();
      PsiProgram *program = psi_world_add_program (world, 1);
      PsiOpId first = psi_program_work (program, 0, 30, 1), second = psi_program_work (program, 0, 70, 1);
      g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
      PsiLevels levels;

      /* Without a shift: held for the whole step. With: given back one step later, so two are held at once. */
      psi_program_delta (program, first, FALSE, 3, 8);
      psi_program_delta (program, second, TRUE, 3, -8);
      psi_program_shift (program, second, shift);
      psi_world_add_rank (world, program, 1, 0);
      g_autoptr (PsiRun) run = psi_run (world, NULL, &error);
      g_assert_no_error (error);
      psi_account_memory_events (world, run, 0, 10, events);
      g_assert_cmpuint (events->len, ==, 2);
      psi_account_levels (events, run->period_ps, 0, NULL, FALSE, &levels, NULL);
      g_assert_cmpint (levels.class_peak[3], ==, 80 * (1 + shift));
      g_assert_cmpfloat (levels.mean_bytes, ==, 80.0 * (1 + shift));
    }
}

/* n ranks pass a message on at once, or after work of their own: n hops, or one. */
static void
test_chain (void)
{
  for (guint works = 0; works < 2; works++)
    for (guint n = 2; n <= 6; n++)
      {
        g_autoptr (PsiWorld) world = psi_world_new ();
        PsiTransfer transfer = { .cap_bytes_per_s = HUGE_VAL, .hops = 1 };
        PsiTransferId id = psi_world_add_transfer (world, &transfer);
        PsiPortId before = 0;

        for (guint r = 0; r < n; r++)
          {
            PsiProgram *program = psi_world_add_program (world, 3);
            PsiRankId rank = psi_world_add_rank (world, program, 1, 0);
            PsiOpId receive = PSI_OP_NONE, made = PSI_OP_NONE;

            if (r > 0)
              {
                receive = psi_program_message (program, 1, PSI_OP_RECV, 0, id, 20);
                psi_world_bind (world, rank, 0, before);
              }
            if (works || r == 0 || r == n - 1)
              {
                made = psi_program_work (program, 0, 10, 1);
                psi_program_after (program, made, receive, 0);
              }
            if (r + 1 < n)
              {
                PsiOpId send = psi_program_message (program, 2, PSI_OP_SEND, 1, id, 20);

                before = psi_world_add_channel (world);
                psi_world_bind (world, rank, 1, before);
                psi_program_after (program, send, made != PSI_OP_NONE ? made : receive, 0);
              }
          }
        g_assert_cmpuint (psi_account_chain (world), ==, works ? 1 : n - 1);
      }
}

static guint64
digest_of (guint n, guint weight, PsiTime cost_ps, gboolean reversed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 1), *other = psi_world_add_program (world, 1);

  psi_program_work (program, 0, cost_ps, 1);
  psi_program_work (other, 0, 50, 1);
  for (guint pass = 0; pass < 2; pass++)
    if ((pass == 0) != reversed)
      for (guint r = 0; r < n; r++)
        psi_world_add_rank (world, program, weight, 0);
    else
      psi_world_add_rank (world, other, 1, 0);
  PsiRunOptions options = { .max_iterations = 4 };
  g_autoptr (PsiRun) run = psi_run (world, &options, &error);
  g_assert_no_error (error);
  return psi_account_digest (world, run);
}

/* One rank of weight n is n ranks; numbers of ranks do not enter; a picosecond does. */
static void
test_digest (void)
{
  g_assert_cmpuint (digest_of (6, 1, 50, FALSE), ==, digest_of (1, 6, 50, FALSE));
  g_assert_cmpuint (digest_of (3, 2, 50, FALSE), ==, digest_of (2, 3, 50, FALSE));
  g_assert_cmpuint (digest_of (3, 1, 50, FALSE), ==, digest_of (3, 1, 50, TRUE));
  g_assert_cmpuint (digest_of (3, 1, 50, FALSE), !=, digest_of (3, 1, 49, FALSE));
  g_assert_cmpuint (digest_of (3, 1, 50, FALSE), !=, digest_of (4, 1, 50, FALSE));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/account/levels", test_levels);
  g_test_add_func ("/engine/account/wrapped-levels", test_wrapped_levels);
  g_test_add_func ("/engine/account/time", test_time);
  g_test_add_func ("/engine/account/memory", test_memory);
  g_test_add_func ("/engine/account/chain", test_chain);
  g_test_add_func ("/engine/account/digest", test_digest);
  return g_test_run ();
}
