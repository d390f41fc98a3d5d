/* SPDX-License-Identifier: MIT */
/* The window is [first start, last end] of one iteration over the drawn ranks. With period P an op at t is also at
 * t + qP for every whole q: all copies that touch the window are drawn, cut at its ends. */
#include "timeline-step.h"

#include "psi-account.h"
#include "report-levels.h"
#include "timeline.h"

#define PROCESS_STEP 1u
#define PROCESS_OF(number) ((number) + 2u)
#define TRACK_OF(stream) ((stream) + 1u)
#define CHAIN_END G_MAXUINT32
#define NS 1000 /* ps */

/* One end of an arrow. Both ends of a message run from the same instant over the same port: that is the id. */
typedef struct
{
  guint64 id;
  guint process, track;
  PsiTime time_ps;
  gboolean head;
} ArrowEnd;

typedef struct
{
  const PsiStep *step;
  const PsiRun *run;
  PsiTimeline *timeline;
  PsiTime begin_ps, length_ps;
  PsiTime period_ps; /* of the rank that is drawn; 0: nothing repeats */
  GArray *arrows;    /* of ArrowEnd */
} Picture;

static const PsiProgram *
program_of (const Picture *picture, guint step_rank)
{
  return picture->step->ranks[step_rank].program;
}

static const PsiOpTimes *
times_of (const Picture *picture, guint step_rank)
{
  return picture->run->times + picture->run->first_op[picture->step->ranks[step_rank].id];
}

static void
find_window (Picture *picture, const GArray *drawn)
{
  PsiTime first_ps = G_MAXINT64, last_ps = G_MININT64;

  for (guint i = 0; i < drawn->len; i++)
    {
      guint r = g_array_index (drawn, PsiDrawnRank, i).step_rank;
      const PsiOpTimes *times = times_of (picture, r);
      guint n = psi_program_n_ops (program_of (picture, r));

      for (guint k = 0; k < n; k++)
        {
          first_ps = MIN (first_ps, times[k].start_ps);
          last_ps = MAX (last_ps, times[k].end_ps);
        }
    }
  picture->begin_ps = first_ps <= last_ps ? first_ps : 0;
  picture->length_ps = first_ps <= last_ps ? MAX (last_ps - first_ps, picture->period_ps) : picture->period_ps;
}

/* The first q for which something that ends at end_ps (from the window's begin) ends within it. */
static gint64
first_copy (const Picture *picture, PsiTime end_ps)
{
  if (picture->period_ps <= 0)
    return 0;
  return -((end_ps - 1) / picture->period_ps - ((end_ps - 1) % picture->period_ps < 0));
}

static void
draw_op (const Picture *picture, guint process, guint stream, const PsiOp *op, const PsiOpTimes *times)
{
  static const char *const categories[] = { [PSI_TAG_FORWARD] = "forward",
                                            [PSI_TAG_BACKWARD] = "backward",
                                            [PSI_TAG_WEIGHT] = "weight",
                                            [PSI_TAG_RECOMPUTE] = "recompute",
                                            [PSI_TAG_OPTIMIZER] = "optimizer" };
  static const char *const label_names[] = { "micro_batch", "stage", "layer" };
  PsiTime start_ps = times->start_ps - picture->begin_ps, end_ps = times->end_ps - picture->begin_ps;
  PsiTimelineValue values[4];
  char title[160];
  guint n_values = 0;
  gboolean is_work = psi_op_is_work (op);

  if (start_ps == end_ps || op->tag == PSI_TAG_TURN)
    return;
  psi_drawn_op_title (picture->step, op, title, sizeof title);
  for (guint i = 0; i < G_N_ELEMENTS (op->label); i++)
    if (op->label[i] >= 0)
      values[n_values++] = (PsiTimelineValue){ label_names[i], NULL, op->label[i] };
  if (!is_work)
    values[n_values++] =
        (PsiTimelineValue){ "sent_bytes", NULL,
                            g_array_index (picture->step->infos, PsiTransferInfo, op->transfer).sent_bytes };
  for (gint64 q = first_copy (picture, end_ps); start_ps + q * picture->period_ps < picture->length_ps; q++)
    {
      PsiTime shift_ps = q * picture->period_ps;

      psi_timeline_slice (picture->timeline, process, TRACK_OF (stream), MAX (start_ps + shift_ps, 0),
                          MIN (end_ps + shift_ps, picture->length_ps), title,
                          is_work ? categories[op->tag] : psi_traffic_names[op->tag - PSI_TAG_TRAFFIC], values,
                          n_values);
      if (picture->period_ps <= 0)
        break;
    }
}

