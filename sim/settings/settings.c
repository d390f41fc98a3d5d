/* SPDX-License-Identifier: MIT */
/* The bag of values: text becomes a number once, when it is set. Fallbacks are parsed by the same code. */
#include "keys.h"
#include "quantity.h"

#include <math.h>
#include <string.h>

typedef struct
{
  char *text; /* NULL: not written */
  char *where;
  double number;
  gint64 whole;
  gint64 *counts;
  guint n_counts;
} Value;

struct _PsiSettings
{
  Value values[PSI_N_KEYS];
};

G_DEFINE_QUARK (psi_settings_error, psi_settings_error)

/* ---- What a kind accepts ---- */

typedef gboolean (*ParseFunc) (const PsiKey *key, const char *text, Value *value, GError **error);

static gboolean refuse (GError **error, const char *text, const char *format, ...) G_GNUC_PRINTF (3, 4);

/* Sets "'TEXT' ..." and returns FALSE. */
static gboolean
refuse (GError **error, const char *text, const char *format, ...)
{
  g_autofree char *quoted = psi_quote (text);
  va_list args;

  va_start (args, format);
  g_autofree char *fault = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, PSI_SETTINGS_ERROR, PSI_SETTINGS_ERROR_VALUE, "%s %s", quoted, fault);
  return FALSE;
}

/* How numbers of a kind are read and called. */
typedef struct
{
  PsiKeyKind kind;
  const PsiUnit *units;
  gboolean whole;
  const char *base; /* unit of bounds in messages */
  const char *noun; /* "'two' is not NOUN" */
} NumberKind;

static const NumberKind number_kinds[] = {
  { PSI_KEY_KIND_COUNT, psi_units_count, TRUE, "", "a whole number" },
  { PSI_KEY_KIND_COUNTS, psi_units_count, TRUE, "", "a whole number" },
  { PSI_KEY_KIND_CHOICE_OR_COUNTS, psi_units_count, TRUE, "", "a whole number" },
  { PSI_KEY_KIND_REAL, psi_units_none, FALSE, "", "a number" },
  { PSI_KEY_KIND_BYTES, psi_units_bytes, TRUE, " B", "a size (512 MiB; units B kB MB GB TB KiB MiB GiB TiB)" },
  { PSI_KEY_KIND_TIME, psi_units_time, FALSE, " s", "a time (1.5 ms; units ps ns us ms s)" },
  { PSI_KEY_KIND_RATE, psi_units_rate, FALSE, " B/s",
    "a rate (50 GB/s; units B/s kB/s MB/s GB/s TB/s GiB/s Mb/s Gb/s)" },
};

static gboolean
parse_number (const PsiKey *key, const char *text, Value *value, GError **error)
{
  const NumberKind *kind = number_kinds;
  const PsiUnit *unit;
  double number;

  while (kind->kind != key->kind)
    kind++;
  if (!psi_quantity_parse (text, kind->units, &number, &unit))
    return refuse (error, text, "is not %s", kind->noun);

  /* 2.3M is 2299999.9999999995 in binary; 0.3 GiB is no whole number of bytes at all: the nearest is meant. */
  double nearest = round (number);
  gboolean forgive =
      unit != NULL && (key->kind == PSI_KEY_KIND_BYTES || fabs (number - nearest) <= 1e-9 * fabs (number));

  if (kind->whole && isfinite (number) && number != nearest)
    {
      if (!forgive)
        return refuse (error, text, "is not a whole number%s", key->kind == PSI_KEY_KIND_BYTES ? " of bytes" : "");
      number = nearest;
    }
  if (signbit (number) || !(number >= key->minimum && number <= key->maximum))
    {
      char low[G_ASCII_DTOSTR_BUF_SIZE], high[G_ASCII_DTOSTR_BUF_SIZE];
      const char *format = kind->whole ? "%.0f" : "%g";

      g_ascii_formatd (low, sizeof low, format, key->minimum);
      g_ascii_formatd (high, sizeof high, format, key->maximum);
      return refuse (error, text, "is out of range (%s to %s%s)", low, high, kind->base);
    }
  value->number = number;
  value->whole = kind->whole ? (gint64) number : 0;
  return TRUE;
}

