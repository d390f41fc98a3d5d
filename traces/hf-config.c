/* SPDX-License-Identifier: MIT */
/* Hugging Face config.json, one table of fields for each architecture.
 *
 * Source: the configuration classes of the transformers library (configuration_*.py), read for their field names and
 * defaults. To add an architecture: a table of fields and a row in architectures[].
 * Limits: text models and ViT only; fields that change neither a shape nor a count (rope scaling, sliding windows,
 * multi-token prediction) are ignored. */
#include "hf-config.h"

#include "in-file.h"
#include "nearest.h"

#include <json-glib/json-glib.h>
#include <stddef.h>
#include <string.h>

typedef enum
{
  FIELD_COUNT,
  FIELD_BOOL
} FieldKind;

#define REQUIRED (-1)

typedef struct
{
  const char *key;
  FieldKind kind;
  gsize offset;    /* into PsiModelDimensions */
  gint64 fallback; /* when absent or null; REQUIRED: absence is an error */
  gint64 minimum;
} Field;

#define COUNT(key, member, fallback, minimum)                                                                          \
  {                                                                                                                    \
    key, FIELD_COUNT, offsetof (PsiModelDimensions, member), fallback, minimum                                         \
  }
#define FLAG(key, member, fallback)                                                                                    \
  {                                                                                                                    \
    key, FIELD_BOOL, offsetof (PsiModelDimensions, member), fallback, 0                                                \
  }

static const Field gpt2_fields[] = {
  COUNT ("n_layer", layers, REQUIRED, 1),   COUNT ("n_embd", hidden, REQUIRED, 1),
  COUNT ("n_head", heads, REQUIRED, 1),     COUNT ("n_inner", ffn, 0, 1), /* absent or null: 4 n_embd */
  COUNT ("vocab_size", vocab, REQUIRED, 1), COUNT ("n_positions", positions, 1024, 1),
  FLAG ("tie_word_embeddings", tied, TRUE),
};

#define LLAMA_FIELDS(kv_heads_default, positions_default)                                                              \
  COUNT ("num_hidden_layers", layers, REQUIRED, 1), COUNT ("hidden_size", hidden, REQUIRED, 1),                        \
      COUNT ("num_attention_heads", heads, REQUIRED, 1), COUNT ("intermediate_size", ffn, REQUIRED, 1),                \
      COUNT ("vocab_size", vocab, REQUIRED, 1), COUNT ("num_key_value_heads", kv_heads, kv_heads_default, 1),          \
      COUNT ("head_dim", head_dim, 0, 1), COUNT ("max_position_embeddings", sequence, positions_default, 1),           \
      FLAG ("tie_word_embeddings", tied, FALSE)

