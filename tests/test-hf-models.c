/* SPDX-License-Identifier: MIT */
/* Networks of the transformers library, as their config.json has them: the parameters of the published checkpoints. */
#include "workload.h"

#include <glib/gstdio.h>

typedef struct
{
  const char *name, *config; /* JSON with single quotes, without the braces */
  gint64 parameters;
} Network;

#define SHAPE(hidden, layers, heads, ffn, vocab)                                                                       \
  "'hidden_size':" #hidden ",'num_hidden_layers':" #layers ",'num_attention_heads':" #heads                            \
  ",'intermediate_size':" #ffn ",'vocab_size':" #vocab
#define KV(heads) ",'num_key_value_heads':" #heads
#define HEAD(width) ",'head_dim':" #width

/* clang-format off */
static const Network networks[] = {
  { "qwen3-8b", "'model_type':'qwen3'," SHAPE (4096, 36, 32, 12288, 151936) KV (8) HEAD (128), 8190735360 },
  { "qwen3-0.6b", "'model_type':'qwen3','tie_word_embeddings':true," SHAPE (1024, 28, 16, 3072, 151936) KV (8) HEAD (128),
    596049920 },
  { "qwen3-30b-a3b", "'model_type':'qwen3_moe','num_experts':128,'num_experts_per_tok':8,'moe_intermediate_size':768,"
    "'mlp_only_layers':[],'decoder_sparse_step':1," SHAPE (2048, 48, 32, 6144, 151936) KV (4) HEAD (128), 30532122624 },
  { "qwen1.5-moe", "'model_type':'qwen2_moe','num_experts':60,'num_experts_per_tok':4,'moe_intermediate_size':1408,"
    "'shared_expert_intermediate_size':5632," SHAPE (2048, 24, 16, 5632, 151936) KV (16), 14315784192 },
  { "gemma-7b", "'model_type':'gemma','hidden_act':'gelu'," SHAPE (3072, 28, 16, 24576, 256000) KV (16) HEAD (256),
    8537680896 },
  { "gemma-2-9b", "'model_type':'gemma2','hidden_activation':'gelu_pytorch_tanh',"
    SHAPE (3584, 42, 16, 14336, 256000) KV (8) HEAD (256), 9241705984 },
  { "phi-2", "'model_type':'phi','hidden_act':'gelu_new'," SHAPE (2560, 32, 32, 10240, 51200), 2779683840 },
  { "phi-3-mini", "'model_type':'phi3'," SHAPE (3072, 32, 32, 8192, 32064) KV (32), 3821079552 },
  { "gpt-neox-20b", "'model_type':'gpt_neox','hidden_act':'gelu_fast'," SHAPE (6144, 44, 64, 24576, 50432), 20554567680 },
  { "gpt-j-6b", "'model_type':'gptj','n_embd':4096,'n_layer':28,'n_head':16,'n_inner':null,'vocab_size':50400",
    6050882784 },
  { "opt-6.7b", "'model_type':'opt','ffn_dim':16384,'word_embed_proj_dim':4096,'do_layer_norm_before':true,"
    SHAPE (4096, 32, 32, 1, 50272), 6658473984 },
  { "bloom", "'model_type':'bloom','n_embed':14336,'n_layer':70,'num_attention_heads':112,'vocab_size':250880",
    176247271424 },
  { "falcon-7b", "'model_type':'falcon','multi_query':true,'parallel_attn':true,'bias':false,"
    SHAPE (4544, 32, 71, 1, 65024), 6921720704 },
  { "falcon-40b", "'model_type':'falcon','new_decoder_architecture':true,'num_kv_heads':8,'bias':false,"
    "'tie_word_embeddings':true," SHAPE (8192, 60, 128, 1, 65024), 41303293952 },
  { "mpt-7b", "'model_type':'mpt','d_model':4096,'n_layers':32,'n_heads':32,'vocab_size':50432,'no_bias':true,"
    "'attn_config':{'alibi':true}", 6649286656 },
  { "olmo-2-7b", "'model_type':'olmo2'," SHAPE (4096, 32, 32, 11008, 100352) KV (32), 7298617344 },
  { "starcoder2-7b", "'model_type':'starcoder2','use_bias':true," SHAPE (4608, 32, 36, 18432, 49152) KV (4), 7173923840 },
  { "stablelm-2-1.6b", "'model_type':'stablelm','use_qkv_bias':true," SHAPE (2048, 24, 32, 5632, 100352) KV (32),
    1644515328 },
  { "granite-3.0-8b", "'model_type':'granite','tie_word_embeddings':true," SHAPE (4096, 40, 32, 12800, 49155) KV (8),
    8170848256 },
  { "command-r", "'model_type':'cohere'," SHAPE (8192, 40, 64, 22528, 256000) KV (64), 34980831232 },
  { "glm-4-9b", "'model_type':'glm4','attention_bias':true," SHAPE (4096, 40, 32, 13696, 151552) KV (2) HEAD (128),
    9400279040 },
  { "gpt-oss-20b", "'model_type':'gpt_oss','num_local_experts':32,'num_experts_per_tok':4,"
    SHAPE (2880, 24, 64, 2880, 201088) KV (8) HEAD (64), 20914757184 },
  { "kimi-k2", "'model_type':'kimi_k2','moe_intermediate_size':2048,'n_routed_experts':384,'n_shared_experts':1,"
    "'num_experts_per_tok':8,'first_k_dense_replace':1,'q_lora_rank':1536,'kv_lora_rank':512,'qk_nope_head_dim':128,"
    "'qk_rope_head_dim':64,'v_head_dim':128," SHAPE (7168, 61, 64, 18432, 163840), 1026408232448 },
  /* Language models inside others; files leave out what is their class's default. */
  { "llava-1.5-7b", "'model_type':'llava','tie_word_embeddings':false,'vision_config':{'hidden_size':1024},"
    "'text_config':{'model_type':'llama','max_position_embeddings':4096,'vocab_size':32064}", 6738939904 },
  { "gemma-3-4b", "'model_type':'gemma3','vision_config':{'hidden_size':1152},'text_config':{'model_type':'gemma3_text',"
    "'hidden_size':2560,'intermediate_size':10240,'num_hidden_layers':34}", 4300079472 - 416866032 - 2950272 },
  { "mistral-small-3.1", "'model_type':'mistral3','vision_config':{},'text_config':{'model_type':'mistral',"
    SHAPE (5120, 40, 32, 32768, 131072) KV (8) HEAD (128) "}", 23572403200 },
  { "qwen2-vl-7b", "'model_type':'qwen2_vl','vision_config':{'depth':32}," SHAPE (3584, 28, 28, 18944, 152064) KV (4),
    7615616512 },
  { "qwen2.5-vl-7b", "'model_type':'qwen2_5_vl','vision_config':{},'text_config':{'model_type':'qwen2_5_vl_text',"
    SHAPE (3584, 28, 28, 18944, 152064) KV (4) "}", 7615616512 },
  { "llama-4-scout", "'model_type':'llama4','vision_config':{},'text_config':{'model_type':'llama4_text'}", 107769861120 },
  { "llama-4-maverick", "'model_type':'llama4','vision_config':{},'text_config':{'model_type':'llama4_text',"
    "'num_local_experts':128,'interleave_moe_layer_step':2}", 400711848960 },
};
/* clang-format on */

