/* SPDX-License-Identifier: MIT */
/* A grid between the file that builds it and the one that draws it. */
#pragma once

#include "grid.h"

/* Work of the first step. */
typedef struct
{
  gint64 start_ps, end_ps;
  gint64 freed_ps; /* forward: when the activations it makes are given back */
  guint8 kind;     /* PsiSpanKind */
  gint32 micro_batch, stage;
  guint gpu;  /* row it is drawn in, ... */
  guint pool; /* ... or of so many rows from there on, by turns; 1 = that row alone */
} PsiGridOp;

typedef struct
{
  guint first, last; /* GPUs */
} PsiGpuRow;

struct _PsiGrid
{
  GArray *ops;      /* of PsiGridOp */
  GArray *gpu_rows; /* of PsiGpuRow */
  gint64 period_ps, slot_ps, origin_ps;
  guint first_column; /* shown */
  guint n_steps, n_columns, period_columns;
  guint n_stages, n_micro_batches;   /* of one step of all workers */
  double *sent_bytes[PSI_N_TRAFFIC]; /* [period_columns], NULL if there is no such traffic */
};

/* The slot that begins nearest to a time. */
static inline guint
psi_grid_column (const PsiGrid *grid, gint64 time_ps)
{
  return (guint) ((time_ps + grid->slot_ps / 2) / grid->slot_ps);
}
