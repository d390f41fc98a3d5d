/* SPDX-License-Identifier: MIT */
/* Groups of experts that lie across tensor-parallel ranks: where they are, what they hold, what travels. */
#include "closed-forms.h"
#include "settings-flags.h"
#include "step.h"

/* 8 experts of 3 x 256 x 512 elements in each of 4 layers. */
#define MOE                                                                                                            \
  "model=custom family=moe layers=4 hidden=256 heads=8 ffn=512 experts=8 experts_per_token=2 vocab=1024 "              \
  "sequence=128 framework=megatron machine=a100 sequence_parallel=yes "
#define EXPERT_ELEMENTS (G_GINT64_CONSTANT (3) * 256 * 512 * 4) /* of one expert, all layers */

/* Members of each kind of group in one node. */
static void
test_places (void)
{
  static const struct
  {
    const char *flags;
    guint ep, ep_inside, copies, copies_inside, each, each_inside;
  } rows[] = {
    { "tp=2 dp=8 ep=8", 8, 4, 1, 1, 2, 2 },             /* 4 of 8 data-parallel ranks a node */
    { "tp=2 dp=8 ep=8 expert_tp=2", 8, 4, 1, 1, 2, 2 }, /* the same */
    { "tp=2 dp=8 ep=8 expert_tp=1", 8, 8, 2, 1, 1, 1 }, /* tp and 4 data-parallel ranks */
    { "tp=8 dp=2 ep=8 expert_tp=1", 8, 8, 2, 1, 1, 1 }, /* the tensor-parallel group */
    { "tp=8 dp=2 ep=4 expert_tp=2", 4, 4, 2, 1, 2, 2 },
    { "tp=4 dp=4 ep=2 expert_tp=2", 2, 2, 4, 2, 2, 2 },
    { "tp=2 cp=2 dp=4 ep=8 expert_tp=1", 8, 8, 2, 1, 1, 1 },
    { "tp=2 dp=8 ep=8 expert_tp=1 group_order=dp,tp,cp,ep,pp", 8, 4, 2, 2, 1, 1 }, /* 4 of 8 on each of two nodes */
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *flags = g_strconcat (MOE, rows[i].flags, NULL);
      g_autoptr (PsiSettings) settings = settings_of (flags);
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiModelSource) source = psi_model_source_load (settings, &error);
      g_autoptr (PsiMachine) machine = psi_machine_load ("a100", &error);
      g_autoptr (PsiPlan) plan = psi_plan_resolve (settings, source, 8, &error);

      g_assert_no_error (error);
      g_test_message ("%s", rows[i].flags);
      g_autoptr (PsiStep) step = psi_step_new (plan, machine, source, settings, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (psi_step_group_size (step, PSI_DIMENSION_EP), ==, rows[i].ep);
      g_assert_cmpuint (psi_step_ranks_per_node (step, PSI_DIMENSION_EP), ==, rows[i].ep_inside);
      g_assert_cmpuint (psi_step_group_size (step, PSI_DIMENSION_EXPERT_DP), ==, rows[i].copies);
      g_assert_cmpuint (psi_step_ranks_per_node (step, PSI_DIMENSION_EXPERT_DP), ==, rows[i].copies_inside);
      g_assert_cmpuint (psi_step_group_size (step, PSI_DIMENSION_EXPERT_TP), ==, rows[i].each);
      g_assert_cmpuint (psi_step_ranks_per_node (step, PSI_DIMENSION_EXPERT_TP), ==, rows[i].each_inside);
    }
}

