/* SPDX-License-Identifier: MIT */
/* Kernel times: exact on the ideal machine, near published measurements on real ones, and never less for more work. */

#include "machine.h"

#include <math.h>

static PsiKernel
gemm (PsiDtype dtype, gint64 batch, gint64 m, gint64 n, gint64 k)
{
  return (PsiKernel){ .kind = PSI_KERNEL_GEMM, .dtype = dtype, .launches = 1, .batch = batch, .m = m, .n = n, .k = k };
}

static PsiKernel
attention (gint64 heads, gint64 sequence, gint64 head_dim, gboolean backward)
{
  return (PsiKernel){ .kind = PSI_KERNEL_ATTENTION,
                      .dtype = PSI_DTYPE_BF16,
                      .launches = 1,
                      .causal = TRUE,
                      .backward = backward,
                      .batch = heads,
                      .m = sequence,
                      .n = sequence,
                      .k = head_dim };
}

static void
assert_near (double value, double wanted, double tolerance)
{
  if (fabs (value / wanted - 1) > tolerance)
    g_error ("%g is not within %g %% of %g", value, tolerance * 100, wanted);
}

static void
test_ideal (void)
{
  g_autoptr (PsiMachine) ideal = psi_machine_load ("ideal", NULL);
  PsiKernel product = gemm (PSI_DTYPE_BF16, 3, 1000, 500, 77);
  assert_near (psi_gpu_kernel_s (&ideal->gpu, &product), 2.0 * 3 * 1000 * 500 * 77 / 1e15, 1e-12);
  PsiKernel forward = attention (8, 1024, 50, FALSE);
  assert_near (psi_gpu_kernel_s (&ideal->gpu, &forward), 0.5 * 4 * 8 * 1024.0 * 1024 * 50 / 1e15, 1e-12);
  PsiKernel backward = attention (8, 1024, 50, TRUE);
  assert_near (psi_gpu_kernel_s (&ideal->gpu, &backward), 2.5 * psi_gpu_kernel_s (&ideal->gpu, &forward), 1e-12);
  PsiKernel copy = { .kind = PSI_KERNEL_MEMORY, .launches = 5, .bytes = 1e9 };
  g_assert_cmpfloat (psi_gpu_kernel_s (&ideal->gpu, &copy), ==, 0);
  PsiKernel trace = { .kind = PSI_KERNEL_ROOFLINE, .launches = 1, .flops = 1e12, .bytes = 1e9 };
  assert_near (psi_gpu_kernel_s (&ideal->gpu, &trace), 1e-3, 1e-12);
  trace.kind = PSI_KERNEL_DIRECT;
  assert_near (psi_gpu_kernel_s (&ideal->gpu, &trace), 1e-3, 1e-12);
}

static void
test_fixed (void)
{
  g_autoptr (PsiMachine) a100 = psi_machine_load ("a100", NULL);
  PsiKernel kernel = { .kind = PSI_KERNEL_FIXED, .launches = 7, .time_ps = 1234567 };
  assert_near (psi_gpu_kernel_s (&a100->gpu, &kernel), 1234567e-12, 1e-12);
  PsiKernel empty = { .kind = PSI_KERNEL_MEMORY, .launches = 1 };
  g_assert_cmpfloat (psi_gpu_kernel_s (&a100->gpu, &empty), ==, 0);
}

