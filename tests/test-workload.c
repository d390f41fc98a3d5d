/* SPDX-License-Identifier: MIT */
#include "workload-fixture.h"

#include <glib/gstdio.h>

static const PsiLayerKind *
layer_kind (const PsiModel *model, guint layer)
{
  return psi_model_kind (model, g_array_index (model->layers, PsiLayer, layer).kind);
}

static void
assert_fails (PsiSettings *settings, const PsiLowering *lowering, const char *pattern)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiModelSource) source = psi_model_source_load (settings, &error);

  if (source != NULL)
    {
      g_autoptr (PsiModel) model = psi_model_source_expand (source, settings, lowering, 4, &error);

      g_assert_null (model);
    }
  g_assert_nonnull (error);
  if (!g_pattern_match_simple (pattern, error->message))
    g_error ("'%s' does not match '%s'", error->message, pattern);
}

/* Published counts: model cards and configuration files. */
static const struct
{
  const char *name;
  gint64 parameters;
} published[] = {
  { "gpt2", 124439808 },          { "gpt2-xl", 1557611200 },       { "gpt3-175b", 174604259328 },
  { "llama-2-7b", 6738415616 },   { "llama-2-13b", 13015864320 },  { "llama-2-70b", 68976648192 },
  { "llama-3-8b", 8030261248 },   { "llama-3-70b", 70553706496 },  { "llama-3-405b", 405853388800 },
  { "mistral-7b", 7241732096 },   { "mixtral-8x7b", 46702792704 }, { "qwen2.5-7b", 7615616512 },
  { "qwen2.5-72b", 72706203648 }, { "deepseek-v3", 671026419200 }, { "bert-large", 335141888 },
  { "vit-b16", 86567656 },        { "t5-11b", 11307321344 },       { "resnet-50", 25557032 },
};

static void
test_parameters (void)
{
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (published); i++)
    {
      g_autoptr (PsiSettings) settings = SETTINGS ("model", published[i].name);
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiModelSource) source = psi_model_source_load (settings, &error);
      g_autoptr (PsiModel) model = NULL;
      gint64 sum = 0;

      g_assert_no_error (error);
      g_test_message ("%s: %" G_GINT64_FORMAT, published[i].name, source->parameters);
      g_assert_cmpint (source->parameters, ==, published[i].parameters);
      g_assert_cmpstr (source->name, ==, published[i].name);
      model = psi_model_source_expand (source, settings, &plain, 4, &error);
      g_assert_no_error (error);
      g_assert_cmpint (model->parameters, ==, published[i].parameters);
      for (guint k = 0; k < model->layers->len; k++)
        sum += layer_kind (model, k)->parameters;
      g_assert_cmpint (sum, ==, published[i].parameters);
      g_assert_cmpint (model->n_blocks, ==, psi_model_source_blocks (source));
    }
  while (psi_model_presets[n].name != NULL)
    n++;
  g_assert_cmpint (n, ==, G_N_ELEMENTS (published));
}

