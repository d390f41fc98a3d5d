/* SPDX-License-Identifier: MIT */
#include "train-plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const train_update_names[TRAIN_N_UPDATES] = { "file",      "synchronous",  "cyclic-v1",
                                                          "cyclic-v2", "asynchronous", "random" };

int
train_delay (TrainUpdate update, int worker, int part, int n_workers, int n_parts)
{
  int late = n_parts - 1 - part - worker;

  if (update == TRAIN_UPDATE_CYCLIC_V1)
    return 1;
  if (update == TRAIN_UPDATE_ASYNCHRONOUS)
    return late > 0 ? (late + n_workers - 1) / n_workers : 0;
  if (update != TRAIN_UPDATE_CYCLIC_V2)
    return 0;
  return (long) (worker + 1) * n_parts + (long) (part + 1) * n_workers < (long) (n_parts + 1) * n_workers;
}

#define MAX_PLACES 3e8 /* ops of a run; more would not fit memory */

/* Where the forward, the input-gradient and the weight-gradient op of a (replica, micro-batch, part) stand. A full
 * backward is both of the latter. */
enum
{
  SLOT_FORWARD,
  SLOT_INPUT,
  SLOT_WEIGHT,
  N_SLOTS
};

typedef struct
{
  TrainPlan *plan;
  const TrainSchedule *schedule;
  int total;         /* micro-batches of the run */
  TrainNeed *places; /* [((replica * total + micro_batch) * n_parts + part) * N_SLOTS + slot] */
  int *updates;      /* [(rank * n_chunks + chunk) * n_steps + step]: position of U, or -1 */
  TrainError *error;
} Builder;

static TrainNeed *
place (const Builder *builder, int rank, int micro_batch, int part, int slot)
{
  size_t replica = builder->schedule->replicas ? (size_t) rank : 0;

  return &builder->places[((replica * (size_t) builder->total + (size_t) micro_batch) *
                               (size_t) builder->schedule->n_parts +
                           (size_t) part) *
                              N_SLOTS +
                          (size_t) slot];
}

static int *
update_place (const Builder *builder, int rank, int chunk, int step)
{
  return &builder->updates[(rank * builder->schedule->n_chunks + chunk) * builder->plan->n_steps + step];
}

static void
add_need (TrainPlan *plan, TrainOp *op, TrainNeed need)
{
  if ((plan->n_needs & (plan->n_needs - 1)) == 0)
    {
      TrainNeed *grown = train_new (plan->n_needs > 0 ? 2 * plan->n_needs : 1, sizeof *grown);

      if (plan->n_needs > 0)
        memcpy (grown, plan->needs, plan->n_needs * sizeof *grown);
      free (plan->needs);
      plan->needs = grown;
    }
  plan->needs[plan->n_needs++] = need;
  op->n_needs++;
}

/* Record that an op fills a slot; a second one is an error. */
static bool
fill (Builder *builder, int rank, size_t position, const TrainOp *op, int slot)
{
  TrainNeed *at = place (builder, rank, op->micro_batch, op->part, slot);
  char token[32];

  if (at->rank >= 0)
    return train_fail (builder->error, "doubled op: rank %d does %s of part %d, which rank %d did already", rank,
                       train_token_print (builder->schedule, op->kind, op->micro_batch, op->chunk, token), op->part,
                       at->rank);
  *at = (TrainNeed){ rank, (int) position };
  return true;
}

/* The chunk of a rank with the i-th smallest part: updates that a file leaves out come in the order of parts, the same
 * on all ranks, since their all-reduces wait for each other. */
static int
chunk_by_part (const TrainSchedule *schedule, int rank, int i)
{
  for (int chunk = 0; chunk < schedule->n_chunks; chunk++)
    {
      int n_smaller = 0;

      for (int other = 0; other < schedule->n_chunks; other++)
        n_smaller += train_schedule_part (schedule, rank, other) < train_schedule_part (schedule, rank, chunk);
      if (n_smaller == i)
        return chunk;
    }
  return 0;
}

