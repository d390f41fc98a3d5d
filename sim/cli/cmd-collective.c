/* SPDX-License-Identifier: MIT */
/* psisim collective OP: time and bandwidth of a collective from 8 B to 1 GiB, in the columns of nccl-tests. */
#include "commands.h"
#include "help-text.h"

#include "collective.h"
#include "psi-time.h"
#include "quantity.h"
#include "samples.h"
#include "simulate-plan.h"

#include <json-glib/json-glib.h>
#include <math.h>

enum
{
  LEAST_SHIFT = 3, /* 8 B */
  MOST_SHIFT = 30, /* 1 GiB */
  ELEMENT_BYTES = 4
};

typedef struct
{
  gint64 bytes;
  double time_us, algbw_GBps, busbw_GBps; /* infinite on an ideal machine */
  const char *algorithm, *protocol;
} Row;

/* How the columns of nccl-tests are filled for each operation. */
static const struct
{
  gboolean shards, sums, rooted;
} columns[PSI_N_COLLECTIVES] = {
  [PSI_COLLECTIVE_ALL_REDUCE] = { FALSE, TRUE, FALSE },    [PSI_COLLECTIVE_ALL_GATHER] = { TRUE, FALSE, FALSE },
  [PSI_COLLECTIVE_REDUCE_SCATTER] = { TRUE, TRUE, FALSE }, [PSI_COLLECTIVE_BROADCAST] = { FALSE, FALSE, TRUE },
  [PSI_COLLECTIVE_ALL_TO_ALL] = { TRUE, FALSE, FALSE },    [PSI_COLLECTIVE_GATHER] = { FALSE, TRUE, TRUE },
  [PSI_COLLECTIVE_SCATTER] = { FALSE, FALSE, TRUE },       [PSI_COLLECTIVE_SEND_RECV] = { FALSE, FALSE, FALSE },
};

static gboolean
find_operation (const char *word, PsiCollectiveOp *ret_op, GError **error)
{
  const char *canonical = psi_samples_operation (word);
  g_autofree char *listed = NULL, *quoted = psi_quote (word);

  for (int op = 0; op < PSI_N_COLLECTIVES; op++)
    if (canonical != NULL && g_strcmp0 (psi_samples_operation (psi_collective_names[op]), canonical) == 0)
      {
        *ret_op = (PsiCollectiveOp) op;
        return TRUE;
      }
  const char *names[PSI_N_COLLECTIVES + 1] = { NULL };
  for (int op = 0; op < PSI_N_COLLECTIVES; op++)
    names[op] = psi_collective_names[op];
  const char *near = psi_nearest (word, names);
  listed = g_strjoinv (", ", (char **) names);
  if (near != NULL)
    g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "unknown collective %s (did you mean '%s'?)", quoted,
                 near);
  else
    g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "unknown collective %s (one of: %s)", quoted, listed);
  return FALSE;
}

