/* SPDX-License-Identifier: MIT */
/* Chrome's trace event format, as chrome://tracing and https://ui.perfetto.dev open it: processes with named tracks,
 * slices on them, counters, arrows between slices. Written as a stream, nothing is kept.
 *
 * Times are given in picoseconds and written in microseconds with three decimals, because the viewers count whole
 * nanoseconds; both ends of a slice are rounded down, so slices that touch still touch and never overlap.
 * Source: "Trace Event Format" (Google, 2016). */
#pragma once

#include <glib.h>

typedef struct _PsiTimeline PsiTimeline;

/* One value beside a slice or counter: a number, or a text when `text` is not NULL. */
typedef struct
{
  const char *name;
  const char *text; /* any bytes; made valid */
  gint64 number;
} PsiTimelineValue;

/* Begin a file. It is written under a temporary name beside `path` and only psi_timeline_close() puts it in place.
 * Returns (transfer full), NULL on error (PSI_OUT_FILE_ERROR). */
PsiTimeline *psi_timeline_open (const char *path, GError **error);
/* Finish the file and put it in place; errors of all writes before are reported here. Frees the timeline. */
gboolean psi_timeline_close (PsiTimeline *timeline, GError **error);
/* Give up: nothing stays on the disk. NULL is fine. */
void psi_timeline_abandon (PsiTimeline *timeline);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiTimeline, psi_timeline_abandon)

/* Names; `order` sorts processes and tracks from top to bottom. */
void psi_timeline_process (PsiTimeline *timeline, guint process, const char *name, guint order);
void psi_timeline_track (PsiTimeline *timeline, guint process, guint track, const char *name, guint order);

void psi_timeline_slice (PsiTimeline *timeline, guint process, guint track, gint64 start_ps, gint64 end_ps,
                         const char *name, const char *category, const PsiTimelineValue *values, guint n_values);
/* The values of a counter from time_ps on; viewers stack them. */
void psi_timeline_counter (PsiTimeline *timeline, guint process, const char *name, gint64 time_ps,
                           const PsiTimelineValue *values, guint n_values);
/* One end of an arrow, in the slice that runs at time_ps on that track. The two ends have the same `id`. */
void psi_timeline_arrow (PsiTimeline *timeline, guint process, guint track, gint64 time_ps, gboolean head, guint64 id,
                         const char *name);
