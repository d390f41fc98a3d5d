/* SPDX-License-Identifier: MIT */
/* Numbers for people. A value that would round up to the next unit is shown in the next unit: never "1024 MiB". */
#include "table-units.h"

#include <math.h>
#include <string.h>

typedef struct
{
  const char *name;
  double size;
} Scale;

static const Scale byte_scales[] = {
  { "B", 1 },
  { "KiB", 1024.0 },
  { "MiB", 1024.0 * 1024 },
  { "GiB", 1024.0 * 1024 * 1024 },
  { "TiB", 1024.0 * 1024 * 1024 * 1024 },
  { "PiB", 1024.0 * 1024 * 1024 * 1024 * 1024 },
};
static const Scale time_scales[] = {
  { "ps", 1 }, { "ns", 1e3 }, { "us", 1e6 }, { "ms", 1e9 }, { "s", 1e12 },
};
static const Scale count_scales[] = {
  { "", 1 }, { " k", 1e3 }, { " M", 1e6 }, { " B", 1e9 }, { " T", 1e12 },
};

/* The largest scale of which there is at least one, after rounding to four digits. */
static const Scale *
pick_scale (const Scale *scales, guint n_scales, double value)
{
  const Scale *scale = scales;

  for (guint i = 1; i < n_scales; i++)
    if (fabs (value) >= scales[i].size * (1 - 0.5e-4))
      scale = &scales[i];
  return scale;
}

/* Decimals that make four significant digits. */
static int
decimals_for (double value)
{
  double size = fabs (value);

  if (size < 9.9995)
    return 3;
  return size < 99.995 ? 2 : size < 999.95 ? 1 : 0;
}

static char *
trim_zeros (char *text)
{
  if (strchr (text, '.') == NULL)
    return text;
  gsize length = strlen (text);
  while (text[length - 1] == '0')
    length--;
  if (text[length - 1] == '.')
    length--;
  text[length] = '\0';
  return text;
}

static char *
format_fixed (double value, int decimals)
{
  char format[8], text[G_ASCII_DTOSTR_BUF_SIZE + 320];

  g_snprintf (format, sizeof format, "%%.%df", decimals);
  return g_strdup (g_ascii_formatd (text, sizeof text, format, value));
}

char *
psi_format_number (double value)
{
  double size = fabs (value);
  int decimals = decimals_for (value);

  if (!isfinite (value))
    return g_strdup ("-");
  if (size > 0 && size < 1)
    decimals = (int) MIN (3 - floor (log10 (size)), 12);
  g_autofree char *text = trim_zeros (format_fixed (value, decimals));
  return g_strdup (strcmp (text, "-0") == 0 ? "0" : text);
}

static char *
format_scaled (const Scale *scale, double value, const char *blank)
{
  g_autofree char *number = psi_format_number (value / scale->size);

  return g_strconcat (number, blank, scale->name, NULL);
}

char *
psi_format_bytes (double bytes)
{
  return format_scaled (pick_scale (byte_scales, G_N_ELEMENTS (byte_scales), bytes), bytes, " ");
}

char *
psi_format_time (gint64 time_ps)
{
  if (time_ps == 0)
    return g_strdup ("0 s");
  return format_scaled (pick_scale (time_scales, G_N_ELEMENTS (time_scales), (double) time_ps), (double) time_ps, " ");
}

char *
psi_format_count (double value)
{
  if (!isfinite (value))
    return g_strdup ("-");
  return format_scaled (pick_scale (count_scales, G_N_ELEMENTS (count_scales), value), value, "");
}

char *
psi_format_percent (double fraction)
{
  if (!isfinite (fraction))
    return g_strdup ("-");
  g_autofree char *number = format_fixed (100 * fraction, fabs (fraction) < 99.995 ? 1 : 0);
  return g_strconcat (number, " %", NULL);
}

static PsiUnit
unit_for (const Scale *scales, guint n_scales, double largest)
{
  const Scale *scale = pick_scale (scales, n_scales, largest);
  gboolean is_whole = scale == scales && scale->size == 1;

  return (PsiUnit){ scale->name, scale->size, is_whole ? 0 : decimals_for (largest / scale->size) };
}

PsiUnit
psi_unit_for_bytes (double largest_bytes)
{
  return unit_for (byte_scales, G_N_ELEMENTS (byte_scales), largest_bytes);
}

PsiUnit
psi_unit_for_time (double largest_ps)
{
  return unit_for (time_scales, G_N_ELEMENTS (time_scales), largest_ps);
}

char *
psi_format_in_unit (double value, const PsiUnit *unit)
{
  double number = value / unit->size, least = pow (10, -unit->decimals);

  if (value == 0 || !isfinite (value))
    return g_strdup ("-");
  if (fabs (number) < least / 2)
    {
      g_autofree char *text = format_fixed (least, unit->decimals);
      return g_strconcat ("<", text, NULL);
    }
  return format_fixed (number, unit->decimals);
}
