/* SPDX-License-Identifier: MIT */
/* Tables and bars in text: width is counted in characters, colours are added after the padding. */
#include "table-text.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static const char *const style_codes[] = {
  [PSI_STYLE_PLAIN] = "",           [PSI_STYLE_BOLD] = "\033[1m",       [PSI_STYLE_DIM] = "\033[2m",
  [PSI_STYLE_GOOD] = "\033[1;32m",  [PSI_STYLE_WARNING] = "\033[1;33m", [PSI_STYLE_BAD] = "\033[1;31m",
  [PSI_STYLE_BLUE] = "\033[34m",    [PSI_STYLE_CYAN] = "\033[36m",      [PSI_STYLE_YELLOW] = "\033[33m",
  [PSI_STYLE_MAGENTA] = "\033[35m",
};

PsiTerminal
psi_terminal_detect (void)
{
  PsiTerminal terminal = { FALSE, FALSE };
  const char *no_colour = g_getenv ("NO_COLOR"), *term = g_getenv ("TERM");

  if (!isatty (STDOUT_FILENO))
    return terminal;
  terminal.utf8 = g_get_charset (NULL);
  terminal.colour = (no_colour == NULL || *no_colour == '\0') && term != NULL && strcmp (term, "dumb") != 0;
  return terminal;
}

void
psi_append_styled (GString *out, const PsiTerminal *terminal, PsiStyle style, const char *text)
{
  if (!terminal->colour || style == PSI_STYLE_PLAIN)
    g_string_append (out, text);
  else
    g_string_append_printf (out, "%s%s\033[0m", style_codes[style], text);
}

typedef struct
{
  char *text;
  PsiStyle style;
} Cell;

struct _PsiTable
{
  char *alignment;
  guint n_columns;
  guint gap;
  GArray *cells; /* of Cell */
  GArray *rules; /* of guint: rows they stand above */
};

static void
cell_clear (gpointer data)
{
  g_free (((Cell *) data)->text);
}

PsiTable *
psi_table_new (const char *alignment, guint gap)
{
  PsiTable *table = g_new0 (PsiTable, 1);

  table->alignment = g_strdup (alignment);
  table->n_columns = (guint) strlen (alignment);
  table->gap = gap;
  table->cells = g_array_new (FALSE, FALSE, sizeof (Cell));
  g_array_set_clear_func (table->cells, cell_clear);
  table->rules = g_array_new (FALSE, FALSE, sizeof (guint));
  return table;
}

void
psi_table_free (PsiTable *table)
{
  if (table == NULL)
    return;
  g_free (table->alignment);
  g_array_unref (table->cells);
  g_array_unref (table->rules);
  g_free (table);
}

void
psi_table_take (PsiTable *table, PsiStyle style, char *text)
{
  Cell cell = { text, style };

  g_array_append_val (table->cells, cell);
}

void
psi_table_add (PsiTable *table, PsiStyle style, const char *text)
{
  psi_table_take (table, style, g_strdup (text));
}

void
psi_table_add_rule (PsiTable *table)
{
  guint row = table->cells->len / table->n_columns;

  g_array_append_val (table->rules, row);
}

void
psi_table_add_headings (PsiTable *table, PsiStyle style, const char *const *headings, guint n)
{
  for (guint i = 0; i < n; i++)
    psi_table_add (table, style, headings[i]);
  psi_table_add_rule (table);
}

/* Wide characters (Korean, Chinese) take two columns, combining ones none. */
static guint
display_width (const char *text)
{
  guint width = 0;

  if (!g_utf8_validate (text, -1, NULL))
    return (guint) strlen (text);
  for (; *text != '\0'; text = g_utf8_next_char (text))
    {
      gunichar c = g_utf8_get_char (text);
      width += g_unichar_iszerowidth (c) ? 0 : g_unichar_iswide (c) ? 2 : 1;
    }
  return width;
}

