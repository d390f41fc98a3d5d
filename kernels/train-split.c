/* SPDX-License-Identifier: MIT */
/* Sharding works in units smaller than a model: gathers and reductions are done layer by layer. A schedule whose ranks
 * hold the model as one part is therefore rewritten with one part per unit: F0 becomes F0.0 F0.1 ..., B0 ... B0.1 B0.0.
 */
#include "train-schedule.h"

#include <stdlib.h>

static void
split_list (TrainList *list, int n_units)
{
  TrainToken *tokens = train_new (list->n_tokens * (size_t) n_units, sizeof *tokens);
  size_t n = 0;

  for (size_t i = 0; i < list->n_tokens; i++)
    for (int unit = 0; unit < n_units; unit++)
      {
        TrainToken token = list->tokens[i];

        token.chunk = token.kind == 'F' || token.kind == 'U' ? unit : n_units - 1 - unit;
        if (unit > 0) /* the first waits for all */
          token.n_waits = 0;
        tokens[n++] = token;
      }
  free (list->tokens);
  *list = (TrainList){ tokens, n };
}

void
train_schedule_split (TrainSchedule *schedule, int n_units)
{
  if (schedule->n_chunks != 1 || !schedule->whole || n_units <= 1)
    return;
  for (int rank = 0; rank < schedule->n_ranks; rank++)
    {
      split_list (&schedule->once[rank], n_units);
      split_list (&schedule->loop[rank], n_units);
    }
  for (size_t i = 0; i < schedule->n_waits; i++) /* an op is done when its last unit is */
    schedule->waits[i].chunk = schedule->waits[i].kind == 'F' ? n_units - 1 : 0;
  free (schedule->part_of);
  schedule->part_of = train_new ((size_t) schedule->n_ranks * (size_t) n_units, sizeof (int));
  for (int i = 0; i < schedule->n_ranks * n_units; i++)
    schedule->part_of[i] = i / schedule->n_ranks;
  schedule->n_chunks = schedule->n_parts = n_units;
}
