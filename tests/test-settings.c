/* SPDX-License-Identifier: MIT */
/* The table of keys and the bag of their values. */
#include "keys.h"
#include "quantity.h"

#include <locale.h>
#include <string.h>

static void
check_value (PsiKeyId key, const char *text, double expected)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();
  g_autoptr (GError) error = NULL;

  g_assert_true (psi_settings_set (settings, key, text, "here", &error));
  g_assert_no_error (error);
  if (psi_keys[key].kind == PSI_KEY_KIND_COUNT || psi_keys[key].kind == PSI_KEY_KIND_BYTES)
    g_assert_cmpint (psi_settings_count (settings, key), ==, (gint64) expected);
  g_assert_cmpfloat_with_epsilon (psi_settings_real (settings, key), expected, 1e-15 * expected + 1e-300);
}

/* Sets a good value first: a refused one must leave it alone. */
static void
check_refused (PsiKeyId key, const char *good, const char *text, const char *message)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();
  g_autoptr (GError) error = NULL;

  g_assert_true (psi_settings_set (settings, key, good, "first", NULL));
  g_assert_false (psi_settings_set (settings, key, text, "gpt.scn: [x] y", &error));
  g_assert_nonnull (error);
  g_assert_cmpint (error->domain, ==, PSI_SETTINGS_ERROR);
  g_assert_true (g_str_has_prefix (error->message, "gpt.scn: [x] y: "));
  g_assert_null (strchr (error->message, '\n'));
  if (message != NULL)
    g_assert_cmpstr (error->message + strlen ("gpt.scn: [x] y: "), ==, message);
  g_assert_cmpstr (psi_settings_text (settings, key), ==, good);
  g_assert_cmpstr (psi_settings_where (settings, key), ==, "first");
}

static void
test_table (void)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();

  for (int id = 0; id < PSI_N_KEYS; id++)
    {
      const PsiKey *key = &psi_keys[id];
      gboolean number = key->kind <= PSI_KEY_KIND_REAL;

      g_assert_nonnull (key->name);
      g_assert_cmpint (psi_key_find (key->name), ==, id); /* unique, too */
      g_assert_nonnull (key->help);
      g_assert_null (strchr (key->help, '\n'));
      if (number)
        g_assert_cmpfloat (key->maximum, >, key->minimum);
      if (key->kind == PSI_KEY_KIND_CHOICE)
        g_assert_nonnull (key->choices);
      if (key->fallback != NULL)
        g_assert_cmpstr (psi_settings_text (settings, id), ==, key->fallback);
      g_assert_false (psi_settings_has (settings, id));
    }
  g_assert_cmpint (psi_key_find ("micro-batch"), ==, PSI_KEY_MICRO_BATCH);
  g_assert_cmpint (psi_key_find ("micro_batc"), ==, -1);
  g_assert_cmpint (psi_key_find (""), ==, -1);
}

static void
test_numbers (void)
{
  check_value (PSI_KEY_VOCAB, "50257", 50257);
  check_value (PSI_KEY_VOCAB, "  32k ", 32000);
  check_value (PSI_KEY_VOCAB, "2.3M", 2300000);
  check_value (PSI_KEY_VOCAB, "1e3", 1000);
  check_value (PSI_KEY_GLOBAL_BATCH, "1B", 1e9);
  check_value (PSI_KEY_SEED, "9007199254740991", 9007199254740991.0);
  check_value (PSI_KEY_PSI_P, "1024", 1024);
  check_value (PSI_KEY_PSI_P, "4 GiB", 4294967296.0);
  check_value (PSI_KEY_PSI_P, "4GB", 4e9);
  check_value (PSI_KEY_PSI_P, "25 MiB", 26214400);
  check_value (PSI_KEY_PSI_P, "3 kB", 3000);
  check_value (PSI_KEY_PSI_P, "2TiB", 2199023255552.0);
  check_value (PSI_KEY_PSI_P, "0.3 GiB", 322122547);
  check_value (PSI_KEY_FORWARD, "0.25", 0.25);
  check_value (PSI_KEY_FORWARD, "1.5 ms", 0.0015);
  check_value (PSI_KEY_FORWARD, "3us", 3e-6);
  check_value (PSI_KEY_FORWARD, "7 ns", 7e-9);
  check_value (PSI_KEY_FORWARD, "2 s", 2);
  check_value (PSI_KEY_INTERNODE, "400 Gb/s", 5e10);
  check_value (PSI_KEY_INTERNODE, "50GB/s", 5e10);
  check_value (PSI_KEY_INTERNODE, "100 Mb/s", 12.5e6);
  check_value (PSI_KEY_INTERNODE, "1 GiB/s", 1073741824.0);
  check_value (PSI_KEY_INTERNODE, "12500000", 12.5e6);
  check_value (PSI_KEY_FROZEN, ".5", 0.5);
  check_value (PSI_KEY_ZERO, "0", 0);
}

