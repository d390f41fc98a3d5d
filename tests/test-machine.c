/* SPDX-License-Identifier: MIT */
/* Machine files: every preset loads and is plausible, every way to write one wrongly has its message. */

#include "data-dirs.h"
#include "machine.h"
#include "nearest.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

static const char *const presets[] = { "v100-sxm-16", "v100-sxm-32", "a100-sxm-40",   "a100-sxm-80", "a100-pcie-80",
                                       "h100-sxm-80", "h200-sxm",    "h100-hbm2e-96", "b200-sxm",    "gb200",
                                       "gb300",       "rtx-3090",    "rtx-4090",      "ideal",       "host" };

static const char good[] = "[gpu]\n"
                           "name = Small GPU\n"
                           "architecture = ampere\n"
                           "memory = 8 GiB\n"
                           "memory_bandwidth = 100 GB/s\n"
                           "memory_efficiency = 0.9\n"
                           "bf16 = 10 TFLOP/s # a comment\n"
                           "sms = 4\n"
                           "launch = 1 us\n"
                           "minimum_kernel = 2 us\n"
                           "gemm_efficiency = 0.8\n"
                           "gemm_ramp_k = 100\n"
                           "attention_forward = 0.5\n"
                           "attention_backward = 0.4\n"
                           "context = 256 MiB\n"
                           "source = this test\n"
                           "\n"
                           "[host]\n"
                           "issue_pytorch = 5 us\n"
                           "issue_megatron = 7500 ns\n"
                           "memory = 1 TB\n"
                           "bandwidth = 16 GB/s\n"
                           "source = this test\n"
                           "\n"
                           "[node]\n"
                           "gpus = 4\n"
                           "source = this test\n"
                           "\n"
                           "[link wire]\n"
                           "kind = pcie\n"
                           "bandwidth = 16 GB/s\n"
                           "efficiency = 0.75\n"
                           "latency = 2 us\n"
                           "source = this test\n"
                           "\n"
                           "[link cable]\n"
                           "kind = network\n"
                           "bandwidth = 100 Gb/s\n"
                           "efficiency = 0.9\n"
                           "latency = 5 us\n"
                           "nics = 2\n"
                           "source = this test\n";

static char *folder;

static char *
write_machine (const char *name, const char *text)
{
  g_autoptr (GError) error = NULL;
  char *path = g_build_filename (folder, name, NULL);
  g_file_set_contents (path, text, -1, &error);
  g_assert_no_error (error);
  return path;
}

static void
test_presets (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (presets); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiMachine) machine = psi_machine_load (presets[i], &error);
      g_assert_no_error (error);
      g_assert_cmpstr (machine->name, ==, presets[i]);
      const PsiGpu *gpu = &machine->gpu;
      if (machine->ideal || gpu->architecture == PSI_ARCHITECTURE_CPU)
        continue;

      double half = MAX (gpu->peak_flops[PSI_DTYPE_FP16], gpu->peak_flops[PSI_DTYPE_BF16]);
      g_assert_cmpfloat (half, >=, 50e12);
      g_assert_cmpfloat (half, <=, 3e15);
      g_assert_cmpfloat (half, >, gpu->peak_flops[PSI_DTYPE_FP32]);
      g_assert_true (gpu->peak_flops[PSI_DTYPE_FP8] <= 0 || gpu->peak_flops[PSI_DTYPE_FP8] > 1.9 * half);
      g_assert_cmpint (gpu->memory_bytes, >=, (gint64) 15 << 30);
      g_assert_cmpint (gpu->memory_bytes, <=, (gint64) 300 << 30);
      g_assert_cmpfloat (gpu->memory_bytes_per_s, >=, 0.8e12);
      g_assert_cmpfloat (gpu->memory_bytes_per_s, <=, 8e12);
      g_assert_cmpint (gpu->context_bytes, >=, 200 << 20);
      g_assert_cmpint (gpu->context_bytes, <=, 1 << 30);
      g_assert_cmpuint (gpu->sms, >=, 80);
      g_assert_cmpuint (gpu->sms, <=, 160);
      g_assert_cmpfloat (machine->intra.bytes_per_s, <=, 900e9);
      g_assert_cmpint (machine->intra.kind, !=, PSI_LINK_NETWORK);
      g_assert_cmpint (machine->inter.kind, ==, PSI_LINK_NETWORK);
      g_assert_cmpfloat (machine->inter.bytes_per_s, <=, machine->intra.bytes_per_s);
      g_assert_cmpint (machine->host.issue_ps_pytorch, >, 0);
      g_assert_cmpuint (machine->gpus_per_node, >=, 4);
      g_assert_cmpuint (strlen (gpu->source), >, 10);
      g_assert_cmpuint (strlen (machine->inter.source), >, 10);
    }
}

