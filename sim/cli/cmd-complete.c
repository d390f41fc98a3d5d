/* SPDX-License-Identifier: MIT */
/* complete -- WORD ...: what can stand in place of the last word, one per line; nothing where a file is meant. The
 * words are those of the command line behind `psisim`; a shell may split `--key=value` at the '='. */
#include "help-text.h"

#include <string.h>

typedef struct
{
  GString *out;
  const char *begun; /* what is typed of the word already */
} Candidates;

static void
add (Candidates *candidates, const char *word)
{
  if (g_str_has_prefix (word, candidates->begun))
    g_string_append_printf (candidates->out, "%s\n", word);
}

static void
add_topic (Candidates *candidates, const char *topic)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) summaries = g_ptr_array_new_with_free_func (g_free);

  if (psi_list_collect (topic, names, summaries))
    for (guint i = 0; i < names->len; i++)
      add (candidates, g_ptr_array_index (names, i));
}

/* Keys whose values are the rows of a list. */
static const struct
{
  PsiKeyId key;
  const char *topic;
} key_topics[] = {
  { PSI_KEY_MODEL, "models" },
  { PSI_KEY_MACHINE, "machines" },
  { PSI_KEY_PLAN, "plans" },
};

static void
add_values_of_key (Candidates *candidates, PsiKeyId key)
{
  g_auto (GStrv) words = psi_key_words (key);

  for (guint i = 0; i < G_N_ELEMENTS (key_topics); i++)
    if (key_topics[i].key == key)
      add_topic (candidates, key_topics[i].topic);
  for (char **word = words; *word != NULL; word++)
    add (candidates, *word);
}

/* --plans dp,cd: the last name of the list. */
static void
add_plan_lists (Candidates *candidates)
{
  const char *comma = strrchr (candidates->begun, ',');
  g_autofree char *before = g_strndup (candidates->begun, comma != NULL ? (gsize) (comma + 1 - candidates->begun) : 0);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) summaries = g_ptr_array_new_with_free_func (g_free);

  psi_list_collect ("plans", names, summaries);
  for (guint i = 0; i < names->len; i++)
    {
      g_autofree char *list = g_strconcat (before, g_ptr_array_index (names, i), NULL);

      add (candidates, list);
    }
}

/* The nth word of each command's name that begins with the words before it. */
static void
add_commands (Candidates *candidates, const char *const *words, guint n)
{
  g_autoptr (GPtrArray) seen = g_ptr_array_new_with_free_func (g_free);

  for (const PsiCommand *command = psi_commands; command->name != NULL; command++)
    {
      g_auto (GStrv) parts = g_strsplit (command->name, " ", -1);
      gboolean fits = command->handler != NULL && g_strv_length (parts) > n;

      for (guint i = 0; fits && i < n; i++)
        fits = strcmp (parts[i], words[i]) == 0;
      if (!fits || g_ptr_array_find_with_equal_func (seen, parts[n], g_str_equal, NULL))
        continue;
      g_ptr_array_add (seen, g_strdup (parts[n]));
      add (candidates, parts[n]);
    }
}

static void
add_flags (Candidates *candidates, const PsiCommand *command)
{
  for (int id = 0; id < PSI_N_OPTIONS; id++)
    if (psi_options[id].help != NULL && psi_command_takes (command, id))
      {
        g_autofree char *name = g_strconcat ("--", psi_options[id].name, NULL);

        add (candidates, name);
      }
  for (int id = 0; id < PSI_N_KEYS && command->keys; id++)
    {
      g_autofree char *name = psi_key_flag_name (id);

      add (candidates, name);
    }
}

/* Does the flag `word` want a value, and which? */
static gboolean
add_values (Candidates *candidates, const PsiCommand *command, const char *word)
{
  if (!g_str_has_prefix (word, "--"))
    return FALSE;
  for (int id = 0; id < PSI_N_OPTIONS; id++)
    if (strcmp (psi_options[id].name, word + 2) == 0)
      {
        if (id == PSI_OPTION_PLANS)
          add_plan_lists (candidates);
        return psi_options[id].argument != NULL;
      }

  int key = command->keys ? psi_key_find (word + 2) : -1;
  if (key >= 0)
    add_values_of_key (candidates, (PsiKeyId) key);
  return key >= 0;
}

int
psi_cmd_complete (const PsiArguments *arguments)
{
  const char *const *words = (const char *const *) arguments->words->pdata;
  guint n = arguments->words->len, n_name = 0;
  g_autoptr (GString) out = g_string_new (NULL);
  Candidates candidates = { out, n > 0 ? words[n - 1] : "" };
  guint before = n > 0 ? n - 1 : 0; /* words that are complete */
  const PsiCommand *command = psi_command_find (words, before, &n_name, NULL);

  if (command == NULL)
    add_commands (&candidates, words, before);
  else
    {
      /* --key = value, split by the shell: skip the '='. */
      if (before > 0 && strcmp (candidates.begun, "=") == 0)
        candidates.begun = "";
      else if (before > 0 && strcmp (words[before - 1], "=") == 0)
        before--;

      if (before > n_name && add_values (&candidates, command, words[before - 1]))
        ;
      else if (*candidates.begun == '-')
        add_flags (&candidates, command);
      else if (command->handler == psi_cmd_list)
        {
          for (const char *const *topic = psi_list_topics; *topic != NULL; topic++)
            add (&candidates, *topic);
        }
      else if (command->handler == psi_cmd_help)
        add_commands (&candidates, words + n_name, before - n_name);
      else if (command->handler == psi_cmd_explain)
        add_topic (&candidates, "plans");
    }
  return psi_output_write (out->str);
}
