/* SPDX-License-Identifier: MIT */
#include "scenario-text.h"

#include "in-file.h"
#include "quantity.h"

#include <string.h>

#define LONGEST_TITLE 200 /* characters */

static void
entry_clear (PsiScenarioEntry *entry)
{
  g_free (entry->text);
}

static void
group_free (PsiScenarioGroup *group)
{
  g_free (group->name);
  g_array_unref (group->entries);
  g_free (group);
}

void
psi_scenario_text_clear (PsiScenarioText *scan)
{
  g_free (scan->shown);
  g_free (scan->title);
  g_clear_pointer (&scan->groups, g_ptr_array_unref);
}

char *
psi_scenario_label (PsiKeyGroup kind, const char *name)
{
  return g_strdup_printf ("[%s%s%s]", psi_key_group_names[kind], name != NULL ? " " : "", name != NULL ? name : "");
}

/* ---- Text ---- */

static char *
read_text (const char *file, const char *shown, GError **error)
{
  g_autofree char *text = NULL;
  g_autoptr (GError) why = NULL;
  gsize length = 0;

  if (!psi_in_file_read (file, PSI_IN_FILE_MOST_JSON_BYTES, &text, &length, &why))
    g_set_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_READ,
                 g_error_matches (why, G_FILE_ERROR, G_FILE_ERROR_FAILED) ? "%s: %s" : "cannot read '%s': %s", shown,
                 why->message);
  else if (length == 0)
    g_set_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_READ, "%s: the file is empty", shown);
  else if (!g_utf8_validate_len (text, length, NULL))
    g_set_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_READ, "%s: not a text file (UTF-8)", shown);
  else
    return g_steal_pointer (&text);
  return NULL;
}

/* ---- Lines ---- */

static gboolean refuse_line (const PsiScenarioText *scan, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* "gpt.scn:12: ..."; returns FALSE. */
static gboolean
refuse_line (const PsiScenarioText *scan, GError **error, const char *format, ...)
{
  va_list args;

  va_start (args, format);
  g_autofree char *fault = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_SYNTAX, "%s:%u: %s", scan->shown, scan->line, fault);
  return FALSE;
}

/* " (did you mean 'x'?)", or "". */
static char *
hint (const char *word, const char *const *known)
{
  const char *near = psi_nearest (word, known);

  return near != NULL ? g_strdup_printf (" (did you mean '%s'?)", near) : g_strdup ("");
}

static gboolean
scan_header (PsiScenarioText *scan, char *line, GError **error)
{
  gsize length = strlen (line);

  if (line[length - 1] != ']')
    return refuse_line (scan, error, "no ']' at the end of a group name");
  line[length - 1] = '\0';

  char *word = g_strstrip (line + 1);
  char *name = word + strcspn (word, " \t");
  if (*name != '\0')
    {
      *name++ = '\0';
      g_strchug (name);
    }

  PsiKeyGroup kind = 0;
  while (kind < PSI_N_KEY_GROUPS && strcmp (psi_key_group_names[kind], word) != 0)
    kind++;
  if (kind == PSI_N_KEY_GROUPS)
    {
      g_autofree char *quoted = psi_quote (word);

      return refuse_line (scan, error, "unknown group %s (one of: [model], [machine], [plan], [plan NAME])", quoted);
    }
  if (*name == '\0')
    name = NULL;
  if (name != NULL && kind != PSI_KEY_GROUP_PLAN)
    return refuse_line (scan, error, "group [%s] takes no name", word);
  if (name != NULL && (strpbrk (name, "[]") != NULL || strlen (name) > 100))
    return refuse_line (scan, error, "name of a plan with a bracket in it, or longer than 100 bytes");
  for (guint i = 0; i < scan->groups->len; i++)
    {
      const PsiScenarioGroup *other = g_ptr_array_index (scan->groups, i);

      if (other->kind == kind && g_strcmp0 (other->name, name) == 0)
        {
          g_autofree char *label = psi_scenario_label (kind, name);

          return refuse_line (scan, error, "group %s is written twice (first in line %u)", label, other->line);
        }
    }

  PsiScenarioGroup *group = g_new0 (PsiScenarioGroup, 1);
  group->kind = kind;
  group->name = g_strdup (name);
  group->line = scan->line;
  group->entries = g_array_new (FALSE, FALSE, sizeof (PsiScenarioEntry));
  g_array_set_clear_func (group->entries, (GDestroyNotify) entry_clear);
  g_ptr_array_add (scan->groups, group);
  return TRUE;
}

