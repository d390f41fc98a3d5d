/* SPDX-License-Identifier: MIT */
/* A model as the planner sees it: a list of layers, each with kernels, parameters and the bytes it keeps.
 *
 * A family file (family-gpt.c, ...) expands dimensions into *layer kinds*: equal layers share one kind, so costs are
 * computed once per kind. All numbers of a kind are for ONE micro-batch on ONE GPU of the tensor-parallel group,
 * unless the name says otherwise. */
#pragma once

#include "adapters.h"
#include "framework-memory.h"
#include "kernel.h"

#include <glib.h>

#define PSI_SAVED_TENSORS 24

/* The three parts of a layer's work. Backward is the input half followed by the weight half. */
typedef enum
{
  PSI_PASS_FORWARD,
  PSI_PASS_BACKWARD_INPUT,
  PSI_PASS_BACKWARD_WEIGHT,
  PSI_N_PASSES
} PsiPass;

/* Collective that ends a segment, over the tensor-, context- or expert-parallel group. */
typedef enum
{
  PSI_COMM_NONE,
  PSI_COMM_ALL_REDUCE,
  PSI_COMM_ALL_GATHER,
  PSI_COMM_REDUCE_SCATTER,
  PSI_COMM_ALL_TO_ALL,
  PSI_COMM_SEND_RECV
} PsiCommOp;

typedef enum
{
  PSI_GROUP_TP,
  PSI_GROUP_CP,
  PSI_GROUP_EP,
  PSI_GROUP_EXPERT_TP /* of those that split each expert, where that is not the tensor-parallel group */
} PsiCommGroup;

/* A maximal run of kernels between two communication points. */
typedef struct
{
  guint first_kernel, n_kernels; /* into PsiLayerKind.kernels */
  PsiCommOp comm;                /* after the kernels; PSI_COMM_NONE if nothing is sent */
  PsiCommGroup comm_group;
  gint64 comm_bytes; /* bytes of the whole tensor: all-reduce buffer, gathered result, scattered input */

  /* Of an input half whose weight half follows at once, under frameworks that do not wait for the collective: the
   * kernels of the weight half beside which it runs, ... */
  guint beside_first, beside_n; /* into PsiLayerKind.kernels; n = 0: the collective is waited for */
  /* ... and the last kernels of this segment, beside which the input of those is gathered again. */
  guint again_n;
  /* Kernels that run piece by piece, one for each member, beside the collective: the first of the next segment, or the
   * last of this one. */
  guint pieces_after_n, pieces_before_n;
} PsiSegment;

/* What a pass does to the memory of its GPU, line by line, where a framework's code is followed that far. Tensors go by
 * slots, which a layer has for each micro-batch from its forward to the end of its backward. */
typedef enum
{
  PSI_SCRIPT_TAKE,     /* a tensor */
  PSI_SCRIPT_MOVE,     /* what flows into the layer stays under that slot */
  PSI_SCRIPT_FREE,     /* the memory can be used again at once, in the order of the stream */
  PSI_SCRIPT_LEND,     /* the same for what a collective's stream has used: once the GPU has got there */
  PSI_SCRIPT_LAUNCH,   /* `bytes` calls of the host that the GPU queues */
  PSI_SCRIPT_COMM,     /* the same for a collective */
  PSI_SCRIPT_BUFFER,   /* the slot of a buffer that all layers share and that only grows */
  PSI_SCRIPT_GRADIENT, /* of parameters: stays until the end of the part's backward */
} PsiScriptVerb;

enum
{
  PSI_SCRIPT_FLOW,      /* slot: what a layer hands to the next, or back */
  PSI_SCRIPT_SLOTS = 28 /* 0 .. 27 */
};

typedef struct
{
  guint8 verb, slot;
  gint64 bytes;
} PsiScriptLine;

/* Calls of the host for a collective: output tensor or kernel, work object, two events and two waits between streams
 * (ProcessGroupNCCL.cpp of PyTorch 2). */
#define PSI_COLLECTIVE_CALLS 5

typedef struct
{
  char *name;                /* "block", "embedding", "head", "conv2_1": the kind, not the instance */
  gint64 parameters;         /* elements on one GPU of the tp group (experts: after ep too), trainable or not */
  gint64 expert_parameters;  /* the share of `parameters` that belongs to routed experts (reduced over dp/ep only) */
  double trainable_fraction; /* 1 unless frozen */
  gboolean is_frozen;        /* but for the adapters (LoRA) */
  gint64 adapter_parameters, adapter_expert_parameters; /* among `parameters` and `expert_parameters` */
  gint64 narrow_parameters, narrow_bytes; /* frozen elements in a narrow format, and the bytes they take */
  double frozen_flops;                    /* the share of model_flops whose weights have no gradient */
  double model_flops; /* forward FLOPs of the whole layer and micro-batch, all tp and cp GPUs together (for MFU) */

  GArray *kernels;                /* of PsiKernel */
  GArray *segments[PSI_N_PASSES]; /* of PsiSegment, in execution order of that pass */
  gint64 saved_bytes;             /* kept from the forward until the backward, the layer's input included once */
  gint64 saved_tensors[PSI_SAVED_TENSORS]; /* saved_bytes tensor by tensor, those that do not fit in the last one */
  guint n_saved_tensors;
  gint64 weight_saved_bytes;          /* the part of saved_bytes that the weight-gradient half still needs */
  gint64 input_bytes;                 /* the layer's input: all that full recompute keeps */
  gint64 output_bytes;                /* boundary tensor to the next layer */
  gint64 selective_saved_bytes;       /* kept under selective recompute */
  guint selective_first, selective_n; /* kernels (forward) that selective recompute runs again; n = 0: none */
  gint64 forward_workspace_bytes;     /* transient peak above what stays, while the forward runs */
  gint64 backward_workspace_bytes;    /* the same for the backward, above saved_bytes, which stay until it ends */
  gint64 stale_bytes;                 /* output of the micro-batch before, if the step has several */
  gboolean never_recomputed; /* embedding and head: frameworks do not checkpoint them, full recompute keeps all */
  gint64 parameter_bytes;    /* uniform only: bytes of one copy, which need not be 2 * parameters; else 0 */
  GArray *script[2];         /* of PsiScriptLine: forward, whole backward; NULL: the framework has none */
  GArray *tensors;           /* of gint64: elements of each parameter; NULL as above */
  guint open_pass;           /* pass + 1 whose last segment still takes kernels, 0 = none; for psi_kind_*() only */
} PsiLayerKind;

