/* SPDX-License-Identifier: MIT */
/* Tables and bars in text. Whoever reads from a pipe gets plain ASCII, a terminal may get colours and blocks. */
#pragma once

#include <glib.h>

/* What the reader's screen can show. */
typedef struct
{
  gboolean utf8;
  gboolean colour;
} PsiTerminal;

/* Looks at stdout, the locale, NO_COLOR and TERM. */
PsiTerminal psi_terminal_detect (void);

typedef enum
{
  PSI_STYLE_PLAIN,
  PSI_STYLE_BOLD,
  PSI_STYLE_DIM,
  PSI_STYLE_GOOD,
  PSI_STYLE_WARNING,
  PSI_STYLE_BAD,
  PSI_STYLE_BLUE,
  PSI_STYLE_CYAN,
  PSI_STYLE_YELLOW,
  PSI_STYLE_MAGENTA
} PsiStyle;

/* Append text in a style; plain where there are no colours. */
void psi_append_styled (GString *out, const PsiTerminal *terminal, PsiStyle style, const char *text);

typedef struct _PsiTable PsiTable;

/* `alignment` has one letter for each column: 'l' or 'r'; `gap` blanks stand between two columns. */
PsiTable *psi_table_new (const char *alignment, guint gap);
void psi_table_free (PsiTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiTable, psi_table_free)
/* Fill the next cell, row by row; the text is copied. */
void psi_table_add (PsiTable *table, PsiStyle style, const char *text);
void psi_table_take (PsiTable *table, PsiStyle style, char *text); /* (transfer full) text */
/* A line across, below the rows so far. */
void psi_table_add_rule (PsiTable *table);
/* A row of n cells and a line below it. */
void psi_table_add_headings (PsiTable *table, PsiStyle style, const char *const *headings, guint n);
/* Append all rows, each indented by two blanks. The last row must be complete. */
void psi_table_append (const PsiTable *table, GString *out, const PsiTerminal *terminal);

/* One piece of a bar. */
typedef struct
{
  double size;
  PsiStyle style;
  char ascii;        /* one character for each cell ... */
  const char *block; /* ... or this in UTF-8 */
} PsiBarPart;

/* Pieces side by side, `full` being `width` cells. Ends are rounded together, so equal sums have equal length. */
char *psi_bar (const PsiTerminal *terminal, const PsiBarPart *parts, guint n_parts, double full, guint width);

/* Append `text` broken at blanks so that lines have at most `width` columns, further lines indented by `indent`. */
void psi_append_wrapped (GString *out, const char *text, guint indent, guint width);
