/* SPDX-License-Identifier: MIT */
#include "timeline-option.h"

#include "critical-path.h"
#include "memory-snapshot.h"
#include "timeline-step.h"

#include <string.h>

gboolean
psi_timeline_option_check (const PsiArguments *arguments, GError **error)
{
  const char *ranks = arguments->values[PSI_OPTION_TIMELINE_RANKS];

  if (ranks == NULL)
    return TRUE;
  if (!arguments->given[PSI_OPTION_TIMELINE])
    {
      g_set_error_literal (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_OPTION,
                           "--timeline-ranks goes with --timeline FILE");
      return FALSE;
    }
  return psi_drawn_ranks_check (ranks, error);
}

static char *
plain_name (const char *name)
{
  return g_strcanon (g_strdup (name), G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "+-_.", '-');
}

/* The file of a plan: FILE itself if the scenario has one plan, else "FILE-PLAN.json". (transfer full) */
static char *
path_of (const char *file, const PsiScenario *scenario, const char *plan_name)
{
  const char *slash = strrchr (file, G_DIR_SEPARATOR), *dot = strrchr (file, '.');
  gsize stem = dot != NULL && (slash == NULL || dot > slash + 1) && dot != file ? (gsize) (dot - file) : strlen (file);
  g_autofree char *name = plain_name (plan_name);
  gboolean clashes = FALSE;
  guint index = 0;

  if (scenario->plans->len == 1)
    return g_strdup (file);
  for (guint i = 0; i < scenario->plans->len; i++)
    {
      const PsiPlanRequest *request = g_ptr_array_index (scenario->plans, i);
      g_autofree char *other = plain_name (request->name);

      if (strcmp (request->name, plan_name) == 0)
        index = i;
      else
        clashes |= g_ascii_strcasecmp (other, name) == 0;
    }
  g_autofree char *number = clashes ? g_strdup_printf ("-%u", index) : g_strdup ("");
  return g_strdup_printf ("%.*s-%s%s%s", (int) stem, file, name, number, file + stem);
}

gboolean
psi_timeline_option_observe (const char *name, const PsiStep *step, const PsiRun *run, gpointer data, GError **error)
{
  const PsiTimelineOption *option = data;
  const char *ranks = option->arguments->values[PSI_OPTION_TIMELINE_RANKS];
  g_autofree char *path = path_of (option->arguments->values[PSI_OPTION_TIMELINE], option->scenario, name);

  if (g_str_has_suffix (path, ".pickle"))
    return psi_memory_snapshot_write (path, step, run, ranks, error);
  g_autofree char *title = g_strdup_printf ("plan %s", name);
  PsiCriticalPath *critical =
      option->arguments->given[PSI_OPTION_CRITICAL_PATH] ? psi_critical_path_new (step, run) : NULL;
  gboolean written = psi_timeline_write_step (path, title, step, run, ranks, critical, error);
  psi_critical_path_free (critical);
  return written;
}
