/* SPDX-License-Identifier: MIT */
#include "out-file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES (1u << 18)

G_DEFINE_QUARK (psi_out_file_error, psi_out_file_error)

struct _PsiOutFile
{
  char *path, *temporary; /* temporary NULL: written directly */
  int fd;
  int write_errno; /* of the first write that failed, 0 = none */
  gsize length;
  char buffer[BUFFER_BYTES];
};

static void
write_all (PsiOutFile *file, const char *bytes, gsize length)
{
  while (length > 0 && file->write_errno == 0)
    {
      gssize n = write (file->fd, bytes, length);

      if (n >= 0)
        {
          bytes += n;
          length -= (gsize) n;
        }
      else if (errno != EINTR)
        file->write_errno = errno;
    }
}

static void
flush (PsiOutFile *file)
{
  write_all (file, file->buffer, file->length);
  file->length = 0;
}

void
psi_out_file_put (PsiOutFile *file, const char *bytes, gsize length)
{
  if (length > BUFFER_BYTES - file->length)
    flush (file);
  if (length > BUFFER_BYTES)
    {
      write_all (file, bytes, length);
      return;
    }
  memcpy (file->buffer + file->length, bytes, length);
  file->length += length;
}

static gboolean
set_error (const char *path, int number, GError **error)
{
  g_set_error (error, PSI_OUT_FILE_ERROR, PSI_OUT_FILE_ERROR_WRITE, "cannot write '%s': %s", path, g_strerror (number));
  return FALSE;
}

PsiOutFile *
psi_out_file_open (const char *path, GError **error)
{
  g_autofree char *temporary = NULL;
  GStatBuf status;
  int fd;

  if (g_stat (path, &status) == 0 && !S_ISREG (status.st_mode))
    fd = g_open (path, O_WRONLY | O_CLOEXEC, 0);
  else
    {
      temporary = g_strconcat (path, ".XXXXXX", NULL);
      fd = g_mkstemp_full (temporary, O_WRONLY | O_CLOEXEC, 0666);
    }
  if (fd < 0)
    {
      set_error (path, errno, error);
      return NULL;
    }
  PsiOutFile *file = g_new (PsiOutFile, 1);
  file->path = g_strdup (path);
  file->temporary = g_steal_pointer (&temporary);
  file->fd = fd;
  file->write_errno = 0;
  file->length = 0;
  return file;
}

void
psi_out_file_abandon (PsiOutFile *file)
{
  if (file == NULL)
    return;
  if (file->fd >= 0)
    close (file->fd);
  if (file->temporary != NULL)
    g_unlink (file->temporary);
  g_free (file->temporary);
  g_free (file->path);
  g_free (file);
}

gboolean
psi_out_file_close (PsiOutFile *file, GError **error)
{
  gboolean is_done = TRUE;

  flush (file);
  if (close (file->fd) != 0 && file->write_errno == 0)
    file->write_errno = errno;
  file->fd = -1;
  if (file->write_errno == 0 && file->temporary != NULL && g_rename (file->temporary, file->path) != 0)
    file->write_errno = errno;
  if (file->write_errno != 0)
    is_done = set_error (file->path, file->write_errno, error);
  else
    g_clear_pointer (&file->temporary, g_free);
  psi_out_file_abandon (file);
  return is_done;
}

gboolean
psi_out_file_write (const char *path, const char *bytes, gsize length, GError **error)
{
  PsiOutFile *file = psi_out_file_open (path, error);

  if (file == NULL)
    return FALSE;
  psi_out_file_put (file, bytes, length);
  return psi_out_file_close (file, error);
}
