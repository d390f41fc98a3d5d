/* SPDX-License-Identifier: MIT */
/* Man pages in mdoc, made from the same tables as --help. */
#include "help-text.h"

#define DATE "November 29, 2026"

/* Text lines, one for each sentence as mdoc wants it; what it would take for markup is escaped. */
static void
append_text (GString *out, const char *text)
{
  if (*text == '.' || *text == '\'')
    g_string_append (out, "\\&");
  for (; *text != '\0'; text++)
    switch (*text)
      {
      case '\\':
        g_string_append (out, "\\e");
        break;
      case '.':
        g_string_append (out, text[1] == ' ' && !g_ascii_islower (text[2]) ? ".\n" : ".");
        text += text[1] == ' ' && !g_ascii_islower (text[2]);
        break;
      case '\n': /* an empty line parts paragraphs */
        g_string_append (out, text[1] == '\n' ? "\n.Pp\n" : "\n");
        text += text[1] == '\n';
        break;
      case '-':
        g_string_append (out, "\\-");
        break;
      case '\'':
        g_string_append (out, "\\(aq");
        break;
      default:
        g_string_append_c (out, *text);
      }
  g_string_append_c (out, '\n');
}

static void
append_head (GString *out, const char *title, int section, const char *name, const char *summary)
{
  g_string_append_printf (out,
                          ".\\\" SPDX-License-Identifier: MIT\n.\\\" Made by psisim from its own tables.\n"
                          ".Dd %s\n.Dt %s %d\n.Os\n.Sh NAME\n.Nm %s\n.Nd %s\n",
                          DATE, title, section, name, summary);
}

static void
append_option (GString *out, PsiOptionId id)
{
  const PsiOption *option = &psi_options[id];

  g_string_append (out, ".It ");
  if (option->letter != 0)
    g_string_append_printf (out, "Fl %c , ", option->letter);
  g_string_append_printf (out, "Fl \\-%s", option->name);
  if (option->argument != NULL)
    g_string_append_printf (out, " Ar %s", option->argument);
  g_string_append_c (out, '\n');
  append_text (out, option->help);
}

static void
append_keys (GString *out, PsiKeyGroup group, gboolean as_flags)
{
  g_string_append (out, ".Bl -tag -width Ds\n");
  for (int id = 0; id < PSI_N_KEYS; id++)
    if (psi_keys[id].group == group)
      {
        g_autofree char *flag = psi_key_flag_name (id);
        g_autofree char *text = psi_key_describe (id);

        if (as_flags)
          g_string_append_printf (out, ".It Fl \\-%s Ar %s\n", flag + 2, psi_key_placeholder (id));
        else
          g_string_append_printf (out, ".It Ic %s No = Ar %s\n", psi_keys[id].name, psi_key_placeholder (id));
        append_text (out, text);
      }
  g_string_append (out, ".El\n");
}

