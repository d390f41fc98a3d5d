/* SPDX-License-Identifier: MIT */
/* Orders of work as data: the lists themselves, and what every list must obey. */
#include "cyclic-timeline.h"

#include <string.h>

static PsiSchedule *
build (const char *kind, const PsiScheduleShape *shape)
{
  g_autoptr (GError) error = NULL;
  PsiSchedule *schedule = psi_schedule_kind_find (kind)->build (shape, &error);

  g_assert_no_error (error);
  return schedule;
}

/* The lines of the ranks, without "rank 0:". */
static char *
lists_of (const PsiSchedule *schedule)
{
  g_autofree char *text = psi_schedule_to_text (schedule, 1, NULL);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  GString *lists = g_string_new (NULL);

  for (char **line = lines; *line != NULL; line++)
    if (g_str_has_prefix (*line, "rank "))
      g_string_append_printf (lists, "%s%s", lists->len > 0 ? " |" : "", strchr (*line, ':') + 1);
  return g_string_free (lists, FALSE);
}

static void
test_lists (void)
{
  static const struct
  {
    const char *kind;
    PsiScheduleShape shape;
    const char *lists;
  } rows[] = {
    { "none", { .ranks = 1, .chunks = 1, .micro_batches = 3 }, " F0 B0 F1 B1 F2 B2" },
    { "none", { .ranks = 1, .chunks = 1, .micro_batches = 3, .keeps_all = TRUE }, " F0 F1 F2 B2 B1 B0" },
    { "naive", { .ranks = 2, .chunks = 1, .micro_batches = 2 }, " F0 B0 F1 B1 | F0 B0 F1 B1" },
    { "gpipe", { .ranks = 2, .chunks = 1, .micro_batches = 3 }, " F0 F1 F2 B0 B1 B2 | F0 F1 F2 B0 B1 B2" },
    { "1f1b",
      { .ranks = 3, .chunks = 1, .micro_batches = 4 },
      " F0 F1 F2 B0 F3 B1 B2 B3 | F0 F1 B0 F2 B1 F3 B2 B3 | F0 B0 F1 B1 F2 B2 F3 B3" },
    { "1f1b", { .ranks = 3, .chunks = 1, .micro_batches = 1 }, " F0 B0 | F0 B0 | F0 B0" },
    { "interleaved",
      { .ranks = 2, .chunks = 2, .micro_batches = 2 },
      " F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1 | F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsiSchedule) schedule = build (rows[i].kind, &rows[i].shape);
      g_autofree char *lists = lists_of (schedule);

      g_assert_cmpstr (lists, ==, rows[i].lists);
    }
}

/* Every list has each of its forwards and backwards once, and no backward before its forward. */
static void
check_complete (const PsiSchedule *schedule, gboolean same_on_all)
{
  for (guint r = 0; r < schedule->n_ranks; r++)
    {
      const GArray *list = schedule->lists[r];
      g_autofree guint8 *done = g_new0 (guint8, (gsize) (schedule->n_chunks * schedule->micro_batches));
      guint n_forward = 0, n_backward = 0;

      for (guint t = 0; t < list->len; t++)
        {
          const PsiToken *token = &g_array_index (list, PsiToken, t);

          g_assert_cmpint (token->micro_batch, >=, 0);
          g_assert_cmpint (token->micro_batch, <, schedule->micro_batches);
          g_assert_cmpint (token->chunk, <, (int) schedule->n_chunks);
          if (token->shift > 0)
            continue; /* of a step before: its forward is not in this repetition's past */
          guint8 *state = &done[token->chunk * schedule->micro_batches + token->micro_batch];
          if (token->kind == PSI_TOKEN_FORWARD)
            {
              g_assert_cmpuint (*state, ==, 0);
              *state = 1;
              n_forward++;
            }
          else if (token->kind == PSI_TOKEN_BACKWARD)
            {
              g_assert_cmpuint (*state, ==, 1);
              *state = 2;
              n_backward++;
            }
        }
      if (same_on_all)
        {
          g_assert_cmpuint (n_forward, ==, schedule->n_chunks * schedule->micro_batches);
          g_assert_cmpuint (n_backward, ==, n_forward);
        }
    }
}

static void
test_complete (void)
{
  static const char *const kinds[] = { "none", "naive", "gpipe", "1f1b", "interleaved" };

  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    for (guint p = k == 0 ? 1 : 2; p <= (k == 0 ? 1 : 6); p++)
      for (guint v = 1; v <= (k == 4 ? 4 : 1); v++)
        for (gint64 m = 1; m <= 13; m++)
          {
            PsiScheduleShape shape = { .ranks = p, .chunks = v, .micro_batches = m };
            g_autoptr (PsiSchedule) schedule = build (kinds[k], &shape);

            check_complete (schedule, TRUE);
          }
}

/* Every kind in the table has a name that finds it, and a line about it. */
static void
test_table (void)
{
  for (guint i = 0; psi_schedules[i] != NULL; i++)
    {
      g_assert_true (psi_schedule_kind_find (psi_schedules[i]->name) == psi_schedules[i]);
      g_assert_nonnull (psi_schedules[i]->summary);
      g_assert_cmpuint (strlen (psi_schedules[i]->summary), <, 120);
    }
  g_assert_null (psi_schedule_kind_find ("1f2b"));
}

static PsiSchedule *
build_cyclic (guint n, guint k, gint64 m, PsiPlacement placement, gboolean by_stage, gboolean delayed,
              gint64 forward_ps, gint64 backward_ps)
{
  g_autofree gint64 *forward = g_new (gint64, k), *backward = g_new (gint64, k);

  for (guint j = 0; j < k; j++)
    {
      forward[j] = forward_ps;
      backward[j] = backward_ps;
    }
  PsiScheduleShape shape = { .micro_batches = m,
                             .workers = n,
                             .stages = k,
                             .placement = placement,
                             .by_stage = by_stage,
                             .delayed = delayed,
                             .forward_ps = forward,
                             .backward_ps = backward };
  return build ("cyclic", &shape);
}

/* Workers begin in order, anywhere within the step, by the seed alone; a worker is fresh iff causality allows it. */
static void
test_random (void)
{
  static const gint64 times[] = { 3000, 1000, 2000, 5000, 4000 };
  double sum = 0;

  for (guint n = 1; n <= 12; n++)
    for (guint seed = 0; seed < 40; seed++)
      {
        PsiScheduleShape shape = { .micro_batches = 2,
                                   .workers = n,
                                   .stages = G_N_ELEMENTS (times),
                                   .placement = PSI_PLACEMENT_SEPARATE,
                                   .forward_ps = times,
                                   .backward_ps = times,
                                   .random = TRUE,
                                   .seed = seed };
        g_autoptr (PsiSchedule) s = build ("cyclic", &shape);
        g_autoptr (PsiSchedule) again = build ("cyclic", &shape);
        shape.seed += G_GUINT64_CONSTANT (1) << 32;
        g_autoptr (PsiSchedule) other = build ("cyclic", &shape);
        shape.delayed = TRUE;
        g_autoptr (PsiSchedule) delayed = build ("cyclic", &shape);

        g_assert_cmpint (s->period_ps, ==, 2 * 2 * 15000);
        g_assert_cmpmem (s->start_ps, n * sizeof *s->start_ps, again->start_ps, n * sizeof *s->start_ps);
        g_assert_cmpint (s->start_ps[0], ==, 0);
        if (n > 1)
          g_assert_cmpint (s->start_ps[n - 1], !=, other->start_ps[n - 1]);
        for (guint i = 0; i < n; i++)
          {
            if (i > 0)
              g_assert_cmpint (s->start_ps[i], >=, s->start_ps[i - 1]);
            g_assert_cmpint (s->start_ps[i], <, s->period_ps);
            sum += n == 12 && i > 0 ? (double) s->start_ps[i] / (double) s->period_ps : 0;
            for (guint j = 0; j < s->n_parts; j++)
              {
                gint64 before_ps = 0, old_ps = 0; /* forwards before part j; its update, one period ago */

                for (guint p = 0; p < s->n_parts; p++)
                  {
                    before_ps += p < j ? times[p] : 0;
                    old_ps -= p < j ? times[p] : 0;
                  }
                old_ps += s->start_ps[n - 1];
                g_assert_cmpint (s->first_use_ps[i * s->n_parts + j], ==, s->start_ps[i] + before_ps);
                g_assert_cmpuint (s->stale[i * s->n_parts + j], ==, n > 1 && s->start_ps[i] + before_ps < old_ps);
                g_assert_cmpuint (delayed->stale[i * s->n_parts + j], ==, n > 1);
              }
          }
      }
  g_assert_cmpfloat_with_epsilon (sum / (11 * 40), 0.5, 0.05);
}

/* N = K: stage j of worker i is fresh iff i + j >= N + 1, both from 1; under v1 nothing is. */
static void
test_stale (void)
{
  for (guint n = 2; n <= 12; n++)
    for (guint delayed = 0; delayed < 2; delayed++)
      {
        g_autoptr (PsiSchedule) schedule = build_cyclic (n, n, 1, PSI_PLACEMENT_SEPARATE, FALSE, delayed, 1000, 3000);

        for (guint i = 0; i < n; i++)
          g_assert_cmpint (schedule->start_ps[i], ==, i * 4000);
        g_assert_cmpint (schedule->period_ps, ==, 4000 * n);
        for (guint i = 1; i <= n; i++)
          for (guint j = 1; j <= n; j++)
            g_assert_cmpuint (schedule->stale[(i - 1) * n + j - 1], ==, delayed || i + j < n + 1);
      }
}

/* One GPU in slots, N = 3: three ops a slot, backwards first; both halves of the figure's period. */
static void
test_one_gpu (void)
{
  g_autoptr (PsiSchedule) schedule = build_cyclic (3, 3, 1, PSI_PLACEMENT_SHARED, FALSE, FALSE, 1000, 5000);
  static const char *const order[] = { /* slot 0 .. 5: kind, worker, part; + = of the step before */
                                       "B1.1+ F0.0 F2.2+", "B1.0+ B2.2+ F0.1", "B2.1+ F0.2 F1.0",
                                       "B0.2 B2.0+ F1.1",  "B0.1 F1.2 F2.0",   "B0.0 B1.2 F2.1"
  };
  g_autoptr (GString) text = g_string_new (NULL);

  g_assert_cmpuint (schedule->n_ranks, ==, 1);
  g_assert_cmpuint (schedule->lists[0]->len, ==, 18);
  for (guint t = 0; t < 18; t++)
    {
      const PsiToken *token = &g_array_index (schedule->lists[0], PsiToken, t);

      g_string_append_printf (text, "%s%c%d.%d%s", t % 3 > 0 ? " " : "", token->kind == PSI_TOKEN_FORWARD ? 'F' : 'B',
                              token->micro_batch, token->chunk, token->shift > 0 ? "+" : "");
      if (t % 3 == 2)
        {
          g_assert_cmpstr (text->str, ==, order[t / 3]);
          g_string_truncate (text, 0);
        }
    }
}

/* GPUs of a stage that workers share: as many micro-batches as are alive at once. */
static void
test_pools (void)
{
  for (guint n = 2; n <= 9; n++)
    for (guint k = 1; k <= 9; k++)
      {
        g_autoptr (PsiSchedule) schedule = build_cyclic (n, k, 1, PSI_PLACEMENT_SHARED, TRUE, FALSE, 2520000, 5040000);

        for (guint j = 1; j <= k; j++)
          g_assert_cmpuint (schedule->pool[j - 1], ==, ((k - j + 1) * n + k - 1) / k);
      }
}

/* Unequal stages on one GPU each: the longest sets the pace. */
static void
test_unequal_stages (void)
{
  const gint64 forward[] = { 1000, 4000, 1000 }, backward[] = { 2000, 8000, 2000 };
  PsiScheduleShape shape = { .micro_batches = 1,
                             .workers = 3,
                             .stages = 3,
                             .placement = PSI_PLACEMENT_STAGE,
                             .by_stage = TRUE,
                             .forward_ps = forward,
                             .backward_ps = backward };
  g_autoptr (PsiSchedule) schedule = build ("cyclic", &shape);

  g_assert_cmpint (schedule->start_ps[1], ==, 12000);
  g_assert_cmpint (schedule->period_ps, ==, 36000);
  shape.placement = PSI_PLACEMENT_SEPARATE;
  shape.by_stage = FALSE;
  g_autoptr (PsiSchedule) separate = build ("cyclic", &shape);
  g_assert_cmpint (separate->start_ps[1], ==, 6000);
}

/* One GPU for each stage and one stage longer than the others: it alone decides, in whatever place it is. And no order
 * runs faster than its longest stage, or than a worker by itself. */
static void
test_long_stage (void)
{
  for (guint n = 1; n <= 8; n++)
    for (guint k = 2; k <= 8; k++)
      for (guint longer = 0; longer < k; longer++)
        {
          gint64 forward[8], backward[8], worker_ps = 0;

          for (guint j = 0; j < k; j++)
            {
              forward[j] = j == longer ? 13 : 10;
              backward[j] = 2 * forward[j];
              worker_ps += forward[j] + backward[j];
            }
          PsiScheduleShape shape = { .micro_batches = 1,
                                     .workers = n,
                                     .stages = k,
                                     .placement = PSI_PLACEMENT_STAGE,
                                     .by_stage = TRUE,
                                     .forward_ps = forward,
                                     .backward_ps = backward };
          g_auto (PsiCyclicTimeline) timeline = { NULL };

          g_assert_true (psi_cyclic_timeline_init (&timeline, &shape, NULL));
          double pace_ps = psi_cyclic_timeline_pace_ps (&timeline, &shape);
          double bound_ps = (double) MAX (worker_ps, 39 * n);
          if (n >= k)
            g_assert_cmpfloat_with_epsilon (pace_ps, bound_ps, 1e-9);
          g_assert_cmpfloat (pace_ps, >=, bound_ps - 1e-9);
          g_assert_cmpfloat (pace_ps, <=, 1.25 * bound_ps);
        }
}

/* A step that nobody would wait for is refused at once; one order for all workers may be larger than one for each. */
static void
test_too_large (void)
{
  static const gint64 times[10] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
  static const struct
  {
    guint workers;
    PsiPlacement placement;
    gboolean by_stage, fits;
  } rows[] = { { 30000, PSI_PLACEMENT_SEPARATE, FALSE, TRUE }, { 30001, PSI_PLACEMENT_SEPARATE, FALSE, FALSE },
               { 30000, PSI_PLACEMENT_STAGE, TRUE, TRUE },     { 10001, PSI_PLACEMENT_SHARED, TRUE, FALSE },
               { 10000, PSI_PLACEMENT_SHARED, TRUE, TRUE },    { G_MAXUINT32, PSI_PLACEMENT_STAGE, TRUE, FALSE } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      PsiScheduleShape shape = { .micro_batches = 1,
                                 .workers = rows[i].workers,
                                 .stages = 10,
                                 .placement = rows[i].placement,
                                 .by_stage = rows[i].by_stage,
                                 .forward_ps = times,
                                 .backward_ps = times };
      g_autoptr (GError) error = NULL;
      g_autoptr (PsiSchedule) schedule = psi_schedule_cyclic.build (&shape, &error);

      g_assert_true ((schedule != NULL) == rows[i].fits);
      if (!rows[i].fits)
        {
          g_assert_error (error, PSI_SCHEDULE_ERROR, PSI_SCHEDULE_ERROR_SHAPE);
          g_assert_nonnull (strstr (error->message, "too large to follow"));
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/plan/schedule/lists", test_lists);
  g_test_add_func ("/plan/schedule/complete", test_complete);
  g_test_add_func ("/plan/schedule/table", test_table);
  g_test_add_func ("/plan/schedule/cyclic/stale", test_stale);
  g_test_add_func ("/plan/schedule/cyclic/random", test_random);
  g_test_add_func ("/plan/schedule/cyclic/one-gpu", test_one_gpu);
  g_test_add_func ("/plan/schedule/cyclic/pools", test_pools);
  g_test_add_func ("/plan/schedule/cyclic/unequal-stages", test_unequal_stages);
  g_test_add_func ("/plan/schedule/cyclic/long-stage", test_long_stage);
  g_test_add_func ("/plan/schedule/cyclic/too-large", test_too_large);
  return g_test_run ();
}
