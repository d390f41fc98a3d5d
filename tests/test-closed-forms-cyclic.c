/* SPDX-License-Identifier: MIT */
/* Cyclic plans for any number of workers, stages and micro-batches: where transfers take no time, the period is that of
 * the virtual timeline, whatever the order of messages; memory and traffic follow from it.
 *
 *   T = m K (f + b); activations N (K + 1) / (2 K) A in the mean; cdp-zero: a part's parameters go from use to use */
#include "closed-forms.h"

#include <stdlib.h>

#define UNIT_BYTES 5040

static const struct
{
  guint forward, backward; /* ms */
} times[] = { { 1, 2 }, { 3, 2 }, { 1, 9 }, { 7, 1 }, { 1, 1 } };

/* ---- cdp-zero: what becomes of a version, from the timeline ---- */

typedef struct
{
  guint64 begin, end; /* 1 / N ms */
  guint worker;
} Use;

typedef struct
{
  guint hops;    /* changes of hands, in order of use */
  guint64 held;  /* time that its copies are there, together, 1 / N ms */
  gboolean copy; /* a user begins while another one is at work: there are two copies for a while, or longer */
} Journey;

static int
compare_uses (const void *a, const void *b)
{
  const Use *x = a, *y = b;

  if (x->begin != y->begin)
    return x->begin < y->begin ? -1 : 1;
  return (x->worker > y->worker) - (x->worker < y->worker);
}

/* Worker i begins at i T / N. */
static void
add_journey (guint n, guint k, guint m, guint part, guint forward, guint backward, Journey *journey)
{
  guint64 turn = (guint64) k * (forward + backward), period = m * turn;
  guint64 made = (n - 1) * period + n * ((m - 1) * turn + k * forward + (k - part) * backward);
  g_autofree Use *uses = g_new (Use, 2 * n * m);
  guint n_uses = 0;

  for (guint i = 0; i < n; i++)
    {
      guint64 start = i * period;
      gboolean fresh = start + n * period + n * (guint64) part * forward >= made;

      start += (fresh ? 1 : 2) * n * period;
      for (guint b = 0; b < m; b++)
        {
          guint64 f = start + n * (b * turn + part * forward);
          guint64 g = start + n * (b * turn + k * forward + (k - 1 - part) * backward);

          uses[n_uses++] = (Use){ f, f + n * forward, i };
          uses[n_uses++] = (Use){ g, g + n * backward, i };
        }
    }
  qsort (uses, n_uses, sizeof *uses, compare_uses);
  for (guint u = 1; u < n_uses; u++)
    {
      gboolean copy = uses[u].begin < uses[u - 1].end;

      journey->hops += uses[u].worker != uses[u - 1].worker;
      journey->copy = journey->copy || copy;
      journey->held += (copy ? uses[u - 1].end : uses[u].begin) - uses[u - 1].begin;
    }
  journey->held += uses[n_uses - 1].end - uses[n_uses - 1].begin;
}

/* Parameters of all GPUs in the mean; no level ever falls below nothing. */
static double
mean_parameters (const PsiPlanReport *plan)
{
  double area = 0;

  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const GArray *curve = rank_of (plan, i)->memory;

      for (guint at = 0; at < curve->len; at++)
        {
          const PsiMemoryPoint *point = &g_array_index (curve, PsiMemoryPoint, at);
          gint64 end_ps =
              at + 1 < curve->len ? g_array_index (curve, PsiMemoryPoint, at + 1).time_ps : plan->step_time_ps;

          g_assert_cmpint (point->bytes[PSI_MEMORY_PARAMETERS], >=, 0);
          g_assert_cmpint (point->bytes[PSI_MEMORY_GRADIENTS], >=, 0);
          area += (double) point->bytes[PSI_MEMORY_PARAMETERS] * (double) (end_ps - point->time_ps);
        }
    }
  return area / (double) plan->step_time_ps;
}

/* ---- The grid ---- */

static void
check (const char *name, guint n, guint k, guint m, guint forward, guint backward)
{
  gint64 p = (gint64) k * UNIT_BYTES;
  gboolean travels = strcmp (name, "cdp-zero") == 0, curves = travels && n * m <= 24;
  g_autoptr (PsiReport) report =
      run_flags (curves,
                 "model=uniform plan=%s workers=%u stages=%u micro_batches=%u forward=%ums backward=%ums psi_p=%lld "
                 "psi_a=%lld",
                 name, n, k, m, forward, backward, (long long) p, (long long) p);
  const PsiPlanReport *plan = plan_of (report);

  g_assert_cmpint (plan->step_time_ps, ==, (gint64) m * k * (forward + backward) * MS_PS);
  if (strcmp (name, "cdp+mp") != 0)
    assert_near (plan->bubble_fraction, 0);
  assert_near (plan->activation_total_mean_bytes, (double) n * (k + 1) / (2.0 * k) * (double) p);
  if (travels)
    {
      Journey all = { 0 };

      for (guint part = 0; part < k; part++)
        add_journey (n, k, m, part, forward, backward, &all);
      g_assert_cmpint (plan->by_kind[PSI_TRAFFIC_PARAMETERS], ==, all.hops * UNIT_BYTES);
      if (curves)
        {
          double held = (double) all.held / n * UNIT_BYTES / ((double) m * k * (forward + backward));
          double mean = mean_parameters (plan);

          if (all.copy)
            g_assert_cmpfloat (mean, >=, held * (1 - 1e-12));
          else
            g_assert_cmpfloat_with_epsilon (mean, held, held * 1e-9);
        }
    }
}

