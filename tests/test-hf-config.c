/* SPDX-License-Identifier: MIT */
#include "hf-config.h"

#include <glib/gstdio.h>

/* Write `text` as NAME in a fresh directory and load it. */
static PsiModelDimensions *
load_named (const char *name, const char *text, GError **error)
{
  g_autofree char *directory = g_dir_make_tmp ("psisim-hf-XXXXXX", NULL);
  g_autofree char *file = g_build_filename (directory, name, NULL);
  PsiModelDimensions *dimensions;

  g_assert_true (g_file_set_contents (file, text, -1, NULL));
  dimensions = psi_hf_config_load (file, error);
  g_unlink (file);
  g_rmdir (directory);
  return dimensions;
}

static PsiModelDimensions *
load (const char *text)
{
  g_autoptr (GError) error = NULL;
  PsiModelDimensions *dimensions = load_named ("some.json", text, &error);

  g_assert_no_error (error);
  return dimensions;
}

static void
assert_fails (const char *text, const char *pattern)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiModelDimensions) dimensions = load_named ("bad.json", text, &error);

  g_assert_null (dimensions);
  g_assert_nonnull (error);
  g_assert_null (strchr (error->message, '\n'));
  if (!g_pattern_match_simple (pattern, error->message))
    g_error ("'%s' does not match '%s'", error->message, pattern);
}

#define LLAMA_SHAPE                                                                                                    \
  "'hidden_size':4096,'intermediate_size':11008,'num_hidden_layers':32,'num_attention_heads':32,'vocab_size':32000"
#define LLAMA "'model_type':'llama'," LLAMA_SHAPE

/* JSON with single quotes, for readability. (transfer full) */
static char *
json (const char *text)
{
  return g_strdelimit (g_strdup (text), "'", '"');
}

static PsiModelDimensions *
load_quoted (const char *text)
{
  g_autofree char *quoted = json (text);

  return load (quoted);
}

static void
assert_fails_quoted (const char *text, const char *pattern)
{
  g_autofree char *quoted = json (text);

  assert_fails (quoted, pattern);
}

static void
test_gpt2 (void)
{
  g_autoptr (PsiModelDimensions) null =
      load_quoted ("{'model_type':'gpt2','n_layer':48,'n_embd':1600,'n_head':25,'n_inner':null,'vocab_size':50257}");
  g_autoptr (PsiModelDimensions) absent =
      load_quoted ("{'architectures':['GPT2LMHeadModel'],'n_layer':2,'n_embd':64,'n_head':4,'vocab_size':100,"
                   "'n_positions':512,'tie_word_embeddings':false}");

  g_assert_cmpstr (null->family, ==, "gpt");
  g_assert_cmpint (null->ffn, ==, 6400);
  g_assert_cmpint (null->head_dim, ==, 64);
  g_assert_cmpint (null->positions, ==, 1024);
  g_assert_true (null->tied);
  g_assert_true (null->traits.qkv_bias && null->traits.mlp_bias);
  g_assert_cmpint (absent->ffn, ==, 256);
  g_assert_cmpint (absent->sequence, ==, 512);
  g_assert_false (absent->tied);
}

static void
test_llama (void)
{
  g_autoptr (PsiModelDimensions) plain = load_quoted ("{" LLAMA "}");
  g_autoptr (PsiModelDimensions) grouped = load_quoted ("{" LLAMA ",'num_key_value_heads':8,'head_dim':64,"
                                                        "'max_position_embeddings':8192,'attention_bias':true}");
  g_autoptr (PsiModelDimensions) null = load_quoted ("{" LLAMA ",'num_key_value_heads':null,'head_dim':null}");

  g_assert_cmpint (plain->kv_heads, ==, 32);
  g_assert_cmpint (plain->head_dim, ==, 128);
  g_assert_false (plain->tied);
  g_assert_false (plain->traits.qkv_bias);
  g_assert_cmpstr (plain->activation, ==, "swiglu");
  g_assert_cmpint (grouped->kv_heads, ==, 8);
  g_assert_cmpint (grouped->head_dim, ==, 64);
  g_assert_cmpint (grouped->sequence, ==, 8192);
  g_assert_true (grouped->traits.qkv_bias && grouped->traits.out_bias);
  g_assert_cmpint (null->kv_heads, ==, 32);
  g_assert_cmpint (null->head_dim, ==, 128);
}

