/* SPDX-License-Identifier: MIT */
/* A machine: one kind of GPU, its host, and the links between GPUs. Read from a *.machine key file:
 *
 *   [gpu] [host] [node]  what the struct below says, one key for each field
 *   [link NAME]          one inside the node (kind nvlink, pcie or memory), one or more between nodes (kind network):
 *                        the first is there unless another is chosen
 *
 * and a `source` in each group that says where its figures come from. Sizes take KiB MiB GiB TiB kB MB GB TB, times ns
 * us ms s, bandwidths GB/s Gb/s (and M, T), rates GFLOP/s TFLOP/s PFLOP/s; a bare number is in base units. `#` begins a
 * comment on its own line or after a space. psi_machine_keys() lists all keys. */
#pragma once

#include "kernel.h"

#include <glib.h>

typedef enum
{
  PSI_LINK_NVLINK, /* switched: every GPU reaches every other of its node at the full rate */
  PSI_LINK_PCIE,   /* through host bridges, no switch of its own */
  PSI_LINK_MEMORY, /* processes of one host that copy through shared memory */
  PSI_LINK_NETWORK
} PsiLinkKind;

/* Generation of the GPU: NCCL's tables and the matrix units differ by it. */
typedef enum
{
  PSI_ARCHITECTURE_CPU,
  PSI_ARCHITECTURE_VOLTA,
  PSI_ARCHITECTURE_AMPERE,
  PSI_ARCHITECTURE_ADA,
  PSI_ARCHITECTURE_HOPPER,
  PSI_ARCHITECTURE_BLACKWELL,
  PSI_N_ARCHITECTURES
} PsiArchitecture;

typedef struct
{
  char *name; /* "nvlink4", "ndr400" */
  PsiLinkKind kind;
  double bytes_per_s;      /* one GPU (network: one adapter), one direction, what the wire can carry;
                            * INFINITY on an ideal machine */
  double efficiency;       /* share of it that large collectives reach */
  gint64 latency_ps;       /* of one hop, added to what the library's own hop takes (NCCL's constants) */
  gint64 ramp_ps;          /* slow approach to the full rate: a wire time x becomes x + 2 sqrt (ramp x) */
  guint mesh_links;        /* nvlink without a switch: links of one GPU, wired to single peers; 0 = switched */
  guint nics_per_node;     /* network: adapters that share a node's traffic; 0 = one for each GPU */
  double oversubscription; /* network: 1 = none; of a leaf switch's links upwards if leaf_nodes > 0, else of each
                            * adapter */

  /* Links that GPUs share, see topology.h; 0 = no such level. */
  guint switch_gpus;         /* inside the node: GPUs below one PCIe switch ... */
  double uplink_bytes_per_s; /* ... and its link upwards, one direction; 0 = as fast as a GPU's */
  guint leaf_nodes;          /* network: nodes below one leaf switch (with rails: below one set of them) */
  gboolean simple_only;      /* network: its plug-in leaves NCCL the protocol Simple only, inside nodes too */
  gboolean rails;            /* network: adapter i of every node goes to leaf switch i */
  guint pod_nodes;           /* network: nodes below one spine, if there are three tiers */
  double pod_oversubscription;
  char *source;
} PsiLink;

struct _PsiProfile; /* profile.h */

typedef struct
{
  char *name; /* "NVIDIA A100-SXM4-80GB" */
  PsiArchitecture architecture;
  gint64 memory_bytes;             /* what a program can use of it; -1 = without end */
  double peak_flops[PSI_N_DTYPES]; /* dense, datasheet, FLOP/s; 0 = not supported, see psi_gpu_dtype() */
  double memory_bytes_per_s;       /* datasheet; INFINITY = memory takes no time */
  double memory_efficiency;        /* share that streaming kernels reach */
  guint sms;
  gint64 launch_ps;         /* GPU side: gap between two kernels of a stream */
  gint64 minimum_kernel_ps; /* what the shortest kernel takes, part of every kernel */

  /* Matrix products: see gpu-time.c. */
  double gemm_efficiency;      /* share of peak that large 16-bit products sustain in training (power limit) */
  double gemm_efficiency_fp32; /* the same for fp32, without matrix units */
  double gemm_efficiency_fp8;  /* the same for fp8, mxfp8 and nvfp4 */
  gint64 gemm_ramp_k;          /* elements of K that a tile loses to prologue and epilogue */
  guint gemm_tile;             /* longer side of the largest output tile; 0 = no tiles, any shape is as good */
  double gemm_tile_square;     /* rate of (tile/2)^2 tiles relative to the largest */
  double gemm_tile_small;      /* rate of tile/2 x tile/4 tiles relative to the largest */
  double gemm_tail;            /* share of the idle SMs of the last wave that is really lost, 0 to 1 */
  double gemm_exposed_sum;     /* share of the time to read and write a result that is added to which nothing hides */
  double gemm_unaligned;       /* batched products with N or K not a multiple of 8: share of the fp32 rate */

  double training_clock; /* clock in a training step, at the power limit, relative to that of the kernels above when
                          * they were measured one by one; a matrix kernel in a step takes its time divided by this */

  /* Fused attention, causal FLOPs counted as half, head dimension 128. */
  double attention_efficiency_forward, attention_efficiency_backward; /* share of peak of long sequences */
  guint attention_ramp_forward, attention_ramp_backward;   /* sequence length at which half of it is reached */
  guint attention_block_forward, attention_block_backward; /* rows of a thread block */
  double attention_tail_forward, attention_tail_backward;  /* waves lost to uneven blocks */

  gint64 context_bytes; /* CUDA context and libraries, outside the framework's allocator */
  char *source;

  const struct _PsiProfile *profile; /* measured products and copies go before all this; NULL = none; the machine's */
} PsiGpu;

