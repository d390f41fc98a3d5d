/* SPDX-License-Identifier: MIT */
/* The closed form that opens each schedule's file, over a grid of ranks, micro-batches and times. */
#include "schedule-file.h"

#include <string.h>

static const gint64 times[][3] = { { 1, 1, 1 }, { 2, 2, 1 }, { 2, 3, 1 }, { 3, 2, 1 }, { 3, 3, 2 },
                                   { 2, 3, 2 }, { 4, 4, 3 }, { 1, 1, 0 }, { 4, 3, 2 }, { 185, 181, 93 } };

typedef struct
{
  const PsiSchedule *schedule; /* of the facts */
  PsiScheduleFacts facts;
  guint p;
  gint64 m, f, i, w, b; /* times of one part: forward, input half, weight half, whole backward */
} Case;

static gint64 *
repeat (guint n, gint64 value)
{
  gint64 *values = g_new (gint64, n);

  for (guint k = 0; k < n; k++)
    values[k] = value;
  return values;
}

static PsiSchedule *
build (const PsiScheduleKind *kind, guint p, guint chunks, gint64 m, const gint64 *t, gint64 in_flight)
{
  g_autofree gint64 *forward = repeat (chunks * p, t[0]), *backward = repeat (chunks * p, t[1] + t[2]),
                    *weight = repeat (chunks * p, t[2]), *bytes = repeat (chunks * p, 100);
  PsiScheduleShape shape = { .ranks = p,
                             .chunks = chunks,
                             .micro_batches = m,
                             .forward_ps = forward,
                             .backward_ps = backward,
                             .weight_ps = weight,
                             .in_flight = in_flight,
                             .kept_bytes = bytes,
                             .late_bytes = bytes };
  g_autoptr (GError) error = NULL;
  PsiSchedule *schedule = kind->build (&shape, &error);

  g_assert_no_error (error);
  return schedule;
}

static void
follow (const PsiSchedule *schedule, const gint64 *t, gint64 transfer_ps, PsiScheduleFacts *ret_facts)
{
  g_autofree gint64 *forward = repeat (schedule->n_parts, t[0]), *backward = repeat (schedule->n_parts, t[1] + t[2]),
                    *weight = repeat (schedule->n_parts, t[2]);
  PsiScheduleTimes part_times = {
    .forward_ps = forward, .backward_ps = backward, .weight_ps = weight, .transfer_ps = transfer_ps
  };
  g_autoptr (GError) error = NULL;

  psi_schedule_check (schedule, &part_times, ret_facts, &error);
  g_assert_no_error (error);
  g_assert_true (ret_facts->periodic);
}

/* Build, follow, and hand the facts to `check` for every p, m and times of the grid. */
static void
over_grid (const PsiScheduleKind *kind, guint chunks, void (*check) (const Case *c))
{
  for (guint p = 2; p <= 9; p++)
    for (gint64 m = 1; m <= 4 * (gint64) p; m += m < 2 * (gint64) p + 1 ? 1 : (gint64) p)
      for (guint t = 0; t < G_N_ELEMENTS (times); t++)
        {
          gboolean even = kind != &psi_schedule_dualpipe || (p % 2 == 0 && m % 2 == 0);
          gboolean twice = kind == &psi_schedule_dualpipe || kind == &psi_schedule_dualpipe_v;

          if (!even || (twice && m < 2 * (gint64) p))
            continue;
          g_autoptr (PsiSchedule) schedule = build (kind, p, chunks, m, times[t], 0);
          Case c = { .schedule = schedule, .p = p, .m = m, .f = times[t][0], .i = times[t][1], .w = times[t][2] };
          c.b = c.i + c.w;
          follow (schedule, times[t], 0, &c.facts);
          check (&c);
          psi_schedule_facts_clear (&c.facts);
        }
}

static guint
worst (const Case *c)
{
  guint most = 0;

  for (guint r = 0; r < c->p; r++)
    most = MAX (most, c->facts.in_flight[r]);
  return most;
}

