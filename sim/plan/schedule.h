/* SPDX-License-Identifier: MIT */
/* A schedule: the order of work of every rank, as data. One file and one row for each kind; the same text
 * (`psisim schedule show`) is executed by the simulator in virtual time and by the training programs on real tensors. */
#pragma once

#include <glib.h>

typedef enum
{
  PSI_TOKEN_FORWARD,         /* F */
  PSI_TOKEN_BACKWARD,        /* B: input and weight half */
  PSI_TOKEN_BACKWARD_INPUT,  /* I */
  PSI_TOKEN_BACKWARD_WEIGHT, /* W */
  PSI_TOKEN_UPDATE,          /* U: micro_batch is not used */
  PSI_N_TOKEN_KINDS
} PsiTokenKind;

/* One entry of a rank's list. */
typedef struct
{
  guint8 kind;        /* PsiTokenKind */
  guint8 stale;       /* `@-1`: uses the previous step's parameters */
  gint16 chunk;       /* which of the rank's model parts */
  gint32 micro_batch; /* within the step */
  gint32 wait_rank;   /* `>r:`: -1, or the rank whose token of the same kind, micro-batch ... */
  gint32 wait_token;  /* ... and position in that rank's list must be done first */
} PsiToken;

typedef struct
{
  guint n_ranks;
  guint n_chunks;      /* model parts per rank */
  guint n_parts;       /* K */
  gint64 micro_batches; /* per step, all ranks' together when every rank holds every part */
  guint *parts;        /* [chunk * n_ranks + rank] -> part */
  GArray **lists;      /* [rank] of PsiToken: one step, repeated */
  guint steps;         /* steps that one repetition covers, 1 */
} PsiSchedule;

PsiSchedule *psi_schedule_new (guint n_ranks, guint n_chunks, gint64 micro_batches);
void psi_schedule_free (PsiSchedule *schedule);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiSchedule, psi_schedule_free)
static inline guint
psi_schedule_part (const PsiSchedule *schedule, guint rank, guint chunk)
{
  return schedule->parts[chunk * schedule->n_ranks + rank];
}
/* Append a token to a rank's list; returns its position. */
guint psi_schedule_add (PsiSchedule *schedule, guint rank, PsiTokenKind kind, gint64 micro_batch, guint chunk);

/* What a schedule file needs to know to write its order. */
typedef struct
{
  guint ranks;          /* pipeline ranks, or workers of a cyclic schedule */
  guint chunks;         /* model parts per rank */
  gint64 micro_batches; /* per step and replica */
  gboolean keeps_all;   /* no pipeline: all forwards before the first backward */
  /* cyclic only */
  guint workers, stages;
  gboolean one_rank;    /* all workers on one GPU */
  gboolean by_stage;    /* one rank for each stage, all workers pass through */
  gboolean delayed;     /* v1: every version one step old */
  const gint64 *forward_ps, *backward_ps; /* [stages] times of one stage, for the virtual timeline; NULL = equal */
} PsiScheduleShape;

/* A kind of schedule: one file, one row in psi_schedules[]. */
typedef struct
{
  const char *name;    /* "1f1b" */
  const char *summary; /* one line for `list schedules` */
  const char *shape;   /* words on ranks, chunks, in-flight and bubble */
  /* Returns (transfer full); a shape it cannot serve is an error. */
  PsiSchedule *(*build) (const PsiScheduleShape *shape, GError **error);
} PsiScheduleKind;

extern const PsiScheduleKind *const psi_schedules[]; /* NULL-ended */
const PsiScheduleKind *psi_schedule_kind_find (const char *name);

/* The text of the schedule file format (psisim-schedule 1). (transfer full) */
char *psi_schedule_to_text (const PsiSchedule *schedule, const char *comment);
