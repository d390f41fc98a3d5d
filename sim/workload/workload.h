/* SPDX-License-Identifier: MIT */
/* From a model's name and settings to layers with numbers: presets, configuration files, traces, uniform. */
#pragma once

#include "hf-config.h"
#include "keys.h"
#include "model.h"
#include "workload-trace.h"

/* One family of networks: one file, one row in psi_families[]. */
typedef struct
{
  const char *name;    /* "llama" */
  const char *summary; /* one line for `list` */
  /* Transformers: layers for one GPU and one micro-batch of samples of `sequence` tokens. (transfer full); what is
   * around it, checks and counts, is in block-model.c. NULL for others, which have the next two. */
  PsiModel *(*build) (const PsiModelDimensions *dimensions, const PsiLowering *lowering, gint64 sequence);
  /* Exact parameter count, tied tensors once. */
  gint64 (*count_parameters) (const PsiModelDimensions *dimensions);
  /* Layers for one GPU and one micro-batch. Returns (transfer full). */
  PsiModel *(*expand) (const PsiModelDimensions *dimensions, const PsiLowering *lowering, GError **error);
} PsiFamily;
/* The two, of any family. */
gint64 psi_family_count (const PsiFamily *family, const PsiModelDimensions *dimensions);
PsiModel *psi_family_expand (const PsiFamily *family, const PsiModelDimensions *dimensions, const PsiLowering *lowering,
                             GError **error);
extern const PsiFamily *const psi_families[]; /* NULL-ended */

/* Where a model came from, before any plan is known. */
typedef struct
{
  char *name;
  const PsiFamily *family;        /* NULL for uniform and traces */
  PsiModelDimensions *dimensions; /* with overrides of [model] applied; NULL for uniform and traces */
  PsiWorkloadTrace *trace;        /* traces only */
  gint64 parameters;              /* exact; uniform: psi_p / 2 */
  gboolean is_uniform;
  PsiAdapters adapters;
  gint64 adapter_parameters; /* trained elements of all adapters; `parameters` leaves them out */
} PsiModelSource;

typedef struct
{
  const char *name;    /* "llama-2-7b" */
  const char *file;    /* "llama-2-7b.json" or "resnet-50.trace", found in models/ or traces/ of the data directories */
  const char *summary; /* dimensions in words, source */
} PsiModelPreset;
extern const PsiModelPreset psi_model_presets[]; /* ends with name NULL */

/* Resolve `model` (preset | path of a config.json or trace | uniform | custom) and the overrides of [model].
 * (transfer full); unknown names are errors with a "did you mean". */
PsiModelSource *psi_model_source_load (const PsiSettings *settings, GError **error);
void psi_model_source_free (PsiModelSource *source);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiModelSource, psi_model_source_free)

/* Number of layers that `partition = layers` divides (uniform: 0, the plan's K). */
guint psi_model_source_blocks (const PsiModelSource *source);

/* Layers for one GPU of that plan. `stages` is K, used by uniform only: K equal stages whose bytes and times are
 * psi_p/K ... with tp divided as the contract says. (transfer full) */
PsiModel *psi_model_source_expand (const PsiModelSource *source, const PsiSettings *settings,
                                   const PsiLowering *lowering, guint stages, GError **error);

#define PSI_WORKLOAD_ERROR (psi_workload_error_quark ())
typedef enum
{
  PSI_WORKLOAD_ERROR_UNKNOWN,
  PSI_WORKLOAD_ERROR_SHAPE /* dimensions that do not fit together or with the degrees */
} PsiWorkloadError;
GQuark psi_workload_error_quark (void);
