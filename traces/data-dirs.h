/* SPDX-License-Identifier: MIT */
/* Where presets lie: beside the program when it runs uninstalled, in the data directory when installed. */
#pragma once

#include <glib.h>

/* Find `kind`/`file`, kind being "machines", "models", "traces", "plots" or "lessons". Searched: $PSISIM_DATA, then the
 * source tree the program was built from, then the installed data directory. A `file` with a '/' in it is never found.
 * Returns (transfer full) a path, or NULL when there is none. */
char *psi_data_find (const char *kind, const char *file);

/* The files of that kind whose names end in `suffix` (".machine"), without the suffix, sorted, each once.
 * Returns (transfer full) a NULL-ended list, perhaps empty; g_strfreev(). */
char **psi_data_list (const char *kind, const char *suffix);
