/* SPDX-License-Identifier: MIT */
/* From `model` and the overrides of [model] to a source, and from a source to layers. */
#include "workload.h"

#include "data-dirs.h"
#include "dimensions.h"
#include "families.h"
#include "in-file.h"

#include <string.h>

/* A training run that does not say its length uses the model's context up to this many tokens. */
#define LONGEST_DEFAULT_SEQUENCE 8192
#define MOST 4e18 /* bytes, elements: what still fits 64 bits */

G_DEFINE_QUARK (psi_workload_error, psi_workload_error)

const PsiFamily *const psi_families[] = {
  &psi_family_gpt, &psi_family_llama, &psi_family_moe, &psi_family_bert,
  &psi_family_t5,  &psi_family_vit,   &psi_family_mlp, NULL,
};

static const PsiKeyId dimension_keys[] = {
  PSI_KEY_DECODER_SEQUENCE,
  PSI_KEY_FAMILY,
  PSI_KEY_LAYERS,
  PSI_KEY_HIDDEN,
  PSI_KEY_HEADS,
  PSI_KEY_KV_HEADS,
  PSI_KEY_HEAD_DIM,
  PSI_KEY_FFN,
  PSI_KEY_ACTIVATION,
  PSI_KEY_NORM,
  PSI_KEY_VOCAB,
  PSI_KEY_TIED,
  PSI_KEY_EXPERTS,
  PSI_KEY_EXPERTS_PER_TOKEN,
  PSI_KEY_SHARED_FFN,
  PSI_KEY_DENSE_LAYERS,
  PSI_KEY_DENSE_FFN,
};
static const PsiKeyId uniform_keys[] = {
  PSI_KEY_PSI_P, PSI_KEY_PSI_A, PSI_KEY_PSI_INT, PSI_KEY_FORWARD, PSI_KEY_BACKWARD, PSI_KEY_BACKWARD_WEIGHT,
};

static const PsiFamily *
find_family (const char *name)
{
  for (guint i = 0; psi_families[i] != NULL; i++)
    if (g_str_equal (psi_families[i]->name, name))
      return psi_families[i];
  return NULL;
}

static gboolean
set_dimensions (PsiModelSource *source, const PsiSettings *settings, PsiModelDimensions *dimensions, GError **error)
{
  source->dimensions = dimensions;
  if (!psi_dimensions_refuse_keys (settings, uniform_keys, G_N_ELEMENTS (uniform_keys), "only model = uniform has this",
                                   error))
    return FALSE;
  if (!psi_settings_has (settings, PSI_KEY_SEQUENCE) && dimensions->positions == 0)
    dimensions->sequence = MIN (dimensions->sequence, LONGEST_DEFAULT_SEQUENCE);
  if (!psi_dimensions_override (settings, dimensions, error))
    return FALSE;
  source->family = find_family (dimensions->family);
  g_assert (source->family != NULL);
  source->parameters = psi_family_count (source->family, dimensions);
  return TRUE;
}

static gboolean
load_custom (PsiModelSource *source, const PsiSettings *settings, GError **error)
{
  static const PsiKeyId needed[] = { PSI_KEY_LAYERS, PSI_KEY_HIDDEN, PSI_KEY_HEADS };
  const char *family =
      psi_settings_has (settings, PSI_KEY_FAMILY) ? psi_settings_text (settings, PSI_KEY_FAMILY) : "gpt";
  gboolean headless = g_str_equal (family, "mlp");
  PsiModelDimensions *dimensions;

  for (guint i = 0; i < G_N_ELEMENTS (needed); i++)
    if (!(headless && needed[i] == PSI_KEY_HEADS) && !psi_settings_has (settings, needed[i]))
      {
        g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                     "%s: 'custom' needs '%s' (needed: layers hidden heads)",
                     psi_settings_where (settings, PSI_KEY_MODEL), psi_keys[needed[i]].name);
        return FALSE;
      }
  dimensions = g_new0 (PsiModelDimensions, 1);
  dimensions->name = g_strdup ("custom");
  dimensions->heads = headless ? 1 : 0;
  psi_dimensions_set_family (dimensions, family);
  return set_dimensions (source, settings, dimensions, error);
}

static gboolean
load_trace (PsiModelSource *source, const PsiSettings *settings, const char *file, GError **error)
{
  if (!psi_dimensions_refuse_keys (settings, uniform_keys, G_N_ELEMENTS (uniform_keys), "only model = uniform has this",
                                   error) ||
      !psi_dimensions_refuse_keys (settings, dimension_keys, G_N_ELEMENTS (dimension_keys),
                                   "a trace has fixed dimensions, nothing to override", error))
    return FALSE;
  source->trace = psi_workload_trace_load (file, error);
  if (source->trace == NULL)
    return FALSE;
  source->parameters = source->trace->parameters;
  return TRUE;
}

