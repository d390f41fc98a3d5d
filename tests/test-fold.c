/* SPDX-License-Identifier: MIT */
/* Folded steps: far fewer ops, and every number of the report as it is without. */
#include "closed-forms.h"
#include "psi-account.h"
#include "psi-run.h"
#include "psi-fold.h"
#include "psi-repeat.h"
#include "settings-flags.h"
#include "simulate-plan.h"
#include "step.h"

static gboolean
look (const char *name, const PsiStep *step, const PsiRun *run, gpointer data, GError **error)
{
  *(gsize *) data = run->first_op[step->n_ranks];
  return TRUE;
}

/* The report of a plan as JSON. `ret_n_ops`, if not NULL, gets the number of ops: whoever looks at them gets them all.
 */
static char *
report_of (const char *flags, gsize *ret_n_ops)
{
  g_autoptr (PsiSettings) settings = settings_of (flags);
  const PsiSimulateOptions options = { .observe = ret_n_ops != NULL ? look : NULL, .observe_data = ret_n_ops };
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiReport) report = psi_report_new ();

  PsiPlanReport *plan = psi_simulate_plan ("plan", settings, &options, report, &error);
  g_assert_no_error (error);
  g_ptr_array_add (report->plans, plan);
  return psi_report_to_json (report);
}

static gsize
n_ops_folded (const char *flags)
{
  g_autoptr (PsiSettings) settings = settings_of (flags);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiMachine) machine = psi_simulate_machine (settings, &error);
  g_autoptr (PsiModelSource) source = psi_model_source_load (settings, &error);
  g_autoptr (PsiPlan) plan = psi_plan_resolve (settings, source, machine->gpus_per_node, &error);
  g_autoptr (PsiStep) step = psi_step_new_folded (plan, machine, source, settings, FALSE, NULL, &error);
  gsize n = 0;

  g_assert_no_error (error);
  for (guint r = 0; r < step->n_ranks; r++)
    n += psi_program_n_ops (step->ranks[r].program);
  return n;
}

/* `less`: so many times fewer ops at least; 1: nothing can be folded. */
static const struct
{
  const char *flags;
  guint less;
} loads[] = {
  { "model=gpt2 machine=a100 plan=accumulate micro_batches=16", 5 },
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 micro_batches=16", 4 },
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 micro_batches=16 recompute=full grad_clip=no", 4 },
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 micro_batches=16 recompute=selective framework=megatron-2021", 4 },
  { "model=llama-2-7b machine=a100 gpus=32 tp=8 pp=4 vpp=2 micro_batches=16 schedule=interleaved", 4 },
  { "model=llama-2-7b machine=h100 gpus=32 tp=8 pp=4 micro_batches=16 schedule=zb-h1 sequence_parallel=yes", 4 },
  { "model=mixtral-8x7b machine=h100 gpus=32 dp=8 ep=8 pp=4 micro_batches=16", 5 },
  { "model=gpt2 machine=a100 gpus=8 dp=4 pp=2 zero=1 micro_batches=16 collapse=no", 2 },
  { "model=gpt2 machine=a100 plan=dp workers=3 worker_batches=1,2,3 micro_batches=1", 1 },
  { "model=llama-2-7b machine=a100 gpus=8 dp=2 tp=4 micro_batches=16", 4 }, /* gradients travel when no fold runs */
  { "model=gpt2 machine=a100 gpus=8 tp=2 pp=4 micro_batches=16", 1 }, /* boundaries share the links of the tensors */
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 micro_batches=16 detail=closed", 4 },
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 micro_batches=8 detail=steps", 1 },
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 micro_batches=8 slow_rank=3:1.5", 1 },
  { "model=gpt2 machine=a100 gpus=4 plan=zero-3 micro_batches=8", 1 },
  { "model=llama-2-7b machine=a100 gpus=8 dp=2 tp=4 zero=1 micro_batches=16", 4 }, /* as do parameters */
  /* One chunk's gradients travel while another still works. */
  { "model=llama-2-7b machine=a100 gpus=32 tp=4 dp=2 pp=4 vpp=2 micro_batches=16 schedule=interleaved", 1 },
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 zero=3 micro_batches=16", 4 }, /* there is nothing to shard over */
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 offload=activations micro_batches=16", 4 },
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 offload=parameters recompute=full micro_batches=16", 4 },
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 offload=optimizer micro_batches=16", 4 },
  { "model=llama-3-405b machine=h100 gpus=512 tp=8 pp=8 zero=3 framework=torchtitan micro_batches=8 recompute=full",
    2 },
  { "model=uniform plan=1f1b stages=4 micro_batches=8", 1 },
  /* Kernels in graphs, hosts that compare their collectives or await each kernel. */
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 micro_batches=16 cuda_graphs=yes", 4 },
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 micro_batches=16 cuda_graphs=step", 4 },
  { "model=llama-2-7b machine=a100 gpus=16 tp=8 pp=2 micro_batches=16 collective_checks=yes", 4 },
  { "model=mixtral-8x7b machine=h100 gpus=32 dp=8 ep=8 pp=4 micro_batches=16 shared_ffn=1024 dense_layers=3", 4 },
  { "model=gpt2 machine=a100 gpus=16 tp=2 dp=8 micro_batches=16 framework=bigscience network=omnipath", 2 },
};

