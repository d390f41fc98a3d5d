/* SPDX-License-Identifier: MIT */
#include "train-schedule.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COUNT 1000000

bool
train_fail (TrainError *error, const char *format, ...)
{
  va_list arguments;

  if (error == NULL || error->text[0] != '\0')
    return false;
  va_start (arguments, format);
  vsnprintf (error->text, sizeof error->text, format, arguments);
  va_end (arguments);
  return false;
}

void *
train_new (size_t n, size_t size_bytes)
{
  void *memory = calloc (n > 0 ? n : 1, size_bytes);

  if (memory == NULL)
    {
      fprintf (stderr, "train: out of host memory (%zu x %zu bytes)\n", n, size_bytes);
      exit (1);
    }
  return memory;
}

typedef struct
{
  const char *name;
  int line;
  TrainSchedule *schedule;
  TrainList *lists; /* where rank lines go now */
  bool seen_rank, has_micro_batches;
  TrainError *error;
} Parser;

static bool
refuse (Parser *parser, const char *what, const char *culprit, const char *allowed)
{
  return train_fail (parser->error, "%s:%d: %s '%s'%s%s", parser->name, parser->line, what, culprit,
                     allowed[0] != '\0' ? ", " : "", allowed);
}

/* A whole number at *text, which moves past it; -1 if there is none or it is too large. */
static int
read_count (const char **text)
{
  long value = 0;

  if (!isdigit ((unsigned char) **text))
    return -1;
  for (; isdigit ((unsigned char) **text); ++*text)
    {
      value = value * 10 + (**text - '0');
      if (value > MAX_COUNT)
        return -1;
    }
  return (int) value;
}

/* F3, B3.1: kind, micro-batch, chunk. */
static bool
read_op (const Parser *parser, const char **text, char *kind, int *micro_batch, int *chunk)
{
  if (**text == '\0' || strchr ("FBIW", **text) == NULL)
    return false;
  *kind = *(*text)++;
  *micro_batch = read_count (text);
  *chunk = 0;
  if (**text == '.')
    {
      ++*text;
      *chunk = read_count (text);
    }
  return *micro_batch >= 0 && *chunk >= 0 && *chunk < parser->schedule->n_chunks;
}

static TrainToken *
append_token (TrainList *list)
{
  if ((list->n_tokens & (list->n_tokens - 1)) == 0)
    {
      TrainToken *grown = train_new (list->n_tokens > 0 ? 2 * list->n_tokens : 1, sizeof *grown);

      if (list->n_tokens > 0)
        memcpy (grown, list->tokens, list->n_tokens * sizeof *grown);
      free (list->tokens);
      list->tokens = grown;
    }
  return &list->tokens[list->n_tokens++];
}

static void
append_wait (TrainSchedule *schedule, TrainWait wait)
{
  if ((schedule->n_waits & (schedule->n_waits - 1)) == 0)
    {
      TrainWait *grown = train_new (schedule->n_waits > 0 ? 2 * schedule->n_waits : 1, sizeof *grown);

      if (schedule->n_waits > 0)
        memcpy (grown, schedule->waits, schedule->n_waits * sizeof *grown);
      free (schedule->waits);
      schedule->waits = grown;
    }
  schedule->waits[schedule->n_waits++] = wait;
}

static const char allowed_words[] = "allowed: F3 B3 I3 W3 F3.1 F4+B1.1 U1 @-1 >2:B0.1 with existing ranks and chunks";

/* ">2:B0.1" */
static bool
parse_wait (Parser *parser, const char *word)
{
  const char *text = word + 1;
  TrainWait wait;

  wait.rank = read_count (&text);
  if (wait.rank < 0 || wait.rank >= parser->schedule->n_ranks || *text++ != ':' ||
      !read_op (parser, &text, &wait.kind, &wait.micro_batch, &wait.chunk) || *text != '\0')
    return refuse (parser, "unknown word", word, allowed_words);
  append_wait (parser->schedule, wait);
  return true;
}