/* Closed forms of the parts: bytes, launches, equal products, the slower of two. */
static void
test_parts (void)
{
  g_autoptr (PsiMachine) a100 = psi_machine_load ("a100", NULL);
  const PsiGpu *gpu = &a100->gpu;
  double each_s = (double) (gpu->launch_ps + gpu->minimum_kernel_ps) * 1e-12;
  PsiKernel copy = { .kind = PSI_KERNEL_MEMORY, .launches = 3, .bytes = 1e9 };
  assert_near (psi_gpu_kernel_s (gpu, &copy), 3 * each_s + 1e9 / (gpu->memory_bytes_per_s * gpu->memory_efficiency),
               1e-12);
  PsiKernel trace = {
    .kind = PSI_KERNEL_ROOFLINE, .dtype = PSI_DTYPE_FP32, .launches = 1, .flops = 1e12, .bytes = 1e6
  };
  assert_near (psi_gpu_kernel_s (gpu, &trace),
               each_s + 1e12 / (gpu->peak_flops[PSI_DTYPE_FP32] * gpu->gemm_efficiency_fp32), 1e-12);
  /* One multiply-add after another: of one channel a group, of several, and where the bytes take longer. */
  PsiKernel direct = { .kind = PSI_KERNEL_DIRECT, .dtype = PSI_DTYPE_FP16, .launches = 1, .k = 1, .flops = 1e12 };
  assert_near (psi_gpu_kernel_s (gpu, &direct), each_s + 1e12 / (0.035 * gpu->peak_flops[PSI_DTYPE_FP32]), 1e-12);
  direct.k = 16;
  assert_near (psi_gpu_kernel_s (gpu, &direct), each_s + 1e12 / (0.047 * gpu->peak_flops[PSI_DTYPE_FP32]), 1e-12);
  direct.k = 1000;
  assert_near (psi_gpu_kernel_s (gpu, &direct), each_s + 1e12 / (0.5 * gpu->peak_flops[PSI_DTYPE_FP32]), 1e-12);
  direct.bytes = 1e12;
  assert_near (psi_gpu_kernel_s (gpu, &direct), each_s + 1e12 / (gpu->memory_bytes_per_s * gpu->memory_efficiency),
               1e-12);
  /* Exactly one wave of the largest tiles: 108 SMs, 9 x 12 tiles of 256 x 128. */
  PsiKernel wave = gemm (PSI_DTYPE_BF16, 1, 9 * 256, 12 * 128, 8192);
  double rate = gpu->peak_flops[PSI_DTYPE_BF16] * gpu->gemm_efficiency / gpu->sms;
  assert_near (psi_gpu_kernel_s (gpu, &wave), each_s + 2.0 * 256 * 128 * (8192 + (double) gpu->gemm_ramp_k) / rate,
               1e-12);
  /* On plain units the same takes longer, what comes before and after it does not. */
  double plain_rate = gpu->peak_flops[PSI_DTYPE_FP32] * gpu->gemm_efficiency_fp32 / gpu->sms;
  wave.dtype = PSI_DTYPE_FP32;
  assert_near (psi_gpu_kernel_s (gpu, &wave),
               each_s + 2.0 * 256 * 128 * (8192 / plain_rate + (double) gpu->gemm_ramp_k / rate), 1e-12);
  /* One row of tiles more: the more of the last wave is lost, the longer. */
  PsiKernel more = gemm (PSI_DTYPE_BF16, 1, 10 * 256, 12 * 128, 1024);
  PsiGpu hides = *gpu, loses = *gpu;
  hides.gemm_tail = 0;
  loses.gemm_tail = 1;
  g_assert_cmpfloat (psi_gpu_kernel_s (&hides, &more), <, psi_gpu_kernel_s (gpu, &more));
  g_assert_cmpfloat (psi_gpu_kernel_s (gpu, &more), <, psi_gpu_kernel_s (&loses, &more));
  PsiKernel four = wave;
  four.launches = 4;
  four.flops = 4 * 2.0 * 9 * 256 * 12 * 128 * 8192;
  assert_near (psi_gpu_kernel_s (gpu, &four), 4 * psi_gpu_kernel_s (gpu, &wave), 1e-12);
}

