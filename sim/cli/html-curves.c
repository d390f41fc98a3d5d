/* SPDX-License-Identifier: MIT */
/* The figures of the page as numbers. Where there are more than a screen can show, spans of the same work that nearly
 * touch become one, and of the memory points of a short stretch only the highest stays. */
#include "html-report.h"
#include "table-report.h"

#include <string.h>

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

static int
compare_spans (gconstpointer a, gconstpointer b)
{
  const PsiSpan *first = a, *second = b;
  gboolean comm = first->kind == PSI_SPAN_COMMUNICATION, other = second->kind == PSI_SPAN_COMMUNICATION;

  if (comm != other)
    return comm - other;
  return (first->start_ps > second->start_ps) - (first->start_ps < second->start_ps);
}

/* Join spans of one kind that are at most `gap_ps` apart; `any`: whatever they work for. */
static void
join_spans (GArray *spans, gint64 gap_ps, gboolean any)
{
  guint kept = 0;

  for (guint i = 0; i < spans->len; i++)
    {
      PsiSpan span = g_array_index (spans, PsiSpan, i);
      PsiSpan *before = kept > 0 ? &g_array_index (spans, PsiSpan, kept - 1) : NULL;

      if (before != NULL && before->kind == span.kind && span.start_ps - before->end_ps <= gap_ps &&
          (any || (before->micro_batch == span.micro_batch && before->stage == span.stage)))
        {
          before->end_ps = MAX (before->end_ps, span.end_ps);
          if (before->micro_batch != span.micro_batch)
            before->micro_batch = -1;
          if (before->stage != span.stage)
            before->stage = -1;
        }
      else
        g_array_index (spans, PsiSpan, kept++) = span;
    }
  g_array_set_size (spans, kept);
}

static GArray *
thin_spans (Drawing *drawing, const GArray *all)
{
  GArray *spans = g_array_sized_new (FALSE, FALSE, sizeof (PsiSpan), all->len);
  gint64 gap_ps = drawing->plan->step_time_ps / 100000;

  g_array_append_vals (spans, all->data, all->len);
  g_array_sort (spans, compare_spans);
  join_spans (spans, 0, FALSE);
  for (guint round = 0; spans->len > drawing->max_spans && round < 12; round++, gap_ps *= 2)
    {
      join_spans (spans, gap_ps, round > 7);
      drawing->is_thinned = TRUE;
    }
  if (spans->len > drawing->max_spans)
    g_array_set_size (spans, drawing->max_spans);
  return spans;
}

static void
append_spans (GString *out, Drawing *drawing, const PsiRankReport *rank)
{
  gint64 at = 0;

  g_string_append (out, "\"spans\":[");
  if (rank->spans != NULL)
    {
      g_autoptr (GArray) spans = thin_spans (drawing, rank->spans);

      for (guint i = 0; i < spans->len; i++)
        {
          const PsiSpan *span = &g_array_index (spans, PsiSpan, i);
          gint64 start = tick_of (drawing->plan, span->start_ps), end = tick_of (drawing->plan, span->end_ps);

          g_string_append_printf (out, "%s%u,%d,%d,%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT, i > 0 ? "," : "",
                                  span->kind, span->micro_batch, span->stage, start - at, MAX (end - start, 0));
          at = start;
        }
    }
  g_string_append_c (out, ']');
}

static gint64
sum_of (const PsiMemoryPoint *point)
{
  gint64 sum = 0;

  for (guint c = 0; c < PSI_N_MEMORY; c++)
    sum += point->bytes[c];
  return sum;
}

static void
append_memory (GString *out, Drawing *drawing, const PsiRankReport *rank)
{
  const GArray *points = rank->memory;
  guint n = points != NULL ? points->len : 0, n_bins = MIN (n, drawing->max_points);
  PsiMemoryPoint before = { 0 };
  gint64 at = 0;

  drawing->is_thinned |= n_bins < n;
  g_string_append (out, "\"memory\":[");
  for (guint bin = 0; bin < n_bins; bin++)
    {
      guint first = (guint) ((guint64) bin * n / n_bins), end = (guint) ((guint64) (bin + 1) * n / n_bins);
      const PsiMemoryPoint *highest = &g_array_index (points, PsiMemoryPoint, first);
      gint64 tick = tick_of (drawing->plan, highest->time_ps);

      for (guint i = first + 1; i < end; i++)
        if (sum_of (&g_array_index (points, PsiMemoryPoint, i)) > sum_of (highest))
          highest = &g_array_index (points, PsiMemoryPoint, i);
      g_string_append_printf (out, "%s[%" G_GINT64_FORMAT, bin > 0 ? "," : "", tick - at);
      for (guint c = 0; c < PSI_N_MEMORY; c++)
        if (highest->bytes[c] != before.bytes[c])
          g_string_append_printf (out, ",%u,%" G_GINT64_FORMAT, c, highest->bytes[c] - before.bytes[c]);
      g_string_append_c (out, ']');
      before = *highest;
      at = tick;
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
