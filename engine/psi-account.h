/* SPDX-License-Identifier: MIT */
/* What a run amounts to: where a rank's time went, how levels (memory, traffic) rise and fall over one period, the
 * longest chain of messages, and a digest. All of it is read off the op times of one iteration, so the run loop stays
 * free of bookkeeping; with a period P an event at t happens at t + kP for every k. */
#pragma once

#include "psi-run-data.h"

/* Add an op of stream 0, before which the stream was free since free_ps. A turn at a desk is work that is done for the
 * rank, as if by itself (`scale`: the rank's); the wait for it is not. */
void psi_account_op (const PsiProgram *program, const PsiOp *op, const PsiOpTimes *times, const PsiOpWait *wait,
                     PsiTime free_ps, double scale, PsiTimeSplit *split);
void psi_account_time (const PsiWorld *world, const PsiRun *run, PsiRankId rank, PsiTimeSplit *ret_split);

/* A change of a level: bytes > 0 rises. */
typedef struct
{
  PsiTime time_ps;
  gint64 bytes;
  guint32 level; /* which one, < PSI_MAX_CLASSES */
} PsiLevelEvent;

/* Appends many events: { array, array->len } to begin with; the array is longer than what is in it until the end. */
typedef struct
{
  GArray *events; /* of PsiLevelEvent */
  guint used;
} PsiLevelWriter;

static inline void
psi_level_write (PsiLevelWriter *writer, PsiTime time_ps, gint64 bytes, guint level)
{
  if (writer->used == writer->events->len)
    g_array_set_size (writer->events, 2 * writer->used + 64);
  g_array_index (writer->events, PsiLevelEvent, writer->used++) = (PsiLevelEvent){ time_ps, bytes, level };
}

static inline void
psi_level_writer_end (PsiLevelWriter *writer)
{
  g_array_set_size (writer->events, writer->used);
}

/* Levels over one period, starting at origin_ps. */
typedef struct
{
  gint64 peak_bytes;  /* of the sum of all levels */
  PsiTime peak_at_ps; /* from the origin, the first time */
  gint64 at_peak[PSI_MAX_CLASSES];
  gint64 class_peak[PSI_MAX_CLASSES]; /* of each level alone */
  double mean_bytes;                  /* of the sum */
} PsiLevels;

/* Appends the memory changes of a rank (times `weight`) to an array of PsiLevelEvent. */
void psi_account_memory_events (const PsiWorld *world, const PsiRun *run, PsiRankId rank, gint64 weight,
                                GArray *events);

/* Sorts events and follows the levels from base[] through one period. Falls come before rises of the same instant,
 * unless rises_first (closed intervals: what touches counts together). `curve`, if not NULL, gets one PsiLevelPoint for
 * each instant at which a level changes, the first at 0. Events of a period must add up to 0 in every level. */
typedef struct
{
  PsiTime time_ps;
  gint64 bytes[PSI_MAX_CLASSES];
} PsiLevelPoint;

void psi_account_levels (GArray *events, PsiTime period_ps, PsiTime origin_ps, const gint64 *base, gboolean rises_first,
                         PsiLevels *ret_levels, GArray *curve);

/* The same over the period of a run, with what its repeat puts in (then there is no curve); where ranks run at paces of
 * their own, over that of `rank`. */
void psi_account_run_levels (GArray *events, const PsiRun *run, PsiRankId rank, PsiTime origin_ps, const gint64 *base,
                             gboolean rises_first, PsiLevels *ret_levels, GArray *curve);

/* For each rank the lowest one that runs the same program with the same op times: what is accounted for it holds for
 * both. Returns [n_ranks] (transfer full). */
PsiRankId *psi_account_equals (const PsiWorld *world, const PsiRun *run);

/* The most messages (PsiTransfer.hops each) that must pass one after another between two works of any ranks. Order on
 * stream 0 counts as a need, order on other streams does not. A send that waits for work of its own rank starts anew.
 */
guint psi_account_chain (const PsiWorld *world);

/* Of all ranks: sum of weight times a hash of the rank's own op times, modulo 2^64. Rank numbers do not enter. */
guint64 psi_account_digest (const PsiWorld *world, const PsiRun *run);
