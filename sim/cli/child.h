/* SPDX-License-Identifier: MIT */
/* Programs that a command starts: bench, train and gnuplot. */
#pragma once

#include <gio/gio.h>

/* Like g_subprocess_newv(), but the program ends with the thread that started it, however that ends: nobody wants a
 * training that goes on for hours after its psisim was killed. It reads `input` (NULL: nothing of ours) from a file, so
 * that one which refuses its flags before it has read all is heard, not taken for a broken pipe. */
GSubprocess *psi_child_new (const char *const *argv, GSubprocessFlags flags, const char *input, GError **error);
