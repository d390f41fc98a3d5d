/* SPDX-License-Identifier: MIT */
/* Schedule files: what is read, what is refused and in which words, and that the training programs' parser agrees. */
#include "plan-file.h"
#include "schedule-file.h"
#include "train-plan.h"

#include <string.h>

#define HEAD "psisim-schedule 1\n"

static gboolean
check_times (const PsiSchedule *schedule, gint64 forward, gint64 backward, gint64 weight, PsiScheduleFacts *ret_facts,
             GError **error)
{
  g_autofree gint64 *forwards = g_new (gint64, schedule->n_parts), *backwards = g_new (gint64, schedule->n_parts),
                    *weights = g_new (gint64, schedule->n_parts);
  PsiScheduleTimes times = { .forward_ps = forwards, .backward_ps = backwards, .weight_ps = weights };

  for (guint part = 0; part < schedule->n_parts; part++)
    {
      forwards[part] = forward;
      backwards[part] = backward;
      weights[part] = weight;
    }
  return psi_schedule_check (schedule, &times, ret_facts, error);
}

/* Every word of the format. */
static void
test_words (void)
{
  static const char text[] =
      "\n# before the head\n" HEAD "ranks 2\nchunks 2   # per rank\npart 1: 3 2\nmicro_batches 2\n"
      "steps 1\nrank 0: F0 F1.1 >1:B0.1 B0@-1 U1 I1 @-1 F3+B1.1\nrepeat\nrank 1:\tW5.1\t\nrank 1: U0\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiSchedule) schedule = psi_schedule_parse (text, "x", &error);

  g_assert_no_error (error);
  g_assert_cmpuint (schedule->n_ranks, ==, 2);
  g_assert_cmpuint (schedule->n_chunks, ==, 2);
  g_assert_cmpuint (schedule->n_parts, ==, 4);
  g_assert_cmpint (schedule->micro_batches, ==, 2);
  g_assert_cmpuint (psi_schedule_part (schedule, 0, 1), ==, 3);
  g_assert_cmpuint (psi_schedule_part (schedule, 1, 1), ==, 2);
  g_assert_true (schedule->has_updates);
  g_assert_false (schedule->whole);
  g_assert_cmpuint (schedule->once[0]->len, ==, 7);
  const PsiToken *token = &g_array_index (schedule->once[0], PsiToken, 2);
  g_assert_cmpuint (token->kind, ==, PSI_TOKEN_BACKWARD);
  g_assert_cmpuint (token->stale, ==, 1);
  g_assert_cmpuint (token->n_waits, ==, 1);
  const PsiTokenWait *wait = &g_array_index (schedule->waits, PsiTokenWait, (guint) token->first_wait);
  g_assert_cmpuint (wait->rank, ==, 1);
  g_assert_cmpint (wait->chunk, ==, 1);
  token = &g_array_index (schedule->once[0], PsiToken, 3);
  g_assert_cmpuint (token->kind, ==, PSI_TOKEN_UPDATE);
  g_assert_cmpint (token->chunk, ==, 1);
  token = &g_array_index (schedule->once[0], PsiToken, 4);
  g_assert_cmpuint (token->kind, ==, PSI_TOKEN_BACKWARD_INPUT);
  g_assert_cmpuint (token->stale, ==, 1);
  token = &g_array_index (schedule->once[0], PsiToken, 6);
  g_assert_cmpuint (token->kind, ==, PSI_TOKEN_BACKWARD);
  g_assert_cmpuint (token->joined, ==, 1);
  g_assert_cmpuint (schedule->lists[1]->len, ==, 2);
  token = &g_array_index (schedule->lists[1], PsiToken, 0);
  g_assert_cmpuint (token->kind, ==, PSI_TOKEN_BACKWARD_WEIGHT);
  g_assert_cmpint (token->micro_batch, ==, 5);
}

