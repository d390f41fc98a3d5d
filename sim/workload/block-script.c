/* SPDX-License-Identifier: MIT */
/* What nanotron's Llama does to the memory of its GPU, tensor by tensor and in the order of its code.
 *
 * Bytes of one GPU for T tokens, h hidden, q = heads x head_dim, k = kv_heads x head_dim, f ffn, a heads, t
 * tensor-parallel GPUs with sequence parallelism:
 *
 *   kept by a layer     2h input, 2h norm, 2 (q + 2k) packed projection in the layout of the attention, 4k rotated keys
 *                       and values, 2q attention, 4a log-sum-exp, 2h second residual, 2h norm, 4f gate and up,
 *                       2f activation, 2f product; all x T / t
 *   lent to NCCL        2hT: outputs of both row-parallel products, gradients of the inputs of both column-parallel
 *                       ones; of the embedding, its masked output and the gathered gradient
 *   for all layers      2hT each: the gathered input, the gathered gradient
 *   loss                4VT / t kept; 2 + 4 and 4 + 4 at two instants of the forward, 4 + 2 in the backward
 *
 * Queries are a view of the packed projection, so its keys and values stay though only their rotated copy is used; with
 * grouped queries the three are copied one by one, and only the queries stay. The product behind the attention is
 * RowLinearAsyncCommunication, which keeps the view of the attention's output and copies it again in the backward when
 * micro_batch > 1. A layer's gradients in bf16 stay until the backward of the micro-batch has added all of them.
 *
 * A collective is PSI_COLLECTIVE_CALLS calls of the host. A column-parallel product of the first rank is two kernels,
 * for its own shard and the others.
 *
 * Source: huggingface/nanotron, branch nouamane/bench2, December 2024 (which measured the published sweep):
 * models/llama.py, parallel/tensor_parallel/functional.py, nn.py and utils.py (MemoryBuffer), optim/
 * gradient_accumulator.py; flash-attn 2, layers/rotary.py and ops/triton/layer_norm.py.
 * Limits: no dropout, bias, cp, fp32; with tp > 1 only its mode REDUCE_SCATTER. */
#include "block.h"

/* Slots of a layer beside PSI_SCRIPT_FLOW. */
enum
{
  INPUT = PSI_SCRIPT_FLOW + 1,
  NORM,
  RMS,
  PACKED, /* the projection as the product makes it */
  QUERIES,
  KEYS,
  VALUES,
  PAIRS, /* keys and values, rotated */
  COPY,
  ATTENTION,
  SUMS,
  WHOLE, /* not yet scattered, or gathered */
  PROJECTED,
  RESIDUAL,
  NORM_2,
  RMS_2,
  MERGED,
  GATE,
  PRODUCT,
  OUTPUT,
  GRAD_A,
  GRAD_B,
  GRAD_C,
  GRAD_D,
  SHARD
};
G_STATIC_ASSERT ((int) SHARD < (int) PSI_SCRIPT_SLOTS);

/* Buffers of all layers. */
enum
{
  GATHERED_INPUT,
  GATHERED_GRADIENT
};

typedef struct
{
  GArray *lines;
  gboolean shards;      /* tp > 1 */
  gint64 stream, whole; /* bytes of the residual stream on this GPU, and of the tensor-parallel group */
} Script;

static void
say (Script *script, PsiScriptVerb verb, guint slot, gint64 bytes)
{
  const PsiScriptLine line = { .verb = (guint8) verb, .slot = (guint8) slot, .bytes = bytes };

  g_array_append_val (script->lines, line);
}

static void
take (Script *script, guint slot, gint64 bytes)
{
  say (script, PSI_SCRIPT_TAKE, slot, bytes);
}

static void
drop (Script *script, guint slot)
{
  say (script, PSI_SCRIPT_FREE, slot, 0);
}

/* A collective has read or written it. */
static void
lend (Script *script, guint slot)
{
  say (script, script->shards ? PSI_SCRIPT_LEND : PSI_SCRIPT_FREE, slot, 0);
}

static void
launch (Script *script, guint n)
{
  say (script, PSI_SCRIPT_LAUNCH, PSI_SCRIPT_FLOW, n);
}