static gboolean
scan_entry (PsiScenarioText *scan, char *line, GError **error)
{
  g_autofree char *whole = psi_quote (line);
  char *equals = strchr (line, '=');

  if (equals == NULL)
    return refuse_line (scan, error, "no '=' in %s", whole);
  *equals = '\0';

  char *name = g_strchomp (line), *text = g_strchug (equals + 1);
  int id = psi_key_find (name);
  g_autofree char *quoted = psi_quote (name);
  if (*name == '\0')
    return refuse_line (scan, error, "no key before '='");
  if (scan->groups->len == 0)
    return refuse_line (scan, error, "key %s before any group%s%s%s", quoted, id < 0 ? "" : "; it belongs in [",
                        id < 0 ? "" : psi_key_group_names[psi_keys[id].group], id < 0 ? "" : "]");

  PsiScenarioGroup *group = g_ptr_array_index (scan->groups, scan->groups->len - 1);
  g_autofree char *label = psi_scenario_label (group->kind, group->name);
  if (id < 0)
    {
      const char *names[PSI_N_KEYS + 1] = { NULL };
      guint n = 0;

      /* Prefer a key of this group: 'layer' in [model] is not a slip for a key of [plan]. */
      for (int i = 0; i < PSI_N_KEYS; i++)
        if (psi_keys[i].group == group->kind)
          names[n++] = psi_keys[i].name;
      g_autofree char *near = hint (name, names);
      return refuse_line (scan, error, "%s unknown key %s%s", label, quoted, near);
    }
  if (psi_keys[id].group != group->kind)
    return refuse_line (scan, error, "%s key %s belongs in [%s]", label, quoted,
                        psi_key_group_names[psi_keys[id].group]);
  for (guint i = 0; i < group->entries->len; i++)
    {
      const PsiScenarioEntry *other = &g_array_index (group->entries, PsiScenarioEntry, i);

      if (other->key == (PsiKeyId) id)
        return refuse_line (scan, error, "%s key %s is written twice (first in line %u)", label, quoted, other->line);
    }
  if (*text == '\0')
    return refuse_line (scan, error, "%s %s: no value", label, psi_keys[id].name);

  PsiScenarioEntry entry = { .key = (PsiKeyId) id, .text = g_strdup (text), .line = scan->line };
  g_array_append_val (group->entries, entry);
  return TRUE;
}

/* `#` begins a comment at the start of a line and after a blank. */
static void
cut_comment (char *line)
{
  for (char *p = line; *p != '\0'; p++)
    if (*p == '#' && (p == line || p[-1] == ' ' || p[-1] == '\t'))
      {
        *p = '\0';
        return;
      }
}

static gboolean
scan_text (PsiScenarioText *scan, char *text, GError **error)
{
  char *next = g_str_has_prefix (text, "\xef\xbb\xbf") ? text + 3 : text;

  while (next != NULL)
    {
      char *line = next, *end = strchr (next, '\n');

      next = end != NULL ? end + 1 : NULL;
      if (end != NULL)
        *end = '\0';
      scan->line++;
      g_strstrip (line);
      if (*line == '#' && scan->title == NULL && scan->groups->len == 0)
        {
          char *words = g_strchug (line + strspn (line, "#"));

          if (*words != '\0' && !g_str_has_prefix (words, "SPDX-"))
            scan->title = g_utf8_substring (words, 0, MIN (g_utf8_strlen (words, -1), LONGEST_TITLE));
        }
      cut_comment (line);
      g_strchomp (line);
      if (*line != '\0' && !(*line == '[' ? scan_header (scan, line, error) : scan_entry (scan, line, error)))
        return FALSE;
    }
  if (scan->groups->len == 0)
    {
      g_set_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_READ, "%s: no group [model], [machine] or [plan]",
                   scan->shown);
      return FALSE;
    }
  return TRUE;
}

gboolean
psi_scenario_text_read (PsiScenarioText *scan, const char *file, GError **error)
{
  scan->file = file;
  scan->groups = g_ptr_array_new_with_free_func ((GDestroyNotify) group_free);
  if (file == NULL)
    return TRUE;
  scan->shown = g_filename_display_name (file);
  g_autofree char *text = read_text (file, scan->shown, error);
  return text != NULL && scan_text (scan, text, error);
}