/* Whole experts in place of halves: twice the parameters and gradients, but twice as many GPUs share the optimizer. */
static void
test_state (void)
{
  g_autoptr (PsiReport) halves = run_flags (FALSE, MOE "tp=2 dp=8 ep=4 zero=1");
  g_autoptr (PsiReport) wholes = run_flags (FALSE, MOE "tp=2 dp=8 ep=4 expert_tp=1 zero=1");
  g_autoptr (PsiReport) spread = run_flags (FALSE, MOE "tp=2 dp=8 ep=8 expert_tp=1 zero=1");
  const PsiRankReport *a = rank_of (plan_of (halves), 0), *b = rank_of (plan_of (wholes), 0),
                      *c = rank_of (plan_of (spread), 0);

  /* ep 4: two experts on each GPU; 8 / 4 GPUs have the same halves, 16 / 4 the same wholes. */
  g_assert_cmpint (b->at_peak[PSI_MEMORY_PARAMETERS] - a->at_peak[PSI_MEMORY_PARAMETERS], ==, 2 * EXPERT_ELEMENTS);
  g_assert_cmpint (b->at_peak[PSI_MEMORY_GRADIENTS] - a->at_peak[PSI_MEMORY_GRADIENTS], ==, 4 * EXPERT_ELEMENTS);
  g_assert_cmpint (b->at_peak[PSI_MEMORY_OPTIMIZER], ==, a->at_peak[PSI_MEMORY_OPTIMIZER]);
  /* ep 8: one expert on each of 8 GPUs, twice. */
  g_assert_cmpint (c->at_peak[PSI_MEMORY_PARAMETERS], ==, a->at_peak[PSI_MEMORY_PARAMETERS]);
  g_assert_cmpint (c->at_peak[PSI_MEMORY_OPTIMIZER], ==, a->at_peak[PSI_MEMORY_OPTIMIZER]);
}

/* Transformer Engine's grouped products have four workspaces more, of 4 MiB, from Hopper on 32 MiB. */
static void
test_workspaces (void)
{
  static const struct
  {
    const char *machine, *family;
    gint64 mib;
  } rows[] = { { "a100", "moe", 2 * 32 + 5 * 4 },
               { "h100", "moe", 2 * 32 + 5 * 32 },
               { "a100", "llama", 2 * 32 + 4 },
               { "h100", "llama", 2 * 32 + 32 } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsiReport) report = run_flags (FALSE,
                                                "model=custom family=%s layers=4 hidden=256 heads=8 vocab=1024 "
                                                "sequence=128 framework=megatron-core deterministic=yes machine=%s",
                                                rows[i].family, rows[i].machine);
      const PsiRankReport *rank = rank_of (plan_of (report), 0);

      g_assert_cmpint (rank->steady_bytes - rank->at_peak[PSI_MEMORY_PARAMETERS] - rank->at_peak[PSI_MEMORY_GRADIENTS] -
                           rank->at_peak[PSI_MEMORY_OPTIMIZER],
                       ==, rows[i].mib << 20);
    }
}

/* Each GPU sends its share of the tokens to experts in the same way; nothing is gathered among those that split one. */
static void
test_traffic (void)
{
  g_autoptr (PsiReport) halves = run_flags (FALSE, MOE "tp=2 dp=8 ep=8 zero=1");
  g_autoptr (PsiReport) wholes = run_flags (FALSE, MOE "tp=2 dp=8 ep=8 expert_tp=1 zero=1");
  g_autoptr (PsiReport) dense = run_flags (FALSE, MOE "tp=2 dp=8 ep=8 expert_tp=1 zero=1 experts_per_token=1");
  gint64 sent = plan_of (wholes)->by_kind[PSI_TRAFFIC_EXPERTS];

  /* 4 layers, there and back, forward and backward: 64 tokens, twice, of 512 bytes; 7 of 8 leave. 16 GPUs. */
  g_assert_cmpint (sent, ==, 4 * 4 * 64 * 2 * 512 / 8 * 7 * 16);
  g_assert_cmpint (plan_of (halves)->by_kind[PSI_TRAFFIC_EXPERTS], ==, sent);
  /* In and out of halves: gathers and scattered sums of 2 x 64 x 2 x 512 bytes, one of two leaves; the weight gradient
   * gathers again. */
  g_assert_cmpint (plan_of (halves)->by_kind[PSI_TRAFFIC_TENSOR], >, plan_of (wholes)->by_kind[PSI_TRAFFIC_TENSOR]);
  g_assert_cmpint (plan_of (wholes)->by_kind[PSI_TRAFFIC_TENSOR], ==, plan_of (dense)->by_kind[PSI_TRAFFIC_TENSOR]);
  g_assert_cmpint ((plan_of (halves)->by_kind[PSI_TRAFFIC_TENSOR] - plan_of (wholes)->by_kind[PSI_TRAFFIC_TENSOR]) %
                       (4 * 4 * 64 * 2 * 512 * 16),
                   ==, 0);
}

