/* SPDX-License-Identifier: MIT */
/* A schedule: the order of work of every rank, as data. One file and one row for each kind; the same text
 * (`psisim schedule show`) is executed by the simulator in virtual time and by the training programs on real tensors.
 */
#pragma once

#include <glib.h>

typedef enum
{
  PSI_TOKEN_FORWARD,         /* F */
  PSI_TOKEN_BACKWARD,        /* B: input and weight half */
  PSI_TOKEN_BACKWARD_INPUT,  /* I */
  PSI_TOKEN_BACKWARD_WEIGHT, /* W */
  PSI_TOKEN_UPDATE,          /* U: the chunk's parameters become the next version */
  PSI_N_TOKEN_KINDS
} PsiTokenKind;
extern const char psi_token_letters[PSI_N_TOKEN_KINDS];

/* One entry of a rank's list. The lists repeat, one repetition a step; a token with shift s works, in repetition n, for
 * step n - s: that is how a cyclic rank finishes one step while it begins the next. */
typedef struct
{
  guint8 kind; /* PsiTokenKind */
  guint8 shift;
  guint8 joined;      /* F4+B1.1: overlapped with the token before it; both begin and both end together */
  guint8 stale;       /* @-2: uses the parameters of so many steps before (files only) */
  gint16 chunk;       /* which of the rank's model parts */
  guint16 n_waits;    /* >2:B0.1 (files only), from first_wait on in the schedule's waits */
  gint32 micro_batch; /* of the step; cyclic: worker * micro-batches of a worker + its own number; U: -1 */
  gint32 first_wait;
} PsiToken;

/* A token waits until that rank has done that op. */
typedef struct
{
  guint rank;
  guint8 kind;
  gint16 chunk;
  gint32 micro_batch;
} PsiTokenWait;

typedef struct
{
  guint n_ranks;
  guint n_chunks;       /* model parts per rank */
  guint n_parts;        /* K */
  gint64 micro_batches; /* per step; of all ranks together when every rank holds every part */
  guint *parts;         /* [chunk * n_ranks + rank] -> part */
  GArray **lists;       /* [rank] of PsiToken */

  /* Two chunks may be copies of one part: the rank and chunk that run a part for a micro-batch, as chunk * n_ranks +
   * rank at [part * micro_batches * steps + micro_batch]. NULL: one place for each part, or ranks that are workers. */
  guint *places;

  /* Lists that repeat, as schedule files write them. */
  GArray **once;        /* [rank] run once, before the lists begin to repeat; NULL: nothing is */
  guint steps;          /* training steps that one repetition covers; 0 counts as 1 */
  GArray *waits;        /* of PsiTokenWait, or NULL */
  gboolean has_updates; /* U tokens say when a chunk is updated; else every list ends in the update of its chunks */
  gboolean whole;       /* every rank holds every part and is a worker of its own */
  gboolean replicas; /* ... and numbers its micro-batches from 0 on its own: micro_batches is what one of them runs */

  /* Cyclic schedules only; n_workers 0 otherwise. */
  guint n_workers;
  gint64 worker_micro_batches;
  gboolean one_worker; /* every rank works for one worker only */
  gint64 *start_ps;    /* [worker] virtual start of its step 0, from that of worker 0; ascending */
  guint *start_token;  /* [worker] token of worker i - 1 whose end is the first not before that (one rank per worker) */
  guint *owner;        /* [part] the first worker to use a new version */
  guint8 *stale;       /* [worker * n_parts + part]: uses the parameters of so many steps before */
  gint64 *first_use_ps; /* [worker * n_parts + part]: virtual start of its first forward of that part, from step 0 */
  gint64 *lifetime_ps;  /* [part] from the start of a worker's first forward to the end of its last backward */
  gint64 *forward_ps, *backward_ps; /* [part] time of one forward or backward, on the virtual timeline */
  gint64 period_ps;                 /* of the virtual timeline */
  guint *pool; /* [part] GPUs that share the part's work, NULL unless workers share GPUs of a stage */
} PsiSchedule;

PsiSchedule *psi_schedule_copy (const PsiSchedule *schedule); /* of one without workers. (transfer full) */
PsiSchedule *psi_schedule_new (guint n_ranks, guint n_chunks, gint64 micro_batches);
void psi_schedule_free (PsiSchedule *schedule);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiSchedule, psi_schedule_free)
static inline guint
psi_schedule_part (const PsiSchedule *schedule, guint rank, guint chunk)
{
  return schedule->parts[chunk * schedule->n_ranks + rank];
}
/* The order of one rank that holds the whole model, with a chunk for each of `n_parts` parts. (transfer full) */
PsiSchedule *psi_schedule_by_part (const PsiSchedule *schedule, guint n_parts);
/* Append a token to a rank's list. */
void psi_schedule_add (PsiSchedule *schedule, guint rank, PsiTokenKind kind, gint64 micro_batch, guint chunk);
/* The same, overlapped with the token before it. */
void psi_schedule_add_joined (PsiSchedule *schedule, guint rank, PsiTokenKind kind, gint64 micro_batch, guint chunk);
/* Part of chunk 1 on rank r becomes 2 ranks - 1 - r: the model goes down the ranks and comes back. */
void psi_schedule_fold (PsiSchedule *schedule);
/* Fill `places` from the lists. */
void psi_schedule_find_places (PsiSchedule *schedule);
/* The rank that runs a part for a micro-batch; `places` must be filled. */
guint psi_schedule_place (const PsiSchedule *schedule, guint part, gint64 micro_batch);

