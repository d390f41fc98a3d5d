/* SPDX-License-Identifier: MIT */
/* Plans whose order of work is a schedule file. */
#pragma once

#include "plan.h"

/* The kind of such plans; not in psi_schedules[]. */
extern const PsiScheduleKind psi_schedule_file;

/* Load the file that the key `schedule` names, check it, and take from it what kind of plan it is. */
gboolean psi_plan_choose_file (PsiPlan *plan, const PsiSettings *settings, GError **error);
/* Degrees and number of micro-batches, instead of the rules for plans without a file. */
gboolean psi_plan_file_degrees (PsiPlan *plan, const PsiSettings *settings, GError **error);
/* The cyclic order of a file with updates. (transfer full) */
PsiSchedule *psi_plan_cyclic_from_file (const PsiPlan *plan, const PsiScheduleShape *shape, GError **error);
