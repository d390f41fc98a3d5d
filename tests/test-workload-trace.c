/* SPDX-License-Identifier: MIT */
#include "workload-trace.h"

#include "data-dirs.h"

#include <glib/gstdio.h>
#include <string.h>

#define HEAD "psisim-trace 1\n# made by hand\nname two\nparameters 12\n"
#define COLUMNS                                                                                                        \
  "name\tparameters\tforward_flops\tbackward_flops\tforward_bytes\tbackward_bytes\tsaved_bytes\toutput_"               \
  "bytes\tinputs\n"
#define PRODUCTS                                                                                                       \
  "name\tparameters\tforward_flops\tbackward_flops\tforward_bytes\tbackward_bytes\tsaved_bytes\toutput_"               \
  "bytes\tinputs\tproduct_outputs\tproduct_inputs\tproduct_window\n"
#define GROUPS                                                                                                         \
  "name\tparameters\tforward_flops\tbackward_flops\tforward_bytes\tbackward_bytes\tsaved_bytes\toutput_"               \
  "bytes\tinputs\tproduct_outputs\tproduct_inputs\tproduct_window\tproduct_groups\n"
#define ROW_P "a\t12\t100\t100\t8\t8\t16\t32\t-\t"
#define ROW_A "a\t12\t100\t100\t8\t8\t16\t32\t-\n"
#define ROW_B "b\t0\t1.5e3\t3000\t8\t8\t0\t32\t0\n"

static PsiWorkloadTrace *
load (const char *text, GError **error)
{
  g_autofree char *directory = g_dir_make_tmp ("psisim-trace-XXXXXX", NULL);
  g_autofree char *file = g_build_filename (directory, "x.trace", NULL);
  PsiWorkloadTrace *trace;

  g_assert_true (g_file_set_contents (file, text, -1, NULL));
  trace = psi_workload_trace_load (file, error);
  g_unlink (file);
  g_rmdir (directory);
  return trace;
}

static void
assert_fails (const char *text, const char *pattern)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiWorkloadTrace) trace = load (text, &error);

  g_assert_null (trace);
  g_assert_nonnull (error);
  if (!g_pattern_match_simple (pattern, error->message))
    g_error ("'%s' does not match '%s'", error->message, pattern);
}

static void
test_read (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiWorkloadTrace) trace =
      load (HEAD "element_bytes 2\n" COLUMNS ROW_A "# between\n" ROW_B "c\t0\t0\t0\t8\t8\t0\t32\t0,1\r\n", &error);
  const PsiTraceLayer *layers;

  g_assert_no_error (error);
  g_assert_cmpstr (trace->name, ==, "two");
  g_assert_cmpint (trace->parameters, ==, 12);
  g_assert_cmpuint (trace->element_bytes, ==, 2);
  g_assert_cmpuint (trace->layers->len, ==, 3);
  layers = (const PsiTraceLayer *) (gpointer) trace->layers->data;
  g_assert_cmpstr (layers[0].name, ==, "a");
  g_assert_cmpuint (layers[0].n_inputs, ==, 0);
  g_assert_cmpint (layers[0].saved_bytes, ==, 16);
  g_assert_cmpfloat (layers[1].forward_flops, ==, 1500.0);
  g_assert_cmpuint (layers[2].n_inputs, ==, 2);
  g_assert_cmpuint (layers[2].inputs[1], ==, 1);
}

