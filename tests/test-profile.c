/* SPDX-License-Identifier: MIT */
/* Profiles: samples of a machine with known laws give those laws back; the file keeps everything; products and groups
 * that were not measured lie between those that were. */
#include "profile.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

/* The machine of these tests: 100 TFLOP/s in fp16, 1 TB/s, 2 us to start a product; 10 SMs, tiles without loss. */
static double
product_ns (double m, double n, double k)
{
  return 2e3 + MAX (2 * m * n * k / 100e3, 2 * (m * n + m * k + n * k) / 1e3);
}

static double
reduce_ns (guint ranks, double bytes)
{
  return 1000.0 * ranks + bytes * 2 * (ranks - 1) / ranks / 100;
}

static PsiSamples *
make_samples (void)
{
  PsiSamples *samples = psi_samples_new ();

  json_object_set_string_member (samples->provenance, "gpu", "Test GPU");
  json_object_set_int_member (samples->provenance, "memory_usable_bytes", 80000000000);
  for (int m = 7; m <= 13; m++)
    for (int n = 7; n <= 13; n++)
      for (int k = 7; k <= 13; k += 2)
        {
          double ns = product_ns (exp2 (m), exp2 (n), exp2 (k));
          PsiGemmSample gemm = { .dtype = "fp16",
                                 .pass = "forward",
                                 .batch = 1,
                                 .m = 1 << m,
                                 .n = 1 << n,
                                 .k = 1 << k,
                                 .time_ns = ns,
                                 .p10_ns = ns,
                                 .p90_ns = ns };
          g_array_append_val (samples->gemms, gemm);
        }
  for (int shift = 3; shift <= 30; shift++)
    for (guint ranks = 2; ranks <= 8; ranks *= 2)
      for (guint sweep = 0; sweep < 2; sweep++)
        {
          double ns = reduce_ns (ranks, exp2 (shift)) * (ranks == 8 && sweep ? 1.3 : 1);
          PsiCurveSample point = { "all_reduce", ranks, 1, (gint64) 1 << shift, ns, ns, ns, sweep };
          g_array_append_val (samples->curves, point);
        }
  for (int shift = 12; shift <= 32; shift++)
    {
      double ns = 2e3 + exp2 (shift) / 1e3;
      PsiCurveSample point = { "device_copy", 1, 1, (gint64) 1 << shift, ns, ns, ns, 0 };
      g_array_append_val (samples->curves, point);
    }
  PsiValueSample values[] = { { "launch_stream_ns", 0, 3000 },
                              { "launch_stream_ns", 0, 2000 },
                              { "memory_first_all_reduce_bytes", 8, 5e8 },
                              { "memory_context_bytes", 0, 4e8 } };
  g_array_append_vals (samples->values, values, G_N_ELEMENTS (values));
  return samples;
}

static void
assert_near (double value, double wanted, double relative)
{
  g_assert_cmpfloat_with_epsilon (value, wanted, relative * fabs (wanted));
}

static void
test_laws (void)
{
  g_autoptr (PsiSamples) samples = make_samples ();
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, NULL, "measured", NULL);

  g_assert_cmpstr (profile->name, ==, "Test GPU");
  g_assert_cmpint (profile->usable_bytes, ==, 80000000000);
  g_assert_cmpint (profile->context_bytes, ==, 400000000);
  g_assert_cmpfloat (profile->launch_ns, ==, 2500);
  assert_near (profile->memory_bytes_per_s, 1e12, 0.001);
  assert_near (profile->peak_flops[PSI_DTYPE_FP16], 100e12, 0.01);
  g_assert_cmpfloat (profile->peak_flops[PSI_DTYPE_BF16], ==, 0);
  g_assert_cmpfloat (psi_profile_value (profile, "memory_first_all_reduce_bytes", 8), ==, 5e8);
  g_assert_true (isnan (psi_profile_value (profile, "memory_first_all_reduce_bytes", 4)));
  g_assert_cmpuint (profile->curves->len, ==, 4);
  g_assert_cmpfloat (profile->gemm_error[PSI_DTYPE_FP16].mean, <, 0.005);
  assert_near (profile->gemm_start_ns[PSI_DTYPE_FP16], 2000, 0.1);
}

/* The error of a shape is that of its neighbours' word about it, not of its own. */
static void
test_left_out (void)
{
  g_autoptr (PsiSamples) samples = make_samples ();
  PsiGemmSample *odd = &g_array_index (samples->gemms, PsiGemmSample, 100);

  odd->time_ns *= 2;
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, NULL, "measured", NULL);
  g_assert_cmpfloat (profile->gemm_error[PSI_DTYPE_FP16].max, >, 0.4);
}

