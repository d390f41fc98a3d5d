/* SPDX-License-Identifier: MIT */
/* The page that `run` prints: verdict first, then time, memory, communication, and what was assumed. */
#include "table-report.h"
#include "table-units.h"

#include <math.h>
#include <string.h>

#define PAGE_WIDTH 100
#define HOST_SHARE 0.05 /* of a step that is worth a line */
#define BAR_WIDTH 40
#define MAX_CLASSES 16 /* more rows of memory only with -v */

const char *const psi_time_part_titles[PSI_N_TIME] = {
  [PSI_TIME_COMPUTE] = "compute", [PSI_TIME_RECOMPUTE] = "recompute", [PSI_TIME_EXPOSED_COMM] = "exposed communication",
  [PSI_TIME_BUBBLE] = "bubble",   [PSI_TIME_OPTIMIZER] = "optimizer", [PSI_TIME_OTHER] = "other",
};

const PsiBarPart psi_time_bar_parts[PSI_N_TIME] = {
  [PSI_TIME_COMPUTE] = { 0, PSI_STYLE_BLUE, '#', "\u2588" },
  [PSI_TIME_RECOMPUTE] = { 0, PSI_STYLE_CYAN, '+', "\u2593" },
  [PSI_TIME_EXPOSED_COMM] = { 0, PSI_STYLE_YELLOW, '=', "\u2592" },
  [PSI_TIME_BUBBLE] = { 0, PSI_STYLE_DIM, '.', "\u2591" },
  [PSI_TIME_OPTIMIZER] = { 0, PSI_STYLE_MAGENTA, 'o', "\u2580" },
  [PSI_TIME_OTHER] = { 0, PSI_STYLE_PLAIN, '~', "\u2584" },
};

static const char *const time_part_notes[PSI_N_TIME] = {
  [PSI_TIME_COMPUTE] = "forward and backward",
  [PSI_TIME_RECOMPUTE] = "forward again, to save memory",
  [PSI_TIME_EXPOSED_COMM] = "waiting for bytes on a link",
  [PSI_TIME_BUBBLE] = "waiting for another GPU's work",
  [PSI_TIME_OPTIMIZER] = "updating the parameters",
  [PSI_TIME_OTHER] = "host and what remains",
};

/* Rows of rank classes */

const PsiRankReport *
psi_plan_main_rank (const PsiPlanReport *plan)
{
  static const PsiRankReport none = { .stage = -1 };

  return plan->main_rank < plan->ranks->len ? &g_array_index (plan->ranks, PsiRankReport, plan->main_rank) : &none;
}

const PsiRankReport *
psi_plan_fullest_rank (const PsiPlanReport *plan)
{
  const PsiRankReport *fullest = psi_plan_main_rank (plan);

  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, i);
      if (i == 0 || rank->device_bytes > fullest->device_bytes)
        fullest = rank;
    }
  return fullest;
}

PsiStyle
psi_verdict_style (PsiVerdict verdict)
{
  static const PsiStyle styles[] = {
    [PSI_VERDICT_FITS] = PSI_STYLE_GOOD,
    [PSI_VERDICT_TIGHT] = PSI_STYLE_WARNING,
    [PSI_VERDICT_OOM] = PSI_STYLE_BAD,
  };

  return styles[verdict];
}

/* " on rank 3 (stage 3)" tells which GPU, where there is a choice. */
static char *
where_fullest (const PsiPlanReport *plan)
{
  const PsiRankReport *rank = psi_plan_fullest_rank (plan);

  if (plan->gpus <= 1 || plan->ranks->len == 0)
    return g_strdup ("");
  return rank->stage >= 0 ? g_strdup_printf (" (rank %u, stage %d)", rank->rank, rank->stage)
                          : g_strdup_printf (" (rank %u)", rank->rank);
}

static guint
count_too_full (const PsiPlanReport *plan)
{
  guint n = 0;

  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, i);
      if (rank->device_bytes > plan->capacity_bytes)
        n += rank->count;
    }
  return n;
}

/* "44.16 of 79.15 GiB", or "80.1 MiB of 79.15 GiB". */
static char *
used_of_capacity (const PsiPlanReport *plan)
{
  g_autofree char *used = psi_format_bytes ((double) plan->device_bytes);
  g_autofree char *whole = psi_format_bytes ((double) plan->capacity_bytes);
  const char *unit = strchr (used, ' ');

  if (g_str_has_suffix (whole, unit))
    return g_strdup_printf ("%.*s of %s", (int) (unit - used), used, whole);
  return g_strdup_printf ("%s of %s", used, whole);
}

