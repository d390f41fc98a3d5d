/* SPDX-License-Identifier: MIT */
/* What moves the time of a step: the host, the framework, what travels between ranks. */
#include "closed-forms.h"

static gint64
gradient_bytes (const char *flags)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "%s", flags);

  return plan_of (report)->by_kind[PSI_TRAFFIC_GRADIENTS];
}

#define TINY "model=gpt2 machine=a100 sequence=64 micro_batch=1 "

/* What each further layer adds. */
static double
layer_s (const char *flags, const char *framework)
{
  g_autofree char *more = g_strdup_printf ("%sframework=%s layers=24", flags, framework);
  g_autofree char *few = g_strdup_printf ("%sframework=%s layers=12", flags, framework);

  return (step_s (more) - step_s (few)) / 12;
}

/* A model whose kernels are shorter than the time to issue them takes the host's time: twice the layers twice the
 * time, and a framework with 2.13 times the cost of a kernel 2.13 times the time; with 7 times, 6 times more. */
static void
test_host (void)
{
  double per_layer_s = layer_s (TINY, "megatron"), slow_s = layer_s (TINY, "megatron-deepspeed");
  double core_s = layer_s (TINY, "megatron-core");

  g_assert_cmpfloat (per_layer_s, >, 40 * 18e-6);
  g_assert_cmpfloat (per_layer_s, <, 90 * 18e-6);
  g_assert_cmpfloat_with_epsilon (slow_s / per_layer_s, 2.13, 0.3);
  g_assert_cmpfloat (core_s - per_layer_s, >, 40 * 6 * 18e-6);
  g_assert_cmpfloat (core_s - per_layer_s, <, 90 * 6 * 18e-6);
}

/* Hosts that compare each collective first: four of a layer over four ranks, 110 us and 12 messages of 69 us each. On
 * by itself where nanotron cuts tensors and layers over several nodes, never where there is one rank. */
static void
test_checks (void)
{
#define CHECKED TINY "framework=megatron tp=4 collective_checks=yes "
#define NODES "model=llama-2-7b layers=8 machine=h100 tp=8 pp=2 micro_batches=4 framework=nanotron "
  double checked_s = step_s (CHECKED "layers=24") - step_s (CHECKED "layers=12");
  double plain_s =
      step_s (TINY "framework=megatron tp=4 layers=24") - step_s (TINY "framework=megatron tp=4 layers=12");

  g_assert_cmpfloat_with_epsilon ((checked_s - plain_s) / 12, 4 * (110e-6 + 12 * 69e-6), 1e-6);
  g_assert_cmpfloat (step_s (NODES "dp=1"), ==, step_s (NODES "collective_checks=yes"));
  g_assert_cmpfloat (step_s (NODES "dp=1"), >, 1.5 * step_s (NODES "collective_checks=no"));
  g_assert_cmpfloat (step_s (NODES "gpus_per_node=16"), <, step_s (NODES "gpus_per_node=16 collective_checks=yes"));
  g_assert_cmpfloat (step_s (TINY "framework=megatron collective_checks=yes"), ==, step_s (TINY "framework=megatron"));
}

/* nanotron's ZeRO-1 cuts each tensor on the host: a slice and a copy for each of 6 tensors of a layer and each rank. */
static void
test_slices (void)
{
#define SLICES "model=llama-2-7b layers=8 machine=h100 zero=1 framework=nanotron "
  g_autoptr (PsiReport) few = run_flags (FALSE, SLICES "dp=8"), many = run_flags (FALSE, SLICES "dp=16");
  g_autoptr (PsiReport) deeper = run_flags (FALSE, SLICES "dp=16 layers=16");
  double ranks_ps = (double) (rank_of (plan_of (many), 0)->time_ps[PSI_TIME_OPTIMIZER] -
                              rank_of (plan_of (few), 0)->time_ps[PSI_TIME_OPTIMIZER]);
  double layers_ps = (double) (rank_of (plan_of (deeper), 0)->time_ps[PSI_TIME_OPTIMIZER] -
                               rank_of (plan_of (many), 0)->time_ps[PSI_TIME_OPTIMIZER]);

  g_assert_cmpfloat (layers_ps, >, 6 * 8 * 16 * 1.5 * 9e6);
  g_assert_cmpfloat (layers_ps, <, 1.2 * 6 * 8 * 16 * 1.5 * 9e6);
  g_assert_cmpfloat (ranks_ps, >, 0.7 * 6 * 10 * 8 * 1.5 * 9e6);
  g_assert_cmpfloat (ranks_ps, <, 6 * 11 * 8 * 1.5 * 9e6);
}

