/* SPDX-License-Identifier: MIT */
/* converge: train a small model under several update rules, each by its equation and with five seeds, and compare the
 * losses. What differs between the rules is only how old the parameters are that a gradient is taken at. */
#include "commands.h"

#include "plot.h"
#include "psi-config.h"
#include "table-text.h"
#include "trainer.h"

#include <gio/gio.h>
#include <math.h>

#define N_SEEDS 5

/* The rules, in the order of table and plot. delay: mean number of steps that parameters are behind. */
typedef struct
{
  const char *name, *update;
  double (*delay) (guint n_workers, guint n_stages);
} Rule;

static double
no_delay (guint n_workers, guint n_stages)
{
  return 0;
}

static double
one_step (guint n_workers, guint n_stages)
{
  return 1;
}

/* Worker i and stage j, from 1, are behind iff i K + j N < (K + 1) N (arXiv 2403.08837; for K = N: i + j <= N). */
static double
causal_delay (guint n_workers, guint n_stages)
{
  guint n_stale = 0;

  for (guint i = 1; i <= n_workers; i++)
    for (guint j = 1; j <= n_stages; j++)
      n_stale += i * n_stages + j * n_workers < (n_stages + 1) * n_workers;
  return (double) n_stale / (n_workers * n_stages);
}

static double
fair_coin (guint n_workers, guint n_stages)
{
  return 0.5;
}

static const Rule rules[] = {
  { "dp", "synchronous", no_delay },
  { "cdp-v1", "cyclic-v1", one_step },
  { "cdp-v2", "cyclic-v2", causal_delay },
  { "random", "random", fair_coin },
};
#define N_RULES G_N_ELEMENTS (rules)

/* The keys that count here, and the flags of the training program that they become. */
static const struct
{
  PsiKeyId key;
  const char *flag;
  gint64 fallback;
} keys[] = {
  { PSI_KEY_WORKERS, "--workers", 4 }, { PSI_KEY_STAGES, "--stages", 4 },      { PSI_KEY_LAYERS, "--blocks", 8 },
  { PSI_KEY_HIDDEN, "--width", 64 },   { PSI_KEY_MICRO_BATCH, "--batch", 16 }, { PSI_KEY_SEED, NULL, 1 },
};
#define N_KEYS G_N_ELEMENTS (keys)
enum
{
  WORKERS,
  STAGES,
  SEED = N_KEYS - 1
};

/* One training run. */
typedef struct
{
  const Rule *rule;
  gint64 seed;
  double *losses; /* [n_steps], NaN where they overflowed */
  GError *error;
} Job;

typedef struct
{
  gint64 values[N_KEYS];
  const char *data, *rate;
  guint n_steps;
  Job jobs[N_RULES][N_SEEDS];
  char *program;
} Work;

static void
work_free (Work *work)
{
  for (guint r = 0; r < N_RULES; r++)
    for (guint s = 0; s < N_SEEDS; s++)
      {
        g_free (work->jobs[r][s].losses);
        g_clear_error (&work->jobs[r][s].error);
      }
  g_free (work->program);
  g_free (work);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Work, work_free)

static gboolean
read_keys (const PsiArguments *arguments, Work *work, GError **error)
{
  for (guint i = 0; i < N_KEYS; i++)
    work->values[i] = keys[i].fallback;
  for (guint f = 0; f < arguments->flags->len; f++)
    {
      const PsiKeyFlag *flag = &g_array_index (arguments->flags, PsiKeyFlag, f);
      g_autofree char *name = psi_key_flag_name (flag->key);
      g_autoptr (PsiSettings) settings = psi_settings_new ();
      guint i = 0;

      while (i < N_KEYS && keys[i].key != flag->key)
        i++;
      if (i == N_KEYS)
        {
          g_set_error (
              error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_OPTION,
              "%s does not count in 'converge' (one of: --workers --stages --layers --hidden --micro-batch --seed)",
              name);
          return FALSE;
        }
      if (!psi_settings_set (settings, flag->key, flag->text, name, error))
        return FALSE;
      work->values[i] = psi_settings_count (settings, flag->key);
    }
  if (work->values[STAGES] > 64 || work->values[WORKERS] > 64)
    {
      g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "%s: '%" G_GINT64_FORMAT "' is more than 64",
                   work->values[STAGES] > 64 ? "--stages" : "--workers",
                   MAX (work->values[STAGES], work->values[WORKERS]));
      return FALSE;
    }
  return TRUE;
}

