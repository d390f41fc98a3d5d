/* SPDX-License-Identifier: MIT */
/* How degrees and batches are resolved: what is written, then the strategy's presets, then the rules of the manual;
 * and which combinations are refused, with which words. */
#include "plan.h"
#include "settings-flags.h"

static PsiPlan *
resolve (const char *flags, GError **error)
{
  g_autoptr (PsiSettings) settings = settings_of (flags);
  g_autoptr (PsiModelSource) source = psi_model_source_load (settings, error);

  return source != NULL ? psi_plan_resolve (settings, source, 8, error) : NULL;
}

/* gpus 0: known only with the schedule (workers share the GPUs of a stage). */
static const struct
{
  const char *flags;
  guint dp, tp, pp, stages, gpus;
  gint64 micro_batches;
} resolved[] = {
  /* Nothing written. */
  { "model=uniform", 1, 1, 1, 4, 1, 1 },
  { "model=gpt2", 1, 1, 1, 1, 1, 1 },
  /* No plan: dp from gpus, schedule from pp. */
  { "model=gpt2 gpus=8", 8, 1, 1, 1, 8, 1 },
  { "model=gpt2 gpus=8 tp=2", 4, 2, 1, 1, 8, 1 },
  { "model=gpt2 gpus=8 tp=2 pp=2", 2, 2, 2, 2, 8, 1 },
  { "model=gpt2 pp=4 global_batch=16", 1, 1, 4, 4, 4, 16 },
  { "model=gpt2 dp=2 pp=4 vpp=3 schedule=interleaved micro_batches=8", 2, 1, 4, 12, 8, 8 },
  /* N workers. */
  { "model=uniform plan=dp", 4, 1, 1, 4, 4, 1 },
  { "model=uniform plan=dp workers=3", 3, 1, 1, 3, 3, 1 },
  { "model=uniform plan=dp gpus=6", 6, 1, 1, 6, 6, 1 },
  { "model=uniform plan=dp stages=5", 5, 1, 1, 5, 5, 1 },
  { "model=uniform plan=dp workers=3 stages=5", 3, 1, 1, 5, 3, 1 },
  { "model=gpt2 plan=dp gpus=8 micro_batch=2 global_batch=64", 8, 1, 1, 1, 8, 4 },
  { "model=gpt2 plan=ddp gpus=8", 8, 1, 1, 1, 8, 1 },
  { "model=gpt2 plan=zero-3 gpus=8 tp=4", 2, 4, 1, 1, 8, 1 },
  { "model=gpt2 plan=fsdp gpus=16", 16, 1, 1, 1, 16, 1 },
  { "model=gpt2 plan=parameter-server workers=10", 10, 1, 1, 1, 10, 1 },
  /* workers only where the dp column is N; dp everywhere. */
  { "model=uniform plan=mp workers=3 stages=4", 1, 1, 4, 4, 4, 4 },
  { "model=uniform plan=mp dp=3 stages=4", 3, 1, 4, 4, 12, 4 },
  { "model=uniform plan=dp dp=2 workers=3", 2, 1, 1, 2, 2, 1 },
  /* One GPU. */
  { "model=uniform plan=single workers=5", 5, 1, 1, 5, 1, 1 },
  { "model=uniform plan=cdp-single workers=5", 5, 1, 1, 5, 1, 1 },
  { "model=uniform plan=cdp-single workers=5 stages=3", 5, 1, 1, 3, 1, 1 },
  { "model=uniform plan=accumulate", 1, 1, 1, 4, 1, 4 },
  { "model=uniform plan=accumulate stages=6", 1, 1, 1, 6, 1, 6 },
  { "model=gpt2 plan=accumulate micro_batches=10", 1, 1, 1, 1, 1, 10 },
  { "model=gpt2 plan=accumulate global_batch=32 micro_batch=4", 1, 1, 1, 1, 1, 8 },
  /* Pipelines: pp from gpus, else stages, else 4. */
  { "model=uniform plan=1f1b", 1, 1, 4, 4, 4, 4 },
  { "model=uniform plan=1f1b gpus=6", 1, 1, 6, 6, 6, 6 },
  { "model=uniform plan=1f1b gpus=6 dp=2", 2, 1, 3, 3, 6, 3 },
  { "model=gpt2 plan=1f1b gpus=12 tp=3 dp=2", 2, 3, 2, 2, 12, 2 },
  { "model=uniform plan=gpipe stages=3 micro_batches=9", 1, 1, 3, 3, 3, 9 },
  { "model=uniform plan=gpipe pp=3", 1, 1, 3, 3, 3, 3 },
  { "model=uniform plan=interleaved", 1, 1, 2, 4, 2, 4 },
  { "model=uniform plan=interleaved pp=4 vpp=3", 1, 1, 4, 12, 4, 12 },
  { "model=uniform plan=interleaved stages=12 vpp=3", 1, 1, 4, 12, 4, 12 },
  { "model=uniform plan=interleaved gpus=4", 1, 1, 4, 8, 4, 8 },
  /* Model parallelism. */
  { "model=uniform plan=mp gpus=10", 1, 1, 10, 10, 10, 10 },
  { "model=uniform plan=dp+mp workers=3", 3, 1, 3, 3, 9, 1 },
  { "model=uniform plan=dp+mp workers=3 stages=5", 3, 1, 5, 5, 15, 1 },
  { "model=gpt2 plan=dp+mp gpus=8 stages=4", 2, 1, 4, 4, 8, 1 },
  { "model=gpt2 plan=dp+mp gpus=8 dp=4", 4, 1, 2, 2, 8, 1 },
  { "model=gpt2 plan=rpc-pipeline stages=2", 1, 1, 2, 2, 2, 2 },
  /* Tensor parallelism: gpus / dp, else stages, else 4. */
  { "model=uniform plan=tp", 1, 4, 1, 4, 4, 1 },
  { "model=uniform plan=tp gpus=8", 1, 8, 1, 4, 8, 1 },
  { "model=uniform plan=tp stages=2", 1, 2, 1, 2, 2, 1 },
  { "model=gpt2 plan=dp+tp gpus=8 dp=2", 2, 4, 1, 1, 8, 1 },
  { "model=gpt2 plan=dp+tp gpus=12 tp=3", 4, 3, 1, 1, 12, 1 },
  { "model=gpt2 plan=dp+tp gpus=8 tp=2 workers=4", 4, 2, 1, 1, 8, 1 },
  /* Cyclic plans: K = N for `uniform`, min (N, layers) for real models; N from gpus, else K. */
  { "model=uniform plan=cdp-v2", 4, 1, 1, 4, 4, 1 },
  { "model=uniform plan=cdp-v2 gpus=6", 6, 1, 1, 6, 6, 1 },
  { "model=uniform plan=cdp-v1 workers=8 stages=4", 8, 1, 1, 4, 8, 1 },
  { "model=uniform plan=cdp-v2 stages=6", 6, 1, 1, 6, 6, 1 },
  { "model=gpt2 plan=cdp-v2 workers=4", 4, 1, 1, 4, 4, 1 },
  { "model=gpt2 plan=cdp-v2 gpus=16", 16, 1, 1, 12, 16, 1 },
  { "model=gpt2 plan=cdp-v2 gpus=8 tp=2", 4, 2, 1, 4, 8, 1 },
  { "model=uniform plan=cdp-zero workers=3", 3, 1, 1, 3, 3, 1 },
  { "model=uniform plan=cdp+mp workers=3", 3, 1, 1, 3, 0, 1 },
  { "model=uniform plan=cdp+pp workers=3", 3, 1, 1, 3, 3, 1 },
  { "model=uniform plan=cdp+pp gpus=5", 5, 1, 1, 5, 5, 1 },
  { "model=uniform plan=cdp+pp gpus=5 workers=3", 3, 1, 1, 5, 5, 1 },
  { "model=uniform plan=cdp+pp stages=2 workers=6", 6, 1, 1, 2, 2, 1 },
  /* The batch. */
  { "model=gpt2 plan=dp gpus=4 global_batch=64 micro_batches=4", 4, 1, 1, 1, 4, 4 },
  { "model=gpt2 plan=dp gpus=4 worker_batches=6,2,2,2", 4, 1, 1, 1, 4, 1 },
};

