/* SPDX-License-Identifier: MIT */
/* Workload trace: any network as one row for each layer, written by traces/export_torch.py.
 *
 * Text, tab-separated. First line `psisim-trace 1`. Lines that begin with `#` are comments, among them the command
 * that made the file. Then `name VALUE`, `parameters VALUE` (whole model, shared tensors once), then a header line
 * with the column names, then the rows. Numbers are for ONE sample unless said otherwise. */
#pragma once

#include <glib.h>

typedef struct
{
  char *name;                          /* "layer1.0.conv1" */
  gint64 parameters;                   /* elements */
  double forward_flops, backward_flops;
  double forward_bytes, backward_bytes; /* read plus written, fp32 as traced */
  gint64 saved_bytes;                  /* kept for the backward, storage shared with other layers counted once */
  gint64 output_bytes;
  guint n_inputs;                      /* `inputs` column: "-" for the first layer, else row numbers from 0: "3" or "3,7" */
  guint inputs[4];
} PsiTraceLayer;

typedef struct
{
  char *name;
  gint64 parameters;
  guint element_bytes;  /* width the byte columns were traced at: 4 */
  GArray *layers;       /* of PsiTraceLayer */
} PsiWorkloadTrace;

/* (transfer full); errors name file and line. */
PsiWorkloadTrace *psi_workload_trace_load (const char *file, GError **error);
void psi_workload_trace_free (PsiWorkloadTrace *trace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiWorkloadTrace, psi_workload_trace_free)

#define PSI_TRACE_ERROR (psi_trace_error_quark ())
typedef enum
{
  PSI_TRACE_ERROR_READ,
  PSI_TRACE_ERROR_SYNTAX
} PsiTraceError;
GQuark psi_trace_error_quark (void);
