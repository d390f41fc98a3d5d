/* SPDX-License-Identifier: MIT */
/* psisim calibrate -o FILE: run the bench program of the backend, fit what it measured, compare with the datasheet.
 * --verify: then train for real and compare with what the simulator foretells from the profile. */
#include "commands.h"
#include "child.h"
#include "plot.h"
#include "table-profile.h"
#include "trainer.h"
#include "verify.h"

#include <gio/gio.h>
#include <glib/gstdio.h>
#include <signal.h>

enum
{
  EXIT_NOTHING_TO_MEASURE = 77, /* of the bench programs */
  EXIT_NO_LIBRARY = 127         /* the loader found no CUDA or BLAS */
};
static const double quick_below_s = 60;   /* budgets under it measure few points */
static const double verify_budget_s = 20; /* of --verify, each try */
enum
{
  VERIFY_TRIES = 3 /* a busy machine may spoil one */
};

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

  *ret_budget_s = arguments->given[PSI_OPTION_VERIFY] ? verify_budget_s : 240;
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

static volatile sig_atomic_t measuring_pid;

/* Ctrl-C of a terminal reaches the program by itself; a signal that a process sent reaches only us. */
static void
pass_on (int number, siginfo_t *info, void *context)
{
  if (info->si_code <= 0 && measuring_pid > 0)
    kill ((pid_t) measuring_pid, number);
}

/* Run it. Ctrl-C ends the program after the point in progress, and psisim goes on with what was measured. */
static gboolean
measure (const PsiArguments *arguments, const Backend *backend, double budget_s, const char *samples_file,
         GError **error)
{
  g_autofree char *program = psi_trainer_find (backend->program, error);
  g_autofree char *budget = g_strdup_printf ("%.0f", budget_s);
  g_autoptr (GError) cause = NULL;

  if (program == NULL)
    return FALSE;
  g_autoptr (GPtrArray) argv = g_ptr_array_new ();
  const char *const fixed[] = { program, "--budget", budget, "-o", samples_file };
  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
    g_ptr_array_add (argv, (gpointer) fixed[i]);
  if (budget_s < quick_below_s)
    g_ptr_array_add (argv, (gpointer) "--quick");
  if (arguments->given[PSI_OPTION_VERIFY]) /* as many processes as will train */
    {
      g_ptr_array_add (argv, (gpointer) "--ranks");
      g_ptr_array_add (argv, (gpointer) "2");
    }
  g_ptr_array_add (argv, NULL);
  GSubprocessFlags flags = arguments->given[PSI_OPTION_QUIET] ? G_SUBPROCESS_FLAGS_STDERR_SILENCE : 0;
  struct sigaction previous, action = { .sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART };
  sigaction (SIGINT, &action, &previous);
  g_autoptr (GSubprocess) process =
      psi_child_new ((const char *const *) argv->pdata, flags | G_SUBPROCESS_FLAGS_STDOUT_SILENCE, NULL, &cause);
  const char *pid = process != NULL ? g_subprocess_get_identifier (process) : NULL;
  measuring_pid = pid != NULL ? (sig_atomic_t) g_ascii_strtoll (pid, NULL, 10) : 0;
  gboolean ran = process != NULL && g_subprocess_wait (process, NULL, &cause);
  measuring_pid = 0;
  sigaction (SIGINT, &previous, NULL);
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

/* Measure into samples beside `file` and fit them. (transfer full) */
static PsiProfile *
make_profile (const PsiArguments *arguments, const Backend *backend, double budget_s, const char *file, GError **error)
{
  g_autofree char *samples_file = samples_name (file);
  g_autoptr (PsiSamples) samples = psi_samples_new ();
  /* Before the minutes of measuring, not after. */
  if (g_file_test (file, G_FILE_TEST_EXISTS) && !g_file_test (file, G_FILE_TEST_IS_REGULAR))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE,
                   "cannot write '%s': not a plain file (the samples are kept beside it)", file);
      return NULL;
    }
  if (!measure (arguments, backend, budget_s, samples_file, error) ||
      !psi_samples_read (samples, samples_file, NULL, error))
    return NULL;
  if (samples->curves->len + samples->gemms->len == 0)
    {
      g_remove (samples_file); /* it says only on what */
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: nothing was measured", samples_file);
      return NULL;
    }
  g_autofree char *name = g_path_get_basename (file);
  if (g_str_has_suffix (name, ".json"))
    name[strlen (name) - strlen (".json")] = '\0';
  g_autoptr (PsiProfile) profile = psi_profile_from_samples (samples, name, "measured", NULL);
  return psi_profile_save (profile, file, error) ? g_steal_pointer (&profile) : NULL;
}