char *
psi_verdict_line (const PsiPlanReport *plan)
{
  g_autofree char *where = where_fullest (plan);
  const char *gpu = plan->gpus == 1 ? "the GPU" : "the fullest GPU";

  if (plan->capacity_bytes < 0)
    {
      g_autofree char *used = psi_format_bytes ((double) plan->device_bytes);
      return g_strdup_printf ("fits: %s on %s%s; this machine's memory has no end", used, gpu, where);
    }

  double capacity = (double) plan->capacity_bytes, left = capacity - (double) plan->device_bytes;
  g_autofree char *used = used_of_capacity (plan);
  if (plan->verdict != PSI_VERDICT_OOM)
    {
      g_autofree char *free_percent = psi_format_percent (left / capacity);
      return g_strdup_printf ("%s: %s on %s%s, %s%s free", psi_verdict_names[plan->verdict], used, gpu, where,
                              plan->verdict == PSI_VERDICT_TIGHT ? "only " : "", free_percent);
    }

  g_autofree char *missing = psi_format_bytes (MAX (-left, 0));
  g_autoptr (GString) line = g_string_new (NULL);
  guint n = count_too_full (plan);
  g_string_printf (line, "oom: out of memory by %s, %s needed on %s%s", missing, used, gpu, where);
  if (n > 0 && plan->gpus > 1)
    g_string_append_printf (line, "; %u of %u GPUs do not fit", n, plan->gpus);
  return g_strdup (line->str);
}

void
psi_append_source (GString *out, const PsiReport *report, const PsiTerminal *terminal)
{
  g_autofree char *parameters = psi_format_count ((double) report->model_parameters);
  const struct
  {
    const char *title, *name, *description;
  } rows[] = {
    { "model", report->model, report->model_description },
    { "machine", report->machine, report->machine_description },
  };

  if (report->title != NULL && *report->title != '\0')
    {
      psi_append_styled (out, terminal, PSI_STYLE_BOLD, report->title);
      g_string_append (out, "\n\n");
    }
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GString) line = g_string_new (rows[i].name != NULL ? rows[i].name : "-");
      if (i == 0 && report->model_parameters > 0)
        g_string_append_printf (line, ", %s parameters", parameters);
      if (rows[i].description != NULL && *rows[i].description != '\0')
        g_string_append_printf (line, ": %s", rows[i].description);
      if (i == 1 && report->machine_kind != NULL)
        g_string_append_printf (line, " (%s)", report->machine_kind);
      g_string_append_printf (out, "  %-10s", rows[i].title);
      psi_append_wrapped (out, line->str, 12, PAGE_WIDTH);
    }
}

static void
append_heading (GString *out, const PsiTerminal *terminal, const char *title, const char *note)
{
  g_string_append_c (out, '\n');
  psi_append_styled (out, terminal, PSI_STYLE_BOLD, title);
  if (note != NULL)
    {
      g_string_append (out, "  ");
      psi_append_styled (out, terminal, PSI_STYLE_DIM, note);
    }
  g_string_append_c (out, '\n');
}