static void
append_blanks (GString *out, guint n)
{
  while (n-- > 0)
    g_string_append_c (out, ' ');
}

static void
append_rule (GString *out, const PsiTerminal *terminal, guint width)
{
  g_autoptr (GString) line = g_string_new (NULL);

  for (guint i = 0; i < width; i++)
    g_string_append (line, terminal->utf8 ? "\u2500" : "-");
  g_string_append (out, "  ");
  psi_append_styled (out, terminal, PSI_STYLE_DIM, line->str);
  g_string_append_c (out, '\n');
}

void
psi_table_append (const PsiTable *table, GString *out, const PsiTerminal *terminal)
{
  g_autofree guint *widths = g_new0 (guint, table->n_columns);
  guint n_rows = table->cells->len / table->n_columns, total = table->gap * (table->n_columns - 1);

  g_assert (table->cells->len % table->n_columns == 0);
  for (guint i = 0; i < table->cells->len; i++)
    {
      guint *width = &widths[i % table->n_columns];
      *width = MAX (*width, display_width (g_array_index (table->cells, Cell, i).text));
    }
  for (guint i = 0; i < table->n_columns; i++)
    total += widths[i];

  for (guint row = 0, rule = 0; row < n_rows; row++)
    {
      for (; rule < table->rules->len && g_array_index (table->rules, guint, rule) == row; rule++)
        append_rule (out, terminal, total);
      guint blanks = 2; /* put off, so that no line ends in blanks */
      for (guint column = 0; column < table->n_columns; column++)
        {
          const Cell *cell = &g_array_index (table->cells, Cell, row * table->n_columns + column);
          guint padding = widths[column] - display_width (cell->text);
          if (*cell->text != '\0')
            {
              append_blanks (out, blanks + (table->alignment[column] == 'r' ? padding : 0));
              psi_append_styled (out, terminal, cell->style, cell->text);
              blanks = table->gap + (table->alignment[column] == 'r' ? 0 : padding);
            }
          else
            blanks += widths[column] + table->gap;
        }
      while (out->str[out->len - 1] == ' ')
        g_string_truncate (out, out->len - 1);
      g_string_append_c (out, '\n');
    }
}

char *
psi_bar (const PsiTerminal *terminal, const PsiBarPart *parts, guint n_parts, double full, guint width)
{
  g_autoptr (GString) out = g_string_new (NULL);
  double sum = 0;
  guint drawn = 0;

  for (guint i = 0; i < n_parts && full > 0; i++)
    {
      g_autoptr (GString) piece = g_string_new (NULL);
      sum += MAX (parts[i].size, 0);
      guint end = (guint) MIN (floor (sum / full * width + 0.5), width);
      for (; drawn < end; drawn++)
        if (terminal->utf8)
          g_string_append (piece, parts[i].block);
        else
          g_string_append_c (piece, parts[i].ascii);
      psi_append_styled (out, terminal, piece->len > 0 ? parts[i].style : PSI_STYLE_PLAIN, piece->str);
    }
  return g_strdup (out->str);
}

void
psi_append_wrapped (GString *out, const char *text, guint indent, guint width)
{
  g_auto (GStrv) words = g_strsplit (text, " ", -1);
  guint column = indent;

  for (guint i = 0; words[i] != NULL; i++)
    {
      guint length = display_width (words[i]);
      /* A number stays with the unit behind it. */
      for (guint k = i; words[k + 1] != NULL && *words[k] != '\0' && g_ascii_isdigit (words[k][strlen (words[k]) - 1]);
           k++)
        length += 1 + display_width (words[k + 1]);
      if (i > 0 && column + 1 + length > width)
        {
          g_string_append_c (out, '\n');
          append_blanks (out, indent);
          column = indent;
        }
      else if (i > 0)
        {
          g_string_append_c (out, ' ');
          column++;
        }
      g_string_append (out, words[i]);
      column += display_width (words[i]);
    }
  g_string_append_c (out, '\n');
}
