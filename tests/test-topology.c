/* SPDX-License-Identifier: MIT */
/* Shared links: who is below which, and steps whose time follows by hand from what the links must carry. */
#include "closed-forms.h"
#include "topology.h"

#include <glib/gstdio.h>
#include <unistd.h>

/* A machine without any time but that of its links: 4 GPUs a node, two below each PCIe switch, two adapters, two nodes
 * below each leaf switch (twice oversubscribed), two leaf switches a pod (twice more). All in GB/s. */
static char *
write_machine (const char *links)
{
  g_autoptr (GError) error = NULL;
  char *path = NULL;
  int file = g_file_open_tmp ("psisim-XXXXXX.machine", &path, &error);
  g_autofree char *text = g_strdup_printf (
      "[gpu]\nname = test\narchitecture = cpu\nmemory = unlimited\nmemory_bandwidth = unlimited\nmemory_efficiency = "
      "1\n"
      "fp32 = 1 TFLOP/s\nsms = 1\ngemm_efficiency = 1\ngemm_ramp_k = 0\ngemm_tile = 0\nattention_forward = 1\n"
      "attention_backward = 1\nlaunch = 0\nminimum_kernel = 0\ncontext = 0\nsource = test\n"
      "[host]\nissue_pytorch = 0\nissue_megatron = 0\nmemory = unlimited\nbandwidth = unlimited\nsource = test\n"
      "[node]\ngpus = 4\nsource = test\n%s",
      links);

  g_assert_no_error (error);
  close (file);
  g_file_set_contents (path, text, -1, &error);
  g_assert_no_error (error);
  return path;
}

#define TREE                                                                                                           \
  "[link tree]\nkind = pcie\nbandwidth = 16 GB/s\nefficiency = 1\nlatency = 0\nswitch_gpus = 2\nuplink = 8 GB/s\n"     \
  "source = test\n"
#define FLAT "[link fast]\nkind = nvlink\nbandwidth = 1000 GB/s\nefficiency = 1\nlatency = 0\nsource = test\n"
#define LEAVES                                                                                                         \
  "[link net]\nkind = network\nbandwidth = 10 GB/s\nefficiency = 1\nlatency = 0\nnics = 2\nleaf_nodes = 2\n"           \
  "oversubscription = 2\npod_nodes = 4\npod_oversubscription = 2\nsource = test\n"
#define RAILS                                                                                                          \
  "[link net]\nkind = network\nbandwidth = 10 GB/s\nefficiency = 1\nlatency = 0\nnics = 4\nleaf_nodes = 2\n"           \
  "oversubscription = 4\nrails = yes\nsource = test\n"

static PsiTopology
topology_of (const char *links)
{
  g_autofree char *path = write_machine (links);
  g_autoptr (GError) error = NULL;
  g_autoptr (PsiMachine) machine = psi_machine_load (path, &error);
  PsiTopology topology;

  g_assert_no_error (error);
  psi_topology_init (&topology, machine);
  g_unlink (path);
  return topology;
}

static void
test_domains (void)
{
  PsiTopology tree = topology_of (TREE LEAVES);
  static const struct
  {
    guint from, to;
    const char *levels; /* switch, adapter, leaf, pod */
  } rows[] = {
    { 0, 1, "----" }, { 1, 2, "s---" },  { 0, 4, "-a--" },   { 3, 7, "-a--" },   { 0, 8, "-al-" },
    { 8, 0, "-al-" }, { 0, 16, "-alp" }, { 15, 16, "-alp" }, { 16, 24, "-al-" },
  };

  g_assert_cmpfloat (tree.bytes_per_s[PSI_LEVEL_SWITCH], ==, 8e9);
  g_assert_cmpfloat (tree.bytes_per_s[PSI_LEVEL_ADAPTER], ==, 10e9);
  g_assert_cmpfloat (tree.bytes_per_s[PSI_LEVEL_LEAF], ==, 20e9); /* 2 nodes x 2 adapters x 10 / 2 */
  g_assert_cmpfloat (tree.bytes_per_s[PSI_LEVEL_POD], ==, 20e9);  /* 4 x 2 x 10 / 4 */
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint level = 0; level < PSI_N_LEVELS; level++)
      if (psi_topology_crosses (&tree, level, rows[i].from, rows[i].to) != (rows[i].levels[level] != '-'))
        g_error ("%u to %u, level %u", rows[i].from, rows[i].to, level);
  g_assert_cmpuint (psi_topology_domain (&tree, PSI_LEVEL_ADAPTER, 6), ==, 3);
  g_assert_cmpuint (psi_topology_domain (&tree, PSI_LEVEL_SWITCH, 6), ==, 3);
}

/* GPU i of every node hangs at rail i: the same place of another node is one switch away, another place is not. */
static void
test_rails (void)
{
  PsiTopology rails = topology_of (FLAT RAILS);

  g_assert_false (psi_topology_has (&rails, PSI_LEVEL_ADAPTER));
  g_assert_cmpfloat (rails.bytes_per_s[PSI_LEVEL_LEAF], ==, 5e9); /* 2 nodes x 1 adapter x 10 / 4 */
  g_assert_false (psi_topology_crosses (&rails, PSI_LEVEL_LEAF, 1, 5));
  g_assert_true (psi_topology_crosses (&rails, PSI_LEVEL_LEAF, 1, 6));
  g_assert_true (psi_topology_crosses (&rails, PSI_LEVEL_LEAF, 1, 9));
  g_assert_false (psi_topology_crosses (&rails, PSI_LEVEL_LEAF, 1, 2)); /* inside the node */
}

