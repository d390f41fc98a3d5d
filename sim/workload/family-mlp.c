/* SPDX-License-Identifier: MIT */
/* Residual blocks of two matrices, what train-host and train-cuda really train: y = x + W2 relu (W1 x).
 *
 *   forward    h = x W1' (m x f over d), relu in place; y = x, y += h W2' (m x d over f)
 *   backward   dh = dy W2 (m x f over d), zero where h is; dx = dy + dh W1 (m x d over f), in dy's own memory
 *   weight     dW2 (+)= dy' h (d x f over m), dW1 (+)= dh' x (f x d over m)
 *   parameters 2 d f of each block, nothing else
 *   kept       x and h: m (d + f) elements; dy and dh only while a block's backward runs
 *
 * Symbols: m rows (samples x tokens), d hidden, f ffn (d unless written). The first block needs no dx. Before it the
 * samples are copied in, behind the last block stands half the mean squared error, whose gradient takes the place of
 * the outputs. tp divides f; the sums of y and dx are then all-reduces.
 * Source: kernels/train-model.c, kernels/train-run.c. Limits: no cp, no ep; fp8 as 16 bits; data of another width than
 * d, which would add a linear layer at both ends, is not described. */
#include "families.h"

/* Transfers of one element: copying samples in, and the loss (outputs, targets and their copies). */
#define INPUT_TRANSFERS 5
#define LOSS_TRANSFERS 10

typedef struct
{
  gint64 rows, hidden, ffn; /* ffn of one GPU */
  guint width_bytes;
  PsiDtype dtype;
  gboolean reduces;
} Shape;

static void
add_product (PsiLayerKind *kind, PsiPass pass, const Shape *shape, gint64 m, gint64 n, gint64 k)
{
  PsiKernel kernel = { .kind = PSI_KERNEL_GEMM,
                       .dtype = shape->dtype,
                       .launches = 1,
                       .batch = 1,
                       .m = m,
                       .n = n,
                       .k = k,
                       .flops = 2.0 * (double) m * (double) n * (double) k,
                       .bytes = (double) (m * n + m * k + n * k) * shape->width_bytes };

  psi_kind_add_kernel (kind, pass, &kernel);
}

static void
add_passage (PsiLayerKind *kind, PsiPass pass, const Shape *shape, double transfers, gint64 columns)
{
  PsiKernel kernel = { .kind = PSI_KERNEL_MEMORY,
                       .dtype = shape->dtype,
                       .launches = 1,
                       .batch = 1,
                       .bytes = transfers * (double) (shape->rows * columns) * shape->width_bytes };

  psi_kind_add_kernel (kind, pass, &kernel);
}

static void
end_pass (PsiLayerKind *kind, PsiPass pass, const Shape *shape)
{
  gboolean reduces = shape->reduces && pass != PSI_PASS_BACKWARD_WEIGHT;

  psi_kind_end_segment (kind, pass, reduces ? PSI_COMM_ALL_REDUCE : PSI_COMM_NONE, PSI_GROUP_TP,
                        shape->rows * shape->hidden * shape->width_bytes);
}

static guint
add_block (PsiModel *model, const char *name, const Shape *shape, guint tp, gboolean first, gboolean last)
{
  guint index = psi_model_add_kind (model, name);
  PsiLayerKind *kind = psi_model_kind (model, index);
  gint64 m = shape->rows, d = shape->hidden, f = shape->ffn;
  gint64 stream_bytes = m * d * shape->width_bytes, inner_bytes = m * f * shape->width_bytes;

  if (first)
    add_passage (kind, PSI_PASS_FORWARD, shape, INPUT_TRANSFERS, d);
  add_product (kind, PSI_PASS_FORWARD, shape, m, f, d);
  add_passage (kind, PSI_PASS_FORWARD, shape, 2, f);
  add_passage (kind, PSI_PASS_FORWARD, shape, 2, d);
  add_product (kind, PSI_PASS_FORWARD, shape, m, d, f);
  if (last)
    add_passage (kind, PSI_PASS_FORWARD, shape, LOSS_TRANSFERS, d);
  end_pass (kind, PSI_PASS_FORWARD, shape);
  add_product (kind, PSI_PASS_BACKWARD_INPUT, shape, m, f, d);
  add_passage (kind, PSI_PASS_BACKWARD_INPUT, shape, 3, f);
  if (!first)
    add_product (kind, PSI_PASS_BACKWARD_INPUT, shape, m, d, f);
  end_pass (kind, PSI_PASS_BACKWARD_INPUT, shape);
  add_product (kind, PSI_PASS_BACKWARD_WEIGHT, shape, d, f, m);
  add_product (kind, PSI_PASS_BACKWARD_WEIGHT, shape, f, d, m);
  end_pass (kind, PSI_PASS_BACKWARD_WEIGHT, shape);

  kind->parameters = 2 * d * f;
  kind->model_flops = 4.0 * (double) m * (double) d * (double) f * tp;
  kind->saved_bytes = kind->weight_saved_bytes = kind->selective_saved_bytes = stream_bytes + inner_bytes;
  kind->input_bytes = kind->output_bytes = stream_bytes;
  kind->forward_workspace_bytes = stream_bytes;
  kind->backward_workspace_bytes = stream_bytes + inner_bytes;
  return index;
}

