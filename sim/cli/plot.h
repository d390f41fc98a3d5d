/* SPDX-License-Identifier: MIT */
/* Pictures of a report: data files, and gnuplot (5.2 or later) over them. */
#pragma once

#include "profile.h"
#include "report.h"

/* Draw every figure that the report has data for into `directory`, which is made if need be: for each figure NAME.tsv
 * (tab-separated, seconds and bytes), NAME.svg and NAME.png. All plans together: step-time, activations, and
 * memory-plans of two or more; for each plan PLAN-memory, PLAN-memory-classes, PLAN-timeline, PLAN-traffic. A picture
 * is complete or not there. Returns the number of figures drawn, or 0 with an error. */
guint psi_plot_report (const PsiReport *report, const char *directory, GError **error);

/* Draw the curves of a profile, one figure fit-CURVE for each name: points, fitted segments. Returns as above. */
guint psi_plot_profile (const PsiProfile *profile, const char *directory, GError **error);

/* Draw one figure NAME with a script of plots/: `data` is its TSV, `argument` what follows the title. */
gboolean psi_plot_figure (const char *script, const char *name, const char *data, const char *title,
                          const char *argument, const char *directory, GError **error);

#define PSI_PLOT_ERROR (psi_plot_error_quark ())
typedef enum
{
  PSI_PLOT_ERROR_DIRECTORY, /* cannot be made or written */
  PSI_PLOT_ERROR_GNUPLOT    /* not installed, failed, or took too long */
} PsiPlotError;
GQuark psi_plot_error_quark (void);

/* The data of one figure, for tests. Each returns (transfer full) the text of the TSV, NULL if there is nothing to
 * draw. Rows that do not fit on a picture are left out, the fullest class never is. */
char *psi_plot_data_step_time (const PsiReport *report);
char *psi_plot_data_activations (const PsiReport *report);
char *psi_plot_data_memory_plans (const PsiReport *report); /* of two plans or more */
char *psi_plot_data_memory (const PsiPlanReport *plan);
char *psi_plot_data_memory_classes (const PsiPlanReport *plan, guint *ret_n_rows);
char *psi_plot_data_timeline (const PsiPlanReport *plan, guint *ret_n_rows, char **ret_kinds);
char *psi_plot_data_traffic (const PsiPlanReport *plan);

/* All curves of that name, one block each: size in bytes, then seconds: median, 10th and 90th percentile, fitted. */
char *psi_plot_data_curves (const PsiProfile *profile, const char *name, guint *ret_n_series);
