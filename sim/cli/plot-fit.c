/* SPDX-License-Identifier: MIT */
/* Data of the figures of a profile. */
#include "plot.h"

static void
append_number (GString *out, double value)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append_printf (out, "\t%s", g_ascii_formatd (text, sizeof text, "%.6g", value));
}

static void
append_series (GString *out, const PsiCurve *curve)
{
  if (curve->n_ranks < 2)
    g_string_append_printf (out, "\"one rank\"\n");
  else if (curve->n_nodes > 1)
    g_string_append_printf (out, "\"%u ranks, %u nodes\"\n", curve->n_ranks, curve->n_nodes);
  else
    g_string_append_printf (out, "\"%u ranks\"\n", curve->n_ranks);
  for (guint i = 0; i < curve->points->len; i++)
    {
      const PsiCurvePoint *point = &g_array_index (curve->points, PsiCurvePoint, i);

      g_string_append_printf (out, "%" G_GINT64_FORMAT, point->bytes);
      append_number (out, point->time_ns * 1e-9);
      append_number (out, point->p10_ns * 1e-9);
      append_number (out, point->p90_ns * 1e-9);
      append_number (out, psi_curve_segment_time_ns (curve, (double) point->bytes) * 1e-9);
      g_string_append_c (out, '\n');
    }
}

char *
psi_plot_data_curves (const PsiProfile *profile, const char *name, guint *ret_n_series)
{
  GString *out = g_string_new ("# bytes\tseconds\tp10\tp90\tfitted\n");
  guint n = 0;

  for (guint i = 0; i < profile->curves->len; i++)
    {
      const PsiCurve *curve = profile->curves->pdata[i];

      if (!g_str_equal (curve->name, name))
        continue;
      g_string_append (out, n++ > 0 ? "\n\n" : "");
      append_series (out, curve);
    }
  *ret_n_series = n;
  return g_string_free (out, FALSE);
}
