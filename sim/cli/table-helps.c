/* SPDX-License-Identifier: MIT */
/* What `--what-helps` found out. */
#include "table-report.h"
#include "table-units.h"

#include <math.h>

/* "25 GB/s"; what no rate does is said in words. */
static char *
format_rate (double bytes_per_s, const char *none)
{
  static const char *const units[] = { "B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s" };
  guint u = 0;

  if (!isfinite (bytes_per_s))
    return g_strdup (none);
  while (bytes_per_s >= 999.5 && u + 1 < G_N_ELEMENTS (units))
    {
      bytes_per_s /= 1000;
      u++;
    }
  return g_strdup_printf ("%.3g %s", bytes_per_s, units[u]);
}

static void
append_links (GString *out, const PsiWhatHelps *helps, const PsiTerminal *terminal)
{
  g_autoptr (PsiTable) table = psi_table_new ("llrrrr", 2);
  static const char *const headings[] = { "links", "", "now", "a tenth longer at", "twice as long at", "never below" };

  if (helps->links->len == 0)
    return;
  g_string_append_c (out, '\n');
  psi_append_styled (out, terminal, PSI_STYLE_BOLD, "Bandwidth it needs");
  g_string_append (out, "  of one GPU, one direction\n");
  psi_table_add_headings (table, PSI_STYLE_DIM, headings, G_N_ELEMENTS (headings));
  for (guint i = 0; i < helps->links->len; i++)
    {
      const PsiLinkHelp *link = &g_array_index (helps->links, PsiLinkHelp, i);

      psi_table_add (table, PSI_STYLE_PLAIN, link->between_nodes ? "between nodes" : "inside a node");
      psi_table_add (table, PSI_STYLE_DIM, link->name);
      psi_table_take (table, PSI_STYLE_PLAIN, format_rate (link->bytes_per_s, "-"));
      psi_table_take (table, PSI_STYLE_PLAIN, format_rate (link->tenth_bytes_per_s, "no rate"));
      psi_table_take (table, PSI_STYLE_PLAIN, format_rate (link->twice_bytes_per_s, "no rate"));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_time ((gint64) (link->unlimited_step_s * 1e12)));
    }
  psi_table_append (table, out, terminal);
  psi_append_wrapped (out,
                      "  against links of that tier that carry any number of bytes at once: then the step would take "
                      "the time on the right; slower than the second rate, it waits longer than it works",
                      2, 100);
}

static void
append_degrees (GString *out, const PsiPlanReport *plan, const PsiTerminal *terminal)
{
  static const char *const headings[] = { "set", "GPUs", "verdict", "peak", "step time", "samples/s", "against now" };
  g_autoptr (PsiTable) table = psi_table_new ("lrlrrrr", 2);
  const GArray *degrees = plan->what_helps->degrees;

  if (degrees->len == 0)
    return;
  g_string_append_c (out, '\n');
  psi_append_styled (out, terminal, PSI_STYLE_BOLD, "Other degrees");
  g_string_append (out, "  the next larger and smaller value of each, or less work for the host\n");
  psi_table_add_headings (table, PSI_STYLE_DIM, headings, G_N_ELEMENTS (headings));
  for (guint i = 0; i < degrees->len; i++)
    {
      const PsiDegreeHelp *degree = &g_array_index (degrees, PsiDegreeHelp, i);
      double gain = degree->samples_per_s / plan->samples_per_s - 1;
      g_autofree char *percent = psi_format_percent (fabs (gain));

      psi_table_add (table, PSI_STYLE_PLAIN, degree->set);
      psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u", degree->gpus));
      psi_table_add (table, psi_verdict_style (degree->verdict), psi_verdict_names[degree->verdict]);
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_bytes ((double) degree->peak_bytes));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_time (degree->step_time_ps));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_number (degree->samples_per_s));
      psi_table_take (table, gain > 0 ? PSI_STYLE_GOOD : PSI_STYLE_PLAIN,
                      g_strdup_printf ("%s%s", gain < 0 ? "-" : "+", percent));
    }
  psi_table_append (table, out, terminal);
}

void
psi_append_what_helps (GString *out, const PsiPlanReport *plan, const PsiTerminal *terminal)
{
  const PsiWhatHelps *helps = plan->what_helps;
  double times = plan->samples_per_s / helps->one_gpu_samples_per_s;
  const char *memory = helps->one_gpu_fits ? "" : " (which would not have the memory)";

  append_links (out, helps, terminal);
  append_degrees (out, plan, terminal);
  if (!isfinite (times) || plan->gpus <= 1)
    return;
  g_autofree char *number = psi_format_number (times >= 1 ? times : 1 / times);
  g_string_append_printf (out, "\n  %u GPUs do %s times %s one%s\n", plan->gpus, number,
                          times >= 1 ? "the work of" : "less than", memory);
}
