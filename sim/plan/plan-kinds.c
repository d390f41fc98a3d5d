/* SPDX-License-Identifier: MIT */
/* What kind of plan it is: the named strategy, then the words for schedule, update rule, placement and gradients. */
#include "plan-private.h"

#include "nearest.h"
#include "plan-file.h"

#include <string.h>

const char *const psi_update_names[] = { "synchronous", "cyclic-v1", "cyclic-v2", "asynchronous", NULL };
static const char *const placement_names[] = { "separate", "shared", "stage", NULL };

guint
psi_plan_index_of (const char *const *names, const char *word)
{
  guint i = 0;

  while (strcmp (names[i], word) != 0)
    i++;
  return i;
}

gboolean
psi_plan_refuse (GError **error, int code, const char *where, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, PSI_PLAN_ERROR, code, "%s: %s", where, text);
  return FALSE;
}

guint
psi_plan_written (const PsiSettings *s, PsiKeyId key)
{
  return psi_settings_has (s, key) ? (guint) psi_settings_count (s, key) : 0;
}

/* A written word, else the strategy's, else the last resort. */
static const char *
chosen (const PsiSettings *s, PsiKeyId key, const char *preset, const char *otherwise)
{
  if (psi_settings_has (s, key))
    return psi_settings_text (s, key);
  return preset != NULL ? preset : otherwise;
}

static gboolean
find_named (PsiPlan *plan, const PsiSettings *s, GError **error)
{
  const char *name = psi_settings_has (s, PSI_KEY_PLAN) ? psi_settings_text (s, PSI_KEY_PLAN) : NULL;

  if (name == NULL)
    return TRUE;
  plan->named = psi_named_plan_find (name);
  if (plan->named == NULL)
    {
      g_autoptr (GPtrArray) names = g_ptr_array_new ();

      for (const PsiNamedPlan *row = psi_named_plans; row->name != NULL; row++)
        g_ptr_array_add (names, (gpointer) row->name);
      g_ptr_array_add (names, NULL);
      const char *near = psi_nearest (name, (const char *const *) names->pdata);
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_UNKNOWN, "unknown plan '%s'%s%s%s", name,
                   near != NULL ? " (did you mean '" : " (see: psisim list plans", near != NULL ? near : "",
                   near != NULL ? "'?)" : ")");
      return FALSE;
    }
  return TRUE;
}

gboolean
psi_plan_is_stream (const PsiPlan *plan)
{
  return plan->schedule == &psi_schedule_pipedream || plan->schedule == &psi_schedule_pipedream_2bw;
}

/* Words that choose what kind of plan it is. */
static gboolean
choose_words (PsiPlan *plan, const PsiSettings *s, GError **error)
{
  static const PsiNamedPlan no_name = { .name = NULL };
  const PsiNamedPlan *named = plan->named != NULL ? plan->named : &no_name;
  const char *placement = chosen (s, PSI_KEY_PLACEMENT, named->placement, "separate");
  const char *update = chosen (s, PSI_KEY_UPDATE, named->update, "synchronous");
  const char *schedule = chosen (s, PSI_KEY_SCHEDULE, named->schedule, NULL);

  plan->placement = (PsiPlacement) psi_plan_index_of (placement_names, placement);
  plan->keeps_all = named->keeps_all;
  plan->parameter_server =
      strcmp (chosen (s, PSI_KEY_GRADIENTS, named->gradients, "all-reduce"), "parameter-server") == 0;
  plan->zero = psi_settings_has (s, PSI_KEY_ZERO) ? (guint) psi_settings_count (s, PSI_KEY_ZERO) : named->zero;
  if (schedule == NULL)
    schedule = psi_plan_written (s, PSI_KEY_PP) > 1 ? "1f1b" : "none";
  plan->schedule = psi_schedule_kind_find (schedule);
  if (plan->schedule == NULL)
    return psi_plan_choose_file (plan, s, error);
  plan->cyclic = plan->schedule->cyclic;
  if (psi_plan_is_stream (plan))
    {
      /* One rank for each stage; the delay is the schedule's. */
      const char *rule = plan->schedule == &psi_schedule_pipedream ? "asynchronous" : "cyclic-v1";

      if (!psi_settings_has (s, PSI_KEY_PLACEMENT))
        plan->placement = PSI_PLACEMENT_STAGE;
      if (!psi_settings_has (s, PSI_KEY_UPDATE))
        update = rule;
      if (plan->placement != PSI_PLACEMENT_STAGE || strcmp (update, rule) != 0 || plan->parameter_server)
        return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_SCHEDULE),
                                "'%s' goes with placement stage, update %s and gradients all-reduce only", schedule,
                                rule);
    }
  plan->update = (PsiUpdateRule) psi_plan_index_of (psi_update_names, plan->schedule == &psi_schedule_cyclic &&
                                                                              !psi_settings_has (s, PSI_KEY_UPDATE) &&
                                                                              named->update == NULL
                                                                          ? "cyclic-v2"
                                                                          : update);
  plan->asynchronous = plan->update == PSI_UPDATE_ASYNCHRONOUS && !plan->cyclic;
  if (plan->asynchronous && !psi_settings_has (s, PSI_KEY_GRADIENTS))
    plan->parameter_server = TRUE;
  if (plan->update == PSI_UPDATE_ASYNCHRONOUS && plan->schedule != &psi_schedule_pipedream &&
      (plan->schedule != &psi_schedule_none || !plan->parameter_server || plan->keeps_all))
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_UPDATE),
                            "'%s' goes with schedule none and gradients parameter-server, or with schedule pipedream",
                            update);
  if (!plan->asynchronous && plan->cyclic != (plan->update != PSI_UPDATE_SYNCHRONOUS))
    return psi_plan_refuse (
        error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_UPDATE),
        "'%s' does not go with schedule '%s' (cyclic schedules update by cyclic-v1 or cyclic-v2, others synchronously)",
        update, schedule);
  if (!plan->cyclic &&
      (plan->placement == PSI_PLACEMENT_STAGE || (plan->placement == PSI_PLACEMENT_SHARED && !plan->keeps_all)))
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_PLACEMENT),
                            "'%s' goes with cyclic schedules only", placement);
  return TRUE;
}

/* When the workers of a cyclic plan begin. */
static gboolean
choose_delay (PsiPlan *plan, const PsiSettings *s, GError **error)
{
  plan->random_delay = strcmp (psi_settings_text (s, PSI_KEY_DELAY), "random") == 0;
  if (plan->random_delay && (!plan->cyclic || plan->placement != PSI_PLACEMENT_SEPARATE || plan->zero > 0))
    return psi_plan_refuse (error, PSI_PLAN_ERROR_DEGREES, psi_settings_where (s, PSI_KEY_DELAY),
                            "'random' goes with cyclic schedules, placement separate and zero 0 only");
  return TRUE;
}

gboolean
psi_plan_choose_kinds (PsiPlan *plan, const PsiSettings *s, GError **error)
{
  return find_named (plan, s, error) && choose_words (plan, s, error) && choose_delay (plan, s, error);
}