/* Rows of published tables: SimuMax, matmul of A100 PCIe and B200, microseconds. */
static const struct
{
  const char *machine;
  gint64 m, n, k;
  double us, tolerance;
} products[] = {
  { "a100-pcie-80", 4096, 4096, 4096, 611, 0.05 },   { "a100-pcie-80", 4096, 8192, 57344, 16339, 0.05 },
  { "a100-pcie-80", 4096, 512, 32768, 616, 0.15 },   { "a100-pcie-80", 4096, 576, 5120, 156, 0.15 },
  { "a100-pcie-80", 4096, 32768, 512, 713, 0.10 },   { "a100-pcie-80", 33024, 7168, 2048, 4247, 0.05 },
  { "a100-pcie-80", 4096, 5120, 12288, 2141, 0.05 }, { "a100-pcie-80", 4096, 128256, 8192, 37048, 0.05 },
  { "b200-sxm", 4096, 128256, 16384, 15593, 0.05 },  { "b200-sxm", 65536, 5120, 6144, 3815, 0.05 },
  { "b200-sxm", 16384, 16384, 5120, 2452, 0.05 },
};

static void
test_published_products (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (products); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (products[i].machine, NULL);
      PsiKernel kernel = gemm (PSI_DTYPE_BF16, 1, products[i].m, products[i].n, products[i].k);
      assert_near (psi_gpu_kernel_s (&machine->gpu, &kernel) * 1e6, products[i].us, products[i].tolerance);
    }
}

/* What a product adds to costs the exposed share of its bytes on top: result and operands plain, then with sums in fp32
 * that are read and written, 6 bytes more for each of m x n. And the tables of SimuMax: weight gradients of a B200, one
 * with fp32 and with 16-bit sums, and of experts of 128 to 1024 tokens, microseconds of each. */
static void
test_sums (void)
{
  static const struct
  {
    gint64 experts, m, n, k;
    guint sum_bytes;
    double us, tolerance;
  } rows[] = { { 1, 8192, 7168, 4096, 4, 524.6, 0.1 }, { 1, 8192, 7168, 4096, 2, 438.9, 0.1 },
               { 256, 7168, 2048, 128, 4, 20.9, 0.2 }, { 128, 7168, 2048, 256, 4, 23.7, 0.2 },
               { 64, 7168, 2048, 512, 4, 31.2, 0.2 },  { 32, 7168, 2048, 1024, 4, 48.7, 0.2 },
               { 64, 7168, 2048, 512, 2, 23.5, 0.2 } };
  g_autoptr (PsiMachine) b200 = psi_machine_load ("b200", NULL);
  PsiKernel plain = gemm (PSI_DTYPE_BF16, 1, 4096, 4096, 4096), sums = plain;

  plain.bytes = 4096.0 * 4096 * (2 + 2 + 2);
  sums.bytes = 4096.0 * 4096 * (2 + 2 + 8);
  assert_near (psi_gpu_kernel_s (&b200->gpu, &sums) - psi_gpu_kernel_s (&b200->gpu, &plain),
               b200->gpu.gemm_exposed_sum * 4096.0 * 4096 * 6 /
                   (b200->gpu.memory_bytes_per_s * b200->gpu.memory_efficiency),
               1e-9);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      PsiKernel kernel = gemm (PSI_DTYPE_BF16, rows[i].experts, rows[i].m, rows[i].n, rows[i].k);
      double m = (double) rows[i].m, n = (double) rows[i].n, k = (double) rows[i].k;

      kernel.launches = (guint) rows[i].experts;
      kernel.bytes = (double) rows[i].experts * (2 * (m + n) * k + 2 * rows[i].sum_bytes * m * n);
      assert_near (psi_gpu_kernel_s (&b200->gpu, &kernel) * 1e6 / (double) rows[i].experts, rows[i].us,
                   rows[i].tolerance);
    }
}

/* Attention of the same tables: causal, 4096 tokens, head dimension 128, TFLOP/s with all scores counted. */
static const struct
{
  const char *machine;
  gint64 heads, sequence;
  gboolean backward;
  double tflops, tolerance;
} attentions[] = {
  { "a100-pcie-80", 64, 4096, FALSE, 370.3, 0.08 }, { "a100-pcie-80", 8, 4096, FALSE, 245.4, 0.10 },
  { "b200-sxm", 128, 4096, FALSE, 2242.5, 0.08 },   { "b200-sxm", 16, 32768, FALSE, 2622.1, 0.08 },
  { "b200-sxm", 32, 4096, TRUE, 1791.8, 0.08 },     { "b200-sxm", 16, 32768, TRUE, 1961.3, 0.15 },
};

