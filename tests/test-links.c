/* SPDX-License-Identifier: MIT */
/* Shared links against plain water-filling: rates of random networks, whole simulations, and the odd cases. */
#include "bench-loads.h"

#include <stdlib.h>
#include <string.h>

#define MAX_USES 6

typedef struct
{
  PsiTime start_ps;
  gint64 bytes;
  double cap;
  guint n_uses;
  PsiLinkUse uses[MAX_USES];
} Load;

static double
draw_weight (GRand *rand, guint style)
{
  switch (style % 3)
    {
    case 0:
      return 1;
    case 1:
      return g_rand_int_range (rand, 1, 5);
    default:
      return g_rand_int_range (rand, 10000, 3000000) * 0x1p-20; /* fits the 40 bits that weights have in sums */
    }
}

/* style: 0 all alike, 1 whole weights, 2 any; + 3: with caps; + 6: everything starts at few instants. */
static void
draw_load (GRand *rand, guint n_links, guint style, Load *ret_load)
{
  memset (ret_load, 0, sizeof *ret_load);
  ret_load->start_ps = style >= 6 ? g_rand_int_range (rand, 0, 3) * 100000 : g_rand_int_range (rand, 0, 1000000);
  ret_load->bytes = style % 3 ? g_rand_int_range (rand, 0, 30000) : 10000;
  ret_load->cap = style / 3 % 2 && g_rand_boolean (rand) ? g_rand_int_range (rand, 1, 8) * 3e9 : HUGE_VAL;
  ret_load->n_uses = g_rand_int_range (rand, 1, MIN (MAX_USES, n_links) + 1);
  for (guint u = 0; u < ret_load->n_uses;)
    {
      PsiLinkUse use = { g_rand_int_range (rand, 0, n_links), draw_weight (rand, style) };
      gboolean doubled = FALSE;
      for (guint v = 0; v < u; v++)
        doubled |= ret_load->uses[v].link == use.link;
      if (!doubled)
        ret_load->uses[u++] = use;
    }
}

static void
solve_loads (const double *rates, guint n_links, const Load *loads, const guint *ids, guint n_ids, double *ret_rates)
{
  g_autofree PsiLinkUse *uses = g_new (PsiLinkUse, n_ids * MAX_USES + 1);
  g_autofree guint *first = g_new0 (guint, n_ids + 1);
  g_autofree double *caps = g_new (double, n_ids + 1);

  for (guint i = 0; i < n_ids; i++)
    {
      const Load *load = &loads[ids[i]];
      memcpy (uses + first[i], load->uses, load->n_uses * sizeof *uses);
      first[i + 1] = first[i] + load->n_uses;
      caps[i] = load->cap;
    }
  psi_links_solve_plain (rates, n_links, uses, first, n_ids, caps, ret_rates);
}

static void
assert_near (double value, double expected)
{
  if (fabs (value - expected) > 1e-12 * fabs (expected))
    g_error ("%.17g is not %.17g", value, expected);
}

static int
compare_starts (const void *a, const void *b)
{
  const Load *la = a, *lb = b;
  return (la->start_ps > lb->start_ps) - (la->start_ps < lb->start_ps);
}