/* nanotron multiplies what it gathers in two parts with two ranks, in three with more: one kernel more for each of four
 * gathers of a layer. */
static void
test_parts (void)
{
#define PARTS "model=gpt2 machine=h100 sequence=64 micro_batch=1 sequence_parallel=yes optimizer=none grad_clip=no "
  double two_s = layer_s (PARTS "tp=2 ", "nanotron"), four_s = layer_s (PARTS "tp=4 ", "nanotron");

  g_assert_cmpfloat_with_epsilon (four_s - two_s, 4 * 48e-6, 0.06 * 4 * 48e-6);
  g_assert_cmpfloat_with_epsilon (layer_s (PARTS "tp=4 ", "megatron"), layer_s (PARTS "tp=2 ", "megatron"), 12e-6);
}

/* DeepSpeed's ZeRO-3 of 2021 makes a list of all ranks' parts for each of 12 tensors of a layer, which it gathers twice
 * and scatters once: a view and a copy for each rank, and three passes over the layer's bytes. */
static void
test_lists (void)
{
#define LISTS "model=gpt2 machine=a100 zero=3 micro_batch=8 precision=fp16 grad_clip=no "
  double ranks_s = layer_s (LISTS "dp=64 ", "deepspeed-2021") - layer_s (LISTS "dp=32 ", "deepspeed-2021");
  double others_s = layer_s (LISTS "dp=64 ", "megatron-deepspeed") - layer_s (LISTS "dp=32 ", "megatron-deepspeed");
  double expected_s = 3 * 12 * 32 * 13.5e-6;

  g_assert_cmpfloat_with_epsilon (ranks_s - others_s, expected_s, 0.05 * expected_s);
}

/* Time of a further layer and micro-batch. */
static double
pass_s (const char *flags)
{
  double sums[2];

  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *few = g_strdup_printf ("%s layers=%u micro_batches=2", flags, i == 0 ? 4 : 8);
      g_autofree char *many = g_strdup_printf ("%s layers=%u micro_batches=4", flags, i == 0 ? 4 : 8);

      sums[i] = step_s (many) - step_s (few);
    }
  return (sums[1] - sums[0]) / (4 * 2);
}

/* Where the host awaits each kernel, what it takes to issue them is added to the time of the GPU: as long for a layer
 * of long kernels as a layer of short ones takes that only waits for the host. */
static void
test_awaited_kernels (void)
{
#define WIDE "model=gpt2 machine=a100 hidden=8192 heads=64 ffn=32768 micro_batch=4 sequence=1024 "
  double host_s = pass_s (TINY "framework=megatron-deepspeed"), ahead_s = pass_s (WIDE "framework=megatron-deepspeed"),
         awaited_s = pass_s (WIDE "framework=bigscience");

  g_assert_cmpfloat (ahead_s, >, 2 * host_s);
  g_assert_cmpfloat_with_epsilon (awaited_s - ahead_s, host_s, 0.001 * host_s);
}

/* DeepSpeed adds an fp32 copy of each bf16 gradient: 18 bytes of a parameter and micro-batch instead of the 6 of a
 * gradient in bf16, and one kernel more for each of four matrices. */
static void
test_copied_sums (void)
{
  double wide_s = pass_s (WIDE "framework=megatron-deepspeed"),
         narrow_s = pass_s (WIDE "framework=megatron-deepspeed grad_dtype=bf16");
  double expected_s = 12 * 12.0 * 8192 * 8192 / (0.8 * 2039e9) + 4 * 3e-6;

  g_assert_cmpfloat_with_epsilon (wide_s - narrow_s, expected_s, 0.001 * expected_s);
}

/* Each expert is a kernel of its own for the host: forward and twice backward, two products each. A slow framework
 * calls for all of them at once. */
