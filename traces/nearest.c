/* SPDX-License-Identifier: MIT */
/* Optimal string alignment distance, three rows of the table at a time. Words longer than MAX_WORD have no neighbours:
 * nobody mistypes a name of that length by accident, and the rows fit the stack. */

#include "nearest.h"

#include <string.h>

#define MAX_WORD 63

static char
folded (char c)
{
  return c == '_' ? '-' : g_ascii_tolower (c);
}

static guint
edit_distance (const char *a, gsize n_a, const char *b, gsize n_b)
{
  guint rows[3][MAX_WORD + 1];
  for (gsize j = 0; j <= n_b; j++)
    rows[0][j] = (guint) j;

  for (gsize i = 1; i <= n_a; i++)
    {
      guint *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
      row[0] = (guint) i;
      for (gsize j = 1; j <= n_b; j++)
        {
          char ca = folded (a[i - 1]), cb = folded (b[j - 1]);
          guint best = above[j - 1] + (ca != cb);
          best = MIN (best, above[j] + 1);
          best = MIN (best, row[j - 1] + 1);
          if (i > 1 && j > 1 && ca == folded (b[j - 2]) && folded (a[i - 2]) == cb)
            best = MIN (best, above2[j - 2] + 1);
          row[j] = best;
        }
    }
  return rows[n_a % 3][n_b];
}

const char *
psi_nearest (const char *word, const char *const *candidates)
{
  gsize n_word = strlen (word);
  if (n_word == 0 || n_word > MAX_WORD)
    return NULL;

  const char *nearest = NULL, *longer = NULL;
  guint n_longer = 0, nearest_distance = G_MAXUINT;
  for (; *candidates; candidates++)
    {
      gsize n = strlen (*candidates);
      if (n > MAX_WORD)
        continue;
      guint distance = edit_distance (word, n_word, *candidates, n);
      if (distance < nearest_distance)
        {
          nearest_distance = distance;
          nearest = *candidates;
        }
      if (n > n_word && n_word >= 2 && g_ascii_strncasecmp (word, *candidates, n_word) == 0)
        {
          n_longer++;
          longer = *candidates;
        }
    }

  guint allowed = MAX (1, (guint) n_word / 3);
  if (nearest_distance <= allowed && nearest_distance < n_word)
    return nearest;
  return n_longer == 1 ? longer : NULL;
}
