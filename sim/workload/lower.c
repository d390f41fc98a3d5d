/* SPDX-License-Identifier: MIT */
/* Kernels and bytes of operations.
 *
 *   product      rows x in by in x out: 2 rows in out FLOPs; its backward is one product for the input and one for the
 *                weight. Bytes: both operands and the result; the weight half also adds into the gradient, in fp32 in
 *                the product itself (Megatron) or by a kernel of its own (PyTorch), after a copy to fp32 (DeepSpeed).
 *   attention    fused: one kernel (x 2.5 FLOPs backward), half of the scores when causal. Math: two batched products
 *                and the passes over the b a s s scores.
 *   elementwise  bytes = elements (transfers * width + mask bytes), see costs[].
 *
 * Sources: Megatron-LM and PyTorch kernels as read; bytes per element of fused and unfused norms, RoPE, SwiGLU,
 * residual and scores measured against published steps (fused norm 4/8 B, unfused 40/56; SwiGLU 6/10 and 12/20;
 * residual 7/5; scores 12/12 with dropout; logits about 30, fused 14). Launch counts add up to about 24 forward and
 * 36 backward for a Megatron layer and 40/60 for an eager Llama layer, what hosts are seen to issue.
 * Compiled: complex numbers (rotary embeddings) stay single kernels. Limits: fp8's kinds of scaling cost the same. */
#include "lower-step.h"

#include <math.h>
#include <string.h>

typedef struct
{
  double forward, backward;           /* transfers of one element */
  double mask_forward, mask_backward; /* bytes of one element, when there is dropout */
  guint launches_forward, launches_backward;
} ElementCost;

/* clang-format off */
static const ElementCost costs[PSI_N_ELEMENTS][PSI_N_KERNEL_SETS] = {
  /*                            Megatron                  eager                      compiled              */
  [PSI_ELEMENT_LAYERNORM] = { { 2, 4, 0, 0, 2, 3 },     { 2, 4, 0, 0, 1, 2 },      { 2, 4, 0, 0, 1, 2 } },
  [PSI_ELEMENT_RMSNORM]   = { { 2, 4, 0, 0, 2, 3 },     { 20, 45, 0, 0, 6, 10 },   { 3, 5, 0, 0, 1, 2 } },
  [PSI_ELEMENT_ROPE]      = { { 4, 4, 0, 0, 4, 4 },     { 20, 20, 0, 0, 10, 12 },  { 14, 14, 0, 0, 6, 8 } },
  [PSI_ELEMENT_LAYOUT]    = { { 2, 2, 0, 0, 4, 4 },     { 2, 2, 0, 0, 3, 3 },      { 2, 2, 0, 0, 1, 1 } },
  [PSI_ELEMENT_GELU]      = { { 2, 3, 0, 0, 2, 3 },     { 2, 3, 0, 0, 1, 1 },      { 2, 3, 0, 0, 1, 1 } },
  [PSI_ELEMENT_GATED]     = { { 3, 5, 0, 0, 2, 3 },     { 6, 10, 0, 0, 2, 4 },     { 3, 5, 0, 0, 1, 1 } },
  [PSI_ELEMENT_RESIDUAL]  = { { 3, 2, 1, 1, 3, 2 },     { 3, 3, 3, 1, 2, 2 },      { 3, 2, 1, 1, 1, 1 } },
  [PSI_ELEMENT_DROPOUT]   = { { 2, 2, 1, 1, 1, 1 },     { 2, 2, 1, 1, 1, 1 },      { 2, 2, 1, 1, 1, 1 } },
  [PSI_ELEMENT_SCORES]    = { { 3.5, 3.5, 5, 5, 3, 3 }, { 12, 14, 5, 5, 8, 9 },    { 3.5, 3.5, 5, 5, 2, 2 } },
  [PSI_ELEMENT_LOSS]      = { { 8, 7, 0, 0, 6, 6 },     { 8, 7, 0, 0, 4, 5 },      { 4, 3, 0, 0, 2, 2 } },
  [PSI_ELEMENT_EMBEDDING] = { { 4, 4, 0, 0, 3, 3 },     { 4, 4, 0, 0, 2, 2 },      { 4, 4, 0, 0, 2, 2 } },
  [PSI_ELEMENT_ROUTER]    = { { 16, 12, 0, 0, 10, 8 },   { 16, 12, 0, 0, 8, 6 },    { 8, 6, 0, 0, 3, 3 } },
  [PSI_ELEMENT_PERMUTE]   = { { 2, 2, 0, 0, 6, 6 },     { 2, 2, 0, 0, 8, 8 },      { 2, 2, 0, 0, 4, 4 } },
};
/* clang-format on */

