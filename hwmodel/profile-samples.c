/* SPDX-License-Identifier: MIT */
/* Samples to profile: one median for each point, one fit for each curve, and what looks wrong. */
#include "profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double drift_bound = 0.1, error_bound = 0.15; /* relative; beyond them a warning */

/* ---- Curves ---- */

static int
compare_curves (gconstpointer a, gconstpointer b)
{
  const PsiCurveSample *x = a, *y = b;
  int order = strcmp (x->curve, y->curve);
  if (order == 0)
    order = (x->n_nodes > y->n_nodes) - (x->n_nodes < y->n_nodes);
  if (order == 0)
    order = (x->n_ranks > y->n_ranks) - (x->n_ranks < y->n_ranks);
  if (order == 0)
    order = (x->bytes > y->bytes) - (x->bytes < y->bytes);
  return order ? order : (x->sweep > y->sweep) - (x->sweep < y->sweep);
}

static gboolean
same_curve (const PsiCurveSample *a, const PsiCurveSample *b)
{
  return g_str_equal (a->curve, b->curve) && a->n_ranks == b->n_ranks && a->n_nodes == b->n_nodes;
}

/* Median difference between the first and the last sweep at the same size. Samples are sorted. */
static double
curve_drift (const PsiCurveSample *samples, guint n)
{
  g_autofree double *differences = g_new (double, n);
  guint found = 0;

  for (guint i = 0, end; i < n; i = end)
    {
      for (end = i + 1; end < n && samples[end].bytes == samples[i].bytes; end++)
        ;
      if (samples[end - 1].sweep != samples[i].sweep)
        differences[found++] = fabs (samples[end - 1].time_ns / samples[i].time_ns - 1);
    }
  return found ? psi_fit_median (differences, found) : 0;
}

G_GNUC_PRINTF (2, 3)
static void
warn (PsiProfile *profile, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_ptr_array_add (profile->warnings, g_strdup_vprintf (format, args));
  va_end (args);
}

static char *
describe_curve (const PsiCurve *curve)
{
  if (curve->n_ranks < 2)
    return g_strdup (curve->name);
  return curve->n_nodes > 1
             ? g_strdup_printf ("%s over %u ranks on %u nodes", curve->name, curve->n_ranks, curve->n_nodes)
             : g_strdup_printf ("%s over %u ranks", curve->name, curve->n_ranks);
}

static void
add_curves (PsiProfile *profile, const PsiSamples *samples)
{
  guint n = samples->curves->len;
  g_autoptr (GArray) sorted = g_array_copy (samples->curves);
  g_autofree PsiCurvePoint *points = g_new (PsiCurvePoint, n + 1);
  const PsiCurveSample *all = (const PsiCurveSample *) (void *) sorted->data;

  g_array_sort (sorted, compare_curves);
  for (guint i = 0, end; i < n; i = end)
    {
      for (end = i; end < n && same_curve (&all[i], &all[end]); end++)
        points[end - i] = (PsiCurvePoint){ all[end].bytes, all[end].time_ns, all[end].p10_ns, all[end].p90_ns };
      PsiCurve *curve = psi_curve_fit (all[i].curve, all[i].n_ranks, all[i].n_nodes, points, end - i);
      curve->drift = curve_drift (&all[i], end - i);
      g_ptr_array_add (profile->curves, curve);
      g_autofree char *description = describe_curve (curve);
      if (curve->points->len > 3 && curve->leave_one_out.mean > error_bound)
        warn (profile, "%s: neighbouring sizes predict a point with %.0f %% mean error; the times jump", description,
              100 * curve->leave_one_out.mean);
      if (curve->drift > drift_bound)
        warn (profile, "%s: the two sweeps differ by %.0f %%; something else ran, or the clocks moved", description,
              100 * curve->drift);
    }
}

/* ---- Products ---- */

static int
compare_gemms (gconstpointer a, gconstpointer b)
{
  const PsiProfileGemm *x = a, *y = b;
  const gint64 left[] = { (gint64) x->dtype, (gint64) x->pass, x->batch, x->m, x->n, x->k };
  const gint64 right[] = { (gint64) y->dtype, (gint64) y->pass, y->batch, y->m, y->n, y->k };
  for (guint i = 0; i < G_N_ELEMENTS (left); i++)
    if (left[i] != right[i])
      return left[i] < right[i] ? -1 : 1;
  return 0;
}

