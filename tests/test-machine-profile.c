/* SPDX-License-Identifier: MIT */
/* A profile as a machine: what was measured is what the model says, what was not stays as the preset has it. */
#include "collective.h"
#include "data-dirs.h"
#include "machine-profile.h"
#include "psi-time.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

static char *folder;

/* Half the speed of the datasheet, memory at 3 TB/s, copies that start in 3 us, collectives with laws of their own. */
static double
product_ns (double m, double n, double k)
{
  return 3e3 + 2 * m * n * k / 400e3;
}

static double
reduce_ns (guint ranks, gint64 bytes)
{
  return 9e3 * ranks + (double) bytes / 250;
}

static void
add_curve (PsiSamples *samples, const char *name, guint ranks, gint64 bytes, double time_ns)
{
  PsiCurveSample point = { g_intern_string (name), ranks, 1, bytes, time_ns, time_ns, time_ns, 0 };
  g_array_append_val (samples->curves, point);
}

static char *
write_profile (const char *file, const char *gpu)
{
  g_autoptr (PsiSamples) samples = psi_samples_new ();
  g_autoptr (GError) error = NULL;
  char *path = g_build_filename (folder, file, NULL);
  PsiValueSample values[] = { { "launch_graph_ns", 0, 2500 },
                              { "launch_issue_ns", 0, 500 },
                              { "memory_context_bytes", 0, 7e8 } };

  if (gpu)
    json_object_set_string_member (samples->provenance, "gpu", gpu);
  json_object_set_int_member (samples->provenance, "memory_usable_bytes", 140000000000);
  json_object_set_int_member (samples->provenance, "gpus", 3);
  for (int m = 7; m <= 13; m++)
    for (int n = 7; n <= 13; n++)
      {
        double ns = product_ns (exp2 (m), exp2 (n), 4096);
        PsiGemmSample gemm = { "bf16", "forward", 1, 1 << m, 1 << n, 4096, ns, ns, ns, 0 };
        g_array_append_val (samples->gemms, gemm);
      }
  for (int shift = 3; shift <= 30; shift++)
    {
      gint64 bytes = G_GINT64_CONSTANT (1) << shift;
      add_curve (samples, "all_reduce", 2, bytes, reduce_ns (2, bytes));
      add_curve (samples, "all_reduce", 8, bytes, reduce_ns (8, bytes));
      add_curve (samples, "send_recv", 4, bytes, 5e3 + (double) bytes / 300);
      if (shift >= 12)
        add_curve (samples, "device_copy", 1, bytes, 3e3 + (double) bytes / 3e3);
    }
  g_array_append_vals (samples->values, values, G_N_ELEMENTS (values));
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, "mine", "measured", NULL);
  g_assert_true (psi_profile_save (profile, path, &error));
  g_assert_no_error (error);
  return path;
}

static void
assert_near (double value, double wanted, double relative)
{
  g_assert_cmpfloat_with_epsilon (value, wanted, relative * fabs (wanted));
}

static PsiMachine *
load (const char *path)
{
  g_autoptr (GError) error = NULL;
  PsiMachine *machine = psi_machine_load (path, &error);
  g_assert_no_error (error);
  return machine;
}

static void
test_figures (void)
{
  g_autofree char *path = write_profile ("h200.json", "NVIDIA H200");
  g_autoptr (PsiMachine) machine = load (path);
  g_autoptr (PsiMachine) preset = load ("h200");

  g_assert_cmpstr (machine->name, ==, "mine");
  g_assert_cmpstr (machine->kind, ==, "measured");
  g_assert_cmpint (machine->gpu.memory_bytes, ==, 140000000000);
  g_assert_cmpint (machine->gpu.context_bytes, ==, 700000000);
  g_assert_cmpint (machine->gpu.launch_ps + machine->gpu.minimum_kernel_ps, ==, 2500000);
  g_assert_cmpint (machine->host.issue_ps_pytorch, ==, preset->host.issue_ps_pytorch);
  assert_near (machine->gpu.memory_bytes_per_s * machine->gpu.memory_efficiency, 3e12, 0.01);
  g_assert_cmpfloat (machine->gpu.memory_bytes_per_s, ==, preset->gpu.memory_bytes_per_s);
  g_assert_cmpfloat (machine->gpu.peak_flops[PSI_DTYPE_BF16], ==, preset->gpu.peak_flops[PSI_DTYPE_BF16]);
  g_assert_cmpuint (machine->gpus_per_node, ==, preset->gpus_per_node);
  g_assert_nonnull (strstr (machine->description, "130.4 GiB"));
}

