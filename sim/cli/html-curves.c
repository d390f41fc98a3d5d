/* SPDX-License-Identifier: MIT */
/* The figures of the page as numbers. */
#include "html-report.h"
#include "table-report.h"
#include "thin.h"

#define TICKS G_GINT64_CONSTANT (1000000)
#define MAX_ROWS 64
#define MAX_SPANS 36000  /* on a page; some 20 bytes each */
#define MAX_POINTS 14000 /* some 30 bytes each */

typedef struct
{
  const PsiPlanReport *plan;
  guint max_spans, max_points; /* of a row */
  gboolean is_thinned;
} Drawing;

static gint64
tick_of (const PsiPlanReport *plan, gint64 time_ps)
{
  if (plan->step_time_ps <= 0)
    return 0;
  return (gint64) ((double) time_ps / (double) plan->step_time_ps * (double) TICKS + 0.5);
}

static void
append_spans (GString *out, Drawing *drawing, const PsiRankReport *rank)
{
  gint64 at = 0;
  guint n = 0;

  g_string_append (out, "\"spans\":[");
  if (rank->spans != NULL)
    {
      g_autoptr (GArray) spans =
          psi_thin_spans (rank->spans, drawing->plan->step_time_ps, drawing->max_spans, &drawing->is_thinned);

      for (guint i = 0; i < spans->len; i++)
        {
          const PsiSpan *span = &g_array_index (spans, PsiSpan, i);
          /* The page shows one step; only ranks that do not repeat with it have more. */
          gboolean cut = drawing->plan->window_ps > drawing->plan->step_time_ps;

          if (cut && span->start_ps >= drawing->plan->step_time_ps)
            continue;
          gint64 start = tick_of (drawing->plan, span->start_ps),
                 end = tick_of (drawing->plan, cut ? MIN (span->end_ps, drawing->plan->step_time_ps) : span->end_ps);

          g_string_append_printf (out, "%s%u,%d,%d,%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT, n++ > 0 ? "," : "",
                                  span->kind, span->micro_batch, span->stage, start - at, MAX (end - start, 0));
          at = start;
        }
    }
  g_string_append_c (out, ']');
}

static void
append_memory (GString *out, Drawing *drawing, const PsiRankReport *rank)
{
  PsiMemoryPoint before = { 0 };
  gint64 at = 0;

  g_string_append (out, "\"memory\":[");
  if (rank->memory != NULL)
    {
      g_autoptr (GArray) points = psi_thin_memory (rank->memory, drawing->max_points, &drawing->is_thinned);

      for (guint i = 0; i < points->len; i++)
        {
          const PsiMemoryPoint *point = &g_array_index (points, PsiMemoryPoint, i);
          gint64 tick = tick_of (drawing->plan, point->time_ps);

          g_string_append_printf (out, "%s[%" G_GINT64_FORMAT, i > 0 ? "," : "", tick - at);
          for (guint c = 0; c < PSI_N_MEMORY; c++)
            if (point->bytes[c] != before.bytes[c])
              g_string_append_printf (out, ",%u,%" G_GINT64_FORMAT, c, point->bytes[c] - before.bytes[c]);
          g_string_append_c (out, ']');
          before = *point;
          at = tick;
        }
    }
  g_string_append_c (out, ']');
}

static void
append_plan (GString *out, const PsiReport *report, const PsiPlanReport *plan)
{
  guint n = plan->ranks->len, n_rows = MIN (n, MAX_ROWS), n_drawn = MAX (n_rows, 1) * report->plans->len;
  Drawing drawing = { .plan = plan, .max_spans = MAX_SPANS / n_drawn, .max_points = MAX_POINTS / n_drawn };
  const PsiRankReport *fullest = psi_plan_fullest_rank (plan);
  gboolean has_fullest = FALSE;

  g_string_append_printf (out, "{\"of\":%u,\"rows\":[", n);
  for (guint row = 0; row < n_rows; row++)
    {
      guint i = (guint) ((guint64) row * n / n_rows), next = (guint) ((guint64) (row + 1) * n / n_rows);
      for (guint k = i; k < next && !has_fullest; k++)
        if (&g_array_index (plan->ranks, PsiRankReport, k) == fullest)
          {
            i = k;
            has_fullest = TRUE;
          }
      const PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, i);
      g_string_append_printf (out, "%s{\"rank\":%u,\"stage\":%d,\"count\":%u,\"fullest\":%s,", row > 0 ? ",\n" : "",
                              rank->rank, rank->stage, rank->count, rank == fullest ? "true" : "false");
      append_spans (out, &drawing, rank);
      g_string_append_c (out, ',');
      append_memory (out, &drawing, rank);
      g_string_append_c (out, '}');
    }
  g_string_append_printf (out, "],\"thinned\":%s}", drawing.is_thinned ? "true" : "false");
}

char *
psi_html_report_curves (const PsiReport *report)
{
  g_autoptr (GString) out = g_string_new (NULL);

  g_string_append_printf (out, "{\"step_ticks\":%d,\"plans\":[", (int) TICKS);
  for (guint i = 0; i < report->plans->len; i++)
    {
      if (i > 0)
        g_string_append (out, ",\n");
      append_plan (out, report, report->plans->pdata[i]);
    }
  g_string_append (out, "]}");
  return g_strdup (out->str);
}