/* Korthikanti et al., arXiv 2205.05198, equations 1, 2, 4, 6 and the last row of table 2, on their 22B model. */
static void
test_korthikanti (void)
{
  const gint64 s = 2048, b = 4, h = 6144, a = 64, t = 8;
  g_autoptr (PsiSettings) settings =
      SETTINGS ("model", "custom", "layers", "48", "hidden", "6144", "heads", "64", "sequence", "2048");
  PsiLowering lowering = plain;
  g_autoptr (PsiModel) serial = NULL, tensor = NULL, sequence = NULL, fused = NULL, dry = NULL;
  const PsiLayerKind *block;

  lowering.micro_batch = b;
  lowering.dtype = PSI_DTYPE_FP16;
  lowering.flash = FALSE;
  lowering.megatron = lowering.dropout = TRUE;
  serial = expand (settings, &lowering, 1);
  block = find_kind (serial, "block");
  g_assert_cmpint (block->saved_bytes, ==, s * b * (34 * h + 5 * a * s));
  g_assert_cmpint (block->input_bytes, ==, 2 * s * b * h);
  g_assert_cmpint (block->selective_saved_bytes, ==, 34 * s * b * h);
  g_assert_cmpint (block->weight_saved_bytes, ==, 32 * s * b * h); /* zero bubble: M_W = 32 s b h */
  g_assert_cmpuint (block->selective_n, ==, 3);

  lowering.tp = (guint) t;
  tensor = expand (settings, &lowering, 1);
  block = find_kind (tensor, "block");
  g_assert_cmpint (block->saved_bytes, ==, s * b * (10 * h + 24 * h / t + 5 * a * s / t));
  g_assert_cmpint (block->input_bytes, ==, 2 * s * b * h);

  lowering.sequence_parallel = TRUE;
  sequence = expand (settings, &lowering, 1);
  block = find_kind (sequence, "block");
  g_assert_cmpint (block->saved_bytes, ==, s * b * (34 * h + 5 * a * s) / t);
  g_assert_cmpint (block->selective_saved_bytes, ==, 34 * s * b * h / t);

  lowering.flash = TRUE;
  fused = expand (settings, &lowering, 1);
  block = find_kind (fused, "block");
  g_assert_cmpint (block->saved_bytes, ==, s * b * (34 * h + 4 * a) / t);
  g_assert_cmpint (block->selective_saved_bytes, ==, 34 * s * b * h / t);

  lowering.dropout = lowering.flash = FALSE;
  dry = expand (settings, &lowering, 1);
  g_assert_cmpint (find_kind (dry, "block")->saved_bytes, ==, s * b * (32 * h + 2 * a * s) / t);
}

/* Tensors kept by a Llama layer: Megatron, eager PyTorch. */
static void
test_llama_saved (void)
{
  const gint64 tokens = 4096, h = 8192, q = 8192, k = 1024, f = 28672, a = 64;
  g_autoptr (PsiSettings) settings = SETTINGS ("model", "llama-2-70b");
  PsiLowering lowering = plain;
  g_autoptr (PsiModel) eager = NULL, megatron = NULL;
  const PsiLayerKind *head, *block;
  gint64 v = 32000;
  double flops = 0.0;

  eager = expand (settings, &lowering, 1);
  g_assert_cmpint (find_kind (eager, "block")->saved_bytes, ==,
                   tokens * (4 * h + 16 * h + 6 * q + 2 * q + 8 * f + 4 * a));
  /* PyTorch's selective recompute: input, queries, values, gate, last product, attention output and its statistics. */
  block = find_kind (eager, "block");
  g_assert_cmpint (block->selective_saved_bytes, ==, tokens * (4 * h + 4 * q + 2 * k + 2 * f + 4 * a));
  for (guint i = 0; i < block->selective_n; i++)
    flops += g_array_index (block->kernels, PsiKernel, block->selective_first + i).flops;
  g_assert_cmpfloat (flops, ==, 2.0 * (double) (tokens * (h * k + q * h + h * f)));
  g_assert_cmpint (find_kind (eager, "head")->selective_saved_bytes, ==, find_kind (eager, "head")->saved_bytes);
  lowering.megatron = TRUE;
  megatron = expand (settings, &lowering, 1);
  g_assert_cmpint (find_kind (megatron, "block")->saved_bytes, ==,
                   tokens * (8 * h + 2 * (q + 2 * k) + 2 * q + 6 * f + 4 * a));
  /* Peak of the loss: 6 bytes per logit and the norm's input and output. */
  head = find_kind (megatron, "head");
  g_assert_cmpint (head->saved_bytes, ==, tokens * (4 * h + 6 * v));
  g_assert_cmpint (head->backward_workspace_bytes, ==, MAX (2 * tokens * v + 2 * v * h - 6 * tokens * v, 0));
}

static guint
count_comms (const PsiLayerKind *kind, PsiPass pass, PsiCommOp comm, gint64 bytes)
{
  guint n = 0;

  for (guint i = 0; i < kind->segments[pass]->len; i++)
    {
      const PsiSegment *segment = &g_array_index (kind->segments[pass], PsiSegment, i);

      if (segment->comm == comm && segment->comm_bytes == bytes)
        n++;
    }
  return n;
}

