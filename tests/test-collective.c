/* SPDX-License-Identifier: MIT */
/* Collectives: counts of bytes and steps exact, the choice NCCL is known to make, published times, more never faster.
 */

#include "collective.h"
#include "psi-time.h"

#include <math.h>
#include <string.h>

static PsiGroupShape
shape (guint n_ranks, guint n_nodes)
{
  return (PsiGroupShape){ .n_ranks = n_ranks, .n_nodes = n_nodes, .ranks_per_node = n_ranks / n_nodes };
}

static PsiCollectiveCost
cost (const PsiMachine *machine, PsiCollectiveOp op, gint64 bytes, guint n_ranks, guint n_nodes)
{
  PsiGroupShape group = shape (n_ranks, n_nodes);
  PsiCollectiveCost result;
  psi_collective_cost (machine, op, bytes, &group, &result);
  return result;
}

static double
time_us (const PsiMachine *machine, PsiCollectiveOp op, gint64 bytes, guint n_ranks, guint n_nodes)
{
  PsiCollectiveCost result = cost (machine, op, bytes, n_ranks, n_nodes);
  return psi_time_to_s (psi_collective_time_ps (&result)) * 1e6;
}

/* Payload and steps of every operation, counted by hand. */
static void
test_counts (void)
{
  g_autoptr (PsiMachine) ideal = psi_machine_load ("ideal", NULL);
  static const struct
  {
    PsiCollectiveOp op;
    guint n, steps;
    gint64 bytes, payload, link;
  } rows[] = {
    { PSI_COLLECTIVE_ALL_REDUCE, 4, 6, 4000, 24000, 6000 }, { PSI_COLLECTIVE_ALL_REDUCE, 2, 2, 10, 20, 10 },
    { PSI_COLLECTIVE_ALL_GATHER, 4, 3, 4000, 12000, 3000 }, { PSI_COLLECTIVE_REDUCE_SCATTER, 5, 4, 5000, 20000, 4000 },
    { PSI_COLLECTIVE_BROADCAST, 4, 3, 4000, 12000, 4000 },  { PSI_COLLECTIVE_ALL_TO_ALL, 4, 1, 4000, 12000, 3000 },
    { PSI_COLLECTIVE_GATHER, 4, 1, 4000, 12000, 12000 },    { PSI_COLLECTIVE_SCATTER, 3, 1, 4000, 8000, 8000 },
    { PSI_COLLECTIVE_SEND_RECV, 2, 1, 4000, 4000, 4000 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      PsiCollectiveCost got = cost (ideal, rows[i].op, rows[i].bytes, rows[i].n, 1);
      g_assert_cmpuint (got.steps, ==, rows[i].steps);
      g_assert_cmpint (got.payload_bytes, ==, rows[i].payload);
      g_assert_cmpint (got.intra_bytes, ==, rows[i].link);
      g_assert_cmpint (got.inter_bytes, ==, 0);
      g_assert_cmpint (psi_collective_time_ps (&got), ==, 0);
      g_assert_cmpstr (got.algorithm, ==, rows[i].op < PSI_COLLECTIVE_ALL_TO_ALL ? "ring" : "direct");
    }
}

static void
test_nothing (void)
{
  const char *const names[] = { "ideal", "a100", "host" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (names[i], NULL);
      for (guint op = 0; op < PSI_N_COLLECTIVES; op++)
        {
          PsiCollectiveCost alone = cost (machine, op, 1 << 20, 1, 1), empty = cost (machine, op, 0, 8, 1);
          g_assert_cmpint (psi_collective_time_ps (&alone), ==, 0);
          g_assert_cmpint (psi_collective_time_ps (&empty), ==, 0);
          g_assert_cmpint (alone.payload_bytes + empty.payload_bytes, ==, 0);
          g_assert_cmpuint (alone.steps + empty.steps, ==, 0);
        }
    }
}

/* In-switch algorithms and trees count the ring's payload. */
static void
test_payload_of_all (void)
{
  g_autoptr (PsiMachine) h100 = psi_machine_load ("h100", NULL);
  for (gint64 bytes = 8; bytes <= (gint64) 1 << 32; bytes *= 4)
    {
      PsiCollectiveCost one = cost (h100, PSI_COLLECTIVE_ALL_REDUCE, bytes, 8, 1);
      g_assert_cmpint (one.payload_bytes, ==, 14 * bytes);
      PsiCollectiveCost two = cost (h100, PSI_COLLECTIVE_ALL_REDUCE, bytes, 16, 2);
      g_assert_cmpint (two.payload_bytes, ==, 30 * bytes);
    }
}

/* 8 H100: ring LL for 8 B to 1 MB, NVLS from 2 MB (nccl-tests#309). */
static void
test_choice (void)
{
  g_autoptr (PsiMachine) h100 = psi_machine_load ("h100", NULL);
  for (gint64 bytes = 8; bytes <= (gint64) 1 << 33; bytes *= 2)
    {
      PsiCollectiveCost got = cost (h100, PSI_COLLECTIVE_ALL_REDUCE, bytes, 8, 1);
      gboolean small = bytes <= 1 << 20;
      g_assert_cmpstr (got.algorithm, ==, small ? "ring" : "nvls");
      g_assert_cmpstr (got.protocol, ==, small ? "ll" : "simple");
    }
  /* Large gathers stay with the ring (H200, 361 GB/s); A100 has no NVLS. */
  g_assert_cmpstr (cost (h100, PSI_COLLECTIVE_ALL_GATHER, (gint64) 1 << 34, 8, 1).algorithm, ==, "ring");
  g_autoptr (PsiMachine) a100 = psi_machine_load ("a100", NULL);
  g_assert_cmpstr (cost (a100, PSI_COLLECTIVE_ALL_REDUCE, (gint64) 1 << 30, 8, 1).algorithm, ==, "ring");
  g_assert_cmpstr (cost (a100, PSI_COLLECTIVE_ALL_REDUCE, 1024, 64, 8).algorithm, ==, "tree");
  g_autoptr (PsiMachine) host = psi_machine_load ("host", NULL);
  PsiCollectiveCost shm = cost (host, PSI_COLLECTIVE_ALL_REDUCE, 4096, 2, 1);
  g_assert_cmpstr (shm.algorithm, ==, "ring");
  g_assert_cmpint (shm.latency_ps, >=, 2 * host->intra.latency_ps);
}

/* Latency and rate of one choice, from the constants by hand: 8 A100, 8 bytes, ring LL. */
static void
test_closed_form (void)
{
  g_autoptr (PsiMachine) a100 = psi_machine_load ("a100", NULL);
  gint64 kernel_ps = a100->gpu.launch_ps + a100->gpu.minimum_kernel_ps;
  PsiCollectiveCost got = cost (a100, PSI_COLLECTIVE_ALL_REDUCE, 8, 8, 1);
  g_assert_cmpint (got.latency_ps, ==, 6600000 + 14 * 600000 + kernel_ps);
  g_assert_cmpint (got.intra_bytes, ==, 14);
  g_assert_cmpfloat (got.intra_bytes_per_s, ==, 87.7e9);

  /* Ring Simple, 1 GiB: wire time x and 2 sqrt (ramp x). */
  gint64 bytes = (gint64) 1 << 30;
  got = cost (a100, PSI_COLLECTIVE_ALL_REDUCE, bytes, 8, 1);
  double x = 1.75 * (double) bytes / (a100->intra.bytes_per_s * a100->intra.efficiency);
  double wanted =
      8.4e-6 + 14 * 3.4e-6 + psi_time_to_s (kernel_ps) + x + 2 * sqrt (x * psi_time_to_s (a100->intra.ramp_ps));
  g_assert_cmpfloat_with_epsilon (psi_time_to_s (psi_collective_time_ps (&got)), wanted, 1e-9 * wanted + 2e-12);
}

/* One member's share of the network. */
static void
test_network (void)
{
  g_autoptr (PsiMachine) a100 = psi_machine_load ("a100", NULL);
  a100->inter.ramp_ps = 0;
  double adapter = a100->inter.bytes_per_s * a100->inter.efficiency;
  gint64 bytes = (gint64) 1 << 30;

  PsiCollectiveCost far = cost (a100, PSI_COLLECTIVE_SEND_RECV, bytes, 2, 2);
  g_assert_cmpint (far.intra_bytes, ==, 0);
  g_assert_cmpint (far.inter_bytes, ==, bytes);
  g_assert_cmpfloat (far.inter_bytes_per_s, ==, adapter);

  /* A ring over two nodes leaves each once: 30/16 S over 8 adapters. */
  PsiCollectiveCost ring = cost (a100, PSI_COLLECTIVE_ALL_REDUCE, bytes, 16, 2);
  g_assert_cmpstr (ring.algorithm, ==, "ring");
  g_assert_cmpint (ring.intra_bytes, ==, bytes * 30 / 16);
  g_assert_cmpint (ring.inter_bytes, ==, bytes * 30 / 16 / 8);
  g_assert_cmpfloat_with_epsilon (ring.inter_bytes_per_s, adapter, 1);

  /* Two adapters for the node, then eight GPUs of other groups beside: each gets a quarter of one. */
  a100->inter.nics_per_node = 2;
  PsiGroupShape pair = { .n_ranks = 2, .n_nodes = 2, .ranks_per_node = 1, .nic_sharers = 8 };
  psi_collective_cost (a100, PSI_COLLECTIVE_SEND_RECV, bytes, &pair, &far);
  g_assert_cmpfloat_with_epsilon (far.inter_bytes_per_s, adapter / 4, 1);
  a100->inter.oversubscription = 2;
  psi_collective_cost (a100, PSI_COLLECTIVE_SEND_RECV, bytes, &pair, &far);
  g_assert_cmpfloat_with_epsilon (far.inter_bytes_per_s, adapter / 8, 1);
  pair.nic_sharers = 1;
  psi_collective_cost (a100, PSI_COLLECTIVE_SEND_RECV, bytes, &pair, &far);
  g_assert_cmpfloat_with_epsilon (far.inter_bytes_per_s, adapter / 2, 1);

  /* All-to-all of 2 nodes: half of the partners are far. */
  PsiCollectiveCost all = cost (a100, PSI_COLLECTIVE_ALL_TO_ALL, 1600, 16, 2);
  g_assert_cmpint (all.intra_bytes, ==, 700);
  g_assert_cmpint (all.inter_bytes, ==, 800);
}

/* Published all-reduce times in us: nccl-tests of A100, torch of H200 and B200 (stas00/ml-engineering), vTrain. */
static const struct
{
  const char *machine;
  guint n;
  gint64 bytes;
  double us, tolerance;
} published[] = {
  { "a100", 8, 524288, 28.1, 0.10 },       { "a100", 8, 2097152, 55.4, 0.12 },
  { "a100", 8, 67108864, 615.7, 0.06 },    { "a100", 8, 1073741824, 8244, 0.04 },
  { "a100", 8, 4294967296, 32285, 0.04 },  { "a100", 4, 167772160, 1245, 0.05 },
  { "a100", 2, 167772160, 932.6, 0.08 },   { "h200", 8, 134217728, 584.4, 0.08 },
  { "h200", 8, 17179869184, 62341, 0.04 }, { "b200", 8, 134217728, 413.2, 0.12 },
  { "b200", 8, 17179869184, 35550, 0.06 }, { "v100", 8, 167772160, 2205, 0.12 },
  { "v100", 2, 167772160, 7464, 0.12 },
};

static void
test_published (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (published); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (published[i].machine, NULL);
      double got = time_us (machine, PSI_COLLECTIVE_ALL_REDUCE, published[i].bytes, published[i].n, 1);
      if (fabs (got / published[i].us - 1) > published[i].tolerance)
        g_error ("%s x%u %" G_GINT64_FORMAT " B: %g us, published %g", published[i].machine, published[i].n,
                 published[i].bytes, got, published[i].us);
    }
}

