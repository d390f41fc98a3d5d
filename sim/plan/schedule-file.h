/* SPDX-License-Identifier: MIT */
/* Schedules that people write: reading them, checking them, and what an order amounts to without a machine. */
#pragma once

#include "schedule.h"

/* Read the text of a schedule file; `name` begins every message ("x.sched:7: unknown word 'X1' ..."). Only the form is
 * checked. (transfer full) */
PsiSchedule *psi_schedule_parse (const char *text, const char *name, GError **error);
PsiSchedule *psi_schedule_load (const char *path, GError **error);

/* Times an order is followed with. */
typedef struct
{
  const gint64 *forward_ps, *backward_ps; /* [parts] one part, one micro-batch; backward: both halves */
  const gint64 *weight_ps;                /* [parts] the weight half of backward_ps */
  gint64 transfer_ps;                     /* of a boundary tensor between two ranks; links are never busy */
} PsiScheduleTimes;

/* What an order amounts to. */
typedef struct
{
  gint64 period_ps;       /* of one training step */
  gboolean periodic;      /* FALSE: the mean of the last repetitions that were followed */
  double bubble_fraction; /* waiting of all ranks / (ranks x period) */
  guint n_ranks;
  guint *in_flight;  /* [ranks] most chunk forwards whose backward (its last half) is not over */
  double transfers;  /* boundary tensors from rank to rank in one step */
  double delay_mean; /* training steps between the parameters a forward uses and the newest; 0 = synchronous */
  gint64 *begins_ps; /* [ranks] start of the first token of a late repetition, from the earliest of all ranks */
} PsiScheduleFacts;

/* Follow an order until its step repeats. Errors: PSI_SCHEDULE_ERROR_OPS (missing, doubled or misplaced op, by name)
 * and PSI_SCHEDULE_ERROR_DEADLOCK (the cycle). Clear ret_facts with psi_schedule_facts_clear(). */
gboolean psi_schedule_check (const PsiSchedule *schedule, const PsiScheduleTimes *times, PsiScheduleFacts *ret_facts,
                             GError **error);
void psi_schedule_facts_clear (PsiScheduleFacts *facts);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsiScheduleFacts, psi_schedule_facts_clear)
