/* SPDX-License-Identifier: MIT */
/* One training step as programs for the engine: the verbs a plan speaks, and the context they share.
 *
 *   step.c            ranks, classes, streams; walks each rank's list of tokens
 *   step-cost.c       kernels -> time of every segment of every kind of layer
 *   step-order.c      the plan's order as data
 *   step-ranks.c      ranks on the machine
 *   step-place.c      groups, communicators, channels
 *   step-call.c       collectives, messages and turns as ops (step-call.h: what the two share)
 *   step-transfer.c   costs as transfers
 *   step-links.c      links that GPUs share
 *   step-pieces.c     work of a layer and collectives between and beside it
 *   step-token.c      one token after another, those that overlap, gates
 *   step-boundary.c   boundary tensors that travel in shares
 *   step-pass.c       forward and backward of a part: ops, memory
 *   step-edge.c       boundary messages of a token (step-edge.h)
 *   step-fold.c       equal tokens as one op each
 *   step-gather.c     sharded parameters for a pass
 *   step-gradients.c  synchronous update: buckets, all-reduce or reduce-scatter, optimizer, ZeRO, parameter server;
 *                     asynchronous update: each bucket by itself
 *   step-cyclic.c     cyclic update: gradient hops, versions that travel, shared GPUs
 *   step-uses.c       who uses a version under a cyclic update, and how many there are (step-uses.h)
 *   step-hop.c        hops of a cyclic update, each at its place in the streams (step-hop.h)
 *   step-host.c       what the host does around collectives besides launching them
 *   step-state.c      bytes of parameters, gradients and optimizer that are always there
 *   step-graphs.c     what CUDA graphs do to the host's time and to memory
 *   step-offload.c    state and activations that live in the host
 *   step-reserved.c   what PyTorch's allocator holds beyond that
 *   step-replay.c     all that it holds, of frameworks whose code is followed tensor by tensor
 *
 * Nothing here reads a clock: it orders ops and says what they cost. */
#pragma once

#include "machine.h"
#include "collective.h"
#include "partition.h"
#include "plan.h"
#include "psi-program.h"
#include "psi-run.h"
#include "tags.h"
#include "topology.h"

/* Streams of a rank. Boundary messages have four streams for each model part of a rank, from PSI_STREAM_BOUNDARY on. */
enum
{
  PSI_STREAM_COMPUTE,
  PSI_STREAM_GRADIENTS,     /* collectives, or partial sums sent on */
  PSI_STREAM_GRADIENTS_IN,  /* partial sums received */
  PSI_STREAM_PARAMETERS,    /* gathers, or versions sent on */
  PSI_STREAM_PARAMETERS_IN, /* versions received */
  PSI_STREAM_TURN_OUT,      /* no bytes: a shared GPU passes to the next micro-batch */
  PSI_STREAM_TURN_IN,
  PSI_STREAM_TENSOR,  /* collectives of the tensor-parallel group beside work */
  PSI_STREAM_BOUNDARY /* + 4 chunk + { in forward, in backward, out forward, out backward }; workers that hold the
                       * whole model have no boundaries: + 2 part + { versions out, versions in } */
};
#define PSI_CYCLIC_PARTS 28 /* parts with streams of their own */

/* Tags of ops: what the time is spent on. Messages: PSI_TAG_TRAFFIC + PsiTraffic. */
enum
{
  PSI_TAG_FORWARD,
  PSI_TAG_BACKWARD,
  PSI_TAG_WEIGHT,
  PSI_TAG_RECOMPUTE,
  PSI_TAG_OPTIMIZER,
  PSI_TAG_TURN = 15,
  PSI_TAG_TRAFFIC = 16
};

/* Links of one rank, each a tier of its own. */
enum
{
  PSI_TIER_INTRA_OUT,
  PSI_TIER_INTRA_IN,
  PSI_TIER_INTER_OUT,
  PSI_TIER_INTER_IN
};

/* One stretch of work of a layer pass, then perhaps a collective. In a whole backward it may run beside work of the
 * weight half, and a gather of the same bytes beside the end of the stretch. */