/* ---- Arrows ---- */

/* `work_ps` is an instant in the work at that end, `message_ps` when the message starts. */
static void
add_arrow_ends (const Picture *picture, const PsiDrawnRank *drawn, PsiPortId port, PsiTime message_ps, PsiTime work_ps,
                guint stream, gboolean head)
{
  PsiTime at_ps = work_ps - picture->begin_ps;

  for (gint64 q = first_copy (picture, at_ps + 1); at_ps + q * picture->period_ps < picture->length_ps; q++)
    {
      PsiTime shift_ps = q * picture->period_ps;
      guint64 id = (guint64) (message_ps + shift_ps) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
      ArrowEnd end = {
        .process = PROCESS_OF (drawn->number), .track = TRACK_OF (stream), .time_ps = at_ps + shift_ps, .head = head
      };

      id = (id ^ id >> 31 ^ (guint64) port << 24 ^ drawn->replica) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
      end.id = id ^ id >> 29;
      g_array_append_val (picture->arrows, end);
      if (picture->period_ps <= 0)
        break;
    }
}

static const PsiOpTimes *
times_at (const PsiProgram *program, const PsiOpTimes *times, PsiOpId op)
{
  for (guint s = 0; s < PSI_OP_STREAM (op); s++)
    times += program->streams[s]->len;
  return times + PSI_OP_POSITION (op);
}

static PsiPortId
port_of (const Picture *picture, const PsiDrawnRank *drawn, const PsiOp *op)
{
  const PsiRank *rank = psi_world_rank (picture->step->world, picture->step->ranks[drawn->step_rank].id);

  return g_array_index (rank->ports, PsiPortId, op->slot);
}

/* From the end of the work a send waits for. */
static void
add_tails (const Picture *picture, const PsiDrawnRank *drawn, PsiOpId id, const PsiOp *op, const PsiOpTimes *message,
           const PsiOpTimes *times)
{
  const PsiProgram *program = program_of (picture, drawn->step_rank);

  for (guint32 d = op->first_dep; d != CHAIN_END;)
    {
      const PsiDep *dep = &g_array_index (program->deps, PsiDep, d);
      const PsiOpTimes *work = times_at (program, times, dep->op);

      if (psi_op_is_work (psi_program_op (program, dep->op)) && work->end_ps - work->start_ps >= 2 * NS)
        {
          add_arrow_ends (picture, drawn, port_of (picture, drawn, op), message->start_ps,
                          work->end_ps - NS - (PsiTime) dep->distance * picture->period_ps, PSI_OP_STREAM (dep->op),
                          FALSE);
          return;
        }
      d = dep->next;
    }
}

/* To the start of the work that waits for a receive. */
static void
add_heads (const Picture *picture, const PsiDrawnRank *drawn, PsiOpId id, const PsiOp *op, const PsiOpTimes *work,
           const PsiOpTimes *times)
{
  const PsiProgram *program = program_of (picture, drawn->step_rank);

  for (guint32 d = op->first_dep; d != CHAIN_END && work->end_ps - work->start_ps >= 2 * NS;)
    {
      const PsiDep *dep = &g_array_index (program->deps, PsiDep, d);
      const PsiOp *received = psi_program_op (program, dep->op);

      if (received->kind == PSI_OP_RECV && received->tag != PSI_TAG_TURN)
        add_arrow_ends (picture, drawn, port_of (picture, drawn, received),
                        times_at (program, times, dep->op)->start_ps - (PsiTime) dep->distance * picture->period_ps,
                        work->start_ps, PSI_OP_STREAM (id), TRUE);
      d = dep->next;
    }
}

