/* SPDX-License-Identifier: MIT */
/* Measure CPU cores as if each were a small GPU: OpenBLAS products on one thread, memory-bound loops, and all-reduce
 * and messages between processes through shared memory. Plain C; builds with
 *
 *   cc -O3 -std=gnu11 -o bench-host bench-host*.c bench-common.c -I/usr/include/openblas -lopenblas -lpthread -lm
 *
 * All ranks measure at once, since cores share caches and memory; buffers rotate through more than twice the last cache
 * level, since a training step never finds its tensors there. `time_ns` is wall time, `cpu_ns` the CPU time of rank 0:
 * where they differ for a product, something else ran on the core. */
#define _GNU_SOURCE
#include "bench-host-ranks.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef enum
{
  WHAT_FORWARD,
  WHAT_INPUT,
  WHAT_WEIGHT,
  WHAT_COPY,
  WHAT_SCALE,
  WHAT_AXPY,
  WHAT_MOMENTUM,
  WHAT_ALL_REDUCE,
  WHAT_SEND_RECV
} What;

static const struct
{
  const char *name;
  double moved; /* memory-bound: bytes read plus written for each byte of the buffer */
} whats[] = {
  [WHAT_FORWARD] = { "forward", 0 },   [WHAT_INPUT] = { "input", 0 },           [WHAT_WEIGHT] = { "weight", 0 },
  [WHAT_COPY] = { "device_copy", 2 },  [WHAT_SCALE] = { "scale", 2 },           [WHAT_AXPY] = { "axpy", 3 },
  [WHAT_MOMENTUM] = { "momentum", 5 }, [WHAT_ALL_REDUCE] = { "all_reduce", 0 }, [WHAT_SEND_RECV] = { "send_recv", 0 },
};

enum
{
  MOST_SAMPLES = 200,
  LEAST_POINTS = 6
};

typedef struct
{
  BenchOptions *options;
  BenchRanks ranks;
  float *in, *out, *third; /* pools */
  size_t pool_bytes;       /* of each */
  long iteration;
  double wall_ns[MOST_SAMPLES], cpu_ns[MOST_SAMPLES]; /* of the last command */
} Host;

/* The next place in a pool for an object of `bytes`. */
static float *
rotate (const Host *host, float *pool, size_t bytes)
{
  size_t step = (bytes + 63) & ~(size_t) 63, slots = step ? host->pool_bytes / step : 0;
  return slots > 1 ? pool + (size_t) host->iteration % slots * step / sizeof *pool : pool;
}

static void
multiply (Host *host, const BenchCommand *command)
{
  int m = command->ints[0], n = command->ints[1], k = command->ints[2];
  bool a_turned = command->what == WHAT_WEIGHT, b_turned = command->what == WHAT_FORWARD;
  size_t a_bytes = (size_t) m * (size_t) k * sizeof (float), b_bytes = (size_t) n * (size_t) k * sizeof (float);
  const float *a = rotate (host, host->in, a_bytes), *b = rotate (host, host->third, b_bytes);
  float *c = rotate (host, host->out, (size_t) m * (size_t) n * sizeof (float));

  cblas_sgemm (CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans, b_turned ? CblasTrans : CblasNoTrans, m, n, k,
               a_turned ? 1e-4f : 1.0f, a, a_turned ? m : k, b, b_turned ? k : n, a_turned ? 1.0f : 0.0f, c, n);
}

