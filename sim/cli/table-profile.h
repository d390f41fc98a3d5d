/* SPDX-License-Identifier: MIT */
/* A profile in words: what was measured, how well the fit describes it, and how it compares with the datasheet. */
#pragma once

#include "machine.h"
#include "profile.h"
#include "table-text.h"

/* The preset whose GPU the profile was measured on, or NULL. (transfer full) */
PsiMachine *psi_profile_datasheet (const PsiProfile *profile);

/* Measured against `datasheet` (NULL: alone), the table of curves with their errors, and what looks wrong.
 * (transfer full) */
char *psi_table_profile (const PsiProfile *profile, const PsiMachine *datasheet, const PsiTerminal *terminal);
