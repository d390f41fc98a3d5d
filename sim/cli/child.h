/* SPDX-License-Identifier: MIT */
/* Programs that a command starts: bench, train and gnuplot. */
#pragma once

#include <gio/gio.h>

/* Like g_subprocess_newv(), but the program ends with the thread that started it, however that ends: nobody wants a
 * training that goes on for hours after its psisim was killed. */
GSubprocess *psi_child_new (const char *const *argv, GSubprocessFlags flags, GError **error);