static void
test_time_ps (void)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();

  g_assert_cmpint (psi_settings_time_ps (settings, PSI_KEY_FORWARD), ==, 1000000000); /* fallback 1 ms */
  g_assert_true (psi_settings_set (settings, PSI_KEY_FORWARD, "0.3 ms", "here", NULL));
  g_assert_cmpint (psi_settings_time_ps (settings, PSI_KEY_FORWARD), ==, 300000000);
  g_assert_true (psi_settings_set (settings, PSI_KEY_FORWARD, "1 ps", "here", NULL));
  g_assert_cmpint (psi_settings_time_ps (settings, PSI_KEY_FORWARD), ==, 1);
}

static void
test_refused_numbers (void)
{
  static const char *const never[] = { "two",    "",          " ",     "-",   ".",   "e5",  "1e",   "0x10",     "nan",
                                       "NaN",    "inf",       "-inf",  "+1",  "1 2", "1,5", "1..2", "infinity", "1e999",
                                       "-1e999", "5 parsecs", "1_000", "12;", "--1", "1e+", "\xff" };
  static const struct
  {
    PsiKeyId key;
    const char *good;
  } keys[] = {
    { PSI_KEY_MICRO_BATCH, "4" },    { PSI_KEY_PSI_P, "1 GiB" }, { PSI_KEY_FORWARD, "1 ms" },
    { PSI_KEY_INTERNODE, "1 GB/s" }, { PSI_KEY_FROZEN, "0.5" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      for (guint j = 0; j < G_N_ELEMENTS (never); j++)
        check_refused (keys[i].key, keys[i].good, never[j], NULL);
      check_refused (keys[i].key, keys[i].good, "-1", NULL);
      check_refused (keys[i].key, keys[i].good, "-0", NULL);
      check_refused (keys[i].key, keys[i].good, "1e300", NULL);
    }
  check_refused (PSI_KEY_MICRO_BATCH, "4", "two", "'two' is not a whole number");
  check_refused (PSI_KEY_MICRO_BATCH, "4", "1.5", "'1.5' is not a whole number");
  check_refused (PSI_KEY_MICRO_BATCH, "4", "4 GiB", "'4 GiB' is not a whole number");
  check_refused (PSI_KEY_MICRO_BATCH, "4", "0", "'0' is out of range (1 to 10000000)");
  check_refused (PSI_KEY_MICRO_BATCH, "4", "", "no value");
  check_refused (PSI_KEY_ZERO, "1", "4", "'4' is out of range (0 to 3)");
  check_refused (PSI_KEY_PSI_P, "1 GiB", "1.5", "'1.5' is not a whole number of bytes");
  check_refused (PSI_KEY_FORWARD, "1 ms", "0", NULL);
  check_refused (PSI_KEY_FORWARD, "1 ms", "3 GiB", NULL);
  check_refused (PSI_KEY_INTERNODE, "1 GB/s", "0", NULL);
  check_refused (PSI_KEY_INTERNODE, "1 GB/s", "25", NULL); /* a rate whose unit was forgotten */
  check_refused (PSI_KEY_FROZEN, "0.5", "1.01", "'1.01' is out of range (0 to 1)");
}

static void
test_words (void)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();

  g_assert_true (psi_settings_set (settings, PSI_KEY_TIED, "yes", "here", NULL));
  g_assert_true (psi_settings_bool (settings, PSI_KEY_TIED));
  g_assert_true (psi_settings_set (settings, PSI_KEY_TIED, "no", "here", NULL));
  g_assert_false (psi_settings_bool (settings, PSI_KEY_TIED));
  g_assert_true (psi_settings_bool (settings, PSI_KEY_COLLAPSE));
  check_refused (PSI_KEY_TIED, "yes", "true", "'true' is not yes or no");
  check_refused (PSI_KEY_RECOMPUTE, "full", "fulll",
                 "'fulll' is not one of none, selective, full; did you mean 'full'?");
  check_refused (PSI_KEY_RECOMPUTE, "full", "none full", NULL);

  g_assert_true (psi_settings_set (settings, PSI_KEY_SCHEDULE, "1f1b", "here", NULL));
  g_assert_true (psi_settings_set (settings, PSI_KEY_SCHEDULE, "my/order", "here", NULL));
  g_assert_true (psi_settings_set (settings, PSI_KEY_SCHEDULE, "order.txt", "here", NULL));
  check_refused (PSI_KEY_SCHEDULE, "1f1b", "gpip", NULL);

  g_assert_null (psi_settings_text (settings, PSI_KEY_MODEL));
  g_assert_true (psi_settings_set (settings, PSI_KEY_MODEL, " gpt2 ", "here", NULL));
  g_assert_cmpstr (psi_settings_text (settings, PSI_KEY_MODEL), ==, "gpt2");
  check_refused (PSI_KEY_MODEL, "gpt2", "", "no value");
}