/* Run the loads through the module, comparing all rates and the work done at each change; end times out. */
static void
run_loads (PsiLinks *links, const double *rates, guint n_links, const Load *loads, guint n_loads, const guint *order,
           gboolean with_oracle, PsiTime *ret_ends_ps)
{
  g_autofree PsiFlowId *flows = g_new (PsiFlowId, n_loads);
  g_autofree guint *running = g_new (guint, n_loads);
  g_autofree double *expected = g_new (double, n_loads), *used = g_new (double, n_links);
  g_autofree double *sent = g_new0 (double, n_loads), *tolerance = g_new0 (double, n_loads);
  PsiTime last_ps = 0;
  guint n_running = 0, next = 0;

  for (;;)
    {
      PsiTime end_ps = psi_links_next_ps (links);
      PsiTime start_ps = next < n_loads ? loads[order[next]].start_ps : PSI_TIME_MAX;
      PsiTime now_ps = MIN (end_ps, start_ps);
      guint64 cookie, last = 0;

      if (now_ps == PSI_TIME_MAX)
        break;
      for (guint i = 0; with_oracle && i < n_running; i++)
        {
          double rate = psi_links_flow_rate (links, flows[running[i]]);
          sent[running[i]] += rate * psi_time_to_s (now_ps - last_ps);
          tolerance[running[i]] += 0x1p-16;
        }
      last_ps = now_ps;
      while (end_ps == now_ps && psi_links_pop (links, now_ps, &cookie))
        {
          g_assert_cmpuint (cookie, >=, last);
          last = cookie;
          ret_ends_ps[cookie] = now_ps;
          if (with_oracle && loads[cookie].bytes > 0)
            g_assert_cmpfloat (fabs (sent[cookie] - (double) loads[cookie].bytes), <=, tolerance[cookie]);
          for (guint i = 0; i < n_running; i++)
            if (running[i] == cookie)
              {
                running[i] = running[--n_running];
                break;
              }
        }
      for (; next < n_loads && loads[order[next]].start_ps == now_ps; next++)
        {
          const Load *load = &loads[order[next]];
          flows[order[next]] =
              psi_links_start (links, now_ps, load->bytes, load->cap, load->uses, load->n_uses, order[next]);
          if (load->bytes > 0)
            running[n_running++] = order[next];
          /* Half a picosecond at the end, at the rate that it has alone. */
          solve_loads (rates, n_links, loads, &order[next], 1, &tolerance[order[next]]);
          tolerance[order[next]] *= 0.501e-12;
        }
      if (!with_oracle)
        continue;
      psi_links_next_ps (links);
      solve_loads (rates, n_links, loads, running, n_running, expected);
      memset (used, 0, n_links * sizeof *used);
      for (guint i = 0; i < n_running; i++)
        {
          const Load *load = &loads[running[i]];
          double rate = psi_links_flow_rate (links, flows[running[i]]);
          assert_near (rate, expected[i]);
          for (guint u = 0; u < load->n_uses; u++)
            used[load->uses[u].link] += load->uses[u].weight * rate;
        }
      for (guint l = 0; l < n_links; l++)
        g_assert_cmpfloat (used[l], <=, rates[l] * (1 + 1e-12));
    }
  g_assert_cmpuint (psi_links_n_flows (links), ==, 0);
}

/* A simulation that computes everything anew at every event, in double. */
static void
run_plain (const double *rates, guint n_links, const Load *loads, guint n_loads, const guint *order,
           double *ret_ends_ps)
{
  g_autofree guint *running = g_new (guint, n_loads);
  g_autofree double *left = g_new (double, n_loads), *solved = g_new (double, n_loads);
  guint n_running = 0, next = 0;
  double now_ps = 0;

  while (n_running > 0 || next < n_loads)
    {
      double next_ps = next < n_loads ? (double) loads[order[next]].start_ps : HUGE_VAL;
      guint n_kept = 0;

      solve_loads (rates, n_links, loads, running, n_running, solved);
      for (guint i = 0; i < n_running; i++)
        next_ps = MIN (next_ps, rint (now_ps + left[running[i]] / solved[i] * 1e12));
      for (guint i = 0; i < n_running; i++)
        {
          gboolean ends = rint (now_ps + left[running[i]] / solved[i] * 1e12) <= next_ps;
          left[running[i]] -= solved[i] * (next_ps - now_ps) / 1e12;
          if (ends)
            ret_ends_ps[running[i]] = next_ps;
          else
            running[n_kept++] = running[i];
        }
      n_running = n_kept;
      now_ps = next_ps;
      for (; next < n_loads && (double) loads[order[next]].start_ps == now_ps; next++)
        {
          left[order[next]] = (double) loads[order[next]].bytes;
          running[n_running++] = order[next];
        }
    }
}

static void
shuffle (GRand *rand, guint *order, const Load *loads, guint n_loads)
{
  for (guint i = 1; i < n_loads; i++)
    for (guint k = i; k > 0 && loads[order[k - 1]].start_ps == loads[order[k]].start_ps && g_rand_boolean (rand); k--)
      {
        guint swap = order[k];
        order[k] = order[k - 1];
        order[k - 1] = swap;
      }
}