/* Texts that are no schedules: the place and the culprit are named, and both parsers refuse them. */
static const char *const broken[][2] = {
  { "", "x: the schedule is not whole: the line 'psisim-schedule 1' is missing" },
  { "ranks 2\n", "x:1: no schedule: 'ranks 2'*" },
  { HEAD "ranks two\n", "x:2: ranks: 'two' is not a whole number from 1*" },
  { HEAD "ranks 0\n", "x:2: ranks: '0' is not*" },
  { HEAD "rank 0: F0\n", "x:2: 'ranks' must come first" },
  { HEAD "ranks 1\nrank 0: F0 B0\n", "x: the schedule is not whole: 'micro_batches' is missing" },
  { HEAD "ranks 1\nmicro_batches 1\n", "x: the schedule is not whole: 'ranks' or a list is missing" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 1: F0 B0\n", "x:4: rank: '1: F0 B0' is no number below 1*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: X0\n", "x:4: unknown word 'X0' (allowed: F3 B3*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: F\n", "x:4: unknown word 'F'*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0.1\n", "x:4: unknown word 'F0.1'*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0@-0 B0\n", "x:4: unknown word 'F0@-0'*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0@-256 B0\n", "x:4: unknown word 'F0@-256'*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0@1 B0\n", "x:4: unknown word 'F0@1'*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0 @-1x B0\n", "x:4: unknown word '@-1x'*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0+\n", "x:4: unknown word 'F0+'*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0 >1:F0 B0\n", "x:4: unknown word '>1:F0'*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0 B0 >0:F0\n", "x:4: nothing follows a wait*" },
  { HEAD "ranks 2\npart 0: 0\nmicro_batches 1\n", "x:3: part 0: * is not one part number*" },
  { HEAD "ranks 2\npart 0: 0 5\nmicro_batches 1\n", "x:3: part 0: * is not one part number*" },
  { HEAD "ranks 1\nmicro_batches 1\nranks 1 2\n", "x:4: 'ranks' is written twice" },
  { HEAD "ranks 1\nfoo 3\n", "x:3: unexpected line 'foo'*" },
  { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0 B0\nrepeat\nrank 0: F1 B1\n", "x: lists that repeat*" },
  { HEAD "ranks 99999999999\n", "x:2: ranks: '99999999999' is not*" }
};

static void
test_broken (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (broken); i++)
    {
      g_autoptr (GError) error = NULL;
      TrainError train_error = { "" };

      g_assert_null (psi_schedule_parse (broken[i][0], "x", &error));
      g_assert_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SYNTAX);
      if (!g_pattern_match_simple (broken[i][1], error->message))
        g_error ("case %u: '%s' does not look like '%s'", i, error->message, broken[i][1]);
      g_assert_null (strchr (error->message, '\n'));
      g_assert_null (train_schedule_parse (broken[i][0], "x", &train_error));
    }
}

/* Lists that make no sense together, with the words of the refusal. */
static const char *const unsound[][2] = {
  { "ranks 1\nmicro_batches 2\nrank 0: F0 B0 F1\n", "missing op: no rank does B or I of micro-batch 1 on part 0" },
  { "ranks 1\nmicro_batches 1\nrank 0: F0 I0\n", "missing op: no rank does B or W of micro-batch 0 on part 0" },
  { "ranks 1\nmicro_batches 1\nrank 0: F0 F0 B0\n", "doubled op: rank 0 does F0 of part 0, which rank 0 did already" },
  { "ranks 1\nmicro_batches 1\nrank 0: F0 B0 W0\n", "doubled op: rank 0 does W0 of part 0, which rank 0 did already" },
  { "ranks 2\nchunks 1\npart 0: 0 0\nmicro_batches 2\nrank 0: F0 F1 B0\nrank 1: B1\n",
    "misplaced op: B or I of micro-batch 1 on part 0 is not where its F ran (rank 0)" },
  { "ranks 1\nmicro_batches 1\nrank 0: B0 F0\n",
    "deadlock: rank 0 at B0 waits for F0 of rank 0, which comes after it" },
  { "ranks 1\nmicro_batches 1\nrank 0: F0 W0 I0\n",
    "deadlock: rank 0 at W0 waits for I0 of rank 0, which comes after it" },
  { "ranks 2\nmicro_batches 2\nrank 0: F0 B0 F1 B1\nrank 1: F1 F0 B0 B1\n",
    "deadlock: rank 0 at B0 waits for B0 of rank 1, rank 1 at F1 waits for F1 of rank 0, which comes after that" },
  { "ranks 3\nmicro_batches 1\nrank 0: F0 B0\nrank 1: F0 B0\nrank 2: >0:B0 F0 B0\n",
    "deadlock: rank 0 at B0 waits for B0 of rank 1, rank 1 at B0 waits for B0 of rank 2, rank 2 at F0 waits for B0 of "
    "rank 0, which comes after that" },
  { "ranks 2\nmicro_batches 1\nrank 0: F0 B0\nrank 1: F0 >0:W0 B0\n",
    "missing op: rank 1 waits for W0 of chunk 0 of rank 0, which never does it" },
  { "ranks 2\nmicro_batches 1\nrank 0: F0 B0\nrank 1: F0 >0:B9 B0\n",
    "deadlock: rank 0 at B0 waits for B0 of rank 1, rank 1 at B0 waits for B9 of rank 0, which comes after that" },
  { "ranks 3\npart 0: 0 0 0\nmicro_batches 3\nrank 0: F0 B0 U\nrank 1: F1 B1 U\nrank 2: F2 B2\n",
    "missing op: rank 2 has no U0 of step 0" },
  { "ranks 1\nmicro_batches 1\nrank 0: F0\nrepeat\nrank 0: B0 F1\n", "missing op: rank 0 has no U0 of step 0" }
};

static void
test_unsound (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (unsound); i++)
    {
      g_autofree char *text = g_strconcat (HEAD, unsound[i][0], NULL);
      g_autoptr (GError) error = NULL;
      g_auto (PsiScheduleFacts) facts = { 0 };
      TrainError train_error = { "" };
      TrainSchedule *other = train_schedule_parse (text, "x", &train_error);

      /* The last of them is found by the parser: lists that repeat need U. */
      g_autoptr (PsiSchedule) schedule = psi_schedule_parse (text, "x", &error);
      if (schedule == NULL)
        {
          g_assert_null (other);
          continue;
        }
      g_assert_no_error (error);
      g_assert_false (check_times (schedule, 1, 2, 1, &facts, &error));
      g_assert_cmpstr (error->message, ==, unsound[i][1]);
      g_assert_null (train_plan_new (other, 12, TRAIN_UPDATE_FILE, 0, &train_error));
      train_schedule_free (other);
    }
}