/* Six wires of each GPU of a DGX-1: two to some, one to others, a detour to the rest. */
static void
test_mesh (void)
{
  g_autoptr (PsiMachine) v100 = psi_machine_load ("v100", NULL);
  PsiTopology mesh;

  psi_topology_init (&mesh, v100);
  for (guint a = 0; a < 8; a++)
    {
      double wires = 0;

      for (guint b = 0; b < 8; b++)
        {
          double share = a == b ? 0 : psi_topology_wire_share (&mesh, a, b);

          g_assert_cmpfloat (share, ==, a == b ? 0 : psi_topology_wire_share (&mesh, b, a));
          /* Direct wires: GPUs of a half, and one GPU of the other half. */
          wires += a / 4 == b / 4 || (a + 4) % 8 == b || (a ^ b) == 4 ? share : 0;
        }
      g_assert_cmpfloat (wires, >=, 4.0 / 6);
    }
  g_assert_cmpfloat (psi_topology_wire_share (&mesh, 0, 1), ==, 1.0 / 6);
  g_assert_cmpfloat (psi_topology_wire_share (&mesh, 0, 3), ==, 2.0 / 6);
  g_assert_cmpfloat (psi_topology_wire_share (&mesh, 0, 5), ==, 1.0 / 6); /* over 1 or 4 */
}

/* Step of a uniform model: forward 1 ms a stage, backward 2 ms. With more GPUs than fit the limit it is one by one. */
static void
check_step (const char *links, const char *flags, double step_s)
{
  g_autofree char *path = write_machine (links);

  for (guint full = 0; full < 2; full++)
    {
      g_autoptr (PsiReport) report =
          run_flags (FALSE, "model=uniform forward=1ms backward=2ms optimizer=none machine=%s %s%s", path, flags,
                     full ? " collapse=no" : "");

      g_assert_cmpfloat (fabs (psi_time_to_s (plan_of (report)->step_time_ps) - step_s), <, 1e-9);
    }
  g_unlink (path);
}

/* One stage, so one all-reduce of S = 80 MB after 3 ms. A ring of n sends 2 (n - 1)/n S over each of its links. */
static void
test_data_parallel (void)
{
  const char *dp = "plan=dp stages=1 psi_p=80MB";
  g_autofree char *four = g_strdup_printf ("%s workers=4", dp), *sixteen = g_strdup_printf ("%s workers=16", dp),
                  *all = g_strdup_printf ("%s workers=32", dp);

  /* A node: 120 MB over the uplink of 8 GB/s. */
  check_step (TREE LEAVES, four, 0.003 + 0.120 / 8);
  /* No tree, 2 leaves: 150 MB leave each node over two adapters; one ring over a leaf's link of 20 GB/s. */
  check_step (FLAT LEAVES, sixteen, 0.003 + 0.150 / 20);
  /* With the tree the uplink is slower. */
  check_step (TREE LEAVES, sixteen, 0.003 + 0.150 / 8);
  /* 155 MB; two pods, each with a link of 20 GB/s. */
  check_step (FLAT LEAVES, all, 0.003 + 0.155 / 20);
}

/* dp innermost: replicas of a stage sit in one node, and all four send to the next stage through its two adapters at
 * once: 4 x 10 MB over 2 x 10 GB/s. One replica has an adapter for its 10 MB. */
static void
test_pipeline (void)
{
  const char *flags = "plan=1f1b stages=2 micro_batches=1 psi_p=0 psi_int=10MB";
  g_autofree char *four = g_strdup_printf ("%s dp=4", flags),
                  *one = g_strdup_printf ("%s dp=1 group_order=tp,cp,ep,pp,dp gpus_per_node=1", flags);

  /* forward, boundary, forward, backward, boundary, backward */
  check_step (FLAT LEAVES, four, 0.001 + 0.002 + 0.001 + 0.002 + 0.002 + 0.002);
  check_step (FLAT LEAVES, one, 0.001 + 0.001 + 0.001 + 0.002 + 0.001 + 0.002);
}

/* Replicas of 4 stages, one in each node; stage boundaries stay inside a node, gradients leave it: the four stages'
 * rings of two members share the two adapters when they are ready at once, and have them alone when not. */
static void
test_rings_share (void)
{
  /* Backwards end at 6, 8, 10 and 12 ms, stage 3 first. Its 40 MB (2 x 1/2 S) have the adapter alone until stage 2
   * begins: 20 MB are left and take 4 ms at half the rate; then stage 2 has 20 MB left, which take 2 ms. The same for
   * stages 1 and 0 over the other adapter, 4 ms later: stage 0 begins at 12 ms. */
  check_step (FLAT
              "[link net]\nkind = network\nbandwidth = 10 GB/s\nefficiency = 1\nlatency = 0\nnics = 2\nsource = test\n",
              "plan=dp+mp stages=4 workers=2 psi_p=160MB psi_int=0 micro_batches=1 group_order=pp,tp,cp,ep,dp",
              0.004 + 0.008 + 0.004 + 0.002);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hwmodel/topology/domains", test_domains);
  g_test_add_func ("/hwmodel/topology/rails", test_rails);
  g_test_add_func ("/hwmodel/topology/mesh", test_mesh);
  g_test_add_func ("/plan/links/data-parallel", test_data_parallel);
  g_test_add_func ("/plan/links/pipeline", test_pipeline);
  g_test_add_func ("/plan/links/rings-share", test_rings_share);
  return g_test_run ();
}
