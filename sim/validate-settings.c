/* SPDX-License-Identifier: MIT */
/* A row of measured runs as settings of a scenario.
 *
 * A column is a key of the same name, or of the name the table below gives; any other column that is named like a key
 * is taken too. An empty cell leaves the key unwritten, which is the framework's default. */
#include "validate.h"

#include <string.h>

/* Words of the file that a key spells otherwise. */
typedef struct
{
  PsiKeyId key;
  const char *word, *meaning; /* meaning "": leave the key unwritten */
} Synonym;

static const Synonym synonyms[] = {
  { PSI_KEY_OPTIMIZER, "adamw", "adam" },
  { PSI_KEY_OPTIMIZER, "muon", "momentum" }, /* one moment, as momentum has */
  { PSI_KEY_FAMILY, "mixtral", "moe" },
  { PSI_KEY_PRECISION, "mxfp8", "fp8" },
  { PSI_KEY_PRECISION, "nvfp4", "fp8" },
  { PSI_KEY_SCHEDULE, "none", "" }, /* follows from pp */
  { PSI_KEY_VPP, "1", "" },
};

/* Frameworks by a part of their name, in order. */
static const struct
{
  const char *part, *framework;
} frameworks[] = {
  { "Megatron-FSDP", "megatron" }, { "Megatron", "megatron" }, { "megatron", "megatron" },  { "NeMo", "megatron" },
  { "nanotron", "megatron" },      { "Aleph", "megatron" },    { "torchtitan", "pytorch" }, { "FSDP", "pytorch" },
  { "Composer", "pytorch" },       { "torchtune", "pytorch" }, { "HF", "pytorch" },
};

/* Keys whose default matters, named when their cell is empty. */
static const PsiKeyId named_when_empty[] = {
  PSI_KEY_MICRO_BATCH, PSI_KEY_GLOBAL_BATCH, PSI_KEY_RECOMPUTE, PSI_KEY_ATTENTION, PSI_KEY_TIED,     PSI_KEY_VOCAB,
  PSI_KEY_GRAD_DTYPE,  PSI_KEY_OPTIMIZER,    PSI_KEY_MACHINE,   PSI_KEY_GPUS,      PSI_KEY_SCHEDULE,
};

static const char *
meaning_of (PsiKeyId key, const char *word)
{
  for (guint i = 0; i < G_N_ELEMENTS (synonyms); i++)
    if (synonyms[i].key == key && g_str_equal (synonyms[i].word, word))
      return synonyms[i].meaning;
  return word;
}

/* The key that a column fills, or -1. */
static int
key_of_column (const char *name)
{
  if (g_str_equal (name, "sp"))
    return PSI_KEY_SEQUENCE_PARALLEL;
  if (g_str_equal (name, "internode_gbps_per_gpu"))
    return PSI_KEY_INTERNODE;
  if (g_str_equal (name, "model") || g_str_equal (name, "framework"))
    return -1; /* names in the source's words */
  return psi_key_find (name);
}

static gboolean
set (PsiSettings *settings, const char *id, PsiKeyId key, const char *text, GError **error)
{
  g_autofree char *where = g_strdup_printf ("%s %s", id, psi_keys[key].name);

  return psi_settings_set (settings, key, text, where, error);
}

static gboolean
set_framework (PsiSettings *settings, const char *id, const char *text, GPtrArray *assumptions, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (frameworks); i++)
    if (strstr (text, frameworks[i].part) != NULL)
      return set (settings, id, PSI_KEY_FRAMEWORK, frameworks[i].framework, error);
  g_ptr_array_add (assumptions, g_strdup_printf ("framework '%s' is taken for %s", text,
                                                 psi_settings_text (settings, PSI_KEY_FRAMEWORK)));
  return TRUE;
}

/* "dropout=0.1" of the notes: what no column holds. */
static gboolean
set_notes (PsiSettings *settings, const char *id, const char *notes, GError **error)
{
  const char *dropout = strstr (notes, "hidden_dropout=");

  if (dropout == NULL)
    return TRUE;
  dropout += strlen ("hidden_dropout=");
  g_autofree char *text = g_strndup (dropout, strspn (dropout, "0123456789."));
  return set (settings, id, PSI_KEY_DROPOUT, text, error);
}

PsiSettings *
psi_validate_settings (const PsiRunTable *table, const PsiMeasuredRun *run, GPtrArray *assumptions, GError **error)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();
  const char *id = psi_run_cell (table, run, PSI_RUN_ID);

  if (!set (settings, id, PSI_KEY_MODEL, "custom", error))
    return NULL;
  for (guint i = 0; i < table->names->len; i++)
    {
      int key = key_of_column (table->names->pdata[i]);
      const char *text = run->cells[i];

      if (key < 0 || *text == '\0')
        continue;
      text = meaning_of ((PsiKeyId) key, text);
      if (*text == '\0')
        continue;
      g_autofree char *rate = key == PSI_KEY_INTERNODE ? g_strdup_printf ("%s Gb/s", text) : NULL;
      if (!set (settings, id, (PsiKeyId) key, rate != NULL ? rate : text, error))
        return NULL;
    }
  if (!set_framework (settings, id, psi_run_cell (table, run, PSI_RUN_FRAMEWORK), assumptions, error) ||
      !set_notes (settings, id, psi_run_cell (table, run, PSI_RUN_NOTES), error))
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (named_when_empty); i++)
    if (!psi_settings_has (settings, named_when_empty[i]))
      {
        const PsiKey *key = &psi_keys[named_when_empty[i]];

        if (named_when_empty[i] != PSI_KEY_SCHEDULE)
          g_ptr_array_add (assumptions, g_strdup_printf ("%s is not stated: %s", key->name,
                                                         key->fallback != NULL ? key->fallback : "the default"));
      }
  return g_steal_pointer (&settings);
}
