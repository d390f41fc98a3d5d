/* SPDX-License-Identifier: MIT */
/* Groups of entries to requests: each plan gets its own bag of settings. */
#include "scenario.h"

#include "named-plans.h"
#include "quantity.h"
#include "scenario-text.h"

#include <string.h>

G_DEFINE_QUARK (psi_scenario_error, psi_scenario_error)

/* ---- Settings ---- */

/* A file named in the scenario and lying beside it: its path. Else NULL. */
static char *
path_beside (const char *file, const PsiScenarioEntry *entry)
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
apply_group (PsiSettings *settings, const PsiScenarioText *scan, const PsiScenarioGroup *group, gboolean with_plan,
             GError **error)
{
  g_autofree char *label = psi_scenario_label (group->kind, group->name);

  for (guint i = 0; i < group->entries->len; i++)
    {
      const PsiScenarioEntry *entry = &g_array_index (group->entries, PsiScenarioEntry, i);
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
add_named_plan (PsiScenario *scenario, const PsiScenarioText *scan, const PsiSettings *base,
                const PsiScenarioGroup *group, GError **error)
{
  g_autoptr (PsiSettings) settings = psi_settings_copy (base);
  g_autofree char *label = psi_scenario_label (group->kind, group->name);

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
pick_plan (PsiScenario *scenario, const PsiScenarioText *scan, const char *name, GError **error)
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
add_plans (PsiScenario *scenario, const PsiScenarioText *scan, const PsiKeyFlag *flags, guint n_flags,
           const char *const *plan_names, GError **error)
{
  g_autoptr (PsiSettings) base = psi_settings_new ();
  const PsiScenarioGroup *shared = NULL;
  const char *plan_flag = NULL;
  guint n_named = 0;

  for (guint i = 0; i < n_flags; i++)
    if (flags[i].key == PSI_KEY_PLAN)
      plan_flag = flags[i].text;
  for (guint i = 0; i < scan->groups->len; i++)
    {
      const PsiScenarioGroup *group = g_ptr_array_index (scan->groups, i);

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
      const PsiScenarioGroup *group = g_ptr_array_index (scan->groups, i);

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
  g_auto (PsiScenarioText) scan = { NULL };
  g_autoptr (PsiScenario) scenario = g_new0 (PsiScenario, 1);

  scenario->file = g_strdup (file);
  scenario->plans = g_ptr_array_new_with_free_func ((GDestroyNotify) plan_request_free);
  scenario->warnings = g_ptr_array_new_with_free_func (g_free);
  if (!psi_scenario_text_read (&scan, file, error))
    return NULL;
  scenario->title = g_strdup (scan.title);
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
