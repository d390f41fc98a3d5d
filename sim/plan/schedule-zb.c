/* SPDX-License-Identifier: MIT */
#include "schedule-zb.h"

PsiSchedule *
psi_schedule_new_one_part (const char *name, const PsiScheduleShape *shape, GError **error)
{
  if (shape->chunks == 1)
    return psi_schedule_new (shape->ranks, 1, shape->micro_batches);
  g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
               "schedule '%s' has one model part per rank, not vpp = %u (interleaved allows more)", name,
               shape->chunks);
  return NULL;
}

PsiSchedule *
psi_schedule_new_v (const char *name, const PsiScheduleShape *shape, GError **error)
{
  PsiSchedule *schedule;

  if (shape->chunks != 2)
    {
      g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE,
                   "schedule '%s' has two model parts per rank, not vpp = %u", name, shape->chunks);
      return NULL;
    }
  schedule = psi_schedule_new (shape->ranks, 2, shape->micro_batches);
  psi_schedule_fold (schedule);
  return schedule;
}

void
psi_schedule_add_lagging (PsiSchedule *schedule, guint rank, gint64 warm_up, gint64 lag)
{
  gint64 m = schedule->micro_batches;

  for (gint64 b = 0; b < MIN (warm_up, m); b++)
    psi_schedule_add (schedule, rank, PSI_TOKEN_FORWARD, b, 0);
  for (gint64 b = 0; b < m; b++)
    {
      if (b + warm_up < m)
        psi_schedule_add (schedule, rank, PSI_TOKEN_FORWARD, b + warm_up, 0);
      psi_schedule_add (schedule, rank, PSI_TOKEN_BACKWARD_INPUT, b, 0);
      if (b >= lag)
        psi_schedule_add (schedule, rank, PSI_TOKEN_BACKWARD_WEIGHT, b - lag, 0);
    }
  for (gint64 b = MAX (m - lag, 0); b < m; b++)
    psi_schedule_add (schedule, rank, PSI_TOKEN_BACKWARD_WEIGHT, b, 0);
}
