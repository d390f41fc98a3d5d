/* SPDX-License-Identifier: MIT */
/* One plan, from settings to its report: load, resolve, build, run, account. */
#pragma once

#include "machine.h"
#include "psi-run.h"
#include "report.h"
#include "keys.h"

typedef struct _PsiStep PsiStep; /* step.h */

/* Called for each plan after its run: `name` is the plan's. FALSE, with an error, ends the simulation. */
typedef gboolean (*PsiObserver) (const char *name, const PsiStep *step, const PsiRun *run, gpointer data,
                                 GError **error);

typedef struct
{
  gboolean curves;        /* keep memory and traffic curves and spans for plots */
  gboolean fit_only;      /* step time, throughput, memory and verdict */
  gboolean skips_misfits; /* no step time for a plan that cannot fit */
  guint most_steps;       /* of a run that does not repeat, 0 = as many as it takes to tell */
  gboolean what_helps;    /* look for what would make the plan faster */
  double link_factors[2]; /* times the rate of links inside a node and between nodes; 0 = as they are */
  gboolean critical_path; /* tell which ops decide the step time; not where workers do not wait */
  gboolean advice;        /* look for changes that fit when the plan does not */
  PsiObserver observe;
  gpointer observe_data;
} PsiSimulateOptions;

/* The machine of the settings (`ideal` for the uniform model, a100-sxm-80 otherwise, when none is written), overrides
 * applied. (transfer full) */
PsiMachine *psi_simulate_machine (const PsiSettings *settings, GError **error);

/* `report`, if not NULL, gets the description of machine and model. (transfer full) */
PsiPlanReport *psi_simulate_plan (const char *name, const PsiSettings *settings, const PsiSimulateOptions *options,
                                  PsiReport *report, GError **error);