static void
test_degrees (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (resolved); i++)
    {
      g_autoptr (GError) error = NULL;

      g_test_message ("%s", resolved[i].flags);
      g_autoptr (PsiPlan) plan = resolve (resolved[i].flags, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (plan->dp, ==, resolved[i].dp);
      g_assert_cmpuint (plan->tp, ==, resolved[i].tp);
      g_assert_cmpuint (plan->pp, ==, resolved[i].pp);
      g_assert_cmpuint (plan->stages, ==, resolved[i].stages);
      g_assert_cmpuint (plan->gpus, ==, resolved[i].gpus);
      g_assert_cmpint (plan->micro_batches, ==, resolved[i].micro_batches);
    }
}

/* What is refused, and a piece of the words. */
static const struct
{
  const char *flags, *words;
} refused[] = {
  { "model=gpt2 plan=dqp", "unknown plan 'dqp' (did you mean 'dp'?)" },
  { "model=gpt2 gpus=8 tp=3", "--gpus: '8'" },
  { "model=gpt2 gpus=8 dp=3", "--gpus: '8'" },
  { "model=gpt2 plan=1f1b gpus=7 dp=2", "--gpus: '7'" },
  { "model=gpt2 plan=dp+tp gpus=9 dp=2", "--gpus: '9'" },
  { "model=gpt2 plan=dp gpus=8 workers=4", "--gpus: '8' does not equal" },
  { "model=uniform plan=single gpus=2", "--gpus: '2', but this plan runs on 1" },
  { "model=uniform plan=cdp+pp gpus=5 stages=4", "--gpus: '5', but this plan runs on 4" },
  { "model=uniform plan=1f1b pp=4 stages=6", "--stages: '6' does not equal pp x vpp" },
  { "model=uniform plan=interleaved stages=5", "--stages: '5' is not a multiple of vpp" },
  { "model=gpt2 plan=dp gpus=4 micro_batch=3 global_batch=16", "--global_batch: '16' is not a multiple" },
  { "model=gpt2 plan=dp gpus=4 micro_batch=3 micro_batches=2 global_batch=16", "--global_batch: '16' does not equal" },
  { "model=gpt2 plan=dp gpus=4 micro_batches=3 global_batch=16", "--global_batch: '16' is not a multiple" },
  { "model=gpt2 plan=dp gpus=4 worker_batches=6,2,2", "--worker_batches: '3' numbers for dp = 4" },
  { "model=gpt2 plan=dp gpus=4 worker_batches=6,2,2,2 global_batch=16", "--global_batch: '16' is not the sum" },
  { "model=gpt2 plan=1f1b pp=2 worker_batches=6", "--worker_batches: uneven batches need" },
  { "model=uniform plan=dp update=cyclic-v1", "--update: 'cyclic-v1' does not go with schedule 'none'" },
  { "model=uniform plan=cdp-v2 update=synchronous", "--update: 'synchronous' does not go with schedule 'cyclic'" },
  { "model=uniform plan=dp placement=stage", "--placement: 'stage' goes with cyclic schedules only" },
  { "model=uniform plan=dp delay=random", "--delay: 'random' goes with cyclic schedules" },
  { "model=uniform plan=cdp-single delay=random", "--delay: 'random' goes with cyclic schedules, placement separate" },
  { "model=uniform plan=cdp-zero delay=random",
    "--delay: 'random' goes with cyclic schedules, placement separate and" },
  { "model=uniform plan=cdp-v2 grad_clip=yes", "--grad_clip: 'yes' needs all gradients at once" },
  { "model=uniform plan=cdp-v2 pp=2", "--pp: '2' does not go with plan 'cdp-v2'" },
  { "model=uniform plan=cdp-v2 vpp=2", "--vpp: '2' does not go with cyclic schedules" },
  { "model=uniform plan=cdp-v2 zero=1", "--zero: '1' does not go with cyclic plans (allowed: 0, and 3" },
  { "model=uniform plan=cdp-zero placement=stage",
    "--placement: 'stage' does not go with zero 3 of a cyclic plan (allow" },
  { "model=uniform plan=cdp-zero placement=shared", "--placement: 'shared' does not go with zero 3 of a cyclic plan" },
  { "model=uniform plan=cdp-zero update=cyclic-v1", "--update: 'cyclic-v1' does not go with zero 3 of a cyclic plan" },
  { "model=uniform plan=cdp-v1 zero=3", "--zero: '3' needs update cyclic-v2 in a cyclic plan, which plan 'cdp-v1'" },
  { "model=uniform plan=cdp+pp zero=3", "--zero: '3' needs placement separate in a cyclic plan, which plan 'cdp+pp'" },
  { "model=uniform plan=parameter-server zero=1", "--zero: '1' does not go with gradients parameter-server" },
  { "model=uniform plan=1f1b gradients=parameter-server", "--gradients: 'parameter-server' needs" },
  { "model=gpt2 plan=zero-3 gpus=8 shard_group=3", "--shard_group: '3' does not divide" },
  { "model=gpt2 schedule=none pp=2", "--schedule: 'none' does not go with pp = 2" },
  { "model=gpt2 ep=3 dp=2", "--ep: '3' does not divide" },
};