static void
append_time (GString *out, const PsiPlanReport *plan, const PsiTerminal *terminal)
{
  const PsiRankReport *rank = psi_plan_main_rank (plan);
  PsiUnit unit = psi_unit_for_time ((double) plan->step_time_ps);
  double step = (double) MAX (plan->step_time_ps, 1), before = 0;
  g_autoptr (PsiTable) table = psi_table_new ("lrrll", 2);
  g_autofree char *step_text = psi_format_time (plan->step_time_ps);
  g_autoptr (GString) note = g_string_new (NULL);

  if (plan->gpus > 1)
    g_string_append_printf (note, "where it goes on rank %u, the one that computes most", rank->rank);
  g_autofree char *heading = g_strdup_printf ("Step time %s", step_text);
  append_heading (out, terminal, heading, note->len > 0 ? note->str : NULL);

  for (guint i = 0; i < PSI_N_TIME; i++)
    {
      double share = (double) rank->time_ps[i] / step;
      /* Each bar begins where the one above it ends. */
      PsiBarPart parts[2] = { { before, PSI_STYLE_PLAIN, ' ', " " }, psi_time_bar_parts[i] };
      parts[1].size = share;
      if (share < 1.0 / BAR_WIDTH)
        {
          /* Less than one cell still gets a thin mark. */
          parts[0].size = MIN (before, 1 - 1.0 / BAR_WIDTH);
          parts[1] = (PsiBarPart){ 1.0 / BAR_WIDTH, parts[1].style, '|', "\u258f" };
        }
      before += share;
      psi_table_add (table, PSI_STYLE_PLAIN, psi_time_part_titles[i]);
      g_autofree char *number = psi_format_in_unit ((double) rank->time_ps[i], &unit);
      psi_table_take (table, PSI_STYLE_PLAIN,
                      rank->time_ps[i] == 0 ? g_strdup ("-") : g_strdup_printf ("%s %s", number, unit.name));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_percent (share));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_bar (terminal, parts, rank->time_ps[i] > 0 ? 2 : 0, 1, BAR_WIDTH));
      psi_table_add (table, PSI_STYLE_DIM, rank->time_ps[i] > 0 ? time_part_notes[i] : "");
    }
  psi_table_append (table, out, terminal);

  if (plan->gpus > 1)
    {
      g_autofree char *bubble = psi_format_percent (plan->bubble_fraction);
      g_string_append_printf (out, "  bubble over all GPUs: %s of their time\n", bubble);
    }
  if ((double) plan->host_wait_ps >= HOST_SHARE * step)
    {
      g_autofree char *share = psi_format_percent ((double) plan->host_wait_ps / step);
      g_autofree char *text =
          g_strdup_printf ("  %s of the step the GPU waits for its host to issue kernels: %s", share,
                           plan->graphs ? "they are not all recorded, or too short for what is left"
                                        : "cuda_graphs=yes records them, larger micro-batches make them longer");
      psi_append_wrapped (out, text, 2, PAGE_WIDTH);
    }
  if (isfinite (plan->step_time_low_s) && isfinite (plan->step_time_high_s))
    {
      g_autofree char *low = psi_format_time ((gint64) (plan->step_time_low_s * 1e12));
      g_autofree char *high = psi_format_time ((gint64) (plan->step_time_high_s * 1e12));
      g_string_append_printf (out, "  8 of 10 measured runs lie between %s and %s\n", low, high);
    }
}

static void
append_throughput (GString *out, const PsiPlanReport *plan, const PsiTerminal *terminal)
{
  g_autofree char *samples = psi_format_count (plan->samples_per_s), *tokens = psi_format_count (plan->tokens_per_s);
  g_autofree char *share = psi_format_count (plan->tokens_per_s / MAX (plan->gpus, 1));
  g_autofree char *tflops = psi_format_number (plan->model_tflops_per_gpu);
  g_autofree char *mfu = psi_format_percent (plan->mfu), *hfu = psi_format_percent (plan->hfu);

  if (!isfinite (plan->samples_per_s))
    return;
  append_heading (out, terminal, "Throughput", NULL);
  g_string_append_printf (out, "  %s samples/s", samples);
  if (isfinite (plan->tokens_per_s))
    g_string_append_printf (out, ", %s tokens/s", tokens);
  if (isfinite (plan->tokens_per_s) && plan->gpus > 1)
    g_string_append_printf (out, " (%s per GPU)", share);
  g_string_append_c (out, '\n');
  if (!isfinite (plan->model_tflops_per_gpu))
    return;
  g_string_append_printf (out, "  %s model TFLOP/s per GPU", tflops);
  if (isfinite (plan->mfu))
    g_string_append_printf (out, ": %s of its peak (MFU)", mfu);
  if (isfinite (plan->hfu))
    g_string_append_printf (out, ", %s counting recompute (HFU)", hfu);
  g_string_append_c (out, '\n');
}

static void
add_rank_row (PsiTable *table, const PsiRankReport *rank, const PsiUnit *unit, gint64 capacity_bytes,
              gboolean is_fullest)
{
  gboolean is_too_full = capacity_bytes >= 0 && rank->device_bytes > capacity_bytes;

  psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u", rank->rank));
  psi_table_take (table, PSI_STYLE_PLAIN, rank->stage >= 0 ? g_strdup_printf ("%d", rank->stage) : g_strdup ("-"));
  psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u", rank->count));
  for (guint i = 0; i < PSI_N_MEMORY; i++)
    psi_table_take (table, PSI_STYLE_PLAIN, psi_format_in_unit ((double) rank->at_peak[i], unit));
  psi_table_take (table, PSI_STYLE_BOLD, psi_format_in_unit ((double) rank->peak_bytes, unit));
  g_autofree char *device = psi_format_in_unit ((double) rank->device_bytes, unit);
  psi_table_take (table, is_too_full ? PSI_STYLE_BAD : PSI_STYLE_BOLD, g_steal_pointer (&device));
  psi_table_add (table, PSI_STYLE_DIM, is_too_full ? "too full" : is_fullest ? "fullest" : "");
}

