/* SPDX-License-Identifier: MIT */
/* A profile: what was measured on one kind of GPU, and the curves fitted to it. A JSON file (schema "psisim-profile",
 * version 1) that `calibrate` and `fit` write:
 *
 *   kind        measured (by us on that GPU) | published (others' numbers) | datasheet
 *   provenance  GPU, driver, library versions, clocks, host, as the bench programs noted them
 *   compute     sms, peak_flops by type (the best product measured), launch times, gemm points and their error
 *   memory      bytes_per_s, usable and context bytes
 *   curves      points of each curve, fitted segments, errors; segments and errors are computed anew when read
 *   values      single numbers by name and group size
 *
 * Times in the file are in ns, sizes in bytes, rates in FLOP/s and bytes/s. */
#pragma once

#include "fit.h"
#include "kernel.h"
#include "samples.h"

typedef enum
{
  PSI_PROFILE_FORWARD,
  PSI_PROFILE_INPUT,  /* gradient of the input */
  PSI_PROFILE_WEIGHT, /* gradient of the weight, accumulated */
  PSI_N_PROFILE_PASSES,
  PSI_PROFILE_ANY = PSI_N_PROFILE_PASSES
} PsiProfilePass;

typedef struct
{
  PsiDtype dtype;
  PsiProfilePass pass;
  gint64 batch, m, n, k; /* result m x n, summed over k */
  double time_ns, p10_ns, p90_ns;
  double log2_shape[4]; /* of batch, m, n, k */
  double efficiency;    /* share of the roofline */
  double in_wave;       /* efficiency without the loss of a partly filled last wave */
} PsiProfileGemm;

typedef struct _PsiProfile
{
  char *name;                             /* file stem, or the GPU's name */
  char *kind, *source;                    /* source: NULL = none given */
  char *created, *tool_version, *command; /* of the measurement; NULL = not known */
  char *gpu;                              /* "NVIDIA H200", or NULL */
  JsonObject *provenance;

  guint sms;                       /* 0 = not known: no waves */
  double peak_flops[PSI_N_DTYPES]; /* FLOP/s, the best product measured; 0 = type not measured */
  double memory_bytes_per_s;       /* read plus written, largest buffers; 0 = not measured */
  gint64 usable_bytes;             /* device memory free after the context; 0 = not known */
  gint64 context_bytes;            /* 0 = not known */
  double launch_ns, graph_launch_ns,
      issue_ns; /* gap between kernels of a stream, of a graph; host's time; 0 = not known */

  GArray *gemms;                        /* of PsiProfileGemm */
  guint tile_m, tile_n;                 /* output tile that explains the products best, 0 = none does */
  double gemm_start_ns[PSI_N_DTYPES];   /* start-up of a product that explains the small ones best */
  PsiFitError gemm_error[PSI_N_DTYPES]; /* of at most 500 shapes, each predicted from the others */
  GPtrArray *curves;                    /* of PsiCurve* */
  GArray *values;                       /* of PsiValueSample: what else was measured */
  guint n_contended;                    /* points whose core was shared with other programs; 0 when read from a file */
  GPtrArray *warnings;                  /* of char*: what looks wrong with the measurement, in words */
} PsiProfile;

/* Fit everything in the samples. `name` NULL: the GPU's name. (transfer full) */
PsiProfile *psi_profile_from_samples (const PsiSamples *samples, const char *name, const char *kind,
                                      const char *source);

/* What a file says it is: members `schema` and `version`. */
#define PSI_PROFILE_SCHEMA "psisim-profile"
#define PSI_PROFILE_VERSION 1

/* Errors name the file and the member. (transfer full) */
PsiProfile *psi_profile_load (const char *file, GError **error);
gboolean psi_profile_save (const PsiProfile *profile, const char *file, GError **error);
char *psi_profile_to_json (const PsiProfile *profile); /* (transfer full) */
void psi_profile_free (PsiProfile *profile);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiProfile, psi_profile_free)

/* ---- Use ---- */

/* Curve of that name and exactly that group, or NULL. '-' counts as '_'. */
const PsiCurve *psi_profile_curve (const PsiProfile *profile, const char *name, guint n_ranks, guint n_nodes);

/* Time in seconds of `bytes` over a group, by the curve of that group or, where there is none, between the curves of
 * the next smaller and next larger group over as many nodes (in log ranks and log time). Negative: the profile does not
 * know. Copies have 1 rank, 1 node. */
double psi_profile_curve_time (const PsiProfile *profile, const char *name, guint n_ranks, guint n_nodes, gint64 bytes);

/* Share of the roofline max (2 b m n k / peak, element bytes x b (mn + mk + nk) / memory rate) that a product reaches,
 * peak and memory rate being the profile's own; 0: no product of that type was measured. A measured shape hits exactly;
 * else the nearest shapes in log2 (batch, m, n, k) count by their distance, see profile-gemm.c. */
double psi_profile_gemm_efficiency (const PsiProfile *profile, PsiDtype dtype, PsiProfilePass pass, gint64 batch,
                                    gint64 m, gint64 n, gint64 k);

/* The same as time in seconds, negative if the type was not measured. */
double psi_profile_gemm_time (const PsiProfile *profile, PsiDtype dtype, PsiProfilePass pass, gint64 batch, gint64 m,
                              gint64 n, gint64 k);

/* A single number by name ("memory_first_all_reduce_bytes"), NAN if there is none. n_ranks 0: any group. */
double psi_profile_value (const PsiProfile *profile, const char *name, guint n_ranks);

/* "fp32" ...; -1 if it is none. */
int psi_profile_dtype (const char *name);
extern const char *const psi_profile_dtype_names[PSI_N_DTYPES];
extern const char *const psi_profile_pass_names[PSI_N_PROFILE_PASSES];

#define PSI_PROFILE_ERROR (psi_profile_error_quark ())
typedef enum
{
  PSI_PROFILE_ERROR_READ,
  PSI_PROFILE_ERROR_SYNTAX, /* not JSON, another schema */
  PSI_PROFILE_ERROR_VALUE,  /* a member missing or out of range */
  PSI_PROFILE_ERROR_WRITE
} PsiProfileError;
GQuark psi_profile_error_quark (void);

/* ---- For the parts of the profile, one file each ---- */

PsiProfile *psi_profile_new (void);
/* Fill in what follows from the gemm points: peaks, efficiencies, tile, errors. */
void psi_profile_prepare_gemms (PsiProfile *profile);
/* Memory rate from the copy curves. */
void psi_profile_prepare_memory (PsiProfile *profile);
