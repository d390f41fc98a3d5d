/* SPDX-License-Identifier: MIT */
/* train: run a plan's schedule for real, with a small model, on this machine's GPUs or cores. The order of work is the
 * text that `schedule show` prints; train-cuda and train-host execute it. */
#include "commands.h"

#include "psi-config.h"
#include "in-file.h"
#include "simulate-plan.h"
#include "step.h"
#include "table-text.h"
#include "table-units.h"
#include "trainer.h"

#include <gio/gio.h>
#include <math.h>
#include <string.h>

#define SCHEDULE_HEAD "psisim-schedule 1"

/* What is to be run. */
typedef struct
{
  char *name;
  char *schedule;   /* text of the schedule file */
  GPtrArray *flags; /* of char*: of the training program, NULL-ended once complete */
} Training;

static void
training_free (Training *training)
{
  g_free (training->name);
  g_free (training->schedule);
  g_ptr_array_unref (training->flags);
  g_free (training);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Training, training_free)

static void add_flag (Training *training, const char *format, ...) G_GNUC_PRINTF (2, 3);

static void
add_flag (Training *training, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_ptr_array_add (training->flags, g_strdup_vprintf (format, arguments));
  va_end (arguments);
}

/* Keys that pass straight on when they are written. */
static const struct
{
  PsiKeyId key;
  const char *flag;
} passed[] = {
  { PSI_KEY_LAYERS, "--blocks" },
  { PSI_KEY_HIDDEN, "--width" },
  { PSI_KEY_MICRO_BATCH, "--batch" },
  { PSI_KEY_SEED, "--seed" },
};

static void
add_keys (Training *training, const PsiSettings *settings)
{
  guint n = 0;
  const gint64 *batches = psi_settings_has (settings, PSI_KEY_WORKER_BATCHES)
                              ? psi_settings_counts (settings, PSI_KEY_WORKER_BATCHES, &n)
                              : NULL;

  for (guint i = 0; i < G_N_ELEMENTS (passed); i++)
    if (psi_settings_has (settings, passed[i].key))
      add_flag (training, "%s=%" G_GINT64_FORMAT, passed[i].flag, psi_settings_count (settings, passed[i].key));
  if (n > 0)
    {
      GString *list = g_string_new ("--worker-batches=");

      for (guint i = 0; i < n; i++)
        g_string_append_printf (list, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "", batches[i]);
      g_ptr_array_add (training->flags, g_string_free (list, FALSE));
    }
}

/* The text of `file` if it is a schedule file, else NULL. (transfer full) */
static char *
read_schedule (const char *file)
{
  g_autofree char *text = NULL;

  if (file == NULL || !psi_in_file_read (file, PSI_IN_FILE_MOST_TEXT_BYTES, &text, NULL, NULL) ||
      strstr (text, SCHEDULE_HEAD) == NULL)
    return NULL;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (char **line = lines; *line != NULL; line++)
    {
      g_strstrip (*line);
      if (**line != '\0' && **line != '#')
        return g_str_has_prefix (*line, SCHEDULE_HEAD) ? g_steal_pointer (&text) : NULL;
    }
  return NULL;
}

/* A schedule file needs no plan: flags alone say the rest. */
static gboolean
prepare_file (const PsiArguments *arguments, Training *training, GError **error)
{
  g_autoptr (PsiSettings) settings = psi_settings_new ();

  for (guint i = 0; i < arguments->flags->len; i++)
    {
      const PsiKeyFlag *flag = &g_array_index (arguments->flags, PsiKeyFlag, i);
      g_autofree char *name = psi_key_flag_name (flag->key);

      if (!psi_settings_set (settings, flag->key, flag->text, name, error))
        return FALSE;
    }
  training->name = g_path_get_basename (arguments->words->pdata[0]);
  add_keys (training, settings);
  if (psi_settings_has (settings, PSI_KEY_ZERO))
    add_flag (training, "--zero=%" G_GINT64_FORMAT, psi_settings_count (settings, PSI_KEY_ZERO));
  if (psi_settings_has (settings, PSI_KEY_UPDATE))
    add_flag (training, "--update=%s", psi_settings_text (settings, PSI_KEY_UPDATE));
  return TRUE;
}