static gboolean
parse_counts (const PsiKey *key, const char *text, Value *value, GError **error)
{
  g_auto (GStrv) pieces = g_strsplit (text, ",", -1);
  guint n = g_strv_length (pieces);
  g_autofree gint64 *counts = g_new (gint64, n);

  for (guint i = 0; i < n; i++)
    {
      Value one = { NULL };

      if (!parse_number (key, g_strstrip (pieces[i]), &one, error))
        return FALSE;
      counts[i] = one.whole;
    }
  value->counts = g_steal_pointer (&counts);
  value->n_counts = n;
  return TRUE;
}

static gboolean
word_is_in (const char *words, const char *word)
{
  g_auto (GStrv) list = g_strsplit (words != NULL ? words : "", " ", -1);

  return g_strv_contains ((const char *const *) list, word);
}

static gboolean
parse_choice (const PsiKey *key, const char *text, Value *value, GError **error)
{
  if (word_is_in (key->choices, text))
    return TRUE;

  g_auto (GStrv) known = g_strsplit (key->choices, " ", -1);
  GString *allowed = g_string_new (NULL);
  for (char **word = known; *word != NULL; word++)
    g_string_append_printf (allowed, "%s%s", allowed->len > 0 ? ", " : "", *word);

  g_autofree char *listed = g_string_free (allowed, FALSE);
  const char *near = psi_nearest (text, (const char *const *) known);
  g_autofree char *hint = near != NULL ? g_strdup_printf ("; did you mean '%s'?", near) : g_strdup ("");
  return refuse (error, text, "is not one of %s%s", listed, hint);
}

static gboolean
parse_bool (const PsiKey *key, const char *text, Value *value, GError **error)
{
  value->whole = strcmp (text, "yes") == 0;
  return value->whole || strcmp (text, "no") == 0 || refuse (error, text, "is not yes or no");
}

static gboolean
parse_choice_or_path (const PsiKey *key, const char *text, Value *value, GError **error)
{
  /* A bare word is meant as a name, so that a slip of the pen is not taken for a file. */
  return strpbrk (text, "./") != NULL || parse_choice (key, text, value, error);
}

static gboolean
parse_choice_or_counts (const PsiKey *key, const char *text, Value *value, GError **error)
{
  return g_ascii_isdigit (*text) || *text == '-' ? parse_counts (key, text, value, error)
                                                 : parse_choice (key, text, value, error);
}

static gboolean
parse_text (const PsiKey *key, const char *text, Value *value, GError **error)
{
  return TRUE;
}

static const ParseFunc parse_funcs[] = {
  [PSI_KEY_KIND_COUNT] = parse_number,  [PSI_KEY_KIND_BYTES] = parse_number,
  [PSI_KEY_KIND_TIME] = parse_number,   [PSI_KEY_KIND_RATE] = parse_number,
  [PSI_KEY_KIND_REAL] = parse_number,   [PSI_KEY_KIND_BOOL] = parse_bool,
  [PSI_KEY_KIND_CHOICE] = parse_choice, [PSI_KEY_KIND_CHOICE_OR_PATH] = parse_choice_or_path,
  [PSI_KEY_KIND_COUNTS] = parse_counts, [PSI_KEY_KIND_CHOICE_OR_COUNTS] = parse_choice_or_counts,
  [PSI_KEY_KIND_TEXT] = parse_text,
};

/* ---- Texts with an inner form ---- */

