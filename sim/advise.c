/* SPDX-License-Identifier: MIT */
#include "advise.h"

#include "simulate-plan.h"

#include <string.h>

#define MOST_ADVICE 6
#define MOST_CHANGES 16

typedef struct
{
  PsiKeyId key;
  char text[16];
} Change;

static guint
now (const PsiSettings *settings, PsiKeyId key)
{
  return psi_settings_has (settings, key) ? (guint) psi_settings_count (settings, key) : 1;
}

/* Single changes, the gentle ones first. */
static guint
list_changes (const PsiSettings *settings, const PsiPlanReport *plan, Change *changes)
{
  guint n = 0;
  gint64 micro_batch = psi_settings_count (settings, PSI_KEY_MICRO_BATCH);

  if (micro_batch > 1)
    changes[n++] = (Change){ PSI_KEY_MICRO_BATCH, "1" };
  for (guint i = 0; i < 2; i++)
    if (strcmp (psi_settings_text (settings, PSI_KEY_RECOMPUTE), i == 0 ? "selective" : "full") != 0)
      {
        changes[n].key = PSI_KEY_RECOMPUTE;
        g_strlcpy (changes[n++].text, i == 0 ? "selective" : "full", sizeof changes[0].text);
      }
  for (guint zero = 1; zero <= 3; zero++)
    {
      changes[n].key = PSI_KEY_ZERO;
      g_snprintf (changes[n++].text, sizeof changes[0].text, "%u", zero);
    }
  const struct
  {
    PsiKeyId key;
    guint value, most;
  } degrees[] = { { PSI_KEY_TP, 2 * now (settings, PSI_KEY_TP), 8 },
                  { PSI_KEY_TP, 8, 8 },
                  { PSI_KEY_PP, 2 * now (settings, PSI_KEY_PP), 64 },
                  { PSI_KEY_PP, 4 * now (settings, PSI_KEY_PP), 64 },
                  { PSI_KEY_GPUS, 2 * plan->gpus, 65536 },
                  { PSI_KEY_GPUS, 4 * plan->gpus, 65536 } };
  for (guint i = 0; i < G_N_ELEMENTS (degrees) && n < MOST_CHANGES - 1; i++)
    if (degrees[i].value <= degrees[i].most)
      {
        changes[n].key = degrees[i].key;
        g_snprintf (changes[n++].text, sizeof changes[0].text, "%u", degrees[i].value);
      }
  if (!psi_settings_bool (settings, PSI_KEY_SEQUENCE_PARALLEL) && now (settings, PSI_KEY_TP) > 1)
    changes[n++] = (Change){ PSI_KEY_SEQUENCE_PARALLEL, "yes" };
  return n;
}

static void
try_changes (const PsiSettings *settings, const Change *first, const Change *second, PsiPlanReport *plan)
{
  g_autoptr (PsiSettings) changed = psi_settings_copy (settings);
  PsiSimulateOptions options = { .curves = FALSE };

  if (!psi_settings_set (changed, first->key, first->text, "advice", NULL) ||
      (second != NULL && !psi_settings_set (changed, second->key, second->text, "advice", NULL)))
    return;
  g_autoptr (PsiPlanReport) tried = psi_simulate_plan ("advice", changed, &options, NULL, NULL);
  if (tried == NULL || tried->verdict == PSI_VERDICT_OOM ||
      (plan->verdict == PSI_VERDICT_TIGHT && tried->verdict != PSI_VERDICT_FITS))
    return;
  PsiAdvice advice = { .peak_bytes = tried->peak_bytes, .step_time_ps = tried->step_time_ps };
  advice.set = second == NULL ? g_strdup_printf ("%s=%s", psi_keys[first->key].name, first->text)
                              : g_strdup_printf ("%s=%s %s=%s", psi_keys[first->key].name, first->text,
                                                 psi_keys[second->key].name, second->text);
  g_array_append_val (plan->advice, advice);
}

static int
compare_advice (gconstpointer a, gconstpointer b)
{
  const PsiAdvice *x = a, *y = b;

  return x->step_time_ps != y->step_time_ps ? (x->step_time_ps < y->step_time_ps ? -1 : 1) : strcmp (x->set, y->set);
}

void
psi_advise (const PsiSettings *settings, PsiPlanReport *plan)
{
  Change changes[MOST_CHANGES];
  guint n = list_changes (settings, plan, changes);

  for (guint i = 0; i < n; i++)
    try_changes (settings, &changes[i], NULL, plan);
  for (guint i = 0; i < n && plan->advice->len == 0; i++)
    for (guint j = i + 1; j < n; j++)
      if (changes[i].key != changes[j].key)
        try_changes (settings, &changes[i], &changes[j], plan);
  g_array_sort (plan->advice, compare_advice);
  if (plan->advice->len > MOST_ADVICE)
    g_array_set_size (plan->advice, MOST_ADVICE);
}
