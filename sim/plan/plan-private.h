/* SPDX-License-Identifier: MIT */
/* What the files that resolve a plan share. */
#pragma once

#include "plan.h"

/* Sets an error "WHERE: ..." and returns FALSE. `where`: file, group and key, of psi_settings_where(). */
gboolean psi_plan_refuse (GError **error, int code, const char *where, const char *format, ...) G_GNUC_PRINTF (4, 5);
/* A written number, or 0. */
guint psi_plan_written (const PsiSettings *s, PsiKeyId key);
/* Where `word` stands in a NULL-ended list that has it. */
guint psi_plan_index_of (const char *const *names, const char *word);

/* plan-experts.c: replicas that ep and expert_tp need, where nothing says how many there are. */
guint psi_plan_replicas_for_experts (PsiPlan *plan, const PsiSettings *s, guint tp);
/* Set expert_tp, once the other degrees are known. FALSE: ep does not fit them. */
gboolean psi_plan_resolve_experts (PsiPlan *plan, const PsiSettings *s, GError **error);

/* plan-kinds.c: strategy, schedule, update rule, placement. */
gboolean psi_plan_choose_kinds (PsiPlan *plan, const PsiSettings *s, GError **error);
/* A pipeline that never flushes: every micro-batch of a step is a worker. */
gboolean psi_plan_is_stream (const PsiPlan *plan);
