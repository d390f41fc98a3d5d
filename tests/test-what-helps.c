/* SPDX-License-Identifier: MIT */
/* Rates, degrees and the single GPU against closed forms and against simulating them by hand. */
#include "closed-forms.h"
#include "settings-flags.h"
#include "simulate-plan.h"
#include "what-helps.h"

static PsiPlanReport *
simulate (const PsiSettings *settings)
{
  const PsiSimulateOptions options = { .curves = FALSE };
  g_autoptr (GError) error = NULL;
  PsiPlanReport *plan = psi_simulate_plan ("plan", settings, &options, NULL, &error);

  g_assert_no_error (error);
  return plan;
}

static PsiPlanReport *
helped (const char *flags)
{
  g_autoptr (PsiSettings) settings = settings_of (flags);
  PsiPlanReport *plan = simulate (settings);

  psi_what_helps (settings, plan);
  return plan;
}

/* The plan with a network of that rate. */
static double
step_at_s (const char *flags, double bytes_per_s)
{
  g_autofree char *whole = g_strdup_printf ("%s internode=%.0f", flags, bytes_per_s);
  g_autoptr (PsiSettings) settings = settings_of (whole);
  g_autoptr (PsiPlanReport) plan = simulate (settings);

  return (double) plan->step_time_ps * 1e-12;
}

/* Gradients that wait for the backward: the step is C + V / (B e), V = 2 (n - 1) / n Psi_P. It takes twice C where the
 * all-reduce takes as long as the compute, B = V / (C e), and a tenth more at about ten times that rate. The slow
 * approach to the full rate counts for more on faster links. */
static void
test_rate (void)
{
  static const char flags[] = "model=uniform machine=a100 gpus_per_node=1 plan=dp workers=8 stages=4 psi_p=4GB "
                              "forward=10ms backward=20ms overlap_grads=no";
  g_autoptr (PsiPlanReport) plan = helped (flags);
  g_autoptr (PsiMachine) machine = psi_machine_load ("a100", NULL);
  double closed = 2 * 7.0 / 8 * 4e9 / 0.12 / machine->inter.efficiency;

  g_assert_cmpuint (plan->what_helps->links->len, ==, 1);
  const PsiLinkHelp *link = &g_array_index (plan->what_helps->links, PsiLinkHelp, 0);
  g_assert_true (link->between_nodes);
  g_assert_cmpfloat (link->bytes_per_s, ==, 25e9);
  g_assert_cmpfloat_with_epsilon (link->unlimited_step_s, 0.12, 0.12 * 0.03); /* round trips stay */
  g_assert_cmpfloat_with_epsilon (link->twice_bytes_per_s / closed, 1, 0.05);
  g_assert_cmpfloat_with_epsilon (link->tenth_bytes_per_s / closed, 10, 1.5);
  /* Just there the step takes that long. */
  g_assert_cmpfloat_with_epsilon (step_at_s (flags, link->twice_bytes_per_s) / link->unlimited_step_s, 2, 0.02);
  g_assert_cmpfloat_with_epsilon (step_at_s (flags, link->tenth_bytes_per_s) / link->unlimited_step_s, 1.1, 0.005);
}

/* A tier that nothing is sent over has no such rate, and links that take no time need none. */
static void
test_unused (void)
{
  g_autoptr (PsiPlanReport) ideal = helped ("model=uniform plan=dp workers=4 stages=4");
  g_autoptr (PsiPlanReport) alone = helped ("model=gpt2 machine=a100 plan=accumulate");
  g_autoptr (PsiPlanReport) quiet = helped ("model=uniform machine=a100 gpus=16 tp=8 dp=2 psi_p=0 psi_int=1MB "
                                            "stages=4");

  g_assert_cmpuint (ideal->what_helps->links->len, ==, 0);
  g_assert_cmpuint (alone->what_helps->links->len, ==, 0);
  g_assert_cmpuint (quiet->what_helps->links->len, ==, 2);
  g_assert_false (isnan (g_array_index (quiet->what_helps->links, PsiLinkHelp, 0).twice_bytes_per_s));
  g_assert_true (isnan (g_array_index (quiet->what_helps->links, PsiLinkHelp, 1).twice_bytes_per_s));
}

