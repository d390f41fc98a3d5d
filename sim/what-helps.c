/* SPDX-License-Identifier: MIT */
#include "what-helps.h"

#include "plan.h"
#include "simulate-plan.h"

#include <math.h>

#define TENTH 1.1
#define TWICE 2.0
#define ANY_RATE 1e6     /* times today's: bytes take no time */
#define PRECISION 0.0144 /* octaves: 1 % */
#define MOST_STEPS 8     /* a degree is raised to at most so many times its value */
#define MOST_VALUES 512  /* of a degree, up or down */
#define WAITING 0.01     /* of a step that the GPU waits for its host: recording kernels is tried */
#define BUSY_GPUS 2      /* fewer at work on average: one might do as much */

static PsiPlanReport *
simulate (const PsiSettings *settings, double inside, double between)
{
  const PsiSimulateOptions options = { .fit_only = TRUE, .link_factors = { inside, between } };

  return psi_simulate_plan ("what-helps", settings, &options, NULL, NULL);
}

/* ---- Links ---- */

typedef struct
{
  const PsiSettings *settings;
  gboolean between; /* nodes; else inside one */
} Tier;

static double
step_s (const Tier *tier, double factor)
{
  g_autoptr (PsiPlanReport) plan = simulate (tier->settings, tier->between ? 1 : factor, tier->between ? factor : 1);

  /* So slow that time is out of range. */
  return plan != NULL ? psi_time_to_s (plan->step_time_ps) : (double) INFINITY;
}

/* The least factor at which a step takes no longer than `most_s`; NAN: all do. */
static double
find_factor (const Tier *tier, double most_s)
{
  double low = -20, high = 20; /* powers of two */

  if (step_s (tier, exp2 (low)) <= most_s)
    return (double) NAN;
  while (high - low > PRECISION)
    {
      double middle = (low + high) / 2;

      if (step_s (tier, exp2 (middle)) <= most_s)
        high = middle;
      else
        low = middle;
    }
  return exp2 (high);
}

static void
add_link (PsiWhatHelps *helps, const PsiSettings *settings, const PsiLink *link, double bytes_per_s, gboolean between)
{
  const Tier tier = { settings, between };
  double least_s = step_s (&tier, ANY_RATE);
  PsiLinkHelp row = { .name = g_strdup (link->name), .between_nodes = between, .bytes_per_s = bytes_per_s };

  row.unlimited_step_s = least_s;
  row.tenth_bytes_per_s = bytes_per_s * find_factor (&tier, TENTH * least_s);
  row.twice_bytes_per_s = bytes_per_s * find_factor (&tier, TWICE * least_s);
  g_array_append_val (helps->links, row);
}

static void
add_links (PsiWhatHelps *helps, const PsiSettings *settings, const PsiMachine *machine, guint gpus)
{
  double nics = machine->inter.nics_per_node > 0 ? (double) machine->inter.nics_per_node / machine->gpus_per_node : 1;

  if (machine->ideal || machine->profile != NULL || gpus <= 1)
    return;
  if (machine->gpus_per_node > 1)
    add_link (helps, settings, &machine->intra, machine->intra.bytes_per_s, FALSE);
  if (gpus > machine->gpus_per_node)
    add_link (helps, settings, &machine->inter, machine->inter.bytes_per_s * MIN (nics, 1), TRUE);
}

/* ---- Degrees ---- */

typedef struct
{
  PsiKeyId key;
  guint64 value;
} Setting;

static gboolean
set_number (PsiSettings *settings, PsiKeyId key, guint64 value)
{
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, value);

  return psi_settings_set (settings, key, text, "what would help", NULL);
}

/* Simulate what was changed to `set`; a row if that is a plan, on `gpus` GPUs. */
static gboolean
add_degree (PsiWhatHelps *helps, const PsiSettings *changed, const char *set, guint gpus)
{
  g_autoptr (PsiPlanReport) plan = simulate (changed, 1, 1);

  if (plan == NULL || plan->gpus != gpus)
    return FALSE;
  PsiDegreeHelp row = { .set = g_strdup (set),
                        .gpus = plan->gpus,
                        .verdict = plan->verdict,
                        .peak_bytes = plan->peak_bytes,
                        .step_time_ps = plan->step_time_ps,
                        .samples_per_s = plan->samples_per_s };
  g_array_append_val (helps->degrees, row);
  return TRUE;
}

