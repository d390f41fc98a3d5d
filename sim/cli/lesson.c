/* SPDX-License-Identifier: MIT */
/* Lesson files: sections, and text with numbers put in. */
#include "lesson.h"
#include "data-dirs.h"
#include "grid.h"
#include "table-units.h"

#include <string.h>

G_DEFINE_QUARK (psi_lesson_error, psi_lesson_error)

#define PAGE_WIDTH 80

static GHashTable *
read_sections (const char *text)
{
  GHashTable *sections = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autofree char *title = NULL;
  g_autoptr (GString) body = g_string_new (NULL);

  for (char **line = lines;; line++)
    {
      gsize length = *line != NULL ? strlen (*line) : 0;
      gboolean is_title = *line != NULL && **line == '[' && (*line)[length - 1] == ']';

      if ((is_title || *line == NULL) && title != NULL)
        g_hash_table_insert (sections, g_steal_pointer (&title),
                             g_strdup (g_strchomp (body->str) + strspn (body->str, "\n")));
      if (*line == NULL)
        break;
      if (is_title)
        {
          title = g_strndup (*line + 1, length - 2);
          g_string_truncate (body, 0);
        }
      else if (**line != '#')
        g_string_append_printf (body, "%s\n", *line);
    }
  return sections;
}

PsiLesson *
psi_lesson_load (const char *name, GError **error)
{
  g_autofree char *file = g_strconcat (name, ".lesson", NULL);
  g_autofree char *path = psi_data_find ("lessons", file);
  g_autofree char *text = NULL;

  if (path != NULL && !g_file_get_contents (path, &text, NULL, error))
    return NULL;
  PsiLesson *lesson = g_new0 (PsiLesson, 1);
  lesson->name = g_strdup (name);
  lesson->sections = read_sections (text != NULL ? text : "");
  return lesson;
}

void
psi_lesson_free (PsiLesson *lesson)
{
  if (lesson == NULL)
    return;
  g_hash_table_unref (lesson->sections);
  g_free (lesson->name);
  g_free (lesson);
}

const char *
psi_lesson_section (const PsiLesson *lesson, const char *title)
{
  const char *text = g_hash_table_lookup (lesson->sections, title);

  return text != NULL ? text : "";
}

char *
psi_lesson_value (const PsiLesson *lesson, const char *title, const char *key)
{
  g_auto (GStrv) lines = g_strsplit (psi_lesson_section (lesson, title), "\n", -1);

  for (char **line = lines; *line != NULL; line++)
    {
      char *equals = strchr (*line, '=');

      if (equals == NULL)
        continue;
      *equals = '\0';
      if (strcmp (g_strstrip (*line), key) == 0)
        return g_strdup (g_strstrip (equals + 1));
    }
  return NULL;
}

/* ---- Text ---- */

static gboolean
refuse (const PsiLesson *lesson, const char *field, const char *why, GError **error)
{
  g_set_error (error, PSI_LESSON_ERROR, PSI_LESSON_ERROR_FORM, "lesson '%s': {%s}: %s", lesson->name, field, why);
  return FALSE;
}

/* {=formula} */
static gboolean
append_formula (const PsiLesson *lesson, const PsiTrial *trial, const char *field, GString *out, GError **error)
{
  double value;

  if (trial == NULL)
    return refuse (lesson, field, "no plan to take names from", error);
  g_autofree PsiFormulaVariable *variables = psi_trial_variables (trial);
  if (!psi_formula_value (field + 1, variables, &value, error))
    {
      g_prefix_error (error, "lesson '%s': ", lesson->name);
      return FALSE;
    }
  g_autofree char *text = psi_format_fraction (value);
  g_string_append (out, text);
  return TRUE;
}

/* {measure}, {measure%}, {plan.measure} */
static gboolean
append_measure (const PsiLesson *lesson, const PsiTrial *trial, const char *field, GString *out, GError **error)
{
  g_autoptr (PsiTrial) other = NULL;
  const char *dot = strrchr (field, '.');
  g_autofree char *id = g_strdup (dot != NULL ? dot + 1 : field);
  gboolean is_percent = g_str_has_suffix (id, "%");

  if (is_percent)
    id[strlen (id) - 1] = '\0';
  if (dot != NULL)
    {
      g_autofree char *plan = g_strndup (field, (gsize) (dot - field));
      other = psi_trial_new (lesson, plan, error);
      if (other == NULL)
        return FALSE;
      trial = other;
    }
  if (trial == NULL)
    return refuse (lesson, field, "no plan to measure", error);
  for (const PsiMeasure *measure = psi_measures; measure->id != NULL; measure++)
    if (strcmp (measure->id, id) == 0)
      {
        double value = measure->value (trial);
        g_autofree char *text = is_percent ? psi_format_percent (value) : psi_format_fraction (value);
        g_string_append (out, text);
        if (*measure->unit != '\0' && !is_percent)
          g_string_append_printf (out, " %s", measure->unit);
        return TRUE;
      }
  return refuse (lesson, field, "no such measure", error);
}

