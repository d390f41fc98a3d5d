/* SPDX-License-Identifier: MIT */
/* psisim validate RUNS.csv: predictions beside measurements, errors by source. */
#include "commands.h"
#include "out-file.h"
#include "plot.h"
#include "table-text.h"
#include "table-units.h"
#include "validate.h"

#include <math.h>
#include <string.h>

static void
add_percent (PsiTable *table, double value, const char *format)
{
  if (isnan (value))
    psi_table_add (table, PSI_STYLE_DIM, "-");
  else
    {
      char text[G_ASCII_DTOSTR_BUF_SIZE];
      psi_table_add (table, PSI_STYLE_PLAIN, g_ascii_formatd (text, sizeof text, format, 100 * value));
    }
}

static void
add_errors (PsiTable *table, const PsiErrors *errors)
{
  psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u", errors->n));
  add_percent (table, errors->mean, "%.1f");
  add_percent (table, errors->median, "%.1f");
  add_percent (table, errors->p90, "%.1f");
  add_percent (table, errors->bias, "%.1f");
}

static void
append_errors_table (GString *out, const PsiValidation *validation, gsize offset, const char *title,
                     const PsiTerminal *terminal)
{
  static const char *const heads[] = {
    "source", "n", "mean %", "median %", "90th %", "signed %", "in band %", "band %"
  };
  gboolean has_band = offset == G_STRUCT_OFFSET (PsiSourceScore, time);
  g_autoptr (PsiTable) table = psi_table_new (has_band ? "lrrrrrrr" : "lrrrrr", 2);
  guint n = 0;

  psi_table_add_headings (table, PSI_STYLE_BOLD, heads, G_N_ELEMENTS (heads) - (has_band ? 0 : 2));
  for (guint i = 0; i < validation->scores->len; i++)
    {
      const PsiSourceScore *score = &g_array_index (validation->scores, PsiSourceScore, i);
      const PsiErrors *errors = (const PsiErrors *) ((const char *) score + offset);

      if (errors->n == 0)
        continue;
      psi_table_add (table, PSI_STYLE_PLAIN, score->source);
      add_errors (table, errors);
      if (has_band)
        {
          add_percent (table, score->inside, "%.0f");
          add_percent (table, score->width, "%.0f");
        }
      n++;
    }
  if (n == 0)
    return;
  psi_append_styled (out, terminal, PSI_STYLE_BOLD, title);
  g_string_append (out, "\n");
  psi_table_append (table, out, terminal);
  g_string_append (out, "\n");
}

static void
append_order_table (GString *out, const PsiValidation *validation, const PsiTerminal *terminal)
{
  static const char *const heads[] = { "source",     "rows",  "not predicted", "ok: right", "wrong",
                                       "oom: right", "wrong", "groups",        "tau",       "regret %" };
  g_autoptr (PsiTable) table = psi_table_new ("lrrrrrrrrr", 2);

  psi_table_add_headings (table, PSI_STYLE_BOLD, heads, G_N_ELEMENTS (heads));
  for (guint i = 0; i < validation->scores->len; i++)
    {
      const PsiSourceScore *score = &g_array_index (validation->scores, PsiSourceScore, i);
      const guint numbers[] = { score->n_rows,         score->n_failed,       score->verdicts[0][0],
                                score->verdicts[0][1], score->verdicts[1][1], score->verdicts[1][0],
                                score->n_groups };

      psi_table_add (table, PSI_STYLE_PLAIN, score->source);
      for (guint k = 0; k < G_N_ELEMENTS (numbers); k++)
        psi_table_take (table, PSI_STYLE_PLAIN, g_strdup_printf ("%u", numbers[k]));
      add_percent (table, score->tau / 100, "%.2f");
      add_percent (table, score->regret, "%.1f");
    }
  psi_append_styled (out, terminal, PSI_STYLE_BOLD, "Verdicts, and order inside each group of alternatives");
  g_string_append (out, "\n");
  psi_table_append (table, out, terminal);
}

static void
append_assumptions (GString *out, const PsiValidation *validation)
{
  g_string_append (out, "\n");
  for (guint i = 0; i < validation->predictions->len; i++)
    {
      const PsiPrediction *prediction = validation->predictions->pdata[i];

      for (guint k = 0; k < prediction->assumptions->len; k++)
        g_string_append_printf (out, "  %s: %s\n", prediction->id, (const char *) prediction->assumptions->pdata[k]);
    }
}