/* Figures that must not drift: datasheets and the memory that users measured. */
static void
test_figures (void)
{
  g_autoptr (PsiMachine) a100 = psi_machine_load ("a100", NULL);
  g_assert_cmpstr (a100->name, ==, "a100-sxm-80");
  g_assert_cmpfloat (a100->gpu.peak_flops[PSI_DTYPE_BF16], ==, 312e12);
  g_assert_cmpfloat (a100->gpu.memory_bytes_per_s, ==, 2039e9);
  g_assert_cmpfloat (a100->intra.bytes_per_s, ==, 300e9);
  g_assert_cmpfloat (a100->inter.bytes_per_s, ==, 25e9);
  g_assert_cmpuint (a100->gpus_per_node, ==, 8);
  g_assert_cmpstr (a100->kind, ==, "datasheet");

  g_autoptr (PsiMachine) v100 = psi_machine_load ("v100", NULL);
  g_assert_cmpint (v100->gpu.memory_bytes, ==, 34058272768);
  g_assert_cmpfloat (v100->gpu.peak_flops[PSI_DTYPE_BF16], ==, 0);
  g_autoptr (PsiMachine) h200 = psi_machine_load ("h200", NULL);
  g_assert_cmpint (h200->gpu.memory_bytes, ==, (gint64) 143771 << 20);
  g_autoptr (PsiMachine) h100 = psi_machine_load ("h100", NULL);
  g_assert_cmpfloat (h100->gpu.peak_flops[PSI_DTYPE_BF16], ==, 989.4e12);
  g_autoptr (PsiMachine) b200 = psi_machine_load ("b200", NULL);
  g_assert_cmpstr (b200->name, ==, "b200-sxm");
  g_autoptr (PsiMachine) gb200 = psi_machine_load ("gb200", NULL);
  g_assert_cmpuint (gb200->gpus_per_node, ==, 72);
}

static void
test_ideal (void)
{
  g_autoptr (PsiMachine) machine = psi_machine_load ("ideal", NULL);
  g_assert_true (machine->ideal);
  g_assert_cmpint (machine->gpu.memory_bytes, ==, -1);
  for (guint i = 0; i < PSI_N_DTYPES; i++)
    g_assert_cmpfloat (machine->gpu.peak_flops[i], ==, 1e15);
  g_assert_true (isinf (machine->intra.bytes_per_s) && isinf (machine->inter.bytes_per_s));
  g_assert_cmpint (machine->host.issue_ps_megatron, ==, 0);
}