static void
test_random (gconstpointer data)
{
  guint style = GPOINTER_TO_UINT (data);
  g_autoptr (GRand) rand = g_rand_new_with_seed (style + 1);

  for (guint round = 0; round < 12; round++)
    {
      guint n_links = g_rand_int_range (rand, 1, 25), n_loads = g_rand_int_range (rand, 1, 100);
      g_autofree double *rates = g_new (double, n_links), *plain_ps = g_new (double, n_loads);
      g_autofree Load *loads = g_new (Load, n_loads);
      g_autofree guint *order = g_new (guint, n_loads);
      g_autofree PsiTime *ends_ps = g_new (PsiTime, n_loads), *again_ps = g_new (PsiTime, n_loads);
      g_autoptr (PsiLinks) links = psi_links_new ();

      for (guint l = 0; l < n_links; l++)
        {
          rates[l] = style % 3 ? g_rand_double_range (rand, 1e9, 1e11) : 5e10;
          g_assert_cmpuint (psi_links_add (links, rates[l]), ==, l);
        }
      for (guint i = 0; i < n_loads; i++)
        draw_load (rand, n_links, style, &loads[i]);
      qsort (loads, n_loads, sizeof *loads, compare_starts);
      for (guint i = 0; i < n_loads; i++)
        order[i] = i;
      run_loads (links, rates, n_links, loads, n_loads, order, TRUE, ends_ps);
      run_plain (rates, n_links, loads, n_loads, order, plain_ps);
      for (guint i = 0; i < n_loads; i++)
        g_assert_cmpfloat (fabs ((double) ends_ps[i] - plain_ps[i]), <=, 1);
      /* In another order at each instant, in used and in fresh links: the same to the picosecond. */
      for (guint k = 0; k < 2; k++)
        {
          g_autoptr (PsiLinks) fresh = psi_links_new ();
          shuffle (rand, order, loads, n_loads);
          for (guint l = 0; l < n_links; l++)
            psi_links_add (fresh, rates[l]);
          psi_links_reset (links);
          run_loads (k ? fresh : links, rates, n_links, loads, n_loads, order, FALSE, again_ps);
          g_assert_cmpmem (ends_ps, n_loads * sizeof *ends_ps, again_ps, n_loads * sizeof *again_ps);
        }
    }
}

/* Equal hosts, all to all: every flow gets the very same rate and they end together. */
static void
test_symmetric (void)
{
  const guint n = 12;
  g_autoptr (PsiLinks) links = psi_links_new ();
  guint64 cookie, n_ended = 0;
  PsiTime end_ps;

  for (guint l = 0; l < 2 * n; l++)
    psi_links_add (links, 50e9);
  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < n; j++)
      if (i != j)
        psi_links_start (links, 5, 1000000, HUGE_VAL, (PsiLinkUse[]){ { i, 1 }, { n + j, 1 } }, 2, i * n + j);
  end_ps = psi_links_next_ps (links);
  g_assert_cmpint (end_ps, ==, 5 + psi_time_from_s (1e6 / (50e9 / (n - 1))));
  g_assert_false (psi_links_pop (links, end_ps - 1, &cookie));
  while (psi_links_pop (links, end_ps, &cookie))
    n_ended++;
  g_assert_cmpuint (n_ended, ==, n * (n - 1));
  g_assert_cmpint (psi_links_next_ps (links), ==, PSI_TIME_MAX);
}

/* Private links and a shared one: n senders with back-to-back messages; one bottleneck, so bytes / rate. */
static void
test_one_bottleneck (void)
{
  const guint n = 40, k = 25;
  g_autoptr (PsiLinks) links = psi_links_new ();
  PsiTime now_ps = 0;

  psi_links_add (links, 1e10);
  for (guint i = 0; i < n; i++)
    {
      psi_links_add (links, 2e10);
      psi_links_start (links, 0, 1000 + i, HUGE_VAL, (PsiLinkUse[]){ { 0, 1 }, { i + 1, 1 } }, 2, i);
    }
  for (guint m = n; psi_links_n_flows (links); m++)
    {
      guint64 cookie;
      now_ps = psi_links_next_ps (links);
      g_assert_true (psi_links_pop (links, now_ps, &cookie));
      if (m < n * k)
        psi_links_start (links, now_ps, 1000 + m % n, HUGE_VAL, (PsiLinkUse[]){ { 0, 1 }, { m % n + 1, 1 } }, 2, m);
    }
  g_assert_cmpint (labs (now_ps - psi_time_from_s (k * (n * 1000 + n * (n - 1) / 2.0) / 1e10)), <=, 5);
}

static PsiTime
end_of_one (double link_rate, gint64 bytes, double cap, double weight)
{
  g_autoptr (PsiLinks) links = psi_links_new ();
  PsiLinkUse use = { psi_links_add (links, link_rate), weight };

  psi_links_start (links, 7, bytes, cap, &use, 1, 3);
  return psi_links_next_ps (links);
}

