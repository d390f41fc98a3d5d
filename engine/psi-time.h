/* SPDX-License-Identifier: MIT */
/* Simulated time: whole picoseconds in an int64 (106 days). Costs are computed in double and rounded once, here. */
#pragma once

#include <glib.h>
#include <math.h>

typedef gint64 PsiTime;

#define PSI_TIME_MAX (G_MAXINT64 / 4) /* two of them still add up without overflow */
#define PSI_PS_PER_S 1e12

/* Seconds to picoseconds, rounded to nearest. Negative and NaN become 0; too much becomes PSI_TIME_MAX. */
static inline PsiTime
psi_time_from_s (double seconds)
{
  double ps = seconds * PSI_PS_PER_S;
  if (!(ps > 0))
    return 0;
  return ps >= (double) PSI_TIME_MAX ? PSI_TIME_MAX : (PsiTime) llrint (ps);
}

static inline double
psi_time_to_s (PsiTime time_ps)
{
  return (double) time_ps / PSI_PS_PER_S;
}

/* a + b, at most PSI_TIME_MAX. */
static inline PsiTime
psi_time_add (PsiTime a, PsiTime b)
{
  PsiTime sum = a + b;
  return sum > PSI_TIME_MAX ? PSI_TIME_MAX : sum;
}
