/* SPDX-License-Identifier: MIT */
/* Scenario files: what is read, and what is refused with which words. */
#include "scenario.h"

#include <glib/gstdio.h>
#include <string.h>

static char *folder; /* of this run's files */

static char *
write_file (const char *name, const char *text, gssize length)
{
  char *path = g_build_filename (folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, length, NULL));
  return path;
}

static PsiScenario *
load (const char *text, const PsiKeyFlag *flags, guint n_flags, const char *const *plans, GError **error)
{
  g_autofree char *path = write_file ("gpt.scn", text, -1);

  return psi_scenario_load (path, flags, n_flags, plans, error);
}

static PsiScenario *
load_good (const char *text, const PsiKeyFlag *flags, guint n_flags, const char *const *plans)
{
  g_autoptr (GError) error = NULL;
  PsiScenario *scenario = load (text, flags, n_flags, plans, &error);

  g_assert_no_error (error);
  g_assert_nonnull (scenario);
  return scenario;
}

static const PsiPlanRequest *
plan_at (const PsiScenario *scenario, guint i)
{
  g_assert_cmpuint (i, <, scenario->plans->len);
  return g_ptr_array_index (scenario->plans, i);
}

static gint64
count_at (const PsiScenario *scenario, guint i, PsiKeyId key)
{
  return psi_settings_count (plan_at (scenario, i)->settings, key);
}

static const char *
text_at (const PsiScenario *scenario, guint i, PsiKeyId key)
{
  return psi_settings_text (plan_at (scenario, i)->settings, key);
}

/* `message` follows the path: ":3: ..." or ": ...". */
static void
check_refused (const char *text, gssize length, const char *message)
{
  g_autofree char *path = write_file ("gpt.scn", text, length);
  g_autoptr (GError) error = NULL;

  g_assert_null (psi_scenario_load (path, NULL, 0, NULL, &error));
  g_assert_nonnull (error);
  g_assert_true (g_str_has_prefix (error->message, path));
  g_assert_cmpstr (error->message + strlen (path), ==, message);
}

static void
test_one_plan (void)
{
  g_autoptr (PsiScenario) scenario = load_good ("# SPDX-License-Identifier: MIT\n"
                                                "#  A small model \n"
                                                "# and more\n"
                                                "[model]   # what\n"
                                                "model = gpt2\r\n"
                                                "hidden=768 # wide\n"
                                                "\n"
                                                "  [ machine ]\n"
                                                "gpus = 8\t# all\n"
                                                "[plan]\n"
                                                "plan = zero-2\n"
                                                "  micro-batch = 4",
                                                NULL, 0, NULL);
  const PsiPlanRequest *plan = plan_at (scenario, 0);

  g_assert_cmpuint (scenario->plans->len, ==, 1);
  g_assert_cmpstr (scenario->title, ==, "A small model");
  g_assert_true (g_str_has_suffix (scenario->file, "gpt.scn"));
  g_assert_cmpstr (plan->name, ==, "zero-2");
  g_assert_cmpstr (text_at (scenario, 0, PSI_KEY_MODEL), ==, "gpt2");
  g_assert_cmpint (count_at (scenario, 0, PSI_KEY_HIDDEN), ==, 768);
  g_assert_cmpint (count_at (scenario, 0, PSI_KEY_GPUS), ==, 8);
  g_assert_cmpint (count_at (scenario, 0, PSI_KEY_MICRO_BATCH), ==, 4);
  g_assert_true (
      g_str_has_suffix (psi_settings_where (plan->settings, PSI_KEY_MICRO_BATCH), "gpt.scn: [plan] micro_batch"));
  g_assert_cmpuint (scenario->warnings->len, ==, 0);
}

