/* SPDX-License-Identifier: MIT */
/* The containers of a model: kinds, layers, kernels and segments. No physics. */
#include "model.h"

static void
kind_clear (gpointer data)
{
  PsiLayerKind *kind = data;

  g_free (kind->name);
  g_array_unref (kind->kernels);
  for (guint pass = 0; pass < PSI_N_PASSES; pass++)
    g_array_unref (kind->segments[pass]);
  g_clear_pointer (&kind->script[0], g_array_unref);
  g_clear_pointer (&kind->script[1], g_array_unref);
  g_clear_pointer (&kind->tensors, g_array_unref);
}

PsiModel *
psi_model_new (const char *name, const char *family)
{
  PsiModel *model = g_new0 (PsiModel, 1);

  model->name = g_strdup (name);
  model->family = g_strdup (family);
  model->kinds = g_array_new (FALSE, TRUE, sizeof (PsiLayerKind));
  g_array_set_clear_func (model->kinds, kind_clear);
  model->layers = g_array_new (FALSE, TRUE, sizeof (PsiLayer));
  model->tokens_per_sample = 1;
  return model;
}

void
psi_model_free (PsiModel *model)
{
  if (model == NULL)
    return;
  g_free (model->name);
  g_free (model->family);
  g_free (model->description);
  g_array_unref (model->kinds);
  g_array_unref (model->layers);
  g_free (model);
}

guint
psi_model_add_kind (PsiModel *model, const char *name)
{
  PsiLayerKind kind = { 0 };

  kind.name = g_strdup (name);
  kind.trainable_fraction = 1.0;
  kind.kernels = g_array_new (FALSE, TRUE, sizeof (PsiKernel));
  for (guint pass = 0; pass < PSI_N_PASSES; pass++)
    kind.segments[pass] = g_array_new (FALSE, TRUE, sizeof (PsiSegment));
  g_array_append_val (model->kinds, kind);
  return model->kinds->len - 1;
}

PsiLayerKind *
psi_model_kind (const PsiModel *model, guint index)
{
  g_assert (index < model->kinds->len);
  return &g_array_index (model->kinds, PsiLayerKind, index);
}

gboolean
psi_model_has_experts (const PsiModel *model)
{
  for (guint i = 0; i < model->kinds->len; i++)
    if (psi_model_kind (model, i)->expert_parameters > 0)
      return TRUE;
  return FALSE;
}

gint64
psi_kind_trainable (const PsiLayerKind *kind)
{
  return kind->is_frozen ? kind->adapter_parameters : (gint64) ((double) kind->parameters * kind->trainable_fraction);
}

gint64
psi_kind_trainable_experts (const PsiLayerKind *kind)
{
  return kind->is_frozen ? kind->adapter_expert_parameters
                         : (gint64) ((double) kind->expert_parameters * kind->trainable_fraction);
}

void
psi_model_add_layers (PsiModel *model, guint kind, guint count)
{
  g_assert (kind < model->kinds->len);
  for (guint i = 0; i < count; i++)
    {
      PsiLayer layer = { .kind = kind };

      if (model->layers->len > 0)
        {
          layer.n_inputs = 1;
          layer.inputs[0] = model->layers->len - 1;
        }
      g_array_append_val (model->layers, layer);
    }
}

/* The last segment of a pass if it still takes kernels, else NULL. */
static PsiSegment *
open_segment (PsiLayerKind *kind, PsiPass pass)
{
  GArray *segments = kind->segments[pass];

  if (kind->open_pass != pass + 1u || segments->len == 0)
    return NULL;
  return &g_array_index (segments, PsiSegment, segments->len - 1);
}

static PsiSegment *
begin_segment (PsiLayerKind *kind, PsiPass pass)
{
  PsiSegment segment = { .first_kernel = kind->kernels->len };

  g_array_append_val (kind->segments[pass], segment);
  kind->open_pass = pass + 1u;
  return open_segment (kind, pass);
}

void
psi_kind_add_kernel (PsiLayerKind *kind, PsiPass pass, const PsiKernel *kernel)
{
  PsiSegment *segment = open_segment (kind, pass);

  if (segment == NULL)
    segment = begin_segment (kind, pass);
  g_assert (segment->first_kernel + segment->n_kernels == kind->kernels->len);
  g_array_append_val (kind->kernels, *kernel);
  segment->n_kernels++;
}

void
psi_kind_end_segment (PsiLayerKind *kind, PsiPass pass, PsiCommOp comm, PsiCommGroup group, gint64 bytes)
{
  PsiSegment *segment = open_segment (kind, pass);

  if (segment == NULL)
    {
      if (comm == PSI_COMM_NONE)
        return;
      segment = begin_segment (kind, pass);
    }
  segment->comm = comm;
  segment->comm_group = group;
  segment->comm_bytes = comm == PSI_COMM_NONE ? 0 : bytes;
  kind->open_pass = 0;
}
