/* SPDX-License-Identifier: MIT */
/* Workload trace: any network as one row for each layer, written by traces/export_torch.py.
 *
 * Text, columns separated by tabs, UTF-8. Numbers are for ONE sample.
 *
 *   psisim-trace 1                     first line; the number is the version
 *   # any comment                      among them the command that made the file; allowed on any later line
 *   name VALUE                         required
 *   parameters VALUE                   required: elements of the whole model, shared tensors once
 *   element_bytes VALUE                optional: width the byte columns were traced at, 2 or 4; default 4
 *   name<TAB>parameters<TAB>...        the line that holds the column names; any order
 *   ROW                                one line per layer, in order of execution
 *
 * Columns (all required but the last five):
 *   name            "layer1.0.conv1"; not empty
 *   parameters      elements first used by this layer
 *   forward_flops, backward_flops   2 per multiply-add; backward = input part + weight part
 *   forward_bytes, backward_bytes   activations and their gradients read plus written; the parameters are NOT in it,
 *                   because a micro-batch reads them once and not once per sample
 *   saved_bytes     floating-point tensors kept for the backward; a storage that several layers keep counts at the
 *                   first of them; parameters never count
 *   output_bytes    what the layer hands on
 *   inputs          row numbers (from 0) of the layers whose outputs it reads, ascending, up to 4: "3" or "3,7";
 *                   "-" for a layer that reads the network's input
 *   saved_index_bytes   kept integer and boolean tensors (pooling indices, masks), whose width no precision changes
 *   product_outputs, product_inputs, product_window   of a layer whose only product is with its own weights: channels
 *                   or features out and in, and elements of the convolution's window (1: a linear layer); 0: another
 *                   layer, of which only FLOPs and bytes are known. All three or none; forward_flops is 2 x their
 *                   product / groups at least
 *   product_groups  groups of a convolution, 1 for a whole one; 0: the product is none. Without the column, what has a
 *                   window of more than one element is a whole convolution */
#pragma once

#include <glib.h>

typedef struct
{
  char *name;        /* "layer1.0.conv1" */
  gint64 parameters; /* elements */
  double forward_flops, backward_flops;
  double forward_bytes, backward_bytes; /* activations read plus written, at element_bytes width; no parameters */
  gint64 saved_bytes;                   /* kept for the backward, storage shared with other layers counted once */
  gint64 saved_index_bytes;             /* the same for integers and booleans */
  gint64 output_bytes;
  gint64 product_outputs, product_inputs, product_window; /* 0: not one product with weights */
  gint64 product_groups;                                  /* of a convolution; 0: no convolution */
  guint n_inputs; /* `inputs` column: "-" for the first layer, else row numbers from 0: "3" or "3,7" */
  guint inputs[4];
} PsiTraceLayer;

typedef struct
{
  char *name;
  gint64 parameters;
  guint element_bytes; /* width the byte columns were traced at: 4 */
  GArray *layers;      /* of PsiTraceLayer */
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
