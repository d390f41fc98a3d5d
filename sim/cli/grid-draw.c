/* SPDX-License-Identifier: MIT */
/* Lines of cells under the numbers of the slots: who runs, how many activations there are, what is sent. All cells have
 * one width; what is wider than the page goes on below. */
#include "grid-private.h"
#include "table-units.h"

#include <math.h>
#include <string.h>

#define PAGE_WIDTH 80

typedef struct
{
  GString *text; /* NULL: nothing */
  PsiStyle style;
  char mark; /* of the last op in it */
} Cell;

typedef struct
{
  char *label;
  const char *empty; /* what an empty cell shows */
  Cell *cells;       /* [n_columns] */
} Line;

static const char marks[] = { [PSI_SPAN_FORWARD] = '^', [PSI_SPAN_BACKWARD] = 'v', [PSI_SPAN_WEIGHT] = 'w' };
static const PsiStyle micro_batch_styles[] = { PSI_STYLE_BLUE, PSI_STYLE_BAD, PSI_STYLE_YELLOW, PSI_STYLE_CYAN,
                                               PSI_STYLE_MAGENTA };

/* (transfer full) label */
static Line *
add_line (const PsiGrid *grid, GPtrArray *lines, char *label, const char *empty)
{
  Line *line = g_new0 (Line, 1);

  line->label = label;
  line->empty = empty;
  line->cells = g_new0 (Cell, grid->n_columns);
  g_ptr_array_add (lines, line);
  return line;
}

static void
free_line (const PsiGrid *grid, Line *line)
{
  for (guint i = 0; i < grid->n_columns; i++)
    if (line->cells[i].text != NULL)
      g_string_free (line->cells[i].text, TRUE);
  g_free (line->cells);
  g_free (line->label);
  g_free (line);
}

static void
set_number (Line *line, guint column, double value)
{
  Cell *cell = &line->cells[column];
  g_autofree char *text = psi_format_fraction (value);

  cell->text = g_string_new (text);
  cell->style = value == 0 ? PSI_STYLE_DIM : PSI_STYLE_PLAIN;
}

/* The number of an op's micro-batch; where a step has a single one, they count on from step to step. */
static guint
number_of (const PsiGrid *grid, const PsiGridOp *op, guint step)
{
  return grid->n_micro_batches == 1 ? step : (guint) op->micro_batch;
}

static void
append_micro_batch (const PsiGrid *grid, GString *text, guint micro_batch)
{
  if (grid->n_micro_batches == 3)
    g_string_append_c (text, "bry"[micro_batch]);
  else
    g_string_append_c (text, "0123456789abcdefghijklmnopqrstuvwxyz"[micro_batch % 36]);
}

static guint
row_of_gpu (const PsiGrid *grid, const PsiGridOp *op, guint step)
{
  if (op->pool == 1)
    return op->gpu;
  return op->gpu + (step * grid->n_micro_batches + (guint) op->micro_batch) % op->pool;
}

/* Put an op into the cells of its slots. */
static void
draw_op (const PsiGrid *grid, const PsiGridOp *op, guint step, Line *line, gboolean has_micro_batch, gboolean has_stage)
{
  guint from = psi_grid_column (grid, op->start_ps + step * grid->period_ps);
  guint to = psi_grid_column (grid, op->end_ps + step * grid->period_ps);

  for (guint column = from; column < MIN (to, grid->n_columns); column++)
    {
      Cell *cell = &line->cells[column];

      if (cell->text == NULL)
        cell->text = g_string_new (NULL);
      else if (cell->mark == marks[op->kind]) /* "b^" and "r^" are "br^" */
        g_string_truncate (cell->text, cell->text->len - 1);
      if (has_micro_batch)
        append_micro_batch (grid, cell->text, number_of (grid, op, step));
      if (has_stage)
        g_string_append_printf (cell->text, "%d", op->stage + 1);
      g_string_append_c (cell->text, marks[op->kind]);
      cell->style = cell->mark == 0 ? micro_batch_styles[number_of (grid, op, step) % G_N_ELEMENTS (micro_batch_styles)]
                                    : PSI_STYLE_PLAIN;
      cell->mark = marks[op->kind];
    }
}

