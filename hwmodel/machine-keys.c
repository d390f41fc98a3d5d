/* SPDX-License-Identifier: MIT */
/* One row for each key of a machine file. */

#include "machine-keys.h"

#include "in-file.h"
#include "machine.h"
#include "nearest.h"

#include <math.h>
#include <string.h>

typedef enum
{
  KIND_TEXT,   /* char * */
  KIND_COUNT,  /* guint */
  KIND_COUNTS, /* gint64, no unit */
  KIND_BYTES,  /* gint64 */
  KIND_MEMORY, /* gint64, or the word unlimited = -1 */
  KIND_TIME,   /* gint64, ps */
  KIND_RATE,   /* double, bytes/s */
  KIND_SPEED,  /* the same, or the word unlimited = INFINITY */
  KIND_FLOPS,  /* double, FLOP/s */
  KIND_REAL,   /* double */
  KIND_YES,    /* gboolean */
  KIND_CHOICE, /* an enum: the place in `choices` */
  KIND_WORD,   /* char *, one of `choices` */
  KIND_FILE,   /* char *, NULL where the key is absent */
  N_KINDS
} KeyKind;

typedef struct
{
  const char *name;
  double value;
} Unit;

static const Unit byte_units[] = { { "", 1 },
                                   { "B", 1 },
                                   { "kB", 1e3 },
                                   { "MB", 1e6 },
                                   { "GB", 1e9 },
                                   { "TB", 1e12 },
                                   { "KiB", 1024 },
                                   { "MiB", 1024.0 * 1024 },
                                   { "GiB", 1024.0 * 1024 * 1024 },
                                   { "TiB", 1024.0 * 1024 * 1024 * 1024 },
                                   { NULL, 0 } };
static const Unit time_units[] = { { "", 1e12 },  { "ps", 1 },   { "ns", 1e3 }, { "us", 1e6 },
                                   { "ms", 1e9 }, { "s", 1e12 }, { NULL, 0 } };
static const Unit rate_units[] = { { "", 1 },           { "MB/s", 1e6 },     { "GB/s", 1e9 },      { "TB/s", 1e12 },
                                   { "Mb/s", 0.125e6 }, { "Gb/s", 0.125e9 }, { "Tb/s", 0.125e12 }, { NULL, 0 } };
static const Unit flops_units[] = {
  { "", 1 }, { "GFLOP/s", 1e9 }, { "TFLOP/s", 1e12 }, { "PFLOP/s", 1e15 }, { NULL, 0 }
};
static const Unit no_units[] = { { "", 1 }, { NULL, 0 } };

static const struct
{
  const char *what;
  const Unit *units;
} kinds[N_KINDS] = {
  [KIND_TEXT] = { "a text", NULL },
  [KIND_COUNT] = { "a whole number", no_units },
  [KIND_COUNTS] = { "a whole number", no_units },
  [KIND_BYTES] = { "a size (KiB MiB GiB TiB kB MB GB TB)", byte_units },
  [KIND_MEMORY] = { "a size (KiB MiB GiB TiB kB MB GB TB, or unlimited)", byte_units },
  [KIND_TIME] = { "a time (ps ns us ms s)", time_units },
  [KIND_RATE] = { "a bandwidth (MB/s GB/s TB/s Mb/s Gb/s Tb/s)", rate_units },
  [KIND_SPEED] = { "a bandwidth (MB/s GB/s TB/s Mb/s Gb/s Tb/s, or unlimited)", rate_units },
  [KIND_FLOPS] = { "a rate (GFLOP/s TFLOP/s PFLOP/s)", flops_units },
  [KIND_REAL] = { "a number", no_units },
  [KIND_FILE] = { "a profile, *.json", NULL },
  [KIND_YES] = { "yes or no", NULL },
  [KIND_CHOICE] = { "a word", NULL },
  [KIND_WORD] = { "a word", NULL },
};

typedef struct
{
  const char *table, *name;
  KeyKind kind;
  gsize offset;
  double minimum, maximum; /* in base units (times in ps) */
  const char *fallback;    /* as text; NULL = the key is required */
  const char *choices;     /* separated by spaces */
} Key;

