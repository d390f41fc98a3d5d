/* SPDX-License-Identifier: MIT */
/* Schedule files as the training programs read them: words, faults, versions of parameters; and the data readers. */
#include "data-set.h"
#include "train-plan.h"

#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define HEAD "psisim-schedule 1\n"

static TrainSchedule *
parse (const char *text)
{
  TrainError error = { "" };
  TrainSchedule *schedule = train_schedule_parse (text, "x", &error);

  g_assert_cmpstr (error.text, ==, "");
  g_assert_nonnull (schedule);
  return schedule;
}

static void
test_words (void)
{
  TrainSchedule *schedule = parse ("# first\n" HEAD "ranks 2\nchunks 2   # per rank\npart 1: 3 2\nmicro_batches 2\n"
                                   "rank 0: F0 F1 F0.1 F1.1+B0.1\n\trank 1: I0 >0:F1.1 W1.1 U1 F3@-1 F3 @-12\n");
  const TrainList *first = &schedule->loop[0], *second = &schedule->loop[1];

  g_assert_cmpint (schedule->n_parts, ==, 4);
  g_assert_cmpint (train_schedule_part (schedule, 1, 0), ==, 1);
  g_assert_cmpint (train_schedule_part (schedule, 0, 1), ==, 3);
  g_assert_cmpint (train_schedule_part (schedule, 1, 1), ==, 2);
  g_assert_cmpuint (first->n_tokens, ==, 5);
  g_assert_cmpint (first->tokens[3].kind, ==, 'F');
  g_assert_false (first->tokens[3].joined);
  g_assert_cmpint (first->tokens[4].kind, ==, 'B');
  g_assert_true (first->tokens[4].joined);
  g_assert_cmpint (first->tokens[4].chunk, ==, 1);
  g_assert_cmpuint (second->n_tokens, ==, 5);
  g_assert_cmpint (second->tokens[1].n_waits, ==, 1);
  g_assert_cmpint (schedule->waits[second->tokens[1].first_wait].micro_batch, ==, 1);
  g_assert_cmpint (second->tokens[2].kind, ==, 'U');
  g_assert_cmpint (second->tokens[3].delay, ==, 1);
  g_assert_cmpint (second->tokens[4].delay, ==, 12);
  g_assert_true (schedule->updates);
  train_schedule_free (schedule);
}