typedef struct
{
  PsiTime time_ps;
  PsiCommOp comm;
  PsiCommGroup group;
  gint64 comm_bytes;
  PsiTime pieces_ps;            /* work of this half, piece by piece beside the collective */
  PsiTime beside_ps;            /* work beside the collective, at the rate left to it; 0: it is waited for */
  PsiTime again_ps, stretch_ps; /* the end of time_ps beside which is gathered; how much longer it takes then */
} PsiPiece;

/* Passes of a layer that follow without a break: the slower of the GPU, with its collectives, and the host decides. */
typedef struct
{
  double busy_s, host_s;
  double launches; /* kernels */
} PsiRace;
enum
{
  PSI_RACE_FORWARD,
  PSI_RACE_BACKWARD, /* both halves */
  PSI_N_RACES
};

/* A kind of layer with its costs on this machine. */
typedef struct
{
  PsiRace races[PSI_N_RACES];
  GArray *pieces[PSI_N_PASSES];       /* of PsiPiece */
  PsiTime pass_ps[PSI_N_PASSES];      /* work alone */
  PsiTime beside_ps;                  /* of the weight half, what runs beside collectives of the input half */
  PsiTime selective_ps;               /* what selective recompute runs again */
  PsiTime host_wait_ps[PSI_N_PASSES]; /* of pass_ps: the GPU waits for kernels to be issued */
  double flops[PSI_N_PASSES];         /* what the hardware executes */
} PsiKindCost;

/* The model lowered for one size of micro-batch. */
typedef struct
{
  gint64 micro_batch;
  PsiModel *model;
  PsiKindCost *costs; /* [kinds] */
} PsiShapeCost;

/* What a transfer amounts to for the rank that runs the op, beside what the engine needs. */
typedef struct
{
  PsiTraffic traffic;
  gint64 sent_bytes;   /* by this rank */
  gint64 flight_bytes; /* of them at one instant */
  gboolean by_server;  /* the root of a parameter server sends them, whoever runs the op */
} PsiTransferInfo;

/* Dimensions of PsiStep.strides. */
enum
{
  PSI_STRIDE_TP,
  PSI_STRIDE_CP,
  PSI_STRIDE_DP,
  PSI_STRIDE_PP
};

/* A rank (or class of equal ranks) while its program is built. Ranks of one list with equal work follow the first of
 * them: they share its program, and all that is filled while tokens are walked stays with it. */
typedef struct _PsiStepRank PsiStepRank;
struct _PsiStepRank
{
  PsiRankId id;
  PsiProgram *program;
  const PsiStepRank *leader; /* whose program it is, NULL = its own */
  PsiStepRank *next_leader;  /* another rank of the list with a program of its own */
  const PsiShapeCost *shape;
  guint list;                         /* whose token list it runs */
  guint dp_index, tp_index, cp_index; /* first member */
  guint count;                        /* GPUs it stands for */
  guint first_gpu;
  int stage;        /* pipeline rank, -1 */
  gboolean is_root; /* parameter server */
  double scale;
  PsiLinkId links[4];
  gint64 base[PSI_MAX_CLASSES]; /* bytes that are always there, by PsiMemoryClass */

  /* Filled while tokens are walked; by psi_token_index(). */
  PsiOpId *forward_first, *forward_last, *backward_first, *backward_last;
  GArray *marks;    /* of PsiOpId: last op of each token, in list order */
  GArray *sends;    /* of PsiOpId: boundary sends the next token waits for, under frameworks that block */
  GArray *receives; /* of PsiGate: boundary receives, gated by an earlier token */
  GArray *uses;     /* of PsiOpId: last op of each use of gathered parameters, in order */
  GArray *gathers;  /* of PsiGate: gathers of sharded parameters, gated by an earlier use */
  GArray *calls;    /* step-call.c: collectives and messages made before, with their slot and transfer */
  GHashTable *call_index, *slot_index; /* step-call.c: where to find them, and ports, if they are many */
  PsiOpId *first_use;                  /* [layers] first op of the step that reads the layer's parameters */
  PsiOpId *ready;                      /* [layers] last op of the step that adds to the layer's gradients */
  PsiOpId *update;                     /* [parts] cyclic: the update this rank makes */
  guint32 *folds;                      /* step-fold.c: [chunks x kinds of token] */
  guint32 *updates_left;               /* [chunks] backwards that are still to come */
  guint *group_start;                  /* stream lengths before the first token of a group of overlapped ones */
};

