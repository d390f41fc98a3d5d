/* SPDX-License-Identifier: MIT */
/* Scenario text to requests. The whole text is scanned into groups of entries first, because GKeyFile merges doubled
 * groups and keys silently and knows no line numbers; then each plan gets its own bag of settings. */
#include "scenario.h"

#include "in-file.h"
#include "named-plans.h"
#include "quantity.h"

#include <string.h>

G_DEFINE_QUARK (psi_scenario_error, psi_scenario_error)

#define LONGEST_TITLE 200 /* characters */

typedef struct
{
  PsiKeyId key;
  char *text;
  guint line;
} Entry;

typedef struct
{
  PsiKeyGroup kind;
  char *name; /* of [plan NAME], else NULL */
  guint line;
  GArray *entries; /* of Entry */
} Group;

typedef struct
{
  const char *file; /* as given */
  char *shown;      /* the same, fit for messages */
  guint line;
  char *title;
  GPtrArray *groups; /* of Group*, in file order */
} Scan;

static void
entry_clear (Entry *entry)
{
  g_free (entry->text);
}

static void
group_free (Group *group)
{
  g_free (group->name);
  g_array_unref (group->entries);
  g_free (group);
}

static void
scan_clear (Scan *scan)
{
  g_free (scan->shown);
  g_free (scan->title);
  g_clear_pointer (&scan->groups, g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Scan, scan_clear)

static char *
group_label (PsiKeyGroup kind, const char *name)
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

static gboolean refuse_line (const Scan *scan, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* "gpt.scn:12: ..."; returns FALSE. */
static gboolean
refuse_line (const Scan *scan, GError **error, const char *format, ...)
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
scan_header (Scan *scan, char *line, GError **error)
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
      const Group *other = g_ptr_array_index (scan->groups, i);

      if (other->kind == kind && g_strcmp0 (other->name, name) == 0)
        {
          g_autofree char *label = group_label (kind, name);

          return refuse_line (scan, error, "group %s is written twice (first in line %u)", label, other->line);
        }
    }

  Group *group = g_new0 (Group, 1);
  group->kind = kind;
  group->name = g_strdup (name);
  group->line = scan->line;
  group->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  g_array_set_clear_func (group->entries, (GDestroyNotify) entry_clear);
  g_ptr_array_add (scan->groups, group);
  return TRUE;
}

static gboolean
scan_entry (Scan *scan, char *line, GError **error)
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

  Group *group = g_ptr_array_index (scan->groups, scan->groups->len - 1);
  g_autofree char *label = group_label (group->kind, group->name);
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
      const Entry *other = &g_array_index (group->entries, Entry, i);

      if (other->key == (PsiKeyId) id)
        return refuse_line (scan, error, "%s key %s is written twice (first in line %u)", label, quoted, other->line);
    }
  if (*text == '\0')
    return refuse_line (scan, error, "%s %s: no value", label, psi_keys[id].name);

  Entry entry = { .key = (PsiKeyId) id, .text = g_strdup (text), .line = scan->line };
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
scan_text (Scan *scan, char *text, GError **error)
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

/* ---- Settings ---- */

/* A file named in the scenario and lying beside it: its path. Else NULL. */
static char *
path_beside (const char *file, const Entry *entry)
{
  gboolean is_file = entry->key == PSI_KEY_MODEL || entry->key == PSI_KEY_MACHINE || entry->key == PSI_KEY_SCHEDULE;

  if (!is_file || g_path_is_absolute (entry->text) || strpbrk (entry->text, "./") == NULL)
    return NULL;

  g_autofree char *folder = g_path_get_dirname (file);
  if (strcmp (folder, ".") == 0)
    return NULL;

  g_autofree char *path = g_build_filename (folder, entry->text, NULL);
  return g_file_test (path, G_FILE_TEST_IS_REGULAR) ? g_steal_pointer (&path) : NULL;
}

static const char *
nearest_strategy (const char *text)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();

  for (const PsiNamedPlan *row = psi_named_plans; row->name != NULL; row++)
    g_ptr_array_add (names, (gpointer) row->name);
  g_ptr_array_add (names, NULL);
  return psi_nearest (text, (const char *const *) names->pdata);
}

/* Is the value of `plan` a strategy? */
static gboolean
check_strategy (const char *text, const char *where, GError **error)
{
  const PsiNamedPlan *plan = psi_named_plan_find (text);
  const char *near = nearest_strategy (text);
  g_autofree char *quoted = psi_quote (text);
  g_autoptr (GString) allowed = g_string_new (NULL);

  if (plan != NULL)
    return TRUE;
  for (const PsiNamedPlan *row = psi_named_plans; row->name != NULL; row++)
    if (row->alias_of == NULL)
      g_string_append_printf (allowed, "%s%s", allowed->len > 0 ? ", " : "", row->name);

  if (near != NULL)
    g_set_error (error, PSI_SETTINGS_ERROR, PSI_SETTINGS_ERROR_VALUE, "%s: unknown plan %s (did you mean '%s'?)", where,
                 quoted, near);
  else
    g_set_error (error, PSI_SETTINGS_ERROR, PSI_SETTINGS_ERROR_VALUE, "%s: unknown plan %s (one of: %s)", where, quoted,
                 allowed->str);
  return FALSE;
}