/* 3:1.5,7:2 */
static gboolean
check_slow (const char *text, GError **error)
{
  g_auto (GStrv) pieces = g_strsplit (text, ",", -1);
  g_autoptr (GHashTable) ranks = g_hash_table_new_full (g_double_hash, g_double_equal, g_free, NULL);

  for (char **piece = pieces; *piece != NULL; piece++)
    {
      g_auto (GStrv) pair = g_strsplit (*piece, ":", 2);
      const PsiUnit *unit;
      double rank, factor;

      if (g_strv_length (pair) != 2 || !psi_quantity_parse (g_strstrip (pair[0]), psi_units_none, &rank, &unit) ||
          !psi_quantity_parse (g_strstrip (pair[1]), psi_units_none, &factor, &unit))
        return refuse (error, text, "is not a list of RANK:FACTOR");
      if (signbit (rank) || rank != floor (rank) || rank > psi_keys[PSI_KEY_GPUS].maximum)
        return refuse (error, pair[0], "is not a rank");
      if (!(factor >= 1e-3 && factor <= 1e6))
        return refuse (error, pair[1], "is out of range (0.001 to 1000000)");
      if (g_hash_table_contains (ranks, &rank))
        return refuse (error, pair[0], "is in the list twice");
      g_hash_table_add (ranks, g_memdup2 (&rank, sizeof rank));
    }
  return TRUE;
}

static gboolean
check_group_order (const char *text, GError **error)
{
  static const char *const groups[] = { "tp", "cp", "ep", "dp", "pp" };
  g_auto (GStrv) pieces = g_strsplit (text, ",", -1);
  gboolean good = g_strv_length (pieces) == G_N_ELEMENTS (groups);

  for (char **piece = pieces; *piece != NULL; piece++)
    g_strstrip (*piece);
  for (guint i = 0; i < G_N_ELEMENTS (groups); i++)
    good = good && g_strv_contains ((const char *const *) pieces, groups[i]);
  return good || refuse (error, text, "is not an order of tp,cp,ep,dp,pp");
}

static const struct
{
  PsiKeyId key;
  gboolean (*check) (const char *text, GError **error);
} text_checks[] = {
  { PSI_KEY_SLOW_RANK, check_slow },
  { PSI_KEY_SLOW_LINK, check_slow },
  { PSI_KEY_GROUP_ORDER, check_group_order },
};

/* ---- Setting ---- */

static void
value_clear (Value *value)
{
  g_free (value->text);
  g_free (value->where);
  g_free (value->counts);
  memset (value, 0, sizeof *value);
}