/* Omni-Path of Jean Zay: of four adapters NCCL's ring over 4 nodes of 8 A100 used one, 40.5 Gb/s of its 100; a node of
 * which a single adapter is left makes psisim's ring do the same. */
static void
test_omnipath (void)
{
  g_autoptr (PsiMachine) machine = psi_machine_load ("a100", NULL);
  const PsiGroupShape shape = { .n_ranks = 32, .ranks_per_node = 8, .n_nodes = 4, .nic_sharers = 8 };
  PsiCollectiveCost cost;

  g_assert_true (psi_machine_choose_network (machine, "omnipath", NULL));
  g_assert_cmpuint (machine->inter.nics_per_node, ==, 4);
  machine->inter.nics_per_node = 1;
  g_assert_true (psi_collective_cost_by (machine, "ring", PSI_COLLECTIVE_ALL_REDUCE, G_GINT64_CONSTANT (4000000000),
                                         &shape, &cost));
  double busbw = 2 * 31 / 32.0 * 4e9 / psi_time_to_s (psi_collective_time_ps (&cost));
  g_assert_cmpfloat_with_epsilon (busbw / 1e9, 40.5 / 8, 0.02 * 40.5 / 8);
}

/* All-reduce tables of two nodes on AWS (aws-samples/awsome-distributed-training): p4de with four adapters of 100 Gb/s
 * a node, p5. A tree sends the buffer once over the border of a node, a ring nearly twice. */
