/* SPDX-License-Identifier: MIT */
/* A file that is complete or not there: written under a temporary name beside its place, then renamed. What is there
 * already and is no plain file (a pipe, a terminal) is written to directly. */
#pragma once

#include <glib.h>

typedef struct _PsiOutFile PsiOutFile;

#define PSI_OUT_FILE_ERROR (psi_out_file_error_quark ())
typedef enum
{
  PSI_OUT_FILE_ERROR_WRITE /* cannot be opened, written or put in place: "cannot write 'a.json': ..." */
} PsiOutFileError;
GQuark psi_out_file_error_quark (void);

/* Returns (transfer full), NULL on error. */
PsiOutFile *psi_out_file_open (const char *path, GError **error);
/* Append bytes. A failure is remembered and reported when the file is closed. */
void psi_out_file_put (PsiOutFile *file, const char *bytes, gsize length);
/* Finish and put in place. Frees the file. */
gboolean psi_out_file_close (PsiOutFile *file, GError **error);
/* Give up: nothing stays on the disk. Frees the file; NULL is fine. */
void psi_out_file_abandon (PsiOutFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiOutFile, psi_out_file_abandon)

/* All at once. */
gboolean psi_out_file_write (const char *path, const char *bytes, gsize length, GError **error);
