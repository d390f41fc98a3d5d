/* SPDX-License-Identifier: MIT */
/* Inside sim: the text of a scenario as groups of entries. The whole is scanned first, because GKeyFile merges doubled
 * groups and keys silently and knows no line numbers. */
#pragma once

#include "scenario.h"

typedef struct
{
  PsiKeyId key;
  char *text;
  guint line;
} PsiScenarioEntry;

typedef struct
{
  PsiKeyGroup kind;
  char *name; /* of [plan NAME], else NULL */
  guint line;
  GArray *entries; /* of PsiScenarioEntry */
} PsiScenarioGroup;

typedef struct
{
  const char *file; /* as given */
  char *shown;      /* the same, fit for messages */
  guint line;
  char *title;
  GPtrArray *groups; /* of PsiScenarioGroup*, in file order */
} PsiScenarioText;

/* Scan `file`, NULL: no file, no groups. FALSE: missing, no text, or a fault of form, which the error names with its
 * line. */
gboolean psi_scenario_text_read (PsiScenarioText *scan, const char *file, GError **error);
void psi_scenario_text_clear (PsiScenarioText *scan);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PsiScenarioText, psi_scenario_text_clear)

/* "[plan NAME]", "[model]". (transfer full) */
char *psi_scenario_label (PsiKeyGroup kind, const char *name);
