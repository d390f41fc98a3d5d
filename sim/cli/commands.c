/* SPDX-License-Identifier: MIT */
/* The two tables of the command line. To add a command: a row here, a file cmd-<name>.c. */
#include "commands.h"

#include "quantity.h"

#include <string.h>

G_DEFINE_QUARK (psi_usage_error, psi_usage_error)

/* clang-format off */
const PsiOption psi_options[PSI_N_OPTIONS] = {
  [PSI_OPTION_JSON] =   { "json", 0, NULL, "print one JSON object" },
  [PSI_OPTION_CSV] =    { "csv", 0, NULL, "print one row per plan, with a header" },
  [PSI_OPTION_CHECK] =  { "check", 0, NULL, "exit 3 if a plan does not fit" },
  [PSI_OPTION_PLOT] =   { "plot", 0, "DIR", "draw the result into DIR, as SVG and PNG (needs gnuplot)" },
  [PSI_OPTION_PLANS] =  { "plans", 0, "A,B,...", "compare these strategies instead of the plans of the file" },
  [PSI_OPTION_ANSWER] = { "answer", 0, NULL, "show the answer to the lesson's question" },
  [PSI_OPTION_VERBOSE] = { "verbose", 'v', NULL, "print more: assumptions, details" },
  [PSI_OPTION_QUIET] =  { "quiet", 0, NULL, "no progress and no warnings on stderr" },
  [PSI_OPTION_HELP] =   { "help", 'h', NULL, "print help and exit" },
  [PSI_OPTION_VERSION] = { "version", 0, NULL, "print the version and exit" },
  [PSI_OPTION_MAN] =    { "man", 0, NULL, NULL },
  [PSI_OPTION_MAN_SCENARIO] = { "man-scenario", 0, NULL, NULL },
  [PSI_OPTION_TIMELINE] = { "timeline", 0, "FILE", "write the step as a timeline for Perfetto or chrome://tracing; FILE.pickle: its memory for PyTorch's memory_viz; compare writes one for each plan" },
  [PSI_OPTION_TIMELINE_RANKS] = { "timeline-ranks", 0, "A-B,C", "draw these ranks (default: one of each class of equal ranks)" },
  [PSI_OPTION_REPORT] = { "report", 0, "FILE", "write the result as one page for a browser, FILE.html" },
  [PSI_OPTION_CRITICAL_PATH] = { "critical-path", 0, NULL, "tell which ops on which ranks decide the step time" },
  [PSI_OPTION_WHAT_HELPS] = { "what-helps", 0, NULL, "also simulate what would make the plan faster: the rate of links it needs, other degrees, one GPU" },
  [PSI_OPTION_OUTPUT] = { "output", 'o', "FILE", "write the result into FILE" },
  [PSI_OPTION_BACKEND] = { "backend", 0, "cuda|host", "what to measure: GPUs (default) or CPU cores" },
  [PSI_OPTION_BUDGET] = { "budget", 0, "SECONDS", "time to measure for (default 240; 20 with --verify)" },
  [PSI_OPTION_VERIFY] = { "verify", 0, NULL, "also train for real on the cores, and compare with the prediction" },
  [PSI_OPTION_OPERATION] = { "op", 0, "OP", "the collective that logs of nccl-tests are about, if they do not say it" },
  [PSI_OPTION_ALGORITHM] = { "algorithm", 0, "NAME", "by ring, tree, direct or another, not as NCCL would choose" },
  [PSI_OPTION_SOURCE] = { "source", 0, "TEXT", "fit: where the numbers come from, makes the profile `published`; validate: only these sources" },
  [PSI_OPTION_STEPS] = { "steps", 0, "N", "optimizer steps to train" },
  [PSI_OPTION_DATA] = { "data", 0, "PATH", "teacher, clusters, CIFAR-10 binary batches or MNIST IDX files" },
  [PSI_OPTION_RATE] = { "lr", 0, "RATE", "learning rate" },
  [PSI_OPTION_STRICT] = { "strict", 0, NULL, "only rows that are complete enough to be scored strictly" },
};

