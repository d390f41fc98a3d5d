/* SPDX-License-Identifier: MIT */
/* What holds for every plan whatever its numbers: time and memory add up, what is sent is received, nothing is taken
 * that is not given back, and the short cuts (equal ranks as one, jumps over repeated steps) change nothing. */
#include "closed-forms.h"
#include "psi-account.h"
#include "psi-run.h"
#include "settings-flags.h"
#include "simulate-plan.h"
#include "step.h"

static const char *const plans[] = { "single", "accumulate", "cdp-single", "dp",       "cdp-v1",
                                     "cdp-v2", "tp",         "dp+tp",      "mp",       "dp+mp",
                                     "cdp+mp", "cdp+pp",     "gpipe",      "1f1b",     "interleaved",
                                     "zero-1", "zero-2",     "zero-3",     "cdp-zero", "parameter-server" };

/* Models and machines: free links, slow links, a real transformer. */
static const char *const places[] = {
  "model=uniform psi_p=40MB psi_a=48MB psi_int=1MB forward=1ms backward=2ms",
  "model=uniform machine=a100 psi_p=40MB psi_a=48MB psi_int=1MB forward=1ms backward=2ms optimizer=adam",
  "model=gpt2 machine=a100 micro_batch=2",
};

/* A grid of N, K and m; `interleaved` needs K a multiple of 2. */
typedef void (*Check) (const char *flags);

static void
for_all (Check check, gboolean small)
{
  static const struct
  {
    guint n, k, m;
  } sizes[] = { { 2, 4, 2 }, { 3, 3, 1 }, { 4, 4, 4 }, { 5, 2, 3 }, { 4, 6, 8 } };

  for (guint place = 0; place < G_N_ELEMENTS (places); place++)
    for (guint p = 0; p < G_N_ELEMENTS (plans); p++)
      for (guint s = small ? 2 : 0; s < (small ? 4 : G_N_ELEMENTS (sizes)); s++)
        {
          guint more = strcmp (plans[p], "interleaved") != 0 ? 0 : sizes[s].k == 2 ? 2 : sizes[s].k % 2;
          g_autofree char *flags = g_strdup_printf ("%s plan=%s workers=%u stages=%u micro_batches=%u%s", places[place],
                                                    plans[p], sizes[s].n, sizes[s].k + more, sizes[s].m,
                                                    sizes[s].k > 4 && place < 2 ? " slow_rank=1:1.5" : "");

          if (strstr (flags, "slow_rank") != NULL &&
              (strstr (plans[p], "single") != NULL || strcmp (plans[p], "accumulate") == 0 || plans[p][0] == 'c'))
            continue; /* there is no rank 1, or ranks are not one GPU each */
          check (flags);
        }
}

static void
check_sums (const char *flags)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "%s", flags);
  const PsiPlanReport *plan = plan_of (report);
  gint64 by_kind = 0, sent = 0, main_compute = 0;
  double bubble = 0;
  guint gpus = 0;

  g_assert_cmpint (plan->step_time_ps, >, 0);
  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *rank = rank_of (plan, i);
      gint64 time = 0, memory = 0, exposed = 0;

      for (guint t = 0; t < PSI_N_TIME; t++)
        {
          g_assert_cmpint (rank->time_ps[t], >=, 0);
          time += rank->time_ps[t];
        }
      for (guint c = 0; c < PSI_N_MEMORY; c++)
        {
          g_assert_cmpint (rank->at_peak[c], >=, 0);
          memory += rank->at_peak[c];
        }
      for (guint t = 0; t < PSI_N_TRAFFIC; t++)
        exposed += rank->exposed_ps[t];
      g_assert_cmpint (time, ==, plan->step_time_ps);
      g_assert_cmpint (memory, ==, rank->peak_bytes);
      g_assert_cmpint (ABS (exposed - rank->time_ps[PSI_TIME_EXPOSED_COMM]), <=, PSI_N_TRAFFIC);
      g_assert_cmpint (rank->peak_bytes, >=, rank->steady_bytes);
      g_assert_cmpint (rank->reserved_bytes, >=, rank->peak_bytes);
      g_assert_cmpint (rank->device_bytes, ==, rank->reserved_bytes + rank->overhead_bytes);
      g_assert_cmpint (rank->activations_peak_bytes, >=, rank->at_peak[PSI_MEMORY_ACTIVATIONS]);
      g_assert_cmpint (rank->peak_at_ps, >=, 0);
      g_assert_cmpint (rank->peak_at_ps, <, plan->step_time_ps);
      g_assert_cmpint (rank->sent_bytes, <=, plan->per_gpu_max_bytes);
      main_compute = MAX (main_compute, rank->time_ps[PSI_TIME_COMPUTE]);
      bubble += (double) rank->time_ps[PSI_TIME_BUBBLE] * rank->count;
      sent += rank->sent_bytes * rank->count;
      gpus += rank->count;
    }
  g_assert_cmpuint (gpus, ==, plan->gpus);
  g_assert_cmpint (rank_of (plan, plan->main_rank)->time_ps[PSI_TIME_COMPUTE], ==, main_compute);
  g_assert_cmpfloat (fabs (plan->bubble_fraction - bubble / gpus / (double) plan->step_time_ps), <=, 1e-12);
  for (guint t = 0; t < PSI_N_TRAFFIC; t++)
    by_kind += plan->by_kind[t];
  g_assert_cmpint (by_kind, ==, plan->total_bytes);
  g_assert_cmpint (ABS (sent - plan->total_bytes), <=, gpus * gpus); /* a pool's mean is rounded down */
  g_assert_cmpint (plan->activation_total_peak_bytes, >=, (gint64) plan->activation_total_mean_bytes);
}

