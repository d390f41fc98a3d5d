/* SPDX-License-Identifier: MIT */
/* Convolutions of a trace: which kernels run them, by format, layout and groups. */
#include "workload.h"

#include <glib/gstdio.h>
#include <string.h>

/* 64 channels on 10 x 10 positions, in fp32: 25,600 bytes; 8 samples are 800 positions. */
#define TENSOR "25600"
#define POSITIONS 800
#define HEAD                                                                                                           \
  "psisim-trace 1\nname c\nparameters 0\n"                                                                             \
  "name\tparameters\tforward_flops\tbackward_flops\tforward_bytes\tbackward_bytes\tsaved_bytes\toutput_bytes\tinputs"  \
  "\tproduct_outputs\tproduct_inputs\tproduct_window\tproduct_groups\n"                                                \
  "input\t0\t0\t0\t" TENSOR "\t0\t0\t" TENSOR "\t-\t0\t0\t0\t0\n"

/* The forward kernels of one convolution behind the input. `flops` of one sample. */
typedef struct
{
  PsiKernel kernels[2];
  guint n;
} Forward;

static Forward
forward_of (const char *row, PsiDtype dtype, gboolean channels_first)
{
  g_autofree char *directory = g_dir_make_tmp ("psisim-convolution-XXXXXX", NULL);
  g_autofree char *file = g_build_filename (directory, "c.trace", NULL), *text = g_strconcat (HEAD, row, NULL);
  g_autoptr (PsiSettings) settings = psi_settings_new ();
  g_autoptr (GError) error = NULL;
  const PsiLowering lowering = {
    .micro_batch = 8, .tp = 1, .cp = 1, .ep = 1, .dtype = dtype, .channels_first = channels_first
  };
  Forward forward = { .n = 0 };

  g_assert_true (g_file_set_contents (file, text, -1, NULL));
  g_assert_true (psi_settings_set (settings, PSI_KEY_MODEL, file, "model", NULL));
  g_autoptr (PsiModelSource) source = psi_model_source_load (settings, &error);
  g_assert_no_error (error);
  g_autoptr (PsiModel) model = psi_model_source_expand (source, settings, &lowering, 1, &error);
  g_assert_no_error (error);
  g_unlink (file);
  g_rmdir (directory);

  const PsiLayerKind *kind = psi_model_kind (model, 1);
  g_assert_cmpuint (kind->segments[PSI_PASS_FORWARD]->len, ==, 1);
  const PsiSegment *segment = &g_array_index (kind->segments[PSI_PASS_FORWARD], PsiSegment, 0);
  g_assert_cmpuint (segment->n_kernels, <=, G_N_ELEMENTS (forward.kernels));
  for (guint i = 0; i < segment->n_kernels; i++)
    forward.kernels[forward.n++] = g_array_index (kind->kernels, PsiKernel, segment->first_kernel + i);
  return forward;
}

static void
assert_shape (const PsiKernel *kernel, gint64 batch, gint64 m, gint64 n, gint64 k)
{
  g_assert_cmpint (kernel->kind, ==, PSI_KERNEL_GEMM);
  g_assert_cmpint (kernel->batch, ==, batch);
  g_assert_cmpint (kernel->m, ==, m);
  g_assert_cmpint (kernel->n, ==, n);
  g_assert_cmpint (kernel->k, ==, k);
  g_assert_cmpfloat (kernel->flops, ==, 2.0 * (double) (batch * m * n * k));
}

/* 100 positions, 64 x 64 channels, 9 elements. */
#define WHOLE "c\t0\t7372800\t14745600\t51200\t102400\t0\t" TENSOR "\t0\t64\t64\t9\t1\n"
/* The same into 128 channels of 5 x 5 positions. */
#define STRIDED "c\t0\t3686400\t7372800\t38400\t76800\t0\t12800\t0\t128\t64\t9\t1\n"

static void
test_layout (void)
{
  Forward last = forward_of (WHOLE, PSI_DTYPE_FP16, FALSE), first = forward_of (WHOLE, PSI_DTYPE_FP16, TRUE);

  g_assert_cmpuint (last.n, ==, 1);
  assert_shape (&last.kernels[0], 1, POSITIONS, 64, 64 * 9);
  /* Channels first: the same, and input and output read and written once more, 2 bytes an element. */
  g_assert_cmpuint (first.n, ==, 2);
  assert_shape (&first.kernels[0], 1, POSITIONS, 64, 64 * 9);
  g_assert_cmpint (first.kernels[1].kind, ==, PSI_KERNEL_MEMORY);
  g_assert_cmpfloat (first.kernels[1].bytes, ==, 2.0 * 8 * (25600 + 25600) / 2);
  /* TF32 runs on the same units, with 4 bytes an element. */
  g_assert_cmpfloat (forward_of (WHOLE, PSI_DTYPE_TF32, TRUE).kernels[1].bytes, ==, 2.0 * 8 * (25600 + 25600));
  g_assert_cmpuint (forward_of (WHOLE, PSI_DTYPE_TF32, FALSE).n, ==, 1);
}

