/* SPDX-License-Identifier: MIT */
/* The check of `calibrate --verify`: train-host trains the family mlp under four plans, the simulator predicts them.
 *
 *   CPU time  compute + optimizer of the rank that computes most + its copies: a gradient all-reduce as measured, and
 *             for each boundary tensor it sends or receives half of a send and receive as measured. CPU time holds also
 *             where other programs make everybody wait; waiting costs none
 *   wall time the period; compared where no process was interrupted
 *   memory    live tensors, which both sides count to the byte; they differ only where a tensor passes between ranks
 *   training  SHA-256 of the parameters against the same steps on one process: micro-batch after micro-batch for
 *             synchronous plans, the update rule by its equation for cyclic ones. Sums are taken in the same order, so
 *             bits agree
 *
 * Assumes one BLAS thread for each process and two processes on two cores. */
#include "verify.h"

#include "commands.h"
#include "simulate-plan.h"
#include "step.h"
#include "table-text.h"
#include "table-units.h"
#include "trainer.h"

#include <glib/gstdio.h>
#include <math.h>
#include <unistd.h>

#define STEPS "12"
#define BLOCKS "6"
#define WIDTH "512"
#define ROWS "64"
#define MICRO_BATCHES "4"

enum
{
  FIRST_STEP = 2, /* the first steps touch fresh memory */
  BOUNDARY_BYTES = 64 * 512 * 4
};
static const double cpu_bound = 0.2, memory_bound = 0.03, wall_bound = 0.25; /* relative */
static const double quiet_switches = 1;                                      /* a step and rank */

typedef struct
{
  PsiKeyId key;
  const char *text;
} KeyText;

static const KeyText common_keys[] = {
  { PSI_KEY_MODEL, "custom" },       { PSI_KEY_FAMILY, "mlp" },     { PSI_KEY_LAYERS, BLOCKS },
  { PSI_KEY_HIDDEN, WIDTH },         { PSI_KEY_MICRO_BATCH, ROWS }, { PSI_KEY_PRECISION, "fp32" },
  { PSI_KEY_OPTIMIZER, "momentum" }, { PSI_KEY_GRAD_CLIP, "no" },   { PSI_KEY_OVERLAP_GRADS, "no" },
};

static const struct
{
  const char *plan;
  KeyText degree, batch;
  const char *micro_batches; /* of the reference, on one process */
  gboolean cyclic;
} plans[] = {
  { "dp", { PSI_KEY_WORKERS, "2" }, { PSI_KEY_MICRO_BATCHES, "1" }, "2", FALSE },
  { "gpipe", { PSI_KEY_STAGES, "2" }, { PSI_KEY_MICRO_BATCHES, MICRO_BATCHES }, MICRO_BATCHES, FALSE },
  { "1f1b", { PSI_KEY_STAGES, "2" }, { PSI_KEY_MICRO_BATCHES, MICRO_BATCHES }, MICRO_BATCHES, FALSE },
  { "cdp-single", { PSI_KEY_WORKERS, "2" }, { PSI_KEY_STAGES, "2" }, NULL, TRUE },
};

static PsiSettings *
make_settings (const char *plan, const KeyText *more, guint n_more, const char *machine, GError **error)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();

  if (!psi_settings_set (settings, PSI_KEY_PLAN, plan, "--plan", error) ||
      !psi_settings_set (settings, PSI_KEY_MACHINE, machine, "--machine", error))
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (common_keys); i++)
    if (!psi_settings_set (settings, common_keys[i].key, common_keys[i].text, "--verify", error))
      return NULL;
  for (guint i = 0; i < n_more; i++)
    if (!psi_settings_set (settings, more[i].key, more[i].text, "--verify", error))
      return NULL;
  return g_steal_pointer (&settings);
}

static gboolean
keep_schedule (const char *name, const PsiStep *step, const PsiRun *run, gpointer data, GError **error)
{
  char **ret_text = data;

  *ret_text = psi_schedule_to_text (step->schedule, step->plan->keeps_all ? 1 : step->plan->dp, name);
  return TRUE;
}

/* ---- Prediction ---- */

