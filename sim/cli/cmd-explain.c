/* SPDX-License-Identifier: MIT */
/* explain [NAME]: a lesson. The text is in sim/lessons; every number is simulated or follows from a formula there. */
#include "commands.h"
#include "grid.h"
#include "lesson-plot.h"
#include "lesson.h"
#include "quantity.h"

#include <math.h>
#include <string.h>

typedef struct
{
  const PsiLesson *lesson;
  const PsiTrial *trial;
  GPtrArray *beside; /* of PsiTrial*: other strategies on the same case */
  PsiTerminal terminal;
} Page;

static void
append_heading (GString *out, const Page *page, const char *text)
{
  g_string_append_c (out, '\n');
  psi_append_styled (out, &page->terminal, PSI_STYLE_BOLD, text);
  g_string_append_c (out, '\n');
}

static gboolean
append_section (GString *out, const Page *page, const char *heading, const char *section, GError **error)
{
  const char *text = psi_lesson_section (page->lesson, section);

  if (*text == '\0')
    return TRUE;
  if (heading != NULL)
    append_heading (out, page, heading);
  return psi_lesson_append_text (page->lesson, page->trial, text, out, &page->terminal, error);
}

/* "N = 3 workers, K = 3 stages" */
static char *
describe_case (const Page *page)
{
  const PsiPlan *plan = page->trial->plan;
  g_autoptr (GString) out = g_string_new ("The case: ");
  const char *comma = "";

  if (plan->dp > 1)
    {
      g_string_append_printf (out, "N = %u %s", plan->dp,
                              plan->cyclic      ? "workers"
                              : plan->keeps_all ? "micro-batches"
                                                : "replicas");
      comma = ", ";
    }
  g_string_append_printf (out, "%sK = %u stages", comma, plan->stages);
  if (plan->micro_batches > 1)
    g_string_append_printf (out, ", m = %" G_GINT64_FORMAT " micro-batches", plan->micro_batches);
  if (plan->pp > 1)
    g_string_append_printf (out, ", p = %u GPUs", plan->pp);
  if (plan->vpp > 1)
    g_string_append_printf (out, ", v = %u parts each", plan->vpp);
  if (plan->tp > 1)
    g_string_append_printf (out, ", t = %u GPUs a layer", plan->tp);
  return g_strdup (out->str);
}

static void
append_grid (GString *out, const Page *page)
{
  g_autofree char *rows = psi_lesson_value (page->lesson, "show", "rows");
  g_autofree char *steps = psi_lesson_value (page->lesson, "show", "steps");
  guint n_steps = steps != NULL ? (guint) MIN (g_ascii_strtoull (steps, NULL, 10), 8) : 1;
  g_autoptr (PsiGrid) grid = psi_grid_new (page->trial->step, page->trial->run, n_steps);
  const PsiSettings *settings = page->trial->settings;
  PsiGridRows shown = 0;

  if (rows == NULL || strstr (rows, "stages") != NULL)
    shown |= PSI_GRID_STAGES;
  if (rows != NULL && strstr (rows, "gpus") != NULL)
    shown |= PSI_GRID_GPUS;
  g_autofree char *described = describe_case (page);
  append_heading (out, page, described);
  g_autofree PsiFormulaVariable *variables = psi_trial_variables (page->trial);
  double backward = 1;
  psi_formula_value ("b", variables, &backward, NULL);
  g_autofree char *slots = psi_format_fraction (backward);
  g_string_append_printf (out, "  One slot: a stage's forward%s. Its backward: %s. Links take no time.\n\n",
                          page->trial->plan->tp > 1 ? " on t GPUs" : "", slots);
  psi_grid_append (grid, shown, (double) psi_settings_count (settings, PSI_KEY_PSI_P),
                   (double) psi_settings_count (settings, PSI_KEY_PSI_INT), out, &page->terminal);
}