static void
test_alone (void)
{
  g_assert_cmpint (end_of_one (50e9, 204800, HUGE_VAL, 1), ==, 7 + psi_time_from_s (204800 / 50e9));
  g_assert_cmpint (end_of_one (50e9, 204800, 1e9, 1), ==, 7 + psi_time_from_s (204800 / 1e9));
  g_assert_cmpint (end_of_one (50e9, 1000003, HUGE_VAL, 4 / 3.0), ==,
                   7 + psi_time_from_s (1000003 / (50e9 / (4 / 3.0))));
  g_assert_cmpint (end_of_one (50e9, 0, HUGE_VAL, 1), ==, 7);
  g_assert_cmpint (end_of_one (HUGE_VAL, 1000, HUGE_VAL, 1), ==, 7);
  g_assert_cmpint (end_of_one (HUGE_VAL, 1000, 1e9, 1), ==, 1000007);
}

static void
test_extremes (void)
{
  const gint64 tib = (gint64) 1 << 40, eib = (gint64) 1 << 60;

  g_assert_cmpint (end_of_one (1, tib, HUGE_VAL, 1), ==, tib < 2e6 ? tib * 1000000000000 : PSI_TIME_MAX);
  g_assert_cmpint (end_of_one (1, 1 << 20, HUGE_VAL, 1), ==, 7 + ((gint64) 1 << 20) * 1000000000000);
  g_assert_cmpint (end_of_one (0x1p40, tib * 1024, HUGE_VAL, 1), ==, 7 + 1024 * (PsiTime) 1000000000000);
  g_assert_cmpint (end_of_one (0x1p50, eib, HUGE_VAL, 1), ==, 7 + 1024 * (PsiTime) 1000000000000);
  g_assert_cmpint (end_of_one (1e9, eib, HUGE_VAL, 1), ==, PSI_TIME_MAX);
  g_assert_cmpint (end_of_one (1e300, eib, HUGE_VAL, 1), ==, 7);
  g_assert_cmpint (end_of_one (0, 1, HUGE_VAL, 1), ==, PSI_TIME_MAX);
  g_assert_cmpint (end_of_one (0, 0, HUGE_VAL, 1), ==, 7);
}

/* Two huge flows share a link for a while: no overflow of the clock. */
static void
test_huge_shared (void)
{
  g_autoptr (PsiLinks) links = psi_links_new ();
  PsiLinkUse use = { psi_links_add (links, 0x1p50), 1 };
  guint64 cookie;
  PsiTime end_ps;

  psi_links_start (links, 0, (gint64) 1 << 59, HUGE_VAL, &use, 1, 0);
  psi_links_start (links, 0, (gint64) 1 << 60, HUGE_VAL, &use, 1, 1);
  end_ps = psi_links_next_ps (links);
  g_assert_cmpint (end_ps, ==, 1024 * (PsiTime) 1000000000000);
  g_assert_true (psi_links_pop (links, end_ps, &cookie));
  g_assert_cmpuint (cookie, ==, 0);
  g_assert_cmpint (psi_links_next_ps (links), ==, 1536 * (PsiTime) 1000000000000);
}

/* A dead link: its flow never ends, and takes nothing from others. */
static void
test_dead_link (void)
{
  g_autoptr (PsiLinks) links = psi_links_new ();
  PsiLinkId dead = psi_links_add (links, 0), alive = psi_links_add (links, 1e9);
  PsiFlowId stuck[2];
  guint64 cookie;

  for (guint i = 0; i < 2; i++)
    stuck[i] = psi_links_start (links, 0, 1, HUGE_VAL, (PsiLinkUse[]){ { dead, 1 }, { alive, 1 } }, 2, i);
  psi_links_start (links, 0, 1000, HUGE_VAL, (PsiLinkUse[]){ { alive, 1 } }, 1, 2);
  g_assert_cmpint (psi_links_next_ps (links), ==, 1000000);
  g_assert_cmpfloat (psi_links_flow_rate (links, stuck[0]), ==, 0);
  g_assert_true (psi_links_pop (links, 1000000, &cookie));
  g_assert_cmpuint (cookie, ==, 2);
  g_assert_cmpint (psi_links_next_ps (links), ==, PSI_TIME_MAX);
  g_assert_false (psi_links_pop (links, PSI_TIME_MAX, &cookie));
  g_assert_cmpuint (psi_links_n_flows (links), ==, 2);
  psi_links_reset (links);
  g_assert_cmpuint (psi_links_n_flows (links), ==, 0);
  g_assert_cmpuint (psi_links_n_links (links), ==, 2);
  psi_links_start (links, 0, 1000, HUGE_VAL, (PsiLinkUse[]){ { alive, 1 } }, 1, 2);
  g_assert_cmpint (psi_links_next_ps (links), ==, 1000000);
}

