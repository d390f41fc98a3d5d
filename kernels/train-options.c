/* SPDX-License-Identifier: MIT */
#include "train-options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum
{
  KIND_COUNT,
  KIND_REAL,
  KIND_SEED,
  KIND_TEXT,
  KIND_SWITCH,
  KIND_COUNTS,
  KIND_UPDATE,
  KIND_LOG
} Kind;

static const char *const log_names[TRAIN_N_LOGS] = { "ops", "steps", "end" };

typedef struct
{
  const char *name;
  Kind kind;
  size_t offset;
  double minimum, maximum;
  const char *value, *help;
} Flag;

#define AT(member) offsetof (TrainOptions, member)

static const Flag flags[] = {
  { "schedule", KIND_TEXT, AT (schedule_path), 0, 0, "FILE", "the schedule to run; - reads standard input" },
  { "width", KIND_COUNT, AT (width), 1, 65536, "D", "width of every block (default 256)" },
  { "blocks", KIND_COUNT, AT (blocks), 1, 100000, "L",
    "blocks of the model, spread over its parts (default: one a part)" },
  { "uneven", KIND_SWITCH, AT (uneven), 0, 0, "", "hidden widths of 1/2, 1, 3/2 and 2 D in turn" },
  { "batch", KIND_COUNT, AT (batch), 1, 1 << 20, "B", "samples of one micro-batch (default 32)" },
  { "worker-batches", KIND_COUNTS, AT (worker_batches), 1, 1 << 20, "LIST", "uneven samples per worker: 6,2,2,2" },
  { "unweighted", KIND_SWITCH, AT (unweighted), 0, 0, "",
    "plain mean of uneven workers' gradients (wrong on purpose)" },
  { "update", KIND_UPDATE, AT (update), 0, 0, "RULE", "synchronous cyclic-v1 cyclic-v2 (default: as the file says)" },
  { "zero", KIND_COUNT, AT (zero), 0, 3, "N", "shard optimizer (1), gradients (2), parameters (3) over the ranks" },
  { "steps", KIND_COUNT, AT (steps), 1, 1000000, "S", "optimizer steps (default 4)" },
  { "lr", KIND_REAL, AT (rate), 0, 1e6, "RATE", "learning rate (default 0.05)" },
  { "momentum", KIND_REAL, AT (momentum), 0, 1, "M", "momentum (default 0.9)" },
  { "seed", KIND_SEED, AT (seed), 0, 0, "N", "seed of parameters and data (default 1)" },
  { "data", KIND_TEXT, AT (data), 0, 0, "PATH", "teacher clusters, CIFAR-10 batches or MNIST IDX files" },
  { "reference", KIND_SWITCH, AT (reference), 0, 0, "", "one process, the update rule by its equation, no schedule" },
  { "workers", KIND_COUNT, AT (workers), 1, 4096, "N", "workers of the reference (default: the schedule's)" },
  { "stages", KIND_COUNT, AT (stages), 1, 4096, "K", "parts of the reference (default: the schedule's)" },
  { "parameters", KIND_TEXT, AT (parameters_path), 0, 0, "FILE", "write the final parameters, raw float32" },
  { "compare", KIND_TEXT, AT (compare_path), 0, 0, "FILE", "compare them with such a file; exit 1 if they differ" },
  { "tolerance", KIND_REAL, AT (tolerance), 0, 1e9, "X", "allowed difference, relative to the norm (default 1e-6)" },
  { "log", KIND_LOG, AT (log), 0, 0, "WHAT", "ops steps end: how much to print (default ops)" },
  { "timeout", KIND_REAL, AT (timeout_s), 0.01, 86400, "S", "seconds a rank waits before it gives up (default 60)" },
  { "staged", KIND_SWITCH, AT (staged), 0, 0, "", "GPUs: boundary tensors through host memory" },
  { "unchecked", KIND_SWITCH, AT (unchecked), 0, 0, "", "run even a schedule that deadlocks, until the timeout" },
};

#define N_FLAGS (sizeof flags / sizeof flags[0])

static bool
parse_choice (const Flag *flag, const char *text, const char *const *names, int n, int first, int *ret,
              TrainError *error)
{
  char allowed[200] = "";

  for (int i = first; i < n; i++)
    {
      if (strcmp (text, names[i]) == 0)
        {
          *ret = i;
          return true;
        }
      strncat (allowed, " ", sizeof allowed - strlen (allowed) - 1);
      strncat (allowed, names[i], sizeof allowed - strlen (allowed) - 1);
    }
  return train_fail (error, "--%s: unknown '%s', allowed:%s", flag->name, text, allowed);
}

static bool
parse_number (const Flag *flag, const char *text, double *ret, TrainError *error)
{
  char *end;
  bool whole = flag->kind != KIND_REAL;

  errno = 0;
  *ret = strtod (text, &end);
  if (end == text || *end != '\0' || errno != 0 || !isfinite (*ret) || (whole && *ret != floor (*ret)))
    return train_fail (error, "--%s: '%s' is not a %snumber", flag->name, text, whole ? "whole " : "");
  if (*ret < flag->minimum || *ret > flag->maximum)
    return train_fail (error, "--%s: '%s' is out of range, allowed: %g to %g", flag->name, text, flag->minimum,
                       flag->maximum);
  return true;
}