static void
test_named_plans (void)
{
  g_autoptr (PsiScenario) scenario = load_good ("[plan]\nmicro_batch = 2\nworkers = 8\n"
                                                "[plan zero-3]\nprefetch = 3\n"
                                                "[plan big]\nplan = dp\nmicro_batch = 9\n"
                                                "[plan  by hand]\ntp = 2\n"
                                                "[plan cpd-v2]\ntp = 2\n",
                                                NULL, 0, NULL);

  g_assert_cmpuint (scenario->plans->len, ==, 4);
  g_assert_cmpstr (plan_at (scenario, 0)->name, ==, "zero-3");
  g_assert_cmpstr (text_at (scenario, 0, PSI_KEY_PLAN), ==, "zero-3");
  g_assert_cmpint (count_at (scenario, 0, PSI_KEY_MICRO_BATCH), ==, 2);
  g_assert_cmpint (count_at (scenario, 0, PSI_KEY_PREFETCH), ==, 3);
  g_assert_cmpstr (plan_at (scenario, 1)->name, ==, "big");
  g_assert_cmpstr (text_at (scenario, 1, PSI_KEY_PLAN), ==, "dp");
  g_assert_cmpint (count_at (scenario, 1, PSI_KEY_MICRO_BATCH), ==, 9);
  g_assert_cmpint (count_at (scenario, 1, PSI_KEY_PREFETCH), ==, 1);
  g_assert_cmpstr (plan_at (scenario, 2)->name, ==, "by hand");
  g_assert_false (psi_settings_has (plan_at (scenario, 2)->settings, PSI_KEY_PLAN));
  g_assert_false (psi_settings_has (plan_at (scenario, 3)->settings, PSI_KEY_PLAN));
  g_assert_cmpuint (scenario->warnings->len, ==, 1); /* cpd-v2 is nearly a strategy */
}

static void
test_flags (void)
{
  const PsiKeyFlag flags[] = { { PSI_KEY_MICRO_BATCH, "7" }, { PSI_KEY_PLAN, "zero-1" } };
  const PsiKeyFlag pick[] = { { PSI_KEY_PLAN, "big" }, { PSI_KEY_TP, "2" } };
  const PsiKeyFlag miss[] = { { PSI_KEY_PLAN, "bigger" } };
  const PsiKeyFlag wrong[] = { { PSI_KEY_PLAN, "zreo-1" } };
  const char *two = "[plan dp]\n[plan big]\nplan = zero-2\nmicro_batch = 3\n";
  g_autoptr (GError) error = NULL;

  g_autoptr (PsiScenario) bare = psi_scenario_load (NULL, NULL, 0, NULL, &error);
  g_assert_no_error (error);
  g_assert_null (bare->file);
  g_assert_cmpstr (plan_at (bare, 0)->name, ==, "plan");

  g_autoptr (PsiScenario) only = psi_scenario_load (NULL, flags, 2, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (plan_at (only, 0)->name, ==, "zero-1");
  g_assert_cmpint (count_at (only, 0, PSI_KEY_MICRO_BATCH), ==, 7);
  g_assert_cmpstr (psi_settings_where (plan_at (only, 0)->settings, PSI_KEY_MICRO_BATCH), ==, "--micro-batch");

  g_autoptr (PsiScenario) over = load_good ("[plan]\nplan = dp\nmicro_batch = 1\n", flags, 2, NULL);
  g_assert_cmpstr (plan_at (over, 0)->name, ==, "zero-1");
  g_assert_cmpint (count_at (over, 0, PSI_KEY_MICRO_BATCH), ==, 7);

  g_autoptr (PsiScenario) each = load_good (two, flags, 1, NULL);
  g_assert_cmpint (count_at (each, 0, PSI_KEY_MICRO_BATCH), ==, 7);
  g_assert_cmpint (count_at (each, 1, PSI_KEY_MICRO_BATCH), ==, 7);

  g_autoptr (PsiScenario) picked = load_good (two, pick, 2, NULL);
  g_assert_cmpuint (picked->plans->len, ==, 1);
  g_assert_cmpstr (plan_at (picked, 0)->name, ==, "big");
  g_assert_cmpstr (text_at (picked, 0, PSI_KEY_PLAN), ==, "zero-2");
  g_assert_cmpint (count_at (picked, 0, PSI_KEY_TP), ==, 2);

  g_assert_null (load (two, miss, 1, NULL, &error));
  g_assert_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_PLAN);
  g_assert_nonnull (strstr (error->message, "(one of: dp, big)"));
  g_clear_error (&error);
  g_assert_null (psi_scenario_load (NULL, wrong, 1, NULL, &error));
  g_assert_cmpstr (error->message, ==, "--plan: unknown plan 'zreo-1' (did you mean 'zero-1'?)");
}

