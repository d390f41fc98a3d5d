/* SPDX-License-Identifier: MIT */
/* Dimensions of a model as the keys of [model] change them. */
#pragma once

#include "hf-config.h"
#include "keys.h"

/* Make the dimensions those of another family: its activation, norm, biases and special parts. */
void psi_dimensions_set_family (PsiModelDimensions *dimensions, const char *family);
/* Apply what is written. FALSE: it does not fit together. */
gboolean psi_dimensions_override (const PsiSettings *settings, PsiModelDimensions *dimensions, GError **error);

/* FALSE if one of the keys is written: the error says where, and why it may not be. */
gboolean psi_dimensions_refuse_keys (const PsiSettings *settings, const PsiKeyId *keys, gsize n_keys, const char *why,
                                     GError **error);
/* *text is freed, and becomes a copy of `value`. */
void psi_dimensions_replace_text (char **text, const char *value);