static int
compare_arrow_ends (gconstpointer a, gconstpointer b)
{
  const ArrowEnd *first = a, *second = b;

  if (first->id != second->id)
    return first->id < second->id ? -1 : 1;
  return first->head - second->head;
}

/* Only messages of which both ends are in the picture. */
static void
draw_arrows (const Picture *picture)
{
  g_array_sort (picture->arrows, compare_arrow_ends);
  for (guint i = 0; i + 1 < picture->arrows->len; i++)
    {
      const ArrowEnd *tail = &g_array_index (picture->arrows, ArrowEnd, i), *head = tail + 1;

      if (tail->id != head->id || tail->head || !head->head || head->time_ps < tail->time_ps)
        continue;
      psi_timeline_arrow (picture->timeline, tail->process, tail->track, tail->time_ps, FALSE, i + 1, "message");
      psi_timeline_arrow (picture->timeline, head->process, head->track, head->time_ps, TRUE, i + 1, "message");
      i++;
    }
}

/* ---- Ranks ---- */

static void
draw_memory (const Picture *picture, const PsiDrawnRank *drawn)
{
  const PsiStepRank *rank = &picture->step->ranks[drawn->step_rank];
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
  g_autoptr (GArray) curve = g_array_new (FALSE, FALSE, sizeof (PsiLevelPoint));
  gboolean is_used[PSI_N_MEMORY] = { FALSE };
  PsiLevels levels;

  psi_report_memory_events (picture->step, picture->run, rank, 1, events);
  psi_account_levels (events, psi_run_fold_ps (picture->run, rank->id), picture->begin_ps, rank->base, FALSE, &levels,
                      curve);
  for (guint i = 0; i < curve->len; i++)
    for (guint c = 0; c < PSI_N_MEMORY; c++)
      is_used[c] |= g_array_index (curve, PsiLevelPoint, i).bytes[c] != 0;
  for (PsiTime shift_ps = 0; shift_ps < picture->length_ps || shift_ps == 0; shift_ps += picture->period_ps)
    {
      for (guint i = 0; i < curve->len; i++)
        {
          const PsiLevelPoint *point = &g_array_index (curve, PsiLevelPoint, i);
          PsiTimelineValue values[PSI_N_MEMORY];
          guint n_values = 0;

          if (point->time_ps + shift_ps > picture->length_ps)
            break;
          for (guint c = 0; c < PSI_N_MEMORY; c++)
            if (is_used[c])
              values[n_values++] = (PsiTimelineValue){ psi_memory_class_names[c], NULL, point->bytes[c] };
          if (n_values > 0)
            psi_timeline_counter (picture->timeline, PROCESS_OF (drawn->number), "memory, bytes",
                                  point->time_ps + shift_ps, values, n_values);
        }
      if (picture->period_ps <= 0)
        break;
    }
}

static gboolean
carries_something (const GArray *ops, const PsiOpTimes *times)
{
  for (guint i = 0; i < ops->len; i++)
    if (times[i].end_ps > times[i].start_ps && g_array_index (ops, PsiOp, i).tag != PSI_TAG_TURN)
      return TRUE;
  return FALSE;
}

static void
draw_rank (const Picture *picture, const PsiDrawnRank *drawn)
{
  const PsiProgram *program = program_of (picture, drawn->step_rank);
  const PsiOpTimes *times = times_of (picture, drawn->step_rank), *first = times;
  g_autofree char *title = psi_drawn_rank_title (picture->step, drawn);

  psi_timeline_process (picture->timeline, PROCESS_OF (drawn->number), title, PROCESS_OF (drawn->number));
  for (guint s = 0; s < program->n_streams; times += program->streams[s++]->len)
    {
      const GArray *ops = program->streams[s];

      if (carries_something (ops, times) || s == PSI_STREAM_COMPUTE)
        {
          g_autofree char *name = psi_drawn_stream_title (picture->step, s);
          psi_timeline_track (picture->timeline, PROCESS_OF (drawn->number), TRACK_OF (s), name, s);
        }
      for (guint i = 0; i < ops->len; i++)
        {
          const PsiOp *op = &g_array_index (ops, PsiOp, i);

          draw_op (picture, PROCESS_OF (drawn->number), s, op, &times[i]);
          if (op->kind == PSI_OP_SEND && op->tag != PSI_TAG_TURN)
            add_tails (picture, drawn, PSI_OP_ID (s, i), op, &times[i], first);
          else if (psi_op_is_work (op))
            add_heads (picture, drawn, PSI_OP_ID (s, i), op, &times[i], first);
        }
    }
  draw_memory (picture, drawn);
}

