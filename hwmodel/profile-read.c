/* SPDX-License-Identifier: MIT */
/* A profile's JSON file. What follows from the points (segments, errors, peaks, tile) is computed anew. */
#include "profile.h"

#include "in-file.h"

#include <math.h>
#include <string.h>

/* Place of a message: "h200.json: curves[3]". */
typedef struct
{
  const char *file, *array;
  guint index;
  GError **error;
} Place;

G_GNUC_PRINTF (2, 3)
static gboolean
fail (const Place *place, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  if (place->array)
    g_set_error (place->error, PSI_PROFILE_ERROR, PSI_PROFILE_ERROR_VALUE, "%s: %s[%u]: %s", place->file, place->array,
                 place->index, message);
  else
    g_set_error (place->error, PSI_PROFILE_ERROR, PSI_PROFILE_ERROR_VALUE, "%s: %s", place->file, message);
  return FALSE;
}

static gboolean
node_number (JsonNode *node, double *ret_value)
{
  if (node == NULL || !JSON_NODE_HOLDS_VALUE (node) ||
      (json_node_get_value_type (node) != G_TYPE_INT64 && json_node_get_value_type (node) != G_TYPE_DOUBLE))
    return FALSE;
  *ret_value = json_node_get_double (node);
  return TRUE;
}

/* A number in [minimum, maximum]; absent or null: the fallback, NAN = it must be there. */
static gboolean
get_number (const Place *place, JsonObject *object, const char *key, double minimum, double maximum, double fallback,
            double *ret_value)
{
  JsonNode *node = json_object_get_member (object, key);
  double value;

  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    {
      if (isnan (fallback))
        return fail (place, "'%s' is missing", key);
      *ret_value = fallback;
      return TRUE;
    }
  if (!node_number (node, &value))
    return fail (place, "'%s' is not a number", key);
  if (!(value >= minimum && value <= maximum))
    return fail (place, "'%s' is %g, allowed are %g to %g", key, value, minimum, maximum);
  *ret_value = value;
  return TRUE;
}

