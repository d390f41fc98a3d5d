/* SPDX-License-Identifier: MIT */
/* Sources, as read in code and manuals:
 *
 *   pytorch           FullyShardedDataParallel and DistributedDataParallel sum gradients while the backward runs;
 *                     scaled_dot_product_attention is FlashAttention-2 since 2.2
 *   torchtitan        the same, with fully_shard; norm and rotary embedding run as PyTorch operators unless compiled
 *   composer          llm-foundry 2023: attn_impl triton, FlashAttention of the first generation; low-precision norms
 *   megatron          Megatron-LM and Megatron Core: fused norm, rotary, gate; batch_isend_irecv is waited for between
 *                     two passes (p2p_communication.py); scatter_gather_tensors_in_pipeline; no gradient overlap unless
 *                     asked for
 *   megatron-2021     the same before LinearWithGradAccumulationAndAsyncAllreduce: sums of September 2021 beside
 *                     products, of February 2022 in them (83b1e42f30); shares of boundaries gathered into a list
 *   megatron-2.1      the same before April 2021 (50a4b5fa02): each tp rank sends the whole boundary tensor. DLPerf
 *                     reported in May what commit 8aa4619f of March does
 *   megatron-core     Megatron-Bridge, NeMo and releases from 2025: Transformer Engine's cuDNN attention (a class with
 *                     FlashAttention-3 on Hopper and later), sends beside compute (overlap_p2p_comm), gradients too;
 *                     boundaries travel whole unless the sequence is sharded
 *   megatron-deepspeed  Megatron-LM's kernels under DeepSpeed's engine; the tensors of its pipeline are partitioned
 *                     over tp (pipe_partitioned), see step-boundary.c. dist.send and dist.recv one after another, in
 *                     the order of TrainSchedule (runtime/pipe/schedule.py): RecvActivation, SendGrad, ForwardPass,
 *                     SendActivation, RecvGrad, BackwardPass. Host time: 2.13 of Megatron's 18 us a kernel on an
 *                     A100's host, see below
 *   deepspeed-2021    the same before its ZeRO-3 gathered several tensors in one (2022): twelve of Megatron-LM's layer,
 *                     see step-host.c. Measured runs that say "DeepSpeed ZeRO-3" and no year are taken for it
 *   bigscience        the fork bigscience-workshop/Megatron-DeepSpeed as BLOOM was trained: CUDA_LAUNCH_BLOCKING=1,
 *                     without which it hung from 320 GPUs on (tr11-176B-ml.slurm, chronicles-prequel.md;
 *                     80 GPUs took 6.8 % longer with it, by psisim 7.9 %)
 *   nanotron          fused norm and rotary kernels of flash-attn, gate as PyTorch operators; receives announce shape
 *                     and type first and are waited for. Its launchers for several nodes set
 *                     TORCH_DISTRIBUTED_DEBUG=DETAIL (examples/mamba/run_multinode.sh, slurm_launcher.py of 2025).
 *                     That those of its published sweep did so for tensor-parallel pipelines only is inferred, no code
 *                     says it: their steps take that long, those without a pipeline, or on one node, do not
 *   megatron-eager    Megatron's layout with PyTorch's own norm, rotary embedding and gate (Aleph-Alpha/scaling): gate
 *                     and up are two column-parallel modules, each of which sums its input's gradient over the
 *                     tensor-parallel group, unless the sequence is sharded (column_parallel_linear.py, mlp.py)
 *   megatron-eager-rms  the same with flash-attn's fused RMS norm
 *   megatron-bridge   megatron-core with tp_comm_overlap wherever tp > 1 (scripts/performance/utils/overrides.py):
 *                     Transformer Engine's user buffers move pieces by copy engines while products work on others;
 *                     its recipes switch that off for nvfp4
 *   torchtitan-async-tp  torchtitan with --experimental.enable_async_tensor_parallel: the same by PyTorch's symmetric
 *                     memory; needs compile
 *   oneflow           OneFlow-Benchmark's GPT of 2021 (oneflow_gpt/config.py, training.py): softmax with scale, mask
 *                     and dropout, bias with gelu, bias with dropout and sums are fused, logits and embedding are split
 *                     as Megatron's; the graph is compiled once and kernels are launched by the C++ runtime (host time
 *                     as llm.c's)
 *
 * Experts: Transformer Engine's GroupedLinear (moe_grouped_gemm, which all recipes of Megatron-Bridge set) issues a
 * cuBLAS product for each expert, over four streams (nvte_multi_stream_cublas_gemm); torchtitan and torch.compile have
 * one kernel for all (torch._grouped_mm); models of transformers loop over the experts in Python.
 *
 * Gradients: Megatron's products add into the gradient (gradient_accumulation_fusion); under DeepSpeed, with nanotron's
 * and PyTorch's operators every weight gradient is written, read and added again. DeepSpeed's optimizer for bf16 copies
 * it to fp32 first (BF16_Optimizer.update_hp_grads: hp_grad.add_ (lp.grad.to (fp32))).
 *
 * Tensor parallelism: in the backward of a product split by columns Megatron starts the sum (with sequence parallelism
 * the scattered sum) of the input's gradient and makes the weight gradient meanwhile, and gathers the sharded input
 * again beside the input's gradient (LinearWithGradAccumulationAndAsyncCommunication, with
 * CUDA_DEVICE_MAX_CONNECTIONS = 1); the sum since September 2021, with sequence parallelism since 2022; forks of 2021
 * wait. nanotron does so in its mode REDUCE_SCATTER (_ColumnLinearAsyncCommunication). Eager layouts and DTensor wait
 * for each collective.
 *
 * DeepSpeed's pipeline engine hands the fp32 gradients of BF16_Optimizer to buffered_allreduce_fallback: with ZeRO-1
 * they are all-reduced, not scattered (_bf16_reduce_grads in runtime/pipe/engine.py).
 *
 * Host time under DeepSpeed: models of hidden 1024 take 3.05 to 3.1 ms for each further layer and micro-batch where
 * the GPU works 0.8 to 1.4 ms (table of vTrain, 24 minus 12 layers, one GPU): 84 kernels with recompute of 36 to 38 us
 * each. That table is computed from a profile of one layer; BLOOM's 80 GPUs that awaited each kernel say 33 us. Its
 * activation checkpointing saves and restores the state of the random numbers around every layer.
 *
 * Host time of nanotron: 4 of Megatron's 12 us, read off its published sweep alone: of models of 3 and 8 billion
 * parameters with tp 8 on H100s no step takes less than 4.4 to 4.5 ms for each layer and micro-batch: 79 kernels and 10
 * collectives of 48 and 60 us. What is gathered is multiplied in three parts: own rows while the gather runs, then
 * those before and those behind (_ColumnLinearAsyncCommunication, _RowLinearAsyncCommunication).
 *
 * Host time of Megatron Core with Transformer Engine: 7 of Megatron's 12 us (18 on an A100's host). Its functional
 * tests, 12 layers of hidden 512, take 4.1 ms (H100) to 7.5 ms (A100) for each layer and micro-batch on one GPU where
 * the GPU works 1 ms: 60 kernels of 70 to 120 us each; Llama 70B over 8 B200 at micro-batch 1, where SimuMax measured 8
 * to 14 % more than the GPUs need, gives the same 84 us. Each module of Transformer Engine is many lines of Python, and
 * the loss is looked at after each micro-batch (rerun_state_machine.py), so the host is not far ahead. Recipes of
 * Megatron-Bridge replay CUDA graphs instead. */
