/* SPDX-License-Identifier: MIT */
/* Time of a kernel on a GPU.
 *
 *   every kernel   t = launches (launch + minimum) + work; on a GPU with a profile, products of a measured type and
 *                  memory-bound kernels take what the profile's points say, launch included
 *   memory         work = bytes / (bandwidth x memory efficiency)
 *   roofline       work = max (flops / (peak x sustained), memory)
 *   direct         work = max (flops / (peak of fp32 x share), memory)
 *   product        work = max (waves x tile FLOPs (K + K0) / (tile rate of one SM), memory)
 *                  + exposed x memory of what is added to, best tile and K split
 *   attention      work = flops / (peak x share x ramp x occupancy x head), ramp = n / (n + n0),
 *                  occupancy = x / (x + tail), x = thread blocks / SMs
 *
 * Symbols: the fields of PsiGpu of nearly the same names. Products: tiles of one output matrix are handed to the SMs
 * wave after wave; a tile takes as long as K plus K0 elements of prologue and epilogue; `tail` of the last wave's idle
 * SMs is really lost, the rest is hidden by stream-K and the like; K is split while one wave is not full, which costs
 * the partial sums' bytes. Small tiles reach less of the SM's rate.
 * A product that adds into its result (a weight gradient into its fp32 sum) reads and writes that at the end of each
 * tile, where little hides it: of 60 shapes that SimuMax measured on a B200 with fp32 and with 16-bit sums, the former
 * take 0.75 of the time of the further bytes longer; its A100 table says 0.4, small products of many experts (7168 x
 * 2048 of 128 to 512 tokens on a B200) 1.
 *
 * Assumptions: a GPU in training, so at its power limit (sustained share below the peak of one cold kernel); operands
 * come from memory, not from the L2 cache; kernels of one stream do not overlap.
 *
 * Sources: form of the product: NVIDIA "Matrix Multiplication Background"; constants: fit to the published matmul
 * tables of SimuMax, 148 rows of an A100 PCIe (mean error 2.7 %) and 321 of a B200 (10.7 %; the same when each eighth
 * of the shapes is left out of the fit). What is left on the B200 is not shape but the clock: SimuMax times 75 launches
 * after 25, so products of less than half a millisecond are over before the power limit has settled it. They run at up
 * to 1470 TFLOP/s, or at 880 where it overshoots, and are 20 % off (136 shapes); longer ones run at 1090 and are 3.8 %
 * off (185). In training the clock has settled. Random trees over shape, pass and the products measured before reach
 * 8 % of shapes they have not seen. Ramp and occupancy of attention: fit by hand to the same tables, and
 * FlashAttention-2 (arXiv 2307.08691, figures 4 and 5, from memory).
 * Unaligned products: 9.8 to 10.2 TFLOP/s on an A100 with head dimension 108, by what steps of one model on one day
 * take longer with 128 heads than with 96 (BLOOM's development runs, hidden 13824, micro-batches of 2 and 4, tp 4 and
 * 8); 9.8 to 11 with head dimension 150.
 *
 * Limits: products of fewer than about 64 rows, sparse products. */

#include "machine.h"
#include "profile.h"
#include "psi-time.h"

#include <math.h>

/* Elements of 16 bits the matrix units load at a time. */
#define ALIGNMENT 8
/* Head dimensions are padded to this (FlashAttention-2). */
#define ATTENTION_PAD 32
/* The head dimension the shares are given for, and the elements of it that are lost: 64 reaches 0.85 of 128
 * (FlashAttention-2, figures 4 and 5). Longer heads leave room for smaller blocks only: the rate falls with the square
 * root (heads of 192/128 in the tables of SimuMax). */
#define ATTENTION_HEAD 128
#define ATTENTION_HEAD_RAMP 28
/* The machine file gives the second generation. The first reached 0.57 of it (FlashAttention-2: 1.7 to 3 times faster;
 * published steps of long sequences on A100 and H100); the third, with TMA and asynchronous products, 1.5 to 2 times on
 * Hopper (FlashAttention-3, arXiv 2407.08608, figures 5 and 6). Blackwell's share is given for its own kernels. */