static void
apply (PsiSettings *settings, const char *set)
{
  g_auto (GStrv) words = g_strsplit (set, " ", -1);

  for (char **word = words; *word != NULL; word++)
    {
      g_auto (GStrv) sides = g_strsplit (*word, "=", 2);

      g_assert_true (psi_settings_set (settings, (PsiKeyId) psi_key_find (sides[0]), sides[1], "test", NULL));
    }
}

/* Every row is what its keys give; on the same GPUs a step has the same samples. */
static void
test_degrees (void)
{
  static const struct
  {
    const char *flags, *sets;
  } cases[] = {
    { "model=llama-2-7b machine=a100 gpus=16 dp=4 tp=2 pp=2 micro_batches=4",
      "dp=8 gpus=32;dp=2 gpus=8;tp=4 dp=2 micro_batches=8;tp=1 dp=8 micro_batches=2;pp=4 dp=2 micro_batches=8;"
      "pp=1 dp=8 micro_batches=2;cp=2 dp=2 micro_batches=8" },
    { "model=llama-2-7b machine=a100 plan=dp dp=1 tp=2 global_batch=16",
      "dp=2 global_batch=32;tp=4 dp=1;tp=1 dp=2;cp=2 dp=1" },
    { "model=mixtral-8x7b machine=h100 gpus=32 dp=8 pp=4 ep=4 global_batch=64",
      "dp=16 gpus=64 global_batch=128;dp=4 gpus=16 global_batch=32;tp=2 dp=4;pp=8 dp=4;pp=2 dp=16;cp=2 dp=4;ep=8;"
      "ep=2" },
    /* Three nodes become six or two, not one and a half. */
    { "model=gpt2 machine=a100 gpus=24 dp=24",
      "dp=48 gpus=48;dp=16 gpus=16;tp=2 dp=12 micro_batches=2;pp=2 dp=12 micro_batches=2;cp=2 dp=12 micro_batches=2" },
    /* As many as there may be: no more of them are tried. */
    { "model=gpt2 machine=a100 dp=1048576",
      "dp=524288;tp=2 dp=524288 micro_batches=2;pp=2 dp=524288 micro_batches=2;cp=2 dp=524288 micro_batches=2" },
    /* Three of a node become four; half of three is none. */
    { "model=gpt2 machine=a100 gpus=3 dp=3",
      "dp=4 gpus=4;dp=2 gpus=2;tp=3 dp=1 micro_batches=3;pp=3 dp=1 micro_batches=3;cp=2 dp=3 gpus=6" },
  };

  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      g_autoptr (PsiSettings) settings = settings_of (cases[c].flags);
      g_autoptr (PsiPlanReport) plan = helped (cases[c].flags);
      g_autoptr (GString) sets = g_string_new (NULL);

      for (guint i = 0; i < plan->what_helps->degrees->len; i++)
        {
          const PsiDegreeHelp *row = &g_array_index (plan->what_helps->degrees, PsiDegreeHelp, i);
          g_autoptr (PsiSettings) changed = psi_settings_copy (settings);

          g_string_append_printf (sets, "%s%s", i > 0 ? ";" : "", row->set);
          apply (changed, row->set);
          g_autoptr (PsiPlanReport) tried = simulate (changed);
          g_assert_cmpint (row->step_time_ps, ==, tried->step_time_ps);
          g_assert_cmpint (row->peak_bytes, ==, tried->peak_bytes);
          g_assert_cmpuint (row->gpus, ==, tried->gpus);
          g_assert_cmpuint (row->verdict, ==, tried->verdict);
          g_assert_cmpfloat (row->samples_per_s, ==, tried->samples_per_s);
          if (row->gpus == plan->gpus)
            g_assert_cmpfloat_with_epsilon (row->samples_per_s * (double) row->step_time_ps /
                                                (plan->samples_per_s * (double) plan->step_time_ps),
                                            1, 1e-9);
        }
      g_assert_cmpstr (sets->str, ==, cases[c].sets);
    }
}

/* N workers that need no links do N times the work of one. */
static void
test_one_gpu (void)
{
  g_autoptr (PsiPlanReport) plan = helped ("model=uniform plan=dp workers=6 stages=4 micro_batches=2");

  g_assert_true (plan->what_helps->one_gpu_fits);
  g_assert_cmpfloat_with_epsilon (plan->samples_per_s / plan->what_helps->one_gpu_samples_per_s, 6, 1e-9);
}

