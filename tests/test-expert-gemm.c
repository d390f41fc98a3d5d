/* SPDX-License-Identifier: MIT */
/* Products of experts: how they are launched, what they take, and what uneven routing does. */
#include "closed-forms.h"
#include "machine.h"

#define MODEL                                                                                                          \
  "model=custom family=moe layers=4 hidden=512 heads=8 ffn=256 vocab=1024 sequence=512 experts=32 "                    \
  "experts_per_token=2 machine=a100 "

/* One kernel for all beats one each by their launches, and those that fill the GPU together beat those one by one. The
 * host issues as many in either case: it is left out by a graph of the whole step. */
static void
test_ways (void)
{
  double loop_s = step_s (MODEL "cuda_graphs=step framework=megatron expert_gemm=loop");
  double streams_s = step_s (MODEL "cuda_graphs=step framework=megatron expert_gemm=streams");
  double grouped_s = step_s (MODEL "cuda_graphs=step framework=megatron expert_gemm=grouped");
  /* 4 layers, 2 products, 3 passes, 31 launches less of 1 + 2 us each (4/9 us of it hidden by the graph); the sum of
   * gradients is in the products. */
  double launches_s = 4 * 2 * 3 * 31 * (3e-6 - 4e-6 / 9);

  g_assert_cmpfloat_with_epsilon (streams_s - grouped_s, launches_s, 0.02 * launches_s);
  /* 32 tokens of 256 of an expert are one to a few tiles: alone they leave most of 108 SMs idle. */
  g_assert_cmpfloat (loop_s - grouped_s, >, 2 * launches_s);
}

/* What frameworks do unless told. */
static void
test_defaults (void)
{
  static const struct
  {
    const char *framework, *way;
  } cases[] = {
    { "framework=megatron", "streams" },
    { "framework=megatron-bridge", "streams" },
    { "framework=pytorch", "loop" },
    { "framework=pytorch compile=yes", "grouped" },
    { "framework=torchtitan", "grouped" },
    { "framework=torchtune", "loop" },
    { "framework=megatron compile=yes", "streams" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *plain = g_strconcat (MODEL, cases[i].framework, NULL);
      g_autofree char *written = g_strconcat (plain, " expert_gemm=", cases[i].way, NULL);
      g_autofree char *other =
          g_strconcat (plain, " expert_gemm=", strcmp (cases[i].way, "loop") == 0 ? "grouped" : "loop", NULL);

      g_assert_cmpfloat (step_s (plain), ==, step_s (written));
      g_assert_cmpfloat (step_s (plain), !=, step_s (other));
    }
}

/* The fullest of four GPUs: twice the tokens of the mean are sent to it, computed and kept; the model's FLOPs stay. */
static void
test_imbalance (void)
{
#define SPREAD MODEL "framework=megatron micro_batch=16 dp=4 ep=4"
  g_autoptr (PsiReport) even = run_flags (FALSE, SPREAD " expert_imbalance=1"),
                        uneven = run_flags (FALSE, SPREAD " expert_imbalance=2"), plain = run_flags (FALSE, SPREAD),
                        alone = run_flags (FALSE, MODEL "expert_imbalance=2"), same = run_flags (FALSE, MODEL "ep=1");
  const PsiPlanReport *a = plan_of (even), *b = plan_of (uneven);
  /* Per layer: 2 experts of a token x 512 tokens x 16 samples more rows, of 512 inputs and 3 x 256 inner values. */
  gint64 rows = 2 * 512 * 16, kept_bytes = 4 * rows * (512 + 3 * 256) * 2;

  g_assert_cmpint (a->step_time_ps, ==, plan_of (plain)->step_time_ps);
  g_assert_cmpint (b->by_kind[PSI_TRAFFIC_EXPERTS], ==, 2 * a->by_kind[PSI_TRAFFIC_EXPERTS]);
  g_assert_cmpint (b->step_time_ps, >, a->step_time_ps);
  g_assert_cmpint (rank_of (b, 0)->activations_peak_bytes - rank_of (a, 0)->activations_peak_bytes, ==, kept_bytes);
  g_assert_cmpfloat_with_epsilon (b->model_tflops_per_gpu * (double) b->step_time_ps /
                                      (a->model_tflops_per_gpu * (double) a->step_time_ps),
                                  1, 1e-9);
  /* One GPU has all experts: whichever they are, it gets all tokens. */
  g_assert_cmpint (plan_of (alone)->step_time_ps, ==, plan_of (same)->step_time_ps);
}

/* Group products that SimuMax measured (Transformer Engine's, a kernel for each expert): a few rows of its tables of an
 * A100 PCIe and a B200, with weight gradients of odd numbers of tokens. Over all 60 the mean error is 12 %. */
static void
test_measured (void)
{
  static const struct
  {
    const char *machine;
    gint64 experts, m, n, k;
    gboolean any_k;
    double result_bytes, tflops;
  } rows[] = {
    { "a100-pcie-80", 40, 616, 3072, 5120, FALSE, 2, 196.979 },
    { "a100-pcie-80", 20, 1232, 3072, 5120, FALSE, 2, 220.7 },
    { "a100-pcie-80", 40, 3072, 5120, 616, TRUE, 8, 162.142 },
    { "b200-sxm", 160, 154, 3072, 5120, FALSE, 2, 449.293 },
    { "b200-sxm", 128, 256, 7168, 2048, FALSE, 2, 682.765 },
    { "b200-sxm", 160, 3072, 5120, 154, TRUE, 8, 210.718 },
    { "b200-sxm", 40, 3072, 5120, 2460, TRUE, 8, 937.453 },
    { "b200-sxm", 20, 1232, 3072, 5120, FALSE, 2, 1155.18 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (rows[i].machine, NULL);
      double experts = (double) rows[i].experts, m = (double) rows[i].m, n = (double) rows[i].n, k = (double) rows[i].k;
      PsiKernel kernel = { .kind = PSI_KERNEL_GEMM,
                           .dtype = PSI_DTYPE_BF16,
                           .launches = (guint32) rows[i].experts,
                           .any_k = rows[i].any_k,
                           .batch = rows[i].experts,
                           .m = rows[i].m,
                           .n = rows[i].n,
                           .k = rows[i].k,
                           .flops = 2 * experts * m * n * k,
                           .bytes = experts * (2 * (m * k + n * k) + rows[i].result_bytes * m * n) };
      double measured_s = kernel.flops / rows[i].tflops / 1e12;

      g_assert_cmpfloat_with_epsilon (psi_gpu_kernel_s (&machine->gpu, &kernel) / measured_s, 1, 0.2);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sim/expert-gemm/ways", test_ways);
  g_test_add_func ("/sim/expert-gemm/defaults", test_defaults);
  g_test_add_func ("/sim/expert-gemm/imbalance", test_imbalance);
  g_test_add_func ("/sim/expert-gemm/measured", test_measured);
  return g_test_run ();
}