static void
check_h1 (const Case *c)
{
  if (c->m >= c->p)
    g_assert_cmpint (c->facts.period_ps, ==, c->m * (c->f + c->b) + (c->p - 1) * MAX (c->f + c->i - c->w, c->i));
  else if (c->f == c->i && c->f == c->w)
    g_assert_cmpint (c->facts.period_ps, ==, c->f * (3 * c->m + 2 * (c->p - 1) - (c->m - 1)));
  for (guint r = 0; r < c->p; r++)
    g_assert_cmpuint (c->facts.in_flight[r], ==, MIN (c->m, c->p));
  g_assert_cmpfloat (c->facts.transfers, ==, 2 * c->m * (c->p - 1));
  g_assert_cmpfloat (c->facts.delay_mean, ==, 0);
}

static void
check_h2 (const Case *c)
{
  if (c->m >= 2 * c->p - 1)
    g_assert_cmpint (c->facts.period_ps, ==,
                     c->m * (c->f + c->b) + (c->p - 1) * MAX (MAX (c->f + c->i - 2 * c->w, c->i - c->f), 0));
  else if (c->f == c->i && c->f == c->w)
    g_assert_cmpint (c->facts.period_ps, ==, c->f * (3 * c->m + 2 * (c->p - 1) - (c->m - 1)));
  g_assert_cmpuint (worst (c), ==, MIN (c->m, 2 * c->p - 1));
  g_assert_cmpfloat (c->facts.transfers, ==, 2 * c->m * (c->p - 1));
}

static void
check_zb_v (const Case *c)
{
  gint64 form = 2 * c->m * (c->f + c->b) + 2 * (gint64) (c->p - 1) * (MAX (c->f, c->i) - c->w);

  if (c->m >= 2 * c->p - 1 && c->i >= c->f)
    g_assert_cmpint (c->facts.period_ps, ==, form);
  else if (c->m >= 2 * c->p - 1)
    g_assert_cmpint (c->facts.period_ps, <=, form);
  else if (c->f == c->i && c->f == c->w)
    g_assert_cmpint (c->facts.period_ps, ==, c->f * (6 * c->m + 2 * (2 * c->p - 1 - c->m)));
  g_assert_cmpuint (worst (c), <=, 2 * c->p);
  g_assert_cmpfloat (c->facts.transfers, ==, 4 * c->m * (c->p - 1));
}

static void
check_breadth_first (const Case *c)
{
  if (c->m >= c->p)
    g_assert_cmpint (c->facts.period_ps, ==, (3 * c->m + c->p - 1) * (c->f + c->b));
  for (guint r = 0; r < c->p; r++)
    g_assert_cmpuint (c->facts.in_flight[r], ==, 3 * c->m);
  g_assert_cmpfloat (c->facts.transfers, ==, 2 * c->m * (3 * c->p - 1));
}

static void
check_dualpipe (const Case *c)
{
  gint64 pair = c->f + c->b;
  gint64 form = c->m * pair + (c->p / 2 - 1) * (pair + c->b - 3 * c->w);

  g_assert_cmpint (ABS (c->facts.period_ps - form), <=, (c->p / 2 - 1) * ABS (c->f - c->i));
  g_assert_cmpuint (worst (c), <=, c->p + 1);
  g_assert_cmpfloat (c->facts.transfers, ==, 2 * c->m * (c->p - 1));
}

static void
check_dualpipe_v (const Case *c)
{
  gint64 pair = c->f + c->b;
  gint64 form = 2 * c->m * pair + (c->p - 1) * (pair + c->b - 3 * c->w);

  g_assert_cmpint (ABS (c->facts.period_ps - form), <=, (c->p - 1) * ABS (c->f - c->i));
  g_assert_cmpuint (worst (c), <=, 2 * c->p + 1);
  g_assert_cmpfloat (c->facts.transfers, ==, 4 * c->m * (c->p - 1));
}

