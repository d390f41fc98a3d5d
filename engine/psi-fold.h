/* SPDX-License-Identifier: MIT */
/* Passes: several ops of stream 0, one after another, as one op of work.
 *
 * A stretch of ops of which only the first waits for anything and only the last is waited for takes the same time
 * wherever it stands, if its messages find their links idle: the sum of its parts. It is simulated as one op; what is
 * read off a run (time, memory, traffic, chains, digest) looks at the parts and comes out the same, to the last bit.
 *
 * Folding is a promise about the whole world, so psi_world_folds_hold() must be asked once all of it is built. It is
 * not for ranks whose work is scaled or has jitter. */
#pragma once

#include "psi-program.h"

/* An op of a fold: PsiProgram.parts. */
typedef struct
{
  PsiOp op;
  PsiTime start_ps, end_ps; /* from the start of the fold */
} PsiPart;

/* PsiProgram.folds. */
typedef struct
{
  guint32 first_part, n_parts;
  PsiTime cost_ps;
  PsiTime tail_ps;            /* of the messages at its end, without work between them */
  guint tail_hops, most_hops; /* PsiTransfer.hops of those, and of any such stretch inside */
  gboolean ends_in_message;
} PsiFold;

/* Fold the ops of stream 0 of a rank's program from `position` to the end into one, with the tag and label of the
 * first. Returns the number of the fold, to be used again by psi_program_add_fold(); G_MAXUINT32, and nothing is done,
 * if there are fewer than two, if the first is no work, or if one of them waits for another op. */
guint32 psi_world_fold (PsiWorld *world, PsiRankId rank, guint position);
/* Append the same ops once more. */
PsiOpId psi_program_add_fold (PsiProgram *program, guint32 fold);

/* Do two folds do the same, with the same memory, whatever their labels? */
gboolean psi_program_folds_equal (const PsiProgram *program, guint32 a, guint32 b);

/* Do all messages of folds have their links to themselves? Other ops may load those links if they are of the same
 * stream, or if what they wait for and what waits for them keeps them from running beside a fold; an op of a rank
 * without a part in it spoils it. */
gboolean psi_world_folds_hold (const PsiWorld *world);

/* What a message takes over a port whose links are idle, latency included; PSI_TIME_MAX: for ever. */
PsiTime psi_world_idle_time_ps (const PsiWorld *world, PsiPortId port, const PsiTransfer *transfer);

static inline guint
psi_program_n_folds (const PsiProgram *program)
{
  return program->folds != NULL ? program->folds->len : 0;
}

static inline guint
psi_program_n_parts (const PsiProgram *program)
{
  return program->parts != NULL ? program->parts->len : 0;
}

/* The fold of an op, NULL: it is none. */
static inline const PsiFold *
psi_op_fold (const PsiProgram *program, const PsiOp *op)
{
  return op->kind == PSI_OP_WORK && op->transfer > 0 ? &g_array_index (program->folds, PsiFold, op->transfer - 1)
                                                     : NULL;
}

static inline const PsiPart *
psi_fold_parts (const PsiProgram *program, const PsiFold *fold)
{
  return &g_array_index (program->parts, PsiPart, fold->first_part);
}
