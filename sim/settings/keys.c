/* SPDX-License-Identifier: MIT */
/* Every scenario key, one row each, in the order of PsiKeyId. To add a key: an id in keys.h, a row here. */
#include "keys.h"

#include <string.h>

const char *const psi_key_group_names[PSI_N_KEY_GROUPS] = { "model", "machine", "plan" };

/* Ranges keep products of a few of them inside 64 bits: whoever multiplies more computes in double. */
#define MANY 1048576.0                      /* GPUs, degrees, stages */
#define LOTS 1e9                            /* samples, rows, widths */
#define MOST_BYTES (64.0 * 1099511627776.0) /* 64 TiB */
#define TICK_S 1e-12                        /* the simulator's unit of time */
#define LONG_S 10000.0
#define MOST_BYTES_PER_S 1e15
#define EXACT 9007199254740991.0 /* largest whole number a double holds exactly */

/* Rows are wider than a screen so that they read as a table. */
/* clang-format off */

#define MODEL(id)   [PSI_KEY_##id] = { .group = PSI_KEY_GROUP_MODEL
#define MACHINE(id) [PSI_KEY_##id] = { .group = PSI_KEY_GROUP_MACHINE
#define PLAN(id)    [PSI_KEY_##id] = { .group = PSI_KEY_GROUP_PLAN
#define COUNT(low, high) .kind = PSI_KEY_KIND_COUNT, .minimum = (low), .maximum = (high)
#define COUNTS(low, high) .kind = PSI_KEY_KIND_COUNTS, .minimum = (low), .maximum = (high)
#define BYTES(low)  .kind = PSI_KEY_KIND_BYTES, .minimum = (low), .maximum = MOST_BYTES
#define TIME(low)   .kind = PSI_KEY_KIND_TIME, .minimum = (low), .maximum = LONG_S
#define REAL(low, high) .kind = PSI_KEY_KIND_REAL, .minimum = (low), .maximum = (high)
#define RATE        .kind = PSI_KEY_KIND_RATE, .minimum = 1e6, .maximum = MOST_BYTES_PER_S
#define YES_NO      .kind = PSI_KEY_KIND_BOOL
#define OF_MANY     .of_many = TRUE
#define ONE_OF(words) .kind = PSI_KEY_KIND_CHOICE, .choices = words
#define TEXT        .kind = PSI_KEY_KIND_TEXT