/* CPU time that one rank spends on copies. */
static double
copy_cpu_s (const PsiProfile *profile, const PsiPlanReport *plan)
{
  gint64 gradient_bytes = plan->by_kind[PSI_TRAFFIC_GRADIENTS] / MAX (plan->gpus, 1);
  gint64 boundary_bytes = plan->by_kind[PSI_TRAFFIC_BOUNDARY] / MAX (plan->gpus, 1);
  double sum_s = 0;

  /* Two ranks: each sends as much of an all-reduce as there is to reduce. */
  if (gradient_bytes > 0)
    sum_s += MAX (0, psi_profile_curve_time (profile, "all_reduce_cpu", 2, 1, gradient_bytes));
  if (boundary_bytes > 0)
    sum_s += (double) boundary_bytes / BOUNDARY_BYTES *
             MAX (0, psi_profile_curve_time (profile, "send_recv_cpu", 2, 1, BOUNDARY_BYTES));
  return sum_s;
}

static gboolean
predict (const PsiProfile *profile, const PsiSettings *settings, PsiVerification *row, char **ret_schedule,
         GError **error)
{
  PsiSimulateOptions options = { .observe = keep_schedule, .observe_data = ret_schedule };
  PsiPlanReport *plan = psi_simulate_plan (row->plan, settings, &options, NULL, error);

  if (plan == NULL)
    return FALSE;
  const PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, plan->main_rank);
  row->predicted_cpu_s =
      psi_time_to_s (rank->time_ps[PSI_TIME_COMPUTE] + rank->time_ps[PSI_TIME_OPTIMIZER]) + copy_cpu_s (profile, plan);
  row->predicted_step_s = psi_time_to_s (plan->step_time_ps);
  row->predicted_bytes = plan->peak_bytes;
  psi_plan_report_free (plan);
  return TRUE;
}

/* ---- Training ---- */

/* The largest over ranks of the median over steps of a list of each step line. */
static double
busiest_s (const GPtrArray *lines, const char *list)
{
  guint n_ranks = (guint) json_object_get_int_member (lines->pdata[0], "ranks");
  g_autofree double *values = g_new (double, lines->len);
  double most = 0;

  for (guint rank = 0; rank < n_ranks; rank++)
    {
      guint n = 0;
      for (guint i = 1; i + 1 < lines->len; i++)
        if (json_object_has_member (lines->pdata[i], "step") && json_object_has_member (lines->pdata[i], list) &&
            json_object_get_int_member (lines->pdata[i], "step") >= FIRST_STEP)
          values[n++] = json_array_get_double_element (json_object_get_array_member (lines->pdata[i], list), rank);
      if (n > 0)
        most = MAX (most, psi_fit_median (values, n));
    }
  return most;
}

/* SHA-256 of a file, which is then removed. */
static char *
take_sum (const char *file, GError **error)
{
  g_autofree char *bytes = NULL;
  gsize length;

  if (!g_file_get_contents (file, &bytes, &length, error))
    return NULL;
  g_remove (file);
  return g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *) bytes, length);
}

/* `more`: NULL-ended. (transfer full) the program's lines, *ret_sum the parameters'. */
static GPtrArray *
train (const char *schedule, const char *const *more, char **ret_sum, GError **error)
{
  g_autofree char *file = NULL, *flag = NULL;
  int descriptor = g_file_open_tmp ("psisim-XXXXXX", &file, error);
  g_autoptr (GPtrArray) flags = g_ptr_array_new ();

  if (descriptor < 0)
    return NULL;
  close (descriptor);
  flag = g_strconcat ("--parameters=", file, NULL);
  const char *const fixed[] = { "--log=steps",    "--steps=" STEPS, "--blocks=" BLOCKS,
                                "--width=" WIDTH, "--batch=" ROWS,  flag };
  for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
    g_ptr_array_add (flags, (gpointer) fixed[i]);
  for (; *more != NULL; more++)
    g_ptr_array_add (flags, (gpointer) *more);
  g_ptr_array_add (flags, NULL);
  GPtrArray *lines = psi_trainer_run ("train-host", (const char *const *) flags->pdata, schedule, NULL, error);
  if (lines != NULL && (*ret_sum = take_sum (file, error)) == NULL)
    g_clear_pointer (&lines, g_ptr_array_unref);
  g_remove (file);
  return lines;
}

static gboolean
measure (PsiVerification *row, const char *schedule, GError **error)
{
  static const char *const more[] = { "--schedule=-", NULL };
  g_autoptr (GPtrArray) lines = train (schedule, more, &row->parameters_sha, error);
  double switches = 0;
  guint n_ranks = 0;

  if (lines == NULL)
    return FALSE;
  row->measured_cpu_s = busiest_s (lines, "cpu_s");
  row->measured_step_s = busiest_s (lines, "wall_s");
  for (guint i = 1; i + 1 < lines->len; i++)
    if (json_object_has_member (lines->pdata[i], "peak_bytes"))
      {
        row->measured_bytes = MAX (row->measured_bytes, json_object_get_int_member (lines->pdata[i], "peak_bytes"));
        switches += (double) json_object_get_int_member (lines->pdata[i], "involuntary_switches");
        n_ranks++;
      }
  row->quiet = row->quiet && switches <= quiet_switches * n_ranks * atoi (STEPS);
  return TRUE;
}

