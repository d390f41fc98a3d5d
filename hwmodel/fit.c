/* SPDX-License-Identifier: MIT */
/* t(s) = alpha + beta s on each of up to four ranges of s.
 *
 *   t      time, ns; s size, bytes; alpha start-up time, ns; beta inverse bandwidth, ns per byte
 *
 * A library changes protocol or algorithm with the size, so one line does not fit; four do. Each is a least-squares
 * fit of relative errors (weights 1/t^2: a curve spans six decades, and plain least squares sees only its end), with
 * alpha, beta >= 0 and Huber weights (k = 1.345 MAD) against outliers. Break points are the best
 * there are (dynamic programming over where a range ends), the number of ranges from the Bayesian information criterion
 *
 *   BIC = n ln (RSS / n) + p ln n,   p = 3 ranges - 1
 *
 * Assumes one median for each size and errors in proportion to time. Predictions inside the measured sizes do not use
 * the lines but interpolate the points in log s and log t, which beats them wherever sizes are a factor of two apart;
 * the lines extend the curve beyond its ends, describe it to people, and give its start-up time and bandwidth. Not
 * valid far beyond the ends: the next protocol change is not seen.
 *
 * Source: comparison of fits on published all-reduce, broadcast and shared-memory tables; Huber, Robust Statistics. */
#include "fit.h"

#include <math.h>
#include <stdlib.h>

enum
{
  MOST_SEGMENTS = 4,
  LEAST_POINTS = 3,  /* of a range; two would always fit */
  MOST_BREAKS = 120, /* places where a range may end; more sizes than that are thinned out for the search */
  HUBER_ROUNDS = 15
};
static const double noise_floor = 1e-3; /* relative; below it more ranges would fit rounding */