/* Simulate with these keys set; a row if that is a plan, on `gpus` GPUs. */
static gboolean
try_settings (PsiWhatHelps *helps, const PsiSettings *settings, const Setting *set, guint n, guint gpus)
{
  g_autoptr (PsiSettings) changed = psi_settings_copy (settings);
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < n; i++)
    {
      if (!set_number (changed, set[i].key, set[i].value))
        return FALSE;
      g_string_append_printf (text, "%s%s=%" G_GUINT64_FORMAT, i > 0 ? " " : "", psi_keys[set[i].key].name,
                              set[i].value);
    }
  return add_degree (helps, changed, text->str, gpus);
}

/* What spares the hosts work, for a plan whose GPUs wait for them: no checks of collectives, kernels recorded in CUDA
 * graphs. */
static void
try_host (PsiWhatHelps *helps, const PsiSettings *settings, const PsiPlan *plan, const PsiPlanReport *report)
{
  const gboolean not_recorded = plan->graphs == PSI_GRAPHS_NONE;
  const struct
  {
    PsiKeyId key;
    const char *value;
    gboolean differs;
  } relieves[] = { { PSI_KEY_COLLECTIVE_CHECKS, "no", plan->collective_checks },
                   { PSI_KEY_CUDA_GRAPHS, "yes", not_recorded },
                   { PSI_KEY_CUDA_GRAPHS, "step", not_recorded } };

  if ((double) report->host_wait_ps < WAITING * (double) report->step_time_ps)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (relieves); i++)
    {
      g_autoptr (PsiSettings) changed = psi_settings_copy (settings);
      g_autofree char *set = g_strdup_printf ("%s=%s", psi_keys[relieves[i].key].name, relieves[i].value);

      if (relieves[i].differs &&
          psi_settings_set (changed, relieves[i].key, relieves[i].value, "what would help", NULL))
        add_degree (helps, changed, set, report->gpus);
    }
}

/* What a degree of a plan may become. */
typedef struct
{
  const PsiSettings *settings;
  const PsiPlan *plan;
  const PsiMachine *machine;
  guint gpus;
  PsiKeyId key;
  guint now;
} Degree;

/* Another degree takes GPUs from dp, or gives it some: the step keeps its samples. */
static gboolean
try_same_gpus (PsiWhatHelps *helps, const Degree *degree, guint value)
{
  const PsiPlan *plan = degree->plan;
  guint n = 2;

  if (degree->key == PSI_KEY_EP)
    {
      /* Experts spread over GPUs that are there: nobody gives way. */
      const Setting set[] = { { degree->key, value } };
      return plan->dp * plan->cp * (plan->tp / plan->expert_tp) % value == 0 &&
             try_settings (helps, degree->settings, set, 1, degree->gpus);
    }
  if (plan->dp * degree->now % value != 0)
    return FALSE;
  guint dp = plan->dp * degree->now / value;
  Setting set[] = { { degree->key, value }, { PSI_KEY_DP, dp }, { PSI_KEY_MICRO_BATCHES, 0 } };
  if (!psi_settings_has (degree->settings, PSI_KEY_GLOBAL_BATCH))
    {
      if ((guint64) plan->micro_batches * plan->dp % dp != 0)
        return FALSE;
      set[2].value = (guint64) plan->micro_batches * plan->dp / dp;
      n = 3;
    }
  return try_settings (helps, degree->settings, set, n, degree->gpus);
}

