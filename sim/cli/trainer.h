/* SPDX-License-Identifier: MIT */
/* The programs of kernels/ that train for real: where they are, how they are run. They speak JSON Lines. */
#pragma once

#include <glib.h>
#include <json-glib/json-glib.h>

/* The program beside psisim in a build directory, beside it, or where it is installed. (transfer full) */
char *psi_trainer_find (const char *program, GError **error);

/* Run `program` ("train-host") with the NULL-ended `flags` and `input` (NULL: none) on its standard input, and wait.
 * Returns (transfer full) the lines it printed, of JsonObject*. Errors are the program's own, one line. *ret_no_device
 * (may be NULL) tells that there is no device or no library for it. May be called from several threads at once. */
GPtrArray *psi_trainer_run (const char *program, const char *const *flags, const char *input, gboolean *ret_no_device,
                            GError **error);
