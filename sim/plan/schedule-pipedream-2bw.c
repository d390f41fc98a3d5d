/* SPDX-License-Identifier: MIT */
/* PipeDream-2BW: 1F1B that never flushes. Gradients of m micro-batches are summed, then the next ones begin on the new
 * version while those under way end on the old one, so two versions are kept and every gradient is one step old.
 *
 *   period       m (F + B), no bubble                    m >= p
 *   in flight    p - r on rank r; 2 parameter versions
 *   transfers    2 m (p - 1); delay 1 step
 *   update       theta_{t+1} = theta_t - g / m sum_i grad f_i (theta_{t-1})
 *
 * It is the cyclic order with one rank for each stage and every micro-batch a worker, updated by cyclic-v1. Equal
 * stages, free transfers. Source: Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, arXiv 2006.09503,
 * section 3; that the rule is that of cyclic-v1 is derived. */
#include "schedule.h"

static PsiSchedule *
build (const PsiScheduleShape *shape, GError **error)
{
  if (shape->workers >= shape->stages)
    return psi_schedule_cyclic.build (shape, error);
  g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
               "schedule 'pipedream-2bw' needs at least as many micro-batches as ranks, %u, not %u", shape->stages,
               shape->workers);
  return NULL;
}

const PsiScheduleKind psi_schedule_pipedream_2bw = {
  .name = "pipedream-2bw",
  .summary = "pipeline without a flush: no bubble, two parameter versions, gradients one step old",
  .cyclic = TRUE,
  .build = build,
};
