/* SPDX-License-Identifier: MIT */
/* The schedule file: who computes what, in which order. Text in, lists out; knows no tensors. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* One line about what the user got wrong. */
typedef struct
{
  char text[512];
} TrainError;

/* Set the text, unless one is there already; always false. */
bool train_fail (TrainError *error, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

/* calloc or end the program: out of host memory is no user error. */
void *train_new (size_t n, size_t size_bytes);

#define TRAIN_MOST_DELAY 255 /* steps that a word may look back */

typedef struct
{
  int rank;
  char kind; /* F B I W */
  int micro_batch, chunk;
} TrainWait;

/* One word of a rank's list: F3, B3.1, U1, or one half of F4+B1.1. */
typedef struct
{
  char kind; /* F forward, B backward, I its input-gradient half, W its weight-gradient half, U update */
  int micro_batch, chunk;
  int delay;               /* @-2: the parameters of so many steps before */
  bool joined;             /* runs together with the word before it (F4+B1.1) */
  int first_wait, n_waits; /* >2:B0.1, in the schedule's `waits` */
} TrainToken;

typedef struct
{
  TrainToken *tokens;
  size_t n_tokens;
} TrainList;

typedef struct
{
  int n_ranks, n_chunks, n_parts;
  int micro_batches; /* m: step s numbers its micro-batches s*m .. (s+1)*m-1 */
  int steps;         /* steps the repeated lists cover */
  bool repeats;      /* a `repeat` line: `once` runs first, then `loop` for ever; without it only `loop` is filled */
  bool updates;      /* U words are in the file; without them every list ends in the update of its chunks */
  bool whole;        /* every rank holds every part: its own worker */
  bool replicas;     /* every rank holds the whole model and runs micro-batches 0..m-1 of its own data */
  int *part_of;      /* [chunk * n_ranks + rank] */
  TrainList *once, *loop; /* one per rank */
  TrainWait *waits;
  size_t n_waits;
} TrainSchedule;

/* Parse a schedule. `name` is the prefix of messages ("gpipe.sched:7: ..."). Returns a schedule that the caller frees,
 * or NULL with *error set. Whether the lists make sense together is for train_plan_new(). */
TrainSchedule *train_schedule_parse (const char *text, const char *name, TrainError *error);
TrainSchedule *train_schedule_load (const char *path, TrainError *error); /* "-" reads standard input */
void train_schedule_free (TrainSchedule *schedule);

/* Cut the one part of a schedule in which every rank holds the whole model into `n_units` parts; others stay as they
 * are. */
void train_schedule_split (TrainSchedule *schedule, int n_units);

/* Part held as `chunk` by `rank`. */
int train_schedule_part (const TrainSchedule *schedule, int rank, int chunk);

/* "F3.1" into `text` (at least 32 bytes); the chunk is left out where there is only one. Returns `text`. */
char *train_token_print (const TrainSchedule *schedule, char kind, int micro_batch, int chunk, char *text);
