/* SPDX-License-Identifier: MIT */
#include "dimensions.h"

#include "workload.h"

#include <string.h>

#define MOST 4e18 /* bytes, elements: what still fits 64 bits */

/* What a family is unless the user says otherwise. */
typedef struct
{
  const char *family, *activation, *norm;
  gboolean qkv_bias, linear_bias, tied, learned_positions, pooler;
  gint64 vocab, sequence;
} FamilyDefaults;

static const FamilyDefaults family_defaults[] = {
  { "gpt", "gelu", "layernorm", TRUE, TRUE, TRUE, TRUE, FALSE, 50257, 2048 },
  { "llama", "swiglu", "rmsnorm", FALSE, FALSE, FALSE, FALSE, FALSE, 32000, 2048 },
  { "moe", "swiglu", "rmsnorm", FALSE, FALSE, FALSE, FALSE, FALSE, 32000, 2048 },
  { "bert", "gelu", "layernorm", TRUE, TRUE, TRUE, TRUE, TRUE, 30522, 512 },
  { "t5", "relu", "rmsnorm", FALSE, FALSE, TRUE, FALSE, FALSE, 32128, 512 },
  { "vit", "gelu", "layernorm", TRUE, TRUE, FALSE, TRUE, FALSE, 0, 0 },
  { "mlp", "relu", "layernorm", FALSE, FALSE, FALSE, FALSE, FALSE, 0, 1 },
};

static const PsiKeyId expert_keys[] = {
  PSI_KEY_EXPERTS, PSI_KEY_EXPERTS_PER_TOKEN, PSI_KEY_SHARED_FFN, PSI_KEY_DENSE_LAYERS, PSI_KEY_DENSE_FFN,
};

gboolean
psi_dimensions_refuse_keys (const PsiSettings *settings, const PsiKeyId *keys, gsize n_keys, const char *why,
                            GError **error)
{
  for (gsize i = 0; i < n_keys; i++)
    if (psi_settings_has (settings, keys[i]))
      {
        g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE, "%s: %s",
                     psi_settings_where (settings, keys[i]), why);
        return FALSE;
      }
  return TRUE;
}

void
psi_dimensions_replace_text (char **text, const char *value)
{
  g_free (*text);
  *text = g_strdup (value);
}

void
psi_dimensions_set_family (PsiModelDimensions *d, const char *family)
{
  const FamilyDefaults *defaults = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (family_defaults); i++)
    if (g_str_equal (family_defaults[i].family, family))
      defaults = &family_defaults[i];
  g_assert (defaults != NULL);
  psi_dimensions_replace_text (&d->family, family);
  psi_dimensions_replace_text (&d->activation, defaults->activation);
  psi_dimensions_replace_text (&d->norm, defaults->norm);
  d->traits = (PsiModelTraits){ .qkv_bias = defaults->qkv_bias,
                                .out_bias = defaults->linear_bias,
                                .mlp_bias = defaults->linear_bias,
                                .pooler = defaults->pooler };
  d->tied = defaults->tied;
  d->vocab = d->vocab > 0 ? d->vocab : defaults->vocab;
  d->sequence = d->sequence > 0 ? d->sequence : defaults->sequence;
  d->positions = defaults->learned_positions ? d->sequence : 0;
  d->token_types = g_str_equal (family, "bert") ? 2 : 0;
  d->relative_buckets = g_str_equal (family, "t5") ? 32 : 0;
  d->q_lora_rank = d->kv_lora_rank = d->qk_nope_head_dim = d->qk_rope_head_dim = d->v_head_dim = 0;
  d->layers += d->decoder_layers;
  d->decoder_layers = 0;
  if (g_str_equal (family, "t5"))
    {
      d->decoder_layers = d->layers / 2;
      d->layers -= d->decoder_layers;
    }
  if (g_str_equal (family, "moe"))
    {
      d->experts = d->experts > 0 ? d->experts : 8;
      d->experts_per_token = d->experts_per_token > 0 ? d->experts_per_token : 2;
      d->expert_ffn = d->ffn;
    }
  else
    d->experts = d->experts_per_token = d->expert_ffn = d->shared_experts = d->shared_ffn = d->first_dense_layers = 0;
  d->image_size = d->patch_size = d->channels = d->classes = 0;
  if (g_str_equal (family, "vit"))
    {
      d->image_size = 224;
      d->patch_size = 16;
      d->channels = 3;
      d->classes = 1000;
      d->positions = d->sequence = 197;
    }
}

static void
override_count (const PsiSettings *settings, PsiKeyId key, gint64 *value)
{
  if (psi_settings_has (settings, key))
    *value = psi_settings_count (settings, key);
}

static gboolean
is_gated (const char *activation)
{
  return g_str_equal (activation, "swiglu") || g_str_equal (activation, "gated-gelu");
}