static void
test_tensor_parallel (void)
{
  g_autoptr (PsiSettings) settings = SETTINGS ("model", "llama-3-8b");
  PsiLowering lowering = plain;
  g_autoptr (PsiModel) whole = NULL, split = NULL, sequence = NULL;
  const PsiLayerKind *one, *four, *sharded;
  gint64 bytes = (gint64) 8192 * 4096 * 2;
  double flops[2] = { 0 };

  lowering.megatron = TRUE;
  whole = expand (settings, &lowering, 1);
  lowering.tp = 4;
  split = expand (settings, &lowering, 1);
  lowering.sequence_parallel = TRUE;
  sequence = expand (settings, &lowering, 1);
  one = find_kind (whole, "block");
  four = find_kind (split, "block");
  sharded = find_kind (sequence, "block");
  g_assert_cmpint (one->segments[PSI_PASS_FORWARD]->len, ==, 1);
  g_assert_cmpuint (count_comms (four, PSI_PASS_FORWARD, PSI_COMM_ALL_REDUCE, bytes), ==, 2);
  g_assert_cmpuint (count_comms (four, PSI_PASS_BACKWARD_INPUT, PSI_COMM_ALL_REDUCE, bytes), ==, 2);
  g_assert_cmpuint (count_comms (sharded, PSI_PASS_FORWARD, PSI_COMM_ALL_GATHER, bytes), ==, 2);
  g_assert_cmpuint (count_comms (sharded, PSI_PASS_FORWARD, PSI_COMM_REDUCE_SCATTER, bytes), ==, 2);
  g_assert_cmpuint (count_comms (sharded, PSI_PASS_BACKWARD_INPUT, PSI_COMM_ALL_GATHER, bytes), ==, 2);
  g_assert_cmpuint (count_comms (sharded, PSI_PASS_BACKWARD_INPUT, PSI_COMM_REDUCE_SCATTER, bytes), ==, 2);
  /* Norms stay whole, matrices are divided. */
  g_assert_cmpint (four->parameters, ==, (one->parameters - 2 * 4096) / 4 + 2 * 4096);
  g_assert_cmpfloat (four->model_flops, ==, one->model_flops);
  for (guint i = 0; i < one->kernels->len; i++)
    flops[0] += g_array_index (one->kernels, PsiKernel, i).flops;
  for (guint i = 0; i < four->kernels->len; i++)
    flops[1] += g_array_index (four->kernels, PsiKernel, i).flops;
  g_assert_cmpfloat_with_epsilon (flops[0], 4 * flops[1], 1e-6 * flops[0]);
  /* Vocabulary padded to 128 tp. */
  g_assert_cmpint (find_kind (split, "embedding")->parameters, ==, (gint64) 128512 / 4 * 4096);
}

/* Modules of their own for gate and up sum their input's gradient one by one, unless the sequence is sharded; a loss
 * over the whole vocabulary gathers the logits. */
static void
test_eager_tensor_parallel (void)
{
  g_autoptr (PsiSettings) settings = SETTINGS ("model", "llama-3-8b");
  PsiLowering lowering = plain;
  gint64 bytes = (gint64) 8192 * 4096 * 2, logits_bytes = (gint64) 8192 * 128512 * 2;

  lowering.megatron = TRUE;
  lowering.tp = 4;
  lowering.framework = psi_framework_find ("megatron-eager");
  lowering.memory = psi_framework_memory (lowering.framework);
  for (guint sharded = 0; sharded < 2; sharded++)
    {
      lowering.sequence_parallel = sharded;
      g_autoptr (PsiModel) model = expand (settings, &lowering, 1);
      const PsiLayerKind *block = find_kind (model, "block"), *head = find_kind (model, "head");

      g_assert_cmpuint (count_comms (block, PSI_PASS_FORWARD, PSI_COMM_ALL_REDUCE, bytes), ==, sharded ? 0 : 2);
      g_assert_cmpuint (count_comms (block, PSI_PASS_BACKWARD_INPUT, PSI_COMM_ALL_REDUCE, bytes), ==, sharded ? 0 : 3);
      g_assert_cmpuint (count_comms (block, PSI_PASS_BACKWARD_INPUT, PSI_COMM_REDUCE_SCATTER, bytes), ==,
                        sharded ? 2 : 0);
      g_assert_cmpuint (count_comms (head, PSI_PASS_FORWARD, PSI_COMM_ALL_GATHER, logits_bytes), ==, 1);
    }
}

