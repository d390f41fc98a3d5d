/* SPDX-License-Identifier: MIT */
/* JSON Lines on standard output, one object a line, told apart by their first key:
 *   program  what is run, load average before
 *   op       one op of a rank: times from the common start, wait (part of begin..end), CPU time, live and peak bytes
 *   step     loss; per rank wall, CPU and waiting time
 *   rank     peak by class, context switches, resident memory
 *   final    loss, hash of all parameters (FNV-1a 64), period, load average after */
#pragma once

#include "train-run.h"

#include <stdio.h>

uint64_t train_hash (const void *bytes, size_t n_bytes); /* FNV-1a, 64 bits */

void train_report_begin (FILE *file, const TrainRun *run, TrainUpdate update);
void train_report_run (FILE *file, const TrainRun *run); /* op, step and rank lines, as the flag --log says */
void train_report_losses (FILE *file, const TrainRun *run, const double *losses); /* step lines of the reference */

/* `replicas_equal` and `losses` of each step. step times are left out (null) without `run->shared`. */
void train_report_end (FILE *file, const TrainRun *run, const double *losses, const float *final, bool replicas_equal);
