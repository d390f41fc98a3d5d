/* SPDX-License-Identifier: MIT */
/* What moves the time of a step: the host, the framework, what travels between ranks. */
#include "closed-forms.h"

static double
step_s (const char *flags)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "%s", flags);

  return (double) plan_of (report)->step_time_ps * 1e-12;
}

static gint64
gradient_bytes (const char *flags)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "%s", flags);

  return plan_of (report)->by_kind[PSI_TRAFFIC_GRADIENTS];
}

#define TINY "model=gpt2 machine=a100 sequence=64 micro_batch=1 "

/* A model whose kernels are shorter than the time to issue them takes the host's time: twice the layers twice the
 * time, and a framework with 3.2 times the cost of a kernel 3.2 times the time. */
static void
test_host (void)
{
  double per_layer_s =
      (step_s (TINY "framework=megatron layers=24") - step_s (TINY "framework=megatron layers=12")) / 12;
  double slow_s = (step_s (TINY "framework=megatron-deepspeed layers=24") -
                   step_s (TINY "framework=megatron-deepspeed layers=12")) /
                  12;

  g_assert_cmpfloat (per_layer_s, >, 40 * 12e-6);
  g_assert_cmpfloat (per_layer_s, <, 90 * 12e-6);
  g_assert_cmpfloat_with_epsilon (slow_s / per_layer_s, 3.2, 0.4);
}

/* A GPU without units for a format computes in the next wider one, and the report says so. */
static void
test_precision (void)
{
  static const struct
  {
    const char *machine, *precision, *warning;
  } cases[] = { { "a100", "fp8", "'a100-sxm-80' has no rate for fp8: products take the time of bf16" },
                { "v100", "bf16", "'v100-sxm-32' has no rate for bf16: products take the time of fp32" },
                { "a100", "bf16", NULL },
                { "v100", "fp16", NULL },
                { "h100", "fp8", NULL } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PsiReport) report =
          run_flags (FALSE, "model=gpt2 machine=%s precision=%s", cases[i].machine, cases[i].precision);
      const PsiPlanReport *plan = plan_of (report);

      g_assert_cmpuint (plan->warnings->len, ==, cases[i].warning != NULL);
      if (cases[i].warning != NULL)
        g_assert_true (g_str_has_prefix (plan->warnings->pdata[0], cases[i].warning));
      g_assert_true (isfinite (plan->mfu) && plan->mfu < 1);
    }
}

#define LLAMA "model=llama-2-7b machine=h100 dp=8 zero=3 micro_batch=1 sequence=8192 "

static void
test_attention (void)
{
  double first_s = step_s (LLAMA "attention=flash-1"), second_s = step_s (LLAMA "attention=flash-2"),
         third_s = step_s (LLAMA "attention=flash-3");

  g_assert_cmpfloat (second_s, ==, step_s (LLAMA "attention=flash"));
  g_assert_cmpfloat (third_s, <, 0.97 * second_s);
  g_assert_cmpfloat (second_s, <, 0.9 * first_s);
}

/* Images and sequences a second that others measured. ResNet-50 v1.5 and BERT large, one and eight GPUs: NVIDIA
 * DeepLearningExamples, PyTorch 21.03 and 21.11, mixed precision and TF32; RTX 3090: timm 0.6, channels last, fp16. */