#define GPU(field) G_STRUCT_OFFSET (PsiMachine, gpu.field)
#define HOST(field) G_STRUCT_OFFSET (PsiMachine, host.field)
#define NODE(field) G_STRUCT_OFFSET (PsiMachine, field)
#define LINK(field) G_STRUCT_OFFSET (PsiLink, field)
#define RATE(name, dtype)                                                                                              \
  {                                                                                                                    \
    "gpu", name, KIND_FLOPS, GPU (peak_flops[dtype]), 0, 1e20, "0", NULL                                               \
  }

static const Key keys[] = {
  { "gpu", "name", KIND_TEXT, GPU (name), 0, 0, NULL, NULL },
  { "gpu", "kind", KIND_WORD, NODE (kind), 0, 0, "datasheet", "measured published datasheet" },
  { "gpu", "architecture", KIND_CHOICE, GPU (architecture), 0, 0, NULL, "cpu volta ampere ada hopper blackwell" },
  { "gpu", "memory", KIND_MEMORY, GPU (memory_bytes), 1 << 20, 1e15, NULL, NULL },
  { "gpu", "memory_bandwidth", KIND_SPEED, GPU (memory_bytes_per_s), 1e6, 1e20, NULL, NULL },
  { "gpu", "memory_efficiency", KIND_REAL, GPU (memory_efficiency), 0.01, 1, NULL, NULL },
  RATE ("fp32", PSI_DTYPE_FP32),
  RATE ("tf32", PSI_DTYPE_TF32),
  RATE ("fp16", PSI_DTYPE_FP16),
  RATE ("bf16", PSI_DTYPE_BF16),
  RATE ("fp8", PSI_DTYPE_FP8),
  RATE ("mxfp8", PSI_DTYPE_MXFP8),
  RATE ("nvfp4", PSI_DTYPE_NVFP4),
  { "gpu", "sms", KIND_COUNT, GPU (sms), 1, 1e6, NULL, NULL },
  { "gpu", "gemm_efficiency", KIND_REAL, GPU (gemm_efficiency), 0.01, 1, NULL, NULL },
  { "gpu", "gemm_efficiency_fp32", KIND_REAL, GPU (gemm_efficiency_fp32), 0.01, 1, "0.9", NULL },
  { "gpu", "gemm_efficiency_fp8", KIND_REAL, GPU (gemm_efficiency_fp8), 0.01, 1, "0.6", NULL },
  { "gpu", "gemm_ramp_k", KIND_COUNTS, GPU (gemm_ramp_k), 0, 1e6, NULL, NULL },
  { "gpu", "gemm_tile", KIND_COUNT, GPU (gemm_tile), 0, 4096, "256", NULL },
  { "gpu", "gemm_tile_square", KIND_REAL, GPU (gemm_tile_square), 0.01, 1, "0.8", NULL },
  { "gpu", "gemm_tile_small", KIND_REAL, GPU (gemm_tile_small), 0.01, 1, "0.5", NULL },
  { "gpu", "gemm_tail", KIND_REAL, GPU (gemm_tail), 0, 1, "0.65", NULL },
  { "gpu", "gemm_exposed_sum", KIND_REAL, GPU (gemm_exposed_sum), 0, 1, "0.75", NULL },
  { "gpu", "gemm_unaligned", KIND_REAL, GPU (gemm_unaligned), 0.001, 16, "0.52", NULL },
  { "gpu", "training_clock", KIND_REAL, GPU (training_clock), 0.1, 1, "1", NULL },
  { "gpu", "band_low", KIND_REAL, NODE (band_low), 0, 1, "0", NULL },
  { "gpu", "band_high", KIND_REAL, NODE (band_high), 0, 10, "0", NULL },
  { "gpu", "attention_forward", KIND_REAL, GPU (attention_efficiency_forward), 0.01, 1, NULL, NULL },
  { "gpu", "attention_backward", KIND_REAL, GPU (attention_efficiency_backward), 0.01, 1, NULL, NULL },
  { "gpu", "attention_ramp_forward", KIND_COUNT, GPU (attention_ramp_forward), 0, 1e6, "300", NULL },
  { "gpu", "attention_ramp_backward", KIND_COUNT, GPU (attention_ramp_backward), 0, 1e6, "690", NULL },
  { "gpu", "attention_block_forward", KIND_COUNT, GPU (attention_block_forward), 1, 65536, "128", NULL },
  { "gpu", "attention_block_backward", KIND_COUNT, GPU (attention_block_backward), 1, 65536, "128", NULL },
  { "gpu", "attention_tail_forward", KIND_REAL, GPU (attention_tail_forward), 0, 100, "1.8", NULL },
  { "gpu", "attention_tail_backward", KIND_REAL, GPU (attention_tail_backward), 0, 100, "1.8", NULL },
  { "gpu", "launch", KIND_TIME, GPU (launch_ps), 0, 1e9, NULL, NULL },
  { "gpu", "minimum_kernel", KIND_TIME, GPU (minimum_kernel_ps), 0, 1e9, NULL, NULL },
  { "gpu", "context", KIND_BYTES, GPU (context_bytes), 0, 1e12, NULL, NULL },
  { "gpu", "profile", KIND_FILE, NODE (profile_file), 0, 0, NULL, NULL },
  { "gpu", "source", KIND_TEXT, GPU (source), 0, 0, NULL, NULL },

  { "host", "issue_pytorch", KIND_TIME, HOST (issue_ps_pytorch), 0, 1e12, NULL, NULL },
  { "host", "issue_megatron", KIND_TIME, HOST (issue_ps_megatron), 0, 1e12, NULL, NULL },
  { "host", "memory", KIND_MEMORY, HOST (memory_bytes), 1 << 20, 1e16, NULL, NULL },
  { "host", "bandwidth", KIND_SPEED, HOST (bytes_per_s), 1e6, 1e20, NULL, NULL },
  { "host", "source", KIND_TEXT, HOST (source), 0, 0, NULL, NULL },

  { "node", "gpus", KIND_COUNT, NODE (gpus_per_node), 1, 1e9, NULL, NULL },
  { "node", "ideal", KIND_YES, NODE (ideal), 0, 0, "no", NULL },
  { "node", "source", KIND_TEXT, NODE (node_source), 0, 0, NULL, NULL },

  { "link", "kind", KIND_CHOICE, LINK (kind), 0, 0, NULL, "nvlink pcie memory network" },
  { "link", "bandwidth", KIND_RATE, LINK (bytes_per_s), 1e6, 1e20, NULL, NULL },
  { "link", "efficiency", KIND_REAL, LINK (efficiency), 0.01, 1, NULL, NULL },
  { "link", "latency", KIND_TIME, LINK (latency_ps), 0, 1e12, NULL, NULL },
  { "link", "ramp", KIND_TIME, LINK (ramp_ps), 0, 1e12, "0", NULL },
  { "link", "simple_only", KIND_YES, LINK (simple_only), 0, 0, "no", NULL },
  { "link", "mesh_links", KIND_COUNT, LINK (mesh_links), 0, 1e6, "0", NULL },
  { "link", "nics", KIND_COUNT, LINK (nics_per_node), 0, 1e6, "0", NULL },
  { "link", "oversubscription", KIND_REAL, LINK (oversubscription), 1, 1000, "1", NULL },
  { "link", "switch_gpus", KIND_COUNT, LINK (switch_gpus), 0, 1e6, "0", NULL },
  { "link", "uplink", KIND_RATE, LINK (uplink_bytes_per_s), 0, 1e20, "0", NULL },
  { "link", "leaf_nodes", KIND_COUNT, LINK (leaf_nodes), 0, 1e6, "0", NULL },
  { "link", "rails", KIND_YES, LINK (rails), 0, 0, "no", NULL },
  { "link", "pod_nodes", KIND_COUNT, LINK (pod_nodes), 0, 1e6, "0", NULL },
  { "link", "pod_oversubscription", KIND_REAL, LINK (pod_oversubscription), 1, 1000, "1", NULL },
  { "link", "source", KIND_TEXT, LINK (source), 0, 0, NULL, NULL },
};