#define BIT PSI_OPTION_BIT
#define OUTPUT (BIT (PSI_OPTION_JSON) | BIT (PSI_OPTION_CSV) | BIT (PSI_OPTION_CHECK) | BIT (PSI_OPTION_PLOT) | \
                BIT (PSI_OPTION_TIMELINE) | BIT (PSI_OPTION_TIMELINE_RANKS) | BIT (PSI_OPTION_REPORT) | \
                BIT (PSI_OPTION_CRITICAL_PATH) | BIT (PSI_OPTION_WHAT_HELPS))
/* clang-format on */

const PsiCommand psi_commands[] = {
  { .name = "run",
    .arguments = "[FILE] [--KEY VALUE ...]",
    .help = "simulate one plan: does it fit, how long is a step, where do time and memory go",
    .details = "FILE is a scenario; every key in it is also a flag, and flags override the file. Without FILE the "
               "flags alone say what is simulated. If the file has several plans, --plan NAME picks one.",
    .max_words = 1,
    .keys = TRUE,
    .options = OUTPUT,
    .handler = psi_cmd_run },
  { .name = "compare",
    .arguments = "[FILE] [--plans A,B,...] [--KEY VALUE ...]",
    .help = "simulate several plans side by side",
    .details = "The plans are those of FILE, or the strategies listed with --plans: then the keys of an unnamed [plan] "
               "in FILE and the flags apply to each of them.",
    .max_words = 1,
    .keys = TRUE,
    .options = OUTPUT | BIT (PSI_OPTION_PLANS),
    .handler = psi_cmd_compare },
  { .name = "explain",
    .arguments = "[NAME] [--answer] [--plot DIR]",
    .help = "a lesson on one strategy; without NAME the table of contents",
    .details =
        "A lesson simulates a small case of the strategy and prints what runs where in each slot, the activations "
        "held and the bytes sent in each slot, closed forms beside the simulated numbers, and a question.",
    .max_words = 1,
    .options = BIT (PSI_OPTION_ANSWER) | BIT (PSI_OPTION_PLOT),
    .handler = psi_cmd_explain },
  { .name = "schedule show",
    .arguments = "[FILE] [--KEY VALUE ...]",
    .help = "print the order of work of a plan as text",
    .details =
        "Prints the schedule of the plan in FILE or of the flags. Without a model, uniform stages are used. 'psisim "
        "help schedule check' says how to read it.",
    .max_words = 1,
    .keys = TRUE,
    .handler = psi_cmd_schedule },
  { .name = "schedule check",
    .arguments = "FILE [--KEY VALUE ...]",
    .help = "verify a schedule file: deadlock, order, memory, bubble",
    .details =
        "Reads a schedule that somebody wrote, or that 'schedule show' printed, and follows it with equal times of "
        "all parts and free transfers. Prints the period of a step, the bubble, the most micro-batches in flight on "
        "each rank, and the transfers. A schedule that is not sound is refused with the cycle of a deadlock, or the "
        "op that is missing, doubled or misplaced, and exit status 1.\n\n"
        "The file begins with the line psisim-schedule 1. Then: ranks, chunks (model parts on each rank), "
        "micro_batches, and for each rank a line with its ops in order, as in 'rank 0: F0 F1 B0 B1'. F3 is the "
        "forward of micro-batch 3, B3 its backward, I3 and W3 the halves of that for inputs and for weights; F3.1 "
        "the same on chunk 1; F4+B1 two ops at once. 'part 1: 3 2' says which model part chunk 1 is on each rank, "
        "if not chunk x ranks + rank.\n\n"
        "Orders without a flush also have: a line 'repeat', the lists before it run once, those behind it again and "
        "again, 'steps S' steps at a time; U1, update chunk 1; @-1 behind an op, it uses the parameters of the step "
        "before (@-2: of the one before that); >2:B0 before an op, it waits for B0 of rank 2.",
    .min_words = 1,
    .max_words = 1,
    .keys = TRUE,
    .handler = psi_cmd_schedule_check },
  { .name = "list",
    .arguments = "TOPIC",
    .help = "what there is: models, machines, schedules, plans, collectives, keys",
    .max_words = 1,
    .options = BIT (PSI_OPTION_JSON),
    .handler = psi_cmd_list },
  { .name = "help",
    .arguments = "[COMMAND]",
    .help = "print help on psisim or on one command",
    .max_words = 2,
    .options = BIT (PSI_OPTION_MAN) | BIT (PSI_OPTION_MAN_SCENARIO),
    .handler = psi_cmd_help },
  { .name = "complete",
    .arguments = "-- WORD ...",
    .help = "print what can stand in place of the last WORD, for the shell",
    .max_words = 100000,
    .handler = psi_cmd_complete },
  { .name = "calibrate",
    .arguments = "-o FILE | --verify [-o FILE]",
    .help = "measure this machine and write a profile",
    .details =
        "Runs products, copies and collectives on the GPUs (or CPU cores) of this machine, fits curves to them "
        "and compares them with the datasheet. FILE is then a machine: --machine FILE. The samples are kept "
        "beside it, for 'psisim fit'. Ctrl-C ends the measurement early; what was measured is used.\n\n"
        "Several nodes: run bench-cuda, which lies in libexec/psisim or build/kernels, under mpirun or srun with "
        "one process for each node (or for each GPU: --one-gpu-each), the same --id-file on a file system all of "
        "them see, and -o samples.jsonl; then 'psisim fit samples.jsonl -o FILE'.\n\n"
        "--verify measures the CPU cores, predicts dp, gpipe, 1f1b and cdp-single on two processes from that "
        "profile, trains them for real with train-host, and compares: CPU time of a step within 20 %, tensor "
        "memory within 3 %, parameters equal to those of one process bit for bit; the step time too (25 %) if "
        "nothing else ran. It measures anew up to three times on a busy machine. Exit status 1 if a bound is "
        "not kept.",
    .options = BIT (PSI_OPTION_OUTPUT) | BIT (PSI_OPTION_BACKEND) | BIT (PSI_OPTION_BUDGET) | BIT (PSI_OPTION_VERIFY) |
               BIT (PSI_OPTION_PLOT) | BIT (PSI_OPTION_JSON),
    .handler = psi_cmd_calibrate },
  { .name = "fit",
    .arguments = "SAMPLES ... -o FILE",
    .help = "turn samples or logs of nccl-tests into a profile",
    .details = "SAMPLES are files that 'calibrate' or the bench programs wrote, or output of nccl-tests (text, or JSON "
               "by its option -J). All of them together become one profile, FILE.",
    .min_words = 1,
    .max_words = 10000,
    .options = BIT (PSI_OPTION_OUTPUT) | BIT (PSI_OPTION_OPERATION) | BIT (PSI_OPTION_SOURCE) | BIT (PSI_OPTION_PLOT) |
               BIT (PSI_OPTION_JSON),
    .handler = psi_cmd_fit },
  { .name = "train",
    .arguments = "[FILE] [--KEY VALUE ...]",
    .help = "run a plan for real on this machine, with a small model",
    .details =
        "Runs the schedule of the plan (the one 'schedule show' prints) on real tensors: one process for each "
        "rank, on the GPUs of this machine or on its cores. The model is a stack of equal blocks: 'layers' "
        "(default: one for each part) of width 'hidden' (default 256), with 'micro_batch' samples (default 32). Prints "
        "measured time, memory and loss. FILE is a scenario or a schedule file.",
    .max_words = 1,
    .keys = TRUE,
    .options = BIT (PSI_OPTION_JSON) | BIT (PSI_OPTION_BACKEND) | BIT (PSI_OPTION_STEPS) | BIT (PSI_OPTION_DATA) |
               BIT (PSI_OPTION_RATE),
    .handler = psi_cmd_train },
  { .name = "converge",
    .arguments = "[--workers N] [--stages K] [--steps N]",
    .help = "train a small model under several update rules and compare the losses",
    .details =
        "The rules are data parallelism, cyclic data parallelism v1 and v2, and random delays of 0 or 1 step. Each "
        "is trained by its equation with five seeds, on the cores of this machine. Of the keys, workers, stages, "
        "layers, hidden, micro_batch and seed (the first) count.",
    .keys = TRUE,
    .options = BIT (PSI_OPTION_JSON) | BIT (PSI_OPTION_PLOT) | BIT (PSI_OPTION_STEPS) | BIT (PSI_OPTION_DATA) |
               BIT (PSI_OPTION_RATE),
    .handler = psi_cmd_converge },
  { .name = "collective",
    .arguments = "OP [--machine M] [--gpus N]",
    .help = "time and bandwidth of one collective from 8 B to 1 GiB",
    .details =
        "The columns are those of nccl-tests, so that a log of it can be held beside them. OP is one of 'psisim list "
        "collectives'. Of the keys, machine, gpus, gpus_per_node, network and internode count; without gpus one node "
        "is "
        "taken.",
    .min_words = 1,
    .max_words = 1,
    .keys = TRUE,
    .options = BIT (PSI_OPTION_JSON) | BIT (PSI_OPTION_ALGORITHM),
    .handler = psi_cmd_collective },
  { .name = "validate",
    .arguments = "RUNS.csv [-o OUT.csv]",
    .help = "predict each measured run of a file and print the errors by source",
    .details =
        "RUNS.csv has a header and one training run in each row. Every key can be a column ('psisim list keys'): "
        "model dimensions or a preset, machine, degrees, batch. An empty cell takes the framework's default, which "
        "-v names (Megatron-Bridge's recipes recompute or offload what it takes to fit). Other columns: id, which must "
        "be there; what was measured, step_time_s, peak_bytes with its "
        "memory_kind (allocated reserved device; unknown is what the framework logs, where its code says which) and "
        "outcome (ok oom); source, where the run is from; group, of "
        "alternatives whose order is scored; tight.\n\n"
        "A row that cannot be predicted, and a measured cell that says nothing, are named on stderr. --source A,B "
        "takes the rows of these sources only, "
        "--strict those that are complete (tight is yes).",
    .min_words = 1,
    .max_words = 1,
    .options = BIT (PSI_OPTION_OUTPUT) | BIT (PSI_OPTION_SOURCE) | BIT (PSI_OPTION_STRICT) | BIT (PSI_OPTION_PLOT) |
               BIT (PSI_OPTION_JSON) | BIT (PSI_OPTION_CSV),
    .handler = psi_cmd_validate },
  { NULL },
};

