/* SPDX-License-Identifier: MIT */
/* Inside sim/workload: the parts that transformer families share: attention, feed-forward, embedding, head. */
#pragma once

#include "families.h"
#include "lower.h"

/* What a family decides about its blocks. Widths are whole, not of one tensor-parallel GPU. */
typedef struct
{
  gint64 hidden, heads, kv_heads, head_dim, ffn;
  gint64 sequences;     /* of one micro-batch */
  gint64 queries, keys; /* tokens of one sequence: on this GPU, and all that it attends to */
  gboolean rms, gated, causal, rope;
  const PsiModelTraits *traits; /* of the dimensions */
} PsiBlock;

void psi_block_init (PsiBlock *block, const PsiModelDimensions *dimensions, const PsiLowering *lowering,
                     gint64 sequence);

/* Rows of the embedding as the framework allocates them: a multiple of 128 tp under Megatron, else of tp. */
gint64 psi_block_padded_vocabulary (gint64 vocab, const PsiLowering *lowering);

/* Bytes of the residual stream of one micro-batch on this GPU, and before sequence parallelism. */
gint64 psi_block_stream_bytes (const PsiLower *lower, const PsiBlock *block);
gint64 psi_block_whole_bytes (const PsiLower *lower, const PsiBlock *block);

/* Never NULL: the lowering's, or that of its base framework. */
const PsiFrameworkMemory *psi_block_memory (const PsiLowering *lowering);

/* What a product keeps of its input of `bytes` in 16 bits. */
gint64 psi_block_kept_input_bytes (const PsiLower *lower, gint64 bytes);
/* For a product along the sequence's tp shards that keeps its gathered input; `targets`: of PsiTarget, that read it. */
void psi_block_save_whole_input (PsiLower *lower, const PsiBlock *block, guint targets);

/* Operators of PyTorch one by one, each of which saves what it reads. */
gboolean psi_block_is_eager (const PsiLower *lower);

/* norm + q, k, v + attention + output projection + residual. `cross`: keys and values from another tensor, which is
 * saved elsewhere. */
void psi_block_attention (PsiLower *lower, const PsiBlock *block, gboolean cross);
/* Normalisation and its saved output, the layer's input included. */
void psi_block_norm (PsiLower *lower, const PsiBlock *block);
void psi_block_residual (PsiLower *lower, const PsiBlock *block);
/* norm + feed-forward + residual */
void psi_block_mlp (PsiLower *lower, const PsiBlock *block);
/* The two or three products alone, `ffn` wide, with their saved tensors. */
void psi_block_mlp_products (PsiLower *lower, const PsiBlock *block, gint64 ffn);

/* Between products and kind: boundary and workspace bytes of a block. */
void psi_block_finish (PsiLower *lower, const PsiBlock *block, PsiLayerKind *kind);

/* A kind for the embedding: vocabulary, `replicated` further elements, output to the first block. Returns its index. */
guint psi_block_add_embedding (PsiModel *model, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens,
                               gint64 vocab, gint64 replicated, gboolean norm);

/* A kind for final norm, logits and loss. `transform`: BERT's dense layer before the logits. Returns its index. */
guint psi_block_add_head (PsiModel *model, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens,
                          gint64 vocab, gboolean tied, gboolean transform);

/* Give a finished kind the script of the framework's code, and its parameters one by one, if the framework has such and
 * the block is one that the script knows. `vocab`: columns; `tied`: the head's matrix is the embedding's. */
void psi_block_script (PsiLayerKind *kind, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens);
void psi_block_script_embedding (PsiLayerKind *kind, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens,
                                 gint64 vocab);
void psi_block_script_head (PsiLayerKind *kind, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens,
                            gint64 vocab, gboolean tied);

/* Tokens of one micro-batch on one GPU. */
gint64 psi_block_tokens (const PsiLowering *lowering, gint64 sequence);

/* Embedding and head of a pipeline that splits them: strip `embedding` and `head` of what is split and put a layer
 * "vocabulary", 1 / shards of both, behind each share of the blocks. `vocab` columns, as the model has them. */
void psi_block_shard_vocabulary (PsiModel *model, const PsiLowering *lowering, const PsiModelDimensions *d,
                                 gint64 sequence);

/* A kind of block: attention and feed-forward. Returns its index. */
guint psi_block_add (PsiModel *model, const char *name, const PsiLowering *lowering, const PsiBlock *block,
                     gint64 tokens);

/* Embedding, `layers` equal blocks, head. Returns `model`. */
PsiModel *psi_block_stack (PsiModel *model, guint embedding, guint middle, guint layers, guint head);