static void
test_experts (void)
{
#define EXPERTS                                                                                                        \
  "model=custom family=moe hidden=256 heads=4 ffn=256 vocab=1024 sequence=64 experts_per_token=2 machine=a100 "
  double few_s = layer_s (EXPERTS "experts=8 ", "megatron"), many_s = layer_s (EXPERTS "experts=64 ", "megatron");
  double core_s = layer_s (EXPERTS "experts=64 ", "megatron-core") - layer_s (EXPERTS "experts=8 ", "megatron-core");

  g_assert_cmpfloat_with_epsilon (many_s - few_s, 56 * 2 * 3 * 18e-6, 0.1 * 56 * 2 * 3 * 18e-6);
  g_assert_cmpfloat_with_epsilon (core_s, many_s - few_s, 0.1 * (many_s - few_s));
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
 * DeepLearningExamples, PyTorch 21.03 and 21.11, mixed precision and TF32; BERT base: DLPerf, NGC PyTorch; RTX 3090:
 * timm 0.6, fp16, channels last or first. Traces of torchvision's models in tests/traces: a depthwise network, and one
 * whose groups of 48 channels have kernels on matrix units only channels first. */
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
    { "model=resnet-50 machine=rtx-3090 optimizer=momentum precision=fp16 micro_batch=512 channels_last=no", 512, 826,
      0.05 },
    { "model=resnet-50 machine=a100 optimizer=momentum precision=tf32 micro_batch=256 channels_last=no", 256, 938,
      0.05 },
    { "model=resnet-50 machine=v100-sxm-16 optimizer=momentum precision=fp32 micro_batch=112 channels_last=no", 112,
      367, 0.08 },
    { "model=@mobilenet-v2 machine=rtx-3090 optimizer=momentum precision=fp16 micro_batch=512", 512, 2313, 0.1 },
    { "model=@mobilenet-v2 machine=rtx-3090 optimizer=momentum precision=fp16 micro_batch=512 channels_last=no", 512,
      1832, 0.1 },
    { "model=@regnet-x-3.2gf machine=rtx-3090 optimizer=momentum precision=fp16 micro_batch=384", 384, 309, 0.12 },
    { "model=@regnet-x-3.2gf machine=rtx-3090 optimizer=momentum precision=fp16 micro_batch=384 channels_last=no", 384,
      788, 0.1 },
    { "model=vit-b16 machine=rtx-3090 precision=fp16 attention=math micro_batch=192", 192, 390, 0.12 },
    { "model=bert-large machine=a100 dp=8 precision=fp16 sequence=128 micro_batch=256 micro_batches=32", 65536, 4553,
      0.05 },
    { "model=bert-large layers=12 hidden=768 heads=12 ffn=3072 machine=v100-sxm-16 precision=fp32 sequence=128 "
      "attention=math dropout=0.1 micro_batch=48",
      48, 122, 0.08 },
    { "model=bert-large machine=a100 dp=8 precision=tf32 sequence=128 micro_batch=128 micro_batches=64", 65536, 2486,
      0.1 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (GStrv) parts = g_strsplit (rows[i].flags, "@", 2);
      const char *rest = parts[1] != NULL ? strchr (parts[1], ' ') : "";
      g_autofree char *name = parts[1] != NULL ? g_strndup (parts[1], (gsize) (rest - parts[1])) : NULL;
      g_autofree char *path =
          name != NULL ? g_strdup_printf ("%s/traces/%s.trace", g_test_get_dir (G_TEST_DIST), name) : g_strdup ("");
      g_autofree char *flags = g_strconcat (parts[0], path, rest, NULL);

      g_assert_cmpfloat (fabs (rows[i].samples / step_s (flags) / rows[i].samples_per_s - 1), <, rows[i].within);
    }
}

#define PIPELINE "model=gpt2-xl machine=a100 gpus_per_node=1 pp=4 dp=1 micro_batches=16 micro_batch=4 dropout=0 "

/* A rank that waits for its sends loses two of them for each micro-batch, and no schedule makes it faster. */
static void
test_blocking (void)
{
  double waits_s = step_s (PIPELINE "framework=megatron"), not_s = step_s (PIPELINE "framework=megatron-bridge");
  double tensor_s = 4.0 * 1024 * 1600 * 2 / (200e9 / 8 * 0.9);

  g_assert_cmpfloat (waits_s - not_s, >, 16 * tensor_s);
  g_assert_cmpfloat (waits_s - not_s, <, 16 * 6 * tensor_s);
}