static void
test_sums (void)
{
  for_all (check_sums, FALSE);
}

/* One step of the programs themselves. */
typedef struct
{
  PsiMachine *machine;
  PsiModelSource *source;
  PsiPlan *plan;
  PsiStep *step;
} Built;

static void
built_clear (Built *built)
{
  psi_step_free (built->step);
  psi_plan_free (built->plan);
  psi_model_source_free (built->source);
  psi_machine_free (built->machine);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Built, built_clear)

static void
build (const PsiSettings *settings, Built *ret_built)
{
  g_autoptr (GError) error = NULL;

  ret_built->machine = psi_simulate_machine (settings, &error);
  g_assert_no_error (error);
  ret_built->source = psi_model_source_load (settings, &error);
  g_assert_no_error (error);
  ret_built->plan = psi_plan_resolve (settings, ret_built->source, ret_built->machine->gpus_per_node, &error);
  g_assert_no_error (error);
  ret_built->step = psi_step_new (ret_built->plan, ret_built->machine, ret_built->source, settings, &error);
  g_assert_no_error (error);
}

/* Bytes that went through each channel, by its port; communicators are not looked at. */
static void
add_messages (const PsiWorld *world, PsiRankId id, gint64 *sent, gint64 *received)
{
  const PsiRank *rank = psi_world_rank (world, id);

  for (guint s = 0; s < rank->program->n_streams; s++)
    for (guint i = 0; i < rank->program->streams[s]->len; i++)
      {
        const PsiOp *op = &g_array_index (rank->program->streams[s], PsiOp, i);

        if (op->kind != PSI_OP_SEND && op->kind != PSI_OP_RECV)
          continue;
        PsiPortId port = g_array_index (rank->ports, PsiPortId, op->slot);
        gint64 bytes = g_array_index (world->transfers, PsiTransfer, op->transfer).bytes;
        *(op->kind == PSI_OP_SEND ? &sent[port] : &received[port]) += bytes + 1; /* and one for the message itself */
      }
}

