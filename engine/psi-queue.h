/* SPDX-License-Identifier: MIT */
/* The pending events, ordered by (time, key). The key is chosen by the caller (phase, source, sequence) so that the
 * order never depends on insertion. */
#pragma once

#include "psi-time.h"

typedef struct
{
  PsiTime time_ps;
  guint64 key; /* ties in time are popped in ascending key order; equal (time, key) pairs in any order */
} PsiEvent;

typedef struct _PsiQueue PsiQueue;

PsiQueue *psi_queue_new (void);
void psi_queue_free (PsiQueue *queue);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiQueue, psi_queue_free)

/* event.time_ps must not be negative, nor before the last popped time. */
void psi_queue_push (PsiQueue *queue, PsiEvent event);
/* FALSE when empty. */
gboolean psi_queue_pop (PsiQueue *queue, PsiEvent *ret_event);
/* Time of the next event, PSI_TIME_MAX when empty. */
PsiTime psi_queue_next_ps (PsiQueue *queue);
/* Key of an event that will probably be popped `n` pops from now, G_MAXUINT64 if not known: a hint, to fetch memory. */
guint64 psi_queue_hint (const PsiQueue *queue, guint n);
gsize psi_queue_size (const PsiQueue *queue);
