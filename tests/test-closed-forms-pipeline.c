/* SPDX-License-Identifier: MIT */
/* Pipelines and model parallelism of p equal stages with m micro-batches, free transfers:
 *
 *   gpipe, 1f1b    (m + p - 1)(F + B), bubble (p - 1) / (m + p - 1); m and min(m, p - r) micro-batches kept on rank r
 *   interleaved    m (F + B) + (p - 1)(F + B) / v for m a multiple of p; rank 0 keeps min(m v, (v + 1) p - 1) chunks
 *   naive          m p (F + B), every GPU busy 1 / p of the time, one micro-batch kept
 *
 * Sources: Huang et al., arXiv 1811.06965; Narayanan et al., arXiv 2006.09503 and 2104.04473. */
#include "closed-forms.h"

#define STAGE_BYTES 5040

static const struct
{
  const char *flags;
  gint64 forward_ps, backward_ps;
} times[] = { { "forward=1ms backward=1ms", MS_PS, MS_PS },
              { "forward=1ms backward=2ms", MS_PS, 2 * MS_PS },
              { "forward=5ms backward=3ms", 5 * MS_PS, 3 * MS_PS } };

static PsiReport *
run_pipeline (const char *plan, guint p, guint m, const char *flags)
{
  return run_flags (FALSE, "model=uniform plan=%s pp=%u micro_batches=%u psi_a=%u psi_int=1000 %s", plan, p, m,
                    p * STAGE_BYTES, flags);
}

static void
test_flush (void)
{
  static const char *const plans[] = { "gpipe", "1f1b" };

  for (guint which = 0; which < 2; which++)
    for (guint p = 2; p <= 8; p++)
      for (guint m = 1; m <= 12; m++)
        for (guint t = 0; t < G_N_ELEMENTS (times); t++)
          {
            g_autoptr (PsiReport) report = run_pipeline (plans[which], p, m, times[t].flags);
            const PsiPlanReport *plan = plan_of (report);
            gint64 slot_ps = times[t].forward_ps + times[t].backward_ps;

            g_assert_cmpint (plan->step_time_ps, ==, (m + p - 1) * slot_ps);
            assert_near (plan->bubble_fraction, (double) (p - 1) / (m + p - 1));
            g_assert_cmpuint (plan->gpus, ==, p);
            g_assert_cmpint (plan->by_kind[PSI_TRAFFIC_BOUNDARY], ==, 2 * m * (p - 1) * 1000);
            g_assert_cmpint (plan->total_bytes, ==, plan->by_kind[PSI_TRAFFIC_BOUNDARY]);
            for (guint r = 0; r < p; r++)
              {
                const PsiRankReport *rank = rank_of (plan, r);
                guint kept = which == 0 ? m : MIN (m, p - r);

                g_assert_cmpint (rank->stage, ==, r);
                g_assert_cmpint (rank->activations_peak_bytes, ==, kept * STAGE_BYTES);
                g_assert_cmpint (rank->time_ps[PSI_TIME_COMPUTE], ==, m * slot_ps);
                g_assert_cmpint (rank->time_ps[PSI_TIME_BUBBLE], ==, (p - 1) * slot_ps);
                g_assert_cmpint (rank->sent_bytes, ==, m * ((r > 0) + (r + 1 < p)) * 1000);
              }
          }
}

/* p = 8, m = 4, 1f1b: 4 4 4 4 4 3 2 1 micro-batches are kept, 26 stages' worth when all peaks come together. */
static void
test_few_micro_batches (void)
{
  g_autoptr (PsiReport) report = run_pipeline ("1f1b", 8, 4, "forward=1ms backward=1ms");
  static const guint kept[] = { 4, 4, 4, 4, 4, 3, 2, 1 };

  g_assert_cmpint (plan_of (report)->step_time_ps, ==, 22 * MS_PS);
  assert_near (plan_of (report)->bubble_fraction, 7.0 / 11);
  for (guint r = 0; r < 8; r++)
    g_assert_cmpint (rank_of (plan_of (report), r)->activations_peak_bytes, ==, kept[r] * STAGE_BYTES);
}

