/* SPDX-License-Identifier: MIT */
/* The critical path: chains that can be worked out by hand, and what holds for every plan. */
#include "closed-forms.h"
#include "psi-critical.h"
#include "settings-flags.h"
#include "simulate-plan.h"

/* One plan with its critical path. */
static PsiPlanReport *
run_path (const char *flags)
{
  g_autoptr (PsiSettings) settings = settings_of (flags);
  const PsiSimulateOptions options = { .critical_path = TRUE };
  g_autoptr (GError) error = NULL;

  g_test_message ("%s", flags);
  PsiPlanReport *plan = psi_simulate_plan ("plan", settings, &options, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (plan->critical_path);
  return plan;
}

static const PsiCriticalSegment *
segment_of (const PsiPlanReport *plan, guint i)
{
  g_assert_cmpuint (i, <, plan->critical_path->segments->len);
  return &g_array_index (plan->critical_path->segments, PsiCriticalSegment, i);
}

/* Segments fill the step without a gap, and the sums are the step. */
static void
check_sums (const PsiPlanReport *plan)
{
  const PsiCriticalPath *path = plan->critical_path;
  gint64 now_ps = 0, kinds_ps = 0, ranks_ps = 0;

  g_assert_cmpint (path->duration_ps, ==, plan->step_time_ps);
  for (guint i = 0; i < path->segments->len; i++)
    {
      const PsiCriticalSegment *segment = segment_of (plan, i);

      g_assert_cmpint (segment->start_ps, ==, now_ps);
      g_assert_cmpint (segment->duration_ps, >, 0);
      g_assert_cmpint (segment->communication_ps, <=, segment->duration_ps);
      g_assert_cmpint (segment->shared_ps, <=, segment->communication_ps);
      if (i > 0)
        g_assert_cmpuint (segment->from_rank, ==, segment_of (plan, i - 1)->rank);
      now_ps += segment->duration_ps;
    }
  for (guint kind = 0; kind < PSI_N_CRITICAL; kind++)
    kinds_ps += path->kind_ps[kind];
  for (guint i = 0; i < path->ranks->len; i++)
    ranks_ps += g_array_index (path->ranks, PsiCriticalRank, i).time_ps;
  g_assert_cmpint (now_ps, ==, plan->step_time_ps);
  g_assert_cmpint (kinds_ps, ==, plan->step_time_ps);
  g_assert_cmpint (ranks_ps, ==, plan->step_time_ps);
}

/* Segments of one rank that follow each other, as one. */
static void
check_stays (const PsiPlanReport *plan, const guint *ranks, const gint64 *times_ms, guint n)
{
  guint i = 0;

  for (guint k = 0; k < n; k++)
    {
      gint64 sum_ps = 0;

      for (; i < plan->critical_path->segments->len && segment_of (plan, i)->rank == ranks[k]; i++)
        sum_ps += segment_of (plan, i)->duration_ps;
      g_assert_cmpint (sum_ps, ==, times_ms[k] * MS_PS);
    }
  g_assert_cmpuint (i, ==, plan->critical_path->segments->len);
}

/* 1F1B on four stages, F = 1 ms, B = 2 ms, stage 1 twice as slow, eight micro-batches. Stage 1 runs three forwards
 * ahead (until 7 ms) and waits for B0, which comes at 1 + 2 + 1 + (1 + 2) + 2 = 9 ms; from then on it never waits: five
 * forwards and eight backwards, 42 ms. */
static void
test_slow_stage (void)
{
  const guint ranks[] = { 0, 1, 2, 3, 2, 1, 0 };
  const gint64 times_ms[] = { 1, 2, 1, 3, 2, 42, 2 };
  g_autoptr (PsiPlanReport) plan =
      run_path ("model=uniform plan=1f1b stages=4 micro_batches=8 forward=1ms backward=2ms slow_rank=1:2");

  g_assert_cmpint (plan->step_time_ps, ==, 53 * MS_PS);
  check_sums (plan);
  check_stays (plan, ranks, times_ms, G_N_ELEMENTS (ranks));
  g_assert_cmpstr (segment_of (plan, 0)->what, ==, "forward");
  g_assert_cmpstr (segment_of (plan, 0)->reason, ==, "the step before is over");
  const PsiCriticalSegment *last = segment_of (plan, plan->critical_path->segments->len - 1);
  g_assert_cmpstr (last->what, ==, "backward");
  g_assert_cmpint (last->micro_batch, ==, 7);
  const PsiCriticalRank *first = &g_array_index (plan->critical_path->ranks, PsiCriticalRank, 0);
  g_assert_cmpuint (first->rank, ==, 1);
  g_assert_cmpint (first->time_ps, ==, 44 * MS_PS);
}

/* Even stages: down with the first forward, all work of the last stage, up with the last backward. */
static void
test_even_stages (void)
{
  const guint ranks[] = { 0, 1, 2, 3, 2, 1, 0 };
  const gint64 times_ms[] = { 1, 1, 1, 24, 2, 2, 2 };
  g_autoptr (PsiPlanReport) plan =
      run_path ("model=uniform plan=1f1b stages=4 micro_batches=8 forward=1ms backward=2ms");

  check_sums (plan);
  check_stays (plan, ranks, times_ms, G_N_ELEMENTS (ranks));
}

/* Gradients that wait for the end of the backward are all on the path: what is not compute. */
static void
test_exposed_gradients (void)
{
  g_autoptr (PsiPlanReport) plan =
      run_path ("model=uniform machine=a100 plan=dp workers=8 stages=4 psi_p=4GB forward=1ms backward=2ms "
                "overlap_grads=no");
  const PsiCriticalPath *path = plan->critical_path;
  const PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, 0);

  check_sums (plan);
  g_assert_cmpint (path->kind_ps[PSI_CRITICAL_COMPUTE], ==, 12 * MS_PS);
  g_assert_cmpint (path->kind_ps[PSI_CRITICAL_TRAFFIC + PSI_TRAFFIC_GRADIENTS], ==, plan->step_time_ps - 12 * MS_PS);
  g_assert_cmpint (rank->time_ps[PSI_TIME_EXPOSED_COMM], ==, plan->step_time_ps - 12 * MS_PS);
  g_assert_cmpint (rank->time_ps[PSI_TIME_EXPOSED_COMM], >, 0);
}