static void
test_same (gconstpointer data)
{
  const char *flags = loads[GPOINTER_TO_UINT (data)].flags;
  gsize n_ops = 0, n_folded = n_ops_folded (flags);
  guint less = loads[GPOINTER_TO_UINT (data)].less;

  g_test_message ("%s", flags);
  g_autofree char *all = report_of (flags, &n_ops), *folded = report_of (flags, NULL);
  g_test_message ("%" G_GSIZE_FORMAT " ops, %" G_GSIZE_FORMAT " folded", n_ops, n_folded);
  g_assert_cmpstr (all, ==, folded);
  if (less > 1)
    g_assert_cmpuint (n_folded * less, <=, n_ops);
  else
    g_assert_cmpuint (n_folded, ==, n_ops);
}

/* Many micro-batches of which few are run; `shortens`: the run shows that the others do the same. */
static const struct
{
  const char *flags;
  gboolean shortens;
} long_loads[] = {
  { "model=gpt2 machine=a100 plan=accumulate micro_batches=100", TRUE },
  { "model=uniform plan=1f1b stages=4 micro_batches=100", TRUE },
  { "model=uniform machine=a100 plan=1f1b stages=6 psi_p=400MB psi_int=100MB forward=1ms micro_batches=80", FALSE },
  { "model=llama-2-7b machine=a100 gpus=64 tp=8 pp=8 micro_batches=128", TRUE },
  { "model=llama-2-7b machine=a100 gpus=64 tp=8 pp=4 dp=2 zero=1 micro_batches=64 framework=megatron", TRUE },
  { "model=llama-2-7b machine=a100 gpus=8 tp=2 pp=4 micro_batches=64 recompute=full",
    FALSE }, /* boundaries and tensors keep sharing anew */
  { "model=gpt2 machine=a100 gpus_per_node=1 pp=4 micro_batches=50 internode=1GB/s", FALSE },
  { "model=mixtral-8x7b machine=h100 gpus=32 dp=8 ep=8 pp=4 micro_batches=64", TRUE },
  { "model=resnet-50 machine=a100 pp=4 partition=flops micro_batches=64", FALSE },
  { "model=t5-11b machine=h100 pp=4 micro_batches=64", TRUE },
  { "model=gpt2 machine=a100 pp=4 micro_batches=64 schedule=zb-h1", FALSE },
  { "model=gpt2 machine=a100 pp=4 dp=2 micro_batches=64 slow_rank=1:1.5", FALSE },
  { "model=gpt2 machine=a100 pp=4 micro_batches=20", FALSE },
  { "model=llama-2-7b machine=a100 gpus=64 tp=8 pp=8 micro_batches=128 cuda_graphs=step collective_checks=yes", TRUE },
  { "model=mixtral-8x7b machine=h100 gpus=32 tp=4 expert_tp=1 sequence_parallel=yes ep=8 pp=4 micro_batches=64 "
    "framework=megatron-core expert_gemm=grouped expert_imbalance=1.5",
    TRUE },
};

