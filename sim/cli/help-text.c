/* SPDX-License-Identifier: MIT */
/* --help for people at a terminal of 80 columns. */
#include "help-text.h"

#include <string.h>

#define WIDTH 80
#define TEXT_COLUMN 24

static const char *const placeholders[] = {
  [PSI_KEY_KIND_COUNT] = "N",        [PSI_KEY_KIND_BYTES] = "SIZE",
  [PSI_KEY_KIND_TIME] = "TIME",      [PSI_KEY_KIND_RATE] = "RATE",
  [PSI_KEY_KIND_REAL] = "X",         [PSI_KEY_KIND_BOOL] = "yes|no",
  [PSI_KEY_KIND_CHOICE] = "WORD",    [PSI_KEY_KIND_CHOICE_OR_PATH] = "WORD|FILE",
  [PSI_KEY_KIND_COUNTS] = "N,N,...", [PSI_KEY_KIND_CHOICE_OR_COUNTS] = "WORD|N,N,...",
  [PSI_KEY_KIND_TEXT] = "TEXT",
};

const char *
psi_key_placeholder (PsiKeyId key)
{
  return placeholders[psi_keys[key].kind];
}

char **
psi_key_words (PsiKeyId key)
{
  const char *choices = psi_keys[key].kind == PSI_KEY_KIND_BOOL ? "yes no" : psi_keys[key].choices;

  return g_strsplit (choices != NULL ? choices : "", " ", -1);
}

char *
psi_key_describe (PsiKeyId key)
{
  g_auto (GStrv) words = psi_key_words (key);
  g_autofree char *listed = g_strjoinv (", ", words);
  const char *fallback = psi_keys[key].fallback;
  gboolean list = *words != NULL && psi_keys[key].kind != PSI_KEY_KIND_BOOL;

  if (!list && fallback == NULL)
    return g_strdup (psi_keys[key].help);
  return g_strdup_printf ("%s (%s%s%s%s%s)", psi_keys[key].help, list ? "one of: " : "", list ? listed : "",
                          list && fallback != NULL ? "; " : "", fallback != NULL ? "default " : "",
                          fallback != NULL ? fallback : "");
}

/* Append `text`, breaking at blanks before column WIDTH; the cursor stands at `column`, further lines begin at
 * `indent`. Ends with a line feed. */
static void
append_wrapped (GString *out, const char *text, gsize column, gsize indent)
{
  g_auto (GStrv) words = g_strsplit (text, " ", -1);
  gboolean first = TRUE;

  for (char **word = words; *word != NULL; word++)
    {
      gsize length = (gsize) g_utf8_strlen (*word, -1);

      if (!first && column + 1 + length > WIDTH - 1)
        {
          g_string_append_printf (out, "\n%*s", (int) indent, "");
          column = indent;
          first = TRUE;
        }
      g_string_append_printf (out, "%s%s", first ? "" : " ", *word);
      column += length + !first;
      first = FALSE;
    }
  g_string_append_c (out, '\n');
}

/* A row of two columns; a long name has its text on the next line. */
static void
append_row (GString *out, const char *name, const char *text)
{
  gsize length = strlen (name);

  g_string_append_printf (out, "  %s", name);
  if (length + 4 > TEXT_COLUMN)
    g_string_append_printf (out, "\n%*s", TEXT_COLUMN, "");
  else
    g_string_append_printf (out, "%*s", (int) (TEXT_COLUMN - 2 - length), "");
  append_wrapped (out, text, TEXT_COLUMN, TEXT_COLUMN);
}

static void
append_option (GString *out, PsiOptionId id)
{
  const PsiOption *option = &psi_options[id];
  char letter[] = { '-', option->letter, ',', ' ', '\0' };
  g_autofree char *name =
      g_strdup_printf ("%s--%s%s%s", option->letter != 0 ? letter : "", option->name,
                       option->argument != NULL ? " " : "", option->argument != NULL ? option->argument : "");

  append_row (out, name, option->help);
}

static void
append_keys (GString *out)
{
  for (int group = 0; group < PSI_N_KEY_GROUPS; group++)
    {
      g_string_append_printf (out, "\nKeys of [%s]:\n", psi_key_group_names[group]);
      for (int id = 0; id < PSI_N_KEYS; id++)
        if (psi_keys[id].group == (PsiKeyGroup) group)
          {
            g_autofree char *flag = psi_key_flag_name (id);
            g_autofree char *name = g_strdup_printf ("%s %s", flag, psi_key_placeholder (id));
            g_autofree char *text = psi_key_describe (id);

            append_row (out, name, text);
          }
    }
}

char *
psi_help_overview (void)
{
  GString *out = g_string_new ("usage: psisim COMMAND [FILE] [--KEY VALUE ...]\n\n");

  append_wrapped (
      out,
      "Simulates parallel deep-learning training: does a plan fit, how long is a step, where do the time and "
      "the memory go, and which plan is better.",
      0, 0);
  g_string_append (out, "\nCommands:\n");
  for (const PsiCommand *command = psi_commands; command->name != NULL; command++)
    if (command->handler != NULL && command->help != NULL)
      append_row (out, command->name, command->help);

  g_string_append (out, "\nOptions, behind a command that takes them:\n");
  for (int id = 0; id < PSI_N_OPTIONS; id++)
    if (psi_options[id].help != NULL)
      append_option (out, id);
  g_string_append (out, "\n");
  append_wrapped (out,
                  "Every key of a scenario file is a flag, too: micro_batch is --micro-batch. 'psisim help run' and "
                  "'psisim list keys' list them.",
                  0, 0);
  g_string_append (out, "\nTry:\n"
                        "  psisim run --model gpt2 --machine a100 --gpus 8 --plan dp\n"
                        "  psisim compare --plans dp,cdp-v2,zero-3 --model uniform --workers 4\n"
                        "  psisim explain cdp-v2\n");
  return g_string_free (out, FALSE);
}

char *
psi_help_command (const PsiCommand *command)
{
  GString *out = g_string_new ("usage: psisim ");

  g_string_append_printf (out, "%s %s\n\n", command->name, command->arguments);
  append_wrapped (out, command->help, 0, 0);
  g_auto (GStrv) paragraphs = g_strsplit (command->details != NULL ? command->details : "", "\n\n", -1);
  for (char **paragraph = paragraphs; *paragraph != NULL; paragraph++)
    {
      g_string_append_c (out, '\n');
      append_wrapped (out, *paragraph, 0, 0);
    }
  g_string_append (out, "\nOptions:\n");
  for (int id = 0; id < PSI_N_OPTIONS; id++)
    if (psi_options[id].help != NULL && psi_command_takes (command, id))
      append_option (out, id);
  if (command->keys)
    {
      append_keys (out);
      g_string_append_c (out, '\n');
      append_wrapped (out,
                      "SIZE takes B kB MB GB TB KiB MiB GiB TiB, TIME ps ns us ms s, RATE kB/s MB/s GB/s Mb/s Gb/s and "
                      "the like, N takes k M B; bare numbers are bytes, seconds, bytes per second.",
                      0, 0);
    }
  return g_string_free (out, FALSE);
}

char *
psi_help_half (const char *word)
{
  g_autofree char *half = g_strconcat (word, " ", NULL);
  GString *out = g_string_new (NULL);

  for (const PsiCommand *command = psi_commands; command->name != NULL; command++)
    if (g_str_has_prefix (command->name, half) && command->handler != NULL)
      {
        g_autofree char *text = psi_help_command (command);

        g_string_append_printf (out, "%s%s", out->len > 0 ? "\n" : "", text);
      }
  return g_string_free (out, out->len == 0);
}