/* "@-2": the parameters of so many steps before. */
static bool
read_delay (const char **text, int *ret_delay)
{
  int delay = -1;

  if (strncmp (*text, "@-", 2) == 0)
    {
      *text += 2;
      delay = read_count (text);
    }
  if (delay < 1 || delay > TRAIN_MOST_DELAY)
    return false;
  *ret_delay = delay;
  return true;
}

/* "F4+B1.1", "U1", "F3@-1" */
static bool
parse_token (Parser *parser, TrainList *list, const char *word, int first_wait)
{
  TrainSchedule *schedule = parser->schedule;
  const char *text = word;
  bool joined = false;

  do
    {
      TrainToken token = { .joined = joined, .first_wait = first_wait };

      if (*text == 'U')
        {
          token.kind = *text++;
          if (*text != '\0' || schedule->n_chunks > 1) /* a single chunk needs no number */
            token.chunk = read_count (&text);
          if (token.chunk < 0 || token.chunk >= schedule->n_chunks)
            return refuse (parser, "unknown word", word, allowed_words);
          schedule->updates = true;
        }
      else if (!read_op (parser, &text, &token.kind, &token.micro_batch, &token.chunk))
        return refuse (parser, "unknown word", word, allowed_words);
      if (*text == '@' && !read_delay (&text, &token.delay))
        return refuse (parser, "unknown word", word, allowed_words);
      if (!joined)
        token.n_waits = (int) schedule->n_waits - first_wait;
      *append_token (list) = token;
      joined = true;
    }
  while (*text++ == '+');
  if (text[-1] != '\0')
    return refuse (parser, "unknown word", word, allowed_words);
  return true;
}

static bool
parse_list (Parser *parser, TrainList *list, char *rest)
{
  int first_wait = (int) parser->schedule->n_waits;
  char *position = NULL;

  for (char *word = strtok_r (rest, " \t", &position); word != NULL; word = strtok_r (NULL, " \t", &position))
    {
      if (word[0] == '>')
        {
          if (!parse_wait (parser, word))
            return false;
          continue;
        }
      if (word[0] == '@' && list->n_tokens > 0)
        {
          const char *text = word;

          if (!read_delay (&text, &list->tokens[list->n_tokens - 1].delay) || *text != '\0')
            return refuse (parser, "unknown word", word, allowed_words);
          continue;
        }
      if (!parse_token (parser, list, word, first_wait))
        return false;
      first_wait = (int) parser->schedule->n_waits;
    }
  if (first_wait != (int) parser->schedule->n_waits)
    return refuse (parser, "nothing follows the wait", ">", "a wait stands before a token");
  return true;
}

/* Default placement, chunk c of rank r is part c * ranks + r; needs ranks and chunks. */
static bool
place_parts (Parser *parser)
{
  TrainSchedule *schedule = parser->schedule;

  if (schedule->part_of != NULL)
    return true;
  if (schedule->n_ranks == 0)
    return train_fail (parser->error, "%s:%d: 'ranks' must come first", parser->name, parser->line);
  schedule->part_of = train_new ((size_t) schedule->n_ranks * (size_t) schedule->n_chunks, sizeof (int));
  for (int i = 0; i < schedule->n_ranks * schedule->n_chunks; i++)
    schedule->part_of[i] = i;
  schedule->once = train_new ((size_t) schedule->n_ranks, sizeof (TrainList));
  schedule->loop = train_new ((size_t) schedule->n_ranks, sizeof (TrainList));
  parser->lists = schedule->loop;
  return true;
}

static bool
parse_parts (Parser *parser, int chunk, char *rest)
{
  TrainSchedule *schedule = parser->schedule;
  const char *text = rest;

  for (int rank = 0; rank < schedule->n_ranks; rank++)
    {
      text += strspn (text, " \t");
      int part = read_count (&text);

      if (part < 0 || part >= schedule->n_ranks * schedule->n_chunks)
        return refuse (parser, "cannot place parts", rest, "one part number per rank is needed");
      schedule->part_of[chunk * schedule->n_ranks + rank] = part;
    }
  text += strspn (text, " \t");
  return *text == '\0' || refuse (parser, "too many parts", text, "one part number per rank is needed");
}