static void
test_errors (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (psi_workload_trace_load ("no/such.trace", &error));
  g_assert_error (error, PSI_TRACE_ERROR, PSI_TRACE_ERROR_READ);
  assert_fails ("", "*x.trace:1: not a workload trace*");
  assert_fails ("{\"a\": 1}\n", "*x.trace:1: not a workload trace*");
  assert_fails ("psisim-trace 2\n", "*:1: version '2' of the format is unknown (allowed: 1)");
  assert_fails ("psisim-trace 1\nnam two\n", "*:2: unknown word 'nam'*");
  assert_fails (HEAD "name three\n" COLUMNS ROW_A, "*:5: 'name' is there twice");
  assert_fails ("psisim-trace 1\nname x\nparameters many\n", "*:3: parameters: 'many' is not a whole number*");
  assert_fails (HEAD COLUMNS, "*the file ends without a single row");
  assert_fails ("psisim-trace 1\nname x\n" COLUMNS ROW_A, "*the file ends without 'parameters'");
  assert_fails (HEAD "name\tparameters\tflops\n", "*:5: unknown column 'flops'*");
  assert_fails (HEAD "name\tparameters\tname\n", "*:5: column 'name' is there twice");
  assert_fails (HEAD "name\tparameters\tinputs\n", "*:5: column 'forward_flops' is missing");
  assert_fails (HEAD COLUMNS "a\t12\n", "*:6: 2 columns where the header has 9");
  assert_fails (HEAD COLUMNS "\t12\t1\t1\t1\t1\t1\t1\t-\n", "*:6: name: '' is empty");
  assert_fails (HEAD COLUMNS "a\t-12\t1\t1\t1\t1\t1\t1\t-\n", "*:6: parameters: '-12' is not a whole number*");
  assert_fails (HEAD COLUMNS "a\t12\tnan\t1\t1\t1\t1\t1\t-\n", "*:6: forward_flops: 'nan' is not a number*");
  assert_fails (HEAD COLUMNS "a\t12\t1\t-1\t1\t1\t1\t1\t-\n", "*:6: backward_flops: '-1' is not a number*");
  assert_fails (HEAD COLUMNS "a\t12\t0x10\t1\t1\t1\t1\t1\t-\n", "*:6: forward_flops: '0x10' is not a number*");
  assert_fails (HEAD COLUMNS ROW_A "b\t0\t1\t1\t1\t1\t1\t1\t1\n",
                "*:7: inputs: '1' names row 1, allowed are rows before*");
  assert_fails (HEAD COLUMNS ROW_A ROW_B "c\t0\t1\t1\t1\t1\t1\t1\t1,0\n",
                "*:8: inputs: '1,0' is not in ascending order");
  assert_fails (HEAD COLUMNS ROW_A "b\t0\t1\t1\t1\t1\t1\t1\tx\n", "*:7: inputs: 'x' is neither*");
  assert_fails (HEAD COLUMNS ROW_A "b\t0\t1\t1\t1\t1\t1\t1\t\n", "*:7: inputs: '' is neither*");
  assert_fails (HEAD COLUMNS ROW_B, "*inputs: '0' names row 0*");
  assert_fails (HEAD COLUMNS "a\t11\t1\t1\t1\t1\t1\t1\t-\n", "*parameters: 12 in the head, but the rows add up to 11");
  assert_fails (HEAD PRODUCTS ROW_P "64\t0\t1\n", "*:6: product_*: '64 x 0 x 1' is no product*");
  assert_fails (HEAD PRODUCTS ROW_P "0\t0\t1\n", "*:6: product_*: '0 x 0 x 1' is no product*");
  assert_fails (HEAD PRODUCTS ROW_P "3\t17\t1\n", "*:6: product_*: '3 x 17 x 1' takes more than the 100 forward_flops");
  assert_fails (HEAD GROUPS ROW_P "6\t6\t1\t4\n", "*:6: product_groups: '4' does not divide the channels, 6 and 6");
  assert_fails (HEAD GROUPS ROW_P "0\t0\t0\t1\n", "*:6: product_*: '0 x 0 x 0' is no product*");
  assert_fails (HEAD GROUPS ROW_P "10\t12\t1\t2\n", "*:6: product_*: '10 x 12 x 1' takes more than the 100*");
  assert_fails ("psisim-trace 1\n\xff\xfe\n", "*x.trace: not a text file in UTF-8");
}

/* Groups as written; without the column, what has a window is one whole convolution. */
static void
test_groups (void)
{
  static const struct
  {
    const char *text;
    gint64 groups;
  } cases[] = { { HEAD GROUPS ROW_P "10\t10\t1\t5\n", 5 },
                { HEAD GROUPS ROW_P "5\t5\t2\t0\n", 0 },
                { HEAD PRODUCTS ROW_P "5\t5\t2\n", 1 },
                { HEAD PRODUCTS ROW_P "5\t5\t1\n", 0 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiWorkloadTrace) trace = load (cases[i].text, &error);

      g_assert_no_error (error);
      g_assert_cmpint (g_array_index (trace->layers, PsiTraceLayer, 0).product_groups, ==, cases[i].groups);
    }
}

/* Counts of torchvision's models, and the branches of the pair. */
static void
test_shipped (void)
{
  static const struct
  {
    const char *file;
    gint64 parameters;
    double multiply_adds;
  } shipped[] = { { "resnet-50.trace", 25557032, 4.089e9 }, { "vit-b16.trace", 86567656, 17.564e9 } };
  g_autofree char *pair_file = psi_data_find ("traces", "siamese.trace");
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiWorkloadTrace) pair = NULL;
  const PsiTraceLayer *last, *layers;

  for (guint i = 0; i < G_N_ELEMENTS (shipped); i++)
    {
      g_autofree char *file = psi_data_find ("traces", shipped[i].file);
      g_autoptr (PsiWorkloadTrace) trace = psi_workload_trace_load (file, &error);
      double flops = 0.0;

      g_assert_no_error (error);
      g_assert_cmpint (trace->parameters, ==, shipped[i].parameters);
      for (guint k = 0; k < trace->layers->len; k++)
        flops += g_array_index (trace->layers, PsiTraceLayer, k).forward_flops;
      g_assert_cmpfloat_with_epsilon (flops / 2, shipped[i].multiply_adds, 1e6);
    }

  pair = psi_workload_trace_load (pair_file, &error);
  g_assert_no_error (error);
  layers = (const PsiTraceLayer *) (gpointer) pair->layers->data;
  last = &layers[pair->layers->len - 3];
  g_assert_cmpuint (last->n_inputs, ==, 2);
  g_assert_cmpuint (layers[0].n_inputs, ==, 0);
  g_assert_cmpuint (layers[last->inputs[0] + 1].n_inputs, ==, 0);
  g_assert_cmpint (layers[0].parameters, ==, layers[last->inputs[0] + 1].parameters);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/traces/workload-trace/read", test_read);
  g_test_add_func ("/traces/workload-trace/errors", test_errors);
  g_test_add_func ("/traces/workload-trace/groups", test_groups);
  g_test_add_func ("/traces/workload-trace/shipped", test_shipped);
  return g_test_run ();
}
