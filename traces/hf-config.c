/* SPDX-License-Identifier: MIT */
/* Hugging Face config.json, read by the tables of hf-architectures.c. */
#include "hf-config.h"

#include "hf-architectures.h"

#include "in-file.h"
#include "nearest.h"

#include <string.h>

#define REQUIRED PSI_HF_REQUIRED

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
is_field (const PsiHfArchitecture *architecture, const char *name)
{
  for (guint i = 0; i < architecture->n_fields; i++)
    if (g_str_equal (architecture->fields[i].key, name) || g_strcmp0 (architecture->fields[i].alias, name) == 0)
      return TRUE;
  return g_str_equal (architecture->activation_key, name);
}

/* A member of the file that looks like a misspelt `key`: no field of its own, and differing by little. */
static const char *
find_misspelt (const PsiHfArchitecture *architecture, JsonObject *object, const char *key)
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

/* The number a member stands for: whole, true or false as 1 or 0, or the length of an array. */
static gboolean
read_number (const char *file, const char *key, const PsiHfField *field, JsonNode *node, gint64 *ret_value,
             GError **error)
{
  g_autofree char *text = value_text (node);
  GType type = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_value_type (node) : G_TYPE_INVALID;

  switch (field->kind)
    {
    case PSI_HF_LENGTH:
      if (!JSON_NODE_HOLDS_ARRAY (node))
        return fail (file, error, "%s: '%s' is not a list", key, text);
      *ret_value = json_array_get_length (json_node_get_array (node));
      return TRUE;
    case PSI_HF_BOOL:
      if (type != G_TYPE_BOOLEAN)
        return fail (file, error, "%s: '%s' is neither true nor false", key, text);
      *ret_value = json_node_get_boolean (node);
      return TRUE;
    case PSI_HF_ONE:
      *ret_value = type == G_TYPE_BOOLEAN ? json_node_get_boolean (node)
                   : type == G_TYPE_INT64 ? json_node_get_int (node)
                                          : G_MININT64;
      if (*ret_value != field->fallback)
        return fail (file, error, "%s: '%s' is a variant that psisim does not know", key, text);
      return TRUE;
    default:
      if (type != G_TYPE_INT64)
        return fail (file, error, "%s: '%s' is not a whole number", key, text);
      *ret_value = json_node_get_int (node);
      if (*ret_value < field->minimum || *ret_value > G_MAXINT32)
        return fail (file, error, "%s: '%s' is out of range (allowed: %" G_GINT64_FORMAT " to %d)", key, text,
                     field->minimum, G_MAXINT32);
      return TRUE;
    }
}

static gint64
class_default (const PsiHfArchitecture *architecture, const char *key)
{
  for (const PsiHfClassDefault *row = architecture->class_defaults; row != NULL && row->key != NULL; row++)
    if (g_str_equal (row->key, key))
      return row->value;
  return REQUIRED;
}

static gboolean
read_field (const char *file, const PsiHfArchitecture *architecture, JsonObject *object, gboolean is_part,
            const PsiHfField *field, PsiModelDimensions *dimensions, GError **error)
{
  JsonNode *node = get_member (object, field->key);
  const char *key = field->key;
  char *target = (char *) dimensions + field->offset;
  gint64 value = field->fallback;

  if (node == NULL && field->alias != NULL && (node = get_member (object, field->alias)) != NULL)
    key = field->alias;
  if (node == NULL)
    {
      const char *misspelt = json_object_has_member (object, key) ? NULL : find_misspelt (architecture, object, key);

      if (misspelt != NULL)
        return fail (file, error, "unknown field '%s' (did you mean '%s'?)", misspelt, key);
      if (field->fallback == REQUIRED && is_part)
        value = class_default (architecture, field->key);
      if (value == REQUIRED)
        return fail (file, error, "field '%s' is missing, a '%s' model needs it", key, architecture->model_type);
    }
  else if (!read_number (file, key, field, node, &value, error))
    return FALSE;
  if (field->kind == PSI_HF_BOOL)
    *(gboolean *) (gpointer) target = value != 0;
  else if (field->kind != PSI_HF_ONE)
    *(gint64 *) (gpointer) target = value;
  return TRUE;
}

/* "gpt2 llama ...". (transfer full) */
static char *
known_types (void)
{
  g_autoptr (GString) list = g_string_new (NULL);

  for (guint i = 0; i < psi_hf_n_architectures; i++)
    g_string_append_printf (list, "%s%s", i > 0 ? " " : "", psi_hf_architectures[i].model_type);
  return g_string_free (g_steal_pointer (&list), FALSE);
}

static gboolean
find_type (const char *model_type, const PsiHfArchitecture **ret_architecture)
{
  for (guint i = 0; i < psi_hf_n_architectures; i++)
    if (g_str_equal (psi_hf_architectures[i].model_type, model_type))
      {
        *ret_architecture = &psi_hf_architectures[i];
        return TRUE;
      }
  return FALSE;
}

