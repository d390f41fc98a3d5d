/* SPDX-License-Identifier: MIT */
/* Figures: the data files to the byte, the pictures by their existence and format, and what goes wrong. */
#include "report-fixture.h"
#include "plot.h"

#include <gio/gio.h>
#include <glib/gstdio.h>
#include <string.h>

#define MS G_GINT64_CONSTANT (1000000000)

/* Two workers half a step apart: 3 bytes, then 1. */
static PsiPlanReport *
small_plan (const char *name, gint64 step_ps)
{
  PsiPlanReport *plan = psi_plan_report_new (name);

  plan->gpus = 2;
  plan->step_time_ps = step_ps;
  for (guint i = 0; i < 2; i++)
    {
      PsiRankReport *rank = psi_plan_report_add_rank (plan);
      rank->rank = i;
      rank->device_bytes = 10 + i;
      rank->memory = g_array_new (FALSE, FALSE, sizeof (PsiMemoryPoint));
      rank->spans = g_array_new (FALSE, FALSE, sizeof (PsiSpan));
      PsiMemoryPoint first = { 0, { 0 } }, second = { 2 * MS, { 0 } };
      first.bytes[PSI_MEMORY_ACTIVATIONS] = i == 0 ? 3 : 1;
      second.bytes[PSI_MEMORY_ACTIVATIONS] = i == 0 ? 1 : 3;
      g_array_append_val (rank->memory, first);
      g_array_append_val (rank->memory, second);
    }
  return plan;
}

static void
test_activations (void)
{
  g_autoptr (PsiReport) report = psi_report_new ();

  g_ptr_array_add (report->plans, small_plan ("cdp", 4 * MS));
  g_ptr_array_add (report->plans, fixture_pipeline ("1\t\"f\"#b", 1, 1, 2));
  g_autofree char *text = psi_plot_data_activations (report);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_assert_cmpstr (lines[0], ==, "time_s\tcdp\t1 'f'*b");
  g_assert_cmpstr (lines[1], ==, "0\t4\t6897532928");
  g_assert_cmpstr (lines[2], ==, "0.002\t4\t6897532928");
  g_assert_cmpstr (lines[3], ==, "0.004\t4\t6897532928");
  g_assert_cmpstr (lines[4], ==, "0.030370370367\t\t0"); /* the first plan's step is over */
  g_assert_cmpstr (lines[5], ==, "0.034570370367\t\t0");
  g_assert_cmpstr (lines[6], ==, "");
}

static void
test_memory (void)
{
  g_autoptr (PsiPlanReport) plan = small_plan ("cdp", 4 * MS);
  g_autofree char *text = psi_plot_data_memory (plan);

  /* Of the fullest, to the end of the step. */
  g_assert_cmpstr (text, ==,
                   "time_s\tparameters_bytes\tgradients_bytes\toptimizer_bytes\tactivations_bytes\tboundary_bytes\t"
                   "workspace_bytes\tcommunication_bytes\n"
                   "0\t0\t0\t0\t1\t0\t0\t0\n0.002\t0\t0\t0\t3\t0\t0\t0\n0.004\t0\t0\t0\t3\t0\t0\t0\n");
}

/* The fullest GPU of each plan; nothing to compare with one plan. */
static void
test_memory_plans (void)
{
  g_autoptr (PsiReport) report = psi_report_new ();

  g_ptr_array_add (report->plans, small_plan ("a", 4 * MS));
  g_assert_null (psi_plot_data_memory_plans (report));
  g_ptr_array_add (report->plans, small_plan ("b", 4 * MS));
  PsiRankReport *rank = &g_array_index (((PsiPlanReport *) report->plans->pdata[1])->ranks, PsiRankReport, 1);
  rank->at_peak[PSI_MEMORY_GRADIENTS] = 5;
  rank->peak_bytes = 5;
  rank->reserved_bytes = 9;
  rank->overhead_bytes = 2;
  g_autofree char *text = psi_plot_data_memory_plans (report);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_assert_cmpstr (lines[1], ==, "a\t0\t0\t0\t0\t0\t0\t0\t0\t0");
  g_assert_cmpstr (lines[2], ==, "b\t0\t5\t0\t0\t0\t0\t0\t4\t2");
}

