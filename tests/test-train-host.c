/* SPDX-License-Identifier: MIT */
/* train-host as a program: every schedule trains the same parameters as its update rule does without a schedule, keeps
 * the memory it should, and ends cleanly whatever happens. PSI_TRAIN_HOST is the program; without it all is skipped. */
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMON "--width 24 --blocks 12 --batch 8 --steps 6 --timeout 20"

static const char *program;
static char *reference_path;

/* What a run printed. */
typedef struct
{
  GPtrArray *lines; /* of JsonObject* */
  char *errors;     /* stderr */
  int status;       /* exit status; -1: killed */
} Run;

static void
run_clear (Run *run)
{
  g_clear_pointer (&run->lines, g_ptr_array_unref);
  g_clear_pointer (&run->errors, g_free);
}

static char *
schedule_path (const char *name)
{
  return g_test_build_filename (G_TEST_DIST, "schedules", name, NULL);
}

/* The command line: `schedule` (or NULL) and flags, separated by blanks. */
static char **
command_line (const char *schedule, const char *flags)
{
  g_auto (GStrv) words = g_strsplit (flags, " ", -1);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  g_strv_builder_add (builder, program);
  if (schedule != NULL)
    {
      g_autofree char *path = schedule_path (schedule);

      g_strv_builder_add_many (builder, "--schedule", path, NULL);
    }
  for (char **word = words; *word != NULL; word++)
    if (**word != '\0')
      g_strv_builder_add (builder, *word);
  return g_strv_builder_end (builder);
}

static void
parse_lines (Run *run, const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  run->lines = g_ptr_array_new_with_free_func ((GDestroyNotify) json_object_unref);
  for (char **line = lines; *line != NULL && **line != '\0'; line++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (JsonNode) node = json_from_string (*line, &error);

      g_assert_no_error (error);
      g_ptr_array_add (run->lines, json_node_dup_object (node));
    }
}

static Run
run_flags (const char *schedule, const char *flags)
{
  g_auto (GStrv) argv = command_line (schedule, flags);
  g_autoptr (GError) error = NULL;
  g_autofree char *output = NULL;
  Run run = { 0 };
  int wait_status;

  g_assert_true (
      g_spawn_sync (NULL, argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &output, &run.errors, &wait_status, &error));
  g_assert_no_error (error);
  run.status = WIFEXITED (wait_status) ? WEXITSTATUS (wait_status) : -1;
  parse_lines (&run, output);
  return run;
}

static JsonObject *
last_line (const Run *run)
{
  g_assert_cmpuint (run->lines->len, >, 0);
  return run->lines->pdata[run->lines->len - 1];
}