static void
test_efa (void)
{
  static const struct
  {
    const char *machine;
    gint64 bytes;
    double us, tolerance;
  } rows[] = {
    { "a100", 1073741824, 26217, 0.1 }, { "a100", 536870912, 13552, 0.1 },   { "a100", 268435456, 7201.7, 0.1 },
    { "a100", 1024, 165, 0.1 },         { "a100", 8, 164.3, 0.1 },           { "h100", 8, 69.1, 0.12 },
    { "h100", 4096, 78.6, 0.15 },       { "h100", 1073741824, 4607.6, 0.1 }, { "a100", 524288, 260, 0.05 },
    { "a100", 1048576, 308, 0.05 },     { "a100", 2097152, 415, 0.05 },      { "a100", 16777216, 1191, 0.22 },
    { "a100", 33554432, 1541, 0.07 },   { "h100", 1048576, 122.2, 0.05 },    { "h100", 2097152, 147, 0.07 },
    { "h100", 4194304, 168, 0.05 },     { "h100", 8388608, 203, 0.05 }
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (rows[i].machine, NULL);

      g_assert_true (psi_machine_choose_network (machine, "efa", NULL));
      PsiCollectiveCost got = cost (machine, PSI_COLLECTIVE_ALL_REDUCE, rows[i].bytes, 16, 2);
      double us = psi_time_to_s (psi_collective_time_ps (&got)) * 1e6;
      if (fabs (us / rows[i].us - 1) > rows[i].tolerance)
        g_error ("%s, %" G_GINT64_FORMAT " B: %g us, published %g", rows[i].machine, rows[i].bytes, us, rows[i].us);
      if (i > 0)
        continue;
      g_assert_cmpstr (got.algorithm, ==, "tree");
      g_assert_cmpint (got.inter_bytes * 8, ==, rows[i].bytes);
    }
}