/* An op that may not begin before number `position` of a list (marks or uses) is over; negative: of the step before. */
typedef struct
{
  PsiOpId op;
  int position;
  guint layer;
} PsiGate;

typedef struct _PsiStep
{
  const PsiPlan *plan;
  const PsiMachine *machine;
  const PsiSettings *settings;
  GPtrArray *shapes; /* of PsiShapeCost*; the first is the plan's own */
  PsiPartition partition;
  PsiSchedule *schedule;
  PsiWorld *world;
  GArray *infos; /* of PsiTransferInfo, by PsiTransferId */
  PsiStepRank *ranks;
  guint n_ranks, n_classes; /* ranks = lists x classes */
  const char *warning;      /* for the report, or NULL */
  guint gpus, strides[4];   /* strides of tp, cp, dp, pp in GPU numbers */
  PsiTopology topology;
  GHashTable *shared_links; /* level, domain and direction -> PsiLinkId + 1 */
  GHashTable *ports;        /* key -> PsiPortId + 1 */
  GHashTable *transfers;    /* transfer and info -> PsiTransferId */
  gboolean is_chain;        /* each layer reads the one before it and nothing else */
  gint64 micro_batches;     /* in the lists: all of the plan's, or fewer that stand for them; 0 = all */
  gboolean folds;           /* tokens are one op where they can be */
  gboolean is_misfit;       /* half built: see PsiStepMisfitFunc */
} PsiStep;

/* Is there no way that this rank, whose program is built but for messages of a cyclic update, fits its GPU? */
typedef gboolean (*PsiStepMisfitFunc) (const PsiStep *step, const PsiStepRank *rank);

/* Build the step of a plan. `settings`, `machine` and `plan` are borrowed. (transfer full) */
PsiStep *psi_step_new (const PsiPlan *plan, const PsiMachine *machine, const PsiModelSource *source,
                       const PsiSettings *settings, GError **error);
/* The same with few ops, for reports that do not show them: equal tokens are folds, see psi-fold.h. `shortens`: leave
 * out micro-batches that do what others do; then psi_step_run_whole() must be asked after the run. `is_misfit`, if not
 * NULL: stop at the first rank of which it is true; that step says so and cannot be run. */
PsiStep *psi_step_new_folded (const PsiPlan *plan, const PsiMachine *machine, const PsiModelSource *source,
                              const PsiSettings *settings, gboolean shortens, PsiStepMisfitFunc is_misfit,
                              GError **error);
/* Make the run of a shortened step one of all its micro-batches, see psi-repeat.h. FALSE: it cannot be told from this
 * run; build and run it without shortening. */
gboolean psi_step_run_whole (const PsiStep *step, PsiRun *run);
void psi_step_free (PsiStep *step);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiStep, psi_step_free)

/* ---- Shared by the step-*.c files ---- */

static inline const PsiModel *
psi_step_model (const PsiStep *step)
{
  return ((PsiShapeCost *) g_ptr_array_index (step->shapes, 0))->model;
}
static inline const PsiLayerKind *
psi_layer_kind (const PsiModel *model, guint layer)
{
  return psi_model_kind (model, g_array_index (model->layers, PsiLayer, layer).kind);
}
/* Where a rank keeps what it knows about a token of a cyclic list. */
static inline gsize
psi_token_index (const PsiStep *step, guint chunk, gint64 micro_batch)
{
  const PsiSchedule *schedule = step->schedule;
  gint64 own = schedule->one_worker ? schedule->worker_micro_batches : schedule->micro_batches;

  return (gsize) (chunk * own + micro_batch % own);
}

