/* SPDX-License-Identifier: MIT */
/* LoRA in closed form: trained elements, narrow bytes, kept tensors, FLOPs, and what data parallelism then sends.
 *
 *   elements     r (inputs + outputs) for each target of each block
 *   nf4          n / 2 + 4 n / 64 bytes, with double quantisation n / 2 + n / 64 + 4 n / (64 256)
 *   FLOPs        backward of a frozen product = its forward; adapters as usual */
#include "closed-forms.h"
#include "workload.h"

static const PsiLowering plain = {
  .micro_batch = 1, .tp = 1, .cp = 1, .ep = 1, .dtype = PSI_DTYPE_BF16, .flash = TRUE, .loss_chunks = 1
};

static PsiSettings *
settings_of (const char *model, const char *rank, const char *targets, const char *base)
{
  PsiSettings *settings = psi_settings_new ();
  g_autoptr (GError) error = NULL;

  psi_settings_set (settings, PSI_KEY_MODEL, model, "model", &error);
  g_assert_no_error (error);
  psi_settings_set (settings, PSI_KEY_LORA_RANK, rank, "lora_rank", &error);
  g_assert_no_error (error);
  if (targets != NULL)
    psi_settings_set (settings, PSI_KEY_LORA_TARGETS, targets, "lora_targets", &error);
  if (base != NULL)
    psi_settings_set (settings, PSI_KEY_LORA_BASE, base, "lora_base", &error);
  g_assert_no_error (error);
  return settings;
}

static PsiModel *
expand (const PsiSettings *settings, const PsiLowering *lowering, gint64 *ret_adapters)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiModelSource) source = psi_model_source_load (settings, &error);

  g_assert_no_error (error);
  if (ret_adapters != NULL)
    *ret_adapters = source->adapter_parameters;
  PsiModel *model = psi_model_source_expand (source, settings, lowering, 1, &error);
  g_assert_no_error (error);
  return model;
}

static const PsiLayerKind *
block_of (const PsiModel *model)
{
  return psi_model_kind (model, g_array_index (model->layers, PsiLayer, model->first_block).kind);
}

static void
test_elements (void)
{
  static const struct
  {
    const char *model, *targets;
    gint64 layers, sum_of_widths; /* inputs + outputs of a block's targets */
  } cases[] = {
    { "llama-2-7b", "q,v", 32, 4 * 4096 },
    { "llama-2-7b", "all", 32, 8 * 4096 + 3 * (4096 + 11008) },
    { "llama-3-8b", "q,k,v,o", 32, 2 * 8192 + 2 * (4096 + 1024) },
    { "llama-3-8b", "attention", 32, 2 * 8192 + 2 * (4096 + 1024) },
    { "gpt2", "mlp", 12, 2 * (768 + 3072) },
    { "bert-large", "q, v", 24, 4 * 1024 },
    { "mixtral-8x7b", "q,v", 32, 8192 + 5120 },
    { "mixtral-8x7b", "gate,up,down", 32, 8 * 3 * (4096 + 14336) },
    { "t5-11b", "q,v", 24, 3 * 2 * (1024 + 16384) }, /* encoder, decoder, cross attention */
    { "vit-b16", "o", 12, 2 * 768 },
  };
  static const gint64 ranks[] = { 1, 8, 64 };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint r = 0; r < G_N_ELEMENTS (ranks); r++)
      {
        g_autofree char *rank = g_strdup_printf ("%" G_GINT64_FORMAT, ranks[r]);
        g_autoptr (PsiSettings) settings = settings_of (cases[i].model, rank, cases[i].targets, NULL);
        gint64 adapters = 0;
        g_autoptr (PsiModel) model = expand (settings, &plain, &adapters);
        gint64 all = 0;

        g_test_message ("%s %s", cases[i].model, cases[i].targets);
        g_assert_cmpint (adapters, ==, ranks[r] * cases[i].layers * cases[i].sum_of_widths);
        for (guint l = 0; l < model->layers->len; l++)
          all += psi_model_kind (model, g_array_index (model->layers, PsiLayer, l).kind)->parameters;
        g_assert_cmpint (all, ==, model->parameters + adapters); /* the model's own count leaves them out */
      }
}

/* A is whole and B split under a product split by columns, the reverse by rows. */
static void
test_tensor_parallel (void)
{
  for (guint tp = 1; tp <= 8; tp *= 2)
    {
      g_autoptr (PsiSettings) settings = settings_of ("llama-2-7b", "16", "q,o", NULL);
      PsiLowering lowering = plain;

      lowering.tp = tp;
      g_autoptr (PsiModel) model = expand (settings, &lowering, NULL);
      g_assert_cmpint (psi_kind_trainable (block_of (model)), ==, 16 * 2 * (4096 + 4096 / (gint64) tp));
    }
}