static void
append_memory (GString *out, const PsiPlanReport *plan, const PsiTerminal *terminal, gboolean verbose)
{
  static const char *const headings[] = { "rank",      "stage",       "GPUs",     "parameters", "gradients",
                                          "optimizer", "activations", "boundary", "workspace",  "comm.",
                                          "peak",      "device",      "" };
  PsiUnit unit = psi_unit_for_bytes ((double) MAX (plan->device_bytes, plan->peak_bytes));
  const PsiRankReport *fullest = psi_plan_fullest_rank (plan);
  g_autoptr (PsiTable) table = psi_table_new ("rrrrrrrrrrrrl", 2);
  guint n_hidden = 0;

  if (plan->ranks->len == 0)
    return;
  g_autofree char *heading = g_strdup_printf ("Memory of one GPU at its peak, %s", unit.name);
  append_heading (out, terminal, heading, NULL);
  psi_table_add_headings (table, PSI_STYLE_DIM, headings, G_N_ELEMENTS (headings));
  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, i);
      if (verbose || i < MAX_CLASSES || rank == fullest)
        add_rank_row (table, rank, &unit, plan->capacity_bytes, rank == fullest && plan->ranks->len > 1);
      else
        n_hidden++;
    }
  psi_table_append (table, out, terminal);
  if (n_hidden > 0)
    g_string_append_printf (out, "  ... %u more rows (-v shows all)\n", n_hidden);

  g_autofree char *steady = psi_format_bytes ((double) plan->steady_bytes);
  g_autofree char *reserved = psi_format_bytes ((double) plan->reserved_bytes);
  g_autofree char *overhead = psi_format_bytes ((double) fullest->overhead_bytes);
  g_autofree char *total = psi_format_bytes ((double) plan->activation_total_peak_bytes);
  g_autofree char *mean = psi_format_bytes (plan->activation_total_mean_bytes);
  g_autoptr (GString) text = g_string_new ("  ");
  g_string_append_printf (text,
                          "device is what nvidia-smi shows: the allocator holds %s, context and libraries %s; between "
                          "steps %s stay allocated",
                          reserved, overhead, steady);
  psi_append_wrapped (out, text->str, 2, PAGE_WIDTH);
  g_string_append_printf (out, "  activations of all GPUs together: at most %s, on average %s\n", total, mean);
}

static void
append_communication (GString *out, const PsiPlanReport *plan, const PsiTerminal *terminal)
{
  const PsiRankReport *rank = psi_plan_main_rank (plan);
  g_autoptr (PsiTable) table = psi_table_new ("lrrr", 2);

  append_heading (out, terminal, "Communication", plan->total_bytes == 0 ? NULL : "sent in one step by all GPUs");
  if (plan->total_bytes == 0)
    {
      g_string_append (out, "  none: nothing is sent between GPUs\n");
      return;
    }
  psi_table_add (table, PSI_STYLE_DIM, "kind");
  psi_table_add (table, PSI_STYLE_DIM, "bytes");
  psi_table_add (table, PSI_STYLE_DIM, "share");
  psi_table_add (table, PSI_STYLE_DIM, "exposed time");
  psi_table_add_rule (table);
  for (guint i = 0; i < PSI_N_TRAFFIC; i++)
    {
      if (plan->by_kind[i] == 0 && rank->exposed_ps[i] == 0)
        continue;
      psi_table_add (table, PSI_STYLE_PLAIN, psi_traffic_names[i]);
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_bytes ((double) plan->by_kind[i]));
      psi_table_take (table, PSI_STYLE_PLAIN,
                      psi_format_percent ((double) plan->by_kind[i] / (double) plan->total_bytes));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_time (rank->exposed_ps[i]));
    }
  psi_table_add (table, PSI_STYLE_BOLD, "total");
  psi_table_take (table, PSI_STYLE_BOLD, psi_format_bytes ((double) plan->total_bytes));
  psi_table_add (table, PSI_STYLE_PLAIN, "");
  psi_table_take (table, PSI_STYLE_BOLD, psi_format_time (rank->time_ps[PSI_TIME_EXPOSED_COMM]));
  psi_table_append (table, out, terminal);

  g_autofree char *mean = psi_format_bytes ((double) plan->per_gpu_bytes);
  g_autofree char *most = psi_format_bytes ((double) plan->per_gpu_max_bytes);
  g_autofree char *peak = psi_format_bytes ((double) plan->concurrent_peak_bytes);
  g_string_append_printf (out,
                          "  each GPU sends %s on average, %s at most; at most %s are on the links at once\n"
                          "  longest chain of messages between two ops: %u\n",
                          mean, most, peak, plan->sequential_steps);
}

