/* SPDX-License-Identifier: MIT */
/* Sources, as read in code:
 *
 *   megatron          fp32 main gradients beside bf16 parameters (2 + 4 + 4 master + 8 moments), fp16 ones beside fp16;
 *                     tensor_parallel/cross_entropy.py: the caller's 16-bit logits and one fp32 copy that every step
 *                     of the loss reuses, 2 + 4 bytes of a logit
 *   megatron-core     the same with Transformer Engine; its fused loss overwrites the 16-bit logits by their gradient;
 *                     linear.py and layernorm_linear.py save the quantised input, transposed, for the weight gradient
 *                     moe/experts.py: the router's scores multiply the activation, so an activation that is no fused
 *                     gate stays beside the product with them, and outputs of experts do not stay; grouped products
 *                     have a workspace for each of 4 streams (get_multi_stream_cublas_workspace)
 *   megatron-bridge   perf_recipes/_common.py: grad_reduce_in_fp32 = False, cross_entropy_fusion_impl = te,
 *                     expandable segments in the environment of the recipes
 *   megatron-deepspeed  BF16_Optimizer: an fp32 sum of gradients, each bf16 gradient freed once it is added; fp16:
 *                     gradients only; initialize_optimizer_states makes the moments before the first step
 *   megatron-eager    16-bit gradients: a model of 13 billion parameters on one A100 of 80 GB trains (with 6 bytes of
 *                     parameter and gradient it would not start). Aleph-Alpha/scaling: losses/cross_entropy.py makes
 *                     PyTorch's loss of gathered logits in fp32, of which the 16-bit logits and the log-softmax stay;
 *                     the last rank takes its outputs out of no buffer, and train.py has two buffers or more, so the
 *                     logits of the micro-batch before are there too (parallel_module.py: others take theirs when they
 *                     send or receive gradients); rms_norm.py gathers its result under sequence parallelism, and
 *                     products keep that; attention.py cuts queries, keys and values out of one product, rotary.py
 *                     looks up cos and sin of each position in every layer, and heads are put in order around the
 *                     attention. The norm of PyTorch operators keeps an fp32 copy as Llama's does: such runs of 2023
 *                     did not fit where those with flash-attn's norm did
 *   nanotron          models/llama.py and what it calls, line by line in block-script.c: FP32GradientAccumulator over
 *                     all parameters; every bf16 .grad of a part stays until its backward is over; with ZeRO-0 torch's
 *                     reducer copies them into buckets, with ZeRO-1 there is none (trainer.py, make_ddp). Loss: fp32
 *                     logits and their shifted copy, of which the latter stays. Column-parallel products gather their
 *                     input again (tp_recompute_allgather is on by default) into one buffer of all layers. Its table
 *                     of a benchmark (helpers.py, create_table_log) has max_memory_allocated and max_memory_reserved
 *                     of rank 0 in step 3, but log_memory() resets both counters after the passes of each of the
 *                     first five steps: only the second still knows of activations, and only it grows with the
 *                     micro-batch
 *   pytorch           nn.functional.cross_entropy: fp32 copy and log-softmax kept, and a gradient: 8 and 12 bytes.
 *                     fully_shard and FullyShardedDataParallel: what no block wraps is the root's unit, which does not
 *                     reshard after the forward. Tensor parallelism (PrepareModuleInput, ColwiseParallel) gathers an
 *                     input before the product, which keeps it
 *   torchtitan        the logits are deleted before the backward: log-softmax kept, then two gradients, 4 and 12; under
 *                     compile the loss too (components/loss.py): 16-bit logits and their gradient. The code of December
 *                     2024 does not compile the loss (train.py at 9dec370). With tensor parallelism the loss of
 *                     torch/distributed/tensor/parallel/loss.py adds a gradient and exp(x) of whole size and makes a
 *                     product: 16. parallelize_llama.py: reshard_after_forward = not pp_enabled; fp32 shards and sums;
 *                     run_train.sh: expandable segments
 *   torchtune         everything in bf16, loss in 8 chunks (CEWithChunkedOutputLoss): the logits are deleted before the
 *                     backward, log-softmax of every chunk stays, or under compile its 16-bit logits
 *   oneflow           auto_mixed_precision_lists.cpp: sparse_softmax_cross_entropy takes 16-bit logits as they are, its
 *                     gradient is written over the probabilities; over logits that tp shards it is another operator in
 *                     no list, and runs in fp32. pipeline_buffer_pass.cpp: whatever a backward reads of a forward has
 *                     2 p buffers on all stages but the last, full or not; sums of gradients have an output of their
 *                     own
 *   llm.c             train_gpt2.cu: activations attproj and fcproj of every layer; the loss overwrites the logits
 *
 * Measured: Megatron's bytes between steps to 1 MiB on its functional tests (A100 and H100, with and without
 * deterministic products); nanotron's buckets fit its published sweep (8B, dp 2 minus dp 1: 2457 MiB, 2 N = 2416).
 */
#include "framework-memory.h"

#include <string.h>