static gboolean
measure_reference (PsiVerification *row, guint i, const char *machine, const char *schedule, GError **error)
{
  g_autofree char *text = NULL;
  g_autoptr (GPtrArray) lines = NULL;

  if (plans[i].cyclic)
    {
      static const char *const more[] = { "--schedule=-", "--reference", "--update=cyclic-v2", NULL };
      lines = train (schedule, more, &row->reference_sha, error);
    }
  else
    {
      static const char *const more[] = { "--schedule=-", NULL };
      const KeyText several = { PSI_KEY_MICRO_BATCHES, plans[i].micro_batches };
      g_autoptr (PsiSettings) settings = make_settings ("accumulate", &several, 1, machine, error);
      PsiSimulateOptions options = { .observe = keep_schedule, .observe_data = &text };
      PsiPlanReport *plan = settings != NULL ? psi_simulate_plan ("accumulate", settings, &options, NULL, error) : NULL;

      if (plan == NULL)
        return FALSE;
      psi_plan_report_free (plan);
      lines = train (text, more, &row->reference_sha, error);
    }
  return lines != NULL;
}

static void
verification_clear (gpointer data)
{
  PsiVerification *row = data;
  g_free (row->parameters_sha);
  g_free (row->reference_sha);
}

GArray *
psi_verify (const PsiProfile *profile, const char *profile_file, GError **error)
{
  g_autoptr (GArray) rows = g_array_new (FALSE, TRUE, sizeof (PsiVerification));

  g_array_set_clear_func (rows, verification_clear);
  for (guint i = 0; i < G_N_ELEMENTS (plans); i++)
    {
      const KeyText more[] = { plans[i].degree, plans[i].batch };
      g_autoptr (PsiSettings) settings = make_settings (plans[i].plan, more, G_N_ELEMENTS (more), profile_file, error);
      g_autofree char *schedule = NULL;

      if (settings == NULL)
        return NULL;
      g_array_set_size (rows, i + 1);
      PsiVerification *row = &g_array_index (rows, PsiVerification, i);
      row->plan = plans[i].plan;
      row->quiet = profile->n_contended == 0;
      if (!predict (profile, settings, row, &schedule, error) || !measure (row, schedule, error) ||
          !measure_reference (row, i, profile_file, schedule, error))
        {
          g_prefix_error (error, "plan '%s': ", plans[i].plan);
          return NULL;
        }
    }
  return g_steal_pointer (&rows);
}

/* ---- Verdict ---- */

static double
off (double predicted, double measured)
{
  return measured > 0 ? predicted / measured - 1 : (double) INFINITY;
}

double
psi_verification_score (const PsiVerification *row)
{
  double cpu = fabs (off (row->predicted_cpu_s, row->measured_cpu_s)) / cpu_bound;
  double memory = fabs (off ((double) row->predicted_bytes, (double) row->measured_bytes)) / memory_bound;
  double wall = row->quiet ? fabs (off (row->predicted_step_s, row->measured_step_s)) / wall_bound : 0;
  gboolean same = g_strcmp0 (row->parameters_sha, row->reference_sha) == 0;

  return same ? MAX (MAX (cpu, memory), wall) : (double) INFINITY;
}

char *
psi_verification_fault (const PsiVerification *row)
{
  double cpu = off (row->predicted_cpu_s, row->measured_cpu_s);
  double memory = off ((double) row->predicted_bytes, (double) row->measured_bytes);
  double wall = off (row->predicted_step_s, row->measured_step_s);

  if (g_strcmp0 (row->parameters_sha, row->reference_sha) != 0)
    return g_strdup_printf ("plan '%s' trained other parameters than one process does", row->plan);
  if (!(fabs (memory) <= memory_bound))
    return g_strdup_printf ("plan '%s': memory is predicted %+.1f %% off (allowed: %.0f %%)", row->plan, 100 * memory,
                            100 * memory_bound);
  if (!(fabs (cpu) <= cpu_bound))
    return g_strdup_printf ("plan '%s': CPU time is predicted %+.1f %% off (allowed: %.0f %%)", row->plan, 100 * cpu,
                            100 * cpu_bound);
  if (row->quiet && !(fabs (wall) <= wall_bound))
    return g_strdup_printf ("plan '%s': step time is predicted %+.1f %% off (allowed: %.0f %%)", row->plan, 100 * wall,
                            100 * wall_bound);
  return NULL;
}