static void
test_refused (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autoptr (GError) error = NULL;

      g_test_message ("%s", refused[i].flags);
      g_autoptr (PsiPlan) plan = resolve (refused[i].flags, &error);
      g_assert_null (plan);
      g_assert_nonnull (error);
      if (strstr (error->message, refused[i].words) == NULL)
        g_error ("%s: '%s' is not in '%s'", refused[i].flags, refused[i].words, error->message);
      g_assert_null (strchr (error->message, '\n'));
    }
}

/* workers where a plan has no N: it resolves as without, and says so. */
static void
test_ignored_workers (void)
{
  static const struct
  {
    const char *flags;
    gboolean ignored;
  } rows[] = {
    { "model=uniform plan=accumulate workers=4", TRUE },    { "model=uniform plan=mp workers=4", TRUE },
    { "model=uniform schedule=1f1b pp=2 workers=4", TRUE }, { "model=uniform plan=dp workers=4", FALSE },
    { "model=uniform plan=cdp+pp workers=4", FALSE },       { "model=uniform plan=accumulate", FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiPlan) plan = resolve (rows[i].flags, &error);
      gboolean said = FALSE;

      g_assert_no_error (error);
      for (guint a = 0; a < plan->assumptions->len; a++)
        said = said || g_str_has_prefix (g_ptr_array_index (plan->assumptions, a), "workers = 4 is ignored: ");
      g_assert_cmpint (said, ==, rows[i].ignored);
      g_assert_cmpuint (plan->dp, ==, rows[i].ignored || i == G_N_ELEMENTS (rows) - 1 ? 1 : 4);
    }
}

