/* SPDX-License-Identifier: MIT */
#include "table-profile.h"

#include "collective.h"
#include "psi-time.h"
#include "table-units.h"

#include <math.h>

/* Shares of the datasheet under which something is wrong, not just slow. */
static const double least_product = 0.6, least_memory = 0.75, least_host_link = 0.5, least_collective = 0.7;

/* ---- Measured against the datasheet ---- */

typedef struct
{
  PsiTable *table;
  GPtrArray *faults; /* of char* */
  gboolean cpu;      /* measured on CPU cores: advice about GPUs does not apply */
} Comparison;

/* One row; `least` is the share of `expected` below which `advice` is said. */
static void
compare (Comparison *comparison, const char *what, const char *unit, double measured, double expected, double least,
         const char *advice)
{
  double share = expected > 0 ? measured / expected : (double) NAN;
  gboolean bad = share < least;

  psi_table_add (comparison->table, PSI_STYLE_PLAIN, what);
  psi_table_take (comparison->table, PSI_STYLE_PLAIN, psi_format_number (measured));
  psi_table_take (comparison->table, PSI_STYLE_DIM, expected > 0 ? psi_format_number (expected) : g_strdup ("-"));
  psi_table_add (comparison->table, PSI_STYLE_DIM, unit);
  psi_table_take (comparison->table, bad ? PSI_STYLE_BAD : PSI_STYLE_PLAIN,
                  expected > 0 ? psi_format_percent (share) : g_strdup ("-"));
  if (bad)
    {
      g_autofree char *percent = psi_format_percent (share);
      g_ptr_array_add (comparison->faults,
                       g_strdup_printf ("%s: only %s of what is expected; %s", what, percent,
                                        comparison->cpu ? "did other programs use the cores or the memory?" : advice));
    }
}

static double
largest_rate (const PsiCurve *curve)
{
  const PsiCurvePoint *last = &g_array_index (curve->points, PsiCurvePoint, curve->points->len - 1);
  return (double) last->bytes / last->time_ns; /* GB/s */
}

static int
find_collective (const char *name)
{
  for (int op = 0; op < PSI_N_COLLECTIVES; op++)
    {
      const char *curve = psi_samples_operation (psi_collective_names[op]);
      if (curve != NULL && g_str_equal (curve, name))
        return op;
    }
  return -1;
}

/* Bus bandwidth of the largest size against the model of the datasheet machine. */
static void
compare_collective (Comparison *comparison, const PsiCurve *curve, const PsiMachine *datasheet)
{
  const PsiCurvePoint *last = &g_array_index (curve->points, PsiCurvePoint, curve->points->len - 1);
  int op = find_collective (curve->name);

  if (op < 0)
    return;
  double factor = psi_collective_bus_factor (op, curve->n_ranks), expected = 0;
  g_autofree char *what = curve->n_nodes > 1 ? g_strdup_printf ("%s busbw, %u ranks on %u nodes", curve->name,
                                                                curve->n_ranks, curve->n_nodes)
                                             : g_strdup_printf ("%s busbw, %u ranks", curve->name, curve->n_ranks);
  if (datasheet != NULL)
    {
      PsiGroupShape shape = { .n_ranks = curve->n_ranks,
                              .n_nodes = curve->n_nodes,
                              .ranks_per_node = (curve->n_ranks + curve->n_nodes - 1) / curve->n_nodes };
      PsiCollectiveCost cost;
      psi_collective_cost (datasheet, op, last->bytes, &shape, &cost);
      gint64 time_ps = psi_collective_time_ps (&cost);
      expected = time_ps > 0 ? (double) last->bytes * factor / psi_time_to_s (time_ps) * 1e-9 : 0;
    }
  compare (comparison, what, "GB/s", largest_rate (curve) * factor, expected, least_collective,
           "is the topology what it should be (nvidia-smi topo -m), is another job on the links, does NCCL_DEBUG=INFO "
           "show the expected transport?");
}

static void
append_comparison (GString *out, const PsiProfile *profile, const PsiMachine *datasheet, const PsiTerminal *terminal,
                   GPtrArray *faults)
{
  g_autoptr (PsiTable) table = psi_table_new ("lrrlr", 2);
  Comparison comparison = { table, faults, g_strcmp0 (profile->gpu, "CPU core") == 0 };
  const PsiCurve *curve;

  psi_table_add (table, PSI_STYLE_BOLD, "");
  psi_table_add (table, PSI_STYLE_BOLD, "measured");
  psi_table_add (table, PSI_STYLE_BOLD, datasheet ? datasheet->name : "datasheet");
  psi_table_add (table, PSI_STYLE_BOLD, "");
  psi_table_add (table, PSI_STYLE_BOLD, "share");
  psi_table_add_rule (table);
  for (guint i = 0; i < PSI_N_DTYPES; i++)
    if (profile->peak_flops[i] > 0)
      {
        g_autofree char *what = g_strdup_printf ("%s product, best", psi_profile_dtype_names[i]);
        gboolean tera = profile->peak_flops[i] >= 1e12;
        double unit = tera ? 1e12 : 1e9;
        compare (&comparison, what, tera ? "TFLOP/s" : "GFLOP/s", profile->peak_flops[i] / unit,
                 datasheet ? datasheet->gpu.peak_flops[i] / unit : 0, least_product,
                 "were the clocks held down (power, temperature), is it a MIG slice or another part?");
      }
  if (profile->memory_bytes_per_s > 0)
    compare (&comparison, "device memory", "GB/s", profile->memory_bytes_per_s * 1e-9,
             datasheet && isfinite (datasheet->gpu.memory_bytes_per_s) ? datasheet->gpu.memory_bytes_per_s * 1e-9 : 0,
             least_memory, "is it a MIG slice, is ECC on, does another program use the GPU?");
  static const char *const host_copies[] = { "to_device_pinned", "to_host_pinned" };
  for (guint i = 0; i < G_N_ELEMENTS (host_copies); i++)
    if ((curve = psi_profile_curve (profile, host_copies[i], 1, 1)) != NULL)
      compare (&comparison, i == 0 ? "host to device, pinned" : "device to host, pinned", "GB/s", largest_rate (curve),
               datasheet && isfinite (datasheet->host.bytes_per_s) ? datasheet->host.bytes_per_s * 1e-9 : 0,
               least_host_link, "does the PCIe link run at its full generation and width?");
  if (profile->launch_ns > 0)
    compare (&comparison, "kernel to kernel, stream", "us", profile->launch_ns * 1e-3, 0, 0, "");
  if (profile->graph_launch_ns > 0)
    compare (&comparison, "kernel to kernel, graph", "us", profile->graph_launch_ns * 1e-3, 0, 0, "");
  if (profile->context_bytes > 0)
    compare (&comparison, "context", "MiB", (double) profile->context_bytes / 1048576,
             datasheet ? (double) datasheet->gpu.context_bytes / 1048576 : 0, 0, "");
  for (guint i = 0; i < profile->curves->len; i++)
    compare_collective (&comparison, profile->curves->pdata[i], datasheet);
  psi_table_append (table, out, terminal);
}