static void
test_same_link_twice (void)
{
  g_autoptr (PsiLinks) links = psi_links_new ();
  PsiLinkId link = psi_links_add (links, 3e9);

  psi_links_start (links, 0, 1000, HUGE_VAL, (PsiLinkUse[]){ { link, 1 }, { link, 2 } }, 2, 0);
  g_assert_cmpint (psi_links_next_ps (links), ==, 1000000);
  psi_links_start (links, 0, 1000, HUGE_VAL, (PsiLinkUse[]){ { link, 3 } }, 1, 1);
  g_assert_cmpint (psi_links_next_ps (links), ==, 2000000);
}

/* Flows that end together come by cookie, whoever held them; one of no bytes started then is among them. */
static void
test_cookie_order (void)
{
  g_autoptr (PsiLinks) links = psi_links_new ();
  guint64 cookie;

  for (guint i = 0; i < 10; i++)
    psi_links_add (links, 1e9);
  for (guint i = 0; i < 20; i++)
    psi_links_start (links, 0, 500, HUGE_VAL, &(PsiLinkUse){ i % 10, 1 }, 1, (i * 7) % 20 + 10);
  g_assert_cmpint (psi_links_next_ps (links), ==, 1000000);
  for (guint i = 0; i < 20; i++)
    {
      g_assert_true (psi_links_pop (links, 1000000, &cookie));
      g_assert_cmpuint (cookie, ==, i + 10);
      if (i == 10)
        {
          psi_links_start (links, 1000000, 0, HUGE_VAL, NULL, 0, 1);
          g_assert_cmpint (psi_links_next_ps (links), ==, 1000000);
          g_assert_true (psi_links_pop (links, 1000000, &cookie));
          g_assert_cmpuint (cookie, ==, 1);
        }
    }
  g_assert_false (psi_links_pop (links, 1000000, &cookie));
}

/* A weight of n is n equal flows. */
static void
test_multiplicity (void)
{
  g_autoptr (PsiLinks) one = psi_links_new (), many = psi_links_new ();

  psi_links_add (one, 7e9);
  psi_links_add (many, 7e9);
  psi_links_start (one, 0, 12345, HUGE_VAL, &(PsiLinkUse){ 0, 5 }, 1, 0);
  for (guint i = 0; i < 5; i++)
    psi_links_start (many, 0, 12345, HUGE_VAL, &(PsiLinkUse){ 0, 1 }, 1, 0);
  psi_links_start (one, 0, 99999, HUGE_VAL, &(PsiLinkUse){ 0, 1 }, 1, 9);
  psi_links_start (many, 0, 99999, HUGE_VAL, &(PsiLinkUse){ 0, 1 }, 1, 9);
  for (guint i = 0; i < 2; i++)
    {
      guint64 cookie;
      PsiTime end_ps = psi_links_next_ps (one);
      g_assert_cmpint (psi_links_next_ps (many), ==, end_ps);
      while (psi_links_pop (one, end_ps, &cookie))
        ;
      while (psi_links_pop (many, end_ps, &cookie))
        ;
    }
}

/* Collectives: flows over the same 300 links, which are shared, alone and shared again. */
static void
test_wide (void)
{
  g_autoptr (PsiLinks) links = psi_links_new ();
  PsiLinkUse uses[300];
  guint64 cookie;

  for (guint l = 0; l < G_N_ELEMENTS (uses); l++)
    uses[l] = (PsiLinkUse){ psi_links_add (links, 6e9), 2 };
  for (guint round = 0; round < 3; round++)
    {
      const PsiTime start_ps = round * (PsiTime) 10000000;
      for (guint i = 0; i < 3; i++) /* at 1, then 1.5, then 3 bytes a nanosecond */
        psi_links_start (links, start_ps, 3000 * (i + 1), HUGE_VAL, uses, G_N_ELEMENTS (uses), i);
      for (guint i = 0; i < 3; i++)
        {
          const PsiTime ends_ps[] = { 3000000, 5000000, 6000000 };
          g_assert_cmpint (psi_links_next_ps (links), ==, start_ps + ends_ps[i]);
          g_assert_true (psi_links_pop (links, start_ps + ends_ps[i], &cookie));
          g_assert_cmpuint (cookie, ==, i);
        }
    }
  g_assert_cmpint (psi_links_next_ps (links), ==, PSI_TIME_MAX);
}

