/* SPDX-License-Identifier: MIT */
/* A row of measured runs as settings of a scenario.
 *
 * A column is a key of the same name, or of the name the table below gives; any other column that is named like a key
 * is taken too. An empty cell leaves the key unwritten, which is the framework's default. */
#include "validate.h"

#include "framework.h"
#include "machine.h"

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
  { PSI_KEY_SCHEDULE, "none", "" }, /* follows from pp */
  { PSI_KEY_VPP, "1", "" },
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
set (PsiSettings *settings, PsiKeyId key, const char *text, GError **error)
{
  return psi_settings_set (settings, key, text, psi_keys[key].name, error);
}

/* The notes may say which kernels a framework ran, the name of the source whose fork of it it was (BigScience's): for
 * that alone the source is looked at. */
static gboolean
set_framework (PsiSettings *settings, const char *text, const char *source, const char *notes, GPtrArray *assumptions,
               GError **error)
{
  g_autofree char *all = g_strjoin (" ", text, *text != '\0' ? source : "", notes, NULL);
  const PsiFramework *framework = psi_framework_guess (all);

  if (psi_settings_has (settings, PSI_KEY_FRAMEWORK))
    return TRUE;
  if (framework != NULL)
    return set (settings, PSI_KEY_FRAMEWORK, framework->name, error);
  g_ptr_array_add (assumptions, g_strdup_printf ("framework '%s' is taken for %s", text,
                                                 psi_settings_text (settings, PSI_KEY_FRAMEWORK)));
  return TRUE;
}

/* What no column holds, as the notes of published runs say it; `value` NULL: the number behind the words. The first
 * that fits counts; `framework`: of runs of that one only. nanotron's sweep ran PyTorch 2.1 of October 2023 on AWS
 * (run_multinode.sh in its branch nouamane/bench2); that the network's plug-in was of that time too is inferred from
 * its steps with tensor parallelism over nodes. */
static const struct
{
  const char *words;
  PsiKeyId key;
  const char *value, *framework;
} facts[] = {
  { "impl=local", PSI_KEY_FRAMEWORK, "megatron" },
  { "hidden_dropout=", PSI_KEY_DROPOUT, NULL },
  { "decoder_sequence=", PSI_KEY_DECODER_SEQUENCE, NULL },
  { "expert_tp=", PSI_KEY_EXPERT_TP, NULL },
  { "shared_expert_ffn=", PSI_KEY_SHARED_FFN, NULL },
  { "dense_layers=", PSI_KEY_DENSE_LAYERS, NULL },
  { "dense_ffn=", PSI_KEY_DENSE_FFN, NULL },
  { "vocab layers: vocab-1", PSI_KEY_VOCAB_PARALLEL, "vocab-1" },
  { "vocab layers: vocab-2", PSI_KEY_VOCAB_PARALLEL, "vocab-2" },
  { "vocab layers: interlaced", PSI_KEY_VOCAB_PARALLEL, "interlaced" },
  { "vocab layers: redis", PSI_KEY_PARTITION, "flops" },
  { "deterministic=yes", PSI_KEY_DETERMINISTIC, "yes" },
  { "fused cross entropy", PSI_KEY_FUSED_LOSS, "yes" },
  { "cross-entropy fusion", PSI_KEY_FUSED_LOSS, "yes" },
  { "flash_attentionv1", PSI_KEY_ATTENTION, "flash-1" },
  { "EFA ", PSI_KEY_NETWORK, "efa-2023", "nanotron" },
  { "EFA ", PSI_KEY_NETWORK, "efa" },
  { "Omni-Path", PSI_KEY_NETWORK, "omnipath" },
};

/* Can the machine of a row have that network? */
static gboolean
has_network (const PsiSettings *settings, const char *name)
{
  const char *machine_name = psi_settings_text (settings, PSI_KEY_MACHINE);
  g_autoptr (PsiMachine) machine = machine_name != NULL ? psi_machine_load (machine_name, NULL) : NULL;

  return machine != NULL && psi_machine_choose_network (machine, name, NULL);
}

static gboolean
set_notes (PsiSettings *settings, const char *notes, const char *framework, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (facts); i++)
    {
      const char *found = strstr (notes, facts[i].words);

      /* The column knows flash and math only; the notes may know which flash. */
      if (facts[i].framework != NULL && strstr (framework, facts[i].framework) == NULL)
        continue;
      if (found == NULL || (psi_settings_has (settings, facts[i].key) && facts[i].key != PSI_KEY_ATTENTION))
        continue;
      if (facts[i].key == PSI_KEY_NETWORK && !has_network (settings, facts[i].value))
        continue;
      found += strlen (facts[i].words);
      g_autofree char *number = g_strndup (found, strspn (found, "0123456789."));
      g_strchomp (number);
      if (!set (settings, facts[i].key, facts[i].value != NULL ? facts[i].value : number, error))
        return FALSE;
    }
  return TRUE;
}

