/* SPDX-License-Identifier: MIT */
/* The pictures of a lesson. */
#pragma once

#include "report.h"

/* Draw every figure there is for these plans into `directory`. The reports are borrowed. */
gboolean psi_lesson_plot (PsiPlanReport *const *plans, guint n_plans, const char *title, const char *directory,
                          GError **error);
