/* SPDX-License-Identifier: MIT */
/* Recursive descent, one function for each level of
 *
 *   sum     = product { ("+" | "-") product }
 *   product = factor { ["*" | "/"] factor }
 *   factor  = ["-"] (number | name | function "(" sum ["," sum] ")" | "(" sum ")") */
#include "formula.h"

#include <math.h>
#include <string.h>

G_DEFINE_QUARK (psi_formula_error, psi_formula_error)

#define MAX_DEPTH 32

typedef struct
{
  const char *text, *at;
  const PsiFormulaVariable *variables;
  guint depth;
  GError **error;
} Parser;

static double
smaller (double a, double b)
{
  return MIN (a, b);
}

static double
larger (double a, double b)
{
  return MAX (a, b);
}

static double
round_up (double a, double unused)
{
  return ceil (a);
}

static double
is_odd (double a, double unused)
{
  return fmod (a, 2) != 0;
}

static const struct
{
  const char *name;
  guint n_arguments;
  double (*value) (double a, double b);
} functions[] = { { "min", 2, smaller }, { "max", 2, larger }, { "ceil", 1, round_up }, { "odd", 1, is_odd } };

static gboolean
fail (Parser *parser, PsiFormulaError code, const char *what)
{
  g_set_error (parser->error, PSI_FORMULA_ERROR, (int) code, "'%s': %s at '%s'", parser->text, what, parser->at);
  return FALSE;
}

static char
next (Parser *parser)
{
  while (*parser->at == ' ')
    parser->at++;
  return *parser->at;
}

static gboolean
is_letter (char c)
{
  return g_ascii_isalpha (c) || c == '_' || (guchar) c >= 0x80;
}

static gboolean sum (Parser *parser, double *ret_value);

static gboolean
closing (Parser *parser, char wanted)
{
  if (next (parser) != wanted)
    return fail (parser, PSI_FORMULA_ERROR_SYNTAX, wanted == ',' ? "',' expected" : "')' expected");
  parser->at++;
  return TRUE;
}

static gboolean
name (Parser *parser, double *ret_value)
{
  const char *begin = parser->at;
  double a = 0, b = 0;

  while (is_letter (*parser->at) || g_ascii_isdigit (*parser->at))
    parser->at++;
  g_autofree char *word = g_strndup (begin, (gsize) (parser->at - begin));
  for (const PsiFormulaVariable *variable = parser->variables; variable->name != NULL; variable++)
    if (strcmp (variable->name, word) == 0)
      {
        *ret_value = variable->value;
        return TRUE;
      }
  for (guint i = 0; i < G_N_ELEMENTS (functions); i++)
    if (strcmp (functions[i].name, word) == 0)
      {
        if (next (parser) != '(')
          return fail (parser, PSI_FORMULA_ERROR_SYNTAX, "'(' expected");
        parser->at++;
        if (!sum (parser, &a))
          return FALSE;
        if (functions[i].n_arguments == 2 && (!closing (parser, ',') || !sum (parser, &b)))
          return FALSE;
        if (!closing (parser, ')'))
          return FALSE;
        *ret_value = functions[i].value (a, b);
        return TRUE;
      }
  parser->at = begin;
  return fail (parser, PSI_FORMULA_ERROR_NAME, "unknown name");
}

static gboolean
factor (Parser *parser, double *ret_value)
{
  char c = next (parser);

  if (c == '-')
    {
      parser->at++;
      if (++parser->depth > MAX_DEPTH)
        return fail (parser, PSI_FORMULA_ERROR_SYNTAX, "too deep");
      gboolean is_fine = factor (parser, ret_value);
      parser->depth--;
      if (is_fine)
        *ret_value = -*ret_value;
      return is_fine;
    }
  if (c == '(')
    {
      parser->at++;
      return sum (parser, ret_value) && closing (parser, ')');
    }
  if (g_ascii_isdigit (c))
    {
      char *end;

      *ret_value = g_ascii_strtod (parser->at, &end);
      parser->at = end;
      return TRUE;
    }
  if (is_letter (c))
    return name (parser, ret_value);
  return fail (parser, PSI_FORMULA_ERROR_SYNTAX, "a number or a name expected");
}

static gboolean
product (Parser *parser, double *ret_value)
{
  double value, other;

  if (!factor (parser, &value))
    return FALSE;
  for (;;)
    {
      char c = next (parser);

      if (c == '*' || c == '/')
        parser->at++;
      else if (c != '(' && !g_ascii_isdigit (c) && !is_letter (c))
        break;
      if (!factor (parser, &other))
        return FALSE;
      value = c == '/' ? value / other : value * other;
    }
  *ret_value = value;
  return TRUE;
}

static gboolean
sum (Parser *parser, double *ret_value)
{
  double value, other;

  if (++parser->depth > MAX_DEPTH)
    return fail (parser, PSI_FORMULA_ERROR_SYNTAX, "too deep");
  if (!product (parser, &value))
    return FALSE;
  for (char c = next (parser); c == '+' || c == '-'; c = next (parser))
    {
      parser->at++;
      if (!product (parser, &other))
        return FALSE;
      value = c == '-' ? value - other : value + other;
    }
  parser->depth--;
  *ret_value = value;
  return TRUE;
}

gboolean
psi_formula_value (const char *text, const PsiFormulaVariable *variables, double *ret_value, GError **error)
{
  Parser parser = { .text = text, .at = text, .variables = variables, .error = error };
  double value;

  if (!sum (&parser, &value))
    return FALSE;
  if (next (&parser) != '\0')
    return fail (&parser, PSI_FORMULA_ERROR_SYNTAX, "end expected");
  *ret_value = value;
  return TRUE;
}
