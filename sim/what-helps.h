/* SPDX-License-Identifier: MIT */
/* What would make a plan faster, found by simulating it again and again:
 *
 *   links     the rate of each tier of links (inside a node, between nodes) at which the step takes a tenth longer, and
 *             at which it takes twice as long, as with links of that tier that carry any number of bytes at once
 *             (latencies stay). Slower than the second, the plan is bound by that tier: it waits longer than it works.
 *             To 1 %, by bisection; NAN where no rate above a millionth of today's does it
 *   degrees   the next larger and the next smaller value of dp, tp, pp, cp and ep: twice or half of what it is if the
 *             plan admits that and it fills nodes, else one that fills nodes or is twice or half, else the nearest that
 *             the plan admits. On the same GPUs if dp can make up for it, with as many samples in a step; otherwise,
 *             and for dp itself, on more or fewer GPUs with as many for each replica
 *   host      collective_checks no, cuda_graphs yes and step, if the GPU waits for its host
 *   one GPU   the same model on one GPU of the machine, with the plan's micro-batch and as many micro-batches as one of
 *             its replicas
 *
 * Limits: with a profile, collectives take their measured time whatever the rate, so links are left out. */
#pragma once

#include "keys.h"
#include "report.h"

/* Fill plan->what_helps for the plan that these settings gave. */
void psi_what_helps (const PsiSettings *settings, PsiPlanReport *plan);

/* A plan whose GPUs wait so much that one alone might do as much: if that is so, a warning says it. Simulates one GPU
 * for such plans only. */
void psi_warn_if_slower_than_one (const PsiSettings *settings, PsiPlanReport *plan);
