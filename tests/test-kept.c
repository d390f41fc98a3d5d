/* SPDX-License-Identifier: MIT */
/* What frameworks and formats keep of a layer for its backward, in closed form. */
#include "workload-fixture.h"

/* Transformer Engine keeps the inputs of products in the products' format, bytes per token of a llama block:
 * 2 (2h) residuals, i (2h) norm outputs, 2 (q + 2k), 2 q attention output and i q its cast, 4f gate and up, i f, 4a
 * log-sum-exp; i = 1 for fp8, 1 + 1/32 for mxfp8, 1/2 + 1/16 for nvfp4. In bf16 the cast of the attention's output is
 * the output itself. */
static void
test_narrow_inputs (void)
{
  static const struct
  {
    PsiDtype dtype;
    double each;
  } cases[] = { { PSI_DTYPE_FP8, 1 }, { PSI_DTYPE_MXFP8, 1 + 1.0 / 32 }, { PSI_DTYPE_NVFP4, 0.5 + 1.0 / 16 } };
  const double h = 4096, q = 4096, k = 1024, f = 14336, a = 32, tokens = 2048;
  PsiLowering lowering = plain;

  lowering.megatron = TRUE;
  lowering.framework = psi_framework_find ("megatron-core");
  lowering.memory = psi_framework_memory (lowering.framework);
  lowering.sequence = 2048;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (PsiSettings) settings = SETTINGS ("model", "llama-3-8b");
      double wide = 4 * h + 2 * (q + 2 * k) + 2 * q + 4 * f + 4 * a, e = cases[i].each;

      lowering.dtype = cases[i].dtype;
      g_autoptr (PsiModel) narrow = expand (settings, &lowering, 1);
      g_assert_cmpint (find_kind (narrow, "block")->saved_bytes, ==, (gint64) (tokens * (wide + e * (2 * h + q + f))));
      /* The head's product runs in 16 bits, so its input stays as it is. */
      lowering.dtype = PSI_DTYPE_BF16;
      g_autoptr (PsiModel) plain_model = expand (settings, &lowering, 1);
      g_assert_cmpint (find_kind (plain_model, "block")->saved_bytes, ==, (gint64) (tokens * (wide + 2 * (2 * h + f))));
      g_assert_cmpint (find_kind (plain_model, "head")->saved_bytes, ==, find_kind (narrow, "head")->saved_bytes);
    }
}

/* A decoder of sd tokens that reads an encoder of se: bytes of a decoder block
 * b (sd (12h + 12q + 8a + 4f) + se 4q), its boundary b 2h (sd + se), logits of sd tokens. */
static void
test_decoder_sequence (void)
{
  const gint64 h = 1024, q = 128 * 128, f = 65536, a = 128, b = 3, vocab = 32128, se = 512;
  static const char *const written[] = { NULL, "512", "128", "64" };
  PsiLowering lowering = plain;
  gint64 head_bytes[G_N_ELEMENTS (written)];
  gint64 encoder_bytes = 0;

  lowering.megatron = TRUE;
  lowering.micro_batch = b;
  lowering.sequence = se;
  for (guint i = 0; i < G_N_ELEMENTS (written); i++)
    {
      g_autoptr (PsiSettings) settings =
          SETTINGS ("model", "t5-11b", written[i] != NULL ? "decoder_sequence" : "sequence",
                    written[i] != NULL ? written[i] : "512");
      gint64 sd = written[i] != NULL ? g_ascii_strtoll (written[i], NULL, 10) : se;
      g_autoptr (PsiModel) model = expand (settings, &lowering, 1);
      const PsiLayerKind *decoder = find_kind (model, "decoder"), *first = find_kind (model, "decoder_first");

      g_assert_cmpint (decoder->saved_bytes, ==, b * (sd * (12 * h + 12 * q + 8 * a + 4 * f) + se * 4 * q));
      g_assert_cmpint (first->saved_bytes, ==, decoder->saved_bytes + b * se * 2 * h);
      g_assert_cmpint (decoder->output_bytes, ==, b * 2 * h * (sd + se));
      g_assert_cmpint (first->input_bytes, ==, b * 2 * h * se);
      head_bytes[i] = find_kind (model, "head")->saved_bytes;
      g_assert_cmpint (head_bytes[i], ==, b * sd * (4 * h + 6 * vocab));
      if (i == 0)
        encoder_bytes = find_kind (model, "encoder")->saved_bytes;
      g_assert_cmpint (find_kind (model, "encoder")->saved_bytes, ==, encoder_bytes);
      g_assert_cmpint (model->parameters, ==, 11307321344);
    }
  g_autoptr (PsiSettings) gpt = SETTINGS ("model", "gpt2", "decoder_sequence", "128");
  g_autoptr (GError) error = NULL;
  g_assert_null (psi_model_source_load (gpt, &error));
  g_assert_nonnull (strstr (error->message, "needs a decoder (family t5)"));
}