static void
test_file (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = write_machine ("small.machine", good);
  g_autoptr (PsiMachine) machine = psi_machine_load (path, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (machine->name, ==, "small");
  g_assert_cmpstr (machine->gpu.name, ==, "Small GPU");
  g_assert_cmpfloat (machine->gpu.peak_flops[PSI_DTYPE_BF16], ==, 10e12);
  g_assert_cmpint (machine->gpu.memory_bytes, ==, (gint64) 8 << 30);
  g_assert_cmpint (machine->host.issue_ps_megatron, ==, 7500000);
  g_assert_cmpint (machine->host.memory_bytes, ==, 1000000000000);
  g_assert_cmpstr (machine->intra.name, ==, "wire");
  g_assert_cmpstr (machine->inter.name, ==, "cable");
  g_assert_cmpfloat (machine->inter.bytes_per_s, ==, 12.5e9);
  g_assert_cmpuint (machine->inter.nics_per_node, ==, 2);
  g_assert_cmpfloat (machine->inter.oversubscription, ==, 1);

  /* The suffix is a custom, not a rule. */
  g_autofree char *bare = write_machine ("bare", good);
  g_autoptr (PsiMachine) other = psi_machine_load (bare, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (other->name, ==, "bare");
}

static void
test_override (void)
{
  g_autofree char *path = write_machine ("small.machine", good);
  g_autoptr (PsiMachine) machine = psi_machine_load (path, NULL);
  psi_machine_override (machine, 0, 0);
  g_assert_cmpuint (machine->gpus_per_node, ==, 4);
  psi_machine_override (machine, 8, 0);
  g_assert_cmpuint (machine->gpus_per_node, ==, 8);
  g_assert_cmpuint (machine->inter.nics_per_node, ==, 4);
  psi_machine_override (machine, 0, 3e9);
  g_assert_cmpfloat (machine->inter.bytes_per_s, ==, 3e9);
  g_assert_cmpuint (machine->inter.nics_per_node, ==, 0);
}

/* A machine has one network at a time; choosing back and forth changes nothing. */
static void
test_network (void)
{
  g_autoptr (PsiMachine) machine = psi_machine_load ("h100", NULL);
  g_autoptr (GError) error = NULL;
  gint64 latency_ps = machine->inter.latency_ps;

  g_assert_cmpstr (machine->inter.name, ==, "ndr400");
  g_assert_true (psi_machine_choose_network (machine, "ndr400", NULL));
  g_assert_true (psi_machine_choose_network (machine, "efa", NULL));
  g_assert_cmpstr (machine->inter.name, ==, "efa");
  g_assert_cmpint (machine->inter.latency_ps, >, latency_ps);
  g_assert_nonnull (strstr (machine->description, "efa 400 Gb/s"));
  g_assert_false (psi_machine_choose_network (machine, "nvlink4", &error));
  g_assert_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE);
  g_assert_cmpstr (error->message, ==, "'h100-sxm-80' has no network 'nvlink4' (allowed: efa ndr400 efa-2023)");
  g_assert_true (psi_machine_choose_network (machine, "ndr400", NULL));
  g_assert_cmpint (machine->inter.latency_ps, ==, latency_ps);

  g_autoptr (PsiMachine) ideal = psi_machine_load ("ideal", NULL);
  g_assert_false (psi_machine_choose_network (ideal, "efa", NULL));
}

static void
test_list (void)
{
  g_autoptr (GPtrArray) entries = psi_machine_list ();
  for (guint i = 0; i < G_N_ELEMENTS (presets); i++)
    {
      gboolean found = FALSE;
      for (guint j = 0; j < entries->len; j++)
        {
          const PsiMachineEntry *entry = entries->pdata[j];
          found = found || g_str_equal (entry->name, presets[i]);
          g_assert_null (strstr (entry->summary, "allowed"));
          if (g_str_equal (entry->name, "h100-sxm-80"))
            g_assert_true (g_str_has_suffix (entry->summary, "; ndr400 400 Gb/s, or efa, or efa-2023"));
        }
      g_assert_true (found);
    }
  const PsiMachineEntry *last = entries->pdata[entries->len - 1];
  g_assert_cmpstr (last->name, ==, "b200");
  g_assert_cmpstr (last->summary, ==, "= b200-sxm");
}

/* One change to the good file, and what the message must say. */
static const struct
{
  const char *from, *to;
  PsiMachineError code;
  const char *message;
} wrong[] = {
  { "bf16 = 10 TFLOP/s", "bf16 = ten", PSI_MACHINE_ERROR_VALUE, "[gpu] bf16: 'ten' is not a rate" },
  { "bf16 = 10 TFLOP/s", "bf61 = 10 TFLOP/s", PSI_MACHINE_ERROR_VALUE, "unknown key 'bf61' (did you mean 'bf16'?)" },
  { "bf16 = 10 TFLOP/s", "colour = red", PSI_MACHINE_ERROR_VALUE, "unknown key 'colour' (allowed: name kind" },
  { "bf16 = 10 TFLOP/s", "", PSI_MACHINE_ERROR_VALUE, "[gpu] has no rate" },
  { "memory = 8 GiB", "memory = 8 furlongs", PSI_MACHINE_ERROR_VALUE, "[gpu] memory: '8 furlongs' is not a size" },
  { "memory = 8 GiB", "memory = -1", PSI_MACHINE_ERROR_VALUE, "[gpu] memory: '-1' is out of range (allowed: " },
  { "memory = 8 GiB", "memory = 0x10", PSI_MACHINE_ERROR_VALUE, "is not a size" },
  { "memory = 8 GiB", "memory = nan", PSI_MACHINE_ERROR_VALUE, "is not a size" },
  { "memory = 8 GiB\n", "", PSI_MACHINE_ERROR_VALUE, "[gpu] memory is missing" },
  { "sms = 4", "sms = 4.5", PSI_MACHINE_ERROR_VALUE, "[gpu] sms: '4.5' is not a whole number" },
  { "sms = 4", "sms = 0", PSI_MACHINE_ERROR_VALUE, "out of range" },
  { "launch = 1 us", "launch = 1 year", PSI_MACHINE_ERROR_VALUE, "[gpu] launch: '1 year' is not a time" },
  { "gemm_efficiency = 0.8", "gemm_efficiency = 1.2", PSI_MACHINE_ERROR_VALUE, "out of range (allowed: 0.01 to 1)" },
  { "architecture = ampere", "architecture = amper", PSI_MACHINE_ERROR_VALUE, "'amper' is not one of: cpu volta" },
  { "gemm_ramp_k = 100\n", "gemm_ramp_k = 100\nkind = guessed\n", PSI_MACHINE_ERROR_VALUE, "is not one of: measured" },
  { "context = 256 MiB\nsource = this test", "context = 256 MiB", PSI_MACHINE_ERROR_VALUE, "[gpu] source is missing" },
  { "source = this test\n\n[host]", "source =\n\n[host]", PSI_MACHINE_ERROR_VALUE, "[gpu] source: '' is empty" },
  { "latency = 5 us\nnics = 2\nsource = this test", "latency = 5 us", PSI_MACHINE_ERROR_VALUE,
    "[link cable] source is missing" },
  { "[node]\n", "[nodes]\n", PSI_MACHINE_ERROR_VALUE, "group [node] is missing" },
  { "[link cable]", "[cable]", PSI_MACHINE_ERROR_VALUE, "unknown group [cable]" },
  { "kind = network", "kind = pcie", PSI_MACHINE_ERROR_VALUE, "is a second link inside the node after [link wire]" },
  { "gpus = 4", "gpus = 4\nideal = yes", PSI_MACHINE_ERROR_VALUE, "stands beside [node] ideal = yes" },
  { "gpus = 4", "gpus = 4\nideal = maybe", PSI_MACHINE_ERROR_VALUE, "'maybe' is not yes or no" },
  { "gpus = 4", "gpus = 4\ngpus = 5", PSI_MACHINE_ERROR_SYNTAX, "[node] gpus stands twice" },
  { "[link cable]", "[link wire]", PSI_MACHINE_ERROR_SYNTAX, "[link wire] stands twice" },
  { "gpus = 4", "gpus", PSI_MACHINE_ERROR_SYNTAX, "is not a machine file" },
};

static void
test_wrong (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      const char *at = strstr (good, wrong[i].from);
      g_assert_nonnull (at);
      g_autoptr (GError) error = NULL;
      g_autofree char *head = g_strndup (good, (gsize) (at - good));
      g_autofree char *text = g_strconcat (head, wrong[i].to, at + strlen (wrong[i].from), NULL);
      g_autofree char *path = write_machine ("wrong.machine", text);
      g_assert_null (psi_machine_load (path, &error));
      g_assert_error (error, PSI_MACHINE_ERROR, (int) wrong[i].code);
      g_test_message ("%s", error->message);
      g_assert_true (g_str_has_prefix (error->message, path));
      g_assert_nonnull (strstr (error->message, wrong[i].message));
      g_assert_null (strchr (error->message, '\n'));
    }
}

