/* SPDX-License-Identifier: MIT */
/* From argv to options, keys and words. Every scenario key is a flag, which is why this is not GOptionContext: the
 * flags come from psi_keys[], and their faults are reported like those of a file. */
#include "help-text.h"

#include "quantity.h"

#include <string.h>

/* Options every command takes. */
#define COMMON                                                                                                         \
  (PSI_OPTION_BIT (PSI_OPTION_VERBOSE) | PSI_OPTION_BIT (PSI_OPTION_QUIET) | PSI_OPTION_BIT (PSI_OPTION_HELP) |        \
   PSI_OPTION_BIT (PSI_OPTION_VERSION))

gboolean
psi_command_takes (const PsiCommand *command, PsiOptionId option)
{
  return ((command->options | COMMON) & PSI_OPTION_BIT (option)) != 0;
}

static gboolean refuse (GError **error, PsiUsageError code, const char *format, ...) G_GNUC_PRINTF (3, 4);

static gboolean
refuse (GError **error, PsiUsageError code, const char *format, ...)
{
  va_list args;

  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, PSI_USAGE_ERROR, (int) code, message);
  return FALSE;
}

char *
psi_key_flag_name (PsiKeyId key)
{
  return g_strdelimit (g_strconcat ("--", psi_keys[key].name, NULL), "_", '-');
}

/* ---- One flag ---- */

/* Where parsing stands: argv[at] is the next word not looked at. */
typedef struct
{
  PsiArguments *arguments;
  PsiSettings *scratch; /* values of keys are tried on it */
  int argc, at;
  char **argv;
} Parser;

/* The argument of the flag `name`: behind its '=', or the next word. */
static const char *
take_value (Parser *parser, const char *name, const char *attached, const char *placeholder, GError **error)
{
  if (attached != NULL && *attached != '\0')
    return attached;
  if (attached == NULL && parser->at < parser->argc && !g_str_has_prefix (parser->argv[parser->at], "--"))
    if (*parser->argv[parser->at] != '\0')
      return parser->argv[parser->at++];
  refuse (error, PSI_USAGE_ERROR_OPTION, "%s needs a value (%s %s)", name, name, placeholder);
  return NULL;
}

static gboolean
take_option (Parser *parser, PsiOptionId id, const char *name, const char *attached, GError **error)
{
  const PsiOption *option = &psi_options[id];
  PsiArguments *arguments = parser->arguments;

  if (!psi_command_takes (arguments->command, id))
    return refuse (error, PSI_USAGE_ERROR_OPTION, "%s is not an option of '%s'", name, arguments->command->name);
  if (arguments->given[id])
    return refuse (error, PSI_USAGE_ERROR_OPTION, "%s is written twice", name);
  arguments->given[id] = TRUE;
  if (option->argument == NULL)
    return attached == NULL || refuse (error, PSI_USAGE_ERROR_OPTION, "%s takes no value", name);
  arguments->values[id] = take_value (parser, name, attached, option->argument, error);
  return arguments->values[id] != NULL;
}

static gboolean
take_key (Parser *parser, PsiKeyId id, const char *attached, GError **error)
{
  PsiArguments *arguments = parser->arguments;
  PsiKeyFlag flag = { .key = id };
  g_autofree char *name = psi_key_flag_name (id);
  g_autoptr (GError) fault = NULL;

  if (!arguments->command->keys)
    return refuse (error, PSI_USAGE_ERROR_OPTION, "%s is not an option of '%s'", name, arguments->command->name);
  if (psi_settings_has (parser->scratch, id))
    return refuse (error, PSI_USAGE_ERROR_OPTION, "%s is written twice", name);
  flag.text = take_value (parser, name, attached, psi_key_placeholder (id), error);
  if (flag.text == NULL)
    return FALSE;
  if (!psi_settings_set (parser->scratch, id, flag.text, name, &fault))
    return refuse (error, PSI_USAGE_ERROR_VALUE, "%s", fault->message);
  g_array_append_val (arguments->flags, flag);
  return TRUE;
}

static gboolean
refuse_unknown (const PsiCommand *command, const char *name, GError **error)
{
  g_autoptr (GPtrArray) known = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *quoted = psi_quote (name);

  for (int id = 0; id < PSI_N_OPTIONS; id++)
    if (psi_command_takes (command, id) && psi_options[id].help != NULL)
      g_ptr_array_add (known, g_strconcat ("--", psi_options[id].name, NULL));
  for (int id = 0; id < PSI_N_KEYS && command->keys; id++)
    g_ptr_array_add (known, psi_key_flag_name (id));
  g_ptr_array_add (known, NULL);

  const char *near = psi_nearest (name, (const char *const *) known->pdata);
  if (near != NULL)
    return refuse (error, PSI_USAGE_ERROR_OPTION, "unknown option %s (did you mean '%s'?)", quoted, near);
  return refuse (error, PSI_USAGE_ERROR_OPTION, "unknown option %s (see 'psisim help %s')", quoted, command->name);
}

