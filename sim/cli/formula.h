/* SPDX-License-Identifier: MIT */
/* Closed forms as people write them: "2(N-1) Psi_P", "N(N+1)/2". */
#pragma once

#include <glib.h>

typedef struct
{
  const char *name; /* letters, digits after the first, '_', anything beyond ASCII */
  double value;
} PsiFormulaVariable;

/* The value of `text`: + - * / and brackets, factors side by side multiply, products bind from left to right
 * ("a/b c" is a/b times c), functions min, max (of two), ceil, odd (1 for an odd number, else 0). `variables` ends with
 * a NULL name. *ret_value is untouched on error (PSI_FORMULA_ERROR); dividing by zero gives an infinity, no error. */
gboolean psi_formula_value (const char *text, const PsiFormulaVariable *variables, double *ret_value, GError **error);

#define PSI_FORMULA_ERROR (psi_formula_error_quark ())
typedef enum
{
  PSI_FORMULA_ERROR_SYNTAX,
  PSI_FORMULA_ERROR_NAME
} PsiFormulaError;
GQuark psi_formula_error_quark (void);
