/* SPDX-License-Identifier: MIT */
/* Who uses a version of a part under a cyclic update, and when. */
#pragma once

#include "step.h"

/* One use of a version by a worker. */
typedef struct
{
  guint worker;
  guint lag; /* steps after the one whose gradients made the version */
  gboolean is_backward;
  guint micro_batch; /* of the worker */
  gint64 time_ps;    /* virtual, from the start of the step that made the version */
} PsiVersionUse;

/* Steps between the gradients that made a version and a worker's use of it: 1 fresh, 2 stale. */
guint psi_step_lag (const PsiStep *step, guint worker, guint part);
/* First uses of one version of a part in order; every forward and backward if `both`. (transfer full) of PsiVersionUse
 */
GArray *psi_step_uses_of_part (const PsiStep *step, guint part, gboolean both);