static void
test_plan_list (void)
{
  const char *const names[] = { "dp", "cdp-v2", NULL }, *const twice[] = { "dp", "dp", NULL };
  const char *const unknown[] = { "dp", "qqqqq", NULL };
  const PsiKeyFlag flags[] = { { PSI_KEY_WORKERS, "4" } }, both[] = { { PSI_KEY_PLAN, "dp" } };
  g_autoptr (GError) error = NULL;

  g_autoptr (PsiScenario) scenario =
      load_good ("[plan]\nplan = zero-3\nmicro_batch = 5\n[plan tp]\nmicro_batch = 8\n", flags, 1, names);
  g_assert_cmpuint (scenario->plans->len, ==, 2);
  g_assert_cmpstr (plan_at (scenario, 1)->name, ==, "cdp-v2");
  g_assert_cmpstr (text_at (scenario, 1, PSI_KEY_PLAN), ==, "cdp-v2");
  g_assert_cmpint (count_at (scenario, 1, PSI_KEY_MICRO_BATCH), ==, 5);
  g_assert_cmpint (count_at (scenario, 0, PSI_KEY_WORKERS), ==, 4);

  g_assert_null (psi_scenario_load (NULL, NULL, 0, twice, &error));
  g_assert_cmpstr (error->message, ==, "--plans: 'dp' is written twice");
  g_clear_error (&error);
  g_assert_null (psi_scenario_load (NULL, NULL, 0, unknown, &error));
  g_assert_true (g_str_has_prefix (error->message, "--plans: unknown plan 'qqqqq' (one of: "));
  g_clear_error (&error);
  g_assert_null (psi_scenario_load (NULL, both, 1, names, &error));
  g_assert_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_PLAN);
}

static void
test_refused_text (void)
{
  static const struct
  {
    const char *text, *message;
  } rows[] = {
    { "", ": the file is empty" },
    { "# nothing\n\n", ": no group [model], [machine] or [plan]" },
    { "tp = 2\n[plan]\n", ":1: key 'tp' before any group; it belongs in [plan]" },
    { "[plan]\nmico_batch = 2\n", ":2: [plan] unknown key 'mico_batch' (did you mean 'micro_batch'?)" },
    { "[plan dp]\nxyzzy = 2\n", ":2: [plan dp] unknown key 'xyzzy'" },
    { "[model]\n\ntp = 2\n", ":3: [model] key 'tp' belongs in [plan]" },
    { "[plan]\ntp = 2\n# c\ntp = 2\n", ":4: [plan] key 'tp' is written twice (first in line 2)" },
    { "[plan]\nmicro_batch = 2\nmicro-batch = 2\n", ":3: [plan] key 'micro-batch' is written twice (first in line 2)" },
    { "[plan]\n[model]\n[plan]\n", ":3: group [plan] is written twice (first in line 1)" },
    { "[plan dp]\n[plan   dp]\n", ":2: group [plan dp] is written twice (first in line 1)" },
    { "[modle]\n", ":1: unknown group 'modle' (one of: [model], [machine], [plan], [plan NAME])" },
    { "[model x]\n", ":1: group [model] takes no name" },
    { "[]\n", ":1: unknown group '' (one of: [model], [machine], [plan], [plan NAME])" },
    { "[plan\n", ":1: no ']' at the end of a group name" },
    { "[plan]\ntp 2\n", ":2: no '=' in 'tp 2'" },
    { "[plan]\n= 2\n", ":2: no key before '='" },
    { "[plan]\ntp =\n", ":2: [plan] tp: no value" },
    { "[plan]\ntp = # two\n", ":2: [plan] tp: no value" },
    { "[plan]\nmicro_batch = two\n", ": [plan] micro_batch: 'two' is not a whole number" },
    { "[plan dp]\nmicro_batch = two\n", ": [plan dp] micro_batch: 'two' is not a whole number" },
    { "[plan]\ntp = 2#x\n", ": [plan] tp: '2#x' is not a whole number" },
    { "[plan]\nplan = dpp\n", ": [plan] plan: unknown plan 'dpp' (did you mean 'dp'?)" },
    { "[plan]\nupdate = asynchronos\n",
      ": [plan] update: 'asynchronos' is not one of synchronous, cyclic-v1, cyclic-v2, asynchronous; did "
      "you mean 'asynchronous'?" },
    { "[plan]\nplan = dp\n[plan tp]\n",
      ": [plan] plan: beside [plan NAME], [plan] holds what they share and names no strategy" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    check_refused (rows[i].text, -1, rows[i].message);
  check_refused ("[plan]\ntp\0= 2\n", 13, ": not a text file (UTF-8)");
  check_refused ("[plan]\ntp = \xff\xfe\n", 14, ": not a text file (UTF-8)");
}

static void
test_refused_files (void)
{
  g_autofree char *missing = g_build_filename (folder, "missing.scn", NULL);
  g_autofree char *large = g_strnfill ((17 << 20), '\n');
  g_autoptr (GError) error = NULL;

  g_assert_null (psi_scenario_load (missing, NULL, 0, NULL, &error));
  g_assert_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_READ);
  g_clear_error (&error);
  g_assert_null (psi_scenario_load (folder, NULL, 0, NULL, &error));
  g_assert_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_READ);
  g_clear_error (&error);
  g_assert_null (psi_scenario_load ("", NULL, 0, NULL, &error));
  g_assert_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_READ);
  check_refused (large, -1, ": larger than 16 MiB");
}