static PsiKernelSet
kernel_set (const PsiLowering *lowering, PsiElementOp op)
{
  const PsiFramework *framework = lowering->framework;
  PsiKernelSet set = lowering->megatron ? PSI_KERNELS_FUSED : PSI_KERNELS_EAGER;

  if (framework != NULL && (op == PSI_ELEMENT_RMSNORM || op == PSI_ELEMENT_LAYERNORM))
    set = framework->norm;
  else if (framework != NULL && op == PSI_ELEMENT_ROPE)
    set = framework->rotary;
  else if (framework != NULL && op == PSI_ELEMENT_GATED)
    set = framework->gate;
  else if (framework != NULL && op == PSI_ELEMENT_SCORES)
    set = framework->scores;
  return set == PSI_KERNELS_EAGER && lowering->compile ? PSI_KERNELS_COMPILED : set;
}

void
psi_lower_init (PsiLower *lower, const PsiLowering *lowering, gint64 tokens)
{
  PsiDtype dtype = lowering->dtype;

  *lower = (PsiLower){ 0 };
  lower->lowering = lowering;
  lower->tokens = tokens;
  lower->tp = MAX (lowering->tp, 1);
  lower->tp_group = PSI_GROUP_TP;
  lower->sequence_shards = lowering->sequence_parallel ? lower->tp : 1;
  lower->dtype = dtype;
  lower->wide_dtype =
      dtype == PSI_DTYPE_FP8 || dtype == PSI_DTYPE_MXFP8 || dtype == PSI_DTYPE_NVFP4 ? PSI_DTYPE_BF16 : dtype;
  lower->element_bytes = dtype == PSI_DTYPE_FP32 || dtype == PSI_DTYPE_TF32 ? 4 : 2;
  lower->select_products = !lowering->megatron;
  lower->ops = g_array_new (FALSE, TRUE, sizeof (PsiLowerStep));
}

void
psi_lower_clear (PsiLower *lower)
{
  g_clear_pointer (&lower->ops, g_array_unref);
}

PsiLowerStep *
psi_lower_add_step (PsiLower *lower)
{
  PsiLowerStep step = { .core = lower->in_core, .varies = lower->varies };

  g_array_append_val (lower->ops, step);
  return &g_array_index (lower->ops, PsiLowerStep, lower->ops->len - 1);
}

static void
step_add (PsiLowerStep *step, PsiPass pass, PsiKernel kernel)
{
  g_assert (step->n_kernels[pass] < G_N_ELEMENTS (step->kernels[pass]));
  kernel.varies = step->varies;
  step->kernels[pass][step->n_kernels[pass]++] = kernel;
}

static PsiKernel
memory_kernel (const PsiLower *lower, double bytes, guint launches)
{
  return (PsiKernel){
    .kind = PSI_KERNEL_MEMORY, .dtype = lower->wide_dtype, .launches = MAX (launches, 1), .batch = 1, .bytes = bytes
  };
}

static PsiKernel
product_kernel (const PsiLower *lower, PsiDtype dtype, gint64 batch, gint64 m, gint64 n, gint64 k, double result_bytes)
{
  guint operand_bytes = dtype == lower->wide_dtype ? lower->element_bytes : 1;
  double count = (double) batch;

  return (PsiKernel){ .kind = PSI_KERNEL_GEMM,
                      .dtype = dtype,
                      .launches = 1,
                      .batch = batch,
                      .m = m,
                      .n = n,
                      .k = k,
                      .flops = 2.0 * count * (double) m * (double) n * (double) k,
                      .bytes = count * (operand_bytes * ((double) m * (double) k + (double) n * (double) k) +
                                        result_bytes * (double) m * (double) n) };
}

/* Bytes per element on the way to 8 bits. Transformer Engine: one kernel reads 16 bits and writes the cast and its
 * transpose, weights once a step. PyTorch (torchao, dynamic scaling): a pass for the maximum, a pass for the cast, and
 * a copy where the layout has to turn for the weight gradient. */
