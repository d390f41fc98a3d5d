/* SPDX-License-Identifier: MIT */
/* Hugging Face config.json -> dimensions. Knows how each architecture spells them (hf-architectures.c) and how its
 * blocks are put together; nothing of what they cost. */
#pragma once

#include <glib.h>

/* Where the norms of a block stand. */
typedef enum
{
  PSI_NORMS_BEFORE, /* one before attention, one before the feed-forward */
  PSI_NORMS_SHARED, /* one before both, which run side by side */
  PSI_NORMS_AROUND, /* before and after each */
  PSI_NORMS_AFTER   /* after each, before the sum */
} PsiNorms;

/* Norms of queries and keys: none, over each head with shared weights, over all heads together. */
typedef enum
{
  PSI_QK_NORM_NONE,
  PSI_QK_NORM_HEAD,
  PSI_QK_NORM_WIDTH
} PsiQkNorm;

/* How the blocks of an architecture differ from those of its family's first member. */
typedef struct
{
  gboolean qkv_bias, out_bias, mlp_bias, head_bias; /* of attention's products, the feed-forward, the logits */
  PsiNorms norms;
  PsiQkNorm qk_norm;
  gboolean bare_norms;     /* layer norms without bias */
  gboolean parallel;       /* attention and feed-forward read the same input and are summed together */
  gboolean alibi;          /* neither learned nor rotary positions */
  gboolean embedding_norm; /* BLOOM */
  gboolean pooler;         /* bert */
  gboolean router_bias;    /* one number for each expert beside the router: DeepSeek-V3, gpt-oss */
  gboolean expert_bias;    /* biases inside the experts: gpt-oss */
  gboolean shared_gate;    /* a gate before the shared expert: Qwen2-MoE */
  gboolean sinks;          /* one learned logit for each head: gpt-oss */
} PsiModelTraits;

typedef struct
{
  char *name;   /* "gpt2" : the file's name or _name_or_path */
  char *beside; /* "vision_config and audio_config": parts of the file's model that are not read; NULL: none */
  char *family; /* gpt llama moe bert t5 vit mlp */
  gint64 layers, hidden, heads, kv_heads, head_dim, ffn, vocab, sequence;
  char *activation; /* gelu swiglu relu gated-gelu */
  char *norm;       /* layernorm rmsnorm */
  gboolean tied;
  PsiModelTraits traits;
  gint64 experts, experts_per_token, expert_ffn, first_dense_layers; /* moe */
  gint64 shared_experts, shared_ffn; /* experts of every token, and their width together */
  gint64 q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim,
      v_head_dim;                                   /* DeepSeek's latent attention; 0 = none */
  gint64 positions;                                 /* learned position embeddings, 0 = none */
  gint64 token_types;                               /* bert */
  gint64 decoder_layers, relative_buckets;          /* t5: layers counts the encoder's */
  gint64 decoder_sequence;                          /* t5: tokens of the decoder, 0 = sequence */
  gint64 image_size, patch_size, channels, classes; /* vit */
} PsiModelDimensions;

/* Of a model that reads more than text, the language model: `text_config`. Fields absent in the file take the defaults
 * of that architecture's configuration class. (transfer full); a missing or misspelt field is an error that names file
 * and field. */
PsiModelDimensions *psi_hf_config_load (const char *file, GError **error);
void psi_model_dimensions_free (PsiModelDimensions *dimensions);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiModelDimensions, psi_model_dimensions_free)

#define PSI_HF_CONFIG_ERROR (psi_hf_config_error_quark ())
typedef enum
{
  PSI_HF_CONFIG_ERROR_READ, /* missing, or not JSON */
  PSI_HF_CONFIG_ERROR_FIELD /* a field missing, misspelt, of the wrong kind, or at odds with another */
} PsiHfConfigError;
GQuark psi_hf_config_error_quark (void);