/* What the training programs cannot do is refused by name. */
static gboolean
check_plan (const PsiPlan *plan, const PsiSchedule *schedule, GError **error)
{
  const struct
  {
    gboolean wanted;
    const char *what;
  } missing[] = {
    { plan->tp > 1, "tp" },
    { plan->cp > 1, "cp" },
    { plan->ep > 1, "ep" },
    { plan->recompute != PSI_RECOMPUTE_NONE, "recompute" },
    { plan->offload != PSI_OFFLOAD_NONE, "offload" },
    { plan->graphs != PSI_GRAPHS_NONE, "cuda_graphs" },
    { plan->asynchronous, "a race between workers" },
    { !plan->cyclic && plan->dp > 1 && schedule->n_ranks > 1, "dp together with a pipeline" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (missing); i++)
    if (missing[i].wanted)
      {
        g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_LATER, "train: %s is not run for real, only simulated",
                     missing[i].what);
        return FALSE;
      }
  return TRUE;
}

/* Without a model the schedule is that of uniform stages, which have no layers and no width: those flags are then about
 * the small model alone. They are moved from `arguments` to `small`. (transfer full) */
static GArray *
take_dimensions (const PsiArguments *arguments, PsiSettings *small)
{
  GArray *others = g_array_new (FALSE, FALSE, sizeof (PsiKeyFlag));

  for (guint i = 0; i < arguments->flags->len; i++)
    {
      const PsiKeyFlag *flag = &g_array_index (arguments->flags, PsiKeyFlag, i);

      if (flag->key != PSI_KEY_LAYERS && flag->key != PSI_KEY_HIDDEN)
        g_array_append_val (others, *flag);
      else
        psi_settings_set (small, flag->key, flag->text, psi_keys[flag->key].name, NULL);
    }
  return others;
}

static PsiScenario *
load_scenario (const PsiArguments *arguments, PsiSettings *small, gboolean *ret_has_model, GError **error)
{
  g_autoptr (GArray) others = take_dimensions (arguments, small);
  PsiArguments without = *arguments;
  without.flags = others;
  g_autoptr (PsiScenario) scenario = psi_arguments_scenario (&without, TRUE, error);

  if (scenario == NULL)
    return NULL;
  const PsiPlanRequest *request = g_ptr_array_index (scenario->plans, 0);
  *ret_has_model = psi_settings_has (request->settings, PSI_KEY_MODEL);
  return *ret_has_model ? psi_arguments_scenario (arguments, TRUE, error) : g_steal_pointer (&scenario);
}

static gboolean
prepare_plan (const PsiArguments *arguments, Training *training, GError **error)
{
  g_autoptr (PsiSettings) small = psi_settings_new ();
  gboolean has_model = FALSE;
  g_autoptr (PsiScenario) scenario = load_scenario (arguments, small, &has_model, error);

  if (scenario == NULL)
    return FALSE;
  const PsiPlanRequest *request = g_ptr_array_index (scenario->plans, 0);
  g_autoptr (PsiSettings) settings = psi_settings_copy (request->settings);
  if (!has_model && !psi_settings_set (settings, PSI_KEY_MODEL, "uniform", "train", error))
    return FALSE;
  g_autoptr (PsiMachine) machine = psi_simulate_machine (settings, error);
  g_autoptr (PsiModelSource) source = machine != NULL ? psi_model_source_load (settings, error) : NULL;
  g_autoptr (PsiPlan) plan = source != NULL ? psi_plan_resolve (settings, source, machine->gpus_per_node, error) : NULL;
  g_autoptr (PsiStep) step = plan != NULL ? psi_step_new (plan, machine, source, settings, error) : NULL;

  if (step == NULL || !check_plan (plan, step->schedule, error))
    return FALSE;
  training->name = g_strdup (request->name);
  training->schedule = psi_schedule_to_text (step->schedule, plan->keeps_all ? 1 : plan->dp, request->name);
  if (training->schedule == NULL)
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                   "plan '%s' repeats only after thousands of steps, which is too long a schedule", request->name);
      return FALSE;
    }
  add_keys (training, settings);
  add_keys (training, small);
  if (plan->zero > 0)
    add_flag (training, "--zero=%u", plan->zero);
  return TRUE;
}

