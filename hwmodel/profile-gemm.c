/* SPDX-License-Identifier: MIT */
/* Time of a matrix product from measured products.
 *
 *   t = start + roofline / (e wave),  roofline = max (2 b m n k / peak, s b (m n + m k + n k) / bandwidth)
 *   e = sum of w_i e_i / sum of w_i,  w_i = 1 / d_i^2, the eight nearest measured shapes
 *   wave = tiles / (ceil (tiles / SMs) SMs),  tiles = b ceil (m / tile_m) ceil (n / tile_n)
 *
 *   b, m, n, k  batch and shape; s bytes of an element; peak the best rate measured for the type, FLOP/s
 *   d_i         distance in log2 (b, m, n, k), and one more if the pass (transposes) differs
 *   e_i         roofline / (wave (t_i - start)) of shape i
 *   start       what any product takes, ns
 *
 * Assumes that e varies smoothly with the logarithm of the shape. Tile and start are fit parameters: one of four tiles,
 * and one of five shares of the shortest time measured, that predict each measured shape best from the others. A
 * measured shape is returned as measured. Source: NVIDIA "Matrix Multiplication Background" (waves); the choice of
 * eight neighbours by the error on published matmul tables (A100 PCIe 3.4 %, B200 9.3 %). Not valid far outside the
 * measured shapes, where the nearest ones still speak. */
#include "profile.h"

#include <math.h>
#include <stdlib.h>

enum
{
  NEIGHBOURS = 8,
  MOST_CHECKS = 500 /* products of a type that tile, start and error are judged by */
};

static const struct
{
  guint m, n;
} tiles[] = { { 0, 0 }, { 128, 128 }, { 128, 256 }, { 256, 128 } };
static const double start_shares[] = { 0, 0.3, 0.6, 0.8, 0.95 };

static double
wave_share (const PsiProfile *profile, gint64 batch, gint64 m, gint64 n)
{
  if (profile->tile_m == 0 || profile->sms == 0)
    return 1;
  double count = (double) batch * ceil ((double) m / profile->tile_m) * ceil ((double) n / profile->tile_n);
  return count / (ceil (count / profile->sms) * profile->sms);
}

static double
roofline_s (const PsiProfile *profile, PsiDtype dtype, gint64 batch, gint64 m, gint64 n, gint64 k)
{
  double b = (double) batch, dm = (double) m, dn = (double) n, dk = (double) k;
  double compute_s = 2 * b * dm * dn * dk / profile->peak_flops[dtype];
  double bytes = psi_dtype_bytes (dtype) * b * (dm * dn + dm * dk + dn * dk);
  return profile->memory_bytes_per_s > 0 ? MAX (compute_s, bytes / profile->memory_bytes_per_s) : compute_s;
}

/* The nearest shapes of the type, leaving out those equal to `without` (NULL: none). */
typedef struct
{
  guint n, gemms[NEIGHBOURS]; /* into profile->gemms */
  double distances[NEIGHBOURS];
} Near;

static void
find_near (const PsiProfile *profile, PsiDtype dtype, PsiProfilePass pass, const double log2_shape[4],
           const PsiProfileGemm *without, Near *ret_near)
{
  Near near = { 0 };

  for (guint i = 0; i < profile->gemms->len; i++)
    {
      const PsiProfileGemm *gemm = &g_array_index (profile->gemms, PsiProfileGemm, i);
      double distance = pass != PSI_PROFILE_ANY && gemm->pass != pass ? 1 : 0;
      if (gemm->dtype != dtype)
        continue;
      for (guint j = 0; j < 4; j++)
        distance += (gemm->log2_shape[j] - log2_shape[j]) * (gemm->log2_shape[j] - log2_shape[j]);
      if (near.n == NEIGHBOURS && distance >= near.distances[NEIGHBOURS - 1])
        continue;
      if (without && gemm->batch == without->batch && gemm->m == without->m && gemm->n == without->n &&
          gemm->k == without->k)
        continue;
      guint at = near.n < NEIGHBOURS ? near.n++ : NEIGHBOURS - 1;
      for (; at > 0 && near.distances[at - 1] > distance; at--)
        {
          near.distances[at] = near.distances[at - 1];
          near.gemms[at] = near.gemms[at - 1];
        }
      near.distances[at] = distance;
      near.gemms[at] = i;
    }
  *ret_near = near;
}

