/* SPDX-License-Identifier: MIT */
/* Memory of real models in closed form.
 *
 *   FSDP             16 N / D between steps: fp32 parameters 4, gradients 4, moments 8
 *   at the loss      embedding and head are there whole, 2 (2 V h + h) bytes, beside the block that is prefetched
 *   under a pipeline (D - 1) 2 N bytes gathered and (D - 1) 4 N scattered a step, however many micro-batches; on each
 *                    rank the gradients of its n elements are whole, 4 n
 *
 *   at the table     the first rank's last backward op, over embedding of V words: its gradient of 2 V h bytes beside
 *                    p - 1 micro-batches, if that is more than what p of them take
 *   device           what the allocator holds and the context, key or machine
 *   two buffers      where a rank's outputs stay in theirs, the logits of the micro-batch before, 2 T V
 *
 * N elements of a llama: 2 V h + h + L (2 h q + 2 h k + 3 h f + 2 h), h hidden, q = heads x head_dim, k the same of
 * kv_heads, f ffn, V vocabulary. Source: torch.distributed.fsdp.fully_shard, torchtitan. */
#include "closed-forms.h"

#define LLAMA                                                                                                          \
  "model=custom family=llama machine=h100 hidden=512 heads=8 kv_heads=2 ffn=1536 vocab=32000 layers=8 "                \
  "grad_clip=no "
#define HIDDEN G_GINT64_CONSTANT (512)
#define VOCAB G_GINT64_CONSTANT (32000)
#define LAYERS 8
#define BLOCK (2 * HIDDEN * 512 + 2 * HIDDEN * 128 + 3 * HIDDEN * 1536 + 2 * HIDDEN)
#define ELEMENTS (2 * VOCAB * HIDDEN + HIDDEN + LAYERS * BLOCK)

static void
test_fsdp_state (void)
{
  for (guint d = 2; d <= 16; d *= 2)
    {
      g_autoptr (PsiReport) report = run_flags (FALSE, LLAMA "sequence=2048 framework=torchtitan zero=3 dp=%u", d);
      const PsiRankReport *rank = rank_of (plan_of (report), 0);
      gint64 comm = rank->at_peak[PSI_MEMORY_COMMUNICATION], root = 2 * (2 * VOCAB * HIDDEN + HIDDEN);
      gint64 state = 16 * ELEMENTS / d;

      /* Shares are rounded up layer by layer and state by state; the rest are workspaces. */
      g_assert_cmpint (rank->at_peak[PSI_MEMORY_PARAMETERS] - 4 * ELEMENTS / d, <=, LAYERS + 2);
      g_assert_cmpint (rank->at_peak[PSI_MEMORY_PARAMETERS], >=, 4 * ELEMENTS / d);
      g_assert_cmpint (rank->at_peak[PSI_MEMORY_OPTIMIZER], >=, 8 * ELEMENTS / d);
      g_assert_cmpint (rank->steady_bytes - rank->at_peak[PSI_MEMORY_PARAMETERS] - rank->at_peak[PSI_MEMORY_OPTIMIZER],
                       >=, state - 12 * ELEMENTS / d);
      g_assert_cmpint (comm, >=, root);
      g_assert_cmpint (comm, <=, root + 2 * 2 * BLOCK);
    }
}

