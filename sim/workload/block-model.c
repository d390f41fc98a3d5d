/* SPDX-License-Identifier: MIT */
/* What transformer families share around their blocks: stacking them, checking the degrees, counting parameters and
 * FLOPs. No physics. */
#include "block.h"

static gboolean
check_divides (const char *degree, guint value, gint64 amount, const char *what, const char *name, GError **error)
{
  g_autoptr (GString) allowed = NULL;

  if (value <= 1 || amount % value == 0)
    return TRUE;
  allowed = g_string_new ("1");
  for (gint64 d = 2; d <= MIN (amount, 1024) && allowed->len < 60; d++)
    if (amount % d == 0)
      g_string_append_printf (allowed, " %" G_GINT64_FORMAT, d);
  g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
               "[plan] %s: '%u' does not divide the %" G_GINT64_FORMAT " %s of '%s' (allowed: %s)", degree, value,
               amount, what, name, allowed->str);
  return FALSE;
}

/* GPUs that split each expert. Those that are not the tensor-parallel group have tokens of their own only where that
 * group shares the sequence out. */
static gboolean
check_expert_tp (const PsiModelDimensions *d, const PsiLowering *lowering, GError **error)
{
  guint tp = MAX (lowering->tp, 1), expert_tp = lowering->expert_tp > 0 ? lowering->expert_tp : tp;

  if (expert_tp != tp && !lowering->sequence_parallel)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "[plan] expert_tp: '%u' is not tp = %u and needs sequence_parallel = yes", expert_tp, tp);
      return FALSE;
    }
  return check_divides (expert_tp != tp ? "expert_tp" : "tp", expert_tp, d->expert_ffn, "columns of an expert", d->name,
                        error);
}

static gboolean
check_degrees (const PsiModelDimensions *d, const PsiLowering *lowering, gint64 sequence, GError **error)
{
  guint tp = MAX (lowering->tp, 1), cp = MAX (lowering->cp, 1), ep = MAX (lowering->ep, 1);

  if (!check_divides ("tp", tp, d->heads, "attention heads", d->name, error) ||
      !check_divides ("tp", tp, d->kv_heads, "key and value heads", d->name, error) ||
      !check_divides ("tp", tp, d->ffn, "feed-forward columns", d->name, error) ||
      !check_divides ("cp", cp, sequence, "tokens of a sample", d->name, error))
    return FALSE;
  if (lowering->sequence_parallel &&
      !check_divides ("tp", tp, sequence / cp, "tokens that sequence_parallel splits", d->name, error))
    return FALSE;
  if (d->decoder_sequence > 0 &&
      (!check_divides ("cp", cp, d->decoder_sequence, "tokens of the decoder", d->name, error) ||
       (lowering->sequence_parallel &&
        !check_divides ("tp", tp, d->decoder_sequence / cp, "tokens of the decoder", d->name, error))))
    return FALSE;
  if (d->experts > 0)
    return check_divides ("ep", ep, d->experts, "experts", d->name, error) && check_expert_tp (d, lowering, error);
  if (ep > 1 || (lowering->expert_tp > 0 && lowering->expert_tp != tp))
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "[plan] %s: '%u' needs experts, and '%s' has none (allowed: %u)", ep > 1 ? "ep" : "expert_tp",
                   ep > 1 ? ep : lowering->expert_tp, d->name, ep > 1 ? 1 : tp);
      return FALSE;
    }
  return TRUE;
}

guint
psi_block_add (PsiModel *model, const char *name, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens)
{
  guint index = psi_model_add_kind (model, name);
  PsiLower lower;

  psi_lower_init (&lower, lowering, tokens);
  psi_block_attention (&lower, block, FALSE);
  psi_block_mlp (&lower, block);
  psi_block_finish (&lower, block, psi_model_kind (model, index));
  psi_block_script (psi_model_kind (model, index), lowering, block, tokens);
  return index;
}

PsiModel *
psi_block_stack (PsiModel *model, guint embedding, guint middle, guint layers, guint head)
{
  psi_model_add_layers (model, embedding, 1);
  psi_model_add_layers (model, middle, layers);
  psi_model_add_layers (model, head, 1);
  model->first_block = 1;
  model->n_blocks = layers;
  return model;
}

static gint64
count_built (const PsiFamily *family, const PsiModelDimensions *dimensions)
{
  const PsiLowering plain = {
    .micro_batch = 1, .tp = 1, .cp = 1, .ep = 1, .dtype = PSI_DTYPE_BF16, .flash = TRUE, .loss_chunks = 1
  };
  g_autoptr (PsiModel) model = family->build (dimensions, &plain, dimensions->sequence);
  gint64 sum = 0;

  for (guint i = 0; i < model->layers->len; i++)
    sum += psi_model_kind (model, g_array_index (model->layers, PsiLayer, i).kind)->parameters;
  return sum;
}

/* What is trained, in words: dimensions, tokens, adapters. */
static char *
describe (const PsiModelDimensions *d, const PsiLowering *lowering, gint64 sequence)
{
  GString *text = g_string_new (d->family);

  g_string_append_printf (text,
                          ": %" G_GINT64_FORMAT " layers, hidden %" G_GINT64_FORMAT ", heads %" G_GINT64_FORMAT
                          "/%" G_GINT64_FORMAT ", ffn %" G_GINT64_FORMAT,
                          d->layers + d->decoder_layers, d->hidden, d->heads, d->kv_heads, d->ffn);
  if (d->vocab > 0)
    g_string_append_printf (text, ", vocabulary %" G_GINT64_FORMAT, d->vocab);
  g_string_append_printf (text, ", sequence %" G_GINT64_FORMAT, sequence);
  if (d->decoder_sequence > 0)
    g_string_append_printf (text, ", of the decoder %" G_GINT64_FORMAT, d->decoder_sequence);
  psi_adapters_describe (&lowering->adapters, text);
  return g_string_free (text, FALSE);
}

static PsiModel *
expand_built (const PsiFamily *family, const PsiModelDimensions *d, const PsiLowering *lowering, GError **error)
{
  gint64 sequence = lowering->sequence > 0 && d->image_size == 0 ? lowering->sequence : d->sequence;
  double flops = 0.0, frozen_flops = 0.0;
  PsiModel *model;

  if (!check_degrees (d, lowering, sequence, error))
    return NULL;
  model = family->build (d, lowering, sequence);
  if (lowering->vocabulary_shards > 1)
    psi_block_shard_vocabulary (model, lowering, d, sequence);
  for (guint i = 0; i < model->layers->len; i++)
    {
      const PsiLayerKind *kind = psi_model_kind (model, g_array_index (model->layers, PsiLayer, i).kind);

      flops += kind->model_flops;
      frozen_flops += kind->frozen_flops;
    }
  model->model_flops_per_sample = flops / (double) MAX (lowering->micro_batch, 1);
  model->frozen_flops_per_sample = frozen_flops / (double) MAX (lowering->micro_batch, 1);
  model->tokens_per_sample = sequence;
  model->parameters = count_built (family, d);
  model->description = describe (d, lowering, sequence);
  return model;
}

gint64
psi_family_count (const PsiFamily *family, const PsiModelDimensions *dimensions)
{
  return family->build != NULL ? count_built (family, dimensions) : family->count_parameters (dimensions);
}

PsiModel *
psi_family_expand (const PsiFamily *family, const PsiModelDimensions *dimensions, const PsiLowering *lowering,
                   GError **error)
{
  return family->build != NULL ? expand_built (family, dimensions, lowering, error)
                               : family->expand (dimensions, lowering, error);
}
