/* SPDX-License-Identifier: MIT */
/* The band: between which times four of five measured runs lie beside a prediction like this one.
 *
 *   low  = T (1 - sqrt (sum of (s_i low_i)^2)),   high = T (1 + sqrt (sum of (s_i high_i)^2))
 *
 *   T       predicted step time
 *   s_i     share of T, on the busiest GPU, that rests on cost i
 *   low_i, high_i   how much less and more that cost is in four of five runs, relative to the prediction
 *
 *   kernels     work and waiting for work of others, where the GPU decides: band_low and band_high of the machine, from
 *               steps in which hardly anything else takes time
 *   start-up    the same work: launches x { 14, 7 } us, what begins and ends a kernel. Steps of kernels of 60 to 160 us
 *               (vTrain's smaller models) come out 9 % shorter than predicted and scatter by as much; those of kernels
 *               of 400 us and more do neither
 *   host        what a slower or faster host changes, kind of layer by kind of layer: max (GPU, factor x host) instead
 *               of max (GPU, host), or their sum where the host awaits each kernel; the framework's row has the factors
 *   links       exposed communication in a node, 30 % less to 50 % more: NCCL's constants against nccl-tests, and steps
 *               of tensor-parallel groups; between nodes, 10 % less to 40 % more: networks differ, and few runs say
 *               what else is on theirs
 *   pipeline    over several nodes, 1 % less to 11 % more of the step: its messages are waited for by all stages after
 *               it. Of 672 such steps of 7 sources one in ten took 20 % longer than predicted, one in ten 7 % less
 *
 *   experts     the same work of a model with routed experts, 5 % less to 20 % more: tokens are spread evenly here
 *               unless expert_imbalance says how unevenly, in runs all wait for the fullest expert; no complete
 *               measured row has any, so this is assumed
 *
 * Where a profile has measured the products of the type, or a collective in or between nodes, that cost is known to
 * sqrt (m^2 + e^2) instead: e the error of a point of the profile predicted from the others, m what is between kernels
 * or collectives measured by themselves and those of a step: 5 % less to 8 % more for kernels (the kinds of GPU with
 * many measured steps), 10 % less to 25 % more for collectives, which wait for the last of their ranks.
 *
 * Assumes causes that do not depend on each other. The figures were chosen by hand for steps of all sources together,
 * half of the rows at a time. Limits: runs that are degraded, and costs nobody knows of, are not in it; a machine whose
 * kind no source measured has the band of its nearest relative, wider (see the machine files). */
#include "report-band.h"

#include "framework.h"
#include "profile.h"

#include <math.h>
#include <string.h>

typedef struct
{
  double low, high;
} Range;

static const Range start_up_us = { 14, 7 };
static const Range inside = { 0.3, 0.5 }, between = { 0.1, 0.4 };
static const Range pipeline = { 0.01, 0.11 };
static const Range experts = { 0.05, 0.2 };
static const Range measured_kernels = { 0.05, 0.08 }, measured_links = { 0.1, 0.25 };
/* Of a kernel's own time at most. */
#define START_UP_MOST 0.5

/* What the passes of all layers take for every second that they are predicted to take. */
typedef struct
{
  double slow_host, fast_host; /* with such a host */
  double by_gpu;               /* of it, where the GPU decides */
  Range start_up;              /* of it */
} Passes;

static double
pass_s (const PsiFramework *framework, double busy_s, double host_s)
{
  return framework->awaits_kernels ? busy_s + host_s : MAX (busy_s, host_s);
}

static void
race (const PsiRace *race, const PsiFramework *framework, double times, double *total_s, Passes *passes)
{
  *total_s += times * pass_s (framework, race->busy_s, race->host_s);
  passes->fast_host += times * pass_s (framework, race->busy_s, framework->host_low * race->host_s);
  passes->slow_host += times * pass_s (framework, race->busy_s, framework->host_high * race->host_s);
  if (race->busy_s < race->host_s)
    return;
  passes->by_gpu += times * race->busy_s;
  passes->start_up.low += times * MIN (race->launches * start_up_us.low * 1e-6, START_UP_MOST * race->busy_s);
  passes->start_up.high += times * MIN (race->launches * start_up_us.high * 1e-6, START_UP_MOST * race->busy_s);
}