static void
test_slower (void)
{
  static const struct
  {
    const char *flags;
    const char *warning; /* NULL: none */
  } cases[] = {
    { "model=gpt2-xl machine=a100 plan=dp gpus=16 gpus_per_node=4 internode=100MB/s",
      "slower than one GPU: 16 GPUs do 1." },
    { "model=gpt2-xl machine=a100 plan=dp gpus=16 gpus_per_node=4", NULL },
    /* As fast as one, bytes on links aside. */
    { "model=uniform plan=mp stages=4", NULL },
    { "model=uniform machine=a100 plan=mp stages=4 psi_int=1GB", "slower than one GPU: 4 GPUs do " },
    { "model=llama-2-70b machine=a100 plan=mp pp=8", NULL }, /* one does not have the memory */
    /* Keys that have to do with many GPUs do not go along to one. */
    { "model=gpt2-xl machine=a100 pp=4 vocab_parallel=vocab-1 gpus_per_node=1 internode=10MB/s",
      "slower than one GPU: 4 " },
    { "model=gpt2-xl machine=a100 pp=4 schedule=auto in_flight=2 gpus_per_node=1 internode=10MB/s",
      "slower than one GPU: 4 " },
    { "model=gpt2 machine=a100 plan=accumulate", NULL },
  };

  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      g_autoptr (PsiSettings) settings = settings_of (cases[c].flags);
      g_autoptr (PsiPlanReport) plan = simulate (settings);

      psi_warn_if_slower_than_one (settings, plan);
      g_test_message ("%s", cases[c].flags);
      g_assert_cmpuint (plan->warnings->len, ==, cases[c].warning != NULL);
      if (cases[c].warning != NULL)
        g_assert_true (g_str_has_prefix (plan->warnings->pdata[0], cases[c].warning));
    }
}

/* A plan that its host holds up is tried with recorded kernels, and without checks of collectives if it has them;
 * others are not, nor where they are recorded already. */
static void
test_host (void)
{
  static const struct
  {
    const char *flags;
    guint graphs, checks;
  } cases[] = {
    { "model=gpt2 machine=a100 sequence=64 framework=megatron", 2, 0 },
    { "model=gpt2 machine=a100 sequence=64 framework=megatron tp=2 collective_checks=yes", 2, 1 },
    { "model=gpt2 machine=a100 sequence=64 framework=megatron cuda_graphs=yes", 0, 0 },
    { "model=gpt2 machine=a100 sequence=64 zero=3 dp=2", 1, 0 }, /* layer by layer does not go with zero 3 */
    { "model=llama-2-7b machine=a100 tp=4 micro_batch=4 framework=megatron", 0, 0 },
  };

  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      g_autoptr (PsiPlanReport) plan = helped (cases[c].flags);
      guint graphs = 0, checks = 0;

      for (guint i = 0; i < plan->what_helps->degrees->len; i++)
        {
          const PsiDegreeHelp *row = &g_array_index (plan->what_helps->degrees, PsiDegreeHelp, i);

          gboolean is_graphs = g_str_has_prefix (row->set, "cuda_graphs=");
          gboolean is_checks = strcmp (row->set, "collective_checks=no") == 0;

          graphs += is_graphs;
          checks += is_checks;
          if (is_graphs)
            g_assert_cmpint (row->step_time_ps, <, plan->step_time_ps - plan->host_wait_ps / 2);
          if (is_checks)
            g_assert_cmpint (row->step_time_ps, <, plan->step_time_ps);
        }
      g_test_message ("%s", cases[c].flags);
      g_assert_cmpuint (graphs, ==, cases[c].graphs);
      g_assert_cmpuint (checks, ==, cases[c].checks);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sim/what-helps/rate", test_rate);
  g_test_add_func ("/sim/what-helps/unused", test_unused);
  g_test_add_func ("/sim/what-helps/degrees", test_degrees);
  g_test_add_func ("/sim/what-helps/one-gpu", test_one_gpu);
  g_test_add_func ("/sim/what-helps/slower", test_slower);
  g_test_add_func ("/sim/what-helps/host", test_host);
  return g_test_run ();
}