const PsiKey psi_keys[PSI_N_KEYS] = {
  MODEL (MODEL), .name = "model", TEXT,
    .help = "what is trained: a preset (list models), a config.json, a workload trace, uniform or custom" },
  MODEL (SEQUENCE), .name = "sequence", COUNT (1, 1e8),
    .help = "tokens per sample; from the model unless written" },
  MODEL (DECODER_SEQUENCE), .name = "decoder_sequence", COUNT (1, 1e8),
    .help = "t5: tokens per sample that the decoder reads; as many as the encoder unless written" },
  MODEL (DROPOUT), .name = "dropout", REAL (0, 1), .fallback = "0",
    .help = "dropout probability; above 0 the masks are kept for the backward pass" },
  MODEL (FAMILY), .name = "family", ONE_OF ("gpt llama moe bert t5 vit mlp"),
    .help = "kind of network of a custom model; of a preset, another kind with its dimensions" },
  MODEL (LAYERS), .name = "layers", COUNT (1, 100000),
    .help = "transformer blocks; from the model unless written" },
  MODEL (HIDDEN), .name = "hidden", COUNT (1, 1e7),
    .help = "width of the residual stream; from the model unless written" },
  MODEL (HEADS), .name = "heads", COUNT (1, 100000),
    .help = "attention heads; from the model unless written" },
  MODEL (KV_HEADS), .name = "kv_heads", COUNT (1, 100000),
    .help = "key and value heads (grouped-query attention); from the model, else heads" },
  MODEL (HEAD_DIM), .name = "head_dim", COUNT (1, 1e6),
    .help = "width of one head; from the model, else hidden / heads" },
  MODEL (FFN), .name = "ffn", COUNT (1, 1e8),
    .help = "inner width of the feed-forward part, of one expert in a moe; from the model, else 4 hidden" },
  MODEL (ACTIVATION), .name = "activation", ONE_OF ("gelu swiglu relu gated-gelu"),
    .help = "activation function; from the model or its family unless written" },
  MODEL (NORM), .name = "norm", ONE_OF ("layernorm rmsnorm"),
    .help = "normalisation; from the model or its family unless written" },
  MODEL (VOCAB), .name = "vocab", COUNT (1, 1e9),
    .help = "rows of the embedding as allocated; from the model unless written" },
  MODEL (TIED), .name = "tied", YES_NO,
    .help = "do input and output embedding share storage; from the model unless written" },
  MODEL (EXPERTS), .name = "experts", COUNT (1, 100000),
    .help = "experts per layer; from the model unless written" },
  MODEL (EXPERTS_PER_TOKEN), .name = "experts_per_token", COUNT (1, 100000),
    .help = "experts that see a token; from the model unless written" },
  MODEL (SHARED_FFN), .name = "shared_ffn", COUNT (0, 1e8),
    .help = "moe: inner width of the experts that see every token, all together; from the model, else 0" },
  MODEL (DENSE_LAYERS), .name = "dense_layers", COUNT (0, 100000),
    .help = "moe: first layers with one feed-forward part in place of experts; from the model, else 0" },
  MODEL (DENSE_FFN), .name = "dense_ffn", COUNT (1, 1e8),
    .help = "moe: inner width of those; from the model, else ffn" },
  MODEL (FROZEN), .name = "frozen", REAL (0, 1), .fallback = "0",
    .help = "share of the parameters that is not trained" },
  MODEL (LORA_RANK), .name = "lora_rank", COUNT (0, 1e6), .fallback = "0",
    .help = "rank of LoRA adapters; everything else is frozen then; 0: none" },
  MODEL (LORA_TARGETS), .name = "lora_targets", TEXT, .fallback = "q,v",
    .help = "products with an adapter: a list of q k v o gate up down, attention, mlp, all" },
  MODEL (LORA_BASE), .name = "lora_base", ONE_OF ("wide nf4 nf4-dq int8"), .fallback = "wide",
    .help = "format of the frozen products (QLoRA): the plan's precision, 4 bits, with scales in 8 bits, or 8 bits" },
  MODEL (PSI_P), .name = "psi_p", BYTES (0),
    .help = "uniform: bytes of one copy of the parameters; K GiB unless written" },
  MODEL (PSI_A), .name = "psi_a", BYTES (0),
    .help = "uniform: bytes of all activations of one micro-batch; K GiB unless written" },
  MODEL (PSI_INT), .name = "psi_int", BYTES (0), .fallback = "1 MiB",
    .help = "uniform: bytes of one boundary tensor of one micro-batch" },
  MODEL (FORWARD), .name = "forward", TIME (TICK_S), .fallback = "1 ms",
    .help = "uniform: forward time of one stage and micro-batch" },
  MODEL (BACKWARD), .name = "backward", TIME (TICK_S),
    .help = "uniform: backward time of one stage and micro-batch; 2 forward unless written" },
  MODEL (BACKWARD_WEIGHT), .name = "backward_weight", TIME (0),
    .help = "uniform: the part of backward that is the weight gradient; backward / 2 unless written" },

  MACHINE (MACHINE), .name = "machine", TEXT,
    .help = "the GPUs: a preset (list machines), a *.machine file or a profile *.json; ideal for the uniform model, else a100-sxm-80, unless written" },
  MACHINE (GPUS), .name = "gpus", OF_MANY, COUNT (1, MANY),
    .help = "number of GPUs; follows from the degrees unless written" },
  MACHINE (GPUS_PER_NODE), .name = "gpus_per_node", COUNT (1, MANY),
    .help = "GPUs that share the fast links; from the machine unless written" },
  MACHINE (CONTEXT), .name = "context", BYTES (1),
    .help = "memory of a GPU that its CUDA context takes, as nvidia-smi shows it before the first tensor; from the machine unless written" },
  MACHINE (NETWORK), .name = "network", TEXT,
    .help = "network between the nodes: a link of the machine file (efa is AWS's), its first unless written" },
  MACHINE (INTERNODE), .name = "internode", RATE,
    .help = "network rate of one GPU in one direction, its share of its node's; from the machine unless written" },
  MACHINE (DETAIL), .name = "detail", ONE_OF ("closed flow steps messages"), .fallback = "flow",
    .help = "how collectives are simulated: by formula, as one flow over shared links, as one for each step, or by messages" },
  MACHINE (GROUP_ORDER), .name = "group_order", TEXT, .fallback = "tp,cp,ep,dp,pp",
    .help = "how groups are placed on the machine, innermost first" },
  MACHINE (SLOW_RANK), .name = "slow_rank", OF_MANY, TEXT,
    .help = "slower GPUs, as a list of RANK:FACTOR: 3:1.5" },
  MACHINE (SLOW_LINK), .name = "slow_link", OF_MANY, TEXT,
    .help = "GPUs with a slower link, as a list of RANK:FACTOR: 3:2" },
  MACHINE (JITTER), .name = "jitter", OF_MANY, REAL (0, 1), .fallback = "0",
    .help = "random spread of kernel times, as a share of each" },
  MACHINE (SEED), .name = "seed", COUNT (0, EXACT), .fallback = "1",
    .help = "start of the random numbers of jitter and of delay random" },
  MACHINE (TRIALS), .name = "trials", COUNT (1, 100000), .fallback = "1",
    .help = "simulated steps with jitter, each with other random numbers" },
  MACHINE (COLLAPSE), .name = "collapse", YES_NO, .fallback = "yes",
    .help = "simulate equal ranks once; changes the speed, never the result" },
  MACHINE (JUMP), .name = "jump", YES_NO, .fallback = "yes",
    .help = "jump over periods that repeat; changes the speed, never the result" },

  PLAN (PLAN), .name = "plan", OF_MANY, TEXT,
    .help = "named strategy that presets the keys below (list plans)" },
  PLAN (DP), .name = "dp", OF_MANY, COUNT (1, MANY),
    .help = "data-parallel replicas; 1, or what the plan needs" },
  PLAN (TP), .name = "tp", OF_MANY, COUNT (1, MANY),
    .help = "tensor parallelism: GPUs that split every layer; 1, or what the plan needs" },
  PLAN (CP), .name = "cp", OF_MANY, COUNT (1, MANY),
    .help = "context parallelism: GPUs that split the sequence; 1 unless written" },
  PLAN (PP), .name = "pp", OF_MANY, COUNT (1, 100000),
    .help = "pipeline ranks; 1, or what the plan needs" },
  PLAN (VPP), .name = "vpp", OF_MANY, COUNT (1, 1000),
    .help = "model parts per pipeline rank; 1, or what the schedule needs" },
  PLAN (EP), .name = "ep", OF_MANY, COUNT (1, MANY),
    .help = "expert parallelism: GPUs that split the experts; 1 unless written" },
  PLAN (EXPERT_TP), .name = "expert_tp", OF_MANY, COUNT (1, MANY),
    .help = "GPUs that split each expert, a divisor of tp; if less than tp, ep may take GPUs of the tp group; tp unless written" },
  PLAN (WORKERS), .name = "workers", OF_MANY, COUNT (1, MANY),
    .help = "N, the data-parallel workers of plans that have N" },
  PLAN (STAGES), .name = "stages", OF_MANY, COUNT (1, 100000),
    .help = "K, the parts the model is cut into" },
  PLAN (SEQUENCE_PARALLEL), .name = "sequence_parallel", OF_MANY, YES_NO, .fallback = "no",
    .help = "split norms and dropout along the sequence over the tp group" },
  PLAN (ZERO), .name = "zero", OF_MANY, COUNT (0, 3),
    .help = "what data-parallel ranks share out: 1 optimizer, 2 + gradients, 3 + parameters; 0, or the plan's" },
  PLAN (SHARD_GROUP), .name = "shard_group", OF_MANY, COUNT (1, MANY),
    .help = "GPUs that share one sharded copy; dp unless written" },
  PLAN (SCHEDULE), .name = "schedule", OF_MANY, .kind = PSI_KEY_KIND_CHOICE_OR_PATH,
    .choices = "none naive gpipe breadth-first 1f1b interleaved zb-h1 zb-h2 zb-v v-half v-min dualpipe dualpipe-v cyclic pipedream pipedream-2bw auto",
    .help = "order of work, or a schedule file; the plan's, else none without a pipeline, 1f1b with one" },
  PLAN (IN_FLIGHT), .name = "in_flight", OF_MANY, COUNT (1, 1e6),
    .help = "schedule auto: memory limit, as the ranks of a 1f1b pipeline that needs it; pp unless written" },
  PLAN (VOCAB_PARALLEL), .name = "vocab_parallel", OF_MANY, ONE_OF ("no vocab-1 vocab-2 interlaced"), .fallback = "no",
    .help = "1f1b: embedding and head split over the pipeline's ranks: with two barriers, one, or none and in lockstep" },
  PLAN (UPDATE), .name = "update", OF_MANY, ONE_OF ("synchronous cyclic-v1 cyclic-v2 asynchronous"),
    .help = "update rule: which parameter version a worker uses (asynchronous: what is there when it begins); the plan's, else synchronous" },
  PLAN (DELAY), .name = "delay", OF_MANY, ONE_OF ("uniform random"), .fallback = "uniform",
    .help = "how workers of a cyclic plan are spread over the step; random: anywhere, by the seed" },
  PLAN (PLACEMENT), .name = "placement", OF_MANY, ONE_OF ("separate shared stage"),
    .help = "a GPU for each worker, GPUs shared by workers, or a GPU for each stage; the plan's, else separate" },
  PLAN (GRADIENTS), .name = "gradients", OF_MANY, ONE_OF ("all-reduce parameter-server"),
    .help = "how gradients are summed; the plan's, else all-reduce" },
  PLAN (PARTITION), .name = "partition", OF_MANY, .kind = PSI_KEY_KIND_CHOICE_OR_COUNTS, .minimum = 0, .maximum = 100000,
    .choices = "layers layers+2 flops",
    .help = "how the model is cut, or layers per part: 5,6,6,5; layers if it divides, else layers+2, else flops" },
  PLAN (MICRO_BATCH), .name = "micro_batch", COUNT (1, 1e7), .fallback = "1",
    .help = "samples of one micro-batch" },
  PLAN (GLOBAL_BATCH), .name = "global_batch", OF_MANY, COUNT (1, LOTS),
    .help = "samples of one step: micro_batch x micro_batches x dp" },
  PLAN (MICRO_BATCHES), .name = "micro_batches", OF_MANY, COUNT (1, 1e7),
    .help = "micro-batches of one replica and step; from global_batch, else 1, or K in named plans that need several" },
  PLAN (WORKER_BATCHES), .name = "worker_batches", OF_MANY, COUNTS (1, 1e7),
    .help = "uneven samples per worker: 6,2,2,2" },
  PLAN (RECOMPUTE), .name = "recompute", ONE_OF ("none selective full"), .fallback = "none",
    .help = "activations that are computed again in the backward pass instead of kept" },
  PLAN (RECOMPUTE_EVERY), .name = "recompute_every", COUNT (1, 100000), .fallback = "1",
    .help = "recompute every n-th layer only" },
  PLAN (ATTENTION), .name = "attention", ONE_OF ("flash flash-1 flash-2 flash-3 math"), .fallback = "flash",
    .help = "fused attention, of the framework's or a given generation, or one that keeps the scores" },
  PLAN (PRECISION), .name = "precision", ONE_OF ("bf16 fp16 fp32 tf32 fp8 mxfp8 nvfp4"), .fallback = "bf16",
    .help = "format of matrix products; tf32: fp32 data on matrix units" },
  PLAN (GRAD_DTYPE), .name = "grad_dtype", ONE_OF ("bf16 fp16 fp32"),
    .help = "format gradients are kept and summed in; the framework's unless written" },
  PLAN (OPTIMIZER), .name = "optimizer", ONE_OF ("none sgd momentum adam adam8bit"),
    .help = "none for the uniform model, else adam, unless written" },
  PLAN (GRAD_CLIP), .name = "grad_clip", YES_NO,
    .help = "clip by the global norm: one all-reduce over all ranks; no for the uniform model, else yes" },
  PLAN (OVERLAP_GRADS), .name = "overlap_grads", YES_NO,
    .help = "sum gradients while the backward pass still runs; the framework's unless written" },
  PLAN (BUCKET), .name = "bucket", BYTES (1),
    .help = "gradients that are summed in one message; the framework's unless written" },
  PLAN (PREFETCH), .name = "prefetch", COUNT (0, 100000), .fallback = "1",
    .help = "layers whose sharded parameters are gathered ahead" },
  PLAN (REDUCE_EVERY), .name = "reduce_every", OF_MANY, COUNT (1, 1e7),
    .help = "sum gradients after every n-th micro-batch; once per step unless written" },
  PLAN (COMPRESSION), .name = "compression", ONE_OF ("none fp16 bf16 fp8 int8"), .fallback = "none",
    .help = "format gradients are sent in, if not their own" },
  PLAN (OFFLOAD), .name = "offload", ONE_OF ("none optimizer activations parameters"), .fallback = "none",
    .help = "what is kept in the host's memory; parameters: with gradients and optimizer" },
  PLAN (OFFLOAD_LAYERS), .name = "offload_layers", COUNT (1, 100000),
    .help = "offload activations: of the first n layers of the model only; of all unless written" },
  PLAN (LOSS_CHUNKS), .name = "loss_chunks", COUNT (1, 1e6),
    .help = "pieces the logits and the loss are computed in; the framework's unless written" },
  PLAN (COMPILE), .name = "compile", YES_NO, .fallback = "no",
    .help = "fuse element-wise kernels as a compiler would" },
  PLAN (CUDA_GRAPHS), .name = "cuda_graphs", ONE_OF ("no yes step"), .fallback = "no",
    .help = "record kernels once and launch them together: yes, each layer's forward and backward by itself; step, all but the optimizer in one" },
  PLAN (CHANNELS_LAST), .name = "channels_last", YES_NO, .fallback = "yes",
    .help = "layout of the images that convolutions of a trace work on; no: channels first, as PyTorch has it unless told" },
  PLAN (EXPERT_GEMM), .name = "expert_gemm", ONE_OF ("streams loop grouped"),
    .help = "products of a GPU's experts: a kernel each over several streams, one expert after another, one kernel for all; the framework's unless written" },
  PLAN (EXPERT_IMBALANCE), .name = "expert_imbalance", OF_MANY, REAL (1, 1000), .fallback = "1",
    .help = "tokens that reach the fullest GPU of an expert group, over the mean; with ep > 1" },
  PLAN (DETERMINISTIC), .name = "deterministic", YES_NO, .fallback = "no",
    .help = "kernels that give the same sums every time; their products want larger workspaces" },
  PLAN (COLLECTIVE_CHECKS), .name = "collective_checks", OF_MANY, YES_NO,
    .help = "the host compares every collective with the other ranks first (TORCH_DISTRIBUTED_DEBUG=DETAIL); the framework's unless written" },
  PLAN (FUSED_LOSS), .name = "fused_loss", YES_NO, .fallback = "no",
    .help = "the loss in one kernel over the logits, without a copy of them in fp32 (megatron)" },
  PLAN (FRAMEWORK), .name = "framework", 
    ONE_OF ("pytorch megatron megatron-2021 megatron-2.1 megatron-core megatron-bridge megatron-deepspeed deepspeed-2021 bigscience megatron-eager megatron-eager-rms nanotron torchtitan torchtitan-2024 torchtitan-async-tp torchtune composer oneflow llm.c"),
    .fallback = "pytorch",
    .help = "whose defaults, buffers, kernels, host cost and allocator" },
};
/* clang-format on */

int
psi_key_find (const char *name)
{
  g_autofree char *wanted = g_strdelimit (g_strdup (name), "-", '_');

  for (int id = 0; id < PSI_N_KEYS; id++)
    if (strcmp (psi_keys[id].name, wanted) == 0)
      return id;
  return -1;
}