static void
call (Host *host, const BenchCommand *command)
{
  size_t n = command->bytes / sizeof (float);
  float *x = rotate (host, host->in, command->bytes), *y = rotate (host, host->out, command->bytes);
  float *v = rotate (host, host->third, command->bytes);

  switch ((What) command->what)
    {
    case WHAT_FORWARD:
    case WHAT_INPUT:
    case WHAT_WEIGHT:
      multiply (host, command);
      break;
    case WHAT_COPY:
      memcpy (y, x, command->bytes);
      break;
    case WHAT_SCALE:
      for (size_t i = 0; i < n; i++)
        x[i] *= 0.999f;
      break;
    case WHAT_AXPY:
      for (size_t i = 0; i < n; i++)
        y[i] += 0.001f * x[i];
      break;
    case WHAT_MOMENTUM:
      for (size_t i = 0; i < n; i++)
        {
          v[i] = 0.9f * v[i] + x[i];
          y[i] -= 0.001f * v[i];
        }
      break;
    case WHAT_ALL_REDUCE:
      bench_ranks_all_reduce (&host->ranks, x, n);
      break;
    case WHAT_SEND_RECV:
      bench_ranks_send_recv (&host->ranks, x, y, n);
      break;
    }
  host->iteration++;
}

/* What every rank does between two barriers. */
static void
execute (Host *host)
{
  BenchCommand command = host->ranks.shared->command;

  bench_ranks_barrier (&host->ranks);
  for (int i = 0; i < command.samples; i++)
    {
      double wall_s = bench_now_s (), cpu_s = bench_cpu_s ();
      for (long j = 0; j < command.batch; j++)
        call (host, &command);
      host->cpu_ns[i] = (bench_cpu_s () - cpu_s) * 1e9 / (double) command.batch;
      host->wall_ns[i] = (bench_now_s () - wall_s) * 1e9 / (double) command.batch;
    }
  bench_ranks_barrier (&host->ranks);
}

/* Parent: have all ranks run it. */
static void
order (Host *host, const BenchCommand *command, long batch, int samples)
{
  BenchCommand full = *command;
  full.batch = batch;
  full.samples = samples;
  host->ranks.shared->command = full;
  bench_ranks_barrier (&host->ranks);
  execute (host);
}

static _Noreturn void
serve (Host *host)
{
  for (;;)
    {
      bench_ranks_barrier (&host->ranks);
      if (host->ranks.shared->command.what < 0)
        _exit (0);
      execute (host);
    }
}

/* At least 10 samples and about `seconds`, at most 2 seconds. Quick: at least 5, but longer ones, since on a busy
 * machine each start together costs a turn of everybody. */
static void
measure (Host *host, const BenchCommand *command, double seconds, BenchStats *ret_stats, double *ret_switches)
{
  struct rusage before, after;
  BenchStats cpu;

  order (host, command, 1, 1);
  order (host, command, 1, 3);
  double each_ns = host->wall_ns[0];
  for (int i = 1; i < 3; i++)
    if (host->wall_ns[i] < each_ns)
      each_ns = host->wall_ns[i];
  if (each_ns < 50)
    each_ns = 50;
  double sample_ns = host->options->quick ? 1e6 : 2e5;
  int least = host->options->quick ? 5 : 10;
  long batch = each_ns < sample_ns ? (long) (sample_ns / each_ns) + 1 : 1;
  double most = seconds * 1e9 / (each_ns * (double) batch), cap = 2e9 / (each_ns * (double) batch);
  int samples = most < least ? least : most > MOST_SAMPLES ? MOST_SAMPLES : (int) most;
  if (samples > cap)
    samples = cap < 3 ? 3 : (int) cap;
  getrusage (RUSAGE_SELF, &before);
  order (host, command, batch, samples);
  getrusage (RUSAGE_SELF, &after);
  *ret_switches = (double) (after.ru_nivcsw - before.ru_nivcsw);
  memset (ret_stats, 0, sizeof *ret_stats);
  bench_stats (host->wall_ns, samples, ret_stats);
  bench_stats (host->cpu_ns, samples, &cpu);
  ret_stats->cpu_ns = cpu.median_ns;
  ret_stats->iterations = samples * batch;
}