static void
test_qwen_mistral (void)
{
  g_autoptr (PsiModelDimensions) qwen =
      load_quoted ("{'model_type':'qwen2','hidden_size':3584,'intermediate_size':18944,'num_hidden_layers':28,"
                   "'num_attention_heads':28,'num_key_value_heads':4,'vocab_size':152064}");
  g_autoptr (PsiModelDimensions) mistral =
      load_quoted ("{'model_type':'mistral','hidden_size':4096,'intermediate_size':14336,'num_hidden_layers':32,"
                   "'num_attention_heads':32,'vocab_size':32000}");

  g_assert_cmpstr (qwen->family, ==, "llama");
  g_assert_true (qwen->traits.qkv_bias);
  g_assert_false (qwen->traits.mlp_bias || qwen->traits.out_bias);
  g_assert_cmpint (qwen->vocab, ==, 152064);
  g_assert_cmpint (mistral->kv_heads, ==, 8);
}

static void
test_moe (void)
{
  g_autoptr (PsiModelDimensions) mixtral =
      load_quoted ("{'model_type':'mixtral','hidden_size':4096,'intermediate_size':14336,'num_hidden_layers':32,"
                   "'num_attention_heads':32,'num_key_value_heads':8,'vocab_size':32000,'num_local_experts':16}");
  g_autoptr (PsiModelDimensions) deepseek = load_quoted (
      "{'model_type':'deepseek_v2','hidden_size':2048,'intermediate_size':10944,'moe_intermediate_size':1408,"
      "'num_hidden_layers':27,'num_attention_heads':16,'n_routed_experts':64,'num_experts_per_tok':6,"
      "'n_shared_experts':2,'first_k_dense_replace':1,'q_lora_rank':null,'kv_lora_rank':512,'qk_nope_head_dim':128,"
      "'qk_rope_head_dim':64,'v_head_dim':128,'vocab_size':102400}");

  g_assert_cmpstr (mixtral->family, ==, "moe");
  g_assert_cmpint (mixtral->experts, ==, 16);
  g_assert_cmpint (mixtral->experts_per_token, ==, 2);
  g_assert_cmpint (mixtral->expert_ffn, ==, 14336);
  g_assert_cmpint (deepseek->experts, ==, 64);
  g_assert_cmpint (deepseek->expert_ffn, ==, 1408);
  g_assert_cmpint (deepseek->shared_experts, ==, 2);
  g_assert_cmpint (deepseek->first_dense_layers, ==, 1);
  g_assert_cmpint (deepseek->q_lora_rank, ==, 0);
  g_assert_cmpint (deepseek->head_dim, ==, 192);
  g_assert_false (deepseek->traits.router_bias);
}

static void
test_t5_bert_vit (void)
{
  g_autoptr (PsiModelDimensions) gated =
      load_quoted ("{'model_type':'t5','d_model':1024,'d_ff':2816,'d_kv':64,'num_heads':16,'num_layers':24,"
                   "'vocab_size':32128,'feed_forward_proj':'gated-gelu','tie_word_embeddings':false}");
  g_autoptr (PsiModelDimensions) wide =
      load_quoted ("{'model_type':'t5','d_model':1024,'d_ff':65536,'d_kv':128,'num_heads':128,'num_layers':24,"
                   "'num_decoder_layers':12,'vocab_size':32128}");
  g_autoptr (PsiModelDimensions) bert =
      load_quoted ("{'model_type':'bert','hidden_size':1024,'intermediate_size':4096,'num_hidden_layers':24,"
                   "'num_attention_heads':16,'vocab_size':30522}");
  g_autoptr (PsiModelDimensions) vit =
      load_quoted ("{'model_type':'vit','hidden_size':768,'intermediate_size':3072,'num_hidden_layers':12,"
                   "'num_attention_heads':12,'id2label':{'0':'a','1':'b','2':'c'},'image_size':384,'patch_size':32}");

  g_assert_cmpstr (gated->activation, ==, "gated-gelu");
  g_assert_cmpint (gated->decoder_layers, ==, 24);
  g_assert_false (gated->tied);
  g_assert_cmpint (wide->head_dim * wide->heads, ==, 16384);
  g_assert_cmpint (wide->decoder_layers, ==, 12);
  g_assert_cmpstr (wide->activation, ==, "relu");
  g_assert_true (wide->tied);
  g_assert_cmpint (bert->positions, ==, 512);
  g_assert_cmpint (bert->token_types, ==, 2);
  g_assert_true (bert->tied && bert->traits.pooler);
  g_assert_cmpint (vit->classes, ==, 3);
  g_assert_cmpint (vit->sequence, ==, 145);
}