/* Forward 2 N T + attention 4 s h per token and layer; backward twice that. */
static void
test_flops (void)
{
  g_autoptr (PsiSettings) settings = SETTINGS ("model", "gpt3-175b");
  PsiLowering lowering = plain;
  g_autoptr (PsiModel) model = NULL;
  const double s = 2048, h = 12288, layers = 96, v = 50257;
  double expected = layers * (24 * s * h * h + 4 * s * s * h) + 2 * s * h * v;
  double forward = 0, backward = 0;

  lowering.micro_batch = 2;
  lowering.flash = FALSE;
  model = expand (settings, &lowering, 1);
  g_assert_cmpfloat_with_epsilon (model->model_flops_per_sample, expected, 1e-9 * expected);
  for (guint i = 0; i < model->layers->len; i++)
    {
      const PsiLayerKind *kind = layer_kind (model, i);

      for (guint pass = 0; pass < PSI_N_PASSES; pass++)
        for (guint k = 0; k < kind->segments[pass]->len; k++)
          {
            const PsiSegment *segment = &g_array_index (kind->segments[pass], PsiSegment, k);

            for (guint j = 0; j < segment->n_kernels; j++)
              {
                double flops = g_array_index (kind->kernels, PsiKernel, segment->first_kernel + j).flops;

                if (pass == PSI_PASS_FORWARD)
                  forward += flops;
                else
                  backward += flops;
              }
          }
    }
  g_assert_cmpfloat_with_epsilon (forward, 2 * expected, 1e-9 * expected);
  g_assert_cmpfloat_with_epsilon (backward, 2 * forward, 1e-9 * forward);
}

static void
test_moe (void)
{
  g_autoptr (PsiSettings) settings = SETTINGS ("model", "mixtral-8x7b", "sequence", "4096");
  PsiLowering lowering = plain;
  g_autoptr (PsiModel) model = NULL;
  const PsiLayerKind *block;
  gint64 experts = (gint64) 8 * 3 * 4096 * 14336, routed = (gint64) 4096 * 2 * 4096 * 2;

  lowering.megatron = TRUE;
  lowering.ep = 4;
  model = expand (settings, &lowering, 1);
  block = find_kind (model, "block");
  g_assert_cmpint (block->expert_parameters, ==, experts / 4);
  g_assert_cmpuint (count_comms (block, PSI_PASS_FORWARD, PSI_COMM_ALL_TO_ALL, routed), ==, 2);
  g_assert_cmpuint (count_comms (block, PSI_PASS_BACKWARD_INPUT, PSI_COMM_ALL_TO_ALL, routed), ==, 2);
  /* 12.88B active parameters: 2 per token and parameter, embedding look-up left out, attention scores added. */
  g_assert_cmpfloat_with_epsilon (model->model_flops_per_sample / 4096 / 2, 12.879e9 - 0.131e9 + 32.0 * 2 * 4096 * 4096,
                                  0.01e9);
}

