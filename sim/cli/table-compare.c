/* SPDX-License-Identifier: MIT */
/* The page that `compare` prints: one row for each plan, the best of each column marked, then the steps as bars. */
#include "table-report.h"
#include "table-units.h"

#include <math.h>

#define PAGE_WIDTH 100
#define BAR_WIDTH 60
#define MAX_NAME 15

typedef enum
{
  COLUMN_STEP,
  COLUMN_COMPUTE,
  COLUMN_EXPOSED,
  COLUMN_BUBBLE,
  COLUMN_RATE,
  COLUMN_PEAK,
  COLUMN_DEVICE,
  COLUMN_ACTIVATIONS,
  COLUMN_SENT,
  COLUMN_HOPS,
  COLUMN_DELAY,
  N_COLUMNS
} Column;

typedef enum
{
  FORMAT_TIME,
  FORMAT_PERCENT,
  FORMAT_COUNT,
  FORMAT_BYTES,
  FORMAT_NUMBER
} Format;

static const struct
{
  const char *title;
  Format format;
  int best; /* -1: the least is best, 1: the most, 0: not judged */
} columns[N_COLUMNS] = {
  [COLUMN_STEP] = { "step", FORMAT_TIME, -1 },         [COLUMN_COMPUTE] = { "compute", FORMAT_PERCENT, 0 },
  [COLUMN_EXPOSED] = { "exposed", FORMAT_PERCENT, 0 }, [COLUMN_BUBBLE] = { "bubble", FORMAT_PERCENT, 0 },
  [COLUMN_RATE] = { NULL, FORMAT_COUNT, 1 },           [COLUMN_PEAK] = { "peak", FORMAT_BYTES, -1 },
  [COLUMN_DEVICE] = { "device", FORMAT_BYTES, -1 },    [COLUMN_ACTIVATIONS] = { "act. sum", FORMAT_BYTES, -1 },
  [COLUMN_SENT] = { "sent", FORMAT_BYTES, -1 },        [COLUMN_HOPS] = { "chain", FORMAT_NUMBER, -1 },
  [COLUMN_DELAY] = { "delay", FORMAT_NUMBER, -1 },
};

typedef struct
{
  gboolean has_tokens;
  double largest[N_COLUMNS];
  double best[N_COLUMNS]; /* NAN where nothing is marked */
  PsiUnit units[N_COLUMNS];
} Summary;

static double
column_value (const PsiPlanReport *plan, Column column, gboolean has_tokens)
{
  const PsiRankReport *rank = psi_plan_main_rank (plan);
  double step = (double) MAX (plan->step_time_ps, 1);

  switch (column)
    {
    case COLUMN_STEP:
      return (double) plan->step_time_ps;
    case COLUMN_COMPUTE:
      return (double) (rank->time_ps[PSI_TIME_COMPUTE] + rank->time_ps[PSI_TIME_RECOMPUTE]) / step;
    case COLUMN_EXPOSED:
      return (double) rank->time_ps[PSI_TIME_EXPOSED_COMM] / step;
    case COLUMN_BUBBLE:
      return plan->bubble_fraction;
    case COLUMN_RATE:
      return has_tokens ? plan->tokens_per_s : plan->samples_per_s;
    case COLUMN_PEAK:
      return (double) plan->peak_bytes;
    case COLUMN_DEVICE:
      return (double) plan->device_bytes;
    case COLUMN_ACTIVATIONS:
      return (double) plan->activation_total_peak_bytes;
    case COLUMN_SENT:
      return (double) plan->per_gpu_bytes;
    case COLUMN_HOPS:
      return plan->sequential_steps;
    case COLUMN_DELAY:
      return plan->delay_mean;
    case N_COLUMNS:
    default:
      return (double) NAN;
    }
}

