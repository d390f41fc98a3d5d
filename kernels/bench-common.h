/* SPDX-License-Identifier: MIT */
/* What bench-cuda and bench-host share: options, budget, statistics, random data, and the samples they write.
 *
 * Samples are JSON Lines. Every line is one object with a key `record`; the first is `start` with the key
 * `psisim_samples` (version 1). A line is written and flushed as soon as its point is measured, so that whatever ends
 * the program early, what was measured is kept. Times are in ns, sizes in bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_EXIT_SKIP 77 /* there is nothing to measure here: no driver, no device */

typedef struct
{
  const char *program;
  const char *usage;  /* lines for --help about options of this program alone */
  double budget_s;    /* all sections together */
  bool quick;         /* one sweep, few points */
  int sweeps;         /* 2, or 1 with --quick */
  const char *only;   /* "gemm,copy", or NULL: all sections */
  const char *output; /* or NULL: standard output */
  const char *id_file;
  int rank, ranks;   /* this process among all that measure together; 0, 1 if it is alone */
  int local_rank;    /* among those of its node, -1 = not known */
  bool one_gpu_each; /* one process for each GPU */
  FILE *stream;
} BenchOptions;

typedef struct
{
  double median_ns, p10_ns, p90_ns, mad_ns;
  double cpu_ns; /* median CPU time, 0 = not measured */
  int samples;
  long iterations; /* all samples together */
  bool graph;      /* replayed from a graph, not issued one by one */
} BenchStats;

/* Parse the command line; ends the program with status 0 (--help) or 2 (wrong usage, one line on stderr). Also reads
 * OMPI_COMM_WORLD_* and SLURM_*, and catches Ctrl-C and SIGTERM. */
void bench_options_parse (BenchOptions *options, int argc, char **argv);

/* Open the output, once it is known that there is something to measure. Only rank 0 writes. FALSE: it cannot be
 * written, and a warning was printed. */
bool bench_output_open (BenchOptions *options);

/* Set by Ctrl-C or SIGTERM; measuring loops look at it. */
bool bench_interrupted (void);

/* Prints "PROGRAM: MESSAGE" on stderr. */
__attribute__ ((format (printf, 2, 3))) void bench_warn (const BenchOptions *options, const char *format, ...);

double bench_now_s (void); /* monotonic clock */
double bench_cpu_s (void); /* CPU time of this thread */

/* Median, 10th and 90th percentile and median absolute deviation of `n` > 0 values; sorts them. */
void bench_stats (double *values_ns, int n, BenchStats *ret_stats);

/* Uniform values in [-1, 1); the same for the same seed. bf16 and fp16 as bit patterns. */
void bench_fill_fp32 (float *values, size_t n, uint64_t seed);
void bench_fill_bf16 (uint16_t *values, size_t n, uint64_t seed);
void bench_fill_fp16 (uint16_t *values, size_t n, uint64_t seed);

/* ---- Sections: groups of points that share the budget ---- */

typedef struct
{
  const char *name;
  double share; /* of the budget, relative to the other sections */
  bool once;    /* not repeated in the second sweep */
  /* Measure until done or until bench_now_s() passes the deadline; points in reverse order in odd sweeps. Returns 0,
   * or an exit status when the whole program cannot go on. */
  int (*run) (void *state, int sweep, double deadline_s);
} BenchSection;

/* Run the wanted sections within the budget; time that one leaves over goes to the next ones. The second sweep, in
 * reverse order, shows drift. Ends after the section in progress when interrupted. Returns the exit status. */
int bench_sections_run (const BenchOptions *options, const BenchSection *sections, int n, void *state);

/* Is every name of --only one of the sections? If not, a line says what is allowed. */
bool bench_sections_check (const BenchOptions *options, const BenchSection *sections, int n);
bool bench_section_wanted (const BenchOptions *options, const char *name);

/* i-th of n points in an order that covers the whole list early, backwards in odd sweeps. */
int bench_order (int i, int n, int sweep);

/* ---- Samples ---- */

void bench_line_begin (const BenchOptions *options, const char *record);
void bench_line_text (const BenchOptions *options, const char *key, const char *value); /* NULL: null */
void bench_line_number (const BenchOptions *options, const char *key, double value);    /* not finite: null */
void bench_line_stats (const BenchOptions *options, const BenchStats *stats);           /* time_ns, p10_ns, ... */
void bench_line_end (const BenchOptions *options);

/* The `start` record: versions, command line, host, load, date. */
void bench_start_record (const BenchOptions *options, const char *backend, int argc, char **argv);