/* Does every list belong to a replica of its own (a file of data-parallel ranks)? */
static inline gboolean
psi_step_lists_are_workers (const PsiStep *step)
{
  return step->schedule->whole && step->schedule->n_ranks > 1 && step->schedule->n_workers == 0;
}

/* step-cost.c */
PsiShapeCost *psi_shape_cost_new (const PsiPlan *plan, const PsiMachine *machine, const PsiModelSource *source,
                                  const PsiSettings *settings, gint64 micro_batch, GError **error);
void psi_shape_cost_free (PsiShapeCost *shape);
PsiTime psi_step_memory_time_ps (const PsiStep *step, double bytes); /* a memory-bound kernel over so many bytes */
/* Time of work that takes work_ps alone, beside a collective that takes collective_ps. */
PsiTime psi_step_beside_ps (const PsiMachine *machine, PsiTime work_ps, PsiTime collective_ps);

/* step-order.c */
/* The plan's order as data: the first thing psi_step_new() makes, once plan, machine and partition are known. (transfer
 * full) */
PsiSchedule *psi_step_schedule (const PsiStep *step, const PsiShapeCost *shape, GError **error);

/* step-ranks.c */
void psi_step_place_rank (PsiStep *step, PsiStepRank *rank);
/* Do the pipelines of all replicas cross nodes at the same places? */
gboolean psi_step_replicas_alike (PsiStep *step);

/* step-place.c */
/* The groups of a rank. */
typedef enum
{
  PSI_DIMENSION_DP, /* all data-parallel ranks, cp included */
  PSI_DIMENSION_TP,
  PSI_DIMENSION_CP,
  PSI_DIMENSION_EP,
  PSI_DIMENSION_EXPERT_DP, /* ranks that hold the same experts */
  PSI_DIMENSION_EXPERT_TP, /* ranks that split each expert */
  PSI_DIMENSION_SHARD,     /* ranks that share one sharded copy */
  PSI_DIMENSION_ALL,
  PSI_N_DIMENSIONS
} PsiDimension;
guint psi_step_group_size (const PsiStep *step, PsiDimension dimension);
/* Distance of the members of a group of experts, expert dimensions only: GPUs of a pipeline rank counted with tp
 * innermost, then cp, then dp. */
guint psi_step_expert_stride (const PsiStep *step, PsiDimension dimension);
/* Members of a group in one node. */
guint psi_step_ranks_per_node (const PsiStep *step, PsiDimension dimension);

/* step-call.c */
/* Give `rank` the ports under the slots of another rank of its list, so that it can run that rank's program. FALSE, and
 * nothing is done, if one of its messages would cost something else. */
gboolean psi_step_follow (PsiStep *step, const PsiStepRank *leader, PsiStepRank *rank);
/* A collective of one of the rank's groups, appended to a stream; PSI_OP_NONE if the rank is alone in it. */
PsiOpId psi_step_collective (PsiStep *step, PsiStepRank *rank, guint stream, PsiCollectiveOp op, PsiDimension dimension,
                             gint64 bytes, PsiTraffic traffic);
/* What the same takes on an idle machine; no op. */
PsiTime psi_step_collective_alone_ps (PsiStep *step, PsiStepRank *rank, guint stream, PsiCollectiveOp op,
                                      PsiDimension dimension, gint64 bytes, PsiTraffic traffic);
/* A collective of all that hold a copy of one part: a schedule may place it on several pipeline ranks. */
PsiOpId psi_step_copies_collective (PsiStep *step, PsiStepRank *rank, PsiCollectiveOp op, guint part, gint64 bytes,
                                    PsiTraffic traffic);
/* Gather to, or scatter from, the root of a parameter server: `outward` = away from the root. */
PsiOpId psi_step_server_message (PsiStep *step, PsiStepRank *rank, gboolean outward, gint64 bytes, PsiTraffic traffic);
/* What one worker alone sends to the root, or the root to it; PSI_OP_NONE for the root's own worker. */
PsiOpId psi_step_worker_message (PsiStep *step, PsiStepRank *rank, gboolean outward, gint64 bytes, PsiTraffic traffic);
/* A worker's turn at the root: the update of a bucket (0, 1, ...). */
PsiOpId psi_step_serve (PsiStep *step, PsiStepRank *rank, guint bucket, PsiTime time_ps);
/* One end of a message between two ranks; `what` and `index` tell channels of a pair apart. bytes 0: no traffic. */
PsiOpId psi_step_send (PsiStep *step, PsiStepRank *from, PsiStepRank *to, guint stream, guint what, guint index,
                       gint64 bytes, PsiTraffic traffic);
