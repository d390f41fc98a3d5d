/* SPDX-License-Identifier: MIT */
/* Inside traces: what the library of each architecture calls its dimensions, as tables for the reader of config.json.
 */
#pragma once

#include "hf-config.h"

#include <json-glib/json-glib.h>

typedef enum
{
  PSI_HF_COUNT,
  PSI_HF_BOOL,
  PSI_HF_LENGTH, /* of an array */
  PSI_HF_ONE     /* a variant that is not read: anything but the fallback is an error */
} PsiHfFieldKind;

#define PSI_HF_REQUIRED (-1)

typedef struct
{
  const char *key;
  PsiHfFieldKind kind;
  gsize offset;    /* into PsiModelDimensions; none for PSI_HF_ONE */
  gint64 fallback; /* when absent or null; PSI_HF_REQUIRED: absence is an error */
  gint64 minimum;
  const char *alias; /* a second spelling, or NULL */
} PsiHfField;

/* What a required field of a text_config is when absent: such files leave out what their class has anyway. */
typedef struct
{
  const char *key; /* NULL ends a table */
  gint64 value;
} PsiHfClassDefault;

typedef struct
{
  const char *model_type;   /* "llama" */
  const char *class_prefix; /* of a word of `architectures`: "LlamaForCausalLM" */
  const char *family, *norm;
  const char *activation_key, *activation_fallback;
  const char *const *activations; /* word in the file, word of ours; NULL-ended pairs */
  const PsiHfField *fields;
  guint n_fields;
  const PsiHfClassDefault *class_defaults; /* or NULL */
  PsiModelTraits traits;                   /* what no field says; fields change it */
  /* What follows from several fields; NULL: nothing. `object`: the whole file. */
  const char *(*adjust) (PsiModelDimensions *dimensions, JsonObject *object); /* key of a wrong type, or NULL */
} PsiHfArchitecture;

extern const PsiHfArchitecture psi_hf_architectures[];
extern const guint psi_hf_n_architectures;