static double
mean_of_near (const PsiProfile *profile, const Near *near)
{
  double weights = 0, sum = 0;

  for (guint i = 0; i < near->n; i++)
    {
      double weight = 1 / (near->distances[i] + 1e-9);
      weights += weight;
      sum += weight * g_array_index (profile->gemms, PsiProfileGemm, near->gemms[i]).in_wave;
    }
  return near->n ? sum / weights : 0;
}

static double
predict_s (const PsiProfile *profile, PsiDtype dtype, const Near *near, gint64 batch, gint64 m, gint64 n, gint64 k)
{
  double share = mean_of_near (profile, near) * wave_share (profile, batch, m, n);
  double least_s = roofline_s (profile, dtype, batch, m, n, k);

  return share > 0 ? MAX (profile->gemm_start_ns[dtype] * 1e-9 + least_s / share, least_s) : 0;
}

/* What is left of the efficiency of each product of a type once start-up and last wave are taken out. */
static void
take_out (PsiProfile *profile, PsiDtype dtype)
{
  for (guint i = 0; i < profile->gemms->len; i++)
    {
      PsiProfileGemm *gemm = &g_array_index (profile->gemms, PsiProfileGemm, i);
      if (gemm->dtype == dtype)
        gemm->in_wave = gemm->efficiency * gemm->time_ns / (gemm->time_ns - profile->gemm_start_ns[dtype]) /
                        wave_share (profile, gemm->batch, gemm->m, gemm->n);
    }
}

/* A measured product and the others near it. */
typedef struct
{
  guint gemm;
  Near near;
} Check;

/* The products whose prediction from the others is tried, at most MOST_CHECKS of each type. Of Check. */
static GArray *
choose_checks (const PsiProfile *profile)
{
  GArray *checks = g_array_new (FALSE, FALSE, sizeof (Check));
  guint counts[PSI_N_DTYPES] = { 0 }, seen[PSI_N_DTYPES] = { 0 };

  for (guint i = 0; i < profile->gemms->len; i++)
    counts[g_array_index (profile->gemms, PsiProfileGemm, i).dtype]++;
  for (guint i = 0; i < profile->gemms->len; i++)
    {
      const PsiProfileGemm *gemm = &g_array_index (profile->gemms, PsiProfileGemm, i);
      guint wanted = MIN (counts[gemm->dtype], MOST_CHECKS), at = seen[gemm->dtype]++;
      Check check = { .gemm = i };

      /* Evenly over the list, which is in the order of shapes. */
      if ((guint64) at * wanted / counts[gemm->dtype] == (guint64) (at + 1) * wanted / counts[gemm->dtype])
        continue;
      find_near (profile, gemm->dtype, gemm->pass, gemm->log2_shape, gemm, &check.near);
      g_array_append_val (checks, check);
    }
  return checks;
}

/* Errors of one type's products, each predicted from the others. */
static PsiFitError
left_out_error (const PsiProfile *profile, PsiDtype dtype, const GArray *checks)
{
  g_autofree double *errors = g_new (double, checks->len + 1);
  guint n = 0;

  for (guint i = 0; i < checks->len; i++)
    {
      const Check *check = &g_array_index (checks, Check, i);
      const PsiProfileGemm *gemm = &g_array_index (profile->gemms, PsiProfileGemm, check->gemm);
      if (gemm->dtype != dtype)
        continue;
      double predicted_s = predict_s (profile, dtype, &check->near, gemm->batch, gemm->m, gemm->n, gemm->k);
      if (predicted_s > 0)
        errors[n++] = fabs (predicted_s / (gemm->time_ns * 1e-9) - 1);
    }
  return psi_fit_error (errors, n);
}

static double
shortest_ns (const PsiProfile *profile, PsiDtype dtype)
{
  double shortest = (double) INFINITY;
  for (guint i = 0; i < profile->gemms->len; i++)
    {
      const PsiProfileGemm *gemm = &g_array_index (profile->gemms, PsiProfileGemm, i);
      if (gemm->dtype == dtype)
        shortest = MIN (shortest, gemm->time_ns);
    }
  return isfinite (shortest) ? shortest : 0;
}