/* The machine of the flags, and how many of its GPUs take part in what shape. */
static PsiMachine *
load_machine (const PsiArguments *arguments, PsiGroupShape *ret_shape, GError **error)
{
  static const PsiKeyId used[] = { PSI_KEY_MACHINE, PSI_KEY_GPUS, PSI_KEY_GPUS_PER_NODE, PSI_KEY_NETWORK,
                                   PSI_KEY_INTERNODE };
  g_autoptr (PsiSettings) settings = psi_settings_new ();

  for (guint i = 0; i < arguments->flags->len; i++)
    {
      const PsiKeyFlag *flag = &g_array_index (arguments->flags, PsiKeyFlag, i);
      g_autofree char *name = psi_key_flag_name (flag->key);
      gboolean known = FALSE;
      for (guint j = 0; j < G_N_ELEMENTS (used); j++)
        known |= flag->key == used[j];
      if (!known)
        {
          g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_OPTION, "%s is not an option of 'collective'", name);
          return NULL;
        }
      if (!psi_settings_set (settings, flag->key, flag->text, name, error))
        return NULL;
    }
  if (!psi_settings_has (settings, PSI_KEY_MACHINE))
    {
      g_set_error_literal (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_OPTION,
                           "collective needs --machine (see 'psisim list machines')");
      return NULL;
    }
  g_autoptr (PsiMachine) machine = psi_simulate_machine (settings, error);
  if (machine == NULL)
    return NULL;
  guint gpus = psi_settings_has (settings, PSI_KEY_GPUS) ? (guint) psi_settings_count (settings, PSI_KEY_GPUS)
                                                         : machine->gpus_per_node;
  if (gpus < 2)
    {
      g_set_error_literal (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "--gpus: a collective needs at least 2");
      return NULL;
    }
  guint per_node = MIN (gpus, MAX (machine->gpus_per_node, 1));
  *ret_shape =
      (PsiGroupShape){ .n_ranks = gpus, .n_nodes = (gpus + per_node - 1) / per_node, .ranks_per_node = per_node };
  return g_steal_pointer (&machine);
}

/* The algorithm asked for, or NULL: what NCCL would choose. */
static gboolean
find_algorithm (const char *word, const PsiMachine *machine, PsiCollectiveOp op, const PsiGroupShape *shape,
                GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  PsiCollectiveCost cost;

  if (word == NULL)
    return TRUE;
  g_autofree char *quoted = psi_quote (word);
  for (const PsiCollectiveAlgorithm *const *row = psi_collective_algorithms; *row != NULL; row++)
    g_ptr_array_add (names, (gpointer) psi_collective_algorithm_name (*row));
  g_ptr_array_add (names, NULL);
  if (!g_strv_contains ((const char *const *) names->pdata, word))
    {
      g_autofree char *listed = g_strjoinv (", ", (char **) names->pdata);
      g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE, "--algorithm: unknown algorithm %s (one of: %s)",
                   quoted, listed);
      return FALSE;
    }
  if (psi_collective_cost_by (machine, word, op, ELEMENT_BYTES, shape, &cost))
    return TRUE;
  g_set_error (error, PSI_USAGE_ERROR, PSI_USAGE_ERROR_VALUE,
               "--algorithm: %s cannot do %s on %u GPUs, %u in a node, of machine '%s'", quoted,
               psi_collective_names[op], shape->n_ranks, shape->ranks_per_node, machine->name);
  return FALSE;
}

static Row
make_row (const PsiMachine *machine, const char *algorithm, PsiCollectiveOp op, const PsiGroupShape *shape,
          gint64 bytes)
{
  PsiCollectiveCost cost;

  if (algorithm == NULL || !psi_collective_cost_by (machine, algorithm, op, bytes, shape, &cost))
    psi_collective_cost (machine, op, bytes, shape, &cost);
  double time_us = psi_time_to_s (psi_collective_time_ps (&cost)) * 1e6;
  double algbw = time_us > 0 ? (double) bytes / time_us * 1e-3 : (double) INFINITY;
  return (Row){ .bytes = bytes,
                .time_us = time_us,
                .algbw_GBps = algbw,
                .busbw_GBps = algbw * psi_collective_bus_factor (op, shape->n_ranks),
                .algorithm = cost.algorithm,
                .protocol = cost.protocol };
}

static void
append_text_member (GString *out, const char *key, const char *value)
{
  if (value != NULL)
    g_string_append_printf (out, "\"%s\": \"%s\"", key, value);
  else
    g_string_append_printf (out, "\"%s\": null", key);
}

