/* SPDX-License-Identifier: MIT */
/* Speed of shared links: W4 (one bottleneck), W5 (all to all, general max-min), and flows that are alone, the common
 * case. BENCHMARKS.md describes the loads. CPU time of the loop alone; median of --repeat runs. */
#include "bench-loads.h"

#include <stdlib.h>

/* W4 with a shared link that all senders together cannot fill. */
static PsiTime
run_open_fabric (guint n, guint k, double *ret_cpu_s)
{
  return run_senders (n, k, n * 50e9 * 1.01, ret_cpu_s);
}

/* n pairs of ranks, each over its own two links, k messages of random size back to back: nothing is shared. */
static PsiTime
run_alone (guint n, guint k, double *ret_cpu_s)
{
  g_autoptr (PsiLinks) links = psi_links_new ();
  g_autofree gint64 *bytes = g_new (gint64, 4096);
  g_autofree guint *sent = g_new0 (guint, n);
  PsiTime now_ps = 0, next_ps;
  Random random;
  guint64 pair;
  double start_s;

  random_init (&random, 1);
  for (guint i = 0; i < 4096; i++)
    bytes[i] = (gint64) (1e6 * (0.5 + random_unit (&random)));
  for (guint l = 0; l < 2 * n; l++)
    psi_links_add (links, 50e9);
  start_s = cpu_s ();
  for (guint i = 0; i < n; i++)
    psi_links_start (links, 0, bytes[i % 4096], HUGE_VAL, (PsiLinkUse[]){ { i, 1 }, { n + i, 1 } }, 2, i);
  while ((next_ps = psi_links_next_ps (links)) < PSI_TIME_MAX)
    {
      now_ps = next_ps;
      while (psi_links_pop (links, now_ps, &pair))
        if (++sent[pair] < k)
          psi_links_start (links, now_ps, bytes[(pair * 37 + sent[pair]) % 4096], HUGE_VAL,
                           (PsiLinkUse[]){ { (guint32) pair, 1 }, { n + (guint32) pair, 1 } }, 2, pair);
    }
  *ret_cpu_s = cpu_s () - start_s;
  return now_ps;
}

static const struct
{
  const char *name;
  PsiTime (*run) (guint n, guint k, double *ret_cpu_s);
  guint n, k, n_messages;
} loads[] = {
  { "W4 128 x 100", run_bottleneck, 128, 100, 12800 },
  { "W4 512 x 20", run_bottleneck, 512, 20, 10240 },
  { "W4 1024 x 10", run_bottleneck, 1024, 10, 10240 },
  { "W4 1024 x 1000", run_bottleneck, 1024, 1000, 1024000 },
  { "W5 16 hosts", run_all_to_all, 16, 0, 16 * 15 },
  { "W5 32 hosts", run_all_to_all, 32, 0, 32 * 31 },
  { "W5 64 hosts", run_all_to_all, 64, 0, 64 * 63 },
  { "W5 128 hosts", run_all_to_all, 128, 0, 128 * 127 },
  { "open 1024 x 1000", run_open_fabric, 1024, 1000, 1024000 },
  { "alone, 8 pairs", run_alone, 8, 125000, 1000000 },
  { "alone, 256 pairs", run_alone, 256, 4000, 1024000 },
};

static int
compare_doubles (const void *a, const void *b)
{
  return (*(const double *) a > *(const double *) b) - (*(const double *) a < *(const double *) b);
}

int
main (int argc, char **argv)
{
  gboolean as_json = FALSE;
  int n_repeats = 5;
  const GOptionEntry options[] = { { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, "print JSON", NULL },
                                   { "repeat", 0, 0, G_OPTION_ARG_INT, &n_repeats, "runs of each load", "N" },
                                   G_OPTION_ENTRY_NULL };
  g_autoptr (GOptionContext) context = g_option_context_new ("- shared links under load");
  g_autoptr (GError) error = NULL;
  struct rusage usage;

  g_option_context_add_main_entries (context, options, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      g_printerr ("%s\n", error->message);
      return 2;
    }
  n_repeats = CLAMP (n_repeats, 1, 99);
  if (as_json)
    g_print ("{\"benchmark\": \"links\", \"rows\": [");
  else
    g_print ("%-20s %12s %10s %18s %10s\n", "load", "k messages/s", "CPU ms", "last end, s", "peak MiB");
  for (guint i = 0; i < G_N_ELEMENTS (loads); i++)
    {
      double seconds[99], median_s;
      PsiTime end_ps = 0;
      for (int r = 0; r < n_repeats; r++)
        end_ps = loads[i].run (loads[i].n, loads[i].k, &seconds[r]);
      qsort (seconds, n_repeats, sizeof *seconds, compare_doubles);
      median_s = MAX (seconds[n_repeats / 2], 1e-6);
      getrusage (RUSAGE_SELF, &usage);
      if (as_json)
        g_print ("%s\n  {\"load\": \"%s\", \"messages\": %u, \"cpu_s\": %.6f, \"messages_per_s\": %.0f, "
                 "\"end_ps\": %" G_GINT64_FORMAT ", \"peak_rss_bytes\": %ld}",
                 i ? "," : "", loads[i].name, loads[i].n_messages, median_s, loads[i].n_messages / median_s, end_ps,
                 usage.ru_maxrss * 1024);
      else
        g_print ("%-20s %12.0f %10.3f %18.12f %10.1f\n", loads[i].name, loads[i].n_messages / median_s / 1e3,
                 median_s * 1e3, psi_time_to_s (end_ps), (double) usage.ru_maxrss / 1024);
    }
  if (as_json)
    g_print ("\n]}\n");
  return 0;
}