static const char *
get_text (JsonObject *object, const char *key)
{
  JsonNode *node = json_object_get_member (object, key);
  return node && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

static gboolean
read_point (const Place *place, JsonNode *node, PsiCurvePoint *ret_point)
{
  JsonArray *row = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
  guint n = row ? json_array_get_length (row) : 0;
  double numbers[4];

  if (n != 2 && n != 4)
    return fail (place, "a point is [bytes, time_ns] or [bytes, time_ns, p10_ns, p90_ns]");
  for (guint i = 0; i < n; i++)
    if (!node_number (json_array_get_element (row, i), &numbers[i]) || !(numbers[i] > 0 && numbers[i] < 1e16))
      return fail (place, "a point has a number that is not positive");
  *ret_point = (PsiCurvePoint){ .bytes = (gint64) numbers[0],
                                .time_ns = numbers[1],
                                .p10_ns = n == 4 ? numbers[2] : numbers[1],
                                .p90_ns = n == 4 ? numbers[3] : numbers[1] };
  return ret_point->bytes > 0 || fail (place, "a point has no bytes");
}

static gboolean
read_curve (PsiProfile *profile, const Place *place, JsonObject *object)
{
  g_autoptr (GArray) points = g_array_new (FALSE, FALSE, sizeof (PsiCurvePoint));
  const char *name = get_text (object, "name");
  JsonNode *node = json_object_get_member (object, "points");
  double ranks = 1, nodes = 1, drift = 0;

  if (name == NULL)
    return fail (place, "'name' is missing");
  if (!get_number (place, object, "ranks", 1, 1e7, 1, &ranks) ||
      !get_number (place, object, "nodes", 1, 1e6, 1, &nodes) ||
      !get_number (place, object, "drift", 0, 1e9, 0, &drift))
    return FALSE;
  if (node == NULL || !JSON_NODE_HOLDS_ARRAY (node) || json_array_get_length (json_node_get_array (node)) == 0)
    return fail (place, "'points' is missing or empty");
  for (guint i = 0; i < json_array_get_length (json_node_get_array (node)); i++)
    {
      PsiCurvePoint point;
      if (!read_point (place, json_array_get_element (json_node_get_array (node), i), &point))
        return FALSE;
      g_array_append_val (points, point);
    }
  PsiCurve *curve =
      psi_curve_fit (name, (guint) ranks, (guint) nodes, (const PsiCurvePoint *) (void *) points->data, points->len);
  curve->drift = drift;
  g_ptr_array_add (profile->curves, curve);
  return TRUE;
}

static gboolean
read_gemm (PsiProfile *profile, const Place *place, JsonObject *object)
{
  const char *dtype = get_text (object, "dtype"), *pass = get_text (object, "pass");
  PsiProfileGemm gemm = { 0 };
  double batch = 1, m = 0, n = 0, k = 0;

  if (dtype == NULL || psi_profile_dtype (dtype) < 0)
    return fail (place, "'dtype' is missing or unknown");
  gemm.dtype = (PsiDtype) psi_profile_dtype (dtype);
  while (gemm.pass < PSI_N_PROFILE_PASSES && pass && !g_str_equal (pass, psi_profile_pass_names[gemm.pass]))
    gemm.pass++;
  if (gemm.pass == PSI_N_PROFILE_PASSES)
    return fail (place, "'pass' is '%s', allowed are forward, input, weight", pass);
  if (!get_number (place, object, "batch", 1, 1e9, 1, &batch) ||
      !get_number (place, object, "m", 1, 1e9, (double) NAN, &m) ||
      !get_number (place, object, "n", 1, 1e9, (double) NAN, &n) ||
      !get_number (place, object, "k", 1, 1e9, (double) NAN, &k) ||
      !get_number (place, object, "time_ns", 1e-3, 1e15, (double) NAN, &gemm.time_ns) ||
      !get_number (place, object, "p10_ns", 0, 1e15, gemm.time_ns, &gemm.p10_ns) ||
      !get_number (place, object, "p90_ns", 0, 1e15, gemm.time_ns, &gemm.p90_ns))
    return FALSE;
  gemm.batch = (gint64) batch;
  gemm.m = (gint64) m;
  gemm.n = (gint64) n;
  gemm.k = (gint64) k;
  g_array_append_val (profile->gemms, gemm);
  return TRUE;
}

static gboolean
read_value (PsiProfile *profile, const Place *place, JsonObject *object)
{
  const char *name = get_text (object, "name");
  double ranks = 0, value = 0;

  if (name == NULL)
    return fail (place, "'name' is missing");
  if (!get_number (place, object, "ranks", 0, 1e7, 0, &ranks) ||
      !get_number (place, object, "value", -1e300, 1e300, (double) NAN, &value))
    return FALSE;
  PsiValueSample sample = { .name = g_intern_string (name), .n_ranks = (guint) ranks, .value = value };
  g_array_append_val (profile->values, sample);
  return TRUE;
}

/* Each element of an array of objects; the array may be absent. */
static gboolean
read_array (PsiProfile *profile, const char *file, JsonObject *root, const char *key,
            gboolean (*read) (PsiProfile *profile, const Place *place, JsonObject *object), GError **error)
{
  Place place = { .file = file, .error = error };
  JsonNode *node = json_object_get_member (root, key);

  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    return TRUE;
  if (!JSON_NODE_HOLDS_ARRAY (node))
    return fail (&place, "'%s' is not a list", key);
  place.array = key;
  for (; place.index < json_array_get_length (json_node_get_array (node)); place.index++)
    {
      JsonNode *element = json_array_get_element (json_node_get_array (node), place.index);
      if (!JSON_NODE_HOLDS_OBJECT (element))
        return fail (&place, "is not an object");
      if (!read (profile, &place, json_node_get_object (element)))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_head (PsiProfile *profile, const char *file, JsonObject *root, GError **error)
{
  static const char *const kinds[] = { "measured", "published", "datasheet", "synthetic", NULL };
  Place place = { .file = file, .error = error };
  JsonObject *compute = psi_json_member_object (root, "compute"), *memory = psi_json_member_object (root, "memory"),
             *provenance = psi_json_member_object (root, "provenance");
  double sms = 0, usable = 0, context = 0;

  profile->kind = g_strdup (get_text (root, "kind"));
  if (profile->kind == NULL || !g_strv_contains (kinds, profile->kind))
    return fail (&place, "'kind' is missing or not one of measured, published, datasheet, synthetic");
  profile->name = g_strdup (get_text (root, "name"));
  if (profile->name == NULL)
    return fail (&place, "'name' is missing");
  profile->source = g_strdup (get_text (root, "source"));
  profile->gpu = g_strdup (get_text (root, "gpu"));
  profile->created = g_strdup (get_text (root, "created"));
  profile->tool_version = g_strdup (get_text (root, "tool_version"));
  profile->command = g_strdup (get_text (root, "command"));
  if (provenance)
    {
      json_object_unref (profile->provenance);
      profile->provenance = json_object_ref (provenance);
    }
  if (compute && (!get_number (&place, compute, "sms", 0, 1e6, 0, &sms) ||
                  !get_number (&place, compute, "launch_ns", 0, 1e12, 0, &profile->launch_ns) ||
                  !get_number (&place, compute, "graph_launch_ns", 0, 1e12, 0, &profile->graph_launch_ns) ||
                  !get_number (&place, compute, "issue_ns", 0, 1e12, 0, &profile->issue_ns)))
    return FALSE;
  if (memory && (!get_number (&place, memory, "bytes_per_s", 0, 1e18, 0, &profile->memory_bytes_per_s) ||
                 !get_number (&place, memory, "usable_bytes", 0, 1e16, 0, &usable) ||
                 !get_number (&place, memory, "context_bytes", 0, 1e16, 0, &context)))
    return FALSE;
  profile->sms = (guint) sms;
  profile->usable_bytes = (gint64) usable;
  profile->context_bytes = (gint64) context;
  return TRUE;
}

static void
read_warnings (PsiProfile *profile, JsonObject *root)
{
  JsonNode *node = json_object_get_member (root, "warnings");
  JsonArray *array = node && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  for (guint i = 0; array && i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      if (JSON_NODE_HOLDS_VALUE (element) && json_node_get_value_type (element) == G_TYPE_STRING)
        g_ptr_array_add (profile->warnings, g_strdup (json_node_get_string (element)));
    }
}

PsiProfile *
psi_profile_load (const char *file, GError **error)
{
  g_autoptr (PsiProfile) profile = psi_profile_new ();
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  g_autoptr (GError) why = NULL;
  g_autofree char *text = NULL;
  gsize length;

  if (!psi_in_file_read (file, PSI_IN_FILE_MOST_JSON_BYTES, &text, &length, &why))
    {
      g_set_error (error, PSI_PROFILE_ERROR, PSI_PROFILE_ERROR_READ, "%s: %s", file,
                   g_error_matches (why, G_FILE_ERROR, G_FILE_ERROR_NOENT)   ? "no such file"
                   : g_error_matches (why, G_FILE_ERROR, G_FILE_ERROR_ISDIR) ? "is a directory, not a file"
                                                                             : why->message);
      return NULL;
    }
  if (!g_utf8_validate (text, (gssize) length, NULL))
    {
      g_set_error (error, PSI_PROFILE_ERROR, PSI_PROFILE_ERROR_SYNTAX, "%s: not a text file", file);
      return NULL;
    }
  if (!psi_in_file_parse_json (parser, text, (gssize) length, &why))
    {
      g_set_error (error, PSI_PROFILE_ERROR, PSI_PROFILE_ERROR_SYNTAX, "%s:%u: not valid JSON", file,
                   psi_json_error_line (why));
      return NULL;
    }
  JsonNode *node = json_parser_get_root (parser);
  JsonObject *root = node && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
  double version;
  if (root == NULL || g_strcmp0 (get_text (root, "schema"), PSI_PROFILE_SCHEMA) != 0 ||
      !node_number (json_object_get_member (root, "version"), &version) || version != PSI_PROFILE_VERSION)
    {
      g_set_error (error, PSI_PROFILE_ERROR, PSI_PROFILE_ERROR_SYNTAX,
                   "%s: not a profile: 'schema' must be \"%s\" and 'version' %d", file, PSI_PROFILE_SCHEMA,
                   PSI_PROFILE_VERSION);
      return NULL;
    }
  if (!read_head (profile, file, root, error) || !read_array (profile, file, root, "curves", read_curve, error) ||
      !read_array (profile, file, root, "gemm", read_gemm, error) ||
      !read_array (profile, file, root, "values", read_value, error))
    return NULL;
  read_warnings (profile, root);
  double memory_bytes_per_s = profile->memory_bytes_per_s;
  psi_profile_prepare_memory (profile);
  if (profile->memory_bytes_per_s <= 0)
    profile->memory_bytes_per_s = memory_bytes_per_s;
  psi_profile_prepare_gemms (profile);
  return g_steal_pointer (&profile);
}