/* Head counts and widths that follow from what was written. */
static gboolean
override_heads (const PsiSettings *settings, PsiModelDimensions *d, GError **error)
{
  gboolean all_heads = d->kv_heads == d->heads || d->kv_heads == 0;
  gboolean reshaped = psi_settings_has (settings, PSI_KEY_HIDDEN) || psi_settings_has (settings, PSI_KEY_HEADS);

  override_count (settings, PSI_KEY_HEADS, &d->heads);
  if (all_heads)
    d->kv_heads = d->heads;
  override_count (settings, PSI_KEY_KV_HEADS, &d->kv_heads);
  if (d->kv_lora_rank > 0)
    {
      d->kv_heads = d->heads;
      return TRUE;
    }
  if (d->kv_heads > d->heads || d->heads % d->kv_heads != 0)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "%s: '%" G_GINT64_FORMAT "' does not divide the %" G_GINT64_FORMAT " attention heads",
                   psi_settings_where (settings, PSI_KEY_KV_HEADS), d->kv_heads, d->heads);
      return FALSE;
    }
  if (psi_settings_has (settings, PSI_KEY_HEAD_DIM))
    d->head_dim = psi_settings_count (settings, PSI_KEY_HEAD_DIM);
  else if (reshaped && (d->head_dim == 0 || !g_str_equal (d->family, "t5")))
    {
      if (d->hidden % d->heads != 0)
        {
          g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                       "%s: '%" G_GINT64_FORMAT "' does not divide hidden, %" G_GINT64_FORMAT
                       ", and no head_dim is given",
                       psi_settings_where (settings, PSI_KEY_HEADS), d->heads, d->hidden);
          return FALSE;
        }
      d->head_dim = d->hidden / d->heads;
    }
  return TRUE;
}

gboolean
psi_dimensions_override (const PsiSettings *settings, PsiModelDimensions *d, GError **error)
{
  const char *family =
      psi_settings_has (settings, PSI_KEY_FAMILY) ? psi_settings_text (settings, PSI_KEY_FAMILY) : NULL;
  double matrices;

  if (psi_settings_has (settings, PSI_KEY_LAYERS))
    {
      d->layers = psi_settings_count (settings, PSI_KEY_LAYERS);
      if (g_str_equal (d->family, "t5"))
        {
          d->decoder_layers = d->layers / 2;
          d->layers -= d->decoder_layers;
        }
      d->first_dense_layers = MIN (d->first_dense_layers, d->layers);
    }
  override_count (settings, PSI_KEY_VOCAB, &d->vocab);
  override_count (settings, PSI_KEY_DECODER_SEQUENCE, &d->decoder_sequence);
  if (psi_settings_has (settings, PSI_KEY_SEQUENCE) && d->image_size == 0)
    {
      d->sequence = psi_settings_count (settings, PSI_KEY_SEQUENCE);
      if (d->positions > 0)
        d->positions = MAX (d->positions, d->sequence);
    }
  if (family != NULL && !g_str_equal (family, d->family))
    psi_dimensions_set_family (d, family);
  if (!g_str_equal (d->family, "t5") &&
      !psi_dimensions_refuse_keys (settings, (const PsiKeyId[]){ PSI_KEY_DECODER_SEQUENCE }, 1,
                                   "needs a decoder (family t5)", error))
    return FALSE;
  override_count (settings, PSI_KEY_HIDDEN, &d->hidden);
  if (!override_heads (settings, d, error))
    return FALSE;
  if (psi_settings_has (settings, PSI_KEY_ACTIVATION))
    psi_dimensions_replace_text (&d->activation, psi_settings_text (settings, PSI_KEY_ACTIVATION));
  if (psi_settings_has (settings, PSI_KEY_NORM))
    psi_dimensions_replace_text (&d->norm, psi_settings_text (settings, PSI_KEY_NORM));
  if (psi_settings_has (settings, PSI_KEY_TIED))
    d->tied = psi_settings_bool (settings, PSI_KEY_TIED);
  if (psi_settings_has (settings, PSI_KEY_FFN))
    d->ffn = d->expert_ffn = psi_settings_count (settings, PSI_KEY_FFN);
  else if (d->ffn == 0 && g_str_equal (d->family, "mlp"))
    d->ffn = d->hidden;
  else if (d->ffn == 0) /* three matrices of 8/3 h have the size of two of 4 h */
    d->ffn = is_gated (d->activation) ? (8 * d->hidden / 3 + 255) / 256 * 256 : 4 * d->hidden;
  if (d->experts > 0 && d->expert_ffn == 0)
    d->expert_ffn = d->ffn;
  if (d->experts == 0 && !psi_dimensions_refuse_keys (settings, expert_keys, G_N_ELEMENTS (expert_keys),
                                                      "needs a model with experts (family moe)", error))
    return FALSE;
  if (psi_settings_has (settings, PSI_KEY_SHARED_FFN))
    d->shared_experts = 0;
  override_count (settings, PSI_KEY_SHARED_FFN, &d->shared_ffn);
  override_count (settings, PSI_KEY_DENSE_FFN, &d->ffn);
  override_count (settings, PSI_KEY_DENSE_LAYERS, &d->first_dense_layers);
  if (d->first_dense_layers > d->layers)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "%s: '%" G_GINT64_FORMAT "' is more than the %" G_GINT64_FORMAT " layers",
                   psi_settings_where (settings, PSI_KEY_DENSE_LAYERS), d->first_dense_layers, d->layers);
      return FALSE;
    }
  override_count (settings, PSI_KEY_EXPERTS, &d->experts);
  override_count (settings, PSI_KEY_EXPERTS_PER_TOKEN, &d->experts_per_token);
  if (d->experts_per_token > d->experts)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "%s: '%" G_GINT64_FORMAT "' is more than the %" G_GINT64_FORMAT " experts",
                   psi_settings_where (settings, PSI_KEY_EXPERTS_PER_TOKEN), d->experts_per_token, d->experts);
      return FALSE;
    }
  matrices = 4.0 * (double) d->heads * (double) MAX (d->head_dim, 1) +
             3.0 * (double) MAX (MAX (d->ffn, d->expert_ffn), d->shared_ffn) *
                 (double) MAX (d->experts + d->shared_experts + 1, 1);
  if ((double) (d->layers + d->decoder_layers + 2) * (double) d->hidden * (matrices + (double) d->vocab) > MOST / 64)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "[model] model: '%s' has more parameters than 64-bit byte counts hold", d->name);
      return FALSE;
    }
  return TRUE;
}