static void
test_fsdp_pipeline (void)
{
  for (guint micro_batches = 2; micro_batches <= 8; micro_batches *= 2)
    {
      const guint d = 4;
      g_autoptr (PsiReport) report = run_flags (
          FALSE, LLAMA "sequence=64 framework=torchtitan zero=3 dp=%u pp=2 micro_batches=%u", d, micro_batches);
      g_autoptr (PsiReport) plain = run_flags (
          FALSE, LLAMA "sequence=64 framework=megatron-deepspeed zero=3 dp=%u pp=2 micro_batches=%u", d, micro_batches);
      const PsiPlanReport *plan = plan_of (report);

      assert_near (plan->by_kind[PSI_TRAFFIC_PARAMETERS], (d - 1) * 2.0 * ELEMENTS);
      assert_near (plan->by_kind[PSI_TRAFFIC_GRADIENTS], (d - 1) * 4.0 * ELEMENTS);
      assert_near (plan_of (plain)->by_kind[PSI_TRAFFIC_PARAMETERS], micro_batches * 2.0 * (d - 1) * 2.0 * ELEMENTS);
      for (guint r = 0; r < 2; r++)
        {
          gint64 n = LAYERS / 2 * BLOCK + VOCAB * HIDDEN;

          g_assert_cmpint (rank_of (plan, r)->at_peak[PSI_MEMORY_COMMUNICATION], >=, 2 * n);
          g_assert_cmpint (rank_of (plan, r)->at_peak[PSI_MEMORY_COMMUNICATION], <=, 2 * (n + HIDDEN));
          g_assert_cmpint (rank_of (plan, r)->at_peak[PSI_MEMORY_GRADIENTS], >=, 4 * (n / d) + 4 * n);
        }
    }
}

/* Activations of the first n blocks are in the host's memory when the last block's forward is over. */
static void
test_offload_layers (void)
{
  g_autoptr (PsiReport) none = run_flags (FALSE, LLAMA "sequence=2048 vocab=100");
  gint64 all = rank_of (plan_of (none), 0)->activations_peak_bytes, before = all, step = 0;

  for (guint n = 1; n <= LAYERS; n++)
    {
      g_autoptr (PsiReport) report =
          run_flags (FALSE, LLAMA "sequence=2048 vocab=100 offload=activations offload_layers=%u", n);
      gint64 bytes = rank_of (plan_of (report), 0)->activations_peak_bytes;

      if (n == 1)
        step = before - bytes;
      if (n < LAYERS) /* the last block is always there while it works */
        g_assert_cmpint (before - bytes, ==, step);
      before = bytes;
    }
  g_assert_cmpint (step, >, all / (LAYERS + 1));

  g_autoptr (GError) error = NULL;
  g_assert_null (try_flags (LLAMA "offload_layers=2", FALSE, &error));
  g_assert_nonnull (strstr (error->message, "offload-layers: '2' goes with offload 'activations' only"));
}

/* The vocabulary over p ranks: each holds its blocks and 1 / p of embedding and head; in flight on rank r are
 * min (m, p - r + 2) micro-batches with two barriers, + 1 with one, 1.5 (p - r) rounded down in lockstep; work is even.
 */
static void
test_vocabulary (void)
{
  static const char *const kinds[] = { "vocab-1", "vocab-2", "interlaced" };
  const guint p = 4, m = 16;
  const gint64 shard = (VOCAB + 127) / 128 * 128 / p * HIDDEN;
  g_autoptr (PsiReport) ends = run_flags (FALSE, LLAMA "sequence=512 framework=megatron pp=%u micro_batches=%u", p, m);
  gint64 block_bytes =
      rank_of (plan_of (ends), 1)->activations_peak_bytes / (p - 1) / (LAYERS / p); /* of one micro-batch */

  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    {
      g_autoptr (PsiReport) report = run_flags (
          FALSE, LLAMA "sequence=512 framework=megatron pp=%u micro_batches=%u vocab_parallel=%s", p, m, kinds[k]);
      const PsiPlanReport *plan = plan_of (report);

      g_assert_cmpuint (plan->ranks->len, ==, p);
      for (guint r = 0; r < p; r++)
        {
          const PsiRankReport *rank = rank_of (plan, r);
          gint64 in_flight = k == 0 ? p - r + 2 : k == 1 ? p - r + 1 : p - r + (p - r) / 2;
          gint64 n = LAYERS / p * BLOCK + 2 * shard + (r == p - 1 ? HIDDEN : 0);
          gint64 kept = in_flight * (LAYERS / p) * block_bytes;

          g_assert_cmpint (rank->at_peak[PSI_MEMORY_PARAMETERS], ==, 2 * n);
          g_assert_cmpint (rank->at_peak[PSI_MEMORY_OPTIMIZER], ==, 12 * n);
          if (r > 0 && r < p - 1)
            g_assert_cmpint (rank->activations_peak_bytes, ==, kept);
        }
      g_assert_cmpint (plan->step_time_ps, <, plan_of (ends)->step_time_ps);
    }
  static const char *const wrong[] = { "pp=4 schedule=gpipe", "dp=4", "pp=4 partition=2,2,2,2", "pp=4 vpp=2" };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autofree char *flags = g_strdup_printf (LLAMA "vocab_parallel=vocab-1 %s", wrong[i]);
      g_autoptr (GError) error = NULL;

      g_assert_null (try_flags (flags, FALSE, &error));
      g_assert_nonnull (strstr (error->message, "'vocab-1' goes with schedule '1f1b'"));
    }
  g_autofree char *many = g_strdup_printf (LLAMA "vocab_parallel=vocab-1 pp=%u", LAYERS + 1);
  g_autoptr (GError) error = NULL;
  g_assert_null (try_flags (many, FALSE, &error));
  g_assert_nonnull (strstr (error->message, "layers cannot be cut into"));
}

