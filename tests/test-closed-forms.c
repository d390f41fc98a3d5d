/* SPDX-License-Identifier: MIT */
/* The resources of data parallelism and of cyclic data parallelism, strategy by strategy (Fournier and Oyallon, arXiv
 * 2403.08837): GPUs, activations, parameters, messages and delay in closed form for N workers, K equal stages and any
 * ratio of forward to backward time.
 *
 *   P, A, I   bytes of one copy of the parameters, of one micro-batch's activations, of one boundary tensor */
#include "closed-forms.h"

#define UNIT_BYTES 5040 /* divisible by 2 .. 10, so that shares are whole */
#define BOUNDARY_BYTES 1000

/* One row of the table as counts of a stage's bytes, P / N and A / N; 0 steps: nothing is sent. */
typedef struct
{
  const char *plan;
  /* of N */
  double (*gpus) (double n);
  double (*activations_max) (double n);   /* A on the fullest GPU */
  double (*activations_mean) (double n);  /* A per GPU */
  double (*activations_total) (double n); /* A */
  double (*parameters) (double n);        /* P per GPU at rest, largest */
  double (*sent) (double n);              /* P */
  double (*boundary) (double n);          /* I */
  double (*steps) (double n);
  double (*delay) (double n);
  gboolean constant; /* activations of all GPUs together never change */
} Row;

static double
none (double n)
{
  return 0;
}
static double
one (double n)
{
  return 1;
}
static double
all (double n)
{
  return n;
}
static double
square (double n)
{
  return n * n;
}
static double
inverse (double n)
{
  return 1 / n;
}
static double
triangle (double n)
{
  return n * (n + 1) / 2;
}
static double
cyclic (double n)
{
  return (n + 1) / 2;
}
static double
cyclic_share (double n)
{
  return (n + 1) / 2 / n;
}
/* One GPU frees a backward before the forward of the same slot takes: one stage less than the N + 1 half stages. */
static double
one_gpu (double n)
{
  return fmod (n, 2) == 0 ? n / 2 : n / 2 + 1 / (2 * n);
}
static double
two_versions (double n)
{
  return (2 * n - 1) / n;
}
static double
two_shares (double n)
{
  return 2 / n;
}
static double
ring (double n)
{
  return 2 * (n - 1);
}
static double
half_ring (double n)
{
  return n - 1;
}
static double
sharded (double n)
{
  return 3 * (n - 1);
}
static double
travelling (double n)
{
  return 3 * (n - 1) + (n - 1) / n;
}
static double
boundaries (double n)
{
  return 2 * n * (n - 1);
}
static double
freshest (double n)
{
  return (n - 1) / (2 * n);
}

static const Row rows[] = {
  { "single", one, all, all, all, one, none, none, none, none, FALSE },
  { "cdp-single", one, one_gpu, one_gpu, one_gpu, two_versions, none, none, none, freshest, FALSE },
  { "dp", all, one, one, all, one, ring, none, ring, none, FALSE },
  { "cdp-v1", all, one, one, cyclic, one, ring, none, one, one, TRUE },
  { "cdp-v2", all, one, one, cyclic, one, ring, none, one, freshest, TRUE },
  { "dp+mp", square, inverse, inverse, all, inverse, ring, boundaries, ring, none, FALSE },
  { "cdp+mp", triangle, inverse, inverse, cyclic, two_shares, half_ring, boundaries, one, freshest, TRUE },
  { "cdp+pp", all, one, cyclic_share, cyclic, two_shares, none, boundaries, one, freshest, TRUE },
  { "zero-3", all, one, one, all, inverse, sharded, none, half_ring, none, FALSE },
  { "cdp-zero", all, one, one, cyclic, NULL, travelling, none, one, freshest, TRUE },
};