static void
collective (Script *script)
{
  say (script, PSI_SCRIPT_COMM, PSI_SCRIPT_FLOW, PSI_COLLECTIVE_CALLS);
}

/* The gather before a column-parallel product, or before the backward of a row-parallel one, then the product. */
static void
gather_and_multiply (Script *script, guint buffer)
{
  if (script->shards)
    {
      say (script, PSI_SCRIPT_BUFFER, buffer, script->whole);
      collective (script);
    }
  launch (script, script->shards ? 2 : 1);
}

/* A whole result is scattered. */
static void
multiply_and_scatter (Script *script, guint result)
{
  if (!script->shards)
    {
      take (script, result, script->whole);
      launch (script, 1);
      return;
    }
  take (script, WHOLE, script->whole);
  launch (script, 1);
  take (script, result, script->stream);
  collective (script);
  lend (script, WHOLE);
}

/* Gradients of a column-parallel product's input and weight; the scatter runs beside the latter. */
static void
column_backward (Script *script, gint64 weight)
{
  if (script->shards)
    collective (script);
  take (script, script->shards ? WHOLE : SHARD, script->whole);
  launch (script, 1);
  if (script->shards)
    {
      take (script, SHARD, script->stream);
      collective (script);
    }
  say (script, PSI_SCRIPT_GRADIENT, 0, 2 * weight);
  launch (script, 1);
  if (script->shards)
    lend (script, WHOLE);
}

/* Of a norm: its gradient is added to what flows past it. */
static void
norm_backward (Script *script, guint input, guint rms)
{
  take (script, COPY, script->stream);
  launch (script, 3);
  lend (script, SHARD);
  drop (script, input);
  drop (script, rms);
  launch (script, 1);
  drop (script, COPY);
}

static void
attention_forward (Script *script, const PsiBlock *block, gint64 tokens, gint64 t)
{
  gint64 q = 2 * block->heads * block->head_dim * tokens / t, k = 2 * block->kv_heads * block->head_dim * tokens / t;

  gather_and_multiply (script, GATHERED_INPUT);
  take (script, PACKED, q + 2 * k);
  if (block->heads == block->kv_heads)
    {
      take (script, QUERIES, q + 2 * k);
      launch (script, 2);
    }
  else
    {
      take (script, QUERIES, q);
      take (script, KEYS, k);
      take (script, VALUES, k);
      launch (script, 3);
    }
  take (script, COPY, 2 * k);
  launch (script, 2);
  take (script, PAIRS, 2 * k);
  launch (script, 1);
  drop (script, COPY);
  drop (script, KEYS);
  drop (script, VALUES);
  launch (script, 3);
  take (script, ATTENTION, q);
  take (script, SUMS, 4 * block->heads / t * tokens);
  launch (script, 6);
  if (block->sequences > 1)
    {
      take (script, COPY, q);
      launch (script, 1);
      drop (script, COPY);
    }
  multiply_and_scatter (script, PROJECTED);
  drop (script, PACKED);
}

static void
attention_backward (Script *script, const PsiBlock *block, gint64 tokens, gint64 t)
{
  gint64 q = 2 * block->heads * block->head_dim * tokens / t, k = 2 * block->kv_heads * block->head_dim * tokens / t;
  gboolean copies = block->sequences > 1;

  gather_and_multiply (script, GATHERED_GRADIENT);
  take (script, GRAD_A, q);
  if (copies)
    take (script, COPY, q);
  say (script, PSI_SCRIPT_GRADIENT, 0, 2 * block->hidden * block->heads * block->head_dim / t);
  launch (script, copies ? 2 : 1);
  drop (script, COPY);
  if (copies)
    {
      take (script, COPY, q);
      launch (script, 1);
    }
  take (script, GRAD_B, q);
  take (script, GRAD_C, k);
  take (script, GRAD_D, k);
  take (script, WHOLE, 2 * q); /* sums of the queries' gradients in fp32 */
  launch (script, 8);
  drop (script, WHOLE);
  drop (script, GRAD_A);
  drop (script, COPY);
  drop (script, ATTENTION);
  drop (script, SUMS);
  take (script, GRAD_A, 2 * k);
  launch (script, 2);
  drop (script, GRAD_C);
  drop (script, GRAD_D);
  drop (script, PAIRS);
  launch (script, 2);
  take (script, GRAD_C, 2 * k);
  launch (script, 1);
  drop (script, GRAD_A);
  take (script, GRAD_D, q + 2 * k);
  launch (script, 2);
  drop (script, GRAD_B);
  drop (script, GRAD_C);
  drop (script, QUERIES);
  take (script, GRAD_A, q + 2 * k);
  launch (script, 1);
  drop (script, GRAD_D);
  column_backward (script, block->hidden * (block->heads + 2 * block->kv_heads) * block->head_dim / t);
  drop (script, GRAD_A);
}

