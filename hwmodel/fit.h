/* SPDX-License-Identifier: MIT */
/* Curves: how long so many bytes take, fitted to measured points. */
#pragma once

#include <glib.h>

typedef struct
{
  gint64 bytes;
  double time_ns, p10_ns, p90_ns;
} PsiCurvePoint;

/* time = alpha + beta x bytes for lo <= bytes <= hi. */
typedef struct
{
  gint64 lo_bytes, hi_bytes;
  double alpha_ns, beta_ns_per_byte; /* both >= 0 */
} PsiCurveSegment;

/* Relative errors, |fitted - measured| / measured, over the points. */
typedef struct
{
  double mean, p90, max;
} PsiFitError;

typedef struct
{
  char *name;                /* "all_reduce", "device_copy" */
  guint n_ranks, n_nodes;    /* 1, 1 for what happens on one GPU */
  GArray *points;            /* of PsiCurvePoint, sizes ascending, one for each size: the median of what was measured */
  GArray *segments;          /* of PsiCurveSegment, 1 to 4, ascending */
  PsiFitError fit;           /* of the segments */
  PsiFitError leave_one_out; /* of a point predicted from its neighbours, which is how the curve is used; the ends are
                              * predicted by the segment beyond them */
  double drift;              /* median relative difference between two sweeps, 0 = one sweep */
} PsiCurve;

/* Fit a curve to n > 0 points in any order, several for one size if it was measured several times. Points must have
 * bytes > 0 and time_ns > 0. (transfer full) */
PsiCurve *psi_curve_fit (const char *name, guint n_ranks, guint n_nodes, const PsiCurvePoint *points, guint n);
void psi_curve_free (PsiCurve *curve);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiCurve, psi_curve_free)

/* Time of `bytes` > 0 in ns: between two measured sizes interpolated in log bytes and log time, beyond them along the
 * first or last segment, scaled to meet the outermost point. Ascends with bytes beyond the range. */
double psi_curve_time_ns (const PsiCurve *curve, double bytes);

/* Time by the segments alone. */
double psi_curve_segment_time_ns (const PsiCurve *curve, double bytes);

/* Mean, 90th percentile and maximum of n values; sorts them. All 0 for n = 0. */
PsiFitError psi_fit_error (double *values, guint n);

/* Median of n > 0 values; sorts them. */
double psi_fit_median (double *values, guint n);