/* Everybody waits for the straggler: the path is its own. */
static void
test_straggler (void)
{
  g_autoptr (PsiPlanReport) plan =
      run_path ("model=uniform machine=a100 plan=dp workers=8 stages=4 psi_p=400MB forward=1ms backward=2ms "
                "slow_rank=5:1.5");

  check_sums (plan);
  g_assert_cmpint (plan->critical_path->kind_ps[PSI_CRITICAL_COMPUTE], ==, 18 * MS_PS);
  g_assert_cmpuint (plan->critical_path->ranks->len, ==, 1);
  g_assert_cmpuint (g_array_index (plan->critical_path->ranks, PsiCriticalRank, 0).rank, ==, 5);
}

/* What tensor parallelism sends stands between two ops of one pass: no part of the path can be hidden. */
static void
test_tensor (void)
{
  g_autoptr (PsiPlanReport) plan = run_path ("model=gpt2 machine=a100 plan=tp tp=4 micro_batches=2");
  const PsiRankReport *rank = &g_array_index (plan->ranks, PsiRankReport, 0);

  check_sums (plan);
  g_assert_cmpint (plan->critical_path->kind_ps[PSI_CRITICAL_TRAFFIC + PSI_TRAFFIC_TENSOR], ==,
                   rank->exposed_ps[PSI_TRAFFIC_TENSOR]);
  g_assert_cmpint (segment_of (plan, 0)->communication_ps, >, 0);
  g_assert_cmpint (segment_of (plan, 0)->first_layer, ==, 0);
  g_assert_cmpint (segment_of (plan, 0)->last_layer, >, 11);
}

static const char *const plans[] = {
  "single", "accumulate", "cdp-single", "dp",     "cdp-v1", "cdp-v2", "tp",          "dp+tp",
  "mp",     "dp+mp",      "cdp+mp",     "cdp+pp", "gpipe",  "1f1b",   "interleaved", "zb-h1",
  "zb-h2",  "zb-v",       "dualpipe-v", "zero-1", "zero-2", "zero-3", "cdp-zero",    "parameter-server"
};

static const char *const places[] = {
  "model=uniform forward=1ms",
  "model=uniform machine=a100 psi_p=400MB psi_int=100MB forward=1ms",
  "model=gpt2 machine=a100 micro_batch=2",
};

static void
test_every_plan (gconstpointer place)
{
  for (guint p = 0; p < G_N_ELEMENTS (plans); p++)
    for (guint m = 1; m <= 4; m += 3)
      {
        g_autofree char *flags =
            g_strdup_printf ("%s plan=%s workers=4 stages=4 micro_batches=%u", (const char *) place, plans[p],
                             strstr (plans[p], "dualpipe") != NULL ? 8 : m);
        g_autoptr (PsiPlanReport) plan = run_path (flags);

        check_sums (plan);
        g_assert_cmpint (plan->critical_path->kind_ps[PSI_CRITICAL_WAITING], ==, 0);
      }
}