#include "framework.h"

#include <string.h>

#define FUSED PSI_KERNELS_FUSED
#define EAGER PSI_KERNELS_EAGER
#define KERNELS(of_norm, of_rotary, of_gate, of_scores)                                                                \
  .norm = of_norm, .rotary = of_rotary, .gate = of_gate, .scores = of_scores

/* How far hosts are from host_factor. Measured: where the host decides, four of five steps of the runs it was read off
 * take 0.93 to 1.12 of what is predicted. Checked: the same where hosts also compare collectives over TCP, on many
 * nodes. Varies: its runs disagree by as much. Assumed: no run says how far; CPUs differ by a third, and what
 * frameworks do between two kernels only adds. */
#define MEASURED .host_low = 0.93, .host_high = 1.12
#define CHECKED .host_low = 0.8, .host_high = 1.2
#define VARIES .host_low = 0.85, .host_high = 1.3
#define ASSUMED .host_low = 0.75, .host_high = 1.5
#define HOST(factor, how) .host_factor = factor, how

const PsiFramework psi_frameworks[] = {
  /* clang-format off */
  { .name = "bigscience", .words = "bigscience", .memory = "megatron-deepspeed",
    .summary = "BigScience's fork of Megatron-DeepSpeed as BLOOM was trained, kernel by kernel",
    .megatron = TRUE, KERNELS (FUSED, FUSED, FUSED, FUSED), HOST (2.13, MEASURED), .flash = 2, .blocking_sends = TRUE,
    .serial_messages = TRUE, .scattered_boundaries = TRUE, .gather_copies = 5, .gathers_outputs = TRUE,
    .copied_sums = TRUE, .whole_sums = TRUE, .awaits_kernels = TRUE },
  { .name = "deepspeed-2021", .words = "DeepSpeed ZeRO-3", .memory = "megatron-deepspeed",
    .summary = "DeepSpeed of 2021, whose ZeRO-3 gathers and scatters tensor by tensor",
    .megatron = TRUE, KERNELS (FUSED, FUSED, FUSED, FUSED), HOST (2.13, MEASURED), .flash = 2, .blocking_sends = TRUE,
    .serial_messages = TRUE, .scattered_boundaries = TRUE, .gather_copies = 5, .gathers_outputs = TRUE,
    .whole_sums = TRUE, .listed_tensors = 12 },
  { .name = "megatron-deepspeed", .words = "Megatron-DeepSpeed|DeepSpeed",
    .summary = "Megatron-LM's model under DeepSpeed's engine",
    .megatron = TRUE, KERNELS (FUSED, FUSED, FUSED, FUSED), HOST (2.13, MEASURED), .flash = 2, .blocking_sends = TRUE,
    .serial_messages = TRUE, .scattered_boundaries = TRUE, .gather_copies = 5, .gathers_outputs = TRUE,
    .copied_sums = TRUE, .whole_sums = TRUE },
  { .name = "megatron-bridge", .words = "Megatron-Bridge",
    .summary = "Megatron-Bridge's performance recipes: Megatron Core, gradients summed in bf16",
    .megatron = TRUE, KERNELS (FUSED, FUSED, FUSED, FUSED), HOST (1, ASSUMED), .flash = 3,
    .overlap_grads = TRUE, .fused_sums = TRUE, .tensor_overlap = PSI_TENSOR_PIECES, .fits_by_recipe = TRUE },
  { .name = "megatron-core", .words = "NeMo|TE 2.|megatron-core",
    .summary = "Megatron Core with Transformer Engine, 2025: NeMo",
    .megatron = TRUE, KERNELS (FUSED, FUSED, FUSED, FUSED), HOST (7, VARIES), .flash = 3,
    .overlap_grads = TRUE, .fused_sums = TRUE, .tensor_overlap = PSI_TENSOR_OVERLAPS },
  { .name = "megatron-eager-rms", .words = "+ RMS kernel",
    .summary = "Megatron's layout, PyTorch's operators, fused RMS norm", .memory = "megatron-eager",
    .megatron = TRUE, KERNELS (FUSED, EAGER, EAGER, EAGER), HOST (1, ASSUMED), .flash = 2, .blocking_sends = TRUE,
    .scattered_boundaries = TRUE, .sums_each_product = TRUE },
  { .name = "megatron-eager", .words = "Aleph",
    .summary = "Megatron's layout, PyTorch's operators",
    .megatron = TRUE, KERNELS (EAGER, EAGER, EAGER, EAGER), HOST (1, ASSUMED), .flash = 2, .blocking_sends = TRUE,
    .scattered_boundaries = TRUE, .sums_each_product = TRUE },
  { .name = "nanotron", .words = "nanotron",
    .summary = "nanotron of Hugging Face",
    .megatron = TRUE, KERNELS (FUSED, FUSED, EAGER, FUSED), HOST (4, CHECKED), .flash = 2, .blocking_sends = TRUE,
    .tensors = 6, .matrices = 4, .cut_past_share = TRUE, .tensor_overlap = PSI_TENSOR_SHARDED,
    .parts_of_gathered = 3, .checks_over_nodes = TRUE },
  { .name = "megatron-2.1", .words = "Megatron-LM 2021-05", .memory = "megatron",
    .summary = "Megatron-LM until April 2021: boundary tensors travel whole",
    .megatron = TRUE, KERNELS (FUSED, FUSED, FUSED, FUSED), HOST (1, ASSUMED), .flash = 2, .blocking_sends = TRUE },
  { .name = "megatron-2021", .words = "Megatron-LM 2021", .memory = "megatron",
    .summary = "Megatron-LM before September 2021: no sum inside a product or beside one",
    .megatron = TRUE, KERNELS (FUSED, FUSED, FUSED, FUSED), HOST (1, ASSUMED), .flash = 2, .blocking_sends = TRUE,
    .scattered_boundaries = TRUE, .gather_copies = 2 },
  { .name = "megatron", .words = "Megatron|megatron",
    .summary = "Megatron-LM",
    .megatron = TRUE, KERNELS (FUSED, FUSED, FUSED, FUSED), HOST (1, ASSUMED), .flash = 2, .blocking_sends = TRUE,
    .scattered_boundaries = TRUE, .fused_sums = TRUE, .tensor_overlap = PSI_TENSOR_OVERLAPS },
  { .name = "torchtitan-async-tp", .words = "AsyncTP|async TP",
    .summary = "torchtitan with asynchronous tensor parallelism", .memory = "torchtitan-2024",
    KERNELS (EAGER, EAGER, EAGER, EAGER), HOST (1, ASSUMED), .flash = 2, .overlap_grads = TRUE,
    .tensor_overlap = PSI_TENSOR_PIECES, .expert_gemm = PSI_EXPERTS_GROUPED },
  { .name = "torchtitan-2024", .words = "at 9dec370|from train_configs",
    .summary = "torchtitan of December 2024, which never compiles the loss",
    KERNELS (EAGER, EAGER, EAGER, EAGER), HOST (1, ASSUMED), .flash = 2, .overlap_grads = TRUE,
    .expert_gemm = PSI_EXPERTS_GROUPED },
  { .name = "torchtitan", .words = "torchtitan",
    .summary = "torchtitan, FSDP2",
    KERNELS (EAGER, EAGER, EAGER, EAGER), HOST (1, ASSUMED), .flash = 2, .overlap_grads = TRUE,
    .expert_gemm = PSI_EXPERTS_GROUPED },
  { .name = "composer", .words = "Composer|foundry",
    .summary = "llm-foundry and Composer, 2023",
    KERNELS (EAGER, EAGER, EAGER, EAGER), HOST (1, ASSUMED), .flash = 1, .overlap_grads = TRUE,
    .expert_gemm = PSI_EXPERTS_LOOP },
  { .name = "torchtune", .words = "torchtune|HF",
    .summary = "torchtune and Hugging Face recipes that train in pure bf16",
    KERNELS (EAGER, EAGER, EAGER, EAGER), HOST (1, ASSUMED), .flash = 2, .overlap_grads = TRUE,
    .expert_gemm = PSI_EXPERTS_LOOP },
  { .name = "oneflow", .words = "OneFlow",
    .summary = "OneFlow's GPT of 2021, a static graph",
    .megatron = TRUE, KERNELS (FUSED, FUSED, FUSED, FUSED), HOST (0.2, ASSUMED), .flash = 2,
    .scattered_boundaries = TRUE, .overlap_grads = TRUE },
  { .name = "llm.c", .words = "llm.c",
    .summary = "llm.c, hand-written CUDA",
    KERNELS (FUSED, FUSED, FUSED, FUSED), HOST (0.2, ASSUMED), .flash = 3 },
  { .name = "pytorch", .words = "FSDP|PyTorch",
    .summary = "PyTorch's own modules",
    KERNELS (EAGER, EAGER, EAGER, EAGER), HOST (1, ASSUMED), .flash = 2, .overlap_grads = TRUE,
    .expert_gemm = PSI_EXPERTS_LOOP },
  { NULL }
  /* clang-format on */
};

const PsiFramework *
psi_framework_find (const char *name)
{
  for (guint i = 0; psi_frameworks[i].name != NULL; i++)
    if (strcmp (psi_frameworks[i].name, name) == 0)
      return &psi_frameworks[i];
  return NULL;
}

const PsiFramework *
psi_framework_guess (const char *text)
{
  for (guint i = 0; psi_frameworks[i].name != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (psi_frameworks[i].words, "|", -1);

      for (guint w = 0; words[w] != NULL; w++)
        if (strstr (text, words[w]) != NULL)
          return &psi_frameworks[i];
    }
  return NULL;
}