/* Curves with more points than a picture has pixels lose points, not their peak. */
static void
test_thinned (void)
{
  g_autoptr (PsiPlanReport) plan = small_plan ("long", 4 * MS);
  PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, 1);
  g_autofree char *kinds = NULL;
  guint n_rows = 0;

  g_array_set_size (rank->memory, 0);
  for (guint i = 0; i < 50000; i++)
    {
      PsiMemoryPoint point = { i * 1000, { 0 } };
      point.bytes[PSI_MEMORY_ACTIVATIONS] = i == 31234 ? 999 : i % 7;
      g_array_append_val (rank->memory, point);
      fixture_span (rank, PSI_SPAN_FORWARD, i * 1000, 900, (int) i, 0);
    }
  g_autofree char *memory = psi_plot_data_memory (plan);
  g_autofree char *timeline = psi_plot_data_timeline (plan, &n_rows, &kinds);
  g_assert_cmpuint (strlen (memory), <, 60000);
  g_assert_nonnull (strstr (memory, "\t999\t"));
  g_assert_cmpuint (strlen (timeline), <, 300000);
}

/* A span across the end of the step is drawn in two pieces. */
static void
test_timeline (void)
{
  g_autoptr (PsiPlanReport) plan = small_plan ("cdp", 4 * MS);
  PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, 1);
  g_autofree char *kinds = NULL;
  guint n_rows = 0;

  g_assert_null (psi_plot_data_timeline (plan, &n_rows, &kinds));
  fixture_span (rank, PSI_SPAN_BACKWARD, 3 * MS, 2 * MS, 7, 0);
  g_autofree char *text = psi_plot_data_timeline (plan, &n_rows, &kinds);
  g_assert_cmpstr (text, ==,
                   "row\trank\tcount\tkind\tmicro_batch\tstage\tstart_s\tend_s\n"
                   "1\t1\t1\t1\t7\t0\t0.003\t0.004\n1\t1\t1\t1\t7\t0\t0\t0.001\n");
  g_assert_cmpuint (n_rows, ==, 2);
  g_assert_cmpstr (kinds, ==, "1");
}

/* Of too many classes some are left out, the fullest is not. */
static void
test_many_classes (void)
{
  g_autoptr (PsiPlanReport) plan = psi_plan_report_new ("wide");
  guint n_rows = 0;

  for (guint i = 0; i < 1000; i++)
    {
      PsiRankReport *rank = psi_plan_report_add_rank (plan);
      rank->rank = i;
      rank->device_bytes = i == 777 ? 2 : 1;
    }
  g_autofree char *text = psi_plot_data_memory_classes (plan, &n_rows);
  g_assert_cmpuint (n_rows, ==, 64);
  g_assert_nonnull (strstr (text, "\n777\t1\t"));
}

static void
test_traffic (void)
{
  g_autoptr (PsiPlanReport) plan = small_plan ("cdp", 4 * MS);
  PsiTrafficPoint point = { MS, 5 };

  g_assert_null (psi_plot_data_traffic (plan));
  plan->traffic = g_array_new (FALSE, FALSE, sizeof (PsiTrafficPoint));
  plan->total_bytes = 5;
  g_array_append_val (plan->traffic, point);
  g_autofree char *text = psi_plot_data_traffic (plan);
  g_assert_cmpstr (text, ==, "time_s\tbytes\n0\t0\n0.001\t5\n0.004\t5\n");
}

static char *
make_directory (void)
{
  return g_dir_make_tmp ("psi-plot-XXXXXX", NULL);
}

static guint
remove_directory (const char *path)
{
  g_autoptr (GDir) directory = g_dir_open (path, 0, NULL);
  guint n = 0;

  for (const char *name = g_dir_read_name (directory); name != NULL; name = g_dir_read_name (directory), n++)
    {
      g_autofree char *file = g_build_filename (path, name, NULL);
      g_unlink (file);
    }
  g_rmdir (path);
  return n;
}

static void
check_picture (const char *directory, const char *name)
{
  g_autofree char *svg = NULL, *png = NULL;
  g_autofree char *svg_path = g_strconcat (directory, "/", name, ".svg", NULL);
  g_autofree char *png_path = g_strconcat (directory, "/", name, ".png", NULL);
  gsize svg_length = 0, png_length = 0;

  g_assert_true (g_file_get_contents (svg_path, &svg, &svg_length, NULL));
  g_assert_true (g_file_get_contents (png_path, &png, &png_length, NULL));
  g_assert_nonnull (strstr (svg, "</svg>"));
  g_assert_cmpuint (png_length, >, 5000);
  g_assert_cmpint (memcmp (png, "\x89PNG", 4), ==, 0);
  g_assert_cmpint (memcmp (png + png_length - 8, "IEND", 4), ==, 0);
}

static gboolean
skip_without_gnuplot (void)
{
  g_autofree char *gnuplot = g_find_program_in_path ("gnuplot");

  if (gnuplot == NULL)
    g_test_skip ("gnuplot is not installed");
  return gnuplot == NULL;
}