/* The step itself, above all ranks. */
static void
draw_step (const Picture *picture, const char *title)
{
  psi_timeline_process (picture->timeline, PROCESS_STEP, title, 0);
  psi_timeline_track (picture->timeline, PROCESS_STEP, 1, "step (from the start of the first rank)", 0);
  for (guint n = 0; picture->period_ps > 0 && n * picture->period_ps < picture->length_ps; n++)
    psi_timeline_slice (picture->timeline, PROCESS_STEP, 1, n * picture->period_ps,
                        MIN ((n + 1) * picture->period_ps, picture->length_ps), n == 0 ? "step" : "next step", "step",
                        NULL, 0);
}

static void
draw_critical_path (const Picture *picture, const PsiCriticalPath *path)
{
  psi_timeline_track (picture->timeline, PROCESS_STEP, 2, "critical path", 1);
  for (guint i = 0; i < path->segments->len; i++)
    {
      const PsiCriticalSegment *segment = &g_array_index (path->segments, PsiCriticalSegment, i);
      PsiTime start_ps = path->origin_ps + segment->start_ps - picture->begin_ps;
      PsiTime end_ps = start_ps + segment->duration_ps;
      const PsiTimelineValue values[] = { { "rank", NULL, segment->rank }, { "begins when", segment->reason, 0 } };
      char title[80];
      int length = g_snprintf (title, sizeof title, "%s", segment->what);

      if (segment->micro_batch >= 0)
        length += g_snprintf (title + length, sizeof title - (gsize) length, " %d", segment->micro_batch);
      g_snprintf (title + length, sizeof title - (gsize) length, " on rank %u", segment->rank);
      for (gint64 q = first_copy (picture, end_ps); start_ps + q * picture->period_ps < picture->length_ps; q++)
        {
          PsiTime shift_ps = q * picture->period_ps;

          if (MIN (end_ps + shift_ps, picture->length_ps) > MAX (start_ps + shift_ps, 0))
            psi_timeline_slice (picture->timeline, PROCESS_STEP, 2, MAX (start_ps + shift_ps, 0),
                                MIN (end_ps + shift_ps, picture->length_ps), title, "critical", values,
                                G_N_ELEMENTS (values));
          if (picture->period_ps <= 0)
            break;
        }
    }
}

gboolean
psi_timeline_write_step (const char *path, const char *title, const PsiStep *step, const PsiRun *run, const char *ranks,
                         const PsiCriticalPath *critical, GError **error)
{
  Picture picture = { .step = step, .run = run, .period_ps = run->cycle == 1 ? run->period_ps : 0 };
  g_autoptr (GArray) drawn = psi_drawn_ranks_list (step, ranks, error);

  if (drawn == NULL)
    return FALSE;
  g_autoptr (PsiTimeline) timeline = psi_timeline_open (path, error);
  if (timeline == NULL)
    return FALSE;
  g_autoptr (GArray) arrows = g_array_new (FALSE, FALSE, sizeof (ArrowEnd));
  picture.timeline = timeline;
  picture.arrows = arrows;
  find_window (&picture, drawn);
  draw_step (&picture, title);
  if (critical != NULL)
    draw_critical_path (&picture, critical);
  for (guint i = 0; i < drawn->len; i++)
    {
      const PsiDrawnRank *rank = &g_array_index (drawn, PsiDrawnRank, i);

      if (run->paces_ps != NULL)
        picture.period_ps = psi_run_fold_ps (run, step->ranks[rank->step_rank].id);
      draw_rank (&picture, rank);
    }
  draw_arrows (&picture);
  return psi_timeline_close (g_steal_pointer (&timeline), error);
}
