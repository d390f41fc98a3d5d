/* SPDX-License-Identifier: MIT */
/* The commands of psisim, their options and arguments, and how a command writes its result. One row for each command
 * and one for each option: parser, --help, man pages, completion and error texts read these two tables. */
#pragma once

#include "scenario.h"

#include <glib.h>

/* ---- Options that are not scenario keys ---- */

typedef enum
{
  PSI_OPTION_JSON,
  PSI_OPTION_CSV,
  PSI_OPTION_CHECK,  /* exit 3 if a plan does not fit */
  PSI_OPTION_PLOT,   /* DIR */
  PSI_OPTION_PLANS,  /* dp,cdp-v2,zero-3 */
  PSI_OPTION_ANSWER, /* explain */
  PSI_OPTION_VERBOSE,
  PSI_OPTION_QUIET,
  PSI_OPTION_HELP,
  PSI_OPTION_VERSION,
  PSI_OPTION_MAN,          /* help: print psisim.1 */
  PSI_OPTION_MAN_SCENARIO, /* help: print psisim-scenario.5 */
  PSI_OPTION_TIMELINE,
  PSI_OPTION_TIMELINE_RANKS,
  PSI_OPTION_REPORT,
  PSI_OPTION_CRITICAL_PATH,
  PSI_OPTION_OUTPUT,     /* FILE */
  PSI_OPTION_BACKEND,    /* calibrate: cuda, host */
  PSI_OPTION_BUDGET,     /* calibrate: seconds */
  PSI_OPTION_VERIFY,     /* calibrate: also train for real and compare */
  PSI_OPTION_OPERATION,  /* fit: the collective of a log that does not say it */
  PSI_OPTION_ALGORITHM,  /* collective: instead of the one NCCL would choose */
  PSI_OPTION_SOURCE,     /* fit: where others' numbers come from */
  PSI_OPTION_STEPS,      /* train, converge */
  PSI_OPTION_DATA,       /* train, converge: what to train on */
  PSI_OPTION_RATE,       /* train, converge: learning rate */
  PSI_OPTION_WHAT_HELPS, /* run, compare: simulate what would make it faster */
  PSI_OPTION_STRICT,     /* validate: rows with tight = yes only */
  PSI_N_OPTIONS
} PsiOptionId;

typedef struct
{
  const char *name;     /* "plot": the flag is --plot */
  char letter;          /* 'v' for -v, or 0 */
  const char *argument; /* "DIR", or NULL: takes none */
  const char *help;     /* one line; NULL: works but is not shown */
} PsiOption;

extern const PsiOption psi_options[PSI_N_OPTIONS];

#define PSI_OPTION_BIT(id) (1u << (id))

/* ---- Commands ---- */

typedef struct _PsiCommand PsiCommand;

/* What was typed after the name of a command. */
typedef struct
{
  const PsiCommand *command;
  GPtrArray *words;                  /* of const char*: the arguments that are neither options nor keys, in order */
  GArray *flags;                     /* of PsiKeyFlag: scenario keys, values already checked */
  gboolean given[PSI_N_OPTIONS];     /* was the option written? */
  const char *values[PSI_N_OPTIONS]; /* its argument, NULL if it takes none or was not written */
} PsiArguments;

struct _PsiCommand
{
  const char *name;      /* "run"; two words for a subcommand: "schedule show" */
  const char *arguments; /* "[FILE]", for the usage line */
  const char *help;      /* one line; NULL: works but is not shown */
  const char *details;   /* paragraphs for `help COMMAND` and the man page, separated by an empty line, or NULL */
  guint min_words, max_words;
  gboolean keys; /* takes every scenario key as a flag */
  guint options; /* PSI_OPTION_BIT of those it takes; --help, --quiet, -v, --version always */
  /* Returns the exit status: 0 done, 1 failed, 2 wrong usage, 3 does not fit (--check). NULL: not in this version. */
  int (*handler) (const PsiArguments *arguments);
};

extern const PsiCommand psi_commands[]; /* ends with name NULL, in the order of --help */

