/* SPDX-License-Identifier: MIT */
/* The architectures of Hugging Face's transformers that psisim reads: fields, defaults, and what no field says.
 *
 * Source: configuration_*.py (names and defaults) and modeling_*.py (biases, norms, tying) of the transformers library.
 * To add an architecture: a table of fields, unless another one's serves, and a row in psi_hf_architectures[].
 * Limits: text models and ViT only, of a model that reads images too its text part; rope scaling, sliding windows,
 * logit caps and multi-token prediction change neither a shape nor a count and are not read; windows therefore count
 * as full attention. */
#include "hf-architectures.h"

#include <stddef.h>

#define REQUIRED PSI_HF_REQUIRED

/* clang-format off */
#define COUNT(key, member, fallback, minimum) \
  { key, PSI_HF_COUNT, offsetof (PsiModelDimensions, member), fallback, minimum, NULL }
#define COUNT_OR(key, alias, member, fallback, minimum) \
  { key, PSI_HF_COUNT, offsetof (PsiModelDimensions, member), fallback, minimum, alias }
#define FLAG(key, member, fallback) { key, PSI_HF_BOOL, offsetof (PsiModelDimensions, member), fallback, 0, NULL }
#define LENGTH(key, member) { key, PSI_HF_LENGTH, offsetof (PsiModelDimensions, member), 0, 0, NULL }
#define ONE(key, only) { key, PSI_HF_ONE, 0, only, 0, NULL }

static const PsiHfField gpt2_fields[] = {
  COUNT ("n_layer", layers, REQUIRED, 1),
  COUNT ("n_embd", hidden, REQUIRED, 1),
  COUNT ("n_head", heads, REQUIRED, 1),
  COUNT ("n_inner", ffn, 0, 1), /* absent or null: 4 n_embd */
  COUNT ("vocab_size", vocab, REQUIRED, 1),
  COUNT ("n_positions", positions, 1024, 1),
  FLAG ("tie_word_embeddings", tied, TRUE),
};
static const PsiHfField gptj_fields[] = {
  COUNT ("n_layer", layers, REQUIRED, 1),
  COUNT ("n_embd", hidden, REQUIRED, 1),
  COUNT ("n_head", heads, REQUIRED, 1),
  COUNT ("n_inner", ffn, 0, 1),
  COUNT ("vocab_size", vocab, REQUIRED, 1),
  COUNT ("n_positions", sequence, 2048, 1),
  FLAG ("tie_word_embeddings", tied, FALSE),
};
static const PsiHfField bloom_fields[] = {
  COUNT_OR ("n_layer", "num_hidden_layers", layers, REQUIRED, 1),
  COUNT_OR ("hidden_size", "n_embed", hidden, REQUIRED, 1),
  COUNT_OR ("n_head", "num_attention_heads", heads, REQUIRED, 1),
  COUNT ("vocab_size", vocab, REQUIRED, 1),
  COUNT ("seq_length", sequence, 2048, 1),
  FLAG ("tie_word_embeddings", tied, TRUE),
};
static const PsiHfField opt_fields[] = {
  COUNT ("num_hidden_layers", layers, REQUIRED, 1),
  COUNT ("hidden_size", hidden, REQUIRED, 1),
  COUNT ("num_attention_heads", heads, REQUIRED, 1),
  COUNT ("ffn_dim", ffn, REQUIRED, 1),
  COUNT ("vocab_size", vocab, REQUIRED, 1),
  COUNT ("max_position_embeddings", sequence, 2048, 1),
  ONE ("do_layer_norm_before", TRUE),
  FLAG ("tie_word_embeddings", tied, TRUE),
};
static const PsiHfField neox_fields[] = {
  COUNT ("num_hidden_layers", layers, REQUIRED, 1),
  COUNT ("hidden_size", hidden, REQUIRED, 1),
  COUNT ("num_attention_heads", heads, REQUIRED, 1),
  COUNT ("intermediate_size", ffn, REQUIRED, 1),
  COUNT ("vocab_size", vocab, REQUIRED, 1),
  COUNT ("max_position_embeddings", sequence, 2048, 1),
  FLAG ("use_parallel_residual", traits.parallel, TRUE),
  FLAG ("attention_bias", traits.qkv_bias, TRUE),
  FLAG ("tie_word_embeddings", tied, FALSE),
};
static const PsiHfField falcon_fields[] = {
  COUNT_OR ("num_hidden_layers", "n_layer", layers, REQUIRED, 1),
  COUNT ("hidden_size", hidden, REQUIRED, 1),
  COUNT_OR ("num_attention_heads", "n_head", heads, REQUIRED, 1),
  COUNT_OR ("num_kv_heads", "n_head_kv", kv_heads, 0, 1),
  COUNT ("ffn_hidden_size", ffn, 0, 1),
  COUNT ("vocab_size", vocab, REQUIRED, 1),
  COUNT ("max_position_embeddings", sequence, 2048, 1),
  FLAG ("bias", traits.mlp_bias, FALSE),
  FLAG ("alibi", traits.alibi, FALSE),
  FLAG ("parallel_attn", traits.parallel, TRUE),
  FLAG ("tie_word_embeddings", tied, TRUE),
};
static const PsiHfField mpt_fields[] = {
  COUNT ("n_layers", layers, REQUIRED, 1),
  COUNT ("d_model", hidden, REQUIRED, 1),
  COUNT ("n_heads", heads, REQUIRED, 1),
  COUNT ("vocab_size", vocab, REQUIRED, 1),
  COUNT ("max_seq_len", sequence, 2048, 1),
  ONE ("expansion_ratio", 4),
  ONE ("no_bias", TRUE),
  FLAG ("tie_word_embeddings", tied, TRUE),
};