/* One layer of the model, in order of execution. */
typedef struct
{
  guint kind;      /* index into PsiModel.kinds */
  guint n_inputs;  /* 0 for the first layer; 1 = the layer before it, as nearly always; more or other: a branch */
  guint inputs[4]; /* indices of the layers whose outputs it reads, ascending */
} PsiLayer;

typedef struct
{
  char *name;        /* "llama-2-7b" */
  char *family;      /* "llama" */
  char *description; /* one line: dimensions and where they come from */
  GArray *kinds;     /* of PsiLayerKind */
  GArray *layers;    /* of PsiLayer */
  guint first_block,
      n_blocks;      /* the run of layers that `partition = layers` divides evenly (embedding before, head after) */
  gint64 parameters; /* of the whole model, exact, tied tensors once */
  guint vocabulary_shards; /* that many layers "vocabulary" are among the blocks, one at the end of each part; else 0 */
  gint64 tied_parameters;  /* elements (on one tp GPU) that first and last layer share; the first counts them in its
                            * `parameters`, the last does not; both hold them if on different GPUs */
  gint64 tokens_per_sample;       /* sequence length; 1 for a trace of images */
  double model_flops_per_sample;  /* forward FLOPs of one sample, by the usual counting (MFU) */
  double frozen_flops_per_sample; /* of them of products that have no gradient of their weights */
  gboolean is_uniform;            /* the paper's model: fixed times, byte counts given directly */
} PsiModel;

/* Lowering: everything a family needs to know about the plan to produce numbers for one GPU and one micro-batch. */
typedef struct
{
  gint64 micro_batch; /* samples */
  gint64 sequence;    /* tokens per sample */
  guint tp, cp, ep;   /* degrees */
  guint expert_tp;    /* GPUs that split each expert; 0 = tp */
  gboolean sequence_parallel;
  PsiDtype dtype;                /* of activations and matrix products */
  gboolean flash;                /* fused attention, no score matrix kept */
  guint flash_generation;        /* of FlashAttention, 0 = 2 */
  gboolean compile;              /* elementwise kernels fused by a compiler */
  gboolean megatron;             /* framework = megatron: fused kernels, vocabulary-parallel loss; else pytorch eager */
  const PsiFramework *framework; /* NULL: megatron or pytorch, by the flag */
  const PsiFrameworkMemory *memory; /* NULL: that of `framework`, or of megatron or pytorch by the flag */
  gboolean fused_loss;
  gboolean dropout;
  PsiExpertGemm expert_gemm;
  double expert_imbalance; /* tokens of the fullest GPU's experts over the mean; 0 = 1 */
  gboolean channels_first; /* convolutions of a trace */
  guint sum_bytes;         /* of an element of the gradients that are summed over micro-batches; 0 = by dtype */
  guint loss_chunks;       /* logits computed in that many chunks, at least 1; 0 counts as 1 */
  PsiAdapters adapters;
  guint vocabulary_shards; /* pipeline ranks that share embedding and head; 0, 1: first and last layer have them */
  guint vocabulary_live;   /* micro-batches whose logits are alive at once then */
  gboolean attention_copy; /* the fused attention's output is kept twice: flash-attn wants another layout than the
                            * framework's (measured on A100 with micro_batch > 1 under Megatron; not from H100 on) */
} PsiLowering;

PsiModel *psi_model_new (const char *name, const char *family);
void psi_model_free (PsiModel *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiModel, psi_model_free)

/* Append a kind; the model owns its name and arrays. Returns its index. The pointer from psi_model_kind() is valid
 * until the next append. */
guint psi_model_add_kind (PsiModel *model, const char *name);
PsiLayerKind *psi_model_kind (const PsiModel *model, guint index);

/* Has any layer routed experts? */
gboolean psi_model_has_experts (const PsiModel *model);

/* Append `count` layers of a kind, each reading the layer before it. */
void psi_model_add_layers (PsiModel *model, guint kind, guint count);

/* Elements that are trained, and those of them that belong to routed experts. */
gint64 psi_kind_trainable (const PsiLayerKind *kind);
gint64 psi_kind_trainable_experts (const PsiLayerKind *kind);

/* Append a kernel to the open segment of a pass of the kind, opening one if none is. */
void psi_kind_add_kernel (PsiLayerKind *kind, PsiPass pass, const PsiKernel *kernel);

/* End the open segment of a pass with a collective (or with none). */
void psi_kind_end_segment (PsiLayerKind *kind, PsiPass pass, PsiCommOp comm, PsiCommGroup group, gint64 bytes);