PsiOpId psi_step_receive (PsiStep *step, PsiStepRank *from, PsiStepRank *to, guint stream, guint what, guint index,
                          gint64 bytes, PsiTraffic traffic);

/* step-transfer.c */
guint psi_step_transfer_hash (gconstpointer key);
gboolean psi_step_transfer_equal (gconstpointer a, gconstpointer b);
/* The transfer of a cost, at the level of detail the user asks for. */
PsiTransferId psi_step_transfer (PsiStep *step, const PsiCollectiveCost *cost, const PsiTransferInfo *info);
/* `hops`: messages one after another in which a rank sends its bytes. */
PsiTransferInfo psi_step_transfer_info (PsiTraffic traffic, gint64 sent_bytes, guint hops);

/* step-links.c */
/* How the bytes of a port go from GPU to GPU. */
typedef enum
{
  PSI_ROUTE_RING,   /* round the group, node by node */
  PSI_ROUTE_SPREAD, /* from everybody to everybody, or from or to one */
  PSI_ROUTE_MESSAGE /* from a GPU to the one `shift` further */
} PsiRouteKind;
typedef struct
{
  PsiRouteKind kind;
  PsiDimension dimension;
  guint per_node; /* members in one node */
  gint64 shift;
  gboolean up, down; /* does the rank load links above it, links down to it */
} PsiRoute;
/* Add the shared links that a rank's GPUs load to the path of its port. */
void psi_step_add_shared_links (PsiStep *step, const PsiStepRank *rank, PsiPortId port, const PsiRoute *route);
/* Do all GPUs of a pipeline rank see the same shared links? */
gboolean psi_step_links_alike (const PsiStep *step);
/* Share of its wires that a GPU of a mesh has to another, the least of any two equal ones the ranks stand for. */
double psi_step_narrowest_wires (const PsiStep *step, const PsiStepRank *from, const PsiStepRank *to);

/* step-pieces.c */
/* Ops of one layer pass appended to the compute stream: work, with collectives between. */
typedef struct
{
  PsiOpId first, last;
  PsiOpId beside; /* a collective of another stream that the next op waits for, if it is not PSI_OP_NONE */
} PsiOps;
#define PSI_NO_OPS                                                                                                     \
  {                                                                                                                    \
    PSI_OP_NONE, PSI_OP_NONE, PSI_OP_NONE                                                                              \
  }
/* Append pieces; work after the last collective is added to *pending_ps. `whole`: the weight half follows at once, so
 * that parts of it may run beside collectives. */
void psi_step_add_pieces (PsiStep *step, PsiStepRank *rank, const GArray *pieces, guint tag, const PsiToken *token,
                          guint part, gboolean whole, PsiTime *pending_ps, PsiOps *ops);
/* Append what is pending, and at least one op. */
void psi_step_flush_work (PsiStepRank *rank, guint tag, const PsiToken *token, guint part, PsiTime pending_ps,
                          PsiOps *ops);
/* How much longer a layer's work takes because parameters are gathered (the op, or none) and gradients are summed (time
 * alone) beside it: the layer is taken to share the GPU with those of its own, which differ little from its
 * neighbours'. */
PsiTime psi_step_shared_ps (PsiStep *step, PsiStepRank *rank, guint layer, PsiOpId gathered, PsiTime sums_ps,
                            PsiTime work_ps);

/* step-token.c */
/* Append the work of one token: receives, gathers, compute, sends. */
void psi_step_token (PsiStep *step, PsiStepRank *rank, const PsiToken *token);
/* Gates that reach back into the step before, once all tokens are there. */
void psi_step_close_gates (PsiStepRank *rank);