static const Field llama_fields[] = {
  LLAMA_FIELDS (0, 2048),
  FLAG ("attention_bias", qkv_bias, FALSE),
  FLAG ("mlp_bias", linear_bias, FALSE),
};
static const Field mistral_fields[] = { LLAMA_FIELDS (8, 131072) };
static const Field qwen2_fields[] = { LLAMA_FIELDS (0, 32768) };
static const Field mixtral_fields[] = {
  LLAMA_FIELDS (8, 131072),
  COUNT ("num_local_experts", experts, 8, 1),
  COUNT ("num_experts_per_tok", experts_per_token, 2, 1),
};
static const Field deepseek_fields[] = {
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
static const Field bert_fields[] = {
  COUNT ("num_hidden_layers", layers, REQUIRED, 1),  COUNT ("hidden_size", hidden, REQUIRED, 1),
  COUNT ("num_attention_heads", heads, REQUIRED, 1), COUNT ("intermediate_size", ffn, REQUIRED, 1),
  COUNT ("vocab_size", vocab, REQUIRED, 1),          COUNT ("max_position_embeddings", positions, 512, 1),
  COUNT ("type_vocab_size", token_types, 2, 0),      FLAG ("tie_word_embeddings", tied, TRUE),
};
static const Field t5_fields[] = {
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
static const Field vit_fields[] = {
  COUNT ("num_hidden_layers", layers, REQUIRED, 1),
  COUNT ("hidden_size", hidden, REQUIRED, 1),
  COUNT ("num_attention_heads", heads, REQUIRED, 1),
  COUNT ("intermediate_size", ffn, REQUIRED, 1),
  COUNT ("image_size", image_size, 224, 1),
  COUNT ("patch_size", patch_size, 16, 1),
  COUNT ("num_channels", channels, 3, 1),
  COUNT ("num_labels", classes, 0, 1),
  FLAG ("qkv_bias", qkv_bias, TRUE),
};

/* Word in the file -> word of ours. NULL-ended pairs. */
static const char *const plain_activations[] = {
  "gelu", "gelu",       "gelu_new", "gelu", "gelu_fast", "gelu", "gelu_pytorch_tanh",
  "gelu", "quick_gelu", "gelu",     "relu", "relu",      NULL
};
static const char *const gated_activations[] = { "silu",       "swiglu",     "swish",
                                                 "swiglu",     "gelu",       "gated-gelu",
                                                 "gelu_new",   "gated-gelu", "gelu_pytorch_tanh",
                                                 "gated-gelu", NULL };
static const char *const t5_activations[] = { "relu",       "relu",       "gelu",   "gelu", "gated-gelu",
                                              "gated-gelu", "gated-silu", "swiglu", NULL };

typedef struct
{
  const char *model_type;
  const char *class_prefix; /* of a word of `architectures`: "LlamaForCausalLM" */
  const char *family;
  const char *norm;
  const char *activation_key, *activation_fallback;
  const char *const *activations;
  gboolean qkv_bias, linear_bias, pooler, router_bias;
  const Field *fields;
  guint n_fields;
} Architecture;

#define FIELDS(table) table, G_N_ELEMENTS (table)

static const Architecture architectures[] = {
  { "gpt2", "GPT2", "gpt", "layernorm", "activation_function", "gelu_new", plain_activations, TRUE, TRUE, FALSE, FALSE,
    FIELDS (gpt2_fields) },
  { "llama", "Llama", "llama", "rmsnorm", "hidden_act", "silu", gated_activations, FALSE, FALSE, FALSE, FALSE,
    FIELDS (llama_fields) },
  { "mistral", "Mistral", "llama", "rmsnorm", "hidden_act", "silu", gated_activations, FALSE, FALSE, FALSE, FALSE,
    FIELDS (mistral_fields) },
  { "qwen2", "Qwen2", "llama", "rmsnorm", "hidden_act", "silu", gated_activations, TRUE, FALSE, FALSE, FALSE,
    FIELDS (qwen2_fields) },
  { "mixtral", "Mixtral", "moe", "rmsnorm", "hidden_act", "silu", gated_activations, FALSE, FALSE, FALSE, FALSE,
    FIELDS (mixtral_fields) },
  { "deepseek_v2", "DeepseekV2", "moe", "rmsnorm", "hidden_act", "silu", gated_activations, FALSE, FALSE, FALSE, FALSE,
    FIELDS (deepseek_fields) },
  { "deepseek_v3", "DeepseekV3", "moe", "rmsnorm", "hidden_act", "silu", gated_activations, FALSE, FALSE, FALSE, TRUE,
    FIELDS (deepseek_fields) },
  { "bert", "Bert", "bert", "layernorm", "hidden_act", "gelu", plain_activations, TRUE, TRUE, TRUE, FALSE,
    FIELDS (bert_fields) },
  { "t5", "T5", "t5", "rmsnorm", "feed_forward_proj", "relu", t5_activations, FALSE, FALSE, FALSE, FALSE,
    FIELDS (t5_fields) },
  { "vit", "ViT", "vit", "layernorm", "hidden_act", "gelu", plain_activations, TRUE, TRUE, FALSE, FALSE,
    FIELDS (vit_fields) },
};

#define KNOWN_TYPES "gpt2 llama mistral qwen2 mixtral deepseek_v2 deepseek_v3 bert t5 vit"

G_DEFINE_QUARK (psi_hf_config_error, psi_hf_config_error)

static gboolean G_GNUC_PRINTF (3, 4) fail (const char *file, GError **error, const char *format, ...)
{
  va_list arguments;
  g_autofree char *message = NULL;

  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, PSI_HF_CONFIG_ERROR, PSI_HF_CONFIG_ERROR_FIELD, "%s: %s", file, message);
  return FALSE;
}

/* The text a member's value has in messages. (transfer full) */
static char *
value_text (JsonNode *node)
{
  g_autofree char *text = json_to_string (node, FALSE);

  if (strlen (text) > 40)
    strcpy (text + 37, "...");
  return g_steal_pointer (&text);
}

/* A member's value, NULL if absent or null. */
static JsonNode *
get_member (JsonObject *object, const char *key)
{
  JsonNode *node = json_object_get_member (object, key);

  return node == NULL || JSON_NODE_HOLDS_NULL (node) ? NULL : node;
}

static gboolean
get_text (const char *file, JsonObject *object, const char *key, const char *fallback, const char **ret_text,
          GError **error)
{
  JsonNode *node = get_member (object, key);

  if (node != NULL && (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING))
    {
      g_autofree char *text = value_text (node);

      return fail (file, error, "%s: '%s' is not a text", key, text);
    }
  *ret_text = node == NULL ? fallback : json_node_get_string (node);
  return TRUE;
}

static gboolean
is_field (const Architecture *architecture, const char *name)
{
  for (guint i = 0; i < architecture->n_fields; i++)
    if (g_str_equal (architecture->fields[i].key, name))
      return TRUE;
  return g_str_equal (architecture->activation_key, name);
}

/* A member of the file that looks like a misspelt `key`: no field of its own, and differing by little. */
static const char *
find_misspelt (const Architecture *architecture, JsonObject *object, const char *key)
{
  const char *candidates[] = { key, NULL };
  g_autoptr (GList) members = json_object_get_members (object);

  for (GList *member = members; member != NULL; member = member->next)
    {
      const char *name = member->data;
      gssize difference = (gssize) strlen (name) - (gssize) strlen (key);

      if (ABS (difference) <= 2 && strlen (name) >= 6 && !is_field (architecture, name) &&
          psi_nearest (name, candidates) != NULL)
        return name;
    }
  return NULL;
}

static gboolean
read_field (const char *file, const Architecture *architecture, JsonObject *object, const Field *field,
            PsiModelDimensions *dimensions, GError **error)
{
  JsonNode *node = get_member (object, field->key);
  char *target = (char *) dimensions + field->offset;
  g_autofree char *text = NULL;
  GType type = G_TYPE_INVALID;
  gint64 value;

  if (node == NULL)
    {
      const char *misspelt =
          json_object_has_member (object, field->key) ? NULL : find_misspelt (architecture, object, field->key);

      if (misspelt != NULL)
        return fail (file, error, "unknown field '%s' (did you mean '%s'?)", misspelt, field->key);
      if (field->fallback == REQUIRED)
        return fail (file, error, "field '%s' is missing, a '%s' model needs it", field->key, architecture->model_type);
      value = field->fallback;
    }
  else
    {
      text = value_text (node);
      if (JSON_NODE_HOLDS_VALUE (node))
        type = json_node_get_value_type (node);
      if (field->kind == FIELD_BOOL)
        {
          if (type != G_TYPE_BOOLEAN)
            return fail (file, error, "%s: '%s' is neither true nor false", field->key, text);
          value = json_node_get_boolean (node);
        }
      else
        {
          if (type != G_TYPE_INT64)
            return fail (file, error, "%s: '%s' is not a whole number", field->key, text);
          value = json_node_get_int (node);
          if (value < field->minimum || value > G_MAXINT32)
            return fail (file, error, "%s: '%s' is out of range (allowed: %" G_GINT64_FORMAT " to %d)", field->key,
                         text, field->minimum, G_MAXINT32);
        }
    }
  if (field->kind == FIELD_BOOL)
    *(gboolean *) (gpointer) target = value != 0;
  else
    *(gint64 *) (gpointer) target = value;
  return TRUE;
}

static gboolean
find_architecture (const char *file, JsonObject *object, const Architecture **ret_architecture, GError **error)
{
  const char *model_type = NULL;
  JsonNode *list = get_member (object, "architectures");

  if (!get_text (file, object, "model_type", NULL, &model_type, error))
    return FALSE;
  if (model_type != NULL)
    {
      const char *names[G_N_ELEMENTS (architectures) + 1] = { NULL };
      const char *nearest;

      for (guint i = 0; i < G_N_ELEMENTS (architectures); i++)
        {
          names[i] = architectures[i].model_type;
          if (g_str_equal (architectures[i].model_type, model_type))
            {
              *ret_architecture = &architectures[i];
              return TRUE;
            }
        }
      nearest = psi_nearest (model_type, names);
      if (nearest != NULL)
        return fail (file, error, "model_type: '%s' is unknown (did you mean '%s'?)", model_type, nearest);
      return fail (file, error, "model_type: '%s' is unknown (allowed: %s)", model_type, KNOWN_TYPES);
    }
  if (list != NULL && JSON_NODE_HOLDS_ARRAY (list))
    {
      JsonArray *array = json_node_get_array (list);

      for (guint k = 0; k < json_array_get_length (array); k++)
        {
          JsonNode *word = json_array_get_element (array, k);
          const char *name = JSON_NODE_HOLDS_VALUE (word) ? json_node_get_string (word) : NULL;

          for (guint i = 0; name != NULL && i < G_N_ELEMENTS (architectures); i++)
            if (g_str_has_prefix (name, architectures[i].class_prefix))
              {
                *ret_architecture = &architectures[i];
                return TRUE;
              }
        }
    }
  return fail (file, error, "field 'model_type' is missing (allowed: %s)", KNOWN_TYPES);
}

static gboolean
read_activation (const char *file, const Architecture *architecture, JsonObject *object, PsiModelDimensions *dimensions,
                 GError **error)
{
  const char *word = NULL;
  const char *const *pair;
  g_autoptr (GString) allowed = g_string_new (NULL);

  if (!get_text (file, object, architecture->activation_key, architecture->activation_fallback, &word, error))
    return FALSE;
  for (pair = architecture->activations; *pair != NULL; pair += 2)
    {
      if (g_str_equal (pair[0], word))
        {
          dimensions->activation = g_strdup (pair[1]);
          return TRUE;
        }
      g_string_append_printf (allowed, "%s%s", allowed->len > 0 ? " " : "", pair[0]);
    }
  return fail (file, error, "%s: '%s' is unknown (allowed: %s)", architecture->activation_key, word, allowed->str);
}

/* What follows from other fields, and what must fit together. */
static gboolean
complete (const char *file, JsonObject *object, PsiModelDimensions *d, GError **error)
{
  gboolean is_vit = g_str_equal (d->family, "vit");

  if (d->kv_heads == 0)
    d->kv_heads = d->heads;
  if (d->ffn == 0)
    d->ffn = 4 * d->hidden;
  if (d->sequence == 0)
    d->sequence = d->positions;
  if (d->head_dim == 0 && d->kv_lora_rank == 0)
    {
      if (d->hidden % d->heads != 0)
        return fail (file, error,
                     "hidden size %" G_GINT64_FORMAT " is not a multiple of the %" G_GINT64_FORMAT
                     " attention heads and no 'head_dim' is given",
                     d->hidden, d->heads);
      d->head_dim = d->hidden / d->heads;
    }
  if (d->kv_lora_rank > 0)
    d->head_dim = d->qk_nope_head_dim + d->qk_rope_head_dim;
  if (d->heads % d->kv_heads != 0)
    return fail (file, error,
                 "num_key_value_heads: '%" G_GINT64_FORMAT "' does not divide the %" G_GINT64_FORMAT " attention heads",
                 d->kv_heads, d->heads);
  if (g_str_equal (d->family, "t5") && d->decoder_layers == 0)
    d->decoder_layers = d->layers;
  if (d->experts > 0)
    {
      if (d->expert_ffn == 0)
        d->expert_ffn = d->ffn;
      if (d->experts_per_token > d->experts)
        return fail (file, error,
                     "num_experts_per_tok: '%" G_GINT64_FORMAT "' is more than the %" G_GINT64_FORMAT " experts",
                     d->experts_per_token, d->experts);
      if (d->first_dense_layers > d->layers)
        return fail (file, error,
                     "first_k_dense_replace: '%" G_GINT64_FORMAT "' is more than the %" G_GINT64_FORMAT " layers",
                     d->first_dense_layers, d->layers);
    }
  if (is_vit)
    {
      JsonNode *labels = get_member (object, "id2label");

      if (d->image_size % d->patch_size != 0)
        return fail (file, error, "patch_size: '%" G_GINT64_FORMAT "' does not divide the image size %" G_GINT64_FORMAT,
                     d->patch_size, d->image_size);
      if (d->classes == 0)
        d->classes = labels != NULL && JSON_NODE_HOLDS_OBJECT (labels)
                         ? MAX ((gint64) json_object_get_size (json_node_get_object (labels)), 1)
                         : 2; /* the library's own default */
      d->positions = (d->image_size / d->patch_size) * (d->image_size / d->patch_size) + 1;
      d->sequence = d->positions;
    }
  return TRUE;
}

/* "gpt2" from _name_or_path, else from DIR/config.json -> DIR, else from STEM.json. (transfer full) */
static char *
model_name (const char *file, const char *path_in_file)
{
  g_autofree char *base = NULL;
  g_autofree char *directory = NULL;

  if (path_in_file != NULL && *path_in_file != '\0')
    return g_path_get_basename (path_in_file);
  base = g_path_get_basename (file);
  if (g_str_equal (base, "config.json"))
    {
      directory = g_path_get_dirname (file);
      if (!g_str_equal (directory, "."))
        return g_path_get_basename (directory);
    }
  if (g_str_has_suffix (base, ".json") && strlen (base) > strlen (".json"))
    base[strlen (base) - strlen (".json")] = '\0';
  return g_steal_pointer (&base);
}

PsiModelDimensions *
psi_hf_config_load (const char *file, GError **error)
{
  g_autoptr (PsiModelDimensions) dimensions = g_new0 (PsiModelDimensions, 1);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) local = NULL;
  g_autofree char *text = NULL;
  gsize length = 0;
  const Architecture *architecture = NULL;
  const char *path = NULL;
  JsonObject *object;

  if (!psi_in_file_read (file, PSI_IN_FILE_MOST_JSON_BYTES, &text, &length, &local))
    {
      g_set_error (error, PSI_HF_CONFIG_ERROR, PSI_HF_CONFIG_ERROR_READ, "%s: %s", file, local->message);
      return NULL;
    }
  if (!psi_in_file_parse_json (parser, text, (gssize) length, &local))
    {
      g_set_error (error, PSI_HF_CONFIG_ERROR, PSI_HF_CONFIG_ERROR_READ, "%s: not JSON: %s", file, local->message);
      g_strdelimit (error != NULL ? (*error)->message : local->message, "\n", ' ');
      return NULL;
    }
  if (json_parser_get_root (parser) == NULL || !JSON_NODE_HOLDS_OBJECT (json_parser_get_root (parser)))
    {
      fail (file, error, "not a model configuration: the JSON is no object");
      return NULL;
    }
  object = json_node_get_object (json_parser_get_root (parser));

  if (!find_architecture (file, object, &architecture, error) ||
      !get_text (file, object, "_name_or_path", NULL, &path, error) ||
      !read_activation (file, architecture, object, dimensions, error))
    return NULL;
  dimensions->name = model_name (file, path);
  dimensions->family = g_strdup (architecture->family);
  dimensions->norm = g_strdup (architecture->norm);
  dimensions->qkv_bias = architecture->qkv_bias;
  dimensions->linear_bias = architecture->linear_bias;
  dimensions->pooler = architecture->pooler;
  dimensions->router_bias = architecture->router_bias;
  for (guint i = 0; i < architecture->n_fields; i++)
    if (!read_field (file, architecture, object, &architecture->fields[i], dimensions, error))
      return NULL;
  if (!complete (file, object, dimensions, error))
    return NULL;
  return g_steal_pointer (&dimensions);
}

PsiModelDimensions *
psi_model_dimensions_copy (const PsiModelDimensions *dimensions)
{
  PsiModelDimensions *copy = g_memdup2 (dimensions, sizeof *dimensions);

  copy->name = g_strdup (dimensions->name);
  copy->family = g_strdup (dimensions->family);
  copy->activation = g_strdup (dimensions->activation);
  copy->norm = g_strdup (dimensions->norm);
  return copy;
}

void
psi_model_dimensions_free (PsiModelDimensions *dimensions)
{
  if (dimensions == NULL)
    return;
  g_free (dimensions->name);
  g_free (dimensions->family);
  g_free (dimensions->activation);
  g_free (dimensions->norm);
  g_free (dimensions);
}
