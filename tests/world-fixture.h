/* SPDX-License-Identifier: MIT */
/* Worlds that run without an error, and what became of one op. */
#pragma once

#include "psi-run.h"

/* (transfer full) */
static inline PsiRun *
run_world (PsiWorld *world, guint max_iterations, gboolean no_jump)
{
  g_autoptr (GError) error = NULL;
  PsiRunOptions options = { .max_iterations = max_iterations, .no_jump = no_jump };
  PsiRun *run = psi_run (world, &options, &error);

  g_assert_no_error (error);
  return run;
}

static inline const PsiOpTimes *
times_of (const PsiRun *run, const PsiWorld *world, PsiRankId rank, PsiOpId op)
{
  const PsiProgram *program = psi_world_rank (world, rank)->program;
  gsize at = run->first_op[rank] + PSI_OP_POSITION (op);

  for (guint s = 0; s < PSI_OP_STREAM (op); s++)
    at += program->streams[s]->len;
  return &run->times[at];
}