/* Without one of its links a machine is refused. */
static void
test_missing_link (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = g_strndup (good, (gsize) (strstr (good, "[link cable]") - good));
  g_autofree char *path = write_machine ("wrong.machine", text);
  g_assert_null (psi_machine_load (path, &error));
  g_assert_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE);
  g_assert_nonnull (strstr (error->message, "no [link NAME] between nodes"));
}

static void
test_unknown (void)
{
  static const struct
  {
    const char *name, *message;
  } cases[] = {
    { "a10", "unknown machine 'a10' (did you mean 'a100'?)" },
    { "h100-sxm-8", "unknown machine 'h100-sxm-8' (did you mean 'h100-sxm-80'?)" },
    { "./none.machine", "no machine file './none.machine'" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_null (psi_machine_load (cases[i].name, &error));
      g_assert_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_UNKNOWN);
      g_assert_cmpstr (error->message, ==, cases[i].message);
    }
  g_autoptr (GError) error = NULL;
  g_assert_null (psi_machine_load ("abacus", &error));
  g_assert_nonnull (strstr (error->message, "allowed: a file, or one of: a100-pcie-80 "));
}

static void
test_data_dirs (void)
{
  g_autofree char *found = psi_data_find ("machines", "a100-sxm-80.machine");
  g_assert_nonnull (found);
  g_assert_null (psi_data_find ("machines", "../machines/a100-sxm-80.machine"));
  g_assert_null (psi_data_find ("machines", ""));
  g_assert_null (psi_data_find ("models", "a100-sxm-80.machine"));

  /* The user's directory comes first. */
  g_autofree char *machines = g_build_filename (folder, "machines", NULL);
  g_assert_cmpint (g_mkdir_with_parents (machines, 0700), ==, 0);
  g_autofree char *mine = write_machine ("machines/a100-sxm-80.machine", good);
  g_autofree char *only_mine = write_machine ("machines/mine.machine", good);
  g_setenv ("PSISIM_DATA", folder, TRUE);
  g_autofree char *again = psi_data_find ("machines", "a100-sxm-80.machine");
  g_assert_cmpstr (again, ==, mine);
  g_autoptr (PsiMachine) machine = psi_machine_load ("a100", NULL);
  g_assert_cmpstr (machine->gpu.name, ==, "Small GPU");
  g_auto (GStrv) names = psi_data_list ("machines", ".machine");
  g_assert_true (g_strv_contains ((const char *const *) names, "mine"));
  g_assert_true (g_strv_contains ((const char *const *) names, "ideal"));
  g_unsetenv ("PSISIM_DATA");
  g_unlink (mine);
  g_unlink (only_mine);
  g_rmdir (machines);
}

