/* SPDX-License-Identifier: MIT */
/* The report as JSON and CSV: exact numbers, nulls, escapes, sums. */
#include "report-fixture.h"
#include "report-walk.h"

#include <json-glib/json-glib.h>
#include <string.h>

static JsonObject *
parse (JsonParser *parser, const PsiReport *report)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = psi_report_to_json (report);

  json_parser_load_from_data (parser, text, -1, &error);
  g_assert_no_error (error);
  g_assert_true (g_str_has_suffix (text, "}\n"));
  return json_node_get_object (json_parser_get_root (parser));
}

static JsonObject *
plan_at (JsonObject *root, guint i)
{
  return json_array_get_object_element (json_object_get_array_member (root, "plans"), i);
}

static void
test_seconds (void)
{
  static const struct
  {
    gint64 ps;
    const char *text;
  } rows[] = {
    { 0, "0" },
    { 1, "0.000000000001" },
    { 1500000000000, "1.5" },
    { 123456789012345, "123.456789012345" },
    { -2000000000, "-0.002" },
    { G_MAXINT64, "9223372.036854775807" },
    { G_MININT64, "-9223372.036854775808" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GString) out = g_string_new (NULL);
      psi_append_seconds (out, rows[i].ps);
      g_assert_cmpstr (out->str, ==, rows[i].text);
    }
}

static void
test_real (void)
{
  static const double values[] = { 0.1, 1.0 / 3, 2.5, 1e300, 5e-324, 12345678.9, -0.875 };
  g_autoptr (GString) out = g_string_new (NULL);

  psi_append_real (out, 0.1);
  g_assert_cmpstr (out->str, ==, "0.1");
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      g_string_truncate (out, 0);
      psi_append_real (out, values[i]);
      double back = g_ascii_strtod (out->str, NULL);
      g_assert_cmpint (memcmp (&back, &values[i], sizeof back), ==, 0);
    }
}

static void
test_values (void)
{
  g_autoptr (PsiReport) report = fixture_report ();
  const PsiPlanReport *plan = report->plans->pdata[0];
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root = parse (parser, report), *json = plan_at (root, 0);

  g_assert_cmpstr (json_object_get_string_member (root, "scenario"), ==, "gpt.scn");
  g_assert_cmpstr (json_object_get_string_member (root, "machine"), ==, "a100-sxm-80");
  g_assert_cmpstr (json_object_get_string_member (root, "model"), ==, "llama-2-7b");
  g_assert_cmpstr (json_object_get_string_member (json, "name"), ==, "1f1b");
  g_assert_cmpstr (json_object_get_string_member (json, "verdict"), ==, "fits");
  g_assert_cmpstr (json_object_get_string_member (json, "digest"), ==, "0x00c0ffee12345678");
  g_assert_cmpint (json_object_get_int_member (json, "gpus"), ==, 8);
  g_assert_true (json_object_get_double_member (json, "step_time_s") == (double) plan->step_time_ps / 1e12);

  JsonObject *memory = json_object_get_object_member (json, "memory");
  JsonArray *ranks = json_object_get_array_member (memory, "ranks");
  g_assert_cmpint (json_object_get_int_member (memory, "peak_bytes"), ==, plan->peak_bytes);
  g_assert_cmpuint (json_array_get_length (ranks), ==, 4);
  JsonObject *last = json_array_get_object_element (ranks, 3);
  g_assert_cmpint (json_object_get_int_member (last, "rank"), ==, 6);
  g_assert_cmpint (json_object_get_int_member (last, "stage"), ==, 3);
  g_assert_cmpint (json_object_get_int_member (last, "count"), ==, 2);

  JsonObject *throughput = json_object_get_object_member (json, "throughput");
  double share = json_object_get_double_member (throughput, "tokens_per_s_per_gpu");
  g_assert_true (fabs (share - plan->tokens_per_s / 8) < 1e-9);
  g_assert_cmpstr (json_object_get_string_member (json_object_get_object_member (plan_at (root, 1), "update"), "rule"),
                   ==, "cyclic-v2");
  JsonArray *advice = json_object_get_array_member (plan_at (root, 1), "advice");
  g_assert_cmpstr (json_object_get_string_member (json_array_get_object_element (advice, 0), "set"), ==,
                   "recompute=selective");
}