/* ---- Output ---- */

char *
psi_verify_to_json (const GArray *rows)
{
  GString *out = g_string_new ("{\"verify\": [");

  for (guint i = 0; i < rows->len; i++)
    {
      const PsiVerification *row = &g_array_index (rows, PsiVerification, i);

      g_string_append_printf (out, "%s\n  {\"plan\": \"%s\"", i > 0 ? "," : "", row->plan);
      psi_append_json_number (out, "predicted_cpu_s", row->predicted_cpu_s);
      psi_append_json_number (out, "measured_cpu_s", row->measured_cpu_s);
      psi_append_json_number (out, "predicted_step_s", row->predicted_step_s);
      psi_append_json_number (out, "measured_step_s", row->measured_step_s);
      g_string_append_printf (out,
                              ", \"predicted_bytes\": %" G_GINT64_FORMAT ", \"measured_bytes\": %" G_GINT64_FORMAT
                              ", \"parameters_sha\": \"%s\", \"reference_sha\": \"%s\", \"quiet\": %s, \"passed\": %s}",
                              row->predicted_bytes, row->measured_bytes, row->parameters_sha, row->reference_sha,
                              row->quiet ? "true" : "false", psi_verification_score (row) <= 1 ? "true" : "false");
    }
  g_string_append (out, rows->len > 0 ? "\n]}\n" : "]}\n");
  return g_string_free (out, FALSE);
}

static void
take_pair (PsiTable *table, char *predicted, char *measured, double error, double bound)
{
  PsiStyle style = !(fabs (error) <= bound) ? PSI_STYLE_BAD : PSI_STYLE_PLAIN;

  psi_table_take (table, PSI_STYLE_PLAIN, predicted);
  psi_table_take (table, PSI_STYLE_PLAIN, measured);
  psi_table_take (table, style, g_strdup_printf ("%+.1f %%", 100 * error));
}

static char *
time_text (double seconds)
{
  return psi_format_time ((gint64) (seconds * 1e12));
}

char *
psi_verify_to_table (const GArray *rows)
{
  static const char *const heads[] = { "plan",  "CPU time", "trained", "error", "memory",    "trained",
                                       "error", "step",     "trained", "error", "parameters" };
  const PsiTerminal terminal = psi_terminal_detect ();
  g_autoptr (PsiTable) table = psi_table_new ("lrrrrrrrrrl", 1);
  GString *out = g_string_new ("Predicted by the simulator and trained by train-host, a step of " BLOCKS
                               " blocks of width " WIDTH ":\n\n");
  gboolean all_quiet = TRUE;

  for (guint i = 0; i < G_N_ELEMENTS (heads); i++)
    psi_table_add (table, PSI_STYLE_DIM, heads[i]);
  for (guint i = 0; i < rows->len; i++)
    {
      const PsiVerification *row = &g_array_index (rows, PsiVerification, i);
      gboolean same = g_strcmp0 (row->parameters_sha, row->reference_sha) == 0;

      psi_table_add (table, PSI_STYLE_BOLD, row->plan);
      take_pair (table, time_text (row->predicted_cpu_s), time_text (row->measured_cpu_s),
                 off (row->predicted_cpu_s, row->measured_cpu_s), cpu_bound);
      take_pair (table, psi_format_bytes ((double) row->predicted_bytes),
                 psi_format_bytes ((double) row->measured_bytes),
                 off ((double) row->predicted_bytes, (double) row->measured_bytes), memory_bound);
      take_pair (table, time_text (row->predicted_step_s), time_text (row->measured_step_s),
                 off (row->predicted_step_s, row->measured_step_s), row->quiet ? wall_bound : (double) INFINITY);
      psi_table_add (table, same ? PSI_STYLE_PLAIN : PSI_STYLE_BAD, same ? "as on one process" : "differ");
      all_quiet = all_quiet && row->quiet;
    }
  psi_table_append (table, out, &terminal);
  if (!all_quiet)
    g_string_append (out, "\nOther programs ran: CPU time counts, the step time does not.\n");
  return g_string_free (out, FALSE);
}