static gboolean
prepare (const PsiArguments *arguments, Training *training, GError **error)
{
  const char *steps = arguments->values[PSI_OPTION_STEPS];
  const char *file = arguments->words->len > 0 ? arguments->words->pdata[0] : NULL;

  training->flags = g_ptr_array_new_with_free_func (g_free);
  add_flag (training, "--schedule=-");
  add_flag (training, "--log=steps");
  add_flag (training, "--steps=%s", steps != NULL ? steps : "20");
  if (arguments->given[PSI_OPTION_DATA])
    add_flag (training, "--data=%s", arguments->values[PSI_OPTION_DATA]);
  if (arguments->given[PSI_OPTION_RATE])
    add_flag (training, "--lr=%s", arguments->values[PSI_OPTION_RATE]);
  training->schedule = read_schedule (file);
  if (!(training->schedule != NULL ? prepare_file : prepare_plan) (arguments, training, error))
    return FALSE;
  g_ptr_array_add (training->flags, NULL);
  return TRUE;
}

/* GPUs if there are any, else cores, unless --backend says which. */
static GPtrArray *
run (const PsiArguments *arguments, const Training *training, GError **error)
{
  static const char *const backends[] = { "cuda", "host" };
  const char *wanted = arguments->values[PSI_OPTION_BACKEND];
  g_autoptr (GError) fault = NULL;

  if (wanted != NULL && strcmp (wanted, backends[0]) != 0 && strcmp (wanted, backends[1]) != 0)
    {
      g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "--backend: unknown '%s' (one of: cuda, host)",
                   wanted);
      return NULL;
    }
  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    {
      g_autofree char *program = g_strconcat ("train-", backends[i], NULL);
      gboolean no_device;

      if (wanted != NULL && strcmp (wanted, backends[i]) != 0)
        continue;
      g_clear_error (&fault);
      psi_progress_begin (arguments, "training");
      GPtrArray *lines = psi_trainer_run (program, (const char *const *) training->flags->pdata, training->schedule,
                                          &no_device, &fault);
      psi_progress_end ();
      if (lines != NULL || !no_device)
        {
          if (lines == NULL)
            g_propagate_error (error, g_steal_pointer (&fault));
          return lines;
        }
    }
  g_propagate_error (error, g_steal_pointer (&fault));
  return NULL;
}

/* ---- Output ---- */

static double
member (JsonObject *object, const char *name)
{
  JsonNode *node = json_object_get_member (object, name);

  return node != NULL && !JSON_NODE_HOLDS_NULL (node) ? json_node_get_double (node) : (double) NAN;
}

/* The program's own lines, sorted into lists. */
static char *
to_json (const Training *training, const GPtrArray *lines)
{
  g_autoptr (JsonObject) root = json_object_new ();
  JsonArray *steps = json_array_new (), *ranks = json_array_new ();

  json_object_set_string_member (root, "psisim", PSI_VERSION);
  json_object_set_string_member (root, "plan", training->name);
  json_object_set_object_member (root, "run", json_object_ref (lines->pdata[0]));
  for (guint i = 1; i + 1 < lines->len; i++)
    json_array_add_object_element (json_object_has_member (lines->pdata[i], "step") ? steps : ranks,
                                   json_object_ref (lines->pdata[i]));
  json_object_set_array_member (root, "steps", steps);
  json_object_set_array_member (root, "ranks", ranks);
  json_object_set_object_member (root, "final", json_object_ref (lines->pdata[lines->len - 1]));
  g_autoptr (JsonNode) node = json_node_init_object (json_node_alloc (), root);
  g_autofree char *text = json_to_string (node, TRUE);
  return g_strconcat (text, "\n", NULL);
}

/* Mean over all steps but the first of one rank's entry in the lists `name`. */
static double
step_mean (const GPtrArray *lines, const char *name, guint rank)
{
  double sum = 0;
  guint n = 0;

  for (guint i = 1; i + 1 < lines->len; i++)
    if (json_object_has_member (lines->pdata[i], "step") && member (lines->pdata[i], "step") > 0)
      {
        sum += json_array_get_double_element (json_object_get_array_member (lines->pdata[i], name), rank);
        n++;
      }
  return n > 0 ? sum / n : (double) NAN;
}

static char *
time_text (double seconds)
{
  return isfinite (seconds) ? psi_format_time ((gint64) (seconds * 1e12)) : g_strdup ("-");
}

