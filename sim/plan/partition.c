/* SPDX-License-Identifier: MIT */
#include "partition.h"

#include "plan.h"

#include <string.h>

/* Fill parts up to the limit from the first on, leaving at least one layer for every part still to come. */
static void
cut_from_start (const double *cost, guint n_layers, guint n_parts, double limit, guint *first)
{
  double sum = 0;
  guint part = 0;

  first[0] = 0;
  for (guint l = 0; l < n_layers; l++)
    {
      gboolean must = n_layers - l == n_parts - part - 1; /* one layer for each part that is left */

      if (l > first[part] && part + 1 < n_parts && (must || sum + cost[l] > limit))
        {
          first[++part] = l;
          sum = 0;
        }
      sum += cost[l];
    }
  first[n_parts] = n_layers;
}

/* From the last part on, each takes its share of what is left, rounded up to whole layers, so that where parts differ
 * the first ones, whose activations live longest, are the smaller. FALSE if that breaks the limit. */
static gboolean
cut_evenly_from_end (const double *cost, guint n_layers, guint n_parts, double limit, guint *first)
{
  double rest = 0;
  guint end = n_layers;

  for (guint l = 0; l < n_layers; l++)
    rest += cost[l];
  first[n_parts] = n_layers;
  for (guint part = n_parts; part-- > 1;)
    {
      double share = rest / (part + 1) * (1 - 1e-12), sum = 0;
      guint begin = end;

      while (begin > part && sum < share && sum + cost[begin - 1] <= limit)
        sum += cost[--begin];
      if (begin == end)
        return FALSE;
      first[part] = end = begin;
      rest -= sum;
    }
  first[0] = 0;
  return rest <= limit;
}

/* Smallest largest part of a chain cut into at most n runs: bisection on the largest part, then a cut within that
 * limit. */
static void
cut_by_cost (const double *cost, guint n_layers, guint n_parts, guint *first)
{
  double low = 0, high = 0;

  for (guint l = 0; l < n_layers; l++)
    {
      low = MAX (low, cost[l]);
      high += cost[l];
    }
  for (guint round = 0; round < 60; round++)
    {
      double limit = (low + high) / 2, sum = 0;
      guint parts = 1;

      for (guint l = 0; l < n_layers; l++)
        {
          if (sum + cost[l] > limit)
            {
              parts++;
              sum = 0;
            }
          sum += cost[l];
        }
      if (parts <= n_parts)
        high = limit;
      else
        low = limit;
    }
  double limit = high * (1 + 1e-12);
  if (!cut_evenly_from_end (cost, n_layers, n_parts, limit, first))
    cut_from_start (cost, n_layers, n_parts, limit, first);
}

/* nanotron (parallel/pipeline_parallel, get_block_compute_costs): walking the layers, a part ends with the layer at
 * which the sum of costs exceeds its share of the total. Cost: elements of the matrices; the embedding costs nothing.
 * Every part gets at least one layer here. */
static void
cut_past_share (const PsiModel *model, guint n_parts, guint *first)
{
  guint n_layers = model->layers->len, part = 0;
  g_autofree double *sums = g_new (double, n_layers);
  double sum = 0;

  for (guint l = 0; l < n_layers; l++)
    {
      const PsiLayerKind *kind = psi_model_kind (model, g_array_index (model->layers, PsiLayer, l).kind);

      if (l >= model->first_block)
        sum += (double) (l == n_layers - 1 && model->tied_parameters > 0 ? model->tied_parameters : kind->parameters);
      sums[l] = sum;
    }
  first[0] = 0;
  for (guint l = 0; l + 1 < n_layers && part + 1 < n_parts; l++)
    if (sums[l] > sum * (part + 1) / n_parts || n_layers - l - 1 == n_parts - part - 1)
      first[++part] = l + 1;
  first[n_parts] = n_layers;
}

static gboolean
cut_by_list (const PsiModel *model, guint n_parts, const PsiSettings *settings, guint *first, GError **error)
{
  guint n = 0;
  const gint64 *counts = psi_settings_counts (settings, PSI_KEY_PARTITION, &n);
  const char *where = psi_settings_where (settings, PSI_KEY_PARTITION);
  gint64 sum = 0;

  for (guint i = 0; i < n; i++)
    sum += counts[i];
  /* The list counts blocks, or blocks with embedding and head as one layer each. */
  gboolean with_ends = sum == (gint64) model->n_blocks + 2 && model->layers->len == model->n_blocks + 2;
  if (n != n_parts || (sum != (gint64) model->n_blocks && !with_ends && sum != (gint64) model->layers->len))
    {
      g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
                   "%s: %u numbers with sum %" G_GINT64_FORMAT " for %u parts and %u layers", where, n, sum, n_parts,
                   model->n_blocks);
      return FALSE;
    }
  guint layer = 0;
  for (guint i = 0; i < n_parts; i++)
    {
      first[i] = layer;
      layer += (guint) counts[i];
      if (i == 0 && sum == (gint64) model->n_blocks)
        layer += model->first_block;
    }
  first[n_parts] = model->layers->len;
  for (guint i = 0; i < n_parts; i++)
    if (first[i] >= first[i + 1])
      {
        g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES, "%s: part %u of '%s' has no layer", where, i,
                     psi_settings_text (settings, PSI_KEY_PARTITION));
        return FALSE;
      }
  return TRUE;
}

