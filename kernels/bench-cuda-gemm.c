/* SPDX-License-Identifier: MIT */
/* cuBLAS products. A layer computes y = x W^T with x (M x K), W (N x K), row-major; cuBLAS is column-major, so the
 * three passes of training are
 *
 *   forward          y  (M x N) = x W^T    op T, N
 *   input gradient   dx (M x K) = dy W     op N, N
 *   weight gradient  dW (N x K) += dy^T x  op N, T, beta = 1
 *
 * A record has the shape of its own product, result first: `m` x `n` summed over `k`. Shapes: a transformer's (hidden
 * sizes 1024..12288, tensor parallel 1..8, vocabularies), a coarse lattice in powers of 4, shapes 64 beyond a tile, and
 * the batched products of attention. */
#define _GNU_SOURCE
#include "bench-cuda.h"

#include <stdlib.h>
#include <string.h>

typedef enum
{
  PASS_FORWARD,
  PASS_INPUT,
  PASS_WEIGHT
} Pass;

static const struct
{
  const char *name;
  cublasOperation_t a, b;
  const char *layout;
} passes[] = {
  [PASS_FORWARD] = { "forward", CUBLAS_OP_T, CUBLAS_OP_N, "TN" },
  [PASS_INPUT] = { "input", CUBLAS_OP_N, CUBLAS_OP_N, "NN" },
  [PASS_WEIGHT] = { "weight", CUBLAS_OP_N, CUBLAS_OP_T, "NT" },
};

typedef enum
{
  TYPE_BF16,
  TYPE_FP16,
  TYPE_TF32,
  TYPE_FP32
} Type;

static const struct
{
  const char *name;
  cudaDataType_t data;
  cublasComputeType_t compute;
  size_t bytes;
  BenchFill fill;
} types[] = {
  [TYPE_BF16] = { "bf16", CUDA_R_16BF, CUBLAS_COMPUTE_32F, 2, BENCH_FILL_BF16 },
  [TYPE_FP16] = { "fp16", CUDA_R_16F, CUBLAS_COMPUTE_32F, 2, BENCH_FILL_FP16 },
  [TYPE_TF32] = { "tf32", CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 4, BENCH_FILL_FP32 },
  [TYPE_FP32] = { "fp32", CUDA_R_32F, CUBLAS_COMPUTE_32F, 4, BENCH_FILL_FP32 },
};

enum
{
  N_FILLS = BENCH_FILL_FP32 + 1
};

typedef struct
{
  Type type;
  Pass pass;
  int tier; /* 0 first */
  int batch, m, n, k;
} Product;

static size_t
round_256 (size_t bytes)
{
  return (bytes + 255) & ~(size_t) 255;
}

static size_t
product_in_bytes (const Product *p)
{
  size_t element = types[p->type].bytes;
  return round_256 ((size_t) p->batch * (size_t) p->m * (size_t) p->k * element) +
         round_256 ((size_t) p->batch * (size_t) p->n * (size_t) p->k * element);
}

static size_t
product_out_bytes (const Product *p)
{
  return (size_t) p->batch * (size_t) p->m * (size_t) p->n * types[p->type].bytes;
}