typedef struct
{
  gint64 issue_ps_pytorch, issue_ps_megatron; /* CPU time to issue one kernel */
  gint64 memory_bytes;                        /* of the whole node */
  double bytes_per_s;                         /* between one GPU and host memory, one direction */
  char *source;
} PsiHost;

typedef struct
{
  char *name;                 /* "a100-sxm-80": the preset or file stem */
  char *description;          /* one line */
  char *kind;                 /* measured | published | datasheet */
  double band_low, band_high; /* of steps that are nearly all kernels four of five take between these times the
                               * predicted time; 0: unknown */
  gboolean ideal;             /* links take no time, memory without end */
  PsiGpu gpu;
  PsiHost host;
  guint gpus_per_node;
  char *node_source;
  PsiLink intra;    /* inside a node */
  PsiLink inter;    /* between nodes */
  GArray *networks; /* of PsiLink: others there could be between nodes; NULL = none */

  struct _PsiProfile *profile; /* measured curves, NULL = none */
  char *profile_file;          /* [gpu] profile, as written, or NULL */
} PsiMachine;

/* Load a preset or alias by name ("a100"), or a file by path: a machine file (*.machine by custom), or a profile
 * (*.json) over the preset of its GPU. [gpu] profile of a machine file is relative to that file. A preset goes before a
 * file of the same name in the current directory; write ./NAME for the file. Presets are looked up by psi_data_find().
 * Unknown names are errors with a "did you mean". Returns (transfer full). */
PsiMachine *psi_machine_load (const char *name_or_path, GError **error);
void psi_machine_free (PsiMachine *machine);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiMachine, psi_machine_free)

/* What the user's scenario changes: GPUs of a node (0 = as it is) and what one GPU can send to other nodes, bytes/s and
 * direction (0 = as it is; then every GPU has an adapter of that rate, without oversubscription). */
void psi_machine_override (PsiMachine *machine, guint gpus_per_node, double internode_bytes_per_s);

/* Let the network of that name be between the nodes. FALSE, with the names there are, if the machine has none such. */
gboolean psi_machine_choose_network (PsiMachine *machine, const char *name, GError **error);

/* Make the links inside a node, and those between nodes, that many times as fast; latencies stay. */
void psi_machine_scale_links (PsiMachine *machine, double inside, double between);

/* One line of `psisim list machines`. */
typedef struct
{
  char *name;    /* "a100" */
  char *summary; /* "NVIDIA A100-SXM4-80GB, 79.2 GiB, ...; hdr200 200 Gb/s, or efa" or "= a100-sxm-80" */
} PsiMachineEntry;

/* All presets by name, then the aliases. A preset that cannot be read has the error as its summary.
 * Returns (transfer full) an array of PsiMachineEntry that frees its elements. */
GPtrArray *psi_machine_list (void);

#define PSI_MACHINE_ERROR (psi_machine_error_quark ())
typedef enum
{
  PSI_MACHINE_ERROR_UNKNOWN, /* no preset of that name, no such file */
  PSI_MACHINE_ERROR_SYNTAX,  /* not a machine file */
  PSI_MACHINE_ERROR_VALUE    /* a key missing, unknown or out of range */
} PsiMachineError;
GQuark psi_machine_error_quark (void);

/* Time of one kernel (all its launches) on the GPU, in seconds; gpu-time.c has the equations. The host's issue time is
 * not in it. Never negative, 0 only for an empty kernel or on a GPU that takes no time. More batch, m, n, k, bytes or
 * flops never take less time (as long as a product stays aligned or unaligned). */
double psi_gpu_kernel_s (const PsiGpu *gpu, const PsiKernel *kernel);

/* The type a GPU computes with when asked for `dtype`: itself, or the next wider one it has units for. */
PsiDtype psi_gpu_dtype (const PsiGpu *gpu, PsiDtype dtype);