static void
test_published (void)
{
  static const struct
  {
    const char *flags;
    double samples, samples_per_s, within;
  } rows[] = {
    { "model=resnet-50 machine=a100 optimizer=momentum precision=fp16 micro_batch=256", 256, 2470, 0.05 },
    { "model=resnet-50 machine=v100-sxm-16 optimizer=momentum precision=fp16 micro_batch=256", 256, 1200, 0.1 },
    { "model=resnet-50 machine=rtx-3090 optimizer=momentum precision=fp16 micro_batch=512", 512, 1218, 0.12 },
    { "model=vit-b16 machine=rtx-3090 precision=fp16 attention=math micro_batch=192", 192, 390, 0.12 },
    { "model=bert-large machine=a100 dp=8 precision=fp16 sequence=128 micro_batch=256 micro_batches=32", 65536, 4553,
      0.05 },
    { "model=bert-large machine=a100 dp=8 precision=tf32 sequence=128 micro_batch=128 micro_batches=64", 65536, 2486,
      0.15 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpfloat (fabs (rows[i].samples / step_s (rows[i].flags) / rows[i].samples_per_s - 1), <, rows[i].within);
}

#define PIPELINE "model=gpt2-xl machine=a100 gpus_per_node=1 pp=4 dp=1 micro_batches=16 micro_batch=4 dropout=0 "

/* A rank that waits for its sends loses two of them for each micro-batch, and no schedule makes it faster. */
static void
test_blocking (void)
{
  double waits_s = step_s (PIPELINE "framework=megatron"), not_s = step_s (PIPELINE "framework=megatron-core");
  double tensor_s = 4.0 * 1024 * 1600 * 2 / (200e9 / 8 * 0.9);

  g_assert_cmpfloat (waits_s - not_s, >, 16 * tensor_s);
  g_assert_cmpfloat (waits_s - not_s, <, 16 * 6 * tensor_s);
}

#define DATA "model=gpt2 machine=a100 dp=4 micro_batches=4"

static void
test_sums (void)
{
  gint64 once = gradient_bytes (DATA);

  g_assert_cmpint (gradient_bytes (DATA " reduce_every=1"), >, 4 * once - once / 100);
  g_assert_cmpint (gradient_bytes (DATA " reduce_every=1"), <=, 4 * once);
  g_assert_cmpint (gradient_bytes (DATA " reduce_every=2"), <=, 2 * once);
  g_assert_cmpint (gradient_bytes (DATA " reduce_every=4"), ==, once);
  g_assert_cmpfloat_with_epsilon ((double) gradient_bytes (DATA " compression=int8") / (double) once, 0.5, 0.001);
  g_assert_cmpint (gradient_bytes (DATA " compression=bf16"), ==, once); /* they are in 16 bits already */
}

/* Embedding and head share a matrix of 50257 x 768 in 16 bits: first and last rank send it to each other. */
static void
test_tied (void)
{
  gint64 tied = gradient_bytes ("model=gpt2 machine=a100 pp=2 micro_batches=2 grad_clip=no");
  gint64 not_tied = gradient_bytes ("model=gpt2 machine=a100 pp=2 micro_batches=2 grad_clip=no tied=no");

  g_assert_cmpint (not_tied, ==, 0);
  g_assert_cmpint (tied, ==, 2 * 50257 * 768 * 2);
}

static void
test_band (void)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, DATA);
  g_autoptr (PsiReport) lesson = run_flags (FALSE, "model=uniform plan=dp workers=2");
  double time_s = (double) plan_of (report)->step_time_ps * 1e-12;

  g_assert_cmpfloat (plan_of (report)->step_time_low_s, <=, time_s);
  g_assert_cmpfloat (plan_of (report)->step_time_high_s, >=, time_s);
  g_assert_cmpfloat (plan_of (report)->step_time_high_s - plan_of (report)->step_time_low_s, <, 0.5 * time_s);
  g_assert_true (isnan (plan_of (lesson)->step_time_low_s));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plan/step-time/precision", test_precision);
  g_test_add_func ("/plan/step-time/host", test_host);
  g_test_add_func ("/plan/step-time/attention", test_attention);
  g_test_add_func ("/plan/step-time/published", test_published);
  g_test_add_func ("/plan/step-time/blocking", test_blocking);
  g_test_add_func ("/plan/step-time/sums", test_sums);
  g_test_add_func ("/plan/step-time/tied", test_tied);
  g_test_add_func ("/plan/step-time/band", test_band);
  return g_test_run ();
}