static void
test_period (void)
{
  static const char *const plans[] = { "cdp-v1", "cdp-v2", "cdp+mp", "cdp-zero" };
  guint t = 0;

  for (guint p = 0; p < G_N_ELEMENTS (plans); p++)
    for (guint n = 2; n <= 12; n++)
      for (guint k = 1; k <= 8; k++)
        for (guint m = 1; m <= 4; m++)
          {
            check (plans[p], n, k, m, times[t].forward, times[t].backward);
            t = (t + 1) % G_N_ELEMENTS (times);
          }
}

/* One micro-batch of K = N: the count that the table of the paper's setting has in closed form. */
static void
test_hops (void)
{
  for (guint n = 2; n <= 12; n++)
    {
      Journey all = { 0 };

      for (guint part = 0; part < n; part++)
        add_journey (n, n, 1, part, 1, 1, &all);
      g_assert_cmpuint (all.hops, ==, 2 * n * (n - 1));
      g_assert_false (all.copy);
    }
}

/* One GPU for each stage: its slots are N m of forward and backward, a worker's step m K of them; the longer is the
 * period. Workers of one micro-batch have the versions of workers T / N apart: stage j is new where what is left of the
 * period from worker i on holds a whole forward and backward of the stages from j. */
static void
test_stages (void)
{
  guint t = 0;

  for (guint n = 1; n <= 12; n++)
    for (guint k = 1; k <= 8; k++)
      for (guint m = 1; m <= 4; m++)
        {
          gint64 p = (gint64) k * UNIT_BYTES, slots = m * MAX (n, k);
          guint stale = 0;
          g_autoptr (PsiReport) report =
              run_flags (FALSE,
                         "model=uniform plan=cdp+pp workers=%u stages=%u micro_batches=%u "
                         "forward=%ums backward=%ums psi_p=%lld psi_a=%lld",
                         n, k, m, times[t].forward, times[t].backward, (long long) p, (long long) p);
          const PsiPlanReport *plan = plan_of (report);

          g_assert_cmpint (plan->step_time_ps, ==, slots * (times[t].forward + times[t].backward) * MS_PS);
          g_assert_cmpuint (plan->gpus, ==, k);
          assert_near (plan->bubble_fraction, 1 - (double) (n * m) / (double) slots);
          assert_near (plan->activation_total_mean_bytes,
                       (double) (n * m) * (k + 1) / (2.0 * (double) slots) * (double) p);
          for (guint i = 0; i < n; i++)
            for (guint j = 1; j <= k && n > 1; j++)
              stale += (i + 1) * MAX (n, k) < (k - j + 1) * n;
          if (m == 1)
            assert_near (plan->delay_mean, (double) stale / (n * k));
          t = (t + 1) % G_N_ELEMENTS (times);
        }
}

/* Where two steps alternate one stands for both, and what works for the step before seems to give back what is not
 * there yet. Levels stay above 0 all the same: every worker holds the activations of a micro-batch. */
static void
test_alternating (void)
{
  g_autoptr (PsiReport) report =
      run_flags (FALSE, "model=deepseek-v3 machine=a100-sxm-80 plan=cdp-v1 gpus=32 compile=yes");
  const PsiPlanReport *plan = plan_of (report);
  const PsiRankReport *ranks = &g_array_index (plan->ranks, PsiRankReport, 0);
  gboolean alternates = FALSE;
  double sum_bytes = 0;

  for (guint a = 0; a < plan->assumptions->len; a++)
    alternates = alternates || strstr (g_ptr_array_index (plan->assumptions, a), "2 steps repeat exactly") != NULL;
  g_assert_true (alternates);
  g_assert_cmpuint (plan->ranks->len, ==, 32);
  for (guint r = 0; r < plan->ranks->len; r++)
    {
      g_assert_cmpfloat ((double) ranks[r].activations_peak_bytes, >, 0.8 * (double) ranks[0].activations_peak_bytes);
      sum_bytes += (double) ranks[r].activations_peak_bytes;
    }
  g_assert_cmpfloat (plan->activation_total_mean_bytes, >, 0);
  g_assert_cmpfloat (plan->activation_total_mean_bytes, <, sum_bytes);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/cyclic-grid/period", test_period);
  g_test_add_func ("/model/cyclic-grid/hops", test_hops);
  g_test_add_func ("/model/cyclic-grid/stages", test_stages);
  g_test_add_func ("/model/cyclic-grid/alternating", test_alternating);
  return g_test_run ();
}