char *
psi_man_program (void)
{
  GString *out = g_string_new (NULL);

  append_head (out, "PSISIM", 1, "psisim", "simulate parallel deep-learning training");
  g_string_append (out, ".Sh SYNOPSIS\n");
  for (const PsiCommand *command = psi_commands; command->name != NULL; command++)
    if (command->handler != NULL && command->help != NULL)
      g_string_append_printf (out, ".Nm\n.Cm %s\n.Ar %s\n", command->name, command->arguments);
  g_string_append (out, ".Sh DESCRIPTION\n.Nm\n"
                        "answers before any GPU is rented: does a training plan fit, how long is a step,\n"
                        "where do the time and the memory go, and which plan is better.\n"
                        "It simulates one training step event by event.\n.Pp\n"
                        "Model, machine and plans come from a scenario file, see\n.Xr psisim\\-scenario 5 ,\n"
                        "from flags, or from both: every key of a scenario is a flag, and flags override the file.\n"
                        "Results go to the standard output, progress and warnings to the standard error.\n"
                        ".Sh COMMANDS\n.Bl -tag -width Ds\n");
  for (const PsiCommand *command = psi_commands; command->name != NULL; command++)
    if (command->handler != NULL && command->help != NULL)
      {
        g_string_append_printf (out, ".It Cm %s Ar %s\n", command->name, command->arguments);
        append_text (out, command->help);
        if (command->details != NULL)
          {
            g_string_append (out, ".Pp\n");
            append_text (out, command->details);
          }
      }
  g_string_append (out, ".El\n.Sh OPTIONS\n.Bl -tag -width Ds\n");
  for (int id = 0; id < PSI_N_OPTIONS; id++)
    if (psi_options[id].help != NULL)
      append_option (out, id);
  g_string_append (out, ".El\n");
  for (int group = 0; group < PSI_N_KEY_GROUPS; group++)
    {
      g_string_append_printf (out, ".Ss Keys of the %s\n", psi_key_group_names[group]);
      append_keys (out, group, TRUE);
    }
  g_string_append (out, ".Sh FILES\nModels and machines that the program brings along are found beside it, or in\n"
                        "the directory that the environment variable\n.Ev PSISIM_DATA\nnames.\n"
                        ".Sh EXIT STATUS\n.Bl -tag -width Ds\n"
                        ".It 0\nDone.\n.It 1\nFailed: a file cannot be read, or a value in it is wrong.\n"
                        ".It 2\nWrong usage: a command, option or value on the command line is wrong.\n"
                        ".It 3\nWith\n.Fl \\-check :\na plan does not fit.\n.El\n"
                        ".Sh EXAMPLES\n.Dl psisim run \\-\\-model gpt2 \\-\\-machine a100 \\-\\-gpus 8 \\-\\-plan dp\n"
                        ".Dl psisim compare \\-\\-plans dp,cdp\\-v2,zero\\-3 \\-\\-model uniform \\-\\-workers 4\n"
                        ".Dl psisim explain cdp\\-v2\n"
                        ".Sh SEE ALSO\n.Xr psisim\\-scenario 5\n");
  return g_string_free (out, FALSE);
}

char *
psi_man_scenario (void)
{
  static const char *const about[PSI_N_KEY_GROUPS] = {
    "What is trained. For the model 'uniform', K equal stages, the keys psi_p to backward_weight count; the others "
    "build a model or override a preset.",
    "The GPUs and the links between them, and how they are simulated.",
    "How the training is laid out. Keys that are written win over what a named strategy presets. Several plans are "
    "written as groups [plan NAME]: NAME is then the strategy, unless the group has the key plan. Beside named plans, "
    "[plan] holds what they share.",
  };
  GString *out = g_string_new (NULL);

  append_head (out, "PSISIM-SCENARIO", 5, "psisim-scenario", "what psisim simulates");
  g_string_append (out,
                   ".Sh DESCRIPTION\nA scenario is a text file of groups in brackets, each with lines of the form\n"
                   ".Ic key No = Ar value .\n"
                   "A\n.Sq #\nat the start of a line or after a blank begins a comment.\n"
                   "Each key belongs to one group; unknown and doubled keys and groups are errors.\n"
                   "In a key,\n.Sq \\-\nand\n.Sq _\nare equal.\n.Pp\n");
  append_text (out,
               "Sizes take B kB MB GB TB KiB MiB GiB TiB, times ps ns us ms s, rates B/s kB/s MB/s GB/s TB/s and KiB/s "
               "MiB/s GiB/s, or kb/s Mb/s Gb/s Tb/s for bits, counts k M B. A bare number is bytes, seconds, bytes "
               "per second. A file named in a scenario is looked for beside the scenario first.");
  for (int group = 0; group < PSI_N_KEY_GROUPS; group++)
    {
      g_string_append_printf (out, ".Ss [%s]\n", psi_key_group_names[group]);
      append_text (out, about[group]);
      append_keys (out, group, FALSE);
    }
  g_string_append (out,
                   ".Sh EXAMPLES\n.Bd -literal\n# GPT-2 on one node\n[model]\nmodel = gpt2\n\n[machine]\n"
                   "machine = a100\ngpus = 8\n\n[plan dp]\nmicro_batch = 4\n\n[plan zero\\-2]\nmicro_batch = 4\n.Ed\n"
                   ".Sh SEE ALSO\n.Xr psisim 1\n");
  return g_string_free (out, FALSE);
}