/* A link that its flows cannot fill, until one more comes: then it is shared, and no longer once that one has ended. */
static void
test_open_link (void)
{
  g_autoptr (PsiLinks) links = psi_links_new ();
  PsiLinkId wide = psi_links_add (links, 10e9);
  PsiFlowId flows[11];
  guint64 cookie;

  for (guint i = 0; i < 11; i++)
    {
      PsiLinkId own = psi_links_add (links, 1e9);
      if (i == 10)
        for (guint k = 0; k < 10; k++)
          g_assert_cmpfloat (psi_links_flow_rate (links, flows[k]), ==, 1e9);
      flows[i] =
          psi_links_start (links, 0, i < 10 ? 2000 : 1000, HUGE_VAL, (PsiLinkUse[]){ { wide, 1 }, { own, 1 } }, 2, i);
    }
  g_assert_cmpint (psi_links_next_ps (links), ==, 1100000);
  for (guint i = 0; i < 11; i++)
    assert_near (psi_links_flow_rate (links, flows[i]), 10e9 / 11);
  g_assert_true (psi_links_pop (links, 1100000, &cookie));
  g_assert_cmpuint (cookie, ==, 10);
  for (guint i = 0; i < 10; i++)
    assert_near (psi_links_flow_rate (links, flows[i]), 1e9);
  g_assert_cmpint (psi_links_next_ps (links), ==, 2100000);
}

/* The oracle on a case worked by hand: two links of 10 and 4, flows on {0}, {0,1}, {1}, the last with cap 1. */
static void
test_oracle (void)
{
  const double rates[] = { 10, 4 }, caps[] = { HUGE_VAL, HUGE_VAL, 1 };
  const PsiLinkUse uses[] = { { 0, 1 }, { 0, 1 }, { 1, 1 }, { 1, 1 } };
  const guint first[] = { 0, 1, 3, 4 };
  double solved[3];

  psi_links_solve_plain (rates, 2, uses, first, 3, caps, solved);
  g_assert_cmpfloat (solved[0], ==, 7);
  g_assert_cmpfloat (solved[1], ==, 3);
  g_assert_cmpfloat (solved[2], ==, 1);
}

/* Ends that SimGrid 3.32 with network/optim:Full and a decimal reference of 40 digits found for the same loads. */
static void
test_known_ends (void)
{
  double seconds;

  g_assert_cmpfloat (fabs (psi_time_to_s (run_bottleneck (128, 100, &seconds)) - 25.6201041), <=, 5.1e-8);
  g_assert_cmpfloat (fabs (psi_time_to_s (run_bottleneck (1024, 10, &seconds)) - 20.4864531), <=, 5.1e-8);
  g_assert_cmpfloat (fabs (psi_time_to_s (run_all_to_all (16, 0, &seconds)) - 0.00033843478), <=, 1e-12);
  g_assert_cmpfloat (fabs (psi_time_to_s (run_all_to_all (32, 0, &seconds)) - 0.000995511783605), <=, 1e-12);
  g_assert_cmpfloat (fabs (psi_time_to_s (run_all_to_all (64, 0, &seconds)) - 0.00229990254), <=, 5e-12);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/engine/links/oracle", test_oracle);
  g_test_add_func ("/engine/links/alone", test_alone);
  g_test_add_func ("/engine/links/extremes", test_extremes);
  g_test_add_func ("/engine/links/huge-shared", test_huge_shared);
  g_test_add_func ("/engine/links/dead-link", test_dead_link);
  g_test_add_func ("/engine/links/same-link-twice", test_same_link_twice);
  g_test_add_func ("/engine/links/cookie-order", test_cookie_order);
  g_test_add_func ("/engine/links/multiplicity", test_multiplicity);
  g_test_add_func ("/engine/links/wide", test_wide);
  g_test_add_func ("/engine/links/open-link", test_open_link);
  g_test_add_func ("/engine/links/symmetric", test_symmetric);
  g_test_add_func ("/engine/links/one-bottleneck", test_one_bottleneck);
  g_test_add_func ("/engine/links/known-ends", test_known_ends);
  for (guint style = 0; style < 12; style++)
    {
      g_autofree char *path = g_strdup_printf ("/engine/links/random-%u", style);
      g_test_add_data_func (path, GUINT_TO_POINTER (style), test_random);
    }
  return g_test_run ();
}
