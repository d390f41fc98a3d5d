/* SPDX-License-Identifier: MIT */
#include "validate.h"

#include "framework-memory.h"
#include "simulate-plan.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

const char *const psi_outcome_names[] = { "", "ok", "oom", NULL };

static void
prediction_free (gpointer data)
{
  PsiPrediction *prediction = data;

  g_free (prediction->id);
  g_free (prediction->source);
  g_free (prediction->group);
  g_free (prediction->failure);
  g_free (prediction->doubt);
  g_ptr_array_unref (prediction->assumptions);
  g_free (prediction);
}

static void
score_clear (gpointer data)
{
  g_free (((PsiSourceScore *) data)->source);
}

/* The rank whose bytes the row counts: the fullest, or the fullest of the last pipeline rank. */
static const PsiRankReport *
counted_rank (const PsiPlanReport *plan, gboolean last)
{
  const PsiRankReport *fullest = NULL;
  int stage = -1;

  for (guint i = 0; i < plan->ranks->len && last; i++)
    stage = MAX (stage, g_array_index (plan->ranks, PsiRankReport, i).stage);
  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *row = &g_array_index (plan->ranks, PsiRankReport, i);

      if ((!last || row->stage == stage) && (fullest == NULL || row->peak_bytes > fullest->peak_bytes))
        fullest = row;
    }
  return fullest;
}

/* A counter that a table does not name is the one that the framework's log prints, where its code says which. */
static void
take_memory (PsiPrediction *prediction, const PsiPlanReport *plan, const PsiFramework *framework, const char *kind)
{
  const PsiRankReport *rank = counted_rank (plan, g_str_equal (kind, "allocated-last-rank"));

  if (framework != NULL && psi_framework_memory (framework)->logs_reserved && g_str_equal (kind, "unknown"))
    {
      const PsiRankReport *first = &g_array_index (plan->ranks, PsiRankReport, 0);

      prediction->peak_bytes = (double) first->reserved_bytes;
      prediction->steady_bytes = (double) first->steady_bytes;
      return;
    }
  prediction->peak_bytes = (double) (g_str_equal (kind, "reserved") ? plan->reserved_bytes
                                     : g_str_equal (kind, "device") ? plan->device_bytes
                                                                    : rank->peak_bytes);
  prediction->steady_bytes = (double) rank->steady_bytes;
}

static double
error_of (double predicted, double measured)
{
  return predicted > 0 && measured > 0 ? predicted / measured - 1 : (double) NAN;
}

/* What a run may do about activations that do not fit; `layers`: of how many quarters of the model. */
static const struct
{
  PsiKeyId key;
  const char *value;
  guint quarters;
} remedies[] = {
  { PSI_KEY_RECOMPUTE, "selective", 0 }, { PSI_KEY_OFFLOAD, "activations", 1 }, { PSI_KEY_OFFLOAD, "activations", 2 },
  { PSI_KEY_OFFLOAD, "activations", 3 }, { PSI_KEY_OFFLOAD, "activations", 4 }, { PSI_KEY_RECOMPUTE, "full", 0 },
};

static PsiPlanReport *
simulate_remedy (const char *id, const PsiSettings *settings, guint remedy)
{
  g_autoptr (PsiSettings) changed = psi_settings_copy (settings);
  const PsiSimulateOptions options = { .curves = FALSE };
  gint64 layers = psi_settings_has (settings, PSI_KEY_LAYERS) ? psi_settings_count (settings, PSI_KEY_LAYERS) : 0;
  guint quarters = remedies[remedy].quarters;
  const char *name = psi_keys[remedies[remedy].key].name;

  if (!psi_settings_set (changed, remedies[remedy].key, remedies[remedy].value, name, NULL))
    return NULL;
  if (quarters > 0 && layers > 0)
    {
      g_autofree char *n = g_strdup_printf ("%" G_GINT64_FORMAT, (layers * quarters + 3) / 4);

      if (!psi_settings_set (changed, PSI_KEY_OFFLOAD_LAYERS, n, name, NULL))
        return NULL;
    }
  return psi_simulate_plan (id, changed, &options, NULL, NULL);
}

/* A framework's recipes that choose what happens to activations: where the row does not say it and all of them would
 * not fit, the fastest remedy that fits, NULL if none does. (transfer full) */