static void
test_kernels (void)
{
  g_autofree char *path = write_profile ("h200.json", "NVIDIA H200");
  g_autoptr (PsiMachine) machine = load (path);
  g_autoptr (PsiMachine) preset = load ("h200");
  PsiKernel product = {
    .kind = PSI_KERNEL_GEMM, .dtype = PSI_DTYPE_BF16, .launches = 1, .batch = 1, .m = 2048, .n = 1024, .k = 4096
  };
  PsiKernel copy = { .kind = PSI_KERNEL_MEMORY, .dtype = PSI_DTYPE_BF16, .launches = 1, .bytes = 1 << 20 };
  PsiKernel attention = {
    .kind = PSI_KERNEL_ATTENTION, .dtype = PSI_DTYPE_BF16, .launches = 1, .batch = 32, .m = 2048, .n = 2048, .k = 128
  };

  double once_s = psi_gpu_kernel_s (&machine->gpu, &product);
  assert_near (once_s, product_ns (2048, 1024, 4096) * 1e-9, 1e-4);
  product.flops = 3 * 2.0 * 2048 * 1024 * 4096; /* three of them */
  product.launches = 5;
  assert_near (psi_gpu_kernel_s (&machine->gpu, &product), 3 * once_s + 2 * 2.5e-6, 1e-6);
  assert_near (psi_gpu_kernel_s (&machine->gpu, &copy), 3e-6 + (1 << 20) / 3e12, 1e-3);
  copy.launches = 4;
  assert_near (psi_gpu_kernel_s (&machine->gpu, &copy), 4 * (3e-6 + (1 << 18) / 3e12), 1e-3);
  /* A class of types that was not measured is that of the preset. */
  product = (PsiKernel){
    .kind = PSI_KERNEL_GEMM, .dtype = PSI_DTYPE_FP32, .launches = 1, .batch = 1, .m = 8192, .n = 8192, .k = 8192
  };
  assert_near (psi_gpu_kernel_s (&machine->gpu, &product), psi_gpu_kernel_s (&preset->gpu, &product), 0.01);
  assert_near (psi_gpu_kernel_s (&machine->gpu, &attention), psi_gpu_kernel_s (&preset->gpu, &attention), 0.05);
}

static double
time_s (const PsiMachine *machine, PsiCollectiveOp op, guint ranks, gint64 bytes)
{
  PsiGroupShape shape = { .n_ranks = ranks, .n_nodes = 1, .ranks_per_node = ranks };
  PsiCollectiveCost cost;

  psi_collective_cost (machine, op, bytes, &shape, &cost);
  g_assert_cmpint (cost.latency_ps, >=, 0);
  /* No faster than the links of the run carry. */
  if (cost.intra_bytes > 0)
    g_assert_cmpfloat (cost.intra_bytes_per_s, <=, machine->intra.bytes_per_s * machine->intra.efficiency * (1 + 1e-9));
  return psi_time_to_s (psi_collective_time_ps (&cost));
}

