/* SPDX-License-Identifier: MIT */
/* The data files of the figures: what each holds is written at the top of its script in plots/. */
#include "plot.h"
#include "report-walk.h"
#include "table-report.h"
#include "thin.h"

#define MAX_ROWS 64     /* classes on one picture */
#define MAX_SPANS 4000  /* of all of them */
#define MAX_POINTS 1000 /* of one curve: one for each pixel */

static const PsiRankReport *
rank_at (const PsiPlanReport *plan, guint i)
{
  return &g_array_index (plan->ranks, PsiRankReport, i);
}

/* A cell of text: no tab, line feed or quote, which gnuplot would take apart; '#' would begin a comment. */
static void
append_text (GString *out, const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);

  for (char *c = valid; *c != '\0'; c++)
    if ((guchar) *c < 0x20)
      *c = ' ';
    else if (*c == '"')
      *c = '\'';
    else if (*c == '#')
      *c = '*';
  g_string_append (out, *valid != '\0' ? valid : "-");
}

static void
append_bytes (GString *out, gint64 bytes)
{
  g_string_append_printf (out, "\t%" G_GINT64_FORMAT, bytes);
}

/* Which classes to show: all, or MAX_ROWS of them evenly spread with the fullest among them. */
static GArray *
choose_classes (const PsiPlanReport *plan)
{
  GArray *chosen = g_array_new (FALSE, FALSE, sizeof (guint));
  guint n = plan->ranks->len, n_rows = MIN (n, MAX_ROWS);
  gboolean has_fullest = FALSE;

  for (guint row = 0; row < n_rows; row++)
    {
      guint i = (guint) ((guint64) row * n / n_rows), next = (guint) ((guint64) (row + 1) * n / n_rows);
      for (guint k = i + 1; k < next && !has_fullest; k++)
        if (rank_at (plan, k) == psi_plan_fullest_rank (plan))
          {
            i = k;
            has_fullest = TRUE;
          }
      g_array_append_val (chosen, i);
    }
  return chosen;
}

char *
psi_plot_data_step_time (const PsiReport *report)
{
  g_autoptr (GString) out = g_string_new ("plan");

  for (guint part = 0; part < PSI_N_TIME; part++)
    g_string_append_printf (out, "\t%s_s", psi_time_part_names[part]);
  g_string_append_c (out, '\n');
  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      append_text (out, plan->name);
      for (guint part = 0; part < PSI_N_TIME; part++)
        {
          g_string_append_c (out, '\t');
          psi_append_seconds (out, psi_plan_main_rank (plan)->time_ps[part]);
        }
      g_string_append_c (out, '\n');
    }
  return g_strdup (out->str);
}

/* Sum over all GPUs as a curve of (time, change). */
typedef struct
{
  gint64 time_ps, delta_bytes;
} Change;

static int
compare_changes (gconstpointer a, gconstpointer b)
{
  gint64 first = ((const Change *) a)->time_ps, second = ((const Change *) b)->time_ps;

  return (first > second) - (first < second);
}

/* Changes into points, the highest of each run of them, and back. */
static void
thin_changes (GArray *changes)
{
  g_autoptr (GArray) curve = g_array_new (FALSE, FALSE, sizeof (PsiTrafficPoint));
  PsiTrafficPoint point = { 0, 0 };

  if (changes->len <= MAX_POINTS)
    return;
  for (guint i = 0; i < changes->len; i++)
    {
      point.time_ps = g_array_index (changes, Change, i).time_ps;
      point.bytes += g_array_index (changes, Change, i).delta_bytes;
      if (i + 1 == changes->len || g_array_index (changes, Change, i + 1).time_ps > point.time_ps)
        g_array_append_val (curve, point);
    }
  g_autoptr (GArray) points = psi_thin_traffic (curve, MAX_POINTS);
  gint64 before = 0;
  g_array_set_size (changes, 0);
  for (guint i = 0; i < points->len; i++)
    {
      const PsiTrafficPoint *kept = &g_array_index (points, PsiTrafficPoint, i);
      Change change = { kept->time_ps, kept->bytes - before };
      g_array_append_val (changes, change);
      before = kept->bytes;
    }
}

static GArray *
activation_changes (const PsiPlanReport *plan)
{
  GArray *changes = g_array_new (FALSE, FALSE, sizeof (Change));

  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *rank = rank_at (plan, i);
      gint64 before = 0;
      for (guint p = 0; rank->memory != NULL && p < rank->memory->len; p++)
        {
          const PsiMemoryPoint *point = &g_array_index (rank->memory, PsiMemoryPoint, p);
          gint64 now = point->bytes[PSI_MEMORY_ACTIVATIONS];
          Change change = { point->time_ps, (now - before) * rank->count };
          if (change.delta_bytes != 0)
            g_array_append_val (changes, change);
          before = now;
        }
    }
  g_array_sort (changes, compare_changes);
  thin_changes (changes);
  return changes;
}