static void
test_narrow (void)
{
  const gint64 products = 4 * 4096 * 4096 + 3 * 4096 * 11008;
  static const struct
  {
    const char *base;
    double bytes;
  } cases[] = { { "wide", 2 }, { "nf4", 0.5 + 4.0 / 64 }, { "nf4-dq", 0.5 + 1.0 / 64 + 4.0 / 64 / 256 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PsiReport) report =
          run_flags (FALSE, "model=llama-2-7b machine=a100 gpus=1 sequence=512 lora_rank=8 lora_base=%s optimizer=none",
                     cases[i].base);
      double others = 6738415616.0 - 32.0 * (double) products, adapters = 8.0 * 32 * 4 * 4096;

      assert_near (rank_of (plan_of (report), 0)->at_peak[PSI_MEMORY_PARAMETERS],
                   32.0 * (double) products * cases[i].bytes + 2 * (others + adapters));
      assert_near (rank_of (plan_of (report), 0)->at_peak[PSI_MEMORY_GRADIENTS], 2 * adapters);
    }
  g_assert_cmpint (psi_base_bytes (PSI_BASE_INT8, 100, 10, 2), ==, 1000 + 400);
  g_assert_cmpint (psi_base_bytes (PSI_BASE_NF4, 1, 65, 2), ==, 33 + 8);
}

/* Bytes per token of a llama block with fused kernels: 2 (2h) residuals, the input of whatever has an adapter, x A,
 * and what attention and gate need: 2 (q + 2k) + 2q + 4a + 4f. */
static void
test_kept (void)
{
  const gint64 h = 4096, f = 11008, a = 32, r = 8, tokens = 4096;
  const gint64 always = 4 * h + 2 * 3 * h + 2 * h + 4 * a + 4 * f;
  static const struct
  {
    const char *targets;
    gint64 inputs, adapters; /* kept inputs in elements; adapters */
  } cases[] = { { "q,v", 4096, 2 },   { "v", 4096, 1 },       { "o", 0, 1 },
                { "down", 11008, 1 }, { "gate,up", 4096, 2 }, { "all", 4096 + 4096 + 11008, 7 } };
  PsiLowering lowering = plain;

  lowering.megatron = TRUE;
  lowering.sequence = tokens;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PsiSettings) settings = settings_of ("llama-2-7b", "8", cases[i].targets, NULL);
      g_autoptr (PsiModel) model = expand (settings, &lowering, NULL);

      g_assert_cmpint (block_of (model)->saved_bytes, ==,
                       tokens * (always + 2 * cases[i].inputs + 2 * r * cases[i].adapters));
    }
}

static double
product_flops (const PsiLayerKind *kind, PsiPass pass)
{
  double sum = 0;

  for (guint s = 0; s < kind->segments[pass]->len; s++)
    {
      const PsiSegment *segment = &g_array_index (kind->segments[pass], PsiSegment, s);

      for (guint k = 0; k < segment->n_kernels; k++)
        {
          const PsiKernel *kernel = &g_array_index (kind->kernels, PsiKernel, segment->first_kernel + k);

          sum += kernel->kind == PSI_KERNEL_GEMM ? kernel->flops : 0;
        }
    }
  return sum;
}

static void
test_flops (void)
{
  g_autoptr (PsiSettings) settings = settings_of ("llama-2-7b", "8", "all", NULL);
  g_autoptr (PsiModel) model = expand (settings, &plain, NULL);
  const PsiLayerKind *block = block_of (model);
  double tokens = (double) model->tokens_per_sample, adapters = 2 * tokens * (double) psi_kind_trainable (block);
  double frozen = 2 * tokens * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008);

  assert_near (product_flops (block, PSI_PASS_FORWARD), frozen + adapters);
  assert_near (product_flops (block, PSI_PASS_BACKWARD_INPUT), frozen + adapters);
  assert_near (product_flops (block, PSI_PASS_BACKWARD_WEIGHT), adapters);
  assert_near (block->frozen_flops, frozen);
}

