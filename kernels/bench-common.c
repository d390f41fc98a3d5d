/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "bench-common.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/utsname.h>

#ifndef PSI_VERSION
#define PSI_VERSION "0.1.0"
#endif

static volatile sig_atomic_t interrupted;

static void
on_signal (int number)
{
  if (interrupted)
    _exit (1); /* the second time: do not wait for the point in progress */
  interrupted = 1;
}

bool
bench_interrupted (void)
{
  return interrupted != 0;
}

void
bench_warn (const BenchOptions *options, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  fprintf (stderr, "%s: ", options->program);
  vfprintf (stderr, format, args);
  fputc ('\n', stderr);
  va_end (args);
}

double
bench_now_s (void)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

double
bench_cpu_s (void)
{
  struct timespec t;
  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &t);
  return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static int
compare_doubles (const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

static double
sorted_quantile (const double *sorted, int n, double q)
{
  double at = q * (n - 1);
  int below = (int) at;
  if (below + 1 >= n)
    return sorted[n - 1];
  return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

void
bench_stats (double *values_ns, int n, BenchStats *ret_stats)
{
  qsort (values_ns, (size_t) n, sizeof *values_ns, compare_doubles);
  ret_stats->samples = n;
  ret_stats->median_ns = sorted_quantile (values_ns, n, 0.5);
  ret_stats->p10_ns = sorted_quantile (values_ns, n, 0.1);
  ret_stats->p90_ns = sorted_quantile (values_ns, n, 0.9);
  for (int i = 0; i < n; i++)
    values_ns[i] = fabs (values_ns[i] - ret_stats->median_ns);
  qsort (values_ns, (size_t) n, sizeof *values_ns, compare_doubles);
  ret_stats->mad_ns = sorted_quantile (values_ns, n, 0.5);
}

/* ---- Random data ---- */

/* xorshift64*: fast enough to fill hundreds of megabytes, and good enough to keep multipliers as busy as real data. */
static inline uint64_t
random_next (uint64_t *state)
{
  uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return x * 0x2545F4914F6CDD1Dull;
}

static inline float
random_uniform (uint64_t *state)
{
  return (float) (int32_t) (random_next (state) >> 32) * 0x1p-31f;
}

void
bench_fill_fp32 (float *values, size_t n, uint64_t seed)
{
  uint64_t state = seed * 2 + 1;
  for (size_t i = 0; i < n; i++)
    values[i] = random_uniform (&state);
}

void
bench_fill_bf16 (uint16_t *values, size_t n, uint64_t seed)
{
  uint64_t state = seed * 2 + 1;
  for (size_t i = 0; i < n; i++)
    {
      float value = random_uniform (&state);
      uint32_t bits;
      memcpy (&bits, &value, sizeof bits);
      values[i] = (uint16_t) (bits >> 16);
    }
}

void
bench_fill_fp16 (uint16_t *values, size_t n, uint64_t seed)
{
  uint64_t state = seed * 2 + 1;
  for (size_t i = 0; i < n; i++)
    {
      float value = random_uniform (&state);
      uint32_t bits;
      memcpy (&bits, &value, sizeof bits);
      int exponent = (int) (bits >> 23 & 0xff) - 127 + 15;
      uint32_t half = exponent <= 0 ? 0 : (uint32_t) exponent << 10 | (bits >> 13 & 0x3ff);
      values[i] = (uint16_t) (half | (bits >> 16 & 0x8000));
    }
}

/* ---- Options ---- */

static int
environment_int (const char *const *names, int fallback)
{
  for (; *names; names++)
    {
      const char *text = getenv (*names);
      if (text && *text)
        return atoi (text);
    }
  return fallback;
}

static void
print_help (const BenchOptions *options)
{
  printf ("Usage: %s [OPTION]...\n"
          "Measure this machine and write samples as JSON Lines.\n\n"
          "  -o, --output FILE  write the samples to FILE instead of standard output\n"
          "  --budget SECONDS   stop after about so long (default 240; 20 with --quick)\n"
          "  --quick            few points, one sweep\n"
          "  --only A,B         only these sections\n"
          "%s"
          "  --help             this text\n\n"
          "Exit status: 0 done, 1 failed (what was measured is kept), 2 wrong usage,\n"
          "77 nothing to measure here.\n",
          options->program, options->usage);
}

static _Noreturn void
usage_error (const BenchOptions *options, const char *argument, const char *reason)
{
  fprintf (stderr, "%s: %s: %s (see --help)\n", options->program, argument, reason);
  exit (2);
}

static double
parse_number (const BenchOptions *options, const char *name, const char *text, double minimum)
{
  char *end;
  double value = strtod (text, &end);
  if (end == text || *end || !(value >= minimum))
    usage_error (options, name, "needs a number that is large enough");
  return value;
}

void
bench_options_parse (BenchOptions *options, int argc, char **argv)
{
  double budget_s = 0;

  options->stream = stdout;
  options->sweeps = 2;
  options->rank =
      environment_int ((const char *const[]){ "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID", NULL }, 0);
  options->ranks = environment_int ((const char *const[]){ "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", NULL }, 1);
  options->local_rank =
      environment_int ((const char *const[]){ "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", NULL }, -1);

  for (int i = 1; i < argc; i++)
    {
      const char *name = argv[i];
      if (!strcmp (name, "--help"))
        {
          print_help (options);
          exit (0);
        }
      if (!strcmp (name, "--quick"))
        {
          options->quick = true;
          options->sweeps = 1;
          continue;
        }
      if (!strcmp (name, "--one-gpu-each"))
        {
          options->one_gpu_each = true;
          continue;
        }
      const char *const with_value[] = { "-o", "--output", "--budget", "--only", "--id-file", "--rank", "--ranks" };
      bool known = false;
      for (size_t j = 0; j < sizeof with_value / sizeof with_value[0]; j++)
        known |= !strcmp (name, with_value[j]);
      if (!known)
        usage_error (options, name, "unknown option");
      if (i + 1 == argc)
        usage_error (options, name, "needs a value");
      const char *value = argv[++i];
      if (!strcmp (name, "--budget"))
        budget_s = parse_number (options, name, value, 1);
      else if (!strcmp (name, "--only"))
        options->only = value;
      else if (!strcmp (name, "--id-file"))
        options->id_file = value;
      else if (!strcmp (name, "--rank"))
        options->rank = (int) parse_number (options, name, value, 0);
      else if (!strcmp (name, "--ranks"))
        options->ranks = (int) parse_number (options, name, value, 1);
      else
        options->output = value;
    }
  if (options->rank >= options->ranks)
    usage_error (options, "--rank", "must be less than --ranks");
  options->budget_s = budget_s > 0 ? budget_s : options->quick ? 20 : 240;

  struct sigaction action = { .sa_handler = on_signal };
  sigaction (SIGINT, &action, NULL);
  sigaction (SIGTERM, &action, NULL);
}

bool
bench_output_open (BenchOptions *options)
{
  const char *file = options->rank > 0 ? "/dev/null" : options->output;

  if (file && !(options->stream = fopen (file, "w")))
    {
      options->stream = stdout;
      bench_warn (options, "%s: %s", file, strerror (errno));
      return false;
    }
  return true;
}

/* ---- Sections ---- */

bool
bench_section_wanted (const BenchOptions *options, const char *name)
{
  size_t length = strlen (name);
  const char *at = options->only;

  if (!at)
    return true;
  while ((at = strstr (at, name)))
    {
      if ((at == options->only || at[-1] == ',') && (at[length] == ',' || !at[length]))
        return true;
      at += length;
    }
  return false;
}

bool
bench_sections_check (const BenchOptions *options, const BenchSection *sections, int n)
{
  const char *at = options->only;

  while (at && *at)
    {
      size_t length = strcspn (at, ",");
      bool known = false;
      for (int i = 0; i < n; i++)
        known |= strlen (sections[i].name) == length && !strncmp (sections[i].name, at, length);
      if (!known)
        {
          fprintf (stderr, "%s: --only: unknown section '%.*s', allowed are", options->program, (int) length, at);
          for (int i = 0; i < n; i++)
            fprintf (stderr, " %s", sections[i].name);
          fputc ('\n', stderr);
          return false;
        }
      at += length + (at[length] == ',');
    }
  return true;
}

int
bench_sections_run (const BenchOptions *options, const BenchSection *sections, int n, void *state)
{
  double end_s = bench_now_s () + options->budget_s;
  double first_end_s = options->sweeps > 1 ? end_s - 0.4 * options->budget_s : end_s;

  for (int sweep = 0; sweep < options->sweeps; sweep++)
    {
      double shares = 0;
      for (int i = 0; i < n; i++)
        if (bench_section_wanted (options, sections[i].name) && !(sweep && sections[i].once))
          shares += sections[i].share;
      for (int i = 0; i < n; i++)
        {
          const BenchSection *section = &sections[sweep % 2 ? n - 1 - i : i];
          if (!bench_section_wanted (options, section->name) || (sweep && section->once))
            continue;
          double now_s = bench_now_s ();
          double left_s = (sweep ? end_s : first_end_s) - now_s;
          double deadline_s = now_s + (left_s > 0 ? left_s * section->share / shares : 0);
          shares -= section->share;
          if (!options->quick && options->rank == 0)
            bench_warn (options, "sweep %d, %s: %.0f s", sweep + 1, section->name, deadline_s - now_s);
          int status = section->run (state, sweep, deadline_s);
          if (status)
            return status;
          if (interrupted)
            {
              bench_warn (options, "interrupted; what was measured is kept");
              return 1;
            }
        }
    }
  return 0;
}

int
bench_order (int i, int n, int sweep)
{
  int stride = n < 5 ? 1 : (int) (0.618 * n) | 1;
  for (;; stride += 2)
    {
      int a = n, b = stride;
      while (b)
        {
          int r = a % b;
          a = b;
          b = r;
        }
      if (a == 1)
        break;
    }
  int at = (int) ((long) i * stride % n);
  return sweep % 2 ? n - 1 - at : at;
}

/* ---- Samples ---- */

static void
write_string (FILE *stream, const char *text)
{
  fputc ('"', stream);
  for (; *text; text++)
    {
      unsigned char c = (unsigned char) *text;
      if (c == '"' || c == '\\')
        fprintf (stream, "\\%c", c);
      else if (c < 0x20)
        fprintf (stream, "\\u%04x", c);
      else
        fputc (c, stream);
    }
  fputc ('"', stream);
}

void
bench_line_begin (const BenchOptions *options, const char *record)
{
  fputs ("{\"record\": ", options->stream);
  write_string (options->stream, record);
}

void
bench_line_text (const BenchOptions *options, const char *key, const char *value)
{
  fprintf (options->stream, ", \"%s\": ", key);
  if (value)
    write_string (options->stream, value);
  else
    fputs ("null", options->stream);
}

void
bench_line_number (const BenchOptions *options, const char *key, double value)
{
  if (!isfinite (value))
    fprintf (options->stream, ", \"%s\": null", key);
  else if (value == floor (value) && fabs (value) < 1e15)
    fprintf (options->stream, ", \"%s\": %.0f", key, value);
  else
    fprintf (options->stream, ", \"%s\": %.6g", key, value);
}

void
bench_line_stats (const BenchOptions *options, const BenchStats *stats)
{
  bench_line_number (options, "time_ns", stats->median_ns);
  bench_line_number (options, "p10_ns", stats->p10_ns);
  bench_line_number (options, "p90_ns", stats->p90_ns);
  bench_line_number (options, "mad_ns", stats->mad_ns);
  if (stats->cpu_ns > 0)
    bench_line_number (options, "cpu_ns", stats->cpu_ns);
  bench_line_number (options, "samples", stats->samples);
  bench_line_number (options, "iterations", (double) stats->iterations);
  if (stats->graph)
    bench_line_number (options, "graph", 1);
}

void
bench_line_end (const BenchOptions *options)
{
  fputs ("}\n", options->stream);
  if (fflush (options->stream))
    {
      bench_warn (options, "cannot write the samples: %s", strerror (errno));
      exit (1);
    }
}

static void
write_cpu_model (const BenchOptions *options)
{
  char line[256];
  FILE *file = fopen ("/proc/cpuinfo", "r");

  while (file && fgets (line, sizeof line, file))
    if (!strncmp (line, "model name", 10) && strchr (line, ':'))
      {
        char *value = strchr (line, ':') + 1;
        value += strspn (value, " ");
        value[strcspn (value, "\n")] = 0;
        bench_line_text (options, "cpu", value);
        break;
      }
  if (file)
    fclose (file);
}

void
bench_start_record (const BenchOptions *options, const char *backend, int argc, char **argv)
{
  char created[32], command[1024] = "";
  time_t now = time (NULL);
  struct tm utc;
  struct utsname host;
  double load[1];

  strftime (created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r (&now, &utc));
  const char *program = strrchr (argv[0], '/');
  for (int i = 0; i < argc; i++)
    {
      size_t used = strlen (command);
      snprintf (command + used, sizeof command - used, "%s%s", i ? " " : "",
                i         ? argv[i]
                : program ? program + 1
                          : argv[0]);
    }
  bench_line_begin (options, "start");
  bench_line_number (options, "psisim_samples", 1);
  bench_line_text (options, "backend", backend);
  bench_line_text (options, "tool_version", PSI_VERSION);
  bench_line_text (options, "created", created);
  bench_line_text (options, "command", command);
  write_cpu_model (options);
  bench_line_number (options, "cpus", (double) sysconf (_SC_NPROCESSORS_ONLN));
  if (!uname (&host))
    {
      uint64_t hash = 14695981039346656037ull; /* FNV-1a: tells hosts apart without naming them */
      for (const char *at = host.nodename; *at; at++)
        hash = (hash ^ (unsigned char) *at) * 1099511628211ull;
      char text[20];
      snprintf (text, sizeof text, "%016llx", (unsigned long long) hash);
      bench_line_text (options, "host_hash", text);
      bench_line_text (options, "kernel", host.release);
    }
  if (getloadavg (load, 1) == 1)
    bench_line_number (options, "load_average", load[0]);
  bench_line_number (options, "budget_s", options->budget_s);
  bench_line_end (options);
}