/* h = 64, 4 experts of 128, 4 layers of which the first has a feed-forward part of 256; 96 for every token. */
static void
test_moe_shape (void)
{
  g_autoptr (PsiSettings) settings =
      SETTINGS ("model", "custom", "family", "moe", "layers", "4", "hidden", "64", "heads", "4", "ffn", "128", "vocab",
                "1024", "experts", "4", "sequence", "32", "dense_layers", "1", "dense_ffn", "256", "shared_ffn", "96");
  g_autoptr (PsiSettings) bare = SETTINGS ("model", "custom", "family", "moe", "layers", "4", "hidden", "64", "heads",
                                           "4", "ffn", "128", "vocab", "1024", "experts", "4", "sequence", "32");
  g_autoptr (PsiModel) model = expand (settings, &plain, 1);
  g_autoptr (PsiModel) other = expand (bare, &plain, 1);
  const PsiLayerKind *block = find_kind (model, "block"), *dense = find_kind (model, "dense_block");

  g_assert_cmpint (block->parameters - find_kind (other, "block")->parameters, ==, 3 * 64 * 96);
  g_assert_cmpint (block->expert_parameters, ==, 4 * 3 * 64 * 128);
  g_assert_cmpint (block->parameters - dense->parameters, ==, 3 * 64 * (4 * 128 + 96 - 256) + 64 * 4 /* router */);
  g_assert_cmpint (model->parameters - other->parameters, ==,
                   3 * (3 * 64 * 96) + (dense->parameters - find_kind (other, "block")->parameters));
}

static void
test_context_parallel (void)
{
  g_autoptr (PsiSettings) settings = SETTINGS ("model", "llama-3-8b");
  PsiLowering lowering = plain;
  g_autoptr (PsiModel) whole = NULL, split = NULL;
  const PsiLayerKind *one, *two;

  lowering.megatron = TRUE;
  whole = expand (settings, &lowering, 1);
  lowering.cp = 2;
  split = expand (settings, &lowering, 1);
  one = find_kind (whole, "block");
  two = find_kind (split, "block");
  g_assert_cmpint (two->saved_bytes, ==, one->saved_bytes / 2);
  g_assert_cmpint (two->parameters, ==, one->parameters);
  g_assert_cmpfloat (two->model_flops, ==, one->model_flops);
  g_assert_cmpuint (count_comms (two, PSI_PASS_FORWARD, PSI_COMM_ALL_GATHER, (gint64) 8192 * 2 * 1024 * 2), ==, 1);
}

static void
test_uniform (void)
{
  g_autoptr (PsiSettings) settings =
      SETTINGS ("model", "uniform", "psi_p", "1000", "psi_a", "1001", "psi_int", "7", "forward", "3 ms");
  g_autoptr (PsiSettings) bare = SETTINGS ("model", "uniform");
  PsiLowering lowering = plain;
  g_autoptr (PsiModel) model = expand (settings, &plain, 3);
  g_autoptr (PsiModel) split = NULL, defaults = NULL;
  const PsiLayerKind *stage;
  gint64 parameter_bytes = 0, saved_bytes = 0, parameters = 0;

  g_assert_cmpuint (model->layers->len, ==, 3);
  g_assert_true (model->is_uniform);
  for (guint i = 0; i < 3; i++)
    {
      stage = layer_kind (model, i);
      parameter_bytes += stage->parameter_bytes;
      parameters += stage->parameters;
      saved_bytes += stage->saved_bytes;
      g_assert_cmpint (stage->output_bytes, ==, 7);
    }
  g_assert_cmpint (parameter_bytes, ==, 1000);
  g_assert_cmpint (parameters, ==, 500);
  g_assert_cmpint (saved_bytes, ==, 1001);
  stage = layer_kind (model, 0);
  for (guint pass = 0; pass < PSI_N_PASSES; pass++)
    {
      const PsiSegment *segment = &g_array_index (stage->segments[pass], PsiSegment, 0);

      g_assert_cmpuint (stage->segments[pass]->len, ==, 1);
      g_assert_cmpint (g_array_index (stage->kernels, PsiKernel, segment->first_kernel).time_ps, ==, 3000000000);
      g_assert_cmpint (segment->comm, ==, PSI_COMM_NONE);
    }

  lowering.tp = 2;
  split = expand (settings, &lowering, 1);
  stage = layer_kind (split, 0);
  g_assert_cmpint (stage->parameter_bytes, ==, 500);
  g_assert_cmpint (stage->saved_bytes, ==, 501);
  g_assert_cmpint (g_array_index (stage->kernels, PsiKernel, 0).time_ps, ==, 1500000000);
  g_assert_cmpuint (count_comms (stage, PSI_PASS_FORWARD, PSI_COMM_ALL_REDUCE, 7), ==, 1);
  g_assert_cmpuint (count_comms (stage, PSI_PASS_BACKWARD_INPUT, PSI_COMM_ALL_REDUCE, 7), ==, 1);
  g_assert_cmpuint (count_comms (stage, PSI_PASS_BACKWARD_WEIGHT, PSI_COMM_ALL_REDUCE, 7), ==, 0);

  defaults = expand (bare, &plain, 5);
  g_assert_cmpuint (defaults->kinds->len, ==, 1);
  g_assert_cmpint (defaults->parameters, ==, 5 * ((gint64) 1 << 29));
  g_assert_cmpint (layer_kind (defaults, 0)->saved_bytes, ==, (gint64) 1 << 30);
  g_assert_cmpint (layer_kind (defaults, 0)->output_bytes, ==, 1 << 20);
}

