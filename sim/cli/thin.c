/* SPDX-License-Identifier: MIT */
#include "thin.h"

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

GArray *
psi_thin_spans (const GArray *all, gint64 step_ps, guint max_spans, gboolean *thinned)
{
  GArray *spans = g_array_sized_new (FALSE, FALSE, sizeof (PsiSpan), all->len);
  gint64 gap_ps = step_ps / 100000;

  g_array_append_vals (spans, all->data, all->len);
  g_array_sort (spans, compare_spans);
  if (spans->len > max_spans)
    join_spans (spans, 0, FALSE);
  for (guint round = 0; spans->len > max_spans && round < 12; round++, gap_ps *= 2)
    {
      join_spans (spans, gap_ps, round > 7);
      if (thinned != NULL)
        *thinned = TRUE;
    }
  if (spans->len > max_spans)
    g_array_set_size (spans, max_spans);
  return spans;
}

static gint64
memory_sum (gconstpointer data)
{
  const PsiMemoryPoint *point = data;
  gint64 sum = 0;

  for (guint c = 0; c < PSI_N_MEMORY; c++)
    sum += point->bytes[c];
  return sum;
}

static gint64
traffic_sum (gconstpointer data)
{
  return ((const PsiTrafficPoint *) data)->bytes;
}

/* Both kinds of points begin with their time. */
static GArray *
thin_points (const GArray *all, guint max_points, gint64 (*sum) (gconstpointer), gboolean *thinned)
{
  guint size = g_array_get_element_size ((GArray *) all), n = all->len, n_bins = MIN (n, max_points);
  GArray *points = g_array_sized_new (FALSE, FALSE, size, n_bins);

  if (n_bins < n && thinned != NULL)
    *thinned = TRUE;
  for (guint bin = 0; bin < n_bins; bin++)
    {
      guint first = (guint) ((guint64) bin * n / n_bins), end = (guint) ((guint64) (bin + 1) * n / n_bins);
      const char *highest = all->data + (gsize) first * size;

      for (guint i = first + 1; i < end; i++)
        if (sum (all->data + (gsize) i * size) > sum (highest))
          highest = all->data + (gsize) i * size;
      g_array_append_vals (points, highest, 1);
      *(gint64 *) (void *) (points->data + (gsize) bin * size) =
          *(const gint64 *) (const void *) (all->data + (gsize) first * size);
    }
  return points;
}

GArray *
psi_thin_memory (const GArray *points, guint max_points, gboolean *thinned)
{
  return thin_points (points, max_points, memory_sum, thinned);
}

GArray *
psi_thin_traffic (const GArray *points, guint max_points)
{
  return thin_points (points, max_points, traffic_sum, NULL);
}
