/* SPDX-License-Identifier: MIT */
/* What a run is asked and what it leaves. */
#pragma once

#include "psi-program.h"

#define PSI_MAX_TAGS 64

/* One rank's period on its stream 0. The parts add up to the period exactly. */
typedef struct
{
  PsiTime busy_ps[PSI_MAX_TAGS];   /* work, by tag */
  PsiTime moving_ps[PSI_MAX_TAGS]; /* waiting for bytes on a link, by the tag of the message */
  PsiTime still_ps;                /* waiting for another rank */
} PsiTimeSplit;

/* When one op ran in the recorded iteration: its work or transfer, without waiting. */
typedef struct
{
  PsiTime start_ps, end_ps;
} PsiOpTimes;

/* What an op of stream 0 waited for before it started. */
typedef struct
{
  PsiTime post_ps;     /* at the head of its stream, local waits over (work: == start) */
  PsiTime before_ps;   /* since when bytes it waited for until post_ps had been on the way without a break */
  PsiTime moving_ps;   /* the same for bytes of the op itself, partners' waits included; PSI_TIME_MAX = none (both) */
  PsiOpId released_by; /* the op of another stream whose end let it go last, PSI_OP_NONE = none */
} PsiOpWait;

typedef struct
{
  guint max_iterations; /* end after so many; 0 = 64, or more while no period is found and events are few */
  gboolean no_jump;     /* run all max_iterations even if a period of one step is found before */
  double jitter;        /* spread of work: each op takes (1 + jitter z) times its cost, at least 0, z about normal; it
                         * depends on seed, rank and op only */
  guint64 seed;
  gboolean no_record; /* only period, makespan and events: takes no memory for each op; with max_iterations = 1 */
} PsiRunOptions;

/* A stretch of the recorded iteration that stands n more times behind itself: psi-repeat.h. */
typedef struct
{
  guint64 n; /* 0: nothing is left out */
  PsiTime begin_ps, length_ps;
} PsiRepeat;

typedef struct
{
  PsiTime period_ps;   /* of one iteration */
  PsiTime makespan_ps; /* simulated time of the whole run */
  guint cycle;         /* iterations that repeat together; 0 = not periodic */
  gboolean drifts;     /* not periodic yet, but every rank keeps its pace: period_ps is that of the slowest */
  gboolean periodic;   /* FALSE: none found, period_ps is the mean pace of the slowest rank over the end of the run */
  guint iterations;    /* complete */
  guint64 n_events;
  gsize *first_op;   /* [n_ranks + 1] offset of a rank's ops in times */
  gsize *first_wait; /* [n_ranks + 1] offset of a rank's stream 0 in waits */
  PsiOpTimes *times; /* ops of all ranks, stream by stream, of one iteration; NULL with no_record */
  PsiOpWait *waits;  /* ops of stream 0 */

  /* Ranks at paces of their own; NULL where all do one iteration in period_ps. */
  PsiTime *paces_ps;    /* [n_ranks] mean time of an iteration: the latest that all streams have ended is recorded */
  PsiTime *folds_ps;    /* [n_ranks] time after which the recorded iteration can begin again: its pace or its length */
  PsiTimeSplit *splits; /* [n_ranks] mean over period_ps */
  /* Ops that had a turn at a desk: how many turns others had there, on the same subject, since the op's last. */
  guint32 *lags;
  gsize n_lags;
  PsiRepeat repeat;
} PsiRun;

/* How often an op stands in the iteration, by its recorded start. */
static inline guint64
psi_run_times_over (const PsiRun *run, PsiTime start_ps)
{
  return start_ps >= run->repeat.begin_ps && start_ps < run->repeat.begin_ps + run->repeat.length_ps ? run->repeat.n + 1
                                                                                                     : 1;
}

/* The period of what is recorded. */
static inline PsiTime
psi_run_recorded_ps (const PsiRun *run)
{
  return run->period_ps - (PsiTime) run->repeat.n * run->repeat.length_ps;
}

/* The mean time of one iteration of a rank. */
static inline PsiTime
psi_run_pace_ps (const PsiRun *run, PsiRankId rank)
{
  return run->paces_ps != NULL ? run->paces_ps[rank] : run->period_ps;
}

/* The time after which a rank's recorded iteration is taken to come again. */
static inline PsiTime
psi_run_fold_ps (const PsiRun *run, PsiRankId rank)
{
  return run->paces_ps != NULL ? run->folds_ps[rank] : run->period_ps;
}

#define PSI_RUN_ERROR (psi_run_error_quark ())
typedef enum
{
  PSI_RUN_ERROR_DEADLOCK,  /* nothing can happen any more and ops are left: the message says who waits for what */
  PSI_RUN_ERROR_UNMATCHED, /* a port with a missing partner */
  PSI_RUN_ERROR_TIME       /* simulated time ran out of range */
} PsiRunError;
GQuark psi_run_error_quark (void);