static void
test_names (void)
{
  g_autofree char *inside = json ("{" LLAMA ",'_name_or_path':'meta-llama/Llama-2-7b-hf'}");
  g_autofree char *plain = json ("{" LLAMA "}");
  g_autoptr (PsiModelDimensions) first = load_named ("x.json", inside, NULL);
  g_autoptr (PsiModelDimensions) second = load_named ("my-model.json", plain, NULL);
  g_autoptr (PsiModelDimensions) third = load_named ("config.json", plain, NULL);

  g_assert_cmpstr (first->name, ==, "Llama-2-7b-hf");
  g_assert_cmpstr (second->name, ==, "my-model");
  g_assert_true (g_str_has_prefix (third->name, "psisim-hf-"));
}

/* A model that reads images too: its language model, and what is left out. */
static void
test_parts (void)
{
  g_autoptr (PsiModelDimensions) llava = load_quoted (
      "{'model_type':'llava','_name_or_path':'llava-hf/llava-1.5-7b-hf','tie_word_embeddings':true,'vision_config':{},"
      "'audio_config':{},'text_config':{'model_type':'llama','vocab_size':32064,'num_hidden_layers':16}}");
  g_autoptr (PsiModelDimensions) qwen = load_quoted ("{'model_type':'qwen2_vl','vision_config':{}," LLAMA_SHAPE "}");
  g_autoptr (PsiModelDimensions) alone = load_quoted ("{" LLAMA "}");

  g_assert_cmpstr (llava->name, ==, "llava-1.5-7b-hf");
  g_assert_cmpstr (llava->family, ==, "llama");
  g_assert_cmpint (llava->layers, ==, 16);
  g_assert_cmpint (llava->hidden, ==, 4096);
  g_assert_cmpint (llava->vocab, ==, 32064);
  g_assert_true (llava->tied);
  g_assert_cmpstr (llava->beside, ==, "vision_config and audio_config");
  g_assert_cmpstr (qwen->beside, ==, "vision_config");
  g_assert_true (qwen->traits.qkv_bias);
  g_assert_null (alone->beside);
}