static gboolean
read_options (const PsiArguments *arguments, Work *work, GError **error)
{
  const char *steps = arguments->values[PSI_OPTION_STEPS];
  guint64 n_steps = 1000;

  if (steps != NULL && !g_ascii_string_to_unsigned (steps, 10, 10, 1000000, &n_steps, NULL))
    {
      g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE,
                   "--steps: '%s' is not a whole number from 10 to 1000000", steps);
      return FALSE;
    }
  work->n_steps = (guint) n_steps;
  work->rate = arguments->given[PSI_OPTION_RATE] ? arguments->values[PSI_OPTION_RATE] : "0.003";
  work->data = arguments->given[PSI_OPTION_DATA] ? arguments->values[PSI_OPTION_DATA] : "teacher";
  return TRUE;
}

/* In a thread of its own: one run of the training program. */
static void
run_job (gpointer data, gpointer user_data)
{
  Job *job = data;
  const Work *work = user_data;
  g_autoptr (GPtrArray) flags = g_ptr_array_new_with_free_func (g_free);
  guint n = 0;

  g_ptr_array_add (flags, g_strdup ("--reference"));
  g_ptr_array_add (flags, g_strdup ("--log=steps"));
  g_ptr_array_add (flags, g_strdup_printf ("--update=%s", job->rule->update));
  g_ptr_array_add (flags, g_strdup_printf ("--seed=%" G_GINT64_FORMAT, job->seed));
  g_ptr_array_add (flags, g_strdup_printf ("--steps=%u", work->n_steps));
  g_ptr_array_add (flags, g_strdup_printf ("--lr=%s", work->rate));
  g_ptr_array_add (flags, g_strdup_printf ("--data=%s", work->data));
  for (guint i = 0; i < N_KEYS; i++)
    if (keys[i].flag != NULL)
      g_ptr_array_add (flags, g_strdup_printf ("%s=%" G_GINT64_FORMAT, keys[i].flag, work->values[i]));
  g_ptr_array_add (flags, NULL);

  g_autoptr (GPtrArray) lines =
      psi_trainer_run ("train-host", (const char *const *) flags->pdata, NULL, NULL, &job->error);
  job->losses = g_new (double, work->n_steps);
  for (guint i = 0; lines != NULL && i < lines->len && n < work->n_steps; i++)
    if (json_object_has_member (lines->pdata[i], "step"))
      job->losses[n++] = json_object_get_null_member (lines->pdata[i], "loss")
                             ? (double) NAN
                             : json_object_get_double_member (lines->pdata[i], "loss");
  while (n < work->n_steps)
    job->losses[n++] = (double) NAN;
}

static gboolean
run_all (const PsiArguments *arguments, Work *work, GError **error)
{
  GThreadPool *pool = g_thread_pool_new (run_job, work, (gint) g_get_num_processors (), FALSE, NULL);
  gboolean good = TRUE;

  psi_progress_begin (arguments, "training");
  for (guint s = 0; s < N_SEEDS; s++)
    for (guint r = 0; r < N_RULES; r++)
      {
        work->jobs[r][s].rule = &rules[r];
        work->jobs[r][s].seed = work->values[SEED] + s;
        g_thread_pool_push (pool, &work->jobs[r][s], NULL);
      }
  g_thread_pool_free (pool, FALSE, TRUE);
  psi_progress_end ();
  for (guint r = 0; r < N_RULES; r++)
    for (guint s = 0; s < N_SEEDS && good; s++)
      if (work->jobs[r][s].error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&work->jobs[r][s].error));
          good = FALSE;
        }
  return good;
}

