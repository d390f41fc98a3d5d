/* SPDX-License-Identifier: MIT */
/* Steps with noise, slow GPUs and slow links; and collectives at four levels of detail. */
#include "closed-forms.h"
#include "simulate-plan.h"
#include "step.h"
#include "trials.h"

/* The same trials over one thread, two and seven. */
static gboolean
check_threads (const char *name, const PsiStep *step, const PsiRun *run, gpointer data, GError **error)
{
  static const guint threads[] = { 1, 2, 7 };
  const PsiRunOptions options = { 0 };
  PsiTrials first = { 0 };

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      PsiTrials trials;
      g_autoptr (PsiRun) typical = psi_trials_run (step->world, &options, 0.1, 5, 20, threads[i], &trials, error);

      g_assert_nonnull (typical);
      g_assert_cmpuint (trials.n, ==, 20);
      if (i == 0)
        first = trials;
      g_assert_cmpmem (&trials, sizeof trials, &first, sizeof first);
      g_assert_cmpfloat (trials.p10_s, <, trials.p50_s);
      g_assert_cmpfloat (trials.p50_s, <, trials.p90_s);
      g_assert_cmpfloat (trials.p90_s, <, trials.max_s);
      /* One member in the middle: waiting for the slowest of several makes a step longer than without noise. */
      g_assert_cmpfloat (trials.mean_s, >, psi_time_to_s (run->period_ps));
    }
  *(guint *) data += 1;
  return TRUE;
}

static void
test_threads (void)
{
  g_autoptr (GError) error = NULL;
  guint n = 0;
  PsiSimulateOptions options = { .observe = check_threads, .observe_data = &n };
  const PsiKeyFlag flags[] = {
    { PSI_KEY_MODEL, "gpt2" }, { PSI_KEY_DP, "4" }, { PSI_KEY_COLLAPSE, "no" }, { PSI_KEY_MACHINE, "a100" }
  };
  g_autoptr (PsiScenario) scenario = psi_scenario_load (NULL, flags, G_N_ELEMENTS (flags), NULL, &error);
  g_assert_no_error (error);
  g_autoptr (PsiReport) report = psi_simulate (scenario, &options, &error);

  g_assert_no_error (error);
  g_assert_nonnull (report);
  g_assert_cmpuint (n, ==, 1);
}

/* The report tells the mean, and its parts add up to it. */
static void
test_report (void)
{
  g_autoptr (PsiReport)
      report = run_flags (FALSE, "model=gpt2 machine=a100 dp=2 pp=2 micro_batches=4 jitter=0.05 trials=9"),
      same = run_flags (FALSE, "model=gpt2 machine=a100 dp=2 pp=2 micro_batches=4 jitter=0.05 trials=9"),
      other = run_flags (FALSE, "model=gpt2 machine=a100 dp=2 pp=2 micro_batches=4 jitter=0.05 trials=9 seed=2"),
      quiet = run_flags (FALSE, "model=gpt2 machine=a100 dp=2 pp=2 micro_batches=4 trials=9");
  const PsiPlanReport *plan = plan_of (report);
  g_autofree char *json = psi_report_to_json (report), *quiet_json = psi_report_to_json (quiet);

  g_assert_cmpuint (plan->trials.n, ==, 9);
  g_assert_cmpint (plan->step_time_ps, ==, psi_time_from_s (plan->trials.mean_s));
  for (guint r = 0; r < plan->ranks->len; r++)
    {
      PsiTime sum_ps = 0;

      for (guint t = 0; t < PSI_N_TIME; t++)
        sum_ps += g_array_index (plan->ranks, PsiRankReport, r).time_ps[t];
      g_assert_cmpint (sum_ps, ==, plan->step_time_ps);
    }
  g_assert_cmpint (plan->step_time_ps, ==, plan_of (same)->step_time_ps);
  g_assert_cmpint (plan->step_time_ps, !=, plan_of (other)->step_time_ps);
  g_assert_cmpuint (plan_of (quiet)->trials.n, ==, 0);
  g_assert_nonnull (strstr (json, "\"trials\": {"));
  g_assert_null (strstr (quiet_json, "\"trials\""));
}

/* One stage: S = 600 MB over NVLink of an A100 by ring; a link that is k times as slow makes the bytes take k times. */
static void
test_slow_link (void)
{
  const char *flags =
      "model=uniform machine=a100 plan=dp workers=4 stages=1 psi_p=6GB forward=1ms backward=2ms optimizer=none";
  g_autoptr (PsiReport) fast = run_flags (FALSE, "%s", flags);
  double one_s = psi_time_to_s (plan_of (fast)->step_time_ps) - 0.003;

  for (guint factor = 2; factor <= 8; factor *= 2)
    {
      g_autoptr (PsiReport) slow = run_flags (FALSE, "%s slow_link=2:%u", flags, factor);
      double slow_s = psi_time_to_s (plan_of (slow)->step_time_ps) - 0.003;

      g_assert_cmpfloat (fabs (slow_s / one_s / factor - 1), <, 0.05); /* start and ramp do not grow */
    }
  g_autoptr (PsiReport) none = run_flags (FALSE, "%s slow_link=2:1", flags);
  g_assert_cmpint (plan_of (none)->step_time_ps, ==, plan_of (fast)->step_time_ps);
}

/* The same to the picosecond where no two messages share a link. */
static void
test_detail (void)
{
  static const char *const plans[] = {
    "model=uniform plan=dp workers=7 stages=3",
    "model=uniform plan=dp workers=24 stages=3",
    "model=uniform plan=zero-1 workers=5 stages=1",
    "model=gpt2 dp=8 tp=4 overlap_grads=no",
    "model=uniform plan=gpipe stages=4 micro_batches=1 psi_int=8MB",
  };
  static const char *const details[] = { "closed", "flow", "steps", "messages" };

  for (guint p = 0; p < G_N_ELEMENTS (plans); p++)
    for (guint collapse = 0; collapse < 2; collapse++)
      {
        PsiTime first_ps = 0;

        for (guint d = 0; d < G_N_ELEMENTS (details); d++)
          {
            g_autoptr (PsiReport) report = run_flags (FALSE, "machine=a100-pcie-80 %s detail=%s collapse=%s", plans[p],
                                                      details[d], collapse ? "yes" : "no");

            if (d == 0)
              first_ps = plan_of (report)->step_time_ps;
            g_assert_cmpint (plan_of (report)->step_time_ps, ==, first_ps);
          }
      }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sim/trials/threads", test_threads);
  g_test_add_func ("/sim/trials/report", test_report);
  g_test_add_func ("/sim/trials/slow-link", test_slow_link);
  g_test_add_func ("/sim/detail/same", test_detail);
  return g_test_run ();
}
