/* SPDX-License-Identifier: MIT */
/* One GPU kernel, or several equal ones, as the hardware model sees it: a shape and bytes, no word of training. */
#pragma once

#include <glib.h>

typedef enum
{
  PSI_DTYPE_FP32, /* plain fp32 units, no tensor cores */
  PSI_DTYPE_TF32,
  PSI_DTYPE_FP16,
  PSI_DTYPE_BF16,
  PSI_DTYPE_FP8,
  PSI_DTYPE_MXFP8,
  PSI_DTYPE_NVFP4,
  PSI_N_DTYPES
} PsiDtype;

/* Bytes of one element in memory (nvfp4 counts 1, its scales included generously). */
guint psi_dtype_bytes (PsiDtype dtype);

typedef enum
{
  PSI_KERNEL_GEMM,      /* batch products of (m x k) by (k x n) */
  PSI_KERNEL_ATTENTION, /* fused attention: batch = sequences x heads, m = queries, n = keys, k = head dimension */
  PSI_KERNEL_MEMORY,    /* bound by memory: bytes read plus bytes written */
  PSI_KERNEL_ROOFLINE,  /* the slower of flops at the dtype's rate and bytes at the memory's */
  PSI_KERNEL_DIRECT,    /* multiply-adds on plain units: convolutions in groups of k channels */
  PSI_KERNEL_FIXED      /* takes time_ps whatever the GPU */
} PsiKernelKind;

typedef struct
{
  PsiKernelKind kind;
  PsiDtype dtype;
  guint32 launches;  /* kernels the framework launches for it, at least 1; each pays launch and host cost */
  gboolean varies;   /* its size is known only while the step runs: no graph can record it */
  gboolean any_k;    /* GEMM: k is the contiguous side of neither operand (weight gradients), so it may be odd */
  gboolean causal;   /* ATTENTION: only half of the scores are computed */
  gboolean backward; /* ATTENTION: the backward kernel (2.5 x the forward FLOPs) */
  guint generation;  /* ATTENTION: of FlashAttention: 1, 2 (0 = 2), 3 (from Hopper on, else 2) */
  gint64 batch, m, n, k;
  double flops;   /* all launches together; what the hardware executes */
  double bytes;   /* all launches together; read plus written */
  gint64 time_ps; /* FIXED only */
} PsiKernel;