static void
test_bad_words (void)
{
  static const char *const cases[][2] = {
    { "", "x: not a whole schedule: the line 'psisim-schedule 1' is missing" },
    { "ranks 2\n", "x:1: not a schedule: 'ranks 2'*" },
    { HEAD "ranks two\n", "x:2: ranks: 'two' is not a whole number above 0" },
    { HEAD "ranks 0\n", "x:2: ranks: '0' is not*" },
    { HEAD "ranks 1\nrank 0: F0 B0\n", "x: not a whole schedule: 'micro_batches' is missing" },
    { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0 X0\n", "x:4: unknown word 'X0', allowed: F3*" },
    { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0.1\n", "x:4: unknown word 'F0.1'*" },
    { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0x\n", "x:4: unknown word 'F0x'*" },
    { HEAD "ranks 1\nmicro_batches 1\nrank 0: F99999999999\n", "x:4: unknown word*" },
    { HEAD "ranks 1\nmicro_batches 1\nrank 0: >1:F0 B0\n", "x:4: unknown word '>1:F0'*" },
    { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0 >0:F0\n", "x:4: nothing follows the wait*" },
    { HEAD "ranks 1\nmicro_batches 1\nrank 1: F0\n", "x:4: bad line '1: F0'*" },
    { HEAD "ranks 2\npart 0: 0\n", "x:3: cannot place parts*" },
    { HEAD "ranks 2\npart 0: 1 1\nmicro_batches 1\nrank 0: F0\n", "x: no rank holds part 0" },
    { HEAD "ranks 1\ncolour 3\n", "x:3: unexpected line 'colour', allowed: ranks*" },
    { HEAD "ranks 1\nmicro_batches 1\nrank 0: F0 B0\nrepeat\nrank 0: F1 B1\n", "x: lists that repeat*need U words" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      TrainError error = { "" };

      g_assert_null (train_schedule_parse (cases[i][0], "x", &error));
      if (!g_pattern_match_simple (cases[i][1], error.text))
        g_error ("'%s' does not match '%s'", error.text, cases[i][1]);
    }
}

static TrainPlan *
plan_text (const char *text, int n_steps, TrainSchedule **ret_schedule, TrainError *error)
{
  g_autofree char *whole = g_strconcat (HEAD, text, NULL);

  *ret_schedule = parse (whole);
  return train_plan_new (*ret_schedule, n_steps, TRAIN_UPDATE_FILE, 0, error);
}

static void
test_faults (void)
{
  static const char *const cases[][2] = {
    { "ranks 1\nmicro_batches 2\nrank 0: F0 B0 F1\n", "missing op: no rank does B or I of micro-batch 1 on part 0" },
    { "ranks 1\nmicro_batches 1\nrank 0: F0 I0\n", "missing op: no rank does B or W of micro-batch 0 on part 0" },
    { "ranks 1\nmicro_batches 1\nrank 0: F0 F0 B0\n", "doubled op: rank 0 does F0 of part 0*" },
    { "ranks 1\nmicro_batches 1\nrank 0: F0 I0 B0\n", "doubled op: rank 0 does B0 of part 0*" },
    { "ranks 2\nmicro_batches 2\npart 0: 0 0\nrank 0: F0 B0 F1\nrank 1: B1\n",
      "misplaced op: B or I of micro-batch 1*" },
    { "ranks 2\nmicro_batches 1\npart 0: 0 0\nrank 0: F0 B0\nrank 1: F0\n", "missing op: rank 1 has no B or I*" },
    { "ranks 2\nmicro_batches 1\nrank 0: F0 B0\nrank 1: F0 >0:W0 B0\n", "missing op: a word waits for >0:W0*" },
    { "ranks 1\nmicro_batches 1\nchunks 2\npart 0: 0\npart 1: 0\nrank 0: F0 B0\n", "rank 0 holds part 0 twice" },
    { "ranks 2\nmicro_batches 2\nrank 0: F0 B0 F1 B1\nrank 1: F1 F0 B0 B1\n",
      "deadlock: rank * at * waits for * of rank *, rank * at * waits for * of rank *" },
    { "ranks 1\nmicro_batches 1\nrank 0: B0 F0\n", "deadlock: rank 0 at B0 waits for F0 of rank 0" },
    { "ranks 1\nmicro_batches 1\nrank 0: F0 W0 I0\n", "deadlock: rank 0 at W0 waits for I0 of rank 0" },
    { "ranks 1\nmicro_batches 1\nrank 0: F0 U0 B0\n", "deadlock: rank 0 at U0 waits for B0 of rank 0" },
    /* No update before the forward that wants its parameters. */
    { "ranks 1\nmicro_batches 1\nrank 0: F0 B0\nrepeat\nrank 0: F1 B1 U0\n", "deadlock: rank 0 at F1 waits for U0*" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      TrainSchedule *schedule;
      TrainError error = { "" };

      g_assert_null (plan_text (cases[i][0], 2, &schedule, &error));
      if (!g_pattern_match_simple (cases[i][1], error.text))
        g_error ("'%s' does not match '%s'", error.text, cases[i][1]);
      train_schedule_free (schedule);
    }
}

/* Every schedule of the folder is sound, but for the one that is there to be refused. */
static void
test_files (void)
{
  g_autofree char *folder = g_test_build_filename (G_TEST_DIST, "schedules", NULL);
  GDir *dir = g_dir_open (folder, 0, NULL);
  int n = 0;

  g_assert_nonnull (dir);
  for (const char *name; (name = g_dir_read_name (dir)) != NULL;)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      TrainError error = { "" };
      TrainSchedule *schedule = train_schedule_load (path, &error);
      TrainPlan *plan;

      g_assert_cmpstr (error.text, ==, "");
      plan = train_plan_new (schedule, 5, TRAIN_UPDATE_FILE,
                             g_str_has_prefix (name, "cyclic-zero") ? TRAIN_PLAN_OWNED : 0, &error);
      if (g_str_has_prefix (name, "deadlock"))
        g_assert_true (g_str_has_prefix (error.text, "deadlock: "));
      else
        g_assert_cmpstr (error.text, ==, "");
      train_plan_free (plan);
      train_schedule_free (schedule);
      n++;
    }
  g_dir_close (dir);
  g_assert_cmpint (n, >=, 18);
}

/* The words of cyclic files say what the rule says: step s, worker i, stage j uses version s - delay(i, j). */
static void
check_versions (const char *name, TrainUpdate update)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "schedules", name, NULL);
  TrainError error = { "" };
  TrainSchedule *schedule = train_schedule_load (path, &error);
  TrainPlan *plan = train_plan_new (schedule, 6, TRAIN_UPDATE_FILE, TRAIN_PLAN_OWNED, &error);

  g_assert_cmpstr (error.text, ==, "");
  for (int rank = 0; rank < schedule->n_ranks; rank++)
    for (gsize i = 0; i < plan->programs[rank].n_ops; i++)
      {
        const TrainOp *op = &plan->programs[rank].ops[i];
        int worker = op->batch * plan->n_workers / plan->n_batches;
        int delay = train_delay (update, worker, op->part, plan->n_workers, schedule->n_parts);

        if (op->kind != 'U' && op->kind != 'W')
          g_assert_cmpint (op->version, ==, MAX (op->step - delay, 0));
      }
  train_plan_free (plan);
  train_schedule_free (schedule);
}

static void
test_versions (void)
{
  check_versions ("cyclic-v2-2.sched", TRAIN_UPDATE_CYCLIC_V2);
  check_versions ("cyclic-v2-3.sched", TRAIN_UPDATE_CYCLIC_V2);
  check_versions ("cyclic-v1-3.sched", TRAIN_UPDATE_CYCLIC_V1);
  check_versions ("cdp-single-3.sched", TRAIN_UPDATE_CYCLIC_V2);
  check_versions ("cdp-mp-2.sched", TRAIN_UPDATE_CYCLIC_V2);
  check_versions ("cdp-pp-2.sched", TRAIN_UPDATE_CYCLIC_V2);
  check_versions ("cyclic-zero-3.sched", TRAIN_UPDATE_CYCLIC_V2);
  check_versions ("pipedream-4.sched", TRAIN_UPDATE_ASYNCHRONOUS);
  check_versions ("pipedream-4x2.sched", TRAIN_UPDATE_ASYNCHRONOUS);
  check_versions ("gpipe-4.sched", TRAIN_UPDATE_SYNCHRONOUS);
}

/* Fresh is what the timeline allows: worker i begins 2K i/N slots after worker 0 and runs F of stage j (from 0) at slot
 * j; the last worker ends its B of that stage at slot 2K - j of its own. Times N, to stay whole. */
static void
test_stale (void)
{
  for (int n = 1; n <= 9; n++)
    for (int k = 1; k <= 9; k++)
      for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++)
          {
            int use = 2 * k * i + j * n, made = 2 * k * (n - 1) - 2 * k * n + (2 * k - j) * n;

            g_assert_cmpint (train_delay (TRAIN_UPDATE_CYCLIC_V2, i, j, n, k), ==, use < made);
            if (n == k)
              g_assert_cmpint (train_delay (TRAIN_UPDATE_CYCLIC_V2, i, j, n, k), ==, i + 1 + j + 1 < n + 1);
            g_assert_cmpint (train_delay (TRAIN_UPDATE_CYCLIC_V1, i, j, n, k), ==, 1);
            g_assert_cmpint (train_delay (TRAIN_UPDATE_SYNCHRONOUS, i, j, n, k), ==, 0);
          }
}

static char *
write_temporary (const void *bytes, gsize n_bytes, const char *suffix)
{
  static int serial;
  g_autofree char *name = g_strdup_printf ("psisim-train-%d-%d%s", (int) getpid (), serial++, suffix);
  char *path = g_build_filename (g_get_tmp_dir (), name, NULL);

  g_assert_true (g_file_set_contents (path, bytes, (gssize) n_bytes, NULL));
  return path;
}

static void
test_idx (void)
{
  static const guint8 images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255, 51, 102 };
  static const guint8 labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 3, 9 }, bad[] = { 0, 0, 8, 1, 0, 0, 0, 2, 3, 10 };
  g_autofree char *images_path = write_temporary (images, sizeof images, "-images");
  g_autofree char *cut_path = write_temporary (images, sizeof images - 1, "-cut");
  g_autofree char *labels_path = write_temporary (labels, sizeof labels, "-labels");
  g_autofree char *bad_path = write_temporary (bad, sizeof bad, "-bad");
  TrainError error = { "" };
  DataSet *data = data_idx_read (images_path, labels_path, &error);

  g_assert_cmpstr (error.text, ==, "");
  g_assert_cmpuint (data->n_samples, ==, 2);
  g_assert_cmpint (data->n_features, ==, 2);
  g_assert_cmpfloat (data->features[0], ==, -1.0f);
  g_assert_cmpfloat (data->features[1], ==, 1.0f);
  g_assert_cmpfloat_with_epsilon (data->features[2], -0.6f, 1e-6f);
  g_assert_cmpfloat (data->targets[3], ==, 1.0f);
  g_assert_cmpfloat (data->targets[19], ==, 1.0f);
  g_assert_cmpfloat (data->targets[9], ==, 0.0f);
  data_set_free (data);
  g_assert_null (data_idx_read (images_path, bad_path, &error));
  g_assert_nonnull (strstr (error.text, "label 10 of image 1 is not one of 0 to 9"));
  error.text[0] = '\0';
  g_assert_null (data_idx_read (cut_path, labels_path, &error));
  g_assert_nonnull (strstr (error.text, "ends early"));
  error.text[0] = '\0';
  g_assert_null (data_idx_read (labels_path, labels_path, &error));
  g_assert_nonnull (strstr (error.text, "is no IDX file of images"));
  g_remove (images_path);
  g_remove (cut_path);
  g_remove (labels_path);
  g_remove (bad_path);
}