static void
test_lists (void)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();
  guint n = 9;

  g_assert_null (psi_settings_counts (settings, PSI_KEY_WORKER_BATCHES, &n));
  g_assert_cmpuint (n, ==, 0);
  g_assert_true (psi_settings_set (settings, PSI_KEY_WORKER_BATCHES, "6, 2,2,2", "here", NULL));
  const gint64 *counts = psi_settings_counts (settings, PSI_KEY_WORKER_BATCHES, &n);
  g_assert_cmpuint (n, ==, 4);
  g_assert_cmpint (counts[0], ==, 6);
  g_assert_cmpint (counts[3], ==, 2);

  g_assert_true (psi_settings_set (settings, PSI_KEY_PARTITION, "5,6,6,5", "here", NULL));
  counts = psi_settings_counts (settings, PSI_KEY_PARTITION, &n);
  g_assert_cmpuint (n, ==, 4);
  g_assert_cmpint (counts[1], ==, 6);
  g_assert_true (psi_settings_set (settings, PSI_KEY_PARTITION, "layers+2", "here", NULL));
  g_assert_null (psi_settings_counts (settings, PSI_KEY_PARTITION, &n));
  g_assert_cmpstr (psi_settings_text (settings, PSI_KEY_PARTITION), ==, "layers+2");

  check_refused (PSI_KEY_WORKER_BATCHES, "1,1", "6,,2", NULL);
  check_refused (PSI_KEY_WORKER_BATCHES, "1,1", "6,2,", NULL);
  check_refused (PSI_KEY_WORKER_BATCHES, "1,1", "6,x", "'x' is not a whole number");
  check_refused (PSI_KEY_WORKER_BATCHES, "1,1", "6,0", NULL);
  check_refused (PSI_KEY_PARTITION, "flops", "-5,5", NULL);
  check_refused (PSI_KEY_PARTITION, "flops", "layer", NULL);

  g_assert_true (psi_settings_set (settings, PSI_KEY_SLOW_RANK, "3:1.5,7:2", "here", NULL));
  check_refused (PSI_KEY_SLOW_RANK, "3:1.5", "3", NULL);
  check_refused (PSI_KEY_SLOW_RANK, "3:1.5", "3:0", NULL);
  check_refused (PSI_KEY_SLOW_RANK, "3:1.5", "-3:2", NULL);
  check_refused (PSI_KEY_SLOW_RANK, "3:1.5", "x:2", NULL);
  check_refused (PSI_KEY_SLOW_RANK, "3:1.5", "1.5:2", NULL);
  check_refused (PSI_KEY_SLOW_RANK, "3:1.5", "3:2:1", NULL);
  g_assert_true (psi_settings_set (settings, PSI_KEY_GROUP_ORDER, "pp,dp,ep,cp,tp", "here", NULL));
  check_refused (PSI_KEY_GROUP_ORDER, "tp,cp,ep,dp,pp", "tp,tp,ep,dp,pp", NULL);
  check_refused (PSI_KEY_GROUP_ORDER, "tp,cp,ep,dp,pp", "tp,dp", NULL);
}