/* In chunk passes at F = I = W; 1F1B waits for 6 (p - 1) of them. */
static void
check_v_half (const Case *c)
{
  if (c->f == c->i && c->f == c->w && c->m >= 2 * c->p)
    {
      gint64 bubble = c->facts.period_ps / c->f - 6 * c->m;

      g_assert_cmpint (bubble, <=, 3 * (c->p - 1));
      g_assert_cmpint (bubble, >=, 3 * (c->p - 1) - 2);
    }
  g_assert_cmpuint (worst (c), <=, c->p + 2);
  g_assert_cmpfloat (c->facts.transfers, ==, 4 * c->m * (c->p - 1));
}

static void
check_v_min (const Case *c)
{
  if (c->f == c->i && c->f == c->w && c->m >= 2 * c->p)
    {
      gint64 bubble = c->facts.period_ps / c->f - 6 * c->m;

      g_assert_cmpint (bubble, <=, 4 * (c->p - 1) + 1);
      g_assert_cmpint (bubble, >=, 4 * (c->p - 1) - 1);
    }
  g_assert_cmpuint (worst (c), <=, 2 * ((c->p + 4) / 3));
  g_assert_cmpfloat (c->facts.transfers, ==, 4 * c->m * (c->p - 1));
}

typedef struct
{
  const PsiScheduleKind *kind;
  guint chunks;
  void (*check) (const Case *c);
} Row;

static const Row rows[] = {
  { &psi_schedule_zb_h1, 1, check_h1 },          { &psi_schedule_zb_h2, 1, check_h2 },
  { &psi_schedule_zb_v, 2, check_zb_v },         { &psi_schedule_breadth_first, 3, check_breadth_first },
  { &psi_schedule_dualpipe, 2, check_dualpipe }, { &psi_schedule_dualpipe_v, 2, check_dualpipe_v },
  { &psi_schedule_v_half, 2, check_v_half },     { &psi_schedule_v_min, 2, check_v_min }
};

static void
test_form (gconstpointer data)
{
  const Row *row = data;

  over_grid (row->kind, row->chunks, row->check);
}

/* DualPipe as published: 8 ranks, 20 micro-batches, all times 1: 66 slots, of which each rank waits 6. */
static void
test_dualpipe_oracle (void)
{
  g_autoptr (PsiSchedule) two_ways = build (&psi_schedule_dualpipe, 8, 2, 20, times[0], 0);
  g_autoptr (PsiSchedule) folded = build (&psi_schedule_dualpipe_v, 4, 2, 10, times[0], 0);
  g_auto (PsiScheduleFacts) a = { 0 }, b = { 0 };

  follow (two_ways, times[0], 0, &a);
  follow (folded, times[0], 0, &b);
  g_assert_cmpint (a.period_ps, ==, 66);
  g_assert_cmpint (b.period_ps, ==, 66);
  g_assert_cmpfloat_with_epsilon (a.bubble_fraction, 6.0 / 66, 1e-12);
  g_assert_cmpfloat_with_epsilon (b.bubble_fraction, 6.0 / 66, 1e-12);
}

/* No flush: m (F + B) without a bubble, p - r micro-batches on rank r, every gradient one step old. */
static void
test_pipedream_2bw (void)
{
  for (guint p = 2; p <= 6; p++)
    for (gint64 m = p; m <= 3 * (gint64) p; m++)
      for (guint t = 0; t < G_N_ELEMENTS (times); t++)
        {
          g_autofree gint64 *forward = repeat (p, times[t][0]), *backward = repeat (p, times[t][1] + times[t][2]);
          PsiScheduleShape shape = { .micro_batches = 1,
                                     .workers = (guint) m,
                                     .stages = p,
                                     .placement = PSI_PLACEMENT_STAGE,
                                     .by_stage = TRUE,
                                     .delayed = TRUE,
                                     .forward_ps = forward,
                                     .backward_ps = backward };
          g_autoptr (PsiSchedule) schedule = psi_schedule_pipedream_2bw.build (&shape, NULL);
          g_autofree char *text = psi_schedule_to_text (schedule, 1, NULL);
          g_autoptr (PsiSchedule) read = psi_schedule_parse (text, "2bw", NULL);
          g_auto (PsiScheduleFacts) facts = { 0 };

          follow (read, times[t], 0, &facts);
          g_assert_cmpint (facts.period_ps, ==, m * (times[t][0] + times[t][1] + times[t][2]));
          for (guint r = 0; r < p; r++)
            g_assert_cmpuint (facts.in_flight[r], ==, p - r);
          g_assert_cmpfloat (facts.transfers, ==, 2 * m * (p - 1));
          g_assert_cmpfloat (facts.delay_mean, ==, 1);
        }
}