static void
add_stage_lines (const PsiGrid *grid, GPtrArray *lines)
{
  for (guint stage = grid->n_stages; stage-- > 0;)
    {
      Line *line = add_line (grid, lines, g_strdup_printf ("stage %u", stage + 1), ".");

      for (guint step = 0; step < grid->n_steps; step++)
        for (guint i = 0; i < grid->ops->len; i++)
          {
            const PsiGridOp *op = &g_array_index (grid->ops, PsiGridOp, i);

            if ((guint) op->stage == stage)
              draw_op (grid, op, step, line, TRUE, FALSE);
          }
    }
}

/* Does a GPU see several stages, several micro-batches? */
static void
survey_gpu (const PsiGrid *grid, guint row, gboolean *ret_stages, gboolean *ret_micro_batches)
{
  const PsiGridOp *first = NULL;

  *ret_stages = *ret_micro_batches = FALSE;
  for (guint i = 0; i < grid->ops->len; i++)
    {
      const PsiGridOp *op = &g_array_index (grid->ops, PsiGridOp, i);
      if (row < op->gpu || row >= op->gpu + op->pool)
        continue;
      if (first == NULL)
        first = op;
      *ret_stages |= op->stage != first->stage;
      *ret_micro_batches |= op->micro_batch != first->micro_batch;
    }
}

static void
add_gpu_lines (const PsiGrid *grid, GPtrArray *lines)
{
  for (guint row = 0; row < grid->gpu_rows->len; row++)
    {
      const PsiGpuRow *gpus = &g_array_index (grid->gpu_rows, PsiGpuRow, row);
      char *label = gpus->first == gpus->last ? g_strdup_printf ("GPU %u", gpus->first)
                                              : g_strdup_printf ("GPUs %u-%u", gpus->first, gpus->last);
      Line *line = add_line (grid, lines, label, ".");
      gboolean has_stages, has_micro_batches;

      survey_gpu (grid, row, &has_stages, &has_micro_batches);
      for (guint step = 0; step < grid->n_steps; step++)
        for (guint i = 0; i < grid->ops->len; i++)
          {
            const PsiGridOp *op = &g_array_index (grid->ops, PsiGridOp, i);

            if (row_of_gpu (grid, op, step) == row)
              draw_op (grid, op, step, line, has_micro_batches || !has_stages, has_stages);
          }
    }
}

/* Stages of activations alive in each column, in one row of GPUs or (G_MAXUINT) in all. */
static guint *
count_activations (const PsiGrid *grid, guint row, guint *ret_most)
{
  guint *alive = g_new0 (guint, grid->n_columns);

  *ret_most = 0;
  for (guint step = 0; step < grid->n_steps; step++)
    for (guint i = 0; i < grid->ops->len; i++)
      {
        const PsiGridOp *op = &g_array_index (grid->ops, PsiGridOp, i);
        guint from = psi_grid_column (grid, op->start_ps + step * grid->period_ps);
        guint to = psi_grid_column (grid, op->freed_ps + step * grid->period_ps);

        if (op->kind != PSI_SPAN_FORWARD || (row != G_MAXUINT && row_of_gpu (grid, op, step) != row))
          continue;
        for (guint column = from; column < MIN (to, grid->n_columns); column++)
          {
            alive[column]++;
            *ret_most = MAX (*ret_most, alive[column]);
          }
      }
  return alive;
}

static void
add_activation_line (const PsiGrid *grid, GPtrArray *lines, const char *label, const guint *alive)
{
  Line *line = add_line (grid, lines, g_strdup (label), "");

  for (guint column = 0; column < grid->n_columns; column++)
    set_number (line, column, alive[column]);
}

static void
add_activation_lines (const PsiGrid *grid, GPtrArray *lines)
{
  guint most_of_all, fullest = 0, fullest_most = 0;
  g_autofree guint *all = count_activations (grid, G_MAXUINT, &most_of_all);

  add_activation_line (grid, lines, grid->gpu_rows->len > 1 ? "all GPUs" : "activations", all);
  if (grid->gpu_rows->len == 1)
    return;
  for (guint row = 0; row < grid->gpu_rows->len; row++)
    {
      guint most;
      g_autofree guint *alive G_GNUC_UNUSED = count_activations (grid, row, &most);
      if (most > fullest_most)
        {
          fullest = row;
          fullest_most = most;
        }
    }
  g_autofree guint *alive G_GNUC_UNUSED = count_activations (grid, fullest, &fullest_most);
  const PsiGpuRow *gpus = &g_array_index (grid->gpu_rows, PsiGpuRow, fullest);
  g_autofree char *label = g_strdup_printf ("GPU %u", gpus->first);
  add_activation_line (grid, lines, label, alive);
}

