/* SPDX-License-Identifier: MIT */
/* The page for a browser: what its figures are drawn from, its size, and that nothing in it breaks out of its place. */
#include "report-fixture.h"
#include "html-report.h"

#include <json-glib/json-glib.h>
#include <string.h>

static JsonObject *
parse (JsonParser *parser, const char *text)
{
  g_autoptr (GError) error = NULL;

  json_parser_load_from_data (parser, text, -1, &error);
  g_assert_no_error (error);
  return json_node_get_object (json_parser_get_root (parser));
}

static JsonObject *
row_of (JsonObject *curves, guint plan, guint row)
{
  JsonObject *drawn = json_array_get_object_element (json_object_get_array_member (curves, "plans"), plan);

  return json_array_get_object_element (json_object_get_array_member (drawn, "rows"), row);
}

/* Spans and curves come back as they were, to a millionth of a step. */
static void
test_curves (void)
{
  g_autoptr (PsiReport) report = psi_report_new ();
  g_autoptr (JsonParser) parser = json_parser_new ();
  PsiPlanReport *plan = fixture_pipeline ("1f1b", 4, 2, 8);

  g_ptr_array_add (report->plans, plan);
  g_autofree char *text = psi_html_report_curves (report);
  JsonObject *curves = parse (parser, text);
  g_assert_cmpint (json_object_get_int_member (curves, "step_ticks"), ==, 1000000);

  const PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, 1);
  JsonObject *row = row_of (curves, 0, 1);
  g_assert_cmpint (json_object_get_int_member (row, "stage"), ==, rank->stage);
  JsonArray *spans = json_object_get_array_member (row, "spans");
  gint64 sums[PSI_N_SPAN] = { 0 }, wanted[PSI_N_SPAN] = { 0 };
  for (guint i = 0; i < json_array_get_length (spans); i += 5)
    sums[json_array_get_int_element (spans, i)] += json_array_get_int_element (spans, i + 4);
  for (guint i = 0; i < rank->spans->len; i++)
    {
      const PsiSpan *span = &g_array_index (rank->spans, PsiSpan, i);
      wanted[span->kind] += span->end_ps - span->start_ps;
    }
  for (guint kind = 0; kind < PSI_N_SPAN; kind++)
    {
      double share = (double) wanted[kind] / (double) plan->step_time_ps;
      g_assert_cmpfloat_with_epsilon ((double) sums[kind] / 1e6, share, 1e-4);
    }

  /* The changes add up to the last point. */
  JsonArray *points = json_object_get_array_member (row, "memory");
  const PsiMemoryPoint *last = &g_array_index (rank->memory, PsiMemoryPoint, rank->memory->len - 1);
  gint64 bytes[PSI_N_MEMORY] = { 0 };
  g_assert_cmpuint (json_array_get_length (points), ==, rank->memory->len);
  for (guint i = 0; i < json_array_get_length (points); i++)
    {
      JsonArray *change = json_array_get_array_element (points, i);
      for (guint k = 1; k < json_array_get_length (change); k += 2)
        bytes[json_array_get_int_element (change, k)] += json_array_get_int_element (change, k + 1);
    }
  for (guint c = 0; c < PSI_N_MEMORY; c++)
    g_assert_cmpint (bytes[c], ==, last->bytes[c]);
}