static void
check_row (const Row *row, guint n, const char *times, gint64 slot_ps)
{
  gint64 p = (gint64) n * n * UNIT_BYTES, a = (gint64) n * n * UNIT_BYTES;
  g_autoptr (PsiReport) report = run_flags (FALSE,
                                            "model=uniform plan=%s workers=%u stages=%u psi_p=%lld psi_a=%lld "
                                            "psi_int=%d %s",
                                            row->plan, n, n, (long long) p, (long long) a, BOUNDARY_BYTES, times);
  const PsiPlanReport *plan = plan_of (report);
  gint64 max_bytes = 0, sum_bytes = 0, parameter_bytes = 0;
  guint gpus = 0;

  for (guint i = 0; i < plan->ranks->len; i++)
    {
      const PsiRankReport *rank = rank_of (plan, i);

      max_bytes = MAX (max_bytes, rank->activations_peak_bytes);
      sum_bytes += rank->activations_peak_bytes * rank->count;
      parameter_bytes = MAX (parameter_bytes, rank->at_peak[PSI_MEMORY_PARAMETERS]);
      gpus += rank->count;
    }
  g_assert_cmpuint (plan->gpus, ==, (guint) row->gpus (n));
  g_assert_cmpuint (gpus, ==, plan->gpus);
  assert_near (max_bytes, row->activations_max (n) * (double) a);
  assert_near ((double) sum_bytes / gpus, row->activations_mean (n) * (double) a);
  assert_near (plan->activation_total_peak_bytes, row->activations_total (n) * (double) a);
  if (row->constant)
    assert_near (plan->activation_total_mean_bytes, (double) plan->activation_total_peak_bytes);
  if (row->parameters != NULL)
    assert_near (parameter_bytes, row->parameters (n) * (double) p);
  assert_near (plan->by_kind[PSI_TRAFFIC_GRADIENTS] + plan->by_kind[PSI_TRAFFIC_PARAMETERS],
               row->sent (n) * (double) p);
  assert_near (plan->by_kind[PSI_TRAFFIC_BOUNDARY], row->boundary (n) * BOUNDARY_BYTES);
  g_assert_cmpint (plan->total_bytes, ==,
                   plan->by_kind[PSI_TRAFFIC_GRADIENTS] + plan->by_kind[PSI_TRAFFIC_PARAMETERS] +
                       plan->by_kind[PSI_TRAFFIC_BOUNDARY]);
  g_assert_cmpuint (plan->sequential_steps, ==, (guint) row->steps (n));
  assert_near (plan->delay_mean, row->delay (n));
  assert_near (plan->delay_max, row->delay == none ? 0 : 1);
  /* N micro-batches take N slots on N GPUs or more, N times that on one. */
  g_assert_cmpint (plan->step_time_ps, ==, slot_ps * n * (row->gpus == one ? n : 1));
}

static void
test_table (void)
{
  static const struct
  {
    const char *flags;
    gint64 slot_ps;
  } times[] = {
    { "forward=1ms backward=1ms", 2 * MS_PS },
    { "forward=1ms backward=2ms", 3 * MS_PS },
    { "forward=3ms backward=5ms", 8 * MS_PS },
    { "forward=5ms backward=3ms", 8 * MS_PS },
  };

  for (guint n = 2; n <= 16; n++)
    for (guint r = 0; r < G_N_ELEMENTS (rows); r++)
      for (guint t = 0; t < G_N_ELEMENTS (times); t++)
        check_row (&rows[r], n, times[t].flags, times[t].slot_ps);
}

/* The same counts without saying so: defaults of the uniform model, N given once. */
static void
test_defaults (void)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "model=uniform plan=cdp-v2 workers=4");
  const PsiPlanReport *plan = plan_of (report);

  g_assert_cmpint (plan->activation_total_peak_bytes, ==, G_GINT64_CONSTANT (10) << 30);
  g_assert_cmpint (plan->step_time_ps, ==, 12 * MS_PS);
  g_assert_cmpint (plan->capacity_bytes, ==, -1);
  g_assert_cmpint (plan->verdict, ==, PSI_VERDICT_FITS);
}

