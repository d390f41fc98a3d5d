/* SPDX-License-Identifier: MIT */
#include "report-levels.h"

#include "psi-account.h"

/* The least of each level over the period. */
static void
find_least (const PsiRun *run, const PsiStepRank *rank, gint64 weight, GArray *events, gint64 *ret_least)
{
  g_autoptr (GArray) curve = g_array_new (FALSE, FALSE, sizeof (PsiLevelPoint));
  gint64 base[PSI_MAX_CLASSES] = { 0 };
  PsiLevels levels;

  for (guint c = 0; c < PSI_N_MEMORY; c++)
    base[c] = rank->base[c] * weight;
  psi_account_run_levels (events, run, rank->id, 0, base, FALSE, &levels, curve);
  for (guint c = 0; c < PSI_N_MEMORY; c++)
    {
      ret_least[c] = G_MAXINT64;
      for (guint i = 0; i < curve->len; i++)
        ret_least[c] = MIN (ret_least[c], g_array_index (curve, PsiLevelPoint, i).bytes[c]);
    }
}

void
psi_report_memory_events (const PsiStep *step, const PsiRun *run, const PsiStepRank *rank, gint64 weight,
                          GArray *events)
{
  const guint first = events->len;
  gint64 least[PSI_N_MEMORY];

  psi_account_memory_events (step->world, run, rank->id, weight, events);
  if (run->cycle == 1 || run->repeat.n > 0 || events->len == first)
    return;
  g_autoptr (GArray) own = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
  g_array_append_vals (own, &g_array_index (events, PsiLevelEvent, first), events->len - first);
  const PsiTime at_ps = g_array_index (own, PsiLevelEvent, 0).time_ps;
  find_least (run, rank, weight, own, least);
  for (guint c = 0; c < PSI_N_MEMORY; c++)
    if (least[c] < 0)
      {
        /* What lasts for a period is there all the time. */
        const PsiLevelEvent lasting[] = { { at_ps, -least[c], c },
                                          { at_ps + psi_run_fold_ps (run, rank->id), least[c], c } };

        g_array_append_vals (events, lasting, G_N_ELEMENTS (lasting));
      }
}