/* "part 0: ..." and "rank 3: ...": the number goes to *ret_index, the rest is returned. */
static char *
parse_index (Parser *parser, char *rest, int limit, int *ret_index)
{
  const char *text = rest;
  int index = read_count (&text);

  if (index < 0 || index >= limit || *text != ':')
    {
      refuse (parser, "bad line", rest, "a number in range and a colon are needed");
      return NULL;
    }
  *ret_index = index;
  return rest + (text - rest) + 1;
}

static bool
parse_count_line (Parser *parser, const char *key, const char *rest, int *ret_count)
{
  const char *text = rest;
  int count = read_count (&text);

  if (count < 1 || *text != '\0')
    return train_fail (parser->error, "%s:%d: %s: '%s' is not a whole number above 0", parser->name, parser->line, key,
                       rest);
  *ret_count = count;
  return true;
}

static bool
parse_repeat (Parser *parser)
{
  TrainSchedule *schedule = parser->schedule;
  TrainList *lists;

  if (!place_parts (parser))
    return false;
  if (schedule->repeats)
    return refuse (parser, "doubled line", "repeat", "");
  schedule->repeats = true;
  lists = schedule->once;
  schedule->once = schedule->loop;
  schedule->loop = lists;
  parser->lists = lists;
  return true;
}

static bool
parse_line (Parser *parser, char *line)
{
  TrainSchedule *schedule = parser->schedule;
  size_t length = strcspn (line, " \t");
  char *rest = line + length + strspn (line + length, " \t");
  int index = 0;

  if (line[length] != '\0')
    line[length] = '\0';
  if (strcmp (line, "ranks") == 0 && schedule->part_of == NULL)
    return parse_count_line (parser, line, rest, &schedule->n_ranks);
  if (strcmp (line, "chunks") == 0 && schedule->part_of == NULL)
    return parse_count_line (parser, line, rest, &schedule->n_chunks);
  if (strcmp (line, "micro_batches") == 0)
    {
      parser->has_micro_batches = true;
      return parse_count_line (parser, line, rest, &schedule->micro_batches);
    }
  if (strcmp (line, "steps") == 0)
    return parse_count_line (parser, line, rest, &schedule->steps);
  if (strcmp (line, "repeat") == 0 && *rest == '\0')
    return parse_repeat (parser);
  if (strcmp (line, "part") == 0)
    return place_parts (parser) && (rest = parse_index (parser, rest, schedule->n_chunks, &index)) != NULL &&
           parse_parts (parser, index, rest);
  if (strcmp (line, "rank") == 0)
    return place_parts (parser) && (rest = parse_index (parser, rest, schedule->n_ranks, &index)) != NULL &&
           parse_list (parser, &parser->lists[index], rest);
  return refuse (parser, "unexpected line", line, "allowed: ranks chunks part micro_batches steps repeat rank");
}

/* Count the parts, and see whether the ranks are replicas that each number their own micro-batches. */
static bool
finish (Parser *parser)
{
  TrainSchedule *schedule = parser->schedule;
  int n_cells = schedule->n_ranks * schedule->n_chunks, runs_first = 0;
  bool whole = true;

  for (int i = 0; i < n_cells; i++)
    if (schedule->part_of[i] >= schedule->n_parts)
      schedule->n_parts = schedule->part_of[i] + 1;
  for (int part = 0; part < schedule->n_parts; part++)
    {
      int n_holders = 0;

      for (int rank = 0; rank < schedule->n_ranks; rank++)
        {
          bool holds = false;

          for (int chunk = 0; chunk < schedule->n_chunks; chunk++)
            holds |= train_schedule_part (schedule, rank, chunk) == part;
          n_holders += holds;
        }
      if (n_holders == 0)
        return train_fail (parser->error, "%s: no rank holds part %d", parser->name, part);
      whole &= n_holders == schedule->n_ranks;
    }
  for (int rank = 0; rank < schedule->n_ranks; rank++)
    for (int half = 0; half < 2; half++)
      {
        const TrainList *list = half == 0 ? &schedule->once[rank] : &schedule->loop[rank];
        bool found = false;

        for (size_t i = 0; i < list->n_tokens; i++)
          found |= list->tokens[i].kind == 'F' && list->tokens[i].micro_batch == 0 &&
                   train_schedule_part (schedule, rank, list->tokens[i].chunk) == 0;
        runs_first += found;
      }
  schedule->whole = whole;
  schedule->replicas = whole && runs_first > 1;
  if (!schedule->updates && (schedule->repeats || schedule->steps > 1))
    return train_fail (parser->error, "%s: lists that repeat or cover several steps need U words", parser->name);
  return true;
}

