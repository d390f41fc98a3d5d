/* SPDX-License-Identifier: MIT */
/* Pending events in a 4-ary heap. */
#include "psi-queue.h"

struct _PsiQueue
{
  PsiEvent *events;
  gsize n_events, n_alloc;
};

static inline gboolean
event_before (PsiEvent a, PsiEvent b)
{
  return a.time_ps < b.time_ps || (a.time_ps == b.time_ps && a.key < b.key);
}

PsiQueue *
psi_queue_new (void)
{
  return g_new0 (PsiQueue, 1);
}

void
psi_queue_free (PsiQueue *queue)
{
  if (!queue)
    return;
  g_free (queue->events);
  g_free (queue);
}

void
psi_queue_push (PsiQueue *queue, PsiEvent event)
{
  gsize i = queue->n_events++;

  if (queue->n_events > queue->n_alloc)
    {
      queue->n_alloc = MAX (64, queue->n_alloc * 2);
      queue->events = g_renew (PsiEvent, queue->events, queue->n_alloc);
    }
  while (i > 0 && event_before (event, queue->events[(i - 1) / 4]))
    {
      queue->events[i] = queue->events[(i - 1) / 4];
      i = (i - 1) / 4;
    }
  queue->events[i] = event;
}

gboolean
psi_queue_pop (PsiQueue *queue, PsiEvent *ret_event)
{
  PsiEvent last;
  gsize i = 0;

  if (queue->n_events == 0)
    return FALSE;
  *ret_event = queue->events[0];
  last = queue->events[--queue->n_events];
  for (;;)
    {
      gsize first = 4 * i + 1, best = first, end = MIN (first + 4, queue->n_events);
      if (first >= queue->n_events)
        break;
      for (gsize c = first + 1; c < end; c++)
        if (event_before (queue->events[c], queue->events[best]))
          best = c;
      if (!event_before (queue->events[best], last))
        break;
      queue->events[i] = queue->events[best];
      i = best;
    }
  queue->events[i] = last;
  return TRUE;
}

PsiTime
psi_queue_next_ps (PsiQueue *queue)
{
  return queue->n_events ? queue->events[0].time_ps : PSI_TIME_MAX;
}

gsize
psi_queue_size (const PsiQueue *queue)
{
  return queue->n_events;
}

void
psi_queue_reset (PsiQueue *queue)
{
  queue->n_events = 0;
}
