/* SPDX-License-Identifier: MIT */
/* The loads W4 and W5 of BENCHMARKS.md, for bench-links.c and test-links.c. */
#pragma once

#include "psi-links.h"
#include "psi-queue.h"

#include <sys/resource.h>

/* mt19937_64 (Matsumoto, Nishimura), as in C++: the loads are the same as in the programs compared with. */
typedef struct
{
  guint64 state[312];
  guint next;
} Random;

static void
random_init (Random *random, guint64 seed)
{
  random->state[0] = seed;
  for (guint i = 1; i < 312; i++)
    random->state[i] = 6364136223846793005u * (random->state[i - 1] ^ (random->state[i - 1] >> 62)) + i;
  random->next = 312;
}

static double
random_unit (Random *random)
{
  guint64 x;

  if (random->next == 312)
    {
      for (guint i = 0; i < 312; i++)
        {
          x = (random->state[i] & 0xffffffff80000000u) | (random->state[(i + 1) % 312] & 0x7fffffffu);
          random->state[i] = random->state[(i + 156) % 312] ^ (x >> 1) ^ (x & 1 ? 0xb5026f5aa96619e9u : 0);
        }
      random->next = 0;
    }
  x = random->state[random->next++];
  x ^= (x >> 29) & 0x5555555555555555u;
  x ^= (x << 17) & 0x71d67fffeda60000u;
  x ^= (x << 37) & 0xfff7eee000000000u;
  x ^= x >> 43;
  return (double) x * 0x1p-64;
}

static double
cpu_s (void)
{
  struct rusage usage;
  getrusage (RUSAGE_SELF, &usage);
  return (double) usage.ru_utime.tv_sec + (double) usage.ru_utime.tv_usec * 1e-6;
}

/* W4: n senders, each with a private link and all with a shared one, send k messages back to back; 1.5 us before each.
 */
static PsiTime
run_senders (guint n, guint k, double shared_bytes_per_s, double *ret_cpu_s)
{
  const PsiTime latency_ps = 1500000;
  g_autoptr (PsiLinks) links = psi_links_new ();
  g_autoptr (PsiQueue) queue = psi_queue_new ();
  g_autofree gint64 *bytes = g_new (gint64, n * k);
  g_autofree guint *sent = g_new0 (guint, n);
  PsiTime last_ps = 0;
  double start_s;

  psi_links_add (links, shared_bytes_per_s);
  for (guint i = 0; i < n; i++)
    {
      Random random;
      random_init (&random, 2 * i);
      for (guint m = 0; m < k; m++)
        bytes[i * k + m] = (gint64) (1e8 * (0.5 + random_unit (&random)));
      psi_links_add (links, 50e9);
    }
  start_s = cpu_s ();
  for (guint i = 0; i < n; i++)
    psi_queue_push (queue, (PsiEvent){ latency_ps, i });
  for (;;)
    {
      PsiTime flow_ps = psi_links_next_ps (links), start_ps = psi_queue_next_ps (queue);
      PsiTime now_ps = MIN (flow_ps, start_ps);
      guint64 sender;
      PsiEvent event;

      if (now_ps == PSI_TIME_MAX)
        break;
      last_ps = now_ps;
      if (flow_ps == now_ps)
        while (psi_links_pop (links, now_ps, &sender))
          if (++sent[sender] < k)
            psi_queue_push (queue, (PsiEvent){ now_ps + latency_ps, sender });
      for (; start_ps == now_ps; start_ps = psi_queue_next_ps (queue))
        {
          psi_queue_pop (queue, &event);
          psi_links_start (links, now_ps, bytes[event.key * k + sent[event.key]], HUGE_VAL,
                           (PsiLinkUse[]){ { 0, 1 }, { (guint32) event.key + 1, 1 } }, 2, event.key);
        }
    }
  *ret_cpu_s = cpu_s () - start_s;
  return last_ps;
}

static PsiTime
run_bottleneck (guint n, guint k, double *ret_cpu_s)
{
  return run_senders (n, k, 50e9, ret_cpu_s);
}

/* W5: n hosts in leaves of 8; all n (n - 1) flows start at once; host links 50e9, leaf links 200e9; 500 ns. */
static PsiTime
run_all_to_all (guint n, guint unused, double *ret_cpu_s)
{
  g_autoptr (PsiLinks) links = psi_links_new ();
  g_autofree gint64 *bytes = g_new (gint64, n * n);
  const guint leaf_up = 2 * n, leaf_down = leaf_up + n / 8;
  const PsiTime start_ps = 500000;
  PsiTime now_ps = 0, next_ps;
  Random random;
  guint64 cookie;
  double start_s;

  random_init (&random, 1);
  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < n; j++)
      if (i != j)
        bytes[i * n + j] = (gint64) (1e6 * (0.5 + random_unit (&random)));
  for (guint l = 0; l < 2 * n + 2 * (n / 8); l++)
    psi_links_add (links, l < leaf_up ? 50e9 : 200e9);
  start_s = cpu_s ();
  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < n; j++)
      if (i != j)
        psi_links_start (links, start_ps, bytes[i * n + j], HUGE_VAL,
                         (PsiLinkUse[]){ { i, 1 }, { n + j, 1 }, { leaf_up + i / 8, 1 }, { leaf_down + j / 8, 1 } },
                         i / 8 == j / 8 ? 2 : 4, i * n + j);
  while ((next_ps = psi_links_next_ps (links)) < PSI_TIME_MAX)
    {
      now_ps = next_ps;
      while (psi_links_pop (links, now_ps, &cookie))
        ;
    }
  *ret_cpu_s = cpu_s () - start_s;
  return now_ps;
}