#define CAST_TRANSPOSE 4.0
#define CAST 5.0
#define COPY 2.0

/* Products of several experts: one kernel, or one for each, which fill the GPU together or one by one. */
static void
launch_experts (const PsiLower *lower, PsiKernel *kernel)
{
  if (lower->lowering->expert_gemm == PSI_EXPERTS_GROUPED)
    return;
  kernel->launches = (guint32) kernel->batch;
  if (lower->lowering->expert_gemm == PSI_EXPERTS_LOOP)
    kernel->batch = 1; /* flops and bytes are of all */
}

/* Products of the three passes for `copies` equal matrices of this GPU, m x k by k x n each. */
static void
add_products (PsiLower *lower, PsiDtype dtype, gint64 copies, gint64 m, gint64 n, gint64 k, PsiSplit split,
              gboolean trained)
{
  PsiLowerStep *step = psi_lower_add_step (lower);
  gboolean megatron = lower->lowering->megatron;
  guint width = lower->element_bytes;

  step->column = split == PSI_SPLIT_COLUMN;
  step->row = split == PSI_SPLIT_ROW;
  double weights = (double) copies * (double) n * (double) k;

  if (dtype != lower->wide_dtype)
    {
      double inputs = (double) copies * (double) m * (double) k, outputs = (double) copies * (double) m * (double) n;

      /* What is gathered over the tensor-parallel group is cast before. */
      if (!megatron && split == PSI_SPLIT_COLUMN)
        inputs /= lower->sequence_shards;
      if (!megatron && split == PSI_SPLIT_ROW)
        outputs /= lower->sequence_shards;

      step_add (step, PSI_PASS_FORWARD,
                memory_kernel (lower, megatron ? CAST_TRANSPOSE * inputs : CAST * (inputs + weights), 2));
      step_add (step, PSI_PASS_BACKWARD_INPUT,
                memory_kernel (lower, megatron ? CAST_TRANSPOSE * outputs : CAST * outputs, 2));
      if (!megatron && trained)
        step_add (step, PSI_PASS_BACKWARD_WEIGHT, memory_kernel (lower, COPY * (inputs + outputs), 2));
    }
  PsiKernel forward = product_kernel (lower, dtype, copies, m, n, k, width);
  PsiKernel backward = product_kernel (lower, dtype, copies, m, k, n, width);

  launch_experts (lower, &forward);
  launch_experts (lower, &backward);
  step_add (step, PSI_PASS_FORWARD, forward);
  step_add (step, PSI_PASS_BACKWARD_INPUT, backward);
  if (!trained)
    return;
  /* Either the product adds into the fp32 gradient, or a kernel reads both and writes the sum. */
  const PsiFramework *framework = lower->lowering->framework;
  gboolean fused = framework != NULL ? framework->fused_sums : megatron;
  guint own_bytes = lower->lowering->dtype != PSI_DTYPE_FP16 ? 4 : width;
  guint sum_bytes = !megatron ? width : lower->lowering->sum_bytes > 0 ? lower->lowering->sum_bytes : own_bytes;
  PsiKernel weight = product_kernel (lower, dtype, copies, n, k, m, fused ? 2 * sum_bytes : width);

  weight.any_k = TRUE;
  launch_experts (lower, &weight);
  step_add (step, PSI_PASS_BACKWARD_WEIGHT, weight);
  guint sums = framework != NULL && framework->copied_sums && sum_bytes > width ? 2 : 1; /* kernels that write one */
  double traffic = fused ? 0.0 : (width + 2.0 * sums * sum_bytes) * weights;
  step_add (step, PSI_PASS_BACKWARD_WEIGHT, memory_kernel (lower, traffic, sums));
}

static void
count_linear (PsiLower *lower, gint64 matrix, gint64 input_bytes, gint64 output_bytes, gboolean trained)
{
  lower->flow_bytes = MAX (lower->flow_bytes, MAX (input_bytes, output_bytes));
  if (!trained)
    return;
  lower->largest_matrix = MAX (lower->largest_matrix, matrix);
  lower->weight_saved_bytes += input_bytes + output_bytes;
}

static void
count_flops (PsiLower *lower, double rows, gint64 inputs, gint64 outputs, gboolean trained)
{
  double flops = 2.0 * rows * (double) inputs * (double) outputs;

  lower->model_flops += flops;
  if (!trained)
    lower->frozen_flops += flops;
}