/* Mean of the last tenth of a run: single steps are noisy. */
static double
final_loss (const Work *work, const Job *job)
{
  guint n = work->n_steps / 10;
  double sum = 0;

  for (guint i = work->n_steps - n; i < work->n_steps; i++)
    sum += job->losses[i];
  return sum / n;
}

/* Mean and standard deviation (n - 1) over the seeds. */
static double
mean_final (const Work *work, guint rule, double *ret_spread)
{
  double mean = 0, square = 0;

  for (guint s = 0; s < N_SEEDS; s++)
    mean += final_loss (work, &work->jobs[rule][s]) / N_SEEDS;
  for (guint s = 0; s < N_SEEDS; s++)
    {
      double difference = final_loss (work, &work->jobs[rule][s]) - mean;

      square += difference * difference / (N_SEEDS - 1);
    }
  *ret_spread = sqrt (square);
  return mean;
}

static double
rule_delay (const Work *work, guint rule)
{
  return rules[rule].delay ((guint) work->values[WORKERS], (guint) work->values[STAGES]);
}

/* ---- Output ---- */

static void
append_real (GString *out, double value)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append (out, isfinite (value) ? g_ascii_formatd (text, sizeof text, "%.6g", value) : "null");
}

static char *
to_json (const Work *work)
{
  GString *out = g_string_new ("{\n  \"psisim\": \"" PSI_VERSION "\",\n");

  g_string_append_printf (out, "  \"workers\": %" G_GINT64_FORMAT ", \"stages\": %" G_GINT64_FORMAT ", \"steps\": %u, ",
                          work->values[WORKERS], work->values[STAGES], work->n_steps);
  g_string_append_printf (out, "\"first_seed\": %" G_GINT64_FORMAT ", \"seeds\": %d,\n  \"rules\": [",
                          work->values[SEED], N_SEEDS);
  for (guint r = 0; r < N_RULES; r++)
    {
      double spread, mean = mean_final (work, r, &spread);

      g_string_append_printf (out, "%s\n    {\"rule\": \"%s\", \"mean_delay_steps\": ", r > 0 ? "," : "",
                              rules[r].name);
      append_real (out, rule_delay (work, r));
      g_string_append (out, ", \"final_loss\": ");
      append_real (out, mean);
      g_string_append (out, ", \"final_loss_spread\": ");
      append_real (out, spread);
      g_string_append (out, ",\n     \"final_losses\": [");
      for (guint s = 0; s < N_SEEDS; s++)
        {
          g_string_append (out, s > 0 ? ", " : "");
          append_real (out, final_loss (work, &work->jobs[r][s]));
        }
      g_string_append (out, "],\n     \"losses\": [");
      for (guint i = 0; i < work->n_steps; i++)
        {
          double sum = 0;

          for (guint s = 0; s < N_SEEDS; s++)
            sum += work->jobs[r][s].losses[i];
          g_string_append (out, i > 0 ? ", " : "");
          append_real (out, sum / N_SEEDS);
        }
      g_string_append (out, "]}");
    }
  g_string_append (out, "\n  ]\n}\n");
  return g_string_free (out, FALSE);
}

static char *
short_loss (double value)
{
  return isfinite (value) ? g_strdup_printf ("%.4g", value) : g_strdup ("diverged");
}