/* The logits of a micro-batch stay until the next one has its own, on the rank with the head and if there is a next
 * one.
 */
static void
test_stale_logits (void)
{
#define EAGER LLAMA "sequence=512 micro_batch=2 framework=megatron-eager"
  gint64 logits = 2 * 2 * 512 * VOCAB; /* a multiple of 128 */

  for (guint pp = 1; pp <= 2; pp++)
    {
      g_autoptr (PsiReport) one = run_flags (FALSE, EAGER " pp=%u micro_batches=1", pp);
      g_autoptr (PsiReport) two = run_flags (FALSE, EAGER " pp=%u micro_batches=2", pp);
      g_autoptr (PsiReport) many = run_flags (FALSE, EAGER " pp=%u micro_batches=6", pp);
      const PsiRankReport *last[] = { rank_of (plan_of (one), pp - 1), rank_of (plan_of (two), pp - 1),
                                      rank_of (plan_of (many), pp - 1) };

      g_assert_cmpint (last[1]->steady_bytes - last[0]->steady_bytes, ==, logits);
      g_assert_cmpint (last[2]->steady_bytes, ==, last[1]->steady_bytes);
      if (pp > 1)
        g_assert_cmpint (rank_of (plan_of (two), 0)->steady_bytes, ==, rank_of (plan_of (one), 0)->steady_bytes);
    }
}

/* The first rank of a pipeline holds p micro-batches, or p - 1 and the gradient of the whole table. */
static void
test_table_gradient (void)
{
#define TABLE                                                                                                          \
  "model=custom family=llama machine=a100 hidden=512 heads=8 ffn=1536 layers=8 sequence=64 grad_clip=no pp=4 "         \
  "micro_batches=8 partition=layers framework=%s vocab=%u"
  static const struct
  {
    const char *framework;
    gboolean made;
  } rows[] = { { "megatron", TRUE }, { "nanotron", TRUE }, { "pytorch", FALSE } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (PsiReport) small = run_flags (FALSE, TABLE, rows[i].framework, 512u);
      g_autoptr (PsiReport) large = run_flags (FALSE, TABLE, rows[i].framework, 512u + 131072u);
      const PsiRankReport *a = rank_of (plan_of (small), 0), *b = rank_of (plan_of (large), 0);
      gint64 more = (b->peak_bytes - b->steady_bytes) - (a->peak_bytes - a->steady_bytes);

      /* 134 MB, where a micro-batch takes under 4. */
      if (rows[i].made)
        {
          g_assert_cmpint (more, >, 2 * 131072 * HIDDEN - 4000000);
          g_assert_cmpint (more, <=, 2 * 131072 * HIDDEN);
        }
      else
        g_assert_cmpint (more, <, 1000000);
    }
}