static Passes
passes_of (const PsiStep *step)
{
  const PsiShapeCost *shape = g_ptr_array_index (step->shapes, 0);
  Passes passes = { 0 };
  double total_s = 0;

  for (guint i = 0; i < shape->model->layers->len; i++)
    {
      const PsiKindCost *cost = &shape->costs[g_array_index (shape->model->layers, PsiLayer, i).kind];

      race (&cost->races[PSI_RACE_FORWARD], step->plan->framework, step->plan->recompute == PSI_RECOMPUTE_FULL ? 2 : 1,
            &total_s, &passes);
      race (&cost->races[PSI_RACE_BACKWARD], step->plan->framework, 1, &total_s, &passes);
    }
  if (!(total_s > 0))
    return (Passes){ .slow_host = 1, .fast_host = 1, .by_gpu = 1 };
  passes.slow_host /= total_s;
  passes.fast_host /= total_s;
  passes.by_gpu /= total_s;
  passes.start_up.low /= total_s;
  passes.start_up.high /= total_s;
  return passes;
}

static gboolean
pipeline_leaves_node (const PsiStep *step)
{
  return step->plan->pp > 1 && step->plan->pp * step->strides[PSI_STRIDE_PP] > step->machine->gpus_per_node;
}

/* Do messages of that kind leave a node? */
static gboolean
leaves_node (const PsiStep *step, PsiTraffic traffic)
{
  static const PsiDimension dimensions[PSI_N_TRAFFIC] = {
    [PSI_TRAFFIC_GRADIENTS] = PSI_DIMENSION_DP, [PSI_TRAFFIC_PARAMETERS] = PSI_DIMENSION_DP,
    [PSI_TRAFFIC_BOUNDARY] = PSI_N_DIMENSIONS,  [PSI_TRAFFIC_TENSOR] = PSI_DIMENSION_TP,
    [PSI_TRAFFIC_CONTEXT] = PSI_DIMENSION_CP,   [PSI_TRAFFIC_EXPERTS] = PSI_DIMENSION_EP
  };

  if (traffic == PSI_TRAFFIC_BOUNDARY)
    return pipeline_leaves_node (step);
  return psi_step_group_size (step, dimensions[traffic]) > psi_step_ranks_per_node (step, dimensions[traffic]);
}

static const PsiRankReport *
busiest (const PsiPlanReport *plan)
{
  const PsiRankReport *found = &g_array_index (plan->ranks, PsiRankReport, 0);

  for (guint i = 1; i < plan->ranks->len; i++)
    {
      const PsiRankReport *row = &g_array_index (plan->ranks, PsiRankReport, i);

      if (row->time_ps[PSI_TIME_COMPUTE] > found->time_ps[PSI_TIME_COMPUTE])
        found = row;
    }
  return found;
}

enum
{
  KERNELS,
  START_UP,
  HOST,
  INSIDE,
  BETWEEN,
  PIPELINE,
  EXPERTS,
  N_CAUSES
};
static const char *const cause_names[N_CAUSES] = { "kernels", "their start-up",    "host",   "links in a node",
                                                   "network", "pipeline of nodes", "experts" };

static Range
with_error (Range range, double error)
{
  return (Range){ hypot (range.low, error), hypot (range.high, error) };
}

static Range
kernels_of (const PsiStep *step)
{
  const PsiMachine *machine = step->machine;
  const PsiProfile *profile = machine->profile;
  PsiDtype dtype = psi_gpu_dtype (&machine->gpu, step->plan->dtype);

  if (profile != NULL && profile->peak_flops[dtype] > 0)
    return with_error (measured_kernels, profile->gemm_error[dtype].mean);
  return (Range){ 1 - machine->band_low, machine->band_high - 1 };
}

