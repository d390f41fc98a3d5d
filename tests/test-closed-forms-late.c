/* SPDX-License-Identifier: MIT */
/* Updates that do not wait: workers of a parameter server at paces of their own (N workers, K stages), and PipeDream (p
 * stages, an update after every m micro-batches). Time, traffic, memory and lateness in closed form. */
#include "closed-forms.h"

#include <glib/gstdio.h>

#define UNIT_BYTES (1 << 20)
#define STAGE_MS 3 /* forward 1 ms, backward 2 ms */

static gint64
sum_of_time (const PsiRankReport *rank)
{
  gint64 sum_ps = 0;

  for (guint part = 0; part < PSI_N_TIME; part++)
    sum_ps += rank->time_ps[part];
  return sum_ps;
}

/* Equal workers on free links: nobody waits, and between two updates of one worker each of the others makes one. */
static void
test_equal (void)
{
  for (guint n = 1; n <= 8; n++)
    for (guint k = 1; k <= 5; k += 2)
      for (guint m = 1; m <= 2; m++)
        {
          gint64 psi_p = k * UNIT_BYTES;
          g_autoptr (PsiReport) report =
              run_flags (FALSE,
                         "model=uniform plan=async workers=%u stages=%u micro_batches=%u psi_p=%lld psi_a=%lld "
                         "forward=1ms backward=2ms",
                         n, k, m, (long long) psi_p, (long long) psi_p);
          const PsiPlanReport *plan = plan_of (report);

          g_assert_cmpuint (plan->gpus, ==, n);
          g_assert_cmpint (plan->step_time_ps, ==, STAGE_MS * MS_PS * k * m);
          assert_near (plan->bubble_fraction, 0);
          assert_near (plan->samples_per_s, n * m / (STAGE_MS * 1e-3 * k * m));
          assert_near (plan->delay_mean, n - 1);
          assert_near (plan->delay_p90, n - 1);
          assert_near (plan->delay_max, n - 1);
          g_assert_cmpuint (plan->parameter_versions, ==, n);
          g_assert_cmpint (plan->total_bytes, ==, 2 * (n - 1) * psi_p);
          g_assert_cmpint (plan->by_kind[PSI_TRAFFIC_GRADIENTS], ==, (n - 1) * psi_p);
          g_assert_cmpuint (plan->sequential_steps, ==, n > 1);
          for (guint r = 0; r < n; r++)
            {
              const PsiRankReport *rank = rank_of (plan, r);

              g_assert_cmpint (rank->sent_bytes, ==, r == 0 ? (n - 1) * psi_p : psi_p);
              g_assert_cmpint (rank->at_peak[PSI_MEMORY_PARAMETERS], ==, (r == 0 && n > 1 ? 2 : 1) * psi_p);
              g_assert_cmpint (rank->activations_peak_bytes, ==, psi_p);
              g_assert_cmpint (sum_of_time (rank), ==, plan->step_time_ps);
            }
        }
}

/* A worker s times slower does not hold the others up: N / ((N - 1) / T + 1 / (s T)). The mean of all delays stays N -
 * 1; the slow one's own is s (N - 1) on average. */
static void
test_slow (void)
{
  static const double factors[] = { 1.25, 1.5, 2, 3 };

  for (guint n = 2; n <= 8; n += 2)
    for (guint f = 0; f < G_N_ELEMENTS (factors); f++)
      {
        double step_s = STAGE_MS * 1e-3 * 4, mean_s = n / ((n - 1) / step_s + 1 / (factors[f] * step_s));
        g_autoptr (PsiReport) report =
            run_flags (TRUE, "model=uniform plan=async workers=%u stages=4 forward=1ms backward=2ms slow_rank=%u:%g", n,
                       n / 2, factors[f]);
        const PsiPlanReport *plan = plan_of (report);

        g_assert_cmpfloat_with_epsilon (psi_time_to_s (plan->step_time_ps), mean_s, 1e-12);
        g_assert_cmpfloat_with_epsilon (plan->samples_per_s, n / mean_s, 1e-6 * plan->samples_per_s);
        g_assert_cmpfloat_with_epsilon (plan->delay_mean, n - 1, 1e-9);
        g_assert_cmpfloat (plan->delay_max, >=, factors[f] * (n - 1));
        g_assert_cmpfloat (plan->delay_max, <=, ceil (factors[f]) * (n - 1));
        assert_near (plan->bubble_fraction, 0);
        g_assert_cmpuint (plan->warnings->len, ==, 0);
        g_assert_cmpint (plan->window_ps, >, plan->step_time_ps);
        for (guint r = 0; r < n; r++)
          {
            const PsiRankReport *rank = rank_of (plan, r);
            gint64 busy_ps = 0;

            /* Every worker is at work in all of the picture. */
            for (guint i = 0; i < rank->spans->len; i++)
              if (g_array_index (rank->spans, PsiSpan, i).track == 0)
                busy_ps +=
                    g_array_index (rank->spans, PsiSpan, i).end_ps - g_array_index (rank->spans, PsiSpan, i).start_ps;
            g_assert_cmpint (busy_ps, ==, plan->window_ps);
            g_assert_cmpint (rank->time_ps[PSI_TIME_COMPUTE], ==, plan->step_time_ps);
          }
      }
}