TrainSchedule *
train_schedule_parse (const char *text, const char *name, TrainError *error)
{
  Parser parser = { .name = name, .error = error };
  bool headed = false, good = true;
  char *copy = train_new (strlen (text) + 1, 1), *line = copy;

  parser.schedule = train_new (1, sizeof (TrainSchedule));
  parser.schedule->n_chunks = parser.schedule->steps = 1;
  memcpy (copy, text, strlen (text));
  while (good && line != NULL)
    {
      char *next = strchr (line, '\n');
      size_t length;

      if (next != NULL)
        *next++ = '\0';
      parser.line++;
      line[strcspn (line, "#\r")] = '\0';
      line += strspn (line, " \t");
      for (length = strlen (line); length > 0 && isspace ((unsigned char) line[length - 1]); length--)
        line[length - 1] = '\0';
      if (*line != '\0' && !headed)
        {
          headed = strcmp (line, "psisim-schedule 1") == 0;
          good = headed || refuse (&parser, "not a schedule:", line, "the first line must be 'psisim-schedule 1'");
        }
      else if (*line != '\0')
        good = parse_line (&parser, line);
      line = next;
    }
  if (good && (!headed || parser.schedule->part_of == NULL || !parser.has_micro_batches))
    good = train_fail (error, "%s: not a whole schedule: %s is missing", name,
                       !headed                     ? "the line 'psisim-schedule 1'"
                       : !parser.has_micro_batches ? "'micro_batches'"
                                                   : "'ranks' or a list");
  good = good && finish (&parser);
  free (copy);
  if (good)
    return parser.schedule;
  train_schedule_free (parser.schedule);
  return NULL;
}

TrainSchedule *
train_schedule_load (const char *path, TrainError *error)
{
  FILE *file = strcmp (path, "-") == 0 ? stdin : fopen (path, "rb");
  size_t n_bytes = 0, space_bytes = 1 << 16;
  char *text;
  TrainSchedule *schedule;

  if (file == NULL)
    {
      train_fail (error, "cannot open schedule '%s': %s", path, strerror (errno));
      return NULL;
    }
  text = train_new (space_bytes, 1);
  for (size_t n; (n = fread (text + n_bytes, 1, space_bytes - n_bytes - 1, file)) > 0;)
    {
      n_bytes += n;
      if (n_bytes + 1 == space_bytes)
        {
          char *grown = train_new (2 * space_bytes, 1);

          memcpy (grown, text, n_bytes);
          free (text);
          text = grown;
          space_bytes *= 2;
        }
    }
  if (file != stdin)
    fclose (file);
  text[n_bytes] = '\0';
  schedule = train_schedule_parse (text, path, error);
  free (text);
  return schedule;
}

void
train_schedule_free (TrainSchedule *schedule)
{
  if (schedule == NULL)
    return;
  for (int rank = 0; rank < schedule->n_ranks && schedule->once != NULL; rank++)
    {
      free (schedule->once[rank].tokens);
      free (schedule->loop[rank].tokens);
    }
  free (schedule->once);
  free (schedule->loop);
  free (schedule->part_of);
  free (schedule->waits);
  free (schedule);
}

int
train_schedule_part (const TrainSchedule *schedule, int rank, int chunk)
{
  return schedule->part_of[chunk * schedule->n_ranks + rank];
}

char *
train_token_print (const TrainSchedule *schedule, char kind, int micro_batch, int chunk, char *text)
{
  if (kind == 'U')
    snprintf (text, 32, "U%d", chunk);
  else if (schedule->n_chunks == 1)
    snprintf (text, 32, "%c%d", kind, micro_batch);
  else
    snprintf (text, 32, "%c%d.%d", kind, micro_batch, chunk);
  return text;
}