#define ATTENTION_FIRST 0.57
#define ATTENTION_THIRD 1.6
/* Unbatched unaligned products keep the matrix units, at half the rate (odd vocabularies). */
#define UNALIGNED_SINGLE 0.5
/* Share of the fp32 rate of convolutions on plain units: of one channel a group, and more with each further one, as an
 * element once loaded serves all outputs of its group; half of it at most. From what steps of timm's table of an RTX
 * 3090 (PyTorch 1.12, cuDNN 8) take beyond all else that is modelled, channels last: seven depthwise networks
 * (MobileNet, MNASNet, EfficientNet) 0.63 T multiply-adds/s, seven RegNets of 16 to 232 channels a group 0.84 to 3.8 T.
 * A multiply-add of a depthwise kernel comes with two loads and the arithmetic that finds them, some 28 instructions.
 */
#define DIRECT_SHARE 0.035
#define DIRECT_CHANNEL 0.0008
#define DIRECT_MOST 0.5
/* Bytes of an element of a plain result at least. */
#define PLAIN_RESULT_BYTES 2
/* Partial sums in fp32, written and read again. */
#define PARTIAL_SUM_BYTES 8

static const guint k_splits[] = { 1, 2, 4, 8, 16, 32, 64, 128 };

/* What computes instead where the units are missing. */
static const PsiDtype wider[PSI_N_DTYPES] = {
  [PSI_DTYPE_FP32] = PSI_DTYPE_FP32, [PSI_DTYPE_TF32] = PSI_DTYPE_FP32, [PSI_DTYPE_FP16] = PSI_DTYPE_FP32,
  [PSI_DTYPE_BF16] = PSI_DTYPE_FP32, [PSI_DTYPE_FP8] = PSI_DTYPE_BF16,  [PSI_DTYPE_MXFP8] = PSI_DTYPE_FP8,
  [PSI_DTYPE_NVFP4] = PSI_DTYPE_FP8,
};

PsiDtype
psi_gpu_dtype (const PsiGpu *gpu, PsiDtype dtype)
{
  while (gpu->peak_flops[dtype] <= 0 && wider[dtype] != dtype)
    dtype = wider[dtype];
  for (guint i = 0; i < PSI_N_DTYPES && gpu->peak_flops[dtype] <= 0; i++)
    if (gpu->peak_flops[i] > 0)
      dtype = (PsiDtype) i;
  return dtype;
}

/* FLOP/s that large products sustain. */
static double
sustained (const PsiGpu *gpu, PsiDtype asked)
{
  PsiDtype dtype = psi_gpu_dtype (gpu, asked);
  double share = dtype == PSI_DTYPE_FP32   ? gpu->gemm_efficiency_fp32
                 : dtype <= PSI_DTYPE_BF16 ? gpu->gemm_efficiency
                                           : gpu->gemm_efficiency_fp8;
  return gpu->peak_flops[dtype] * share;
}

static double
memory_s (const PsiGpu *gpu, double bytes)
{
  return bytes / (gpu->memory_bytes_per_s * gpu->memory_efficiency);
}

/* Elements of K that a tile loses. Prologue and epilogue take their time however fast it multiplies: wider formats,
 * which multiply slower, lose fewer. That of 8 bits and fewer is in their efficiency. */
static double
ramp_k (const PsiGpu *gpu, const PsiKernel *kernel)
{
  double half = sustained (gpu, PSI_DTYPE_FP16);

  return (double) gpu->gemm_ramp_k * MIN (1, sustained (gpu, kernel->dtype) / half);
}

/* One way to cut the output: tiles of rows x columns, each of K split into parts. */
static double
tiled_s (const PsiGpu *gpu, const PsiKernel *kernel, double rate, double ramp, guint rows, guint columns,
         double relative, guint splits)
{
  double outputs = (double) kernel->batch * (double) kernel->m * (double) kernel->n;
  double tiles = (double) kernel->batch * ceil ((double) kernel->m / rows) * ceil ((double) kernel->n / columns);
  double full = tiles * splits / gpu->sms;
  double waves = MAX (1, full + gpu->gemm_tail * (ceil (full) - full));
  double tile_flops = 2.0 * rows * columns * ((double) kernel->k / splits + ramp);
  double time = waves * tile_flops / (rate * relative / gpu->sms);
  if (splits > 1)
    time +=
        memory_s (gpu, PARTIAL_SUM_BYTES * splits * outputs) + psi_time_to_s (gpu->minimum_kernel_ps + gpu->launch_ps);
  return time;
}

