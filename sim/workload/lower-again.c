/* SPDX-License-Identifier: MIT */
/* What selective recompute runs again. */
#include "lower-step.h"

void
psi_lower_emit_core (const PsiLower *lower, PsiLayerKind *kind, const guint *first_kernels)
{
  guint n_copied = 0, n_runs = 0;
  gboolean was_core = FALSE;

  for (guint i = 0; i < lower->ops->len; i++)
    {
      const PsiLowerStep *step = &g_array_index (lower->ops, PsiLowerStep, i);
      guint n = first_kernels[i + 1] - first_kernels[i];

      if (n == 0)
        continue;
      n_runs += step->core && !was_core;
      if (step->core && !was_core)
        kind->selective_first = first_kernels[i];
      kind->selective_n += step->core ? n : 0;
      was_core = step->core;
    }
  if (n_runs <= 1)
    return;
  kind->selective_first = kind->kernels->len;
  for (guint i = 0; i < lower->ops->len; i++)
    if (g_array_index (lower->ops, PsiLowerStep, i).core)
      for (guint k = first_kernels[i]; k < first_kernels[i + 1]; k++)
        {
          PsiKernel copy = g_array_index (kind->kernels, PsiKernel, k);

          g_array_append_val (kind->kernels, copy);
          n_copied++;
        }
  g_assert (n_copied == kind->selective_n);
}