static PsiPlanReport *
simulate_fitting (PsiPrediction *prediction, const PsiSettings *settings)
{
  PsiPlanReport *best = NULL;
  guint chosen = 0;

  for (guint i = 0; i < G_N_ELEMENTS (remedies); i++)
    {
      PsiPlanReport *plan = simulate_remedy (prediction->id, settings, i);

      if (plan == NULL || plan->verdict == PSI_VERDICT_OOM ||
          (best != NULL && plan->step_time_ps >= best->step_time_ps))
        {
          psi_plan_report_free (plan);
          continue;
        }
      psi_plan_report_free (best);
      best = plan;
      chosen = i;
    }
  if (best != NULL)
    g_ptr_array_add (
        prediction->assumptions,
        g_strdup_printf ("recompute and offload are not stated, all activations do not fit, and recipes of "
                         "this framework choose: %s = %s%s",
                         psi_keys[remedies[chosen].key].name, remedies[chosen].value,
                         remedies[chosen].quarters > 0 ? " of as many layers as it takes" : ""));
  return best;
}

static gboolean
simulate_run (PsiPrediction *prediction, const PsiRunTable *table, GError **error)
{
  const PsiSimulateOptions options = { .fit_only = TRUE };
  g_autoptr (PsiSettings) settings = psi_validate_settings (table, prediction->run, prediction->assumptions, error);

  if (settings == NULL)
    return FALSE;
  g_autoptr (PsiPlanReport) plan = psi_simulate_plan (prediction->id, settings, &options, NULL, error);
  if (plan == NULL)
    return FALSE;
  const char *name = psi_settings_text (settings, PSI_KEY_FRAMEWORK);
  const PsiFramework *framework = name != NULL ? psi_framework_find (name) : NULL;
  if (plan->verdict == PSI_VERDICT_OOM && framework != NULL && framework->fits_by_recipe &&
      !psi_settings_has (settings, PSI_KEY_RECOMPUTE) && !psi_settings_has (settings, PSI_KEY_OFFLOAD))
    {
      PsiPlanReport *fitting = simulate_fitting (prediction, settings);

      if (fitting != NULL)
        {
          psi_plan_report_free (plan);
          plan = fitting;
        }
    }
  prediction->step_time_s = psi_time_to_s (plan->step_time_ps);
  prediction->low_s = plan->step_time_low_s;
  prediction->high_s = plan->step_time_high_s;
  prediction->outcome = plan->verdict == PSI_VERDICT_OOM ? PSI_OUTCOME_OOM : PSI_OUTCOME_OK;
  take_memory (prediction, plan, framework, psi_run_cell (table, prediction->run, PSI_RUN_MEMORY_KIND));
  return TRUE;
}

/* "steady_bytes=12345" of the notes, or NAN. */
static double
steady_of_notes (const char *notes)
{
  const char *found = strstr (notes, "steady_bytes=");

  return found != NULL ? g_ascii_strtod (found + strlen ("steady_bytes="), NULL) : (double) NAN;
}

/* A measured cell that is neither empty nor of use is not passed over in silence. (transfer full), NULL: none. */
static char *
doubt_of (const PsiRunTable *table, const PsiMeasuredRun *run)
{
  static const char *const outcomes[] = { "", "ok", "oom", "fail", NULL };
  static const char *const kinds[] = { "", "unknown", "allocated", "reserved", "device", "allocated-last-rank", NULL };
  const struct
  {
    const char *name, *text;
    const char *const *words; /* NULL: a number above 0 */
    const char *allowed;
    double number;
  } cells[] = {
    { "step_time_s", psi_run_cell (table, run, PSI_RUN_STEP_TIME_S), NULL, "a number of seconds above 0",
      psi_run_number (table, run, PSI_RUN_STEP_TIME_S) },
    { "peak_bytes", psi_run_cell (table, run, PSI_RUN_PEAK_BYTES), NULL, "a number of bytes above 0",
      psi_run_number (table, run, PSI_RUN_PEAK_BYTES) },
    { "memory_kind", psi_run_cell (table, run, PSI_RUN_MEMORY_KIND), kinds,
      "one of allocated, reserved, device, allocated-last-rank, unknown", 0 },
    { "outcome", psi_run_cell (table, run, PSI_RUN_OUTCOME), outcomes, "one of ok, oom, fail", 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cells); i++)
    if (cells[i].words != NULL ? !g_strv_contains (cells[i].words, cells[i].text)
                               : *cells[i].text != '\0' && !(cells[i].number > 0))
      return g_strdup_printf ("%s: '%s' is not %s", cells[i].name, cells[i].text, cells[i].allowed);
  return NULL;
}