/* Returns FALSE if nothing is sent. */
static gboolean
add_traffic_lines (const PsiGrid *grid, GPtrArray *lines, double psi_p_bytes, double psi_int_bytes)
{
  /* The first step differs: nothing of a step before it is on its way. */
  guint from = grid->n_steps > 1 ? grid->period_columns : 0;
  gboolean has_any = FALSE;

  for (guint t = 0; t < PSI_N_TRAFFIC; t++)
    {
      double unit_bytes =
          t == PSI_TRAFFIC_GRADIENTS || t == PSI_TRAFFIC_PARAMETERS ? psi_p_bytes / grid->n_stages : psi_int_bytes;

      if (grid->sent_bytes[t] == NULL)
        continue;
      Line *line = add_line (grid, lines, g_strdup (psi_traffic_names[t]), "");
      for (guint column = from; column < MIN (grid->n_columns, MAX (grid->n_steps, 1) * grid->period_columns); column++)
        set_number (line, column, grid->sent_bytes[t][column % grid->period_columns] / unit_bytes);
      has_any = TRUE;
    }
  return has_any;
}

static guint
width_of (const PsiGrid *grid, const GPtrArray *lines)
{
  guint width = 2;

  for (guint i = 0; i < lines->len; i++)
    for (guint column = 0; column < grid->n_columns; column++)
      {
        const GString *text = ((const Line *) lines->pdata[i])->cells[column].text;
        width = MAX (width, text != NULL ? (guint) text->len : 0);
      }
  return width + 1;
}

static void
append_line (const Line *line, guint label_width, guint from, guint to, guint width, GString *out,
             const PsiTerminal *terminal)
{
  g_string_append_printf (out, "%-*s", (int) label_width, line->label);
  for (guint column = from; column < to; column++)
    {
      const Cell *cell = &line->cells[column];
      const char *text = cell->text != NULL ? cell->text->str : line->empty;

      for (gsize n = strlen (text); n < width; n++)
        g_string_append_c (out, ' ');
      if (*text != '\0')
        psi_append_styled (out, terminal, cell->text != NULL ? cell->style : PSI_STYLE_DIM, text);
    }
  while (out->str[out->len - 1] == ' ')
    g_string_truncate (out, out->len - 1);
  g_string_append_c (out, '\n');
}

/* Lines `from` to `to`; what does not fit on the page goes on below, with the numbers of the slots above it. */
static void
append_lines (const PsiGrid *grid, const GPtrArray *lines, guint from, guint to, guint width, GString *out,
              const PsiTerminal *terminal)
{
  guint longest = 0;

  for (guint i = 0; i < lines->len; i++)
    longest = MAX (longest, (guint) strlen (((const Line *) lines->pdata[i])->label));
  guint n_columns = grid->n_columns - grid->first_column, fitting = (PAGE_WIDTH - longest) / width;
  guint indent = longest + 2 + MIN (n_columns, fitting) * width <= PAGE_WIDTH ? 2 : 0;
  for (guint column = grid->first_column; column < grid->n_columns; column += fitting)
    {
      guint end = MIN (column + fitting, grid->n_columns);

      if (column > grid->first_column)
        g_string_append_c (out, '\n');
      for (guint i = from; i < to; i++)
        {
          Line *line = lines->pdata[i];

          if (i == from && i > 1 && n_columns > fitting)
            {
              g_string_append_printf (out, "%*s", (int) indent, "");
              append_line (lines->pdata[0], longest, column, end, width, out, terminal);
            }
          g_string_append_printf (out, "%*s", (int) indent, "");
          append_line (line, longest, column, end, width, out, terminal);
        }
    }
}

