/* SPDX-License-Identifier: MIT */
/* Draws the figures: writes each data file, runs gnuplot over it (several at a time), and puts the three files in place
 * when they are complete. */
#include "plot.h"
#include "child.h"
#include "data-dirs.h"

#include <errno.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <string.h>

#define TIMEOUT_S 120

G_DEFINE_QUARK (psi_plot_error, psi_plot_error)

/* One picture to be drawn. */
typedef struct
{
  const char *script; /* "memory.gp" */
  char *name;         /* "dp-memory": without suffix */
  char *data;         /* the TSV */
  char **arguments;   /* after DATA and OUT: title and so on */
} Figure;

typedef struct
{
  const char *directory;
  const char *gnuplot;
  GPtrArray *figures; /* of Figure* */
  guint next;         /* the first that has not begun */
  guint running;
  GMainLoop *loop;
  GError *error;
} Work;

/* One gnuplot at work. */
typedef struct
{
  Work *work;
  const Figure *figure;
  GCancellable *cancellable;
  GSubprocess *process;
  GSource *timeout;
  char *stem; /* temporary path without suffix */
} Job;

static const char *const suffixes[] = { ".tsv", ".svg", ".png" };

static void
figure_free (gpointer data)
{
  Figure *figure = data;

  g_free (figure->name);
  g_free (figure->data);
  g_strfreev (figure->arguments);
  g_free (figure);
}

/* Takes `data` (NULL: nothing to draw) and the strings of a NULL-ended list. */
static void
add_figure (GPtrArray *figures, const char *script, char *name, char *data, ...)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  va_list arguments;

  va_start (arguments, data);
  for (char *text = va_arg (arguments, char *); text != NULL; text = va_arg (arguments, char *))
    {
      g_strv_builder_add (builder, text);
      g_free (text);
    }
  va_end (arguments);
  if (data == NULL)
    {
      g_free (name);
      return;
    }
  Figure *figure = g_new0 (Figure, 1);
  figure->script = script;
  figure->name = name;
  figure->data = data;
  figure->arguments = g_strv_builder_end (builder);
  g_ptr_array_add (figures, figure);
}

/* A plan's name as part of a file name; two names never become one. */
static char *
file_name_of_plan (const PsiReport *report, guint plan_index)
{
  const PsiPlanReport *plan = report->plans->pdata[plan_index];
  g_autofree char *name = g_strdup (plan->name);

  g_strcanon (name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "+-_.", '-');
  if (!g_ascii_isalnum (name[0]))
    return g_strdup_printf ("plan-%u%s", plan_index, name);
  for (guint i = 0; i < report->plans->len; i++)
    {
      g_autofree char *other = g_strdup (((const PsiPlanReport *) report->plans->pdata[i])->name);
      g_strcanon (other, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "+-_.", '-');
      if (i != plan_index && g_ascii_strcasecmp (name, other) == 0)
        return g_strdup_printf ("%s-%u", name, plan_index);
    }
  return g_steal_pointer (&name);
}

static char *
number_text (gint64 value)
{
  return g_strdup_printf ("%" G_GINT64_FORMAT, value);
}

static void
add_plan_figures (GPtrArray *figures, const PsiReport *report, guint plan_index)
{
  const PsiPlanReport *plan = report->plans->pdata[plan_index];
  g_autofree char *stem = file_name_of_plan (report, plan_index);
  const char *model = report->model != NULL ? report->model : "";
  gint64 capacity_bytes = MAX (plan->capacity_bytes, 0);
  guint n_rows = 0;
  char *kinds = NULL, *data;
  char step[G_ASCII_DTOSTR_BUF_SIZE];

  g_ascii_dtostr (step, sizeof step, (double) psi_plan_window_ps (plan) / 1e12);
  /* "plan" is what flags alone are called. */
  gboolean is_named = strcmp (plan->name, "plan") != 0;
#define TITLE(what) g_strdup_printf ("%s: %s%s%s", what, model, is_named ? ", plan " : "", is_named ? plan->name : "")
  add_figure (figures, "memory.gp", g_strconcat (stem, "-memory", NULL), psi_plot_data_memory (plan),
              TITLE ("Memory of the fullest GPU"), number_text (capacity_bytes), NULL);
  data = psi_plot_data_memory_classes (plan, &n_rows);
  add_figure (figures, "memory-classes.gp", g_strconcat (stem, "-memory-classes", NULL), data,
              TITLE ("Memory of each GPU at its peak"), number_text (capacity_bytes), number_text (n_rows), NULL);
  data = psi_plot_data_timeline (plan, &n_rows, &kinds);
  add_figure (figures, "timeline.gp", g_strconcat (stem, "-timeline", NULL), data,
              TITLE (plan->window_ps > plan->step_time_ps ? "Several steps" : "One step"), number_text (n_rows),
              g_strdup (step), kinds, NULL);
  add_figure (figures, "traffic.gp", g_strconcat (stem, "-traffic", NULL), psi_plot_data_traffic (plan),
              TITLE ("Communication"), NULL);
#undef TITLE
}