/* One measure: closed form, its value, the simulated value, and the other strategies'. */
static gboolean
append_measure (PsiTable *table, const Page *page, const PsiMeasure *measure, const PsiFormulaVariable *variables,
                GError **error)
{
  g_autofree char *formula = psi_lesson_value (page->lesson, "closed forms", measure->id);
  double simulated = measure->value (page->trial), expected = NAN;
  gboolean is_wanted = formula != NULL || simulated != 0;

  for (guint i = 0; i < page->beside->len; i++)
    is_wanted |= measure->value (page->beside->pdata[i]) != 0;
  if (!is_wanted)
    return TRUE;
  if (formula != NULL && !psi_formula_value (formula, variables, &expected, error))
    {
      g_prefix_error (error, "lesson '%s': [closed forms] %s: ", page->lesson->name, measure->id);
      return FALSE;
    }
  g_autofree char *unit = psi_spell_greek (measure->unit, &page->terminal);
  psi_table_take (table, PSI_STYLE_PLAIN,
                  *unit != '\0' ? g_strdup_printf ("%s, %s", measure->title, unit) : g_strdup (measure->title));
  psi_table_add (table, PSI_STYLE_PLAIN, formula != NULL ? formula : "");
  psi_table_take (table, PSI_STYLE_PLAIN, formula != NULL ? psi_format_fraction (expected) : g_strdup (""));
  gboolean is_off = formula != NULL && fabs (expected - simulated) > 1e-6 * MAX (1, fabs (expected));
  psi_table_take (table, is_off ? PSI_STYLE_WARNING : PSI_STYLE_BOLD, psi_format_fraction (simulated));
  for (guint i = 0; i < page->beside->len; i++)
    psi_table_take (table, PSI_STYLE_PLAIN, psi_format_fraction (measure->value (page->beside->pdata[i])));
  return TRUE;
}

static gboolean
append_table (GString *out, const Page *page, GError **error)
{
  g_autoptr (GString) alignment = g_string_new ("llrr");
  g_autofree PsiFormulaVariable *variables = psi_trial_variables (page->trial);

  for (guint i = 0; i < page->beside->len; i++)
    g_string_append_c (alignment, 'r');
  g_autoptr (PsiTable) table = psi_table_new (alignment->str, 2);
  psi_table_add (table, PSI_STYLE_DIM, "");
  psi_table_add (table, PSI_STYLE_DIM, "closed form");
  psi_table_add (table, PSI_STYLE_DIM, "here");
  psi_table_add (table, PSI_STYLE_DIM, page->beside->len > 0 ? page->trial->report->name : "simulated");
  for (guint i = 0; i < page->beside->len; i++)
    psi_table_add (table, PSI_STYLE_DIM, ((const PsiTrial *) page->beside->pdata[i])->report->name);
  psi_table_add_rule (table);
  for (const PsiMeasure *measure = psi_measures; measure->id != NULL; measure++)
    if (!append_measure (table, page, measure, variables, error))
      return FALSE;
  append_heading (out, page, "The numbers, closed form beside simulated");
  psi_table_append (table, out, &page->terminal);
  return TRUE;
}

static gboolean
draw (const PsiArguments *arguments, const Page *page, GError **error)
{
  g_autoptr (GPtrArray) plans = g_ptr_array_new ();
  g_autofree char *title = g_strdup_printf ("psisim explain %s", page->lesson->name);

  if (!arguments->given[PSI_OPTION_PLOT])
    return TRUE;
  g_ptr_array_add (plans, page->trial->report);
  for (guint i = 0; i < page->beside->len; i++)
    g_ptr_array_add (plans, ((const PsiTrial *) page->beside->pdata[i])->report);
  psi_progress_begin (arguments, "drawing");
  gboolean is_drawn = psi_lesson_plot ((PsiPlanReport *const *) plans->pdata, plans->len, title,
                                       arguments->values[PSI_OPTION_PLOT], error);
  psi_progress_end ();
  return is_drawn;
}

static gboolean
load_beside (Page *page, GError **error)
{
  g_autofree char *listed = psi_lesson_value (page->lesson, "show", "beside");
  g_auto (GStrv) names = g_strsplit_set (listed != NULL ? listed : "", " ,", -1);

  for (char **name = names; *name != NULL; name++)
    {
      if (**name == '\0')
        continue;
      PsiTrial *trial = psi_trial_new (page->lesson, *name, error);
      if (trial == NULL)
        return FALSE;
      g_ptr_array_add (page->beside, trial);
    }
  return TRUE;
}