static void
find_best (const PsiReport *report, Column column, Summary *summary)
{
  double best = (double) NAN, worst = (double) NAN;

  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      double value = columns[column].best * column_value (plan, column, summary->has_tokens);
      if (plan->verdict == PSI_VERDICT_OOM || !isfinite (value))
        continue;
      best = isnan (best) ? value : MAX (best, value);
      worst = isnan (worst) ? value : MIN (worst, value);
    }
  /* Nothing to mark where all are equal, and no praise for having none. */
  summary->best[column] =
      columns[column].best == 0 || best <= worst || fabs (best) == 0 ? (double) NAN : columns[column].best * best;
}

/* Steps of different batches are different work: only samples or tokens per second compare. */
static gboolean
batches_differ (const PsiReport *report)
{
  double least = (double) NAN, most = (double) NAN;

  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      double samples = plan->samples_per_s * (double) plan->step_time_ps;

      if (!isfinite (samples))
        continue;
      least = isnan (least) ? samples : MIN (least, samples);
      most = isnan (most) ? samples : MAX (most, samples);
    }
  return most > least * (1 + 1e-9);
}

static void
summarize (const PsiReport *report, Summary *ret_summary)
{
  Summary summary = { .has_tokens = FALSE };

  for (guint i = 0; i < report->plans->len; i++)
    summary.has_tokens |= isfinite (((const PsiPlanReport *) report->plans->pdata[i])->tokens_per_s);
  for (guint c = 0; c < N_COLUMNS; c++)
    {
      for (guint i = 0; i < report->plans->len; i++)
        {
          double value = column_value (report->plans->pdata[i], c, summary.has_tokens);
          if (isfinite (value))
            summary.largest[c] = MAX (summary.largest[c], value);
        }
      summary.units[c] = columns[c].format == FORMAT_TIME ? psi_unit_for_time (summary.largest[c])
                                                          : psi_unit_for_bytes (summary.largest[c]);
      find_best (report, c, &summary);
    }
  if (batches_differ (report))
    summary.best[COLUMN_STEP] = (double) NAN;
  *ret_summary = summary;
}

static char *
format_value (double value, Column column, const Summary *summary)
{
  switch (columns[column].format)
    {
    case FORMAT_TIME:
    case FORMAT_BYTES:
      return psi_format_in_unit (value, &summary->units[column]);
    case FORMAT_PERCENT:
      return g_strdup_printf ("%.1f", 100 * value);
    case FORMAT_COUNT:
      return psi_format_count (value);
    case FORMAT_NUMBER:
    default:
      return psi_format_number (value);
    }
}

static const char *
column_unit (Column column, const Summary *summary)
{
  switch (columns[column].format)
    {
    case FORMAT_TIME:
    case FORMAT_BYTES:
      return summary->units[column].name;
    case FORMAT_PERCENT:
      return "%";
    case FORMAT_COUNT:
      return "per s";
    case FORMAT_NUMBER:
    default:
      return column == COLUMN_DELAY ? "steps" : "msgs";
    }
}

/* Long names keep their two ends, which is where they differ. */
static char *
short_name (const char *name)
{
  glong length = g_utf8_validate (name, -1, NULL) ? g_utf8_strlen (name, -1) : 0;

  if (length <= MAX_NAME)
    return g_strdup (name);
  g_autofree char *head = g_utf8_substring (name, 0, MAX_NAME / 2 - 1);
  g_autofree char *tail = g_utf8_substring (name, length - (MAX_NAME / 2 - 1), length);
  return g_strconcat (head, "..", tail, NULL);
}

static void
add_heading_rows (PsiTable *table, const Summary *summary)
{
  psi_table_add (table, PSI_STYLE_BOLD, "");
  psi_table_add (table, PSI_STYLE_BOLD, "");
  psi_table_add (table, PSI_STYLE_BOLD, "");
  for (guint c = 0; c < N_COLUMNS; c++)
    {
      const char *title = c != COLUMN_RATE ? columns[c].title : summary->has_tokens ? "tokens" : "samples";
      psi_table_take (table, PSI_STYLE_BOLD, g_strconcat (title, " ", NULL));
    }
  psi_table_add (table, PSI_STYLE_BOLD, "plan");
  psi_table_add (table, PSI_STYLE_BOLD, "GPUs ");
  psi_table_add (table, PSI_STYLE_BOLD, "verdict");
  for (guint c = 0; c < N_COLUMNS; c++)
    psi_table_take (table, PSI_STYLE_DIM, g_strconcat (column_unit (c, summary), " ", NULL));
  psi_table_add_rule (table);
}