static void
test_draw (void)
{
  static const char *const names[] = { "step-time",      "activations",           "1f1b-memory",
                                       "1f1b-timeline",  "1f1b-memory-classes",   "1f1b-traffic",
                                       "cdp-v2-memory",  "cdp-v2-memory-classes", "cdp-v2-timeline",
                                       "cdp-v2-traffic", "memory-plans" };
  g_autoptr (PsiReport) report = fixture_report ();
  g_autoptr (GError) error = NULL;

  if (skip_without_gnuplot ())
    return;
  g_autofree char *parent = make_directory (), *directory = g_build_filename (parent, "new", NULL);
  guint n = psi_plot_report (report, directory, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, G_N_ELEMENTS (names));
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    check_picture (directory, names[i]);
  g_assert_cmpuint (remove_directory (directory), ==, 3 * G_N_ELEMENTS (names)); /* nothing half is left */
  remove_directory (parent);
}

/* One rank and plan, no time at all, empty memory, odd names, no end of memory. */
static void
test_draw_extremes (void)
{
  g_autoptr (PsiReport) report = fixture_report_empty ();
  g_autoptr (GError) error = NULL;

  if (skip_without_gnuplot ())
    return;
  PsiPlanReport *nothing = psi_plan_report_new ("noth/ing");
  psi_plan_report_add_rank (nothing);
  g_ptr_array_add (report->plans, nothing);
  g_ptr_array_add (report->plans, psi_plan_report_new ("noth-ing"));
  g_ptr_array_add (report->plans, fixture_workers ("'\\n{_x}` $HOME", 1, FALSE, 3));
  g_autofree char *directory = make_directory ();
  guint n = psi_plot_report (report, directory, &error);
  g_assert_no_error (error);
  check_picture (directory, "step-time");
  check_picture (directory, "noth-ing-0-memory-classes");
  check_picture (directory, "plan-2--n-_x----HOME-timeline");
  g_assert_cmpuint (remove_directory (directory), ==, 3 * n);
}

static void
test_directory_error (void)
{
  g_autoptr (PsiReport) report = fixture_report ();
  g_autoptr (GError) error = NULL;

  if (skip_without_gnuplot ())
    return;
  g_autofree char *directory = make_directory (), *file = g_build_filename (directory, "file", NULL);
  g_assert_true (g_file_set_contents (file, "x", 1, NULL));
  g_assert_cmpuint (psi_plot_report (report, file, &error), ==, 0);
  g_assert_error (error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_DIRECTORY);
  g_assert_true (g_str_has_prefix (error->message, "cannot make the directory '"));
  remove_directory (directory);
}

static void
test_without_gnuplot (void)
{
  g_autoptr (PsiReport) report = fixture_report ();
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_strdup (g_getenv ("PATH"));

  g_setenv ("PATH", "/nowhere", TRUE);
  g_assert_cmpuint (psi_plot_report (report, "/nowhere/plots", &error), ==, 0);
  g_setenv ("PATH", path, TRUE);
  g_assert_error (error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_GNUPLOT);
  g_assert_null (strchr (error->message, '\n'));
}

/* A gnuplot that fails leaves nothing behind, and its complaint is told in one line. */
static void
test_failing_gnuplot (void)
{
  g_autoptr (PsiReport) report = fixture_report ();
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_strdup (g_getenv ("PATH"));
  g_autofree char *tools = make_directory (), *program = g_build_filename (tools, "gnuplot", NULL);
  g_autofree char *plots = make_directory ();

  g_assert_true (
      g_file_set_contents (program, "#!/bin/sh\necho '\"a.gp\" line 3: no such thing' >&2\nexit 1\n", -1, NULL));
  g_chmod (program, 0755);
  g_setenv ("PATH", tools, TRUE);
  g_assert_cmpuint (psi_plot_report (report, plots, &error), ==, 0);
  g_setenv ("PATH", path, TRUE);
  g_assert_error (error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_GNUPLOT);
  g_assert_nonnull (strstr (error->message, "\"a.gp\" line 3: no such thing"));
  g_assert_cmpuint (remove_directory (plots), ==, 0);
  remove_directory (tools);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cli/plot/activations", test_activations);
  g_test_add_func ("/cli/plot/memory", test_memory);
  g_test_add_func ("/cli/plot/memory-plans", test_memory_plans);
  g_test_add_func ("/cli/plot/thinned", test_thinned);
  g_test_add_func ("/cli/plot/timeline", test_timeline);
  g_test_add_func ("/cli/plot/many-classes", test_many_classes);
  g_test_add_func ("/cli/plot/traffic", test_traffic);
  g_test_add_func ("/cli/plot/draw", test_draw);
  g_test_add_func ("/cli/plot/draw-extremes", test_draw_extremes);
  g_test_add_func ("/cli/plot/directory-error", test_directory_error);
  g_test_add_func ("/cli/plot/without-gnuplot", test_without_gnuplot);
  g_test_add_func ("/cli/plot/failing-gnuplot", test_failing_gnuplot);
  return g_test_run ();
}