/* Frozen matrices of a narrow format, n x k each: a wide copy is made for every product. */
static void
add_narrow (PsiLower *lower, gint64 copies, gint64 n, gint64 k)
{
  PsiBaseFormat base = lower->lowering->adapters.base;
  guint width = lower->element_bytes;

  if (base == PSI_BASE_WIDE)
    return;
  gint64 bytes = copies * psi_base_bytes (base, n, k, width);
  double traffic = (double) bytes + (double) (copies * n * k) * width;
  PsiLowerStep *step = psi_lower_add_step (lower);

  lower->narrow_parameters += copies * n * k;
  lower->narrow_bytes += bytes;
  lower->largest_narrow = MAX (lower->largest_narrow, n * k);
  step_add (step, PSI_PASS_FORWARD, memory_kernel (lower, traffic, (guint) MIN (copies, G_MAXUINT)));
  step_add (step, PSI_PASS_BACKWARD_INPUT, memory_kernel (lower, traffic, (guint) MIN (copies, G_MAXUINT)));
}

static gboolean
is_trained (const PsiLower *lower)
{
  return lower->lowering->adapters.rank == 0;
}

void
psi_lower_linear (PsiLower *lower, gint64 rows, gint64 inputs, gint64 outputs, PsiSplit split, gboolean bias)
{
  gint64 k = split == PSI_SPLIT_ROW ? inputs / lower->tp : inputs;
  gint64 n = split == PSI_SPLIT_COLUMN ? outputs / lower->tp : outputs;
  gint64 shards = lower->sequence_shards;

  /* Rows that each GPU of the group has for itself (a router's) count for all of them. */
  gint64 whole_rows = split == PSI_SPLIT_NONE && rows < lower->tokens ? rows * shards : rows;

  if (!is_trained (lower))
    add_narrow (lower, 1, n, k);
  add_products (lower, lower->dtype, 1, rows, n, k, split, is_trained (lower));
  lower->parameters += k * n + (bias ? n : 0);
  count_flops (lower, (double) whole_rows * MAX (lower->lowering->cp, 1), inputs, outputs, is_trained (lower));
  /* The whole-width side of a split product is sharded along the sequence. */
  count_linear (lower, k * n, rows * k * lower->element_bytes / (split == PSI_SPLIT_ROW ? 1 : shards),
                rows * n * lower->element_bytes / (split == PSI_SPLIT_COLUMN ? 1 : shards), is_trained (lower));
}

void
psi_lower_experts (PsiLower *lower, gint64 rows, gint64 model_rows, gint64 inputs, gint64 outputs, PsiSplit split,
                   gint64 local_experts)
{
  gint64 k = split == PSI_SPLIT_ROW ? inputs / lower->tp : inputs;
  gint64 n = split == PSI_SPLIT_COLUMN ? outputs / lower->tp : outputs;
  gint64 rows_each = MAX ((rows + local_experts - 1) / local_experts, 1);

  if (!is_trained (lower))
    add_narrow (lower, local_experts, n, k);
  add_products (lower, lower->dtype, local_experts, rows_each, n, k, PSI_SPLIT_NONE, is_trained (lower));
  lower->parameters += local_experts * k * n;
  lower->expert_parameters += local_experts * k * n;
  count_flops (lower, (double) model_rows, inputs, outputs, is_trained (lower));
  count_linear (lower, local_experts * k * n, rows * k * lower->element_bytes, rows * n * lower->element_bytes,
                is_trained (lower));
}

gboolean
psi_lower_wants_input (const PsiLower *lower, guint targets)
{
  return is_trained (lower) || (lower->lowering->adapters.targets & targets) != 0;
}

