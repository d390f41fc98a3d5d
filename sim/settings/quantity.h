/* SPDX-License-Identifier: MIT */
/* Numbers as people write them: "512 MiB", "1.5 ms", "50 GB/s", "1.3B". The decimal point is a point in every locale.
 */
#pragma once

#include <glib.h>

typedef struct
{
  const char *name;
  double scale; /* in base units */
} PsiUnit;

/* Each ends with name NULL. */
extern const PsiUnit psi_units_count[]; /* k M B */
extern const PsiUnit psi_units_bytes[]; /* base: byte */
extern const PsiUnit psi_units_time[];  /* base: second */
extern const PsiUnit psi_units_rate[];  /* base: byte per second */
extern const PsiUnit psi_units_none[];

/* Decimal digits, one point, an exponent, then perhaps blanks and a unit; a sign is allowed so that the caller can say
 * "out of range". No hexadecimal, no infinity, nothing behind. FALSE if `text` is anything else; then the outputs are
 * untouched. *ret_value is in base units, perhaps too large for a double (infinity); *ret_unit is NULL if bare. */
gboolean psi_quantity_parse (const char *text, const PsiUnit *units, double *ret_value, const PsiUnit **ret_unit);

/* `text` in single quotes for a message of one line: control characters and broken UTF-8 replaced, long ones cut.
 * (transfer full) */
char *psi_quote (const char *text);