static const PsiFrameworkMemory rows[] = {
  /* clang-format off */
  { .name = "megatron",
    .gradient_bytes = { 4, 2 }, .loss_kept_bytes = 6, .loss_peak_bytes = 6, .compiled_loss_bytes = { 6, 6 },
    .fused_loss_bytes = 5, .loss_chunks = 1, .attention_copies = 1 },
  { .name = "pytorch",
    .gradient_bytes = { 2, 2 }, .loss_kept_bytes = 8, .loss_peak_bytes = 12, .compiled_loss_bytes = { 2, 4 },
    .loss_chunks = 1, .whole_inputs = TRUE, .fsdp = 2 },
  { .name = "megatron-core",
    .gradient_bytes = { 4, 2 }, .loss_kept_bytes = 6, .loss_peak_bytes = 6, .compiled_loss_bytes = { 6, 6 },
    .fused_loss_bytes = 4, .loss_chunks = 1, .transformer_engine = TRUE, .attention_copies = 1,
    .scored_activations = TRUE, .narrow_inputs = TRUE },
  { .name = "megatron-bridge",
    .gradient_bytes = { 2, 2 }, .loss_kept_bytes = 4, .loss_peak_bytes = 4, .compiled_loss_bytes = { 4, 4 },
    .fused_loss_bytes = 4, .loss_chunks = 1, .transformer_engine = TRUE, .attention_copies = 1,
    .scored_activations = TRUE, .narrow_inputs = TRUE, .expandable = TRUE },
  { .name = "megatron-deepspeed", .early_moments = TRUE,
    .gradient_bytes = { 4, 2 }, .loss_kept_bytes = 6, .loss_peak_bytes = 6, .compiled_loss_bytes = { 6, 6 },
    .fused_loss_bytes = 5, .loss_chunks = 1, .keeps_outputs = TRUE },
  { .name = "megatron-eager",
    .gradient_bytes = { 2, 2 }, .loss_kept_bytes = 6, .loss_peak_bytes = 14, .compiled_loss_bytes = { 6, 14 },
    .loss_chunks = 1, .attention_copies = 3, .keeps_outputs = TRUE, .gathered_logits = TRUE, .whole_inputs = TRUE,
    .whole_qkv = TRUE, .stale_logits = TRUE },
  { .name = "nanotron",
    .gradient_bytes = { 4, 4 }, .autograd_gradient_bytes = 2, .bucket_copy_bytes = 2, .loss_kept_bytes = 4,
    .loss_peak_bytes = 8, .compiled_loss_bytes = { 4, 8 }, .loss_chunks = 1, .attention_copies = 2,
    .packed_queries = TRUE, .shared_gathers = TRUE, .has_script = TRUE, .logs_reserved = TRUE },
  { .name = "torchtitan",
    .gradient_bytes = { 4, 4 }, .loss_kept_bytes = 4, .loss_peak_bytes = 12, .compiled_loss_bytes = { 2, 4 },
    .loss_chunks = 1, .whole_inputs = TRUE, .fsdp = 2, .expandable = TRUE, .sharded_loss_bytes = { 16, 0 } },
  { .name = "torchtitan-2024",
    .gradient_bytes = { 4, 4 }, .loss_kept_bytes = 4, .loss_peak_bytes = 12, .compiled_loss_bytes = { 4, 12 },
    .loss_chunks = 1, .whole_inputs = TRUE, .fsdp = 2, .expandable = TRUE, .sharded_loss_bytes = { 16, 16 } },
  { .name = "composer",
    .gradient_bytes = { 2, 2 }, .loss_kept_bytes = 2, .loss_peak_bytes = 4, .compiled_loss_bytes = { 2, 4 },
    .loss_chunks = 1, .fsdp = 1 },
  { .name = "torchtune",
    .gradient_bytes = { 2, 2 }, .plain_optimizer = TRUE, .loss_kept_bytes = 4, .loss_peak_bytes = 12,
    .compiled_loss_bytes = { 2, 4 }, .loss_chunks = 8, .fsdp = 2, .chunks_stay = TRUE },
  { .name = "oneflow", .static_memory = TRUE,
    .gradient_bytes = { 2, 2 }, .bucket_copy_bytes = 2, .loss_kept_bytes = 4, .loss_peak_bytes = 4,
    .compiled_loss_bytes = { 4, 4 }, .loss_chunks = 1, .whole_inputs = TRUE, .sharded_loss_bytes = { 14, 14 },
    .stage_buffers = 2 },
  { .name = "llm.c", .static_memory = TRUE,
    .gradient_bytes = { 2, 2 }, .loss_kept_bytes = 2, .loss_peak_bytes = 2, .compiled_loss_bytes = { 2, 2 },
    .loss_chunks = 1, .residual_inputs = TRUE },
  /* clang-format on */
};

const PsiFrameworkMemory *
psi_framework_memory_of_base (gboolean megatron)
{
  return &rows[megatron ? 0 : 1];
}

const PsiFrameworkMemory *
psi_framework_memory (const PsiFramework *framework)
{
  const char *name = framework == NULL ? "pytorch" : framework->memory != NULL ? framework->memory : framework->name;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (strcmp (rows[i].name, name) == 0)
      return &rows[i];
  g_assert_not_reached ();
}
