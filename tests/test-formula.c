/* SPDX-License-Identifier: MIT */
#include "formula.h"
#include "grid.h"

#include <math.h>

static const PsiFormulaVariable variables[] = { { "N", 3 }, { "K", 4 }, { "Ψ_P", 10 }, { "m", 8 }, { NULL } };

static double
value_of (const char *text)
{
  g_autoptr (GError) error = NULL;
  double value = NAN;

  psi_formula_value (text, variables, &value, &error);
  g_assert_no_error (error);
  return value;
}

static void
test_values (void)
{
  static const struct
  {
    const char *text;
    double value;
  } cases[] = {
    { "7", 7 },
    { "1.5", 1.5 },
    { "1 + 2 * 3", 7 },
    { "N(N+1)/2", 6 },
    { "2(N-1)", 4 },
    { "2(N-1) Ψ_P", 40 },
    { "2(N-1)/N Ψ_P", 40.0 / 3 },
    { "(N-1)/(2N)", 1.0 / 3 },
    { "12/2/3", 2 },
    { "-N + 1", -2 },
    { "N - -1", 4 },
    { "m K", 32 },
    { "3(N-1) + (N-1)/N", 20.0 / 3 },
    { "min(m, K)/K", 1 },
    { "max(N, K) 2", 8 },
    { "ceil((N+1)/3)", 2 },
    { "(N+odd(N)/N)/2", 5.0 / 3 },
    { "odd(K)", 0 },
    { " ( N ) ", 3 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_assert_cmpfloat_with_epsilon (value_of (cases[i].text), cases[i].value, 1e-12);
  g_assert_true (isinf (value_of ("1/(N-3)")));
}

static void
test_errors (void)
{
  static const struct
  {
    const char *text;
    PsiFormulaError code;
    const char *part;
  } cases[] = {
    { "", PSI_FORMULA_ERROR_SYNTAX, "a number or a name expected" },
    { "2 +", PSI_FORMULA_ERROR_SYNTAX, "a number or a name expected" },
    { "(N", PSI_FORMULA_ERROR_SYNTAX, "')' expected" },
    { "N)", PSI_FORMULA_ERROR_SYNTAX, "end expected at ')'" },
    { "min(N)", PSI_FORMULA_ERROR_SYNTAX, "',' expected" },
    { "min N", PSI_FORMULA_ERROR_SYNTAX, "'(' expected" },
    { "2 Q + 1", PSI_FORMULA_ERROR_NAME, "unknown name at 'Q + 1'" },
    { "mK", PSI_FORMULA_ERROR_NAME, "unknown name at 'mK'" },
    { "2 $", PSI_FORMULA_ERROR_SYNTAX, "end expected at '$'" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      double value = 42;

      g_assert_false (psi_formula_value (cases[i].text, variables, &value, &error));
      g_assert_error (error, PSI_FORMULA_ERROR, (int) cases[i].code);
      g_assert_nonnull (strstr (error->message, cases[i].part));
      g_assert_cmpfloat (value, ==, 42);
    }

  g_autofree char *deep = g_strnfill (100000, '(');
  g_autofree char *minus = g_strnfill (100000, '-');
  double value;
  g_assert_false (psi_formula_value (deep, variables, &value, NULL));
  g_assert_false (psi_formula_value (minus, variables, &value, NULL));
}

static void
test_fractions (void)
{
  static const struct
  {
    double value;
    const char *text;
  } cases[] = { { 0, "0" },       { 3, "3" },           { 5.0 / 3, "5/3" },  { 0.375, "3/8" },
                { -0.5, "-1/2" }, { 48.0 / 5, "48/5" }, { 3.99999999, "4" }, { 0.123456, "0.1235" } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = psi_format_fraction (cases[i].value);
      g_assert_cmpstr (text, ==, cases[i].text);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cli/formula/values", test_values);
  g_test_add_func ("/cli/formula/errors", test_errors);
  g_test_add_func ("/cli/formula/fractions", test_fractions);
  return g_test_run ();
}