/* OneFlow has room for 2 p micro-batches on all ranks but the last, whatever is in flight: with full recompute the
 * inputs of two blocks each, 2 h T. */
static void
test_stage_buffers (void)
{
#define ONEFLOW LLAMA "sequence=512 precision=fp16 framework=%s recompute=full pp=4 micro_batches=%u"
  const gint64 kept = 2 * 2 * HIDDEN * 512;
  g_autoptr (PsiReport) one = run_flags (FALSE, ONEFLOW, "oneflow", 1u);
  g_autoptr (PsiReport) two = run_flags (FALSE, ONEFLOW, "oneflow", 2u);
  g_autoptr (PsiReport) many = run_flags (FALSE, ONEFLOW, "oneflow", 16u);
  g_autoptr (PsiReport) other = run_flags (FALSE, ONEFLOW, "megatron", 16u);

  for (guint r = 1; r < 4; r++)
    {
      const PsiRankReport *ranks[] = { rank_of (plan_of (one), r), rank_of (plan_of (two), r),
                                       rank_of (plan_of (many), r), rank_of (plan_of (other), r) };
      gint64 room = r < 3 ? 8 : 0, in_flight = 4 - r;

      g_assert_cmpint (ranks[0]->steady_bytes - ranks[2]->steady_bytes, ==, r < 3 ? (in_flight - 1) * kept : 0);
      g_assert_cmpint (ranks[0]->steady_bytes - ranks[1]->steady_bytes, ==, r < 3 ? kept : 0);
      g_assert_cmpint (ranks[2]->steady_bytes - ranks[3]->steady_bytes, ==, MAX (room - in_flight, 0) * kept);
    }
}

/* Moments that come at the end of the first step take the place of activations, so that those of the second need more.
 * Where they come before it, or nothing is cached, they make no difference. */
static void
test_late_moments (void)
{
  static const struct
  {
    const char *framework;
    gboolean late, caches;
  } rows[] = { { "pytorch", TRUE, TRUE }, { "megatron-deepspeed", FALSE, TRUE }, { "llm.c", FALSE, FALSE } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      gint64 cached[2];

      for (guint o = 0; o < 2; o++)
        {
          g_autoptr (PsiReport) report =
              run_flags (FALSE, "model=llama-2-7b machine=a100-sxm-80 gpus=8 plan=zero-1 micro_batch=2 framework=%s %s",
                         rows[i].framework, o == 0 ? "optimizer=sgd" : "optimizer=adam");

          cached[o] = plan_of (report)->reserved_bytes - plan_of (report)->peak_bytes;
        }
      if (rows[i].late)
        g_assert_cmpint (cached[1] - cached[0], >, 256 << 20);
      else
        g_assert_cmpint (ABS (cached[1] - cached[0]), <=, 4 << 20); /* two segments of 2 MiB */
      g_assert_true (rows[i].caches ? cached[0] > 2 << 20 : cached[0] <= 2 << 20);
    }
}

/* What nvidia-smi shows before the first tensor, on top of what the allocator holds. */
static void
test_context (void)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, "model=gpt2 machine=v100 sequence=128 context=1343MiB");
  g_autoptr (PsiReport) own = run_flags (FALSE, "model=gpt2 machine=v100 sequence=128");
  g_autoptr (PsiReport) ideal = run_flags (FALSE, "model=gpt2 machine=ideal sequence=128 context=1GiB");
  const PsiRankReport *rank = rank_of (plan_of (report), 0);

  g_assert_cmpint (rank->overhead_bytes, ==, G_GINT64_CONSTANT (1343) << 20);
  g_assert_cmpint (rank->device_bytes - rank->reserved_bytes, ==, rank->overhead_bytes);
  g_assert_cmpint (rank->peak_bytes, ==, rank_of (plan_of (own), 0)->peak_bytes);
  g_assert_cmpint (rank_of (plan_of (own), 0)->overhead_bytes, ==, 450 << 20);
  g_assert_cmpint (rank_of (plan_of (ideal), 0)->overhead_bytes, ==, 0);
}

