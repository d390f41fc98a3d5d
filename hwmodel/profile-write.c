/* SPDX-License-Identifier: MIT */
/* The profile as a JSON file that a person can read: one line for each curve and product. What follows from the points
 * (segments, errors, peaks, tile) is in the file for people and other programs. */
#include "profile.h"

#include "out-file.h"

#include <math.h>
#include <string.h>

static JsonNode *
number_node (double value)
{
  JsonNode *node = json_node_new (JSON_NODE_VALUE);

  if (!isfinite (value))
    return json_node_init_null (node);
  if (value == floor (value) && fabs (value) < 1e15)
    json_node_set_int (node, (gint64) value);
  else
    json_node_set_double (node, value);
  return node;
}

/* Like json_to_string(), but fractions have at most six digits and not seventeen. */
static void
append_node (GString *text, JsonNode *node)
{
  if (JSON_NODE_HOLDS_OBJECT (node))
    {
      JsonObjectIter iter;
      const char *key, *separator = "{";
      JsonNode *member;

      json_object_iter_init_ordered (&iter, json_node_get_object (node));
      while (json_object_iter_next_ordered (&iter, &key, &member))
        {
          g_string_append_printf (text, "%s\"%s\": ", separator, key);
          append_node (text, member);
          separator = ", ";
        }
      g_string_append (text, *separator == '{' ? "{}" : "}");
    }
  else if (JSON_NODE_HOLDS_ARRAY (node))
    {
      guint n = json_array_get_length (json_node_get_array (node));
      g_string_append_c (text, '[');
      for (guint i = 0; i < n; i++)
        {
          g_string_append (text, i ? ", " : "");
          append_node (text, json_array_get_element (json_node_get_array (node), i));
        }
      g_string_append_c (text, ']');
    }
  else if (JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_DOUBLE)
    {
      char number[G_ASCII_DTOSTR_BUF_SIZE];
      double value = json_node_get_double (node);
      const char *format = fabs (value) >= 1e6 && fabs (value) < 1e18 ? "%.0f" : "%.6g";
      g_string_append (text, g_ascii_formatd (number, sizeof number, format, value));
    }
  else
    {
      g_autofree char *value = json_to_string (node, FALSE);
      g_string_append (text, value);
    }
}

static void
set_number (JsonObject *object, const char *key, double value)
{
  json_object_set_member (object, key, number_node (value));
}

/* 0 stands for "not known". */
static void
set_known (JsonObject *object, const char *key, double value)
{
  if (value > 0)
    set_number (object, key, value);
  else
    json_object_set_null_member (object, key);
}

static void
set_text (JsonObject *object, const char *key, const char *value)
{
  if (value)
    json_object_set_string_member (object, key, value);
  else
    json_object_set_null_member (object, key);
}

static JsonObject *
error_object (const PsiFitError *error)
{
  JsonObject *object = json_object_new ();
  set_number (object, "mean", error->mean);
  set_number (object, "p90", error->p90);
  set_number (object, "max", error->max);
  return object;
}

static JsonObject *
curve_object (const PsiCurve *curve)
{
  JsonObject *object = json_object_new ();
  JsonArray *points = json_array_new (), *segments = json_array_new ();

  set_text (object, "name", curve->name);
  set_number (object, "ranks", curve->n_ranks);
  set_number (object, "nodes", curve->n_nodes);
  for (guint i = 0; i < curve->segments->len; i++)
    {
      const PsiCurveSegment *segment = &g_array_index (curve->segments, PsiCurveSegment, i);
      JsonObject *row = json_object_new ();
      set_number (row, "lo_bytes", (double) segment->lo_bytes);
      set_number (row, "hi_bytes", (double) segment->hi_bytes);
      set_number (row, "alpha_ns", segment->alpha_ns);
      set_number (row, "beta_ns_per_byte", segment->beta_ns_per_byte);
      json_array_add_object_element (segments, row);
    }
  json_object_set_array_member (object, "segments", segments);
  json_object_set_object_member (object, "fit_error", error_object (&curve->fit));
  json_object_set_object_member (object, "leave_one_out_error", error_object (&curve->leave_one_out));
  set_number (object, "drift", curve->drift);
  for (guint i = 0; i < curve->points->len; i++)
    {
      const PsiCurvePoint *point = &g_array_index (curve->points, PsiCurvePoint, i);
      JsonArray *row = json_array_new ();
      json_array_add_int_element (row, point->bytes);
      json_array_add_element (row, number_node (point->time_ns));
      json_array_add_element (row, number_node (point->p10_ns));
      json_array_add_element (row, number_node (point->p90_ns));
      json_array_add_array_element (points, row);
    }
  json_object_set_array_member (object, "points", points); /* bytes, time_ns, p10_ns, p90_ns */
  return object;
}

static JsonObject *
gemm_object (const PsiProfileGemm *gemm)
{
  JsonObject *object = json_object_new ();
  set_text (object, "dtype", psi_profile_dtype_names[gemm->dtype]);
  set_text (object, "pass", psi_profile_pass_names[gemm->pass]);
  set_number (object, "batch", (double) gemm->batch);
  set_number (object, "m", (double) gemm->m);
  set_number (object, "n", (double) gemm->n);
  set_number (object, "k", (double) gemm->k);
  set_number (object, "time_ns", gemm->time_ns);
  set_number (object, "p10_ns", gemm->p10_ns);
  set_number (object, "p90_ns", gemm->p90_ns);
  set_number (object, "efficiency", gemm->efficiency);
  return object;
}