static double
pcie_step_s (guint n, double forward_ms)
{
  g_autoptr (PsiReport) report =
      run_flags (FALSE,
                 "model=uniform machine=a100-pcie-80 plan=async workers=%u stages=1 psi_p=4GiB psi_a=1GiB "
                 "forward=%gms backward=%gms",
                 n, forward_ms, forward_ms);

  return psi_time_to_s (plan_of (report)->step_time_ps);
}

/* Two workers: the root's needs t, the other t + push + pull. Many: at best the root's link lets in one push after
 * another without a break, 1 / push updates by all others together, however many they are; at worst all push at once
 * and then all pull at once, t + 2 (N - 1) push for each. */
static void
test_saturated (void)
{
  double t = 0.2, two = pcie_step_s (2, 100), other = 1 / (2 / two - 1 / t), push = (other - t) / 2;

  g_assert_cmpfloat (push, >, 4 * 1073741824.0 / 32e9); /* PCIe 4 x16 carries less than 32 GB/s */
  g_assert_cmpfloat (push, <, 4 * 1073741824.0 / 20e9);
  for (guint n = 5; n <= 8; n++)
    for (double work = t; work >= t / 4; work /= 2)
      {
        double best = MIN ((n - 1) / (work + 2 * push), 1 / push), worst = (n - 1) / (work + 2 * (n - 1) * push);
        double step_s = pcie_step_s (n, work * 500);

        g_assert_cmpfloat (step_s, >=, 0.999 * n / (1 / work + best));
        g_assert_cmpfloat (step_s, <=, 1.001 * n / (1 / work + worst));
      }
}

/* The server's own work is the limit: N updates one after another take longer than a worker's step. */
static void
test_busy_server (void)
{
#define BUSY "model=gpt2-xl machine=h100 plan=async micro_batch=4 gpus="
  g_autoptr (PsiReport) one = run_flags (FALSE, BUSY "1");
  g_autoptr (PsiReport) four = run_flags (FALSE, BUSY "4");
  g_autoptr (PsiReport) eight = run_flags (FALSE, BUSY "8");
  double compute_s = psi_time_to_s (rank_of (plan_of (one), 0)->time_ps[PSI_TIME_COMPUTE]);
  double update_s = psi_time_to_s (rank_of (plan_of (one), 0)->time_ps[PSI_TIME_OPTIMIZER]);

  g_assert_cmpfloat (8 * update_s, >, compute_s + update_s / 4);
  g_assert_cmpfloat_with_epsilon (psi_time_to_s (plan_of (eight)->step_time_ps), 8 * update_s, 1e-9);
  g_assert_cmpfloat (4 * update_s, <, compute_s);
  g_assert_cmpfloat_with_epsilon (psi_time_to_s (plan_of (four)->step_time_ps), compute_s, 0.05 * compute_s);
  for (guint r = 0; r < 8; r++)
    g_assert_cmpint (sum_of_time (rank_of (plan_of (eight), r)), ==, plan_of (eight)->step_time_ps);
}