static void
test_published_attention (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (attentions); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (attentions[i].machine, NULL);
      PsiKernel kernel = attention (attentions[i].heads, attentions[i].sequence, 128, attentions[i].backward);
      double s = (double) attentions[i].sequence;
      double flops = 4 * (double) attentions[i].heads * s * s * 128 * (attentions[i].backward ? 2.5 : 1);
      assert_near (flops / psi_gpu_kernel_s (&machine->gpu, &kernel) / 1e12, attentions[i].tflops,
                   attentions[i].tolerance);
    }
}

/* Head dimension 108 of BLOOM's development runs, 32 heads of a GPU, micro-batches of 2: with 128 heads a step of
 * hidden 13824 takes 40.3 s longer than with 96, of 144; eight products in each of 7 layers and 139 micro-batches. */
static void
test_unaligned (void)
{
  g_autoptr (PsiMachine) a100 = psi_machine_load ("a100", NULL);
  PsiKernel scores = gemm (PSI_DTYPE_BF16, 64, 2048, 2048, 108), fewer = gemm (PSI_DTYPE_BF16, 48, 2048, 2048, 144);
  double longer_s = psi_gpu_kernel_s (&a100->gpu, &scores) - psi_gpu_kernel_s (&a100->gpu, &fewer);

  assert_near (8 * 7 * 139 * longer_s, 147.41 - 107.12, 0.03);
  PsiKernel padded = gemm (PSI_DTYPE_BF16, 64, 2048, 2048, 112);
  g_assert_cmpfloat (psi_gpu_kernel_s (&a100->gpu, &padded), <, 0.2 * psi_gpu_kernel_s (&a100->gpu, &scores));
}

/* Generations of fused attention: the first is slower everywhere, the third faster on Hopper only. */
static void
test_generations (void)
{
  static const char *const names[] = { "a100", "h100", "b200" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (names[i], NULL);
      PsiKernel kernel = attention (32, 16384, 128, TRUE);
      double second_s = psi_gpu_kernel_s (&machine->gpu, &kernel);

      kernel.generation = 2;
      g_assert_cmpfloat (psi_gpu_kernel_s (&machine->gpu, &kernel), ==, second_s);
      kernel.generation = 1;
      assert_near (psi_gpu_kernel_s (&machine->gpu, &kernel), second_s / 0.57, 0.01);
      kernel.generation = 3;
      gboolean hopper = machine->gpu.architecture == PSI_ARCHITECTURE_HOPPER;
      assert_near (psi_gpu_kernel_s (&machine->gpu, &kernel), hopper ? second_s / 1.6 : second_s, 0.01);
    }
}

static void
test_dtypes (void)
{
  g_autoptr (PsiMachine) v100 = psi_machine_load ("v100", NULL);
  g_autoptr (PsiMachine) a100 = psi_machine_load ("a100", NULL);
  g_autoptr (PsiMachine) h100 = psi_machine_load ("h100", NULL);
  g_assert_cmpint (psi_gpu_dtype (&v100->gpu, PSI_DTYPE_BF16), ==, PSI_DTYPE_FP32);
  g_assert_cmpint (psi_gpu_dtype (&v100->gpu, PSI_DTYPE_FP16), ==, PSI_DTYPE_FP16);
  g_assert_cmpint (psi_gpu_dtype (&a100->gpu, PSI_DTYPE_NVFP4), ==, PSI_DTYPE_BF16);
  g_assert_cmpint (psi_gpu_dtype (&h100->gpu, PSI_DTYPE_MXFP8), ==, PSI_DTYPE_FP8);
  PsiKernel half = gemm (PSI_DTYPE_BF16, 1, 8192, 8192, 8192), eight = gemm (PSI_DTYPE_FP8, 1, 8192, 8192, 8192);
  double gain = psi_gpu_kernel_s (&h100->gpu, &half) / psi_gpu_kernel_s (&h100->gpu, &eight);
  g_assert_cmpfloat (gain, >, 1.6);
  g_assert_cmpfloat (gain, <, 2.0);
  g_assert_cmpuint (psi_dtype_bytes (PSI_DTYPE_BF16), ==, 2);
  g_assert_cmpuint (psi_dtype_bytes (PSI_DTYPE_FP32), ==, 4);
  g_assert_cmpuint (psi_dtype_bytes (PSI_DTYPE_NVFP4), ==, 1);
}