static void
add_plan_row (PsiTable *table, const PsiPlanReport *plan, const Summary *summary)
{
  g_autofree char *name = short_name (plan->name);
  psi_table_take (table, PSI_STYLE_BOLD, g_strconcat (name, " ", NULL));
  psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u ", plan->gpus));
  psi_table_add (table, psi_verdict_style (plan->verdict), psi_verdict_names[plan->verdict]);
  for (guint c = 0; c < N_COLUMNS; c++)
    {
      double value = column_value (plan, c, summary->has_tokens);
      g_autofree char *text = format_value (value, c, summary);
      gboolean is_best = plan->verdict != PSI_VERDICT_OOM && value == summary->best[c];
      psi_table_take (table, is_best ? PSI_STYLE_GOOD : PSI_STYLE_PLAIN, g_strconcat (text, is_best ? "*" : " ", NULL));
    }
}

static void
append_bars (GString *out, const PsiReport *report, const PsiTerminal *terminal, const Summary *summary)
{
  g_autoptr (PsiTable) table = psi_table_new ("lrl", 2);
  gboolean is_used[PSI_N_TIME] = { FALSE };
  g_autoptr (GString) legend = g_string_new ("  ");

  if (report->plans->len < 2 || summary->largest[COLUMN_STEP] <= 0)
    return;
  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      const PsiRankReport *rank = psi_plan_main_rank (plan);
      PsiBarPart parts[PSI_N_TIME];
      for (guint part = 0; part < PSI_N_TIME; part++)
        {
          parts[part] = psi_time_bar_parts[part];
          parts[part].size = (double) rank->time_ps[part];
          is_used[part] |= rank->time_ps[part] > 0;
        }
      psi_table_take (table, PSI_STYLE_PLAIN, short_name (plan->name));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_time (plan->step_time_ps));
      psi_table_take (table, PSI_STYLE_PLAIN,
                      psi_bar (terminal, parts, PSI_N_TIME, summary->largest[COLUMN_STEP], BAR_WIDTH));
    }
  for (guint part = 0; part < PSI_N_TIME; part++)
    if (is_used[part])
      {
        PsiBarPart sample = psi_time_bar_parts[part];
        sample.size = 1;
        g_autofree char *mark = psi_bar (terminal, &sample, 1, 1, 1);
        g_string_append_printf (legend, "%s%s %s", legend->len > 2 ? "   " : "", mark, psi_time_part_titles[part]);
      }
  g_string_append_c (out, '\n');
  psi_append_styled (out, terminal, PSI_STYLE_BOLD, "Where a step goes");
  g_string_append_c (out, '\n');
  psi_table_append (table, out, terminal);
  g_string_append_printf (out, "%s\n", legend->str);
}

static void
append_misfits (GString *out, const PsiReport *report, const PsiTerminal *terminal)
{
  gboolean has_heading = FALSE;

  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      if (plan->verdict != PSI_VERDICT_OOM)
        continue;
      if (!has_heading)
        {
          g_string_append_c (out, '\n');
          psi_append_styled (out, terminal, PSI_STYLE_BOLD, "What does not fit");
          g_string_append_c (out, '\n');
          has_heading = TRUE;
        }
      g_autofree char *line = psi_verdict_line (plan);
      g_autoptr (GString) text = g_string_new (NULL);
      g_string_append_printf (text, "  %s: %s", plan->name, line + sizeof "oom: " - 1);
      if (plan->advice->len > 0)
        {
          const PsiAdvice *advice = &g_array_index (plan->advice, PsiAdvice, 0);
          g_autofree char *peak = psi_format_bytes ((double) advice->peak_bytes);
          g_autofree char *time = psi_format_time (advice->step_time_ps);
          g_string_append_printf (text, "; would fit with %s (peak %s, step %s)", advice->set, peak, time);
        }
      psi_append_wrapped (out, text->str, 4, PAGE_WIDTH);
    }
}

