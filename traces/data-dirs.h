/* SPDX-License-Identifier: MIT */
/* Where presets lie: beside the program when it runs uninstalled, in the data directory when installed. */
#pragma once

#include <glib.h>

/* Find `kind`/`file`, kind being "machines", "models", "traces", "plots" or "lessons". Searched: $PSISIM_DATA, then the source
 * tree the program was built from, then the installed data directory.
 * Returns (transfer full) a path, or NULL when there is none. */
char *psi_data_find (const char *kind, const char *file);