static void
test_cifar (void)
{
  guint8 records[2 * 3073] = { 0 };
  const char *paths[2];
  TrainError error = { "" };
  DataSet *data;

  records[0] = 7;
  records[1] = 255;
  records[3073] = 2;
  records[2 * 3073 - 1] = 255;
  g_autofree char *path = write_temporary (records, sizeof records, ".bin");
  paths[0] = paths[1] = path;
  data = data_cifar_read (paths, 2, &error);
  g_assert_cmpstr (error.text, ==, "");
  g_assert_cmpuint (data->n_samples, ==, 4);
  g_assert_cmpint (data->n_features, ==, 3072);
  g_assert_cmpfloat (data->features[0], ==, 1.0f);
  g_assert_cmpfloat (data->features[1], ==, -1.0f);
  g_assert_cmpfloat (data->features[2 * 3072 - 1], ==, 1.0f);
  g_assert_cmpfloat (data->targets[7], ==, 1.0f);
  g_assert_cmpfloat (data->targets[12], ==, 1.0f);
  g_assert_cmpfloat (data->targets[32], ==, 1.0f);
  data_set_free (data);
  data = data_set_open (path, 8, 1, &error);
  g_assert_cmpstr (error.text, ==, "");
  g_assert_cmpuint (data->n_samples, ==, 2);
  data_set_free (data);

  records[3073] = 11;
  g_autofree char *bad_path = write_temporary (records, sizeof records, ".bin");
  g_assert_null (data_set_open (bad_path, 8, 1, &error));
  g_assert_nonnull (strstr (error.text, "record 1: label 11"));
  g_remove (path);
  g_remove (bad_path);
}