/* The same digest with equal ranks as one or not, with the jump or without. */
static void
test_short_cuts (void)
{
  static const char *const plans[] = { "", " slow_rank=1:1.5", " machine=a100-pcie-80", " micro_batches=3" };

  for (guint p = 0; p < G_N_ELEMENTS (plans); p++)
    {
      guint64 digest = 0;

      for (guint way = 0; way < 4; way++)
        {
          g_autoptr (PsiReport) report =
              run_flags (FALSE, "model=uniform plan=async workers=4 stages=2 collapse=%s jump=%s%s",
                         way & 1 ? "no" : "yes", way & 2 ? "no" : "yes", plans[p]);

          if (way > 0)
            g_assert_cmpuint (plan_of (report)->digest, ==, digest);
          digest = plan_of (report)->digest;
        }
    }
}

/* What takes all workers at once does not go with workers that do not wait. */
static void
test_refused (void)
{
  static const char *const flags[][2] = {
    { "plan=async gradients=all-reduce", "update asynchronous" },
    { "plan=async grad_clip=yes", "grad-clip: 'yes' does not go with workers that do not wait" },
    { "plan=async zero=1", "zero: '1' does not go with gradients parameter-server" },
    { "plan=async gpus=4 cp=2", "cp: '2' does not go with workers that do not wait" },
    { "plan=async workers=2 worker_batches=1,2", "worker-batches: '1,2' does not go with workers that do not wait" },
    { "plan=1f1b update=asynchronous", "'asynchronous' goes with schedule none and gradients parameter-server" },
    { "plan=cdp-v2 update=asynchronous", "'asynchronous' goes with schedule none and gradients parameter-server" },
    { "plan=pipedream update=cyclic-v2", "'pipedream' goes with placement stage, update asynchronous" },
    { "plan=pipedream dp=2", "'2' does not go with schedule 'pipedream'" },
    { "plan=pipedream stages=129", "looks back at most 127 steps" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *words = g_strconcat ("model=uniform ", flags[i][0], NULL);
      g_autoptr (PsiReport) report = try_flags (words, FALSE, &error);

      g_assert_null (report);
      g_assert_nonnull (error);
      if (i > 0 && strstr (error->message, flags[i][1]) == NULL)
        g_error ("%s: %s", words, error->message);
    }
}

/* `update = asynchronous` alone means the parameter server. */
static void
test_key (void)
{
  g_autoptr (PsiReport) named = run_flags (FALSE, "model=uniform plan=async workers=3");
  g_autoptr (PsiReport) keys = run_flags (FALSE, "model=uniform dp=3 stages=3 update=asynchronous");

  g_assert_cmpuint (plan_of (named)->digest, ==, plan_of (keys)->digest);
  g_assert_cmpstr (plan_of (keys)->update_rule, ==, "asynchronous");
}

/* m (F + B) a step without a bubble; p - r micro-batches and 1 + ceil ((p - 1 - r) / m) versions on rank r. */
static void
test_pipedream (void)
{
  for (guint p = 1; p <= 7; p += 2)
    for (guint m = 1; m <= 9; m += m < 3 ? 1 : 3)
      {
        double late = 0;
        g_autoptr (PsiReport) report = run_flags (
            FALSE,
            "model=uniform plan=pipedream stages=%u micro_batches=%u psi_p=%lld psi_a=%lld psi_int=1kB forward=1ms "
            "backward=2ms",
            p, m, (long long) p * UNIT_BYTES, (long long) p * UNIT_BYTES);
        const PsiPlanReport *plan = plan_of (report);

        g_assert_cmpuint (plan->gpus, ==, p);
        g_assert_cmpint (plan->step_time_ps, ==, STAGE_MS * MS_PS * m);
        assert_near (plan->bubble_fraction, 0);
        g_assert_cmpuint (plan->parameter_versions, ==, 1 + (p - 1 + m - 1) / m);
        assert_near (plan->delay_max, (p - 1 + m - 1) / m);
        g_assert_cmpint (plan->total_bytes, ==, 2 * m * (p - 1) * 1000);
        assert_near (plan->activation_total_peak_bytes, p * (p + 1) / 2 * UNIT_BYTES);
        for (guint r = 0; r < p; r++)
          {
            const PsiRankReport *rank = rank_of (plan, r);

            g_assert_cmpint (rank->activations_peak_bytes, ==, (p - r) * UNIT_BYTES);
            g_assert_cmpint (rank->at_peak[PSI_MEMORY_PARAMETERS], ==, (1 + (p - 1 - r + m - 1) / m) * UNIT_BYTES);
            g_assert_cmpint (rank->at_peak[PSI_MEMORY_GRADIENTS], ==, UNIT_BYTES);
            for (guint i = 0; i < m; i++)
              late += r + i < p - 1 ? (p - 1 - r - i + m - 1) / m : 0;
          }
        assert_near (plan->delay_mean, late / (p * m));
      }
}

/* A file whose forwards take parameters d steps old holds the d + 1 versions from there to the newest. */
static void
test_old_forwards (void)
{
  for (guint d = 1; d <= 7; d += 3)
    {
      g_autofree char *path = NULL;
      g_autofree char *text = g_strdup_printf ("psisim-schedule 1\nranks 2\nchunks 1\nmicro_batches 1\nsteps 1\n"
                                               "rank 0: F0@-%u B0@-%u U0\nrank 1: F0@-%u B0@-%u U0\n",
                                               d, d, d, d);
      int file = g_file_open_tmp ("psisim-late-XXXXXX.sched", &path, NULL);

      g_assert_cmpint (file, >=, 0);
      g_close (file, NULL);
      g_assert_true (g_file_set_contents (path, text, -1, NULL));
      g_autoptr (PsiReport) report =
          run_flags (FALSE, "model=uniform psi_p=%lld schedule=%s", (long long) 2 * UNIT_BYTES, path);
      const PsiPlanReport *plan = plan_of (report);

      g_assert_cmpuint (plan->parameter_versions, ==, d + 1);
      assert_near (plan->delay_mean, d);
      for (guint r = 0; r < 2; r++)
        g_assert_cmpint (rank_of (plan, r)->at_peak[PSI_MEMORY_PARAMETERS], ==, (d + 1) * UNIT_BYTES);
      g_unlink (path);
    }
}

/* The longest pipeline that an update after each micro-batch allows. */
static void
test_pipedream_long (void)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "model=uniform plan=pipedream stages=128 forward=1ms backward=2ms");

  g_assert_cmpint (plan_of (report)->step_time_ps, ==, STAGE_MS * MS_PS);
  assert_near (plan_of (report)->delay_max, 127);
  g_assert_cmpuint (plan_of (report)->parameter_versions, ==, 128);
}