/* A file: a trace by its ending or its first word, else a configuration. */
static gboolean
load_file (PsiModelSource *source, const PsiSettings *settings, const char *file, GError **error)
{
  PsiModelDimensions *dimensions;
  g_autofree char *path =
      g_file_test (file, G_FILE_TEST_IS_DIR) ? g_build_filename (file, "config.json", NULL) : g_strdup (file);

  if (g_str_has_suffix (path, ".trace"))
    return load_trace (source, settings, path, error);
  if (!g_str_has_suffix (path, ".json"))
    {
      g_autofree char *text = NULL;

      if (psi_in_file_read (path, PSI_IN_FILE_MOST_TEXT_BYTES, &text, NULL, NULL) &&
          g_str_has_prefix (text, "psisim-trace"))
        return load_trace (source, settings, path, error);
    }
  dimensions = psi_hf_config_load (path, error);
  return dimensions != NULL && set_dimensions (source, settings, dimensions, error);
}

static gboolean
load_preset (PsiModelSource *source, const PsiSettings *settings, const PsiModelPreset *preset, GError **error)
{
  gboolean is_trace = g_str_has_suffix (preset->file, ".trace");
  g_autofree char *path = psi_data_find (is_trace ? "traces" : "models", preset->file);

  if (path == NULL)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_UNKNOWN,
                   "%s: file '%s' of preset '%s' is in none of the data directories",
                   psi_settings_where (settings, PSI_KEY_MODEL), preset->file, preset->name);
      return FALSE;
    }
  if (!load_file (source, settings, path, error))
    return FALSE;
  psi_dimensions_replace_text (&source->name, preset->name);
  if (source->dimensions != NULL)
    psi_dimensions_replace_text (&source->dimensions->name, preset->name);
  return TRUE;
}

static gboolean
fail_unknown (const char *name, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  const char *nearest;

  for (guint i = 0; psi_model_presets[i].name != NULL; i++)
    g_ptr_array_add (names, (gpointer) psi_model_presets[i].name);
  g_ptr_array_add (names, (gpointer) "uniform");
  g_ptr_array_add (names, (gpointer) "custom");
  g_ptr_array_add (names, NULL);
  nearest = psi_nearest (name, (const char *const *) names->pdata);
  if (nearest != NULL)
    g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_UNKNOWN, "unknown model '%s' (did you mean '%s'?)", name,
                 nearest);
  else
    g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_UNKNOWN,
                 "unknown model '%s' (allowed: a preset of 'list models', a file, uniform, custom)", name);
  return FALSE;
}

static gboolean
load_named (PsiModelSource *source, const PsiSettings *settings, const char *name, GError **error)
{
  if (g_str_equal (name, "uniform"))
    {
      source->is_uniform = TRUE;
      source->parameters = psi_settings_has (settings, PSI_KEY_PSI_P) ? psi_settings_count (settings, PSI_KEY_PSI_P) / 2
                                                                      : 0; /* K GiB, known with the plan */
      return psi_dimensions_refuse_keys (
          settings, dimension_keys, G_N_ELEMENTS (dimension_keys),
          "the stages of 'uniform' have no dimensions (allowed: psi_p psi_a psi_int forward backward "
          "backward_weight)",
          error);
    }
  if (g_str_equal (name, "custom"))
    return load_custom (source, settings, error);
  for (guint i = 0; psi_model_presets[i].name != NULL; i++)
    if (g_str_equal (psi_model_presets[i].name, name))
      return load_preset (source, settings, &psi_model_presets[i], error);
  if (strchr (name, '/') != NULL || g_str_has_suffix (name, ".json") || g_str_has_suffix (name, ".trace") ||
      g_file_test (name, G_FILE_TEST_EXISTS))
    return load_file (source, settings, name, error);
  return fail_unknown (name, error);
}

