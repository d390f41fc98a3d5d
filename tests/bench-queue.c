/* SPDX-License-Identifier: MIT */
/* Speed of the event queue: the hold model. With n events pending: pop the first, push it again after a random
 * increment. Key: a running sequence. CPU time of the holds alone, after n warm-up holds; median of --repeat runs. */
#include "psi-queue.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef enum
{
  EXPONENTIAL,
  UNIFORM,
  BIMODAL,
  CONSTANT,
  OUTLIERS,
} Increments;

typedef struct
{
  const char *name;
  Increments increments;
  guint n_pending, n_phases; /* n_phases: distinct start times, 0 = as many as events */
  guint n_holds;
} Load;

static const Load loads[] = {
  { "exponential, 16 pending", EXPONENTIAL, 16, 0, 4000000 },
  { "exponential, 1e2 pending", EXPONENTIAL, 100, 0, 4000000 },
  { "exponential, 1e3 pending", EXPONENTIAL, 1000, 0, 8000000 },
  { "exponential, 1e4 pending", EXPONENTIAL, 10000, 0, 8000000 },
  { "exponential, 1e5 pending", EXPONENTIAL, 100000, 0, 8000000 },
  { "exponential, 1e6 pending", EXPONENTIAL, 1000000, 0, 8000000 },
  { "uniform, 1e3 pending", UNIFORM, 1000, 0, 8000000 },
  { "uniform, 1e5 pending", UNIFORM, 100000, 0, 8000000 },
  { "bimodal, 1e3 pending", BIMODAL, 1000, 0, 8000000 },
  { "bimodal, 1e5 pending", BIMODAL, 100000, 0, 8000000 },
  { "constant, 1e3 pending, all distinct", CONSTANT, 1000, 1000, 8000000 },
  { "constant, 1e5 pending, 100 a tie", CONSTANT, 100000, 1000, 8000000 },
  { "outliers, 1e5 pending", OUTLIERS, 100000, 0, 8000000 },
};

static guint64 random_state;

static inline double
random_unit (void)
{
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (double) (random_state >> 11) * 0x1p-53;
}

static PsiTime
draw_increment_ps (Increments increments)
{
  const double mean_ps = 1e6;

  switch (increments)
    {
    case EXPONENTIAL:
      return psi_time_from_s (-log (1 - random_unit ()) * mean_ps / PSI_PS_PER_S);
    case UNIFORM:
      return (PsiTime) (2 * mean_ps * random_unit ());
    case BIMODAL: /* nine of ten short */
      return (PsiTime) (random_unit () < 0.9 ? 0.2 * mean_ps * random_unit () : 18.2 * mean_ps * random_unit ());
    case CONSTANT:
      return (PsiTime) mean_ps;
    case OUTLIERS: /* one of 1,000 is a million times further */
      return (PsiTime) (2 * mean_ps * random_unit () * (random_unit () < 1e-3 ? 1e6 : 1));
    }
  return 0;
}

static double
cpu_s (void)
{
  struct rusage usage;
  getrusage (RUSAGE_SELF, &usage);
  return (double) usage.ru_utime.tv_sec + (double) usage.ru_utime.tv_usec * 1e-6;
}

static double
run_hold (const Load *load, guint64 *ret_checksum)
{
  enum
  {
    N_INCREMENTS = 1 << 16
  };
  g_autofree PsiTime *increments_ps = g_new (PsiTime, N_INCREMENTS);
  g_autoptr (PsiQueue) queue = psi_queue_new ();
  guint64 sequence = 0, checksum = 0;
  double start_s = 0;
  PsiEvent event;

  random_state = 88172645463325252;
  for (guint i = 0; i < N_INCREMENTS; i++)
    increments_ps[i] = draw_increment_ps (load->increments);
  for (guint i = 0; i < load->n_pending; i++)
    {
      PsiTime time_ps = load->n_phases ? (PsiTime) (i / (load->n_pending / load->n_phases)) * 1000
                                       : draw_increment_ps (load->increments);
      psi_queue_push (queue, (PsiEvent){ time_ps, sequence++ });
    }
  for (guint i = 0; i < load->n_holds + load->n_pending; i++)
    {
      if (i == load->n_pending)
        start_s = cpu_s ();
      psi_queue_pop (queue, &event);
      checksum = checksum * 31 + event.key;
      event.time_ps += increments_ps[i % N_INCREMENTS];
      event.key = sequence++;
      psi_queue_push (queue, event);
    }
  *ret_checksum = checksum;
  return cpu_s () - start_s;
}

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
  g_autoptr (GOptionContext) context = g_option_context_new ("- hold model of the event queue");
  g_autoptr (GError) error = NULL;
  struct rusage usage;

  g_option_context_add_main_entries (context, options, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      g_printerr ("%s\n", error->message);
      return 2;
    }
  n_repeats = CLAMP (n_repeats, 1, 99);
  g_print (as_json ? "{\"benchmark\": \"queue\", \"rows\": [" : "%-38s %12s %8s %10s\n", "load (events)", "M events/s",
           "CPU s", "peak MiB");
  for (guint i = 0; i < G_N_ELEMENTS (loads); i++)
    {
      double seconds[99], rate;
      guint64 checksum = 0;
      for (int k = 0; k < n_repeats; k++)
        seconds[k] = run_hold (&loads[i], &checksum);
      qsort (seconds, n_repeats, sizeof *seconds, compare_doubles);
      rate = loads[i].n_holds / seconds[n_repeats / 2];
      getrusage (RUSAGE_SELF, &usage);
      if (as_json)
        g_print ("%s\n  {\"load\": \"%s\", \"events\": %u, \"cpu_s\": %.6f, \"events_per_s\": %.0f, "
                 "\"peak_rss_bytes\": %ld, \"checksum\": \"%016" G_GINT64_MODIFIER "x\"}",
                 i ? "," : "", loads[i].name, loads[i].n_holds, seconds[n_repeats / 2], rate, usage.ru_maxrss * 1024,
                 checksum);
      else
        g_print ("%-38s %12.1f %8.3f %10.1f\n", loads[i].name, rate / 1e6, seconds[n_repeats / 2],
                 (double) usage.ru_maxrss / 1024);
    }
  if (as_json)
    g_print ("\n]}\n");
  return 0;
}