/* No flush and an update after every m micro-batches: m (F + B) without a bubble, p - r micro-batches on rank r, and
 * micro-batch i of a step begins there with what ceil ((p - 1 - r - i) / m) steps before left. */
static void
test_pipedream (void)
{
  for (guint p = 1; p <= 6; p++)
    for (gint64 m = 1; m <= 3 * (gint64) p; m++)
      for (guint t = 0; t < G_N_ELEMENTS (times); t++)
        {
          g_autofree gint64 *forward = repeat (p, times[t][0]), *backward = repeat (p, times[t][1] + times[t][2]);
          PsiScheduleShape shape = { .micro_batches = 1,
                                     .workers = (guint) m,
                                     .stages = p,
                                     .placement = PSI_PLACEMENT_STAGE,
                                     .by_stage = TRUE,
                                     .forward_ps = forward,
                                     .backward_ps = backward };
          g_autoptr (PsiSchedule) schedule = psi_schedule_pipedream.build (&shape, NULL);
          g_autofree char *text = psi_schedule_to_text (schedule, 1, NULL);
          g_autoptr (PsiSchedule) read = psi_schedule_parse (text, "pipedream", NULL);
          g_auto (PsiScheduleFacts) facts = { 0 };
          gint64 late = 0;

          follow (read, times[t], 0, &facts);
          g_assert_cmpint (facts.period_ps, ==, m * (times[t][0] + times[t][1] + times[t][2]));
          g_assert_cmpfloat_with_epsilon (facts.bubble_fraction, 0, 1e-12);
          for (guint r = 0; r < p; r++)
            {
              g_assert_cmpuint (facts.in_flight[r], ==, p - r);
              for (gint64 i = 0; i < m; i++)
                late += MAX (p - 1 - (gint64) r - i + m - 1, 0) / m;
            }
          g_assert_cmpfloat (facts.transfers, ==, 2 * m * (p - 1));
          g_assert_cmpfloat_with_epsilon (facts.delay_mean, (double) late / (double) (p * m), 1e-12);
        }
}

/* The slowest stage sets the pace, wherever it is. */
static void
test_pipedream_slow (void)
{
  for (guint p = 2; p <= 5; p++)
    for (guint slow = 0; slow < p; slow++)
      {
        g_autofree gint64 *forward = repeat (p, 2), *backward = repeat (p, 3), *weight = repeat (p, 1);
        PsiScheduleTimes part_times = { .forward_ps = forward, .backward_ps = backward, .weight_ps = weight };
        PsiScheduleShape shape = { .micro_batches = 1,
                                   .workers = 2,
                                   .stages = p,
                                   .placement = PSI_PLACEMENT_STAGE,
                                   .by_stage = TRUE,
                                   .forward_ps = forward,
                                   .backward_ps = backward };
        g_auto (PsiScheduleFacts) facts = { 0 };

        backward[slow] = 11;
        g_autoptr (PsiSchedule) schedule = psi_schedule_pipedream.build (&shape, NULL);
        g_autofree char *text = psi_schedule_to_text (schedule, 1, NULL);
        g_autoptr (PsiSchedule) read = psi_schedule_parse (text, "pipedream", NULL);
        g_assert_true (psi_schedule_check (read, &part_times, &facts, NULL));
        g_assert_cmpint (facts.period_ps, ==, 2 * 13);
      }
}

