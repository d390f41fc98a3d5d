/* SPDX-License-Identifier: MIT */
/* A traced network, layer by layer.
 *
 *   FLOPs of a pass  = micro_batch * flops column
 *   bytes of a pass  = r (micro_batch * bytes column + passes over the parameters * parameters * traced width)
 *   saved bytes      = micro_batch * (r saved_bytes + saved_index_bytes)
 *   output bytes     = micro_batch * r output_bytes
 *
 * Symbols: r = width of the training precision over the width of the trace (fp32 -> bf16: 1/2): every floating-point
 * tensor, saved, handed on or passed through, scales with it; integers and booleans do not.
 * The forward reads the parameters once, the input half of the backward once, the weight half writes their gradient
 * once, all per micro-batch and not per sample.
 * Backward split: a layer with parameters spends min(backward, forward) FLOPs on their gradient (a product has equal
 * parts, the first layer of a network has no input part); bytes are cut in the same ratio.
 *
 * A layer whose only product is with its own weights (o channels out, i in, window of w elements) is that product, a
 * convolution as the implicit one of its kernels (cuDNN; Chetlur et al., arXiv 1410.0759), with M positions a sample:
 *   forward  M x o over i w,   backward, input  M x i over o w,   backward, weight  o x i w over M
 * of which the GPU's product model takes ramps, waves and alignment into account; M = forward FLOPs / (2 o i w).
 *
 * Assumptions: of other rows the slower of FLOPs and bytes decides; one launch for each row and half; channels last.
 * Limits: no tensor, context or expert parallelism, because the trace knows no inner structure; kernels a compiler
 * would fuse stay apart. */
#include "families.h"

#include <math.h>

/* One product: m x n outputs, sums of k. */
typedef struct
{
  double m, n, k;
} Shape;

#define LONGEST G_MAXINT32 /* side of a product: of longer ones only FLOPs and bytes count */

static void
add_kernel (PsiLayerKind *kind, PsiPass pass, PsiDtype dtype, const Shape *product, double flops, double bytes)
{
  double longest = MAX (product->m, MAX (product->n, product->k));
  gboolean shaped = product->m >= 1 && longest <= LONGEST && flops > 0;
  PsiKernel kernel = { .kind = shaped        ? PSI_KERNEL_GEMM
                               : flops > 0.0 ? PSI_KERNEL_ROOFLINE
                                             : PSI_KERNEL_MEMORY,
                       .dtype = dtype,
                       .launches = 1,
                       .batch = 1,
                       .flops = flops,
                       .bytes = bytes };

  if (flops <= 0.0 && bytes <= 0.0)
    return;
  if (shaped)
    {
      kernel.m = llround (product->m);
      kernel.n = llround (product->n);
      kernel.k = llround (product->k);
    }
  psi_kind_add_kernel (kind, pass, &kernel);
  psi_kind_end_segment (kind, pass, PSI_COMM_NONE, PSI_GROUP_TP, 0);
}

static void
fill_kind (PsiLayerKind *kind, const PsiTraceLayer *row, const PsiTraceLayer *producer, gint64 micro_batch,
           PsiDtype dtype, guint traced_bytes)
{
  guint width = dtype == PSI_DTYPE_FP32 || dtype == PSI_DTYPE_TF32 ? 4 : 2;
  double ratio = (double) width / traced_bytes;
  double samples = (double) micro_batch;
  double parameter_bytes = (double) row->parameters * width;
  double weight_flops = row->parameters > 0 ? MIN (row->forward_flops, row->backward_flops) : 0.0;
  double weight_share = row->parameters == 0        ? 0.0
                        : row->backward_flops > 0.0 ? weight_flops / row->backward_flops
                                                    : 0.5;
  double backward_bytes = samples * ratio * row->backward_bytes;
  double outputs = (double) row->product_outputs, inputs = (double) row->product_inputs;
  double window = (double) row->product_window, weights = outputs * inputs * window;
  double positions = weights > 0 ? samples * row->forward_flops / (2 * weights) : 0;

  kind->parameters = row->parameters;
  kind->model_flops = samples * row->forward_flops;
  kind->saved_bytes = micro_batch * ((gint64) llround (ratio * (double) row->saved_bytes) + row->saved_index_bytes);
  kind->weight_saved_bytes = row->parameters > 0 ? kind->saved_bytes : 0;
  kind->selective_saved_bytes = kind->saved_bytes;
  kind->output_bytes = micro_batch * (gint64) llround (ratio * (double) row->output_bytes);
  kind->input_bytes = producer == NULL ? 0 : micro_batch * (gint64) llround (ratio * (double) producer->output_bytes);
  kind->backward_workspace_bytes = kind->output_bytes;

  add_kernel (kind, PSI_PASS_FORWARD, dtype, &(Shape){ positions, outputs, inputs * window },
              samples * row->forward_flops, samples * ratio * row->forward_bytes + parameter_bytes);
  add_kernel (kind, PSI_PASS_BACKWARD_INPUT, dtype, &(Shape){ positions, inputs, outputs * window },
              samples * (row->backward_flops - weight_flops),
              weight_share < 1.0 ? backward_bytes * (1.0 - weight_share) + parameter_bytes : 0.0);
  if (row->parameters > 0)
    add_kernel (kind, PSI_PASS_BACKWARD_WEIGHT, dtype, &(Shape){ outputs, inputs * window, positions },
                samples * weight_flops, backward_bytes * weight_share + parameter_bytes);
}

PsiModel *
psi_trace_expand (const PsiWorkloadTrace *trace, const PsiLowering *lowering, GError **error)
{
  g_autoptr (PsiModel) model = psi_model_new (trace->name, "trace");
  const char *degree = lowering->tp > 1 ? "tp" : lowering->cp > 1 ? "cp" : lowering->ep > 1 ? "ep" : NULL;

  if (degree != NULL)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "[plan] %s: '%u' needs the inner structure of layers, which a trace lacks; '%s' allows 1", degree,
                   MAX (lowering->tp, MAX (lowering->cp, lowering->ep)), trace->name);
      return NULL;
    }
  for (guint i = 0; i < trace->layers->len; i++)
    {
      const PsiTraceLayer *row = &g_array_index (trace->layers, PsiTraceLayer, i);
      const PsiTraceLayer *producer =
          row->n_inputs == 0 ? NULL : &g_array_index (trace->layers, PsiTraceLayer, row->inputs[row->n_inputs - 1]);
      guint index = psi_model_add_kind (model, row->name);
      PsiLayerKind *kind = psi_model_kind (model, index);
      PsiLayer layer = { .kind = index, .n_inputs = row->n_inputs };

      fill_kind (kind, row, producer, MAX (lowering->micro_batch, 1), lowering->dtype, trace->element_bytes);
      for (guint k = 0; k < row->n_inputs; k++)
        layer.inputs[k] = row->inputs[k];
      g_array_append_val (model->layers, layer);
      model->model_flops_per_sample += row->forward_flops;
    }
  model->description = g_strdup_printf ("trace of %u layers", trace->layers->len);
  model->n_blocks = trace->layers->len;
  model->parameters = trace->parameters;
  return g_steal_pointer (&model);
}
