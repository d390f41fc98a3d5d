/* SPDX-License-Identifier: MIT */
/* Advice is what simulating every change in full would find, and no less. */
#include "advise.h"
#include "closed-forms.h"
#include "settings-flags.h"
#include "simulate-plan.h"

/* A plan that does not fit and the changes to try, the gentlest first; those of one key stand together. */
static const struct
{
  const char *flags, *changes;
} loads[] = {
  { "model=llama-2-70b machine=a100 gpus=64 tp=8 pp=8 micro_batches=8 sequence=8192",
    "recompute=selective recompute=full zero=1 zero=2 zero=3 sequence_parallel=yes pp=16 pp=32 pp=64 gpus=128 gpus=256 "
    "gpus=512 gpus=1024 gpus=2048 offload=optimizer offload=activations offload=parameters" },
  { "model=llama-2-7b machine=a100 plan=dp gpus=8 micro_batch=4",
    "micro_batch=2 micro_batch=1 recompute=selective recompute=full zero=1 zero=2 zero=3 sequence_parallel=yes tp=2 "
    "tp=4 "
    "tp=8 pp=2 pp=4 pp=8 pp=16 pp=32 gpus=16 gpus=32 gpus=64 gpus=128 gpus=256 offload=optimizer offload=activations "
    "offload=parameters" },
  { "model=llama-2-13b machine=a100 gpus=4 pp=4 micro_batches=8 zero=1",
    "recompute=selective recompute=full zero=2 zero=3 sequence_parallel=yes tp=2 tp=4 tp=8 pp=8 pp=16 pp=32 pp=64 "
    "gpus=8 "
    "gpus=16 gpus=32 gpus=64 gpus=128 offload=optimizer offload=activations offload=parameters" },
};

static PsiPlanReport *
simulate (const PsiSettings *settings)
{
  const PsiSimulateOptions options = { .curves = FALSE };

  return psi_simulate_plan ("plan", settings, &options, NULL, NULL);
}

/* The settings with one change, NULL if the change cannot be made. */
static PsiPlanReport *
simulate_change (const PsiSettings *settings, const char *change)
{
  g_autoptr (PsiSettings) changed = psi_settings_copy (settings);
  g_auto (GStrv) sides = g_strsplit (change, "=", 2);
  int key = psi_key_find (sides[0]);

  g_assert_cmpint (key, >=, 0);
  return psi_settings_set (changed, (PsiKeyId) key, sides[1], "test", NULL) ? simulate (changed) : NULL;
}

static const PsiAdvice *
find_advice (const PsiPlanReport *plan, const char *set)
{
  for (guint i = 0; i < plan->advice->len; i++)
    if (g_str_equal (g_array_index (plan->advice, PsiAdvice, i).set, set))
      return &g_array_index (plan->advice, PsiAdvice, i);
  return NULL;
}

static void
test_complete (gconstpointer data)
{
  guint load = GPOINTER_TO_UINT (data), n_fit = 0;
  g_autoptr (PsiSettings) settings = settings_of (loads[load].flags);
  g_autoptr (PsiPlanReport) plan = simulate (settings);
  g_auto (GStrv) changes = g_strsplit (loads[load].changes, " ", -1);
  g_autofree char *done = NULL;

  g_assert_nonnull (plan);
  g_assert_cmpint (plan->verdict, ==, PSI_VERDICT_OOM);
  psi_advise (settings, plan);
  for (char **change = changes; *change != NULL; change++)
    {
      g_autofree char *key = g_strndup (*change, strcspn (*change, "="));

      if (g_strcmp0 (done, key) == 0)
        continue; /* a gentler change of the key does */
      g_autoptr (PsiPlanReport) changed = simulate_change (settings, *change);
      const PsiAdvice *advice = find_advice (plan, *change);
      if (changed == NULL || changed->verdict == PSI_VERDICT_OOM)
        {
          g_assert_null (advice);
          continue;
        }
      g_test_message ("%s: %s", loads[load].flags, *change);
      n_fit++;
      g_free (done);
      done = g_steal_pointer (&key);
      if (advice == NULL)
        {
          g_assert_cmpuint (plan->advice->len, ==, 6); /* better ones push it out */
          continue;
        }
      g_assert_cmpint (advice->peak_bytes, ==, changed->peak_bytes);
      g_assert_cmpint (advice->step_time_ps, ==, changed->step_time_ps);
      g_assert_cmpuint (advice->gpus, ==, changed->gpus);
      g_assert_cmpfloat (advice->samples_per_s, ==, changed->samples_per_s);
    }
  g_assert_cmpuint (plan->advice->len, ==, MIN (n_fit, 6));
  g_assert_cmpuint (n_fit, >, 0);
}

/* No single change helps: pairs do. */
static void
test_pairs (void)
{
  g_autoptr (PsiSettings) settings = settings_of ("model=llama-2-13b machine=a100 plan=dp gpus=2 sequence=8192");
  g_autoptr (PsiPlanReport) plan = simulate (settings);

  psi_advise (settings, plan);
  g_assert_cmpuint (plan->advice->len, >, 0);
  for (guint i = 0; i < plan->advice->len; i++)
    {
      const PsiAdvice *advice = &g_array_index (plan->advice, PsiAdvice, i);
      g_autoptr (PsiSettings) changed = psi_settings_copy (settings);
      g_auto (GStrv) changes = g_strsplit (advice->set, " ", -1);

      g_assert_cmpuint (g_strv_length (changes), ==, 2);
      for (guint c = 0; c < 2; c++)
        {
          g_auto (GStrv) sides = g_strsplit (changes[c], "=", 2);

          g_assert_true (psi_settings_set (changed, (PsiKeyId) psi_key_find (sides[0]), sides[1], "test", NULL));
        }
      g_autoptr (PsiPlanReport) tried = simulate (changed);
      g_assert_cmpint (tried->verdict, !=, PSI_VERDICT_OOM);
      g_assert_cmpint (tried->peak_bytes, ==, advice->peak_bytes);
      g_assert_cmpint (tried->step_time_ps, ==, advice->step_time_ps);
    }
}