static PsiPrediction *
predict (const PsiRunTable *table, const PsiMeasuredRun *run)
{
  PsiPrediction *prediction = g_new0 (PsiPrediction, 1);
  const char *outcome = psi_run_cell (table, run, PSI_RUN_OUTCOME);
  g_autoptr (GError) error = NULL;

  prediction->run = run;
  prediction->id = g_strdup (psi_run_cell (table, run, PSI_RUN_ID));
  prediction->source = g_strdup (psi_run_cell (table, run, PSI_RUN_SOURCE));
  prediction->group = g_strdup (psi_run_cell (table, run, PSI_RUN_GROUP));
  prediction->assumptions = g_ptr_array_new_with_free_func (g_free);
  prediction->step_time_s = prediction->peak_bytes = prediction->steady_bytes = NAN;
  prediction->low_s = prediction->high_s = NAN;
  prediction->measured = g_str_equal (outcome, "ok")    ? PSI_OUTCOME_OK
                         : g_str_equal (outcome, "oom") ? PSI_OUTCOME_OOM
                                                        : PSI_OUTCOME_UNKNOWN;
  prediction->measured_s = psi_run_number (table, run, PSI_RUN_STEP_TIME_S);
  prediction->measured_bytes = psi_run_number (table, run, PSI_RUN_PEAK_BYTES);
  prediction->measured_steady_bytes = steady_of_notes (psi_run_cell (table, run, PSI_RUN_NOTES));
  prediction->doubt = doubt_of (table, run);
  if (!simulate_run (prediction, table, &error))
    prediction->failure = g_strdup (error->message);
  prediction->time_error = error_of (prediction->step_time_s, prediction->measured_s);
  prediction->memory_error = error_of (prediction->peak_bytes, prediction->measured_bytes);
  prediction->steady_error = error_of (prediction->steady_bytes, prediction->measured_steady_bytes);
  return prediction;
}

static gboolean
is_chosen (const PsiValidateOptions *options, const PsiRunTable *table, const PsiMeasuredRun *run)
{
  return (options->sources == NULL || g_strv_contains (options->sources, psi_run_cell (table, run, PSI_RUN_SOURCE))) &&
         (!options->strict || g_str_equal (psi_run_cell (table, run, PSI_RUN_TIGHT), "yes"));
}

PsiValidation *
psi_validate (const char *file, const PsiValidateOptions *options, GError **error)
{
  g_autoptr (PsiValidation) validation = g_new0 (PsiValidation, 1);

  validation->table = psi_run_table_load (file, error);
  if (validation->table == NULL)
    return NULL;
  validation->predictions = g_ptr_array_new_with_free_func (prediction_free);
  validation->scores = g_array_new (FALSE, FALSE, sizeof (PsiSourceScore));
  g_array_set_clear_func (validation->scores, score_clear);
  for (guint i = 0; i < validation->table->runs->len; i++)
    if (is_chosen (options, validation->table, validation->table->runs->pdata[i]))
      g_ptr_array_add (validation->predictions, predict (validation->table, validation->table->runs->pdata[i]));
  if (validation->predictions->len == 0)
    {
      g_set_error (error, PSI_RUNS_ERROR, PSI_RUNS_ERROR_SYNTAX, "%s: no row of that source%s", file,
                   options->strict ? " with 'tight' yes" : "");
      return NULL;
    }
  psi_validate_score (validation);
  return g_steal_pointer (&validation);
}

void
psi_validation_free (PsiValidation *validation)
{
  if (validation == NULL)
    return;
  g_clear_pointer (&validation->predictions, g_ptr_array_unref);
  g_clear_pointer (&validation->scores, g_array_unref);
  psi_run_table_free (validation->table);
  g_free (validation);
}

/* ---- Writing ---- */

static void
append_number (GString *out, double value, const char *format)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append_c (out, ',');
  if (!isnan (value))
    g_string_append (out, g_ascii_formatd (text, sizeof text, format, value));
}

char *
psi_validation_to_csv (const PsiValidation *validation)
{
  GString *out =
      g_string_new ("id,predicted_step_time_s,predicted_peak_bytes,predicted_outcome,step_time_error,memory_error\n");

  for (guint i = 0; i < validation->predictions->len; i++)
    {
      const PsiPrediction *prediction = validation->predictions->pdata[i];

      psi_run_append_cell (out, prediction->id);
      append_number (out, prediction->step_time_s, "%.6g");
      append_number (out, prediction->peak_bytes, "%.0f");
      g_string_append_printf (out, ",%s", psi_outcome_names[prediction->outcome]);
      append_number (out, prediction->time_error, "%.4f");
      append_number (out, prediction->memory_error, "%.4f");
      g_string_append_c (out, '\n');
    }
  return g_string_free (out, FALSE);
}