/* One product, with operands and result at the iteration-th place of their pools. */
static bool
multiply (BenchGpu *gpu, void *data, long iteration)
{
  const Product *p = data;
  size_t element = types[p->type].bytes;
  float alpha = p->pass == PASS_WEIGHT ? 1.0f / 4096 : 1; /* sums that keep growing must not overflow fp16 */
  float beta = p->pass == PASS_WEIGHT ? 1 : 0;
  char *first = gpu->in + bench_rotate (product_in_bytes (p), gpu->in_bytes, iteration);
  char *second = first + round_256 ((size_t) p->batch * (size_t) p->m * (size_t) p->k * element);
  char *result = gpu->out + bench_rotate (product_out_bytes (p), gpu->out_bytes, iteration);
  /* Column-major: the result is (n x m), its left factor the second operand. */
  cublasOperation_t a = passes[p->pass].a, b = passes[p->pass].b;
  int lda = a == CUBLAS_OP_T ? p->k : p->n;
  int ldb = b == CUBLAS_OP_T ? p->m : p->k;
  cudaDataType_t type = types[p->type].data;
  cublasStatus_t status;

  if (p->batch == 1)
    status = cublasGemmEx (gpu->cublas, a, b, p->n, p->m, p->k, &alpha, second, type, lda, first, type, ldb, &beta,
                           result, type, p->n, types[p->type].compute, CUBLAS_GEMM_DEFAULT);
  else
    status = cublasGemmStridedBatchedEx (gpu->cublas, a, b, p->n, p->m, p->k, &alpha, second, type, lda,
                                         (long long) p->n * p->k, first, type, ldb, (long long) p->m * p->k, &beta,
                                         result, type, p->n, (long long) p->m * p->n, p->batch, types[p->type].compute,
                                         CUBLAS_GEMM_DEFAULT);
  return bench_cublas_ok (gpu, status, "cuBLAS product");
}

bool
bench_gemm_square (BenchGpu *gpu, int n, long iteration)
{
  Product product = { TYPE_BF16, PASS_FORWARD, 0, 1, n, n, n };
  return multiply (gpu, &product, iteration);
}

/* ---- The list of shapes ---- */

typedef struct
{
  Product *products;
  int n, room;
} List;

static void
list_add (List *list, Product product)
{
  for (int i = 0; i < list->n; i++)
    {
      const Product *q = &list->products[i];
      if (q->type == product.type && q->pass == product.pass && q->batch == product.batch && q->m == product.m &&
          q->n == product.n && q->k == product.k)
        return;
    }
  if (list->n == list->room)
    {
      list->room = list->room ? list->room * 2 : 256;
      list->products = realloc (list->products, (size_t) list->room * sizeof *list->products);
      if (!list->products)
        abort ();
    }
  list->products[list->n++] = product;
}

/* Forward, input gradient and weight gradient of a layer with `tokens` rows, `out` outputs, `in` inputs. */
static void
list_add_layer (List *list, int tier, Type type, int tokens, int out, int in)
{
  list_add (list, (Product){ type, PASS_FORWARD, tier, 1, tokens, out, in });
  list_add (list, (Product){ type, PASS_INPUT, tier, 1, tokens, in, out });
  list_add (list, (Product){ type, PASS_WEIGHT, tier, 1, out, in, tokens });
}

/* qkv, attention output, MLP up and down of one block, split over `t` GPUs. */
static void
list_add_block (List *list, int tier, Type type, int tokens, int hidden, int t)
{
  list_add_layer (list, tier, type, tokens, 3 * hidden / t, hidden);
  list_add_layer (list, tier, type, tokens, hidden, hidden / t);
  list_add_layer (list, tier, type, tokens, 4 * hidden / t, hidden);
  list_add_layer (list, tier, type, tokens, hidden, 4 * hidden / t);
}