static gboolean
set_value (PsiSettings *settings, PsiKeyId key, const char *text, const char *where, GError **error)
{
  return psi_settings_set (settings, key, text, where, error) &&
         (key != PSI_KEY_PLAN || check_strategy (psi_settings_text (settings, key), where, error));
}

static gboolean
apply_group (PsiSettings *settings, const Scan *scan, const Group *group, gboolean with_plan, GError **error)
{
  g_autofree char *label = group_label (group->kind, group->name);

  for (guint i = 0; i < group->entries->len; i++)
    {
      const Entry *entry = &g_array_index (group->entries, Entry, i);
      g_autofree char *where = g_strdup_printf ("%s: %s %s", scan->shown, label, psi_keys[entry->key].name);
      g_autofree char *path = path_beside (scan->file, entry);

      if (entry->key == PSI_KEY_PLAN && !with_plan)
        continue;
      if (!set_value (settings, entry->key, path != NULL ? path : entry->text, where, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
apply_flags (PsiSettings *settings, const PsiKeyFlag *flags, guint n_flags, gboolean with_plan, GError **error)
{
  for (guint i = 0; i < n_flags; i++)
    {
      g_autofree char *where = g_strdelimit (g_strdup_printf ("--%s", psi_keys[flags[i].key].name), "_", '-');

      if ((flags[i].key != PSI_KEY_PLAN || with_plan) &&
          !set_value (settings, flags[i].key, flags[i].text, where, error))
        return FALSE;
    }
  return TRUE;
}

/* ---- Plans ---- */

static void
plan_request_free (PsiPlanRequest *request)
{
  g_free (request->name);
  psi_settings_free (request->settings);
  g_free (request);
}

static void
add_plan (PsiScenario *scenario, const char *name, PsiSettings *settings)
{
  PsiPlanRequest *request = g_new0 (PsiPlanRequest, 1);

  request->name = g_strdup (name);
  request->settings = settings;
  g_ptr_array_add (scenario->plans, request);
}

/* --plans dp,zero-3 */
static gboolean
add_listed_plans (PsiScenario *scenario, const PsiSettings *base, const char *const *names, const PsiKeyFlag *flags,
                  guint n_flags, GError **error)
{
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autoptr (PsiSettings) settings = psi_settings_copy (base);

      for (guint j = 0; j < i; j++)
        if (strcmp (names[i], names[j]) == 0)
          {
            g_set_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_PLAN, "--plans: '%s' is written twice",
                         names[i]);
            return FALSE;
          }
      if (!set_value (settings, PSI_KEY_PLAN, names[i], "--plans", error) ||
          !apply_flags (settings, flags, n_flags, FALSE, error))
        return FALSE;
      add_plan (scenario, names[i], g_steal_pointer (&settings));
    }
  return TRUE;
}

/* [plan NAME] */
static gboolean
add_named_plan (PsiScenario *scenario, const Scan *scan, const PsiSettings *base, const Group *group, GError **error)
{
  g_autoptr (PsiSettings) settings = psi_settings_copy (base);
  g_autofree char *label = group_label (group->kind, group->name);

  if (!apply_group (settings, scan, group, TRUE, error))
    return FALSE;
  if (!psi_settings_has (settings, PSI_KEY_PLAN))
    {
      if (psi_named_plan_find (group->name) != NULL)
        {
          g_autofree char *where = g_strdup_printf ("%s: %s", scan->shown, label);

          if (!set_value (settings, PSI_KEY_PLAN, group->name, where, error))
            return FALSE;
        }
      else if (nearest_strategy (group->name) != NULL)
        g_ptr_array_add (scenario->warnings,
                         g_strdup_printf ("%s:%u: %s names no strategy, so only its keys count (did you mean '%s'?)",
                                          scan->shown, group->line, label, nearest_strategy (group->name)));
    }
  add_plan (scenario, group->name, g_steal_pointer (&settings));
  return TRUE;
}

/* Keep only the plan that --plan names. */
static gboolean
pick_plan (PsiScenario *scenario, const Scan *scan, const char *name, GError **error)
{
  GString *known = g_string_new (NULL);
  int found = -1;

  for (guint i = 0; i < scenario->plans->len; i++)
    {
      const PsiPlanRequest *request = g_ptr_array_index (scenario->plans, i);

      if (strcmp (request->name, name) == 0)
        found = (int) i;
      g_string_append_printf (known, "%s%s", i > 0 ? ", " : "", request->name);
    }

  g_autofree char *listed = g_string_free (known, FALSE);
  if (found < 0)
    {
      g_autofree char *quoted = psi_quote (name);

      g_set_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_PLAN, "--plan: no plan %s in %s (one of: %s)", quoted,
                   scan->shown, listed);
      return FALSE;
    }
  g_ptr_array_remove_range (scenario->plans, (guint) found + 1, scenario->plans->len - (guint) found - 1);
  g_ptr_array_remove_range (scenario->plans, 0, (guint) found);
  return TRUE;
}

static gboolean
add_plans (PsiScenario *scenario, const Scan *scan, const PsiKeyFlag *flags, guint n_flags,
           const char *const *plan_names, GError **error)
{
  g_autoptr (PsiSettings) base = psi_settings_new ();
  const Group *shared = NULL;
  const char *plan_flag = NULL;
  guint n_named = 0;

  for (guint i = 0; i < n_flags; i++)
    if (flags[i].key == PSI_KEY_PLAN)
      plan_flag = flags[i].text;
  for (guint i = 0; i < scan->groups->len; i++)
    {
      const Group *group = g_ptr_array_index (scan->groups, i);

      if (group->name != NULL)
        n_named++;
      else if (group->kind == PSI_KEY_GROUP_PLAN)
        shared = group;
      else if (!apply_group (base, scan, group, TRUE, error))
        return FALSE;
    }
  if (shared != NULL && !apply_group (base, scan, shared, plan_names == NULL, error))
    return FALSE;
  if (plan_names != NULL)
    {
      if (plan_flag != NULL)
        {
          g_set_error_literal (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_PLAN,
                               "--plan and --plans do not go together");
          return FALSE;
        }
      return add_listed_plans (scenario, base, plan_names, flags, n_flags, error);
    }
  if (n_named > 0 && psi_settings_has (base, PSI_KEY_PLAN))
    {
      g_set_error (error, PSI_SCENARIO_ERROR, PSI_SCENARIO_ERROR_SYNTAX,
                   "%s: [plan] plan: beside [plan NAME], [plan] holds what they share and names no strategy",
                   scan->shown);
      return FALSE;
    }

  for (guint i = 0; i < scan->groups->len; i++)
    {
      const Group *group = g_ptr_array_index (scan->groups, i);

      if (group->name != NULL && !add_named_plan (scenario, scan, base, group, error))
        return FALSE;
    }
  if (n_named == 0)
    add_plan (scenario, "plan", g_steal_pointer (&base));

  /* A name of the file is picked, anything else is a strategy for the one plan there is. */
  PsiPlanRequest *only = g_ptr_array_index (scenario->plans, 0);
  gboolean pick = plan_flag != NULL && n_named > 0 && (n_named > 1 || strcmp (only->name, plan_flag) == 0);
  if (pick && !pick_plan (scenario, scan, plan_flag, error))
    return FALSE;
  for (guint i = 0; i < scenario->plans->len; i++)
    {
      PsiPlanRequest *request = g_ptr_array_index (scenario->plans, i);

      if (!apply_flags (request->settings, flags, n_flags, !pick, error))
        return FALSE;
      if ((n_named == 0 || (plan_flag != NULL && !pick)) && psi_settings_has (request->settings, PSI_KEY_PLAN))
        {
          g_free (request->name);
          request->name = g_strdup (psi_settings_text (request->settings, PSI_KEY_PLAN));
        }
    }
  return TRUE;
}

PsiScenario *
psi_scenario_load (const char *file, const PsiKeyFlag *flags, guint n_flags, const char *const *plan_names,
                   GError **error)
{
  g_auto (Scan) scan = { .file = file, .groups = g_ptr_array_new_with_free_func ((GDestroyNotify) group_free) };
  g_autoptr (PsiScenario) scenario = g_new0 (PsiScenario, 1);

  scenario->file = g_strdup (file);
  scenario->plans = g_ptr_array_new_with_free_func ((GDestroyNotify) plan_request_free);
  scenario->warnings = g_ptr_array_new_with_free_func (g_free);
  if (file != NULL)
    {
      scan.shown = g_filename_display_name (file);
      g_autofree char *text = read_text (file, scan.shown, error);

      if (text == NULL || !scan_text (&scan, text, error))
        return NULL;
      scenario->title = g_strdup (scan.title);
    }
  if (!add_plans (scenario, &scan, flags, n_flags, plan_names, error))
    return NULL;
  return g_steal_pointer (&scenario);
}

void
psi_scenario_free (PsiScenario *scenario)
{
  if (scenario == NULL)
    return;
  g_free (scenario->file);
  g_free (scenario->title);
  g_clear_pointer (&scenario->plans, g_ptr_array_unref);
  g_clear_pointer (&scenario->warnings, g_ptr_array_unref);
  g_free (scenario);
}
