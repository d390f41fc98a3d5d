/* SPDX-License-Identifier: MIT */
/* Which collectives of the tensor-parallel group run beside which products of a layer.
 *
 *   beside    backward of products split by columns: the sum of the input's gradient runs beside the weight gradients,
 *             and with sequence parallelism the input is gathered again beside the input's gradient
 *   pieces    with sequence parallelism: gathers beside the products that use them, scattered sums beside those that
 *             make them, one piece for each member of the group
 *
 * Source: Megatron-LM core/tensor_parallel/layers.py, Transformer Engine's user buffers; see framework.c for who does
 * what. */
#include "lower-step.h"

gboolean
psi_lower_is_work (const PsiKernel *kernel)
{
  return kernel->flops > 0.0 || kernel->bytes > 0.0;
}

static guint
count_kernels (const PsiLowerStep *step, PsiPass pass)
{
  guint n = 0;

  for (guint k = 0; k < step->n_kernels[pass]; k++)
    n += psi_lower_is_work (&step->kernels[pass][k]);
  return n;
}

/* Does the framework let the collective that enters a split part run beside the weight gradients of its products? */
static gboolean
runs_beside (const PsiLower *lower)
{
  const PsiFramework *framework = lower->lowering->framework;

  if (framework == NULL || framework->tensor_overlap == PSI_TENSOR_WAITS)
    return FALSE;
  return framework->tensor_overlap >= PSI_TENSOR_OVERLAPS || lower->sequence_shards > 1;
}

/* The products that follow what enters a split part: their weight gradients run beside its backward collective, and
 * where the sequence is sharded, their gradients of the input beside the gather of what the forward did not keep. */
static void
set_beside (const PsiLower *lower, PsiLayerKind *kind, const guint *first_weights)
{
  guint n = lower->ops->len;

  for (guint i = 0; i < n; i++)
    {
      const PsiLowerStep *enter = &g_array_index (lower->ops, PsiLowerStep, i);
      PsiSegment *segment;
      guint last = i;

      while (enter->enters && last + 1 < n && g_array_index (lower->ops, PsiLowerStep, last + 1).column)
        last++;
      if (last == i)
        continue;
      segment = &g_array_index (kind->segments[PSI_PASS_BACKWARD_INPUT], PsiSegment, enter->segment);
      segment->beside_first = first_weights[last];
      for (guint j = i + 1; j <= last; j++)
        {
          const PsiLowerStep *step = &g_array_index (lower->ops, PsiLowerStep, j);

          segment->beside_n += count_kernels (step, PSI_PASS_BACKWARD_WEIGHT);
          segment->again_n += lower->sequence_shards > 1 ? count_kernels (step, PSI_PASS_BACKWARD_INPUT) : 0;
        }
      g_assert (segment->again_n <= segment->n_kernels);
    }
}

static PsiSegment *
segment_of (PsiLayerKind *kind, PsiPass pass, guint index)
{
  return &g_array_index (kind->segments[pass], PsiSegment, index);
}

/* Gathers and scattered sums in pieces, beside the products that use or make the pieces. */
static void
set_pieces (const PsiLower *lower, PsiLayerKind *kind)
{
  guint n = lower->ops->len;

  for (guint i = 0; i < n; i++)
    {
      const PsiLowerStep *comm = &g_array_index (lower->ops, PsiLowerStep, i);

      for (guint j = i + 1; comm->enters && j < n && g_array_index (lower->ops, PsiLowerStep, j).column; j++)
        segment_of (kind, PSI_PASS_FORWARD, comm->forward_segment)->pieces_after_n +=
            count_kernels (&g_array_index (lower->ops, PsiLowerStep, j), PSI_PASS_FORWARD);
      for (guint j = i; comm->leaves && j-- > 0 && g_array_index (lower->ops, PsiLowerStep, j).row;)
        {
          const PsiLowerStep *product = &g_array_index (lower->ops, PsiLowerStep, j);

          segment_of (kind, PSI_PASS_FORWARD, comm->forward_segment)->pieces_before_n +=
              count_kernels (product, PSI_PASS_FORWARD);
          segment_of (kind, PSI_PASS_BACKWARD_INPUT, comm->segment)->pieces_after_n +=
              count_kernels (product, PSI_PASS_BACKWARD_INPUT);
        }
    }
}

void
psi_lower_overlap (const PsiLower *lower, PsiLayerKind *kind, const guint *first_weights)
{
  const PsiFramework *framework = lower->lowering->framework;

  if (runs_beside (lower))
    set_beside (lower, kind, first_weights);
  if (lower->sequence_shards > 1 && lower->dtype != PSI_DTYPE_NVFP4 && framework != NULL &&
      framework->tensor_overlap == PSI_TENSOR_PIECES)
    set_pieces (lower, kind);
}
