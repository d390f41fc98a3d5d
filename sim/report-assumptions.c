/* SPDX-License-Identifier: MIT */
#include "report-assumptions.h"

#include "profile.h"
#include "report-band.h"

/* A format that the GPU has no units for: said loudly, because products may take ten times as long. */
static void
note_precision (PsiPlanReport *plan, const PsiStep *step)
{
  const PsiMachine *machine = step->machine;
  PsiDtype asked = step->plan->dtype, taken = psi_gpu_dtype (&machine->gpu, asked);
  g_autoptr (GString) there = g_string_new (NULL);

  if (taken == asked || machine->gpu.architecture == PSI_ARCHITECTURE_CPU || psi_step_model (step)->is_uniform)
    return;
  for (guint dtype = 0; dtype < PSI_N_DTYPES; dtype++)
    if (machine->gpu.peak_flops[dtype] > 0)
      g_string_append_printf (there, " %s", psi_profile_dtype_names[dtype]);
  char *text = g_strdup_printf ("'%s' has no rate for %s: products take the time of %s (it has:%s)", machine->name,
                                psi_profile_dtype_names[asked], psi_profile_dtype_names[taken], there->str);
  g_ptr_array_add (plan->warnings, g_strdup (text));
  g_ptr_array_add (plan->assumptions, text);
}

/* Frozen weights in a narrow format: some loaders put them on the GPU in 16 bits first, which may be the peak of the
 * whole run (bitsandbytes quantises a layer when it is moved to the GPU; lit-gpt builds the model there). */
static void
note_loading (PsiPlanReport *plan, const PsiStep *step)
{
  const PsiModel *model = psi_step_model (step);
  gint64 most_bytes = 0, narrow = 0;

  for (guint part = 0; part < step->partition.n_parts; part++)
    {
      gint64 bytes = 0;

      for (guint l = step->partition.first[part]; l < step->partition.first[part + 1]; l++)
        {
          bytes += 2 * psi_layer_kind (model, l)->parameters;
          narrow += psi_layer_kind (model, l)->narrow_parameters;
        }
      most_bytes = MAX (most_bytes, bytes);
    }
  if (narrow > 0)
    g_ptr_array_add (plan->assumptions,
                     g_strdup_printf ("weights are quantised on their way to the GPU; a loader that puts them there in "
                                      "16 bits first needs %.4g GiB for that",
                                      (double) most_bytes / (1 << 30)));
}

void
psi_report_fill_assumptions (PsiPlanReport *plan, const PsiStep *step, gint64 overhead_bytes)
{
  note_precision (plan, step);
  for (guint i = 0; i < step->plan->ignored->len; i++)
    {
      const char *text = g_ptr_array_index (step->plan->ignored, i);

      g_ptr_array_add (plan->warnings, g_strdup (text));
      g_ptr_array_add (plan->assumptions, g_strdup (text));
    }
  for (guint i = 0; i < step->plan->assumptions->len; i++)
    g_ptr_array_add (plan->assumptions, g_strdup (g_ptr_array_index (step->plan->assumptions, i)));
  note_loading (plan, step);
  if (step->machine->ideal && psi_settings_has (step->settings, PSI_KEY_CONTEXT))
    g_ptr_array_add (plan->assumptions,
                     g_strdup_printf ("context = %s is ignored: the memory of '%s' has no end",
                                      psi_settings_text (step->settings, PSI_KEY_CONTEXT), step->machine->name));
  if (!step->machine->ideal)
    {
      g_ptr_array_add (plan->assumptions,
                       g_strdup_printf ("machine '%s' is a %s profile", step->machine->name, step->machine->kind));
      g_ptr_array_add (plan->assumptions,
                       g_strdup_printf ("%.4g MiB of each GPU for context, libraries and communicators",
                                        (double) overhead_bytes / 1048576));
    }
  if (!psi_step_model (step)->is_uniform && !step->machine->ideal)
    {
      const PsiFramework *framework = step->plan->framework;
      const PsiHost *host = &step->machine->host;
      gint64 issue_ps = framework->megatron ? host->issue_ps_megatron : host->issue_ps_pytorch;
      g_autofree char *attention =
          step->plan->flash ? g_strdup_printf ("flash-%u", step->plan->flash_generation) : g_strdup ("math");

      g_ptr_array_add (plan->assumptions,
                       g_strdup_printf ("kernels of %s: %.3g us of the host for each, %s attention", framework->summary,
                                        psi_time_to_s (issue_ps) * framework->host_factor * 1e6, attention));
    }
  char *band = psi_report_describe_band (plan, step);
  if (band != NULL)
    g_ptr_array_add (plan->assumptions, band);
  if (g_strcmp0 (psi_step_model (step)->family, "trace") == 0)
    g_ptr_array_add (plan->assumptions, g_strdup_printf ("convolutions of the trace work on channels %s",
                                                         step->plan->channels_last ? "last" : "first"));
  if (!psi_step_model (step)->is_uniform && step->plan->stages > 1)
    g_ptr_array_add (plan->assumptions, g_strdup_printf ("layers are cut into %u parts by partition = %s",
                                                         step->plan->stages, step->partition.rule));
  if (step->plan->offload != PSI_OFFLOAD_NONE)
    {
      g_autofree char *rate = step->machine->ideal
                                  ? g_strdup ("in no time")
                                  : g_strdup_printf ("at %.4g GB/s", step->machine->host.bytes_per_s / 1e9);

      g_ptr_array_add (plan->assumptions,
                       g_strdup_printf ("the host takes %s %s for each GPU, host memory is not checked",
                                        psi_settings_text (step->settings, PSI_KEY_OFFLOAD), rate));
    }
  if (!step->plan->overlap_grads && step->plan->dp > 1)
    g_ptr_array_add (plan->assumptions, g_strdup ("gradients wait for the end of the backward"));
}
