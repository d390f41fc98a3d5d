/* SPDX-License-Identifier: MIT */
/* Plans run through the public interface, for tests that compare their reports with closed forms. */
#pragma once

#include "scenario.h"
#include "simulate.h"

#include <math.h>
#include <string.h>

#define MS_PS G_GINT64_CONSTANT (1000000000)

/* Simulate one plan given as flags without dashes, "plan=dp workers=4 forward=2ms". NULL with an error. */
static inline PsiReport *
try_flags (const char *flags, gboolean curves, GError **error)
{
  g_auto (GStrv) words = g_strsplit (flags, " ", -1);
  g_autoptr (GArray) list = g_array_new (FALSE, FALSE, sizeof (PsiKeyFlag));
  PsiSimulateOptions options = { .curves = curves };

  for (char **word = words; *word != NULL; word++)
    {
      char *equals = strchr (*word, '=');

      g_assert_nonnull (equals);
      *equals = '\0';
      PsiKeyFlag flag = { (PsiKeyId) psi_key_find (*word), equals + 1 };
      g_assert_cmpint (flag.key, <, PSI_N_KEYS);
      g_array_append_val (list, flag);
    }
  g_autoptr (PsiScenario) scenario =
      psi_scenario_load (NULL, (const PsiKeyFlag *) (const void *) list->data, list->len, NULL, error);
  return scenario != NULL ? psi_simulate (scenario, &options, error) : NULL;
}

static inline PsiReport *run_flags (gboolean curves, const char *format, ...) G_GNUC_PRINTF (2, 3);

/* The same; must succeed. */
static inline PsiReport *
run_flags (gboolean curves, const char *format, ...)
{
  g_autoptr (GError) error = NULL;
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *flags = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_test_message ("%s", flags);
  PsiReport *report = try_flags (flags, curves, &error);
  g_assert_no_error (error);
  g_assert_nonnull (report);
  return report;
}

static inline const PsiPlanReport *
plan_of (const PsiReport *report)
{
  return g_ptr_array_index (report->plans, 0);
}

/* Step time of a plan given so. */
static inline double
step_s (const char *flags)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "%s", flags);

  return (double) plan_of (report)->step_time_ps * 1e-12;
}

static inline const PsiRankReport *
rank_of (const PsiPlanReport *plan, guint i)
{
  g_assert_cmpuint (i, <, plan->ranks->len);
  return &g_array_index (plan->ranks, PsiRankReport, i);
}

/* Equal to 12 digits. */
static inline gboolean
is_near (double a, double b)
{
  return fabs (a - b) <= 1e-12 * MAX (fabs (a), fabs (b)) + 1e-15;
}
#define assert_near(a, b)                                                                                              \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    double a_ = (double) (a), b_ = (double) (b);                                                                       \
    if (!is_near (a_, b_))                                                                                             \
      g_assertion_message_cmpnum (G_LOG_DOMAIN, __FILE__, __LINE__, G_STRFUNC, #a " == " #b, (long double) a_,         \
                                  "==", (long double) b_, 'f');                                                        \
  }                                                                                                                    \
  G_STMT_END
