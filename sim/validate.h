/* SPDX-License-Identifier: MIT */
/* Predictions held beside measurements: every run of a file simulated, and the errors by source.
 *
 *   validate.c           one run: settings, simulation, the row's own counter
 *   validate-settings.c  cells of a row -> settings of a scenario
 *   validate-score.c     errors, verdicts and orders, summed up by source */
#pragma once

#include "runs-csv.h"
#include "keys.h"

typedef enum
{
  PSI_OUTCOME_UNKNOWN,
  PSI_OUTCOME_OK,
  PSI_OUTCOME_OOM
} PsiOutcome;
extern const char *const psi_outcome_names[]; /* "", "ok", "oom" */

/* What was predicted for one run. Numbers are NAN where nothing was predicted or measured. */
typedef struct
{
  const PsiMeasuredRun *run;
  char *id, *source, *group;
  char *failure;        /* why there is no prediction, else NULL */
  char *doubt;          /* the first measured cell that says nothing, and what would be allowed; else NULL */
  double step_time_s;   /* predicted */
  double low_s, high_s; /* its band; NAN: the machine has none */
  double peak_bytes;    /* predicted, in the row's own counter */
  double steady_bytes;  /* predicted, allocated between steps, of the same rank */
  PsiOutcome outcome;   /* predicted */
  double measured_s, measured_bytes, measured_steady_bytes;
  PsiOutcome measured; /* unknown for runs that crashed for an unknown reason */
  double time_error;   /* predicted / measured - 1 */
  double memory_error, steady_error;
  GPtrArray *assumptions; /* of char*: empty cells and what they were taken for */
} PsiPrediction;

/* Relative errors of one quantity over some runs. */
typedef struct
{
  guint n;
  double mean, median, p90; /* of absolute errors */
  double bias;              /* mean of signed errors */
} PsiErrors;

typedef struct
{
  char *source; /* "all" for the sum */
  guint n_rows, n_failed;
  PsiErrors time, memory, steady;
  guint n_banded;       /* measured times whose prediction has a band */
  double inside, width; /* share of them inside it; mean of (high - low) / predicted */
  guint verdicts[2][2]; /* [measured oom?][predicted oom?] of runs that say which */
  guint n_groups;       /* groups of at least three alternatives with a measured time */
  double tau;           /* Kendall's tau-b of measured and predicted times, mean over groups */
  double regret;        /* time lost by taking the predicted best of a group, mean over groups */
} PsiSourceScore;

typedef struct
{
  PsiRunTable *table;
  GPtrArray *predictions; /* of PsiPrediction*, in file order, of the rows chosen */
  GArray *scores;         /* of PsiSourceScore, in order of appearance, the last one "all" */
} PsiValidation;

typedef struct
{
  const char *const *sources; /* NULL-ended; NULL: all */
  gboolean strict;            /* only rows whose `tight` is yes */
} PsiValidateOptions;

/* Predict every chosen run of the file. A row that cannot be predicted says why in `failure`; an unreadable file or a
 * source that no row has is an error. (transfer full) */
PsiValidation *psi_validate (const char *file, const PsiValidateOptions *options, GError **error);
void psi_validation_free (PsiValidation *validation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiValidation, psi_validation_free)

/* The file of -o: id, predictions and errors of every chosen row. (transfer full) */
char *psi_validation_to_csv (const PsiValidation *validation);
/* One object, a line feed at the end. (transfer full) */
char *psi_validation_to_json (const PsiValidation *validation);
/* The table of ACCURACY.md: one row for each source, in Markdown. (transfer full) */
char *psi_validation_to_markdown (const PsiValidation *validation);

/* ---- Shared by the validate-*.c files ---- */

/* Settings of a row. Names what empty cells were taken for in `assumptions` (of char*). `where` of a value is its key.
 * (transfer full) */
PsiSettings *psi_validate_settings (const PsiRunTable *table, const PsiMeasuredRun *run, GPtrArray *assumptions,
                                    GError **error);
/* Fill validation->scores. */
void psi_validate_score (PsiValidation *validation);
void psi_validate_errors (GArray *errors, PsiErrors *ret_errors); /* of double, sorted on return */
/* Kendall's tau-b of two lists, NAN if one of them is constant. */
double psi_validate_tau (const double *x, const double *y, guint n);
