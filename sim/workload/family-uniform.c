/* SPDX-License-Identifier: MIT */
/* The paper's model: K equal stages with given bytes and times.
 *
 *   stage j of K:  parameters  (floor((j+1) psi_p / K) - floor(j psi_p / K)) / tp   bytes
 *                  activations (floor((j+1) psi_a / K) - floor(j psi_a / K)) / tp   bytes
 *                  forward / tp, (backward - backward_weight) / tp, backward_weight / tp   seconds
 *                  boundary tensor psi_int bytes, whatever the stage
 *
 * Symbols: psi_p, psi_a, psi_int as in the contract; K stages; tp GPUs that split every stage.
 * Assumptions: the floors make the sum over stages exact when K does not divide; a share that tp does not divide is
 * rounded up (the largest GPU). Times do not depend on the micro-batch. One all-reduce of psi_int per stage and
 * direction when tp > 1. Parameters count psi_p / 2 elements (two bytes each).
 * Limits: no kernels, so precision, attention and framework change nothing. */
#include "families.h"

#define DEFAULT_FORWARD_PS G_GINT64_CONSTANT (1000000000) /* 1 ms */
#define DEFAULT_BOUNDARY_BYTES G_GINT64_CONSTANT (1048576)
#define GIB G_GINT64_CONSTANT (1073741824)

static gint64
written_count (const PsiSettings *settings, PsiKeyId key, gint64 fallback)
{
  return psi_settings_has (settings, key) ? psi_settings_count (settings, key) : fallback;
}

static gint64
written_time_ps (const PsiSettings *settings, PsiKeyId key, gint64 fallback_ps)
{
  return psi_settings_has (settings, key) ? psi_settings_time_ps (settings, key) : fallback_ps;
}

/* floor (j total / stages) without overflow for totals up to 2^63 / stages of remainder. */
static gint64
cut (gint64 total, guint j, guint stages)
{
  return total / stages * j + total % stages * j / stages;
}

static gint64
share (gint64 total, guint j, guint stages, guint tp)
{
  gint64 stage = cut (total, j + 1, stages) - cut (total, j, stages);

  return (stage + tp - 1) / tp;
}

static void
add_pass (PsiLayerKind *kind, PsiPass pass, gint64 time_ps, gboolean reduce, gint64 boundary_bytes)
{
  PsiKernel kernel = { .kind = PSI_KERNEL_FIXED, .launches = 1, .batch = 1, .time_ps = time_ps };

  psi_kind_add_kernel (kind, pass, &kernel);
  psi_kind_end_segment (kind, pass, reduce ? PSI_COMM_ALL_REDUCE : PSI_COMM_NONE, PSI_GROUP_TP, boundary_bytes);
}

static gint64
divide_time (gint64 time_ps, guint tp)
{
  return (time_ps + tp / 2) / tp;
}

PsiModel *
psi_uniform_expand (const PsiSettings *settings, const PsiLowering *lowering, guint stages, GError **error)
{
  g_autoptr (PsiModel) model = psi_model_new ("uniform", "uniform");
  guint tp = MAX (lowering->tp, 1);
  gint64 parameter_bytes = written_count (settings, PSI_KEY_PSI_P, stages * GIB);
  gint64 activation_bytes = written_count (settings, PSI_KEY_PSI_A, stages * GIB);
  gint64 boundary_bytes = written_count (settings, PSI_KEY_PSI_INT, DEFAULT_BOUNDARY_BYTES);
  gint64 forward_ps = written_time_ps (settings, PSI_KEY_FORWARD, DEFAULT_FORWARD_PS);
  gint64 backward_ps = written_time_ps (settings, PSI_KEY_BACKWARD, 2 * forward_ps);
  gint64 weight_ps = written_time_ps (settings, PSI_KEY_BACKWARD_WEIGHT, backward_ps / 2);

  g_assert (stages > 0);
  if (weight_ps > backward_ps)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "%s: '%g s' is longer than the whole backward, %g s, of which it is a part",
                   psi_settings_where (settings, PSI_KEY_BACKWARD_WEIGHT), (double) weight_ps * 1e-12,
                   (double) backward_ps * 1e-12);
      return NULL;
    }
  if (MAX (lowering->cp, 1) > 1 || MAX (lowering->ep, 1) > 1)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "[plan] %s: '%u' needs a model with tokens or experts; 'uniform' allows 1",
                   lowering->cp > 1 ? "cp" : "ep", lowering->cp > 1 ? lowering->cp : lowering->ep);
      return NULL;
    }

  for (guint j = 0; j < stages; j++)
    {
      gint64 stage_parameter_bytes = share (parameter_bytes, j, stages, tp);
      gint64 stage_parameters = share (parameter_bytes / 2, j, stages, tp);
      gint64 stage_saved_bytes = share (activation_bytes, j, stages, tp);
      PsiLayerKind *kind;
      guint index;

      for (index = 0; index < model->kinds->len; index++)
        {
          kind = psi_model_kind (model, index);
          if (kind->parameter_bytes == stage_parameter_bytes && kind->parameters == stage_parameters &&
              kind->saved_bytes == stage_saved_bytes)
            break;
        }
      if (index == model->kinds->len)
        {
          index = psi_model_add_kind (model, "stage");
          kind = psi_model_kind (model, index);
          kind->parameters = stage_parameters;
          kind->parameter_bytes = stage_parameter_bytes;
          kind->saved_bytes = kind->weight_saved_bytes = kind->selective_saved_bytes = stage_saved_bytes;
          kind->input_bytes = kind->output_bytes = boundary_bytes;
          add_pass (kind, PSI_PASS_FORWARD, divide_time (forward_ps, tp), tp > 1, boundary_bytes);
          add_pass (kind, PSI_PASS_BACKWARD_INPUT, divide_time (backward_ps - weight_ps, tp), tp > 1, boundary_bytes);
          add_pass (kind, PSI_PASS_BACKWARD_WEIGHT, divide_time (weight_ps, tp), FALSE, 0);
        }
      psi_model_add_layers (model, index, 1);
    }

  model->description = g_strdup_printf ("%u equal stages, times and bytes as given", stages);
  model->n_blocks = stages;
  model->parameters = parameter_bytes / 2;
  model->is_uniform = TRUE;
  return g_steal_pointer (&model);
}