static gboolean set_value_error (GError **error, const char *where, const char *group, const char *key,
                                 const char *value, const char *format, ...) G_GNUC_PRINTF (6, 7);

static gboolean
set_value_error (GError **error, const char *where, const char *group, const char *key, const char *value,
                 const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  g_autofree char *rest = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE, "%s: [%s] %s: '%s' %s", where, group, key, value,
               rest);
  return FALSE;
}

/* A decimal number and a unit. FALSE if it is not that. */
static gboolean
parse_quantity (const char *text, const Unit *units, double *ret_value)
{
  char *end;
  if (!g_ascii_isdigit (*text) && *text != '-' && *text != '.')
    return FALSE;
  double value = g_ascii_strtod (text, &end);
  if (end == text || !isfinite (value) || memchr (text, 'x', (gsize) (end - text)))
    return FALSE;
  while (*end == ' ')
    end++;
  for (; units->name; units++)
    if (g_str_equal (end, units->name))
      {
        *ret_value = value * units->value;
        return TRUE;
      }
  return FALSE;
}

static int
find_choice (const char *choices, const char *word)
{
  g_auto (GStrv) words = g_strsplit (choices, " ", -1);
  for (int i = 0; words[i]; i++)
    if (g_str_equal (words[i], word))
      return i;
  return -1;
}

