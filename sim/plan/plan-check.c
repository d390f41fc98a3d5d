/* SPDX-License-Identifier: MIT */
#include "plan-check.h"

/* What of a cyclic plan does not go with zero = 3 (cdp-zero): key and what is allowed. FALSE: nothing. */
static gboolean
find_culprit (const PsiPlan *plan, PsiKeyId *ret_key, const char **ret_allowed)
{
  if (plan->by_stage || plan->placement != PSI_PLACEMENT_SEPARATE)
    {
      *ret_key = PSI_KEY_PLACEMENT;
      *ret_allowed = "separate";
      return TRUE;
    }
  if (plan->update != PSI_UPDATE_CYCLIC_V2)
    {
      *ret_key = PSI_KEY_UPDATE;
      *ret_allowed = "cyclic-v2";
      return TRUE;
    }
  return FALSE;
}

gboolean
psi_plan_check_zero (const PsiPlan *plan, const PsiSettings *s, GError **error)
{
  const char *where = psi_settings_where (s, PSI_KEY_ZERO), *allowed;
  PsiKeyId key;

  if (plan->zero == 0)
    return TRUE;
  if (plan->parameter_server)
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "%s: '%u' does not go with gradients parameter-server (allowed: 0)", where, plan->zero);
  else if (!plan->cyclic)
    return TRUE;
  else if (plan->zero != 3)
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "%s: '%u' does not go with cyclic plans (allowed: 0, and 3 as cdp-zero has it)", where, plan->zero);
  else if (!find_culprit (plan, &key, &allowed))
    return TRUE;
  else if (psi_settings_has (s, key))
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "%s: '%s' does not go with zero 3 of a cyclic plan (allowed: %s)", psi_settings_where (s, key),
                 psi_settings_text (s, key), allowed);
  else
    g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                 "%s: '3' needs %s %s in a cyclic plan, which plan '%s' has not (cdp-zero has)", where,
                 psi_keys[key].name, allowed, plan->named != NULL ? plan->named->name : "cyclic");
  return FALSE;
}

void
psi_plan_note_workers (PsiPlan *plan, const PsiSettings *s)
{
  if (!psi_settings_has (s, PSI_KEY_WORKERS) || plan->file != NULL || (plan->named != NULL && plan->named->dp_is_n))
    return;
  g_autofree char *of = plan->named != NULL
                            ? g_strdup_printf ("plan '%s' has one replica unless dp is written", plan->named->name)
                            : g_strdup ("without a named plan, dp sets the replicas");
  g_ptr_array_add (plan->assumptions, g_strdup_printf ("workers = %" G_GINT64_FORMAT " is ignored: %s",
                                                       psi_settings_count (s, PSI_KEY_WORKERS), of));
}