/* Two ranks on a link so slow that nothing else counts: activation and gradient of a micro-batch cross on it under
 * Megatron and follow each other under DeepSpeed. */
static void
test_serial_messages (void)
{
#define SLOW "model=gpt2 machine=a100 gpus_per_node=1 internode=1MB/s pp=2 tied=no sequence=512 schedule=1f1b "
  const char *const frameworks[] = { "megatron", "megatron-deepspeed" };
  double tensor_s = 512 * 768 * 2 / (1e6 * 0.9);

  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *few = g_strdup_printf (SLOW "framework=%s micro_batches=8", frameworks[i]);
      g_autofree char *many = g_strdup_printf (SLOW "framework=%s micro_batches=16", frameworks[i]);

      g_assert_cmpfloat_with_epsilon ((step_s (many) - step_s (few)) / 8, (i + 1) * tensor_s, 0.05 * tensor_s);
    }
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

/* ZeRO-1 sends each gradient once, DeepSpeed's pipelines twice. */
static void
test_whole_sums (void)
{
#define ZERO "model=gpt2 machine=a100 dp=4 zero=1 pp=2 micro_batches=2 tied=no "
  gint64 scattered = gradient_bytes (ZERO "framework=megatron"),
         whole = gradient_bytes (ZERO "framework=megatron-deepspeed");

  /* all but the 4 bytes of the global norm */
  g_assert_cmpfloat_with_epsilon ((double) whole / (double) scattered, 2, 1e-5);
  g_assert_cmpint (gradient_bytes (ZERO "framework=megatron-deepspeed precision=fp16"), <, whole / 3);
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

#define TENSOR "model=llama-2-7b machine=a100 dp=1 tp=8 micro_batches=3 micro_batch=2 sequence=4096 "

static gint64
tensor_bytes (const char *flags)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "%s", flags);

  return plan_of (report)->by_kind[PSI_TRAFFIC_TENSOR];
}

/* Collectives beside weight gradients: two of four for each layer and one for the head leave the critical path, and no
 * byte less travels. With sequence parallelism the inputs of as many products are gathered once more, 7 S each. */
static void
test_tensor_overlap (void)
{
  const gint64 gather = 7 * (gint64) (2 * 4096) * 4096 * 2;
  double waits_s = step_s (TENSOR "framework=megatron-2021"), beside_s = step_s (TENSOR "framework=megatron");

  g_assert_cmpint (tensor_bytes (TENSOR "framework=megatron-2021"), ==, tensor_bytes (TENSOR "framework=megatron"));
  g_assert_cmpfloat (beside_s, <, 0.97 * waits_s);
  g_assert_cmpfloat (beside_s, >, 0.8 * waits_s);
  g_assert_cmpint (tensor_bytes (TENSOR "framework=megatron sequence_parallel=yes") -
                       tensor_bytes (TENSOR "framework=megatron-deepspeed sequence_parallel=yes"),
                   ==, 3 * (2 * 32 + 1) * gather);
}

static gint64
boundary_bytes (const char *flags)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "%s", flags);

  return plan_of (report)->by_kind[PSI_TRAFFIC_BOUNDARY];
}

/* Boundary tensors that travel in shares are gathered where they arrive, 7 S each: once forward and once backward for
 * each of 3 micro-batches, under DeepSpeed twice backward, and not where they travel whole or shares are what layers
 * work on. */
static void
test_whole_boundaries (void)
{
#define STAGES TENSOR "pp=2 "
  const gint64 gather = 7 * (gint64) (2 * 4096) * 4096 * 2;
  gint64 whole = tensor_bytes (STAGES "framework=megatron-core");

  g_assert_cmpint (tensor_bytes (STAGES "framework=megatron") - whole, ==, 2 * 3 * gather);
  g_assert_cmpint (tensor_bytes (STAGES "framework=megatron-deepspeed") - whole, ==, 3 * 3 * gather);
  g_assert_cmpint (tensor_bytes (STAGES "framework=megatron-2.1"), ==, whole);
  g_assert_cmpint (boundary_bytes (STAGES "framework=megatron-2.1"), ==, 2 * 3 * 8 * gather / 7);
  g_assert_cmpint (boundary_bytes (STAGES "framework=megatron-2021"), ==, 2 * 3 * gather / 7);
  g_assert_cmpint (tensor_bytes (STAGES "framework=megatron sequence_parallel=yes"), ==,
                   tensor_bytes (STAGES "framework=megatron-core sequence_parallel=yes"));
}

