/* SPDX-License-Identifier: MIT */
/* The synchronous end of a step.
 *
 *   zero 0     bucket ready -> all-reduce -> update                         2 (D-1)/D bytes of gradients per GPU
 *   zero 1     bucket ready -> reduce-scatter (under DeepSpeed's pipelines all-reduce) -> update a share -> all-gather
 *              of parameters
 *   zero 2, 3  every layer's gradients reduce-scatter after each backward; zero 3 gathers instead of keeping parameters
 *   server     gradients gathered at a root, updated there, sent back: (D-1) Psi_P in and out of the root
 *
 * Asynchronous workers: each pushes a bucket to the root when it is ready; the root updates bucket by bucket, in the
 * order in which they come, and answers at once with the parameters that the update made. Nobody waits for another
 * worker but at the root and on its links. Workers at rates r_k make r_k / R of the updates, R the sum of the rates,
 * with R / r_k - 1 of others between two of their own: N - 1 on average over all updates, whatever the rates are. The
 * root's own worker has no messages; its GPU updates beside its work without slowing it down.
 *
 * A bucket closes when its gradients fill it (uniform model: one for each stage). Buckets travel while the backward
 * goes on, unless overlap_grads = no. Updates run in the order of the buckets; the next step's first use of a layer
 * waits for its parameters only. With reduce_every = n the same sums travel after every n-th micro-batch as well, which
 * DistributedDataParallel does outside no_sync(). compression makes gradients smaller on the way, never larger; its
 * casts take no time here. Embedding and head that share a tensor on two ranks add up its gradients between them
 * (Megatron-LM's embedding group) before either updates. Source: PyTorch DistributedDataParallel (Li et al., arXiv
 * 2006.15704), ZeRO (arXiv 1910.02054), Lei Mao, "Data Parallelism VS Model Parallelism" (2019) for the server. */
#include "step.h"

#include <string.h>

#define TIED_CHANNEL 0x40000000 /* tells the messages of shared tensors from boundary tensors */

/* Bytes of one layer's gradients as they travel, and how many elements an update of the layer touches. */
typedef struct
{
  gint64 dense_bytes, expert_bytes;           /* gradients */
  gint64 dense_parameters, expert_parameters; /* bytes of parameters that an update changes */
  double elements, expert_elements;           /* trainable */
} LayerWork;

static void
add_layer_work (const PsiStep *step, const PsiStepRank *rank, guint layer, LayerWork *work)
{
  const PsiLayerKind *kind = psi_layer_kind (rank->shape->model, layer);
  gint64 elements = psi_layer_trained (kind);
  double experts = elements > 0 ? (double) psi_layer_trained_experts (kind) / (double) elements : 0;
  gint64 gradient_bytes = psi_layer_gradient_bytes (step, kind), parameter_bytes = psi_layer_trained_bytes (step, kind);
  gint64 routed = (gint64) (experts * (double) gradient_bytes);

  work->expert_bytes += routed;
  work->dense_bytes += gradient_bytes - routed;
  routed = (gint64) (experts * (double) parameter_bytes);
  work->expert_parameters += routed;
  work->dense_parameters += parameter_bytes - routed;
  work->elements += (1 - experts) * (double) elements;
  work->expert_elements += experts * (double) elements;
}

/* Bytes of gradients on the wire. */
static gint64
wire_bytes (const PsiStep *step, gint64 bytes)
{
  static const struct
  {
    const char *name;
    guint bytes_each;
  } formats[] = { { "fp16", 2 }, { "bf16", 2 }, { "fp8", 1 }, { "int8", 1 } };
  const char *format = psi_settings_text (step->settings, PSI_KEY_COMPRESSION);
  guint each = step->plan->gradient_bytes_each;

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (strcmp (formats[i].name, format) == 0 && formats[i].bytes_each < each)
      return (bytes * formats[i].bytes_each + each - 1) / each;
  return bytes;
}

static PsiTime
optimizer_time_ps (const PsiStep *step, double elements)
{
  if (psi_step_model (step)->is_uniform)
    return 0;
  return psi_step_updates_on_host (step)
             ? psi_step_offload_optimizer_ps (step, elements)
             : psi_step_memory_time_ps (step, elements * step->plan->optimizer_traffic_each);
}

