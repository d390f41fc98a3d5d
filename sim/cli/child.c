/* SPDX-License-Identifier: MIT */
#include "child.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

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

/* A file without a name that begins with `text`, or -1. */
static int
file_of (const char *text, GError **error)
{
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("psisim-XXXXXX", &path, error);
  gsize length = strlen (text), written = 0;

  if (fd < 0)
    return -1;
  g_unlink (path);
  while (written < length)
    {
      gssize n = write (fd, text + written, length - written);

      if (n <= 0)
        {
          g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "%s: %s", path, g_strerror (errno));
          close (fd);
          return -1;
        }
      written += (gsize) n;
    }
  lseek (fd, 0, SEEK_SET);
  return fd;
}

GSubprocess *
psi_child_new (const char *const *argv, GSubprocessFlags flags, const char *input, GError **error)
{
  g_autoptr (GSubprocessLauncher) launcher = g_subprocess_launcher_new (flags);

  if (input != NULL)
    {
      int fd = file_of (input, error);

      if (fd < 0)
        return NULL;
      g_subprocess_launcher_take_stdin_fd (launcher, fd);
    }
#ifdef __linux__
  g_subprocess_launcher_set_child_setup (launcher, end_with_parent, NULL, NULL);
#endif
  return g_subprocess_launcher_spawnv (launcher, argv, error);
}
