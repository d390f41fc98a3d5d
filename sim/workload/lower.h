/* SPDX-License-Identifier: MIT */
/* Inside sim/workload: from a list of operations in forward order to the kernels, segments and bytes of a layer kind.
 * The backward is the same list walked from its end, so a family writes only the forward. */
#pragma once

#include "workload.h"

/* How a weight matrix is split over the tensor-parallel group. */
typedef enum
{
  PSI_SPLIT_NONE,   /* every GPU holds it whole */
  PSI_SPLIT_COLUMN, /* outputs divided */
  PSI_SPLIT_ROW     /* inputs divided; the bias stays whole */
} PsiSplit;

/* Operations bound by memory; costs in lower.c. */
typedef enum
{
  PSI_ELEMENT_LAYERNORM,
  PSI_ELEMENT_RMSNORM,
  PSI_ELEMENT_ROPE,     /* per element of queries and keys */
  PSI_ELEMENT_LAYOUT,   /* splitting and transposing queries, keys and values */
  PSI_ELEMENT_GELU,     /* bias included; relu costs the same */
  PSI_ELEMENT_GATED,    /* silu or gelu of one half times the other, per element of the result */
  PSI_ELEMENT_RESIDUAL, /* bias, dropout if there is any, and the sum */
  PSI_ELEMENT_DROPOUT,
  PSI_ELEMENT_SCORES,    /* scale, mask, softmax and dropout of the score matrix */
  PSI_ELEMENT_LOSS,      /* softmax cross entropy, per logit */
  PSI_ELEMENT_EMBEDDING, /* row look-up, per element of the result */
  PSI_ELEMENT_PERMUTE,   /* sorting tokens by expert, and back */
  PSI_ELEMENT_ROUTER,    /* scores of all experts to the chosen ones and their weights */
  PSI_N_ELEMENTS
} PsiElementOp;

typedef struct
{
  gint64 split;      /* elements that tensor parallelism divides */
  gint64 replicated; /* elements that every GPU of the group holds */
} PsiParameterCount;

typedef struct
{
  const PsiLowering *lowering;
  gint64 tokens;         /* of one micro-batch on one GPU, before sequence parallelism */
  guint tp;              /* at least 1 */
  guint sequence_shards; /* tp with sequence parallelism, else 1 */
  PsiCommGroup tp_group; /* of the tp GPUs */
  guint element_bytes;   /* of an activation */
  PsiDtype dtype;        /* of products that fp8 also takes */
  PsiDtype wide_dtype;   /* the same without fp8: attention, head, memory-bound kernels */

  GArray *ops;       /* of the steps in forward order; opaque */
  gint64 parameters; /* of one GPU */
  gint64 expert_parameters;
  gint64 adapter_parameters, adapter_expert_parameters;
  gint64 narrow_parameters, narrow_bytes;
  gint64 largest_narrow; /* elements of the largest matrix that is made wide for its product */
  double frozen_flops;
  double model_flops; /* of the micro-batch, all tp and cp GPUs together */
  gint64 saved_bytes, weight_saved_bytes;
  gint64 saved_tensors[PSI_SAVED_TENSORS]; /* saved_bytes one by one */
  guint n_saved_tensors;
  gint64 core_saved_bytes; /* the part that selective recompute drops */
  gint64 largest_matrix;   /* elements of one GPU's largest weight that is trained */
  gint64 flow_bytes;       /* largest gradient alive between two ops of the backward */
  gboolean in_core;
  gboolean varies;          /* sizes of what comes now depend on the data */
  guint feeds;              /* of PsiTarget: the products that read the next norm's output; 0: a router or the head */
  gboolean select_products; /* selective recompute as PyTorch does it: keep what psi_lower_keep() names, run the rest */
  gint64 kept_bytes;        /* what selective recompute keeps then */
} PsiLower;

void psi_lower_init (PsiLower *lower, const PsiLowering *lowering, gint64 tokens);
void psi_lower_clear (PsiLower *lower); /* without a kind */

/* Move everything into the kind (its boundary and workspace bytes are the family's to set) and release the rest. */
void psi_lower_finish (PsiLower *lower, PsiLayerKind *kind);

/* rows x inputs by inputs x outputs (whole widths; `split` divides one), `copies` times (experts). Adds parameters,
 * products of all passes, and what the weight half needs. `model_rows`: rows for model_flops, whole micro-batch. */
void psi_lower_linear (PsiLower *lower, gint64 rows, gint64 inputs, gint64 outputs, PsiSplit split, gboolean bias);
void psi_lower_experts (PsiLower *lower, gint64 rows, gint64 model_rows, gint64 inputs, gint64 outputs, PsiSplit split,
                        gint64 local_experts);

/* The adapter of a product of these shapes, if it is a target: x A B, r (inputs + outputs) parameters, x A kept (its
 * input is the caller's to keep). `copies` of it for experts, else 1. */
void psi_lower_adapter (PsiLower *lower, PsiTarget target, gint64 rows, gint64 inputs, gint64 outputs, PsiSplit split);
void psi_lower_expert_adapters (PsiLower *lower, PsiTarget target, gint64 rows, gint64 model_rows, gint64 inputs,
                                gint64 outputs, PsiSplit split, gint64 local_experts);
/* Does anything want the input of these products (of PsiTarget) in the backward? */
gboolean psi_lower_wants_input (const PsiLower *lower, guint targets);

/* A product without parameters of its own: the head over tied weights. */
void psi_lower_tied_linear (PsiLower *lower, gint64 rows, gint64 inputs, gint64 outputs);

void psi_lower_element (PsiLower *lower, PsiElementOp op, double elements);

/* The last op takes so many launches instead, forward and backward. */
void psi_lower_set_launches (PsiLower *lower, guint forward, guint backward);

/* Attention of `sequences` x `heads` (of this GPU); math kernels or fused as the lowering says. `d`, `d_value`: head
 * dimensions. Saved: q, k, v and the output by psi_lower_save(); this adds scores or log-sum-exp as core bytes. */
void psi_lower_attention (PsiLower *lower, gint64 sequences, gint64 heads, gint64 queries, gint64 keys, gint64 d,
                          gint64 d_value, gboolean causal);

/* A collective in the forward, and its mirror in the backward; either may be PSI_COMM_NONE. */
void psi_lower_comm (PsiLower *lower, PsiCommOp forward, PsiCommOp backward, PsiCommGroup group, gint64 bytes);

/* Enter and leave the part of a layer that tp splits: Megatron's f and g, with sequence parallelism their all-gather
 * and reduce-scatter. `bytes` of the whole tensor. Nothing when tp is 1. */
void psi_lower_enter_tp (PsiLower *lower, gint64 bytes);
void psi_lower_leave_tp (PsiLower *lower, gint64 bytes);

void psi_lower_save (PsiLower *lower, gint64 bytes);
void psi_lower_add_parameters (PsiLower *lower, gint64 elements);

/* Parameters of this GPU's experts. */
static inline void
psi_lower_add_expert_parameters (PsiLower *lower, gint64 elements)
{
  psi_lower_add_parameters (lower, elements);
  lower->expert_parameters += elements;
}

/* Keep these bytes under PyTorch's selective recompute; they are part of what psi_lower_save() counts, or the result
 * of a product whose consumer saves nothing. Nothing under Megatron's. */
void psi_lower_keep (PsiLower *lower, gint64 bytes);

/* The ops between these two are what selective recompute runs again; several such runs add up. */
void psi_lower_begin_core (PsiLower *lower);
void psi_lower_end_core (PsiLower *lower);
