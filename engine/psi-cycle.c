/* SPDX-License-Identifier: MIT */
#include "psi-cycle.h"

/* The ring holds the last PSI_CYCLE_MOST iterations, so a cycle is at most one shorter. */
guint
psi_cycle_add (PsiCycle *cycle, guint64 sum, PsiTime at_ps, guint reach)
{
  guint found = 0;

  for (guint c = PSI_CYCLE_MOST - 1; c > 0; c--)
    {
      guint before = (cycle->n + PSI_CYCLE_MOST - c) % PSI_CYCLE_MOST;
      PsiTime apart_ps = at_ps - cycle->at_ps[before];
      gboolean same = c <= cycle->n && sum - cycle->sums[before] == (guint64) apart_ps * cycle->weight;

      cycle->matches[c] = !same ? 0 : apart_ps == cycle->apart_ps[c] ? cycle->matches[c] + 1 : 1;
      cycle->apart_ps[c] = apart_ps;
      if (cycle->matches[c] >= reach)
        found = c;
    }
  guint64 last = cycle->sums[(cycle->n + PSI_CYCLE_MOST - 1) % PSI_CYCLE_MOST];
  guint64 before = cycle->sums[(cycle->n + PSI_CYCLE_MOST - 2) % PSI_CYCLE_MOST];
  cycle->steady = cycle->n >= 2 && sum - last == last - before ? cycle->steady + 1 : 0;
  cycle->sums[cycle->n % PSI_CYCLE_MOST] = sum;
  cycle->at_ps[cycle->n % PSI_CYCLE_MOST] = at_ps;
  cycle->n++;
  return found;
}

PsiTime
psi_cycle_time_ps (const PsiCycle *cycle, guint length)
{
  guint last = cycle->n - 1;

  return cycle->at_ps[last % PSI_CYCLE_MOST] - cycle->at_ps[(last - length) % PSI_CYCLE_MOST];
}