static void
add_number (JsonBuilder *builder, const char *name, double value)
{
  json_builder_set_member_name (builder, name);
  if (isnan (value))
    json_builder_add_null_value (builder);
  else
    json_builder_add_double_value (builder, value);
}

static void
add_count (JsonBuilder *builder, const char *name, guint value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, value);
}

static void
add_errors (JsonBuilder *builder, const char *name, const PsiErrors *errors)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_object (builder);
  add_count (builder, "n", errors->n);
  add_number (builder, "mean", errors->mean);
  add_number (builder, "median", errors->median);
  add_number (builder, "p90", errors->p90);
  add_number (builder, "bias", errors->bias);
  json_builder_end_object (builder);
}

char *
psi_validation_to_json (const PsiValidation *validation)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonGenerator) generator = json_generator_new ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "validate");
  json_builder_begin_array (builder);
  for (guint i = 0; i < validation->scores->len; i++)
    {
      const PsiSourceScore *score = &g_array_index (validation->scores, PsiSourceScore, i);

      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "source");
      json_builder_add_string_value (builder, score->source);
      add_count (builder, "rows", score->n_rows);
      add_count (builder, "not_predicted", score->n_failed);
      add_errors (builder, "step_time", &score->time);
      json_builder_set_member_name (builder, "step_time_band");
      json_builder_begin_object (builder);
      add_count (builder, "n", score->n_banded);
      add_number (builder, "inside", score->inside);
      add_number (builder, "width", score->width);
      json_builder_end_object (builder);
      add_errors (builder, "memory", &score->memory);
      add_errors (builder, "steady", &score->steady);
      json_builder_set_member_name (builder, "outcome");
      json_builder_begin_object (builder);
      add_count (builder, "ok_as_ok", score->verdicts[0][0]);
      add_count (builder, "ok_as_oom", score->verdicts[0][1]);
      add_count (builder, "oom_as_ok", score->verdicts[1][0]);
      add_count (builder, "oom_as_oom", score->verdicts[1][1]);
      json_builder_end_object (builder);
      add_count (builder, "groups", score->n_groups);
      add_number (builder, "kendall_tau", score->tau);
      add_number (builder, "regret", score->regret);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  json_generator_set_pretty (generator, TRUE);
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  g_autofree char *text = json_generator_to_data (generator, NULL);
  return g_strconcat (text, "\n", NULL);
}

static void
append_percent (GString *out, double value, gboolean sign)
{
  if (isnan (value))
    g_string_append (out, " - ");
  else
    g_string_append_printf (out, sign ? " %+.1f " : " %.1f ", 100 * value);
}

static void
append_errors (GString *out, const PsiErrors *errors)
{
  g_string_append_printf (out, " %u |", errors->n);
  append_percent (out, errors->mean, FALSE);
  g_string_append (out, "/");
  append_percent (out, errors->median, FALSE);
  g_string_append (out, "/");
  append_percent (out, errors->p90, FALSE);
  g_string_append (out, "/");
  append_percent (out, errors->bias, TRUE);
  g_string_append (out, "|");
}

char *
psi_validation_to_markdown (const PsiValidation *validation)
{
  GString *out =
      g_string_new ("| source | rows | not predicted | times | time error, %: mean / median / p90 / signed "
                    "| in band, % | memories | memory error, "
                    "%: mean / median / p90 / signed | ok right | oom right | groups | tau | regret, % |\n"
                    "| --- | ---: | ---: | ---: | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |\n");

  for (guint i = 0; i < validation->scores->len; i++)
    {
      const PsiSourceScore *score = &g_array_index (validation->scores, PsiSourceScore, i);

      g_string_append_printf (out, "| %s | %u | %u |", score->source, score->n_rows, score->n_failed);
      append_errors (out, &score->time);
      append_percent (out, score->inside, FALSE);
      g_string_append (out, "|");
      append_errors (out, &score->memory);
      for (guint v = 0; v < 2; v++)
        {
          guint n = score->verdicts[v][0] + score->verdicts[v][1];

          if (n == 0)
            g_string_append (out, " - |");
          else
            g_string_append_printf (out, " %u of %u |", score->verdicts[v][v], n);
        }
      if (score->n_groups == 0)
        g_string_append (out, " - | - | - |\n");
      else
        {
          g_autofree char *tau = isnan (score->tau) ? g_strdup ("-") : g_strdup_printf ("%.2f", score->tau);

          g_string_append_printf (out, " %u | %s | %.1f |\n", score->n_groups, tau, 100 * score->regret);
        }
    }
  return g_string_free (out, FALSE);
}
