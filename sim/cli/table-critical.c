/* SPDX-License-Identifier: MIT */
/* The critical path as `run --critical-path` prints it. */
#include "table-report.h"
#include "table-units.h"

#define MOST_RANKS 6
#define MOST_ROWS 24 /* without -v: the first and the last of them */

static const char *const kind_notes[PSI_N_CRITICAL] = {
  [PSI_CRITICAL_COMPUTE] = "forward and backward",
  [PSI_CRITICAL_RECOMPUTE] = "forward again, to save memory",
  [PSI_CRITICAL_OPTIMIZER] = "updating the parameters",
  [PSI_CRITICAL_TRAFFIC + PSI_TRAFFIC_GRADIENTS] = "gradients on links, which nothing hides",
  [PSI_CRITICAL_TRAFFIC + PSI_TRAFFIC_PARAMETERS] = "parameters on links, which nothing hides",
  [PSI_CRITICAL_TRAFFIC + PSI_TRAFFIC_BOUNDARY] = "messages between pipeline stages",
  [PSI_CRITICAL_TRAFFIC + PSI_TRAFFIC_TENSOR] = "collectives of tensor parallelism",
  [PSI_CRITICAL_TRAFFIC + PSI_TRAFFIC_CONTEXT] = "collectives of context parallelism",
  [PSI_CRITICAL_TRAFFIC + PSI_TRAFFIC_EXPERTS] = "tokens to experts and back",
  [PSI_CRITICAL_WAITING] = "for what the run does not tell",
};

/* Segments of one rank and stream that follow each other are a row. */
typedef struct
{
  guint first, last;
} Stay;

static GArray *
find_stays (const GArray *segments)
{
  GArray *stays = g_array_new (FALSE, FALSE, sizeof (Stay));

  for (guint i = 0; i < segments->len; i++)
    {
      const PsiCriticalSegment *segment = &g_array_index (segments, PsiCriticalSegment, i), *before = segment - 1;
      Stay stay = { i, i };

      if (i > 0 && before->rank == segment->rank && before->stream == segment->stream)
        g_array_index (stays, Stay, stays->len - 1).last = i;
      else
        g_array_append_val (stays, stay);
    }
  return stays;
}

/* "forward 3", "8 forward, 8 backward, optimizer". */
static char *
describe_stay (const GArray *segments, const Stay *stay)
{
  g_autoptr (GString) text = g_string_new (NULL);
  const PsiCriticalSegment *only = &g_array_index (segments, PsiCriticalSegment, stay->first);
  const char *done[PSI_N_CRITICAL + 4];
  guint n_done = 0;

  if (stay->first == stay->last)
    {
      g_string_append (text, only->what);
      if (only->micro_batch >= 0)
        g_string_append_printf (text, " %d", only->micro_batch);
      return g_strdup (text->str);
    }
  for (guint i = stay->first; i <= stay->last; i++)
    {
      const char *what = g_array_index (segments, PsiCriticalSegment, i).what;
      guint n = 0, k = 0;

      while (k < n_done && done[k] != what)
        k++;
      if (k < n_done)
        continue;
      done[n_done++] = what;
      for (guint j = stay->first; j <= stay->last; j++)
        n += g_array_index (segments, PsiCriticalSegment, j).what == what;
      g_string_append (text, text->len > 0 ? ", " : "");
      if (n > 1)
        g_string_append_printf (text, "%u ", n);
      g_string_append (text, what);
    }
  return g_strdup (text->str);
}

static void
add_stay (PsiTable *table, const GArray *segments, const Stay *stay, const PsiUnit *unit)
{
  const PsiCriticalSegment *first = &g_array_index (segments, PsiCriticalSegment, stay->first);
  const PsiCriticalSegment *last = &g_array_index (segments, PsiCriticalSegment, stay->last);
  gint64 end_ps = last->start_ps + last->duration_ps;

  psi_table_take (table, PSI_STYLE_PLAIN, psi_format_in_unit ((double) first->start_ps, unit));
  psi_table_take (table, PSI_STYLE_PLAIN, psi_format_in_unit ((double) (end_ps - first->start_ps), unit));
  psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u", first->rank));
  psi_table_take (table, PSI_STYLE_PLAIN, first->stage >= 0 ? g_strdup_printf ("%d", first->stage) : g_strdup ("-"));
  psi_table_take (table, PSI_STYLE_PLAIN, describe_stay (segments, stay));
  if (first->from_rank != first->rank)
    psi_table_take (table, PSI_STYLE_DIM, g_strdup_printf ("rank %u was waited for", first->from_rank));
  else
    psi_table_add (table, PSI_STYLE_DIM, first->reason);
}

