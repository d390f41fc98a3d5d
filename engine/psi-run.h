/* SPDX-License-Identifier: MIT */
/* Run a world until its step repeats exactly.
 *
 * The dynamics do not depend on absolute time, so once every op of one iteration starts and ends exactly P later than
 * in the iteration before (for as many iterations as dependencies reach back), all later iterations do the same: P is
 * the period, and one iteration holds everything there is to know. With `jump` off the run goes on to
 * max_iterations; the answer must be the same. */
#pragma once

#include "psi-program.h"

/* When one op ran in the recorded iteration. */
typedef struct
{
  PsiTime post_ps;  /* at the head of its stream, local waits over (WORK: == start) */
  PsiTime start_ps; /* work or transfer begins; all partners are there */
  PsiTime end_ps;
  PsiTime moving_ps;   /* since when bytes it waited for have been on the way without a break: for a message, up to its
                          own end; for work, up to its start (PSI_TIME_MAX = none) */
  PsiOpId released_by; /* the op of this rank whose end let it start last, PSI_OP_NONE = its stream or nothing */
} PsiOpTimes;

typedef struct
{
  guint max_iterations; /* give up looking for a period after so many; 0 = 64 */
  gboolean no_jump;     /* run all max_iterations */
} PsiRunOptions;

typedef struct
{
  PsiTime period_ps; /* of one iteration; of `periods` iterations together divided by their number */
  gboolean periodic; /* FALSE: no period found, period_ps is a mean over the last half of the run */
  guint iterations;  /* simulated */
  guint64 n_events;
  gsize *first_op;   /* [n_ranks + 1] offset of a rank's ops in times */
  PsiOpTimes *times; /* ops of all ranks, stream by stream, of the last complete iteration */
} PsiRun;

#define PSI_RUN_ERROR (psi_run_error_quark ())
typedef enum
{
  PSI_RUN_ERROR_DEADLOCK,  /* nothing can happen any more and ops are left: the message says who waits for what */
  PSI_RUN_ERROR_UNMATCHED, /* a port with a missing partner */
  PSI_RUN_ERROR_TIME       /* simulated time ran out of range */
} PsiRunError;
GQuark psi_run_error_quark (void);

/* Returns (transfer full), NULL on error. The world's links are reset first and left clean. */
PsiRun *psi_run (PsiWorld *world, const PsiRunOptions *options, GError **error);
void psi_run_free (PsiRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiRun, psi_run_free)

/* Times of one op of one rank. */
const PsiOpTimes *psi_run_times (const PsiRun *run, const PsiWorld *world, PsiRankId rank, PsiOpId op);
