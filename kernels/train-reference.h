/* SPDX-License-Identifier: MIT */
/* The update rules by their equations, in one process and without a schedule: what every schedule must reproduce. */
#pragma once

#include "train-run.h"

/* Train run->options->steps steps with `n_workers` workers; the model's parts are the stages. Fills losses[step] and
 * `final`, all parameters in part order. */
void train_reference (const TrainRun *run, TrainUpdate update, int n_workers, double *losses, float *final);
