/* SPDX-License-Identifier: MIT */
#include "quantity.h"

#include <string.h>

const PsiUnit psi_units_none[] = { { NULL, 0 } };
const PsiUnit psi_units_count[] = { { "k", 1e3 }, { "M", 1e6 }, { "B", 1e9 }, { NULL, 0 } };
const PsiUnit psi_units_bytes[] = {
  { "B", 1 },           { "kB", 1e3 },           { "MB", 1e6 },
  { "GB", 1e9 },        { "TB", 1e12 },          { "KiB", 1024.0 },
  { "MiB", 1048576.0 }, { "GiB", 1073741824.0 }, { "TiB", 1099511627776.0 },
  { NULL, 0 },
};
const PsiUnit psi_units_time[] = {
  { "ps", 1e-12 }, { "ns", 1e-9 }, { "us", 1e-6 }, { "µs", 1e-6 }, { "ms", 1e-3 }, { "s", 1 }, { NULL, 0 },
};
const PsiUnit psi_units_rate[] = {
  { "GB/s", 1e9 },           { "MB/s", 1e6 },        { "kB/s", 1e3 },     { "TB/s", 1e12 },  { "B/s", 1 },
  { "GiB/s", 1073741824.0 }, { "MiB/s", 1048576.0 }, { "KiB/s", 1024.0 }, { "Gb/s", 125e6 }, { "Mb/s", 125e3 },
  { "kb/s", 125 },           { "Tb/s", 125e9 },      { NULL, 0 },
};

static const char *
skip_digits (const char *p)
{
  while (g_ascii_isdigit (*p))
    p++;
  return p;
}

gboolean
psi_quantity_parse (const char *text, const PsiUnit *units, double *ret_value, const PsiUnit **ret_unit)
{
  gboolean negative = *text == '-';
  const char *start = text + negative, *whole_end = skip_digits (start), *end = whole_end;

  if (*end == '.')
    end = skip_digits (end + 1);
  if (end - start - (end > whole_end) < 1) /* no digit at all */
    return FALSE;
  if (*end == 'e' || *end == 'E')
    {
      const char *exponent = end + 1 + (end[1] == '+' || end[1] == '-');

      if (skip_digits (exponent) == exponent)
        return FALSE;
      end = skip_digits (exponent);
    }

  const char *rest = end;
  const PsiUnit *unit = NULL;
  while (*rest == ' ' || *rest == '\t')
    rest++;
  if (*rest != '\0')
    {
      for (unit = units; unit->name != NULL && strcmp (unit->name, rest) != 0; unit++)
        ;
      if (unit->name == NULL)
        return FALSE;
    }

  g_autofree char *digits = g_strndup (start, (gsize) (end - start));
  double value = g_ascii_strtod (digits, NULL);

  if (unit != NULL)
    value *= unit->scale;
  *ret_value = negative ? -value : value;
  *ret_unit = unit;
  return TRUE;
}

char *
psi_quote (const char *text)
{
  const glong longest = 60;
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  GString *quoted = g_string_new ("'");
  glong n = 0;

  for (const char *p = valid; *p != '\0'; p = g_utf8_next_char (p), n++)
    {
      if (n == longest)
        {
          g_string_append (quoted, "...");
          break;
        }
      g_string_append_unichar (quoted, g_unichar_iscntrl (g_utf8_get_char (p)) ? '?' : g_utf8_get_char (p));
    }
  g_string_append_c (quoted, '\'');
  return g_string_free (quoted, FALSE);
}