static gint64
random_size (void)
{
  return 8 * (gint64) exp2 (g_test_rand_double_range (0, 11));
}

/* One dimension more, never less time. */
static void
test_monotone (void)
{
  const char *const names[] = { "v100", "a100", "h100", "b200", "rtx-4090", "host", "ideal" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (names[i], NULL);
      for (guint j = 0; j < 500; j++)
        {
          PsiKernel small = gemm (g_test_rand_int_range (0, PSI_N_DTYPES), g_test_rand_int_range (1, 5), random_size (),
                                  random_size (), random_size ());
          if (j % 2)
            {
              gint64 d = 8 * g_test_rand_int_range (1, 40);
              small = attention (g_test_rand_int_range (1, 200), random_size (), d, j % 4 == 1);
            }
          PsiKernel large = small;
          gint64 *const sides[] = { &large.batch, &large.m, &large.n, &large.k };
          guint side = (guint) g_test_rand_int_range (0, 4);
          *sides[side] += side ? 8 * g_test_rand_int_range (1, 64) : 1;
          double before = psi_gpu_kernel_s (&machine->gpu, &small), after = psi_gpu_kernel_s (&machine->gpu, &large);
          g_assert_cmpfloat (before, >, 0);
          g_assert_cmpfloat (after, >=, before * (1 - 1e-12));
        }
    }
}

/* No kernel beats the datasheet. */
static void
test_bounds (void)
{
  const char *const names[] = { "v100", "a100", "a100-pcie-80", "h100", "h200", "b200", "gb300", "rtx-3090" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (names[i], NULL);
      for (guint j = 0; j < 200; j++)
        {
          PsiKernel kernel = gemm (PSI_DTYPE_FP16, 1, random_size (), random_size (), random_size ());
          double seconds = psi_gpu_kernel_s (&machine->gpu, &kernel);
          double flops = 2.0 * (double) kernel.m * (double) kernel.n * (double) kernel.k;
          g_assert_cmpfloat (flops / seconds, <, machine->gpu.peak_flops[PSI_DTYPE_FP16]);
          PsiKernel copy = { .kind = PSI_KERNEL_MEMORY, .launches = 1, .bytes = flops };
          g_assert_cmpfloat (flops / psi_gpu_kernel_s (&machine->gpu, &copy), <, machine->gpu.memory_bytes_per_s);
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hwmodel/gpu-time/ideal", test_ideal);
  g_test_add_func ("/hwmodel/gpu-time/fixed", test_fixed);
  g_test_add_func ("/hwmodel/gpu-time/parts", test_parts);
  g_test_add_func ("/hwmodel/gpu-time/published-products", test_published_products);
  g_test_add_func ("/hwmodel/gpu-time/sums", test_sums);
  g_test_add_func ("/hwmodel/gpu-time/published-attention", test_published_attention);
  g_test_add_func ("/hwmodel/gpu-time/generations", test_generations);
  g_test_add_func ("/hwmodel/gpu-time/unaligned", test_unaligned);
  g_test_add_func ("/hwmodel/gpu-time/dtypes", test_dtypes);
  g_test_add_func ("/hwmodel/gpu-time/monotone", test_monotone);
  g_test_add_func ("/hwmodel/gpu-time/bounds", test_bounds);
  return g_test_run ();
}