static gboolean
value_parse (PsiKeyId id, const char *text, Value *value, GError **error)
{
  const PsiKey *key = &psi_keys[id];

  if (*text == '\0')
    {
      g_set_error_literal (error, PSI_SETTINGS_ERROR, PSI_SETTINGS_ERROR_VALUE, "no value");
      return FALSE;
    }
  if (!g_utf8_validate (text, -1, NULL))
    return refuse (error, text, "is not UTF-8");
  if (strlen (text) > 100000)
    return refuse (error, text, "is too long");
  if (!parse_funcs[key->kind](key, text, value, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (text_checks); i++)
    if (text_checks[i].key == id && !text_checks[i].check (text, error))
      return FALSE;
  return TRUE;
}

gboolean
psi_settings_set (PsiSettings *settings, PsiKeyId key, const char *text, const char *where, GError **error)
{
  g_autofree char *stripped = g_strstrip (g_strdup (text));
  Value value = { NULL };

  if (!value_parse (key, stripped, &value, error))
    {
      g_prefix_error (error, "%s: ", where);
      return FALSE;
    }
  value.text = g_steal_pointer (&stripped);
  value.where = g_strdup (where);
  value_clear (&settings->values[key]);
  settings->values[key] = value;
  return TRUE;
}

PsiSettings *
psi_settings_new (void)
{
  return g_new0 (PsiSettings, 1);
}

PsiSettings *
psi_settings_copy (const PsiSettings *settings)
{
  PsiSettings *copy = g_memdup2 (settings, sizeof *settings);

  for (int id = 0; id < PSI_N_KEYS; id++)
    {
      const Value *from = &settings->values[id];
      Value *to = &copy->values[id];

      to->text = g_strdup (from->text);
      to->where = g_strdup (from->where);
      to->counts = g_memdup2 (from->counts, from->n_counts * sizeof *from->counts);
    }
  return copy;
}

void
psi_settings_copy_key (PsiSettings *settings, const PsiSettings *from, PsiKeyId key)
{
  const Value *value = &from->values[key];
  Value *to = &settings->values[key];

  if (!psi_settings_has (from, key))
    return;
  value_clear (to);
  *to = *value;
  to->text = g_strdup (value->text);
  to->where = g_strdup (value->where);
  to->counts = g_memdup2 (value->counts, value->n_counts * sizeof *value->counts);
}

void
psi_settings_free (PsiSettings *settings)
{
  if (settings == NULL)
    return;
  for (int id = 0; id < PSI_N_KEYS; id++)
    value_clear (&settings->values[id]);
  g_free (settings);
}

/* ---- Reading ---- */

/* The fallbacks of the table and the places of keys nobody wrote; made once, kept. */
static const Value *
defaults (void)
{
  static Value values[PSI_N_KEYS];
  static gsize ready = 0;

  if (g_once_init_enter (&ready))
    {
      for (int id = 0; id < PSI_N_KEYS; id++)
        {
          g_autoptr (GError) error = NULL;

          if (psi_keys[id].fallback != NULL && !value_parse (id, psi_keys[id].fallback, &values[id], &error))
            g_error ("fallback of key %s: %s", psi_keys[id].name, error->message);
          values[id].text = (char *) psi_keys[id].fallback;
          values[id].where = g_strdup_printf ("[%s] %s", psi_key_group_names[psi_keys[id].group], psi_keys[id].name);
        }
      g_once_init_leave (&ready, 1);
    }
  return values;
}

static const Value *
value_of (const PsiSettings *settings, PsiKeyId key)
{
  return settings->values[key].text != NULL ? &settings->values[key] : &defaults ()[key];
}

/* A number that nobody wrote and that has no fallback has no value to give. */
static const Value *
number_of (const PsiSettings *settings, PsiKeyId key)
{
  const Value *value = value_of (settings, key);

  if (value->text == NULL)
    g_error ("key %s has no value", psi_keys[key].name);
  return value;
}

gboolean
psi_settings_has (const PsiSettings *settings, PsiKeyId key)
{
  return settings->values[key].text != NULL;
}

const char *
psi_settings_where (const PsiSettings *settings, PsiKeyId key)
{
  return value_of (settings, key)->where;
}

gint64
psi_settings_count (const PsiSettings *settings, PsiKeyId key)
{
  g_assert (psi_keys[key].kind == PSI_KEY_KIND_COUNT || psi_keys[key].kind == PSI_KEY_KIND_BYTES);
  return number_of (settings, key)->whole;
}

double
psi_settings_real (const PsiSettings *settings, PsiKeyId key)
{
  g_assert (parse_funcs[psi_keys[key].kind] == parse_number);
  return number_of (settings, key)->number;
}

gint64
psi_settings_time_ps (const PsiSettings *settings, PsiKeyId key)
{
  g_assert (psi_keys[key].kind == PSI_KEY_KIND_TIME);
  return (gint64) llround (number_of (settings, key)->number * 1e12);
}

gboolean
psi_settings_bool (const PsiSettings *settings, PsiKeyId key)
{
  g_assert (psi_keys[key].kind == PSI_KEY_KIND_BOOL);
  return number_of (settings, key)->whole != 0;
}

const char *
psi_settings_text (const PsiSettings *settings, PsiKeyId key)
{
  return value_of (settings, key)->text;
}

const gint64 *
psi_settings_counts (const PsiSettings *settings, PsiKeyId key, guint *ret_n)
{
  const Value *value = value_of (settings, key);

  *ret_n = value->n_counts;
  return value->counts;
}