static gboolean
take_flag (Parser *parser, const char *word, GError **error)
{
  const PsiCommand *command = parser->arguments->command;

  if (word[1] != '-') /* -v */
    {
      for (int id = 0; id < PSI_N_OPTIONS; id++)
        if (psi_options[id].letter != 0 && psi_options[id].letter == word[1] && word[2] == '\0')
          return take_option (parser, id, word, NULL, error);
      return refuse_unknown (command, word, error);
    }

  const char *equals = strchr (word, '=');
  g_autofree char *name = equals != NULL ? g_strndup (word, (gsize) (equals - word)) : g_strdup (word);
  const char *attached = equals != NULL ? equals + 1 : NULL;
  for (int id = 0; id < PSI_N_OPTIONS; id++)
    if (strcmp (psi_options[id].name, name + 2) == 0)
      return take_option (parser, id, name, attached, error);

  int key = psi_key_find (name + 2);
  return key >= 0 ? take_key (parser, (PsiKeyId) key, attached, error) : refuse_unknown (command, name, error);
}

/* ---- All of them ---- */

PsiArguments *
psi_arguments_parse (const PsiCommand *command, int argc, char **argv, GError **error)
{
  g_autoptr (PsiArguments) arguments = g_new0 (PsiArguments, 1);
  g_autoptr (PsiSettings) scratch = psi_settings_new ();
  Parser parser = { .arguments = arguments, .scratch = scratch, .argc = argc, .argv = argv };
  gboolean flags_over = FALSE;

  arguments->command = command;
  arguments->words = g_ptr_array_new ();
  arguments->flags = g_array_new (FALSE, FALSE, sizeof (PsiKeyFlag));
  while (parser.at < argc)
    {
      char *word = argv[parser.at++];

      if (flags_over || word[0] != '-' || word[1] == '\0')
        g_ptr_array_add (arguments->words, word);
      else if (strcmp (word, "--") == 0)
        flags_over = TRUE;
      else if (!take_flag (&parser, word, error))
        return NULL;
    }
  if (arguments->words->len > command->max_words)
    {
      g_autofree char *quoted = psi_quote (g_ptr_array_index (arguments->words, command->max_words));

      refuse (error, PSI_USAGE_ERROR_COMMAND, "unexpected argument %s (usage: psisim %s %s)", quoted, command->name,
              command->arguments);
      return NULL;
    }
  if (arguments->words->len < command->min_words)
    {
      refuse (error, PSI_USAGE_ERROR_COMMAND, "missing argument (usage: psisim %s %s)", command->name,
              command->arguments);
      return NULL;
    }
  if (arguments->given[PSI_OPTION_JSON] && arguments->given[PSI_OPTION_CSV])
    {
      refuse (error, PSI_USAGE_ERROR_OPTION, "--json and --csv do not go together");
      return NULL;
    }
  return g_steal_pointer (&arguments);
}

void
psi_arguments_free (PsiArguments *arguments)
{
  if (arguments == NULL)
    return;
  g_clear_pointer (&arguments->words, g_ptr_array_unref);
  g_clear_pointer (&arguments->flags, g_array_unref);
  g_free (arguments);
}

/* ---- Scenario ---- */

/* "dp, cdp-v2" -> names; NULL and an error if one is empty. */
static char **
split_plans (const char *text, GError **error)
{
  g_auto (GStrv) names = g_strsplit (text, ",", -1);

  for (char **name = names; *name != NULL; name++)
    if (*g_strstrip (*name) == '\0')
      {
        g_autofree char *quoted = psi_quote (text);

        refuse (error, PSI_USAGE_ERROR_VALUE, "--plans: %s has an empty name in it", quoted);
        return NULL;
      }
  return g_steal_pointer (&names);
}

PsiScenario *
psi_arguments_scenario (const PsiArguments *arguments, gboolean one_plan, GError **error)
{
  const char *file = arguments->words->len > 0 ? g_ptr_array_index (arguments->words, 0) : NULL;
  g_auto (GStrv) names = NULL;

  if (arguments->given[PSI_OPTION_PLANS])
    {
      names = split_plans (arguments->values[PSI_OPTION_PLANS], error);
      if (names == NULL)
        return NULL;
    }

  g_autoptr (PsiScenario) scenario = psi_scenario_load (file, (const PsiKeyFlag *) arguments->flags->data,
                                                        arguments->flags->len, (const char *const *) names, error);
  if (scenario == NULL)
    return NULL;
  for (guint i = 0; i < scenario->warnings->len; i++)
    psi_warn (arguments, g_ptr_array_index (scenario->warnings, i));
  if (one_plan && scenario->plans->len > 1)
    {
      GString *listed = g_string_new (NULL);

      for (guint i = 0; i < scenario->plans->len; i++)
        {
          const PsiPlanRequest *request = g_ptr_array_index (scenario->plans, i);

          g_string_append_printf (listed, "%s%s", i > 0 ? ", " : "", request->name);
        }
      g_autofree char *all = g_string_free (listed, FALSE);
      refuse (error, PSI_USAGE_ERROR_COMMAND, "%s has %u plans: pick one with --plan (one of: %s), or use 'compare'",
              file, scenario->plans->len, all);
      return NULL;
    }
  return g_steal_pointer (&scenario);
}