#define LLAMA_FIELDS(kv_heads_default, head_dim_default, positions_default, tied_default) \
  COUNT ("num_hidden_layers", layers, REQUIRED, 1), COUNT ("hidden_size", hidden, REQUIRED, 1), \
  COUNT ("num_attention_heads", heads, REQUIRED, 1), COUNT ("intermediate_size", ffn, REQUIRED, 1), \
  COUNT ("vocab_size", vocab, REQUIRED, 1), COUNT ("num_key_value_heads", kv_heads, kv_heads_default, 1), \
  COUNT ("head_dim", head_dim, head_dim_default, 1), \
  COUNT ("max_position_embeddings", sequence, positions_default, 1), FLAG ("tie_word_embeddings", tied, tied_default)
#define ATTENTION_BIAS(default) \
  FLAG ("attention_bias", traits.qkv_bias, default), FLAG ("attention_bias", traits.out_bias, default)

static const PsiHfField llama_fields[] = {
  LLAMA_FIELDS (0, 0, 2048, FALSE), ATTENTION_BIAS (FALSE), FLAG ("mlp_bias", traits.mlp_bias, FALSE),
};
static const PsiHfField mistral_fields[] = { LLAMA_FIELDS (8, 0, 131072, FALSE) };
static const PsiHfField qwen2_fields[] = { LLAMA_FIELDS (0, 0, 32768, FALSE) };
static const PsiHfField qwen3_fields[] = { LLAMA_FIELDS (0, 128, 32768, FALSE), ATTENTION_BIAS (FALSE) };
static const PsiHfField gemma_fields[] = { LLAMA_FIELDS (0, 256, 8192, TRUE), ATTENTION_BIAS (FALSE) };
static const PsiHfField gemma3_fields[] = { LLAMA_FIELDS (4, 256, 131072, TRUE), ATTENTION_BIAS (FALSE) };
static const PsiHfField phi3_fields[] = { LLAMA_FIELDS (0, 0, 4096, FALSE) };
static const PsiHfField glm4_fields[] = {
  LLAMA_FIELDS (2, 128, 131072, FALSE), FLAG ("attention_bias", traits.qkv_bias, FALSE),
};
static const PsiHfField cohere_fields[] = {
  LLAMA_FIELDS (0, 0, 8192, TRUE), ATTENTION_BIAS (FALSE), ONE ("use_qk_norm", FALSE),
};
static const PsiHfField phi_fields[] = {
  LLAMA_FIELDS (0, 0, 2048, FALSE), ONE ("qk_layernorm", FALSE),
};
static const PsiHfField stablelm_fields[] = {
  LLAMA_FIELDS (0, 0, 4096, FALSE),
  FLAG ("use_qkv_bias", traits.qkv_bias, FALSE),
  ONE ("qk_layernorm", FALSE),
  ONE ("use_parallel_residual", FALSE),
};
static const PsiHfField starcoder2_fields[] = {
  LLAMA_FIELDS (2, 0, 4096, TRUE),
  FLAG ("use_bias", traits.qkv_bias, TRUE),
  FLAG ("use_bias", traits.out_bias, TRUE),
  FLAG ("use_bias", traits.mlp_bias, TRUE),
};
static const PsiHfField mixtral_fields[] = {
  LLAMA_FIELDS (8, 0, 131072, FALSE),
  COUNT ("num_local_experts", experts, 8, 1),
  COUNT ("num_experts_per_tok", experts_per_token, 2, 1),
};
static const PsiHfField gpt_oss_fields[] = {
  LLAMA_FIELDS (8, 64, 131072, FALSE),
  ATTENTION_BIAS (TRUE),
  COUNT ("num_local_experts", experts, 128, 1),
  COUNT_OR ("num_experts_per_tok", "experts_per_token", experts_per_token, 4, 1),
};
static const PsiHfField llama4_fields[] = {
  LLAMA_FIELDS (8, 128, 131072, FALSE),
  ATTENTION_BIAS (FALSE),
  COUNT ("intermediate_size", expert_ffn, 8192, 1),
  COUNT ("intermediate_size", shared_ffn, 8192, 1),
  COUNT ("intermediate_size_mlp", ffn, 16384, 1),
  COUNT ("num_local_experts", experts, 16, 1),
  COUNT ("num_experts_per_tok", experts_per_token, 1, 1),
};
static const PsiHfField qwen2_moe_fields[] = {
  LLAMA_FIELDS (16, 0, 32768, FALSE),
  COUNT ("num_experts", experts, 60, 1),
  COUNT ("num_experts_per_tok", experts_per_token, 4, 1),
  COUNT ("moe_intermediate_size", expert_ffn, 1408, 1),
  COUNT ("shared_expert_intermediate_size", shared_ffn, 5632, 1),
  LENGTH ("mlp_only_layers", first_dense_layers),
  ONE ("decoder_sparse_step", 1),
};
static const PsiHfField qwen3_moe_fields[] = {
  LLAMA_FIELDS (4, 128, 32768, FALSE),
  ATTENTION_BIAS (FALSE),
  COUNT ("num_experts", experts, 128, 1),
  COUNT ("num_experts_per_tok", experts_per_token, 8, 1),
  COUNT ("moe_intermediate_size", expert_ffn, 768, 1),
  LENGTH ("mlp_only_layers", first_dense_layers),
  ONE ("decoder_sparse_step", 1),
};
static const PsiHfField deepseek_fields[] = {
  COUNT ("num_hidden_layers", layers, REQUIRED, 1),
  COUNT ("hidden_size", hidden, REQUIRED, 1),
  COUNT ("num_attention_heads", heads, REQUIRED, 1),
  COUNT ("num_key_value_heads", kv_heads, 0, 1),
  COUNT ("intermediate_size", ffn, REQUIRED, 1),
  COUNT ("moe_intermediate_size", expert_ffn, REQUIRED, 1),
  COUNT ("n_routed_experts", experts, REQUIRED, 1),
  COUNT ("num_experts_per_tok", experts_per_token, REQUIRED, 1),
  COUNT ("n_shared_experts", shared_experts, 0, 0),
  COUNT ("first_k_dense_replace", first_dense_layers, 0, 0),
  COUNT ("q_lora_rank", q_lora_rank, 0, 0), /* null: the queries are one product (V2-Lite) */
  COUNT ("kv_lora_rank", kv_lora_rank, REQUIRED, 1),
  COUNT ("qk_nope_head_dim", qk_nope_head_dim, REQUIRED, 1),
  COUNT ("qk_rope_head_dim", qk_rope_head_dim, REQUIRED, 1),
  COUNT ("v_head_dim", v_head_dim, REQUIRED, 1),
  COUNT ("max_position_embeddings", sequence, 2048, 1),
  COUNT ("vocab_size", vocab, REQUIRED, 1),
  FLAG ("tie_word_embeddings", tied, FALSE),
};
static const PsiHfField bert_fields[] = {
  COUNT ("num_hidden_layers", layers, REQUIRED, 1),
  COUNT ("hidden_size", hidden, REQUIRED, 1),
  COUNT ("num_attention_heads", heads, REQUIRED, 1),
  COUNT ("intermediate_size", ffn, REQUIRED, 1),
  COUNT ("vocab_size", vocab, REQUIRED, 1),
  COUNT ("max_position_embeddings", positions, 512, 1),
  COUNT ("type_vocab_size", token_types, 2, 0),
  FLAG ("tie_word_embeddings", tied, TRUE),
};
static const PsiHfField t5_fields[] = {
  COUNT ("num_layers", layers, REQUIRED, 1),
  COUNT ("num_decoder_layers", decoder_layers, 0, 1), /* absent or null: num_layers */
  COUNT ("d_model", hidden, REQUIRED, 1),
  COUNT ("num_heads", heads, REQUIRED, 1),
  COUNT ("d_kv", head_dim, REQUIRED, 1),
  COUNT ("d_ff", ffn, REQUIRED, 1),
  COUNT ("vocab_size", vocab, REQUIRED, 1),
  COUNT ("n_positions", sequence, 512, 1),
  COUNT ("relative_attention_num_buckets", relative_buckets, 32, 0),
  FLAG ("tie_word_embeddings", tied, TRUE),
};
static const PsiHfField vit_fields[] = {
  COUNT ("num_hidden_layers", layers, REQUIRED, 1),
  COUNT ("hidden_size", hidden, REQUIRED, 1),
  COUNT ("num_attention_heads", heads, REQUIRED, 1),
  COUNT ("intermediate_size", ffn, REQUIRED, 1),
  COUNT ("image_size", image_size, 224, 1),
  COUNT ("patch_size", patch_size, 16, 1),
  COUNT ("num_channels", channels, 3, 1),
  COUNT ("num_labels", classes, 0, 1),
  FLAG ("qkv_bias", traits.qkv_bias, TRUE),
};