static char *
lesson_page (const PsiArguments *arguments, const PsiNamedPlan *plan, const char *typed, GError **error)
{
  g_autoptr (PsiLesson) lesson = psi_lesson_load (plan->name, error);
  if (lesson == NULL)
    return NULL;
  g_autoptr (PsiTrial) trial = psi_trial_new (lesson, plan->name, error);
  if (trial == NULL)
    return NULL;
  g_autoptr (GPtrArray) beside = g_ptr_array_new_with_free_func ((GDestroyNotify) psi_trial_free);
  g_autoptr (GString) out = g_string_new (NULL);
  Page page = { lesson, trial, beside, psi_terminal_detect () };

  if (!load_beside (&page, error) || !draw (arguments, &page, error))
    return NULL;
  psi_append_styled (out, &page.terminal, PSI_STYLE_BOLD, plan->name);
  if (strcmp (typed, plan->name) != 0)
    g_string_append_printf (out, " (%s is another name for it)", typed);
  g_string_append (out, "\n  ");
  psi_append_wrapped (out, plan->summary, 2, 80);
  if (*psi_lesson_section (lesson, "text") != '\0')
    g_string_append_c (out, '\n');
  if (!append_section (out, &page, NULL, "text", error))
    return NULL;
  append_grid (out, &page);
  if (!append_table (out, &page, error) || !append_section (out, &page, "What to notice", "notice", error) ||
      !append_section (out, &page, "Question", "question", error))
    return NULL;
  if (arguments->given[PSI_OPTION_ANSWER])
    {
      if (!append_section (out, &page, "Answer", "answer", error))
        return NULL;
    }
  else if (*psi_lesson_section (lesson, "answer") != '\0')
    g_string_append_printf (out, "  (the answer: psisim explain %s --answer)\n", plan->name);
  if (!append_section (out, &page, "Try next", "try", error))
    return NULL;
  return g_strdup (out->str);
}

/* ---- Table of contents ---- */

static void
append_row (GString *out, const PsiNamedPlan *plan)
{
  g_string_append_printf (out, "  %-17s", plan->name);
  psi_append_wrapped (out, plan->summary, 19, 80);
}

/* Strategies in teaching order: lines of the section [order], "= heading" or a name each; then whatever is left. */
static void
append_order (GString *out, const Page *page)
{
  g_auto (GStrv) lines = g_strsplit (psi_lesson_section (page->lesson, "order"), "\n", -1);
  g_autoptr (GHashTable) listed = g_hash_table_new (g_str_hash, g_str_equal);
  gboolean has_rest = FALSE;

  for (char **line = lines; *line != NULL; line++)
    {
      const PsiNamedPlan *plan = psi_named_plan_find (g_strstrip (*line));

      if (g_str_has_prefix (*line, "= "))
        append_heading (out, page, *line + 2);
      else if (plan != NULL)
        append_row (out, plan);
      if (plan != NULL)
        g_hash_table_add (listed, (gpointer) plan->name);
    }
  for (const PsiNamedPlan *plan = psi_named_plans; plan->name != NULL; plan++)
    if (plan->alias_of == NULL && !g_hash_table_contains (listed, plan->name))
      {
        if (!has_rest)
          append_heading (out, page, "Others");
        has_rest = TRUE;
        append_row (out, plan);
      }
}

static char *
contents_page (GError **error)
{
  g_autoptr (PsiLesson) lesson = psi_lesson_load ("contents", error);
  if (lesson == NULL)
    return NULL;
  g_autoptr (GString) out = g_string_new (NULL);
  Page page = { .lesson = lesson, .terminal = psi_terminal_detect () };

  psi_append_styled (out, &page.terminal, PSI_STYLE_BOLD, "Lessons: psisim explain NAME");
  g_string_append_c (out, '\n');
  if (!append_section (out, &page, NULL, "text", error))
    return NULL;
  append_order (out, &page);
  if (!append_section (out, &page, "What many believe, and what is so", "misconceptions", error) ||
      !append_section (out, &page, "Training with gradients that are late", "theory", error) ||
      !append_section (out, &page, "Try next", "try", error))
    return NULL;
  return g_strdup (out->str);
}

/* ---- The command ---- */

static const PsiNamedPlan *
find_plan (const char *name, GError **error)
{
  const PsiNamedPlan *plan = psi_named_plan_find (name);
  g_autofree char *quoted = psi_quote (name);

  if (plan != NULL)
    return plan;
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  for (const PsiNamedPlan *row = psi_named_plans; row->name != NULL; row++)
    g_ptr_array_add (names, (gpointer) row->name);
  g_ptr_array_add (names, NULL);
  const char *near = psi_nearest (name, (const char *const *) names->pdata);
  if (near != NULL)
    g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "unknown plan %s (did you mean '%s'?)", quoted, near);
  else
    g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "unknown plan %s (see 'psisim explain')", quoted);
  return NULL;
}

int
psi_cmd_explain (const PsiArguments *arguments)
{
  const char *name = arguments->words->len > 0 ? g_ptr_array_index (arguments->words, 0) : NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;

  if (name == NULL)
    text = contents_page (&error);
  else
    {
      const PsiNamedPlan *plan = find_plan (name, &error);
      if (plan != NULL)
        text = lesson_page (arguments, plan, name, &error);
    }
  return text != NULL ? psi_output_write (text) : psi_fail (error);
}