/* The words of a command's name that `words` begin with: 0 if they do not. */
static guint
name_matches (const PsiCommand *command, const char *const *words, guint n_words)
{
  g_auto (GStrv) parts = g_strsplit (command->name, " ", -1);
  guint n = g_strv_length (parts);

  for (guint i = 0; i < n; i++)
    if (i >= n_words || strcmp (parts[i], words[i]) != 0)
      return 0;
  return n;
}

const PsiCommand *
psi_command_find (const char *const *words, guint n_words, guint *ret_n_words, GError **error)
{
  if (n_words == 0)
    {
      g_set_error_literal (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_COMMAND, "no command (see 'psisim help')");
      return NULL;
    }
  for (const PsiCommand *command = psi_commands; command->name != NULL; command++)
    {
      guint n = name_matches (command, words, n_words);

      if (n == 0)
        continue;
      if (command->handler == NULL)
        {
          g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_LATER, "'%s' is not in this version", command->name);
          return NULL;
        }
      *ret_n_words = n;
      return command;
    }

  /* The first word may be half of a name: 'schedule'. */
  g_autofree char *half = g_strconcat (words[0], " ", NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  GString *seconds = g_string_new (NULL);
  for (const PsiCommand *command = psi_commands; command->name != NULL; command++)
    {
      g_ptr_array_add (names, (gpointer) command->name);
      if (g_str_has_prefix (command->name, half) && command->handler != NULL)
        g_string_append_printf (seconds, "%s'%s'", seconds->len > 0 ? ", " : "", command->name);
    }
  g_ptr_array_add (names, NULL);

  g_autofree char *listed = g_string_free (seconds, FALSE);
  if (*listed != '\0')
    {
      g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_COMMAND, "'%s' needs another word (one of: %s)", words[0],
                   listed);
      return NULL;
    }

  const char *near = psi_nearest (words[0], (const char *const *) names->pdata);
  g_autofree char *quoted = psi_quote (words[0]);
  if (near != NULL)
    g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_COMMAND, "unknown command %s (did you mean '%s'?)", quoted,
                 near);
  else
    g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_COMMAND, "unknown command %s (see 'psisim help')", quoted);
  return NULL;
}
