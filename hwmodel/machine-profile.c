/* SPDX-License-Identifier: MIT */
/* Measured numbers in the place of a machine's figures.
 *
 *   memory, context     as measured
 *   memory bandwidth    the largest copies
 *   launch              gap between the shortest kernels, replayed from a graph if that was measured: launch + minimum
 *   issue               the larger of the figure and the time to issue one library call: a framework does more
 *   sustained products  best product measured / peak; where more than the peak was measured, that is the peak
 *   products, memory-bound kernels, collectives
 *                       by their curves, see gpu-time.c and collective.c
 *   links               wide enough for the fastest collective measured: bytes on one member's link / time
 *
 * Assumes that all GPUs of the machine are like the measured one. What was not measured (attention, other groups of
 * GPUs, the network) stays as the datasheet says. */
#include "machine-profile.h"

#include "collective.h"
#include "psi-time.h"

#include <math.h>

enum
{
  WIDEN_ROUNDS = 8
};

/* What the CUDA runtime calls a GPU where the preset says it in other words. */
static const struct
{
  const char *reported, *preset;
} names[] = {
  { PSI_PROFILE_CPU, "host" },
  { "NVIDIA H200", "h200-sxm" },
  { "NVIDIA H100 80GB HBM3", "h100-sxm-80" },
  { "NVIDIA A100 80GB PCIe", "a100-pcie-80" },
  { "NVIDIA B200", "b200-sxm" },
  { "Tesla V100-SXM2-16GB", "v100-sxm-16" },
  { "Tesla V100-SXM2-32GB", "v100-sxm-32" },
};

PsiMachine *
psi_profile_datasheet (const PsiProfile *profile)
{
  if (profile->gpu == NULL)
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_ascii_strcasecmp (names[i].reported, profile->gpu) == 0)
      return psi_machine_load (names[i].preset, NULL);
  g_autoptr (GPtrArray) presets = psi_machine_list ();
  for (guint i = 0; i < presets->len; i++)
    {
      const PsiMachineEntry *entry = presets->pdata[i];
      if (g_str_has_prefix (entry->summary, "= "))
        continue;
      g_autoptr (PsiMachine) machine = psi_machine_load (entry->name, NULL);
      if (machine != NULL && g_ascii_strcasecmp (machine->gpu.name, profile->gpu) == 0)
        return g_steal_pointer (&machine);
    }
  return NULL;
}

static void
replace_text (char **place, const char *text)
{
  g_free (*place);
  *place = g_strdup (text);
}

/* The share of the peak that the best product of a class of types reached, and the peak where that is more. */
static void
take_products (PsiGpu *gpu, const PsiProfile *profile, PsiDtype first, PsiDtype last, double *efficiency)
{
  double best = 0;

  for (guint dtype = first; dtype <= last; dtype++)
    {
      double measured = profile->peak_flops[dtype];
      if (measured <= 0)
        continue;
      gpu->peak_flops[dtype] = MAX (gpu->peak_flops[dtype], measured);
      best = MAX (best, measured / gpu->peak_flops[dtype]);
    }
  if (best > 0)
    *efficiency = best;
}

static void
take_kernels (PsiMachine *machine, const PsiProfile *profile)
{
  PsiGpu *gpu = &machine->gpu;
  double gap_ns = profile->graph_launch_ns > 0 ? profile->graph_launch_ns : profile->launch_ns;

  take_products (gpu, profile, PSI_DTYPE_FP32, PSI_DTYPE_FP32, &gpu->gemm_efficiency_fp32);
  take_products (gpu, profile, PSI_DTYPE_TF32, PSI_DTYPE_BF16, &gpu->gemm_efficiency);
  take_products (gpu, profile, PSI_DTYPE_FP8, PSI_DTYPE_NVFP4, &gpu->gemm_efficiency_fp8);
  if (gap_ns > 0)
    {
      gint64 gap_ps = psi_time_from_s (gap_ns * 1e-9);
      gpu->minimum_kernel_ps = MIN (gpu->minimum_kernel_ps, gap_ps);
      gpu->launch_ps = gap_ps - gpu->minimum_kernel_ps;
    }
  if (profile->issue_ns > 0)
    {
      gint64 issue_ps = psi_time_from_s (profile->issue_ns * 1e-9);
      machine->host.issue_ps_pytorch = MAX (machine->host.issue_ps_pytorch, issue_ps);
      machine->host.issue_ps_megatron = MAX (machine->host.issue_ps_megatron, issue_ps);
    }
  if (profile->sms > 0 && gpu->architecture != PSI_ARCHITECTURE_CPU)
    gpu->sms = profile->sms;
}

