/* SPDX-License-Identifier: MIT */
/* Ranks with as many streams as there can be. */
#include "world-fixture.h"

/* Each stream waits for the one before it; then all of them for the first. */
static void
test_many_streams (void)
{
  static const guint counts[] = { 63, 64, 65, 66, 200, PSI_MAX_STREAMS };

  for (guint c = 0; c < G_N_ELEMENTS (counts); c++)
    {
      guint n = counts[c];
      g_autoptr (PsiWorld) chain = psi_world_new ();
      g_autoptr (PsiWorld) fan = psi_world_new ();
      PsiProgram *one = psi_world_add_program (chain, n), *other = psi_world_add_program (fan, n);
      PsiOpId last = PSI_OP_NONE, first = PSI_OP_NONE;

      for (guint s = 0; s < n; s++)
        {
          PsiOpId op = psi_program_work (one, s, s + 1, 1);

          psi_program_after (one, op, last, 0);
          last = op;
          if (s == 0)
            first = op;
        }
      psi_program_after (one, first, last, 1);
      psi_world_add_rank (chain, one, 1, 0);
      g_autoptr (PsiRun) run = run_world (chain, 0, FALSE);
      g_assert_cmpint (run->period_ps, ==, n * (n + 1) / 2);

      /* Stream s waits for the second op of stream 0, those of odd numbers for its third; all are waited for. */
      PsiOpId ops[3];
      for (guint i = 0; i < 3; i++)
        ops[i] = psi_program_work (other, 0, 100, 1);
      for (guint s = 1; s < n; s++)
        {
          PsiOpId op = psi_program_work (other, s, s % 2 == 0 ? 1000 + s : s, 1);

          psi_program_after (other, op, ops[1 + s % 2], 0);
          psi_program_after (other, ops[0], op, 1);
        }
      PsiRankId rank = psi_world_add_rank (fan, other, 1, 0);
      g_autoptr (PsiRun) fanned = run_world (fan, 0, FALSE);
      guint even = (n - 1) / 2 * 2;
      g_assert_cmpint (fanned->period_ps, ==, 200 + 1000 + even);
      PsiTime begin_ps = times_of (fanned, fan, rank, ops[0])->start_ps;
      for (guint s = 1; s < n; s++)
        g_assert_cmpint (times_of (fanned, fan, rank, PSI_OP_ID (s, 0))->start_ps - begin_ps, ==, s % 2 ? 300 : 200);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/streams/many", test_many_streams);
  return g_test_run ();
}