static gboolean
try_other_gpus (PsiWhatHelps *helps, const Degree *degree, guint value)
{
  guint64 total = (guint64) degree->gpus * value / degree->now;
  guint n = 1;
  Setting set[4] = { { degree->key, value } };

  if (degree->key == PSI_KEY_EP || (guint64) degree->gpus * value % degree->now != 0)
    return FALSE;
  if (degree->key != PSI_KEY_DP)
    set[n++] = (Setting){ PSI_KEY_DP, degree->plan->dp };
  if (psi_settings_has (degree->settings, PSI_KEY_GPUS))
    set[n++] = (Setting){ PSI_KEY_GPUS, total };
  if (degree->key == PSI_KEY_DP && psi_settings_has (degree->settings, PSI_KEY_GLOBAL_BATCH))
    set[n++] = (Setting){ PSI_KEY_GLOBAL_BATCH, (guint64) degree->plan->global_batch / degree->plan->dp * value };
  return try_settings (helps, degree->settings, set, n, (guint) total);
}

/* Whole nodes, or an even part of one. */
static gboolean
fills_nodes (const PsiMachine *machine, double gpus)
{
  double node = machine->gpus_per_node;

  return machine->ideal || fmod (MAX (gpus, node), MIN (gpus, node)) == 0;
}

/* How far a value is from what people would take first, twice or half of now on full nodes. Replicas rather fill nodes,
 * what is inside one rather doubles. */
static guint
oddity_of (const Degree *degree, guint value, gboolean same_gpus)
{
  gboolean fills = same_gpus || fills_nodes (degree->machine, (double) degree->gpus * value / degree->now);
  gboolean doubles = MAX (value, degree->now) == 2 * MIN (value, degree->now);
  gboolean first = degree->key == PSI_KEY_DP ? fills : doubles;

  return fills && doubles ? 0 : first ? 1 : fills || doubles ? 2 : 3;
}

/* The i-th value to try: first twice or half of now, then one after another. 0: no more. */
static guint
nth_value (const Degree *degree, gboolean up, guint i)
{
  guint64 now = degree->now, most = MIN (now * MOST_STEPS, (guint64) psi_keys[degree->key].maximum);

  if (i > MOST_VALUES)
    return 0;
  if (!up)
    return (guint) (i == 0 && now % 2 == 0 ? now / 2 : now > i ? now - MAX (i, 1) : 0);
  guint64 value = i == 0 ? 2 * now : now + i;
  return value <= most ? (guint) value : 0;
}

/* One row with the next value above or below, if the plan admits one. */
static gboolean
add_next (PsiWhatHelps *helps, const Degree *degree, gboolean up, gboolean same_gpus)
{
  guint value;

  for (guint oddity = 0; oddity < 4; oddity++)
    for (guint i = 0; (value = nth_value (degree, up, i)) > 0; i++)
      {
        if (oddity_of (degree, value, same_gpus) == oddity &&
            (same_gpus ? try_same_gpus (helps, degree, value) : try_other_gpus (helps, degree, value)))
          return TRUE;
      }
  return FALSE;
}

static void
add_degrees (PsiWhatHelps *helps, const PsiSettings *settings, const PsiPlan *plan, const PsiMachine *machine,
             guint gpus)
{
  const struct
  {
    PsiKeyId key;
    guint now;
  } degrees[] = { { PSI_KEY_DP, plan->dp },
                  { PSI_KEY_TP, plan->tp },
                  { PSI_KEY_PP, plan->pp },
                  { PSI_KEY_CP, plan->cp },
                  { PSI_KEY_EP, plan->ep } };

  for (guint d = 0; d < G_N_ELEMENTS (degrees); d++)
    {
      const Degree degree = { settings, plan, machine, gpus, degrees[d].key, MAX (degrees[d].now, 1) };

      for (gint up = TRUE; up >= FALSE; up--)
        if (degree.key == PSI_KEY_DP || !add_next (helps, &degree, up, TRUE))
          add_next (helps, &degree, up, FALSE);
    }
}

/* ---- One GPU ---- */