/* ---- --verify ---- */

/* Put the better attempt at each plan into `best`. */
static void
keep_better (GArray *best, const GArray *attempt)
{
  for (guint i = 0; i < attempt->len; i++)
    {
      PsiVerification *kept = &g_array_index (best, PsiVerification, i);
      PsiVerification *now = &g_array_index (attempt, PsiVerification, i);

      if (psi_verification_score (now) < psi_verification_score (kept))
        {
          PsiVerification swap = *kept;
          *kept = *now;
          *now = swap;
        }
    }
}

/* The first fault, or NULL. (transfer full) */
static char *
find_fault (const GArray *rows)
{
  for (guint i = 0; i < rows->len; i++)
    {
      char *fault = psi_verification_fault (&g_array_index (rows, PsiVerification, i));
      if (fault != NULL)
        return fault;
    }
  return NULL;
}

/* Measure, predict and train until every plan agrees, at most VERIFY_TRIES times. (transfer full) */
static GArray *
verify (const PsiArguments *arguments, const Backend *backend, double budget_s, const char *file, GError **error)
{
  g_autoptr (GArray) best = NULL;

  for (guint try = 0; try < VERIFY_TRIES; try++)
    {
      g_autofree char *fault = best != NULL ? find_fault (best) : NULL;
      if (best != NULL && fault == NULL)
        break;
      if (fault != NULL)
        {
          g_autofree char *again = g_strconcat (fault, "; once more", NULL);
          psi_warn (arguments, again);
        }
      g_autoptr (PsiProfile) profile = make_profile (arguments, backend, budget_s, file, error);
      g_autoptr (GArray) rows = profile != NULL ? psi_verify (profile, file, error) : NULL;
      if (rows == NULL)
        return NULL;
      if (best == NULL)
        best = g_steal_pointer (&rows);
      else
        keep_better (best, rows);
    }
  return g_steal_pointer (&best);
}

static void
remove_temporary (const char *file)
{
  g_autofree char *samples_file = samples_name (file), *folder = g_path_get_dirname (file);

  g_remove (samples_file);
  g_remove (file);
  g_rmdir (folder);
}

/* Only the host can check itself: GPUs are measured and trained on by kernels/measure-gpu.sh. */
static int
run_verify (const PsiArguments *arguments)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = NULL, *temporary = NULL;
  const char *file = arguments->values[PSI_OPTION_OUTPUT];
  const Backend *backend = &backends[G_N_ELEMENTS (backends) - 1];
  g_autoptr (GArray) rows = NULL;
  double budget_s;

  if (arguments->values[PSI_OPTION_BACKEND] != NULL && !find_backend (arguments, &backend, &error))
    return psi_fail (error);
  if (backend != &backends[G_N_ELEMENTS (backends) - 1])
    {
      g_set_error (&error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_OPTION,
                   "--verify trains on CPU cores (allowed: --backend host)");
      return psi_fail (error);
    }
  if (!read_budget (arguments, &budget_s, &error))
    return psi_fail (error);
  if (file == NULL && (folder = g_dir_make_tmp ("psisim-XXXXXX", &error)) != NULL)
    file = temporary = g_build_filename (folder, "host.json", NULL);
  if (file != NULL)
    rows = verify (arguments, backend, budget_s, file, &error);
  if (temporary != NULL)
    remove_temporary (temporary);

  g_autoptr (GArray) none = g_array_new (FALSE, FALSE, sizeof (PsiVerification));
  g_autofree char *fault = rows != NULL ? find_fault (rows) : NULL;
  if (rows == NULL && !arguments->given[PSI_OPTION_JSON])
    return psi_fail (error);
  g_autofree char *text =
      arguments->given[PSI_OPTION_JSON] ? psi_verify_to_json (rows != NULL ? rows : none) : psi_verify_to_table (rows);
  int status = psi_output_write (text);
  if (rows == NULL)
    return psi_fail (error);
  if (fault == NULL)
    return status;
  g_set_error_literal (&error, G_IO_ERROR, G_IO_ERROR_FAILED, fault);
  return psi_fail (error);
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
  g_autoptr (PsiProfile) profile = make_profile (arguments, backend, budget_s, file, error);
  if (profile == NULL)
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

  if (arguments->given[PSI_OPTION_VERIFY])
    return run_verify (arguments);
  g_autofree char *text = calibrate (arguments, &error);
  return text != NULL ? psi_output_write (text) : psi_fail (error);
}