/* Collectives in a node or over several: of the curves that the profile has, the worst. */
static Range
links_of (const PsiProfile *profile, gboolean over_nodes)
{
  double error = -1;

  for (guint i = 0; profile != NULL && i < profile->curves->len; i++)
    {
      const PsiCurve *curve = profile->curves->pdata[i];

      if (curve->n_ranks > 1 && (curve->n_nodes > 1) == over_nodes && strcmp (curve->name, "send_recv") != 0)
        error = MAX (error, curve->leave_one_out.mean);
    }
  return error >= 0 ? with_error (measured_links, error) : over_nodes ? between : inside;
}

static Range
scaled (double share, Range range)
{
  return (Range){ share * range.low, share * range.high };
}

/* How much less and more of the step each cause may make. FALSE: there is nothing to compare with. */
static gboolean
causes_of (const PsiPlanReport *plan, const PsiStep *step, Range *ret_causes)
{
  const PsiMachine *machine = step->machine;
  double step_s = psi_time_to_s (plan->step_time_ps);

  if (machine->band_high <= 0 || psi_step_model (step)->is_uniform || step_s <= 0)
    return FALSE;
  const PsiRankReport *rank = busiest (plan);
  const Passes passes = passes_of (step);
  double near = 0, far = 0;

  for (guint t = 0; t < PSI_N_TRAFFIC; t++)
    *(leaves_node (step, (PsiTraffic) t) ? &far : &near) += psi_time_to_s (rank->exposed_ps[t]) / step_s;
  double work = psi_time_to_s (rank->time_ps[PSI_TIME_COMPUTE] + rank->time_ps[PSI_TIME_RECOMPUTE] +
                               rank->time_ps[PSI_TIME_BUBBLE]) /
                step_s;
  ret_causes[KERNELS] = scaled (work * passes.by_gpu, kernels_of (step));
  ret_causes[START_UP] = scaled (work, passes.start_up);
  ret_causes[HOST] = scaled (work + near, (Range){ 1 - passes.fast_host, passes.slow_host - 1 });
  ret_causes[INSIDE] = scaled (near, links_of (machine->profile, FALSE));
  ret_causes[BETWEEN] = scaled (far, links_of (machine->profile, TRUE));
  ret_causes[PIPELINE] = scaled (pipeline_leaves_node (step), pipeline);
  ret_causes[EXPERTS] = scaled (psi_model_has_experts (psi_step_model (step)) ? work * passes.by_gpu : 0, experts);
  return TRUE;
}

void
psi_report_fill_band (PsiPlanReport *plan, const PsiStep *step)
{
  double step_s = psi_time_to_s (plan->step_time_ps), low = 0, high = 0;
  Range causes[N_CAUSES];

  plan->step_time_low_s = plan->step_time_high_s = NAN;
  if (!causes_of (plan, step, causes))
    return;
  for (guint i = 0; i < N_CAUSES; i++)
    {
      low += causes[i].low * causes[i].low;
      high += causes[i].high * causes[i].high;
    }
  plan->step_time_low_s = step_s * MAX (1 - sqrt (low), 0);
  plan->step_time_high_s = step_s * (1 + sqrt (high));
}

char *
psi_report_describe_band (const PsiPlanReport *plan, const PsiStep *step)
{
  g_autoptr (GString) text = g_string_new ("8 of 10 measured runs:");
  Range causes[N_CAUSES];
  const char *before = "";

  if (!causes_of (plan, step, causes))
    return NULL;
  for (guint i = 0; i < N_CAUSES; i++)
    {
      if (MAX (causes[i].low, causes[i].high) < 0.005)
        continue;
      g_string_append_printf (text, "%s %s -%.0f +%.0f %%", before, cause_names[i], 100 * causes[i].low,
                              100 * causes[i].high);
      before = ",";
    }
  g_string_append (text, " of the step, added as squares");
  return g_string_free (g_steal_pointer (&text), FALSE);
}
