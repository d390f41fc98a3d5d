/* SPDX-License-Identifier: MIT */
/* What frameworks keep in memory beside the tensors any of them needs. One row for each framework, as its code
 * says; a variant that keeps the same names the framework whose row it shares (PsiFramework.memory). */
#pragma once

#include "framework.h"

typedef struct
{
  const char *name;              /* of psi_frameworks[] */
  guint gradient_bytes[2];       /* of an element, kept for the whole step: training in bf16, in fp16 */
  guint autograd_gradient_bytes; /* the backward's own gradient beside the sum, from each layer's backward to the end of
                                  * the part's */
  guint bucket_copy_bytes;  /* of an element, copies in the buckets of DistributedDataParallel; with dp > 1, ZeRO-0 */
  gboolean plain_optimizer; /* moments in the parameters' format, no master copy */
  guint loss_kept_bytes;    /* of a logit of this GPU, from the forward to the backward of the loss */
  guint loss_peak_bytes;    /* at its worst instant */
  guint compiled_loss_bytes[2]; /* kept and peak under torch.compile; PyTorch's only */
  guint fused_loss_bytes;       /* the same with the fused loss (0: no such thing) */
  guint loss_chunks;            /* default of the key */
  gboolean transformer_engine;  /* its products have a workspace of their own */
  guint attention_copies;   /* the fused attention's output is kept twice when micro_batch > 1 and cp is 1, because its
                             * layout is not the framework's: 0 no, 1 with FlashAttention-2 before Hopper, 2 where tensor
                             * parallelism leaves the sequence whole, 3 always */
  gboolean keeps_outputs;   /* the output of a pipeline stage stays until its backward */
  gboolean gathered_logits; /* the loss is taken over the logits of the whole vocabulary on every tp rank */
  gboolean whole_inputs;    /* gathered inputs of products are kept, not gathered again (sequence parallelism) */
  guint fsdp; /* zero 3 is fully sharded data parallelism: embedding and head are one unit that stays gathered until
               * its backward; under a pipeline every layer is gathered once a step and its gradients stay whole until
               * the last micro-batch. 0 no, 1 FullyShardedDataParallel, 2 fully_shard, which copies what it gathered */
  gboolean expandable;         /* the allocator runs with expandable segments */
  guint sharded_loss_bytes[2]; /* the peak over logits that tp shards, as written and compiled; 0: the same */
  gboolean chunks_stay;        /* all chunks of the loss are computed before the backward of the first */
  gboolean residual_inputs;    /* results of both projections stay, not only their sums with the stream */
  gboolean whole_qkv;          /* values stay as a view of the product that made queries and keys as well, beside the
                                * rotated ones; so do cos and sin of each token, looked up in every layer */
  gboolean stale_logits;       /* the logits of the micro-batch before stay until another one takes their place */
  gboolean scored_activations; /* the router's scores multiply the activation inside an expert, not its output */
  gboolean early_moments;      /* the optimizer makes its state before the first step, not at its end */
  gboolean static_memory;      /* planned before the run: no allocator caches anything */
  guint stage_buffers;     /* so many x p micro-batches have room on all ranks of a pipeline but the last; 0: as many
                            * as the schedule has in flight */
  gboolean narrow_inputs;  /* inputs of products in 8 bits or less are kept as such */
  gboolean packed_queries; /* queries are a view of the packed projection, which stays beside the rotated copy of its
                            * keys and values; not with grouped queries */
  gboolean shared_gathers; /* all layers gather inputs and gradients into the same two buffers, which stay */
  gboolean has_script;     /* block-script.c follows its code tensor by tensor */
  gboolean logs_reserved;  /* it logs what the allocator of the first rank holds */
} PsiFrameworkMemory;

/* Never NULL; no framework counts as `pytorch`. */
const PsiFrameworkMemory *psi_framework_memory (const PsiFramework *framework);
/* The row of `megatron` or `pytorch`, where no framework is known. */
const PsiFrameworkMemory *psi_framework_memory_of_base (gboolean megatron);
