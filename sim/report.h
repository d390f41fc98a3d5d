/* SPDX-License-Identifier: MIT */
/* The report: everything `--json`, the tables, the CSV and the plots print. Plain data; the manual names the keys. */
#pragma once

#include "tags.h"

#include <glib.h>

typedef struct
{
  gint64 start_ps, end_ps;
  guint8 kind;        /* PsiSpanKind */
  guint8 track;       /* 0 compute, 1.. communication streams */
  gint32 micro_batch; /* -1: none */
  gint32 stage;       /* model part, -1: none */
} PsiSpan;

/* A step of a piecewise constant memory curve: from time_ps on, these bytes are allocated. */
typedef struct
{
  gint64 time_ps;
  gint64 bytes[PSI_N_MEMORY];
} PsiMemoryPoint;

typedef struct
{
  gint64 time_ps; /* from here on ... */
  gint64 bytes;   /* ... so many bytes are being sent, all GPUs together */
} PsiTrafficPoint;

/* A class of equal GPUs. */
typedef struct
{
  guint rank; /* its lowest member */
  int stage;  /* pipeline rank, -1 = none */
  guint count;
  gint64 steady_bytes, peak_bytes, reserved_bytes, device_bytes;
  gint64 peak_at_ps;
  gint64 at_peak[PSI_N_MEMORY]; /* adds up to peak_bytes */
  gint64 activations_peak_bytes;
  gint64 overhead_bytes;            /* context, libraries, communicators: in device_bytes only */
  gint64 time_ps[PSI_N_TIME];       /* adds up to the step time */
  gint64 exposed_ps[PSI_N_TRAFFIC]; /* exposed_comm by kind */
  gint64 sent_bytes;                /* per GPU and step, mean over the class */
  GArray *memory; /* of PsiMemoryPoint, one step; first point at time 0; NULL unless curves were asked for */
  GArray *spans;  /* of PsiSpan, one step; NULL unless asked for */
} PsiRankReport;

typedef struct
{
  char *set; /* "recompute=selective" */
  gint64 peak_bytes;
  gint64 step_time_ps;
  guint gpus;
  double samples_per_s; /* of another batch per step than the plan's, maybe */
} PsiAdvice;

/* What the critical path is made of: parts of the compute stream, kinds of traffic, and what nothing explains. */
enum
{
  PSI_CRITICAL_COMPUTE,
  PSI_CRITICAL_RECOMPUTE,
  PSI_CRITICAL_OPTIMIZER,
  PSI_CRITICAL_TRAFFIC, /* + PsiTraffic */
  PSI_CRITICAL_WAITING = PSI_CRITICAL_TRAFFIC + PSI_N_TRAFFIC,
  PSI_N_CRITICAL
};

/* A stretch of the critical path: the pass of a micro-batch through a model part, with the collectives inside it, or an
 * update, a message, a collective. */
typedef struct
{
  guint rank; /* GPU; the lowest of its equals. Workers of a pool: the lowest GPU of the stage */
  int stage;  /* -1: none */
  const char *what;
  gint32 micro_batch, part;       /* -1: none */
  gint32 first_layer, last_layer; /* -1: none */
  gint64 start_ps, duration_ps;
  gint64 communication_ps; /* of it on links */
  gint64 shared_ps;        /* of that, more than on idle links */
  guint n_ops;
  guint from_rank; /* where the path comes from: this rank, or another that this one waited for */
  guint8 stream;   /* of the rank */
  const char *reason;
} PsiCriticalSegment;

typedef struct
{
  gint64 duration_ps; /* the step time */
  gint64 origin_ps;   /* its start on the clock of the run */
  gint64 kind_ps[PSI_N_CRITICAL];
  gint64 shared_ps;
  GArray *ranks;    /* of PsiCriticalRank, longest first */
  GArray *segments; /* of PsiCriticalSegment, in the order of time, from 0 to duration_ps without a gap */
} PsiCriticalPath;

typedef struct
{
  guint rank;
  int stage;
  gint64 time_ps; /* of the path that is this rank's */
} PsiCriticalRank;

/* Of one tier of links. */
typedef struct
{
  char *name; /* "hdr200" */
  gboolean between_nodes;
  double bytes_per_s; /* of one GPU, one direction, now */
  double unlimited_step_s;
  double tenth_bytes_per_s, twice_bytes_per_s; /* at which the step takes 1.1 and 2 times that; NAN = at none */
} PsiLinkHelp;

