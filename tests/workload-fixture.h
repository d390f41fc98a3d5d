/* SPDX-License-Identifier: MIT */
/* Models lowered for one GPU: for tests of what layers cost and keep. */
#pragma once

#include "workload.h"

#include <string.h>

static const PsiLowering plain = {
  .micro_batch = 1, .tp = 1, .cp = 1, .ep = 1, .dtype = PSI_DTYPE_BF16, .flash = TRUE, .loss_chunks = 1
};

/* Key, value, key, value, ..., NULL. */
static inline PsiSettings *
settings_of (const char *const *pairs)
{
  PsiSettings *settings = psi_settings_new ();

  for (guint i = 0; pairs[i] != NULL; i += 2)
    {
      g_autoptr (GError) error = NULL;
      int key = psi_key_find (pairs[i]);

      g_assert_cmpint (key, >=, 0);
      psi_settings_set (settings, (PsiKeyId) key, pairs[i + 1], pairs[i], &error);
      g_assert_no_error (error);
    }
  return settings;
}
#define SETTINGS(...) settings_of ((const char *const[]){ __VA_ARGS__, NULL })

static inline PsiModel *
expand (const PsiSettings *settings, const PsiLowering *lowering, guint stages)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiModelSource) source = psi_model_source_load (settings, &error);

  g_assert_no_error (error);
  PsiModel *model = psi_model_source_expand (source, settings, lowering, stages, &error);
  g_assert_no_error (error);
  return model;
}

static inline const PsiLayerKind *
find_kind (const PsiModel *model, const char *name)
{
  for (guint i = 0; i < model->kinds->len; i++)
    if (g_str_equal (psi_model_kind (model, i)->name, name))
      return psi_model_kind (model, i);
  g_assert_not_reached ();
}
