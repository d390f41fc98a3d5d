/* SPDX-License-Identifier: MIT */
/* A rank's list of tokens, one after another. Overlapped tokens begin and end together; receives and gathers are posted
 * ahead of the token that needs them, but not before an earlier one is over. */
#include "step.h"

#include <string.h>

/* Overlapped tokens: none begins before all can, and what they make leaves when the last is over. */
static void
join (PsiStepRank *rank, guint n_receives)
{
  PsiProgram *program = rank->program;
  PsiOpId first = PSI_OP_ID (PSI_STREAM_COMPUTE, rank->group_start[PSI_STREAM_COMPUTE]);
  PsiOpId last = g_array_index (rank->marks, PsiOpId, rank->marks->len - 1);

  for (guint s = PSI_STREAM_BOUNDARY; s < program->n_streams; s++)
    for (guint i = rank->group_start[s]; i < program->streams[s]->len; i++)
      if (psi_program_op (program, PSI_OP_ID (s, i))->kind == PSI_OP_RECV)
        psi_program_after (program, first, PSI_OP_ID (s, i), 0);
      else
        psi_program_after (program, PSI_OP_ID (s, i), last, 0);
  for (guint i = n_receives; i < rank->receives->len; i++)
    g_array_index (rank->receives, PsiGate, i).position--;
  g_array_remove_index (rank->marks, rank->marks->len - 2); /* one mark for the group */
}

void
psi_step_token (PsiStep *step, PsiStepRank *rank, const PsiToken *token)
{
  PsiProgram *program = rank->program;
  guint before[PSI_MAX_STREAMS], n_receives = rank->receives->len;

  for (guint s = 0; s < program->n_streams; s++)
    before[s] = program->streams[s]->len;
  if (!token->joined)
    memcpy (rank->group_start, before, program->n_streams * sizeof *before);
  GArray *sends = rank->sends; /* what the group itself sends, it does not wait for */
  if (token->joined)
    rank->sends = g_array_new (FALSE, FALSE, sizeof (PsiOpId));
  if (token->kind == PSI_TOKEN_FORWARD)
    psi_step_forward (step, rank, token);
  else
    psi_step_backward (step, rank, token);
  if (token->joined)
    {
      join (rank, n_receives);
      g_array_append_vals (rank->sends, sends->data, sends->len);
      g_array_unref (sends);
    }
  for (guint s = 0; s < program->n_streams && token->shift > 0; s++)
    for (guint i = before[s]; i < program->streams[s]->len; i++)
      psi_program_shift (program, PSI_OP_ID (s, i), token->shift);
}

static void
close_gates (PsiStepRank *rank, const GArray *gates, const GArray *list)
{
  for (guint i = 0; i < gates->len; i++)
    {
      const PsiGate *gate = &g_array_index (gates, PsiGate, i);
      int position = gate->position, n = (int) list->len;
      guint distance = 0;

      while (position < 0 && n > 0)
        {
          position += n;
          distance++;
        }
      if (n > 0 && distance <= 1)
        psi_program_after (rank->program, gate->op, g_array_index (list, PsiOpId, position), distance);
    }
}

void
psi_step_close_gates (PsiStepRank *rank)
{
  close_gates (rank, rank->receives, rank->marks);
  close_gates (rank, rank->gathers, rank->uses);
}
