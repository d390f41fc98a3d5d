/* SPDX-License-Identifier: MIT */
/* Fitting curves: known lines come back, outliers and negative start-ups do not disturb, break points are found, and
 * published tables are described to a few percent. */
#include "fit.h"

#include <math.h>
#include <string.h>

static void
add_point (GArray *points, double bytes, double time_ns)
{
  PsiCurvePoint point = { (gint64) bytes, time_ns, time_ns * 0.9, time_ns * 1.1 };
  g_array_append_val (points, point);
}

static PsiCurve *
fit (GArray *points)
{
  return psi_curve_fit ("all_reduce", 8, 1, (const PsiCurvePoint *) (void *) points->data, points->len);
}

static const PsiCurveSegment *
segment (const PsiCurve *curve, guint i)
{
  return &g_array_index (curve->segments, PsiCurveSegment, i);
}

static void
assert_near (double value, double wanted, double relative)
{
  g_assert_cmpfloat_with_epsilon (value, wanted, relative * fabs (wanted));
}

static void
test_line (void)
{
  g_autoptr (GArray) points = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));
  for (int shift = 30; shift >= 3; shift--) /* any order */
    add_point (points, exp2 (shift), 20e3 + exp2 (shift) * 0.0025);
  g_autoptr (PsiCurve) curve = fit (points);

  g_assert_cmpuint (curve->segments->len, ==, 1);
  assert_near (segment (curve, 0)->alpha_ns, 20e3, 1e-6);
  assert_near (segment (curve, 0)->beta_ns_per_byte, 0.0025, 1e-6);
  g_assert_cmpint (segment (curve, 0)->lo_bytes, ==, 8);
  g_assert_cmpint (segment (curve, 0)->hi_bytes, ==, 1 << 30);
  g_assert_cmpfloat (curve->fit.max, <, 1e-6);
  g_assert_cmpint (g_array_index (curve->points, PsiCurvePoint, 0).bytes, ==, 8);

  /* At measured sizes the measurement, between them between, beyond them along the line. */
  assert_near (psi_curve_time_ns (curve, exp2 (20)), 20e3 + exp2 (20) * 0.0025, 1e-9);
  assert_near (psi_curve_time_ns (curve, exp2 (32)), 20e3 + exp2 (32) * 0.0025, 1e-3);
  assert_near (psi_curve_time_ns (curve, 1), 20e3, 1e-3);
  assert_near (psi_curve_time_ns (curve, 1.5 * exp2 (28)), 20e3 + 1.5 * exp2 (28) * 0.0025, 0.01);
}

/* Plain least squares would give a negative start-up here. */
static void
test_not_negative (void)
{
  g_autoptr (GArray) steep = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));
  g_autoptr (GArray) falling = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));
  for (int i = 1; i <= 4; i++)
    {
      add_point (steep, 1000 * i, 10.0 * i * i);
      add_point (falling, 1000 * i, 100.0 / i);
    }
  g_autoptr (PsiCurve) curve = fit (steep);
  g_autoptr (PsiCurve) other = fit (falling);
  for (guint i = 0; i < curve->segments->len; i++)
    g_assert_cmpfloat (segment (curve, i)->alpha_ns, >=, 0);
  for (guint i = 0; i < other->segments->len; i++)
    g_assert_cmpfloat (segment (other, i)->beta_ns_per_byte, >=, 0);
}

static void
test_segments (void)
{
  g_autoptr (GArray) points = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));
  for (int shift = 3; shift <= 30; shift++)
    {
      double bytes = exp2 (shift);
      add_point (points, bytes,
                 shift < 13   ? 15e3 + bytes * 0.5
                 : shift < 21 ? 30e3 + bytes * 0.01
                              : 60e3 + bytes * 0.0025);
    }
  g_autoptr (PsiCurve) curve = fit (points);
  g_assert_cmpuint (curve->segments->len, ==, 3);
  g_assert_cmpint (segment (curve, 0)->hi_bytes, ==, 1 << 12);
  g_assert_cmpint (segment (curve, 1)->lo_bytes, ==, 1 << 13);
  g_assert_cmpint (segment (curve, 1)->hi_bytes, ==, 1 << 20);
  assert_near (segment (curve, 2)->alpha_ns, 60e3, 1e-4);
  g_assert_cmpfloat (curve->fit.max, <, 1e-4);
}

