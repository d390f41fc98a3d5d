/* SPDX-License-Identifier: MIT */
/* A schedule file (psisim-schedule 1) as data. The training programs read the same format with a parser of their own in
 * plain C (kernels/train-schedule.c): what one accepts, the other must. */
#include "schedule-file.h"

#include "in-file.h"
#include "quantity.h"

#include <errno.h>

#include <string.h>

#define HEAD "psisim-schedule 1"
#define MOST 1000000 /* of any number in a file */

typedef struct
{
  const char *name;                           /* of the file, for messages */
  guint line;                                 /* 0: the file as a whole */
  gint64 ranks, chunks, micro_batches, steps; /* 0: not written */
  PsiSchedule *schedule;                      /* from the first line on that needs ranks and chunks */
  GArray **lists;                             /* where rank lines go now */
  gboolean repeats;
} Parser;

static gboolean refuse (const Parser *parser, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);

static gboolean
refuse (const Parser *parser, GError **error, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_autofree char *text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  if (parser->line > 0)
    g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SYNTAX, "%s:%u: %s", parser->name, parser->line, text);
  else
    g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SYNTAX, "%s: %s", parser->name, text);
  return FALSE;
}

/* A whole number at *text, which moves past it; -1 if there is none or it is too large. */
static gint64
read_count (const char **text)
{
  gint64 value = 0;

  if (!g_ascii_isdigit (**text))
    return -1;
  for (; g_ascii_isdigit (**text); ++*text)
    {
      value = value * 10 + (**text - '0');
      if (value > MOST)
        return -1;
    }
  return value;
}

/* F3, B3.1: kind, micro-batch, chunk. */
static gboolean
read_op (const Parser *parser, const char **text, guint8 *ret_kind, gint32 *ret_micro_batch, gint16 *ret_chunk)
{
  const char *letter = **text != '\0' ? memchr (psi_token_letters, **text, PSI_TOKEN_UPDATE) : NULL;
  gint64 chunk = 0;

  if (letter == NULL)
    return FALSE;
  ++*text;
  gint64 micro_batch = read_count (text);
  if (**text == '.')
    {
      ++*text;
      chunk = read_count (text);
    }
  if (micro_batch < 0 || chunk < 0 || chunk >= parser->chunks)
    return FALSE;
  *ret_kind = (guint8) (letter - psi_token_letters);
  *ret_micro_batch = (gint32) micro_batch;
  *ret_chunk = (gint16) chunk;
  return TRUE;
}

static gboolean
refuse_word (const Parser *parser, const char *word, GError **error)
{
  g_autofree char *quoted = psi_quote (word);

  return refuse (parser, error,
                 "unknown word %s (allowed: F3 B3 I3 W3 F3.1 F4+B1.1 U1 @-1 >2:B0.1, with ranks and chunks that exist)",
                 quoted);
}

/* ">2:B0.1" */
static gboolean
read_wait (Parser *parser, const char *word, GError **error)
{
  const char *text = word + 1;
  gint64 rank = read_count (&text);
  PsiTokenWait wait = { .rank = (guint) rank };

  if (rank < 0 || rank >= parser->ranks || *text++ != ':' ||
      !read_op (parser, &text, &wait.kind, &wait.micro_batch, &wait.chunk) || *text != '\0')
    return refuse_word (parser, word, error);
  g_array_append_val (parser->schedule->waits, wait);
  return TRUE;
}

/* "@-2": the parameters of so many steps before. */
static gboolean
read_delay (const char **text, guint8 *ret_steps)
{
  gint64 steps = -1;

  if (g_str_has_prefix (*text, "@-"))
    {
      *text += 2;
      steps = read_count (text);
    }
  if (steps < 1 || steps > G_MAXUINT8)
    return FALSE;
  *ret_steps = (guint8) steps;
  return TRUE;
}