/* The settings of one GPU: no key that has to do with many. */
static PsiSettings *
settings_of_one (const PsiSettings *settings, const PsiPlan *plan)
{
  PsiSettings *one = psi_settings_new ();

  for (guint key = 0; key < PSI_N_KEYS; key++)
    if (psi_settings_has (settings, key) && !psi_keys[key].of_many)
      psi_settings_copy_key (one, settings, key);
  /* Uniform stages are there whatever they run on. */
  if (psi_settings_has (settings, PSI_KEY_STAGES) || plan->stages > 1)
    set_number (one, PSI_KEY_STAGES, MAX (plan->stages, 1));
  psi_settings_set (one, PSI_KEY_PLAN, "accumulate", "one GPU", NULL);
  set_number (one, PSI_KEY_MICRO_BATCHES, (guint64) plan->micro_batches);
  return one;
}

static PsiPlan *
resolve (const PsiSettings *settings, PsiMachine **ret_machine)
{
  g_autoptr (PsiMachine) machine = psi_simulate_machine (settings, NULL);
  g_autoptr (PsiModelSource) source = machine != NULL ? psi_model_source_load (settings, NULL) : NULL;
  PsiPlan *plan = source != NULL ? psi_plan_resolve (settings, source, machine->gpus_per_node, NULL) : NULL;

  if (plan != NULL)
    *ret_machine = g_steal_pointer (&machine);
  return plan;
}

static PsiPlanReport *
simulate_one (const PsiSettings *settings, const PsiPlan *plan)
{
  g_autoptr (PsiSettings) one = settings_of_one (settings, plan);

  return simulate (one, 1, 1);
}

void
psi_what_helps (const PsiSettings *settings, PsiPlanReport *report)
{
  g_autoptr (PsiMachine) machine = NULL;
  g_autoptr (PsiPlan) plan = resolve (settings, &machine);
  g_autoptr (PsiSettings) calm = psi_settings_copy (settings);
  PsiWhatHelps *helps = psi_what_helps_new ();

  report->what_helps = helps;
  if (plan == NULL)
    return;
  psi_settings_set (calm, PSI_KEY_JITTER, "0", "what would help", NULL);
  add_links (helps, calm, machine, report->gpus);
  if (!plan->cyclic && plan->file == NULL && !plan->keeps_all && plan->worker_batches == NULL)
    add_degrees (helps, calm, plan, machine, report->gpus);
  try_host (helps, calm, plan, report);
  g_autoptr (PsiPlanReport) one = simulate_one (calm, plan);
  if (one == NULL)
    return;
  helps->one_gpu_samples_per_s = one->samples_per_s;
  helps->one_gpu_fits = one->verdict != PSI_VERDICT_OOM;
}

void
psi_warn_if_slower_than_one (const PsiSettings *settings, PsiPlanReport *report)
{
  double busy_ps = 0;
  gint64 exposed_ps = 0, bubble_ps = 0;

  for (guint i = 0; i < report->ranks->len; i++)
    {
      const PsiRankReport *rank = &g_array_index (report->ranks, PsiRankReport, i);

      busy_ps += (double) rank->count * (double) rank->time_ps[PSI_TIME_COMPUTE];
      exposed_ps = MAX (exposed_ps, rank->time_ps[PSI_TIME_EXPOSED_COMM]);
      bubble_ps = MAX (bubble_ps, rank->time_ps[PSI_TIME_BUBBLE]);
    }
  if (report->gpus <= 1 || busy_ps >= BUSY_GPUS * (double) report->step_time_ps || !isfinite (report->samples_per_s))
    return;
  g_autoptr (PsiMachine) machine = NULL;
  g_autoptr (PsiPlan) plan = resolve (settings, &machine);
  g_autoptr (PsiPlanReport) one = plan != NULL ? simulate_one (settings, plan) : NULL;
  if (one == NULL || one->verdict == PSI_VERDICT_OOM || !(one->samples_per_s > report->samples_per_s))
    return;
  g_ptr_array_add (report->warnings,
                   g_strdup_printf ("slower than one GPU: %u GPUs do %.4g samples per s, one of them alone %.4g; they "
                                    "wait for %s",
                                    report->gpus, report->samples_per_s, one->samples_per_s,
                                    exposed_ps >= bubble_ps ? "bytes on links" : "each other's work"));
}