/* One travelling copy: at no instant do all GPUs together hold more than the two versions that are in use. */
static void
test_travelling_copies (void)
{
  static const char *const times[] = { "forward=1ms backward=1ms", "forward=1ms backward=2ms",
                                       "forward=3ms backward=2ms" };

  for (guint n = 2; n <= 9; n++)
    for (guint t = 0; t < G_N_ELEMENTS (times); t++)
      {
        gint64 p = (gint64) n * UNIT_BYTES;
        g_autoptr (PsiReport) report =
            run_flags (TRUE, "model=uniform plan=cdp-zero workers=%u psi_p=%lld psi_a=%lld %s", n, (long long) p,
                       (long long) p, times[t]);
        const PsiPlanReport *plan = plan_of (report);

        for (guint i = 0; i < plan->ranks->len; i++)
          {
            const GArray *points = rank_of (plan, i)->memory;

            for (guint at = 0; at < points->len; at++)
              {
                gint64 now_ps = g_array_index (points, PsiMemoryPoint, at).time_ps, sum = 0;

                for (guint other = 0; other < plan->ranks->len; other++)
                  {
                    const GArray *curve = rank_of (plan, other)->memory;
                    guint k = 0;

                    while (k + 1 < curve->len && g_array_index (curve, PsiMemoryPoint, k + 1).time_ps <= now_ps)
                      k++;
                    sum += g_array_index (curve, PsiMemoryPoint, k).bytes[PSI_MEMORY_PARAMETERS];
                  }
                g_assert_cmpint (sum, <=, (2 * n - 1) * UNIT_BYTES);
                g_assert_cmpint (sum, >=, n * UNIT_BYTES);
              }
          }
      }
}

/* Any N and K: means of the total, delays, pools. */
static void
test_other_stages (void)
{
  static const struct
  {
    guint n, k;
    double delay;
  } cases[] = { { 8, 4, 1.0 / 2 }, { 4, 8, 3.0 / 8 },  { 4, 2, 1.0 / 2 }, { 2, 4, 1.0 / 4 },
                { 4, 3, 1.0 / 2 }, { 3, 4, 5.0 / 12 }, { 4, 4, 3.0 / 8 }, { 3, 3, 1.0 / 3 } };

  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      guint n = cases[c].n, k = cases[c].k;
      gint64 a = (gint64) k * UNIT_BYTES;
      static const char *const plans[] = { "cdp-v2", "cdp+mp" };

      for (guint p = 0; p < G_N_ELEMENTS (plans); p++)
        {
          g_autoptr (PsiReport) report = run_flags (
              FALSE, "model=uniform plan=%s workers=%u stages=%u psi_p=%lld psi_a=%lld forward=12ms backward=12ms",
              plans[p], n, k, (long long) a, (long long) a);
          const PsiPlanReport *plan = plan_of (report);

          assert_near (plan->activation_total_mean_bytes, (double) n * (k + 1) / (2.0 * k) * (double) a);
          assert_near (plan->delay_mean, cases[c].delay);
          if (p == 1)
            {
              guint gpus = 0;

              for (guint j = 1; j <= k; j++)
                {
                  guint pool = ((k - j + 1) * n + k - 1) / k;

                  g_assert_cmpuint (rank_of (plan, j - 1)->count, ==, pool);
                  gpus += pool;
                }
              g_assert_cmpuint (plan->gpus, ==, gpus);
            }
        }
    }
}

/* Neither the mean of the total nor the step time needs equal N and K, nor equal times: T is one worker's step. */
static void
test_mean_total (void)
{
  static const struct
  {
    const char *name;
    gboolean one_gpu;
  } plans[] = {
    { "cdp-v1", FALSE }, { "cdp-v2", FALSE }, { "cdp+mp", FALSE }, { "cdp-zero", FALSE }, { "cdp-single", TRUE }
  };

  for (guint p = 0; p < G_N_ELEMENTS (plans); p++)
    for (guint n = 2; n <= 7; n++)
      for (guint k = 1; k <= 7; k++)
        {
          gint64 a = (gint64) k * UNIT_BYTES;
          g_autoptr (PsiReport) report =
              run_flags (FALSE, "model=uniform plan=%s workers=%u stages=%u psi_a=%lld forward=84ms backward=126ms",
                         plans[p].name, n, k, (long long) a);
          const PsiPlanReport *plan = plan_of (report);

          g_assert_cmpint (plan->step_time_ps, ==, 210 * MS_PS * k * (plans[p].one_gpu ? n : 1));
          if (!plans[p].one_gpu)
            assert_near (plan->activation_total_mean_bytes, (double) n * (k + 1) / (2.0 * k) * (double) a);
          if (n == k && !plans[p].one_gpu)
            assert_near (plan->activation_total_peak_bytes, plan->activation_total_mean_bytes);
        }
}

