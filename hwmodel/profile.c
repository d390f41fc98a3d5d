/* SPDX-License-Identifier: MIT */
#include "profile.h"

#include <math.h>

G_DEFINE_QUARK (psi_profile_error, psi_profile_error)

const char *const psi_profile_dtype_names[PSI_N_DTYPES] = {
  [PSI_DTYPE_FP32] = "fp32", [PSI_DTYPE_TF32] = "tf32",   [PSI_DTYPE_FP16] = "fp16",   [PSI_DTYPE_BF16] = "bf16",
  [PSI_DTYPE_FP8] = "fp8",   [PSI_DTYPE_MXFP8] = "mxfp8", [PSI_DTYPE_NVFP4] = "nvfp4",
};
const char *const psi_profile_pass_names[PSI_N_PROFILE_PASSES] = {
  [PSI_PROFILE_FORWARD] = "forward",
  [PSI_PROFILE_INPUT] = "input",
  [PSI_PROFILE_WEIGHT] = "weight",
};

int
psi_profile_dtype (const char *name)
{
  for (int i = 0; i < PSI_N_DTYPES; i++)
    if (g_str_equal (name, psi_profile_dtype_names[i]))
      return i;
  return -1;
}

PsiProfile *
psi_profile_new (void)
{
  PsiProfile *profile = g_new0 (PsiProfile, 1);
  profile->provenance = json_object_new ();
  profile->gemms = g_array_new (FALSE, FALSE, sizeof (PsiProfileGemm));
  profile->curves = g_ptr_array_new_with_free_func ((GDestroyNotify) psi_curve_free);
  profile->values = g_array_new (FALSE, FALSE, sizeof (PsiValueSample));
  profile->warnings = g_ptr_array_new_with_free_func (g_free);
  return profile;
}

void
psi_profile_free (PsiProfile *profile)
{
  if (profile == NULL)
    return;
  g_free (profile->name);
  g_free (profile->kind);
  g_free (profile->source);
  g_free (profile->created);
  g_free (profile->tool_version);
  g_free (profile->command);
  g_free (profile->gpu);
  json_object_unref (profile->provenance);
  g_array_unref (profile->gemms);
  g_ptr_array_unref (profile->curves);
  g_array_unref (profile->values);
  g_ptr_array_unref (profile->warnings);
  g_free (profile);
}

/* ---- Curves ---- */

static gboolean
same_name (const char *a, const char *b)
{
  for (; *a && *b; a++, b++)
    if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b))
      return FALSE;
  return *a == *b;
}

const PsiCurve *
psi_profile_curve (const PsiProfile *profile, const char *name, guint n_ranks, guint n_nodes)
{
  for (guint i = 0; i < profile->curves->len; i++)
    {
      const PsiCurve *curve = profile->curves->pdata[i];
      if (curve->n_ranks == n_ranks && curve->n_nodes == n_nodes && same_name (curve->name, name))
        return curve;
    }
  return NULL;
}

double
psi_profile_curve_time (const PsiProfile *profile, const char *name, guint n_ranks, guint n_nodes, gint64 bytes)
{
  const PsiCurve *below = NULL, *above = NULL;

  if (bytes <= 0)
    return 0;
  for (guint i = 0; i < profile->curves->len; i++)
    {
      const PsiCurve *curve = profile->curves->pdata[i];
      if (curve->n_nodes != n_nodes || !same_name (curve->name, name))
        continue;
      if (curve->n_ranks == n_ranks)
        return psi_curve_time_ns (curve, (double) bytes) * 1e-9;
      if (curve->n_ranks < n_ranks && (below == NULL || curve->n_ranks > below->n_ranks))
        below = curve;
      if (curve->n_ranks > n_ranks && (above == NULL || curve->n_ranks < above->n_ranks))
        above = curve;
    }
  if (below == NULL || above == NULL)
    return -1;
  double x = log ((double) n_ranks / below->n_ranks) / log ((double) above->n_ranks / below->n_ranks);
  double low_ns = psi_curve_time_ns (below, (double) bytes), high_ns = psi_curve_time_ns (above, (double) bytes);
  return low_ns * pow (high_ns / low_ns, x) * 1e-9;
}

double
psi_profile_value (const PsiProfile *profile, const char *name, guint n_ranks)
{
  for (guint i = 0; i < profile->values->len; i++)
    {
      const PsiValueSample *value = &g_array_index (profile->values, PsiValueSample, i);
      if ((n_ranks == 0 || value->n_ranks == n_ranks) && g_str_equal (value->name, name))
        return value->value;
    }
  return (double) NAN;
}

/* What the largest buffers of the copy curves reach. */
void
psi_profile_prepare_memory (PsiProfile *profile)
{
  static const char *const names[] = { "device_copy", "scale", "axpy" };

  profile->memory_bytes_per_s = 0;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      const PsiCurve *curve = psi_profile_curve (profile, names[i], 1, 1);
      if (curve == NULL)
        continue;
      const PsiCurvePoint *last = &g_array_index (curve->points, PsiCurvePoint, curve->points->len - 1);
      profile->memory_bytes_per_s = MAX (profile->memory_bytes_per_s, (double) last->bytes / (last->time_ns * 1e-9));
    }
}
