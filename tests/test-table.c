/* SPDX-License-Identifier: MIT */
/* What people read: numbers with units, verdicts in words, pages that fit the screen and any terminal. */
#include "report-fixture.h"
#include "table-report.h"
#include "table-units.h"

#include <string.h>

static const PsiTerminal plain = { FALSE, FALSE }, rich = { TRUE, TRUE };

#define assert_text(call, expected)                                                                                    \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    g_autofree char *text_ = (call);                                                                                   \
    g_assert_cmpstr (text_, ==, expected);                                                                             \
  }                                                                                                                    \
  G_STMT_END

static void
test_numbers (void)
{
  assert_text (psi_format_number (0), "0");
  assert_text (psi_format_number (1234.5), "1234");
  assert_text (psi_format_number (0.5), "0.5");
  assert_text (psi_format_number (0.012345), "0.01235");
  assert_text (psi_format_number (9.9996), "10");
  assert_text (psi_format_number (-2.50), "-2.5");
  assert_text (psi_format_number ((double) NAN), "-");
  assert_text (psi_format_bytes (0), "0 B");
  assert_text (psi_format_bytes (1023), "1023 B");
  assert_text (psi_format_bytes (1024), "1 KiB");
  assert_text (psi_format_bytes (1536.0 * 1024 * 1024), "1.5 GiB");
  assert_text (psi_format_bytes (1024.0 * 1024 * 1024 - 1), "1 GiB"); /* never 1024 MiB */
  assert_text (psi_format_time (0), "0 s");
  assert_text (psi_format_time (1), "1 ps");
  assert_text (psi_format_time (18500000000), "18.5 ms");
  assert_text (psi_format_time (999999999999), "1 s"); /* never 1000 ms */
  assert_text (psi_format_time (G_GINT64_CONSTANT (12345678000000000)), "12346 s");
  assert_text (psi_format_count (6738415616), "6.738 B");
  assert_text (psi_format_count (12), "12");
  assert_text (psi_format_percent (0.4512), "45.1 %");
}

static void
test_column_unit (void)
{
  PsiUnit unit = psi_unit_for_bytes (83.0 * FIXTURE_GIB);

  g_assert_cmpstr (unit.name, ==, "GiB");
  assert_text (psi_format_in_unit (83.0 * FIXTURE_GIB, &unit), "83.00");
  assert_text (psi_format_in_unit (0, &unit), "-");
  assert_text (psi_format_in_unit (1000, &unit), "<0.01");
  unit = psi_unit_for_bytes (700);
  assert_text (psi_format_in_unit (700, &unit), "700");
}

static void
test_verdict (void)
{
  g_autoptr (PsiReport) report = fixture_report ();
  PsiPlanReport *plan = report->plans->pdata[0], *cyclic = report->plans->pdata[1];

  assert_text (psi_verdict_line (plan), "fits: 44.16 of 79.15 GiB on the fullest GPU (rank 0, stage 0), 44.2 % free");
  assert_text (psi_verdict_line (cyclic), "oom: out of memory by 3.904 GiB, 83.05 of 79.15 GiB needed on the fullest "
                                          "GPU (rank 0); 4 of 4 GPUs do not fit");
  plan->verdict = PSI_VERDICT_TIGHT;
  plan->capacity_bytes = plan->device_bytes / 95 * 100;
  assert_text (psi_verdict_line (plan),
               "tight: 44.16 of 46.48 GiB on the fullest GPU (rank 0, stage 0), only 5.0 % free");
  plan->verdict = PSI_VERDICT_FITS;
  plan->capacity_bytes = -1;
  plan->gpus = 1;
  assert_text (psi_verdict_line (plan), "fits: 44.16 GiB on the GPU; this machine's memory has no end");
}

/* No line over `width` columns, none that ends in blanks; only ASCII and no escapes on a plain terminal. */
static void
check_page (const char *page, glong width, gboolean is_plain)
{
  g_auto (GStrv) lines = g_strsplit (page, "\n", -1);

  g_assert_true (g_str_has_suffix (page, "\n"));
  g_assert_true (g_utf8_validate (page, -1, NULL));
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_assert_false (g_str_has_suffix (lines[i], " "));
      if (is_plain)
        {
          g_assert_true (g_str_is_ascii (lines[i]));
          g_assert_null (strchr (lines[i], '\033'));
          g_assert_cmpint (g_utf8_strlen (lines[i], -1), <=, width);
        }
    }
}

static void
test_run_page (void)
{
  g_autoptr (PsiReport) report = fixture_report ();

  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      g_autofree char *page = psi_table_run (report, plan, &plain, FALSE), *full = NULL, *coloured = NULL;
      check_page (page, 120, TRUE);
      g_assert_nonnull (strstr (page, plan->layout));
      g_assert_nonnull (strstr (page, "-v lists them"));
      g_assert_null (strstr (page, plan->assumptions->pdata[0]));
      full = psi_table_run (report, plan, &plain, TRUE);
      g_assert_nonnull (strstr (full, plan->assumptions->pdata[0]));
      coloured = psi_table_run (report, plan, &rich, FALSE);
      check_page (coloured, 120, FALSE);
      g_assert_nonnull (strchr (coloured, '\033'));
    }
  g_autofree char *page = psi_table_run (report, report->plans->pdata[1], &plain, FALSE);
  g_assert_nonnull (strstr (page, "recompute=selective  61 GiB   154.5 ms"));
  g_assert_nonnull (strstr (page, "too full"));
  g_assert_nonnull (
      strstr (page, "inside a node  nvlink3  300 GB/s           120 GB/s            8 GB/s       100 ms"));
  g_assert_nonnull (strstr (page, "hdr200    25 GB/s            no rate           no rate"));
  g_assert_nonnull (strstr (page, "times the work of one (which would not have the memory)"));
  g_assert_nonnull (strstr (page, "more rows (-v shows all)"));
  g_assert_nonnull (strstr (page, "gradients are 0.375 steps old on average, 1 at most; 2 parameter versions"));
}