PsiOpId
psi_step_optimizer (PsiStep *step, PsiStepRank *rank, double elements, int part)
{
  PsiOpId op =
      psi_program_work (rank->program, PSI_STREAM_COMPUTE, optimizer_time_ps (step, elements), PSI_TAG_OPTIMIZER);

  psi_program_label (rank->program, op, -1, part);
  return op;
}

void
psi_step_scatter_gradients (PsiStep *step, PsiStepRank *rank, const PsiToken *token, guint layer, gboolean is_first,
                            PsiOpId first, PsiOpId last)
{
  const PsiLayerKind *kind = psi_layer_kind (rank->shape->model, layer);
  gboolean sums = step->plan->fsdp && step->plan->pp > 1 && psi_step_group_size (step, PSI_DIMENSION_SHARD) > 1;
  LayerWork work = { 0 };

  add_layer_work (step, rank, layer, &work);
  gint64 bytes = work.dense_bytes + work.expert_bytes;
  /* FSDP under a pipeline sums whole gradients until the last micro-batch. */
  if (sums)
    {
      if (is_first)
        psi_program_delta (rank->program, first, FALSE, PSI_MEMORY_GRADIENTS, bytes);
      if (!psi_step_is_last_use (step, rank, token))
        return;
    }
  PsiOpId dense = psi_step_collective (step, rank, PSI_STREAM_GRADIENTS, PSI_COLLECTIVE_REDUCE_SCATTER,
                                       PSI_DIMENSION_SHARD, wire_bytes (step, work.dense_bytes), PSI_TRAFFIC_GRADIENTS);
  PsiOpId routed =
      psi_step_collective (step, rank, PSI_STREAM_GRADIENTS, PSI_COLLECTIVE_REDUCE_SCATTER, PSI_DIMENSION_EXPERT_DP,
                           wire_bytes (step, work.expert_bytes), PSI_TRAFFIC_GRADIENTS);
  /* With a shard group smaller than dp, the shards of the copies are summed as well. */
  guint copies = psi_step_group_size (step, PSI_DIMENSION_DP) / psi_step_group_size (step, PSI_DIMENSION_SHARD);
  PsiOpId again =
      copies > 1
          ? psi_step_collective (step, rank, PSI_STREAM_GRADIENTS, PSI_COLLECTIVE_ALL_REDUCE, PSI_DIMENSION_DP,
                                 wire_bytes (step, work.dense_bytes) / psi_step_group_size (step, PSI_DIMENSION_SHARD),
                                 PSI_TRAFFIC_GRADIENTS)
          : PSI_OP_NONE;
  PsiOpId end = again != PSI_OP_NONE ? again : routed != PSI_OP_NONE ? routed : dense;

  if (end == PSI_OP_NONE)
    return;
  if (dense == PSI_OP_NONE && routed == PSI_OP_NONE)
    {
      /* One GPU holds all of the shard: what is at rest is summed in place. */
      psi_program_after (rank->program, end, last, 0);
      rank->ready[layer] = end;
      return;
    }
  if (dense != PSI_OP_NONE)
    psi_program_after (rank->program, dense, last, 0);
  if (routed != PSI_OP_NONE)
    psi_program_after (rank->program, routed, last, 0);
  /* The head's gradient comes after the loss is through with the logits. */
  gboolean late = step->plan->fsdp && kind->never_recomputed;
  if (!sums)
    psi_program_delta (rank->program, late ? last : first, late, PSI_MEMORY_GRADIENTS, bytes);
  psi_program_delta (rank->program, end, TRUE, PSI_MEMORY_GRADIENTS, -bytes);
  rank->ready[layer] = end;
}

/* Each rank needs the whole sum, or its share of it. */
static PsiCollectiveOp
sum_of (const PsiPlan *plan)
{
  gboolean whole =
      plan->zero == 0 || (plan->zero == 1 && plan->framework->whole_sums && plan->gradient_bytes_each == 4);

  return whole ? PSI_COLLECTIVE_ALL_REDUCE : PSI_COLLECTIVE_REDUCE_SCATTER;
}

/* Is it the last token of the rank that adds to its part's gradients? */
static gboolean
is_last (const PsiStep *step, const PsiStepRank *rank, const PsiToken *token)
{
  const GArray *list = step->schedule->lists[rank->list];

  for (guint i = list->len; i > 0; i--)
    {
      const PsiToken *other = &g_array_index (list, PsiToken, i - 1);

      if ((other->kind == PSI_TOKEN_BACKWARD || other->kind == PSI_TOKEN_BACKWARD_WEIGHT) &&
          other->chunk == token->chunk)
        return other->micro_batch == token->micro_batch;
    }
  return FALSE;
}