static void
append_update (GString *out, const PsiPlanReport *plan, const PsiTerminal *terminal)
{
  append_heading (out, terminal, "Update rule", NULL);
  g_string_append_printf (out, "  %s: ", plan->update_rule != NULL ? plan->update_rule : "synchronous");
  if (plan->delay_max <= 0)
    g_string_append (out, "gradients are never stale");
  else
    {
      g_autofree char *mean = psi_format_number (plan->delay_mean), *most = psi_format_number (plan->delay_max),
                      *p90 = psi_format_number (plan->delay_p90);
      gboolean counts_updates = strcmp (plan->update_rule, "asynchronous") == 0;

      g_string_append_printf (out, "gradients are %s %s old on average, ", mean, counts_updates ? "updates" : "steps");
      if (plan->delay_p90 > plan->delay_mean && plan->delay_p90 < plan->delay_max)
        g_string_append_printf (out, "nine of ten at most %s, ", p90);
      g_string_append_printf (out, "%s at most", most);
    }
  g_string_append_printf (out, "; %u parameter version%s\n", plan->parameter_versions,
                          plan->parameter_versions == 1 ? "" : "s");
}

static void
append_advice (GString *out, const PsiPlanReport *plan, const PsiTerminal *terminal)
{
  g_autoptr (PsiTable) table = psi_table_new ("lrrr", 2);

  if (plan->advice->len == 0)
    return;
  append_heading (out, terminal, "What would fit", "fewest GPUs first, then fastest");
  psi_table_add (table, PSI_STYLE_DIM, "set");
  psi_table_add (table, PSI_STYLE_DIM, "peak");
  psi_table_add (table, PSI_STYLE_DIM, "step time");
  psi_table_add (table, PSI_STYLE_DIM, "samples/s");
  psi_table_add_rule (table);
  for (guint i = 0; i < plan->advice->len; i++)
    {
      const PsiAdvice *advice = &g_array_index (plan->advice, PsiAdvice, i);
      psi_table_add (table, PSI_STYLE_GOOD, advice->set);
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_bytes ((double) advice->peak_bytes));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_time (advice->step_time_ps));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_number (advice->samples_per_s));
    }
  psi_table_append (table, out, terminal);
}

static void
append_assumptions (GString *out, const PsiPlanReport *plan, const PsiTerminal *terminal, gboolean verbose)
{
  guint n = plan->assumptions->len;

  if (n == 0)
    return;
  append_heading (out, terminal, "Assumptions", NULL);
  if (!verbose)
    {
      g_string_append_printf (out, "  %u default%s mattered; -v lists them\n", n, n == 1 ? "" : "s");
      return;
    }
  for (guint i = 0; i < n; i++)
    {
      g_string_append (out, "  - ");
      psi_append_wrapped (out, plan->assumptions->pdata[i], 4, PAGE_WIDTH);
    }
}

char *
psi_table_run (const PsiReport *report, const PsiPlanReport *plan, const PsiTerminal *terminal, gboolean verbose)
{
  g_autoptr (GString) out = g_string_new (NULL);
  g_autofree char *verdict = psi_verdict_line (plan);

  psi_append_source (out, report, terminal);
  gboolean is_named = g_strcmp0 (plan->name, "plan") != 0; /* that is what flags alone are called */
  g_autofree char *layout = g_strdup_printf ("%s%s%u GPU%s%s%s", is_named ? plan->name : "", is_named ? " on " : "",
                                             plan->gpus, plan->gpus == 1 ? "" : "s", plan->layout != NULL ? ": " : "",
                                             plan->layout != NULL ? plan->layout : "");
  g_string_append_printf (out, "  %-10s", "plan");
  psi_append_wrapped (out, layout, 12, PAGE_WIDTH);
  g_string_append_c (out, '\n');
  psi_append_styled (out, terminal, psi_verdict_style (plan->verdict), verdict);
  g_string_append_c (out, '\n');

  append_advice (out, plan, terminal);
  append_time (out, plan, terminal);
  if (plan->critical_path != NULL)
    {
      append_heading (out, terminal, "Critical path",
                      "what decides the step time: shorten it, and the step is shorter");
      psi_append_critical_summary (out, plan->critical_path, terminal);
      g_string_append_c (out, '\n');
      psi_append_critical_rows (out, plan->critical_path, terminal, verbose);
    }
  if (plan->what_helps != NULL)
    psi_append_what_helps (out, plan, terminal);
  append_throughput (out, plan, terminal);
  append_memory (out, plan, terminal, verbose);
  append_communication (out, plan, terminal);
  append_update (out, plan, terminal);
  append_assumptions (out, plan, terminal, verbose);
  return g_strdup (out->str);
}