static void
test_where_and_copy (void)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();

  g_assert_cmpstr (psi_settings_where (settings, PSI_KEY_TP), ==, "[plan] tp");
  g_assert_true (psi_settings_set (settings, PSI_KEY_TP, "2", "gpt.scn: [plan] tp", NULL));
  g_assert_true (psi_settings_set (settings, PSI_KEY_PARTITION, "5,5", "there", NULL));
  g_assert_cmpstr (psi_settings_where (settings, PSI_KEY_TP), ==, "gpt.scn: [plan] tp");
  g_assert_true (psi_settings_has (settings, PSI_KEY_TP));

  g_autoptr (PsiSettings) copy = psi_settings_copy (settings);
  guint n;
  g_assert_true (psi_settings_set (settings, PSI_KEY_TP, "4", "--tp", NULL));
  g_assert_true (psi_settings_set (settings, PSI_KEY_PARTITION, "flops", "--partition", NULL));
  g_assert_cmpint (psi_settings_count (copy, PSI_KEY_TP), ==, 2);
  g_assert_cmpstr (psi_settings_where (copy, PSI_KEY_TP), ==, "gpt.scn: [plan] tp");
  g_assert_nonnull (psi_settings_counts (copy, PSI_KEY_PARTITION, &n));
  g_assert_cmpuint (n, ==, 2);
  g_assert_cmpint (psi_settings_count (settings, PSI_KEY_TP), ==, 4);
}

/* A decimal comma must neither be accepted nor change what a point means. */
static void
test_locale (void)
{
  if (setlocale (LC_NUMERIC, "de_DE.UTF-8") == NULL && setlocale (LC_NUMERIC, "de_DE.utf8") == NULL)
    {
      g_test_skip ("no locale with a decimal comma");
      return;
    }
  check_value (PSI_KEY_FORWARD, "1.5 ms", 0.0015);
  check_refused (PSI_KEY_FORWARD, "1 ms", "1,5 ms", NULL);
  check_refused (PSI_KEY_FROZEN, "0.5", "1.5", "'1.5' is out of range (0 to 1)");
  setlocale (LC_NUMERIC, "C");
}

static void
test_quote (void)
{
  g_autofree char *plain = psi_quote ("two"), *broken = psi_quote ("a\nb\x1b[31m");
  g_autofree char *many = g_strnfill (5000, 'x'), *cut = psi_quote (many), *bytes = psi_quote ("\xff");

  g_assert_cmpstr (plain, ==, "'two'");
  g_assert_cmpstr (broken, ==, "'a?b?[31m'");
  g_assert_cmpuint (strlen (cut), ==, 65);
  g_assert_true (g_utf8_validate (bytes, -1, NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/settings/keys/table", test_table);
  g_test_add_func ("/settings/values/numbers", test_numbers);
  g_test_add_func ("/settings/values/time-ps", test_time_ps);
  g_test_add_func ("/settings/values/refused-numbers", test_refused_numbers);
  g_test_add_func ("/settings/values/words", test_words);
  g_test_add_func ("/settings/values/lists", test_lists);
  g_test_add_func ("/settings/values/where-and-copy", test_where_and_copy);
  g_test_add_func ("/settings/values/locale", test_locale);
  g_test_add_func ("/settings/quantity/quote", test_quote);
  return g_test_run ();
}