static const char *const plain[] = {
  "gelu", "gelu", "gelu_new", "gelu", "gelu_fast", "gelu", "gelu_pytorch_tanh", "gelu", "quick_gelu", "gelu",
  "relu", "relu", NULL
};
static const char *const gated[] = {
  "silu", "swiglu", "swish", "swiglu", "gelu", "gated-gelu", "gelu_new", "gated-gelu", "gelu_pytorch_tanh",
  "gated-gelu", NULL
};
static const char *const t5_words[] = {
  "relu", "relu", "gelu", "gelu", "gated-gelu", "gated-gelu", "gated-silu", "swiglu", NULL
};

/* The truth value or whole number of a member, `fallback` if it is absent or null. FALSE: it is of another type. */
static gboolean
get_value (JsonObject *object, const char *key, GType type, gint64 fallback, gint64 *ret_value)
{
  JsonNode *node = json_object_get_member (object, key);

  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    *ret_value = fallback;
  else if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != type)
    return FALSE;
  else
    *ret_value = type == G_TYPE_BOOLEAN ? json_node_get_boolean (node) : json_node_get_int (node);
  return TRUE;
}

/* OPT looks positions up two rows further down. */
static const char *
adjust_opt (PsiModelDimensions *d, JsonObject *object)
{
  gint64 width;

  d->positions = d->sequence + 2;
  return get_value (object, "word_embed_proj_dim", G_TYPE_INT64, d->hidden, &width) ? NULL : "word_embed_proj_dim";
}