PsiTime
psi_step_gradients_beside_ps (PsiStep *step, PsiStepRank *rank, guint layer, const PsiToken *token)
{
  const PsiPlan *plan = step->plan;
  PsiCollectiveOp op = sum_of (plan);
  LayerWork work = { 0 };

  if (plan->cyclic || plan->parameter_server || step->schedule->places != NULL)
    return 0;
  gboolean each_time = plan->zero >= 2 && (!plan->fsdp || plan->pp == 1);
  if (!each_time && ((plan->zero < 2 && !plan->overlap_grads) || !is_last (step, rank, token)))
    return 0;
  add_layer_work (step, rank, layer, &work);
  return psi_step_collective_alone_ps (step, rank, PSI_STREAM_GRADIENTS, op,
                                       plan->zero >= 2 ? PSI_DIMENSION_SHARD : PSI_DIMENSION_DP,
                                       wire_bytes (step, work.dense_bytes), PSI_TRAFFIC_GRADIENTS) +
         psi_step_collective_alone_ps (step, rank, PSI_STREAM_GRADIENTS, op, PSI_DIMENSION_EXPERT_DP,
                                       wire_bytes (step, work.expert_bytes), PSI_TRAFFIC_GRADIENTS);
}

void
psi_step_reduce_early (PsiStep *step, PsiStepRank *rank, guint part, gint64 micro_batch)
{
  const PsiPlan *plan = step->plan;
  LayerWork work = { 0 };

  if (!psi_settings_has (step->settings, PSI_KEY_REDUCE_EVERY) || plan->zero >= 2 || plan->parameter_server ||
      step->schedule->places != NULL || micro_batch + 1 >= step->schedule->micro_batches ||
      (micro_batch + 1) % psi_settings_count (step->settings, PSI_KEY_REDUCE_EVERY) != 0)
    return;
  PsiCollectiveOp op = sum_of (plan);
  for (guint l = step->partition.first[part + 1]; l > step->partition.first[part]; l--)
    {
      add_layer_work (step, rank, l - 1, &work);
      if (l - 1 > step->partition.first[part] && work.dense_bytes + work.expert_bytes < plan->bucket_bytes)
        continue;
      const PsiOpId sums[] = { psi_step_collective (step, rank, PSI_STREAM_GRADIENTS, op, PSI_DIMENSION_DP,
                                                    wire_bytes (step, work.dense_bytes), PSI_TRAFFIC_GRADIENTS),
                               psi_step_collective (step, rank, PSI_STREAM_GRADIENTS, op, PSI_DIMENSION_EXPERT_DP,
                                                    wire_bytes (step, work.expert_bytes), PSI_TRAFFIC_GRADIENTS) };
      for (guint i = 0; i < G_N_ELEMENTS (sums); i++)
        if (sums[i] != PSI_OP_NONE)
          psi_program_after (rank->program, sums[i],
                             rank->ready[plan->overlap_grads ? l - 1 : step->partition.first[part]], 0);
      work = (LayerWork){ 0 };
    }
}

/* Layers whose gradients travel together. */
typedef struct
{
  guint *layers;
  guint n_layers;
  LayerWork work;
  PsiOpId reduced[2]; /* dense, experts */
  PsiOpId tied;       /* the other copy's gradients have come */
} Bucket;

static void
bucket_clear (gpointer data)
{
  g_free (((Bucket *) data)->layers);
}

/* The n-th chunk of a rank. Ranks that hold copies of the same parts must take them in the same order: by part. */
static guint
chunk_in_order (const PsiSchedule *schedule, guint rank, guint n)
{
  for (guint c = 0; schedule->places != NULL && c < schedule->n_chunks; c++)
    {
      guint before = 0;

      for (guint other = 0; other < schedule->n_chunks; other++)
        before += psi_schedule_part (schedule, rank, other) < psi_schedule_part (schedule, rank, c);
      if (before == n)
        return c;
    }
  return n;
}

