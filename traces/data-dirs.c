/* SPDX-License-Identifier: MIT */
/* Three places, in this order: what the user says ($PSISIM_DATA/KIND), the source tree the program was built from, the
 * installed data directory. The source tree comes before the installed one so that a program run from its build
 * directory sees the presets of its own version. */

#include "data-dirs.h"

#include "psi-config.h"

#include <string.h>

/* Where each kind lies in the source tree. */
static const struct
{
  const char *kind, *source_folder;
} kinds[] = {
  { "machines", "scenarios" G_DIR_SEPARATOR_S "machines" },
  { "models", "scenarios" G_DIR_SEPARATOR_S "models" },
  { "traces", "traces" },
  { "plots", "plots" },
  { "lessons", "sim" G_DIR_SEPARATOR_S "lessons" },
};

static const char *
source_folder (const char *kind)
{
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (g_str_equal (kinds[i].kind, kind))
      return kinds[i].source_folder;
  g_assert_not_reached ();
}

/* The directories of that kind that exist, in the order they are searched.
 * Returns (transfer full) a NULL-ended list, perhaps empty; g_strfreev(). */
static char **
directories_of (const char *kind)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  const char *user = g_getenv ("PSISIM_DATA");
  char *candidates[3] = { user && *user ? g_build_filename (user, kind, NULL) : NULL,
                          g_build_filename (PSI_SOURCE_DIR, source_folder (kind), NULL),
                          g_build_filename (PSI_DATA_DIR, kind, NULL) };
  for (guint i = 0; i < G_N_ELEMENTS (candidates); i++)
    {
      if (candidates[i] && g_file_test (candidates[i], G_FILE_TEST_IS_DIR))
        g_strv_builder_add (builder, candidates[i]);
      g_free (candidates[i]);
    }
  return g_strv_builder_end (builder);
}

char *
psi_data_find (const char *kind, const char *file)
{
  if (*file == '\0' || strchr (file, G_DIR_SEPARATOR) || strchr (file, '/'))
    return NULL;
  g_auto (GStrv) directories = directories_of (kind);
  for (char **directory = directories; *directory; directory++)
    {
      char *path = g_build_filename (*directory, file, NULL);
      if (g_file_test (path, G_FILE_TEST_IS_REGULAR))
        return path;
      g_free (path);
    }
  return NULL;
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

char **
psi_data_list (const char *kind, const char *suffix)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  GPtrArray *names = g_ptr_array_new ();
  g_auto (GStrv) directories = directories_of (kind);
  for (char **directory = directories; *directory; directory++)
    {
      GDir *dir = g_dir_open (*directory, 0, NULL);
      const char *file;
      while (dir && (file = g_dir_read_name (dir)))
        {
          if (!g_str_has_suffix (file, suffix) || *file == '.')
            continue;
          char *name = g_strndup (file, strlen (file) - strlen (suffix));
          if (*name && g_hash_table_add (seen, name))
            g_ptr_array_add (names, name);
          else
            g_free (name);
        }
      g_clear_pointer (&dir, g_dir_close);
    }
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return (char **) g_ptr_array_free (names, FALSE);
}