/* step-boundary.c */
/* Before the first op of a token: gather what it receives, the output of layer `producer` or the gradient of that. */
void psi_step_make_whole (PsiStep *step, PsiStepRank *rank, const PsiToken *token, guint tag, guint producer,
                          PsiOps *ops);

/* step-pass.c */
/* The rank that works on a part for a micro-batch, in the replica of `like`. */
PsiStepRank *psi_step_rank_of_part (PsiStep *step, const PsiStepRank *like, guint part, gint64 micro_batch);
/* What the forward of a layer keeps for its backward. */
gint64 psi_step_kept_bytes (const PsiStep *step, const PsiLayerKind *kind, guint layer);
/* The work of one token: the pass of its part, or a half of it. */
void psi_step_forward (PsiStep *step, PsiStepRank *rank, const PsiToken *token);
void psi_step_backward (PsiStep *step, PsiStepRank *rank, const PsiToken *token);

/* step-fold.c */
gboolean psi_step_can_fold (const PsiStep *step);
gint64 psi_step_short_micro_batches (const PsiPlan *plan);
/* Is a token one that can be a fold? To be asked once for each token, before it is built. */
gboolean psi_step_may_fold (PsiStep *step, PsiStepRank *rank, const PsiToken *token);
/* Append the fold of an earlier token like this one; PSI_OP_NONE: there is none. */
PsiOpId psi_step_add_fold (PsiStepRank *rank, const PsiToken *token);
/* Fold what was appended since the streams had the lengths `before`; PSI_OP_NONE: it stays as it is. */
PsiOpId psi_step_fold (PsiStep *step, PsiStepRank *rank, const PsiToken *token, const guint *before);

/* step-gather.c */
/* Gather a layer's parameters for a use; PSI_OP_NONE if they are there. */
PsiOpId psi_step_gather (PsiStep *step, PsiStepRank *rank, guint layer, gboolean forward);
/* The use, ops `first` .. `last` of the token, is over. */
void psi_step_end_use (PsiStep *step, PsiStepRank *rank, const PsiToken *token, guint layer, PsiOpId gathered,
                       PsiOpId first, PsiOpId last);
/* Is a layer's gathered copy kept from one use to the next? */
gboolean psi_step_stays_gathered (const PsiStep *step, const PsiLayerKind *kind);
/* Is the token the last of the rank's step that works on its part? */
gboolean psi_step_is_last_use (const PsiStep *step, const PsiStepRank *rank, const PsiToken *token);

/* step-gradients.c */
/* The end of a rank's step: reduce, clip, update, share. */
void psi_step_synchronous_update (PsiStep *step, PsiStepRank *rank);
/* The same where workers do not wait for each other. */
void psi_step_asynchronous_update (PsiStep *step, PsiStepRank *rank);
/* Sharded gradients leave at once: called after each backward of a layer, `first` .. `last` its ops; `is_first`: of the
 * step. */
void psi_step_scatter_gradients (PsiStep *step, PsiStepRank *rank, const PsiToken *token, guint layer,
                                 gboolean is_first, PsiOpId first, PsiOpId last);
/* Collectives of a layer's gradients that run beside that backward of it: their time on an idle machine. */
PsiTime psi_step_gradients_beside_ps (PsiStep *step, PsiStepRank *rank, guint layer, const PsiToken *token);
/* reduce_every: gradients of a part that are summed in the middle of the step, called after each of its backwards. */
void psi_step_reduce_early (PsiStep *step, PsiStepRank *rank, guint part, gint64 micro_batch);
PsiOpId psi_step_optimizer (PsiStep *step, PsiStepRank *rank, double elements, int part);

/* step-host.c */
/* Host time of a rank before a collective of n ranks starts, where collectives are checked; else 0. */
double psi_step_check_s (const PsiPlan *plan, guint n_ranks);
/* Host time besides launches that gradients of so many layers, `elements` trainable, cost on their way to the
 * collective, and parameters after an update behind it. */