/* A tensor-parallel group that is an expert group keeps its tokens in the node. */
static void
test_network (void)
{
  static const char *const folded = MOE "tp=8 dp=2 ep=8 expert_tp=1 optimizer=none overlap_grads=no",
                           *apart = MOE "tp=8 dp=8 ep=8 optimizer=none overlap_grads=no";

  for (guint i = 0; i < 2; i++)
    {
      const char *flags = i == 0 ? folded : apart;
      g_autoptr (PsiReport) fast = run_flags (FALSE, "%s internode=25GB/s detail=closed", flags);
      g_autoptr (PsiReport) slow = run_flags (FALSE, "%s internode=250MB/s detail=closed", flags);
      PsiTime late_ps = rank_of (plan_of (slow), 0)->exposed_ps[PSI_TRAFFIC_EXPERTS] -
                        rank_of (plan_of (fast), 0)->exposed_ps[PSI_TRAFFIC_EXPERTS];

      g_assert_true (i == 0 ? late_ps == 0 : late_ps > 0);
    }
}

/* GPUs one by one do what classes of equal ones do. */
static void
test_one_by_one (void)
{
  static const char *const rows[] = { "tp=2 dp=8 ep=8 expert_tp=1 zero=1", "tp=4 dp=4 ep=4 expert_tp=2 zero=1",
                                      "tp=2 cp=2 dp=4 ep=8 expert_tp=1", "tp=2 dp=2 pp=2 ep=4 expert_tp=1",
                                      "tp=2 dp=8 ep=4 expert_tp=1 zero=3" };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsiReport) folded = run_flags (FALSE, MOE "%s micro_batches=2", rows[i]);
      g_autoptr (PsiReport) each = run_flags (FALSE, MOE "%s micro_batches=2 collapse=no", rows[i]);

      g_assert_cmpint (plan_of (folded)->step_time_ps, ==, plan_of (each)->step_time_ps);
      g_assert_cmpint (plan_of (folded)->total_bytes, ==, plan_of (each)->total_bytes);
      g_assert_cmpint (plan_of (folded)->peak_bytes, ==, plan_of (each)->peak_bytes);
      g_assert_cmpuint (plan_of (folded)->digest, ==, plan_of (each)->digest);
    }
}

static void
test_degrees (void)
{
  static const struct
  {
    const char *flags, *words;
  } refused[] = {
    { MOE "tp=4 dp=2 ep=2 expert_tp=3", "'3' does not divide tp = 4" },
    { MOE "tp=2 dp=2 ep=8 expert_tp=1", "'8' does not divide dp x cp x tp / expert_tp = 4" },
    { MOE "tp=2 dp=2 ep=4", "'4' does not divide dp x cp = 2 (with expert_tp = 1 it may take GPUs of the tp group)" },
    { MOE "tp=2 dp=2 ep=4 expert_tp=1 sequence_parallel=no", "is not tp = 2 and needs sequence_parallel = yes" },
    { "model=gpt2 tp=2 expert_tp=1", "expert_tp: '1' needs experts, and 'gpt2' has none (allowed: 2)" },
  };
  g_autoptr (PsiReport) report = run_flags (FALSE, MOE "tp=2 pp=2 ep=8 expert_tp=1");

  /* Nothing says how many replicas there are: 8 GPUs of each pipeline rank for 8 experts. */
  g_assert_cmpuint (plan_of (report)->gpus, ==, 16);
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiReport) none = try_flags (refused[i].flags, FALSE, &error);

      g_assert_null (none);
      g_assert_nonnull (error);
      if (strstr (error->message, refused[i].words) == NULL)
        g_error ("'%s' is not in '%s'", refused[i].words, error->message);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/experts/places", test_places);
  g_test_add_func ("/model/experts/state", test_state);
  g_test_add_func ("/model/experts/workspaces", test_workspaces);
  g_test_add_func ("/model/experts/traffic", test_traffic);
  g_test_add_func ("/model/experts/network", test_network);
  g_test_add_func ("/model/experts/one-by-one", test_one_by_one);
  g_test_add_func ("/model/experts/degrees", test_degrees);
  return g_test_run ();
}