static PsiModel *
build (const PsiModelDimensions *d, const PsiLowering *lowering)
{
  PsiModel *model = psi_model_new (d->name, d->family);
  guint tp = MAX (lowering->tp, 1);
  gint64 tokens = lowering->sequence > 0 ? lowering->sequence : d->sequence;
  PsiDtype dtype = lowering->dtype > PSI_DTYPE_BF16 ? PSI_DTYPE_BF16 : lowering->dtype;
  Shape shape = { .rows = MAX (lowering->micro_batch, 1) * MAX (tokens, 1),
                  .hidden = d->hidden,
                  .ffn = d->ffn / tp,
                  .width_bytes = psi_dtype_bytes (dtype),
                  .dtype = dtype,
                  .reduces = tp > 1 };

  if (d->layers == 1)
    psi_model_add_layers (model, add_block (model, "block", &shape, tp, TRUE, TRUE), 1);
  else
    {
      psi_model_add_layers (model, add_block (model, "first block", &shape, tp, TRUE, FALSE), 1);
      if (d->layers > 2)
        psi_model_add_layers (model, add_block (model, "block", &shape, tp, FALSE, FALSE), (guint) d->layers - 2);
      psi_model_add_layers (model, add_block (model, "last block", &shape, tp, FALSE, TRUE), 1);
    }
  model->n_blocks = (guint) d->layers;
  model->tokens_per_sample = MAX (tokens, 1);
  return model;
}

static gint64
count_parameters (const PsiModelDimensions *d)
{
  return d->layers * 2 * d->hidden * d->ffn;
}

static gboolean
refuse (GError **error, const char *key, guint value, const char *why)
{
  g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE, "[plan] %s: '%u' %s", key, value, why);
  return FALSE;
}

static gboolean
check (const PsiModelDimensions *d, const PsiLowering *lowering, GError **error)
{
  if (lowering->cp > 1)
    return refuse (error, "cp", lowering->cp, "needs attention, which an mlp lacks (allowed: 1)");
  if (lowering->ep > 1)
    return refuse (error, "ep", lowering->ep, "needs a model with experts (allowed: 1)");
  if (lowering->tp > 1 && d->ffn % lowering->tp != 0)
    return refuse (error, "tp", lowering->tp, "does not divide ffn");
  return TRUE;
}

static PsiModel *
expand (const PsiModelDimensions *d, const PsiLowering *lowering, GError **error)
{
  PsiModel *model;

  if (!check (d, lowering, error))
    return NULL;
  model = build (d, lowering);
  model->parameters = count_parameters (d);
  model->model_flops_per_sample =
      4.0 * (double) d->layers * (double) d->hidden * (double) d->ffn * (double) model->tokens_per_sample;
  model->description = g_strdup_printf ("mlp: %" G_GINT64_FORMAT " residual blocks, width %" G_GINT64_FORMAT
                                        ", inner width %" G_GINT64_FORMAT,
                                        d->layers, d->hidden, d->ffn);
  return model;
}

const PsiFamily psi_family_mlp = {
  .name = "mlp",
  .summary = "residual blocks of two matrices, what 'train' trains",
  .count_parameters = count_parameters,
  .expand = expand,
};
