/* SPDX-License-Identifier: MIT */
/* What frameworks do with the same plan: which kernels they run, what a kernel costs their host, how they overlap.
 * One row for each; a row says what the framework's code or manual says, no row belongs to one table of measurements.
 */
#pragma once

#include <glib.h>

/* Which of several implementations of the elementwise kernels runs. */
typedef enum
{
  PSI_KERNELS_FUSED,    /* hand-written: Megatron, Apex, Transformer Engine */
  PSI_KERNELS_EAGER,    /* one kernel for each PyTorch operator */
  PSI_KERNELS_COMPILED, /* torch.compile */
  PSI_N_KERNEL_SETS
} PsiKernelSet;

/* Does the collective in the backward of a product split by columns run beside the weight gradient of the product? */
typedef enum
{
  PSI_TENSOR_WAITS,
  PSI_TENSOR_SHARDED, /* with sequence parallelism */
  PSI_TENSOR_OVERLAPS,
  PSI_TENSOR_PIECES /* always, and with sequence parallelism all other gathers and scattered sums run in pieces beside
                     * the products that use or make the pieces */
} PsiTensorOverlap;

/* How the products of a GPU's experts are launched. */
typedef enum
{
  PSI_EXPERTS_STREAMS, /* a kernel for each, over several streams so that they fill the GPU together */
  PSI_EXPERTS_LOOP,    /* one expert after another, with the kernels that pick and return its tokens */
  PSI_EXPERTS_GROUPED  /* one kernel for all */
} PsiExpertGemm;

typedef struct
{
  const char *name;    /* value of the key `framework` */
  const char *summary; /* one line */
  const char *words;   /* "nanotron|...": parts of names that mean this one, in the rows' order; NULL: none */
  const char *memory;  /* the framework whose row of framework-memory.c it shares; NULL: it has its own */
  gboolean megatron;   /* its buffers, vocabulary-parallel loss, fp32 gradients, allocator use; else PyTorch's */
  PsiKernelSet norm, rotary, gate, scores; /* before `compile`, which a key switches on */
  double host_factor;                      /* host time of a kernel, relative to the machine's for its base framework */
  double host_low, host_high;              /* four of five hosts take between these times that */
  guint flash;                             /* generation of the fused attention kernel: 1, 2, 3 (on Hopper and later) */
  gboolean blocking_sends;                 /* a rank computes on only when its boundary tensor has left */
  gboolean serial_messages;                /* and not while it receives, which it does not beside work either */
  gboolean scattered_boundaries; /* each tp rank sends its 1/tp of a boundary tensor, which is gathered there */
  double gather_copies;          /* bytes moved on the way of each byte that is gathered so */
  gboolean gathers_outputs;      /* the part's own output too, for its backward */
  gboolean overlap_grads;        /* default of the key */
  guint tensors, matrices;       /* of a layer, where the host cuts each into slices for ZeRO-1; 0: flat buffers */
  guint listed_tensors;    /* of a layer, that ZeRO-3 gathers and scatters one by one, through lists of all parts */
  gboolean fused_sums;     /* products of weight gradients add into an fp32 gradient; else a kernel of its own adds */
  gboolean copied_sums;    /* where the gradient is wider than 16 bits, that kernel adds a copy in the wider format */
  gboolean cut_past_share; /* a pipeline's part ends with the layer past its share of the cost; else cut evenly */
  PsiTensorOverlap tensor_overlap;
  PsiExpertGemm expert_gemm;  /* default of the key, unless PyTorch compiles the loop away */
  gboolean whole_sums;        /* ZeRO-1 sums fp32 gradients over all ranks whole, though each needs its share only */
  gboolean sums_each_product; /* gate and up sum the gradient of their common input over tp one after the other */
  guint parts_of_gathered;    /* products of a gathered input: own rows, those before, those behind; 0: one */
  gboolean checks_over_nodes; /* default of the key collective_checks for tensor-parallel pipelines over nodes */
  gboolean awaits_kernels;    /* its host issues a kernel only when the one before it is over */
  gboolean fits_by_recipe;    /* its recipes recompute or offload where the activations of a model would not fit */
} PsiFramework;

extern const PsiFramework psi_frameworks[]; /* ends with name NULL */

/* By name; the names are the choices of the key. NULL if there is none. */
const PsiFramework *psi_framework_find (const char *name);

/* By a free text of a measured run, "Megatron-DeepSpeed 2022": the first row that has one of its words; else NULL. */
const PsiFramework *psi_framework_guess (const char *text);
