/* SPDX-License-Identifier: MIT */
/* A step as a grid of slots: what runs where in each slot, and how many activations and messages there are then. The
 * unit of time, a slot, is the shortest op of the run. For models of equal stages on a machine whose links take no
 * time; other runs are drawn to the nearest slot. */
#pragma once

#include "psi-run.h"
#include "step.h"
#include "table-text.h"

typedef struct _PsiGrid PsiGrid;

/* `n_steps` steps are drawn from the very first on, so that the warm-up shows; 0: one step, long after the start. The
 * step and its run are read, not kept. (transfer full) */
PsiGrid *psi_grid_new (const PsiStep *step, const PsiRun *run, guint n_steps);
void psi_grid_free (PsiGrid *grid);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiGrid, psi_grid_free)

typedef enum
{
  PSI_GRID_STAGES = 1 << 0, /* one row for each stage, the last one on top: which micro-batches are there */
  PSI_GRID_GPUS = 1 << 1    /* one row for each GPU; a tensor-parallel group is one row */
} PsiGridRows;

/* Append the grid, the activations in each slot and what is sent at its end.
 *
 * Cells: `b^` forward, `bv` backward, `bw` weight half. As in Figure 1 of arXiv 2403.08837 three micro-batches are b, r
 * and y; other numbers of them are 0, 1, 2, ...; where a step has one, they count the steps. A GPU that has one
 * micro-batch and several stages shows the stage, from 1; one with several of both shows both. Activations are counted
 * in stages of one micro-batch (Psi_A / K); what a slot's op makes or gives back counts for the whole slot. Gradients
 * and parameters are counted in stages (Psi_P / K), other traffic in boundary tensors (Psi_int); with several steps
 * traffic is shown from the second on, when it repeats. */
void psi_grid_append (const PsiGrid *grid, PsiGridRows rows, double psi_p_bytes, double psi_int_bytes, GString *out,
                      const PsiTerminal *terminal);

/* A number as a fraction with a small denominator, "5/3", if it is one within 1e-6; else with four digits. */
char *psi_format_fraction (double value);