/* Aleph-Alpha/scaling, bytes per token of a llama block: 2 (2h) residuals; norms of single operators 8h each, their
 * results and, with sequence parallelism, gathered inputs of products whole: 2h each; 2 (q + 2k) / t of queries, keys
 * and values, as much of the product before it was rotated less the values; cos and sin of queries and keys, 8d; 2q / t
 * of the attention's output, twice with several samples; 8f / t; 4a / t. */
static void
test_eager_layout (void)
{
  const gint64 h = 4096, q = 4096, k = 1024, f = 14336, a = 32, d = 128, tokens = 2048;
  g_autoptr (PsiSettings) settings = SETTINGS ("model", "llama-3-8b");
  static const char *const names[] = { "megatron-eager", "megatron-eager-rms" };

  for (guint n = 0; n < G_N_ELEMENTS (names); n++)
    for (guint sharded = 0; sharded < 2; sharded++)
      for (gint64 b = 1; b <= 2; b++)
        for (guint t = 1; t <= 8; t *= 2)
          {
            PsiLowering lowering = plain;
            gint64 s = sharded ? t : 1;

            lowering.megatron = TRUE;
            lowering.framework = psi_framework_find (names[n]);
            lowering.memory = psi_framework_memory (lowering.framework);
            lowering.sequence = tokens;
            lowering.micro_batch = b;
            lowering.tp = t;
            lowering.sequence_parallel = sharded;
            lowering.attention_copy = b > 1;
            g_autoptr (PsiModel) model = expand (settings, &lowering, 1);
            gint64 norms = (n == 0 ? 2 * 6 * h / s : 0) + (s > 1 ? 2 * 2 * h : 2 * 2 * h / s);
            gint64 sum = 4 * h / s + norms + (2 * (q + 2 * k) + 2 * (q + k) + 2 * q * b + 8 * f + 4 * a) / t + 8 * d;

            g_assert_cmpint (find_kind (model, "block")->saved_bytes, ==, b * tokens * sum);
            /* Logits of the whole vocabulary on every GPU. */
            gint64 padded = (128256 + 128 * t - 1) / (128 * t) * (128 * t);
            g_assert_cmpint (find_kind (model, "head")->stale_bytes, ==, 2 * b * tokens * padded);
            g_assert_cmpint (find_kind (model, "block")->stale_bytes, ==, 0);
          }
}

/* Outputs of experts, 2h for each expert of a token, stay where the router's scores multiply them. Where they multiply
 * the activation, one that is no fused gate stays beside the product, 2f. */
static void
test_scored_activations (void)
{
  static const char *const activations[] = { "gelu", "swiglu" };
  const gint64 h = 512, f = 2048, n = 2, tokens = 1024;

  for (guint a = 0; a < G_N_ELEMENTS (activations); a++)
    for (guint t = 1; t <= 4; t *= 2)
      {
        g_autoptr (PsiSettings) settings = SETTINGS (
            "model", "custom", "family", "moe", "layers", "2", "hidden", "512", "heads", "8", "ffn", "2048", "vocab",
            "1024", "experts", "4", "experts_per_token", "2", "activation", activations[a], "sequence", "1024");
        static const char *const names[] = { "megatron", "megatron-core" };
        gint64 saved[2];

        for (guint i = 0; i < G_N_ELEMENTS (names); i++)
          {
            PsiLowering lowering = plain;

            lowering.megatron = lowering.sequence_parallel = TRUE;
            lowering.framework = psi_framework_find (names[i]);
            lowering.memory = psi_framework_memory (lowering.framework);
            lowering.tp = t;
            lowering.sequence = tokens;
            g_autoptr (PsiModel) model = expand (settings, &lowering, 1);
            saved[i] = find_kind (model, "block")->saved_bytes;
          }
        g_assert_cmpint (saved[1] - saved[0], ==, tokens * n * ((a == 0 ? 2 * f : 0) - 2 * h) / t);
      }
}

/* llm.c keeps 36h of a GPT-2 block: 2h each of input, norm, attention, its projection, sum, norm and last projection,
 * 6h of queries, keys and values, 8h before and after gelu; and 4a of the fused attention. Others keep the sums only.
 */
