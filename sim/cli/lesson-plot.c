/* SPDX-License-Identifier: MIT */
/* Lessons draw what `compare --plot` draws. */
#include "lesson-plot.h"
#include "plot.h"

gboolean
psi_lesson_plot (PsiPlanReport *const *plans, guint n_plans, const char *title, const char *directory, GError **error)
{
  g_autoptr (PsiReport) report = psi_report_new ();

  report->title = g_strdup (title);
  for (guint i = 0; i < n_plans; i++)
    g_ptr_array_add (report->plans, plans[i]);
  guint n_figures = psi_plot_report (report, directory, error);
  g_ptr_array_set_free_func (report->plans, NULL); /* the caller's */
  return n_figures > 0;
}