#define NANOTRON                                                                                                       \
  "model=custom family=llama machine=h100 hidden=2048 heads=32 kv_heads=32 ffn=8192 vocab=32000 layers=16 "            \
  "sequence=4096 framework=nanotron grad_clip=no "
static gint64
held_bytes (const char *flags)
{
  g_autoptr (PsiReport) report = run_flags (FALSE, NANOTRON "%s", flags);

  return rank_of (plan_of (report), 0)->reserved_bytes;
}

/* What nanotron's allocator holds. Without tensor parallelism nothing is lent, and whether the host checks collectives
 * changes nothing. With it: hosts that are slower than the GPU (checks, small layers) have everything back in time,
 * faster ones run ahead by whole tensors of 2 h bytes a token, at least one of each layer, at most what 1024 calls of
 * the host lend; those of a pipeline while the first step starts, from the second tensor sent on. */
static void
test_nanotron_lent (void)
{
#define SHARDS "tp=8 sequence_parallel=yes micro_batch=8 "
  const gint64 whole = 2 * 2048 * 4096 * 8;
  gint64 ahead = held_bytes (SHARDS "micro_batches=2 collective_checks=no gpus_per_node=8"),
         behind = held_bytes (SHARDS "micro_batches=2 collective_checks=yes");

  g_assert_cmpint (held_bytes ("micro_batch=2 micro_batches=2 collective_checks=yes"), ==,
                   held_bytes ("micro_batch=2 micro_batches=2 collective_checks=no"));
  g_assert_cmpint (ahead - behind, >, 16 * whole);
  g_assert_cmpint (ahead - behind, <, 1024 / 16 * whole);

  gint64 short_pipe = held_bytes (SHARDS "pp=2 micro_batches=8 collective_checks=yes"),
         long_pipe = held_bytes (SHARDS "pp=8 micro_batches=8 collective_checks=yes");
  /* As many activations in flight, but the longer one keeps what six forwards of two layers and an embedding lend. */
  g_assert_cmpint (long_pipe - short_pipe, >, 6 * 4 * whole);
  /* The copy of ZeRO-0's gradients in buckets, 2 N, is not there under ZeRO-1, whose moments and master copy are
   * shared. */
  g_autoptr (PsiReport) buckets = run_flags (FALSE, NANOTRON "dp=2 micro_batch=1");
  g_autoptr (PsiReport) shared = run_flags (FALSE, NANOTRON "dp=2 micro_batch=1 zero=1");
  gint64 n = 16 * (4 * 2048 * 2048 + 3 * 2048 * 8192 + 2 * 2048) + 2 * 32000 * 2048 + 2048;
  gint64 saved = rank_of (plan_of (buckets), 0)->steady_bytes - rank_of (plan_of (shared), 0)->steady_bytes;
  g_assert_cmpint (ABS (saved - (2 + 12 / 2) * n), <, n / 100);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/closed-forms/fsdp/state", test_fsdp_state);
  g_test_add_func ("/closed-forms/fsdp/pipeline", test_fsdp_pipeline);
  g_test_add_func ("/closed-forms/offload/layers", test_offload_layers);
  g_test_add_func ("/closed-forms/loss/stale-logits", test_stale_logits);
  g_test_add_func ("/closed-forms/embedding/table-gradient", test_table_gradient);
  g_test_add_func ("/closed-forms/vocabulary/over-the-pipeline", test_vocabulary);
  g_test_add_func ("/closed-forms/pipeline/stage-buffers", test_stage_buffers);
  g_test_add_func ("/closed-forms/device/late-moments", test_late_moments);
  g_test_add_func ("/closed-forms/device/context", test_context);
  g_test_add_func ("/closed-forms/nanotron/lent", test_nanotron_lent);
  return g_test_run ();
}
