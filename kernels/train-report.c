/* SPDX-License-Identifier: MIT */
#include "train-report.h"

#include "train-device.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t
train_hash (const void *bytes, size_t n_bytes)
{
  const unsigned char *at = bytes;
  uint64_t hash = 0xcbf29ce484222325u;

  for (size_t i = 0; i < n_bytes; i++)
    hash = (hash ^ at[i]) * 0x100000001b3u;
  return hash;
}

static void
print_text (FILE *file, const char *text)
{
  fputc ('"', file);
  for (; *text != '\0'; text++)
    if ((unsigned char) *text < 0x20)
      fprintf (file, "\\u%04x", (unsigned) *text);
    else
      fprintf (file, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
  fputc ('"', file);
}

static void
print_real (FILE *file, const char *key, double value)
{
  if (isfinite (value))
    fprintf (file, ", \"%s\": %.9g", key, value);
  else
    fprintf (file, ", \"%s\": null", key);
}

static double
load_average (void)
{
  double load = (double) NAN;

  return getloadavg (&load, 1) == 1 ? load : (double) NAN;
}

static size_t
count_parameters (const TrainModel *model)
{
  size_t n = 0;

  for (int i = 0; i < model->n_parts; i++)
    n += model->parts[i].n_parameters;
  return n;
}

void
train_report_begin (FILE *file, const TrainRun *run, TrainUpdate update)
{
  const TrainOptions *options = run->options;

  fprintf (file, "{\"program\": \"train-%s\", \"schedule\": ", train_device_name);
  if (options->schedule_path != NULL && !options->reference)
    print_text (file, options->schedule_path);
  else
    fputs ("null", file);
  fprintf (file, ", \"ranks\": %d, \"parts\": %d, \"micro_batches\": %d, \"steps\": %d, \"step_samples\": %d",
           options->reference ? 1 : run->plan->schedule->n_ranks, run->model->n_parts, run->n_batches, options->steps,
           run->step_rows);
  fprintf (file, ", \"width\": %d, \"blocks\": %d, \"parameters\": %zu, \"update\": \"%s\", \"zero\": %d",
           options->width, options->blocks, count_parameters (run->model), train_update_names[update], options->zero);
  fprintf (file, ", \"cores\": %ld", sysconf (_SC_NPROCESSORS_ONLN));
  print_real (file, "load_average", load_average ());
  fputs ("}\n", file);
}

static void
print_ops (FILE *file, const TrainRun *run, int rank)
{
  const TrainSchedule *schedule = run->plan->schedule;
  const TrainProgram *program = &run->plan->programs[rank];

  for (size_t i = 0; i < program->n_ops; i++)
    {
      const TrainOp *op = &program->ops[i];
      const TrainRecord *record = &run->shared->records[rank][i];
      char token[32];

      fprintf (file, "{\"op\": \"%s\", \"rank\": %d, \"step\": %d, \"part\": %d, \"version\": %d",
               train_token_print (schedule, op->kind, op->micro_batch, op->chunk, token), rank, op->step, op->part,
               op->version);
      fprintf (file, ", \"begin_s\": %.9f, \"end_s\": %.9f, \"wait_s\": %.9f, \"wall_s\": %.9f, \"cpu_s\": %.9f",
               (double) record->begin_ns * 1e-9, (double) record->end_ns * 1e-9, (double) record->wait_ns * 1e-9,
               (double) (record->end_ns - record->begin_ns - record->wait_ns) * 1e-9, (double) record->cpu_ns * 1e-9);
      fprintf (file, ", \"live_bytes\": %zu, \"peak_bytes\": %zu}\n", record->live_bytes, record->peak_bytes);
    }
}

/* Wall, CPU and waiting seconds of one rank's share of a step: from the end of its last update of the step before to
 * that of this step. *at moves past the ops of the step. */
static void
sum_step (const TrainRun *run, int rank, int step, size_t *at, double *ret_seconds)
{
  const TrainProgram *program = &run->plan->programs[rank];
  const TrainRecord *records = run->shared->records[rank];
  size_t last = *at;
  int64_t begin_ns = *at > 0 ? records[*at - 1].end_ns : 0;

  ret_seconds[0] = ret_seconds[1] = ret_seconds[2] = 0.0;
  for (size_t i = *at; i < program->n_ops; i++)
    if (program->ops[i].kind == 'U' && program->ops[i].step == step)
      last = i + 1;
  if (step == run->plan->n_steps - 1)
    last = program->n_ops;
  for (; *at < last; ++*at)
    {
      ret_seconds[1] += (double) records[*at].cpu_ns * 1e-9;
      ret_seconds[2] += (double) records[*at].wait_ns * 1e-9;
    }
  if (last > 0)
    ret_seconds[0] = (double) (records[last - 1].end_ns - begin_ns) * 1e-9;
}

static double
step_loss (const TrainRun *run, int step)
{
  double loss = 0.0;

  for (int i = 0; i < run->n_batches; i++)
    loss += run->shared->losses[step * run->n_batches + i];
  return loss;
}

static void
print_steps (FILE *file, const TrainRun *run)
{
  static const char *const keys[3] = { "wall_s", "cpu_s", "wait_s" };
  int n_ranks = run->plan->schedule->n_ranks;
  size_t *at = train_new ((size_t) n_ranks, sizeof (size_t));
  double *seconds = train_new (3 * (size_t) n_ranks, sizeof (double));

  for (int step = 0; step < run->plan->n_steps; step++)
    {
      fprintf (file, "{\"step\": %d", step);
      print_real (file, "loss", step_loss (run, step));
      for (int rank = 0; rank < n_ranks; rank++)
        sum_step (run, rank, step, &at[rank], &seconds[3 * rank]);
      for (int k = 0; k < 3; k++)
        {
          fprintf (file, ", \"%s\": [", keys[k]);
          for (int rank = 0; rank < n_ranks; rank++)
            fprintf (file, "%s%.9f", rank > 0 ? ", " : "", seconds[3 * rank + k]);
          fputc (']', file);
        }
      fputs ("}\n", file);
    }
  free (at);
  free (seconds);
}

static void
print_rank (FILE *file, const TrainRun *run, int rank)
{
  const TrainRankEnd *end = &run->shared->ends[rank];

  fprintf (file, "{\"rank\": %d, \"peak_bytes\": %zu, \"steady_bytes\": %zu, \"activations_peak_bytes\": %zu", rank,
           end->meter.peak_bytes, end->meter.total_bytes, end->meter.activations_peak_bytes);
  fputs (", \"at_peak\": {", file);
  for (int i = 0; i < TRAIN_N_MEMORY; i++)
    fprintf (file, "%s\"%s_bytes\": %zu", i > 0 ? ", " : "", train_memory_names[i], end->meter.at_peak_bytes[i]);
  fprintf (file,
           "}, \"cpu_s\": %.9f, \"involuntary_switches\": %ld, \"voluntary_switches\": %ld, \"max_rss_bytes\": %ld}\n",
           (double) end->cpu_ns * 1e-9, end->n_involuntary, end->n_voluntary, end->max_rss_kib * 1024);
}

void
train_report_run (FILE *file, const TrainRun *run)
{
  int n_ranks = run->plan->schedule->n_ranks;

  for (int rank = 0; rank < n_ranks && run->options->log == TRAIN_LOG_OPS; rank++)
    print_ops (file, run, rank);
  if (run->options->log == TRAIN_LOG_END)
    return;
  print_steps (file, run);
  for (int rank = 0; rank < n_ranks; rank++)
    print_rank (file, run, rank);
}

void
train_report_losses (FILE *file, const TrainRun *run, const double *losses)
{
  for (int step = 0; step < run->options->steps && run->options->log != TRAIN_LOG_END; step++)
    {
      fprintf (file, "{\"step\": %d", step);
      print_real (file, "loss", losses[step]);
      fputs ("}\n", file);
    }
}

/* The period without the first step, which touches fresh memory: wall time of the slowest rank, CPU time of the
 * busiest. */
static void
print_period (FILE *file, const TrainRun *run)
{
  double wall_s = 0.0, cpu_s = 0.0, seconds[3];
  int n_steps = run->plan->n_steps;

  for (int rank = 0; rank < run->plan->schedule->n_ranks; rank++)
    {
      double rank_wall_s = 0.0, rank_cpu_s = 0.0;
      size_t at = 0;

      for (int step = 0; step < n_steps; step++)
        {
          sum_step (run, rank, step, &at, seconds);
          rank_wall_s += step > 0 ? seconds[0] / (n_steps - 1) : 0.0;
          rank_cpu_s += step > 0 ? seconds[1] / (n_steps - 1) : 0.0;
        }
      wall_s = fmax (wall_s, rank_wall_s);
      cpu_s = fmax (cpu_s, rank_cpu_s);
    }
  print_real (file, "step_time_s", n_steps > 1 ? wall_s : (double) NAN);
  print_real (file, "step_cpu_s", n_steps > 1 ? cpu_s : (double) NAN);
}

void
train_report_end (FILE *file, const TrainRun *run, const double *losses, const float *final, bool replicas_equal)
{
  int last = run->options->steps - 1;

  fprintf (file, "{\"final\": \"%016llx\", \"replicas_equal\": %s",
           (unsigned long long) train_hash (final, count_parameters (run->model) * sizeof (float)),
           replicas_equal ? "true" : "false");
  print_real (file, "loss", losses != NULL ? losses[last] : step_loss (run, last));
  if (run->shared != NULL)
    print_period (file, run);
  else
    fputs (", \"step_time_s\": null, \"step_cpu_s\": null", file);
  print_real (file, "load_average", load_average ());
  fputs ("}\n", file);
}
