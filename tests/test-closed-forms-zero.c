/* SPDX-License-Identifier: MIT */
/* Sharded data parallelism and rings in closed form.
 *
 *   bytes per GPU of a model of P parameter bytes (P / 2 elements) on D GPUs with Adam in mixed precision, 12 bytes an
 *   element:  stage 0  P + P + 6 P;  1  P + P + 6 P / D;  2  P + (P + 6 P) / D;  3  (P + P + 6 P) / D
 *   sent per GPU: all-reduce 2 (D - 1) / D, all-gather and reduce-scatter (D - 1) / D of the bytes
 *   stages 0 to 2 send 2 (D - 1) / D P per GPU, stage 3 sends 3 (D - 1) / D P
 *
 * Source: Rajbhandari et al., ZeRO, arXiv 1910.02054, section 3 and 7. */
#include "closed-forms.h"

#define SHARE_BYTES 10080 /* even, so that an element's two bytes stay together */

static void
test_state (void)
{
  for (guint d = 2; d <= 16; d++)
    for (guint zero = 0; zero <= 3; zero++)
      {
        const guint k = 4;
        gint64 p = (gint64) SHARE_BYTES * d * k, g = p, o = 6 * p;
        g_autoptr (PsiReport) report =
            run_flags (FALSE, "model=uniform plan=dp zero=%u workers=%u stages=%u psi_p=%lld psi_a=0 optimizer=adam",
                       zero, d, k, (long long) p);
        const PsiPlanReport *plan = plan_of (report);
        const PsiRankReport *rank = rank_of (plan, 0);
        gint64 sum = (zero >= 3 ? p / d : p) + (zero >= 2 ? g / d : g) + (zero >= 1 ? o / d : o);

        g_assert_cmpuint (rank->count, ==, d);
        g_assert_cmpint (plan->steady_bytes, ==, sum);
        g_assert_cmpint (rank->at_peak[PSI_MEMORY_PARAMETERS], ==, zero >= 3 ? p / d : p);
        g_assert_cmpint (rank->at_peak[PSI_MEMORY_OPTIMIZER], ==, zero >= 1 ? o / d : o);
        g_assert_cmpint (rank->at_peak[PSI_MEMORY_GRADIENTS], >=, zero >= 2 ? g / d : g);
        assert_near (rank->sent_bytes, (zero == 3 ? 3.0 : 2.0) * (d - 1) / d * (double) p);
        assert_near (plan->total_bytes, (zero == 3 ? 3.0 : 2.0) * (d - 1) * (double) p);
        if (zero == 3)
          {
            /* A gathered copy is communication; at most the stage in use and, prefetched, the next. */
            g_assert_cmpint (rank->at_peak[PSI_MEMORY_COMMUNICATION], >=, p / k);
            g_assert_cmpint (rank->at_peak[PSI_MEMORY_COMMUNICATION], <=, 2 * p / k);
          }
        g_assert_cmpint (plan->step_time_ps, ==, 3 * MS_PS * k);
      }
}

/* Nothing to send on one GPU, whatever is sharded. */
static void
test_one_gpu (void)
{
  for (guint zero = 0; zero <= 3; zero++)
    {
      g_autoptr (PsiReport) report = run_flags (FALSE, "model=uniform plan=dp zero=%u workers=1 stages=4", zero);

      g_assert_cmpint (plan_of (report)->total_bytes, ==, 0);
      g_assert_cmpuint (plan_of (report)->sequential_steps, ==, 0);
      g_assert_cmpint (plan_of (report)->step_time_ps, ==, 12 * MS_PS);
    }
}

/* Tensor parallelism: everything of a stage divides by tp; one all-reduce of a boundary tensor in each direction. */
static void
test_tensor_parallel (void)
{
  for (guint tp = 2; tp <= 8; tp *= 2)
    {
      const guint k = 4;
      g_autoptr (PsiReport) report =
          run_flags (FALSE,
                     "model=uniform plan=tp tp=%u stages=%u psi_p=322560 psi_a=161280 psi_int=8000 forward=8ms "
                     "backward=16ms",
                     tp, k);
      const PsiPlanReport *plan = plan_of (report);

      g_assert_cmpuint (plan->gpus, ==, tp);
      g_assert_cmpint (plan->step_time_ps, ==, k * 24 * MS_PS / tp);
      g_assert_cmpint (rank_of (plan, 0)->at_peak[PSI_MEMORY_PARAMETERS], ==, 322560 / tp);
      g_assert_cmpint (rank_of (plan, 0)->activations_peak_bytes, ==, 161280 / tp);
      assert_near (plan->by_kind[PSI_TRAFFIC_TENSOR], 2 * k * 2.0 * (tp - 1) * 8000);
    }
}

/* Replicas of anything are the thing itself plus one all-reduce of its gradients. */
static void
test_replicas (void)
{
  static const char *const plans[] = { "1f1b", "mp", "tp" };

  for (guint i = 0; i < G_N_ELEMENTS (plans); i++)
    {
      g_autoptr (PsiReport) one = run_flags (FALSE, "model=uniform plan=%s stages=4 psi_p=322560", plans[i]);
      g_autoptr (PsiReport) four = run_flags (FALSE, "model=uniform plan=%s stages=4 dp=4 psi_p=322560", plans[i]);
      const PsiPlanReport *a = plan_of (one), *b = plan_of (four);

      g_assert_cmpuint (b->gpus, ==, 4 * a->gpus);
      g_assert_cmpint (b->step_time_ps, ==, a->step_time_ps);
      g_assert_cmpint (b->peak_bytes, ==, a->peak_bytes);
      g_assert_cmpint (b->activation_total_peak_bytes, ==, 4 * a->activation_total_peak_bytes);
      g_assert_cmpint (b->by_kind[PSI_TRAFFIC_GRADIENTS], ==, 2 * 3 * 322560);
      g_assert_cmpint (b->total_bytes - b->by_kind[PSI_TRAFFIC_GRADIENTS], ==, 4 * a->total_bytes);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/zero/state", test_state);
  g_test_add_func ("/model/zero/one-gpu", test_one_gpu);
  g_test_add_func ("/model/tensor-parallel/uniform", test_tensor_parallel);
  g_test_add_func ("/model/replicas", test_replicas);
  return g_test_run ();
}