/* Boundary tensors on links that take time: the p micro-batches under way cover p (F + B) + 2 (p - 1) x of a round
 * trip. */
static void
test_pipedream_transfers (void)
{
  for (guint p = 2; p <= 8; p += 3)
    {
      g_autoptr (PsiReport) free_links = run_flags (FALSE, "model=uniform plan=pipedream stages=%u psi_int=64MiB", p);
      g_autoptr (PsiReport) report =
          run_flags (FALSE, "model=uniform machine=a100-sxm-80 plan=pipedream stages=%u psi_int=64MiB", p);
      g_autoptr (PsiReport) two = run_flags (FALSE, "model=uniform machine=a100-sxm-80 plan=1f1b stages=2 "
                                                    "micro_batches=1 psi_int=64MiB");
      gint64 work_ps = plan_of (free_links)->step_time_ps, hop_ps = (plan_of (two)->step_time_ps - 2 * work_ps) / 2;

      g_assert_cmpint (hop_ps, >, 0);
      g_assert_cmpfloat_with_epsilon ((double) plan_of (report)->step_time_ps,
                                      (double) work_ps + 2.0 * (p - 1) / p * (double) hop_ps, 1e-6 * (double) work_ps);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sim/closed-forms-late/equal", test_equal);
  g_test_add_func ("/sim/closed-forms-late/slow", test_slow);
  g_test_add_func ("/sim/closed-forms-late/saturated", test_saturated);
  g_test_add_func ("/sim/closed-forms-late/busy-server", test_busy_server);
  g_test_add_func ("/sim/closed-forms-late/short-cuts", test_short_cuts);
  g_test_add_func ("/sim/closed-forms-late/refused", test_refused);
  g_test_add_func ("/sim/closed-forms-late/key", test_key);
  g_test_add_func ("/sim/closed-forms-late/pipedream", test_pipedream);
  g_test_add_func ("/sim/closed-forms-late/pipedream-long", test_pipedream_long);
  g_test_add_func ("/sim/closed-forms-late/old-forwards", test_old_forwards);
  g_test_add_func ("/sim/closed-forms-late/pipedream-transfers", test_pipedream_transfers);
  return g_test_run ();
}