static bool
parse_counts (const Flag *flag, const char *text, TrainOptions *options, TrainError *error)
{
  char *copy = strdup (text), *position = NULL;
  bool good = copy != NULL;

  free (options->worker_batches);
  options->worker_batches = train_new (strlen (text) + 1, sizeof (int));
  options->n_worker_batches = 0;
  for (char *word = good ? strtok_r (copy, ",", &position) : NULL; word != NULL && good;
       word = strtok_r (NULL, ",", &position))
    {
      double value = 0.0;

      good = parse_number (flag, word, &value, error);
      options->worker_batches[options->n_worker_batches++] = (int) value;
    }
  free (copy);
  return good && (options->n_worker_batches > 0 ||
                  train_fail (error, "--%s: '%s' is not a list of whole numbers", flag->name, text));
}

static bool
parse_value (const Flag *flag, const char *text, TrainOptions *options, TrainError *error)
{
  void *at = (char *) options + flag->offset;
  double number = 0.0;
  int choice = 0;
  char *end;

  switch (flag->kind)
    {
    case KIND_COUNT:
      if (!parse_number (flag, text, &number, error))
        return false;
      *(int *) at = (int) number;
      return true;
    case KIND_REAL:
      return parse_number (flag, text, at, error);
    case KIND_SEED:
      *(uint64_t *) at = strtoull (text, &end, 10);
      return (*text != '\0' && *end == '\0' && *text != '-') ||
             train_fail (error, "--%s: '%s' is not a whole number", flag->name, text);
    case KIND_TEXT:
      *(const char **) at = text;
      return true;
    case KIND_COUNTS:
      return parse_counts (flag, text, options, error);
    case KIND_UPDATE:
      if (!parse_choice (flag, text, train_update_names, TRAIN_N_UPDATES, TRAIN_UPDATE_SYNCHRONOUS, &choice, error))
        return false;
      *(TrainUpdate *) at = (TrainUpdate) choice;
      return true;
    case KIND_LOG:
      if (!parse_choice (flag, text, log_names, TRAIN_N_LOGS, 0, &choice, error))
        return false;
      *(TrainLog *) at = (TrainLog) choice;
      return true;
    case KIND_SWITCH:
      break;
    }
  return false;
}

bool
train_options_parse (int argc, char **argv, TrainOptions *options, bool *ret_help, TrainError *error)
{
  *options = (TrainOptions){ .width = 256,
                             .batch = 32,
                             .steps = 4,
                             .rate = 0.05,
                             .momentum = 0.9,
                             .timeout_s = 60.0,
                             .seed = 1,
                             .data = "teacher",
                             .tolerance = 1e-6 };
  *ret_help = false;
  for (int i = 1; i < argc; i++)
    {
      const char *name = argv[i], *value;
      size_t length, row;

      if (strcmp (name, "--help") == 0)
        {
          *ret_help = true;
          return true;
        }
      if (strncmp (name, "--", 2) != 0)
        return train_fail (error, "unexpected argument '%s', see --help", name);
      name += 2;
      length = strcspn (name, "=");
      for (row = 0; row < N_FLAGS; row++)
        if (strlen (flags[row].name) == length && strncmp (flags[row].name, name, length) == 0)
          break;
      if (row == N_FLAGS)
        return train_fail (error, "unknown flag '--%s', see --help", name);
      if (flags[row].kind == KIND_SWITCH)
        {
          *(bool *) ((char *) options + flags[row].offset) = true;
          continue;
        }
      value = name[length] == '=' ? name + length + 1 : i + 1 < argc ? argv[++i] : NULL;
      if (value == NULL)
        return train_fail (error, "--%s: a value is missing", flags[row].name);
      if (!parse_value (&flags[row], value, options, error))
        return false;
    }
  if (options->schedule_path == NULL && !options->reference)
    return train_fail (error, "nothing to run: --schedule FILE or --reference is needed");
  if (options->update == TRAIN_UPDATE_RANDOM && !options->reference)
    return train_fail (error, "--update: 'random' needs --reference");
  return true;
}

void
train_options_clear (TrainOptions *options)
{
  free (options->worker_batches);
  options->worker_batches = NULL;
}

void
train_options_help (const char *program)
{
  printf ("usage: %s --schedule FILE [--flag value ...]\n"
          "Trains a small model on real tensors in the order of a schedule file; prints JSON Lines.\n\n",
          program);
  for (size_t i = 0; i < N_FLAGS; i++)
    {
      char name[40];

      snprintf (name, sizeof name, "--%s %s", flags[i].name, flags[i].value);
      printf ("  %-24s %s\n", name, flags[i].help);
    }
}
