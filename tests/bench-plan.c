/* SPDX-License-Identifier: MIT */
/* Whole plans through the public interface, from flags to the report: W8, a step of a 3-D parallel transformer with
 * memory, every GPU by itself or equal ranks once. Prints a table, or JSON with --json; user CPU seconds and peak
 * resident memory of each plan, each in a process of its own. --large adds the plans that take gigabytes. */
#include "closed-forms.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct
{
  const char *name, *flags;
  guint repeats; /* a short one is the mean of so many */
  gboolean is_large;
} Case;

#define MODEL "model=gpt3-175b machine=h100 tp=8 micro_batches=16 "

static const Case cases[] = {
  { "8 GPUs, Llama 2 7B, ZeRO 3", "model=llama-2-7b machine=a100 dp=8 zero=3", 100, FALSE },
  { "1,024 GPUs, 80 layers, collapsed", MODEL "layers=80 pp=16 dp=8", 20, FALSE },
  { "1,024 GPUs, 80 layers, full", MODEL "layers=80 pp=16 dp=8 collapse=no", 1, FALSE },
  { "16,384 GPUs, 128 layers, collapsed", MODEL "layers=128 pp=16 dp=128", 20, FALSE },
  { "100,352 GPUs, 128 layers, collapsed", MODEL "layers=128 pp=16 dp=784", 20, FALSE },
  { "3,072 GPUs, 1 T, 512 micro-batches",
    "model=custom family=gpt layers=128 hidden=25600 heads=160 ffn=102400 vocab=51200 sequence=2048 machine=a100 tp=8 "
    "pp=64 dp=6 micro_batches=512 framework=megatron recompute=full",
    5, FALSE },
  { "64 GPUs, 200 trials with jitter",
    "model=llama-2-7b machine=h100 tp=4 pp=4 dp=4 micro_batches=8 jitter=0.05 trials=200", 1, FALSE },
  { "16,384 GPUs, 128 layers, full", MODEL "layers=128 pp=16 dp=128 collapse=no", 1, TRUE },
};

static void
measure (const Case *row, gboolean json)
{
  struct rusage usage;
  PsiTime step_ps = 0;

  for (guint i = 0; i < row->repeats; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiReport) report = try_flags (row->flags, FALSE, &error);

      if (report == NULL)
        {
          fprintf (stderr, "%s: %s\n", row->name, error->message);
          _exit (1);
        }
      step_ps = plan_of (report)->step_time_ps;
    }
  getrusage (RUSAGE_SELF, &usage);
  printf (json ? "{\"plan\": \"%s\", \"cpu_s\": %.6f, \"peak_rss_mb\": %.1f, \"step_time_s\": %.12f}\n"
               : "%-38s %12.6f %10.1f %16.9f\n",
          row->name, ((double) usage.ru_utime.tv_sec + 1e-6 * (double) usage.ru_utime.tv_usec) / row->repeats,
          (double) usage.ru_maxrss / 1e3, psi_time_to_s (step_ps));
}

int
main (int argc, char **argv)
{
  gboolean json = FALSE, large = FALSE;

  for (int i = 1; i < argc; i++)
    {
      json = json || strcmp (argv[i], "--json") == 0;
      large = large || strcmp (argv[i], "--large") == 0;
    }
  if (!json)
    printf ("%-38s %12s %10s %16s\n", "plan", "CPU s", "RSS MB", "step time s");
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      int status = 0;

      if (cases[i].is_large && !large)
        continue;
      fflush (stdout);
      pid_t child = fork ();
      if (child == 0)
        {
          measure (&cases[i], json);
          fflush (stdout);
          _exit (0);
        }
      if (child < 0 || waitpid (child, &status, 0) < 0 || status != 0)
        return 1;
    }
  return 0;
}
