/* SPDX-License-Identifier: MIT */
/* psisim calibrate -o FILE: run the bench program of the backend, fit what it measured, compare with the datasheet. */
#include "commands.h"
#include "plot.h"
#include "psi-config.h"
#include "table-profile.h"

#include <gio/gio.h>
#include <math.h>
#include <signal.h>

enum
{
  EXIT_NOTHING_TO_MEASURE = 77, /* of the bench programs */
  EXIT_NO_LIBRARY = 127         /* the loader found no CUDA or BLAS */
};
static const double quick_below_s = 60; /* budgets under it measure few points */

typedef struct
{
  const char *name, *program, *hint;
} Backend;

static const Backend backends[] = {
  { "cuda", "bench-cuda", "'--backend host' measures the CPU cores instead" },
  { "host", "bench-host", "is OpenBLAS installed?" },
};

static gboolean
find_backend (const PsiArguments *arguments, const Backend **ret_backend, GError **error)
{
  const char *name = arguments->values[PSI_OPTION_BACKEND];

  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    if (name == NULL || g_str_equal (name, backends[i].name))
      {
        *ret_backend = &backends[i];
        return TRUE;
      }
  g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "--backend: unknown '%s' (one of: cuda, host)", name);
  return FALSE;
}

static gboolean
read_budget (const PsiArguments *arguments, double *ret_budget_s, GError **error)
{
  const char *text = arguments->values[PSI_OPTION_BUDGET];
  char *end = NULL;

  *ret_budget_s = 240;
  if (text == NULL)
    return TRUE;
  double value = g_ascii_strtod (text, &end);
  if (end == text || *end != '\0' || !(value >= 1 && value <= 86400))
    {
      g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE,
                   "--budget: '%s' is not a number of seconds from 1 to 86400", text);
      return FALSE;
    }
  *ret_budget_s = value;
  return TRUE;
}

/* The program beside psisim in a build directory, beside it, or where it is installed. (transfer full) */
static char *
find_program (const char *program, GError **error)
{
  g_autofree char *self = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *directory = self ? g_path_get_dirname (self) : g_strdup (".");
  char *candidates[] = { g_build_filename (directory, "kernels", program, NULL),
                         g_build_filename (directory, program, NULL),
                         g_build_filename (directory, "..", "libexec", "psisim", program, NULL),
                         g_build_filename (PSI_LIBEXEC_DIR, program, NULL) };
  char *found = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (candidates); i++)
    {
      if (found == NULL && g_file_test (candidates[i], G_FILE_TEST_IS_EXECUTABLE))
        found = g_strdup (candidates[i]);
      g_free (candidates[i]);
    }
  if (found == NULL)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                 "'%s' is not there: it was not built, for want of its libraries", program);
  return found;
}

/* Run it. Ctrl-C goes to the program alone, which then ends by itself. */
static gboolean
measure (const PsiArguments *arguments, const Backend *backend, double budget_s, const char *samples_file,
         GError **error)
{
  g_autofree char *program = find_program (backend->program, error);
  g_autofree char *budget = g_strdup_printf ("%.0f", budget_s);
  g_autoptr (GError) cause = NULL;

  if (program == NULL)
    return FALSE;
  const char *argv[] = { program, "--budget", budget, "-o", samples_file, budget_s < quick_below_s ? "--quick" : NULL,
                         NULL };
  GSubprocessFlags flags = arguments->given[PSI_OPTION_QUIET] ? G_SUBPROCESS_FLAGS_STDERR_SILENCE : 0;
  void (*previous) (int) = signal (SIGINT, SIG_IGN);
  g_autoptr (GSubprocess) process = g_subprocess_newv (argv, flags | G_SUBPROCESS_FLAGS_STDOUT_SILENCE, &cause);
  gboolean ran = process != NULL && g_subprocess_wait (process, NULL, &cause);
  signal (SIGINT, previous);
  if (!ran)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "cannot run '%s': %s", program, cause->message);
      return FALSE;
    }
  int status = g_subprocess_get_if_exited (process) ? g_subprocess_get_exit_status (process) : -1;
  if (status == EXIT_NOTHING_TO_MEASURE || status == EXIT_NO_LIBRARY)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "%s found %s; %s", backend->program,
                   status == EXIT_NO_LIBRARY ? "no libraries to load" : "no device", backend->hint);
      return FALSE;
    }
  if (status < 0)
    psi_warn (arguments, "the measurement crashed; what was measured is used");
  else if (status > 0)
    psi_warn (arguments, "the measurement ended early; what was measured is used");
  return TRUE;
}

/* "h200.json" -> "h200.samples.jsonl". (transfer full) */
static char *
samples_name (const char *file)
{
  gsize length = strlen (file) - (g_str_has_suffix (file, ".json") ? strlen (".json") : 0);
  return g_strdup_printf ("%.*s.samples.jsonl", (int) length, file);
}

static char *
calibrate (const PsiArguments *arguments, GError **error)
{
  const char *file = arguments->values[PSI_OPTION_OUTPUT];
  const Backend *backend;
  double budget_s;

  if (file == NULL)
    {
      g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_OPTION, "calibrate needs -o FILE, where the profile goes");
      return NULL;
    }
  if (!find_backend (arguments, &backend, error) || !read_budget (arguments, &budget_s, error))
    return NULL;
  g_autofree char *samples_file = samples_name (file);
  g_autoptr (PsiSamples) samples = psi_samples_new ();
  if (!measure (arguments, backend, budget_s, samples_file, error) ||
      !psi_samples_read (samples, samples_file, NULL, error))
    return NULL;
  if (samples->curves->len + samples->gemms->len == 0)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: nothing was measured", samples_file);
      return NULL;
    }
  g_autofree char *name = g_path_get_basename (file);
  if (g_str_has_suffix (name, ".json"))
    name[strlen (name) - strlen (".json")] = '\0';
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, name, "measured", NULL);
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
psi_cmd_calibrate (const PsiArguments *arguments)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = calibrate (arguments, &error);

  return text != NULL ? psi_output_write (text) : psi_fail (error);
}