static void
test_products (void)
{
  g_autoptr (PsiSamples) samples = make_samples ();
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, NULL, "measured", NULL);
  static const gint64 shapes[][3] = {
    { 1024, 2048, 512 }, { 300, 700, 900 }, { 5000, 5000, 5000 }, { 200, 8000, 200 }, { 16384, 16384, 8192 }
  };

  /* As measured where it was measured. */
  assert_near (psi_profile_gemm_time (profile, PSI_DTYPE_FP16, PSI_PROFILE_FORWARD, 1, 1024, 2048, 512),
               product_ns (1024, 2048, 512) * 1e-9, 1e-9);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      const gint64 *x = shapes[i];
      double seconds = psi_profile_gemm_time (profile, PSI_DTYPE_FP16, PSI_PROFILE_ANY, 1, x[0], x[1], x[2]);
      assert_near (seconds, product_ns ((double) x[0], (double) x[1], (double) x[2]) * 1e-9, 0.05);
      double efficiency = psi_profile_gemm_efficiency (profile, PSI_DTYPE_FP16, PSI_PROFILE_ANY, 1, x[0], x[1], x[2]);
      g_assert_cmpfloat (efficiency, >, 0);
      g_assert_cmpfloat (efficiency, <=, 1);
    }
  g_assert_cmpfloat (psi_profile_gemm_time (profile, PSI_DTYPE_BF16, PSI_PROFILE_ANY, 1, 64, 64, 64), <, 0);
  g_assert_cmpfloat (psi_profile_gemm_efficiency (profile, PSI_DTYPE_BF16, PSI_PROFILE_ANY, 1, 64, 64, 64), ==, 0);
}

/* Waves: 10 SMs and tiles of 128 x 256 give products that take as long as the next full wave. */
static void
test_waves (void)
{
  g_autoptr (PsiSamples) samples = psi_samples_new ();
  json_object_set_int_member (samples->provenance, "sms", 10);
  for (int m = 1; m <= 40; m++)
    for (int n = 1; n <= 4; n++)
      {
        double ns = ceil (m * n / 10.0) * 10e3;
        PsiGemmSample gemm = { .dtype = "bf16",
                               .pass = "forward",
                               .batch = 1,
                               .m = 128 * m,
                               .n = 256 * n,
                               .k = 1024,
                               .time_ns = ns,
                               .p10_ns = ns,
                               .p90_ns = ns };
        if (m % 3 != 1)
          g_array_append_val (samples->gemms, gemm);
      }
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, NULL, "measured", NULL);
  g_assert_cmpuint (profile->tile_m, ==, 128);
  g_assert_cmpuint (profile->tile_n, ==, 256);
  for (int m = 10; m <= 40; m += 3) /* shapes left out above */
    assert_near (psi_profile_gemm_time (profile, PSI_DTYPE_BF16, PSI_PROFILE_ANY, 1, 128 * m, 512, 1024),
                 ceil (m * 2 / 10.0) * 10e-6, 0.02);
}

static void
test_groups (void)
{
  g_autoptr (PsiSamples) samples = make_samples ();
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, NULL, "measured", NULL);

  g_assert_nonnull (psi_profile_curve (profile, "all-reduce", 4, 1));
  g_assert_null (psi_profile_curve (profile, "all_reduce", 4, 2));
  assert_near (psi_profile_curve_time (profile, "all-reduce", 4, 1, 1 << 20), reduce_ns (4, 1 << 20) * 1e-9, 1e-6);
  /* Three ranks lie between two and four. */
  double three = psi_profile_curve_time (profile, "all_reduce", 3, 1, 1 << 20);
  g_assert_cmpfloat (three, >, reduce_ns (2, 1 << 20) * 1e-9);
  g_assert_cmpfloat (three, <, reduce_ns (4, 1 << 20) * 1e-9);
  assert_near (three, reduce_ns (3, 1 << 20) * 1e-9, 0.05);
  /* Nothing is known beyond what was measured. */
  g_assert_cmpfloat (psi_profile_curve_time (profile, "all_reduce", 16, 1, 1 << 20), <, 0);
  g_assert_cmpfloat (psi_profile_curve_time (profile, "all_reduce", 4, 2, 1 << 20), <, 0);
  g_assert_cmpfloat (psi_profile_curve_time (profile, "gossip", 4, 1, 1 << 20), <, 0);
  g_assert_cmpfloat (psi_profile_curve_time (profile, "all_reduce", 4, 1, 0), ==, 0);
}

/* Two sweeps that differ are reported. */
static void
test_drift (void)
{
  g_autoptr (PsiSamples) samples = make_samples ();
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, NULL, "measured", NULL);

  assert_near (psi_profile_curve (profile, "all_reduce", 8, 1)->drift, 0.3, 1e-6);
  g_assert_cmpfloat (psi_profile_curve (profile, "all_reduce", 4, 1)->drift, ==, 0);
  g_assert_cmpuint (profile->warnings->len, ==, 1);
  g_assert_nonnull (strstr (profile->warnings->pdata[0], "all_reduce over 8 ranks: the two sweeps differ by 30 %"));
}

