/* SPDX-License-Identifier: MIT */
/* list TOPIC: what there is, from the tables the program itself uses. */
#include "help-text.h"

#include "collective.h"
#include "machine.h"
#include "named-plans.h"
#include "quantity.h"
#include "schedule.h"
#include "workload.h"

#include <json-glib/json-glib.h>
#include <string.h>

/* A topic adds rows; both strings are copied. */
typedef struct
{
  GPtrArray *names, *summaries;
} Rows;

static void
add_row (Rows *rows, const char *name, const char *summary)
{
  g_ptr_array_add (rows->names, g_strdup (name));
  g_ptr_array_add (rows->summaries, g_strdup (summary != NULL ? summary : ""));
}

static void
collect_models (Rows *rows)
{
  for (const PsiModelPreset *preset = psi_model_presets; preset->name != NULL; preset++)
    add_row (rows, preset->name, preset->summary);
  add_row (rows, "uniform", "K equal stages of given bytes and times: the keys psi_p to backward_weight");
  add_row (rows, "custom", "built from the keys of [model]: family, layers, hidden, heads, ...");
}

static void
collect_machines (Rows *rows)
{
  g_autoptr (GPtrArray) machines = psi_machine_list ();

  for (guint i = 0; i < machines->len; i++)
    {
      const PsiMachineEntry *entry = g_ptr_array_index (machines, i);

      add_row (rows, entry->name, entry->summary);
    }
}

static void
collect_schedules (Rows *rows)
{
  for (const PsiScheduleKind *const *kind = psi_schedules; *kind != NULL; kind++)
    add_row (rows, (*kind)->name, (*kind)->summary);
}

static void
collect_plans (Rows *rows)
{
  for (const PsiNamedPlan *plan = psi_named_plans; plan->name != NULL; plan++)
    {
      g_autofree char *same = plan->alias_of != NULL ? g_strdup_printf ("= %s", plan->alias_of) : NULL;

      add_row (rows, plan->name, same != NULL ? same : plan->summary);
    }
}

static void
collect_collectives (Rows *rows)
{
  for (int op = 0; op < PSI_N_COLLECTIVES; op++)
    add_row (rows, psi_collective_names[op], psi_collective_summaries[op]);
}

static void
collect_keys (Rows *rows)
{
  for (int id = 0; id < PSI_N_KEYS; id++)
    {
      g_autofree char *described = psi_key_describe (id);
      g_autofree char *text = g_strdup_printf ("[%s] %s", psi_key_group_names[psi_keys[id].group], described);

      add_row (rows, psi_keys[id].name, text);
    }
}

static void (*const collectors[]) (Rows *rows) = { collect_models, collect_machines,    collect_schedules,
                                                   collect_plans,  collect_collectives, collect_keys };
const char *const psi_list_topics[] = { "models", "machines", "schedules", "plans", "collectives", "keys", NULL };

gboolean
psi_list_collect (const char *topic, GPtrArray *ret_names, GPtrArray *ret_summaries)
{
  Rows rows = { ret_names, ret_summaries };

  for (guint i = 0; psi_list_topics[i] != NULL; i++)
    if (strcmp (psi_list_topics[i], topic) == 0)
      {
        collectors[i](&rows);
        return TRUE;
      }
  return FALSE;
}

static char *
rows_to_json (const char *topic, const Rows *rows)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonGenerator) generator = json_generator_new ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, topic);
  json_builder_begin_array (builder);
  for (guint i = 0; i < rows->names->len; i++)
    {
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "name");
      json_builder_add_string_value (builder, g_ptr_array_index (rows->names, i));
      json_builder_set_member_name (builder, "summary");
      json_builder_add_string_value (builder, g_ptr_array_index (rows->summaries, i));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);

  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  g_autofree char *text = json_generator_to_data (generator, NULL);
  return g_strconcat (text, "\n", NULL);
}

static char *
rows_to_table (const Rows *rows)
{
  GString *out = g_string_new (NULL);
  gsize width = 0;

  for (guint i = 0; i < rows->names->len; i++)
    width = MAX (width, strlen (g_ptr_array_index (rows->names, i)));
  for (guint i = 0; i < rows->names->len; i++)
    {
      const char *name = g_ptr_array_index (rows->names, i), *summary = g_ptr_array_index (rows->summaries, i);

      if (*summary != '\0')
        g_string_append_printf (out, "%-*s  %s\n", (int) width, name, summary);
      else
        g_string_append_printf (out, "%s\n", name);
    }
  return g_string_free (out, FALSE);
}

int
psi_cmd_list (const PsiArguments *arguments)
{
  const char *topic = arguments->words->len > 0 ? g_ptr_array_index (arguments->words, 0) : NULL;
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GPtrArray) summaries = g_ptr_array_new_with_free_func (g_free);
  Rows rows = { names, summaries };

  if (topic == NULL || !psi_list_collect (topic, names, summaries))
    {
      g_autofree char *listed = g_strjoinv (", ", (char **) psi_list_topics);
      g_autofree char *quoted = topic != NULL ? psi_quote (topic) : NULL;
      const char *near = topic != NULL ? psi_nearest (topic, psi_list_topics) : NULL;
      g_autoptr (GError) error = NULL;

      if (topic == NULL)
        g_set_error (&error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "list what? (one of: %s)", listed);
      else if (near != NULL)
        g_set_error (&error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "unknown list %s (did you mean '%s'?)", quoted,
                     near);
      else
        g_set_error (&error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "unknown list %s (one of: %s)", quoted, listed);
      return psi_fail (error);
    }

  g_autofree char *text = arguments->given[PSI_OPTION_JSON] ? rows_to_json (topic, &rows) : rows_to_table (&rows);
  return psi_output_write (text);
}
