/* SPDX-License-Identifier: MIT */
/* Whole runs of the engine: W1 (ring all-reduce, every message or in groups), W2 (a data-parallel step), W3
 * (asynchronous compute) and W6 (timers), the workloads that simulators of the field were measured on. Prints a table,
 * or JSON with --json; user CPU seconds of building and running, peak resident memory. */
#include "psi-run.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct
{
  const char *name;
  guint ranks;
  PsiWorld *(*build) (guint ranks);
  guint max_iterations;
} Case;

static double
user_cpu_s (void)
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  return (double) usage.ru_utime.tv_sec + 1e-6 * (double) usage.ru_utime.tv_usec;
}

static PsiTransferId
ring_transfer (PsiWorld *world, gint64 bytes)
{
  PsiTransfer transfer = {
    .bytes = bytes, .cap_bytes_per_s = HUGE_VAL, .latency_ps = 500000, .weights = { 1 }, .hops = 1
  };

  return psi_world_add_transfer (world, &transfer);
}

/* Each rank sends to the next, under slot 0, over a link of 50e9 B/s, and receives under slot 1. */
static void
join_ring (PsiWorld *world, guint ranks)
{
  for (guint r = 0; r < ranks; r++)
    {
      PsiPortId port = psi_world_add_channel (world);

      psi_world_bind (world, r, 0, port);
      psi_world_bind (world, (r + 1) % ranks, 1, port);
      psi_world_add_path (world, port, psi_links_add (world->links, 50e9), 0);
    }
}

/* W1: 104,857,600 B, 50e9 B/s, 500 ns; rank i sends step s + 1 once it has received step s. */
static PsiWorld *
build_ring (guint ranks)
{
  PsiWorld *world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 2);
  PsiTransferId transfer = ring_transfer (world, (104857600 + ranks - 1) / ranks);
  PsiOpId received = PSI_OP_NONE;

  for (guint s = 0; s < 2 * (ranks - 1); s++)
    {
      PsiOpId send = psi_program_message (program, 0, PSI_OP_SEND, 0, transfer, 0);

      psi_program_after (program, send, received, 0);
      received = psi_program_message (program, 1, PSI_OP_RECV, 1, transfer, 0);
    }
  for (guint r = 0; r < ranks; r++)
    psi_world_add_rank (world, program, 1, 0);
  join_ring (world, ranks);
  return world;
}

/* The same with all messages of a step as one group. */
static PsiWorld *
build_ring_groups (guint ranks)
{
  PsiWorld *world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 1);
  PsiTransferId transfer = ring_transfer (world, (104857600 + ranks - 1) / ranks);
  PsiPortId port = psi_world_add_communicator (world);

  for (guint s = 0; s < 2 * (ranks - 1); s++)
    psi_program_message (program, 0, PSI_OP_COLLECTIVE, 0, transfer, 0);
  psi_world_bind (world, psi_world_add_rank (world, program, ranks, 0), 0, port);
  psi_world_add_path (world, port, psi_links_add (world->links, 50e9), 0);
  return world;
}

/* W2: 96 forwards of 100 us and 96 backwards of 200 us; each backward releases a ring all-reduce of 25 MiB. */
static PsiWorld *
build_step (guint ranks, gboolean collapsed)
{
  PsiWorld *world = psi_world_new ();
  PsiProgram *program = psi_world_add_program (world, 3);
  PsiTransferId transfer = ring_transfer (world, ((25 << 20) + ranks - 1) / ranks);
  PsiOpId received = PSI_OP_NONE;

  for (guint layer = 0; layer < 96; layer++)
    psi_program_work (program, 0, 100000000, 0);
  for (guint layer = 0; layer < 96; layer++)
    {
      PsiOpId backward = psi_program_work (program, 0, 200000000, 1);

      for (guint s = 0; s < 2 * (ranks - 1); s++)
        {
          PsiOpId send = psi_program_message (program, 1, collapsed ? PSI_OP_COLLECTIVE : PSI_OP_SEND, 0, transfer, 2);

          psi_program_after (program, send, s == 0 ? backward : PSI_OP_NONE, 0);
          psi_program_after (program, send, received, 0);
          if (!collapsed)
            received = psi_program_message (program, 2, PSI_OP_RECV, 1, transfer, 2);
        }
    }
  for (guint r = 0; r < (collapsed ? 1 : ranks); r++)
    psi_world_add_rank (world, program, collapsed ? ranks : 1, 0);
  if (collapsed)
    {
      PsiPortId port = psi_world_add_communicator (world);

      psi_world_bind (world, 0, 0, port);
      psi_world_add_path (world, port, psi_links_add (world->links, 50e9), 0);
    }
  else
    join_ring (world, ranks);
  return world;
}

