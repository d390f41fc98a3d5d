/* SPDX-License-Identifier: MIT */
/* The memory of a step as the snapshot PyTorch's memory_viz opens (https://pytorch.org/memory_viz, "Active Memory
 * Timeline"): the allocations of each drawn rank over one step, named by what they hold. */
#pragma once

#include "drawn-ranks.h"
#include "psi-run.h"

/* Write `path`, a pickle (protocol 2) of {"segments": [...], "device_traces": [[...], ...]}; each drawn rank is a
 * device, numbered from 0. `ranks` as in psi_timeline_write_step(). Written under a temporary name first. */
gboolean psi_memory_snapshot_write (const char *path, const PsiStep *step, const PsiRun *run, const char *ranks,
                                    GError **error);