/* Every GPU by itself: the path is that of the lowest of its equals. */
static void
test_collapse (void)
{
  static const char *const loads[] = {
    "model=gpt2 machine=a100 dp=2 tp=2 pp=2 micro_batches=4",
    "model=gpt2 machine=a100 plan=zero-3 gpus=16",
    "model=uniform machine=a100 plan=dp+mp workers=3 stages=4 psi_int=100MB forward=1ms",
    "model=uniform machine=a100 plan=parameter-server workers=4 psi_p=400MB forward=1ms",
  };

  for (guint i = 0; i < G_N_ELEMENTS (loads); i++)
    {
      g_autofree char *flags = g_strdup_printf ("%s collapse=no", loads[i]);
      g_autoptr (PsiPlanReport) few = run_path (loads[i]), all = run_path (flags);

      g_assert_cmpuint (few->critical_path->segments->len, ==, all->critical_path->segments->len);
      for (guint s = 0; s < few->critical_path->segments->len; s++)
        {
          const PsiCriticalSegment *a = segment_of (few, s), *b = segment_of (all, s);

          g_assert_cmpuint (a->rank, ==, b->rank);
          g_assert_cmpstr (a->what, ==, b->what);
          g_assert_cmpint (a->micro_batch, ==, b->micro_batch);
          g_assert_cmpint (a->start_ps, ==, b->start_ps);
          g_assert_cmpint (a->communication_ps, ==, b->communication_ps);
          g_assert_cmpstr (a->reason, ==, b->reason);
        }
    }
}

/* Of runs with jitter one stands for all: its path is made as long as the mean. */
static void
test_jitter (void)
{
  g_autoptr (PsiPlanReport) plan = run_path ("model=gpt2 machine=a100 dp=2 pp=2 micro_batches=4 jitter=0.1 trials=5");

  check_sums (plan);
}

/* Workers that do not wait for each other have no path in common, and are told so. */
static void
test_asynchronous (void)
{
  static const char *const flags[] = { "model=gpt2-xl machine=a100 plan=async gpus=4",
                                       "model=uniform plan=async workers=4 slow_rank=3:1.5" };

  for (guint i = 0; i < G_N_ELEMENTS (flags); i++)
    {
      g_autoptr (PsiSettings) settings = settings_of (flags[i]);
      const PsiSimulateOptions options = { .critical_path = TRUE };
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiPlanReport) plan = psi_simulate_plan ("plan", settings, &options, NULL, &error);
      gboolean told = FALSE;

      g_assert_no_error (error);
      g_assert_null (plan->critical_path);
      for (guint k = 0; k < plan->warnings->len; k++)
        told |= g_str_has_prefix (plan->warnings->pdata[k], "no critical path: ");
      g_assert_true (told);
    }
}

/* Two messages over one link take twice as long as each by itself. */
static void
test_shared_link (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiWorld) world = psi_world_new ();
  const PsiTransfer transfer = { .bytes = 1000, .cap_bytes_per_s = HUGE_VAL, .latency_ps = 10, .weights = { 1 } };
  PsiTransferId id = psi_world_add_transfer (world, &transfer);
  PsiLinkId link = psi_links_add (world->links, 1e12);

  for (guint r = 0; r < 2; r++)
    {
      PsiProgram *program = psi_world_add_program (world, 1);
      PsiPortId port = psi_world_add_communicator (world);

      psi_program_work (program, 0, 90, 0);
      psi_program_message (program, 0, PSI_OP_COLLECTIVE, 0, id, 20);
      psi_world_bind (world, psi_world_add_rank (world, program, 1, 0), 0, port);
      psi_world_add_path (world, port, link, 0);
    }
  g_autoptr (PsiRun) run = psi_run (world, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (GArray) path = psi_critical_path (world, run);
  g_assert_cmpint (run->period_ps, ==, 90 + 10 + 2000);
  g_assert_cmpuint (path->len, ==, 2);
  const PsiCriticalOp *message = &g_array_index (path, PsiCriticalOp, 1);
  g_assert_cmpuint (message->op, ==, PSI_OP_ID (0, 1));
  g_assert_cmpint (message->end_ps - message->start_ps, ==, 2010);
  g_assert_cmpint (message->shared_ps, ==, 1000);
  g_assert_cmpint (g_array_index (path, PsiCriticalOp, 0).shared_ps, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sim/critical/slow-stage", test_slow_stage);
  g_test_add_func ("/sim/critical/even-stages", test_even_stages);
  g_test_add_func ("/sim/critical/exposed-gradients", test_exposed_gradients);
  g_test_add_func ("/sim/critical/straggler", test_straggler);
  g_test_add_func ("/sim/critical/tensor", test_tensor);
  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    {
      g_autofree char *path = g_strdup_printf ("/sim/critical/every-plan/%u", i);

      g_test_add_data_func (path, places[i], test_every_plan);
    }
  g_test_add_func ("/sim/critical/collapse", test_collapse);
  g_test_add_func ("/sim/critical/jitter", test_jitter);
  g_test_add_func ("/sim/critical/asynchronous", test_asynchronous);
  g_test_add_func ("/engine/critical/shared-link", test_shared_link);
  return g_test_run ();
}