static JsonObject *
compute_object (const PsiProfile *profile)
{
  JsonObject *object = json_object_new (), *peaks = json_object_new (), *starts = json_object_new (),
             *errors = json_object_new ();

  set_known (object, "sms", profile->sms);
  for (guint i = 0; i < PSI_N_DTYPES; i++)
    if (profile->peak_flops[i] > 0)
      {
        set_number (peaks, psi_profile_dtype_names[i], profile->peak_flops[i]);
        set_number (starts, psi_profile_dtype_names[i], profile->gemm_start_ns[i]);
        json_object_set_object_member (errors, psi_profile_dtype_names[i], error_object (&profile->gemm_error[i]));
      }
  json_object_set_object_member (object, "peak_flops", peaks);
  json_object_set_object_member (object, "gemm_start_ns", starts);
  json_object_set_object_member (object, "gemm_error", errors);
  set_known (object, "gemm_tile_m", profile->tile_m);
  set_known (object, "gemm_tile_n", profile->tile_n);
  set_known (object, "launch_ns", profile->launch_ns);
  set_known (object, "graph_launch_ns", profile->graph_launch_ns);
  set_known (object, "issue_ns", profile->issue_ns);
  return object;
}

static JsonObject *
profile_object (const PsiProfile *profile)
{
  JsonObject *object = json_object_new (), *memory = json_object_new ();
  JsonArray *gemms = json_array_new (), *curves = json_array_new (), *values = json_array_new (),
            *warnings = json_array_new ();

  set_text (object, "schema", PSI_PROFILE_SCHEMA);
  set_number (object, "version", PSI_PROFILE_VERSION);
  set_text (object, "name", profile->name);
  set_text (object, "kind", profile->kind);
  set_text (object, "source", profile->source);
  set_text (object, "gpu", profile->gpu);
  set_text (object, "created", profile->created);
  set_text (object, "tool_version", profile->tool_version);
  set_text (object, "command", profile->command);
  json_object_set_object_member (object, "provenance", json_object_ref (profile->provenance));
  json_object_set_object_member (object, "compute", compute_object (profile));
  set_known (memory, "bytes_per_s", profile->memory_bytes_per_s);
  set_known (memory, "usable_bytes", (double) profile->usable_bytes);
  set_known (memory, "context_bytes", (double) profile->context_bytes);
  json_object_set_object_member (object, "memory", memory);
  for (guint i = 0; i < profile->curves->len; i++)
    json_array_add_object_element (curves, curve_object (profile->curves->pdata[i]));
  json_object_set_array_member (object, "curves", curves);
  for (guint i = 0; i < profile->gemms->len; i++)
    json_array_add_object_element (gemms, gemm_object (&g_array_index (profile->gemms, PsiProfileGemm, i)));
  json_object_set_array_member (object, "gemm", gemms);
  for (guint i = 0; i < profile->values->len; i++)
    {
      const PsiValueSample *value = &g_array_index (profile->values, PsiValueSample, i);
      JsonObject *row = json_object_new ();
      set_text (row, "name", value->name);
      set_number (row, "ranks", value->n_ranks);
      set_number (row, "value", value->value);
      json_array_add_object_element (values, row);
    }
  json_object_set_array_member (object, "values", values);
  for (guint i = 0; i < profile->warnings->len; i++)
    json_array_add_string_element (warnings, profile->warnings->pdata[i]);
  json_object_set_array_member (object, "warnings", warnings);
  return object;
}

char *
psi_profile_to_json (const PsiProfile *profile)
{
  g_autoptr (JsonObject) object = profile_object (profile);
  g_autoptr (GList) members = json_object_get_members (object);
  GString *text = g_string_new ("{");

  for (GList *member = members; member; member = member->next)
    {
      JsonNode *node = json_object_get_member (object, member->data);
      JsonArray *array = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
      guint n = array ? json_array_get_length (array) : 0;

      g_string_append_printf (text, "%s\n  \"%s\": ", member == members ? "" : ",", (const char *) member->data);
      if (array == NULL)
        {
          append_node (text, node);
          continue;
        }
      g_string_append_c (text, '[');
      for (guint i = 0; i < n; i++)
        {
          g_string_append (text, i ? ",\n    " : "\n    ");
          append_node (text, json_array_get_element (array, i));
        }
      g_string_append (text, n ? "\n  ]" : "]");
    }
  g_string_append (text, "\n}\n");
  return g_string_free (text, FALSE);
}

gboolean
psi_profile_save (const PsiProfile *profile, const char *file, GError **error)
{
  g_autofree char *text = psi_profile_to_json (profile);
  g_autoptr (GError) why = NULL;

  if (psi_out_file_write (file, text, strlen (text), &why))
    return TRUE;
  g_set_error_literal (error, PSI_PROFILE_ERROR, PSI_PROFILE_ERROR_WRITE, why->message);
  return FALSE;
}
