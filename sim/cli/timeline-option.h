/* SPDX-License-Identifier: MIT */
/* --timeline FILE and --timeline-ranks: a file for each plan while it is simulated. */
#pragma once

#include "commands.h"
#include "simulate.h"

typedef struct
{
  const PsiArguments *arguments;
  const PsiScenario *scenario;
} PsiTimelineOption;

/* FALSE, with a PSI_USAGE_ERROR, if the two options do not make sense. */
gboolean psi_timeline_option_check (const PsiArguments *arguments, GError **error);
/* For PsiSimulateOptions.observe, with a PsiTimelineOption as data. */
gboolean psi_timeline_option_observe (const char *name, const PsiStep *step, const PsiRun *run, gpointer data,
                                      GError **error);
