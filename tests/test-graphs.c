/* SPDX-License-Identifier: MIT */
/* Kernels recorded in CUDA graphs: what the host no longer does, what stays outside, what it costs in memory. */
#include "closed-forms.h"

typedef struct
{
  double step_s, host_wait_s;
  gint64 steady_bytes, peak_bytes, reserved_bytes;
} Result;

static Result
result_of (const char *flags, const char *graphs)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "%s cuda_graphs=%s", flags, graphs);
  const PsiPlanReport *plan = plan_of (report);

  return (Result){ (double) plan->step_time_ps * 1e-12, (double) plan->host_wait_ps * 1e-12, plan->steady_bytes,
                   plan->peak_bytes, plan->reserved_bytes };
}

#define TINY "model=gpt2 machine=a100 sequence=64 micro_batch=1 framework=megatron"

/* A step that the host holds up: what it waited for goes, and the GPU's gaps shrink; of layers one by one a little
 * stays, embedding and head, two calls and two copies each. The optimizer is as it was. */
static void
test_host (void)
{
  Result no = result_of (TINY, "no"), yes = result_of (TINY, "yes"), step = result_of (TINY, "step");

  g_assert_cmpfloat (no.host_wait_s, >, 0.3 * no.step_s);
  g_assert_cmpfloat (yes.host_wait_s, <, 0.03 * yes.step_s);
  g_assert_cmpfloat (step.host_wait_s, ==, 0);
  g_assert_cmpfloat (yes.step_s, <, no.step_s - no.host_wait_s + yes.host_wait_s + 12 * 2 * 4e-6);
  g_assert_cmpfloat (step.step_s, <, yes.step_s);
  /* 12 layers of about 50 kernels each follow 4/9 of a microsecond sooner. */
  g_assert_cmpfloat (no.step_s - no.host_wait_s - step.step_s, >, 12 * 45 * 0.44e-6);
  g_assert_cmpfloat (no.step_s - no.host_wait_s - step.step_s, <, 12 * 60 * 0.45e-6);
}

/* Where kernels are long nothing is won; copying inputs takes a little. */
static void
test_long_kernels (void)
{
#define LARGE "model=llama-2-7b machine=a100 sequence=4096 framework=megatron micro_batch=4"
  Result no = result_of (LARGE, "no"), yes = result_of (LARGE, "yes");

  g_assert_cmpfloat (no.host_wait_s, ==, 0);
  g_assert_cmpfloat_with_epsilon (yes.step_s / no.step_s, 1, 0.01);
}

/* Experts get as many tokens as the router gives them: they stay outside the graphs of their layers. */
static void
test_experts (void)
{
#define EXPERTS(n, layers)                                                                                             \
  "model=custom family=moe hidden=256 heads=4 ffn=256 vocab=1024 sequence=64 experts_per_token=2 machine=a100 "        \
  "framework=megatron experts=" n " layers=" layers
  double no_s = result_of (EXPERTS ("64", "24"), "no").step_s - result_of (EXPERTS ("64", "12"), "no").step_s;
  double yes_s = result_of (EXPERTS ("64", "24"), "yes").step_s - result_of (EXPERTS ("64", "12"), "yes").step_s;

  g_assert_cmpfloat (yes_s, <, 0.95 * no_s);
  g_assert_cmpfloat (result_of (EXPERTS ("64", "12"), "yes").host_wait_s, >, 0);
  g_assert_cmpfloat (result_of (EXPERTS ("64", "12"), "step").host_wait_s, ==, 0);
}

/* An input buffer for each layer and each micro-batch in flight, two for gradients. */
static void
test_memory (void)
{
#define PIPELINE "model=gpt2 machine=a100 sequence=64 micro_batch=1 dropout=0 pp=2 micro_batches=4 framework=megatron"
  gint64 tensor_bytes = 64 * 768 * 2;
  Result no = result_of (PIPELINE, "no"), yes = result_of (PIPELINE, "yes"), step = result_of (PIPELINE, "step");
  gint64 more_bytes = yes.steady_bytes - no.steady_bytes;

  /* The fullest between steps is a rank of six layers: the first has two micro-batches in flight, the last one. */
  g_assert_true (more_bytes == (6 * 2 + 2) * tensor_bytes || more_bytes == (6 * 1 + 2) * tensor_bytes);
  g_assert_cmpint (yes.peak_bytes, >, no.peak_bytes);
  g_assert_cmpint (yes.reserved_bytes, >=, yes.peak_bytes);
  g_assert_cmpint (step.steady_bytes, ==, no.steady_bytes);

  /* More in flight under GPipe: all of them. */
  Result all = result_of (PIPELINE " schedule=gpipe", "yes"), none = result_of (PIPELINE " schedule=gpipe", "no");
  g_assert_cmpint (all.steady_bytes - none.steady_bytes, ==, (6 * 4 + 2) * tensor_bytes);
}

/* A trace is one module: rows are not graphs of their own. */
static void
test_trace (void)
{
#define TRACE "model=resnet-50 machine=a100 precision=fp16 micro_batch=4 optimizer=momentum"
  Result no = result_of (TRACE, "no"), yes = result_of (TRACE, "yes"), step = result_of (TRACE, "step");

  g_assert_cmpfloat (no.host_wait_s, >, 0);
  g_assert_cmpfloat (yes.step_s, <, no.step_s);
  g_assert_cmpfloat (yes.step_s, ==, step.step_s);
  g_assert_cmpint (yes.steady_bytes, ==, no.steady_bytes);
}

static void
test_refusals (void)
{
  static const struct
  {
    const char *flags, *message;
  } cases[] = {
    { "model=gpt2 machine=a100 dp=2 zero=3 cuda_graphs=yes",
      "--cuda-graphs: 'yes' does not go with zero 3, which gathers parameters to places that change (allowed: no "
      "step)" },
    { "model=gpt2 machine=a100 offload=activations cuda_graphs=step",
      "--cuda-graphs: 'step' does not go with offload 'activations': tensors have to stay where they were recorded "
      "(allowed: no)" },
    { "model=gpt2 machine=a100 plan=async dp=2 cuda_graphs=yes",
      "--cuda-graphs: 'yes' does not go with workers that do not wait (allowed: no)" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiReport) report = try_flags (cases[i].flags, FALSE, &error);

      g_assert_null (report);
      g_assert_nonnull (error);
      g_assert_nonnull (strstr (error->message, cases[i].message));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sim/graphs/host", test_host);
  g_test_add_func ("/sim/graphs/long-kernels", test_long_kernels);
  g_test_add_func ("/sim/graphs/experts", test_experts);
  g_test_add_func ("/sim/graphs/memory", test_memory);
  g_test_add_func ("/sim/graphs/trace", test_trace);
  g_test_add_func ("/sim/graphs/refusals", test_refusals);
  return g_test_run ();
}