/* Errors are relative: the small sizes count as much as the large ones. One wild point, too fast and so of
 * great weight, does not bend the line. */
static void
test_outlier (void)
{
  g_autoptr (GArray) points = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));
  for (int shift = 3; shift <= 26; shift++)
    add_point (points, exp2 (shift), (20e3 + exp2 (shift) * 0.01) * (shift == 8 ? 0.3 : shift % 2 ? 1.01 : 0.99));
  g_autoptr (PsiCurve) curve = fit (points);
  g_assert_cmpuint (curve->segments->len, ==, 1);
  assert_near (segment (curve, 0)->alpha_ns, 20e3, 0.02);
  assert_near (segment (curve, 0)->beta_ns_per_byte, 0.01, 0.02);
  g_assert_cmpfloat (curve->fit.max, >, 0.5);
}

/* Several measurements of one size become their median. */
static void
test_medians (void)
{
  g_autoptr (GArray) points = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));
  const double times[] = { 10, 12, 500 };
  for (guint i = 0; i < 3; i++)
    add_point (points, 64, times[i]);
  g_autoptr (PsiCurve) curve = fit (points);
  g_assert_cmpuint (curve->points->len, ==, 1);
  g_assert_cmpfloat (psi_curve_time_ns (curve, 64), ==, 12);
  g_assert_cmpfloat (psi_curve_time_ns (curve, 1e6), >, 0);
}

/* Leaving a point out must not use it: one wrong point among good ones is missed by its whole error. */
static void
test_leave_one_out (void)
{
  g_autoptr (GArray) points = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));
  for (int shift = 10; shift <= 20; shift++)
    add_point (points, exp2 (shift), exp2 (shift) * (shift == 15 ? 2 : 1));
  g_autoptr (PsiCurve) curve = fit (points);
  g_assert_cmpfloat (curve->leave_one_out.max, >, 0.4);
  g_assert_cmpfloat (curve->leave_one_out.mean, <, 0.2);

  double errors[] = { 0.3, 0.1, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0 };
  PsiFitError error = psi_fit_error (errors, 10);
  assert_near (error.mean, 0.55, 1e-12);
  assert_near (error.p90, 0.9, 1e-12);
  assert_near (error.max, 1, 1e-12);
}

static void
test_fast (void)
{
  g_autoptr (GArray) points = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));
  g_autoptr (GRand) random = g_rand_new_with_seed (7);
  for (int i = 1; i <= 10000; i++)
    add_point (points, i * 1000.0, (20e3 + i * 10.0) * g_rand_double_range (random, 0.95, 1.05));
  g_autoptr (GTimer) timer = g_timer_new ();
  g_autoptr (PsiCurve) curve = fit (points);
  if (g_test_perf ())
    g_assert_cmpfloat (g_timer_elapsed (timer, NULL), <, 1);
  g_assert_cmpuint (curve->points->len, ==, 10000);
  assert_near (psi_curve_segment_time_ns (curve, 5e6), 70e3, 0.02);
}

/* ---- Published tables ---- */

/* Times jump by design of the machine's tuning tables: its publisher calls the range from 8 KiB to 64 MiB mis-tuned. */
static const char *const excluded[] = { "nccl/h100-2n16g-dgx", NULL };

static void
collect_errors (GHashTable *tables, GArray *fit_errors, GArray *left_out_errors)
{
  GHashTableIter iter;
  gpointer name, value;

  g_hash_table_iter_init (&iter, tables);
  while (g_hash_table_iter_next (&iter, &name, &value))
    {
      GArray *points = value;
      if (points->len < 8)
        continue;
      g_autoptr (PsiCurve) curve = fit (points);
      g_test_message ("%s: %u points, %u segments, fit %.1f %%, p90 %.1f %%, left out %.1f %%, p90 %.1f %%",
                      (char *) name, curve->points->len, curve->segments->len, 100 * curve->fit.mean,
                      100 * curve->fit.p90, 100 * curve->leave_one_out.mean, 100 * curve->leave_one_out.p90);
      for (guint i = 0; i < curve->points->len; i++)
        {
          const PsiCurvePoint *point = &g_array_index (curve->points, PsiCurvePoint, i);
          double error = fabs (psi_curve_segment_time_ns (curve, (double) point->bytes) / point->time_ns - 1);
          g_array_append_val (fit_errors, error);
        }
      g_array_append_val (left_out_errors, curve->leave_one_out.mean);
    }
}