static void
test_long (gconstpointer data)
{
  const char *flags = long_loads[GPOINTER_TO_UINT (data)].flags;
  g_autofree char *no_jump = g_strdup_printf ("%s jump=no", flags);
  g_autoptr (PsiSettings) settings = settings_of (flags);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiMachine) machine = psi_simulate_machine (settings, &error);
  g_autoptr (PsiModelSource) source = psi_model_source_load (settings, &error);
  g_autoptr (PsiPlan) plan = psi_plan_resolve (settings, source, machine->gpus_per_node, &error);
  g_autoptr (PsiStep) step = psi_step_new_folded (plan, machine, source, settings, TRUE, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (PsiRun) run = psi_run (step->world, NULL, &error);

  g_assert_no_error (error);
  g_test_message ("%s", flags);
  g_assert_true ((step->micro_batches > 0 && psi_step_run_whole (step, run)) ==
                 long_loads[GPOINTER_TO_UINT (data)].shortens);
  g_assert_cmpuint (run->repeat.n, ==,
                    long_loads[GPOINTER_TO_UINT (data)].shortens ? plan->micro_batches - step->micro_batches : 0);
  g_autofree char *all = report_of (no_jump, NULL), *few = report_of (flags, NULL);
  g_assert_cmpstr (all, ==, few);
}

/* Work and a message, twice, folded or not; a second rank, if there is one, sends over the same link. */
static PsiWorld *
small_world (gboolean folds, guint n_ranks)
{
  PsiWorld *world = psi_world_new ();
  const PsiTransfer transfer = {
    .bytes = 1000, .cap_bytes_per_s = HUGE_VAL, .latency_ps = 10, .weights = { 2 }, .hops = 3
  };
  PsiTransferId id = psi_world_add_transfer (world, &transfer);
  PsiLinkId link = psi_links_add (world->links, 1e12);

  for (guint r = 0; r < n_ranks; r++)
    {
      PsiProgram *program = psi_world_add_program (world, 1);
      PsiRankId rank = psi_world_add_rank (world, program, 1, 0);
      PsiPortId port = psi_world_add_communicator (world);

      psi_world_bind (world, rank, 0, port);
      psi_world_add_path (world, port, link, 0);
      psi_program_work (program, 0, 5, 1);
      PsiOpId first = psi_program_work (program, 0, 90, 2);
      psi_program_delta (program, first, FALSE, 3, 7);
      psi_program_message (program, 0, PSI_OP_COLLECTIVE, 0, id, 20);
      PsiOpId last = psi_program_work (program, 0, 40, 4);
      psi_program_delta (program, last, TRUE, 3, -7);
      psi_program_message (program, 0, PSI_OP_COLLECTIVE, 0, id, 21);
      if (folds && r == 0)
        g_assert_cmpuint (psi_world_fold (world, rank, 1), ==, 0);
    }
  return world;
}

static void
test_small (void)
{
  guint64 digests[2];

  for (guint folds = 0; folds < 2; folds++)
    {
      g_autoptr (PsiWorld) world = small_world (folds, 1);
      g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
      PsiTimeSplit split;

      g_assert_true (psi_world_folds_hold (world));
      g_autoptr (PsiRun) run = psi_run (world, NULL, NULL);
      g_assert_cmpint (run->period_ps, ==, 5 + 90 + 40 + 2 * (10 + 2000));
      g_assert_cmpuint (run->first_op[1], ==, folds ? 2 : 5);
      psi_account_time (world, run, 0, &split);
      g_assert_cmpint (split.busy_ps[1], ==, 5);
      g_assert_cmpint (split.busy_ps[2], ==, 90);
      g_assert_cmpint (split.busy_ps[4], ==, 40);
      g_assert_cmpint (split.moving_ps[20], ==, 2010);
      g_assert_cmpint (split.moving_ps[21], ==, 2010);
      g_assert_cmpint (split.still_ps, ==, 0);
      psi_account_memory_events (world, run, 0, 1, events);
      g_assert_cmpuint (events->len, ==, 2);
      const PsiLevelEvent *rise = &g_array_index (events, PsiLevelEvent, 0), *fall = rise + 1;
      g_assert_cmpint (rise->bytes, ==, 7);
      g_assert_cmpint (fall->time_ps - rise->time_ps, ==, 90 + 2010 + 40);
      g_assert_cmpuint (psi_account_chain (world), ==, 3);
      digests[folds] = psi_account_digest (world, run);
    }
  g_assert_cmpuint (digests[0], ==, digests[1]);
}