static GPtrArray *
list_figures (const PsiReport *report)
{
  GPtrArray *figures = g_ptr_array_new_with_free_func (figure_free);
  const char *model = report->model != NULL ? report->model : "";
  const char *machine = report->machine != NULL ? report->machine : "";
  guint n_plans = report->plans->len;
  glong longest = 1;

  for (guint i = 0; i < n_plans; i++)
    longest = MAX (longest, (glong) strlen (((const PsiPlanReport *) report->plans->pdata[i])->name));
  if (n_plans > 0)
    add_figure (figures, "step-time.gp", g_strdup ("step-time"), psi_plot_data_step_time (report),
                g_strdup_printf ("Where a step goes: %s on %s", model, machine), number_text (n_plans),
                number_text (longest), NULL);
  add_figure (figures, "activations.gp", g_strdup ("activations"), psi_plot_data_activations (report),
              g_strdup_printf ("Activations over a step: %s on %s", model, machine), number_text (n_plans), NULL);
  gint64 capacity_bytes = n_plans > 0 ? ((const PsiPlanReport *) report->plans->pdata[0])->capacity_bytes : 0;
  add_figure (figures, "memory-plans.gp", g_strdup ("memory-plans"), psi_plot_data_memory_plans (report),
              g_strdup_printf ("Memory of the fullest GPU at its peak: %s on %s", model, machine),
              number_text (MAX (capacity_bytes, 0)), number_text (n_plans), number_text (longest), NULL);
  for (guint i = 0; i < n_plans; i++)
    add_plan_figures (figures, report, i);
  return figures;
}

static void
remove_temporary_files (const char *stem)
{
  for (guint i = 0; i < G_N_ELEMENTS (suffixes); i++)
    {
      g_autofree char *path = g_strconcat (stem, suffixes[i], NULL);
      g_unlink (path);
    }
}

/* First line of what gnuplot said, without its picture of where the error is. */
static char *
first_complaint (const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text != NULL ? text : "", "\n", -1);

  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_strstrip (lines[i]);
      if (*lines[i] != '\0' && *lines[i] != '^' && strstr (lines[i], "line ") != NULL)
        return g_strdup (lines[i]);
    }
  return g_strdup (lines[0] != NULL && *lines[0] != '\0' ? lines[0] : "no picture");
}

static gboolean
put_in_place (const Job *job, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (suffixes); i++)
    {
      g_autofree char *from = g_strconcat (job->stem, suffixes[i], NULL);
      g_autofree char *to = g_strconcat (job->work->directory, G_DIR_SEPARATOR_S, job->figure->name, suffixes[i], NULL);
      if (g_rename (from, to) == 0)
        continue;
      g_set_error (error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_DIRECTORY, "cannot write '%s': %s", to, g_strerror (errno));
      return FALSE;
    }
  return TRUE;
}

static void start_jobs (Work *work);

static gboolean
on_timeout (gpointer data)
{
  Job *job = data;

  g_subprocess_force_exit (job->process);
  g_cancellable_cancel (job->cancellable);
  return G_SOURCE_REMOVE;
}

static void
job_free (Job *job)
{
  remove_temporary_files (job->stem);
  if (job->timeout != NULL)
    {
      g_source_destroy (job->timeout);
      g_source_unref (job->timeout);
    }
  g_clear_object (&job->process);
  g_clear_object (&job->cancellable);
  g_free (job->stem);
  g_free (job);
}

static void
on_finished (GObject *source, GAsyncResult *result, gpointer data)
{
  Job *job = data;
  Work *work = job->work;
  g_autofree char *complaint = NULL;
  g_autoptr (GError) error = NULL;
  gboolean is_done = g_subprocess_communicate_utf8_finish (G_SUBPROCESS (source), result, NULL, &complaint, &error);

  if (g_cancellable_is_cancelled (job->cancellable))
    {
      g_clear_error (&error);
      g_set_error (&error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_GNUPLOT, "gnuplot took more than %d s for '%s'", TIMEOUT_S,
                   job->figure->name);
    }
  else if (is_done && !g_subprocess_get_successful (job->process))
    {
      g_autofree char *line = first_complaint (complaint);
      g_set_error (&error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_GNUPLOT, "gnuplot failed at '%s': %s", job->figure->name,
                   line);
    }
  else if (is_done)
    put_in_place (job, &error);
  if (error != NULL && work->error == NULL)
    work->error = g_steal_pointer (&error);
  job_free (job);
  work->running--;
  start_jobs (work);
}