/* multi_query: one head of keys; the new decoder has groups, and two norms beside each other. */
static const char *
adjust_falcon (PsiModelDimensions *d, JsonObject *object)
{
  gint64 grouped, single, norms;

  if (!get_value (object, "new_decoder_architecture", G_TYPE_BOOLEAN, FALSE, &grouped))
    return "new_decoder_architecture";
  if (!get_value (object, "multi_query", G_TYPE_BOOLEAN, TRUE, &single))
    return "multi_query";
  if (!get_value (object, "num_ln_in_parallel_attn", G_TYPE_INT64, grouped ? 2 : 1, &norms))
    return "num_ln_in_parallel_attn";
  if (!grouped)
    d->kv_heads = single ? 1 : d->heads;
  d->traits.parallel = d->traits.parallel || grouped;
  d->traits.qkv_bias = d->traits.out_bias = d->traits.mlp_bias;
  d->traits.norms = d->traits.parallel && norms == 1 ? PSI_NORMS_SHARED : PSI_NORMS_BEFORE;
  return NULL;
}

/* Learned positions unless attn_config says alibi. */
static const char *
adjust_mpt (PsiModelDimensions *d, JsonObject *object)
{
  JsonNode *node = json_object_get_member (object, "attn_config");
  gboolean is_there = node != NULL && !JSON_NODE_HOLDS_NULL (node);
  gint64 alibi = FALSE;

  if (is_there && !JSON_NODE_HOLDS_OBJECT (node))
    return "attn_config";
  if (is_there && !get_value (json_node_get_object (node), "alibi", G_TYPE_BOOLEAN, FALSE, &alibi))
    return "attn_config";
  d->traits.alibi = alibi != FALSE;
  d->positions = d->traits.alibi ? 0 : d->sequence;
  return NULL;
}