/* A very large plan still makes a small page, with the fullest class and its peak in it. */
static void
test_large (void)
{
  g_autoptr (PsiReport) report = psi_report_new ();
  g_autoptr (JsonParser) parser = json_parser_new ();
  PsiPlanReport *plan = psi_plan_report_new ("wide");

  plan->step_time_ps = 1000000000;
  for (guint i = 0; i < 300; i++)
    {
      PsiRankReport *rank = psi_plan_report_add_rank (plan);
      rank->rank = i;
      rank->stage = (int) i;
      rank->device_bytes = i == 177 ? 2 : 1;
      rank->memory = g_array_new (FALSE, FALSE, sizeof (PsiMemoryPoint));
      rank->spans = g_array_new (FALSE, FALSE, sizeof (PsiSpan));
      for (guint k = 0; k < 3000; k++)
        {
          PsiSpan span = { k * 300000, k * 300000 + 200000, PSI_SPAN_FORWARD, 0, (gint32) k, 0 };
          PsiMemoryPoint point = { k * 300000, { 0 } };
          point.bytes[PSI_MEMORY_ACTIVATIONS] = k == 1234 ? G_GINT64_CONSTANT (77777777777) : (k % 2 + 1) * 1000000000;
          g_array_append_val (rank->spans, span);
          g_array_append_val (rank->memory, point);
        }
    }
  g_ptr_array_add (report->plans, plan);
  g_autofree char *text = psi_html_report_curves (report);
  g_assert_cmpuint (strlen (text), <, 1500000);

  JsonObject *drawn = json_array_get_object_element (json_object_get_array_member (parse (parser, text), "plans"), 0);
  JsonArray *rows = json_object_get_array_member (drawn, "rows");
  gboolean has_fullest = FALSE;
  g_assert_cmpint (json_object_get_int_member (drawn, "of"), ==, 300);
  g_assert_true (json_object_get_boolean_member (drawn, "thinned"));
  g_assert_cmpuint (json_array_get_length (rows), ==, 64);
  for (guint i = 0; i < 64; i++)
    {
      JsonObject *row = json_array_get_object_element (rows, i);
      JsonArray *points = json_object_get_array_member (row, "memory");
      gint64 sum = 0, most = 0;

      has_fullest |= json_object_get_int_member (row, "rank") == 177 && json_object_get_boolean_member (row, "fullest");
      for (guint k = 0; k < json_array_get_length (points); k++)
        {
          JsonArray *change = json_array_get_array_element (points, k);
          for (guint c = 2; c < json_array_get_length (change); c += 2)
            sum += json_array_get_int_element (change, c);
          most = MAX (most, sum);
        }
      g_assert_cmpint (most, ==, G_GINT64_CONSTANT (77777777777));
    }
  g_assert_true (has_fullest);
}

/* Names that users give stay text. */
static void
test_page (void)
{
  g_autoptr (PsiReport) report = psi_report_new ();
  g_autoptr (GError) error = NULL;

  report->title = g_strdup ("<b>a & b</b> @REPORT@");
  report->machine = g_strdup ("ideal");
  report->machine_description = g_strdup ("m");
  report->machine_kind = g_strdup ("datasheet");
  report->model = g_strdup ("uniform");
  report->model_description = g_strdup ("u");
  g_ptr_array_add (report->plans, fixture_pipeline ("</script><script>alert(1)//", 2, 1, 4));
  g_autofree char *page = psi_html_report (report, &error);
  g_assert_no_error (error);
  g_assert_nonnull (strstr (page, "<title>&lt;b&gt;a &amp; b&lt;/b&gt; @REPORT@</title>"));
  g_assert_null (strstr (page, "<script>alert"));
  g_assert_nonnull (strstr (page, "\\u003c/script>"));
  g_assert_null (strstr (page, "@CURVES@"));
  g_assert_null (strstr (page, "http://"));
  g_assert_null (strstr (page, "https://"));

  /* Both texts in it are JSON. */
  static const char *const ids[] = { "report", "curves" };
  for (guint i = 0; i < G_N_ELEMENTS (ids); i++)
    {
      g_autofree char *begin = g_strdup_printf ("<script type=\"application/json\" id=\"%s\">", ids[i]);
      const char *from = strstr (page, begin);
      g_assert_nonnull (from);
      from += strlen (begin);
      g_autofree char *json = g_strndup (from, (gsize) (strstr (from, "</script>") - from));
      g_autoptr (JsonParser) parser = json_parser_new ();
      g_assert_cmpuint (json_array_get_length (json_object_get_array_member (parse (parser, json), "plans")), ==, 1);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cli/html-report/curves", test_curves);
  g_test_add_func ("/cli/html-report/large", test_large);
  g_test_add_func ("/cli/html-report/page", test_page);
  return g_test_run ();
}