static void
test_interleaved (void)
{
  /* 2 to 4 parts a rank, 20 and 61, as many as there are streams for. */
  for (guint p = 2; p <= 5; p++)
    for (guint v = 2; v <= 61; v += v < 4 ? 1 : v == 4 ? 16 : 41)
      for (guint m = p; m <= 4 * p; m += p)
        for (guint t = 0; t < G_N_ELEMENTS (times); t++)
          {
            /* Times are those of one of the p v parts; F and B of a rank are v times as long. */
            g_autoptr (PsiReport) report = run_flags (
                FALSE, "model=uniform plan=interleaved pp=%u vpp=%u micro_batches=%u psi_a=%u psi_int=1000 %s", p, v, m,
                p * v * STAGE_BYTES, times[t].flags);
            const PsiPlanReport *plan = plan_of (report);
            gint64 part_ps = times[t].forward_ps + times[t].backward_ps;

            g_assert_cmpint (plan->step_time_ps, ==, m * v * part_ps + (p - 1) * part_ps);
            assert_near (plan->bubble_fraction, (double) (p - 1) / (m * v + p - 1));
            g_assert_cmpint (rank_of (plan, 0)->activations_peak_bytes, ==, MIN (m * v, (v + 1) * p - 1) * STAGE_BYTES);
            /* v times the messages of one part a rank, less the one that would lead out. */
            g_assert_cmpint (plan->by_kind[PSI_TRAFFIC_BOUNDARY], ==, 2 * m * (p * v - 1) * 1000);
          }
}

static void
test_naive (void)
{
  for (guint p = 2; p <= 10; p++)
    for (guint m = 1; m <= 10; m += 3)
      for (guint t = 0; t < G_N_ELEMENTS (times); t++)
        {
          g_autoptr (PsiReport) report = run_pipeline ("mp", p, m, times[t].flags);
          const PsiPlanReport *plan = plan_of (report);

          g_assert_cmpint (plan->step_time_ps, ==, m * p * (times[t].forward_ps + times[t].backward_ps));
          assert_near (plan->bubble_fraction, (double) (p - 1) / p);
          g_assert_cmpint (plan->activation_total_peak_bytes, ==, p * STAGE_BYTES);
          for (guint r = 0; r < p; r++)
            g_assert_cmpint (rank_of (plan, r)->activations_peak_bytes, ==, STAGE_BYTES);
        }
}

/* Ten stages on ten GPUs: each works a tenth of the time (Lei Mao, Data Parallelism VS Model Parallelism, 2019). */
static void
test_ten_gpus (void)
{
  g_autoptr (PsiReport) split = run_flags (FALSE, "model=uniform plan=mp gpus=10");
  g_autoptr (PsiReport) data = run_flags (FALSE, "model=uniform plan=dp gpus=10 stages=10");
  const PsiPlanReport *mp = plan_of (split), *dp = plan_of (data);

  for (guint r = 0; r < 10; r++)
    g_assert_cmpint (10 * rank_of (mp, r)->time_ps[PSI_TIME_COMPUTE], ==, mp->step_time_ps);
  assert_near (dp->bubble_fraction, 0);
  assert_near (dp->samples_per_s, 10 * mp->samples_per_s);
}

/* No flush: N micro-batches every N (F + B), no bubble, p - r kept. */
static void
test_no_flush (void)
{
  for (guint p = 2; p <= 8; p++)
    for (guint t = 0; t < G_N_ELEMENTS (times); t++)
      {
        g_autoptr (PsiReport) report = run_flags (FALSE, "model=uniform plan=cdp+pp workers=%u stages=%u psi_a=%u %s",
                                                  p, p, p * STAGE_BYTES, times[t].flags);
        const PsiPlanReport *plan = plan_of (report);

        g_assert_cmpint (plan->step_time_ps, ==, p * (times[t].forward_ps + times[t].backward_ps));
        assert_near (plan->bubble_fraction, 0);
        for (guint r = 0; r < p; r++)
          g_assert_cmpint (rank_of (plan, r)->activations_peak_bytes, ==, (p - r) * STAGE_BYTES);
      }
}

/* Branches that do not depend on each other run at the same time on different GPUs: the towers of a Siamese pair take
 * half the time on two GPUs that a plain split would need. */
