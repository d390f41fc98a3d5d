/* SPDX-License-Identifier: MIT */
/* Settings from flags without dashes, "plan=dp workers=4": for tests below the scenario reader. */
#pragma once

#include "keys.h"

#include <string.h>

static inline PsiSettings *
settings_of (const char *flags)
{
  g_auto (GStrv) words = g_strsplit (flags, " ", -1);
  PsiSettings *settings = psi_settings_new ();

  for (char **word = words; *word != NULL; word++)
    {
      g_autoptr (GError) error = NULL;
      char *equals = strchr (*word, '=');

      g_assert_nonnull (equals);
      *equals = '\0';
      int key = psi_key_find (*word);
      g_assert_cmpint (key, >=, 0);
      g_autofree char *where = g_strdup_printf ("--%s", *word);
      psi_settings_set (settings, (PsiKeyId) key, equals + 1, where, &error);
      g_assert_no_error (error);
    }
  return settings;
}
