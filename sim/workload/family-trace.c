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
 * A layer whose only product is with its own weights (o channels out, i in, window of w elements, g groups) is that
 * product, a convolution as the implicit one of its kernels (cuDNN; Chetlur et al., arXiv 1410.0759), g of them with M
 * positions a sample:
 *
 *   forward            M x o/g over i/g w
 *   backward, input    M x i/g over o/g w
 *   backward, weight   o/g x i/g w over M
 *
 * of which the GPU's product model takes ramps, waves and alignment into account; M = forward FLOPs / (2 o i w / g).
 *
 * Convolutions:
 *   matrix units   take channels last. Channels first, cuDNN copies what a pass reads into the other layout and its
 *                  result back, in 16 bits and in TF32: each tensor of the layer is read and written once more
 *   plain fp32     any layout; 3 x 3 windows of stride 1 by Winograd's F(2x2, 3x3), 4 multiplications an output in
 *                  place of 9 (Lavin and Gray, arXiv 1509.09308). The stride is 1 if as many positions come as go
 *   depthwise      one channel a group: plain units, no copies, see PSI_KERNEL_DIRECT
 *   grouped        up to NARROW_GROUP channels: kernels made for that, no tile wider than a group. Channels last,
 *                  cuDNN has others for up to FAST_GROUP channels, in all a multiple of FAST_CHANNELS, and multiplies
 *                  on plain units otherwise (pytorch/pytorch#34977: groups of 64 are 35 times slower than channels
 *                  first; timm's table of RegNets and ResNeXts on an RTX 3090, PyTorch 1.12)
 *
 * Assumptions: of other rows the slower of FLOPs and bytes decides; one launch for each row and half.
 * Limits: no tensor, context or expert parallelism, because the trace knows no inner structure; kernels a compiler
 * would fuse stay apart; autocast of PyTorch keeps layer norms and softmax in fp32, the trace scales all alike. */
#include "families.h"

#include <math.h>

/* Equal products: m x n outputs, sums of k. */
typedef struct
{
  double batch, m, n, k;
} Shape;

/* What is there to know about the product of a row. */
typedef struct
{
  gboolean is_direct;             /* on plain units, one multiply-add after another */
  gboolean is_narrow;             /* by kernels made for groups of its width */
  double groups, outputs, inputs; /* the latter two of one group */
  double window, positions;       /* positions: of the whole micro-batch */
  double copied_bytes;            /* to and from the other layout, in each pass */
} Product;

#define LONGEST G_MAXINT32    /* side of a product: of longer ones only FLOPs and bytes count */
#define COPIES 3              /* kernels for two tensors in and one out */
#define WINOGRAD_WINDOW 9.0   /* elements of a 3 x 3 window */
#define WINOGRAD_PRODUCTS 4.0 /* multiplications of F(2x2, 3x3) for an output */
#define NARROW_GROUP 8        /* channels of a group; the next two are channels too: what cuDNN 8 has kernels for */
#define FAST_GROUP 32
#define FAST_CHANNELS 64

static void
add_kernel (PsiLayerKind *kind, PsiPass pass, PsiDtype dtype, const Product *product, const Shape *shape, double flops,
            double bytes)
{
  double longest = MAX (shape->m, MAX (shape->n, shape->k));
  gboolean shaped = shape->m >= 1 && longest <= LONGEST && flops > 0 && !product->is_direct && !product->is_narrow;
  PsiKernel kernel = { .kind = shaped                              ? PSI_KERNEL_GEMM
                               : product->is_direct && flops > 0.0 ? PSI_KERNEL_DIRECT
                               : flops > 0.0                       ? PSI_KERNEL_ROOFLINE
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
      kernel.batch = llround (shape->batch);
      kernel.m = llround (shape->m);
      kernel.n = llround (shape->n);
      kernel.k = llround (shape->k);
      kernel.any_k = pass == PSI_PASS_BACKWARD_WEIGHT;
      /* What the hardware multiplies: less with Winograd's windows. */
      kernel.flops = 2.0 * (double) kernel.batch * (double) kernel.m * (double) kernel.n * (double) kernel.k;
    }
  else if (product->is_direct)
    kernel.k = llround (product->inputs);
  psi_kind_add_kernel (kind, pass, &kernel);
  if (product->copied_bytes > 0 && flops > 0)
    {
      const PsiKernel copy = {
        .kind = PSI_KERNEL_MEMORY, .dtype = dtype, .launches = COPIES, .batch = 1, .bytes = product->copied_bytes
      };

      psi_kind_add_kernel (kind, pass, &copy);
    }
  psi_kind_end_segment (kind, pass, PSI_COMM_NONE, PSI_GROUP_TP, 0);
}

/* Does the convolution run on plain units whatever the format? */
static gboolean
is_direct (const PsiTraceLayer *row, gboolean channels_first)
{
  gint64 groups = row->product_groups;

  if (groups <= 1)
    return FALSE;
  if (row->product_inputs == groups)
    return TRUE;
  return !channels_first && (row->product_inputs / groups > FAST_GROUP || row->product_inputs % FAST_CHANNELS != 0);
}

static gboolean
keeps_positions (const PsiTraceLayer *row, const PsiTraceLayer *producer)
{
  return producer != NULL && row->n_inputs == 1 &&
         row->output_bytes * row->product_inputs == producer->output_bytes * row->product_outputs;
}

static Product
product_of (const PsiTraceLayer *row, const PsiTraceLayer *producer, const PsiLayerKind *kind,
            const PsiLowering *lowering)
{
  double groups = (double) MAX (row->product_groups, 1);
  gboolean is_plain = lowering->dtype == PSI_DTYPE_FP32;
  Product product = { .is_direct = is_direct (row, lowering->channels_first),
                      .is_narrow = row->product_groups > 1 && row->product_inputs / row->product_groups <= NARROW_GROUP,
                      .groups = groups,
                      .outputs = (double) row->product_outputs / groups,
                      .inputs = (double) row->product_inputs / groups,
                      .window = (double) row->product_window };
  double weights = groups * product.outputs * product.inputs * product.window;

  if (weights > 0)
    product.positions = (double) MAX (lowering->micro_batch, 1) * row->forward_flops / (2 * weights);
  if (row->product_groups == 0 || product.is_direct)
    return product;
  if (is_plain && product.window == WINOGRAD_WINDOW && keeps_positions (row, producer))
    product.window = WINOGRAD_PRODUCTS;
  if (is_plain)
    return product;
  if (lowering->channels_first)
    product.copied_bytes = 2.0 * (double) (kind->input_bytes + kind->output_bytes);
  return product;
}

static void
fill_kind (PsiLayerKind *kind, const PsiTraceLayer *row, const PsiTraceLayer *producer, const PsiLowering *lowering,
           guint traced_bytes)
{
  PsiDtype dtype = lowering->dtype;
  gint64 micro_batch = MAX (lowering->micro_batch, 1);
  guint width = dtype == PSI_DTYPE_FP32 || dtype == PSI_DTYPE_TF32 ? 4 : 2;
  double ratio = (double) width / traced_bytes;
  double samples = (double) micro_batch;
  double parameter_bytes = (double) row->parameters * width;
  double weight_flops = row->parameters > 0 ? MIN (row->forward_flops, row->backward_flops) : 0.0;
  double weight_share = row->parameters == 0        ? 0.0
                        : row->backward_flops > 0.0 ? weight_flops / row->backward_flops
                                                    : 0.5;
  double backward_bytes = samples * ratio * row->backward_bytes;

  kind->parameters = row->parameters;
  kind->model_flops = samples * row->forward_flops;
  kind->saved_bytes = micro_batch * ((gint64) llround (ratio * (double) row->saved_bytes) + row->saved_index_bytes);
  kind->weight_saved_bytes = row->parameters > 0 ? kind->saved_bytes : 0;
  kind->selective_saved_bytes = kind->saved_bytes;
  kind->output_bytes = micro_batch * (gint64) llround (ratio * (double) row->output_bytes);
  kind->input_bytes = producer == NULL ? 0 : micro_batch * (gint64) llround (ratio * (double) producer->output_bytes);
  kind->backward_workspace_bytes = kind->output_bytes;

  Product p = product_of (row, producer, kind, lowering);

  add_kernel (kind, PSI_PASS_FORWARD, dtype, &p, &(Shape){ p.groups, p.positions, p.outputs, p.inputs * p.window },
              samples * row->forward_flops, samples * ratio * row->forward_bytes + parameter_bytes);
  add_kernel (kind, PSI_PASS_BACKWARD_INPUT, dtype, &p,
              &(Shape){ p.groups, p.positions, p.inputs, p.outputs * p.window },
              samples * (row->backward_flops - weight_flops),
              weight_share < 1.0 ? backward_bytes * (1.0 - weight_share) + parameter_bytes : 0.0);
  if (row->parameters > 0)
    add_kernel (kind, PSI_PASS_BACKWARD_WEIGHT, dtype, &p,
                &(Shape){ p.groups, p.outputs, p.inputs * p.window, p.positions }, samples * weight_flops,
                backward_bytes * weight_share + parameter_bytes);
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

      fill_kind (kind, row, producer, lowering, trace->element_bytes);
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
