/* SPDX-License-Identifier: MIT */
/* Cutting a model into parts: by layers, with embedding and head, by cost, by a list. */
#include "partition.h"
#include "plan.h"
#include "settings-flags.h"

#include <math.h>

/* A chain of `blocks` equal layers, with an embedding and a head when `ends`. */
static PsiModel *
chain (guint blocks, gboolean ends)
{
  PsiModel *model = psi_model_new ("chain", "chain");
  guint kind = psi_model_add_kind (model, "block");

  psi_model_add_layers (model, kind, blocks + (ends ? 2 : 0));
  model->n_blocks = blocks;
  model->first_block = ends ? 1 : 0;
  return model;
}

/* First layers of the parts, as text. */
static char *
cut (const PsiModel *model, guint n_parts, const char *flags, const double *cost, GError **error)
{
  g_autoptr (PsiSettings) settings = settings_of (flags);
  g_auto (PsiPartition) partition = { 0 };
  g_autofree double *equal = g_new (double, model->layers->len);
  GString *text = g_string_new (NULL);

  for (guint l = 0; l < model->layers->len; l++)
    equal[l] = 1;
  if (!psi_partition_cut (model, n_parts, settings, cost != NULL ? cost : equal, &partition, error))
    {
      g_string_free (text, TRUE);
      return NULL;
    }
  g_assert_cmpuint (partition.n_parts, ==, n_parts);
  g_assert_cmpuint (partition.first[n_parts], ==, model->layers->len);
  for (guint p = 0; p < n_parts; p++)
    {
      g_assert_cmpuint (partition.first[p], <, partition.first[p + 1]);
      for (guint l = partition.first[p]; l < partition.first[p + 1]; l++)
        g_assert_cmpuint (partition.part_of[l], ==, p);
      g_string_append_printf (text, "%s%u", p > 0 ? " " : "", partition.first[p]);
    }
  g_string_append_printf (text, " %s", partition.rule);
  return g_string_free (text, FALSE);
}

static void
test_rules (void)
{
  static const struct
  {
    guint blocks;
    gboolean ends;
    guint parts;
    const char *flags, *text;
  } rows[] = {
    { 12, TRUE, 4, "model=gpt2", "0 4 7 10 layers" }, /* embedding with the first, head with the last */
    { 12, FALSE, 4, "model=gpt2", "0 3 6 9 layers" },
    { 10, TRUE, 4, "model=gpt2", "0 3 6 9 layers+2" }, /* 10 does not divide, 12 does */
    { 11, TRUE, 4, "model=gpt2", "0 3 6 9 flops" },    /* neither does; 13 layers of equal cost, the odd one last */
    { 12, TRUE, 4, "model=gpt2 partition=layers", "0 4 7 10 layers" },
    { 10, TRUE, 4, "model=gpt2 partition=layers+2", "0 3 6 9 layers+2" },
    { 12, TRUE, 1, "model=gpt2", "0 layers" },
    { 6, TRUE, 8, "model=gpt2", "0 1 2 3 4 5 6 7 layers+2" }, /* as many parts as layers */
    { 12, TRUE, 4, "model=gpt2 partition=5,3,2,2", "0 6 9 11 list" },
    { 12, TRUE, 4, "model=gpt2 partition=4,4,3,3", "0 4 8 11 list" }, /* with both ends counted */
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiModel) model = chain (rows[i].blocks, rows[i].ends);
      g_autofree char *text = cut (model, rows[i].parts, rows[i].flags, NULL, &error);

      g_assert_no_error (error);
      g_assert_cmpstr (text, ==, rows[i].text);
    }
}

static void
test_refused (void)
{
  static const struct
  {
    guint parts;
    const char *flags, *words;
  } rows[] = {
    { 5, "model=gpt2 partition=layers", "--partition: 'layers': 5 parts do not divide 12 layers" },
    { 5, "model=gpt2 partition=layers+2", "--partition: 'layers+2': 5 parts do not divide 14 layers" },
    { 4, "model=gpt2 partition=5,3,2", "--partition: 3 numbers with sum 10 for 4 parts" },
    { 4, "model=gpt2 partition=5,3,2,1", "--partition: 4 numbers with sum 11 for 4 parts" },
    { 15, "model=gpt2 stages=15", "--stages: a model of 12 layers cannot be cut into 15 parts (at most 14)" },
    { 15, "model=gpt2 pp=15", "--pp: a model of 12 layers cannot be cut into 15 parts (at most 14)" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiModel) model = chain (12, TRUE);
      g_autofree char *text = cut (model, rows[i].parts, rows[i].flags, NULL, &error);

      g_assert_null (text);
      g_assert_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES);
      if (strstr (error->message, rows[i].words) == NULL)
        g_error ("'%s' is not in '%s'", rows[i].words, error->message);
    }
}

static double
largest_part (const double *cost, const guint *first, guint n_parts)
{
  double largest = 0;

  for (guint p = 0; p < n_parts; p++)
    {
      double sum = 0;

      for (guint l = first[p]; l < first[p + 1]; l++)
        sum += cost[l];
      largest = MAX (largest, sum);
    }
  return largest;
}

/* The smallest largest part over every way to cut layers [at, n) into `parts` runs. */
static double
best_cut (const double *cost, guint at, guint n, guint parts)
{
  double best = HUGE_VAL, sum = 0;

  if (parts == 1)
    {
      for (guint l = at; l < n; l++)
        sum += cost[l];
      return sum;
    }
  for (guint end = at + 1; end + parts - 1 <= n; end++)
    {
      sum += cost[end - 1];
      best = MIN (best, MAX (sum, best_cut (cost, end, n, parts - 1)));
    }
  return best;
}

/* `flops` finds the smallest largest part there is. */
static void
test_smallest_largest (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  g_autoptr (PsiSettings) settings = settings_of ("model=gpt2 partition=flops");

  for (guint round = 0; round < 200; round++)
    {
      guint n = 2 + (guint) g_rand_int_range (rand, 0, 9), parts = 1 + (guint) g_rand_int_range (rand, 0, (gint32) n);
      g_autoptr (PsiModel) model = chain (n, FALSE);
      g_auto (PsiPartition) partition = { 0 };
      g_autoptr (GError) error = NULL;
      double cost[16];

      for (guint l = 0; l < n; l++)
        cost[l] = g_rand_int_range (rand, 0, 20);
      g_assert_true (psi_partition_cut (model, parts, settings, cost, &partition, &error));
      g_assert_no_error (error);
      for (guint p = 0; p < parts; p++)
        g_assert_cmpuint (partition.first[p], <, partition.first[p + 1]);
      g_assert_cmpfloat (largest_part (cost, partition.first, parts), ==, best_cut (cost, 0, n, parts));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plan/partition/rules", test_rules);
  g_test_add_func ("/plan/partition/refused", test_refused);
  g_test_add_func ("/plan/partition/smallest-largest", test_smallest_largest);
  return g_test_run ();
}