/* What the cells mean. */
static void
append_legend (const PsiGrid *grid, PsiGridRows rows, GString *out)
{
  g_autoptr (GString) text = g_string_new ("^ forward, v backward");
  g_autoptr (GString) name = g_string_new (NULL);
  gboolean has_stages, has_micro_batches;

  if (grid->ops->len == 0)
    return;
  for (guint i = 0; i < grid->ops->len; i++)
    if (g_array_index (grid->ops, PsiGridOp, i).kind == PSI_SPAN_WEIGHT)
      {
        g_string_append (text, " (its input half), w the weight half");
        break;
      }
  const PsiGridOp *op = &g_array_index (grid->ops, PsiGridOp, 0);
  survey_gpu (grid, op->gpu, &has_stages, &has_micro_batches);
  if (grid->n_micro_batches == 3 && ((rows & PSI_GRID_STAGES) || has_micro_batches))
    g_string_append (text, "; b, r, y: the three micro-batches");
  append_micro_batch (grid, name, (guint) op->micro_batch);
  if ((rows & PSI_GRID_GPUS) && has_stages)
    {
      if (has_micro_batches)
        g_string_append_printf (text, "; %s%d^ is micro-batch %s on stage %d", name->str, op->stage + 1, name->str,
                                op->stage + 1);
      else
        g_string_append (text, "; GPU rows show the stage");
    }
  else if (grid->n_micro_batches != 3)
    g_string_append (text, "; numbers are micro-batches");
  g_string_append (out, "  ");
  psi_append_wrapped (out, text->str, 2, PAGE_WIDTH);
}

void
psi_grid_append (const PsiGrid *grid, PsiGridRows rows, double psi_p_bytes, double psi_int_bytes, GString *out,
                 const PsiTerminal *terminal)
{
  g_autoptr (GPtrArray) lines = g_ptr_array_new ();
  Line *slots = add_line (grid, lines, g_strdup ("slot"), "");

  for (guint column = 0; column < grid->n_columns; column++)
    {
      set_number (slots, column, column - (column >= grid->first_column ? grid->first_column : 0));
      slots->cells[column].style = PSI_STYLE_PLAIN;
    }
  if (rows & PSI_GRID_STAGES)
    add_stage_lines (grid, lines);
  guint after_stages = lines->len;
  if (rows & PSI_GRID_GPUS)
    add_gpu_lines (grid, lines);
  guint after_work = lines->len;
  add_activation_lines (grid, lines);
  guint after_activations = lines->len;
  gboolean has_traffic = add_traffic_lines (grid, lines, psi_p_bytes, psi_int_bytes);
  guint width = width_of (grid, lines);

  append_lines (grid, lines, 0, rows & PSI_GRID_STAGES ? after_stages : after_work, width, out, terminal);
  if (rows == (PSI_GRID_STAGES | PSI_GRID_GPUS))
    {
      g_string_append_c (out, '\n');
      append_lines (grid, lines, after_stages, after_work, width, out, terminal);
    }
  append_legend (grid, rows, out);
  g_string_append_printf (out, "\nActivations held in each slot, in units of %s/K\n", terminal->utf8 ? "Ψ_A" : "Psi_A");
  append_lines (grid, lines, after_work, after_activations, width, out, terminal);
  if (has_traffic)
    {
      const char *psi = terminal->utf8 ? "Ψ" : "Psi";

      gboolean in_p =
          grid->sent_bytes[PSI_TRAFFIC_GRADIENTS] != NULL || grid->sent_bytes[PSI_TRAFFIC_PARAMETERS] != NULL;
      gboolean in_int = grid->sent_bytes[PSI_TRAFFIC_BOUNDARY] != NULL || grid->sent_bytes[PSI_TRAFFIC_TENSOR] != NULL;

      g_string_append (out, "\nSent by all GPUs at the end of each slot, in units of ");
      if (in_p)
        g_string_append_printf (out, "%s_P/K", psi);
      if (in_int)
        g_string_append_printf (out, in_p ? ", others in %s_int" : "%s_int", psi);
      g_string_append (
          out, grid->n_steps > 1 && grid->first_column == 0 ? "\n(from the second step on, when it repeats)\n" : "\n");
      append_lines (grid, lines, after_activations, lines->len, width, out, terminal);
    }
  for (guint i = 0; i < lines->len; i++)
    free_line (grid, lines->pdata[i]);
}

char *
psi_format_fraction (double value)
{
  for (int denominator = 1; denominator <= 64 && fabs (value) < 1e9; denominator++)
    {
      double numerator = rint (value * denominator);

      if (fabs (value * denominator - numerator) < 1e-6 * MAX (1, fabs (numerator)))
        return denominator == 1 ? g_strdup_printf ("%.0f", numerator + 0.0)
                                : g_strdup_printf ("%.0f/%d", numerator, denominator);
    }
  return psi_format_number (value);
}
