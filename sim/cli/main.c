/* SPDX-License-Identifier: MIT */
#include "commands.h"
#include "help-text.h"

#include "psi-config.h"

#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* A descriptor closed by whoever started us would be given to the next file opened, and the result written into it.
 * One that is open for reading only fails on writing, as it should. */
static void
hold_descriptors (void)
{
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl (fd, F_GETFD) < 0)
      while (open ("/dev/null", O_RDONLY) < fd)
        ;
}

static gboolean
has_flag (char **words, int n_words, const char *flag, const char *letter)
{
  for (int i = 0; i < n_words && strcmp (words[i], "--") != 0; i++)
    if (strcmp (words[i], flag) == 0 || g_strcmp0 (words[i], letter) == 0)
      return TRUE;
  return FALSE;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiArguments) arguments = NULL;
  guint n_name = 0;

  hold_descriptors ();
  setlocale (LC_CTYPE, ""); /* what the terminal can show; numbers stay as they are */
  signal (SIGPIPE, SIG_IGN);

  char **words = argv + MIN (argc, 1);
  int n_words = MAX (argc - 1, 0);
  gboolean help = has_flag (words, n_words, "--help", "-h");
  if (has_flag (words, n_words, "--version", NULL) && !help)
    return psi_output_write ("psisim " PSI_VERSION "\n");
  if (n_words > 0 && words[0][0] == '-')
    {
      g_autofree char *overview = psi_help_overview ();

      if (help)
        return psi_output_write (overview);
      g_set_error (&error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_COMMAND,
                   "options stand behind the command (see 'psisim help')");
      return psi_fail (error);
    }

  const PsiCommand *command = psi_command_find ((const char *const *) words, (guint) n_words, &n_name, &error);
  if (help && (command != NULL || error->code != PSI_USAGE_ERROR_LATER))
    {
      g_autofree char *text = command != NULL ? psi_help_command (command) : psi_help_half (words[0]);

      if (text != NULL)
        return psi_output_write (text);
    }
  if (command == NULL)
    return psi_fail (error);
  arguments = psi_arguments_parse (command, n_words - (int) n_name, words + n_name, &error);
  if (arguments == NULL)
    return psi_fail (error);
  return command->handler (arguments);
}