/* The handlers, one file cmd-<name>.c each. */
int psi_cmd_run (const PsiArguments *arguments);
int psi_cmd_compare (const PsiArguments *arguments);
int psi_cmd_explain (const PsiArguments *arguments);        /* words: [NAME] */
int psi_cmd_schedule (const PsiArguments *arguments);       /* schedule show; words: [FILE] */
int psi_cmd_schedule_check (const PsiArguments *arguments); /* words: FILE */
int psi_cmd_list (const PsiArguments *arguments);
int psi_cmd_fit (const PsiArguments *arguments); /* words: SAMPLES ... */
int psi_cmd_calibrate (const PsiArguments *arguments);
int psi_cmd_collective (const PsiArguments *arguments); /* words: OP */
int psi_cmd_train (const PsiArguments *arguments);      /* words: [FILE] */
int psi_cmd_converge (const PsiArguments *arguments);
int psi_cmd_validate (const PsiArguments *arguments); /* words: RUNS.csv */
int psi_cmd_help (const PsiArguments *arguments);
int psi_cmd_complete (const PsiArguments *arguments);

/* Find the command that `words` begin with; *ret_n_words says how many of them are its name. Errors name the nearest
 * command, or say that it is not in this version. */
const PsiCommand *psi_command_find (const char *const *words, guint n_words, guint *ret_n_words, GError **error);

/* ---- Arguments ---- */

/* Sort out `argv` (without the program and command names). Unknown and doubled options, missing arguments,
 * wrong values of keys are PSI_USAGE_ERROR. (transfer full); strings of argv are borrowed. */
PsiArguments *psi_arguments_parse (const PsiCommand *command, int argc, char **argv, GError **error);
void psi_arguments_free (PsiArguments *arguments);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiArguments, psi_arguments_free)

/* Does the command take that option? */
gboolean psi_command_takes (const PsiCommand *command, PsiOptionId option);

/* "--micro-batch". (transfer full) */
char *psi_key_flag_name (PsiKeyId key);

/* The scenario a command was asked for: its first word is the file (none: flags alone), --plans and key flags apply.
 * `one_plan`: several plans in the file without --plan are a PSI_USAGE_ERROR that lists them. (transfer full) */
PsiScenario *psi_arguments_scenario (const PsiArguments *arguments, gboolean one_plan, GError **error);

#define PSI_USAGE_ERROR (psi_usage_error_quark ())
typedef enum
{
  PSI_USAGE_ERROR_COMMAND,
  PSI_USAGE_ERROR_OPTION,
  PSI_USAGE_ERROR_VALUE,
  PSI_USAGE_ERROR_LATER
} PsiUsageError;
GQuark psi_usage_error_quark (void);

/* ---- Writing ---- */

/* Write a whole result to stdout and flush it. Returns the exit status: 0, or 1 when it could not be written (full
 * disk, closed output), which one line on stderr says. Build the text first, write it once, last: stdout stays empty
 * on any error. */
int psi_output_write (const char *text);
/* Append ", \"KEY\": VALUE"; null for what is not finite. */
void psi_append_json_number (GString *out, const char *key, double value);

/* Print "psisim: MESSAGE" to stderr as one line. Returns the exit status: 2 if the fault is in the command line (any
 * PSI_USAGE_ERROR, or a message about a --flag), else 1. Use: return psi_fail (error); */
int psi_fail (const GError *error);

/* "psisim: warning: MESSAGE" on stderr, unless --quiet. */
void psi_warn (const PsiArguments *arguments, const char *message);

/* From a second after begin until end, a line on stderr says that `what` ("simulating 3 plans") is still running. Only
 * on a terminal, not with --quiet. Not nested. */
void psi_progress_begin (const PsiArguments *arguments, const char *what);
void psi_progress_end (void);

/* Topics of `list`, NULL-ended, for help and completion. */
extern const char *const psi_list_topics[];

/* The words of one topic: names in ret_names, one-line texts in ret_summaries (both of char*, cleared with g_free).
 * FALSE if there is no such topic. */
gboolean psi_list_collect (const char *topic, GPtrArray *ret_names, GPtrArray *ret_summaries);