static void
test_built_in (void)
{
  TrainError error = { "" };
  DataSet *one = data_set_open ("clusters", 8, 5, &error), *same = data_set_open ("clusters", 8, 5, &error);
  DataSet *other = data_set_open ("clusters", 8, 6, &error), *teacher = data_set_open ("teacher", 8, 5, &error);
  gsize n_bytes = one->n_samples * 8 * sizeof (float);
  float rows[3 * 8];
  double mean = 0.0, square = 0.0;

  g_assert_true (one->classes);
  g_assert_false (teacher->classes);
  g_assert_cmpmem (one->features, n_bytes, same->features, n_bytes);
  g_assert_cmpint (memcmp (one->features, other->features, n_bytes), !=, 0);
  data_set_rows (one, 2 * one->n_samples - 1, 3, rows, NULL); /* round and round */
  g_assert_cmpmem (rows, 32, one->features + (one->n_samples - 1) * 8, 32);
  g_assert_cmpmem (rows + 8, 64, one->features, 64);
  for (gsize i = 0; i < teacher->n_samples * 8; i++)
    {
      mean += (double) teacher->features[i] / ((double) teacher->n_samples * 8);
      square += (double) teacher->features[i] * (double) teacher->features[i] / ((double) teacher->n_samples * 8);
    }
  g_assert_cmpfloat_with_epsilon (mean, 0.0, 0.05);
  g_assert_cmpfloat_with_epsilon (square, 1.0, 0.05);
  g_assert_null (data_set_open ("/nowhere", 8, 5, &error));
  g_assert_nonnull (strstr (error.text, "cannot read data '/nowhere', allowed: teacher"));
  data_set_free (one);
  data_set_free (same);
  data_set_free (other);
  data_set_free (teacher);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/kernels/train-schedule/words", test_words);
  g_test_add_func ("/kernels/train-schedule/bad-words", test_bad_words);
  g_test_add_func ("/kernels/train-plan/faults", test_faults);
  g_test_add_func ("/kernels/train-plan/files", test_files);
  g_test_add_func ("/kernels/train-plan/versions", test_versions);
  g_test_add_func ("/kernels/train-plan/stale", test_stale);
  g_test_add_func ("/kernels/data/idx", test_idx);
  g_test_add_func ("/kernels/data/cifar", test_cifar);
  g_test_add_func ("/kernels/data/built-in", test_built_in);
  return g_test_run ();
}
