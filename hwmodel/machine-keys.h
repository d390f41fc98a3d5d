/* SPDX-License-Identifier: MIT */
/* The key table of machine files; for machine.c only. */
#pragma once

#include <glib.h>

/* Read the text of `path`: a key file in which no group and no key stands twice. `where` begins the messages.
 * Returns (transfer full), or NULL with a PSI_MACHINE_ERROR. */
GKeyFile *psi_machine_keys_open (const char *path, const char *where, GError **error);

/* Read `group` of the file by the rows of `table` ("gpu" "host" "node" "link") into `target`: a PsiMachine, for "link"
 * a PsiLink. FALSE if a key is unknown, missing, not of its kind or out of range. */
gboolean psi_machine_keys_read (GKeyFile *file, const char *group, const char *table, gpointer target,
                                const char *where, GError **error);

/* The word of a choice key that stands for `value`. */
const char *psi_machine_keys_choice (const char *table, const char *key, int value);
