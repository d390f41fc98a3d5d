/* SPDX-License-Identifier: MIT */
/* A desk: one op at a time, in the order in which they came. All that come at one instant are there before the first of
 * them begins, since the event that lets it begin is looked at when nothing else can happen at that instant. */
#include "psi-desk.h"

#include "psi-pace.h"

static void
push (PsiLoop *loop, PsiPortId id, PsiTime time_ps)
{
  psi_queue_push (loop->queue, (PsiEvent){ time_ps, PSI_LOOP_KEY (PSI_LOOP_DESK, id) });
}

/* The i-th of those that wait; the ring has room for all members. */
static guint32 *
waiting (const PsiMeeting *desk, guint32 i)
{
  return &desk->heads[(desk->first + i) % desk->n_members];
}

void
psi_desk_post (PsiLoop *loop, guint32 index, PsiTime now_ps)
{
  const PsiStream *stream = &loop->streams[index];
  PsiPortId id = stream->ports[stream->ops[stream->position].slot];
  PsiMeeting *desk = &loop->meetings[id];
  guint32 place = desk->posted++;

  loop->details[index].need = (guint64) now_ps;
  /* Before those of higher number that came at the same instant; the one that is served stays where it is. */
  for (; place > (desk->is_busy ? 1u : 0u); place--)
    {
      guint32 before = *waiting (desk, place - 1);

      if (before < index || loop->details[before].need != (guint64) now_ps)
        break;
      *waiting (desk, place) = before;
    }
  *waiting (desk, place) = index;
  if (desk->posted == 1)
    push (loop, id, now_ps);
}

guint32
psi_desk_begin (PsiLoop *loop, PsiPortId id, PsiTime now_ps)
{
  PsiMeeting *desk = &loop->meetings[id];
  const PsiRank *keeper = psi_world_rank (loop->world, g_array_index (loop->world->ports, PsiPort, id).keeper);
  guint32 index = *waiting (desk, 0);
  PsiTime cost_ps = loop->streams[index].ops[loop->streams[index].position].cost_ps;
  desk->is_busy = TRUE;
  loop->details[index].start_ps = now_ps;
  push (loop, id,
        psi_time_add (now_ps,
                      keeper->scale == 1.0 ? cost_ps : psi_time_from_s (psi_time_to_s (cost_ps) * keeper->scale)));
  return index;
}

guint32
psi_desk_over (PsiLoop *loop, PsiPortId id, PsiTime now_ps)
{
  PsiMeeting *desk = &loop->meetings[id];
  guint32 index = *waiting (desk, 0);
  const PsiStream *stream = &loop->streams[index];
  guint32 *turn = &loop->details[index].turns[stream->position];
  guint32 *served = &loop->pace->served[stream->ops[stream->position].transfer];

  if (*turn > 0)
    {
      guint32 lag = *served - *turn;

      g_array_append_val (loop->pace->lags, lag);
    }
  *turn = ++*served;
  desk->first = (desk->first + 1) % desk->n_members;
  desk->posted--;
  desk->is_busy = FALSE;
  if (desk->posted > 0)
    push (loop, id, now_ps);
  return index;
}
