/* SPDX-License-Identifier: MIT */
#include "trials.h"

#include <math.h>
#include <stdlib.h>

typedef struct
{
  const PsiWorld *world;
  PsiRunOptions options;
  guint64 seed;
  PsiTime *step_ps; /* [trials] */
  GError *error;
  GMutex lock;
} Trials;

/* One run over links of its own: all else of a world is only read. */
static PsiRun *
run_one (const Trials *trials, guint trial, GError **error)
{
  PsiWorld world = *trials->world;
  PsiRunOptions options = trials->options;
  g_autoptr (PsiLinks) links = psi_links_new ();

  for (PsiLinkId l = 0; l < psi_links_n_links (trials->world->links); l++)
    psi_links_add (links, psi_links_rate (trials->world->links, l));
  world.links = links;
  options.seed = trials->seed * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) + trial;
  return psi_run (&world, &options, error);
}

static void
run_in_thread (gpointer number, gpointer data)
{
  Trials *trials = data;
  guint trial = GPOINTER_TO_UINT (number) - 1;
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiRun) run = run_one (trials, trial, &error);

  if (run != NULL)
    {
      trials->step_ps[trial] = run->period_ps;
      return;
    }
  g_mutex_lock (&trials->lock);
  if (trials->error == NULL)
    trials->error = g_steal_pointer (&error);
  g_mutex_unlock (&trials->lock);
}

static int
compare_times (gconstpointer a, gconstpointer b)
{
  const PsiTime *x = a, *y = b;

  return (*x > *y) - (*x < *y);
}

static double
percentile_s (const PsiTime *sorted, guint n, double percent)
{
  double place = (n - 1) * percent / 100;
  guint low = (guint) place, high = MIN (low + 1, n - 1);

  return psi_time_to_s (sorted[low]) + (place - low) * psi_time_to_s (sorted[high] - sorted[low]);
}

/* Which trial is nearest to the mean. */
static guint
summarize (const PsiTime *step_ps, guint n, PsiTrials *ret_trials)
{
  g_autofree PsiTime *sorted = g_memdup2 (step_ps, n * sizeof *step_ps);
  double sum = 0;
  guint nearest = 0;

  for (guint i = 0; i < n; i++)
    sum += psi_time_to_s (step_ps[i]);
  qsort (sorted, n, sizeof *sorted, compare_times);
  *ret_trials = (PsiTrials){ .n = n,
                             .mean_s = sum / n,
                             .p10_s = percentile_s (sorted, n, 10),
                             .p50_s = percentile_s (sorted, n, 50),
                             .p90_s = percentile_s (sorted, n, 90),
                             .max_s = psi_time_to_s (sorted[n - 1]) };
  for (guint i = 1; i < n; i++)
    if (fabs (psi_time_to_s (step_ps[i]) - ret_trials->mean_s) <
        fabs (psi_time_to_s (step_ps[nearest]) - ret_trials->mean_s))
      nearest = i;
  return nearest;
}

PsiRun *
psi_trials_run (const PsiWorld *world, const PsiRunOptions *options, double jitter, guint64 seed, guint n,
                guint threads, PsiTrials *ret_trials, GError **error)
{
  g_autofree PsiTime *step_ps = g_new0 (PsiTime, MAX (n, 1));
  Trials trials = { .world = world, .options = *options, .seed = seed, .step_ps = step_ps };
  PsiTrials summary;

  g_assert (n > 0);
  trials.options.jitter = jitter;
  g_mutex_init (&trials.lock);
  threads = MIN (threads > 0 ? threads : g_get_num_processors (), n);
  GThreadPool *pool = g_thread_pool_new (run_in_thread, &trials, (gint) threads, TRUE, NULL);
  for (guint i = 0; i < n; i++)
    if (pool == NULL || !g_thread_pool_push (pool, GUINT_TO_POINTER (i + 1), NULL))
      run_in_thread (GUINT_TO_POINTER (i + 1), &trials);
  if (pool != NULL)
    g_thread_pool_free (pool, FALSE, TRUE);
  g_mutex_clear (&trials.lock);
  if (trials.error != NULL)
    {
      g_propagate_error (error, trials.error);
      return NULL;
    }
  guint nearest = summarize (step_ps, n, &summary);
  PsiRun *run = run_one (&trials, nearest, error);
  if (run != NULL)
    *ret_trials = summary;
  return run;
}