/* Buckets in the order gradients become ready: last chunk and last layer first. */
static GArray *
make_buckets (PsiStep *step, PsiStepRank *rank)
{
  const PsiPlan *plan = step->plan;
  GArray *buckets = g_array_new (FALSE, TRUE, sizeof (Bucket));
  Bucket open = { .reduced = { PSI_OP_NONE, PSI_OP_NONE }, .tied = PSI_OP_NONE };
  guint n_layers = rank->shape->model->layers->len;

  g_array_set_clear_func (buckets, bucket_clear);
  for (guint c = step->schedule->n_chunks; c > 0; c--)
    {
      guint part = psi_schedule_part (step->schedule, rank->list, chunk_in_order (step->schedule, rank->list, c - 1));

      for (guint l = step->partition.first[part + 1]; l > step->partition.first[part]; l--)
        {
          gboolean last = c == 1 && l - 1 == step->partition.first[part];

          if (open.layers == NULL)
            open.layers = g_new (guint, n_layers);
          open.layers[open.n_layers++] = l - 1;
          add_layer_work (step, rank, l - 1, &open.work);
          last = last || (step->schedule->places != NULL && l - 1 == step->partition.first[part]);
          if (last || rank->shape->model->is_uniform || plan->zero >= 2 ||
              open.work.dense_bytes + open.work.expert_bytes >= plan->bucket_bytes)
            {
              g_array_append_val (buckets, open);
              open = (Bucket){ .reduced = { PSI_OP_NONE, PSI_OP_NONE }, .tied = PSI_OP_NONE };
            }
        }
    }
  return buckets;
}

/* Send a bucket's gradients once all its layers are through. */
static void
reduce_bucket (PsiStep *step, PsiStepRank *rank, Bucket *bucket)
{
  const PsiPlan *plan = step->plan;
  PsiCollectiveOp op = sum_of (plan);
  PsiOpId last_mark = g_array_index (rank->marks, PsiOpId, rank->marks->len - 1), host = PSI_OP_NONE;

  if (plan->zero >= 2)
    return; /* sent layer by layer in the backward */
  if (step->schedule->places != NULL)
    bucket->reduced[0] = psi_step_copies_collective (
        step, rank, op, step->partition.part_of[bucket->layers[0]],
        wire_bytes (step, bucket->work.dense_bytes + bucket->work.expert_bytes), PSI_TRAFFIC_GRADIENTS);
  else if (plan->parameter_server)
    bucket->reduced[0] =
        psi_step_server_message (step, rank, FALSE, wire_bytes (step, bucket->work.dense_bytes), PSI_TRAFFIC_GRADIENTS);
  else
    {
      PsiTime host_ps = psi_step_host_reduce_ps (step, bucket->n_layers, bucket->work.elements);

      if (host_ps > 0)
        host = psi_program_work (rank->program, PSI_STREAM_GRADIENTS, host_ps, PSI_TAG_OPTIMIZER);
      bucket->reduced[0] = psi_step_collective (step, rank, PSI_STREAM_GRADIENTS, op, PSI_DIMENSION_DP,
                                                wire_bytes (step, bucket->work.dense_bytes), PSI_TRAFFIC_GRADIENTS);
      bucket->reduced[1] = psi_step_collective (step, rank, PSI_STREAM_GRADIENTS, op, PSI_DIMENSION_EXPERT_DP,
                                                wire_bytes (step, bucket->work.expert_bytes), PSI_TRAFFIC_GRADIENTS);
    }
  const PsiOpId begin[] = { host, bucket->reduced[0], bucket->reduced[1] };
  for (guint i = 0; i < G_N_ELEMENTS (begin); i++)
    if (begin[i] != PSI_OP_NONE)
      {
        if (!plan->overlap_grads)
          psi_program_after (rank->program, begin[i], last_mark, 0);
        for (guint l = 0; l < bucket->n_layers && plan->overlap_grads; l++)
          psi_program_after (rank->program, begin[i], rank->ready[bucket->layers[l]], 0);
      }
}

/* Everything a bucket's update must wait for. */
static void
after_reduced (const PsiStepRank *rank, const Bucket *bucket, PsiOpId op)
{
  psi_program_after (rank->program, op, bucket->reduced[0], 0);
  psi_program_after (rank->program, op, bucket->reduced[1], 0);
  psi_program_after (rank->program, op, bucket->tied, 0);
  for (guint l = 0; l < bucket->n_layers; l++)
    psi_program_after (rank->program, op, rank->ready[bucket->layers[l]], 0);
}