/* Plain units need no layout; 3 x 3 takes 4 multiplications an output, unless it skips positions. */
static void
test_plain (void)
{
  for (guint first = 0; first < 2; first++)
    {
      Forward whole = forward_of (WHOLE, PSI_DTYPE_FP32, (gboolean) first);
      Forward strided = forward_of (STRIDED, PSI_DTYPE_FP32, (gboolean) first);

      g_assert_cmpuint (whole.n, ==, 1);
      assert_shape (&whole.kernels[0], 1, POSITIONS, 64, 64 * 4);
      g_assert_cmpuint (strided.n, ==, 1);
      assert_shape (&strided.kernels[0], 1, POSITIONS / 4, 128, 64 * 9);
    }
}

/* A linear layer of the same shapes is no convolution: nothing is copied. */
static void
test_linear (void)
{
  Forward one = forward_of ("c\t0\t38400\t0\t26800\t0\t0\t" TENSOR "\t0\t64\t3\t1\t1\n", PSI_DTYPE_FP16, TRUE);
  Forward linear = forward_of ("c\t0\t38400\t0\t26800\t0\t0\t" TENSOR "\t0\t64\t3\t1\t0\n", PSI_DTYPE_FP16, TRUE);

  g_assert_cmpuint (one.n, ==, 2);
  assert_shape (&one.kernels[0], 1, POSITIONS, 64, 3);
  g_assert_cmpuint (linear.n, ==, 1);
  assert_shape (&linear.kernels[0], 1, POSITIONS, 64, 3);
}

#define IN_GROUPS(flops, groups) "c\t0\t" flops "\t0\t51200\t0\t0\t" TENSOR "\t0\t64\t64\t9\t" groups "\n"

static void
test_groups (void)
{
  /* One channel a group: plain units, whatever the layout and format; no copies. */
  for (guint first = 0; first < 2; first++)
    {
      Forward depthwise = forward_of (IN_GROUPS ("115200", "64"), PSI_DTYPE_FP16, (gboolean) first);

      g_assert_cmpuint (depthwise.n, ==, 1);
      g_assert_cmpint (depthwise.kernels[0].kind, ==, PSI_KERNEL_DIRECT);
      g_assert_cmpint (depthwise.kernels[0].k, ==, 1);
      g_assert_cmpfloat (depthwise.kernels[0].flops, ==, 8 * 115200);
    }
  /* Eight: kernels as narrow as a group. */
  g_assert_cmpint (forward_of (IN_GROUPS ("921600", "8"), PSI_DTYPE_FP16, FALSE).kernels[0].kind, ==,
                   PSI_KERNEL_ROOFLINE);
  /* 32: a product for each group. */
  Forward half = forward_of (IN_GROUPS ("3686400", "2"), PSI_DTYPE_FP16, FALSE);
  assert_shape (&half.kernels[0], 2, POSITIONS, 32, 32 * 9);
  /* 48 of 96 channels: so with copies, and on plain units without. */
#define WIDE "c\t0\t8294400\t0\t76800\t0\t0\t38400\t0\t96\t96\t9\t2\n"
  Forward wide = forward_of (WIDE, PSI_DTYPE_FP16, TRUE);
  g_assert_cmpuint (wide.n, ==, 2);
  assert_shape (&wide.kernels[0], 2, POSITIONS, 48, 48 * 9);
  wide = forward_of (WIDE, PSI_DTYPE_FP16, FALSE);
  g_assert_cmpuint (wide.n, ==, 1);
  g_assert_cmpint (wide.kernels[0].kind, ==, PSI_KERNEL_DIRECT);
  g_assert_cmpint (wide.kernels[0].k, ==, 48);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/workload/convolution/layout", test_layout);
  g_test_add_func ("/workload/convolution/plain", test_plain);
  g_test_add_func ("/workload/convolution/linear", test_linear);
  g_test_add_func ("/workload/convolution/groups", test_groups);
  return g_test_run ();
}