/* (transfer full) */
static PsiModel *
expand (const Network *network, guint tp)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();
  g_autoptr (GError) error = NULL;
  g_autofree char *directory = g_dir_make_tmp ("psisim-hf-XXXXXX", NULL);
  g_autofree char *file = g_build_filename (directory, "config.json", NULL);
  g_autofree char *text = g_strdelimit (g_strdup_printf ("{%s}", network->config), "'", '"');
  PsiLowering lowering = { .micro_batch = 1,
                           .tp = tp,
                           .cp = 1,
                           .ep = 1,
                           .dtype = PSI_DTYPE_BF16,
                           .flash = TRUE,
                           .sequence = 64,
                           .loss_chunks = 1 };

  g_assert_true (g_file_set_contents (file, text, -1, NULL));
  g_assert_true (psi_settings_set (settings, PSI_KEY_MODEL, file, "--model", &error));
  g_autoptr (PsiModelSource) source = psi_model_source_load (settings, &error);
  g_assert_no_error (error);
  PsiModel *model = psi_model_source_expand (source, settings, &lowering, 1, &error);
  g_assert_no_error (error);
  g_assert_cmpint (source->parameters, ==, model->parameters);
  g_unlink (file);
  g_rmdir (directory);
  return model;
}

static void
test_parameters (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (networks); i++)
    {
      g_autoptr (PsiModel) model = expand (&networks[i], 1);

      if (model->parameters != networks[i].parameters)
        g_error ("%s: %" G_GINT64_FORMAT " parameters for %" G_GINT64_FORMAT, networks[i].name, model->parameters,
                 networks[i].parameters);
    }
}

