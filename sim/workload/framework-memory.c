/* SPDX-License-Identifier: MIT */
/* Sources, as read in code:
 *
 *   megatron          fp32 main gradients beside bf16 parameters (2 + 4 + 4 master + 8 moments), fp16 ones beside fp16;
 *                     tensor_parallel/cross_entropy.py: the caller's 16-bit logits and one fp32 copy that every step of
 *                     the loss reuses, 2 + 4 bytes of a logit
 *   megatron-core     the same with Transformer Engine; its fused loss overwrites the 16-bit logits by their gradient
 *   megatron-deepspeed  BF16_Optimizer: an fp32 sum of gradients, each bf16 gradient freed once it is added; fp16:
 *                     gradients only
 *   megatron-eager    16-bit gradients: a model of 13 billion parameters on one A100 of 80 GB trains (with 6 bytes of
 *                     parameter and gradient it would not start); PyTorch's loss over gathered logits,
 *                     whose 16-bit copy stays too
 *   nanotron          FP32GradientAccumulator over all parameters; the bf16 .grad of the last micro-batch is still
 * there in the next forward; torch's reducer copies it into buckets. Loss: fp32 logits and their shifted copy.
 * Column-parallel products keep the gathered input unless tp_recompute_allgather pytorch nn.functional.cross_entropy:
 * fp32 copy and log-softmax kept, and a gradient: 8 and 12 bytes torchtune         everything in bf16, loss in 8 chunks
 * (CEWithChunkedOutputLoss)
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
  { "pytorch",            { 2, 2 }, 0, 0, FALSE, 8, 12, { 2,  4 }, 0, 1, FALSE, 0, FALSE,   FALSE,   FALSE },
  { "megatron-bridge",    { 4, 2 }, 0, 0, FALSE, 6,  6, { 6,  6 }, 4, 1, TRUE,  1, FALSE,   FALSE,   FALSE },
  { "megatron-core",      { 4, 2 }, 0, 0, FALSE, 6,  6, { 6,  6 }, 4, 1, TRUE,  1, FALSE,   FALSE,   FALSE },
  { "megatron-deepspeed", { 4, 2 }, 0, 0, FALSE, 6,  6, { 6,  6 }, 5, 1, FALSE, 0, TRUE,    FALSE,   FALSE },
  { "megatron-eager",     { 2, 2 }, 0, 0, FALSE, 10, 14, { 10, 14 }, 0, 1, FALSE, 0, TRUE,    TRUE,    FALSE },
  { "megatron-eager-rms", { 2, 2 }, 0, 0, FALSE, 10, 14, { 10, 14 }, 0, 1, FALSE, 0, TRUE,    TRUE,    FALSE },
  { "nanotron",           { 4, 4 }, 2, 2, FALSE, 8,  8, { 8,  8 }, 0, 1, FALSE, 2, TRUE,    FALSE,   FALSE },
  { "torchtitan-async-tp",{ 2, 2 }, 0, 0, FALSE, 8, 12, { 6, 10 }, 0, 1, FALSE, 0, FALSE,   FALSE,   FALSE },
  { "torchtitan",         { 2, 2 }, 0, 0, FALSE, 8, 12, { 6, 10 }, 0, 1, FALSE, 0, FALSE,   FALSE,   FALSE },
  { "composer",           { 2, 2 }, 0, 0, FALSE, 2,  4, { 2,  4 }, 0, 1, FALSE, 0, FALSE,   FALSE,   FALSE },
  { "torchtune",          { 2, 2 }, 0, 0, TRUE,  8, 12, { 2,  4 }, 0, 8, FALSE, 0, FALSE,   FALSE,   FALSE },
  { "llm.c",              { 2, 2 }, 0, 0, FALSE, 2,  2, { 2,  2 }, 0, 1, FALSE, 0, FALSE,   FALSE,   FALSE },
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