static void
mlp_backward (Script *script, const PsiBlock *block, gint64 inner)
{
  gather_and_multiply (script, GATHERED_GRADIENT);
  take (script, GRAD_A, inner);
  say (script, PSI_SCRIPT_GRADIENT, 0, 2 * block->hidden * block->ffn * script->stream / script->whole);
  launch (script, 1);
  drop (script, PRODUCT);
  take (script, GRAD_B, inner);
  take (script, GRAD_C, inner);
  launch (script, 2);
  drop (script, GRAD_A);
  drop (script, GATE);
  take (script, GRAD_D, inner);
  launch (script, 1);
  drop (script, GRAD_B);
  take (script, GRAD_A, 2 * inner);
  launch (script, 2);
  drop (script, GRAD_C);
  drop (script, GRAD_D);
  drop (script, MERGED);
  column_backward (script, 2 * block->hidden * block->ffn * script->stream / script->whole);
  drop (script, GRAD_A);
}

/* FALSE: the framework has no script, or not for this plan. Else two empty ones. */
static gboolean
begin (PsiLayerKind *kind, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens, Script *script)
{
  gint64 t = MAX (lowering->tp, 1);
  gboolean known =
      block->rms && block->gated && block->rope && block->causal && lowering->flash && !lowering->dropout &&
      !lowering->compile && lowering->dtype == PSI_DTYPE_BF16 && (t == 1 || lowering->sequence_parallel) &&
      MAX (lowering->cp, 1) == 1 && lowering->vocabulary_shards <= 1 && lowering->adapters.rank == 0 &&
      block->traits->norms == PSI_NORMS_BEFORE && block->traits->qk_norm == PSI_QK_NORM_NONE &&
      !block->traits->parallel && !block->traits->qkv_bias && !block->traits->out_bias && !block->traits->mlp_bias;

  if (!psi_block_memory (lowering)->has_script || !known)
    return FALSE;
  kind->script[0] = g_array_new (FALSE, FALSE, sizeof (PsiScriptLine));
  kind->script[1] = g_array_new (FALSE, FALSE, sizeof (PsiScriptLine));
  kind->tensors = g_array_new (FALSE, FALSE, sizeof (gint64));
  *script = (Script){ .lines = kind->script[0],
                      .shards = t > 1,
                      .stream = 2 * tokens * block->hidden / t,
                      .whole = 2 * tokens * block->hidden };
  return TRUE;
}