/* A and B of `copies` adapters. `rows`: of each; `all_rows`: of all of them on this GPU. */
static void
add_adapters (PsiLower *lower, gint64 copies, gint64 rows, gint64 all_rows, gint64 k, gint64 n, PsiSplit split)
{
  gint64 r = lower->lowering->adapters.rank, elements = copies * r * (k + n);
  guint width = lower->element_bytes;

  add_products (lower, lower->wide_dtype, copies, rows, r, k, PSI_SPLIT_NONE, TRUE);
  if (lower->tp > 1 && split == PSI_SPLIT_ROW)
    psi_lower_comm (lower, PSI_COMM_ALL_REDUCE, PSI_COMM_NONE, lower->tp_group, all_rows * r * width);
  else if (lower->tp > 1 && split == PSI_SPLIT_COLUMN)
    psi_lower_comm (lower, PSI_COMM_NONE, PSI_COMM_ALL_REDUCE, lower->tp_group, all_rows * r * width);
  add_products (lower, lower->wide_dtype, copies, rows, n, r, PSI_SPLIT_NONE, TRUE);
  psi_lower_element (lower, PSI_ELEMENT_RESIDUAL, (double) (all_rows * n)); /* scaled, and added to the frozen result */
  lower->parameters += elements;
  lower->adapter_parameters += elements;
  psi_lower_save (lower, all_rows * r * width);
  count_linear (lower, r * k, all_rows * k * width, all_rows * r * width, TRUE);
  count_linear (lower, r * n, all_rows * r * width, all_rows * n * width, TRUE);
}

void
psi_lower_adapter (PsiLower *lower, PsiTarget target, gint64 rows, gint64 inputs, gint64 outputs, PsiSplit split)
{
  const PsiAdapters *adapters = &lower->lowering->adapters;
  double model_rows = (double) rows * MAX (lower->lowering->cp, 1);

  if (adapters->rank == 0 || (adapters->targets & target) == 0)
    return;
  add_adapters (lower, 1, rows, rows, split == PSI_SPLIT_ROW ? inputs / lower->tp : inputs,
                split == PSI_SPLIT_COLUMN ? outputs / lower->tp : outputs, split);
  count_flops (lower, model_rows, adapters->rank, inputs + outputs, TRUE);
}

void
psi_lower_expert_adapters (PsiLower *lower, PsiTarget target, gint64 rows, gint64 model_rows, gint64 inputs,
                           gint64 outputs, PsiSplit split, gint64 local_experts)
{
  const PsiAdapters *adapters = &lower->lowering->adapters;
  gint64 before = lower->adapter_parameters;

  if (adapters->rank == 0 || (adapters->targets & target) == 0)
    return;
  add_adapters (lower, local_experts, MAX ((rows + local_experts - 1) / local_experts, 1), rows,
                split == PSI_SPLIT_ROW ? inputs / lower->tp : inputs,
                split == PSI_SPLIT_COLUMN ? outputs / lower->tp : outputs, split);
  count_flops (lower, (double) model_rows, adapters->rank, inputs + outputs, TRUE);
  lower->expert_parameters += lower->adapter_parameters - before;
  lower->adapter_expert_parameters += lower->adapter_parameters - before;
}

void
psi_lower_tied_linear (PsiLower *lower, gint64 rows, gint64 inputs, gint64 outputs)
{
  gint64 n = outputs / lower->tp;

  add_products (lower, lower->wide_dtype, 1, rows, n, inputs, PSI_SPLIT_COLUMN, is_trained (lower));
  count_flops (lower, (double) rows * MAX (lower->lowering->cp, 1), inputs, outputs, is_trained (lower));
  count_linear (lower, n * inputs, rows * inputs * lower->element_bytes / lower->sequence_shards,
                rows * n * lower->element_bytes, is_trained (lower));
}

void
psi_lower_element (PsiLower *lower, PsiElementOp op, double elements)
{
  const ElementCost *cost = &costs[op][kernel_set (lower->lowering, op)];
  gboolean dropout = lower->lowering->dropout;
  PsiLowerStep *step;

  if (elements <= 0.0)
    return;
  step = psi_lower_add_step (lower);
  step_add (step, PSI_PASS_FORWARD,
            memory_kernel (lower,
                           elements * (cost->forward * lower->element_bytes + (dropout ? cost->mask_forward : 0)),
                           cost->launches_forward));
  step_add (step, PSI_PASS_BACKWARD_INPUT,
            memory_kernel (lower,
                           elements * (cost->backward * lower->element_bytes + (dropout ? cost->mask_backward : 0)),
                           cost->launches_backward));
}

void
psi_lower_set_launches (PsiLower *lower, guint forward, guint backward)
{
  PsiLowerStep *step = &g_array_index (lower->ops, PsiLowerStep, lower->ops->len - 1);
  const guint launches[PSI_N_PASSES] = { [PSI_PASS_FORWARD] = forward, [PSI_PASS_BACKWARD_INPUT] = backward };

  for (guint pass = 0; pass < PSI_N_PASSES; pass++)
    if (step->n_kernels[pass] > 0 && launches[pass] > 0)
      step->kernels[pass][0].launches = launches[pass];
}