static void
test_file (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("psisim-profile-XXXXXX", NULL);
  g_autofree char *file = g_build_filename (folder, "x.json", NULL);
  g_autoptr (PsiSamples) samples = make_samples ();
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, "x", "published", "a table");

  psi_profile_save (profile, file, &error);
  g_assert_no_error (error);
  g_autoptr (PsiProfile) again = psi_profile_load (file, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (again->source, ==, "a table");
  g_assert_cmpstr (again->kind, ==, "published");
  g_assert_cmpuint (again->gemms->len, ==, profile->gemms->len);
  assert_near (psi_profile_gemm_time (again, PSI_DTYPE_FP16, PSI_PROFILE_ANY, 1, 300, 700, 900),
               psi_profile_gemm_time (profile, PSI_DTYPE_FP16, PSI_PROFILE_ANY, 1, 300, 700, 900), 1e-4);
  assert_near (psi_profile_curve_time (again, "all_reduce", 3, 1, 12345),
               psi_profile_curve_time (profile, "all_reduce", 3, 1, 12345), 1e-4);

  /* Once its numbers are rounded the file does not change any more. */
  g_autofree char *first = psi_profile_to_json (again);
  g_assert_true (psi_profile_save (again, file, NULL));
  g_autoptr (PsiProfile) third = psi_profile_load (file, NULL);
  g_autofree char *second = psi_profile_to_json (third);
  g_assert_true (g_str_equal (first, second));
  g_unlink (file);
  g_rmdir (folder);
}

static void
test_broken (void)
{
#define HEAD "{\"schema\": \"psisim-profile\", \"version\": 1, \"name\": \"x\", \"kind\": \"measured\""
  static const struct
  {
    const char *text, *message;
  } cases[] = {
    { "{\"a\": 1,\n\n\"b\": }", ":3: not valid JSON" },
    { "[]", ": not a profile: 'schema' must be \"psisim-profile\" and 'version' 1" },
    { "{\"schema\": \"psisim-profile\", \"version\": 2}",
      ": not a profile: 'schema' must be \"psisim-profile\" and 'version' 1" },
    { "{\"schema\": \"psisim-profile\", \"version\": 1, \"name\": \"x\", \"kind\": \"guess\"}",
      ": 'kind' is missing or not one of measured, published, datasheet, synthetic" },
    { HEAD ", \"curves\": {}}", ": 'curves' is not a list" },
    { HEAD ", \"curves\": [1]}", ": curves[0]: is not an object" },
    { HEAD ", \"curves\": [{\"name\": \"a\", \"points\": []}]}", ": curves[0]: 'points' is missing or empty" },
    { HEAD ", \"curves\": [{\"name\": \"a\", \"points\": [[1]]}]}",
      ": curves[0]: a point is [bytes, time_ns] or [bytes, time_ns, p10_ns, p90_ns]" },
    { HEAD ", \"curves\": [{\"name\": \"a\", \"points\": [[8, 10]]}, {\"name\": \"b\", \"points\": [[8, -1]]}]}",
      ": curves[1]: a point has a number that is not positive" },
    { HEAD ", \"gemm\": [{\"dtype\": \"bf17\"}]}", ": gemm[0]: 'dtype' is missing or unknown" },
    { HEAD ", \"gemm\": [{\"dtype\": \"bf16\", \"m\": 1, \"n\": 1, \"time_ns\": 1}]}", ": gemm[0]: 'k' is missing" },
    { HEAD ", \"compute\": {\"sms\": -3}}", ": 'sms' is -3, allowed are 0 to 1e+06" },
  };
  g_autofree char *folder = g_dir_make_tmp ("psisim-profile-XXXXXX", NULL);
  g_autofree char *file = g_build_filename (folder, "x.json", NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_true (g_file_set_contents (file, cases[i].text, -1, NULL));
      g_assert_null (psi_profile_load (file, &error));
      g_assert_true (g_str_has_prefix (error->message, file));
      g_assert_cmpstr (error->message + strlen (file), ==, cases[i].message);
    }
  g_autoptr (GError) error = NULL;
  g_unlink (file);
  g_assert_null (psi_profile_load (file, &error));
  g_assert_nonnull (strstr (error->message, "no such file"));
  g_rmdir (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hwmodel/profile/laws", test_laws);
  g_test_add_func ("/hwmodel/profile/left-out", test_left_out);
  g_test_add_func ("/hwmodel/profile/products", test_products);
  g_test_add_func ("/hwmodel/profile/waves", test_waves);
  g_test_add_func ("/hwmodel/profile/groups", test_groups);
  g_test_add_func ("/hwmodel/profile/drift", test_drift);
  g_test_add_func ("/hwmodel/profile/file", test_file);
  g_test_add_func ("/hwmodel/profile/broken", test_broken);
  return g_test_run ();
}