static void
cut_evenly (guint before, guint n, guint n_layers, guint n_parts, guint *first)
{
  for (guint i = 0; i < n_parts; i++)
    first[i] = i == 0 ? 0 : before + n / n_parts * i;
  first[n_parts] = n_layers;
}

/* Every part but the last ends with its share of the vocabulary. */
static void
cut_after_vocabulary (const PsiModel *model, guint n_parts, guint *first)
{
  guint part = 0, n_layers = model->layers->len;

  for (guint l = 0; l < n_layers && part + 1 < n_parts; l++)
    {
      const PsiLayerKind *kind = psi_model_kind (model, g_array_index (model->layers, PsiLayer, l).kind);

      if (strcmp (kind->name, "vocabulary") == 0)
        first[++part] = l + 1;
    }
  first[n_parts] = n_layers;
}

gboolean
psi_partition_cut (const PsiModel *model, guint n_parts, const PsiSettings *settings, const double *cost,
                   PsiPartition *ret_partition, GError **error)
{
  guint n_layers = model->layers->len, blocks = model->n_blocks, n_list = 0;
  gboolean even = blocks > 0 && blocks % n_parts == 0;
  gboolean even_ends = model->layers->len == blocks + 2 && n_layers % n_parts == 0;
  const char *rule = NULL;
  g_autofree guint *first = g_new0 (guint, n_parts + 1);

  /* A share of the vocabulary alone is no part. */
  const guint most = model->vocabulary_shards > 0 ? blocks - model->vocabulary_shards : n_layers;
  if (n_parts > most)
    {
      g_set_error (
          error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES,
          "%s: a model of %u layers cannot be cut into %u parts (at most %u)",
          psi_settings_where (settings, psi_settings_has (settings, PSI_KEY_STAGES) ? PSI_KEY_STAGES : PSI_KEY_PP),
          model->vocabulary_shards > 0 ? most
          : blocks > 0                 ? blocks
                                       : n_layers,
          n_parts, most);
      return FALSE;
    }
  if (psi_settings_has (settings, PSI_KEY_PARTITION))
    {
      rule = psi_settings_text (settings, PSI_KEY_PARTITION);
      if (psi_settings_counts (settings, PSI_KEY_PARTITION, &n_list) != NULL)
        rule = "list";
      if ((strcmp (rule, "layers") == 0 && !even) || (strcmp (rule, "layers+2") == 0 && !even_ends))
        {
          g_set_error (error, PSI_PLAN_ERROR, PSI_PLAN_ERROR_DEGREES, "%s: '%s': %u parts do not divide %u layers",
                       psi_settings_where (settings, PSI_KEY_PARTITION), rule, n_parts,
                       strcmp (rule, "layers") == 0 ? blocks : blocks + 2);
          return FALSE;
        }
    }
  else
    {
      const PsiFramework *framework = psi_framework_find (psi_settings_text (settings, PSI_KEY_FRAMEWORK));

      rule = framework->cut_past_share ? "nanotron" : even ? "layers" : even_ends ? "layers+2" : "flops";
    }

  if (model->vocabulary_shards > 0)
    {
      rule = "vocabulary";
      cut_after_vocabulary (model, n_parts, first);
    }
  else if (strcmp (rule, "layers") == 0)
    cut_evenly (model->first_block, blocks, n_layers, n_parts, first);
  else if (strcmp (rule, "layers+2") == 0)
    cut_evenly (0, n_layers, n_layers, n_parts, first);
  else if (strcmp (rule, "nanotron") == 0)
    cut_past_share (model, n_parts, first);
  else if (strcmp (rule, "list") == 0)
    {
      if (!cut_by_list (model, n_parts, settings, first, error))
        return FALSE;
    }
  else
    cut_by_cost (cost, n_layers, n_parts, first);

  ret_partition->n_parts = n_parts;
  ret_partition->part_of = g_new (guint, n_layers);
  for (guint p = 0; p < n_parts; p++)
    for (guint l = first[p]; l < first[p + 1]; l++)
      ret_partition->part_of[l] = p;
  ret_partition->first = g_steal_pointer (&first);
  ret_partition->rule = rule;
  return TRUE;
}

void
psi_partition_clear (PsiPartition *partition)
{
  g_free (partition->first);
  g_free (partition->part_of);
}