static void
test_trace (void)
{
  g_autoptr (PsiSettings) settings = SETTINGS ("model", "resnet-50");
  PsiLowering lowering = plain;
  g_autoptr (PsiModel) half = NULL, full = NULL;
  gint64 saved[2] = { 0 };

  lowering.micro_batch = 8;
  half = expand (settings, &lowering, 1);
  lowering.dtype = PSI_DTYPE_FP32;
  full = expand (settings, &lowering, 1);
  for (guint i = 0; i < half->layers->len; i++)
    {
      saved[0] += layer_kind (half, i)->saved_bytes;
      saved[1] += layer_kind (full, i)->saved_bytes;
    }
  /* 4.09 G multiply-adds, about 88 MB per sample in fp32, pooling indices keep their width. */
  g_assert_cmpfloat_with_epsilon (half->model_flops_per_sample, 2 * 4.1e9, 0.1e9);
  g_assert_cmpfloat_with_epsilon ((double) saved[1] / 8, 88e6, 9e6);
  g_assert_cmpint (saved[0], >, saved[1] / 2);
  g_assert_cmpint (saved[0], <, saved[1] / 2 + saved[1] / 50);

  /* layer1.0.conv2, 64 to 64 channels by 3 x 3 on 56 x 56 positions: an implicit product in each direction. */
  const PsiLayerKind *conv = layer_kind (half, 7);
  static const gint64 shapes[][3] = { { 8 * 3136, 64, 576 }, { 8 * 3136, 64, 576 }, { 64, 576, 8 * 3136 } };
  g_assert_cmpstr (conv->name, ==, "layer1.0.conv2");
  g_assert_cmpuint (conv->kernels->len, ==, G_N_ELEMENTS (shapes));
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      const PsiKernel *kernel = &g_array_index (conv->kernels, PsiKernel, i);

      g_assert_cmpint (kernel->kind, ==, PSI_KERNEL_GEMM);
      g_assert_cmpint (kernel->m, ==, shapes[i][0]);
      g_assert_cmpint (kernel->n, ==, shapes[i][1]);
      g_assert_cmpint (kernel->k, ==, shapes[i][2]);
      g_assert_cmpfloat (kernel->flops, ==, 2.0 * 8 * 3136 * 64 * 576);
    }
  g_assert_cmpint (g_array_index (layer_kind (half, 8)->kernels, PsiKernel, 0).kind, ==, PSI_KERNEL_MEMORY);
}

static void
test_overrides (void)
{
  g_autoptr (PsiSettings) shallow = SETTINGS ("model", "gpt2", "layers", "3", "sequence", "4096");
  g_autoptr (PsiSettings) wide =
      SETTINGS ("model", "custom", "family", "llama", "layers", "2", "hidden", "1024", "heads", "16", "kv_heads", "4");
  g_autoptr (PsiModel) three = expand (shallow, &plain, 1);
  g_autoptr (PsiModel) llama = expand (wide, &plain, 1);

  g_assert_cmpuint (three->layers->len, ==, 5);
  g_assert_cmpint (three->tokens_per_sample, ==, 4096);
  /* 9 of 12 blocks less, 3072 positions more. */
  g_assert_cmpint (three->parameters, ==, 124439808 - 9 * 7087872 + 3072 * 768);
  g_assert_cmpint (llama->parameters, ==,
                   2 * 32000 * 1024 + 1024 + 2 * (2 * 1024 * 1024 + 2 * 1024 * 256 + 3 * 1024 * 2816 + 2 * 1024));
}

