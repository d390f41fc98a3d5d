/* SPDX-License-Identifier: MIT */
/* A simulated step as a timeline file. */
#pragma once

#include "drawn-ranks.h"
#include "psi-run.h"
#include "report.h"

/* Write the step of a run to `path`, in Chrome's trace format: a process for each drawn rank, tracks for compute and
 * for each communication stream that carries something, memory by class as counters, arrows from the work that made a
 * message to the work that waits for it. The picture begins with the first op of the step and ends with the last;
 * within it all ranks are shown in the steady state, with what they do for the steps before and after.
 * `title` names the plan; `ranks` is a list such as "0-7,12", NULL: the lowest of each class of equal ranks;
 * `critical`, if not NULL, is drawn below the step. */
gboolean psi_timeline_write_step (const char *path, const char *title, const PsiStep *step, const PsiRun *run,
                                  const char *ranks, const PsiCriticalPath *critical, GError **error);