static void
measure_and_write (Host *host, const BenchCommand *command, double seconds, int sweep)
{
  const BenchOptions *options = host->options;
  BenchStats stats;
  double switches, load[1];

  measure (host, command, seconds, &stats, &switches);
  if (command->what <= WHAT_WEIGHT)
    {
      bench_line_begin (options, "gemm");
      bench_line_text (options, "dtype", "fp32");
      bench_line_text (options, "pass", whats[command->what].name);
      bench_line_number (options, "batch", 1);
      bench_line_number (options, "m", command->ints[0]);
      bench_line_number (options, "n", command->ints[1]);
      bench_line_number (options, "k", command->ints[2]);
    }
  else if (command->what <= WHAT_MOMENTUM)
    {
      bench_line_begin (options, "copy");
      bench_line_text (options, "what", whats[command->what].name);
      bench_line_number (options, "bytes", (double) command->bytes);
      bench_line_number (options, "moved_bytes", (double) command->bytes * whats[command->what].moved);
    }
  else
    {
      bench_line_begin (options, "collective");
      bench_line_text (options, "op", whats[command->what].name);
      bench_line_number (options, "ranks", host->ranks.n);
      bench_line_number (options, "nodes", 1);
      bench_line_number (options, "bytes", (double) command->bytes);
    }
  bench_line_number (options, "sweep", sweep);
  bench_line_stats (options, &stats);
  bench_line_number (options, "switches", switches);
  if (getloadavg (load, 1) == 1)
    bench_line_number (options, "load_average", load[0]);
  bench_line_end (options);
}

static void
run_list (Host *host, const BenchCommand *list, int n, int sweep, double deadline_s)
{
  double seconds = n ? (deadline_s - bench_now_s ()) / n : 0;
  int done = 0;

  seconds = seconds < 0.005 ? 0.005 : seconds > 0.2 ? 0.2 : seconds;
  /* A curve needs some points whatever the time. */
  for (; done < n && !bench_interrupted () && (done < LEAST_POINTS || bench_now_s () < deadline_s); done++)
    measure_and_write (host, &list[bench_order (done, n, sweep)], seconds, sweep);
  if (done < n && !bench_interrupted ())
    bench_warn (host->options, "time for %d of %d points", done, n);
}

/* Forward, input and weight gradient of a layer: the shape of each product is its own, result first. */
static int
add_layer (BenchCommand *list, int n, int rows, int out, int in)
{
  list[n++] = (BenchCommand){ .what = WHAT_FORWARD, .ints = { rows, out, in } };
  list[n++] = (BenchCommand){ .what = WHAT_INPUT, .ints = { rows, in, out } };
  list[n++] = (BenchCommand){ .what = WHAT_WEIGHT, .ints = { out, in, rows } };
  return n;
}

static int
gemm_run (void *state, int sweep, double deadline_s)
{
  Host *host = state;
  BenchCommand list[256];
  int n = 0;

  for (int width = host->options->quick ? 512 : 1024; width >= (host->options->quick ? 256 : 128); width /= 2)
    for (int rows = host->options->quick ? 64 : 8; rows <= 256; rows *= host->options->quick ? 4 : 2)
      n = add_layer (list, n, rows, width, width);
  if (!host->options->quick)
    {
      for (int width = 192; width <= 768; width *= 2)
        n = add_layer (list, n, 128, width, width);
      n = add_layer (list, n, 64, 10, 512);
      n = add_layer (list, n, 64, 512, 784);
      n = add_layer (list, n, 64, 512, 3072);
      for (int size = 128; size <= 1024; size *= 2)
        list[n++] = (BenchCommand){ .what = WHAT_FORWARD, .ints = { size, size, size } };
    }
  run_list (host, list, n, sweep, deadline_s);
  return 0;
}

/* `kinds` over sizes from `largest` down to `least` bytes by powers of two, of 16 when it must be quick. */
static void
run_sizes (Host *host, const What *kinds, int n_kinds, size_t least, size_t largest, int sweep, double deadline_s)
{
  BenchCommand list[256];
  int n = 0;

  for (size_t bytes = largest; bytes >= least; bytes /= host->options->quick ? 16 : 2)
    for (int i = 0; i < n_kinds; i++)
      list[n++] = (BenchCommand){ .what = (int) kinds[i], .bytes = bytes };
  run_list (host, list, n, sweep, deadline_s);
}