void
psi_block_script (PsiLayerKind *kind, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens)
{
  gint64 t = MAX (lowering->tp, 1), inner = 2 * tokens * block->ffn / t, hidden = block->hidden;
  gint64 q = block->heads * block->head_dim, k = block->kv_heads * block->head_dim;
  const gint64 tensors[] = { hidden * (q + 2 * k) / t, hidden * q / t, 2 * hidden * block->ffn / t,
                             hidden * block->ffn / t,  hidden,         hidden };
  Script script;

  if (!begin (kind, lowering, block, tokens, &script))
    return;
  g_array_append_vals (kind->tensors, tensors, G_N_ELEMENTS (tensors));
  say (&script, PSI_SCRIPT_MOVE, INPUT, 0);
  take (&script, NORM, script.stream);
  take (&script, RMS, 4 * tokens / t);
  launch (&script, 2);
  attention_forward (&script, block, tokens, t);
  take (&script, RESIDUAL, script.stream);
  launch (&script, 1);
  take (&script, NORM_2, script.stream);
  take (&script, RMS_2, 4 * tokens / t);
  launch (&script, 2);
  gather_and_multiply (&script, GATHERED_INPUT);
  take (&script, MERGED, 2 * inner);
  take (&script, GATE, inner);
  take (&script, PRODUCT, inner);
  launch (&script, 2);
  multiply_and_scatter (&script, OUTPUT);
  take (&script, PSI_SCRIPT_FLOW, script.stream);
  launch (&script, 1);
  lend (&script, OUTPUT);
  lend (&script, PROJECTED);

  script.lines = kind->script[1];
  mlp_backward (&script, block, inner);
  lend (&script, NORM_2);
  norm_backward (&script, RESIDUAL, RMS_2);
  attention_backward (&script, block, tokens, t);
  lend (&script, NORM);
  norm_backward (&script, INPUT, RMS);
}

void
psi_block_script_embedding (PsiLayerKind *kind, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens,
                            gint64 vocab)
{
  gint64 matrix = psi_block_padded_vocabulary (vocab, lowering) / MAX (lowering->tp, 1) * block->hidden;
  Script script;

  if (!begin (kind, lowering, block, tokens, &script))
    return;
  g_array_append_val (kind->tensors, matrix);
  take (&script, INPUT, 8 * tokens); /* numbers of the words, and a mask */
  take (&script, NORM, tokens);
  launch (&script, 2);
  if (script.shards)
    {
      take (&script, COPY, script.whole);
      take (&script, RMS, tokens);
      take (&script, WHOLE, script.whole);
      launch (&script, 5);
      drop (&script, COPY);
      take (&script, PSI_SCRIPT_FLOW, script.stream);
      collective (&script);
      lend (&script, WHOLE);
    }
  else
    take (&script, PSI_SCRIPT_FLOW, script.stream);

  script.lines = kind->script[1];
  if (script.shards)
    {
      take (&script, WHOLE, script.whole);
      collective (&script);
      lend (&script, PSI_SCRIPT_FLOW);
      take (&script, COPY, script.whole);
      launch (&script, 1);
      lend (&script, WHOLE);
    }
  say (&script, PSI_SCRIPT_GRADIENT, 0, 2 * matrix);
  launch (&script, 6);
  drop (&script, script.shards ? COPY : PSI_SCRIPT_FLOW);
  drop (&script, INPUT);
  drop (&script, NORM);
  drop (&script, RMS);
}

void
psi_block_script_head (PsiLayerKind *kind, const PsiLowering *lowering, const PsiBlock *block, gint64 tokens,
                       gint64 vocab, gboolean tied)
{
  gint64 t = MAX (lowering->tp, 1), columns = psi_block_padded_vocabulary (vocab, lowering) / t;
  gint64 matrix = columns * block->hidden, logits = columns * tokens;
  Script script;

  if (!begin (kind, lowering, block, tokens, &script))
    return;
  g_array_append_val (kind->tensors, block->hidden);
  if (!tied)
    g_array_append_val (kind->tensors, matrix);
  say (&script, PSI_SCRIPT_MOVE, INPUT, 0);
  take (&script, NORM, script.stream);
  launch (&script, 2);
  gather_and_multiply (&script, GATHERED_INPUT);
  take (&script, MERGED, 2 * logits);
  take (&script, GATE, 4 * logits);
  launch (&script, 1);
  drop (&script, MERGED);
  launch (&script, 2);
  take (&script, PRODUCT, 4 * logits);
  launch (&script, 15);
  drop (&script, GATE);

  script.lines = kind->script[1];
  launch (&script, 8);
  take (&script, MERGED, 2 * logits);
  launch (&script, 1);
  drop (&script, PRODUCT);
  column_backward (&script, matrix);
  drop (&script, MERGED);
  lend (&script, NORM);
  take (&script, PSI_SCRIPT_FLOW, script.stream);
  launch (&script, 3);
  lend (&script, SHARD);
  drop (&script, INPUT);
}