/* Where the plug-in leaves Simple only, it is taken inside nodes too, and between them each step of a ring takes half a
 * round trip: there, the flush and the credit back, 20 us each, and NCCL's 14 us for a hop. */
static void
test_round_trips (void)
{
  g_autoptr (PsiMachine) machine = psi_machine_load ("h100", NULL);

  g_assert_true (psi_machine_choose_network (machine, "efa-2023", NULL));
  PsiCollectiveCost inside = cost (machine, PSI_COLLECTIVE_ALL_GATHER, 1024, 8, 1);
  PsiCollectiveCost few = cost (machine, PSI_COLLECTIVE_ALL_GATHER, 1024, 16, 2);
  PsiCollectiveCost many = cost (machine, PSI_COLLECTIVE_ALL_GATHER, 1024, 32, 4);
  double step_us = ((double) (many.latency_ps - few.latency_ps) / 1e6 - 2 * 54 - 14 * 3.4) / 16;

  g_assert_cmpstr (inside.protocol, ==, "simple");
  g_assert_cmpstr (few.protocol, ==, "simple");
  g_assert_cmpfloat_with_epsilon (step_us, 37 - 3.4, 0.1);
  g_assert_true (psi_machine_choose_network (machine, "efa", NULL));
  few = cost (machine, PSI_COLLECTIVE_ALL_GATHER, 1024, 16, 2);
  g_assert_cmpstr (few.protocol, !=, "simple");
  g_assert_cmpfloat ((double) few.latency_ps / 1e6, <, 15 * 37);
}

/* More bytes never take less time, nor a gather more than the all-reduce that contains it. */
static void
test_monotone (void)
{
  const char *const names[] = { "v100", "a100", "a100-pcie-80", "h100", "b200", "gb200", "rtx-4090", "host" };
  const guint shapes[][2] = { { 2, 1 }, { 3, 1 },  { 4, 1 },  { 8, 1 },   { 2, 2 },
                              { 8, 2 }, { 16, 2 }, { 64, 8 }, { 512, 64 } };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (names[i], NULL);
      for (guint j = 0; j < G_N_ELEMENTS (shapes); j++)
        for (guint op = 0; op < PSI_N_COLLECTIVES; op++)
          {
            double before = 0;
            for (double bytes = 8; bytes < 4e10; bytes *= 1.3)
              {
                double now = time_us (machine, op, (gint64) bytes, shapes[j][0], shapes[j][1]);
                if (now < before * (1 - 1e-9))
                  g_error ("%s %s %u/%u at %g B: %g us after %g", names[i], psi_collective_names[op], shapes[j][0],
                           shapes[j][1], bytes, now, before);
                before = now;
              }
          }
    }
}

/* No collective moves more than the wire carries: bus bandwidth, in-switch sums aside. */
static void
test_bounds (void)
{
  const char *const names[] = { "v100", "a100", "h100", "b200", "rtx-3090" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (names[i], NULL);
      gint64 bytes = (gint64) 1 << 34;
      for (guint op = 0; op <= PSI_COLLECTIVE_BROADCAST; op++)
        {
          double busbw = (double) bytes / time_us (machine, op, bytes, 4, 1) * 1e6 * psi_collective_bus_factor (op, 4);
          g_assert_cmpfloat (busbw, <, machine->intra.bytes_per_s * 1.5);
          g_assert_cmpfloat (busbw, >, machine->intra.bytes_per_s * 0.2);
        }
    }
}