static char
train_letter (guint kind)
{
  return psi_token_letters[kind];
}

static void
compare_lists (const GArray *list, const TrainList *other)
{
  g_assert_cmpuint (list->len, ==, other->n_tokens);
  for (guint t = 0; t < list->len; t++)
    {
      const PsiToken *a = &g_array_index (list, PsiToken, t);
      const TrainToken *b = &other->tokens[t];

      g_assert_cmpint (train_letter (a->kind), ==, b->kind);
      g_assert_cmpint (a->chunk, ==, b->chunk);
      if (a->kind != PSI_TOKEN_UPDATE)
        g_assert_cmpint (a->micro_batch, ==, b->micro_batch);
      g_assert_cmpint (a->stale, ==, b->delay);
      g_assert_cmpint (a->joined, ==, b->joined);
      g_assert_cmpint (a->n_waits, ==, b->n_waits);
    }
}

/* Both parsers read the same things, and both find the file sound, or neither does. */
static void
compare_text (const char *text, const char *name)
{
  g_autoptr (GError) error = NULL;
  TrainError train_error = { "" };
  g_autoptr (PsiSchedule) schedule = psi_schedule_parse (text, name, &error);
  TrainSchedule *other = train_schedule_parse (text, name, &train_error);
  g_auto (PsiScheduleFacts) facts = { 0 };

  g_assert_no_error (error);
  g_assert_nonnull (other);
  g_assert_cmpint (schedule->n_ranks, ==, other->n_ranks);
  g_assert_cmpint (schedule->n_parts, ==, other->n_parts);
  g_assert_cmpint (schedule->micro_batches, ==, other->micro_batches);
  g_assert_cmpint (schedule->steps, ==, other->steps);
  g_assert_cmpint (schedule->whole, ==, other->whole);
  g_assert_cmpint (schedule->replicas, ==, other->replicas);
  for (guint r = 0; r < schedule->n_ranks; r++)
    {
      compare_lists (schedule->lists[r], &other->loop[r]);
      if (schedule->once != NULL)
        compare_lists (schedule->once[r], &other->once[r]);
    }
  TrainPlan *plan = train_plan_new (other, 6, TRAIN_UPDATE_FILE, TRAIN_PLAN_OWNED, &train_error);
  gboolean sound = check_times (schedule, 3, 5, 2, &facts, &error);
  if (sound != (plan != NULL))
    g_error ("%s: checked: %s; trained: %s", name, error != NULL ? error->message : "sound", train_error.text);
  train_plan_free (plan);
  train_schedule_free (other);
}