/* The next value of a degree. */
typedef struct
{
  char *set; /* "tp=4 dp=2" */
  guint gpus;
  guint verdict; /* PsiVerdict */
  gint64 peak_bytes, step_time_ps;
  double samples_per_s;
} PsiDegreeHelp;

typedef struct
{
  GArray *links;                /* of PsiLinkHelp */
  GArray *degrees;              /* of PsiDegreeHelp */
  double one_gpu_samples_per_s; /* NAN = not known */
  gboolean one_gpu_fits;
} PsiWhatHelps;

PsiWhatHelps *psi_what_helps_new (void);

void psi_critical_path_free (PsiCriticalPath *path);
/* "compute", "gradients", "waiting" */
const char *psi_critical_kind_name (guint kind);

typedef enum
{
  PSI_VERDICT_FITS,
  PSI_VERDICT_TIGHT,
  PSI_VERDICT_OOM
} PsiVerdict;
extern const char *const psi_verdict_names[]; /* "fits", "tight", "oom" */

/* Step times of runs with jitter. */
typedef struct
{
  guint n; /* 0 = no jitter */
  double mean_s, p10_s, p50_s, p90_s, max_s;
} PsiTrials;

typedef struct
{
  char *name;
  char *layout; /* "dp 8 x tp 1 x pp 1, K = 4, 1f1b": degrees and schedule in words */
  PsiVerdict verdict;
  guint gpus;
  gint64 step_time_ps;
  gint64 window_ps;                         /* that spans cover, where ranks run at paces of their own; 0: the step */
  double step_time_low_s, step_time_high_s; /* NAN = not known (null) */
  PsiTrials trials;
  guint main_rank;     /* index into ranks: the one whose time is reported */
  gint64 host_wait_ps; /* of its compute and recompute: the GPU waits for its host to issue kernels */
  gboolean graphs;     /* kernels are recorded in CUDA graphs */
  double bubble_fraction;

  double samples_per_s, tokens_per_s, model_tflops_per_gpu; /* NAN where it does not apply */
  double mfu, hfu;

  gint64 capacity_bytes;                                         /* -1 = without end (null) */
  gint64 steady_bytes, peak_bytes, reserved_bytes, device_bytes; /* worst rank */
  gint64 activation_total_peak_bytes;
  double activation_total_mean_bytes;
  GArray *ranks; /* of PsiRankReport */

  gint64 total_bytes, per_gpu_bytes, per_gpu_max_bytes;
  gint64 by_kind[PSI_N_TRAFFIC];
  guint sequential_steps;
  gint64 concurrent_peak_bytes;
  GArray *traffic; /* of PsiTrafficPoint, one step, or NULL */

  char *update_rule;                       /* "synchronous", ... */
  double delay_mean, delay_p90, delay_max; /* p90: nine of ten are no later */
  guint parameter_versions;

  GPtrArray *assumptions;         /* of char* */
  GArray *advice;                 /* of PsiAdvice */
  PsiCriticalPath *critical_path; /* NULL unless asked for */
  PsiWhatHelps *what_helps;       /* the same */
  GPtrArray *warnings;            /* of char*: plain words, shown on the terminal */
  guint64 digest;
} PsiPlanReport;

typedef struct
{
  char *scenario; /* file, or NULL */
  char *title;    /* or NULL */
  char *machine, *machine_description, *machine_kind;
  char *model, *model_description;
  gint64 model_parameters;
  GPtrArray *plans; /* of PsiPlanReport* */
} PsiReport;

PsiReport *psi_report_new (void);
void psi_report_free (PsiReport *report);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiReport, psi_report_free)
PsiPlanReport *psi_plan_report_new (const char *name);
void psi_plan_report_free (PsiPlanReport *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiPlanReport, psi_plan_report_free)

/* The stretch that spans cover. */
static inline gint64
psi_plan_window_ps (const PsiPlanReport *plan)
{
  return plan->window_ps > 0 ? plan->window_ps : plan->step_time_ps;
}

/* Appends a zeroed row and returns it; valid until the next append. */
PsiRankReport *psi_plan_report_add_rank (PsiPlanReport *plan);

/* The report as JSON (contract section 4), one object, a line feed at the end. (transfer full) */
char *psi_report_to_json (const PsiReport *report);
/* One header line and one row for each plan, flat keys. (transfer full) */
char *psi_report_to_csv (const PsiReport *report);