static void
test_residual_inputs (void)
{
  g_autoptr (PsiSettings) settings = SETTINGS ("model", "gpt2");
  PsiLowering lowering = plain;

  lowering.framework = psi_framework_find ("llm.c");
  lowering.memory = psi_framework_memory (lowering.framework);
  g_autoptr (PsiModel) model = expand (settings, &lowering, 1);
  g_assert_cmpint (find_kind (model, "block")->saved_bytes, ==, 1024 * (36 * 768 + 4 * 12));
  lowering.framework = psi_framework_find ("megatron");
  lowering.memory = psi_framework_memory (lowering.framework);
  g_autoptr (PsiModel) other = expand (settings, &lowering, 1);
  g_assert_cmpint (find_kind (other, "block")->saved_bytes, ==, 1024 * (32 * 768 + 4 * 12));
}

/* PyTorch's tensor parallelism keeps what it gathers along the sequence, once for each half of a block and for the
 * head; Megatron's gathers it again. */
static void
test_gathered_inputs (void)
{
  static const char *const frameworks[] = { "torchtitan", "megatron" };
  const gint64 gathered_bytes = 2 * 2048 * 4096;
  gint64 block_bytes[2][2], head_bytes[2][2];

  for (guint f = 0; f < 2; f++)
    for (guint sharded = 0; sharded < 2; sharded++)
      {
        g_autoptr (PsiSettings) settings = SETTINGS ("model", "llama-3-8b");
        PsiLowering lowering = plain;

        lowering.framework = psi_framework_find (frameworks[f]);
        lowering.memory = psi_framework_memory (lowering.framework);
        lowering.megatron = lowering.framework->megatron;
        lowering.tp = 4;
        lowering.sequence = 2048;
        lowering.sequence_parallel = sharded;
        g_autoptr (PsiModel) model = expand (settings, &lowering, 1);
        block_bytes[f][sharded] = find_kind (model, "block")->saved_bytes;
        head_bytes[f][sharded] = find_kind (model, "head")->saved_bytes;
      }
  /* Sharded, the residuals and norms are a quarter; what is gathered is kept in place of the norm's own result. */
  g_assert_cmpint (block_bytes[1][1], <, block_bytes[1][0]);
  gint64 norms[2]; /* bytes of a norm's input and what it keeps, of both halves: 2h + 2h, eager 2h + 8h */
  for (guint f = 0; f < 2; f++)
    norms[f] = (f == 0 ? 5 : 2) * gathered_bytes;
  for (guint f = 0; f < 2; f++)
    {
      gint64 kept = f == 0 ? gathered_bytes * 3 / 4 : 0;

      g_assert_cmpint (block_bytes[f][1] - block_bytes[f][0], ==, 2 * kept - 2 * norms[f] * 3 / 4);
      g_assert_cmpint (head_bytes[f][1] - head_bytes[f][0], ==, kept - norms[f] * 3 / 4);
    }
}

/* Bytes that a script's forward leaves, and how many tensors its backward leaves after that. */
static gint64
left_by_script (const PsiLayerKind *kind, guint *ret_n_left)
{
  gboolean reads = g_array_index (kind->script[0], PsiScriptLine, 0).verb == PSI_SCRIPT_MOVE;
  gint64 bytes[PSI_SCRIPT_SLOTS] = { [PSI_SCRIPT_FLOW] = reads ? kind->input_bytes : 0 }, kept = 0;

  for (guint pass = 0; pass < 2; pass++)
    {
      for (guint i = 0; i < kind->script[pass]->len; i++)
        {
          const PsiScriptLine *line = &g_array_index (kind->script[pass], PsiScriptLine, i);

          switch ((PsiScriptVerb) line->verb)
            {
            case PSI_SCRIPT_TAKE:
              g_assert_cmpint (bytes[line->slot], ==, 0); /* else the one before is lost */
              bytes[line->slot] = line->bytes;
              break;
            case PSI_SCRIPT_MOVE:
              bytes[line->slot] = bytes[PSI_SCRIPT_FLOW];
              bytes[PSI_SCRIPT_FLOW] = 0;
              break;
            case PSI_SCRIPT_FREE:
            case PSI_SCRIPT_LEND:
              bytes[line->slot] = 0;
              break;
            case PSI_SCRIPT_LAUNCH:
            case PSI_SCRIPT_COMM:
            case PSI_SCRIPT_BUFFER:
            case PSI_SCRIPT_GRADIENT:
              break;
            }
        }
      if (pass == 0)
        g_assert_cmpint (bytes[PSI_SCRIPT_FLOW], ==, kind->output_bytes);
      for (guint i = 1; i < PSI_SCRIPT_SLOTS; i++)
        {
          kept += pass == 0 ? bytes[i] : 0;
          *ret_n_left += pass == 1 && bytes[i] > 0;
        }
    }
  return kept;
}

