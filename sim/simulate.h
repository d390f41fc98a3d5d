/* SPDX-License-Identifier: MIT */
/* The program on one screen: scenario in, report out. */
#pragma once

#include "psi-run.h"
#include "report.h"
#include "scenario.h"

typedef struct _PsiStep PsiStep; /* step.h */

/* Called for each plan after its run: `name` is the plan's. FALSE, with an error, ends the simulation. */
typedef gboolean (*PsiObserver) (const char *name, const PsiStep *step, const PsiRun *run, gpointer data,
                                 GError **error);

typedef struct
{
  gboolean curves;        /* keep memory and traffic curves and spans for plots */
  gboolean fit_only;      /* step time, throughput, memory and verdict */
  gboolean skips_misfits; /* no step time for a plan that cannot fit */
  gboolean what_helps;    /* look for what would make the plan faster */
  double link_factors[2]; /* times the rate of links inside a node and between nodes; 0 = as they are */
  gboolean critical_path; /* tell which ops decide the step time */
  gboolean advice;        /* look for changes that fit when the plan does not */
  PsiObserver observe;
  gpointer observe_data;
} PsiSimulateOptions;

/* Simulate every plan of the scenario, in order. Returns (transfer full) a report, or NULL: a plan that cannot be
 * resolved fails the whole call; running out of memory is a result, not an error. */
PsiReport *psi_simulate (const PsiScenario *scenario, const PsiSimulateOptions *options, GError **error);