/* Trained elements of adapters, on one GPU that holds the whole model. */
static gboolean
count_adapters (PsiModelSource *source, const PsiSettings *settings, GError **error)
{
  const PsiLowering whole = {
    .micro_batch = 1, .tp = 1, .cp = 1, .ep = 1, .dtype = PSI_DTYPE_BF16, .flash = TRUE, .adapters = source->adapters
  };
  const char *where = psi_settings_where (settings, PSI_KEY_LORA_RANK);

  if (source->adapters.rank == 0)
    return TRUE;
  if (source->family == NULL || source->family->build == NULL)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "%s: '%" G_GINT64_FORMAT "' needs a transformer (families gpt llama moe bert t5 vit)", where,
                   source->adapters.rank);
      return FALSE;
    }
  g_autoptr (PsiModel) model = psi_family_expand (source->family, source->dimensions, &whole, error);
  if (model == NULL)
    return FALSE;
  for (guint i = 0; i < model->layers->len; i++)
    source->adapter_parameters +=
        psi_kind_trainable (psi_model_kind (model, g_array_index (model->layers, PsiLayer, i).kind));
  if (source->adapter_parameters > 0)
    return TRUE;
  g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE, "%s: '%s' is in no block of '%s'",
               psi_settings_where (settings, PSI_KEY_LORA_TARGETS), psi_settings_text (settings, PSI_KEY_LORA_TARGETS),
               source->dimensions->name);
  return FALSE;
}

PsiModelSource *
psi_model_source_load (const PsiSettings *settings, GError **error)
{
  g_autoptr (PsiModelSource) source = g_new0 (PsiModelSource, 1);
  const char *name = psi_settings_text (settings, PSI_KEY_MODEL);

  if (name == NULL)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_UNKNOWN,
                   "no model given (allowed: a preset of 'list models', a file, uniform, custom)");
      return NULL;
    }
  if (!psi_adapters_read (settings, &source->adapters, error) || !load_named (source, settings, name, error) ||
      !count_adapters (source, settings, error))
    return NULL;
  if (source->name == NULL)
    source->name = g_strdup (source->dimensions != NULL ? source->dimensions->name
                             : source->trace != NULL    ? source->trace->name
                                                        : name);
  return g_steal_pointer (&source);
}

void
psi_model_source_free (PsiModelSource *source)
{
  if (source == NULL)
    return;
  g_free (source->name);
  psi_model_dimensions_free (source->dimensions);
  psi_workload_trace_free (source->trace);
  g_free (source);
}

guint
psi_model_source_blocks (const PsiModelSource *source)
{
  if (source->trace != NULL)
    return source->trace->layers->len;
  if (source->dimensions != NULL)
    return (guint) (source->dimensions->layers + source->dimensions->decoder_layers);
  return 0;
}

/* Refuse micro-batches whose tensors would not fit 64-bit byte counts. */
static gboolean
check_size (const PsiModelSource *source, const PsiLowering *lowering, GError **error)
{
  const PsiModelDimensions *d = source->dimensions;
  double widest = 1.0, tokens = (double) MAX (lowering->micro_batch, 1);

  if (d != NULL)
    {
      double sequence = (double) (lowering->sequence > 0 ? lowering->sequence : d->sequence);

      widest = MAX (MAX ((double) d->hidden, (double) d->vocab),
                    (double) MAX (d->ffn, d->expert_ffn) * (double) MAX (d->experts_per_token, 1));
      widest = MAX (widest, (double) d->heads * (double) d->head_dim);
      if (!lowering->flash)
        widest = MAX (widest, (double) d->heads * sequence);
      tokens *= sequence;
    }
  else if (source->trace != NULL)
    for (guint i = 0; i < source->trace->layers->len; i++)
      {
        const PsiTraceLayer *row = &g_array_index (source->trace->layers, PsiTraceLayer, i);

        widest = MAX (widest, (double) row->saved_bytes + (double) row->saved_index_bytes + (double) row->output_bytes);
      }
  if (tokens * widest <= MOST / 256)
    return TRUE;
  g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
               "[plan] micro_batch: '%" G_GINT64_FORMAT "' makes tensors of '%s' larger than 64-bit byte counts hold",
               lowering->micro_batch, source->name);
  return FALSE;
}

PsiModel *
psi_model_source_expand (const PsiModelSource *source, const PsiSettings *settings, const PsiLowering *lowering,
                         guint stages, GError **error)
{
  g_autoptr (PsiModel) model = NULL;
  double trainable = 1.0 - psi_settings_real (settings, PSI_KEY_FROZEN);
  PsiLowering adapted = *lowering;

  adapted.adapters = source->adapters;
  if (!check_size (source, lowering, error))
    return NULL;
  if (source->is_uniform)
    model = psi_uniform_expand (settings, lowering, stages, error);
  else if (source->trace != NULL)
    model = psi_trace_expand (source->trace, lowering, error);
  else
    model = psi_family_expand (source->family, source->dimensions, &adapted, error);
  if (model == NULL)
    return NULL;
  psi_dimensions_replace_text (&model->name, source->name);
  for (guint i = 0; i < model->kinds->len; i++)
    psi_model_kind (model, i)->trainable_fraction = trainable;
  return g_steal_pointer (&model);
}