static void
append_ranks (GString *out, const GPtrArray *lines, const PsiTerminal *terminal)
{
  static const char *const heads[] = { "rank", "step", "cpu", "waiting", "peak", "between steps", "activations" };
  static const char *const sizes[] = { "peak_bytes", "steady_bytes", "activations_peak_bytes" };
  static const char *const times[] = { "wall_s", "cpu_s", "wait_s" };
  g_autoptr (PsiTable) table = psi_table_new ("rrrrrrr", 3);

  for (guint i = 0; i < G_N_ELEMENTS (heads); i++)
    psi_table_add (table, PSI_STYLE_DIM, heads[i]);
  for (guint i = 1; i + 1 < lines->len; i++)
    {
      JsonObject *line = lines->pdata[i];

      if (json_object_has_member (line, "step"))
        continue;
      guint rank = (guint) member (line, "rank");
      psi_table_take (table, PSI_STYLE_BOLD, g_strdup_printf ("%u", rank));
      for (guint k = 0; k < G_N_ELEMENTS (times); k++)
        psi_table_take (table, PSI_STYLE_PLAIN, time_text (step_mean (lines, times[k], rank)));
      for (guint k = 0; k < G_N_ELEMENTS (sizes); k++)
        psi_table_take (table, PSI_STYLE_PLAIN, psi_format_bytes (member (line, sizes[k])));
    }
  psi_table_append (table, out, terminal);
}

static double
first_loss (const GPtrArray *lines)
{
  for (guint i = 1; i < lines->len; i++)
    if (json_object_has_member (lines->pdata[i], "step"))
      return member (lines->pdata[i], "loss");
  return (double) NAN;
}

/* Others on the machine stretch wall time, not CPU time. */
static gboolean
is_disturbed (const GPtrArray *lines)
{
  double switches = 0;

  for (guint i = 1; i + 1 < lines->len; i++)
    if (json_object_has_member (lines->pdata[i], "involuntary_switches"))
      switches += member (lines->pdata[i], "involuntary_switches");
  return switches > 10 || member (lines->pdata[0], "ranks") > member (lines->pdata[0], "cores");
}

/* "4 ranks, " */
static void
append_counted (GString *out, JsonObject *object, const char *key, const char *noun, const char *after)
{
  double n = member (object, key);

  g_string_append_printf (out, "%.0f %s%s%s", n, noun, n == 1 ? "" : g_str_has_suffix (noun, "ch") ? "es" : "s", after);
}

static char *
to_table (const Training *training, const GPtrArray *lines)
{
  const PsiTerminal terminal = psi_terminal_detect ();
  JsonObject *program = lines->pdata[0], *final = lines->pdata[lines->len - 1];
  const char *name = json_object_get_string_member (program, "program");
  gboolean on_cores = g_str_equal (name, "train-host");
  g_autofree char *step = time_text (member (final, "step_time_s")), *cpu = time_text (member (final, "step_cpu_s"));
  GString *out = g_string_new (NULL);

  g_string_append_printf (out, "%s by %s: ", training->name, name);
  append_counted (out, program, "ranks", "rank", ", ");
  append_counted (out, program, "parts", "part", ", ");
  append_counted (out, program, "micro_batches", "micro-batch", " and ");
  append_counted (out, program, "step_samples", "sample", " a step\n");
  append_counted (out, program, "parameters", "parameter", ": ");
  append_counted (out, program, "blocks", "block", " of width ");
  g_string_append_printf (out, "%.0f\n", member (program, "width"));
  g_string_append_printf (out, "step time %s, CPU time of the busiest rank %s\n", step, cpu);
  g_string_append_printf (out, "loss %.4g after the first of %.0f steps, %.4g after the last\n\n", first_loss (lines),
                          member (program, "steps"), member (final, "loss"));
  append_ranks (out, lines, &terminal);
  g_string_append (out, "\ntimes: mean of all steps but the first; bytes: live tensors\n");
  if (on_cores && is_disturbed (lines))
    g_string_append_printf (
        out, "%.0f cores, load %.2f: ranks had to share cores, so trust the CPU times and not the step time\n",
        member (program, "cores"), member (final, "load_average"));
  return g_string_free (out, FALSE);
}

int
psi_cmd_train (const PsiArguments *arguments)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Training) training = g_new0 (Training, 1);

  if (!prepare (arguments, training, &error))
    return psi_fail (error);
  g_autoptr (GPtrArray) lines = run (arguments, training, &error);
  if (lines == NULL)
    return psi_fail (error);
  g_autofree char *text = arguments->given[PSI_OPTION_JSON] ? to_json (training, lines) : to_table (training, lines);
  return psi_output_write (text);
}