const char *
psi_machine_keys_choice (const char *table, const char *name, int value)
{
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (g_str_equal (keys[i].table, table) && g_str_equal (keys[i].name, name))
      {
        g_auto (GStrv) words = g_strsplit (keys[i].choices, " ", -1);
        g_assert (value >= 0 && (guint) value < g_strv_length (words));
        return g_intern_string (words[value]);
      }
  g_assert_not_reached ();
}

static gboolean
store_number (const Key *key, const char *group, const char *text, gpointer place, const char *where, GError **error)
{
  double value;
  if (key->kind == KIND_MEMORY && g_str_equal (text, "unlimited"))
    {
      *(gint64 *) place = -1;
      return TRUE;
    }
  if (key->kind == KIND_SPEED && g_str_equal (text, "unlimited"))
    {
      *(double *) place = INFINITY;
      return TRUE;
    }
  if (!parse_quantity (text, kinds[key->kind].units, &value))
    return set_value_error (error, where, group, key->name, text, "is not %s", kinds[key->kind].what);

  gboolean whole = key->kind == KIND_COUNT || key->kind == KIND_COUNTS;
  if (whole && value != floor (value))
    return set_value_error (error, where, group, key->name, text, "is not %s", kinds[key->kind].what);
  if (value < key->minimum || value > key->maximum)
    {
      double unit = key->kind == KIND_TIME ? 1e12 : 1;
      return set_value_error (error, where, group, key->name, text, "is out of range (allowed: %.10g to %.10g%s)",
                              key->minimum / unit, key->maximum / unit, key->kind == KIND_TIME ? " s" : "");
    }

  if (key->kind == KIND_COUNT)
    *(guint *) place = (guint) value;
  else if (key->kind == KIND_RATE || key->kind == KIND_SPEED || key->kind == KIND_FLOPS || key->kind == KIND_REAL)
    *(double *) place = value;
  else
    *(gint64 *) place = llrint (value);
  return TRUE;
}

static gboolean
store (const Key *key, const char *group, const char *text, gpointer target, const char *where, GError **error)
{
  gpointer place = (char *) target + key->offset;
  int choice;
  switch (key->kind)
    {
    case KIND_TEXT:
    case KIND_FILE:
      if (*text == '\0')
        return set_value_error (error, where, group, key->name, text, "is empty (allowed: %s)", kinds[key->kind].what);
      g_free (*(char **) place);
      *(char **) place = g_strdup (text);
      return TRUE;
    case KIND_YES:
      if (!g_str_equal (text, "yes") && !g_str_equal (text, "no"))
        return set_value_error (error, where, group, key->name, text, "is not yes or no");
      *(gboolean *) place = g_str_equal (text, "yes");
      return TRUE;
    case KIND_CHOICE:
    case KIND_WORD:
      choice = find_choice (key->choices, text);
      if (choice < 0)
        return set_value_error (error, where, group, key->name, text, "is not one of: %s", key->choices);
      if (key->kind == KIND_CHOICE)
        *(int *) place = choice;
      else
        {
          g_free (*(char **) place);
          *(char **) place = g_strdup (text);
        }
      return TRUE;
    default:
      return store_number (key, group, text, place, where, error);
    }
}

/* The keys of a group ("gpu", "host", "node", "link"), separated by spaces. (transfer full) */
static char *
keys_of (const char *group)
{
  GString *list = g_string_new (NULL);
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (g_str_equal (keys[i].table, group))
      g_string_append_printf (list, "%s%s", list->len ? " " : "", keys[i].name);
  return g_string_free (list, FALSE);
}