static void
test_collectives (void)
{
  g_autofree char *path = write_profile ("h200.json", "NVIDIA H200");
  g_autoptr (PsiMachine) machine = load (path);
  g_autoptr (PsiMachine) preset = load ("h200");

  for (int shift = 3; shift <= 30; shift++)
    {
      gint64 bytes = G_GINT64_CONSTANT (1) << shift;
      assert_near (time_s (machine, PSI_COLLECTIVE_ALL_REDUCE, 2, bytes), reduce_ns (2, bytes) * 1e-9, 1e-5);
      assert_near (time_s (machine, PSI_COLLECTIVE_ALL_REDUCE, 8, bytes), reduce_ns (8, bytes) * 1e-9, 1e-5);
      /* Between two groups that were measured, and a message as in the smallest ring. */
      double four_s = time_s (machine, PSI_COLLECTIVE_ALL_REDUCE, 4, bytes);
      g_assert_cmpfloat (four_s, >=, 0.999 * sqrt (reduce_ns (2, bytes) * reduce_ns (8, bytes)) * 1e-9);
      g_assert_cmpfloat (four_s, <=, 1.5 * reduce_ns (8, bytes) * 1e-9);
      assert_near (time_s (machine, PSI_COLLECTIVE_SEND_RECV, 2, bytes), 5e-6 + (double) bytes / 3e11, 1e-4);
    }
  /* Not measured: as the preset says. */
  assert_near (time_s (machine, PSI_COLLECTIVE_ALL_GATHER, 8, 1 << 28),
               time_s (preset, PSI_COLLECTIVE_ALL_GATHER, 8, 1 << 28), 0.3);
}

static void
test_machine_file (void)
{
  g_autofree char *profile = write_profile ("anything.json", "A GPU of my own");
  g_autofree char *preset = psi_data_find ("machines", "a100-sxm-80.machine"), *text = NULL;
  g_autofree char *file = g_build_filename (folder, "mine.machine", NULL);
  g_autoptr (GError) error = NULL;

  g_assert_null (psi_machine_load (profile, &error));
  g_assert_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE);
  g_assert_nonnull (strstr (error->message, "'A GPU of my own'"));
  g_clear_error (&error);

  g_assert_true (g_file_get_contents (preset, &text, NULL, NULL));
  char *group = strstr (text, "[gpu]\n") + strlen ("[gpu]\n");
  g_autofree char *head = g_strndup (text, (gsize) (group - text));
  g_autofree char *good = g_strconcat (head, "profile = anything.json\n", group, NULL);
  g_autofree char *bad = g_strconcat (head, "profile = nowhere.json\n", group, NULL);
  g_assert_true (g_file_set_contents (file, good, -1, NULL));
  g_autoptr (PsiMachine) machine = load (file);
  g_assert_cmpstr (machine->name, ==, "mine");
  g_assert_cmpstr (machine->kind, ==, "measured");
  g_assert_cmpint (machine->gpu.memory_bytes, ==, 140000000000);
  assert_near (time_s (machine, PSI_COLLECTIVE_ALL_REDUCE, 2, 1 << 20), reduce_ns (2, 1 << 20) * 1e-9, 1e-5);
  g_assert_true (g_file_set_contents (file, bad, -1, NULL));
  g_assert_null (psi_machine_load (file, &error));
  g_assert_nonnull (strstr (error->message, "mine.machine: [gpu] profile: "));
  g_assert_nonnull (strstr (error->message, "nowhere.json: no such file"));
}

static void
test_cores (void)
{
  g_autofree char *path = write_profile ("cores.json", PSI_PROFILE_CPU);
  g_autoptr (PsiMachine) machine = load (path);

  g_assert_cmpint (machine->gpu.architecture, ==, PSI_ARCHITECTURE_CPU);
  g_assert_cmpuint (machine->gpus_per_node, ==, 3);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  folder = g_dir_make_tmp ("psisim-XXXXXX", NULL);
  g_test_add_func ("/hwmodel/machine-profile/figures", test_figures);
  g_test_add_func ("/hwmodel/machine-profile/kernels", test_kernels);
  g_test_add_func ("/hwmodel/machine-profile/collectives", test_collectives);
  g_test_add_func ("/hwmodel/machine-profile/machine-file", test_machine_file);
  g_test_add_func ("/hwmodel/machine-profile/cores", test_cores);
  int status = g_test_run ();
  static const char *const files[] = { "h200.json", "anything.json", "cores.json", "mine.machine" };
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autofree char *path = g_build_filename (folder, files[i], NULL);
      g_remove (path);
    }
  g_rmdir (folder);
  g_free (folder);
  return status;
}