/* Folds are the same if their parts are, times and memory included. */
static void
test_equal (void)
{
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 1);
  PsiRankId rank = psi_world_add_rank (world, program, 1, 0);

  for (guint i = 0; i < 4; i++)
    {
      guint before = program->streams[0]->len;
      PsiOpId op = psi_program_work (program, 0, i == 2 ? 11 : 10, 1);

      psi_program_label (program, op, (gint32) i, 0);
      psi_program_delta (program, op, TRUE, 2, i == 3 ? 8 : 7);
      psi_program_work (program, 0, 20, 1);
      g_assert_cmpuint (psi_world_fold (world, rank, before), ==, i);
    }
  g_assert_true (psi_program_folds_equal (program, 0, 1));
  g_assert_false (psi_program_folds_equal (program, 0, 2));
  g_assert_false (psi_program_folds_equal (program, 0, 3));
}

/* Two ranks on one link: the promise does not hold, and the run would come out wrong. */
static void
test_spoilt (void)
{
  g_autoptr (PsiWorld) world = small_world (TRUE, 2), scaled = small_world (TRUE, 1);

  g_assert_false (psi_world_folds_hold (world));
  psi_world_rank (scaled, 0)->scale = 2;
  g_assert_false (psi_world_folds_hold (scaled));
}

/* What waits for another op is not folded, nor what begins with a message or is one op. */
static void
test_refused (void)
{
  g_autoptr (PsiWorld) world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 2);
  PsiRankId rank = psi_world_add_rank (world, program, 1, 0);
  PsiOpId other = psi_program_work (program, 1, 10, 0);

  psi_program_work (program, 0, 10, 0);
  PsiOpId last = psi_program_work (program, 0, 20, 0);
  g_assert_cmpuint (psi_world_fold (world, rank, 1), ==, G_MAXUINT32);
  psi_program_after (program, last, other, 0);
  g_assert_cmpuint (psi_world_fold (world, rank, 0), ==, G_MAXUINT32);
  g_assert_cmpuint (psi_program_n_ops (program), ==, 3);
  g_assert_cmpuint (psi_program_n_parts (program), ==, 0);

  g_autoptr (PsiWorld) small = small_world (FALSE, 1);
  g_assert_cmpuint (psi_world_fold (small, 0, 2), ==, G_MAXUINT32);
}

/* `n` blocks of work for 10 and 20 ps, after 3 and before 5; one op of a block takes 1 ps more: `odd` >= 0. */
static PsiWorld *
world_of_blocks (guint n, int odd)
{
  PsiWorld *world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 1);

  psi_world_add_rank (world, program, 3, 0);
  psi_program_work (program, 0, 3, 0);
  for (guint i = 0; i < 2 * n; i++)
    {
      PsiOpId op = psi_program_work (program, 0, (i % 2 + 1) * 10 + ((int) (i / 2) == odd), 1 + i % 2);

      psi_program_label (program, op, (gint32) (i / 2), -1);
      psi_program_delta (program, op, i % 2 == 1, 3, i % 2 == 0 ? 7 : -7);
    }
  psi_program_work (program, 0, 5, 4);
  return world;
}

/* Thirty blocks from a run of twenty, and none if one of those that are looked at differs. */
static void
test_put_in (void)
{
  const guint32 limit = 1 + 2 * 20;
  g_autoptr (PsiWorld) few = world_of_blocks (20, -1), all = world_of_blocks (30, -1);
  g_autoptr (PsiRun) run = psi_run (few, NULL, NULL), whole = psi_run (all, NULL, NULL);
  PsiTimeSplit split, whole_split;

  g_assert_cmpint (run->period_ps, ==, 3 + 20 * 30 + 5);
  g_assert_true (psi_run_put_in (few, run, &limit, 10));
  g_assert_cmpint (run->period_ps, ==, whole->period_ps);
  psi_account_time (few, run, 0, &split);
  psi_account_time (all, whole, 0, &whole_split);
  g_assert_cmpmem (&split, sizeof split, &whole_split, sizeof whole_split);
  g_assert_cmpuint (psi_account_digest (few, run), ==, psi_account_digest (all, whole));
  g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
  g_autoptr (GArray) whole_events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
  PsiLevels levels, whole_levels;
  psi_account_memory_events (few, run, 0, 3, events);
  psi_account_memory_events (all, whole, 0, 3, whole_events);
  psi_account_run_levels (events, run, 0, run->times[0].start_ps, NULL, FALSE, &levels, NULL);
  psi_account_run_levels (whole_events, whole, 0, whole->times[0].start_ps, NULL, FALSE, &whole_levels, NULL);
  g_assert_cmpmem (&levels, sizeof levels, &whole_levels, sizeof whole_levels);
  for (int odd = 0; odd < 20; odd++)
    {
      g_autoptr (PsiWorld) world = world_of_blocks (20, odd);
      g_autoptr (PsiRun) other = psi_run (world, NULL, NULL);
      PsiTime period_ps = other->period_ps;
      gboolean is_seen = odd >= 12; /* four blocks that the run is read off, and all behind them */

      g_assert_true (psi_run_put_in (world, other, &limit, 10) == !is_seen);
      g_assert_cmpint (other->period_ps, ==, period_ps + (is_seen ? 0 : 300));
    }
}