static double
aligned_product_s (const PsiGpu *gpu, const PsiKernel *kernel, double rate)
{
  double ramp = ramp_k (gpu, kernel);

  if (gpu->gemm_tile == 0)
    return 2.0 * (double) kernel->batch * (double) kernel->m * (double) kernel->n * ((double) kernel->k + ramp) / rate;

  guint tile = gpu->gemm_tile;
  const struct
  {
    guint rows, columns;
    double relative;
  } shapes[] = { { tile, tile / 2, 1 },
                 { tile / 2, tile, 1 },
                 { tile / 2, tile / 2, gpu->gemm_tile_square },
                 { tile / 2, tile / 4, gpu->gemm_tile_small },
                 { tile / 4, tile / 2, gpu->gemm_tile_small } };
  double best = INFINITY;
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    for (guint j = 0; j < G_N_ELEMENTS (k_splits); j++)
      {
        guint rows = MAX (1, shapes[i].rows), columns = MAX (1, shapes[i].columns);
        best = MIN (best, tiled_s (gpu, kernel, rate, ramp, rows, columns, shapes[i].relative, k_splits[j]));
      }
  return best;
}

/* One product of the shape, bytes left aside. */
static double
product_s (const PsiGpu *gpu, const PsiKernel *kernel)
{
  double flops = 2.0 * (double) kernel->batch * (double) kernel->m * (double) kernel->n * (double) kernel->k;
  double rate = sustained (gpu, kernel->dtype);
  gboolean aligned = kernel->n % ALIGNMENT == 0 && (kernel->any_k || kernel->k % ALIGNMENT == 0);
  if (aligned || gpu->gemm_tile == 0 || psi_gpu_dtype (gpu, kernel->dtype) == PSI_DTYPE_FP32)
    return aligned_product_s (gpu, kernel, rate);
  if (kernel->batch == 1)
    return aligned_product_s (gpu, kernel, rate * UNALIGNED_SINGLE);
  return flops / (gpu->peak_flops[PSI_DTYPE_FP32] > 0 ? gpu->peak_flops[PSI_DTYPE_FP32] * gpu->gemm_unaligned : rate);
}

static double
gemm_s (const PsiGpu *gpu, const PsiKernel *kernel)
{
  double m = (double) kernel->m, n = (double) kernel->n, k = (double) kernel->k, batch = (double) kernel->batch;
  double flops = 2 * batch * m * n * k;
  if (!(flops > 0))
    return memory_s (gpu, kernel->bytes);
  /* Several equal products: flops and bytes are of all of them. */
  double products = kernel->flops > 0 ? kernel->flops / flops : 1;
  guint width = psi_dtype_bytes (kernel->dtype);
  double operands = products * batch * (m * k + k * n) * width, results = products * batch * m * n;
  double plain = operands + results * MAX (width, PLAIN_RESULT_BYTES);
  double bytes = kernel->bytes > 0 ? kernel->bytes : operands + results * width;
  double sums = MAX (bytes - plain, 0);
  return MAX (products * product_s (gpu, kernel), memory_s (gpu, bytes - sums)) +
         gpu->gemm_exposed_sum * memory_s (gpu, sums);
}

static double
attention_s (const PsiGpu *gpu, const PsiKernel *kernel)
{
  double m = (double) kernel->m, n = (double) kernel->n, head = (double) kernel->k, batch = (double) kernel->batch;
  if (!(batch * m * n * head > 0))
    return 0;
  double flops = kernel->flops > 0
                     ? kernel->flops
                     : 4 * batch * m * n * head * (kernel->causal ? 0.5 : 1) * (kernel->backward ? 2.5 : 1);
  double bytes = kernel->bytes > 0
                     ? kernel->bytes
                     : batch * (2 * m + 2 * n) * head * psi_dtype_bytes (kernel->dtype) * (kernel->backward ? 2 : 1);

  double share = kernel->backward ? gpu->attention_efficiency_backward : gpu->attention_efficiency_forward;
  double ramp = kernel->backward ? gpu->attention_ramp_backward : gpu->attention_ramp_forward;
  double tail = kernel->backward ? gpu->attention_tail_backward : gpu->attention_tail_forward;
  double rows = kernel->backward ? gpu->attention_block_backward : gpu->attention_block_forward;
  PsiDtype dtype = psi_gpu_dtype (gpu, kernel->dtype);
  /* Fused kernels compute in 16 bits; 8 bits and fewer gain nothing without their own kernels. */
  if (dtype > PSI_DTYPE_BF16)
    dtype = psi_gpu_dtype (gpu, PSI_DTYPE_BF16);

  if (kernel->generation == 1)
    share *= ATTENTION_FIRST;
  else if (kernel->generation >= 3 && gpu->architecture == PSI_ARCHITECTURE_HOPPER)
    share *= ATTENTION_THIRD;

  /* The backward kernel hands out blocks of keys; there are as many of them as queries in training. */
  double blocks = batch * MAX (1, m / rows) / gpu->sms;
  double padded = 1;
  if (gpu->gemm_tile > 0)
    {
      double executed = ceil (head / ATTENTION_PAD) * ATTENTION_PAD;
      double reference = 1 + ATTENTION_HEAD_RAMP / (double) ATTENTION_HEAD;
      if (executed <= ATTENTION_HEAD)
        padded = executed / head * (1 + ATTENTION_HEAD_RAMP / executed) / reference;
      else
        padded = executed / head * sqrt (executed / ATTENTION_HEAD);
    }
  double rate = gpu->peak_flops[dtype] * share * (n / (n + ramp)) * (blocks / (blocks + tail));
  return MAX (flops * padded / rate, memory_s (gpu, bytes));
}