static int
compare_points (const void *a, const void *b)
{
  const PsiCurvePoint *x = a, *y = b;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int
compare_doubles (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

double
psi_fit_median (double *values, guint n)
{
  qsort (values, n, sizeof *values, compare_doubles);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

PsiFitError
psi_fit_error (double *values, guint n)
{
  PsiFitError error = { 0, 0, 0 };

  if (n == 0)
    return error;
  qsort (values, n, sizeof *values, compare_doubles);
  for (guint i = 0; i < n; i++)
    error.mean += values[i] / n;
  error.p90 = values[MIN (n - 1, (guint) ceil (0.9 * n) - 1)];
  error.max = values[n - 1];
  return error;
}

/* One point for each size: medians of everything measured at it. */
static GArray *
merge_points (const PsiCurvePoint *points, guint n)
{
  g_autofree PsiCurvePoint *sorted = g_memdup2 (points, n * sizeof *points);
  g_autofree double *values = g_new (double, n);
  GArray *merged = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));

  qsort (sorted, n, sizeof *sorted, compare_points);
  for (guint i = 0, end; i < n; i = end)
    {
      PsiCurvePoint point = { .bytes = sorted[i].bytes };
      for (end = i; end < n && sorted[end].bytes == point.bytes; end++)
        values[end - i] = sorted[end].time_ns;
      point.time_ns = psi_fit_median (values, end - i);
      for (guint j = i; j < end; j++)
        values[j - i] = sorted[j].p10_ns;
      point.p10_ns = psi_fit_median (values, end - i);
      for (guint j = i; j < end; j++)
        values[j - i] = sorted[j].p90_ns;
      point.p90_ns = psi_fit_median (values, end - i);
      g_array_append_val (merged, point);
    }
  return merged;
}

/* ---- One range ---- */

/* Sums of weighted least squares: of w, w s, w s^2, w t, w s t, w t^2. */
typedef struct
{
  long double w, s, ss, t, st, tt;
} Sums;

static inline void
sums_add (Sums *sums, const PsiCurvePoint *point, double huber)
{
  long double s = (long double) point->bytes, t = (long double) point->time_ns, w = (long double) huber / (t * t);
  sums->w += w;
  sums->s += w * s;
  sums->ss += w * s * s;
  sums->t += w * t;
  sums->st += w * s * t;
  sums->tt += w * t * t;
}

/* Minimise sum w (a + b s - t)^2 with a, b >= 0. Returns the sum. */
static double
solve (const Sums *x, double *ret_alpha, double *ret_beta)
{
  long double determinant = x->w * x->ss - x->s * x->s;
  long double a = 0, b = 0;

  if (determinant > 1e-12L * x->w * x->ss)
    {
      a = (x->t * x->ss - x->s * x->st) / determinant;
      b = (x->w * x->st - x->s * x->t) / determinant;
    }
  else
    a = x->t / x->w;
  if (b < 0)
    {
      a = x->t / x->w;
      b = 0;
    }
  else if (a < 0)
    {
      a = 0;
      b = x->st / x->ss;
    }
  *ret_alpha = (double) a;
  *ret_beta = (double) b;
  long double rss = x->tt + a * a * x->w + b * b * x->ss + 2 * a * b * x->s - 2 * a * x->t - 2 * b * x->st;
  return rss > 0 ? (double) rss : 0;
}

/* Huber's weights by repeated least squares: residuals beyond 1.345 MAD count less and less. */
static PsiCurveSegment
fit_range (const PsiCurvePoint *points, guint n)
{
  PsiCurveSegment segment = { .lo_bytes = points[0].bytes, .hi_bytes = points[n - 1].bytes };
  g_autofree double *residuals = g_new (double, n);
  g_autofree double *scratch = g_new (double, n);
  double bound = (double) INFINITY;

  for (guint i = 0; i < n; i++)
    residuals[i] = 0;
  for (guint round = 0; round < HUBER_ROUNDS; round++)
    {
      Sums sums = { 0 };
      double alpha = segment.alpha_ns, beta = segment.beta_ns_per_byte;
      for (guint i = 0; i < n; i++)
        sums_add (&sums, &points[i], residuals[i] > bound ? bound / residuals[i] : 1);
      solve (&sums, &segment.alpha_ns, &segment.beta_ns_per_byte);
      for (guint i = 0; i < n; i++)
        {
          double fitted = segment.alpha_ns + segment.beta_ns_per_byte * (double) points[i].bytes;
          scratch[i] = residuals[i] = fabs (fitted / points[i].time_ns - 1);
        }
      bound = MAX (1.345 * psi_fit_median (scratch, n), noise_floor);
      if (round > 0 && fabs (alpha - segment.alpha_ns) <= 1e-9 * alpha &&
          fabs (beta - segment.beta_ns_per_byte) <= 1e-9 * beta)
        break;
    }
  return segment;
}

/* ---- Break points ---- */

typedef struct
{
  guint n;      /* candidates: ranges begin and end at them */
  guint *at;    /* index into the points where candidate i begins; at[n] = number of points */
  Sums *prefix; /* sums of all points before candidate i */
} Search;

/* Residual sum of one range, or infinity if it has too few points. */
static double
range_rss (const Search *search, guint from, guint to)
{
  const Sums *a = &search->prefix[from], *b = &search->prefix[to];
  Sums sums = { b->w - a->w, b->s - a->s, b->ss - a->ss, b->t - a->t, b->st - a->st, b->tt - a->tt };
  double alpha, beta;

  if (search->at[to] - search->at[from] < LEAST_POINTS)
    return (double) INFINITY;
  return solve (&sums, &alpha, &beta);
}

static double
criterion (double rss, guint n_points, guint n_segments)
{
  double n = n_points;
  return n * log (rss / n + noise_floor * noise_floor) + (3.0 * n_segments - 1) * log (n);
}

/* A point as the search sees it: the median of it and its neighbours, so that one wild point does not get a range of
 * its own. Where times ascend this changes nothing. */
static PsiCurvePoint
smoothed (const PsiCurvePoint *points, guint n, guint i)
{
  PsiCurvePoint point = points[i];

  if (i > 0 && i + 1 < n)
    {
      double times[] = { points[i - 1].time_ns, points[i].time_ns, points[i + 1].time_ns };
      point.time_ns = psi_fit_median (times, 3);
    }
  return point;
}

/* The best number of ranges and where they begin, by the least residual sum of every number of ranges up to every
 * candidate. ret_breaks are candidates, ret_breaks[0] = 0, one more at the end. */
static guint
search_breaks (const Search *search, guint n_points, guint ret_breaks[MOST_SEGMENTS + 1])
{
  guint n = search->n, best_count = 1;
  double best = (double) INFINITY;
  g_autofree double *rss = g_new (double, MOST_SEGMENTS *(n + 1));  /* [ranges - 1][end] */
  g_autofree guint *from = g_new0 (guint, MOST_SEGMENTS * (n + 1)); /* where the last of them begins */

  for (guint end = 0; end <= n; end++)
    rss[end] = end > 0 ? range_rss (search, 0, end) : (double) INFINITY;
  for (guint count = 1; count < MOST_SEGMENTS; count++)
    for (guint end = 0; end <= n; end++)
      {
        double *least = &rss[count * (n + 1) + end];
        *least = (double) INFINITY;
        for (guint begin = 1; begin < end; begin++)
          {
            double head = rss[(count - 1) * (n + 1) + begin];
            double sum = head < *least ? head + range_rss (search, begin, end) : (double) INFINITY;
            if (sum < *least)
              {
                *least = sum;
                from[count * (n + 1) + end] = begin;
              }
          }
      }
  for (guint count = 1; count <= MOST_SEGMENTS; count++)
    {
      double sum = rss[(count - 1) * (n + 1) + n];
      if (isinf (sum) || criterion (sum, n_points, count) >= best)
        continue;
      best = criterion (sum, n_points, count);
      best_count = count;
    }
  ret_breaks[best_count] = n;
  for (guint count = best_count; count > 1; count--)
    ret_breaks[count - 1] = from[(count - 1) * (n + 1) + ret_breaks[count]];
  ret_breaks[0] = 0;
  return best_count;
}

static void
fit_segments (PsiCurve *curve)
{
  const PsiCurvePoint *points = &g_array_index (curve->points, PsiCurvePoint, 0);
  guint n = curve->points->len, breaks[MOST_SEGMENTS + 1] = { 0 }, n_segments = 1;
  Search search = { .n = MIN (n, MOST_BREAKS) };
  g_autofree guint *at = g_new (guint, search.n + 1);
  g_autofree Sums *prefix = g_new0 (Sums, search.n + 1);

  search.at = at;
  search.prefix = prefix;
  for (guint i = 0; i <= search.n; i++)
    at[i] = (guint) ((guint64) i * n / search.n);
  for (guint i = 0; i < search.n; i++)
    {
      prefix[i + 1] = prefix[i];
      for (guint j = at[i]; j < at[i + 1]; j++)
        {
          PsiCurvePoint point = smoothed (points, n, j);
          sums_add (&prefix[i + 1], &point, 1);
        }
    }
  breaks[1] = search.n;
  if (n > LEAST_POINTS)
    n_segments = search_breaks (&search, n, breaks);
  for (guint i = 0; i < n_segments; i++)
    {
      PsiCurveSegment segment = fit_range (points + at[breaks[i]], at[breaks[i + 1]] - at[breaks[i]]);
      g_array_append_val (curve->segments, segment);
    }
}

/* ---- Use ---- */

static const PsiCurveSegment *
segment_of (const PsiCurve *curve, double bytes)
{
  const PsiCurveSegment *segment = &g_array_index (curve->segments, PsiCurveSegment, 0);
  for (guint i = 1; i < curve->segments->len; i++)
    {
      const PsiCurveSegment *next = &g_array_index (curve->segments, PsiCurveSegment, i);
      /* Between two ranges the break is the geometric mean of their ends. */
      if (bytes * bytes < (double) segment->hi_bytes * (double) next->lo_bytes)
        break;
      segment = next;
    }
  return segment;
}

double
psi_curve_segment_time_ns (const PsiCurve *curve, double bytes)
{
  const PsiCurveSegment *segment = segment_of (curve, bytes);
  return segment->alpha_ns + segment->beta_ns_per_byte * bytes;
}

/* Along `segment` to or from a measured point. */
static double
extrapolate (const PsiCurveSegment *segment, const PsiCurvePoint *point, double bytes)
{
  double there = segment->alpha_ns + segment->beta_ns_per_byte * (double) point->bytes;
  double here = segment->alpha_ns + segment->beta_ns_per_byte * bytes;
  return there > 0 ? point->time_ns * here / there : point->time_ns;
}

static double
interpolate (const PsiCurvePoint *a, const PsiCurvePoint *b, double bytes)
{
  double x = log (bytes / (double) a->bytes) / log ((double) b->bytes / (double) a->bytes);
  return a->time_ns * pow (b->time_ns / a->time_ns, x);
}

double
psi_curve_time_ns (const PsiCurve *curve, double bytes)
{
  const PsiCurvePoint *points = &g_array_index (curve->points, PsiCurvePoint, 0);
  guint n = curve->points->len, low = 0, high = n - 1;

  g_return_val_if_fail (bytes > 0, 0);
  if (bytes <= (double) points[0].bytes)
    return extrapolate (&g_array_index (curve->segments, PsiCurveSegment, 0), &points[0], bytes);
  if (bytes >= (double) points[n - 1].bytes)
    return extrapolate (&g_array_index (curve->segments, PsiCurveSegment, curve->segments->len - 1), &points[n - 1],
                        bytes);
  while (high - low > 1)
    {
      guint middle = (low + high) / 2;
      if ((double) points[middle].bytes <= bytes)
        low = middle;
      else
        high = middle;
    }
  return interpolate (&points[low], &points[high], bytes);
}

static void
measure_errors (PsiCurve *curve)
{
  const PsiCurvePoint *points = &g_array_index (curve->points, PsiCurvePoint, 0);
  guint n = curve->points->len;
  g_autofree double *fit = g_new (double, n);
  g_autofree double *left_out = g_new (double, n);

  for (guint i = 0; i < n; i++)
    {
      double bytes = (double) points[i].bytes, predicted = points[i].time_ns;
      fit[i] = fabs (psi_curve_segment_time_ns (curve, bytes) / points[i].time_ns - 1);
      if (n > 1 && i == 0)
        predicted = extrapolate (&g_array_index (curve->segments, PsiCurveSegment, 0), &points[1], bytes);
      else if (n > 1 && i == n - 1)
        predicted = extrapolate (&g_array_index (curve->segments, PsiCurveSegment, curve->segments->len - 1),
                                 &points[n - 2], bytes);
      else if (n > 2)
        predicted = interpolate (&points[i - 1], &points[i + 1], bytes);
      left_out[i] = fabs (predicted / points[i].time_ns - 1);
    }
  curve->fit = psi_fit_error (fit, n);
  curve->leave_one_out = psi_fit_error (left_out, n);
}

PsiCurve *
psi_curve_fit (const char *name, guint n_ranks, guint n_nodes, const PsiCurvePoint *points, guint n)
{
  PsiCurve *curve = g_new0 (PsiCurve, 1);

  g_assert (n > 0);
  curve->name = g_strdup (name);
  curve->n_ranks = n_ranks;
  curve->n_nodes = n_nodes;
  curve->points = merge_points (points, n);
  curve->segments = g_array_new (FALSE, FALSE, sizeof (PsiCurveSegment));
  fit_segments (curve);
  measure_errors (curve);
  return curve;
}

void
psi_curve_free (PsiCurve *curve)
{
  if (curve == NULL)
    return;
  g_free (curve->name);
  g_array_unref (curve->points);
  g_array_unref (curve->segments);
  g_free (curve);
}