static void
test_errors (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (psi_hf_config_load ("no/such/config.json", &error));
  g_assert_error (error, PSI_HF_CONFIG_ERROR, PSI_HF_CONFIG_ERROR_READ);
  assert_fails ("", "*bad.json: *");
  assert_fails ("{", "*bad.json: not JSON: *");
  assert_fails ("[1]", "*bad.json: not a model configuration*");
  assert_fails_quoted ("{}", "*field 'model_type' is missing (allowed: *");
  /* Near in spelling is not near in kind. */
  assert_fails_quoted ("{'model_type':'llava'}", "*model_type: 'llava' is unknown (allowed: gpt2 *");
  assert_fails_quoted ("{'model_type':'mllama','text_config':{'model_type':'mllama_text_model'}}",
                       "*bad.json: text_config: model_type: 'mllama_text_model' is unknown (allowed: gpt2 *");
  assert_fails_quoted ("{'model_type':'llava','text_config':{'model_type':'phi'}}",
                       "*bad.json: text_config: field 'num_hidden_layers' is missing, a 'phi' model needs it");
  assert_fails_quoted ("{'model_type':'wavenetwork'}", "*model_type: 'wavenetwork' is unknown (allowed: gpt2 *");
  assert_fails_quoted ("{'model_type':7}", "*model_type: '7' is not a text");
  assert_fails_quoted ("{'model_type':'gpt2','n_layer':12}", "*field 'n_embd' is missing*");
  assert_fails_quoted ("{'model_type':'llama','hidden_sise':4096,'num_hidden_layers':32}",
                       "*unknown field 'hidden_sise' (did you mean 'hidden_size'?)");
  assert_fails_quoted ("{" LLAMA ",'num_key_value_head':8}",
                       "*unknown field 'num_key_value_head' (did you mean 'num_key_value_heads'?)");
  assert_fails_quoted ("{" LLAMA ",'head_dim':'128'}", "*head_dim: '\"128\"' is not a whole number");
  assert_fails_quoted ("{" LLAMA ",'head_dim':1.5}", "*head_dim: '1.5' is not a whole number");
  assert_fails_quoted ("{" LLAMA ",'head_dim':-1}", "*head_dim: '-1' is out of range*");
  assert_fails_quoted ("{" LLAMA ",'num_key_value_heads':5}", "*num_key_value_heads: '5' does not divide the 32*");
  assert_fails_quoted ("{" LLAMA ",'tie_word_embeddings':1}", "*tie_word_embeddings: '1' is neither true nor false");
  assert_fails_quoted ("{" LLAMA ",'hidden_act':'mish'}", "*hidden_act: 'mish' is unknown (allowed: silu *");
  assert_fails_quoted ("{'model_type':'qwen3_moe','decoder_sparse_step':2," LLAMA_SHAPE "}",
                       "*decoder_sparse_step: '2' is a variant that psisim does not know");
  assert_fails_quoted ("{'model_type':'qwen2_moe','mlp_only_layers':3," LLAMA_SHAPE "}",
                       "*mlp_only_layers: '3' is not a list");
  assert_fails_quoted ("{'model_type':'opt','ffn_dim':4,'word_embed_proj_dim':512," LLAMA_SHAPE "}",
                       "*word_embed_proj_dim: only the hidden size, 4096, is known");
  assert_fails_quoted ("{'model_type':'opt','ffn_dim':4,'word_embed_proj_dim':[]," LLAMA_SHAPE "}",
                       "*word_embed_proj_dim: '?]' is of a type that psisim does not know");
  assert_fails_quoted ("{'model_type':'falcon','multi_query':'yes'," LLAMA_SHAPE "}",
                       "*multi_query: '\"yes\"' is of a type that psisim does not know");
  assert_fails_quoted ("{'model_type':'falcon','num_ln_in_parallel_attn':{}," LLAMA_SHAPE "}",
                       "*num_ln_in_parallel_attn: '{}' is of a type that psisim does not know");
  assert_fails_quoted ("{'model_type':'mpt','n_layers':1,'d_model':64,'n_heads':4,'vocab_size':9,'attn_config':"
                       "{'alibi':'yes'}}",
                       "*attn_config: '{\"alibi\":\"yes\"}' is of a type that psisim does not know");
  assert_fails_quoted ("{'model_type':'gpt2','n_layer':1,'n_embd':100,'n_head':3,'vocab_size':9}",
                       "*hidden size 100 is not a multiple of the 3 attention heads*");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/traces/hf-config/gpt2", test_gpt2);
  g_test_add_func ("/traces/hf-config/llama", test_llama);
  g_test_add_func ("/traces/hf-config/qwen-mistral", test_qwen_mistral);
  g_test_add_func ("/traces/hf-config/moe", test_moe);
  g_test_add_func ("/traces/hf-config/t5-bert-vit", test_t5_bert_vit);
  g_test_add_func ("/traces/hf-config/names", test_names);
  g_test_add_func ("/traces/hf-config/parts", test_parts);
  g_test_add_func ("/traces/hf-config/errors", test_errors);
  return g_test_run ();
}
