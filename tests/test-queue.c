/* SPDX-License-Identifier: MIT */
/* The event queue against a sorted array, for many ways in which times are spread. */
#include "psi-queue.h"

#include <string.h>

typedef PsiTime (*DrawFunc) (GRand *rand);

static PsiTime
draw_uniform (GRand *rand)
{
  return g_rand_int_range (rand, 0, 1000000000);
}

static PsiTime
draw_exponential (GRand *rand)
{
  return psi_time_from_s (-log (1 - g_rand_double (rand)) * 1e-6);
}

static PsiTime
draw_bimodal (GRand *rand)
{
  return g_rand_double (rand) < 0.9 ? g_rand_int_range (rand, 0, 100) : g_rand_int_range (rand, 1000000, 1000100);
}

static PsiTime
draw_constant (GRand *rand)
{
  return 1000;
}

static PsiTime
draw_zero (GRand *rand)
{
  return 0;
}

static PsiTime
draw_few_times (GRand *rand)
{
  return g_rand_int_range (rand, 0, 3) * 1000000;
}

static PsiTime
draw_outliers (GRand *rand)
{
  return g_rand_int_range (rand, 0, 100) == 0 ? PSI_TIME_MAX : g_rand_int_range (rand, 0, 5000);
}

static PsiTime
draw_scales (GRand *rand)
{
  return (PsiTime) exp2 (g_rand_double_range (rand, 0, 60));
}

static const struct
{
  const char *path;
  DrawFunc draw;
} spreads[] = {
  { "/engine/queue/uniform", draw_uniform },   { "/engine/queue/exponential", draw_exponential },
  { "/engine/queue/bimodal", draw_bimodal },   { "/engine/queue/constant", draw_constant },
  { "/engine/queue/zero", draw_zero },         { "/engine/queue/few-times", draw_few_times },
  { "/engine/queue/outliers", draw_outliers }, { "/engine/queue/all-scales", draw_scales },
};

static gboolean
event_before (PsiEvent a, PsiEvent b)
{
  return a.time_ps != b.time_ps ? a.time_ps < b.time_ps : a.key < b.key;
}

/* The reference: sorted, the first event last. */
static void
reference_push (GArray *sorted, PsiEvent event)
{
  guint low = 0, high = sorted->len;

  while (low < high)
    {
      guint middle = (low + high) / 2;
      if (event_before (event, g_array_index (sorted, PsiEvent, middle)))
        low = middle + 1;
      else
        high = middle;
    }
  g_array_insert_val (sorted, low, event);
}

static void
pop_and_compare (PsiQueue *queue, GArray *sorted)
{
  PsiEvent expected = g_array_index (sorted, PsiEvent, sorted->len - 1), event;

  g_assert_true (psi_queue_pop (queue, &event));
  g_assert_cmpint (event.time_ps, ==, expected.time_ps);
  g_assert_cmpuint (event.key, ==, expected.key);
  g_array_set_size (sorted, sorted->len - 1);
}

/* Fill to a size, hold there, drain, several times over with one queue; keys random, so ties come out of order. */
static void
test_spread (gconstpointer data)
{
  DrawFunc draw = *(const DrawFunc *) data;
  const guint sizes[] = { 1, 5, 60, 130, 3000, 40, 1000 };
  g_autoptr (PsiQueue) queue = psi_queue_new ();
  g_autoptr (GArray) sorted = g_array_new (FALSE, FALSE, sizeof (PsiEvent));
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  PsiTime now_ps = 0;

  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    {
      for (guint i = 0; i < 3 * sizes[s] + 500; i++)
        {
          guint n_pushes = i < sizes[s] ? 1 : g_rand_int_range (rand, 0, 3);
          for (guint k = 0; k < n_pushes; k++)
            {
              PsiEvent event = { psi_time_add (now_ps, draw (rand)), g_rand_int (rand) };
              psi_queue_push (queue, event);
              reference_push (sorted, event);
            }
          g_assert_cmpuint (psi_queue_size (queue), ==, sorted->len);
          if (i % 3 == 0)
            g_assert_cmpint (psi_queue_next_ps (queue), ==,
                             sorted->len ? g_array_index (sorted, PsiEvent, sorted->len - 1).time_ps : PSI_TIME_MAX);
          if (i < sizes[s] || sorted->len == 0)
            continue;
          now_ps = g_array_index (sorted, PsiEvent, sorted->len - 1).time_ps;
          pop_and_compare (queue, sorted);
        }
      while (sorted->len)
        {
          now_ps = g_array_index (sorted, PsiEvent, sorted->len - 1).time_ps;
          pop_and_compare (queue, sorted);
        }
      g_assert_false (psi_queue_pop (queue, &(PsiEvent){ 0 }));
      g_assert_cmpint (psi_queue_next_ps (queue), ==, PSI_TIME_MAX);
      if (s % 2)
        {
          now_ps = 0;
          psi_queue_free (queue);
          queue = psi_queue_new ();
        }
    }
}

static void
test_empty (void)
{
  g_autoptr (PsiQueue) queue = psi_queue_new ();
  PsiEvent event = { 1, 2 };

  g_assert_cmpint (psi_queue_next_ps (queue), ==, PSI_TIME_MAX);
  g_assert_false (psi_queue_pop (queue, &event));
  g_assert_cmpint (event.time_ps, ==, 1);
  psi_queue_free (NULL);
}

/* 1e5 events, 100 a tie, then held: every tie comes in key order although it was pushed in any order. */
static void
test_ties (void)
{
  g_autoptr (PsiQueue) queue = psi_queue_new ();
  PsiEvent last = { -1, 0 }, event;

  for (guint i = 0; i < 100000; i++)
    psi_queue_push (queue, (PsiEvent){ i / 100, (i * 37) % 100 });
  for (guint i = 0; i < 200000; i++)
    {
      g_assert_true (psi_queue_pop (queue, &event));
      g_assert_true (event_before (last, event));
      last = event;
      if (i < 100000)
        psi_queue_push (queue, (PsiEvent){ event.time_ps + 1000, event.key });
    }
  g_assert_cmpuint (psi_queue_size (queue), ==, 0);
}

/* All at one instant, keys falling: the slowest way to fill an order by insertion. */
static void
test_one_instant (void)
{
  g_autoptr (PsiQueue) queue = psi_queue_new ();
  PsiEvent event;

  for (guint i = 50000; i-- > 0;)
    psi_queue_push (queue, (PsiEvent){ PSI_TIME_MAX, i });
  for (guint i = 0; i < 50000; i++)
    {
      g_assert_true (psi_queue_pop (queue, &event));
      g_assert_cmpuint (event.key, ==, i);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/queue/empty", test_empty);
  g_test_add_func ("/engine/queue/ties", test_ties);
  g_test_add_func ("/engine/queue/one-instant", test_one_instant);
  for (guint i = 0; i < G_N_ELEMENTS (spreads); i++)
    g_test_add_data_func (spreads[i].path, &spreads[i].draw, test_spread);
  return g_test_run ();
}