/* Append one repetition of a list, its micro-batches moved on by `offset`; what lies beyond the run is left out. */
static bool
append_list (Builder *builder, int rank, const TrainList *list, int offset, int *n_updates)
{
  const TrainSchedule *schedule = builder->schedule;
  TrainPlan *plan = builder->plan;
  TrainProgram *program = &plan->programs[rank];
  bool implicit = !schedule->updates;
  size_t n_tokens = list->n_tokens + (implicit ? (size_t) schedule->n_chunks : 0);
  bool skipped = false;

  for (size_t i = 0; i < n_tokens; i++)
    {
      TrainToken implied = { .kind = 'U' };
      const TrainToken *token = i < list->n_tokens ? &list->tokens[i] : &implied;
      TrainOp op = { .kind = token->kind, .chunk = token->chunk, .input_rank = -1, .output_rank = -1 };
      bool good = true;

      if (i >= list->n_tokens)
        op.chunk = implied.chunk = chunk_by_part (schedule, rank, (int) (i - list->n_tokens));
      op.part = train_schedule_part (schedule, rank, token->chunk);
      op.micro_batch = token->kind == 'U' ? -1 : token->micro_batch + offset;
      op.step = token->kind == 'U' ? n_updates[token->chunk]++ : op.micro_batch / schedule->micro_batches;
      if (op.step >= plan->n_steps)
        {
          skipped = !token->joined || skipped;
          continue;
        }
      op.joined = token->joined && !skipped;
      skipped = false;
      op.version = op.step > token->delay ? op.step - token->delay : 0;
      if (token->kind == 'U')
        *update_place (builder, rank, token->chunk, op.step) = (int) program->n_ops;
      else
        {
          op.batch =
              op.micro_batch % schedule->micro_batches + (schedule->replicas ? rank * schedule->micro_batches : 0);
          if (token->kind == 'F')
            good = fill (builder, rank, program->n_ops, &op, SLOT_FORWARD);
          if (token->kind == 'B' || token->kind == 'I')
            good = fill (builder, rank, program->n_ops, &op, SLOT_INPUT);
          if (good && (token->kind == 'B' || token->kind == 'W'))
            good = fill (builder, rank, program->n_ops, &op, SLOT_WEIGHT);
        }
      if (!good)
        return false;
      /* Waits are resolved later; until then the needs are the token's waits. */
      op.shift = offset;
      op.first_need = token->first_wait;
      op.n_needs = token->n_waits;
      program->ops[program->n_ops++] = op;
    }
  return true;
}

static bool
unroll (Builder *builder, int rank)
{
  const TrainSchedule *schedule = builder->schedule;
  TrainPlan *plan = builder->plan;
  int n_repeats = plan->n_steps / schedule->steps + 2;
  const TrainList *once = &schedule->once[rank], *loop = &schedule->loop[rank];
  size_t space = once->n_tokens + (size_t) n_repeats * (loop->n_tokens + (size_t) schedule->n_chunks);
  int *n_updates = train_new ((size_t) schedule->n_chunks, sizeof (int));
  bool good = true;

  plan->programs[rank].ops = train_new (space, sizeof (TrainOp));
  if (schedule->repeats)
    good = append_list (builder, rank, once, 0, n_updates);
  for (int i = 0; i < n_repeats && good; i++)
    good = append_list (builder, rank, loop, i * schedule->steps * schedule->micro_batches, n_updates);
  free (n_updates);
  return good;
}

