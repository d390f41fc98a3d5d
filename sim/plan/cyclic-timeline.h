/* SPDX-License-Identifier: MIT */
/* The virtual timeline of a cyclic schedule: when each worker would do what if transfers took no time. It decides order
 * and versions, never the simulated times. */
#pragma once

#include "schedule.h"

/* One op of one worker's step; times of the timeline are in units of 1/N ps, so that T / N is whole. */
typedef struct
{
  gint64 time; /* from the worker's own start */
  guint8 kind; /* PsiTokenKind */
  guint part;
  gint64 micro_batch;
} PsiVirtualOp;

typedef struct
{
  GArray *ops;                /* of PsiVirtualOp, in order of time */
  gint64 *first, *end;        /* [stages] start of the first forward, end of the last backward of a part */
  gint64 *forward, *backward; /* [stages] times, in ps */
  gint64 spacing, period;     /* period = N * spacing */
  gint64 turn;                /* from a worker's micro-batch to its next */
  gint64 *start;  /* [workers] when each begins, ascending from 0: i * spacing, or random within the period; one
                   * GPU for each stage: in a slot of its own */
  gboolean slots; /* one GPU with N = K: every op takes one slot */
} PsiCyclicTimeline;

/* Caller's memory; FALSE if the step is too long to count. */
gboolean psi_cyclic_timeline_init (PsiCyclicTimeline *timeline, const PsiScheduleShape *shape, GError **error);
void psi_cyclic_timeline_clear (PsiCyclicTimeline *timeline);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsiCyclicTimeline, psi_cyclic_timeline_clear)

/* Period, in ps, of the order that the timeline gives to one GPU for each stage, with the shape's times and transfers
 * that take none: the mean of several repetitions. */
double psi_cyclic_timeline_pace_ps (const PsiCyclicTimeline *timeline, const PsiScheduleShape *shape);

/* Write spacing, versions, lifetimes and (if `pools`) the GPUs of each stage into the schedule. */
void psi_cyclic_timeline_note (const PsiCyclicTimeline *timeline, const PsiScheduleShape *shape, gboolean pools,
                               PsiSchedule *schedule);