static void
test_folder (void)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "schedules", NULL);
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  guint n = 0;

  for (const char *name; (name = g_dir_read_name (dir)) != NULL; n++)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL), *text = NULL;

      g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
      compare_text (text, name);
    }
  g_assert_cmpuint (n, >, 10);
}

/* Every built-in order survives printing, reading and checking, with the same period and memory. */
static void
test_built_in (void)
{
  static const gint64 forward[] = { 3, 3, 3, 3, 3, 3, 3, 3 }, backward[] = { 5, 5, 5, 5, 5, 5, 5, 5 },
                      weight[] = { 2, 2, 2, 2, 2, 2, 2, 2 }, bytes[] = { 9, 9, 9, 9, 9, 9, 9, 9 };

  for (guint k = 0; psi_schedules[k] != NULL; k++)
    for (guint chunks = 1; chunks <= 2; chunks++)
      for (gint64 m = 1; m <= 9; m++)
        {
          PsiScheduleShape shape = { .ranks = 4,
                                     .chunks = chunks,
                                     .micro_batches = m,
                                     .forward_ps = forward,
                                     .backward_ps = backward,
                                     .weight_ps = weight,
                                     .kept_bytes = bytes,
                                     .late_bytes = bytes };
          if (psi_schedules[k]->cyclic || psi_schedules[k] == &psi_schedule_none)
            continue;
          g_autoptr (PsiSchedule) schedule = psi_schedules[k]->build (&shape, NULL);
          if (schedule == NULL)
            continue;
          g_autofree char *text = psi_schedule_to_text (schedule, 1, psi_schedules[k]->name);
          g_autoptr (PsiSchedule) read = psi_schedule_parse (text, psi_schedules[k]->name, NULL);
          g_autofree char *again = psi_schedule_to_text (read, 1, psi_schedules[k]->name);
          g_auto (PsiScheduleFacts) a = { 0 }, b = { 0 };

          g_assert_cmpstr (text, ==, again);
          g_assert_true (check_times (schedule, 3, 5, 2, &a, NULL));
          g_assert_true (check_times (read, 3, 5, 2, &b, NULL));
          g_assert_cmpint (a.period_ps, ==, b.period_ps);
          g_assert_cmpmem (a.in_flight, 4 * sizeof (guint), b.in_flight, 4 * sizeof (guint));
          compare_text (text, psi_schedules[k]->name);
        }
}

