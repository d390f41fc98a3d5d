/* SPDX-License-Identifier: MIT */
/* Errors, verdicts and orders by source.
 *
 *   error    predicted / measured - 1; mean, median and 90th percentile of its size, mean with its sign
 *   tau-b    (concordant - discordant) / sqrt ((pairs - ties in x) (pairs - ties in y)), Kendall 1945
 *   regret   measured time of the alternative predicted to be fastest / time of the fastest - 1
 *
 * Percentiles interpolate between order statistics. Groups of fewer than three alternatives are not counted. */
#include "validate.h"

#include <math.h>

#define FEWEST_ALTERNATIVES 3

static int
compare_doubles (gconstpointer a, gconstpointer b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

static double
percentile (const GArray *sorted, double share)
{
  double position = share * (double) (sorted->len - 1);
  guint below = (guint) position, above = MIN (below + 1, sorted->len - 1);
  double low = g_array_index (sorted, double, below), high = g_array_index (sorted, double, above);

  return low + (position - below) * (high - low);
}

void
psi_validate_errors (GArray *errors, PsiErrors *ret_errors)
{
  *ret_errors = (PsiErrors){ .n = errors->len, .mean = NAN, .median = NAN, .p90 = NAN, .bias = NAN };
  if (errors->len == 0)
    return;
  double sum = 0, signed_sum = 0;
  for (guint i = 0; i < errors->len; i++)
    {
      double *error = &g_array_index (errors, double, i);

      signed_sum += *error;
      *error = fabs (*error);
      sum += *error;
    }
  g_array_sort (errors, compare_doubles);
  ret_errors->mean = sum / errors->len;
  ret_errors->bias = signed_sum / errors->len;
  ret_errors->median = percentile (errors, 0.5);
  ret_errors->p90 = percentile (errors, 0.9);
}

double
psi_validate_tau (const double *x, const double *y, guint n)
{
  double pairs = (double) n * (n - 1) / 2, score = 0, ties_x = 0, ties_y = 0;

  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < i; j++)
      {
        int a = compare_doubles (&x[i], &x[j]), b = compare_doubles (&y[i], &y[j]);

        score += a * b;
        ties_x += a == 0;
        ties_y += b == 0;
      }
  double scale = sqrt ((pairs - ties_x) * (pairs - ties_y));
  return scale > 0 ? score / scale : (double) NAN;
}

/* Sums of one source while its rows pass. */
typedef struct
{
  PsiSourceScore score;
  GArray *time, *memory, *steady; /* of double */
  GHashTable *groups;             /* name -> GPtrArray of PsiPrediction* */
  GPtrArray *order;               /* of GPtrArray*, groups in file order */
} Sums;

static void
sums_free (gpointer data)
{
  Sums *sums = data;

  g_array_unref (sums->time);
  g_array_unref (sums->memory);
  g_array_unref (sums->steady);
  g_hash_table_unref (sums->groups);
  g_ptr_array_unref (sums->order);
  g_free (sums);
}

static Sums *
sums_new (const char *source)
{
  Sums *sums = g_new0 (Sums, 1);

  sums->score.source = g_strdup (source);
  sums->time = g_array_new (FALSE, FALSE, sizeof (double));
  sums->memory = g_array_new (FALSE, FALSE, sizeof (double));
  sums->steady = g_array_new (FALSE, FALSE, sizeof (double));
  sums->groups = g_hash_table_new (g_str_hash, g_str_equal);
  sums->order = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);
  return sums;
}

static void
add_error (GArray *errors, double error)
{
  if (!isnan (error))
    g_array_append_val (errors, error);
}

static void
sums_add (Sums *sums, PsiPrediction *prediction)
{
  sums->score.n_rows++;
  sums->score.n_failed += prediction->failure != NULL;
  add_error (sums->time, prediction->time_error);
  if (!isnan (prediction->time_error) && !isnan (prediction->low_s))
    {
      sums->score.n_banded++;
      sums->score.inside += prediction->measured_s >= prediction->low_s && prediction->measured_s <= prediction->high_s;
      sums->score.width += (prediction->high_s - prediction->low_s) / prediction->step_time_s;
    }
  add_error (sums->memory, prediction->memory_error);
  add_error (sums->steady, prediction->steady_error);
  if (prediction->measured != PSI_OUTCOME_UNKNOWN && prediction->outcome != PSI_OUTCOME_UNKNOWN)
    sums->score.verdicts[prediction->measured == PSI_OUTCOME_OOM][prediction->outcome == PSI_OUTCOME_OOM]++;
  if (isnan (prediction->time_error) || *prediction->group == '\0')
    return;
  GPtrArray *group = g_hash_table_lookup (sums->groups, prediction->group);
  if (group == NULL)
    {
      group = g_ptr_array_new ();
      g_ptr_array_add (sums->order, group);
      g_hash_table_insert (sums->groups, prediction->group, group);
    }
  g_ptr_array_add (group, prediction);
}

static void
score_groups (Sums *sums)
{
  double tau_sum = 0, regret_sum = 0;
  guint n_taus = 0, n = 0;

  for (guint g = 0; g < sums->order->len; g++)
    {
      const GPtrArray *group = sums->order->pdata[g];

      if (group->len < FEWEST_ALTERNATIVES)
        continue;
      g_autofree double *measured = g_new (double, group->len), *predicted = g_new (double, group->len);
      guint fastest = 0, chosen = 0;
      for (guint i = 0; i < group->len; i++)
        {
          const PsiPrediction *prediction = group->pdata[i];

          measured[i] = prediction->measured_s;
          predicted[i] = prediction->step_time_s;
          fastest = measured[i] < measured[fastest] ? i : fastest;
          chosen = predicted[i] < predicted[chosen] ? i : chosen;
        }
      double tau = psi_validate_tau (measured, predicted, group->len);
      regret_sum += measured[chosen] / measured[fastest] - 1;
      n++;
      if (isnan (tau))
        continue;
      tau_sum += tau;
      n_taus++;
    }
  sums->score.n_groups = n;
  sums->score.tau = n_taus > 0 ? tau_sum / n_taus : (double) NAN;
  sums->score.regret = n > 0 ? regret_sum / n : (double) NAN;
}

void
psi_validate_score (PsiValidation *validation)
{
  g_autoptr (GPtrArray) all = g_ptr_array_new_with_free_func (sums_free);
  g_autoptr (GHashTable) by_source = g_hash_table_new (g_str_hash, g_str_equal);
  Sums *total = sums_new ("all");

  for (guint i = 0; i < validation->predictions->len; i++)
    {
      PsiPrediction *prediction = validation->predictions->pdata[i];
      Sums *sums = g_hash_table_lookup (by_source, prediction->source);

      if (sums == NULL)
        {
          sums = sums_new (prediction->source);
          g_ptr_array_add (all, sums);
          g_hash_table_insert (by_source, prediction->source, sums);
        }
      sums_add (sums, prediction);
      sums_add (total, prediction);
    }
  g_ptr_array_add (all, total);
  for (guint i = 0; i < all->len; i++)
    {
      Sums *sums = all->pdata[i];

      psi_validate_errors (sums->time, &sums->score.time);
      psi_validate_errors (sums->memory, &sums->score.memory);
      psi_validate_errors (sums->steady, &sums->score.steady);
      score_groups (sums);
      sums->score.inside /= sums->score.n_banded; /* NAN if there are none */
      sums->score.width /= sums->score.n_banded;
      g_array_append_val (validation->scores, sums->score);
    }
}