static bool
check_complete (const Builder *builder)
{
  static const char *const names[N_SLOTS] = { "F", "B or I", "B or W" };
  const TrainSchedule *schedule = builder->schedule;

  for (int rank = 0; rank < (schedule->replicas ? schedule->n_ranks : 1); rank++)
    for (int n = 0; n < builder->total; n++)
      for (int part = 0; part < schedule->n_parts; part++)
        for (int slot = 0; slot < N_SLOTS; slot++)
          {
            const TrainNeed *at = place (builder, rank, n, part, slot), *forward = place (builder, rank, n, part, 0);

            if (at->rank < 0 && schedule->replicas)
              return train_fail (builder->error, "missing op: rank %d has no %s of micro-batch %d on part %d", rank,
                                 names[slot], n, part);
            if (at->rank < 0)
              return train_fail (builder->error, "missing op: no rank does %s of micro-batch %d on part %d",
                                 names[slot], n, part);
            if (at->rank != forward->rank || builder->plan->programs[at->rank].ops[at->position].chunk !=
                                                 builder->plan->programs[at->rank].ops[forward->position].chunk)
              return train_fail (builder->error,
                                 "misplaced op: %s of micro-batch %d on part %d is not where its F ran (rank %d)",
                                 names[slot], n, part, forward->rank);
          }
  return true;
}

static void
find_holders (TrainPlan *plan)
{
  const TrainSchedule *schedule = plan->schedule;

  for (int part = 0; part < schedule->n_parts; part++)
    {
      plan->owners[part] = -1;
      for (int rank = 0; rank < schedule->n_ranks; rank++)
        for (int chunk = 0, found = 0; chunk < schedule->n_chunks && !found; chunk++)
          if (train_schedule_part (schedule, rank, chunk) == part)
            {
              found = 1;
              plan->holders[part * schedule->n_ranks + plan->n_holders[part]++] = rank;
            }
    }
}

/* Mark which rank updates each part, and each rank's last weight gradient of a part in a step. */
static bool
mark_updates (const Builder *builder, bool owned)
{
  const TrainSchedule *schedule = builder->schedule;
  TrainPlan *plan = builder->plan;

  for (int rank = 0; rank < schedule->n_ranks; rank++)
    {
      TrainProgram *program = &plan->programs[rank];
      bool *seen = train_new ((size_t) schedule->n_parts * (size_t) plan->n_steps, sizeof (bool));

      for (size_t i = program->n_ops; i-- > 0;)
        {
          TrainOp *op = &program->ops[i];
          bool *gradient_seen = &seen[op->step * schedule->n_parts + op->part];

          if (op->kind == 'U')
            plan->owners[op->part] = rank;
          else if (op->kind != 'F' && op->kind != 'I' && !*gradient_seen)
            *gradient_seen = op->last_gradient = true;
        }
      free (seen);
    }
  for (int rank = 0; rank < schedule->n_ranks; rank++)
    for (int chunk = 0; chunk < schedule->n_chunks; chunk++)
      {
        int part = train_schedule_part (schedule, rank, chunk);

        for (int other = 0; other < chunk; other++)
          if (train_schedule_part (schedule, rank, other) == part)
            return train_fail (builder->error, "rank %d holds part %d twice", rank, part);
        for (int step = 0; step < plan->n_steps; step++)
          if (*update_place (builder, rank, chunk, step) < 0 && (!owned || plan->owners[part] == rank))
            return train_fail (builder->error, "missing op: rank %d has no U%d of step %d", rank, chunk, step);
      }
  return true;
}