/* Another message over the link of a fold, from op `from` on until op `to` of the same or the next iteration: it spoils
 * the fold if that is between them, or if nothing says when it is over. */
static void
test_windows (void)
{
  enum
  {
    BEFORE,
    FOLD,
    BEHIND,
    NONE
  };
  static const struct
  {
    guint from, to, distance;
    gboolean holds;
  } cases[] = { { BEHIND, BEFORE, 1, TRUE },  { BEFORE, FOLD, 0, TRUE },    { FOLD, BEHIND, 0, TRUE },
                { BEFORE, BEHIND, 0, FALSE }, { BEHIND, BEHIND, 1, FALSE }, { FOLD, FOLD, 1, TRUE },
                { BEHIND, NONE, 0, FALSE },   { NONE, BEFORE, 1, FALSE } };

  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      g_autoptr (PsiWorld) world = psi_world_new ();
      const PsiTransfer transfer = { .bytes = 1000, .cap_bytes_per_s = HUGE_VAL, .weights = { 1 } };
      PsiTransferId id = psi_world_add_transfer (world, &transfer);
      PsiLinkId link = psi_links_add (world->links, 1e12);
      PsiProgram *program = psi_world_add_program (world, 2);
      PsiRankId rank = psi_world_add_rank (world, program, 1, 0);
      g_autoptr (GError) error = NULL;

      for (guint slot = 0; slot < 2; slot++)
        {
          psi_world_bind (world, rank, slot, psi_world_add_communicator (world));
          psi_world_add_path (world, slot, link, 0);
        }
      psi_program_work (program, 0, 100, 0);
      psi_program_work (program, 0, 100, 0);
      psi_program_message (program, 0, PSI_OP_COLLECTIVE, 0, id, 20);
      g_assert_cmpuint (psi_world_fold (world, rank, 1), ==, 0);
      psi_program_work (program, 0, 100, 0);
      PsiOpId message = psi_program_message (program, 1, PSI_OP_COLLECTIVE, 1, id, 20);
      if (cases[c].from != NONE)
        psi_program_after (program, message, PSI_OP_ID (0, cases[c].from), 0);
      if (cases[c].to != NONE)
        psi_program_after (program, PSI_OP_ID (0, cases[c].to), message, cases[c].distance);
      g_test_message ("case %u", c);
      g_assert_true (psi_world_folds_hold (world) == cases[c].holds);
      g_autoptr (PsiRun) run = psi_run (world, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpint (run->period_ps, >, 0);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/fold/small", test_small);
  g_test_add_func ("/engine/fold/spoilt", test_spoilt);
  g_test_add_func ("/engine/fold/refused", test_refused);
  g_test_add_func ("/engine/fold/equal", test_equal);
  g_test_add_func ("/engine/fold/windows", test_windows);
  g_test_add_func ("/engine/repeat/put-in", test_put_in);
  for (guint i = 0; i < G_N_ELEMENTS (loads); i++)
    {
      g_autofree char *path = g_strdup_printf ("/sim/fold/same/%02u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_same);
    }
  for (guint i = 0; i < G_N_ELEMENTS (long_loads); i++)
    {
      g_autofree char *path = g_strdup_printf ("/sim/fold/long/%02u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_long);
    }
  return g_test_run ();
}
