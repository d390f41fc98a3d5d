/* SPDX-License-Identifier: MIT */
/* A profile in words: what was measured, how well the fit describes it, and how it compares with the datasheet. */
#pragma once

#include "machine-profile.h"
#include "table-text.h"

/* Measured against `datasheet` (NULL: alone), the table of curves with their errors, and what looks wrong.
 * (transfer full) */
char *psi_table_profile (const PsiProfile *profile, const PsiMachine *datasheet, const PsiTerminal *terminal);