static PsiWorld *
build_step_full (guint ranks)
{
  return build_step (ranks, FALSE);
}

static PsiWorld *
build_step_collapsed (guint ranks)
{
  return build_step (ranks, TRUE);
}

/* W3: 100 ops of U(1, 1e6) us a rank, no communication. */
static PsiWorld *
build_asynchronous (guint ranks)
{
  PsiWorld *world = psi_world_new ();
  g_autoptr (GRand) random = g_rand_new_with_seed (1);

  for (guint r = 0; r < ranks; r++)
    {
      PsiProgram *program = psi_world_add_program (world, 1);

      for (guint i = 0; i < 100; i++)
        psi_program_work (program, 0, psi_time_from_s (g_rand_double_range (random, 1e-6, 1)), 0);
      psi_world_add_rank (world, program, 1, 0);
    }
  return world;
}

/* W6: actors that sleep U(0, 1) ms ten times. */
static PsiWorld *
build_timers (guint ranks)
{
  PsiWorld *world = psi_world_new ();
  g_autoptr (GRand) random = g_rand_new_with_seed (1);

  for (guint r = 0; r < ranks; r++)
    {
      PsiProgram *program = psi_world_add_program (world, 1);

      for (guint i = 0; i < 10; i++)
        psi_program_work (program, 0, psi_time_from_s (g_rand_double_range (random, 0, 1e-3)), 0);
      psi_world_add_rank (world, program, 1, 0);
    }
  return world;
}

static const Case cases[] = { { "W1 ring, messages", 64, build_ring, 1 },
                              { "W1 ring, messages", 512, build_ring, 1 },
                              { "W1 ring, messages", 1024, build_ring, 1 },
                              { "W1 ring, messages", 4096, build_ring, 1 },
                              { "W1 ring, groups", 4096, build_ring_groups, 1 },
                              { "W1 ring, groups", 65536, build_ring_groups, 1 },
                              { "W2 step, messages", 64, build_step_full, 1 },
                              { "W2 step, collapsed", 64, build_step_collapsed, 1 },
                              { "W3 asynchronous", 4096, build_asynchronous, 1 },
                              { "W6 timers", 1000, build_timers, 1 },
                              { "W6 timers", 10000, build_timers, 1 },
                              { "W6 timers", 100000, build_timers, 1 } };

/* Building and running, the mean over as many times as fill a fiftieth of a second. */
static int
measure (const Case *row, gboolean json)
{
  g_autoptr (GError) error = NULL;
  PsiRunOptions options = { .max_iterations = row->max_iterations, .no_record = TRUE };
  struct rusage usage;
  guint64 n_events = 0;
  PsiTime makespan_ps = 0;
  double begin_s = user_cpu_s (), cpu_s = 0;
  guint repeats = 0;

  while (cpu_s < 0.02)
    {
      g_autoptr (PsiWorld) world = row->build (row->ranks);
      g_autoptr (PsiRun) run = psi_run (world, &options, &error);

      if (run == NULL)
        {
          fprintf (stderr, "%s: %s\n", row->name, error->message);
          return 1;
        }
      n_events = run->n_events;
      makespan_ps = run->makespan_ps;
      repeats++;
      cpu_s = user_cpu_s () - begin_s;
    }
  cpu_s /= repeats;
  getrusage (RUSAGE_SELF, &usage);
  printf (json ? "{\"workload\": \"%s\", \"ranks\": %u, \"events\": %" G_GUINT64_FORMAT
                 ", \"cpu_s\": %.6f, \"million_events_per_s\": %.2f, \"peak_rss_mb\": %.1f, \"makespan_ms\": %.9f}\n"
               : "%-20s %8u %12" G_GUINT64_FORMAT " %10.6f %10.2f %10.1f %14.6f\n",
          row->name, row->ranks, n_events, cpu_s, 1e-6 * (double) n_events / cpu_s, (double) usage.ru_maxrss / 1e3,
          1e-9 * (double) makespan_ps);
  return 0;
}

int
main (int argc, char **argv)
{
  gboolean json = argc > 1 && strcmp (argv[1], "--json") == 0;

  if (!json)
    printf ("%-20s %8s %12s %10s %10s %10s %14s\n", "workload", "ranks", "events", "CPU s", "M ev/s", "RSS MB",
            "makespan ms");
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      int status = 0;

      /* A process of its own, so that each has its own peak of memory. */
      fflush (stdout);
      pid_t child = fork ();
      if (child == 0)
        {
          status = measure (&cases[i], json);
          fflush (stdout);
          _exit (status);
        }
      if (child < 0 || waitpid (child, &status, 0) < 0 || status != 0)
        return 1;
    }
  return 0;
}
