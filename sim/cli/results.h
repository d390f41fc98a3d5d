/* SPDX-License-Identifier: MIT */
/* What `run` and `compare` have in common: simulate, draw, write in the form that was asked for. */
#pragma once

#include "commands.h"
#include "report.h"
#include "table-text.h"

/* The page for people. `verbose` is -v. Returns (transfer full). */
typedef char *(*PsiPage) (const PsiReport *report, const PsiTerminal *terminal, gboolean verbose);

/* Simulate the scenario of the command line and write the result: --json, --csv, --quiet (one verdict line for each
 * plan) or `page`; --plot draws first, so that stdout stays empty when that fails. `one_plan`: more than one plan is
 * an error. Returns the exit status; with --check it is 3 if a plan does not fit. */
int psi_results_run (const PsiArguments *arguments, gboolean one_plan, PsiPage page);