static int
copy_run (void *state, int sweep, double deadline_s)
{
  Host *host = state;
  const What kinds[] = { WHAT_COPY, WHAT_MOMENTUM, WHAT_AXPY, WHAT_SCALE };
  run_sizes (host, kinds, host->options->quick ? 2 : 4, 4096, host->pool_bytes, sweep, deadline_s);
  return 0;
}

static int
collective_run (void *state, int sweep, double deadline_s)
{
  Host *host = state;
  const What kinds[] = { WHAT_ALL_REDUCE, WHAT_SEND_RECV };
  if (host->ranks.n > 1)
    run_sizes (host, kinds, 2, host->options->quick ? 1024 : 8, host->ranks.buffer_bytes, sweep, deadline_s);
  return 0;
}

/* Random pools of this rank, written so that every page is there. */
static bool
open_pools (Host *host)
{
  float **pools[] = { &host->in, &host->out, &host->third };
  for (size_t i = 0; i < 3; i++)
    {
      if (posix_memalign ((void **) pools[i], 4096, host->pool_bytes))
        {
          bench_warn (host->options, "out of memory: no room for buffers of %zu MiB", host->pool_bytes >> 20);
          return false;
        }
      bench_fill_fp32 (*pools[i], host->pool_bytes / sizeof (float), (uint64_t) host->ranks.rank * 3 + i);
    }
  return true;
}

int
main (int argc, char **argv)
{
  static const BenchSection sections[] = { { "gemm", 3, false, gemm_run },
                                           { "copy", 1, false, copy_run },
                                           { "collective", 1.5, false, collective_run } };
  BenchOptions options = {
    .program = "bench-host",
    .usage = "                     (gemm copy collective)\n"
             "  --ranks N          processes that measure at once (default: one for each core, 2 to 8)\n"
  };
  Host *host = calloc (1, sizeof *host);

  bench_options_parse (&options, argc, argv);
  if (!bench_sections_check (&options, sections, sizeof sections / sizeof sections[0]))
    return 2;
  if (!host || !bench_output_open (&options))
    return 1;
  host->options = &options;
  long cpus = sysconf (_SC_NPROCESSORS_ONLN), cache = sysconf (_SC_LEVEL3_CACHE_SIZE);
  /* Two ranks also on one core: messages need them. Pools beyond twice the last cache, within reason. */
  int n = options.ranks > 1 ? options.ranks : cpus < 2 ? 2 : cpus > 8 ? 8 : (int) cpus;
  host->pool_bytes = (size_t) 64 << 20;
  if (cache > 0 && (size_t) cache * 2 > host->pool_bytes)
    host->pool_bytes = (size_t) cache * 2 < (size_t) 128 << 20 ? (size_t) cache * 2 : (size_t) 128 << 20;
  host->pool_bytes &= ~(size_t) 4095;

  openblas_set_num_threads (1);
  bench_start_record (&options, "host", argc, argv);
  if (!bench_ranks_open (&host->ranks, &options, n, (size_t) 16 << 20) || !open_pools (host))
    return 1;
  if (host->ranks.rank > 0)
    serve (host);
  bench_line_begin (&options, "device");
  bench_line_text (&options, "gpu", "CPU core");
  bench_line_number (&options, "gpus", n);
  bench_line_text (&options, "blas", openblas_get_config ());
  bench_line_number (&options, "l2_bytes", (double) cache);
  bench_line_number (&options, "memory_total_bytes",
                     (double) sysconf (_SC_PHYS_PAGES) * (double) sysconf (_SC_PAGESIZE) / n);
  bench_line_end (&options);

  double until_s = bench_now_s () + 0.5;
  while (bench_now_s () < until_s && !bench_interrupted ()) /* until the clocks have settled */
    order (host, &(BenchCommand){ .what = WHAT_FORWARD, .ints = { 256, 256, 256 } }, 10, 1);
  int status = bench_sections_run (&options, sections, sizeof sections / sizeof sections[0], host);
  bench_ranks_close (&host->ranks);
  free (host->in);
  free (host->out);
  free (host->third);
  free (host);
  return status;
}