/* A backward uses the parameters its forward used, whatever its own word says: the gradient is taken at one point. */
static void
set_versions (const Builder *builder, TrainUpdate update)
{
  const TrainSchedule *schedule = builder->schedule;
  TrainPlan *plan = builder->plan;

  for (int slot = SLOT_FORWARD; slot <= SLOT_INPUT; slot++)
    for (int rank = 0; rank < schedule->n_ranks; rank++)
      for (size_t i = 0; i < plan->programs[rank].n_ops; i++)
        {
          TrainOp *op = &plan->programs[rank].ops[i];
          const TrainNeed *forward;

          if (op->kind == 'U')
            continue;
          if (op->kind == 'F' && slot == SLOT_FORWARD && !schedule->updates)
            {
              int worker = op->batch * plan->n_workers / plan->n_batches;
              int delay = train_delay (update, worker, op->part, plan->n_workers, schedule->n_parts);

              op->version = op->step > delay ? op->step - delay : 0;
            }
          if (op->kind == 'F' && op->step - op->version >= plan->n_versions)
            plan->n_versions = op->step - op->version + 1;
          if (op->kind == 'F' || slot == SLOT_FORWARD)
            continue;
          forward = place (builder, rank, op->micro_batch, op->part, SLOT_FORWARD);
          op->version = plan->programs[forward->rank].ops[forward->position].version;
        }
  for (int rank = 0; rank < schedule->n_ranks; rank++)
    {
      TrainProgram *program = &plan->programs[rank];
      int n_versions = plan->n_steps + 1;
      bool *seen = train_new ((size_t) schedule->n_chunks * (size_t) n_versions, sizeof (bool));

      for (size_t i = program->n_ops; i-- > 0;)
        {
          TrainOp *op = &program->ops[i];
          bool *used = &seen[op->chunk * n_versions + op->version];

          if (op->kind == 'W')
            continue;
          op->last_use = !*used;
          *used = true;
        }
      free (seen);
    }
}

static bool
resolve_waits (const Builder *builder, TrainOp *op, int first_wait, int n_waits)
{
  const TrainSchedule *schedule = builder->schedule;

  for (int i = 0; i < n_waits; i++)
    {
      const TrainWait *wait = &schedule->waits[first_wait + i];
      int part = train_schedule_part (schedule, wait->rank, wait->chunk), n = wait->micro_batch + op->shift;
      int slot = wait->kind == 'F' ? SLOT_FORWARD : wait->kind == 'W' ? SLOT_WEIGHT : SLOT_INPUT;
      const TrainNeed *at;
      char token[32];

      if (n >= builder->total)
        continue;
      at = place (builder, wait->rank, n, part, slot);
      if (at->rank != wait->rank || builder->plan->programs[at->rank].ops[at->position].kind != wait->kind)
        return train_fail (builder->error, "missing op: a word waits for >%d:%s, which rank %d never does", wait->rank,
                           train_token_print (schedule, wait->kind, n, wait->chunk, token), wait->rank);
      add_need (builder->plan, op, *at);
    }
  return true;
}

/* An update needs every weight gradient of its step for that part, and that no rank still reads the sums of two steps
 * ago (their memory is used again). */
static void
need_gradients (const Builder *builder, TrainOp *op)
{
  TrainPlan *plan = builder->plan;
  const TrainSchedule *schedule = builder->schedule;

  for (int i = 0; i < plan->n_holders[op->part]; i++)
    {
      int rank = plan->holders[op->part * schedule->n_ranks + i], last = -1;

      for (int n = op->step * schedule->micro_batches; n < (op->step + 1) * schedule->micro_batches; n++)
        {
          const TrainNeed *at = place (builder, rank, n, op->part, SLOT_WEIGHT);

          if (at->rank == rank && at->position > last)
            last = at->position;
        }
      if (last >= 0)
        add_need (plan, op, (TrainNeed){ rank, last });
      for (int chunk = 0; chunk < schedule->n_chunks && op->step >= 2; chunk++)
        if (train_schedule_part (schedule, rank, chunk) == op->part &&
            *update_place (builder, rank, chunk, op->step - 2) >= 0)
          add_need (plan, op, (TrainNeed){ rank, *update_place (builder, rank, chunk, op->step - 2) });
    }
}