static char *
to_table (const Work *work)
{
  const PsiTerminal terminal = psi_terminal_detect ();
  g_autoptr (PsiTable) table = psi_table_new ("lrrrr", 3);
  GString *out = g_string_new (NULL);
  double spread, base = mean_final (work, 0, &spread);
  static const char *const heads[] = { "rule", "mean delay", "final loss", "spread", "to dp" };

  g_string_append_printf (out,
                          "%" G_GINT64_FORMAT " workers, %" G_GINT64_FORMAT
                          " stages, %u steps, %d seeds; final loss: mean of "
                          "the last %u steps\n\n",
                          work->values[WORKERS], work->values[STAGES], work->n_steps, N_SEEDS, work->n_steps / 10);
  for (guint i = 0; i < G_N_ELEMENTS (heads); i++)
    psi_table_add (table, PSI_STYLE_DIM, heads[i]);
  for (guint r = 0; r < N_RULES; r++)
    {
      double mean = mean_final (work, r, &spread);

      psi_table_add (table, PSI_STYLE_BOLD, rules[r].name);
      psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%.3g", rule_delay (work, r)));
      psi_table_take (table, isfinite (mean) ? PSI_STYLE_PLAIN : PSI_STYLE_BAD, short_loss (mean));
      psi_table_take (table, PSI_STYLE_PLAIN, isfinite (spread) ? g_strdup_printf ("%.2g", spread) : g_strdup ("-"));
      psi_table_take (table, PSI_STYLE_PLAIN,
                      isfinite (mean / base) ? g_strdup_printf ("%+.1f %%", 100 * (mean / base - 1)) : g_strdup ("-"));
    }
  psi_table_append (table, out, &terminal);
  g_string_append (
      out, "\nspread: standard deviation over the seeds, which change both the initial parameters and the data\n");
  return g_string_free (out, FALSE);
}

/* step, then mean, lowest and highest loss of each rule over the seeds, as means of up to ten steps. (transfer full) */
static char *
to_tsv (const Work *work)
{
  GString *out = g_string_new ("step");
  guint width = MAX (1, MIN (10, work->n_steps / 50));

  for (guint r = 0; r < N_RULES; r++)
    g_string_append_printf (out, "\t%s\tlowest\thighest", rules[r].name);
  g_string_append_c (out, '\n');
  for (guint first = 0; first + width <= work->n_steps; first += width)
    {
      g_string_append_printf (out, "%u", first + width / 2);
      for (guint r = 0; r < N_RULES; r++)
        {
          double sum = 0, lowest = (double) INFINITY, highest = 0;

          for (guint s = 0; s < N_SEEDS; s++)
            {
              double mean = 0;

              for (guint i = 0; i < width; i++)
                mean += work->jobs[r][s].losses[first + i] / width;
              sum += mean / N_SEEDS;
              lowest = MIN (lowest, mean);
              highest = MAX (highest, mean);
            }
          for (guint k = 0; k < 3; k++)
            {
              double value = k == 0 ? sum : k == 1 ? lowest : highest;
              char text[G_ASCII_DTOSTR_BUF_SIZE];

              g_string_append_c (out, '\t');
              if (isfinite (value) && isfinite (sum))
                g_string_append (out, g_ascii_formatd (text, sizeof text, "%.6g", value));
            }
        }
      g_string_append_c (out, '\n');
    }
  return g_string_free (out, FALSE);
}

static char *
converge (const PsiArguments *arguments, GError **error)
{
  g_autoptr (Work) work = g_new0 (Work, 1);

  if (!read_keys (arguments, work, error) || !read_options (arguments, work, error))
    return NULL;
  if (!run_all (arguments, work, error))
    return NULL;
  if (arguments->given[PSI_OPTION_PLOT])
    {
      g_autofree char *title =
          g_strdup_printf ("loss under four update rules, %" G_GINT64_FORMAT " workers, %" G_GINT64_FORMAT " stages",
                           work->values[WORKERS], work->values[STAGES]);
      g_autofree char *data = to_tsv (work);

      if (!psi_plot_figure ("converge.gp", "converge", data, title, G_STRINGIFY (4), arguments->values[PSI_OPTION_PLOT],
                            error))
        return NULL;
    }
  return arguments->given[PSI_OPTION_JSON] ? to_json (work) : to_table (work);
}

int
psi_cmd_converge (const PsiArguments *arguments)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = converge (arguments, &error);

  return text != NULL ? psi_output_write (text) : psi_fail (error);
}
