/* SPDX-License-Identifier: MIT */
/* Kernels and collectives beside whole tables that others published: fails when the errors grow.
 *
 * The tables are not part of the project: PSISIM_TEST_DATA is the folder with measured-gemm.csv and
 * measured-collectives.csv; without it everything is skipped. */
#include "collective.h"
#include "machine.h"
#include "psi-time.h"

#include <math.h>
#include <string.h>

/* A row of a table by the names of its columns. */
typedef struct
{
  GHashTable *columns; /* name -> index + 1 */
  GPtrArray *cells;
} Row;

/* Cells between commas; a cell in double quotes may have commas. */
static GPtrArray *
split (const char *line)
{
  GPtrArray *cells = g_ptr_array_new_with_free_func (g_free);
  GString *cell = g_string_new (NULL);
  gboolean quoted = FALSE;

  for (const char *c = line;; c++)
    {
      if (*c == '\0' || (*c == ',' && !quoted))
        {
          g_ptr_array_add (cells, g_strdup (g_strstrip (cell->str)));
          g_string_truncate (cell, 0);
          if (*c == '\0')
            break;
        }
      else if (*c == '"')
        quoted = !quoted;
      else
        g_string_append_c (cell, *c);
    }
  g_string_free (cell, TRUE);
  return cells;
}

static const char *
cell (const Row *row, const char *name)
{
  guint place = GPOINTER_TO_UINT (g_hash_table_lookup (row->columns, name));

  g_assert_cmpuint (place, >, 0);
  return place <= row->cells->len ? row->cells->pdata[place - 1] : "";
}

static double
number (const Row *row, const char *name)
{
  return g_ascii_strtod (cell (row, name), NULL);
}

/* Call `visit` for each row of a table; FALSE, and the test is skipped, if the table is not there. */
static gboolean
each_row (const char *file, void (*visit) (const Row *row, gpointer data), gpointer data)
{
  const char *folder = g_getenv ("PSISIM_TEST_DATA");
  g_autofree char *path = g_build_filename (folder != NULL ? folder : "", file, NULL), *text = NULL;
  g_autoptr (GHashTable) columns = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  if (folder == NULL || !g_file_get_contents (path, &text, NULL, NULL))
    {
      g_test_skip ("PSISIM_TEST_DATA has no such table");
      return FALSE;
    }
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_autoptr (GPtrArray) cells = split (lines[i]);
      const Row row = { columns, cells };

      for (guint j = 0; i == 0 && j < cells->len; j++)
        g_hash_table_insert (columns, g_strdup (cells->pdata[j]), GUINT_TO_POINTER (j + 1));
      if (i > 0 && *lines[i] != '\0')
        visit (&row, data);
    }
  return TRUE;
}

static int
compare (gconstpointer a, gconstpointer b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

static double
mean (const GArray *errors)
{
  double sum = 0;

  for (guint i = 0; i < errors->len; i++)
    sum += g_array_index (errors, double, i);
  return sum / errors->len;
}

static double
median (GArray *errors)
{
  g_array_sort (errors, compare);
  return g_array_index (errors, double, errors->len / 2);
}

typedef struct
{
  PsiMachine *machine;
  const char *group;
  GArray *all, *settled; /* of double: sizes of relative errors */
} Products;

/* Products of SimuMax's tables: each was issued 100 times. Those that take half a millisecond and more are so long
 * under way that the clock has settled; shorter ones ran at the boost clock, or while it overshot. */
#define SETTLED_S 5e-4

static void
add_product (const Row *row, gpointer data)
{
  Products *products = data;

  if (!g_str_equal (cell (row, "group"), products->group))
    return;
  PsiKernel kernel = { .kind = PSI_KERNEL_GEMM,
                       .dtype = PSI_DTYPE_BF16,
                       .launches = 1,
                       .batch = 1,
                       .m = (gint64) number (row, "m"),
                       .n = (gint64) number (row, "n"),
                       .k = (gint64) number (row, "k") };
  gint64 experts = MAX ((gint64) number (row, "batch"), 1);

  /* Products of experts have the forward's shape in each pass. */
  if (experts > 1 && strstr (cell (row, "extra"), "bwd_grad_w") != NULL)
    {
      gint64 tokens = kernel.m;

      kernel.m = kernel.n;
      kernel.n = kernel.k;
      kernel.k = tokens;
      kernel.any_k = TRUE;
    }
  else if (experts > 1 && strstr (cell (row, "extra"), "bwd_grad_act") != NULL)
    {
      gint64 width = kernel.n;

      kernel.n = kernel.k;
      kernel.k = width;
    }
  kernel.batch = experts;
  kernel.launches = (guint32) experts;
  double m = (double) kernel.m, n = (double) kernel.n, k = (double) kernel.k;
  gboolean adds = g_str_equal (cell (row, "accumulate"), "True"),
           wide = strstr (cell (row, "extra"), experts > 1 ? "main_grad_dtype=fp32" : "fp32") != NULL &&
                  (adds || experts == 1);
  double each = (double) experts;
  double measured_s = 2 * each * m * n * k / (number (row, "tflops") * 1e12);

  kernel.flops = 2 * each * m * n * k;
  kernel.bytes = each * (2 * (m + n) * k + (adds ? 2 : 1) * (wide ? 4 : 2) * m * n);
  double error = fabs (psi_gpu_kernel_s (&products->machine->gpu, &kernel) / measured_s - 1);
  g_array_append_val (products->all, error);
  if (measured_s >= SETTLED_S)
    g_array_append_val (products->settled, error);
}

static const struct
{
  const char *machine, *group;
  guint rows;
  double most, most_settled;
} product_tables[] = {
  { "a100-pcie-80", "gemm/simumax-A100-PCIe-80GB-matmul", 148, 0.035, 0.035 },
  { "b200-sxm", "gemm/simumax-B200-SXM-matmul", 321, 0.115, 0.045 },
  { "a100-pcie-80", "gemm/simumax-A100-PCIe-80GB-group_matmul", 6, 0.05, 0.05 },
  { "b200-sxm", "gemm/simumax-B200-SXM-group_matmul", 54, 0.14, 0.14 },
};

static void
test_products (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (product_tables); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (product_tables[i].machine, NULL);
      g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (double));
      g_autoptr (GArray) settled = g_array_new (FALSE, FALSE, sizeof (double));
      Products products = { machine, product_tables[i].group, all, settled };

      if (!each_row ("measured-gemm.csv", add_product, &products))
        return;
      g_assert_cmpuint (all->len, ==, product_tables[i].rows);
      g_test_message ("%s: %.1f %% of %u products, %.1f %% of the %u longest", product_tables[i].machine,
                      100 * mean (all), all->len, 100 * mean (settled), settled->len);
      g_assert_cmpfloat (mean (all), <=, product_tables[i].most);
      g_assert_cmpfloat (mean (settled), <=, product_tables[i].most_settled);
    }
}