static void
check_programs (const char *flags)
{
  g_autoptr (PsiSettings) settings = settings_of (flags);
  g_autoptr (GError) error = NULL;
  g_auto (Built) built = { NULL };
  PsiRunOptions options = { 0 };

  g_test_message ("%s", flags);
  build (settings, &built);
  const PsiWorld *world = built.step->world;
  g_autoptr (PsiRun) run = psi_run (built.step->world, &options, &error);
  g_assert_no_error (error);
  /* On shared links a step may repeat only after several, to the picosecond; on free links it repeats at once. */
  g_assert_true (run->periodic || strstr (flags, "machine=") != NULL);
  g_autofree gint64 *sent = g_new0 (gint64, world->ports->len + 1), *received = g_new0 (gint64, world->ports->len + 1);

  for (guint r = 0; r < built.step->n_ranks; r++)
    {
      const PsiStepRank *rank = &built.step->ranks[r];
      g_autoptr (GArray) events = g_array_new (FALSE, FALSE, sizeof (PsiLevelEvent));
      g_autoptr (GArray) curve = g_array_new (FALSE, FALSE, sizeof (PsiLevelPoint));
      gint64 sums[PSI_MAX_CLASSES] = { 0 };
      PsiTimeSplit split;
      PsiLevels levels;

      /* A period gives back what it takes, in every class. */
      psi_account_memory_events (world, run, rank->id, 1, events);
      for (guint i = 0; i < events->len; i++)
        sums[g_array_index (events, PsiLevelEvent, i).level] += g_array_index (events, PsiLevelEvent, i).bytes;
      for (guint c = 0; c < PSI_MAX_CLASSES; c++)
        g_assert_cmpint (sums[c], ==, 0);
      /* No level is ever below nothing. */
      psi_account_levels (events, run->period_ps, 0, rank->base, FALSE, &levels, curve);
      for (guint i = 0; i < curve->len; i++)
        for (guint c = 0; c < PSI_MAX_CLASSES; c++)
          g_assert_cmpint (g_array_index (curve, PsiLevelPoint, i).bytes[c], >=, 0);
      /* A stream is never busier than the period. */
      psi_account_time (world, run, rank->id, &split);
      PsiTime busy_ps = 0, all_ps = split.still_ps;
      for (guint t = 0; t < PSI_MAX_TAGS; t++)
        {
          busy_ps += split.busy_ps[t];
          all_ps += split.busy_ps[t] + split.moving_ps[t];
        }
      g_assert_cmpint (busy_ps, <=, run->period_ps);
      g_assert_cmpint (all_ps, ==, run->period_ps);
      add_messages (world, rank->id, sent, received);
    }
  for (guint port = 0; port < world->ports->len; port++)
    g_assert_cmpint (sent[port], ==, received[port]);
}

static void
test_programs (void)
{
  for_all (check_programs, FALSE);
}

static void check_short_cuts (const char *flags);

/* What is taken in one place and given back in another: copies that stay gathered, whole gradients, offloaded layers,
 * split vocabularies, adapters. */
static void
test_memory (void)
{
  static const char *const models[] = { "model=gpt2", "model=t5-11b decoder_sequence=64",
                                        "model=llama-2-7b lora_rank=8 lora_base=nf4", "model=mixtral-8x7b" };
  static const char *const ways[] = { "zero=3 dp=2 framework=torchtitan micro_batches=2",
                                      "zero=3 dp=2 pp=2 framework=torchtitan micro_batches=4",
                                      "zero=3 dp=2 pp=2 schedule=zb-h1 micro_batches=4",
                                      "zero=3 dp=2 pp=2 schedule=interleaved micro_batches=4",
                                      "zero=3 dp=2 pp=2 schedule=zb-v micro_batches=4 framework=composer",
                                      "zero=2 dp=4 recompute=full",
                                      "zero=3 dp=2 pp=2 shard_group=1 micro_batches=2",
                                      "pp=2 micro_batches=4 vocab_parallel=vocab-1 framework=megatron",
                                      "pp=4 tp=2 dp=2 micro_batches=8 vocab_parallel=interlaced",
                                      "dp=2 offload=activations offload_layers=3 recompute=selective",
                                      "dp=2 zero=3 offload=parameters" };

  for (guint m = 0; m < G_N_ELEMENTS (models); m++)
    for (guint w = 0; w < G_N_ELEMENTS (ways); w++)
      {
        g_autofree char *flags = g_strdup_printf ("%s machine=a100 sequence=128 %s", models[m], ways[w]);

        check_programs (flags);
        check_short_cuts (flags);
      }
}

