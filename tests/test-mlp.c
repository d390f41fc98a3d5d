/* SPDX-License-Identifier: MIT */
/* The family mlp against train-model.c, counted by hand. */
#include "workload.h"

#include <string.h>

static PsiModel *
expand (const char *const *pairs, const PsiLowering *lowering, GError **error)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();

  for (guint i = 0; pairs[i] != NULL; i += 2)
    g_assert_true (psi_settings_set (settings, (PsiKeyId) psi_key_find (pairs[i]), pairs[i + 1], pairs[i], NULL));
  g_autoptr (PsiModelSource) source = psi_model_source_load (settings, error);
  return source != NULL ? psi_model_source_expand (source, settings, lowering, 1, error) : NULL;
}

#define MLP "model", "custom", "family", "mlp"
#define PAIRS(...) ((const char *const[]){ MLP, __VA_ARGS__, NULL })

static const PsiLowering plain = { .micro_batch = 64, .tp = 1, .cp = 1, .ep = 1, .dtype = PSI_DTYPE_FP32 };

static const PsiLayerKind *
layer (const PsiModel *model, guint i)
{
  return psi_model_kind (model, g_array_index (model->layers, PsiLayer, i).kind);
}

/* Products of a pass, their FLOPs summed. */
static guint
count_products (const PsiLayerKind *kind, PsiPass pass, double *ret_flops)
{
  guint n = 0;

  *ret_flops = 0;
  for (guint s = 0; s < kind->segments[pass]->len; s++)
    {
      const PsiSegment *segment = &g_array_index (kind->segments[pass], PsiSegment, s);
      for (guint k = segment->first_kernel; k < segment->first_kernel + segment->n_kernels; k++)
        {
          const PsiKernel *kernel = &g_array_index (kind->kernels, PsiKernel, k);
          if (kernel->kind != PSI_KERNEL_GEMM)
            continue;
          g_assert_cmpfloat (kernel->flops, ==, 2.0 * (double) kernel->m * (double) kernel->n * (double) kernel->k);
          *ret_flops += kernel->flops;
          n++;
        }
    }
  return n;
}

static void
test_blocks (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiModel) model = expand (PAIRS ("layers", "4", "hidden", "512", "ffn", "256"), &plain, &error);
  const double one = 2.0 * 64 * 512 * 256;
  double flops;

  g_assert_no_error (error);
  g_assert_cmpuint (model->layers->len, ==, 4);
  g_assert_cmpuint (model->n_blocks, ==, 4);
  g_assert_cmpint (model->parameters, ==, 4 * 2 * 512 * 256);
  g_assert_cmpint (model->tokens_per_sample, ==, 1);
  g_assert_cmpfloat (model->model_flops_per_sample, ==, 4 * 2 * one / 64);
  for (guint i = 0; i < 4; i++)
    {
      const PsiLayerKind *kind = layer (model, i);

      g_assert_cmpint (kind->parameters, ==, 2 * 512 * 256);
      g_assert_cmpint (kind->saved_bytes, ==, 64 * (512 + 256) * 4);
      g_assert_cmpint (kind->output_bytes, ==, 64 * 512 * 4);
      g_assert_cmpint (kind->backward_workspace_bytes, ==, 64 * (512 + 256) * 4);
      g_assert_cmpuint (count_products (kind, PSI_PASS_FORWARD, &flops), ==, 2);
      g_assert_cmpfloat (flops, ==, 2 * one);
      g_assert_cmpuint (count_products (kind, PSI_PASS_BACKWARD_INPUT, &flops), ==, i == 0 ? 1 : 2);
      g_assert_cmpuint (count_products (kind, PSI_PASS_BACKWARD_WEIGHT, &flops), ==, 2);
      g_assert_cmpfloat (flops, ==, 2 * one);
    }
}

/* The inner width is that of the blocks unless written; tokens are rows like samples. */
static void
test_defaults (void)
{
  g_autoptr (PsiModel) square = expand (PAIRS ("layers", "1", "hidden", "512"), &plain, NULL);
  PsiLowering longer = plain;
  longer.sequence = 3;
  g_autoptr (PsiModel) rows = expand (PAIRS ("layers", "1", "hidden", "512", "sequence", "3"), &longer, NULL);

  g_assert_cmpint (square->parameters, ==, 2 * 512 * 512);
  g_assert_cmpint (layer (rows, 0)->saved_bytes, ==, 3 * layer (square, 0)->saved_bytes);
}

static void
test_degrees (void)
{
  PsiLowering split = plain, cut = plain;
  g_autoptr (GError) error = NULL;
  split.tp = 4;
  cut.cp = 2;
  g_autoptr (PsiModel) model = expand (PAIRS ("layers", "2", "hidden", "512"), &split, &error);
  const PsiSegment *segment = &g_array_index (layer (model, 1)->segments[PSI_PASS_FORWARD], PsiSegment, 0);

  g_assert_no_error (error);
  g_assert_cmpint (layer (model, 0)->parameters, ==, 2 * 512 * 512 / 4);
  g_assert_cmpint (segment->comm, ==, PSI_COMM_ALL_REDUCE);
  g_assert_cmpint (segment->comm_bytes, ==, 64 * 512 * 4);
  g_assert_null (expand (PAIRS ("layers", "2", "hidden", "510"), &split, &error));
  g_assert_nonnull (strstr (error->message, "tp: '4' does not divide ffn"));
  g_clear_error (&error);
  g_assert_null (expand (PAIRS ("layers", "2", "hidden", "512"), &cut, &error));
  g_assert_nonnull (strstr (error->message, "cp: '2' needs attention"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/workload/mlp/blocks", test_blocks);
  g_test_add_func ("/workload/mlp/defaults", test_defaults);
  g_test_add_func ("/workload/mlp/degrees", test_degrees);
  return g_test_run ();
}