/* All-reduce tables of nccl-tests, 8 B to 1 GiB, by NCCL's constants alone; most: of the mean error of the table. */
static const struct
{
  const char *group, *machine, *network;
  guint n_ranks, n_nodes;
  double most;
} reduce_tables[] = {
  { "nccl/a100-1n8g-thanos-mpi", "a100", NULL, 8, 1, 0.18 },  { "nccl/a100-2n16g-efa", "a100", "efa", 16, 2, 0.10 },
  { "nccl/h100-2n16g-efa", "h100", "efa", 16, 2, 0.12 },      { "nccl/h200-1n8g-mleng", "h200", NULL, 8, 1, 0.25 },
  { "nccl/a100-1n8g-mleng", "a100", NULL, 8, 1, 0.36 },       { "nccl/b200-1n-mleng", "b200", NULL, 8, 1, 0.36 },
  { "nccl/vtrain-a100-2g", "a100", NULL, 2, 1, 0.06 },        { "nccl/vtrain-a100-4g", "a100", NULL, 4, 1, 0.06 },
  { "nccl/vtrain-a100-5g", "a100", NULL, 5, 1, 0.08 },        { "nccl/vtrain-a100-7g", "a100", NULL, 7, 1, 0.10 },
  { "nccl/vtrain-v100-8g", "v100-sxm-16", NULL, 8, 1, 0.15 },
};

typedef struct
{
  PsiMachine *machine;
  guint table;
  GArray *errors, *all; /* of double */
} Reduces;

static void
add_reduce (const Row *row, gpointer data)
{
  Reduces *reduces = data;
  guint n_ranks = reduce_tables[reduces->table].n_ranks, n_nodes = reduce_tables[reduces->table].n_nodes;
  double out_us = number (row, "time_oop_us"), in_us = number (row, "time_ip_us");
  gint64 bytes = (gint64) number (row, "size_bytes");
  const PsiGroupShape shape = {
    .n_ranks = n_ranks, .ranks_per_node = n_ranks / n_nodes, .n_nodes = n_nodes, .nic_sharers = n_ranks / n_nodes
  };
  PsiCollectiveCost cost;

  if (!g_str_equal (cell (row, "group"), reduce_tables[reduces->table].group) || bytes <= 0 ||
      bytes > G_GINT64_CONSTANT (1) << 30 || (out_us <= 0 && in_us <= 0))
    return;
  psi_collective_cost (reduces->machine, PSI_COLLECTIVE_ALL_REDUCE, bytes, &shape, &cost);
  double us = in_us > 0 && out_us > 0 ? (in_us + out_us) / 2 : MAX (in_us, out_us);
  double error = fabs (psi_time_to_s (psi_collective_time_ps (&cost)) * 1e6 / us - 1);
  g_array_append_val (reduces->errors, error);
  g_array_append_val (reduces->all, error);
}

static void
test_all_reduce (void)
{
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < G_N_ELEMENTS (reduce_tables); i++)
    {
      g_autoptr (PsiMachine) machine = psi_machine_load (reduce_tables[i].machine, NULL);
      g_autoptr (GArray) errors = g_array_new (FALSE, FALSE, sizeof (double));
      Reduces reduces = { machine, i, errors, all };

      if (reduce_tables[i].network != NULL)
        g_assert_true (psi_machine_choose_network (machine, reduce_tables[i].network, NULL));
      if (!each_row ("measured-collectives.csv", add_reduce, &reduces))
        return;
      g_assert_cmpuint (errors->len, >=, 10);
      g_test_message ("%s: %.1f %% of %u", reduce_tables[i].group, 100 * mean (errors), errors->len);
      g_assert_cmpfloat (mean (errors), <=, reduce_tables[i].most);
    }
  g_test_message ("all: median %.1f %%", 100 * median (all));
  g_assert_cmpfloat (median (all), <=, 0.1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/hwmodel/published/products", test_products);
  g_test_add_func ("/hwmodel/published/all-reduce", test_all_reduce);
  return g_test_run ();
}
