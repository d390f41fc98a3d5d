/* SPDX-License-Identifier: MIT */
/* Every key that the JSON report promises is there, in every plan, whether it applies or not; and every number that
 * counts bytes or GPUs is a whole one. */
#include "report-fixture.h"

#include <json-glib/json-glib.h>
#include <string.h>

/* Object, then its keys. Paths lead from the root; "[]" stands for every element of a list. */
static const struct
{
  const char *path, *keys;
} promised[] = {
  { "", "psisim scenario machine model plans" },
  { "plans[]", "name verdict gpus step_time_s step_time_low_s step_time_high_s time time_detail bubble_fraction "
               "throughput memory communication update assumptions advice critical_path what_helps digest" },
  { "plans[].time", "compute_s recompute_s exposed_comm_s bubble_s optimizer_s other_s" },
  { "plans[].throughput", "samples_per_s tokens_per_s tokens_per_s_per_gpu model_tflops_per_gpu mfu hfu" },
  { "plans[].memory", "capacity_bytes steady_bytes peak_bytes reserved_bytes device_bytes "
                      "activation_total_peak_bytes ranks" },
  { "plans[].memory.ranks[]", "rank stage count peak_bytes peak_at_s parameters_bytes gradients_bytes optimizer_bytes "
                              "activations_bytes boundary_bytes workspace_bytes communication_bytes "
                              "activations_peak_bytes overhead_bytes" },
  { "plans[].communication", "total_bytes per_gpu_bytes per_gpu_max_bytes by_kind sequential_steps "
                             "concurrent_peak_bytes" },
  { "plans[].communication.by_kind", "gradients parameters boundary tensor experts" },
  { "plans[].update", "rule delay_mean delay_p90 delay_max parameter_versions" },
  { "plans[].advice[]", "set peak_bytes step_time_s" },
  { "plans[].what_helps", "links degrees one_gpu_samples_per_s one_gpu_verdict speedup_over_one_gpu" },
  { "plans[].what_helps.links[]", "link tier bytes_per_s step_time_unlimited_s tenth_longer_bytes_per_s "
                                  "twice_as_long_bytes_per_s" },
  { "plans[].what_helps.degrees[]", "set gpus verdict peak_bytes step_time_s samples_per_s" },
  { "plans[].critical_path", "duration_s by_kind shared_links_s by_rank segments" },
  { "plans[].critical_path.by_kind", "compute_s recompute_s optimizer_s gradients_s parameters_s boundary_s tensor_s "
                                     "context_s experts_s waiting_s" },
  { "plans[].critical_path.by_rank[]", "rank stage time_s" },
  { "plans[].critical_path.segments[]", "rank stage kind micro_batch part first_layer last_layer ops start_s "
                                        "duration_s communication_s shared_links_s reason from_rank" },
};

static void
check_keys (JsonNode *node, const char *keys, const char *path)
{
  g_auto (GStrv) words = g_strsplit (keys, " ", -1);
  JsonObject *object = json_node_get_object (node);

  for (guint i = 0; words[i] != NULL; i++)
    if (!json_object_has_member (object, words[i]))
      g_error ("'%s' has no key '%s'", path, words[i]);
}

/* Follow `path` from `node` and check every object it leads to. Returns how many there were. */
static guint
check_path (JsonNode *node, const char *path, const char *keys)
{
  if (*path == '\0')
    {
      check_keys (node, keys, path);
      return 1;
    }
  gsize length = strcspn (path, ".[");
  g_autofree char *name = g_strndup (path, length);
  JsonNode *child = json_object_get_member (json_node_get_object (node), name);
  const char *rest = path + length;
  guint n = 0;

  g_assert_nonnull (child);
  if (JSON_NODE_HOLDS_NULL (child) && (strcmp (name, "critical_path") == 0 || strcmp (name, "what_helps") == 0))
    return 0; /* not asked for */
  if (!g_str_has_prefix (rest, "[]"))
    return check_path (child, rest + (*rest == '.'), keys);
  rest += 2;
  JsonArray *array = json_node_get_array (child);
  for (guint i = 0; i < json_array_get_length (array); i++)
    n += check_path (json_array_get_element (array, i), rest + (*rest == '.'), keys);
  return n;
}

static void
test_keys (gconstpointer data)
{
  g_autoptr (PsiReport) report = fixture_report ();
  g_autoptr (JsonParser) parser = json_parser_new ();

  if (GPOINTER_TO_INT (data)) /* a plan of which nothing is known */
    {
      PsiPlanReport *bare = psi_plan_report_new ("bare");
      psi_plan_report_add_rank (bare);
      g_ptr_array_add (report->plans, bare);
    }
  g_autofree char *text = psi_report_to_json (report);
  g_assert_true (json_parser_load_from_data (parser, text, -1, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (promised); i++)
    g_assert_cmpuint (check_path (json_parser_get_root (parser), promised[i].path, promised[i].keys), >, 0);
}

static void
check_whole (JsonObject *object, const char *key, JsonNode *node, gpointer data)
{
  if (JSON_NODE_HOLDS_OBJECT (node))
    json_object_foreach_member (json_node_get_object (node), check_whole, NULL);
  else if (JSON_NODE_HOLDS_ARRAY (node))
    {
      JsonArray *array = json_node_get_array (node);
      for (guint i = 0; i < json_array_get_length (array); i++)
        if (JSON_NODE_HOLDS_OBJECT (json_array_get_element (array, i)))
          json_object_foreach_member (json_array_get_object_element (array, i), check_whole, NULL);
    }
  else if (g_str_has_suffix (key, "_bytes") && !g_str_has_suffix (key, "_mean_bytes") && !json_node_is_null (node))
    g_assert_true (json_node_get_value_type (node) == G_TYPE_INT64);
}

static void
test_whole_bytes (void)
{
  g_autoptr (PsiReport) report = fixture_report ();
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autofree char *text = psi_report_to_json (report);

  g_assert_true (json_parser_load_from_data (parser, text, -1, NULL));
  json_object_foreach_member (json_node_get_object (json_parser_get_root (parser)), check_whole, NULL);
}

/* `time` has six keys and no more. */
static void
test_time_is_exact (void)
{
  g_autoptr (PsiReport) report = fixture_report ();
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autofree char *text = psi_report_to_json (report);

  g_assert_true (json_parser_load_from_data (parser, text, -1, NULL));
  JsonArray *plans = json_object_get_array_member (json_node_get_object (json_parser_get_root (parser)), "plans");
  JsonObject *time = json_object_get_object_member (json_array_get_object_element (plans, 0), "time");
  g_assert_cmpuint (json_object_get_size (time), ==, 6);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/sim/json-schema/keys", GINT_TO_POINTER (FALSE), test_keys);
  g_test_add_data_func ("/sim/json-schema/keys-of-nothing", GINT_TO_POINTER (TRUE), test_keys);
  g_test_add_func ("/sim/json-schema/whole-bytes", test_whole_bytes);
  g_test_add_func ("/sim/json-schema/time-is-exact", test_time_is_exact);
  return g_test_run ();
}