/* Fused attention, forward or backward. */
static PsiKernel
attention_kernel (const PsiLower *lower, gint64 batch, gint64 queries, gint64 keys, gint64 d, gint64 d_value,
                  gboolean causal, gboolean backward)
{
  double scores = (double) batch * (double) queries * (double) keys * (causal ? 0.5 : 1.0);
  double tensors = (double) batch * (double) (queries * d + keys * d + keys * d_value + queries * d_value);

  return (PsiKernel){ .kind = PSI_KERNEL_ATTENTION,
                      .dtype = lower->wide_dtype,
                      .launches = 1,
                      .causal = causal,
                      .backward = backward,
                      .generation = lower->lowering->flash_generation,
                      .batch = batch,
                      .m = queries,
                      .n = keys,
                      .k = (d + d_value) / 2,
                      .flops = 2.0 * scores * (double) (d + d_value) * (backward ? 2.5 : 1.0),
                      .bytes = tensors * lower->element_bytes * (backward ? 2.0 : 1.0) };
}

void
psi_lower_attention (PsiLower *lower, gint64 sequences, gint64 heads, gint64 queries, gint64 keys, gint64 d,
                     gint64 d_value, gboolean causal)
{
  gint64 batch = sequences * heads;
  guint width = lower->element_bytes;
  gint64 saved;

  lower->model_flops += 2.0 * (double) batch * lower->tp * MAX (lower->lowering->cp, 1) * (double) queries *
                        (double) keys * (double) (d + d_value);
  if (lower->lowering->flash)
    {
      PsiLowerStep *step = psi_lower_add_step (lower);

      step_add (step, PSI_PASS_FORWARD, attention_kernel (lower, batch, queries, keys, d, d_value, causal, FALSE));
      step_add (step, PSI_PASS_BACKWARD_INPUT,
                attention_kernel (lower, batch, queries, keys, d, d_value, causal, TRUE));
      saved = batch * queries * 4; /* log-sum-exp in fp32 */
    }
  else
    {
      PsiDtype dtype = lower->wide_dtype;
      PsiLowerStep *step = psi_lower_add_step (lower);

      step_add (step, PSI_PASS_FORWARD, product_kernel (lower, dtype, batch, queries, keys, d, width));
      step_add (step, PSI_PASS_BACKWARD_INPUT, product_kernel (lower, dtype, batch, queries, d, keys, width));
      step_add (step, PSI_PASS_BACKWARD_INPUT, product_kernel (lower, dtype, batch, keys, d, queries, width));
      psi_lower_element (lower, PSI_ELEMENT_SCORES, (double) batch * (double) queries * (double) keys);
      step = psi_lower_add_step (lower);
      step_add (step, PSI_PASS_FORWARD, product_kernel (lower, dtype, batch, queries, d_value, keys, width));
      step_add (step, PSI_PASS_BACKWARD_INPUT, product_kernel (lower, dtype, batch, queries, keys, d_value, width));
      step_add (step, PSI_PASS_BACKWARD_INPUT, product_kernel (lower, dtype, batch, keys, d_value, queries, width));
      /* softmax output; with dropout also its mask and the dropped copy */
      saved = batch * queries * keys * (lower->lowering->dropout ? 2 * width + 1 : width);
      /* operator by operator the softmax runs in fp32, and its backward wants that result too */
      if (width == 2 && !lower->lowering->compile && lower->lowering->framework != NULL &&
          lower->lowering->framework->scores == PSI_KERNELS_EAGER)
        saved += 4 * batch * queries * keys;
      lower->flow_bytes = MAX (lower->flow_bytes, 2 * batch * queries * keys * width);
    }
  psi_lower_save (lower, saved);
  if (lower->in_core)
    lower->core_saved_bytes += saved;
}

void
psi_lower_save (PsiLower *lower, gint64 bytes)
{
  guint i = MIN (lower->n_saved_tensors, PSI_SAVED_TENSORS - 1);

  lower->saved_bytes += bytes;
  lower->saved_tensors[i] += bytes;
  lower->n_saved_tensors = i + 1;
}