static gboolean
start_job (Work *work, const Figure *figure, GError **error)
{
  g_autoptr (GPtrArray) argv = g_ptr_array_new ();
  g_autofree char *script = psi_data_find ("plots", figure->script);
  Job *job = g_new0 (Job, 1);

  job->work = work;
  job->figure = figure;
  job->cancellable = g_cancellable_new ();
  job->stem = g_strdup_printf ("%s%s.%s-%" G_GINT64_FORMAT, work->directory, G_DIR_SEPARATOR_S, figure->name,
                               g_get_real_time ());
  g_autofree char *data_path = g_strconcat (job->stem, suffixes[0], NULL);
  if (script == NULL)
    {
      g_set_error (error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_GNUPLOT, "cannot find the gnuplot script '%s'",
                   figure->script);
      job_free (job);
      return FALSE;
    }
  g_autoptr (GError) cause = NULL;
  if (!g_file_set_contents (data_path, figure->data, -1, &cause))
    {
      g_set_error (error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_DIRECTORY, "cannot write into '%s': %s", work->directory,
                   cause->message);
      job_free (job);
      return FALSE;
    }

  g_ptr_array_add (argv, (gpointer) work->gnuplot);
  g_ptr_array_add (argv, (gpointer) "--default-settings");
  g_ptr_array_add (argv, (gpointer) "-c");
  g_ptr_array_add (argv, script);
  g_ptr_array_add (argv, data_path);
  g_ptr_array_add (argv, job->stem);
  for (char **argument = figure->arguments; *argument != NULL; argument++)
    g_ptr_array_add (argv, *argument);
  g_ptr_array_add (argv, NULL);
  job->process = psi_child_new ((const char *const *) argv->pdata,
                                G_SUBPROCESS_FLAGS_STDERR_PIPE | G_SUBPROCESS_FLAGS_STDOUT_SILENCE, NULL, &cause);
  if (job->process == NULL)
    {
      g_set_error (error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_GNUPLOT, "cannot run gnuplot: %s", cause->message);
      job_free (job);
      return FALSE;
    }
  job->timeout = g_timeout_source_new_seconds (TIMEOUT_S);
  g_source_set_callback (job->timeout, on_timeout, job, NULL);
  g_source_attach (job->timeout, g_main_context_get_thread_default ());
  g_subprocess_communicate_utf8_async (job->process, NULL, job->cancellable, on_finished, job);
  work->running++;
  return TRUE;
}

/* Keep as many at work as there are processors. After an error no more are begun. */
static void
start_jobs (Work *work)
{
  while (work->error == NULL && work->next < work->figures->len && work->running < g_get_num_processors ())
    start_job (work, work->figures->pdata[work->next++], &work->error);
  if (work->running == 0)
    g_main_loop_quit (work->loop);
}

/* Takes `figures`. */
static guint
draw (GPtrArray *figures, const char *directory, GError **error)
{
  g_autoptr (GPtrArray) owned G_GNUC_UNUSED = figures;
  g_autofree char *gnuplot = g_find_program_in_path ("gnuplot");

  if (gnuplot == NULL)
    {
      g_set_error (error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_GNUPLOT,
                   "cannot draw: gnuplot is not installed or not in PATH");
      return 0;
    }
  if (g_mkdir_with_parents (directory, 0777) != 0)
    {
      g_set_error (error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_DIRECTORY, "cannot make the directory '%s': %s", directory,
                   g_strerror (errno));
      return 0;
    }

  g_autoptr (GMainContext) context = g_main_context_new ();
  g_autoptr (GMainLoop) loop = g_main_loop_new (context, FALSE);
  Work work = { .directory = directory, .gnuplot = gnuplot, .figures = figures, .loop = loop };

  g_main_context_push_thread_default (context);
  start_jobs (&work);
  if (work.running > 0)
    g_main_loop_run (loop);
  g_main_context_pop_thread_default (context);
  if (work.error != NULL)
    {
      g_propagate_error (error, work.error);
      return 0;
    }
  return figures->len;
}

guint
psi_plot_report (const PsiReport *report, const char *directory, GError **error)
{
  return draw (list_figures (report), directory, error);
}

guint
psi_plot_profile (const PsiProfile *profile, const char *directory, GError **error)
{
  GPtrArray *figures = g_ptr_array_new_with_free_func (figure_free);
  const char *previous = NULL;

  for (guint i = 0; i < profile->curves->len; i++)
    {
      const PsiCurve *curve = profile->curves->pdata[i];
      guint n_series = 0;

      if (g_strcmp0 (previous, curve->name) == 0)
        continue; /* curves of one name are neighbours and share a figure */
      previous = curve->name;
      char *data = psi_plot_data_curves (profile, curve->name, &n_series);
      char *stem =
          g_strcanon (g_strconcat ("fit-", curve->name, NULL), G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_-", '-');
      add_figure (figures, "fit.gp", stem, data,
                  g_strdup_printf ("%s: measured and fitted, %s", curve->name, profile->name), number_text (n_series),
                  NULL);
    }
  if (figures->len == 0)
    {
      g_set_error (error, PSI_PLOT_ERROR, PSI_PLOT_ERROR_DIRECTORY, "no curves to draw: only products were measured");
      g_ptr_array_unref (figures);
      return 0;
    }
  return draw (figures, directory, error);
}

gboolean
psi_plot_figure (const char *script, const char *name, const char *data, const char *title, const char *argument,
                 const char *directory, GError **error)
{
  GPtrArray *figures = g_ptr_array_new_with_free_func (figure_free);

  add_figure (figures, script, g_strdup (name), g_strdup (data), g_strdup (title), g_strdup (argument), NULL);
  return draw (figures, directory, error) > 0;
}