static gboolean
advises_gpus (const char *flags, guint64 more_than)
{
  g_autoptr (PsiSettings) settings = settings_of (flags);
  g_autoptr (PsiPlanReport) plan = simulate (settings);
  gboolean found = FALSE;

  psi_advise (settings, plan);
  for (guint i = 0; i < plan->advice->len; i++)
    {
      const char *gpus = strstr (g_array_index (plan->advice, PsiAdvice, i).set, "gpus=");

      found = found || (gpus != NULL && g_ascii_strtoull (gpus + strlen ("gpus="), NULL, 10) > more_than);
    }
  return found;
}

/* Thousands of GPUs are tried where they are simulated as one, not where each is by itself. */
static void
test_one_by_one (void)
{
  const char *flags = "model=gpt3-175b machine=a100 plan=zero-3 gpus=64 sequence=512";
  g_autofree char *slow = g_strdup_printf ("%s slow_rank=1:1.5", flags);

  g_assert_true (advises_gpus (flags, 64));
  g_assert_false (advises_gpus (slow, 64));
}

/* What is refused without a run would not fit if it were run, and nothing is refused that fits. */
static void
test_misfits (void)
{
  static const char *const plans[] = { "cdp-v1",     "cdp-v2", "cdp+mp", "cdp+pp",     "cdp-zero",
                                       "cdp-single", "dp",     "zero-3", "gpipe",      "1f1b",
                                       "zb-h1",      "zb-v",   "tp",     "accumulate", "pipedream" };
  static const char *const models[] = { "llama-2-7b", "llama-2-13b sequence=2048", "gpt2-xl micro_batch=4" };
  static const char *const changes[] = { "recompute=none", "recompute=selective", "recompute=full",
                                         "offload=activations", "offload=parameters" };
  guint n_refused = 0, n_fit = 0;

  for (guint p = 0; p < G_N_ELEMENTS (plans); p++)
    for (guint m = 0; m < G_N_ELEMENTS (models); m++)
      for (guint c = 0; c < G_N_ELEMENTS (changes); c++)
        {
          g_autofree char *flags = g_strdup_printf ("model=%s machine=v100-sxm-32 plan=%s stages=4 workers=4 %s",
                                                    models[m], plans[p], changes[c]);
          const PsiSimulateOptions skips = { .fit_only = TRUE, .skips_misfits = TRUE };
          g_autoptr (PsiSettings) settings = settings_of (flags);
          g_autoptr (PsiPlanReport) quick = psi_simulate_plan ("plan", settings, &skips, NULL, NULL);
          g_autoptr (PsiPlanReport) whole = simulate (settings);

          if (quick == NULL || whole == NULL)
            {
              g_assert_true (quick == whole);
              continue;
            }
          g_test_message ("%s", flags);
          g_assert_cmpuint (quick->verdict, ==, whole->verdict);
          if (quick->peak_bytes == 0)
            n_refused++;
          else
            g_assert_cmpint (quick->peak_bytes, ==, whole->peak_bytes);
          n_fit += whole->verdict != PSI_VERDICT_OOM;
        }
  g_assert_cmpuint (n_refused, >, 20);
  g_assert_cmpuint (n_fit, >, 20);
}

/* Many workers, each at a time of its own: one piece of advice, as good as that of all steps. */
static void
test_cyclic (void)
{
  g_autoptr (PsiSettings) settings =
      settings_of ("model=llama-2-7b machine=a100 plan=cdp-v2 workers=64 stages=32 sequence=4096");
  g_autoptr (PsiPlanReport) plan = simulate (settings);

  g_assert_cmpint (plan->verdict, ==, PSI_VERDICT_OOM);
  psi_advise (settings, plan);
  g_assert_cmpuint (plan->advice->len, ==, 1);
  const PsiAdvice *advice = &g_array_index (plan->advice, PsiAdvice, 0);
  g_autoptr (PsiPlanReport) changed = simulate_change (settings, advice->set);
  g_assert_cmpint (changed->verdict, !=, PSI_VERDICT_OOM);
  g_assert_cmpfloat_with_epsilon ((double) advice->peak_bytes / (double) changed->peak_bytes, 1, 0.01);
  g_assert_cmpfloat_with_epsilon ((double) advice->step_time_ps / (double) changed->step_time_ps, 1, 0.03);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (loads); i++)
    {
      g_autofree char *path = g_strdup_printf ("/sim/advise/complete/%u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_complete);
    }
  g_test_add_func ("/sim/advise/pairs", test_pairs);
  g_test_add_func ("/sim/advise/one-by-one", test_one_by_one);
  g_test_add_func ("/sim/advise/misfits", test_misfits);
  g_test_add_func ("/sim/advise/cyclic", test_cyclic);
  return g_test_run ();
}