void
psi_lower_keep (PsiLower *lower, gint64 bytes)
{
  lower->kept_bytes += bytes;
}

void
psi_lower_add_parameters (PsiLower *lower, gint64 elements)
{
  lower->parameters += elements;
}

void
psi_lower_begin_core (PsiLower *lower)
{
  lower->in_core = TRUE;
}

void
psi_lower_end_core (PsiLower *lower)
{
  lower->in_core = FALSE;
}

static void
emit (PsiLayerKind *kind, PsiPass pass, const PsiLowerStep *step, PsiCommOp comm)
{
  for (guint k = 0; k < step->n_kernels[pass]; k++)
    if (psi_lower_is_work (&step->kernels[pass][k]))
      psi_kind_add_kernel (kind, pass, &step->kernels[pass][k]);
  if (comm != PSI_COMM_NONE)
    psi_kind_end_segment (kind, pass, comm, step->group, step->comm_bytes[pass != PSI_PASS_FORWARD]);
}

void
psi_lower_finish (PsiLower *lower, PsiLayerKind *kind)
{
  guint n = lower->ops->len;
  g_autofree guint *first_kernels = g_new (guint, n + 1), *first_weights = g_new (guint, n + 1);

  kind->selective_first = kind->selective_n = 0;
  for (guint i = 0; i < n; i++)
    {
      PsiLowerStep *step = &g_array_index (lower->ops, PsiLowerStep, i);

      first_kernels[i] = kind->kernels->len;
      emit (kind, PSI_PASS_FORWARD, step, step->forward_comm);
      step->forward_segment = MAX (kind->segments[PSI_PASS_FORWARD]->len, 1) - 1;
    }
  first_kernels[n] = kind->kernels->len;
  psi_kind_end_segment (kind, PSI_PASS_FORWARD, PSI_COMM_NONE, PSI_GROUP_TP, 0);
  for (guint i = n; i-- > 0;)
    {
      PsiLowerStep *step = &g_array_index (lower->ops, PsiLowerStep, i);

      /* The mirror of a collective stands where the walk passes it: after the ops behind it, before those ahead. */
      emit (kind, PSI_PASS_BACKWARD_INPUT, step, step->backward_comm);
      step->segment = MAX (kind->segments[PSI_PASS_BACKWARD_INPUT]->len, 1) - 1;
    }
  psi_kind_end_segment (kind, PSI_PASS_BACKWARD_INPUT, PSI_COMM_NONE, PSI_GROUP_TP, 0);
  for (guint i = n; i-- > 0;)
    {
      first_weights[i] = kind->kernels->len;
      emit (kind, PSI_PASS_BACKWARD_WEIGHT, &g_array_index (lower->ops, PsiLowerStep, i), PSI_COMM_NONE);
    }
  psi_kind_end_segment (kind, PSI_PASS_BACKWARD_WEIGHT, PSI_COMM_NONE, PSI_GROUP_TP, 0);
  psi_lower_overlap (lower, kind, first_weights);

  kind->parameters = lower->parameters;
  kind->expert_parameters = lower->expert_parameters;
  kind->is_frozen = lower->lowering->adapters.rank > 0;
  kind->adapter_parameters = lower->adapter_parameters;
  kind->adapter_expert_parameters = lower->adapter_expert_parameters;
  kind->narrow_parameters = lower->narrow_parameters;
  kind->narrow_bytes = lower->narrow_bytes;
  kind->forward_workspace_bytes += lower->largest_narrow * lower->element_bytes;
  kind->backward_workspace_bytes += lower->largest_narrow * lower->element_bytes;
  kind->model_flops = lower->model_flops;
  kind->frozen_flops = lower->frozen_flops;
  kind->saved_bytes = lower->saved_bytes;
  memcpy (kind->saved_tensors, lower->saved_tensors, sizeof kind->saved_tensors);
  kind->n_saved_tensors = lower->n_saved_tensors;
  kind->weight_saved_bytes = MIN (lower->weight_saved_bytes, lower->saved_bytes);
  kind->selective_saved_bytes = lower->select_products && lower->kept_bytes > 0
                                    ? MIN (lower->kept_bytes, lower->saved_bytes)
                                    : lower->saved_bytes - lower->core_saved_bytes;
  psi_lower_emit_core (lower, kind, first_kernels);
  g_clear_pointer (&lower->ops, g_array_unref);
}
