/* SPDX-License-Identifier: MIT */
#include "trainer.h"

#include "child.h"

#include "psi-config.h"

#include <gio/gio.h>
#include <string.h>

enum
{
  EXIT_NO_DEVICE = 77,  /* of the training programs */
  EXIT_NO_LIBRARY = 127 /* the loader found no CUDA or BLAS */
};

char *
psi_trainer_find (const char *program, GError **error)
{
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *directory = self != NULL ? g_path_get_dirname (self) : g_strdup (".");
  g_autofree char *beside = g_build_filename (directory, "kernels", program, NULL);
  g_autofree char *here = g_build_filename (directory, program, NULL);
  g_autofree char *moved = g_build_filename (directory, "..", "libexec", "psisim", program, NULL);
  g_autofree char *installed = g_build_filename (PSI_LIBEXEC_DIR, program, NULL);
  const char *const candidates[] = { beside, here, moved, installed };

  for (guint i = 0; i < G_N_ELEMENTS (candidates); i++)
    if (g_file_test (candidates[i], G_FILE_TEST_IS_EXECUTABLE))
      return g_strdup (candidates[i]);
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
               "'%s' is not there: it was not built, for want of its libraries", program);
  return NULL;
}

static GPtrArray *
parse_lines (const char *program, const char *text, GError **error)
{
  g_autoptr (GPtrArray) objects = g_ptr_array_new_with_free_func ((GDestroyNotify) json_object_unref);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  for (char **line = lines; *line != NULL; line++)
    {
      if (**line == '\0')
        continue;
      g_autoptr (JsonNode) node = json_from_string (*line, NULL);
      if (node == NULL || !JSON_NODE_HOLDS_OBJECT (node))
        {
          g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s printed a line that is no JSON object", program);
          return NULL;
        }
      g_ptr_array_add (objects, json_node_dup_object (node));
    }
  return g_steal_pointer (&objects);
}

/* The last line of `text`, without the program's name. (transfer full) */
static char *
last_complaint (const char *program, const char *text)
{
  g_autofree char *trimmed = g_strstrip (g_strdup (text));
  g_autofree char *prefix = g_strconcat (program, ": ", NULL);
  const char *line = strrchr (trimmed, '\n') != NULL ? strrchr (trimmed, '\n') + 1 : trimmed;

  return g_strdup (g_str_has_prefix (line, prefix) ? line + strlen (prefix) : line);
}

GPtrArray *
psi_trainer_run (const char *program, const char *const *flags, const char *input, gboolean *ret_no_device,
                 GError **error)
{
  g_autofree char *path = psi_trainer_find (program, error);
  g_autoptr (GPtrArray) argv = g_ptr_array_new ();
  g_autofree char *output = NULL, *errors = NULL;
  g_autoptr (GError) cause = NULL;

  if (ret_no_device != NULL)
    *ret_no_device = path == NULL;
  if (path == NULL)
    return NULL;
  g_ptr_array_add (argv, path);
  for (; *flags != NULL; flags++)
    g_ptr_array_add (argv, (gpointer) *flags);
  g_ptr_array_add (argv, NULL);
  g_autoptr (GSubprocess) process =
      psi_child_new ((const char *const *) argv->pdata, G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE,
                     input, &cause);
  if (process == NULL || !g_subprocess_communicate_utf8 (process, NULL, NULL, &output, &errors, &cause))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "cannot run '%s': %s", path, cause->message);
      return NULL;
    }
  int status = g_subprocess_get_if_exited (process) ? g_subprocess_get_exit_status (process) : -1;
  if (status != 0)
    {
      g_autofree char *complaint = last_complaint (program, errors);

      if (ret_no_device != NULL)
        *ret_no_device = status == EXIT_NO_DEVICE || status == EXIT_NO_LIBRARY;
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: %s", program,
                   *complaint != '\0' ? complaint
                   : status < 0       ? "it crashed"
                                      : "it failed");
      return NULL;
    }
  return parse_lines (program, output, error);
}
