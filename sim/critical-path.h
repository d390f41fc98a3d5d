/* SPDX-License-Identifier: MIT */
/* The critical path of a step, for people: the engine's ops by rank, kind of work and micro-batch. */
#pragma once

#include "psi-critical.h"
#include "report.h"
#include "step.h"

/* The path of a run. (transfer full) */
PsiCriticalPath *psi_critical_path_new (const PsiStep *step, const PsiRun *run);
/* Make the path of one run with jitter as long as the mean step: all times in proportion, still without a gap. */
void psi_critical_path_stretch (PsiCriticalPath *path, gint64 to_ps);