/* The boundary tensor of forward (towards part + 1) or backward (towards part - 1), and the memory it travels in. */
static void
need_boundary (const Builder *builder, int rank, TrainOp *op)
{
  TrainPlan *plan = builder->plan;
  int last_part = builder->schedule->n_parts - 1, slot = op->kind == 'F' ? SLOT_FORWARD : SLOT_INPUT;
  int from = op->kind == 'F' ? op->part - 1 : op->part + 1, to = op->kind == 'F' ? op->part + 1 : op->part - 1;
  int before = op->micro_batch - 2 * builder->schedule->micro_batches;

  if (op->kind != 'F')
    add_need (plan, op, *place (builder, rank, op->micro_batch, op->part, SLOT_FORWARD));
  if (from >= 0 && from <= last_part)
    {
      TrainNeed source = *place (builder, rank, op->micro_batch, from, slot);

      add_need (plan, op, source);
      op->input_rank = source.rank;
    }
  if (to >= 0 && to <= last_part)
    {
      op->output_rank = place (builder, rank, op->micro_batch, to, slot)->rank;
      if (before >= 0 && op->output_rank != rank)
        add_need (plan, op, *place (builder, rank, before, to, slot));
    }
}

static bool
find_needs (const Builder *builder, bool owned)
{
  const TrainSchedule *schedule = builder->schedule;
  TrainPlan *plan = builder->plan;

  for (int rank = 0; rank < schedule->n_ranks; rank++)
    for (size_t i = 0; i < plan->programs[rank].n_ops; i++)
      {
        TrainOp *op = &plan->programs[rank].ops[i];
        int first_wait = op->first_need, n_waits = op->n_needs;
        int updater = owned && schedule->updates ? plan->owners[op->part] : rank, update = -1;

        op->first_need = (int) plan->n_needs;
        op->n_needs = 0;
        if (!resolve_waits (builder, op, first_wait, n_waits))
          return false;
        for (int chunk = 0; chunk < schedule->n_chunks && op->version > 0; chunk++)
          if (train_schedule_part (schedule, updater, chunk) == op->part)
            update = *update_place (builder, updater, chunk, op->version - 1);
        if (op->kind != 'W' && op->version > 0)
          add_need (plan, op, (TrainNeed){ updater, update });
        if (op->kind == 'U')
          need_gradients (builder, op);
        else if (op->kind == 'W')
          add_need (plan, op, *place (builder, rank, op->micro_batch, op->part, SLOT_INPUT));
        else
          need_boundary (builder, rank, op);
      }
  return true;
}

/* Follow who waits for whom from a stuck rank until a rank comes twice, and print that cycle. */
static bool
report_deadlock (const TrainPlan *plan, const size_t *done, int first, TrainError *error)
{
  int n_ranks = plan->schedule->n_ranks, rank = first, n_seen = 0;
  int *order = train_new ((size_t) n_ranks, sizeof (int)), *seen = train_new ((size_t) n_ranks, sizeof (int));
  char text[400] = "", token[32], other[32];
  size_t length = 0;

  while (seen[rank] == 0)
    {
      const TrainOp *op = &plan->programs[rank].ops[done[rank]];

      order[n_seen++] = rank;
      seen[rank] = n_seen;
      for (int i = 0; i < op->n_needs; i++)
        {
          const TrainNeed *need = &plan->needs[op->first_need + i];

          if (done[need->rank] <= (size_t) need->position)
            {
              rank = need->rank;
              break;
            }
        }
    }
  for (int i = seen[rank] - 1; i < n_seen && length < sizeof text; i++)
    {
      const TrainOp *op = &plan->programs[order[i]].ops[done[order[i]]];

      for (int k = 0; k < op->n_needs; k++)
        {
          const TrainNeed *need = &plan->needs[op->first_need + k];
          const TrainOp *wanted = &plan->programs[need->rank].ops[need->position];

          if (done[need->rank] > (size_t) need->position)
            continue;
          length += (size_t) snprintf (
              text + length, sizeof text - length, "%srank %d at %s waits for %s of rank %d",
              i >= seen[rank] ? ", " : "", order[i],
              train_token_print (plan->schedule, op->kind, op->micro_batch, op->chunk, token),
              train_token_print (plan->schedule, wanted->kind, wanted->micro_batch, wanted->chunk, other), need->rank);
          break;
        }
    }
  free (order);
  free (seen);
  return train_fail (error, "deadlock: %s", text);
}