/* Workers that begin at random: nobody waits, delays stay at most 1, and activations have the same mean but swing. */
static void
test_random_delay (void)
{
  for (guint v = 1; v <= 2; v++)
    for (guint n = 1; n <= 7; n += 2)
      for (guint k = 1; k <= 7; k += 3)
        {
          guint64 digests[2] = { 0 };
          double flat = (double) n * (k + 1) / (2.0 * k) * k * UNIT_BYTES;

          for (guint seed = 0; seed < 4; seed++) /* each twice */
            {
              g_autoptr (PsiReport) report =
                  run_flags (FALSE,
                             "model=uniform plan=cdp-v%u workers=%u stages=%u micro_batches=2 psi_a=%lld forward=84ms "
                             "backward=126ms delay=random seed=%u",
                             v, n, k, (long long) k * UNIT_BYTES, seed / 2);
              const PsiPlanReport *plan = plan_of (report);

              g_assert_cmpint (plan->step_time_ps, ==, 210 * MS_PS * k * 2);
              assert_near (plan->bubble_fraction, 0);
              assert_near (plan->activation_total_mean_bytes, flat);
              g_assert_cmpfloat (plan->delay_max, <=, n > 1 ? 1 : 0);
              g_assert_cmpfloat (plan->delay_mean, <=, plan->delay_max);
              if (v == 1)
                g_assert_cmpfloat (plan->delay_mean, ==, n > 1 ? 1 : 0);
              if (n == k && n > 1)
                g_assert_cmpfloat ((double) plan->activation_total_peak_bytes, >, 1.01 * flat);
              if (seed % 2 > 0)
                g_assert_cmpuint (plan->digest, ==, digests[seed / 2]);
              digests[seed / 2] = plan->digest;
            }
          if (n > 1)
            g_assert_cmpuint (digests[0], !=, digests[1]);
        }
}

/* One GPU for each stage: spacing is the longer of T / N and a stage's forward and backward. */
static void
test_stage_spacing (void)
{
  for (guint n = 2; n <= 9; n++)
    for (guint k = 1; k <= n; k++)
      {
        g_autoptr (PsiReport) report =
            run_flags (FALSE, "model=uniform plan=cdp+pp workers=%u stages=%u forward=2ms backward=3ms", n, k);

        g_assert_cmpint (plan_of (report)->step_time_ps, ==, 5 * MS_PS * n);
        g_assert_cmpuint (plan_of (report)->gpus, ==, k);
        assert_near (plan_of (report)->bubble_fraction, 0);
      }
}

/* F(i, t, j) = 2 N t + 2 i + (j - 1), B(i, t, j) = 2 N t + 2 i + 2 N - j: the figure of the paper, N = 3. */
static void
test_slot_grid (void)
{
  static const char *const plans[] = { "cdp-v1", "cdp-v2", "cdp+pp", "cdp-zero", "cdp-single" };
  const guint n = 3;

  for (guint p = 0; p < G_N_ELEMENTS (plans); p++)
    {
      gboolean one_gpu_only = strcmp (plans[p], "cdp-single") == 0;
      g_autoptr (PsiReport) report =
          run_flags (TRUE, "model=uniform plan=%s workers=3 forward=1ms backward=1ms", plans[p]);
      const PsiPlanReport *plan = plan_of (report);
      guint seen = 0;
      gint64 period_slots = plan->step_time_ps / MS_PS;

      for (guint r = 0; r < plan->ranks->len; r++)
        for (guint s = 0; s < rank_of (plan, r)->spans->len; s++)
          {
            const PsiSpan *span = &g_array_index (rank_of (plan, r)->spans, PsiSpan, s);

            if (span->kind != PSI_SPAN_FORWARD && span->kind != PSI_SPAN_BACKWARD)
              continue;
            gint64 i = span->micro_batch, j = span->stage + 1;
            gint64 slot = span->kind == PSI_SPAN_FORWARD ? 2 * i + j - 1 : 2 * i + 2 * n - j;

            seen++;
            g_assert_cmpint (span->end_ps - span->start_ps, ==, MS_PS);
            g_assert_cmpint (span->start_ps % MS_PS, ==, 0);
            if (!one_gpu_only) /* one GPU runs the three ops of a slot one after another */
              g_assert_cmpint (span->start_ps / MS_PS % period_slots, ==, slot % (2 * n));
            else
              g_assert_cmpint (span->start_ps / MS_PS % period_slots / n, ==, slot % (2 * n));
          }
      g_assert_cmpuint (seen, ==, 2 * n * n);
    }
}