static void
append_kinds (GString *out, const PsiCriticalPath *path, const PsiTerminal *terminal)
{
  g_autoptr (PsiTable) table = psi_table_new ("lrrl", 2);

  for (guint kind = 0; kind < PSI_N_CRITICAL; kind++)
    {
      if (path->kind_ps[kind] == 0)
        continue;
      psi_table_add (table, PSI_STYLE_PLAIN, psi_critical_kind_name (kind));
      psi_table_take (table, PSI_STYLE_PLAIN, psi_format_time (path->kind_ps[kind]));
      psi_table_take (table, PSI_STYLE_PLAIN,
                      psi_format_percent ((double) path->kind_ps[kind] / (double) path->duration_ps));
      psi_table_add (table, PSI_STYLE_DIM, kind_notes[kind]);
    }
  psi_table_append (table, out, terminal);
  if (path->shared_ps > 0)
    {
      g_autofree char *shared = psi_format_time (path->shared_ps);
      g_string_append_printf (out, "  of that, %s because messages share links\n", shared);
    }
}

static void
append_ranks (GString *out, const PsiCriticalPath *path)
{
  g_autoptr (GString) text = g_string_new ("  ");
  guint n = MIN (path->ranks->len, MOST_RANKS);

  for (guint i = 0; i < n; i++)
    {
      const PsiCriticalRank *rank = &g_array_index (path->ranks, PsiCriticalRank, i);
      g_autofree char *share = psi_format_percent ((double) rank->time_ps / (double) path->duration_ps);

      g_string_append_printf (text, "%s%s on rank %u", i > 0 ? ", " : "", share, rank->rank);
      if (rank->stage >= 0)
        g_string_append_printf (text, " (stage %d)", rank->stage);
    }
  if (path->ranks->len > n)
    g_string_append_printf (text, ", the rest on %u more", path->ranks->len - n);
  psi_append_wrapped (out, text->str, 2, 100);
}

void
psi_append_critical_summary (GString *out, const PsiCriticalPath *path, const PsiTerminal *terminal)
{
  append_kinds (out, path, terminal);
  append_ranks (out, path);
}

void
psi_append_critical_rows (GString *out, const PsiCriticalPath *path, const PsiTerminal *terminal, gboolean verbose)
{
  static const char *const headings[] = { "rank", "stage", "what", "begins when" };
  g_autoptr (PsiTable) table = psi_table_new ("rrrrll", 2);
  g_autoptr (GArray) stays = find_stays (path->segments);
  PsiUnit unit = psi_unit_for_time ((double) path->duration_ps);
  guint n_hidden = !verbose && stays->len > MOST_ROWS ? stays->len - MOST_ROWS : 0;

  psi_table_take (table, PSI_STYLE_DIM, g_strdup_printf ("at, %s", unit.name));
  psi_table_take (table, PSI_STYLE_DIM, g_strdup_printf ("for, %s", unit.name));
  psi_table_add_headings (table, PSI_STYLE_DIM, headings, G_N_ELEMENTS (headings));
  for (guint i = 0; i < stays->len; i++)
    {
      if (n_hidden > 0 && i == MOST_ROWS / 2)
        {
          for (guint c = 0; c < 4; c++)
            psi_table_add (table, PSI_STYLE_DIM, "...");
          psi_table_take (table, PSI_STYLE_DIM, g_strdup_printf ("%u more rows (-v shows all)", n_hidden));
          psi_table_add (table, PSI_STYLE_DIM, "");
          i += n_hidden;
        }
      add_stay (table, path->segments, &g_array_index (stays, Stay, i), &unit);
    }
  psi_table_append (table, out, terminal);
}