/* Every n-th layer has experts; those without come first here, which changes no sum. */
static const char *
adjust_llama4 (PsiModelDimensions *d, JsonObject *object)
{
  gint64 every;

  if (!get_value (object, "interleave_moe_layer_step", G_TYPE_INT64, 1, &every) || every < 1)
    return "interleave_moe_layer_step";
  d->first_dense_layers = d->layers - d->layers / every;
  d->shared_experts = 1;
  return NULL;
}

#define SIZES(vocab, hidden, ffn, layers, heads) \
  { \
    { "vocab_size", vocab }, { "hidden_size", hidden }, { "intermediate_size", ffn }, \
    { "num_hidden_layers", layers }, { "num_attention_heads", heads }, { NULL, 0 } \
  }
static const PsiHfClassDefault llama_class[] = SIZES (32000, 4096, 11008, 32, 32);
static const PsiHfClassDefault mistral_class[] = SIZES (32000, 4096, 14336, 32, 32);
static const PsiHfClassDefault qwen2_class[] = SIZES (151936, 4096, 22016, 32, 32);
static const PsiHfClassDefault gemma_class[] = SIZES (256000, 3072, 24576, 28, 16);
static const PsiHfClassDefault gemma3_class[] = SIZES (262208, 2304, 9216, 26, 8);
static const PsiHfClassDefault llama4_class[] = SIZES (202048, 5120, 8192, 48, 40);

#define FIELDS(table) .fields = table, .n_fields = G_N_ELEMENTS (table)
#define WORDS(key, fallback, table) \
  .activation_key = key, .activation_fallback = fallback, .activations = table
#define SILU WORDS ("hidden_act", "silu", gated)
#define GELU WORDS ("hidden_act", "gelu", plain)
#define ALL_BIASES .qkv_bias = TRUE, .out_bias = TRUE, .mlp_bias = TRUE