/* Mean error over all products with one tile, each type with the start-up that suits it best. */
static double
try_tile (PsiProfile *profile, const GArray *checks, guint tile_m, guint tile_n)
{
  double sum = 0;

  profile->tile_m = tile_m;
  profile->tile_n = tile_n;
  for (guint dtype = 0; dtype < PSI_N_DTYPES; dtype++)
    {
      double shortest = shortest_ns (profile, dtype), best_start = 0;
      PsiFitError best = { .mean = (double) INFINITY };

      if (profile->peak_flops[dtype] <= 0)
        continue;
      for (guint i = 0; i < G_N_ELEMENTS (start_shares); i++)
        {
          profile->gemm_start_ns[dtype] = start_shares[i] * shortest;
          take_out (profile, dtype);
          PsiFitError error = left_out_error (profile, dtype, checks);
          if (error.mean < best.mean)
            {
              best = error;
              best_start = profile->gemm_start_ns[dtype];
            }
        }
      profile->gemm_start_ns[dtype] = best_start;
      profile->gemm_error[dtype] = best;
      take_out (profile, dtype);
      sum += best.mean;
    }
  return sum;
}

void
psi_profile_prepare_gemms (PsiProfile *profile)
{
  double best = (double) INFINITY;
  guint best_tile = 0;

  for (guint i = 0; i < PSI_N_DTYPES; i++)
    {
      profile->peak_flops[i] = profile->gemm_start_ns[i] = 0;
      profile->gemm_error[i] = (PsiFitError){ 0 };
    }
  for (guint i = 0; i < profile->gemms->len; i++)
    {
      PsiProfileGemm *gemm = &g_array_index (profile->gemms, PsiProfileGemm, i);
      const double shape[] = { (double) gemm->batch, (double) gemm->m, (double) gemm->n, (double) gemm->k };
      double flops = 2;
      for (guint j = 0; j < 4; j++)
        {
          flops *= shape[j];
          gemm->log2_shape[j] = log2 (shape[j]);
        }
      profile->peak_flops[gemm->dtype] = MAX (profile->peak_flops[gemm->dtype], flops / (gemm->time_ns * 1e-9));
    }
  for (guint i = 0; i < profile->gemms->len; i++)
    {
      PsiProfileGemm *gemm = &g_array_index (profile->gemms, PsiProfileGemm, i);
      gemm->efficiency =
          roofline_s (profile, gemm->dtype, gemm->batch, gemm->m, gemm->n, gemm->k) / (gemm->time_ns * 1e-9);
    }
  g_autoptr (GArray) checks = choose_checks (profile);
  for (guint i = 0; i < (profile->sms > 0 ? G_N_ELEMENTS (tiles) : 1); i++)
    {
      double error = try_tile (profile, checks, tiles[i].m, tiles[i].n);
      if (error < best)
        {
          best = error;
          best_tile = i;
        }
    }
  try_tile (profile, checks, tiles[best_tile].m, tiles[best_tile].n);
}

double
psi_profile_gemm_efficiency (const PsiProfile *profile, PsiDtype dtype, PsiProfilePass pass, gint64 batch, gint64 m,
                             gint64 n, gint64 k)
{
  double sum = 0;
  guint hits = 0;

  if (batch < 1 || m < 1 || n < 1 || k < 1 || profile->peak_flops[dtype] <= 0)
    return 0;
  for (guint i = 0; i < profile->gemms->len; i++)
    {
      const PsiProfileGemm *gemm = &g_array_index (profile->gemms, PsiProfileGemm, i);
      if (gemm->dtype == dtype && (pass == PSI_PROFILE_ANY || gemm->pass == pass) && gemm->batch == batch &&
          gemm->m == m && gemm->n == n && gemm->k == k)
        {
          sum += gemm->efficiency;
          hits++;
        }
    }
  if (hits)
    return sum / hits;
  const double log2_shape[] = { log2 ((double) batch), log2 ((double) m), log2 ((double) n), log2 ((double) k) };
  Near near;
  find_near (profile, dtype, pass, log2_shape, NULL, &near);
  return roofline_s (profile, dtype, batch, m, n, k) / predict_s (profile, dtype, &near, batch, m, n, k);
}

double
psi_profile_gemm_time (const PsiProfile *profile, PsiDtype dtype, PsiProfilePass pass, gint64 batch, gint64 m, gint64 n,
                       gint64 k)
{
  double efficiency = psi_profile_gemm_efficiency (profile, dtype, pass, batch, m, n, k);
  return efficiency > 0 ? roofline_s (profile, dtype, batch, m, n, k) / efficiency : -1;
}