static const PsiLayerKind *
block_of (const PsiModel *model)
{
  return psi_model_kind (model, g_array_index (model->layers, PsiLayer, model->first_block).kind);
}

static guint
count_sums (const PsiModel *model, PsiPass pass)
{
  const GArray *segments = block_of (model)->segments[pass];
  guint n = 0;

  for (guint i = 0; i < segments->len; i++)
    n += g_array_index (segments, PsiSegment, i).comm == PSI_COMM_ALL_REDUCE;
  return n;
}

static const Network *
find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (networks); i++)
    if (g_str_equal (networks[i].name, name))
      return &networks[i];
  g_assert_not_reached ();
}

/* Halves side by side need one sum of the tensor-parallel group in each direction, one after the other two; with a norm
 * for each the backward has both their sums. */
static void
test_parallel (void)
{
  g_autoptr (PsiModel) serial = expand (find ("opt-6.7b"), 2), shared = expand (find ("gpt-j-6b"), 2),
                       beside = expand (find ("gpt-neox-20b"), 2);

  g_assert_cmpuint (count_sums (serial, PSI_PASS_FORWARD), ==, 2);
  g_assert_cmpuint (count_sums (serial, PSI_PASS_BACKWARD_INPUT), ==, 2);
  g_assert_cmpuint (count_sums (shared, PSI_PASS_FORWARD), ==, 1);
  g_assert_cmpuint (count_sums (shared, PSI_PASS_BACKWARD_INPUT), ==, 1);
  g_assert_cmpuint (count_sums (beside, PSI_PASS_FORWARD), ==, 1);
  g_assert_cmpuint (count_sums (beside, PSI_PASS_BACKWARD_INPUT), ==, 2);
}

/* What norms keep, 64 tokens, 16 bits, single operators: a shared one spares input and result; one behind a half adds
 * its input and fp32 copies; those of queries and keys their input. */
static void
test_norms (void)
{
  static const char shape[] = SHAPE (256, 2, 4, 512, 1000) KV (4) HEAD (64);
  static const struct
  {
    const char *type;
    gint64 more; /* than Llama's, in tokens x hidden x 2 bytes */
  } rows[] = { { "qwen3", 2 }, { "gemma2", 2 * 4 }, { "olmo2", 2 + 2 * 4 - 2 * 4 } };
  g_autofree char *base_text = g_strdup_printf ("'model_type':'llama',%s", shape);
  g_autoptr (PsiModel) base = expand (&(Network){ "base", base_text, 0 }, 1);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *text = g_strdup_printf ("'model_type':'%s',%s", rows[i].type, shape);
      g_autoptr (PsiModel) model = expand (&(Network){ rows[i].type, text, 0 }, 1);

      g_assert_cmpint (block_of (model)->saved_bytes - block_of (base)->saved_bytes, ==, rows[i].more * 64 * 256 * 2);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/workload/hf-models/parameters", test_parameters);
  g_test_add_func ("/workload/hf-models/parallel", test_parallel);
  g_test_add_func ("/workload/hf-models/norms", test_norms);
  return g_test_run ();
}