char *
psi_plot_data_activations (const PsiReport *report)
{
  guint n_plans = report->plans->len;
  g_autoptr (GPtrArray) curves = g_ptr_array_new_with_free_func ((GDestroyNotify) g_array_unref);
  g_autofree guint *next = g_new0 (guint, n_plans);
  g_autofree gint64 *bytes = g_new0 (gint64, n_plans);
  g_autoptr (GString) out = g_string_new ("time_s");
  gboolean has_any = FALSE;

  for (guint i = 0; i < n_plans; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      g_ptr_array_add (curves, activation_changes (plan));
      has_any |= ((GArray *) curves->pdata[i])->len > 0;
      g_string_append_c (out, '\t');
      append_text (out, plan->name);
    }
  if (!has_any)
    return NULL;
  g_string_append_c (out, '\n');

  /* Merge: one row for each time at which anything changes or a step ends. */
  for (gint64 now = 0; now < G_MAXINT64;)
    {
      gint64 later = G_MAXINT64;
      psi_append_seconds (out, now);
      for (guint i = 0; i < n_plans; i++)
        {
          const PsiPlanReport *plan = report->plans->pdata[i];
          const GArray *changes = curves->pdata[i];
          for (; next[i] < changes->len && g_array_index (changes, Change, next[i]).time_ps <= now; next[i]++)
            bytes[i] += g_array_index (changes, Change, next[i]).delta_bytes;
          if (next[i] < changes->len && g_array_index (changes, Change, next[i]).time_ps < plan->step_time_ps)
            later = MIN (later, g_array_index (changes, Change, next[i]).time_ps);
          if (now < plan->step_time_ps)
            later = MIN (later, plan->step_time_ps);
          if (now <= plan->step_time_ps)
            append_bytes (out, bytes[i]);
          else
            g_string_append_c (out, '\t');
        }
      g_string_append_c (out, '\n');
      now = later;
    }
  return g_strdup (out->str);
}

static void
append_memory_point (GString *out, gint64 time_ps, const PsiMemoryPoint *point)
{
  psi_append_seconds (out, time_ps);
  for (guint c = 0; c < PSI_N_MEMORY; c++)
    append_bytes (out, point->bytes[c]);
  g_string_append_c (out, '\n');
}

char *
psi_plot_data_memory (const PsiPlanReport *plan)
{
  const PsiRankReport *rank = psi_plan_fullest_rank (plan);
  g_autoptr (GString) out = g_string_new ("time_s");

  if (rank->memory == NULL || rank->memory->len == 0)
    return NULL;
  for (guint c = 0; c < PSI_N_MEMORY; c++)
    g_string_append_printf (out, "\t%s_bytes", psi_memory_class_names[c]);
  g_string_append_c (out, '\n');
  g_autoptr (GArray) points = psi_thin_memory (rank->memory, MAX_POINTS, NULL);
  for (guint p = 0; p < points->len; p++)
    {
      const PsiMemoryPoint *point = &g_array_index (points, PsiMemoryPoint, p);
      append_memory_point (out, point->time_ps, point);
    }
  const PsiMemoryPoint *last = &g_array_index (points, PsiMemoryPoint, points->len - 1);
  if (last->time_ps < plan->step_time_ps)
    append_memory_point (out, plan->step_time_ps, last);
  return g_strdup (out->str);
}

char *
psi_plot_data_memory_classes (const PsiPlanReport *plan, guint *ret_n_rows)
{
  g_autoptr (GArray) chosen = choose_classes (plan);
  g_autoptr (GString) out = g_string_new ("rank\tcount");

  if (chosen->len == 0)
    return NULL;
  for (guint c = 0; c < PSI_N_MEMORY; c++)
    g_string_append_printf (out, "\t%s_bytes", psi_memory_class_names[c]);
  g_string_append (out, "\tcache_bytes\toverhead_bytes\n");
  for (guint row = 0; row < chosen->len; row++)
    {
      const PsiRankReport *rank = rank_at (plan, g_array_index (chosen, guint, row));
      g_string_append_printf (out, "%u\t%u", rank->rank, rank->count);
      for (guint c = 0; c < PSI_N_MEMORY; c++)
        append_bytes (out, rank->at_peak[c]);
      append_bytes (out, MAX (rank->reserved_bytes - rank->peak_bytes, 0));
      append_bytes (out, rank->overhead_bytes);
      g_string_append_c (out, '\n');
    }
  *ret_n_rows = chosen->len;
  return g_strdup (out->str);
}