/* Presets that a written key overrides. */
static void
test_presets (void)
{
  static const struct
  {
    const char *flags;
    guint zero;
    const char *schedule;
    PsiUpdateRule update;
    PsiPlacement placement;
    gboolean server;
  } rows[] = {
    { "plan=dp", 0, "none", PSI_UPDATE_SYNCHRONOUS, PSI_PLACEMENT_SEPARATE, FALSE },
    { "plan=dp zero=2", 2, "none", PSI_UPDATE_SYNCHRONOUS, PSI_PLACEMENT_SEPARATE, FALSE },
    { "plan=zero-1", 1, "none", PSI_UPDATE_SYNCHRONOUS, PSI_PLACEMENT_SEPARATE, FALSE },
    { "plan=zero-3 zero=1", 1, "none", PSI_UPDATE_SYNCHRONOUS, PSI_PLACEMENT_SEPARATE, FALSE },
    { "plan=cdp-v1", 0, "cyclic", PSI_UPDATE_CYCLIC_V1, PSI_PLACEMENT_SEPARATE, FALSE },
    { "plan=cdp-v1 update=cyclic-v2", 0, "cyclic", PSI_UPDATE_CYCLIC_V2, PSI_PLACEMENT_SEPARATE, FALSE },
    { "schedule=cyclic dp=3", 0, "cyclic", PSI_UPDATE_CYCLIC_V2, PSI_PLACEMENT_SEPARATE, FALSE },
    { "plan=cdp-single", 0, "cyclic", PSI_UPDATE_CYCLIC_V2, PSI_PLACEMENT_SHARED, FALSE },
    { "plan=cdp+mp", 0, "cyclic", PSI_UPDATE_CYCLIC_V2, PSI_PLACEMENT_SHARED, FALSE },
    { "plan=cdp+pp", 0, "cyclic", PSI_UPDATE_CYCLIC_V2, PSI_PLACEMENT_STAGE, FALSE },
    { "plan=cdp-zero", 3, "cyclic", PSI_UPDATE_CYCLIC_V2, PSI_PLACEMENT_SEPARATE, FALSE },
    { "plan=mp", 0, "naive", PSI_UPDATE_SYNCHRONOUS, PSI_PLACEMENT_SEPARATE, FALSE },
    { "plan=mp schedule=gpipe", 0, "gpipe", PSI_UPDATE_SYNCHRONOUS, PSI_PLACEMENT_SEPARATE, FALSE },
    { "plan=parameter-server", 0, "none", PSI_UPDATE_SYNCHRONOUS, PSI_PLACEMENT_SEPARATE, TRUE },
    { "plan=dp gradients=parameter-server", 0, "none", PSI_UPDATE_SYNCHRONOUS, PSI_PLACEMENT_SEPARATE, TRUE },
    { "pp=2", 0, "1f1b", PSI_UPDATE_SYNCHRONOUS, PSI_PLACEMENT_SEPARATE, FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *flags = g_strconcat ("model=uniform ", rows[i].flags, NULL);

      g_test_message ("%s", flags);
      g_autoptr (PsiPlan) plan = resolve (flags, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (plan->zero, ==, rows[i].zero);
      g_assert_cmpstr (plan->schedule->name, ==, rows[i].schedule);
      g_assert_cmpuint (plan->update, ==, rows[i].update);
      g_assert_cmpuint (plan->placement, ==, rows[i].placement);
      g_assert_cmpint (plan->parameter_server, ==, rows[i].server);
    }
}

/* Defaults that differ between the uniform model and real ones. */
static void
test_defaults (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiPlan) uniform = resolve ("model=uniform plan=dp", &error);
  g_assert_no_error (error);
  g_autoptr (PsiPlan) real = resolve ("model=gpt2 plan=dp gpus=2", &error);
  g_assert_no_error (error);
  g_autoptr (PsiPlan) megatron = resolve ("model=gpt2 plan=dp gpus=2 framework=megatron", &error);
  g_assert_no_error (error);
  g_autoptr (PsiPlan) plain = resolve ("model=gpt2 plan=dp gpus=2 precision=fp32 optimizer=sgd", &error);
  g_assert_no_error (error);

  g_assert_cmpfloat (uniform->optimizer_bytes_each, ==, 0);
  g_assert_false (uniform->grad_clip);
  g_assert_true (real->grad_clip);
  g_assert_cmpuint (real->parameter_bytes_each, ==, 2);
  g_assert_cmpuint (real->gradient_bytes_each, ==, 2);
  g_assert_cmpfloat (real->optimizer_bytes_each, ==, 12); /* fp32 copy and two moments */
  g_assert_cmpuint (megatron->gradient_bytes_each, ==, 4);
  g_assert_cmpuint (plain->parameter_bytes_each, ==, 4);
  g_assert_cmpfloat (plain->optimizer_bytes_each, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plan/resolve/degrees", test_degrees);
  g_test_add_func ("/plan/resolve/refused", test_refused);
  g_test_add_func ("/plan/resolve/ignored-workers", test_ignored_workers);
  g_test_add_func ("/plan/resolve/presets", test_presets);
  g_test_add_func ("/plan/resolve/defaults", test_defaults);
  return g_test_run ();
}
