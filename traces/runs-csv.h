/* SPDX-License-Identifier: MIT */
/* Measured training runs, one a row: a CSV file (RFC 4180: quoted cells, doubled quotes) with a header. Columns may
 * stand in any order; those that are missing count as empty everywhere, those that are not known are kept by name. */
#pragma once

#include <glib.h>

typedef enum
{
  PSI_RUN_ID,
  PSI_RUN_GROUP,
  PSI_RUN_SOURCE,
  PSI_RUN_FRAMEWORK,
  PSI_RUN_OUTCOME,     /* ok oom fail */
  PSI_RUN_STEP_TIME_S, /* seconds per optimizer step */
  PSI_RUN_PEAK_BYTES,
  PSI_RUN_MEMORY_KIND, /* allocated reserved device allocated-last-rank unknown */
  PSI_RUN_TIGHT,       /* yes: complete enough to be scored strictly */
  PSI_RUN_NOTES,
  PSI_N_RUN_COLUMNS
} PsiRunColumn;

typedef struct
{
  GPtrArray *names;               /* of char*: the header */
  GPtrArray *runs;                /* of PsiMeasuredRun* */
  int columns[PSI_N_RUN_COLUMNS]; /* where each known column stands, -1 = missing */
} PsiRunTable;

typedef struct
{
  guint line;   /* of the file, from 1 */
  char **cells; /* as many as names; "" = unknown */
} PsiMeasuredRun;

/* Read a file. A file without `id`, a row with another number of cells than the header and an open quote are errors.
 * (transfer full) */
PsiRunTable *psi_run_table_load (const char *file, GError **error);
void psi_run_table_free (PsiRunTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiRunTable, psi_run_table_free)

/* The text of a cell, "" if unknown or no such column. */
const char *psi_run_cell (const PsiRunTable *table, const PsiMeasuredRun *run, PsiRunColumn column);

/* The number in a cell, or NAN if it is empty or no number. */
double psi_run_number (const PsiRunTable *table, const PsiMeasuredRun *run, PsiRunColumn column);

/* Append a cell to a line of CSV, quoted where it must be. */
void psi_run_append_cell (GString *line, const char *text);

#define PSI_RUNS_ERROR (psi_runs_error_quark ())
typedef enum
{
  PSI_RUNS_ERROR_READ,
  PSI_RUNS_ERROR_SYNTAX
} PsiRunsError;
GQuark psi_runs_error_quark (void);