static void
test_nearest (void)
{
  const char *const words[] = { "micro_batch", "global_batch", "tp", "dp", "llama-2-7b", NULL };
  g_assert_cmpstr (psi_nearest ("lama-2-7b", words), ==, "llama-2-7b");
  g_assert_cmpstr (psi_nearest ("micro-batch", words), ==, "micro_batch");
  g_assert_cmpstr (psi_nearest ("micor_batch", words), ==, "micro_batch");
  g_assert_cmpstr (psi_nearest ("glob", words), ==, "global_batch");
  g_assert_null (psi_nearest ("banana", words));
  g_assert_null (psi_nearest ("", words));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_unsetenv ("PSISIM_DATA");
  folder = g_dir_make_tmp ("psisim-machine-XXXXXX", NULL);
  g_test_add_func ("/hwmodel/machine/presets", test_presets);
  g_test_add_func ("/hwmodel/machine/figures", test_figures);
  g_test_add_func ("/hwmodel/machine/ideal", test_ideal);
  g_test_add_func ("/hwmodel/machine/file", test_file);
  g_test_add_func ("/hwmodel/machine/override", test_override);
  g_test_add_func ("/hwmodel/machine/network", test_network);
  g_test_add_func ("/hwmodel/machine/list", test_list);
  g_test_add_func ("/hwmodel/machine/wrong", test_wrong);
  g_test_add_func ("/hwmodel/machine/missing-link", test_missing_link);
  g_test_add_func ("/hwmodel/machine/unknown", test_unknown);
  g_test_add_func ("/traces/data-dirs/find", test_data_dirs);
  g_test_add_func ("/traces/nearest/words", test_nearest);
  int status = g_test_run ();
  const char *const files[] = { "small.machine", "bare", "wrong.machine" };
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autofree char *path = g_build_filename (folder, files[i], NULL);
      g_unlink (path);
    }
  g_rmdir (folder);
  g_free (folder);
  return status;
}