static void
test_names (void)
{
  g_assert_cmpfloat (psi_collective_bus_factor (PSI_COLLECTIVE_ALL_REDUCE, 8), ==, 1.75);
  g_assert_cmpfloat (psi_collective_bus_factor (PSI_COLLECTIVE_ALL_GATHER, 8), ==, 0.875);
  g_assert_cmpfloat (psi_collective_bus_factor (PSI_COLLECTIVE_BROADCAST, 8), ==, 1);
  for (guint i = 0; i < PSI_N_COLLECTIVES; i++)
    g_assert_nonnull (psi_collective_names[i]);
  guint n = 0;
  for (; psi_collective_algorithms[n]; n++)
    g_assert_cmpuint (strlen (psi_collective_algorithm_summary (psi_collective_algorithms[n])), >, 10);
  g_assert_cmpuint (n, ==, 7);
  g_assert_cmpstr (psi_collective_algorithm_name (psi_collective_algorithms[0]), ==, "ring");
}

/* Algorithms that NCCL does not choose: 32 ranks in 4 nodes, S = 1 GiB, phases one after the other. */
static void
test_asked_for (void)
{
  g_autoptr (PsiMachine) machine = psi_machine_load ("a100", NULL);
  const PsiGroupShape group = shape (32, 4), odd = shape (12, 2);
  const gint64 bytes = 1 << 30;
  PsiCollectiveCost halving, hierarchical, ring;

  g_assert_true (
      psi_collective_cost_by (machine, "halving-doubling", PSI_COLLECTIVE_ALL_REDUCE, bytes, &group, &halving));
  g_assert_true (
      psi_collective_cost_by (machine, "hierarchical", PSI_COLLECTIVE_ALL_REDUCE, bytes, &group, &hierarchical));
  g_assert_true (psi_collective_cost_by (machine, "ring", PSI_COLLECTIVE_ALL_REDUCE, bytes, &group, &ring));
  g_assert_cmpuint (halving.steps, ==, 10);
  g_assert_cmpuint (hierarchical.steps, ==, 2 * 7 + 2 * 3);
  g_assert_cmpuint (ring.steps, ==, 62);
  /* 2 x 7/8 S inside, 2 x (1/8 - 1/32) S out of the node, by both */
  g_assert_cmpint (halving.intra_bytes, ==, bytes / 4 * 7);
  g_assert_cmpint (halving.inter_bytes, ==, bytes / 16 * 3);
  g_assert_cmpint (hierarchical.intra_bytes, ==, halving.intra_bytes);
  g_assert_cmpint (hierarchical.inter_bytes, ==, halving.inter_bytes);
  g_assert_cmpint (halving.latency_ps, <, hierarchical.latency_ps);
  g_assert_cmpint (hierarchical.latency_ps, <, ring.latency_ps);
  g_assert_cmpint (psi_collective_time_ps (&hierarchical), >, psi_collective_time_ps (&halving));
  g_assert_false (
      psi_collective_cost_by (machine, "halving-doubling", PSI_COLLECTIVE_ALL_REDUCE, bytes, &odd, &halving));
  g_assert_false (psi_collective_cost_by (machine, "no-such", PSI_COLLECTIVE_ALL_REDUCE, bytes, &group, &halving));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hwmodel/collective/counts", test_counts);
  g_test_add_func ("/hwmodel/collective/nothing", test_nothing);
  g_test_add_func ("/hwmodel/collective/payload-of-all", test_payload_of_all);
  g_test_add_func ("/hwmodel/collective/choice", test_choice);
  g_test_add_func ("/hwmodel/collective/closed-form", test_closed_form);
  g_test_add_func ("/hwmodel/collective/network", test_network);
  g_test_add_func ("/hwmodel/collective/published", test_published);
  g_test_add_func ("/hwmodel/collective/efa", test_efa);
  g_test_add_func ("/hwmodel/collective/round-trips", test_round_trips);
  g_test_add_func ("/hwmodel/collective/omnipath", test_omnipath);
  g_test_add_func ("/hwmodel/collective/monotone", test_monotone);
  g_test_add_func ("/hwmodel/collective/bounds", test_bounds);
  g_test_add_func ("/hwmodel/collective/names", test_names);
  g_test_add_func ("/hwmodel/collective/asked-for", test_asked_for);
  return g_test_run ();
}