PsiTime psi_step_host_reduce_ps (const PsiStep *step, guint n_layers, double elements);
PsiTime psi_step_host_gather_ps (const PsiStep *step, guint n_layers);
/* For a layer's parameters that are gathered, or its gradients that are scattered, tensor by tensor: zero 3. */
PsiTime psi_step_host_lists_ps (const PsiStep *step, const PsiLayerKind *kind);

/* step-cyclic.c */
/* Called before and after each token of a cyclic list: the updates that stand there. */
void psi_step_cyclic_before (PsiStep *step, PsiStepRank *rank, const PsiToken *token);
void psi_step_cyclic_after (PsiStep *step, PsiStepRank *rank, const PsiToken *token);
/* Once all lists are walked: gradients and versions on their way. */
void psi_step_cyclic_messages (PsiStep *step);

/* step-uses.c */
/* Versions of a part in use at once where ranks share one store. */
guint psi_step_versions (const PsiStep *step, guint part);

/* step-state.c */
gint64 psi_layer_parameter_bytes (const PsiStep *step, const PsiLayerKind *kind);
gint64 psi_layer_gradient_bytes (const PsiStep *step, const PsiLayerKind *kind);
/* Elements, and bytes of parameters, that an update changes; those of experts alone. */
gint64 psi_layer_trained (const PsiLayerKind *kind);
gint64 psi_layer_trained_experts (const PsiLayerKind *kind);
gint64 psi_layer_trained_bytes (const PsiStep *step, const PsiLayerKind *kind);
/* Elements of the tensor that first and last layer share, as far as they are trained. */
gint64 psi_step_tied_trained (const PsiModel *model);
/* Ranks that share one sharded copy of an expert. */
guint psi_step_expert_shards (const PsiStep *step);
void psi_step_add_state (PsiStep *step, PsiStepRank *rank);
/* Of the workspaces: buffers into which the products of all layers gather, where the framework has such. */
gint64 psi_step_shared_gather_bytes (const PsiStep *step);

/* step-graphs.c */
/* How CUDA graphs change the passes of a kind of layer. */
typedef struct
{
  gboolean recorded, whole; /* whole: with everything else of the step */
  guint calls;              /* of the host for each pass */
  double copied_bytes[2];   /* into the graph's buffers: forward, backward */
  double gap_s;             /* how much sooner a kernel follows another */
} PsiStepGraphs;
PsiStepGraphs psi_step_graphs (const PsiPlan *plan, const PsiMachine *machine, const PsiModel *model,
                               const PsiLayerKind *kind);
/* Buffers that stay allocated on a rank. */
gint64 psi_step_graph_bytes (const PsiStep *step, const PsiStepRank *rank);
/* How long, of a step, the rank's GPU waits for its host to issue kernels of forward and backward. */
PsiTime psi_step_host_wait_ps (const PsiStep *step, const PsiStepRank *rank);

/* step-offload.c */
gboolean psi_step_updates_on_host (const PsiStep *step);
gboolean psi_step_offloads_activations (const PsiStep *step, guint layer);
/* Time of an update in the host. */
PsiTime psi_step_offload_optimizer_ps (const PsiStep *step, double elements);
/* Time that a layer's pass waits for the host beyond its own work. */
PsiTime psi_step_offload_layer_ps (const PsiStep *step, const PsiLayerKind *kind, guint layer, gint64 kept_bytes,
                                   PsiTime work_ps);
/* Take off what is not on the GPU after all. */
void psi_step_offload_state (const PsiStep *step, PsiStepRank *rank);

/* step-reserved.c */
/* Bytes that PyTorch's allocator holds beyond those allocated, at most so far; it may take capacity_bytes (-1: no end)
 * before it gives back what it caches. */
gint64 psi_step_cache_bytes (const PsiStep *step, const PsiStepRank *rank, gint64 capacity_bytes);

/* step-replay.c */
/* Can psi_step_replayed_bytes() be asked? */
gboolean psi_step_has_script (const PsiStep *step);
/* All that the allocator holds on the rank after three steps; capacity as above. */
gint64 psi_step_replayed_bytes (const PsiStep *step, const PsiStepRank *rank, gint64 capacity_bytes);