static double
sum_of_members (JsonObject *object)
{
  g_autoptr (GList) values = json_object_get_values (object);
  double sum = 0;

  for (GList *l = values; l != NULL; l = l->next)
    sum += json_node_get_double (l->data);
  return sum;
}

/* The six parts add up to the step, the classes of memory to the peak. */
static void
test_sums (void)
{
  g_autoptr (PsiReport) report = fixture_report ();
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *root = parse (parser, report);

  for (guint i = 0; i < report->plans->len; i++)
    {
      JsonObject *json = plan_at (root, i), *time = json_object_get_object_member (json, "time");
      double step_s = json_object_get_double_member (json, "step_time_s");
      g_assert_cmpuint (json_object_get_size (time), ==, 6);
      g_assert_true (fabs (sum_of_members (time) - step_s) < 1e-15);
      JsonArray *ranks = json_object_get_array_member (json_object_get_object_member (json, "memory"), "ranks");
      for (guint r = 0; r < json_array_get_length (ranks); r++)
        {
          JsonObject *rank = json_array_get_object_element (ranks, r);
          gint64 sum = 0;
          for (guint c = 0; c < PSI_N_MEMORY; c++)
            {
              g_autofree char *key = g_strconcat (psi_memory_class_names[c], "_bytes", NULL);
              sum += json_object_get_int_member (rank, key);
            }
          g_assert_cmpint (sum, ==, json_object_get_int_member (rank, "peak_bytes"));
        }
    }
}

static void
test_nulls (void)
{
  g_autoptr (PsiReport) report = psi_report_new ();
  PsiPlanReport *plan = psi_plan_report_new ("bare");
  g_autoptr (JsonParser) parser = json_parser_new ();

  plan->delay_mean = (double) INFINITY;
  psi_plan_report_add_rank (plan);
  g_ptr_array_add (report->plans, plan);
  JsonObject *root = parse (parser, report), *json = plan_at (root, 0);
  JsonObject *memory = json_object_get_object_member (json, "memory");
  JsonObject *throughput = json_object_get_object_member (json, "throughput");

  g_assert_true (json_object_get_null_member (root, "scenario"));
  g_assert_true (json_object_get_null_member (json, "step_time_low_s"));
  g_assert_true (json_object_get_null_member (memory, "capacity_bytes"));
  g_assert_true (json_object_get_null_member (throughput, "tokens_per_s"));
  g_assert_true (json_object_get_null_member (throughput, "tokens_per_s_per_gpu"));
  g_assert_true (json_object_get_null_member (json_object_get_object_member (json, "update"), "delay_mean"));
  g_assert_true (json_object_get_null_member (
      json_array_get_object_element (json_object_get_array_member (memory, "ranks"), 0), "stage"));
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (json, "advice")), ==, 0);
}

/* Whatever a name holds, the JSON parses and gives it back. */
static void
test_escapes (void)
{
  static const char name[] = "a\"b\\c\n\t\001\177 \xce\xa8 /";
  g_autoptr (PsiReport) report = psi_report_new ();
  g_autoptr (JsonParser) parser = json_parser_new ();

  report->scenario = g_strdup ("bad\xff.scn");
  g_ptr_array_add (report->plans, psi_plan_report_new (name));
  JsonObject *root = parse (parser, report);
  g_assert_cmpstr (json_object_get_string_member (plan_at (root, 0), "name"), ==, name);
  g_assert_cmpstr (json_object_get_string_member (root, "scenario"), ==, "bad\xef\xbf\xbd.scn");
}

/* One line of CSV to cells, RFC 4180. */
static GPtrArray *
cells_of (const char **text)
{
  GPtrArray *cells = g_ptr_array_new_with_free_func (g_free);
  const char *c = *text;

  for (gboolean more = TRUE; more; c++)
    {
      g_autoptr (GString) cell = g_string_new (NULL);
      if (*c == '"')
        {
          for (c++; *c != '"' || c[1] == '"'; c++)
            {
              c += *c == '"';
              g_string_append_c (cell, *c);
            }
          c++;
        }
      else
        while (*c != ',' && *c != '\n')
          g_string_append_c (cell, *c++);
      g_assert_true (*c == ',' || *c == '\n');
      more = *c == ',';
      g_ptr_array_add (cells, g_strdup (cell->str));
    }
  *text = c;
  return cells;
}

static const char *
cell (const GPtrArray *header, const GPtrArray *row, const char *key)
{
  for (guint i = 0; i < header->len; i++)
    if (g_str_equal (header->pdata[i], key))
      return row->pdata[i];
  g_error ("no column %s", key);
}