/* The star of the shortest step is for steps of the same work only. */
static void
test_stars (void)
{
  for (guint factor = 1; factor <= 2; factor++)
    {
      g_autoptr (PsiReport) report = fixture_report ();
      PsiPlanReport *first = report->plans->pdata[0], *second = report->plans->pdata[1];

      g_ptr_array_set_size (report->plans, 2);
      first->verdict = second->verdict = PSI_VERDICT_FITS;
      second->step_time_ps = first->step_time_ps / 4 * 3;
      first->samples_per_s = 30;
      second->samples_per_s = 40.0 / factor;
      first->tokens_per_s = second->tokens_per_s = (double) NAN;
      g_autofree char *page = psi_table_compare (report, &plain, FALSE);
      g_autofree char *step = psi_format_time (second->step_time_ps);
      g_autofree char *number = g_strndup (step, strcspn (step, " "));
      g_autofree char *starred = g_strconcat (number, "*", NULL);
      g_assert_nonnull (strstr (page, number));
      g_assert_true ((strstr (page, starred) != NULL) == (factor == 1));
      g_assert_true ((strstr (page, "samples per s compare, steps do not") != NULL) == (factor == 2));
      g_assert_nonnull (strstr (page, factor == 1 ? "40*" : "30*"));
    }
}

/* A plan of which nothing is known prints without a fault. */
static void
test_bare_page (void)
{
  g_autoptr (PsiReport) report = psi_report_new ();
  PsiPlanReport *plan = psi_plan_report_new ("bare");

  g_ptr_array_add (report->plans, plan);
  g_autofree char *page = psi_table_run (report, plan, &plain, TRUE);
  check_page (page, 120, TRUE);
  g_autofree char *both = psi_table_compare (report, &plain, TRUE);
  check_page (both, 120, TRUE);
  g_assert_null (strstr (both, "nan"));
}

static void
test_many_classes (void)
{
  g_autoptr (PsiReport) report = fixture_report_empty ();

  g_ptr_array_add (report->plans, fixture_pipeline ("deep", 40, 8, 1));
  g_autofree char *page = psi_table_run (report, report->plans->pdata[0], &plain, FALSE);
  g_autofree char *full = psi_table_run (report, report->plans->pdata[0], &plain, TRUE);
  g_assert_nonnull (strstr (page, "... 24 more rows (-v shows all)"));
  g_assert_null (strstr (full, "more rows"));
}

static void
test_compare_page (void)
{
  g_autoptr (PsiReport) report = fixture_report ();

  g_ptr_array_add (report->plans, fixture_pipeline ("a-plan-with-quite-a-long-name-indeed", 2, 4, 1));
  g_autofree char *page = psi_table_compare (report, &plain, FALSE);
  check_page (page, 120, TRUE);
  g_assert_nonnull (strstr (page, "a-plan..indeed"));
  g_assert_nonnull (strstr (page, "187.5 k*")); /* most tokens per second */
  g_assert_nonnull (strstr (page, "123.6  "));  /* fastest, but out of memory: not marked */
  g_assert_nonnull (strstr (page, "would fit with recompute=selective"));
}

/* Pieces of a bar are rounded together: together they are as long as the whole. */
static void
test_bar (void)
{
  PsiBarPart parts[3] = { { 1, PSI_STYLE_PLAIN, '#', "#" },
                          { 1, PSI_STYLE_PLAIN, '=', "=" },
                          { 1, PSI_STYLE_PLAIN, '.', "." } };

  assert_text (psi_bar (&plain, parts, 3, 3, 10), "###====...");
  assert_text (psi_bar (&plain, parts, 3, 6, 10), "##=..");
  assert_text (psi_bar (&plain, parts, 3, 0, 10), "");
  assert_text (psi_bar (&plain, parts, 3, 1e-9, 10), "##########");
}

static void
test_wrap (void)
{
  g_autoptr (GString) out = g_string_new (NULL);

  psi_append_wrapped (out, "one two three 44 GiB five", 2, 17);
  g_assert_cmpstr (out->str, ==, "one two three\n  44 GiB five\n");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cli/table/stars", test_stars);
  g_test_add_func ("/cli/table/numbers", test_numbers);
  g_test_add_func ("/cli/table/column-unit", test_column_unit);
  g_test_add_func ("/cli/table/verdict", test_verdict);
  g_test_add_func ("/cli/table/run", test_run_page);
  g_test_add_func ("/cli/table/bare", test_bare_page);
  g_test_add_func ("/cli/table/many-classes", test_many_classes);
  g_test_add_func ("/cli/table/compare", test_compare_page);
  g_test_add_func ("/cli/table/bar", test_bar);
  g_test_add_func ("/cli/table/wrap", test_wrap);
  return g_test_run ();
}