/* Uneven batches: the slowest worker decides, the others wait; the samples add up. */
static void
test_uneven_batches (void)
{
  g_autoptr (PsiReport) even = run_flags (FALSE, "model=gpt2 machine=a100 plan=dp gpus=4 micro_batch=3");
  g_autoptr (PsiReport) uneven = run_flags (FALSE, "model=gpt2 machine=a100 plan=dp gpus=4 worker_batches=6,2,2,2");
  g_autoptr (PsiReport) largest = run_flags (FALSE, "model=gpt2 machine=a100 plan=dp gpus=4 micro_batch=6");
  const PsiPlanReport *a = plan_of (even), *b = plan_of (uneven), *c = plan_of (largest);

  g_assert_cmpuint (b->ranks->len, ==, 4);
  g_assert_cmpint (b->step_time_ps, >, a->step_time_ps);
  g_assert_cmpint (b->step_time_ps, <=, c->step_time_ps);
  g_assert_cmpfloat (b->samples_per_s, <, a->samples_per_s);
  assert_near (b->samples_per_s * (double) b->step_time_ps, 12e12);
  g_assert_cmpint (rank_of (b, 0)->peak_bytes, >, rank_of (b, 1)->peak_bytes);
  g_assert_cmpint (rank_of (b, 0)->peak_bytes, ==, rank_of (c, 0)->peak_bytes);
  g_assert_cmpint (rank_of (b, 1)->peak_bytes, ==, rank_of (b, 3)->peak_bytes);
  g_assert_cmpuint (b->main_rank, ==, 0);
  /* The gradient of the whole batch is the weighted mean: the report says so. */
  gboolean said = FALSE;
  for (guint i = 0; i < b->assumptions->len; i++)
    said = said || strstr (g_ptr_array_index (b->assumptions, i), "weighted") != NULL;
  g_assert_true (said);
}

/* A main rank gathers gradients and sends parameters: (N - 1) P in, (N - 1) P out, the others 1 P each way. */
static void
test_parameter_server (void)
{
  for (guint n = 2; n <= 16; n++)
    {
      gint64 p = (gint64) n * UNIT_BYTES;
      g_autoptr (PsiReport) report =
          run_flags (FALSE, "model=uniform plan=parameter-server workers=%u psi_p=%lld", n, (long long) p);
      const PsiPlanReport *plan = plan_of (report);

      g_assert_cmpint (plan->by_kind[PSI_TRAFFIC_GRADIENTS], ==, (n - 1) * p);
      g_assert_cmpint (plan->by_kind[PSI_TRAFFIC_PARAMETERS], ==, (n - 1) * p);
      g_assert_cmpint (rank_of (plan, 0)->sent_bytes, ==, (n - 1) * p);
      for (guint i = 1; i < plan->ranks->len; i++)
        g_assert_cmpint (rank_of (plan, i)->sent_bytes, ==, p);
    }
  for (guint gpus = 4; gpus <= 8; gpus *= 2)
    {
      g_autoptr (PsiReport) ring_report = run_flags (FALSE, "model=gpt2 machine=a100 plan=dp gpus=%u", gpus);
      g_autoptr (PsiReport) server_report =
          run_flags (FALSE, "model=gpt2 machine=a100 plan=parameter-server gpus=%u", gpus);

      g_assert_cmpint (plan_of (server_report)->step_time_ps, >, plan_of (ring_report)->step_time_ps);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/model/cyclic/table", test_table);
  g_test_add_func ("/model/cyclic/defaults", test_defaults);
  g_test_add_func ("/model/cyclic/travelling-copies", test_travelling_copies);
  g_test_add_func ("/model/cyclic/other-stages", test_other_stages);
  g_test_add_func ("/model/cyclic/mean-total", test_mean_total);
  g_test_add_func ("/model/cyclic/random-delay", test_random_delay);
  g_test_add_func ("/model/cyclic/stage-spacing", test_stage_spacing);
  g_test_add_func ("/model/cyclic/slot-grid", test_slot_grid);
  g_test_add_func ("/model/data-parallel/uneven-batches", test_uneven_batches);
  g_test_add_func ("/model/data-parallel/parameter-server", test_parameter_server);
  return g_test_run ();
}