static void
append_critical_paths (GString *out, const PsiReport *report, const PsiTerminal *terminal)
{
  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      g_autofree char *heading = g_strdup_printf ("Critical path of %s", plan->name);

      if (plan->critical_path == NULL)
        continue;
      g_string_append_c (out, '\n');
      psi_append_styled (out, terminal, PSI_STYLE_BOLD, heading);
      g_string_append_c (out, '\n');
      psi_append_critical_summary (out, plan->critical_path, terminal);
    }
}

static void
append_helps (GString *out, const PsiReport *report, const PsiTerminal *terminal)
{
  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];

      if (plan->what_helps == NULL)
        continue;
      g_string_append_c (out, '\n');
      psi_append_styled (out, terminal, PSI_STYLE_BOLD, plan->name);
      psi_append_what_helps (out, plan, terminal);
    }
}

static void
append_notes (GString *out, const PsiReport *report, const PsiTerminal *terminal, const Summary *summary,
              gboolean verbose)
{
  static const char *const notes[] = {
    "compute (with recompute) and exposed: shares of the step of the rank that computes most; exposed is waiting for "
    "bytes on a link; bubble is the share of all GPUs' time spent waiting for another GPU's work",
    "peak and device: the fullest GPU, allocated by tensors and as nvidia-smi shows; act. sum: activations of all "
    "GPUs together at the worst instant",
    "sent: by one GPU in a step, mean; chain: most messages that must pass one after another between two ops; delay: "
    "mean age of the gradients, in updates where the rule is asynchronous",
  };
  gboolean has_best = FALSE;

  g_string_append_c (out, '\n');
  for (guint c = 0; c < N_COLUMNS; c++)
    has_best |= isfinite (summary->best[c]);
  if (has_best)
    g_string_append (out, "  * best of the plans that fit\n");
  if (batches_differ (report))
    g_string_append_printf (out, "  the plans differ in samples per step: %s per s compare, steps do not\n",
                            summary->has_tokens ? "tokens" : "samples");
  for (guint i = 0; i < G_N_ELEMENTS (notes); i++)
    {
      g_autofree char *line = g_strconcat ("  ", notes[i], NULL);
      psi_append_wrapped (out, line, 4, PAGE_WIDTH);
    }
  for (guint i = 0; i < report->plans->len; i++)
    {
      const PsiPlanReport *plan = report->plans->pdata[i];
      if (!verbose)
        continue;
      g_string_append_c (out, '\n');
      psi_append_styled (out, terminal, PSI_STYLE_BOLD, plan->name);
      g_string_append_printf (out, "%s%s\n", plan->layout != NULL ? "  " : "",
                              plan->layout != NULL ? plan->layout : "");
      for (guint k = 0; k < plan->assumptions->len; k++)
        {
          g_string_append (out, "  - ");
          psi_append_wrapped (out, plan->assumptions->pdata[k], 4, PAGE_WIDTH);
        }
    }
}

char *
psi_table_compare (const PsiReport *report, const PsiTerminal *terminal, gboolean verbose)
{
  g_autoptr (GString) out = g_string_new (NULL);
  g_autoptr (PsiTable) table = psi_table_new ("lrlrrrrrrrrrrr", 1);
  Summary summary;

  summarize (report, &summary);
  psi_append_source (out, report, terminal);
  g_string_append_c (out, '\n');
  add_heading_rows (table, &summary);
  for (guint i = 0; i < report->plans->len; i++)
    add_plan_row (table, report->plans->pdata[i], &summary);
  psi_table_append (table, out, terminal);
  append_bars (out, report, terminal, &summary);
  append_misfits (out, report, terminal);
  append_critical_paths (out, report, terminal);
  append_helps (out, report, terminal);
  append_notes (out, report, terminal, &summary, verbose);
  return g_strdup (out->str);
}