static void
add_gemms (PsiProfile *profile, const PsiSamples *samples)
{
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (PsiProfileGemm));
  g_autofree double *values = g_new (double, samples->gemms->len + 1);
  guint skipped = 0;

  for (guint i = 0; i < samples->gemms->len; i++)
    {
      const PsiGemmSample *sample = &g_array_index (samples->gemms, PsiGemmSample, i);
      int dtype = psi_profile_dtype (sample->dtype);
      PsiProfileGemm gemm = { .batch = sample->batch,
                              .m = sample->m,
                              .n = sample->n,
                              .k = sample->k,
                              .time_ns = sample->time_ns,
                              .p10_ns = sample->p10_ns,
                              .p90_ns = sample->p90_ns };
      for (gemm.pass = 0;
           gemm.pass < PSI_N_PROFILE_PASSES && !g_str_equal (sample->pass, psi_profile_pass_names[gemm.pass]);)
        gemm.pass++;
      if (dtype < 0 || gemm.pass == PSI_N_PROFILE_PASSES)
        {
          skipped++;
          continue;
        }
      gemm.dtype = (PsiDtype) dtype;
      g_array_append_val (all, gemm);
    }
  g_array_sort (all, compare_gemms);
  for (guint i = 0, end; i < all->len; i = end)
    {
      PsiProfileGemm gemm = g_array_index (all, PsiProfileGemm, i);
      for (end = i; end < all->len && compare_gemms (&gemm, &g_array_index (all, PsiProfileGemm, end)) == 0; end++)
        values[end - i] = g_array_index (all, PsiProfileGemm, end).time_ns;
      gemm.time_ns = psi_fit_median (values, end - i);
      g_array_append_val (profile->gemms, gemm);
    }
  if (skipped)
    warn (profile, "%u products of unknown type or pass were left out", skipped);
  psi_profile_prepare_gemms (profile);
  for (guint i = 0; i < PSI_N_DTYPES; i++)
    if (profile->gemm_error[i].mean > error_bound)
      warn (profile, "%s products: neighbouring shapes predict a point with %.0f %% mean error",
            psi_profile_dtype_names[i], 100 * profile->gemm_error[i].mean);
}

/* ---- All of it ---- */

static double
provenance_number (JsonObject *provenance, const char *key)
{
  JsonNode *node = json_object_get_member (provenance, key);
  return node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) != G_TYPE_STRING
             ? json_node_get_double (node)
             : 0;
}

static char *
provenance_text (JsonObject *provenance, const char *key)
{
  JsonNode *node = json_object_get_member (provenance, key);
  return node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? g_strdup (json_node_get_string (node))
             : NULL;
}

/* Median of everything measured under one name and group. */
static void
add_values (PsiProfile *profile, const PsiSamples *samples)
{
  g_autofree double *values = g_new (double, samples->values->len + 1);

  for (guint i = 0; i < samples->values->len; i++)
    {
      PsiValueSample value = g_array_index (samples->values, PsiValueSample, i);
      gboolean seen = FALSE;
      guint n = 0;
      for (guint j = 0; j < samples->values->len; j++)
        {
          const PsiValueSample *other = &g_array_index (samples->values, PsiValueSample, j);
          if (other->n_ranks != value.n_ranks || !g_str_equal (other->name, value.name))
            continue;
          seen |= j < i;
          values[n++] = other->value;
        }
      if (seen)
        continue;
      value.value = psi_fit_median (values, n);
      g_array_append_val (profile->values, value);
    }
}

static double
value_or_zero (const PsiProfile *profile, const char *name)
{
  double value = psi_profile_value (profile, name, 0);
  return isnan (value) ? 0 : MAX (value, 0);
}

PsiProfile *
psi_profile_from_samples (const PsiSamples *samples, const char *name, const char *kind, const char *source)
{
  PsiProfile *profile = psi_profile_new ();
  JsonObjectIter iter;
  const char *key;
  JsonNode *node;

  json_object_iter_init_ordered (&iter, samples->provenance);
  while (json_object_iter_next_ordered (&iter, &key, &node))
    json_object_set_member (profile->provenance, key, json_node_copy (node));
  profile->kind = g_strdup (kind);
  profile->source = g_strdup (source);
  profile->gpu = provenance_text (samples->provenance, "gpu");
  profile->created = provenance_text (samples->provenance, "created");
  profile->tool_version = provenance_text (samples->provenance, "tool_version");
  profile->command = provenance_text (samples->provenance, "command");
  profile->name = g_strdup (name ? name : profile->gpu ? profile->gpu : "unnamed");
  profile->sms = (guint) CLAMP (provenance_number (samples->provenance, "sms"), 0, 1e6);
  profile->usable_bytes = (gint64) provenance_number (samples->provenance, "memory_usable_bytes");
  if (profile->usable_bytes == 0)
    profile->usable_bytes = (gint64) provenance_number (samples->provenance, "memory_total_bytes");

  add_values (profile, samples);
  profile->launch_ns = value_or_zero (profile, "launch_stream_ns");
  profile->graph_launch_ns = value_or_zero (profile, "launch_graph_ns");
  profile->issue_ns = value_or_zero (profile, "launch_issue_ns");
  profile->context_bytes = (gint64) value_or_zero (profile, "memory_context_bytes");
  add_curves (profile, samples);
  psi_profile_prepare_memory (profile);
  add_gemms (profile, samples);
  if (samples->n_throttled)
    warn (profile, "%u points were measured while temperature or hardware held the clocks down", samples->n_throttled);
  profile->n_contended = samples->n_contended;
  if (samples->n_contended)
    warn (profile, "%u points shared their core with other programs; their CPU time was taken", samples->n_contended);
  return profile;
}