/* What a schedule cannot serve is refused, not run wrongly. */
static void
test_refused (void)
{
  static const struct
  {
    const PsiScheduleKind *kind;
    guint ranks, chunks;
    gint64 micro_batches;
  } cases[] = { { &psi_schedule_zb_h1, 4, 2, 8 },      { &psi_schedule_zb_h2, 4, 3, 8 },
                { &psi_schedule_zb_v, 4, 1, 8 },       { &psi_schedule_v_half, 4, 3, 8 },
                { &psi_schedule_dualpipe_v, 4, 2, 7 }, { &psi_schedule_dualpipe, 4, 2, 9 },
                { &psi_schedule_dualpipe, 3, 2, 8 },   { &psi_schedule_auto, 4, 2, 8 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      PsiScheduleShape shape = { .ranks = cases[i].ranks,
                                 .chunks = cases[i].chunks,
                                 .micro_batches = cases[i].micro_batches };
      g_autoptr (GError) error = NULL;

      g_assert_null (cases[i].kind->build (&shape, &error));
      g_assert_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE);
      g_assert_nonnull (strstr (error->message, cases[i].kind->name));
    }
}

/* The search finds ZB-H1 and ZB-H2 where these are best. */
static void
test_auto_equal (void)
{
  for (guint p = 2; p <= 8; p++)
    for (gint64 m = 2 * p - 1; m <= 4 * (gint64) p; m += 3)
      {
        g_autoptr (PsiSchedule) one = build (&psi_schedule_auto, p, 1, m, times[0], 0);
        g_autoptr (PsiSchedule) two = build (&psi_schedule_auto, p, 1, m, times[0], 2 * p - 1);
        g_auto (PsiScheduleFacts) a = { 0 }, b = { 0 };

        follow (one, times[0], 0, &a);
        follow (two, times[0], 0, &b);
        g_assert_cmpint (a.period_ps, ==, 3 * m + p - 1);
        g_assert_cmpint (b.period_ps, ==, 3 * m);
        for (guint r = 0; r < p; r++)
          {
            g_assert_cmpuint (a.in_flight[r], <=, p);
            g_assert_cmpuint (b.in_flight[r], <=, 2 * p - 1);
          }
      }
}

/* Measured times of the stages of three models (Qi et al., arXiv 2401.10241, Table 6: forward, input half, weight half,
 * transfer in us; 8 ranks or 32). The bytes a weight half needs are 32 / (34 + 5 a s / h) of all. */
