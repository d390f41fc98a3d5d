/* SPDX-License-Identifier: MIT */
/* The band of a machine that was measured: as narrow as the measurement is good. */
#include "closed-forms.h"

#include "profile.h"

#include <glib/gstdio.h>
#include <math.h>

static char *folder;

/* Products at half the speed of an H200's datasheet and all-reduces over 8 GPUs, each second one taking `noise` more.
 */
static char *
write_profile (const char *file, double noise)
{
  g_autoptr (PsiSamples) samples = psi_samples_new ();
  g_autoptr (GError) error = NULL;
  char *path = g_build_filename (folder, file, NULL);

  json_object_set_string_member (samples->provenance, "gpu", "NVIDIA H200");
  for (int m = 10; m <= 14; m++)
    for (int n = 10; n <= 14; n++)
      {
        double ns = (3e3 + 2 * exp2 (m) * exp2 (n) * 4096 / 500e3) * ((m + n) % 2 == 0 ? 1 : 1 + noise);
        PsiGemmSample gemm = { "bf16", "forward", 1, 1 << m, 1 << n, 4096, ns, ns, ns, 0 };
        g_array_append_val (samples->gemms, gemm);
      }
  for (int shift = 10; shift <= 30; shift++)
    {
      double ns = (30e3 + exp2 (shift) / 250) * (shift % 2 == 0 ? 1 : 1 + noise);
      PsiCurveSample point = { g_intern_string ("all_reduce"), 8, 1, G_GINT64_CONSTANT (1) << shift, ns, ns, ns, 0 };
      g_array_append_val (samples->curves, point);
    }
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, "mine", "measured", NULL);
  g_assert_true (psi_profile_save (profile, path, &error));
  g_assert_no_error (error);
  return path;
}

/* How far the band goes to either side of the step time, relative to it. */
static void
sides (const char *machine, const char *flags, double *ret_low, double *ret_high)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "machine=%s %s", machine, flags);
  double step_s = (double) plan_of (report)->step_time_ps * 1e-12;

  *ret_low = 1 - plan_of (report)->step_time_low_s / step_s;
  *ret_high = plan_of (report)->step_time_high_s / step_s - 1;
}

static void
test_profile (void)
{
#define LARGE "model=gpt3-175b layers=2 micro_batches=16 optimizer=sgd grad_clip=no"
#define REDUCED "model=llama-2-7b layers=4 dp=8 tp=1 micro_batch=1 sequence=512 overlap_grads=no grad_clip=no"
  g_autofree char *good = write_profile ("good.json", 0), *poor = write_profile ("poor.json", 0.3);
  double low, high, good_low, good_high, poor_low, poor_high;

  sides ("h200", LARGE, &low, &high);
  sides (good, LARGE, &good_low, &good_high);
  sides (poor, LARGE, &poor_low, &poor_high);
  /* Kernels are all but the optimizer's of the step, and the measured ones follow their law. */
  g_assert_cmpfloat_with_epsilon (good_high, 0.08, 0.01);
  g_assert_cmpfloat_with_epsilon (good_low, 0.05, 0.01);
  g_assert_cmpfloat (high, >, good_high + 0.03);
  g_assert_cmpfloat (low, >, good_low + 0.02);
  g_assert_cmpfloat (poor_high, >, good_high + 0.03);
  g_assert_cmpfloat (poor_low, >, good_low + 0.03);

  sides ("h200", REDUCED, &low, &high);
  sides (good, REDUCED, &good_low, &good_high);
  g_assert_cmpfloat (good_high, <, high - 0.01);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  folder = g_dir_make_tmp ("psisim-band-XXXXXX", NULL);
  g_test_add_func ("/sim/band/profile", test_profile);
  int result = g_test_run ();
  static const char *const files[] = { "good.json", "poor.json" };
  for (guint i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autofree char *path = g_build_filename (folder, files[i], NULL);
      g_remove (path);
    }
  g_rmdir (folder);
  g_free (folder);
  return result;
}