static char *
rows_to_json (const Row *rows, guint n)
{
  GString *out = g_string_new ("{\n  \"rows\": [");

  for (guint i = 0; i < n; i++)
    {
      g_string_append_printf (out, "%s\n    {\"size_bytes\": %" G_GINT64_FORMAT, i > 0 ? "," : "", rows[i].bytes);
      psi_append_json_number (out, "time_us", rows[i].time_us);
      psi_append_json_number (out, "algbw_GBps", rows[i].algbw_GBps);
      psi_append_json_number (out, "busbw_GBps", rows[i].busbw_GBps);
      g_string_append (out, ", ");
      append_text_member (out, "algorithm", rows[i].algorithm);
      g_string_append (out, ", ");
      append_text_member (out, "protocol", rows[i].protocol);
      g_string_append_c (out, '}');
    }
  g_string_append (out, "\n  ]\n}\n");
  return g_string_free (out, FALSE);
}

/* As nccl-tests prints: at most two decimals, in six columns. */
static char *
short_number (double value)
{
  if (!isfinite (value))
    return g_strdup ("-");
  return g_strdup_printf ("%.*f", value < 1000 ? 2 : value < 10000 ? 1 : 0, value);
}

static char *
rows_to_table (const PsiMachine *machine, PsiCollectiveOp op, const PsiGroupShape *shape, const Row *rows, guint n)
{
  GString *out = g_string_new (NULL);

  g_string_append_printf (out, "# %s on %u GPUs, %u node%s: %s (%s), " PSI_SAMPLES_PREDICTED "\n",
                          psi_collective_names[op], shape->n_ranks, shape->n_nodes, shape->n_nodes == 1 ? "" : "s",
                          machine->name, machine->kind);
  g_string_append_printf (out, "# %10s  %12s  %8s  %6s  %6s  %9s  %7s  %7s  %s\n", "size", "count", "type", "redop",
                          "root", "time", "algbw", "busbw", "algorithm");
  g_string_append_printf (out, "# %10s  %12s  %8s  %6s  %6s  %9s  %7s  %7s\n", "(B)", "(elements)", "", "", "", "(us)",
                          "(GB/s)", "(GB/s)");
  for (guint i = 0; i < n; i++)
    {
      g_autofree char *time = short_number (rows[i].time_us), *algbw = short_number (rows[i].algbw_GBps),
                      *busbw = short_number (rows[i].busbw_GBps);
      gint64 count = rows[i].bytes / ELEMENT_BYTES / (columns[op].shards ? shape->n_ranks : 1);
      g_string_append_printf (
          out, "%12" G_GINT64_FORMAT "  %12" G_GINT64_FORMAT "  %8s  %6s  %6s  %9s  %7s  %7s  %s%s%s\n", rows[i].bytes,
          count, "float", columns[op].sums ? "sum" : "none", columns[op].rooted ? "0" : "-1", time, algbw, busbw,
          rows[i].algorithm ? rows[i].algorithm : "-", rows[i].protocol ? " " : "",
          rows[i].protocol ? rows[i].protocol : "");
    }
  return g_string_free (out, FALSE);
}

int
psi_cmd_collective (const PsiArguments *arguments)
{
  g_autoptr (GError) error = NULL;
  PsiCollectiveOp op;
  PsiGroupShape shape;
  Row rows[MOST_SHIFT - LEAST_SHIFT + 1];

  if (!find_operation (arguments->words->pdata[0], &op, &error))
    return psi_fail (error);
  g_autoptr (PsiMachine) machine = load_machine (arguments, &shape, &error);
  const char *algorithm = arguments->values[PSI_OPTION_ALGORITHM];
  if (machine == NULL || !find_algorithm (algorithm, machine, op, &shape, &error))
    return psi_fail (error);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    rows[i] = make_row (machine, algorithm, op, &shape, G_GINT64_CONSTANT (1) << (LEAST_SHIFT + i));
  g_autofree char *text = arguments->given[PSI_OPTION_JSON]
                              ? rows_to_json (rows, G_N_ELEMENTS (rows))
                              : rows_to_table (machine, op, &shape, rows, G_N_ELEMENTS (rows));
  return psi_output_write (text);
}