static void
test_errors (void)
{
  PsiLowering lowering = plain;
  g_autoptr (PsiSettings) typo = SETTINGS ("model", "lama-2-7b");
  g_autoptr (PsiSettings) nothing = SETTINGS ("model", "zzzzzzzzzzzz");
  g_autoptr (PsiSettings) no_model = psi_settings_new ();
  g_autoptr (PsiSettings) missing = SETTINGS ("model", "custom", "layers", "2");
  g_autoptr (PsiSettings) llama = SETTINGS ("model", "llama-3-8b");
  g_autoptr (PsiSettings) vit = SETTINGS ("model", "vit-b16");
  g_autoptr (PsiSettings) resnet = SETTINGS ("model", "resnet-50");
  g_autoptr (PsiSettings) uniform = SETTINGS ("model", "uniform", "layers", "4");
  g_autoptr (PsiSettings) mixed = SETTINGS ("model", "gpt2", "psi_a", "4");
  g_autoptr (PsiSettings) dense = SETTINGS ("model", "gpt2", "experts", "4");
  g_autoptr (PsiSettings) weight = SETTINGS ("model", "uniform", "backward", "1 ms", "backward_weight", "2 ms");

  assert_fails (typo, &plain, "unknown model 'lama-2-7b' (did you mean 'llama-2-7b'?)");
  assert_fails (nothing, &plain, "unknown model 'zzzzzzzzzzzz' (allowed: *");
  assert_fails (no_model, &plain, "no model given*");
  assert_fails (missing, &plain, "*'custom' needs 'hidden'*");
  assert_fails (uniform, &plain, "layers: *'uniform'*");
  assert_fails (mixed, &plain, "psi_a: only model = uniform*");
  assert_fails (dense, &plain, "experts: *family moe*");
  assert_fails (weight, &plain, "backward_weight: '0.002 s' is longer*");
  lowering.tp = 3;
  assert_fails (llama, &lowering, "[plan] tp: '3' does not divide the 32 attention heads*(allowed: 1 2 4 8 16 32)");
  lowering.tp = 16;
  assert_fails (llama, &lowering, "[plan] tp: '16' does not divide the 8 key and value heads*(allowed: 1 2 4 8)");
  lowering.tp = 2;
  assert_fails (resnet, &lowering, "[plan] tp: '2' needs the inner structure*");
  lowering.sequence_parallel = TRUE;
  assert_fails (vit, &lowering, "[plan] tp: '2' does not divide the 197 tokens*");
  lowering = plain;
  lowering.ep = 2;
  assert_fails (llama, &lowering, "[plan] ep: '2' needs experts*");
  lowering = plain;
  lowering.micro_batch = G_GINT64_CONSTANT (1000000000000);
  assert_fails (llama, &lowering, "[plan] micro_batch: *64-bit*");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/workload/presets/parameters", test_parameters);
  g_test_add_func ("/workload/gpt/korthikanti", test_korthikanti);
  g_test_add_func ("/workload/llama/saved", test_llama_saved);
  g_test_add_func ("/workload/block/tensor-parallel", test_tensor_parallel);
  g_test_add_func ("/workload/block/context-parallel", test_context_parallel);
  g_test_add_func ("/workload/gpt/flops", test_flops);
  g_test_add_func ("/workload/moe/experts", test_moe);
  g_test_add_func ("/workload/moe/shape", test_moe_shape);
  g_test_add_func ("/workload/uniform/stages", test_uniform);
  g_test_add_func ("/workload/tensor-parallel/eager", test_eager_tensor_parallel);
  g_test_add_func ("/workload/trace/resnet-50", test_trace);
  g_test_add_func ("/workload/source/overrides", test_overrides);
  g_test_add_func ("/workload/source/errors", test_errors);
  return g_test_run ();
}
