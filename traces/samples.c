/* SPDX-License-Identifier: MIT */
#include "samples.h"

#include "in-file.h"

#include <math.h>
#include <string.h>

G_DEFINE_QUARK (psi_samples_error, psi_samples_error)

PsiSamples *
psi_samples_new (void)
{
  PsiSamples *samples = g_new0 (PsiSamples, 1);
  samples->curves = g_array_new (FALSE, FALSE, sizeof (PsiCurveSample));
  samples->gemms = g_array_new (FALSE, FALSE, sizeof (PsiGemmSample));
  samples->values = g_array_new (FALSE, FALSE, sizeof (PsiValueSample));
  samples->provenance = json_object_new ();
  return samples;
}

void
psi_samples_free (PsiSamples *samples)
{
  if (samples == NULL)
    return;
  g_array_unref (samples->curves);
  g_array_unref (samples->gemms);
  g_array_unref (samples->values);
  json_object_unref (samples->provenance);
  g_free (samples);
}

/* Spellings of the collectives without '-', '_' and "_perf". */
static const struct
{
  const char *spelling, *curve;
} operations[] = {
  { "allreduce", "all_reduce" }, { "allgather", "all_gather" }, { "reducescatter", "reduce_scatter" },
  { "broadcast", "broadcast" },  { "alltoall", "all_to_all" },  { "sendrecv", "send_recv" },
  { "reduce", "reduce" },        { "gather", "gather" },        { "scatter", "scatter" },
};

const char *
psi_samples_operation (const char *name)
{
  g_autofree char *plain = g_ascii_strdown (name, -1);
  char *to = plain;

  if (g_str_has_suffix (plain, "_perf"))
    plain[strlen (plain) - strlen ("_perf")] = 0;
  for (const char *from = plain; *from; from++)
    if (*from != '-' && *from != '_')
      *to++ = *from;
  *to = 0;
  for (guint i = 0; i < G_N_ELEMENTS (operations); i++)
    if (g_str_equal (plain, operations[i].spelling))
      return g_intern_static_string (operations[i].curve);
  return NULL;
}

const char *
psi_samples_guess_operation (const char *file, const char *redop, gboolean has_root, double bus_ratio)
{
  g_autofree char *base = g_path_get_basename (file);
  g_autofree char *plain = g_ascii_strdown (base, -1);
  gboolean sums = redop && !g_str_equal (redop, "none");
  char *to = plain;

  for (const char *from = plain; *from; from++)
    if (*from != '-' && *from != '_')
      *to++ = *from;
  *to = 0;
  for (guint i = 0; i < G_N_ELEMENTS (operations); i++)
    if (strstr (plain, operations[i].spelling))
      return g_intern_static_string (operations[i].curve);

  if (!(bus_ratio > 0))
    return NULL;
  /* Ratios: all-reduce 2(n-1)/n >= 1, rooted operations 1, the others (n-1)/n < 1. */
  if (has_root && fabs (bus_ratio - 1) < 0.02)
    return sums ? "reduce" : "broadcast";
  if (sums && bus_ratio < 2)
    return bus_ratio > 0.98 ? "all_reduce" : "reduce_scatter";
  return NULL;
}

guint
psi_samples_guess_ranks (const char *operation, double bus_ratio)
{
  if (g_str_equal (operation, "all_reduce"))
    return bus_ratio > 0.98 && bus_ratio < 2 ? (guint) MAX (2, round (2 / (2 - bus_ratio))) : 0;
  return bus_ratio > 0.4 && bus_ratio < 0.999 ? (guint) MAX (2, round (1 / (1 - bus_ratio))) : 0;
}

guint
psi_json_error_line (const GError *error)
{
  const char *colon = strchr (error->message, ':');
  guint64 line = colon ? g_ascii_strtoull (colon + 1, NULL, 10) : 0;
  return (guint) CLAMP (line, 1, G_MAXUINT);
}

static gboolean
read_text (PsiSamples *samples, const char *file, const char *text, const char *operation, GError **error)
{
  const char *at = text + strspn (text, " \t\r\n");

  if (*at == 0)
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_SYNTAX, "%s: file is empty", file);
      return FALSE;
    }
  if (*at != '{')
    return psi_samples_read_nccl_text (samples, file, text, operation, error);

  /* A log of nccl-tests is one object over the whole file, samples are one object on each line. */
  g_autofree char *first = g_strndup (at, strcspn (at, "\n"));
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  if (psi_in_file_parse_json (parser, first, -1, NULL) && JSON_NODE_HOLDS_OBJECT (json_parser_get_root (parser)) &&
      !json_object_has_member (json_node_get_object (json_parser_get_root (parser)), "results"))
    return psi_samples_read_lines (samples, file, text, error);
  if (strstr (first, "\"record\""))
    return psi_samples_read_lines (samples, file, text, error);
  g_autoptr (GError) why = NULL;
  if (!psi_in_file_parse_json (parser, text, -1, &why))
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_SYNTAX, "%s:%u: not valid JSON", file,
                   psi_json_error_line (why));
      return FALSE;
    }
  return psi_samples_read_nccl_json (samples, file, json_node_get_object (json_parser_get_root (parser)), operation,
                                     error);
}

gboolean
psi_samples_read (PsiSamples *samples, const char *file, const char *operation, GError **error)
{
  g_autofree char *text = NULL;
  g_autoptr (GError) why = NULL;
  gsize length;
  guint n_curves = samples->curves->len, n_gemms = samples->gemms->len, n_values = samples->values->len;

  if (!psi_in_file_read (file, PSI_IN_FILE_MOST_JSON_BYTES, &text, &length, &why))
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_READ, "%s: %s", file,
                   g_error_matches (why, G_FILE_ERROR, G_FILE_ERROR_NOENT)   ? "no such file"
                   : g_error_matches (why, G_FILE_ERROR, G_FILE_ERROR_ISDIR) ? "is a directory, not a file"
                   : g_error_matches (why, G_FILE_ERROR, G_FILE_ERROR_ACCES) ? "permission denied"
                                                                             : why->message);
      return FALSE;
    }
  if (memchr (text, 0, length) || !g_utf8_validate (text, (gssize) length, NULL))
    {
      g_set_error (error, PSI_SAMPLES_ERROR, PSI_SAMPLES_ERROR_SYNTAX, "%s: not a text file", file);
      return FALSE;
    }
  if (read_text (samples, file, text, operation, error))
    return TRUE;
  g_array_set_size (samples->curves, n_curves);
  g_array_set_size (samples->gemms, n_gemms);
  g_array_set_size (samples->values, n_values);
  return FALSE;
}