static char *
final_hash (const char *schedule, const char *flags)
{
  g_autofree char *all = g_strconcat (COMMON " --log end ", flags, NULL);
  Run run = run_flags (schedule, all);
  char *hash;

  g_assert_cmpstr (run.errors, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  g_assert_true (json_object_get_boolean_member (last_line (&run), "replicas_equal"));
  hash = g_strdup (json_object_get_string_member (last_line (&run), "final"));
  run_clear (&run);
  return hash;
}

/* The parameters that the rule gives without a schedule, into reference_path. */
static void
make_reference (const char *flags)
{
  g_autofree char *all = g_strconcat (COMMON " --log end --reference --parameters ", reference_path, " ", flags, NULL);
  Run run = run_flags (NULL, all);

  g_assert_cmpstr (run.errors, ==, "");
  g_assert_cmpint (run.status, ==, 0);
  run_clear (&run);
}

/* Does the schedule end with the parameters of the reference? */
static gboolean
equals_reference (const char *schedule, const char *flags, const char *tolerance)
{
  g_autofree char *all =
      g_strconcat (COMMON " --log end --compare ", reference_path, " --tolerance ", tolerance, " ", flags, NULL);
  Run run = run_flags (schedule, all);
  gboolean equal = run.status == 0;

  if (!equal && strstr (run.errors, "parameters differ") == NULL)
    g_error ("%s %s: %s", schedule, flags, run.errors);
  run_clear (&run);
  return equal;
}

static void
assert_reference (const char *schedule, const char *flags, const char *tolerance)
{
  if (!equals_reference (schedule, flags, tolerance))
    g_error ("%s %s: not the parameters of the reference", schedule, flags);
}

/* One rank with one micro-batch is plain SGD to the bit; the others sum micro-batches instead of one large product, in
 * the same order, so they agree with each other to the bit and with SGD up to rounding. */
static void
test_synchronous (void)
{
  static const char *const four[] = { "accumulate-4.sched", "single-4x4.sched", "mp-4.sched",           "gpipe-2.sched",
                                      "gpipe-4.sched",      "dp-4.sched",       "interleaved-2x2.sched" };
  static const char *const two[] = { "dp-2.sched", "split-v-2.sched", "bidirectional-4.sched" };
  g_autofree char *first = final_hash (four[0], ""), *first_of_two = final_hash (two[0], "");

  make_reference ("--workers 1");
  assert_reference ("single-1.sched", "", "0");
  make_reference ("--workers 4");
  for (gsize i = 0; i < G_N_ELEMENTS (four); i++)
    {
      g_autofree char *hash = final_hash (four[i], "");

      g_assert_cmpstr (hash, ==, first);
      assert_reference (four[i], "", "1e-6");
    }
  assert_reference ("dp-2-accumulate-2.sched", "", "1e-6");
  make_reference ("--workers 2");
  for (gsize i = 0; i < G_N_ELEMENTS (two); i++)
    {
      g_autofree char *hash = final_hash (two[i], "");

      g_assert_cmpstr (hash, ==, first_of_two);
      assert_reference (two[i], "", "1e-6");
    }
  g_assert_cmpstr (first, !=, first_of_two);
  make_reference ("--workers 8");
  assert_reference ("1f1b-4.sched", "", "1e-6");
}

static void
test_models (void)
{
  make_reference ("--workers 4 --uneven");
  assert_reference ("gpipe-4.sched", "--uneven", "1e-6");
  make_reference ("--workers 4 --data clusters --momentum 0 --lr 0.02");
  assert_reference ("1f1b-4.sched", "--batch 4 --data clusters --momentum 0 --lr 0.02", "1e-6");
  assert_reference ("dp-4.sched", "--data clusters --momentum 0 --lr 0.02", "1e-6");
}

static void
test_cyclic (void)
{
  static const char *const two[] = { "cyclic-v2-2.sched", "cdp-single-2.sched", "cdp-mp-2.sched", "cdp-pp-2.sched" };

  make_reference ("--workers 2 --stages 2 --update cyclic-v2");
  for (gsize i = 0; i < G_N_ELEMENTS (two); i++)
    assert_reference (two[i], "", "0");
  assert_reference ("dp-2.sched", "--update cyclic-v2", "0"); /* the rule without the cyclic order */
  g_assert_false (equals_reference ("dp-2.sched", "", "1e-3"));
  g_assert_false (equals_reference ("dp-2.sched", "--update cyclic-v1", "1e-3"));
  make_reference ("--workers 3 --stages 3 --update cyclic-v2");
  assert_reference ("cyclic-v2-3.sched", "", "0");
  assert_reference ("cdp-single-3.sched", "", "0");
  g_assert_false (equals_reference ("cyclic-v1-3.sched", "", "1e-3"));
  make_reference ("--workers 3 --stages 3 --update cyclic-v1");
  assert_reference ("cyclic-v1-3.sched", "", "0");
}

/* The mean of uneven workers' gradients needs the weights n_k/n. */
static void
test_weights (void)
{
  make_reference ("--workers 4 --worker-batches 6,2,2,2");
  assert_reference ("dp-4.sched", "--worker-batches 6,2,2,2", "1e-6");
  g_assert_false (equals_reference ("dp-4.sched", "--worker-batches 6,2,2,2 --unweighted", "1e-3"));
  make_reference ("--workers 4 --worker-batches 3,3,3,3");
  assert_reference ("dp-4.sched", "--worker-batches 3,3,3,3 --unweighted", "1e-6");
}

static void
test_zero (void)
{
  for (int zero = 1; zero <= 3; zero++)
    {
      g_autofree char *flags = g_strdup_printf ("--zero %d", zero);
      g_autofree char *plain = final_hash ("dp-4.sched", ""), *sharded = final_hash ("dp-4.sched", flags);

      g_assert_cmpstr (sharded, ==, plain);
    }
  make_reference ("--workers 3 --stages 3 --update cyclic-v2");
  assert_reference ("cyclic-zero-3.sched", "--zero 3", "0");
}

static gint64
rank_bytes (const Run *run, int rank, const char *key)
{
  for (guint i = 0; i < run->lines->len; i++)
    {
      JsonObject *line = run->lines->pdata[i];

      if (json_object_has_member (line, "peak_bytes") && !json_object_has_member (line, "op") &&
          json_object_get_int_member (line, "rank") == rank)
        return json_object_get_int_member (line, key);
    }
  g_assert_not_reached ();
}

/* Micro-batches of one part that a rank holds at its peak. One block keeps x and relu (W1 x): 2 * rows * width floats.
 */
static void
check_kept (const char *schedule, int n_blocks, int rank, int kept)
{
  g_autofree char *flags = g_strdup_printf ("--width 24 --blocks %d --batch 8 --steps 4 --log steps", n_blocks);
  Run run = run_flags (schedule, flags);

  g_assert_cmpint (run.status, ==, 0);
  g_assert_cmpint (rank_bytes (&run, rank, "activations_peak_bytes"), ==, kept * 2 * 8 * 24 * (gint64) sizeof (float));
  run_clear (&run);
}

static void
test_activations (void)
{
  check_kept ("single-4x4.sched", 4, 0, 16);
  check_kept ("accumulate-4.sched", 1, 0, 1);
  check_kept ("mp-4.sched", 4, 0, 1);
  for (int rank = 0; rank < 4; rank++)
    {
      check_kept ("gpipe-4.sched", 4, rank, 4);
      check_kept ("1f1b-4.sched", 4, rank, 4 - rank);
    }
  check_kept ("cdp-single-2.sched", 2, 0, 2); /* N/2 of a micro-batch's two stages */
  check_kept ("cdp-single-3.sched", 3, 0, 5); /* N/2 + 1/(2N) */
  check_kept ("cdp-pp-2.sched", 2, 0, 2);
  check_kept ("cdp-pp-2.sched", 2, 1, 1);
  check_kept ("cdp-mp-2.sched", 2, 0, 1);
  check_kept ("cyclic-v2-3.sched", 3, 0, 3);
}

/* At its peak a rank with zero 3 holds a quarter of parameters, momentum and gradients but of the layer at hand, whose
 * parameters it has gathered and whose gradients it has not given away: 4 layers of 2 * 24^2. */
static void
test_gathers (void)
{
  const gint64 layer = 2 * 24 * 24 * (gint64) sizeof (float);
  Run run = run_flags ("dp-4.sched", "--width 24 --blocks 4 --batch 1 --steps 2 --log steps --zero 3");
  JsonObject *rank = run.lines->pdata[3], *peak;

  g_assert_cmpint (run.status, ==, 0);
  peak = json_object_get_object_member (rank, "at_peak");
  g_assert_cmpint (json_object_get_int_member (peak, "parameters_bytes"), ==, layer);
  g_assert_cmpint (json_object_get_int_member (peak, "optimizer_bytes"), ==, layer);
  g_assert_cmpint (json_object_get_int_member (peak, "communication_bytes"), ==, layer);
  g_assert_cmpint (json_object_get_int_member (peak, "gradients_bytes"), ==, layer + 3 * layer / 4);
  run_clear (&run);
}

/* Between steps: parameters and momentum, sharded as --zero says; one rank of four, 4 * 2 * 24^2 parameters. */
static void
test_state (void)
{
  static const gint64 quarters[4] = { 8, 5, 5, 2 };

  for (int zero = 0; zero <= 3; zero++)
    {
      g_autofree char *flags =
          g_strdup_printf ("--width 24 --blocks 4 --batch 8 --steps 2 --log steps --zero %d", zero);
      Run run = run_flags ("dp-4.sched", flags);

      g_assert_cmpint (run.status, ==, 0);
      g_assert_cmpint (rank_bytes (&run, 0, "steady_bytes"), ==,
                       24 * 24 * 2 * quarters[zero] * (gint64) sizeof (float));
      run_clear (&run);
    }
}

static void
test_lines (void)
{
  Run run = run_flags ("1f1b-4.sched", "--width 24 --batch 8 --steps 3");
  double before[4] = { 0.0 };
  int n_ops = 0, n_steps = 0;

  g_assert_cmpint (run.status, ==, 0);
  g_assert_cmpstr (json_object_get_string_member (run.lines->pdata[0], "program"), ==, "train-host");
  for (guint i = 1; i < run.lines->len; i++)
    {
      JsonObject *line = run.lines->pdata[i];

      if (json_object_has_member (line, "op"))
        {
          int rank = (int) json_object_get_int_member (line, "rank");
          double begin_s = json_object_get_double_member (line, "begin_s");
          double end_s = json_object_get_double_member (line, "end_s");

          n_ops++;
          g_assert_cmpfloat (begin_s, >=, before[rank]);
          g_assert_cmpfloat (json_object_get_double_member (line, "wall_s"), >, 0.0);
          g_assert_cmpfloat (json_object_get_double_member (line, "wait_s"), >=, 0.0);
          g_assert_cmpfloat (json_object_get_double_member (line, "cpu_s"), >, 0.0);
          g_assert_cmpfloat (begin_s + json_object_get_double_member (line, "wait_s"), <=, end_s + 1e-8);
          g_assert_cmpint (json_object_get_int_member (line, "peak_bytes"), >=,
                           json_object_get_int_member (line, "live_bytes"));
          before[rank] = end_s;
        }
      else if (json_object_has_member (line, "loss") && json_object_has_member (line, "step"))
        {
          g_assert_cmpint (json_object_get_int_member (line, "step"), ==, n_steps++);
          g_assert_cmpuint (json_array_get_length (json_object_get_array_member (line, "cpu_s")), ==, 4);
        }
      else if (json_object_has_member (line, "rank"))
        {
          JsonObject *peak = json_object_get_object_member (line, "at_peak");
          g_autoptr (GList) names = json_object_get_members (peak);
          gint64 sum = 0;

          for (GList *name = names; name != NULL; name = name->next)
            sum += json_object_get_int_member (peak, name->data);
          g_assert_cmpint (sum, ==, json_object_get_int_member (line, "peak_bytes"));
          g_assert_cmpuint (g_list_length (names), ==, 7);
          g_assert_true (json_object_has_member (peak, "workspace_bytes"));
          g_assert_cmpint (json_object_get_int_member (line, "involuntary_switches"), >=, 0);
        }
    }
  g_assert_cmpint (n_ops, ==, 3 * 4 * (16 + 1));
  g_assert_cmpint (n_steps, ==, 3);
  g_assert_cmpfloat (json_object_get_double_member (last_line (&run), "step_time_s"), >, 0.0);
  g_assert_cmpfloat (json_object_get_double_member (last_line (&run), "load_average"), >=, 0.0);
  run_clear (&run);
}

static void
test_loss_falls (void)
{
  Run run = run_flags ("gpipe-2.sched", "--width 24 --blocks 4 --batch 16 --steps 80 --data clusters --log steps");
  double first = json_object_get_double_member (run.lines->pdata[1], "loss");

  g_assert_cmpint (run.status, ==, 0);
  g_assert_cmpfloat (first, >, 1.5); /* log 10 is a guess */
  g_assert_cmpfloat (json_object_get_double_member (last_line (&run), "loss"), <, first / 4);
  run_clear (&run);
}

static void
assert_fails (const char *schedule, const char *flags, int status, const char *pattern)
{
  Run run = run_flags (schedule, flags);

  g_assert_cmpint (run.status, ==, status);
  if (!g_pattern_match_simple (pattern, run.errors))
    g_error ("'%s' does not match '%s'", run.errors, pattern);
  run_clear (&run);
}

/* A pipeline without a flush: stashed weights give the parameters of the rule, run by one process. Stage r keeps p - r
 * versions of its 2 * 24^2 parameters with an update after each micro-batch. */
static void
test_pipedream (void)
{
  const gint64 part = 2 * 24 * 24 * (gint64) sizeof (float);

  make_reference ("--workers 1 --stages 4 --steps 12 --update asynchronous");
  assert_reference ("pipedream-4.sched", "--steps 12", "0");
  g_assert_false (equals_reference ("pipedream-4x2.sched", "--steps 6", "1e-3"));
  make_reference ("--workers 1 --stages 4 --steps 12");
  g_assert_false (equals_reference ("pipedream-4.sched", "--steps 12", "1e-3"));
  make_reference ("--workers 2 --stages 4 --update asynchronous");
  assert_reference ("pipedream-4x2.sched", "", "0");
  for (int rank = 0; rank < 4; rank++)
    {
      check_kept ("pipedream-4.sched", 4, rank, 4 - rank);
      Run run = run_flags ("pipedream-4.sched", "--width 24 --blocks 4 --batch 8 --steps 8 --log steps --momentum 0");
      JsonObject *peak = NULL;

      for (guint i = 0; i < run.lines->len && peak == NULL; i++)
        if (json_object_has_member (run.lines->pdata[i], "at_peak") &&
            json_object_get_int_member (run.lines->pdata[i], "rank") == rank)
          peak = json_object_get_object_member (run.lines->pdata[i], "at_peak");
      g_assert_cmpint (json_object_get_int_member (peak, "parameters_bytes"), ==, (4 - rank) * part);
      run_clear (&run);
    }
  assert_fails ("pipedream-4.sched", "--zero 3", 1, "*--zero: '3' needs a schedule in which every rank holds*\n");
}

static void
test_faults (void)
{
  gint64 begin_us = g_get_monotonic_time ();

  assert_fails ("deadlock-2.sched", "", 1, "train-host: deadlock: rank * at F1 waits for F1 of rank 0, *\n");
  assert_fails ("deadlock-2.sched", "--unchecked --timeout 0.3", 1, "*deadlock*: rank * at ?? waited for 0.3 s\n");
  g_assert_cmpint (g_get_monotonic_time () - begin_us, <, 15 * G_USEC_PER_SEC);
  assert_fails ("gpipe-4.sched", "--zero 3", 1, "*--zero: '3' needs a schedule in which every rank holds every part\n");
  assert_fails ("cyclic-v2-2.sched", "--zero 1", 1, "*--zero: '1' needs lists without U words, allowed: 0 and 3\n");
  assert_fails ("dp-4.sched", "--worker-batches 1,2", 1,
                "*--worker-batches: 2 numbers for 4 micro-batches of a step\n");
  assert_fails ("gpipe-4.sched", "--blocks 3", 1, "*--blocks: '3' is fewer than the 4 parts\n");
  assert_fails ("gpipe-4.sched", "--data /nowhere", 1, "*cannot read data '/nowhere'*\n");
  assert_fails ("nowhere.sched", "", 1, "*cannot open schedule*\n");
  assert_fails (NULL, "", 2, "*nothing to run*\n");
  assert_fails ("dp-2.sched", "--wdith 3", 2, "*unknown flag '--wdith'*\n");
  assert_fails ("dp-2.sched", "--width three", 2, "*--width: 'three' is not a whole number\n");
  assert_fails ("dp-2.sched", "--update cyclic", 2, "*--update: unknown 'cyclic', allowed: synchronous*\n");
  assert_fails ("dp-2.sched", "--steps", 2, "*--steps: a value is missing\n");
}

/* Ranks of a running train-host, as text. */
static char **
children_of (const char *pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%s/task/%s/children", pid, pid);
  g_autofree char *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return NULL;
  return g_strsplit (g_strstrip (text), " ", -1);
}

static gboolean
is_running (const char *pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%s/stat", pid);
  g_autofree char *text = NULL;

  return g_file_get_contents (path, &text, NULL, NULL) && strstr (text, ") Z ") == NULL;
}

static guint
count_shared_memory (void)
{
  GDir *dir = g_dir_open ("/dev/shm", 0, NULL);
  guint n = 0;

  while (dir != NULL && g_dir_read_name (dir) != NULL)
    n++;
  if (dir != NULL)
    g_dir_close (dir);
  return n;
}

/* Kill the second of three ranks, or the parent: nothing may be left. */
static void
check_killed (gboolean parent)
{
  g_auto (GStrv) argv =
      command_line ("cyclic-v2-3.sched", "--width 256 --batch 64 --steps 20000 --log end --timeout 20");
  g_autoptr (GError) error = NULL;
  g_autoptr (GSubprocess) process = g_subprocess_newv (
      (const char *const *) argv, G_SUBPROCESS_FLAGS_STDOUT_SILENCE | G_SUBPROCESS_FLAGS_STDERR_PIPE, &error);
  g_autofree char *pid = NULL, *errors = NULL;
  g_auto (GStrv) ranks = NULL;
  guint n_shared = count_shared_memory ();

  g_assert_no_error (error);
  pid = g_strdup (g_subprocess_get_identifier (process));
  for (int i = 0; i < 1000; i++)
    {
      g_clear_pointer (&ranks, g_strfreev);
      ranks = children_of (pid);
      if (ranks != NULL && g_strv_length (ranks) == 3)
        break;
      g_usleep (5000);
    }
  if (ranks == NULL || g_strv_length (ranks) != 3)
    {
      g_subprocess_force_exit (process);
      g_test_skip ("this kernel does not list children");
      return;
    }
  if (parent)
    g_subprocess_force_exit (process);
  else
    kill ((pid_t) g_ascii_strtoll (ranks[1], NULL, 10), SIGKILL);
  g_assert_true (g_subprocess_communicate_utf8 (process, NULL, NULL, NULL, &errors, &error));
  if (!parent)
    {
      g_assert_true (g_subprocess_get_if_exited (process));
      g_assert_cmpint (g_subprocess_get_exit_status (process), ==, 1);
      g_assert_cmpstr (errors, ==, "train-host: rank 1 was killed by signal 9 (Killed)\n");
    }
  for (char **rank = ranks; *rank != NULL; rank++)
    for (int i = 0; is_running (*rank); i++)
      {
        g_assert_cmpint (i, <, 1000);
        g_usleep (5000);
      }
  g_assert_cmpuint (count_shared_memory (), <=, n_shared);
}

static void
test_killed_rank (void)
{
  check_killed (FALSE);
}

static void
test_killed_parent (void)
{
  check_killed (TRUE);
}

int
main (int argc, char **argv)
{
  int result;

  g_test_init (&argc, &argv, NULL);
  program = g_getenv ("PSI_TRAIN_HOST");
  if (program == NULL)
    {
      g_print ("1..0 # SKIP PSI_TRAIN_HOST does not name the program\n");
      return 0;
    }
  reference_path = g_strdup_printf ("%s/psisim-train-%d.bin", g_get_tmp_dir (), (int) getpid ());
  g_test_add_func ("/kernels/train-host/synchronous", test_synchronous);
  g_test_add_func ("/kernels/train-host/models", test_models);
  g_test_add_func ("/kernels/train-host/cyclic", test_cyclic);
  g_test_add_func ("/kernels/train-host/pipedream", test_pipedream);
  g_test_add_func ("/kernels/train-host/weights", test_weights);
  g_test_add_func ("/kernels/train-host/zero", test_zero);
  g_test_add_func ("/kernels/train-host/activations", test_activations);
  g_test_add_func ("/kernels/train-host/state", test_state);
  g_test_add_func ("/kernels/train-host/gathers", test_gathers);
  g_test_add_func ("/kernels/train-host/lines", test_lines);
  g_test_add_func ("/kernels/train-host/loss-falls", test_loss_falls);
  g_test_add_func ("/kernels/train-host/faults", test_faults);
  g_test_add_func ("/kernels/train-host/killed-rank", test_killed_rank);
  g_test_add_func ("/kernels/train-host/killed-parent", test_killed_parent);
  result = g_test_run ();
  g_remove (reference_path);
  g_free (reference_path);
  return result;
}
