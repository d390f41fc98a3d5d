/* SPDX-License-Identifier: MIT */
#include "advise.h"

#include "simulate-plan.h"

#include <string.h>

#define MOST_ADVICE 6
#define MOST_CHANGES 32
#define MOST_GPUS 65536
/* Where GPUs are simulated one by one. */
#define MOST_WORKERS 64
#define MOST_FOLLOWED 64 /* GPUs in all pieces of advice together */
#define MOST_STEPS 8     /* of plans whose steps do not repeat */

typedef struct
{
  PsiKeyId key;
  char text[16];
} Change;

typedef struct
{
  Change list[MOST_CHANGES];
  guint n;
} Changes;

static void
add_text (Changes *changes, PsiKeyId key, const char *text)
{
  g_assert (changes->n < MOST_CHANGES);
  changes->list[changes->n].key = key;
  g_strlcpy (changes->list[changes->n++].text, text, sizeof changes->list[0].text);
}

static void
add_number (Changes *changes, PsiKeyId key, guint64 number)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, number);

  add_text (changes, key, text);
}

static guint
now (const PsiSettings *settings, PsiKeyId key)
{
  return psi_settings_has (settings, key) ? (guint) psi_settings_count (settings, key) : 1;
}

/* Powers of two times what is there, up to a most. */
static void
add_multiples (Changes *changes, PsiKeyId key, guint64 from, guint64 most, guint n)
{
  for (guint i = 1; i <= n && from << i <= most; i++)
    add_number (changes, key, from << i);
}

/* Are no two GPUs equal: workers at times of their own, or some GPU slower than others? */
static gboolean
is_one_by_one (const PsiSettings *settings, const PsiPlanReport *plan)
{
  return plan->delay_max > 0 || psi_settings_has (settings, PSI_KEY_SLOW_RANK) ||
         psi_settings_has (settings, PSI_KEY_SLOW_LINK) || psi_settings_real (settings, PSI_KEY_JITTER) > 0 ||
         !psi_settings_bool (settings, PSI_KEY_COLLAPSE);
}

/* Single changes, the gentle ones first. */
static void
list_changes (const PsiSettings *settings, const PsiPlanReport *plan, Changes *changes)
{
  static const char *const recomputes[] = { "none", "selective", "full", NULL };
  static const char *const offloads[] = { "optimizer", "activations", "parameters" };
  gint64 micro_batch = psi_settings_count (settings, PSI_KEY_MICRO_BATCH);
  const char *recompute = psi_settings_text (settings, PSI_KEY_RECOMPUTE);
  const char *offload = psi_settings_text (settings, PSI_KEY_OFFLOAD);
  guint r = 0, zero = psi_settings_has (settings, PSI_KEY_ZERO) ? now (settings, PSI_KEY_ZERO) : 0;

  if (micro_batch > 3)
    add_number (changes, PSI_KEY_MICRO_BATCH, (guint64) micro_batch / 2);
  if (micro_batch > 1)
    add_number (changes, PSI_KEY_MICRO_BATCH, 1);
  while (strcmp (recomputes[r], recompute) != 0)
    r++;
  for (r++; recomputes[r] != NULL; r++)
    add_text (changes, PSI_KEY_RECOMPUTE, recomputes[r]);
  while (zero++ < 3)
    add_number (changes, PSI_KEY_ZERO, zero);
  if (!psi_settings_bool (settings, PSI_KEY_SEQUENCE_PARALLEL))
    add_text (changes, PSI_KEY_SEQUENCE_PARALLEL, "yes");
  add_multiples (changes, PSI_KEY_TP, now (settings, PSI_KEY_TP), 8, 3);
  add_multiples (changes, PSI_KEY_PP, now (settings, PSI_KEY_PP), 64, 5);
  add_multiples (changes, PSI_KEY_GPUS, plan->gpus, is_one_by_one (settings, plan) ? MOST_WORKERS : MOST_GPUS, 5);
  for (guint i = 0; i < G_N_ELEMENTS (offloads) && strcmp (offload, "none") == 0; i++)
    add_text (changes, PSI_KEY_OFFLOAD, offloads[i]);
}

/* Does the plan fit with these changes? Then they are advice. */
static gboolean
try_changes (const PsiSettings *settings, const Change *first, const Change *second, PsiPlanReport *plan)
{
  g_autoptr (PsiSettings) changed = psi_settings_copy (settings);
  const PsiSimulateOptions options = { .fit_only = TRUE,
                                       .skips_misfits = TRUE,
                                       .most_steps = is_one_by_one (settings, plan) ? MOST_STEPS : 0 };

  if (!psi_settings_set (changed, first->key, first->text, "advice", NULL) ||
      (second != NULL && !psi_settings_set (changed, second->key, second->text, "advice", NULL)))
    return FALSE;
  g_autoptr (PsiPlanReport) tried = psi_simulate_plan ("advice", changed, &options, NULL, NULL);
  if (tried == NULL || tried->verdict == PSI_VERDICT_OOM ||
      (plan->verdict == PSI_VERDICT_TIGHT && tried->verdict != PSI_VERDICT_FITS))
    return FALSE;
  PsiAdvice advice = { .peak_bytes = tried->peak_bytes,
                       .step_time_ps = tried->step_time_ps,
                       .gpus = tried->gpus,
                       .samples_per_s = tried->samples_per_s };
  advice.set = second == NULL ? g_strdup_printf ("%s=%s", psi_keys[first->key].name, first->text)
                              : g_strdup_printf ("%s=%s %s=%s", psi_keys[first->key].name, first->text,
                                                 psi_keys[second->key].name, second->text);
  g_array_append_val (plan->advice, advice);
  return TRUE;
}

/* Fewer GPUs first, then less time for a sample: a change of tp or pp changes the batch, so steps do not compare. */
static int
compare_advice (gconstpointer a, gconstpointer b)
{
  const PsiAdvice *x = a, *y = b;

  if (x->gpus != y->gpus)
    return x->gpus < y->gpus ? -1 : 1;
  if (x->samples_per_s != y->samples_per_s)
    return x->samples_per_s > y->samples_per_s ? -1 : 1;
  return x->step_time_ps != y->step_time_ps ? (x->step_time_ps < y->step_time_ps ? -1 : 1) : strcmp (x->set, y->set);
}

/* Changes of one key stand together, the gentler first: when one fits, the rest of its key need no trial. */
static guint
last_of_key (const Changes *changes, guint i)
{
  while (i + 1 < changes->n && changes->list[i + 1].key == changes->list[i].key)
    i++;
  return i;
}

void
psi_advise (const PsiSettings *settings, PsiPlanReport *plan)
{
  Changes changes = { .n = 0 };
  guint most = is_one_by_one (settings, plan) ? CLAMP (MOST_FOLLOWED / plan->gpus, 1, MOST_ADVICE) : G_MAXUINT;

  list_changes (settings, plan, &changes);
  for (guint i = 0; i < changes.n && plan->advice->len < most; i++)
    if (try_changes (settings, &changes.list[i], NULL, plan))
      i = last_of_key (&changes, i);
  for (guint i = 0; i < changes.n && plan->advice->len == 0; i++)
    for (guint j = last_of_key (&changes, i) + 1; j < changes.n && plan->advice->len < most; j++)
      if (try_changes (settings, &changes.list[i], &changes.list[j], plan))
        j = last_of_key (&changes, j);
  g_array_sort (plan->advice, compare_advice);
  if (plan->advice->len > MOST_ADVICE)
    g_array_set_size (plan->advice, MOST_ADVICE);
}