/* "F4+B1.1", "U1", "F3@-1" */
static gboolean
read_tokens (Parser *parser, GArray *list, const char *word, guint first_wait, GError **error)
{
  const char *text = word;
  gboolean joined = FALSE;

  for (;; text++, joined = TRUE)
    {
      PsiToken token = { .joined = joined, .first_wait = (gint32) first_wait };

      if (!joined)
        token.n_waits = (guint16) (parser->schedule->waits->len - first_wait);
      if (*text == psi_token_letters[PSI_TOKEN_UPDATE])
        {
          gint64 chunk = 0;

          text++;
          if (*text != '\0' || parser->chunks > 1) /* a single chunk needs no number */
            chunk = read_count (&text);
          if (chunk < 0 || chunk >= parser->chunks)
            return refuse_word (parser, word, error);
          token.kind = PSI_TOKEN_UPDATE;
          token.micro_batch = -1;
          token.chunk = (gint16) chunk;
          parser->schedule->has_updates = TRUE;
        }
      else if (!read_op (parser, &text, &token.kind, &token.micro_batch, &token.chunk))
        return refuse_word (parser, word, error);
      if (*text == '@' && !read_delay (&text, &token.stale))
        return refuse_word (parser, word, error);
      g_array_append_val (list, token);
      if (*text == '\0')
        return TRUE;
      if (*text != '+')
        return refuse_word (parser, word, error);
    }
}

static gboolean
read_list (Parser *parser, GArray *list, const char *rest, GError **error)
{
  g_auto (GStrv) words = g_strsplit_set (rest, " \t", -1);
  guint first_wait = parser->schedule->waits->len;

  for (char **word = words; *word != NULL; word++)
    {
      gboolean good = TRUE;

      if (**word == '\0')
        continue;
      if (**word == '>')
        good = read_wait (parser, *word, error);
      else if (**word == '@' && list->len > 0)
        {
          const char *text = *word;

          good = read_delay (&text, &g_array_index (list, PsiToken, list->len - 1).stale) && *text == '\0';
          if (!good)
            refuse_word (parser, *word, error);
        }
      else
        {
          good = read_tokens (parser, list, *word, first_wait, error);
          first_wait = parser->schedule->waits->len;
        }
      if (!good)
        return FALSE;
    }
  if (first_wait != parser->schedule->waits->len)
    return refuse (parser, error, "nothing follows a wait '>' (it stands before a token)");
  return TRUE;
}

static GArray **
new_lists (guint n)
{
  GArray **lists = g_new (GArray *, n);

  for (guint r = 0; r < n; r++)
    lists[r] = g_array_new (FALSE, FALSE, sizeof (PsiToken));
  return lists;
}

/* Ranks and chunks are known from here on. */
static gboolean
begin_lists (Parser *parser, GError **error)
{
  if (parser->schedule != NULL)
    return TRUE;
  if (parser->ranks == 0)
    return refuse (parser, error, "'ranks' must come first");
  parser->chunks = MAX (parser->chunks, 1);
  if (parser->ranks * parser->chunks > MOST)
    return refuse (parser, error, "'%" G_GINT64_FORMAT "' ranks x %" G_GINT64_FORMAT " chunks are more than %d",
                   parser->ranks, parser->chunks, MOST);
  parser->schedule = psi_schedule_new ((guint) parser->ranks, (guint) parser->chunks, 0);
  parser->schedule->waits = g_array_new (FALSE, FALSE, sizeof (PsiTokenWait));
  parser->lists = parser->schedule->lists;
  return TRUE;
}

/* "part 0: ..." and "rank 3: ...": the number goes to *ret_index, what follows the colon is returned. */
static const char *
read_index (const Parser *parser, const char *what, const char *rest, gint64 limit, guint *ret_index, GError **error)
{
  const char *text = rest;
  gint64 index = read_count (&text);

  if (index < 0 || index >= limit || *text != ':')
    {
      g_autofree char *quoted = psi_quote (rest);

      refuse (parser, error, "%s: %s is no number below %" G_GINT64_FORMAT " and a colon", what, quoted, limit);
      return NULL;
    }
  *ret_index = (guint) index;
  return text + 1;
}

