/* SPDX-License-Identifier: MIT */
/* Numbers for people: four significant digits at most, the unit that suits. All results are (transfer full). */
#pragma once

#include <glib.h>

/* At most four significant digits, no exponent, no trailing zeros: 1234.5 -> "1234", 0.5 -> "0.5". */
char *psi_format_number (double value);
char *psi_format_bytes (double bytes);      /* "41.3 GiB", "512 B" */
char *psi_format_time (gint64 time_ps);     /* "1.234 s", "18.5 ms", "0 s" */
char *psi_format_count (double value);      /* "50.43 k", "6.738 B"; NAN: "-" */
char *psi_format_percent (double fraction); /* "45.1 %" */

/* A unit for a whole column, so that its numbers can be compared at a glance. */
typedef struct
{
  const char *name; /* "GiB", "ms" */
  double size;      /* in bytes or picoseconds */
  int decimals;     /* so that the largest number has at most four digits */
} PsiUnit;

PsiUnit psi_unit_for_bytes (double largest_bytes);
PsiUnit psi_unit_for_time (double largest_ps);
/* The number without its unit: "41.30", "-" for nothing, "<0.01" for less than can be shown. */
char *psi_format_in_unit (double value, const PsiUnit *unit);
