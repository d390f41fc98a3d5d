/* SPDX-License-Identifier: MIT */
/* Hugging Face config.json -> dimensions. Knows the spellings of GPT-2, Llama, Mistral, Qwen2, Mixtral, DeepSeek,
 * BERT, T5 and ViT; nothing of how a model computes. */
#pragma once

#include <glib.h>

typedef struct
{
  char *name;   /* "gpt2" : the file's name or _name_or_path */
  char *family; /* gpt llama moe bert t5 vit mlp */
  gint64 layers, hidden, heads, kv_heads, head_dim, ffn, vocab, sequence;
  char *activation; /* gelu swiglu relu gated-gelu */
  char *norm;       /* layernorm rmsnorm */
  gboolean tied, qkv_bias, linear_bias;
  gint64 experts, experts_per_token, expert_ffn, shared_experts, first_dense_layers; /* moe */
  gint64 q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim,
      v_head_dim;                                   /* DeepSeek's latent attention; 0 = none */
  gint64 positions;                                 /* learned position embeddings, 0 = none */
  gint64 token_types;                               /* bert */
  gint64 decoder_layers, relative_buckets;          /* t5: layers counts the encoder's */
  gint64 decoder_sequence;                          /* t5: tokens of the decoder, 0 = sequence */
  gint64 image_size, patch_size, channels, classes; /* vit */
  gboolean pooler;                                  /* bert */
  gboolean router_bias;                             /* DeepSeek-V3: one correction for each expert beside the router */
} PsiModelDimensions;

/* Fields absent in the file take the defaults of that architecture's configuration class.
 * (transfer full); a missing or misspelt field is an error that names file and field. */
PsiModelDimensions *psi_hf_config_load (const char *file, GError **error);
PsiModelDimensions *psi_model_dimensions_copy (const PsiModelDimensions *dimensions);
void psi_model_dimensions_free (PsiModelDimensions *dimensions);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiModelDimensions, psi_model_dimensions_free)

#define PSI_HF_CONFIG_ERROR (psi_hf_config_error_quark ())
typedef enum
{
  PSI_HF_CONFIG_ERROR_READ, /* missing, or not JSON */
  PSI_HF_CONFIG_ERROR_FIELD /* a field missing, misspelt, of the wrong kind, or at odds with another */
} PsiHfConfigError;
GQuark psi_hf_config_error_quark (void);