static char *
fill_in (const PsiLesson *lesson, const PsiTrial *trial, const char *text, GError **error)
{
  g_autoptr (GString) out = g_string_new (NULL);

  for (const char *p = text; *p != '\0'; p++)
    {
      const char *end = *p == '{' ? strchr (p, '}') : NULL;

      if (end == NULL)
        {
          g_string_append_c (out, *p);
          continue;
        }
      g_autofree char *field = g_strndup (p + 1, (gsize) (end - p - 1));
      if (!(*field == '=' ? append_formula : append_measure) (lesson, trial, field, out, error))
        return NULL;
      p = end;
    }
  return g_strdup (out->str);
}

/* A paragraph or an item is over. */
static void
flush (GString *block, GString *out)
{
  if (block->len == 0)
    return;
  g_string_append (out, "  ");
  psi_append_wrapped (out, block->str, g_str_has_prefix (block->str, "- ") ? 4 : 2, PAGE_WIDTH);
  g_string_truncate (block, 0);
}

/* A line that stays as it is; a command that is too long for the page goes on in the next line, as a shell reads it. */
static void
append_verbatim (const char *line, GString *out)
{
  if (!g_str_has_prefix (line, "  psisim ") || strlen (line) + 2 <= PAGE_WIDTH)
    {
      g_string_append_printf (out, "  %s\n", line);
      return;
    }
  g_auto (GStrv) words = g_strsplit (line + 2, " ", -1);
  gsize column = 2;
  g_string_append (out, "  ");
  for (char **word = words; *word != NULL; word++)
    {
      /* A flag stays with its value. */
      gsize length = strlen (*word) + (g_str_has_prefix (*word, "--") && word[1] != NULL ? 1 + strlen (word[1]) : 0);
      if (column > 4 && column + 3 + length > PAGE_WIDTH)
        {
          g_string_append (out, " \\\n       ");
          column = 7;
        }
      g_string_append_printf (out, "%s%s", column > 2 ? " " : "  ", *word);
      column += strlen (*word) + (column > 2 ? 1 : 2);
    }
  g_string_append_c (out, '\n');
}

gboolean
psi_lesson_append_text (const PsiLesson *lesson, const PsiTrial *trial, const char *text, GString *out,
                        const PsiTerminal *terminal, GError **error)
{
  g_autofree char *filled = fill_in (lesson, trial, text, error);

  if (filled == NULL)
    return FALSE;
  g_autofree char *spelled = psi_spell_greek (filled, terminal);
  g_auto (GStrv) lines = g_strsplit (spelled, "\n", -1);
  g_autoptr (GString) block = g_string_new (NULL);
  for (char **line = lines; *line != NULL; line++)
    {
      gboolean is_verbatim = g_str_has_prefix (*line, "  ");

      if (**line == '\0' || is_verbatim || g_str_has_prefix (*line, "- "))
        flush (block, out);
      if (is_verbatim)
        append_verbatim (*line, out);
      else if (**line == '\0')
        g_string_append_c (out, '\n');
      else
        g_string_append_printf (block, "%s%s", block->len > 0 ? " " : "", *line);
    }
  flush (block, out);
  return TRUE;
}

char *
psi_spell_greek (const char *text, const PsiTerminal *terminal)
{
  static const char *const letters[][2] = { { "Ψ", "Psi" },   { "θ", "theta" },  { "γ", "gamma" },
                                            { "∇", "grad " }, { "λ", "lambda" }, { "π", "pi" },
                                            { "τ", "tau" },   { "Σ", "sum" },    { "²", "^2" } };
  g_autoptr (GString) out = g_string_new (text);

  for (guint i = 0; i < G_N_ELEMENTS (letters) && !terminal->utf8; i++)
    g_string_replace (out, letters[i][0], letters[i][1], 0);
  return g_strdup (out->str);
}
