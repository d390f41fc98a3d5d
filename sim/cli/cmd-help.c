/* SPDX-License-Identifier: MIT */
/* help [COMMAND]; with hidden options the man pages, for the build. */
#include "help-text.h"

int
psi_cmd_help (const PsiArguments *arguments)
{
  const char *const *words = (const char *const *) arguments->words->pdata;
  guint n_words = arguments->words->len, n_name = 0;
  g_autofree char *text = NULL;
  g_autoptr (GError) error = NULL;

  if (arguments->given[PSI_OPTION_MAN])
    text = psi_man_program ();
  else if (arguments->given[PSI_OPTION_MAN_SCENARIO])
    text = psi_man_scenario ();
  else if (n_words == 0)
    text = psi_help_overview ();
  else
    {
      const PsiCommand *command = psi_command_find (words, n_words, &n_name, &error);

      if (command != NULL && n_name < n_words)
        {
          g_set_error (&error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_COMMAND,
                       "unexpected argument '%s' (usage: psisim help %s)", words[n_name],
                       arguments->command->arguments);
          return psi_fail (error);
        }
      text = command != NULL ? psi_help_command (command) : n_words == 1 ? psi_help_half (words[0]) : NULL;
      if (text == NULL)
        return psi_fail (error);
    }
  return psi_output_write (text);
}