/* nanotron keeps for each token of a layer, over t GPUs that shard the sequence: 8h residuals and norms, 2 (q + 2k)
 * packed projection (grouped queries: 2q), 4k rotated keys and values, 2q attention, 4a log-sum-exp, 8f; its script 4
 * more for each norm's root mean square. Of a logit 4 bytes stay. No copy of the attention's output, but where tp
 * leaves the sequence whole. */
static void
test_nanotron (void)
{
  static const struct
  {
    const char *model;
    gint64 h, q, k, f, a;
  } cases[] = { { "llama-2-7b", 4096, 4096, 4096, 11008, 32 }, { "llama-3-8b", 4096, 4096, 1024, 14336, 32 } };
  PsiLowering lowering = plain;

  lowering.megatron = TRUE;
  lowering.framework = psi_framework_find ("nanotron");
  lowering.memory = psi_framework_memory (lowering.framework);
  lowering.micro_batch = 2;
  lowering.sequence = 2048;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (gint64 t = 1; t <= 8; t *= 8)
      {
        gint64 h = cases[i].h, q = cases[i].q, k = cases[i].k, f = cases[i].f, a = cases[i].a, tokens = 2 * 2048;
        gint64 each = 8 * h + (q == k ? 2 * (q + 2 * k) : 2 * q) + 4 * k + 2 * q + 4 * a + 8 * f;
        guint n_left = 0;

        lowering.tp = (guint) t;
        lowering.sequence_parallel = t > 1;
        g_autoptr (PsiSettings) settings = SETTINGS ("model", cases[i].model);
        g_autoptr (PsiModel) model = expand (settings, &lowering, 1);
        const PsiLayerKind *block = find_kind (model, "block"), *head = find_kind (model, "head");
        g_assert_cmpint (block->saved_bytes, ==, tokens * each / t);
        g_assert_cmpint (left_by_script (block, &n_left), ==, tokens * (each + 2 * 4) / t);
        gint64 logits = head->saved_bytes - 4 * h * tokens / t;
        g_assert_cmpint (logits, ==,
                         4 * head->parameters / h * tokens - 4 * tokens); /* the norm's h are parameters too */
        g_assert_cmpint (left_by_script (head, &n_left), ==, head->saved_bytes);
        left_by_script (find_kind (model, "embedding"), &n_left);
        g_assert_cmpuint (n_left, ==, 0);
        /* Gradients of all parameters but the norms'; those are lost in the noise. */
        gint64 gradients = 0, elements = 0;
        for (guint l = 0; l < block->script[1]->len; l++)
          if (g_array_index (block->script[1], PsiScriptLine, l).verb == PSI_SCRIPT_GRADIENT)
            gradients += g_array_index (block->script[1], PsiScriptLine, l).bytes;
        for (guint n = 0; n < block->tensors->len; n++)
          elements += g_array_index (block->tensors, gint64, n);
        g_assert_cmpint (elements, ==, block->parameters);
        g_assert_cmpint (gradients, ==, 2 * (block->parameters - 2 * h));
      }
  /* Whole sequences on every GPU: another mode of the framework, without a script. */
  lowering.tp = 8;
  lowering.sequence_parallel = FALSE;
  g_autoptr (PsiSettings) settings = SETTINGS ("model", "llama-2-7b");
  g_autoptr (PsiModel) model = expand (settings, &lowering, 1);
  g_assert_null (find_kind (model, "block")->script[0]);
  lowering.memory = NULL;
  lowering.framework = psi_framework_find ("megatron");
  g_autoptr (PsiModel) other = expand (settings, &lowering, 1);
  g_assert_null (find_kind (other, "block")->script[0]);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/workload/kept/narrow-inputs", test_narrow_inputs);
  g_test_add_func ("/workload/kept/decoder-sequence", test_decoder_sequence);
  g_test_add_func ("/workload/kept/eager-layout", test_eager_layout);
  g_test_add_func ("/workload/kept/scored-activations", test_scored_activations);
  g_test_add_func ("/workload/kept/residual-inputs", test_residual_inputs);
  g_test_add_func ("/workload/kept/gathered-inputs", test_gathered_inputs);
  g_test_add_func ("/workload/kept/nanotron", test_nanotron);
  return g_test_run ();
}
