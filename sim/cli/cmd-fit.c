/* SPDX-License-Identifier: MIT */
/* psisim fit SAMPLES ... -o FILE: samples or nccl-tests logs to a profile. */
#include "commands.h"
#include "plot.h"
#include "table-profile.h"

static gboolean
usage (GError **error, const char *message)
{
  g_set_error_literal (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_OPTION, message);
  return FALSE;
}

static gboolean
read_samples (const PsiArguments *arguments, PsiSamples *samples, GError **error)
{
  const char *given = arguments->values[PSI_OPTION_OPERATION];
  const char *operation = given ? psi_samples_operation (given) : NULL;

  if (given != NULL && operation == NULL)
    {
      g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE,
                   "--op: unknown collective '%s' (one of: all-reduce, all-gather, reduce-scatter, broadcast, "
                   "all-to-all, send-recv)",
                   given);
      return FALSE;
    }
  for (guint i = 0; i < arguments->words->len; i++)
    if (!psi_samples_read (samples, arguments->words->pdata[i], operation, error))
      return FALSE;
  if (samples->curves->len + samples->gemms->len == 0)
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_SYNTAX, "%s: no measured points in it",
                   (const char *) arguments->words->pdata[0]);
      return FALSE;
    }
  return TRUE;
}

/* "h200.json" -> "h200". (transfer full) */
static char *
file_stem (const char *file)
{
  char *base = g_path_get_basename (file);
  if (g_str_has_suffix (base, ".json"))
    base[strlen (base) - strlen (".json")] = '\0';
  return base;
}

static char *
fit (const PsiArguments *arguments, GError **error)
{
  const char *file = arguments->values[PSI_OPTION_OUTPUT], *source = arguments->values[PSI_OPTION_SOURCE];
  g_autoptr (PsiSamples) samples = psi_samples_new ();

  if (file == NULL)
    {
      usage (error, "fit needs -o FILE, where the profile goes");
      return NULL;
    }
  if (!read_samples (arguments, samples, error))
    return NULL;
  g_autofree char *name = file_stem (file);
  gboolean predicted = json_object_has_member (samples->provenance, "predicted_by");
  const char *kind = predicted ? "synthetic" : source != NULL ? "published" : "measured";
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, name, kind, source);
  if (predicted)
    psi_warn (arguments, "a table that psisim predicted is no measurement: the profile says that it is synthetic");
  if (!psi_profile_save (profile, file, error))
    return NULL;
  if (arguments->given[PSI_OPTION_PLOT] && psi_plot_profile (profile, arguments->values[PSI_OPTION_PLOT], error) == 0)
    return NULL;
  if (arguments->given[PSI_OPTION_JSON])
    return psi_profile_to_json (profile);
  const PsiTerminal terminal = psi_terminal_detect ();
  g_autoptr (PsiMachine) datasheet = psi_profile_datasheet (profile);
  return psi_table_profile (profile, datasheet, &terminal);
}

int
psi_cmd_fit (const PsiArguments *arguments)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = fit (arguments, &error);

  return text != NULL ? psi_output_write (text) : psi_fail (error);
}