/* Defaults of a framework that a column may overrule. */
static const struct
{
  const char *framework;
  PsiKeyId key;
  const char *value;
} defaults[] = {
  { "zero-bubble", PSI_KEY_ATTENTION, "math" },       /* Megatron-LM of 2023: unfused without --use-flash-attn */
  { "Megatron-LM fork", PSI_KEY_GRAD_DTYPE, "fp16" }, /* the forks' scripts train in fp16, gradients too */
  { "Megatron-LM fork", PSI_KEY_TIED, "no" },         /* and with --untie-embeddings-and-output-weights */
};

static gboolean
set_defaults (PsiSettings *settings, const char *framework, GPtrArray *assumptions, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (defaults); i++)
    {
      if (strstr (framework, defaults[i].framework) == NULL || psi_settings_has (settings, defaults[i].key))
        continue;
      if (!set (settings, defaults[i].key, defaults[i].value, error))
        return FALSE;
      g_ptr_array_add (assumptions, g_strdup_printf ("%s is not stated: %s, the default of %s",
                                                     psi_keys[defaults[i].key].name, defaults[i].value, framework));
    }
  return TRUE;
}

/* "decoder_first_pipeline_num_layers=2", Megatron's way to cut unevenly: `partition` as a list. */
static gboolean
set_uneven_stages (PsiSettings *settings, const char *notes, GError **error)
{
  static const char *const words[] = { "decoder_first_pipeline_num_layers=", "decoder_last_pipeline_num_layers=" };
  gint64 ends[2], pp = psi_settings_has (settings, PSI_KEY_PP) ? psi_settings_count (settings, PSI_KEY_PP) : 1;
  g_autoptr (GString) list = g_string_new (NULL);

  if (pp < 3 || psi_settings_has (settings, PSI_KEY_VPP) || !psi_settings_has (settings, PSI_KEY_LAYERS))
    return TRUE;
  for (guint i = 0; i < 2; i++)
    {
      const char *found = strstr (notes, words[i]);

      if (found == NULL)
        return TRUE;
      ends[i] = g_ascii_strtoll (found + strlen (words[i]), NULL, 10);
    }
  gint64 middle = psi_settings_count (settings, PSI_KEY_LAYERS) - ends[0] - ends[1];
  if (middle % (pp - 2) != 0)
    return TRUE;
  for (gint64 i = 0; i < pp; i++)
    g_string_append_printf (list, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "",
                            i == 0        ? ends[0]
                            : i == pp - 1 ? ends[1]
                                          : middle / (pp - 2));
  return set (settings, PSI_KEY_PARTITION, list->str, error);
}

/* The column `model` if this row has something in it, else -1. */
static int
name_of_model (const PsiRunTable *table, const PsiMeasuredRun *run)
{
  for (guint i = 0; i < table->names->len; i++)
    if (g_str_equal (table->names->pdata[i], "model") && *run->cells[i] != '\0')
      return (int) i;
  return -1;
}

PsiSettings *
psi_validate_settings (const PsiRunTable *table, const PsiMeasuredRun *run, GPtrArray *assumptions, GError **error)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();

  if (!set (settings, PSI_KEY_MODEL, "custom", error))
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
      if (!set (settings, (PsiKeyId) key, rate != NULL ? rate : text, error))
        return NULL;
    }
  /* Without dimensions the model's name has to say them. */
  int named = name_of_model (table, run);
  if (named >= 0 && !psi_settings_has (settings, PSI_KEY_LAYERS) &&
      !set (settings, PSI_KEY_MODEL, run->cells[named], error))
    return NULL;
  const char *notes = psi_run_cell (table, run, PSI_RUN_NOTES);
  if (psi_settings_has (settings, PSI_KEY_EXPERTS) && !set (settings, PSI_KEY_FAMILY, "moe", error))
    return NULL;
  if (!set_notes (settings, notes, psi_run_cell (table, run, PSI_RUN_FRAMEWORK), error) ||
      !set_uneven_stages (settings, notes, error) ||
      !set_framework (settings, psi_run_cell (table, run, PSI_RUN_FRAMEWORK), psi_run_cell (table, run, PSI_RUN_SOURCE),
                      notes, assumptions, error) ||
      !set_defaults (settings, psi_run_cell (table, run, PSI_RUN_FRAMEWORK), assumptions, error))
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
