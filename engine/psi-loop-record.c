/* SPDX-License-Identifier: MIT */
#include "psi-loop-record.h"

#include "psi-fold.h"
#include "psi-hash.h"
#include "psi-pace.h"

/* Weights of an op's start and end in the sum of its iteration. */
static inline guint64
weight_of (const PsiLoop *loop, guint32 index, guint32 position, gboolean is_end)
{
  return psi_hash_mix ((guint64) index << 33 | (guint64) position << 1 | is_end);
}

static void
add_to_sum (PsiLoop *loop, guint32 index, PsiTime start_ps, PsiTime end_ps)
{
  const PsiStream *stream = &loop->streams[index];
  PsiIteration *iteration = &loop->iterations[stream->iteration % PSI_LOOP_AHEAD];

  iteration->sum += weight_of (loop, index, stream->position, FALSE) * (guint64) start_ps +
                    weight_of (loop, index, stream->position, TRUE) * (guint64) end_ps;
  if (index == loop->reference && stream->position == 0)
    iteration->reference_ps = end_ps;
}

void
psi_loop_record (PsiLoop *loop, const PsiStream *stream, PsiStreamDetail *detail, PsiTime now_ps)
{
  PsiOpTimes *times = &detail->times[stream->position];

  if (loop->sums)
    add_to_sum (loop, (guint32) (stream - loop->streams), detail->start_ps, now_ps);
  if (loop->pace != NULL)
    psi_pace_account (loop, stream, detail, now_ps);
  else if (stream->iteration > 0)
    {
      PsiIteration *iteration = &loop->iterations[stream->iteration % PSI_LOOP_AHEAD];
      PsiTime start_shift_ps = detail->start_ps - times->start_ps, end_shift_ps = now_ps - times->end_ps;

      iteration->least_ps = MIN (iteration->least_ps, MIN (start_shift_ps, end_shift_ps));
      iteration->most_ps = MAX (iteration->most_ps, MAX (start_shift_ps, end_shift_ps));
    }
  times->start_ps = detail->start_ps;
  times->end_ps = now_ps;
  if (detail->waits != NULL)
    detail->waits[stream->position] = detail->wait;
  const PsiOp *op = &stream->ops[stream->position];
  if (op->kind == PSI_OP_SERVE)
    detail->sent_ps = psi_pace_sent_ps (detail, now_ps);
  else if (op->kind != PSI_OP_WORK)
    detail->sent_ps = detail->wait.moving_ps;
  else if (op->transfer == 0)
    detail->sent_ps = PSI_TIME_MAX;
  else
    {
      const PsiFold *fold = psi_op_fold (psi_world_rank (loop->world, detail->rank)->program, op);

      detail->sent_ps = fold->ends_in_message ? now_ps - fold->tail_ps : PSI_TIME_MAX;
    }
}

guint32
psi_loop_keep_sums (PsiLoop *loop, guint64 *ret_weight)
{
  guint64 weight = 0;

  while (loop->reference + 1 < loop->n_streams && loop->streams[loop->reference].length == 0)
    loop->reference++;
  for (guint32 s = 0; s < loop->n_streams; s++)
    for (guint32 i = 0; i < loop->streams[s].length; i++)
      weight += weight_of (loop, s, i, FALSE) + weight_of (loop, s, i, TRUE);
  loop->sums = TRUE;
  *ret_weight = weight;
  return loop->complete + PSI_LOOP_AHEAD;
}