/* Cyclic orders: all placements, workers and stages, both rules. */
static void
test_cyclic (void)
{
  static const gint64 forward[] = { 3, 3, 3, 3, 3, 3 }, backward[] = { 5, 5, 5, 5, 5, 5 };

  for (guint workers = 2; workers <= 5; workers++)
    for (guint stages = 2; stages <= 5; stages++)
      for (gint64 m = 1; m <= 2; m++)
        for (guint way = 0; way < 10; way++)
          {
            static const PsiPlacement placements[] = { PSI_PLACEMENT_SEPARATE, PSI_PLACEMENT_SHARED,
                                                       PSI_PLACEMENT_STAGE, PSI_PLACEMENT_SHARED,
                                                       PSI_PLACEMENT_SEPARATE };
            PsiScheduleShape shape = { .micro_batches = m,
                                       .workers = workers,
                                       .stages = stages,
                                       .placement = placements[way / 2],
                                       .by_stage = way / 2 == 2 || way / 2 == 3,
                                       .delayed = way % 2 == 1,
                                       .random = way / 2 == 4,
                                       .seed = workers,
                                       .forward_ps = forward,
                                       .backward_ps = backward };
            g_autoptr (PsiSchedule) schedule = psi_schedule_cyclic.build (&shape, NULL);
            g_autofree char *text = psi_schedule_to_text (schedule, 1, NULL);
            g_autofree char *name = g_strdup_printf ("cyclic %u %u %d way %u", workers, stages, (int) m, way);
            g_autoptr (GError) error = NULL;
            g_autoptr (PsiSchedule) read = psi_schedule_parse (text, name, &error);
            g_auto (PsiScheduleFacts) facts = { 0 };
            double stale = 0;

            g_assert_no_error (error);
            if (!check_times (read, 3, 8 - 3, 2, &facts, &error))
              g_error ("%s: %s", name, error->message);
            /* One GPU runs everything; GPUs that workers share may have to wait if N != K. */
            if (way / 2 == 1)
              g_assert_cmpint (facts.period_ps, ==, m * workers * stages * 8);
            else if (way / 2 == 0 || way / 2 == 2 || (m == 1 && workers == stages))
              g_assert_cmpint (facts.period_ps, ==, schedule->period_ps);
            else
              g_assert_cmpint (facts.period_ps, >=, schedule->period_ps);
            for (guint i = 0; i < workers * stages; i++)
              stale += schedule->stale[i];
            g_assert_cmpfloat_with_epsilon (facts.delay_mean, stale / (workers * stages), 1e-9);
            compare_text (text, name);
          }
}

/* 64 ranks and 512 micro-batches: the closed form of 1F1B, and no more than a moment (the time limit of tests says so).
 */
static void
test_large (void)
{
  PsiScheduleShape shape = { .ranks = 64, .chunks = 1, .micro_batches = 512 };
  g_autoptr (PsiSchedule) schedule = psi_schedule_1f1b.build (&shape, NULL);
  g_auto (PsiScheduleFacts) facts = { 0 };

  g_assert_true (check_times (schedule, 1, 2, 1, &facts, NULL));
  g_assert_cmpint (facts.period_ps, ==, (512 + 63) * 3);
  for (guint r = 0; r < 64; r++)
    g_assert_cmpuint (facts.in_flight[r], ==, 64 - r);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plan/schedule-file/words", test_words);
  g_test_add_func ("/plan/schedule-file/broken", test_broken);
  g_test_add_func ("/plan/schedule-file/unsound", test_unsound);
  g_test_add_func ("/plan/schedule-file/folder", test_folder);
  g_test_add_func ("/plan/schedule-file/built-in", test_built_in);
  g_test_add_func ("/plan/schedule-file/cyclic", test_cyclic);
  g_test_add_func ("/plan/schedule-file/large", test_large);
  return g_test_run ();
}
