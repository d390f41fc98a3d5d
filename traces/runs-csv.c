/* SPDX-License-Identifier: MIT */
#include "runs-csv.h"

#include "in-file.h"

#include <math.h>
#include <string.h>

G_DEFINE_QUARK (psi_runs_error, psi_runs_error)

static const char *const column_names[PSI_N_RUN_COLUMNS] = {
  [PSI_RUN_ID] = "id",
  [PSI_RUN_GROUP] = "group",
  [PSI_RUN_SOURCE] = "source",
  [PSI_RUN_FRAMEWORK] = "framework",
  [PSI_RUN_OUTCOME] = "outcome",
  [PSI_RUN_STEP_TIME_S] = "step_time_s",
  [PSI_RUN_PEAK_BYTES] = "peak_bytes",
  [PSI_RUN_MEMORY_KIND] = "memory_kind",
  [PSI_RUN_TIGHT] = "tight",
  [PSI_RUN_NOTES] = "notes",
};

/* One record from *text, which moves behind it; *line counts the lines passed. NULL: an open or misplaced quote. */
static GPtrArray *
read_record (const char **text, guint *line)
{
  g_autoptr (GPtrArray) cells = g_ptr_array_new_with_free_func (g_free);
  const char *p = *text;

  for (;;)
    {
      g_autoptr (GString) cell = g_string_new (NULL);

      if (*p == '"')
        {
          for (p++; *p != '"' || p[1] == '"'; p++)
            {
              if (*p == '\0')
                return NULL;
              p += *p == '"';
              *line += *p == '\n';
              g_string_append_c (cell, *p);
            }
          p++;
          if (strchr (",\r\n", *p) == NULL)
            return NULL;
        }
      else
        while (strchr (",\r\n", *p) == NULL)
          g_string_append_c (cell, *p++);
      g_ptr_array_add (cells, g_strstrip (g_strdup (cell->str)));
      if (*p != ',')
        break;
      p++;
    }
  p += *p == '\r';
  *line += *p == '\n';
  p += *p == '\n';
  *text = p;
  return g_steal_pointer (&cells);
}

static gboolean
is_blank (const GPtrArray *cells)
{
  return cells->len == 1 && *(const char *) cells->pdata[0] == '\0';
}

static void
run_free (gpointer data)
{
  PsiMeasuredRun *run = data;

  g_strfreev (run->cells);
  g_free (run);
}

static gboolean
read_header (PsiRunTable *table, const char *file, GError **error)
{
  for (guint c = 0; c < PSI_N_RUN_COLUMNS; c++)
    {
      table->columns[c] = -1;
      for (guint i = 0; i < table->names->len; i++)
        if (g_str_equal (table->names->pdata[i], column_names[c]))
          table->columns[c] = (int) i;
    }
  if (table->columns[PSI_RUN_ID] >= 0)
    return TRUE;
  g_set_error (error, PSI_RUNS_ERROR, PSI_RUNS_ERROR_SYNTAX, "%s:1: no column 'id' in the header", file);
  return FALSE;
}

PsiRunTable *
psi_run_table_load (const char *file, GError **error)
{
  g_autoptr (PsiRunTable) table = g_new0 (PsiRunTable, 1);
  g_autoptr (GError) failure = NULL;
  g_autofree char *text = NULL;
  gsize length = 0;
  guint line = 1;

  table->runs = g_ptr_array_new_with_free_func (run_free);
  if (!psi_in_file_read (file, PSI_IN_FILE_MOST_TEXT_BYTES, &text, &length, &failure))
    {
      g_set_error (error, PSI_RUNS_ERROR, PSI_RUNS_ERROR_READ, "%s: %s", file, failure->message);
      return NULL;
    }
  if (strlen (text) != length || !g_utf8_validate (text, -1, NULL))
    {
      g_set_error (error, PSI_RUNS_ERROR, PSI_RUNS_ERROR_READ, "%s: not a text file", file);
      return NULL;
    }
  const char *p = g_str_has_prefix (text, "\xef\xbb\xbf") ? text + 3 : text; /* byte order mark */
  while (*p != '\0')
    {
      guint first_line = line;
      g_autoptr (GPtrArray) cells = read_record (&p, &line);

      if (cells == NULL)
        {
          g_set_error (error, PSI_RUNS_ERROR, PSI_RUNS_ERROR_SYNTAX, "%s:%u: a quote that does not close its cell",
                       file, first_line);
          return NULL;
        }
      if (is_blank (cells))
        continue;
      if (table->names == NULL)
        {
          table->names = g_steal_pointer (&cells);
          if (!read_header (table, file, error))
            return NULL;
          continue;
        }
      if (cells->len != table->names->len)
        {
          g_set_error (error, PSI_RUNS_ERROR, PSI_RUNS_ERROR_SYNTAX, "%s:%u: %u cells, but the header has %u", file,
                       first_line, cells->len, table->names->len);
          return NULL;
        }
      PsiMeasuredRun *run = g_new0 (PsiMeasuredRun, 1);
      run->line = first_line;
      run->cells = g_new0 (char *, cells->len + 1);
      for (guint i = 0; i < cells->len; i++)
        run->cells[i] = g_strdup (cells->pdata[i]);
      g_ptr_array_add (table->runs, run);
    }
  if (table->names == NULL || table->runs->len == 0)
    {
      g_set_error (error, PSI_RUNS_ERROR, PSI_RUNS_ERROR_SYNTAX, "%s: no rows in it", file);
      return NULL;
    }
  return g_steal_pointer (&table);
}

void
psi_run_table_free (PsiRunTable *table)
{
  if (table == NULL)
    return;
  g_clear_pointer (&table->names, g_ptr_array_unref);
  g_clear_pointer (&table->runs, g_ptr_array_unref);
  g_free (table);
}

const char *
psi_run_cell (const PsiRunTable *table, const PsiMeasuredRun *run, PsiRunColumn column)
{
  return table->columns[column] < 0 ? "" : run->cells[table->columns[column]];
}

double
psi_run_number (const PsiRunTable *table, const PsiMeasuredRun *run, PsiRunColumn column)
{
  const char *text = psi_run_cell (table, run, column);
  char *end = NULL;
  double value = g_ascii_strtod (text, &end);

  return *text == '\0' || *end != '\0' || !isfinite (value) ? (double) NAN : value;
}

void
psi_run_append_cell (GString *line, const char *text)
{
  if (strpbrk (text, ",\"\r\n") == NULL)
    {
      g_string_append (line, text);
      return;
    }
  g_string_append_c (line, '"');
  for (; *text != '\0'; text++)
    {
      if (*text == '"')
        g_string_append_c (line, '"');
      g_string_append_c (line, *text);
    }
  g_string_append_c (line, '"');
}
