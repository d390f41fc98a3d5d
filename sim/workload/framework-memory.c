/* SPDX-License-Identifier: MIT */
/* Sources, as read in code:
 *
 *   megatron          fp32 main gradients beside bf16 parameters (2 + 4 + 4 master + 8 moments), fp16 ones beside fp16;
 *                     tensor_parallel/cross_entropy.py: the caller's 16-bit logits and one fp32 copy that every step
 *                     of the loss reuses, 2 + 4 bytes of a logit
 *   megatron-core     the same with Transformer Engine; its fused loss overwrites the 16-bit logits by their gradient;
 *                     linear.py and layernorm_linear.py save the quantised input, transposed, for the weight gradient
 *   megatron-bridge   perf_recipes/_common.py: grad_reduce_in_fp32 = False, cross_entropy_fusion_impl = te,
 *                     expandable segments in the environment of the recipes
 *   megatron-deepspeed  BF16_Optimizer: an fp32 sum of gradients, each bf16 gradient freed once it is added; fp16:
 *                     gradients only
 *   megatron-eager    16-bit gradients: a model of 13 billion parameters on one A100 of 80 GB trains (with 6 bytes of
 *                     parameter and gradient it would not start); PyTorch's loss over gathered logits, whose 16-bit
 *                     copy stays too
 *   nanotron          FP32GradientAccumulator over all parameters; the bf16 .grad of the last micro-batch is still
 *                     there in the next forward; torch's reducer copies it into buckets. Loss: fp32 logits and their
 *                     shifted copy. Column-parallel products keep the gathered input unless tp_recompute_allgather
 *   pytorch           nn.functional.cross_entropy: fp32 copy and log-softmax kept, and a gradient: 8 and 12 bytes.
 *                     fully_shard and FullyShardedDataParallel: what no block wraps is the root's unit, which does not
 *                     reshard after the forward
 *   torchtitan        the logits are deleted before the backward: log-softmax kept, then two gradients, 4 and 12; under
 *                     compile the loss too (components/loss.py): 16-bit logits and their gradient. The code of December
 *                     2024 does not compile the loss (train.py at 9dec370). With tensor parallelism the loss of
 *                     torch/distributed/tensor/parallel/loss.py adds a gradient and exp(x) of whole size and makes a
 *                     product: 16. parallelize_llama.py: reshard_after_forward = not pp_enabled; fp32 shards and sums;
 *                     run_train.sh: expandable segments
 *   torchtune         everything in bf16, loss in 8 chunks (CEWithChunkedOutputLoss): the logits are deleted before the
 *                     backward, log-softmax of every chunk stays, or under compile its 16-bit logits
 *   llm.c             train_gpt2.cu: activations attproj and fcproj of every layer; the loss overwrites the logits
 *
 * Measured: Megatron's bytes between steps to 1 MiB on its functional tests (A100 and H100, with and without
 * deterministic products); nanotron's two copies fit its published sweep (8B, dp 2 minus dp 1: 2457 MiB, 2 N = 2416).
 */
#include "framework-memory.h"

#include <string.h>

static const PsiFrameworkMemory rows[] = {
  /* clang-format off */
  /*                        sums   own copy plain  loss   compiled  fused chunks TE    copies outputs gathers whole */
  { "megatron",           { 4, 2 }, 0, 0, FALSE, 6,  6, { 6,  6 }, 5, 1, FALSE, 1, FALSE,   FALSE,   FALSE },
  { "pytorch",            { 2, 2 }, 0, 0, FALSE, 8, 12, { 2,  4 }, 0, 1, FALSE, 0, FALSE,   FALSE,   FALSE,
    .fsdp = 2 },
  { "megatron-core",      { 4, 2 }, 0, 0, FALSE, 6,  6, { 6,  6 }, 4, 1, TRUE,  1, FALSE,   FALSE,   FALSE,
    .narrow_inputs = TRUE },
  { "megatron-bridge",    { 2, 2 }, 0, 0, FALSE, 4,  4, { 4,  4 }, 4, 1, TRUE,  1, FALSE,   FALSE,   FALSE,
    .narrow_inputs = TRUE, .expandable = TRUE },
  { "megatron-deepspeed", { 4, 2 }, 0, 0, FALSE, 6,  6, { 6,  6 }, 5, 1, FALSE, 0, TRUE,    FALSE,   FALSE },
  { "megatron-eager",     { 2, 2 }, 0, 0, FALSE, 10, 14, { 10, 14 }, 0, 1, FALSE, 0, TRUE,    TRUE,    FALSE },
  { "megatron-eager-rms", { 2, 2 }, 0, 0, FALSE, 10, 14, { 10, 14 }, 0, 1, FALSE, 0, TRUE,    TRUE,    FALSE },
  { "nanotron",           { 4, 4 }, 2, 2, FALSE, 8,  8, { 8,  8 }, 0, 1, FALSE, 2, TRUE,    FALSE,   FALSE },
  { "torchtitan",         { 4, 4 }, 0, 0, FALSE, 4, 12, { 2,  4 }, 0, 1, FALSE, 0, FALSE,   FALSE,   FALSE,
    .fsdp = 2, .expandable = TRUE, .sharded_loss_bytes = { 16, 0 } },
  { "torchtitan-2024",    { 4, 4 }, 0, 0, FALSE, 4, 12, { 4, 12 }, 0, 1, FALSE, 0, FALSE,   FALSE,   FALSE,
    .fsdp = 2, .expandable = TRUE, .sharded_loss_bytes = { 16, 16 } },
  { "composer",           { 2, 2 }, 0, 0, FALSE, 2,  4, { 2,  4 }, 0, 1, FALSE, 0, FALSE,   FALSE,   FALSE,
    .fsdp = 1 },
  { "torchtune",          { 2, 2 }, 0, 0, TRUE,  4, 12, { 2,  4 }, 0, 8, FALSE, 0, FALSE,   FALSE,   FALSE,
    .fsdp = 2, .chunks_stay = TRUE },
  { "llm.c",              { 2, 2 }, 0, 0, FALSE, 2,  2, { 2,  2 }, 0, 1, FALSE, 0, FALSE,   FALSE,   FALSE,
    .residual_inputs = TRUE },
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
  for (guint i = 0; i < G_N_ELEMENTS (rows) && framework != NULL; i++)
    if (strcmp (rows[i].name, framework->name) == 0)
      return &rows[i];
  return psi_framework_memory_of_base (framework != NULL && framework->megatron);
}