/* First and last rank hold a copy each of a tensor that embedding and head share: each sends the other its sum. */
static void
add_tied (PsiStep *step, PsiStepRank *rank, GArray *buckets)
{
  const PsiPlan *plan = step->plan;
  const PsiModel *model = rank->shape->model;
  guint last_part = step->partition.n_parts - 1;

  if (psi_step_tied_trained (model) == 0 || last_part == 0 || step->schedule->places != NULL)
    return;
  PsiStepRank *first = psi_step_rank_of_part (step, rank, 0, 0),
              *last = psi_step_rank_of_part (step, rank, last_part, 0);
  PsiStepRank *other = rank == first ? last : rank == last ? first : NULL;
  gint64 bytes = psi_step_tied_trained (model) * plan->gradient_bytes_each;
  guint layer = rank == first ? 0 : model->layers->len - 1;

  if (other == NULL || other == rank || plan->parameter_server)
    return;
  bytes = wire_bytes (step, plan->zero >= 2 ? bytes / psi_step_group_size (step, PSI_DIMENSION_SHARD) : bytes);
  for (guint b = 0; b < buckets->len; b++)
    {
      Bucket *bucket = &g_array_index (buckets, Bucket, b);
      gboolean holds = FALSE;

      for (guint l = 0; l < bucket->n_layers; l++)
        holds = holds || bucket->layers[l] == layer;
      if (!holds)
        continue;
      PsiOpId sent = psi_step_send (step, rank, other, PSI_STREAM_GRADIENTS, TIED_CHANNEL, rank == first, bytes,
                                    PSI_TRAFFIC_GRADIENTS);
      after_reduced (rank, bucket, sent);
      bucket->tied = psi_step_receive (step, other, rank, PSI_STREAM_GRADIENTS_IN, TIED_CHANNEL, rank != first, bytes,
                                       PSI_TRAFFIC_GRADIENTS);
    }
}

/* The next step reads a bucket's layers only after `op`. */
static void
hold_next_step (PsiStepRank *rank, const Bucket *bucket, PsiOpId op)
{
  for (guint l = 0; op != PSI_OP_NONE && l < bucket->n_layers; l++)
    if (rank->first_use[bucket->layers[l]] != PSI_OP_NONE)
      psi_program_after (rank->program, rank->first_use[bucket->layers[l]], op, 1);
}

static void
update_bucket (PsiStep *step, PsiStepRank *rank, Bucket *bucket)
{
  const PsiPlan *plan = step->plan;
  double shards = plan->zero > 0 ? psi_step_group_size (step, PSI_DIMENSION_SHARD) : 1;
  double elements = bucket->work.elements / shards +
                    bucket->work.expert_elements / (plan->zero > 0 ? psi_step_expert_shards (step) : 1);
  guint part = step->partition.part_of[bucket->layers[0]];

  if (plan->parameter_server)
    {
      PsiOpId update = PSI_OP_NONE;

      if (rank->is_root)
        {
          update = psi_step_optimizer (step, rank, elements, (int) part);
          after_reduced (rank, bucket, update);
        }
      PsiOpId back = psi_step_server_message (step, rank, TRUE, bucket->work.dense_parameters, PSI_TRAFFIC_PARAMETERS);
      if (back != PSI_OP_NONE && update != PSI_OP_NONE)
        psi_program_after (rank->program, back, update, 0);
      hold_next_step (rank, bucket, back);
      return;
    }
  PsiOpId update = psi_step_optimizer (step, rank, elements, (int) part);
  after_reduced (rank, bucket, update);
  if (plan->zero == 1 || plan->zero == 2)
    {
      PsiTime host_ps = psi_step_host_gather_ps (step, bucket->n_layers);
      PsiOpId host =
          host_ps > 0 ? psi_program_work (rank->program, PSI_STREAM_COMPUTE, host_ps, PSI_TAG_OPTIMIZER) : update;
      PsiOpId dense = psi_step_collective (step, rank, PSI_STREAM_PARAMETERS, PSI_COLLECTIVE_ALL_GATHER,
                                           PSI_DIMENSION_SHARD, bucket->work.dense_parameters, PSI_TRAFFIC_PARAMETERS);
      if (dense != PSI_OP_NONE)
        psi_program_after (rank->program, dense, host, 0);
      PsiOpId routed =
          psi_step_collective (step, rank, PSI_STREAM_PARAMETERS, PSI_COLLECTIVE_ALL_GATHER, PSI_DIMENSION_EXPERT_DP,
                               bucket->work.expert_parameters, PSI_TRAFFIC_PARAMETERS);
      if (routed != PSI_OP_NONE)
        psi_program_after (rank->program, routed, update, 0);
      hold_next_step (rank, bucket, dense);
      hold_next_step (rank, bucket, routed);
    }
  for (guint i = 0; plan->zero == 3 && i < rank->gathers->len; i++)
    {
      const PsiGate *gate = &g_array_index (rank->gathers, PsiGate, i);

      for (guint l = 0; l < bucket->n_layers; l++)
        if (gate->layer == bucket->layers[l])
          psi_program_after (rank->program, gate->op, update, 1);
    }
}