/* Where the workers of a cyclic schedule run. */
typedef enum
{
  PSI_PLACEMENT_SEPARATE, /* a GPU for each worker (and stage) */
  PSI_PLACEMENT_SHARED,   /* workers share one GPU, or with stages the GPUs of a stage */
  PSI_PLACEMENT_STAGE     /* one GPU for each stage */
} PsiPlacement;

/* Embedding and head split over the pipeline: how the ranks agree on the softmax. */
typedef enum
{
  PSI_VOCABULARY_ENDS, /* not split: first and last rank have them */
  PSI_VOCABULARY_TWO_BARRIERS,
  PSI_VOCABULARY_ONE_BARRIER,
  PSI_VOCABULARY_INTERLACED /* all ranks at once */
} PsiVocabulary;

/* What a schedule file needs to know to write its order. */
typedef struct
{
  guint ranks;          /* pipeline ranks */
  guint chunks;         /* model parts per rank */
  gint64 micro_batches; /* per step and replica (cyclic: per worker) */
  gboolean keeps_all;   /* all forwards before the first backward */
  PsiVocabulary vocabulary;
  /* cyclic only */
  guint workers, stages;
  PsiPlacement placement;
  gboolean by_stage;                      /* the model is cut over GPUs */
  gboolean delayed;                       /* v1: every version one step old */
  gboolean random;                        /* workers of GPUs of their own begin anywhere within the step ... */
  guint64 seed;                           /* ... by this start of the random numbers */
  const gint64 *forward_ps, *backward_ps; /* [stages] times of one stage, for the virtual timeline */
  const gint64 *weight_ps;                /* [stages] the weight half of backward_ps */
  gint64 transfer_ps;                     /* of a boundary tensor from one rank to the next */
  gint64 in_flight;                       /* auto: memory of 1F1B with so many ranks; 0 = as many as there are */
  const gint64 *kept_bytes,
      *late_bytes; /* [stages] activations of a micro-batch, and what its weight half needs of them */
} PsiScheduleShape;

/* A kind of schedule: one file, one row in psi_schedules[]. */
typedef struct
{
  const char *name;    /* "1f1b" */
  const char *summary; /* one line for `list schedules` */
  guint chunks;        /* model parts per rank unless vpp is written; 0 = 1 */
  guint copies;        /* places of each part; 0 = 1 */
  gboolean cyclic;     /* the workers' steps overlap: nobody waits for a flush */
  /* Returns (transfer full); a shape it cannot serve is an error. */
  PsiSchedule *(*build) (const PsiScheduleShape *shape, GError **error);
} PsiScheduleKind;

extern const PsiScheduleKind *const psi_schedules[]; /* NULL-ended */
const PsiScheduleKind *psi_schedule_kind_find (const char *name);

/* The text of a schedule file (psisim-schedule 1), `comment` (or NULL) in its second line. A schedule of one rank is
 * printed for all `replicas`. (transfer full); NULL: shared GPUs begin again only after too many steps to print. */
char *psi_schedule_to_text (const PsiSchedule *schedule, guint replicas, const char *comment);

#define PSI_SCHEDULE_ERROR (psi_schedule_error_quark ())
typedef enum
{
  PSI_SCHEDULE_ERROR_SHAPE,   /* a schedule cannot serve so many ranks, parts or micro-batches */
  PSI_SCHEDULE_ERROR_READ,    /* no such file */
  PSI_SCHEDULE_ERROR_SYNTAX,  /* the text is no schedule */
  PSI_SCHEDULE_ERROR_OPS,     /* a missing, doubled or misplaced op */
  PSI_SCHEDULE_ERROR_DEADLOCK /* ranks wait for each other in a circle */
} PsiScheduleError;
GQuark psi_schedule_error_quark (void);

extern const PsiScheduleKind psi_schedule_none, psi_schedule_naive, psi_schedule_gpipe, psi_schedule_breadth_first,
    psi_schedule_1f1b, psi_schedule_interleaved, psi_schedule_zb_h1, psi_schedule_zb_h2, psi_schedule_zb_v,
    psi_schedule_v_half, psi_schedule_v_min, psi_schedule_dualpipe, psi_schedule_dualpipe_v, psi_schedule_cyclic,
    psi_schedule_pipedream, psi_schedule_pipedream_2bw, psi_schedule_auto;