static void
test_csv (void)
{
  g_autoptr (PsiReport) report = fixture_report ();
  PsiPlanReport *cyclic = report->plans->pdata[1];

  g_free (cyclic->name);
  cyclic->name = g_strdup ("cyclic, \"v2\"\nwith care");
  g_autofree char *text = psi_report_to_csv (report);
  const char *rest = text;
  g_autoptr (GPtrArray) header = cells_of (&rest), pipeline = cells_of (&rest), workers = cells_of (&rest);

  g_assert_cmpstr (rest, ==, "");
  g_assert_cmpuint (header->len, ==, pipeline->len);
  g_assert_cmpuint (header->len, ==, workers->len);
  g_assert_cmpstr (cell (header, pipeline, "name"), ==, "1f1b");
  g_assert_cmpstr (cell (header, workers, "name"), ==, cyclic->name);
  g_assert_cmpstr (cell (header, workers, "verdict"), ==, "oom");
  g_assert_cmpstr (cell (header, workers, "step_time_low_s"), ==, "");
  g_assert_cmpstr (cell (header, workers, "time.bubble_s"), ==, "0");
  g_assert_cmpstr (cell (header, workers, "update.delay_mean"), ==, "0.375");
  g_assert_cmpstr (cell (header, pipeline, "time.compute_s"), ==, "0.242962962936");
  g_autofree char *peak =
      g_strdup_printf ("%" G_GINT64_FORMAT, ((PsiPlanReport *) report->plans->pdata[0])->peak_bytes);
  g_assert_cmpstr (cell (header, pipeline, "memory.peak_bytes"), ==, peak);
  g_assert_cmpstr (cell (header, pipeline, "communication.by_kind.boundary"), ==, "6442450944");
  for (guint i = 0; i < header->len; i++)
    for (guint k = 0; k < i; k++)
      g_assert_cmpstr (header->pdata[i], !=, header->pdata[k]);
}

/* What one plan alone has is a column for all of them, whichever comes first. */
static void
test_csv_uneven (void)
{
  for (guint with = 0; with < 2; with++)
    {
      g_autoptr (PsiReport) report = fixture_report ();
      PsiPlanReport *without = report->plans->pdata[1 - with];

      g_assert_nonnull (((PsiPlanReport *) report->plans->pdata[with])->critical_path);
      g_clear_pointer (&without->critical_path, psi_critical_path_free);
      g_autofree char *text = psi_report_to_csv (report);
      const char *rest = text;
      g_autoptr (GPtrArray) header = cells_of (&rest), first = cells_of (&rest), second = cells_of (&rest);

      g_assert_cmpstr (rest, ==, "");
      g_assert_cmpuint (header->len, ==, first->len);
      g_assert_cmpuint (header->len, ==, second->len);
      g_assert_cmpstr (cell (header, with == 0 ? first : second, "critical_path.duration_s"), !=, "");
      g_assert_cmpstr (cell (header, with == 0 ? second : first, "critical_path.duration_s"), ==, "");
      for (guint i = 0; i < header->len; i++)
        g_assert_cmpstr (header->pdata[i], !=, "critical_path");
      g_assert_cmpstr (header->pdata[header->len - 1], ==, "digest");
      g_assert_cmpuint (strlen (second->pdata[second->len - 1]), >, 0);
    }
}

static void
test_csv_without_plans (void)
{
  g_autoptr (PsiReport) report = psi_report_new ();
  g_autofree char *text = psi_report_to_csv (report);

  g_assert_true (g_str_has_prefix (text, "scenario,machine,model,name,layout,verdict,gpus,step_time_s,"));
  g_assert_true (strchr (text, '\n') == text + strlen (text) - 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sim/report/seconds", test_seconds);
  g_test_add_func ("/sim/report/real", test_real);
  g_test_add_func ("/sim/report/values", test_values);
  g_test_add_func ("/sim/report/sums", test_sums);
  g_test_add_func ("/sim/report/nulls", test_nulls);
  g_test_add_func ("/sim/report/escapes", test_escapes);
  g_test_add_func ("/sim/report/csv", test_csv);
  g_test_add_func ("/sim/report/csv-uneven", test_csv_uneven);
  g_test_add_func ("/sim/report/csv-without-plans", test_csv_without_plans);
  return g_test_run ();
}
