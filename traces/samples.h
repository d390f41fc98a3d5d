/* SPDX-License-Identifier: MIT */
/* Measured samples: what bench-cuda and bench-host write (JSON Lines), and the logs of nccl-tests (text, or JSON by its
 * option -J). Several files add up. */
#pragma once

#include <glib.h>
#include <json-glib/json-glib.h>

/* One point of a curve: how long so many bytes take. */
typedef struct
{
  const char *curve;      /* interned: "all_reduce", "send_recv", "device_copy", "to_device_pinned"; "all_reduce_cpu":
                           * CPU time of one process */
  guint n_ranks, n_nodes; /* 1, 1 for what happens on one GPU */
  gint64 bytes;           /* collectives: the size as nccl-tests counts it; copies: read plus written */
  double time_ns, p10_ns, p90_ns; /* median and percentiles; equal where only one number is known */
  guint sweep;
} PsiCurveSample;

typedef struct
{
  const char *dtype;     /* interned: "bf16", "fp32" */
  const char *pass;      /* interned: "forward", "input", "weight" */
  gint64 batch, m, n, k; /* result m x n, summed over k */
  double time_ns, p10_ns, p90_ns;
  guint sweep;
} PsiGemmSample;

/* A single number: "launch_stream_ns", "memory_context_bytes", "contention_gemm_slowdown". */
typedef struct
{
  const char *name; /* interned */
  guint n_ranks;    /* 0: not about a group */
  double value;
} PsiValueSample;

typedef struct
{
  GArray *curves;         /* of PsiCurveSample */
  GArray *gemms;          /* of PsiGemmSample */
  GArray *values;         /* of PsiValueSample */
  JsonObject *provenance; /* what the files say about GPU, driver, versions, date; the first file to name a key wins */
  guint n_throttled;      /* records whose clocks were held down by temperature or a hardware slow-down */
  guint n_contended;      /* CPU records whose wall time was more than 5 % above the CPU time */
} PsiSamples;

PsiSamples *psi_samples_new (void);
void psi_samples_free (PsiSamples *samples);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiSamples, psi_samples_free)

/* In the tables of `psisim collective`, which look like logs: these are no measurements. A file that has it gives
 * `provenance` the key "predicted_by". */
#define PSI_SAMPLES_PREDICTED "predicted by psisim"

/* Add a file. `operation` names the collective of an nccl-tests log that does not say it itself ("all_gather"); NULL:
 * tell it from the log, the file's name or the ratio of its bandwidths. On failure *error names file and line and the
 * samples are unchanged. A last line that was cut short is left out. */
gboolean psi_samples_read (PsiSamples *samples, const char *file, const char *operation, GError **error);

/* The curve name of a collective however it is spelt ("all-reduce", "AllReduce", "all_reduce_perf"), interned; NULL if
 * it is none. */
const char *psi_samples_operation (const char *name);

/* The line an error of json-glib's parser is about ("<data>:3:1: Parse error"); 1 if it does not say. */
guint psi_json_error_line (const GError *error);

#define PSI_SAMPLES_ERROR (psi_samples_error_quark ())
typedef enum
{
  PSI_SAMPLES_ERROR_READ,
  PSI_SAMPLES_ERROR_SYNTAX,
  PSI_SAMPLES_ERROR_OPERATION /* which collective a log is about cannot be told */
} PsiSamplesError;
GQuark psi_samples_error_quark (void);

/* ---- For the readers, one file each ---- */

/* Add the samples of one file; `text` ends with a zero byte, errors begin with "FILE:LINE: ". */
gboolean psi_samples_read_lines (PsiSamples *samples, const char *file, const char *text, GError **error);
gboolean psi_samples_read_nccl_text (PsiSamples *samples, const char *file, const char *text, const char *operation,
                                     GError **error);
gboolean psi_samples_read_nccl_json (PsiSamples *samples, const char *file, JsonObject *log, const char *operation,
                                     GError **error);

/* The operation of an nccl-tests table, by the name of the file or by the ratio of bus to algorithm bandwidth; `redop`
 * and `has_root` are its columns. NULL if it stays open. */
const char *psi_samples_guess_operation (const char *file, const char *redop, gboolean has_root, double bus_ratio);

/* How many ranks have that ratio of bandwidths; 0 if it does not tell. */
guint psi_samples_guess_ranks (const char *operation, double bus_ratio);