static gboolean
read_parts (Parser *parser, guint chunk, const char *rest, GError **error)
{
  const char *text = rest;

  for (guint r = 0; r <= parser->ranks; r++)
    {
      text += strspn (text, " \t");
      if (r == parser->ranks && *text == '\0')
        return TRUE;
      gint64 part = r < parser->ranks ? read_count (&text) : -1;
      if (part < 0 || part >= parser->ranks * parser->chunks)
        break;
      parser->schedule->parts[chunk * parser->schedule->n_ranks + r] = (guint) part;
    }
  g_autofree char *quoted = psi_quote (text);
  return refuse (parser, error,
                 "part %u: %s is not one part number below %" G_GINT64_FORMAT " for each of %" G_GINT64_FORMAT " ranks",
                 chunk, quoted, parser->ranks * parser->chunks, parser->ranks);
}

static gboolean
read_number (const Parser *parser, const char *key, const char *rest, gint64 *number, GError **error)
{
  const char *text = rest;
  gint64 count = read_count (&text);
  g_autofree char *quoted = psi_quote (rest);

  if (*number != 0)
    return refuse (parser, error, "'%s' is written twice", key);
  if (count < 1 || *text != '\0')
    return refuse (parser, error, "%s: %s is not a whole number from 1 to %d", key, quoted, MOST);
  *number = count;
  return TRUE;
}

static gboolean
read_repeat (Parser *parser, GError **error)
{
  if (!begin_lists (parser, error))
    return FALSE;
  if (parser->repeats)
    return refuse (parser, error, "'repeat' is written twice");
  parser->repeats = TRUE;
  parser->schedule->once = parser->schedule->lists;
  parser->lists = parser->schedule->lists = new_lists (parser->schedule->n_ranks);
  return TRUE;
}

static gboolean
read_line (Parser *parser, char *line, GError **error)
{
  struct
  {
    const char *key;
    gint64 *number;
    gboolean early; /* only before the first list */
  } numbers[] = { { "ranks", &parser->ranks, TRUE },
                  { "chunks", &parser->chunks, TRUE },
                  { "micro_batches", &parser->micro_batches, FALSE },
                  { "steps", &parser->steps, FALSE } };
  gsize length = strcspn (line, " \t");
  const char *rest = line + length + strspn (line + length, " \t");
  guint index;

  line[length] = '\0';
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (strcmp (line, numbers[i].key) == 0)
      {
        if (numbers[i].early && parser->schedule != NULL)
          return refuse (parser, error, "'%s' must come before the first list", line);
        return read_number (parser, line, rest, numbers[i].number, error);
      }
  if (strcmp (line, "repeat") == 0 && *rest == '\0')
    return read_repeat (parser, error);
  if (strcmp (line, "part") == 0)
    return begin_lists (parser, error) &&
           (rest = read_index (parser, line, rest, parser->chunks, &index, error)) != NULL &&
           read_parts (parser, index, rest, error);
  if (strcmp (line, "rank") == 0)
    return begin_lists (parser, error) &&
           (rest = read_index (parser, line, rest, parser->ranks, &index, error)) != NULL &&
           read_list (parser, parser->lists[index], rest, error);
  g_autofree char *quoted = psi_quote (line);
  return refuse (parser, error, "unexpected line %s (allowed: ranks chunks part micro_batches steps repeat rank)",
                 quoted);
}

/* Does the list hold the forward of micro-batch 0 of the first part? */
static gboolean
runs_first (const PsiSchedule *schedule, guint rank, const GArray *list)
{
  for (guint t = 0; t < list->len; t++)
    {
      const PsiToken *token = &g_array_index (list, PsiToken, t);

      if (token->kind == PSI_TOKEN_FORWARD && token->micro_batch == 0 &&
          psi_schedule_part (schedule, rank, (guint) token->chunk) == 0)
        return TRUE;
    }
  return FALSE;
}

