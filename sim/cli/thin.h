/* SPDX-License-Identifier: MIT */
/* Fewer numbers where there are more than a picture can show: what is drawn stays the same to the eye, peaks exactly.
 */
#pragma once

#include "report.h"

/* Spans by lane (compute, then communication) and start; more than `max_spans` are joined where they do the same work
 * and nearly touch, in the end whatever they do. *thinned, if not NULL, becomes TRUE when that was needed. (transfer
 * full) */
GArray *psi_thin_spans (const GArray *spans, gint64 step_ps, guint max_spans, gboolean *thinned);

/* At most `max_points` points of a memory curve: of each run of points the highest, at the time of the first. (transfer
 * full) */
GArray *psi_thin_memory (const GArray *points, guint max_points, gboolean *thinned);

/* The same for PsiTrafficPoint. */
GArray *psi_thin_traffic (const GArray *points, guint max_points);