static void
check_short_cuts (const char *flags)
{
  static const char *const ways[] = { "collapse=no", "jump=no" };
  g_autoptr (PsiReport) report = run_flags (FALSE, "%s", flags);
  const PsiPlanReport *a = plan_of (report);

  for (guint w = 0; w < G_N_ELEMENTS (ways); w++)
    {
      g_autoptr (PsiReport) other = run_flags (FALSE, "%s %s", flags, ways[w]);
      const PsiPlanReport *b = plan_of (other);

      g_assert_cmpint (a->step_time_ps, ==, b->step_time_ps);
      g_assert_cmpint (a->peak_bytes, ==, b->peak_bytes);
      g_assert_cmpint (a->device_bytes, ==, b->device_bytes);
      g_assert_cmpint (a->activation_total_peak_bytes, ==, b->activation_total_peak_bytes);
      g_assert_cmpint (a->total_bytes, ==, b->total_bytes);
      for (guint t = 0; t < PSI_N_TRAFFIC; t++)
        g_assert_cmpint (a->by_kind[t], ==, b->by_kind[t]);
      g_assert_cmpuint (a->sequential_steps, ==, b->sequential_steps);
      g_assert_cmpint (a->concurrent_peak_bytes, ==, b->concurrent_peak_bytes);
      g_assert_cmpuint (a->digest, ==, b->digest);
      g_assert_true (a->bubble_fraction == b->bubble_fraction);
      g_assert_true (a->hfu == b->hfu || (isnan (a->hfu) && isnan (b->hfu)));
    }
}

static void
test_short_cuts (void)
{
  for_all (check_short_cuts, TRUE);
  check_short_cuts ("model=llama-2-7b machine=host plan=v-min pp=4 dp=4 micro_batch=4 partition=flops");
  check_short_cuts ("model=mistral-7b machine=host tp=4 dp=8 micro_batches=16 recompute=full");
  /* Groups of three steps repeat for a while, then others. */
  check_short_cuts ("model=uniform psi_p=0 psi_int=10MiB stages=5 machine=rtx-3090 plan=cdp+pp dp=8 gpus_per_node=3 "
                    "micro_batches=64");
  /* The second GPU of a node reaches its copy over the network too. */
  check_short_cuts ("model=uniform machine=host plan=dualpipe tp=2 pp=2 micro_batches=4");
  check_short_cuts ("model=mistral-7b machine=host plan=v-half tp=4 dp=8 micro_batches=16 grad_clip=no");
}

/* As many GPUs, each by itself, as people rent at once; and those that lie differently on their nodes, which the report
 * says when there are too many to follow. */
static void
test_large (void)
{
  const char *unlike = "model=uniform machine=a100 tp=2 pp=3 group_order=tp,pp,dp,cp,ep micro_batches=3";
  g_autoptr (PsiReport) near = run_flags (FALSE, "%s dp=600", unlike);
  g_autoptr (PsiReport) far = run_flags (FALSE, "%s dp=700", unlike);

  g_assert_cmpuint (plan_of (near)->warnings->len, ==, 0);
  g_assert_cmpuint (plan_of (far)->warnings->len, ==, 1);
  if (g_test_thorough ())
    check_short_cuts ("model=gpt3-175b machine=h100 layers=128 tp=8 pp=16 dp=128 micro_batches=16");
}

/* More work takes longer, a faster link does not slow down, and a run repeats itself. */
static void
test_order (void)
{
  for (guint p = 0; p < G_N_ELEMENTS (plans); p++)
    {
      const char *rest =
          "model=uniform machine=a100 psi_p=400MB psi_a=48MB psi_int=8MB workers=4 stages=4 gpus_per_node=1";
      g_autoptr (PsiReport) report = run_flags (FALSE, "%s plan=%s internode=10GB/s", rest, plans[p]);
      g_autoptr (PsiReport) again = run_flags (FALSE, "%s plan=%s internode=10GB/s", rest, plans[p]);
      g_autoptr (PsiReport) faster = run_flags (FALSE, "%s plan=%s internode=40GB/s", rest, plans[p]);
      g_autoptr (PsiReport) longer = run_flags (FALSE, "%s plan=%s internode=10GB/s backward=4ms", rest, plans[p]);

      g_assert_cmpuint (plan_of (report)->digest, ==, plan_of (again)->digest);
      g_assert_cmpint (plan_of (faster)->step_time_ps, <=, plan_of (report)->step_time_ps);
      g_assert_cmpint (plan_of (longer)->step_time_ps, >=, plan_of (report)->step_time_ps);
      g_assert_cmpint (plan_of (faster)->total_bytes, ==, plan_of (report)->total_bytes);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/invariants/sums", test_sums);
  g_test_add_func ("/model/invariants/programs", test_programs);
  g_test_add_func ("/model/invariants/memory", test_memory);
  g_test_add_func ("/model/invariants/short-cuts", test_short_cuts);
  g_test_add_func ("/model/invariants/order", test_order);
  g_test_add_func ("/model/invariants/large", test_large);
  return g_test_run ();
}