/* Global norm of all gradients: every rank adds up its own, one number is all-reduced over all ranks. */
static void
clip (PsiStep *step, PsiStepRank *rank, const GArray *buckets)
{
  double bytes = 0, shards = step->plan->zero > 0 ? psi_step_group_size (step, PSI_DIMENSION_SHARD) : 1;

  for (guint b = 0; b < buckets->len; b++)
    bytes += (double) (g_array_index (buckets, Bucket, b).work.dense_bytes +
                       g_array_index (buckets, Bucket, b).work.expert_bytes) /
             shards;
  PsiOpId norm =
      psi_program_work (rank->program, PSI_STREAM_COMPUTE, psi_step_memory_time_ps (step, bytes), PSI_TAG_OPTIMIZER);
  for (guint b = 0; b < buckets->len; b++)
    after_reduced (rank, &g_array_index (buckets, Bucket, b), norm);
  psi_step_collective (step, rank, PSI_STREAM_COMPUTE, PSI_COLLECTIVE_ALL_REDUCE, PSI_DIMENSION_ALL, 4,
                       PSI_TRAFFIC_GRADIENTS);
}

void
psi_step_synchronous_update (PsiStep *step, PsiStepRank *rank)
{
  g_autoptr (GArray) buckets = make_buckets (step, rank);

  for (guint b = 0; b < buckets->len; b++)
    reduce_bucket (step, rank, &g_array_index (buckets, Bucket, b));
  add_tied (step, rank, buckets);
  if (step->plan->grad_clip)
    clip (step, rank, buckets);
  for (guint b = 0; b < buckets->len; b++)
    update_bucket (step, rank, &g_array_index (buckets, Bucket, b));
}

/* First op of a bucket's way: after its layers' backward, or after all of it. */
static void
after_backward (const PsiStep *step, const PsiStepRank *rank, const Bucket *bucket, PsiOpId op)
{
  if (!step->plan->overlap_grads)
    psi_program_after (rank->program, op, g_array_index (rank->marks, PsiOpId, rank->marks->len - 1), 0);
  for (guint l = 0; l < bucket->n_layers; l++)
    psi_program_after (rank->program, op, rank->ready[bucket->layers[l]], 0);
}

static void
label_bucket (const PsiStep *step, const PsiStepRank *rank, const Bucket *bucket, PsiOpId op)
{
  guint layer = bucket->layers[bucket->n_layers - 1];

  if (op == PSI_OP_NONE)
    return;
  psi_program_label (rank->program, op, -1, (gint32) step->partition.part_of[layer]);
  psi_program_op (rank->program, op)->label[2] = (gint32) layer;
}

void
psi_step_asynchronous_update (PsiStep *step, PsiStepRank *rank)
{
  g_autoptr (GArray) buckets = make_buckets (step, rank);

  for (guint b = 0; b < buckets->len; b++)
    {
      const Bucket *bucket = &g_array_index (buckets, Bucket, b);
      PsiOpId push = psi_step_worker_message (step, rank, FALSE,
                                              wire_bytes (step, bucket->work.dense_bytes + bucket->work.expert_bytes),
                                              PSI_TRAFFIC_GRADIENTS);
      PsiOpId turn = psi_step_serve (step, rank, b,
                                     optimizer_time_ps (step, bucket->work.elements + bucket->work.expert_elements));
      PsiOpId pull = psi_step_worker_message (
          step, rank, TRUE, bucket->work.dense_parameters + bucket->work.expert_parameters, PSI_TRAFFIC_PARAMETERS);

      after_backward (step, rank, bucket, push != PSI_OP_NONE ? push : turn);
      psi_program_after (rank->program, turn, push, 0);
      if (pull != PSI_OP_NONE)
        psi_program_after (rank->program, pull, turn, 0);
      hold_next_step (rank, bucket, pull != PSI_OP_NONE ? pull : turn);
      label_bucket (step, rank, bucket, push);
      label_bucket (step, rank, bucket, turn);
      label_bucket (step, rank, bucket, pull);
    }
}