char *
psi_plot_data_memory_plans (const PsiReport *report)
{
  g_autoptr (GString) out = g_string_new ("plan");

  if (report->plans->len < 2)
    return NULL;
  for (guint c = 0; c < PSI_N_MEMORY; c++)
    g_string_append_printf (out, "\t%s_bytes", psi_memory_class_names[c]);
  g_string_append (out, "\tcache_bytes\toverhead_bytes\n");
  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      const PsiRankReport *rank = psi_plan_fullest_rank (plan);
      append_text (out, plan->name);
      for (guint c = 0; c < PSI_N_MEMORY; c++)
        append_bytes (out, rank->at_peak[c]);
      append_bytes (out, MAX (rank->reserved_bytes - rank->peak_bytes, 0));
      append_bytes (out, rank->overhead_bytes);
      g_string_append_c (out, '\n');
    }
  return g_strdup (out->str);
}

/* A span that runs over the end of the step goes on at its beginning, because the step repeats. */
static void
append_span (GString *out, guint row, const PsiRankReport *rank, const PsiSpan *span, gint64 step_ps)
{
  const gint64 pieces[2][2] = {
    { MIN (span->start_ps, step_ps), MIN (span->end_ps, step_ps) },
    { 0, MIN (span->end_ps - step_ps, step_ps) },
  };

  for (guint i = 0; i < G_N_ELEMENTS (pieces); i++)
    {
      if (pieces[i][1] <= pieces[i][0])
        continue;
      g_string_append_printf (out, "%u\t%u\t%u\t%u\t", row, rank->rank, rank->count, span->kind);
      if (span->micro_batch >= 0)
        g_string_append_printf (out, "%d", span->micro_batch);
      g_string_append_c (out, '\t');
      if (span->stage >= 0)
        g_string_append_printf (out, "%d", span->stage);
      for (guint end = 0; end < 2; end++)
        {
          g_string_append_c (out, '\t');
          psi_append_seconds (out, pieces[i][end]);
        }
      g_string_append_c (out, '\n');
    }
}

char *
psi_plot_data_timeline (const PsiPlanReport *plan, guint *ret_n_rows, char **ret_kinds)
{
  g_autoptr (GArray) chosen = choose_classes (plan);
  g_autoptr (GString) out = g_string_new ("row\trank\tcount\tkind\tmicro_batch\tstage\tstart_s\tend_s\n");
  g_autoptr (GString) kinds = g_string_new (NULL);
  gboolean is_used[PSI_N_SPAN] = { FALSE };

  for (guint row = 0; row < chosen->len; row++)
    {
      const PsiRankReport *rank = rank_at (plan, g_array_index (chosen, guint, row));
      if (rank->spans == NULL)
        continue;
      g_autoptr (GArray) spans = psi_thin_spans (rank->spans, psi_plan_window_ps (plan), MAX_SPANS / chosen->len, NULL);
      for (guint s = 0; s < spans->len; s++)
        {
          const PsiSpan *span = &g_array_index (spans, PsiSpan, s);
          is_used[span->kind] = TRUE;
          append_span (out, row, rank, span, psi_plan_window_ps (plan));
        }
    }
  for (guint k = 0; k < PSI_N_SPAN; k++)
    if (is_used[k])
      g_string_append_printf (kinds, "%s%u", kinds->len > 0 ? " " : "", k);
  if (kinds->len == 0)
    return NULL;
  *ret_n_rows = chosen->len;
  *ret_kinds = g_strdup (kinds->str);
  return g_strdup (out->str);
}

char *
psi_plot_data_traffic (const PsiPlanReport *plan)
{
  g_autoptr (GString) out = g_string_new ("time_s\tbytes\n");
  gint64 bytes = 0, time_ps = -1;

  if (plan->traffic == NULL || plan->total_bytes == 0)
    return NULL;
  g_autoptr (GArray) points = psi_thin_traffic (plan->traffic, MAX_POINTS);
  for (guint i = 0; i < points->len; i++)
    {
      const PsiTrafficPoint *point = &g_array_index (points, PsiTrafficPoint, i);
      if (i == 0 && point->time_ps > 0)
        g_string_append (out, "0\t0\n");
      psi_append_seconds (out, point->time_ps);
      append_bytes (out, point->bytes);
      g_string_append_c (out, '\n');
      bytes = point->bytes;
      time_ps = point->time_ps;
    }
  if (time_ps < plan->step_time_ps)
    {
      psi_append_seconds (out, plan->step_time_ps);
      append_bytes (out, bytes);
      g_string_append_c (out, '\n');
    }
  return g_strdup (out->str);
}