static void
make_list (List *list, bool quick)
{
  static const int hidden[] = { 1024, 2048, 4096, 5120, 8192, 12288 };
  static const int vocabularies[] = { 32000, 50304, 128256 };
  static const int lattice[] = { 128, 512, 2048, 8192 };
  const Type all[] = { TYPE_BF16, TYPE_FP16, TYPE_TF32, TYPE_FP32 };

  for (int i = 0; i < 4; i++)
    for (int n = quick ? 1024 : 256; n <= (all[i] == TYPE_FP32 ? 4096 : 8192); n *= quick ? 4 : 2)
      list_add (list, (Product){ all[i], PASS_FORWARD, 0, 1, n, n, n });
  list_add_block (list, 0, TYPE_BF16, 2048, 4096, 1);
  if (quick)
    return;
  for (int i = 0; i < 6; i++)
    list_add_block (list, 1, TYPE_BF16, 4096, hidden[i], 1);
  for (int tokens = 512; tokens <= 16384; tokens *= 4)
    list_add_block (list, 1, TYPE_BF16, tokens, 4096, 1);
  for (int t = 2; t <= 8; t *= 2)
    for (int i = 2; i < 6; i += 3)
      list_add_block (list, 2, TYPE_BF16, 2048, hidden[i], t);
  for (int i = 0; i < 3; i++)
    list_add_layer (list, 1, TYPE_BF16, 2048, vocabularies[i], 4096);
  for (int sequence = 512; sequence <= 4096; sequence *= 2)
    for (int d = 64; d <= 128; d *= 2)
      {
        list_add (list, (Product){ TYPE_BF16, PASS_FORWARD, 1, 32, sequence, sequence, d });
        list_add (list, (Product){ TYPE_BF16, PASS_INPUT, 1, 32, sequence, d, sequence });
      }
  for (int m = 0; m < 4; m++)
    for (int n = 0; n < 4; n++)
      for (int k = 0; k < 4; k++)
        list_add (list, (Product){ TYPE_BF16, PASS_FORWARD, 2, 1, lattice[m], lattice[n], lattice[k] });
  for (int n = 512; n <= 8192; n *= 2)
    list_add (list, (Product){ TYPE_BF16, PASS_FORWARD, 2, 1, n + 64, n + 64, n });
  for (int i = 1; i < 4; i++)
    {
      list_add_block (list, 3, all[i], 2048, 4096, 1);
      list_add_block (list, 3, all[i], 512, 1024, 1);
    }
}

static void
write_record (BenchGpu *gpu, const Product *p, const BenchStats *stats, int sweep, unsigned long long throttle)
{
  const BenchOptions *options = gpu->options;

  bench_line_begin (options, "gemm");
  bench_line_text (options, "dtype", types[p->type].name);
  bench_line_text (options, "pass", passes[p->pass].name);
  bench_line_text (options, "layout", passes[p->pass].layout);
  bench_line_number (options, "batch", p->batch);
  bench_line_number (options, "m", p->m);
  bench_line_number (options, "n", p->n);
  bench_line_number (options, "k", p->k);
  bench_line_number (options, "sweep", sweep);
  bench_line_stats (options, stats);
  bench_nvml_line (options, &gpu->nvml, throttle);
  bench_line_end (options);
}

int
bench_gemm_run (void *state, int sweep, double deadline_s)
{
  BenchGpu *gpu = state;
  List list = { 0 };
  int skipped = 0, done = 0;

  make_list (&list, gpu->options->quick);
  double seconds = (deadline_s - bench_now_s ()) / list.n;
  seconds = seconds < 0.02 ? 0.02 : seconds > 0.2 ? 0.2 : seconds;
  /* Tier by tier, and within each by what the pool is filled with: filling takes time. */
  for (int pass = 0; pass < 4 * N_FILLS; pass++)
    {
      int tier = pass / N_FILLS;
      BenchFill fill = (BenchFill) (sweep % 2 ? N_FILLS - 1 - pass % N_FILLS : pass % N_FILLS);

      for (int i = 0; i < list.n; i++)
        {
          Product *product = &list.products[bench_order (i, list.n, sweep)];
          BenchStats stats;
          if (product->tier != tier || types[product->type].fill != fill)
            continue;
          if (bench_interrupted () || bench_now_s () > deadline_s)
            break;
          if (product_in_bytes (product) > gpu->in_bytes || product_out_bytes (product) > gpu->out_bytes)
            {
              skipped++;
              continue;
            }
          unsigned long long throttle = bench_nvml_throttle (&gpu->nvml);
          if (!bench_gpu_pools (gpu, fill) || !bench_gpu_measure (gpu, multiply, product, seconds, true, &stats))
            {
              skipped++;
              continue;
            }
          write_record (gpu, product, &stats, sweep, throttle);
          done++;
        }
    }
  if (!bench_interrupted () && done + skipped < list.n)
    bench_warn (gpu->options, "gemm: time for %d of %d shapes", done, list.n);
  if (skipped)
    bench_warn (gpu->options, "gemm: %d shapes skipped (no room for them, or they failed)", skipped);
  free (list.products);
  return 0;
}