/* Count the parts, and see whether the ranks are workers that hold the whole model. */
static gboolean
finish (const Parser *parser, GError **error)
{
  PsiSchedule *schedule = parser->schedule;
  guint n_first = 0, n_copied = 0;

  schedule->micro_batches = parser->micro_batches;
  schedule->steps = (guint) MAX (parser->steps, 1);
  schedule->n_parts = 0;
  for (guint i = 0; i < schedule->n_ranks * schedule->n_chunks; i++)
    schedule->n_parts = MAX (schedule->n_parts, schedule->parts[i] + 1);
  g_autofree guint *holders = g_new0 (guint, schedule->n_parts);
  g_autofree guint *last = g_new0 (guint, schedule->n_parts); /* rank + 1 that held the part last */
  for (guint r = 0; r < schedule->n_ranks; r++)
    for (guint c = 0; c < schedule->n_chunks; c++)
      {
        guint part = psi_schedule_part (schedule, r, c);

        if (last[part] == r + 1)
          return refuse (parser, error, "rank %u holds part %u twice", r, part);
        last[part] = r + 1;
        holders[part]++;
      }
  schedule->whole = TRUE;
  for (guint part = 0; part < schedule->n_parts; part++)
    {
      if (holders[part] == 0)
        return refuse (parser, error, "no rank holds part %u", part);
      schedule->whole = schedule->whole && holders[part] == schedule->n_ranks;
      n_copied += holders[part] > 1;
    }
  for (guint r = 0; r < schedule->n_ranks; r++)
    n_first += (guint) runs_first (schedule, r, schedule->lists[r]) +
               (guint) (schedule->once != NULL && runs_first (schedule, r, schedule->once[r]));
  schedule->replicas = schedule->whole && n_first > 1;
  if (!schedule->has_updates && (schedule->once != NULL || schedule->steps > 1))
    return refuse (parser, error, "lists that repeat or cover several steps need 'U' words");
  if (!schedule->whole && n_copied > 0)
    psi_schedule_find_places (schedule);
  return TRUE;
}

PsiSchedule *
psi_schedule_parse (const char *text, const char *name, GError **error)
{
  Parser parser = { .name = name };
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  gboolean headed = FALSE, good = TRUE;

  for (char **line = lines; *line != NULL && good; line++)
    {
      parser.line++;
      (*line)[strcspn (*line, "#\r")] = '\0';
      g_strstrip (*line);
      if (**line == '\0')
        continue;
      if (headed)
        good = read_line (&parser, *line, error);
      else if (strcmp (*line, HEAD) == 0)
        headed = TRUE;
      else
        {
          g_autofree char *quoted = psi_quote (*line);

          good = refuse (&parser, error, "no schedule: %s (the first line must be '" HEAD "')", quoted);
        }
    }
  if (good)
    parser.line = 0;
  if (good && (!headed || parser.schedule == NULL || parser.micro_batches == 0))
    good = refuse (&parser, error, "the schedule is not whole: %s is missing",
                   !headed                     ? "the line '" HEAD "'"
                   : parser.micro_batches == 0 ? "'micro_batches'"
                                               : "'ranks' or a list");
  good = good && finish (&parser, error);
  if (good)
    return parser.schedule;
  psi_schedule_free (parser.schedule);
  return NULL;
}

PsiSchedule *
psi_schedule_load (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  g_autoptr (GError) fault = NULL;

  if (!psi_in_file_read (path, PSI_IN_FILE_MOST_TEXT_BYTES, &text, NULL, &fault))
    {
      g_set_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_READ, "cannot read schedule '%s': %s", path,
                   fault->message);
      return NULL;
    }
  return psi_schedule_parse (text, path, error);
}
