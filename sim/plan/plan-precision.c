/* SPDX-License-Identifier: MIT */
/* Bytes of parameters, gradients and optimizer of one element.
 *
 *   mixed precision    16-bit parameters, gradients as the framework sums them, and for Adam an fp32 master copy beside
 *                      two moments: 12 bytes, K = 12 of ZeRO (arXiv 1910.02054)
 *   fp32               no master copy
 *   FSDP               the shard at rest is the fp32 copy
 *   plain optimizers   moments in the parameters' format, no master copy
 *
 * What a framework sums in and copies: framework-memory.c. */
#include "plan-precision.h"

#include <string.h>

void
psi_plan_assume (PsiPlan *plan, const char *format, ...)
{
  va_list arguments;

  va_start (arguments, format);
  g_ptr_array_add (plan->assumptions, g_strdup_vprintf (format, arguments));
  va_end (arguments);
}

void
psi_plan_resolve_precision (PsiPlan *plan, const PsiSettings *s, const PsiModelSource *source)
{
  static const struct
  {
    const char *name;
    double moments_bytes; /* per element, beside the master copy */
  } optimizers[] = { { "none", 0 }, { "sgd", 0 }, { "momentum", 4 }, { "adam", 8 }, { "adam8bit", 2 }, { NULL, 0 } };
  static const struct
  {
    const char *name;
    PsiDtype dtype;
    guint bytes;
  } formats[] = { { "bf16", PSI_DTYPE_BF16, 2 },   { "fp16", PSI_DTYPE_FP16, 2 },
                  { "fp32", PSI_DTYPE_FP32, 4 },   { "tf32", PSI_DTYPE_TF32, 4 },
                  { "fp8", PSI_DTYPE_FP8, 2 },     { "mxfp8", PSI_DTYPE_MXFP8, 2 },
                  { "nvfp4", PSI_DTYPE_NVFP4, 2 }, { NULL, 0, 0 } };
  const char *precision = psi_settings_text (s, PSI_KEY_PRECISION);
  const char *optimizer = psi_settings_has (s, PSI_KEY_OPTIMIZER) ? psi_settings_text (s, PSI_KEY_OPTIMIZER)
                          : source->is_uniform                    ? "none"
                                                                  : "adam";
  const char *gradient = psi_settings_has (s, PSI_KEY_GRAD_DTYPE) ? psi_settings_text (s, PSI_KEY_GRAD_DTYPE) : NULL;
  guint p = 0, o = 0, g = 0;

  while (strcmp (formats[p].name, precision) != 0)
    p++;
  while (strcmp (optimizers[o].name, optimizer) != 0)
    o++;
  plan->dtype = formats[p].dtype;
  plan->parameter_bytes_each = formats[p].bytes;
  guint held = plan->memory->gradient_bytes[plan->dtype == PSI_DTYPE_FP16];
  plan->gradient_bytes_each = formats[p].bytes == 4 ? 4 : MIN (held, 4);
  if (gradient != NULL)
    {
      while (strcmp (formats[g].name, gradient) != 0)
        g++;
      plan->gradient_bytes_each = formats[g].bytes;
    }
  if (formats[p].bytes < 4 && !source->is_uniform)
    plan->extra_gradient_bytes_each = (gradient == NULL ? held - MIN (held, 4) : 0) +
                                      (plan->dp > 1 && plan->zero == 0 ? plan->memory->bucket_copy_bytes : 0);
  if (plan->memory->plain_optimizer && !source->is_uniform)
    plan->optimizer_bytes_each = optimizers[o].moments_bytes * plan->parameter_bytes_each / 4;
  else
    plan->optimizer_bytes_each = optimizers[o].moments_bytes + (o > 0 && plan->parameter_bytes_each < 4 ? 4 : 0);
  plan->moments_bytes_each =
      plan->memory->plain_optimizer && !source->is_uniform ? plan->optimizer_bytes_each : optimizers[o].moments_bytes;
  plan->resting_parameter_bytes_each = plan->parameter_bytes_each;
  if (plan->fsdp && plan->parameter_bytes_each < 4 && plan->gradient_bytes_each == 4 && o > 0 &&
      !plan->memory->plain_optimizer)
    {
      /* The shard at rest is the master copy; the 16-bit one exists only gathered. */
      plan->resting_parameter_bytes_each = 4;
      plan->optimizer_bytes_each -= 4;
    }
  /* Each state is read and written, the gradient read, the parameter written. */
  plan->optimizer_traffic_each =
      o > 0 ? 2 * plan->optimizer_bytes_each + plan->gradient_bytes_each + 2 * plan->resting_parameter_bytes_each : 0;
  if (source->adapters.rank > 0)
    psi_plan_assume (plan,
                     "LoRA of rank %" G_GINT64_FORMAT " on %s: %" G_GINT64_FORMAT
                     " elements are trained, %" G_GINT64_FORMAT " frozen%s%s",
                     source->adapters.rank, psi_settings_text (s, PSI_KEY_LORA_TARGETS), source->adapter_parameters,
                     source->parameters, source->adapters.base != PSI_BASE_WIDE ? ", those of blocks in " : "",
                     source->adapters.base != PSI_BASE_WIDE ? psi_settings_text (s, PSI_KEY_LORA_BASE) : "");
  if (!source->is_uniform)
    psi_plan_assume (plan, "%s: %u bytes per parameter, %u per gradient, %g of optimizer state (%s)", precision,
                     plan->resting_parameter_bytes_each, plan->gradient_bytes_each, plan->optimizer_bytes_each,
                     optimizer);
}