static void
take_memory (PsiMachine *machine, const PsiProfile *profile)
{
  PsiGpu *gpu = &machine->gpu;

  if (profile->usable_bytes > 0)
    gpu->memory_bytes = profile->usable_bytes;
  if (profile->context_bytes > 0)
    gpu->context_bytes = profile->context_bytes;
  if (profile->memory_bytes_per_s > 0)
    {
      gpu->memory_bytes_per_s = MAX (gpu->memory_bytes_per_s, profile->memory_bytes_per_s);
      gpu->memory_efficiency = profile->memory_bytes_per_s / gpu->memory_bytes_per_s;
    }
}

static int
find_operation (const char *curve)
{
  for (int op = 0; op < PSI_N_COLLECTIVES; op++)
    if (g_strcmp0 (psi_samples_operation (psi_collective_names[op]), curve) == 0)
      return op;
  return -1;
}

/* Rates of one member's links that let a point of a curve pass in the time measured. */
static void
needed_rates (const PsiMachine *machine, PsiCollectiveOp op, const PsiCurve *curve, const PsiCurvePoint *point,
              double *ret_intra, double *ret_inter)
{
  guint per_node = (curve->n_ranks + curve->n_nodes - 1) / MAX (curve->n_nodes, 1);
  PsiGroupShape shape = { .n_ranks = curve->n_ranks, .n_nodes = curve->n_nodes, .ranks_per_node = per_node };
  double time_s = point->time_ns * 1e-9;
  double nics =
      machine->inter.nics_per_node > 0 ? (double) machine->inter.nics_per_node / MAX (machine->gpus_per_node, 1) : 1;
  PsiCollectiveCost cost;

  psi_collective_cost (machine, op, point->bytes, &shape, &cost);
  *ret_intra = (double) cost.intra_bytes / time_s / machine->intra.efficiency;
  *ret_inter =
      (double) cost.inter_bytes / time_s / machine->inter.efficiency * machine->inter.oversubscription / MIN (nics, 1);
}

/* No measured collective may be faster than the links it is said to cross, or the run would hold it up. Called before
 * the machine has its profile, so that costs are those of the figures. Faster links may make another algorithm the best
 * one, which loads them otherwise: again, until nothing changes. */
static void
widen_links (PsiMachine *machine, const PsiProfile *profile)
{
  gboolean changed = TRUE;

  for (guint round = 0; changed && round < WIDEN_ROUNDS; round++)
    {
      changed = FALSE;
      for (guint i = 0; i < profile->curves->len; i++)
        {
          const PsiCurve *curve = profile->curves->pdata[i];
          int op = find_operation (curve->name);

          for (guint p = 0; op >= 0 && p < curve->points->len; p++)
            {
              double intra, inter;
              needed_rates (machine, (PsiCollectiveOp) op, curve, &g_array_index (curve->points, PsiCurvePoint, p),
                            &intra, &inter);
              changed |= intra > machine->intra.bytes_per_s || inter > machine->inter.bytes_per_s;
              machine->intra.bytes_per_s = MAX (machine->intra.bytes_per_s, intra);
              machine->inter.bytes_per_s = MAX (machine->inter.bytes_per_s, inter);
            }
        }
    }
}

void
psi_machine_take_profile (PsiMachine *machine, PsiProfile *profile)
{
  take_kernels (machine, profile);
  take_memory (machine, profile);
  if (!machine->ideal)
    widen_links (machine, profile);
  replace_text (&machine->kind, profile->kind);
  g_free (machine->gpu.source);
  machine->gpu.source =
      profile->source ? g_strdup (profile->source)
                      : g_strdup_printf ("%s, %s%s%s", profile->name, profile->kind, profile->created ? " on " : "",
                                         profile->created ? profile->created : "");
  psi_profile_free (machine->profile);
  machine->profile = profile;
  machine->gpu.profile = profile;
}

PsiMachine *
psi_machine_from_profile (const char *path, GError **error)
{
  g_autoptr (PsiProfile) profile = psi_profile_load (path, error);
  if (profile == NULL)
    return NULL;
  g_autoptr (PsiMachine) machine = psi_profile_datasheet (profile);
  if (machine == NULL)
    {
      g_set_error (error, PSI_MACHINE_ERROR, PSI_MACHINE_ERROR_VALUE,
                   "%s: no preset is called '%s' like the profile's GPU (allowed: a machine file with [gpu] profile = "
                   "FILE, or a profile of a GPU that 'list machines' has)",
                   path, profile->gpu ? profile->gpu : "(none)");
      return NULL;
    }
  JsonNode *gpus = json_object_get_member (profile->provenance, "gpus");
  if (machine->gpu.architecture == PSI_ARCHITECTURE_CPU && gpus != NULL && JSON_NODE_HOLDS_VALUE (gpus))
    machine->gpus_per_node = (guint) CLAMP (json_node_get_double (gpus), 1, 4096);
  replace_text (&machine->name, profile->name);
  psi_machine_take_profile (machine, g_steal_pointer (&profile));
  return g_steal_pointer (&machine);
}
