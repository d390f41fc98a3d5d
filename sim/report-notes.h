/* SPDX-License-Identifier: MIT */
#pragma once

#include "psi-run.h"
#include "report.h"

/* What a report says about how its run came to a step time. */
void psi_report_note_run (PsiPlanReport *plan, const PsiRun *run);