const PsiHfArchitecture psi_hf_architectures[] = {
  { "gpt2", "GPT2", "gpt", "layernorm", WORDS ("activation_function", "gelu_new", plain), FIELDS (gpt2_fields),
    .traits = { ALL_BIASES } },
  { "gptj", "GPTJ", "gpt", "layernorm", WORDS ("activation_function", "gelu_new", plain), FIELDS (gptj_fields),
    .traits = { .mlp_bias = TRUE, .head_bias = TRUE, .parallel = TRUE, .norms = PSI_NORMS_SHARED } },
  { "gpt_neox", "GPTNeoX", "gpt", "layernorm", GELU, FIELDS (neox_fields), .traits = { ALL_BIASES } },
  { "opt", "OPT", "gpt", "layernorm", WORDS ("activation_function", "relu", plain), FIELDS (opt_fields),
    .traits = { ALL_BIASES }, .adjust = adjust_opt },
  { "bloom", "Bloom", "gpt", "layernorm", GELU, FIELDS (bloom_fields),
    .traits = { ALL_BIASES, .alibi = TRUE, .embedding_norm = TRUE } },
  { "falcon", "Falcon", "gpt", "layernorm", WORDS ("activation", "gelu", plain), FIELDS (falcon_fields),
    .adjust = adjust_falcon },
  { "mpt", "MPT", "gpt", "layernorm", GELU, FIELDS (mpt_fields), .traits = { .bare_norms = TRUE },
    .adjust = adjust_mpt },
  { "phi", "PhiFor", "gpt", "layernorm", WORDS ("hidden_act", "gelu_new", plain), FIELDS (phi_fields),
    .traits = { ALL_BIASES, .head_bias = TRUE, .parallel = TRUE, .norms = PSI_NORMS_SHARED } },
  { "starcoder2", "Starcoder2", "gpt", "layernorm", WORDS ("hidden_act", "gelu_pytorch_tanh", plain),
    FIELDS (starcoder2_fields) },
  { "llama", "Llama", "llama", "rmsnorm", SILU, FIELDS (llama_fields), .class_defaults = llama_class },
  { "mistral", "Mistral", "llama", "rmsnorm", SILU, FIELDS (mistral_fields), .class_defaults = mistral_class },
  { "qwen2", "Qwen2For", "llama", "rmsnorm", SILU, FIELDS (qwen2_fields), .traits = { .qkv_bias = TRUE },
    .class_defaults = qwen2_class },
  { "qwen2_vl", "Qwen2VL", "llama", "rmsnorm", SILU, FIELDS (qwen2_fields), .traits = { .qkv_bias = TRUE } },
  { "qwen2_5_vl", "Qwen2_5_VL", "llama", "rmsnorm", SILU, FIELDS (qwen2_fields), .traits = { .qkv_bias = TRUE } },
  { "qwen3", "Qwen3For", "llama", "rmsnorm", SILU, FIELDS (qwen3_fields), .traits = { .qk_norm = PSI_QK_NORM_HEAD } },
  { "qwen3_vl", "Qwen3VLFor", "llama", "rmsnorm", SILU, FIELDS (qwen3_fields),
    .traits = { .qk_norm = PSI_QK_NORM_HEAD } },
  { "gemma", "GemmaFor", "llama", "rmsnorm", WORDS ("hidden_act", "gelu_pytorch_tanh", gated), FIELDS (gemma_fields),
    .class_defaults = gemma_class },
  { "gemma2", "Gemma2", "llama", "rmsnorm", WORDS ("hidden_activation", "gelu_pytorch_tanh", gated),
    FIELDS (gemma_fields), .traits = { .norms = PSI_NORMS_AROUND } },
  { "gemma3_text", "Gemma3ForCausalLM", "llama", "rmsnorm", WORDS ("hidden_activation", "gelu_pytorch_tanh", gated),
    FIELDS (gemma3_fields), .traits = { .norms = PSI_NORMS_AROUND, .qk_norm = PSI_QK_NORM_HEAD },
    .class_defaults = gemma3_class },
  { "phi3", "Phi3For", "llama", "rmsnorm", SILU, FIELDS (phi3_fields) },
  { "glm4", "Glm4For", "llama", "rmsnorm", SILU, FIELDS (glm4_fields), .traits = { .norms = PSI_NORMS_AROUND } },
  { "olmo2", "Olmo2", "llama", "rmsnorm", SILU, FIELDS (llama_fields),
    .traits = { .norms = PSI_NORMS_AFTER, .qk_norm = PSI_QK_NORM_WIDTH } },
  { "granite", "GraniteFor", "llama", "rmsnorm", SILU, FIELDS (llama_fields) },
  { "smollm3", "SmolLM3", "llama", "rmsnorm", SILU, FIELDS (llama_fields) },
  { "stablelm", "StableLm", "llama", "layernorm", SILU, FIELDS (stablelm_fields) },
  { "cohere", "CohereFor", "llama", "layernorm", SILU, FIELDS (cohere_fields),
    .traits = { .bare_norms = TRUE, .parallel = TRUE, .norms = PSI_NORMS_SHARED } },
  { "mixtral", "Mixtral", "moe", "rmsnorm", SILU, FIELDS (mixtral_fields) },
  { "qwen2_moe", "Qwen2Moe", "moe", "rmsnorm", SILU, FIELDS (qwen2_moe_fields),
    .traits = { .qkv_bias = TRUE, .shared_gate = TRUE } },
  { "qwen3_moe", "Qwen3Moe", "moe", "rmsnorm", SILU, FIELDS (qwen3_moe_fields),
    .traits = { .qk_norm = PSI_QK_NORM_HEAD } },
  { "qwen3_vl_moe", "Qwen3VLMoe", "moe", "rmsnorm", SILU, FIELDS (qwen3_moe_fields),
    .traits = { .qk_norm = PSI_QK_NORM_HEAD } },
  { "llama4_text", "Llama4ForCausalLM", "moe", "rmsnorm", SILU, FIELDS (llama4_fields), .adjust = adjust_llama4,
    .class_defaults = llama4_class },
  { "gpt_oss", "GptOss", "moe", "rmsnorm", SILU, FIELDS (gpt_oss_fields),
    .traits = { .router_bias = TRUE, .expert_bias = TRUE, .sinks = TRUE } },
  { "deepseek_v2", "DeepseekV2", "moe", "rmsnorm", SILU, FIELDS (deepseek_fields) },
  { "deepseek_v3", "DeepseekV3", "moe", "rmsnorm", SILU, FIELDS (deepseek_fields), .traits = { .router_bias = TRUE } },
  { "kimi_k2", "KimiK2", "moe", "rmsnorm", SILU, FIELDS (deepseek_fields), .traits = { .router_bias = TRUE } },
  { "bert", "Bert", "bert", "layernorm", GELU, FIELDS (bert_fields), .traits = { ALL_BIASES, .pooler = TRUE } },
  { "roberta", "Roberta", "bert", "layernorm", GELU, FIELDS (bert_fields), .traits = { ALL_BIASES, .pooler = TRUE } },
  { "xlm-roberta", "XLMRoberta", "bert", "layernorm", GELU, FIELDS (bert_fields),
    .traits = { ALL_BIASES, .pooler = TRUE } },
  { "t5", "T5", "t5", "rmsnorm", WORDS ("feed_forward_proj", "relu", t5_words), FIELDS (t5_fields) },
  { "mt5", "MT5", "t5", "rmsnorm", WORDS ("feed_forward_proj", "gated-gelu", t5_words), FIELDS (t5_fields) },
  { "vit", "ViT", "vit", "layernorm", GELU, FIELDS (vit_fields), .traits = { ALL_BIASES } },
};
/* clang-format on */
const guint psi_hf_n_architectures = G_N_ELEMENTS (psi_hf_architectures);