/* Gradients of adapters only travel, and updated adapters; frozen weights are gathered when they are sharded. */
static void
test_sent (void)
{
  const guint d = 4;
  const double n = 6738415616.0, adapters = 8.0 * 32 * 4 * 4096;

  for (guint zero = 0; zero <= 3; zero++)
    {
      g_autoptr (PsiReport) report =
          run_flags (FALSE,
                     "model=llama-2-7b machine=a100 dp=%u zero=%u sequence=512 lora_rank=8 grad_clip=no "
                     "framework=megatron-deepspeed grad_dtype=bf16",
                     d, zero);
      const PsiPlanReport *plan = plan_of (report);

      assert_near (plan->by_kind[PSI_TRAFFIC_GRADIENTS], (zero == 0 ? 2.0 : 1.0) * (d - 1) * 2 * adapters);
      assert_near (plan->by_kind[PSI_TRAFFIC_PARAMETERS], zero == 0   ? 0
                                                          : zero <= 2 ? (d - 1) * 2 * adapters
                                                                      : 2.0 * (d - 1) * 2 * (n + adapters));
    }
}

/* The report says what is trained, and on how many tokens. */
static void
test_described (void)
{
  static const struct
  {
    const char *flags, *says;
  } cases[] = {
    { "model=llama-2-7b sequence=2048", "llama: 32 layers, hidden 4096, heads 32/32, ffn 11008, vocabulary 32000, "
                                        "sequence 2048" },
    { "model=gpt2 lora_rank=8", "vocabulary 50257, sequence 1024, LoRA of rank 8 on q,v" },
    { "model=gpt2 lora_rank=4 lora_targets=v,up,o,q,k lora_base=nf4", "LoRA of rank 4 on attention,up over nf4" },
    { "model=llama-2-7b lora_rank=4 lora_targets=mlp,attention", "LoRA of rank 4 on all" },
    { "model=t5-11b decoder_sequence=128", "vocabulary 32128, sequence 512, of the decoder 128" },
    { "model=vit-b16", "ffn 3072, sequence 197" }
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiReport) report = try_flags (cases[i].flags, FALSE, &error);

      g_assert_no_error (error);
      g_assert_true (g_str_has_suffix (report->model_description, cases[i].says));
    }
}

static void
test_errors (void)
{
  static const struct
  {
    const char *flags, *says;
  } cases[] = { { "model=llama-2-7b lora_rank=8 lora_targets=q,x", "'x' is no product of a block (allowed: q k v o" },
                { "model=llama-2-7b lora_base=nf4", "'nf4' needs lora_rank" },
                { "model=llama-2-7b lora_targets=q", "'q' needs lora_rank" },
                { "model=llama-2-7b lora_rank=8 frozen=0.5", "'0.5' does not go with lora_rank" },
                { "model=gpt2 lora_rank=8 lora_targets=gate", "'gate' is in no block of 'gpt2'" },
                { "model=resnet-50 lora_rank=8", "'8' needs a transformer" },
                { "model=uniform lora_rank=8", "'8' needs a transformer" } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (try_flags (cases[i].flags, FALSE, &error));
      g_assert_nonnull (strstr (error->message, cases[i].says));
    }
}

/* Loading 6,738,415,616 weights and the adapters in 16 bits, or the fuller half of them, is said where they are narrow.
 */
static void
test_loading (void)
{
  static const struct
  {
    const char *flags, *says;
  } rows[] = { { "lora_base=nf4", "needs 12.56 GiB" }, { "lora_base=int8 pp=2", "needs 6.28 GiB" }, { "", NULL } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *flags = g_strchomp (g_strdup_printf (
          "model=llama-2-7b machine=a100 sequence=128 lora_rank=8 lora_targets=q,v %s", rows[i].flags));
      g_autoptr (PsiReport) report = run_flags (FALSE, "%s", flags);
      const GPtrArray *assumptions = plan_of (report)->assumptions;
      const char *said = NULL;

      for (guint a = 0; a < assumptions->len; a++)
        if (strstr (assumptions->pdata[a], "a loader that puts them there in 16 bits first needs") != NULL)
          said = assumptions->pdata[a];
      g_assert_cmpint (said != NULL, ==, rows[i].says != NULL);
      if (said != NULL && strstr (said, rows[i].says) == NULL)
        g_error ("'%s' is not in '%s'", rows[i].says, said);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/adapters/elements", test_elements);
  g_test_add_func ("/adapters/tensor-parallel", test_tensor_parallel);
  g_test_add_func ("/adapters/narrow", test_narrow);
  g_test_add_func ("/adapters/kept", test_kept);
  g_test_add_func ("/adapters/flops", test_flops);
  g_test_add_func ("/adapters/sent", test_sent);
  g_test_add_func ("/adapters/described", test_described);
  g_test_add_func ("/adapters/loading", test_loading);
  g_test_add_func ("/adapters/errors", test_errors);
  return g_test_run ();
}