static gboolean
find_architecture (const char *file, JsonObject *object, const PsiHfArchitecture **ret_architecture, GError **error)
{
  const char *model_type = NULL;
  JsonNode *list = get_member (object, "architectures");
  g_autofree char *known = known_types ();

  if (!get_text (file, object, "model_type", NULL, &model_type, error))
    return FALSE;
  if (model_type != NULL)
    {
      /* The text part of `qwen2_vl` is a `qwen2_vl_text`. */
      g_autofree char *whole = g_str_has_suffix (model_type, "_text")
                                   ? g_strndup (model_type, strlen (model_type) - strlen ("_text"))
                                   : g_strdup (model_type);

      if (find_type (model_type, ret_architecture) || find_type (whole, ret_architecture))
        return TRUE;
      /* Written by programs: a name that is near is another network, not a slip. */
      return fail (file, error, "model_type: '%s' is unknown (allowed: %s)", model_type, known);
    }
  if (list != NULL && JSON_NODE_HOLDS_ARRAY (list))
    {
      JsonArray *array = json_node_get_array (list);

      for (guint k = 0; k < json_array_get_length (array); k++)
        {
          JsonNode *word = json_array_get_element (array, k);
          const char *name = JSON_NODE_HOLDS_VALUE (word) ? json_node_get_string (word) : NULL;

          for (guint i = 0; name != NULL && i < psi_hf_n_architectures; i++)
            if (g_str_has_prefix (name, psi_hf_architectures[i].class_prefix))
              {
                *ret_architecture = &psi_hf_architectures[i];
                return TRUE;
              }
        }
    }
  return fail (file, error, "field 'model_type' is missing (allowed: %s)", known);
}

static gboolean
read_activation (const char *file, const PsiHfArchitecture *architecture, JsonObject *object,
                 PsiModelDimensions *dimensions, GError **error)
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
  JsonNode *width = get_member (object, "word_embed_proj_dim");
  if (width != NULL && (!JSON_NODE_HOLDS_VALUE (width) || json_node_get_int (width) != d->hidden))
    return fail (file, error, "word_embed_proj_dim: only the hidden size, %" G_GINT64_FORMAT ", is known", d->hidden);
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
        return fail (file, error, "'%" G_GINT64_FORMAT "' dense layers are more than the %" G_GINT64_FORMAT " layers",
                     d->first_dense_layers, d->layers);
    }
  if (is_vit)
    {
      JsonObject *labels = psi_json_member_object (object, "id2label");

      if (d->image_size % d->patch_size != 0)
        return fail (file, error, "patch_size: '%" G_GINT64_FORMAT "' does not divide the image size %" G_GINT64_FORMAT,
                     d->patch_size, d->image_size);
      if (d->classes == 0)
        d->classes =
            labels != NULL ? MAX ((gint64) json_object_get_size (labels), 1) : 2; /* the library's own default */
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

/* The part of the file that holds a language model beside other networks, or NULL: the file is one. What such models
 * say once for all their parts is copied into it. */
static JsonObject *
text_part (JsonObject *object, const char **ret_name)
{
  static const char *const parts[] = { "text_config", "llm_config", "language_config" };
  static const char *const shared[] = { "tie_word_embeddings", "vocab_size" };

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      JsonObject *part = psi_json_member_object (object, parts[i]);

      if (part == NULL)
        continue;
      for (guint k = 0; k < G_N_ELEMENTS (shared); k++)
        if (get_member (part, shared[k]) == NULL && get_member (object, shared[k]) != NULL)
          json_object_set_member (part, shared[k], json_node_copy (get_member (object, shared[k])));
      *ret_name = parts[i];
      return part;
    }
  return NULL;
}

/* "vision_config and audio_config", or NULL. (transfer full) */
static char *
parts_beside (JsonObject *object)
{
  static const char *const parts[] = { "vision_config", "audio_config", "speech_config" };
  g_autoptr (GString) list = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    if (psi_json_member_object (object, parts[i]) != NULL)
      g_string_append_printf (list, "%s%s", list->len > 0 ? " and " : "", parts[i]);
  return list->len > 0 ? g_strdup (list->str) : NULL;
}

PsiModelDimensions *
psi_hf_config_load (const char *file, GError **error)
{
  g_autoptr (PsiModelDimensions) dimensions = g_new0 (PsiModelDimensions, 1);
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) local = NULL;
  g_autofree char *text = NULL;
  gsize length = 0;
  const PsiHfArchitecture *architecture = NULL;
  const char *path = NULL, *part_name = NULL;
  JsonObject *object, *part;

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

  part = text_part (object, &part_name);
  g_autofree char *place = part != NULL ? g_strdup_printf ("%s: %s", file, part_name) : g_strdup (file);
  dimensions->beside = parts_beside (object);
  if (!get_text (file, object, "_name_or_path", NULL, &path, error))
    return NULL;
  if (part != NULL)
    object = part;
  if (!find_architecture (place, object, &architecture, error) ||
      !read_activation (place, architecture, object, dimensions, error))
    return NULL;
  dimensions->name = model_name (file, path);
  dimensions->family = g_strdup (architecture->family);
  dimensions->norm = g_strdup (architecture->norm);
  dimensions->traits = architecture->traits;
  for (guint i = 0; i < architecture->n_fields; i++)
    if (!read_field (place, architecture, object, part != NULL, &architecture->fields[i], dimensions, error))
      return NULL;
  const char *wrong = architecture->adjust != NULL ? architecture->adjust (dimensions, object) : NULL;
  if (wrong != NULL)
    {
      g_autofree char *value = value_text (json_object_get_member (object, wrong));

      fail (place, error, "%s: '%s' is of a type that psisim does not know", wrong, value);
      return NULL;
    }
  if (!complete (place, object, dimensions, error))
    return NULL;
  return g_steal_pointer (&dimensions);
}

void
psi_model_dimensions_free (PsiModelDimensions *dimensions)
{
  if (dimensions == NULL)
    return;
  g_free (dimensions->name);
  g_free (dimensions->beside);
  g_free (dimensions->family);
  g_free (dimensions->activation);
  g_free (dimensions->norm);
  g_free (dimensions);
}