/* Columns are found by name; no field of this file holds a comma inside quotes before the ones that are used. */
static guint
column (char **head, const char *name)
{
  guint i = 0;
  while (head[i] && strcmp (head[i], name) != 0)
    i++;
  g_assert_nonnull (head[i]);
  return i;
}

static char **
split_csv (const char *line)
{
  GStrvBuilder *builder = g_strv_builder_new ();
  GString *field = g_string_new (NULL);
  gboolean quoted = FALSE;
  for (const char *at = line;; at++)
    {
      if (*at == '"')
        quoted = !quoted;
      else if (*at == 0 || (*at == ',' && !quoted))
        {
          g_strv_builder_add (builder, field->str);
          g_string_truncate (field, 0);
        }
      else
        g_string_append_c (field, *at);
      if (*at == 0)
        break;
    }
  g_string_free (field, TRUE);
  char **fields = g_strv_builder_end (builder);
  g_strv_builder_unref (builder);
  return fields;
}

static void
test_published (void)
{
  const char *data = g_getenv ("PSISIM_TEST_DATA");
  g_autofree char *path = g_build_filename (data ? data : ".", "measured-collectives.csv", NULL);
  g_autofree char *text = NULL;
  g_autoptr (GHashTable) tables =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_array_unref);
  g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr (GArray) left_out = g_array_new (FALSE, FALSE, sizeof (double));

  if (!g_file_get_contents (path, &text, NULL, NULL))
    {
      g_test_skip ("no measured-collectives.csv (set PSISIM_TEST_DATA to its folder)");
      return;
    }
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_auto (GStrv) head = split_csv (g_strchomp (lines[0]));
  const guint group = column (head, "group"), op = column (head, "op"), ranks = column (head, "n_ranks"),
              size = column (head, "size_bytes"), out = column (head, "time_oop_us"), in = column (head, "time_ip_us");
  for (char **line = lines + 1; *line && **line; line++)
    {
      g_auto (GStrv) fields = split_csv (g_strchomp (*line));
      double bytes = g_ascii_strtod (fields[size], NULL);
      double time_us = g_ascii_strtod (*fields[out] ? fields[out] : fields[in], NULL);
      if (g_strv_contains (excluded, fields[group]) || !(bytes > 0 && time_us > 0))
        continue;
      char *name = g_strjoin (" ", fields[group], fields[op], fields[ranks], NULL);
      GArray *points = g_hash_table_lookup (tables, name);
      if (points == NULL)
        {
          points = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));
          g_hash_table_insert (tables, name, points);
        }
      else
        g_free (name);
      add_point (points, bytes, time_us * 1e3);
    }
  collect_errors (tables, errors, left_out);
  g_assert_cmpuint (errors->len, >, 500);
  PsiFitError all = psi_fit_error ((double *) (void *) errors->data, errors->len);
  PsiFitError each = psi_fit_error ((double *) (void *) left_out->data, left_out->len);
  g_test_message ("all points: fit mean %.2f %%, p90 %.2f %%; curves left out: mean %.2f %%", 100 * all.mean,
                  100 * all.p90, 100 * each.mean);
  g_assert_cmpfloat (all.mean, <=, 0.04);
  g_assert_cmpfloat (all.p90, <=, 0.10);
  g_assert_cmpfloat (each.mean, <=, 0.04);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hwmodel/fit/line", test_line);
  g_test_add_func ("/hwmodel/fit/not-negative", test_not_negative);
  g_test_add_func ("/hwmodel/fit/segments", test_segments);
  g_test_add_func ("/hwmodel/fit/outlier", test_outlier);
  g_test_add_func ("/hwmodel/fit/medians", test_medians);
  g_test_add_func ("/hwmodel/fit/leave-one-out", test_leave_one_out);
  g_test_add_func ("/hwmodel/fit/fast", test_fast);
  g_test_add_func ("/hwmodel/fit/published", test_published);
  return g_test_run ();
}