/* Run the lists without time: each rank goes on as long as what it needs is done. */
static bool
check_deadlock (const TrainPlan *plan, TrainError *error)
{
  int n_ranks = plan->schedule->n_ranks, stuck = -1;
  size_t *done = train_new ((size_t) n_ranks, sizeof (size_t));
  bool moved = true, good = true;

  while (moved)
    {
      moved = false;
      stuck = -1;
      for (int rank = 0; rank < n_ranks; rank++)
        {
          const TrainProgram *program = &plan->programs[rank];
          bool free_to_go = true;

          while (free_to_go && done[rank] < program->n_ops)
            {
              const TrainOp *op = &program->ops[done[rank]];

              for (int i = 0; i < op->n_needs && free_to_go; i++)
                {
                  const TrainNeed *need = &plan->needs[op->first_need + i];

                  free_to_go = done[need->rank] > (size_t) need->position;
                }
              if (free_to_go)
                {
                  done[rank]++;
                  moved = true;
                }
            }
          if (done[rank] < program->n_ops)
            stuck = rank;
        }
    }
  if (stuck >= 0)
    good = report_deadlock (plan, done, stuck, error);
  free (done);
  return good;
}

TrainPlan *
train_plan_new (const TrainSchedule *schedule, int n_steps, TrainUpdate update, TrainPlanFlags flags, TrainError *error)
{
  size_t n_ranks = (size_t) schedule->n_ranks, n_parts = (size_t) schedule->n_parts;
  size_t total = (size_t) schedule->micro_batches * (size_t) n_steps;
  size_t n_places = (schedule->replicas ? n_ranks : 1) * total * n_parts * N_SLOTS;
  size_t n_updates = n_ranks * (size_t) schedule->n_chunks * (size_t) n_steps;
  TrainPlan *plan = train_new (1, sizeof *plan);
  Builder builder = { .plan = plan, .schedule = schedule, .total = (int) total, .error = error };
  bool good = true, owned = (flags & TRAIN_PLAN_OWNED) != 0;

  if ((double) n_places > MAX_PLACES || (double) n_updates > MAX_PLACES)
    {
      free (plan);
      train_fail (error, "the run is too long: %zu micro-batches on %zu parts", total, n_parts);
      return NULL;
    }
  plan->schedule = schedule;
  plan->n_steps = n_steps;
  plan->n_versions = 2;
  plan->n_batches = schedule->micro_batches * (schedule->replicas ? schedule->n_ranks : 1);
  plan->n_workers = schedule->whole && schedule->n_ranks > 1 ? schedule->n_ranks : schedule->micro_batches;
  plan->programs = train_new (n_ranks, sizeof (TrainProgram));
  plan->n_holders = train_new (n_parts, sizeof (int));
  plan->holders = train_new (n_parts * n_ranks, sizeof (int));
  plan->owners = train_new (n_parts, sizeof (int));
  builder.places = train_new (n_places, sizeof (TrainNeed));
  builder.updates = train_new (n_updates, sizeof (int));
  for (size_t i = 0; i < n_places; i++)
    builder.places[i].rank = -1;
  for (size_t i = 0; i < n_updates; i++)
    builder.updates[i] = -1;

  find_holders (plan);
  for (int rank = 0; rank < schedule->n_ranks && good; rank++)
    good = unroll (&builder, rank);
  good = good && check_complete (&builder) && mark_updates (&builder, owned);
  if (good)
    set_versions (&builder, update);
  good = good && find_needs (&builder, owned) && ((flags & TRAIN_PLAN_UNCHECKED) || check_deadlock (plan, error));
  free (builder.places);
  free (builder.updates);
  if (good)
    return plan;
  train_plan_free (plan);
  return NULL;
}

void
train_plan_free (TrainPlan *plan)
{
  if (plan == NULL)
    return;
  for (int rank = 0; rank < plan->schedule->n_ranks; rank++)
    free (plan->programs[rank].ops);
  free (plan->programs);
  free (plan->needs);
  free (plan->n_holders);
  free (plan->holders);
  free (plan->owners);
  free (plan);
}