static void
test_branches (void)
{
  static const char *const cuts[] = { "stages=2 partition=13,16", "stages=2", "stages=3 partition=13,12,4" };
  g_autofree char *trace = g_build_filename (g_test_get_dir (G_TEST_DIST), "..", "traces", "siamese.trace", NULL);
  const char *rest = "machine=ideal micro_batch=64 optimizer=none grad_clip=no";
  g_autoptr (PsiReport) one = run_flags (FALSE, "model=%s plan=dp workers=1 %s", trace, rest);

  for (guint c = 0; c < G_N_ELEMENTS (cuts); c++)
    {
      g_autoptr (PsiReport) split = run_flags (FALSE, "model=%s plan=mp micro_batches=1 %s %s", trace, cuts[c], rest);
      double ratio = (double) plan_of (split)->step_time_ps / (double) plan_of (one)->step_time_ps;

      g_assert_cmpfloat (ratio, >=, 0.5);
      g_assert_cmpfloat (ratio, <, 0.51);
      g_assert_cmpint (plan_of (split)->by_kind[PSI_TRAFFIC_BOUNDARY], ==,
                       (c == 2 ? 4 : 2) * 64 * G_GINT64_CONSTANT (8192)); /* 4096 numbers in bf16 */
    }
}

/* No pipeline waits in a circle: neither branches that cross several cuts, nor groups of micro-batches longer than the
 * pipeline that a framework sends before it computes on. */
static void
test_no_circle (void)
{
  static const char *const schedules[] = { "1f1b", "gpipe", "interleaved", "zb-h1" };
  static const char *const models[] = { "model=uniform", "model=resnet-50" };
  static const guint micro_batches[] = { 1, 3, 5, 7, 8, 16 };

  for (guint m = 0; m < 2; m++)
    for (guint s = 0; s < G_N_ELEMENTS (schedules); s++)
      for (guint ranks = 2; ranks <= (m == 0 ? 5 : 16); ranks += m == 0 ? 1 : 7)
        for (guint vpp = 1; vpp <= (s == 0 || s == 3 || ranks == 16 ? 1 : 4); vpp++)
          for (guint n = 0; n < (ranks > 5 ? 3 : G_N_ELEMENTS (micro_batches)); n++)
            {
              gint64 traffic[2];

              for (guint waits = 0; waits < 2; waits++)
                {
                  g_autoptr (PsiReport) report =
                      run_flags (FALSE, "%s machine=a100 schedule=%s pp=%u vpp=%u micro_batches=%u framework=%s",
                                 models[m], schedules[s], ranks, vpp, micro_batches[n], waits ? "megatron" : "pytorch");
                  traffic[waits] = plan_of (report)->by_kind[PSI_TRAFFIC_BOUNDARY];
                }
              g_assert_cmpint (traffic[0], ==, traffic[1]);
            }
}

/* Recompute full: a forward more in every backward, one boundary tensor kept. */
static void
test_recompute (void)
{
  g_autoptr (PsiReport) report = run_flags (
      FALSE,
      "model=uniform plan=1f1b pp=4 micro_batches=8 psi_a=20160 psi_int=1000 forward=1ms backward=2ms recompute=full");
  const PsiPlanReport *plan = plan_of (report);

  g_assert_cmpint (plan->step_time_ps, ==, (8 + 3) * 4 * MS_PS);
  g_assert_cmpint (rank_of (plan, 0)->time_ps[PSI_TIME_RECOMPUTE], ==, 8 * MS_PS);
  g_assert_cmpint (rank_of (plan, 0)->time_ps[PSI_TIME_COMPUTE], ==, 8 * 3 * MS_PS);
  g_assert_cmpint (rank_of (plan, 0)->activations_peak_bytes, ==, 3 * 1000 + 5040);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/pipeline/flush", test_flush);
  g_test_add_func ("/model/pipeline/few-micro-batches", test_few_micro_batches);
  g_test_add_func ("/model/pipeline/interleaved", test_interleaved);
  g_test_add_func ("/model/pipeline/no-flush", test_no_flush);
  g_test_add_func ("/model/pipeline/no-circle", test_no_circle);
  g_test_add_func ("/model/pipeline/recompute", test_recompute);
  g_test_add_func ("/model/model-parallel/naive", test_naive);
  g_test_add_func ("/model/model-parallel/ten-gpus", test_ten_gpus);
  g_test_add_func ("/model/model-parallel/branches", test_branches);
  return g_test_run ();
}
