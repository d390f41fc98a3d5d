/* SPDX-License-Identifier: MIT */
/* A collective as the messages of its ring: n members, each sends `rounds` messages to the next one, number s + 1 once
 * it has sent number s and received number s from the one before. The op ends for all members with the last message.
 *
 * On idle links every message of a round takes the same time and the whole takes rounds x (latency + bytes / rate), as
 * one flow for each round does; links that are loaded unevenly make members wait for each other. */
#include "psi-ring.h"

#include <math.h>

static void
send_next (PsiLoop *loop, guint32 head, PsiTime now_ps)
{
  PsiRing *ring = &loop->rings[head];
  PsiMeeting *meeting = &loop->meetings[ring->port];
  const PsiTransfer *transfer = &loop->transfers[meeting->transfer];
  PsiTime latency_ps = ring->sent == 0 ? transfer->latency_ps : transfer->round_latency_ps;

  ring->is_sending = TRUE;
  psi_queue_push (loop->queue, (PsiEvent){ psi_time_add (now_ps, latency_ps), PSI_LOOP_KEY (PSI_LOOP_RING, head) });
}

/* A message needs the one before it to have gone, and the same one of the member before to have come. */
static void
try_send (PsiLoop *loop, guint32 head, PsiTime now_ps)
{
  const PsiRing *ring = &loop->rings[head];
  const PsiTransfer *transfer = &loop->transfers[loop->meetings[ring->port].transfer];

  if (!ring->is_sending && ring->sent < transfer->rounds && ring->sent <= ring->received)
    send_next (loop, head, now_ps);
}

void
psi_ring_start (PsiLoop *loop, PsiPortId id, PsiTime now_ps)
{
  PsiMeeting *meeting = &loop->meetings[id];
  guint32 first = (guint32) (meeting->heads - loop->heads);

  meeting->ring_left = meeting->n_members;
  for (guint32 i = 0; i < meeting->n_members; i++)
    {
      loop->rings[first + i] = (PsiRing){ .port = id };
      send_next (loop, first + i, now_ps);
    }
}

static guint32
next_head (const PsiLoop *loop, guint32 head)
{
  const PsiMeeting *meeting = &loop->meetings[loop->rings[head].port];
  guint32 first = (guint32) (meeting->heads - loop->heads);

  return first + (head - first + 1) % meeting->n_members;
}

gboolean
psi_ring_latency_over (PsiLoop *loop, guint32 head, PsiTime now_ps)
{
  PsiPortId id = loop->rings[head].port;
  const PsiMeeting *meeting = &loop->meetings[id];
  const PsiTransfer *transfer = &loop->transfers[meeting->transfer];
  const GArray *path = g_array_index (loop->world->ports, PsiPort, id).path;
  guint32 first = (guint32) (meeting->heads - loop->heads), from = head - first, to = next_head (loop, head) - first;
  guint n = 0;

  for (guint i = 0; i < path->len && transfer->bytes > 0; i++)
    {
      const PsiPathLink *step = &g_array_index (path, PsiPathLink, i);
      double weight = transfer->weights[step->tier] * step->share;

      if (weight > 0 && step->member == (step->tier % 2 == 0 ? from : to))
        loop->uses[n++] = (PsiLinkUse){ step->link, weight };
    }
  if (transfer->bytes <= 0 || (n == 0 && isinf (transfer->cap_bytes_per_s)))
    return psi_ring_message_over (loop, head, now_ps);
  psi_links_start (loop->world->links, now_ps, transfer->bytes, transfer->cap_bytes_per_s, loop->uses, n,
                   PSI_LOOP_KEY (PSI_LOOP_RING, head));
  return FALSE;
}

gboolean
psi_ring_message_over (PsiLoop *loop, guint32 head, PsiTime now_ps)
{
  PsiMeeting *meeting = &loop->meetings[loop->rings[head].port];
  guint32 rounds = loop->transfers[meeting->transfer].rounds, next = next_head (loop, head);

  loop->rings[head].is_sending = FALSE;
  if (++loop->rings[head].sent == rounds)
    meeting->ring_left--;
  loop->rings[next].received++;
  try_send (loop, head, now_ps);
  if (next != head)
    try_send (loop, next, now_ps);
  return meeting->ring_left == 0;
}
