/* SPDX-License-Identifier: MIT */
#include "child.h"

#ifdef __linux__
#include <signal.h>
#include <sys/prctl.h>

/* Between fork and exec. */
static void
end_with_parent (gpointer unused)
{
  prctl (PR_SET_PDEATHSIG, SIGTERM);
}
#endif

GSubprocess *
psi_child_new (const char *const *argv, GSubprocessFlags flags, GError **error)
{
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (flags);

#ifdef __linux__
  g_subprocess_launcher_set_child_setup (launcher, end_with_parent, NULL, NULL);
#endif
  return g_subprocess_launcher_spawnv (launcher, argv, error);
}