/* Products in pieces hide what gathers and scattered sums are left: the same bytes, less time, but never less than the
 * work alone. Not for nvfp4, and not without sequence parallelism, where there is nothing to gather. */
static void
test_pieces (void)
{
#define PIECES                                                                                                         \
  "model=llama-3-70b machine=b200 layers=8 dp=1 tp=8 micro_batches=2 micro_batch=2 sequence=8192 grad_dtype=bf16 "
#define SHARDED PIECES "sequence_parallel=yes "
  g_autoptr (PsiReport) report = run_flags (FALSE, SHARDED "framework=megatron-bridge");
  const PsiRankReport *rank = rank_of (plan_of (report), 0);
  double core_s = step_s (SHARDED "framework=megatron-core"), bridge_s = step_s (SHARDED "framework=megatron-bridge");

  g_assert_cmpint (tensor_bytes (SHARDED "framework=megatron-core"), ==,
                   tensor_bytes (SHARDED "framework=megatron-bridge"));
  g_assert_cmpfloat (bridge_s, <, 0.97 * core_s);
  g_assert_cmpint (rank->exposed_ps[PSI_TRAFFIC_TENSOR], <, rank->time_ps[PSI_TIME_COMPUTE] / 10);
  g_assert_cmpfloat (bridge_s, >, 1e-12 * (double) rank->time_ps[PSI_TIME_COMPUTE]);
  g_assert_cmpfloat (step_s (SHARDED "precision=nvfp4 framework=megatron-core"), ==,
                     step_s (SHARDED "precision=nvfp4 framework=megatron-bridge"));
  /* but for the host, which is in time for all but a few short layers */
  g_assert_cmpfloat_with_epsilon (
      step_s (PIECES "framework=megatron-core") / step_s (PIECES "framework=megatron-bridge"), 1, 1e-3);
  g_assert_cmpfloat (step_s (SHARDED "pp=2 schedule=zb-h1 framework=megatron-bridge"), <,
                     step_s (SHARDED "pp=2 schedule=zb-h1 framework=megatron-core"));
  g_assert_cmpfloat (step_s (SHARDED "recompute=full framework=torchtitan-async-tp"), <,
                     step_s (SHARDED "recompute=full framework=torchtitan"));
}

/* 24 of the 108 multiprocessors of an A100 belong to NCCL as long as a collective runs: with a network so slow that one
 * always does, all work takes 108/84 of its time; with none beside it, its own. */
static void
test_shared_gpu (void)
{
#define SHARED "model=llama-2-7b machine=a100 micro_batches=2 sequence=2048 "
  g_autoptr (PsiReport) alone = run_flags (FALSE, SHARED "dp=1");
  g_autoptr (PsiReport) beside = run_flags (FALSE, SHARED "dp=8 zero=3 gpus_per_node=1 internode=1Gb/s");
  g_autoptr (PsiReport) partly = run_flags (FALSE, SHARED "dp=8 zero=3");
  double one = (double) rank_of (plan_of (alone), 0)->time_ps[PSI_TIME_COMPUTE];
  double all = (double) rank_of (plan_of (beside), 0)->time_ps[PSI_TIME_COMPUTE];
  double some = (double) rank_of (plan_of (partly), 0)->time_ps[PSI_TIME_COMPUTE];

  g_assert_cmpfloat_with_epsilon (all / one, 108 / 84.0, 1e-4);
  g_assert_cmpfloat (some, >, 1.005 * one);
  g_assert_cmpfloat (some, <, all);
}

static void
test_band (void)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, DATA);
  g_autoptr (PsiReport) lesson = run_flags (FALSE, "model=uniform plan=dp workers=2");
  double time_s = (double) plan_of (report)->step_time_ps * 1e-12;

  g_assert_cmpfloat (plan_of (report)->step_time_low_s, <=, time_s);
  g_assert_cmpfloat (plan_of (report)->step_time_high_s, >=, time_s);
  g_assert_cmpfloat (plan_of (report)->step_time_high_s - plan_of (report)->step_time_low_s, <, 0.8 * time_s);
  g_assert_true (isnan (plan_of (lesson)->step_time_low_s));
}