/* ---- Curves ---- */

static void
append_curves (GString *out, const PsiProfile *profile, const PsiTerminal *terminal)
{
  static const char *const heads[] = { "curve",  "ranks", "nodes", "points",   "start-up", "bandwidth",
                                       "ranges", "fit",   "p90",   "left out", "p90" };
  g_autoptr (PsiTable) table = psi_table_new ("lrrrrrrrrrr", 2);

  psi_table_add_headings (table, PSI_STYLE_BOLD, heads, G_N_ELEMENTS (heads));
  for (guint i = 0; i < profile->curves->len; i++)
    {
      const PsiCurve *curve = profile->curves->pdata[i];
      const PsiCurveSegment *first = &g_array_index (curve->segments, PsiCurveSegment, 0);
      const PsiCurveSegment *last = &g_array_index (curve->segments, PsiCurveSegment, curve->segments->len - 1);
      const double errors[] = { curve->fit.mean, curve->fit.p90, curve->leave_one_out.mean, curve->leave_one_out.p90 };

      psi_table_add (table, PSI_STYLE_PLAIN, curve->name);
      psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u", curve->n_ranks));
      psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u", curve->n_nodes));
      psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u", curve->points->len));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_time ((gint64) (first->alpha_ns * 1e3)));
      psi_table_take (table, PSI_STYLE_PLAIN,
                      last->beta_ns_per_byte > 0 ? g_strdup_printf ("%.4g GB/s", 1 / last->beta_ns_per_byte)
                                                 : g_strdup ("-"));
      psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u", curve->segments->len));
      for (guint j = 0; j < G_N_ELEMENTS (errors); j++)
        psi_table_take (table, errors[j] > 0.15 && j % 2 == 0 ? PSI_STYLE_BAD : PSI_STYLE_PLAIN,
                        g_strdup_printf ("%.1f %%", 100 * errors[j]));
    }
  psi_table_append (table, out, terminal);
}

static void
append_products (GString *out, const PsiProfile *profile)
{
  for (guint i = 0; i < PSI_N_DTYPES; i++)
    {
      guint n = 0;
      for (guint j = 0; j < profile->gemms->len; j++)
        n += g_array_index (profile->gemms, PsiProfileGemm, j).dtype == (PsiDtype) i;
      if (n > 0)
        g_string_append_printf (
            out, "  %s: %u products, each predicted from the others: mean error %.1f %%, p90 %.1f %%\n",
            psi_profile_dtype_names[i], n, 100 * profile->gemm_error[i].mean, 100 * profile->gemm_error[i].p90);
    }
}

char *
psi_table_profile (const PsiProfile *profile, const PsiMachine *datasheet, const PsiTerminal *terminal)
{
  GString *out = g_string_new (NULL);
  g_autoptr (GPtrArray) faults = g_ptr_array_new_with_free_func (g_free);

  psi_append_styled (out, terminal, PSI_STYLE_BOLD, profile->name);
  g_string_append_printf (out, " (%s%s%s)\n\n", profile->kind, profile->source ? ": " : "",
                          profile->source ? profile->source : "");
  append_comparison (out, profile, datasheet, terminal, faults);
  if (profile->curves->len > 0)
    {
      g_string_append_c (out, '\n');
      append_curves (out, profile, terminal);
    }
  if (profile->gemms->len > 0)
    {
      g_string_append_c (out, '\n');
      append_products (out, profile);
    }
  for (guint i = 0; i < profile->warnings->len; i++)
    g_ptr_array_add (faults, g_strdup (profile->warnings->pdata[i]));
  if (faults->len > 0)
    g_string_append (out, "\nWhat looks wrong:\n");
  for (guint i = 0; i < faults->len; i++)
    {
      g_string_append (out, "  - ");
      psi_append_wrapped (out, faults->pdata[i], 4, 100);
      if (out->str[out->len - 1] != '\n')
        g_string_append_c (out, '\n');
    }
  return g_string_free (out, FALSE);
}