static void
test_auto_measured (void)
{
  static const struct
  {
    guint p;
    gint64 m, t[3], transfer, late;
  } cases[] = { { 8, 24, { 18522, 18086, 9337 }, 601, 37 },
                { 8, 32, { 29802, 29428, 19530 }, 577, 43 },
                { 32, 96, { 10419, 10207, 7715 }, 408, 47 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      guint p = cases[i].p;
      gint64 period_ps[4];
      const PsiScheduleKind *kinds[] = { &psi_schedule_zb_h1, &psi_schedule_auto, &psi_schedule_zb_h2,
                                         &psi_schedule_auto };
      for (guint k = 0; k < 4; k++)
        {
          g_autofree gint64 *forward = repeat (p, cases[i].t[0]), *backward = repeat (p, cases[i].t[1] + cases[i].t[2]),
                            *weight = repeat (p, cases[i].t[2]), *kept = repeat (p, 100),
                            *late = repeat (p, cases[i].late);
          PsiScheduleShape shape = { .ranks = p,
                                     .chunks = 1,
                                     .micro_batches = cases[i].m,
                                     .forward_ps = forward,
                                     .backward_ps = backward,
                                     .weight_ps = weight,
                                     .transfer_ps = cases[i].transfer,
                                     .in_flight = k < 2 ? p : 2 * p,
                                     .kept_bytes = kept,
                                     .late_bytes = late };
          g_autoptr (PsiSchedule) schedule = kinds[k]->build (&shape, NULL);
          g_auto (PsiScheduleFacts) facts = { 0 };
          gint64 most = 0;

          follow (schedule, cases[i].t, cases[i].transfer, &facts);
          period_ps[k] = facts.period_ps;
          for (guint r = 0; r < p; r++)
            {
              gint64 level = 0;

              for (guint t = 0; t < schedule->lists[r]->len; t++)
                {
                  guint token = g_array_index (schedule->lists[r], PsiToken, t).kind;

                  level += token == PSI_TOKEN_FORWARD          ? 100
                           : token == PSI_TOKEN_BACKWARD_INPUT ? cases[i].late - 100
                                                               : -cases[i].late;
                  most = MAX (most, level);
                }
            }
          if (kinds[k] == &psi_schedule_auto)
            g_assert_cmpint (most, <=, 100 * shape.in_flight);
        }
      g_assert_cmpint (period_ps[1], <=, period_ps[0]); /* never worse at the same memory ... */
      g_assert_cmpint (period_ps[3], <, period_ps[2]);  /* ... and better than ZB-H2 at its memory */
      g_assert_cmpint (period_ps[3], <, period_ps[0]);
    }
}

/* Stages that are not equal, and a first stage that is heavy: never over 1F1B's memory, never slower than ZB-H1. */
static void
test_auto_unequal (void)
{
  const guint p = 6;
  const gint64 m = 18;
  gint64 forward[] = { 9, 5, 5, 6, 5, 7 }, backward[] = { 16, 9, 9, 11, 9, 15 }, weight[] = { 7, 4, 4, 5, 4, 6 },
         kept[] = { 100, 60, 60, 70, 60, 300 }, late[] = { 50, 30, 30, 40, 30, 20 };
  PsiScheduleShape shape = { .ranks = p,
                             .chunks = 1,
                             .micro_batches = m,
                             .forward_ps = forward,
                             .backward_ps = backward,
                             .weight_ps = weight,
                             .transfer_ps = 1,
                             .kept_bytes = kept,
                             .late_bytes = late };
  PsiScheduleTimes part_times = {
    .forward_ps = forward, .backward_ps = backward, .weight_ps = weight, .transfer_ps = 1
  };
  g_autoptr (PsiSchedule) found = psi_schedule_auto.build (&shape, NULL);
  g_autoptr (PsiSchedule) again = psi_schedule_auto.build (&shape, NULL);
  g_autoptr (PsiSchedule) h1 = psi_schedule_zb_h1.build (&shape, NULL);
  g_autoptr (PsiSchedule) plain = psi_schedule_1f1b.build (&shape, NULL);
  g_auto (PsiScheduleFacts) a = { 0 }, b = { 0 }, c = { 0 };
  g_autofree char *text = psi_schedule_to_text (found, 1, NULL), *same = psi_schedule_to_text (again, 1, NULL);

  g_assert_true (psi_schedule_check (found, &part_times, &a, NULL));
  g_assert_true (psi_schedule_check (h1, &part_times, &b, NULL));
  g_assert_true (psi_schedule_check (plain, &part_times, &c, NULL));
  g_assert_cmpint (a.period_ps, <, c.period_ps);
  for (guint r = 0; r < p; r++)
    g_assert_cmpint (a.in_flight[r] * late[r], <=, 600); /* 1F1B: 6 x 100 on rank 0 */
  g_assert_cmpstr (text, ==, same);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *path = g_strdup_printf ("/plan/schedule-forms/%s", rows[i].kind->name);

      g_test_add_data_func (path, &rows[i], test_form);
    }
  g_test_add_func ("/plan/schedule-forms/dualpipe-oracle", test_dualpipe_oracle);
  g_test_add_func ("/plan/schedule-forms/pipedream-2bw", test_pipedream_2bw);
  g_test_add_func ("/plan/schedule-forms/pipedream", test_pipedream);
  g_test_add_func ("/plan/schedule-forms/pipedream-slow", test_pipedream_slow);
  g_test_add_func ("/plan/schedule-forms/refused", test_refused);
  g_test_add_func ("/plan/schedule-forms/auto-equal", test_auto_equal);
  g_test_add_func ("/plan/schedule-forms/auto-measured", test_auto_measured);
  g_test_add_func ("/plan/schedule-forms/auto-unequal", test_auto_unequal);
  return g_test_run ();
}