/* How far the band goes beyond the step time, relative to it. */
static double
above (const char *flags)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "%s", flags);
  const PsiPlanReport *plan = plan_of (report);

  return plan->step_time_high_s / ((double) plan->step_time_ps * 1e-12) - 1;
}

/* Large kernels of one GPU leave only the kernels' own share, 8 %, of all but the optimizer. What else a prediction
 * rests on widens the band: short kernels, a host that decides or would if it were slow, less so where the host is
 * known, exposed communication and more so between nodes, a pipeline that leaves its node. */
static void
test_band_causes (void)
{
#define LARGE "model=gpt3-175b layers=2 machine=a100 micro_batches=16 optimizer=sgd grad_clip=no"
  double kernels = above (LARGE);

  g_assert_cmpfloat (kernels, <=, 0.0801);
  g_assert_cmpfloat (kernels, >, 0.07);
  g_assert_cmpfloat (above ("model=gpt2 machine=a100 sequence=512 framework=llm.c"), >, 1.1 * kernels);
  g_assert_cmpfloat (above (TINY "framework=megatron"), >, 0.3);
  g_assert_cmpfloat (above (TINY "framework=megatron"), <, 0.55);
  g_assert_cmpfloat (above (TINY "framework=megatron-deepspeed"), <, 0.15);
#define DENSE                                                                                                          \
  "model=custom family=llama layers=4 hidden=4096 heads=32 ffn=28672 vocab=32000 machine=h100 sequence=4096 "
#define ROUTED DENSE "experts=8 experts_per_token=2 "
  g_assert_cmpfloat (above (ROUTED "family=moe optimizer=sgd"), >, 0.15);
  g_assert_cmpfloat (above (DENSE "optimizer=sgd"), <, 0.12);
  double alone = above ("model=llama-2-7b machine=a100 plan=zero-3 gpus=8 micro_batch=1 sequence=256");
  double nodes = above ("model=llama-2-7b machine=a100 plan=zero-3 gpus=8 micro_batch=1 sequence=256 gpus_per_node=1");

  g_assert_cmpfloat (alone, >, 0.1);
  g_assert_cmpfloat (nodes, >, 1.2 * alone);
  g_assert_cmpfloat (nodes, <, 0.4 + 0.001);
  g_assert_cmpfloat (above ("model=llama-2-7b machine=a100 plan=1f1b pp=4 micro_batches=32 gpus_per_node=1"), >,
                     above ("model=llama-2-7b machine=a100 plan=1f1b pp=4 micro_batches=32") + 0.03);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plan/step-time/precision", test_precision);
  g_test_add_func ("/plan/step-time/host", test_host);
  g_test_add_func ("/plan/step-time/checks", test_checks);
  g_test_add_func ("/plan/step-time/slices", test_slices);
  g_test_add_func ("/plan/step-time/lists", test_lists);
  g_test_add_func ("/plan/step-time/awaited-kernels", test_awaited_kernels);
  g_test_add_func ("/plan/step-time/copied-sums", test_copied_sums);
  g_test_add_func ("/plan/step-time/parts", test_parts);
  g_test_add_func ("/plan/step-time/experts", test_experts);
  g_test_add_func ("/plan/step-time/attention", test_attention);
  g_test_add_func ("/plan/step-time/published", test_published);
  g_test_add_func ("/plan/step-time/blocking", test_blocking);
  g_test_add_func ("/plan/step-time/serial-messages", test_serial_messages);
  g_test_add_func ("/plan/step-time/sums", test_sums);
  g_test_add_func ("/plan/step-time/whole-sums", test_whole_sums);
  g_test_add_func ("/plan/step-time/tied", test_tied);
  g_test_add_func ("/plan/step-time/tensor-overlap", test_tensor_overlap);
  g_test_add_func ("/plan/step-time/whole-boundaries", test_whole_boundaries);
  g_test_add_func ("/plan/step-time/pieces", test_pieces);
  g_test_add_func ("/plan/step-time/shared-gpu", test_shared_gpu);
  g_test_add_func ("/plan/step-time/band", test_band);
  g_test_add_func ("/plan/step-time/band-causes", test_band_causes);
  return g_test_run ();
}