static char *
result_text (const PsiValidation *validation, gboolean verbose)
{
  const PsiTerminal terminal = psi_terminal_detect ();
  GString *out = g_string_new (NULL);

  append_errors_table (out, validation, G_STRUCT_OFFSET (PsiSourceScore, time),
                       "Step time: predicted / measured - 1; measured times in the predicted range, and its width",
                       &terminal);
  append_errors_table (out, validation, G_STRUCT_OFFSET (PsiSourceScore, memory),
                       "Peak memory, in the row's own counter", &terminal);
  append_errors_table (out, validation, G_STRUCT_OFFSET (PsiSourceScore, steady), "Memory between steps", &terminal);
  append_order_table (out, validation, &terminal);
  if (verbose)
    append_assumptions (out, validation);
  return g_string_free (out, FALSE);
}

static gboolean
draw (const PsiValidation *validation, const char *directory, GError **error)
{
  static const char *const names[] = { "validate-time", "validate-memory" };
  static const char *const titles[] = { "step time, seconds", "peak memory, GiB" };
  gboolean drawn = TRUE;

  for (guint figure = 0; figure < G_N_ELEMENTS (names) && drawn; figure++)
    {
      g_autoptr (GString) data = g_string_new ("# measured\tpredicted\n");
      guint n_series = 0;

      for (guint s = 0; s + 1 < validation->scores->len; s++)
        {
          const char *source = g_array_index (validation->scores, PsiSourceScore, s).source;
          guint n = 0;

          for (guint i = 0; i < validation->predictions->len; i++)
            {
              const PsiPrediction *p = validation->predictions->pdata[i];
              double error_size = figure == 0 ? p->time_error : p->memory_error;
              char x[G_ASCII_DTOSTR_BUF_SIZE], y[G_ASCII_DTOSTR_BUF_SIZE];

              if (isnan (error_size) || !g_str_equal (p->source, source))
                continue;
              if (n++ == 0)
                g_string_append_printf (data, "%s\"%s\"\n", n_series++ > 0 ? "\n\n" : "", source);
              double scale = figure == 0 ? 1 : 1.0 / (1 << 30);
              g_string_append_printf (
                  data, "%s\t%s\n",
                  g_ascii_formatd (x, sizeof x, "%.6g", scale * (figure == 0 ? p->measured_s : p->measured_bytes)),
                  g_ascii_formatd (y, sizeof y, "%.6g", scale * (figure == 0 ? p->step_time_s : p->peak_bytes)));
            }
        }
      if (n_series == 0)
        continue;
      g_autofree char *count = g_strdup_printf ("%u", n_series);
      drawn = psi_plot_figure ("validate.gp", names[figure], data->str, titles[figure], count, directory, error);
    }
  return drawn;
}

static char *
validate (const PsiArguments *arguments, GError **error)
{
  const char *file = arguments->words->pdata[0], *output = arguments->values[PSI_OPTION_OUTPUT];
  g_auto (GStrv) sources =
      arguments->given[PSI_OPTION_SOURCE] ? g_strsplit (arguments->values[PSI_OPTION_SOURCE], ",", -1) : NULL;
  const PsiValidateOptions options = { .sources = (const char *const *) sources,
                                       .strict = arguments->given[PSI_OPTION_STRICT] };
  g_autofree char *what = g_strdup_printf ("simulating the runs of %s", file);

  psi_progress_begin (arguments, what);
  g_autoptr (PsiValidation) validation = psi_validate (file, &options, error);
  psi_progress_end ();
  if (validation == NULL)
    return NULL;
  for (guint i = 0; i < validation->predictions->len; i++)
    {
      const PsiPrediction *prediction = validation->predictions->pdata[i];

      if (prediction->doubt != NULL)
        {
          g_autofree char *line = g_strdup_printf ("%s: ignored: %s", prediction->id, prediction->doubt);
          psi_warn (arguments, line);
        }
      if (prediction->failure == NULL)
        continue;
      g_autofree char *line = g_strdup_printf ("%s: not predicted: %s", prediction->id, prediction->failure);
      psi_warn (arguments, line);
    }
  if (output != NULL)
    {
      g_autofree char *csv = g_str_has_suffix (output, ".md") ? psi_validation_to_markdown (validation)
                                                              : psi_validation_to_csv (validation);
      if (!psi_out_file_write (output, csv, strlen (csv), error))
        return NULL;
    }
  if (arguments->given[PSI_OPTION_PLOT] && !draw (validation, arguments->values[PSI_OPTION_PLOT], error))
    return NULL;
  if (arguments->given[PSI_OPTION_JSON])
    return psi_validation_to_json (validation);
  if (arguments->given[PSI_OPTION_CSV])
    return psi_validation_to_csv (validation);
  return result_text (validation, arguments->given[PSI_OPTION_VERBOSE]);
}

int
psi_cmd_validate (const PsiArguments *arguments)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = validate (arguments, &error);

  return text != NULL ? psi_output_write (text) : psi_fail (error);
}