/* Multiply-adds one by one. */
static double
direct_s (const PsiGpu *gpu, const PsiKernel *kernel)
{
  double share = MIN (DIRECT_SHARE + DIRECT_CHANNEL * (double) (kernel->k - 1), DIRECT_MOST);

  if (gpu->gemm_tile == 0) /* an ideal GPU */
    share = 1;
  return MAX (kernel->flops / (share * gpu->peak_flops[psi_gpu_dtype (gpu, PSI_DTYPE_FP32)]),
              memory_s (gpu, kernel->bytes));
}

/* By the measured points; negative: nothing like it was measured. */
static double
measured_s (const PsiGpu *gpu, const PsiKernel *kernel)
{
  double launches = MAX (1, kernel->launches), each_s = -1;
  PsiDtype dtype = psi_gpu_dtype (gpu, kernel->dtype);
  double flops = 2.0 * (double) kernel->batch * (double) kernel->m * (double) kernel->n * (double) kernel->k;

  if (kernel->kind == PSI_KERNEL_MEMORY && kernel->bytes > 0)
    {
      each_s = psi_profile_curve_time (gpu->profile, "device_copy", 1, 1, (gint64) ceil (kernel->bytes / launches));
      return each_s < 0 ? each_s : launches * each_s;
    }
  if (kernel->kind == PSI_KERNEL_GEMM && flops > 0)
    each_s =
        psi_profile_gemm_time (gpu->profile, dtype, PSI_PROFILE_ANY, kernel->batch, kernel->m, kernel->n, kernel->k);
  if (each_s < 0)
    return each_s;
  /* Several equal products: flops are of all of them. */
  double products = kernel->flops > 0 ? kernel->flops / flops : 1;
  return products * each_s + MAX (0, launches - products) * psi_time_to_s (gpu->launch_ps + gpu->minimum_kernel_ps);
}

double
psi_gpu_kernel_s (const PsiGpu *gpu, const PsiKernel *kernel)
{
  double work = 0;
  if (gpu->profile && (work = measured_s (gpu, kernel)) >= 0)
    return work;
  work = 0;
  switch (kernel->kind)
    {
    case PSI_KERNEL_GEMM:
      work = gemm_s (gpu, kernel);
      break;
    case PSI_KERNEL_ATTENTION:
      work = attention_s (gpu, kernel);
      break;
    case PSI_KERNEL_MEMORY:
      work = memory_s (gpu, kernel->bytes);
      break;
    case PSI_KERNEL_ROOFLINE:
      work = MAX (kernel->flops / sustained (gpu, kernel->dtype), memory_s (gpu, kernel->bytes));
      break;
    case PSI_KERNEL_DIRECT:
      work = direct_s (gpu, kernel);
      break;
    case PSI_KERNEL_FIXED:
      return psi_time_to_s (MAX (0, kernel->time_ps));
    }
  if (!(work > 0) && kernel->flops <= 0 && kernel->bytes <= 0)
    return 0;
  return MAX (1, kernel->launches) * psi_time_to_s (gpu->launch_ps + gpu->minimum_kernel_ps) + work;
}