static gboolean
check_known (GKeyFile *file, const char *group, const char *table, const char *where, GError **error)
{
  g_autofree char *list = keys_of (table);
  g_auto (GStrv) known = g_strsplit (list, " ", -1);
  g_auto (GStrv) written = g_key_file_get_keys (file, group, NULL, NULL);
  for (char **key = written; *key; key++)
    {
      if (g_strv_contains ((const char *const *) known, *key))
        continue;
      const char *near = psi_nearest (*key, (const char *const *) known);
      if (near)
        g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE,
                     "%s: [%s] unknown key '%s' (did you mean '%s'?)", where, group, *key, near);
      else
        g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE, "%s: [%s] unknown key '%s' (allowed: %s)",
                     where, group, *key, list);
      return FALSE;
    }
  return TRUE;
}

/* Without spaces at the ends and without a comment, which begins with # after a space. */
static char *
clean_value (const char *raw)
{
  char *value = g_strdup (raw);
  for (char *c = value; *c; c++)
    if (*c == '#' && (c == value || g_ascii_isspace (c[-1])))
      {
        *c = '\0';
        break;
      }
  return g_strstrip (value);
}

gboolean
psi_machine_keys_read (GKeyFile *file, const char *group, const char *table, gpointer target, const char *where,
                       GError **error)
{
  if (!g_key_file_has_group (file, group))
    {
      g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE,
                   "%s: group [%s] is missing (allowed: [gpu] [host] [node] [link NAME])", where, group);
      return FALSE;
    }
  if (!check_known (file, group, table, where, error))
    return FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      const Key *key = &keys[i];
      if (!g_str_equal (key->table, table))
        continue;
      g_autofree char *raw = g_key_file_get_value (file, group, key->name, NULL);
      if (!raw && key->kind == KIND_FILE)
        continue;
      if (!raw && !key->fallback)
        {
          g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE, "%s: [%s] %s is missing (allowed: %s%s%s)",
                       where, group, key->name, kinds[key->kind].what, key->choices ? " of " : "",
                       key->choices ? key->choices : "");
          return FALSE;
        }
      g_autofree char *value = clean_value (raw ? raw : key->fallback);
      if (!store (key, group, value, target, where, error))
        return FALSE;
    }
  return TRUE;
}

/* GKeyFile takes the last of two equal keys without a word, so look before it does. */
static gboolean
check_doubles (const char *text, const char *where, GError **error)
{
  g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autofree char *group = g_strdup ("");
  for (guint i = 0; lines[i]; i++)
    {
      char *line = g_strstrip (lines[i]), *end;
      g_autofree char *name = NULL;
      if (*line == '[' && (end = strchr (line, ']')))
        {
          g_free (group);
          group = g_strndup (line, (gsize) (end - line) + 1);
          name = g_strdup (group);
        }
      else if (*line != '#' && (end = strchr (line, '=')))
        {
          g_autofree char *key = g_strndup (line, (gsize) (end - line));
          name = g_strconcat (group, " ", g_strstrip (key), NULL);
        }
      if (name && !g_hash_table_add (seen, g_strdup (name)))
        {
          g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_SYNTAX, "%s:%u: %s stands twice (allowed: once)",
                       where, i + 1, name);
          return FALSE;
        }
    }
  return TRUE;
}

GKeyFile *
psi_machine_keys_open (const char *path, const char *where, GError **error)
{
  g_autofree char *text = NULL;
  g_autoptr (GError) problem = NULL;
  gsize length;
  if (!psi_in_file_read (path, PSI_IN_FILE_MOST_JSON_BYTES, &text, &length, &problem))
    {
      g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_UNKNOWN, "%s: cannot be read: %s", where,
                   problem->message);
      return NULL;
    }
  if (!check_doubles (text, where, error))
    return NULL;
  g_autoptr (GKeyFile) file = g_key_file_new ();
  if (!g_key_file_load_from_data (file, text, length, G_KEY_FILE_NONE, &problem))
    {
      g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_SYNTAX, "%s: is not a machine file: %s", where,
                   problem->message);
      return NULL;
    }
  return g_steal_pointer (&file);
}