/* Files named in a scenario are looked for beside it. */
static void
test_files_beside (void)
{
  g_autofree char *beside = write_file ("my.machine", "x", -1);
  g_autoptr (PsiScenario) scenario =
      load_good ("[machine]\nmachine = my.machine\n[model]\nmodel = qwen2.5-7b\n", NULL, 0, NULL);

  g_assert_cmpstr (text_at (scenario, 0, PSI_KEY_MACHINE), ==, beside);
  g_assert_cmpstr (text_at (scenario, 0, PSI_KEY_MODEL), ==, "qwen2.5-7b");
}

/* Whatever is cut off or garbled is either read or refused with one line. */
static void
test_garbled (void)
{
  const char *good = "# t\n[model]\nmodel = gpt2\n[plan dp]\nmicro_batch = 2 # x\n[plan zero-3]\nrecompute = full\n";
  gsize length = strlen (good);
  GRand *random = g_rand_new_with_seed (20240229);

  for (guint i = 0; i < 400; i++)
    {
      g_autofree char *text = g_strdup (good);
      g_autoptr (GError) error = NULL;
      gsize n = i < length ? i : length;

      for (guint j = 0; i >= length && j < 3; j++)
        text[g_rand_int_range (random, 0, (int) length)] = (char) g_rand_int_range (random, 1, 256);
      g_autofree char *path = write_file ("garbled.scn", text, (gssize) n);
      g_autoptr (PsiScenario) scenario = psi_scenario_load (path, NULL, 0, NULL, &error);
      g_assert_true ((scenario != NULL) == (error == NULL));
      if (error != NULL)
        {
          g_assert_null (strchr (error->message, '\n'));
          g_assert_true (g_utf8_validate (error->message, -1, NULL));
        }
    }
  g_rand_free (random);
}

/* A title is what a person reads at a glance, by characters, not bytes. */
static void
test_long_title (void)
{
  g_autoptr (GString) text = g_string_new ("# ");

  for (guint i = 0; i < 300; i++)
    g_string_append (text, "\xc3\xa4");
  g_string_append (text, "\n[model]\nmodel = uniform\n");
  g_autoptr (PsiScenario) scenario = load_good (text->str, NULL, 0, NULL);
  g_assert_true (g_utf8_validate (scenario->title, -1, NULL));
  g_assert_cmpint (g_utf8_strlen (scenario->title, -1), ==, 200);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  folder = g_dir_make_tmp ("psisim-scenario-XXXXXX", NULL);
  g_assert_nonnull (folder);
  g_test_add_func ("/sim/scenario/long-title", test_long_title);
  g_test_add_func ("/sim/scenario/one-plan", test_one_plan);
  g_test_add_func ("/sim/scenario/named-plans", test_named_plans);
  g_test_add_func ("/sim/scenario/flags", test_flags);
  g_test_add_func ("/sim/scenario/plan-list", test_plan_list);
  g_test_add_func ("/sim/scenario/refused-text", test_refused_text);
  g_test_add_func ("/sim/scenario/refused-files", test_refused_files);
  g_test_add_func ("/sim/scenario/files-beside", test_files_beside);
  g_test_add_func ("/sim/scenario/garbled", test_garbled);

  int status = g_test_run ();
  const char *const files[] = { "gpt.scn", "garbled.scn", "my.machine" };
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autofree char *path = g_build_filename (folder, files[i], NULL);

      g_remove (path);
    }
  g_rmdir (folder);
  g_free (folder);
  return status;
}
