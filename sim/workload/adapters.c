/* SPDX-License-Identifier: MIT */
/* LoRA: y = x W + s (x A) B, W frozen, A of inputs x r, B of r x outputs; r (inputs + outputs) parameters a product.
 *
 *   trained      A and B: gradients, optimizer and sums of data parallelism are theirs alone
 *   backward     of a frozen product: the gradient of its input, no gradient of W, so half of the usual FLOPs
 *   kept         a frozen product keeps no input; its adapter keeps x (shared by the adapters that read it) and x A
 *   tp           a product split by columns has A whole and B split, one split by rows A split and B whole; x A, or its
 *                gradient, is summed over the group
 *
 * QLoRA stores the frozen products of the blocks, not embedding, norms and head, in
 *
 *   nf4          1/2 byte an element and an fp32 scale for each 64: 4.5 bits
 *   nf4-dq       the scales in 8 bits with an fp32 scale of their own for each 256: 4.127 bits
 *   int8         1 byte and an fp32 scale for each row of outputs
 *
 * and makes a 16-bit copy of a matrix for each of its products, forward and backward: narrow + wide bytes of traffic,
 * and the largest such copy as working memory.
 *
 * Every target has an adapter of its own, also where a framework fuses queries, keys and values, or gate and up.
 * Latent attention: q and k stand for the products out of the latent ranks, k and v share one. Source: Hu et al., LoRA,
 * arXiv 2106.09685; Dettmers et al., QLoRA, arXiv 2305.14314, section 3; bitsandbytes functional.py, block 64. Limits:
 * no dropout before the adapters, biases and embeddings are frozen, paged optimizers are not modelled. */
#include "adapters.h"

#include "workload.h"

#include <string.h>

#define N_GROUPS 3

static const struct
{
  const char *word;
  guint targets;
} words[] = {
  { "q", PSI_TARGET_Q },
  { "k", PSI_TARGET_K },
  { "v", PSI_TARGET_V },
  { "o", PSI_TARGET_O },
  { "gate", PSI_TARGET_GATE },
  { "up", PSI_TARGET_UP },
  { "down", PSI_TARGET_DOWN },
  /* N_GROUPS of several, the widest last. */
  { "attention", PSI_TARGET_Q | PSI_TARGET_K | PSI_TARGET_V | PSI_TARGET_O },
  { "mlp", PSI_TARGET_GATE | PSI_TARGET_UP | PSI_TARGET_DOWN },
  { "all", PSI_TARGETS_ALL },
};

static const char *const base_names[] = { "wide", "nf4", "nf4-dq", "int8" };

static guint
find_target (const char *word)
{
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (strcmp (words[i].word, word) == 0)
      return words[i].targets;
  return 0;
}

gboolean
psi_adapters_read (const PsiSettings *settings, PsiAdapters *ret_adapters, GError **error)
{
  static const PsiKeyId needing[] = { PSI_KEY_LORA_TARGETS, PSI_KEY_LORA_BASE };
  PsiAdapters adapters = { .rank = psi_settings_count (settings, PSI_KEY_LORA_RANK) };

  if (adapters.rank == 0)
    {
      for (guint i = 0; i < G_N_ELEMENTS (needing); i++)
        if (psi_settings_has (settings, needing[i]))
          {
            g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE, "%s: '%s' needs lora_rank",
                         psi_settings_where (settings, needing[i]), psi_settings_text (settings, needing[i]));
            return FALSE;
          }
      *ret_adapters = adapters;
      return TRUE;
    }
  if (psi_settings_real (settings, PSI_KEY_FROZEN) > 0)
    {
      g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                   "%s: '%g' does not go with lora_rank, beside which everything else is frozen",
                   psi_settings_where (settings, PSI_KEY_FROZEN), psi_settings_real (settings, PSI_KEY_FROZEN));
      return FALSE;
    }
  g_auto (GStrv) list = g_strsplit (psi_settings_text (settings, PSI_KEY_LORA_TARGETS), ",", -1);
  for (guint i = 0; list[i] != NULL; i++)
    {
      guint targets = find_target (g_strstrip (list[i]));

      if (targets == 0)
        {
          g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE,
                       "%s: '%s' is no product of a block (allowed: q k v o gate up down attention mlp all)",
                       psi_settings_where (settings, PSI_KEY_LORA_TARGETS), list[i]);
          return FALSE;
        }
      if ((adapters.targets & targets) != 0)
        {
          g_set_error (error, PSI_WORKLOAD_ERROR, PSI_WORKLOAD_ERROR_SHAPE, "%s: '%s' is in the list twice",
                       psi_settings_where (settings, PSI_KEY_LORA_TARGETS), list[i]);
          return FALSE;
        }
      adapters.targets |= targets;
    }
  while (strcmp (base_names[adapters.base], psi_settings_text (settings, PSI_KEY_LORA_BASE)) != 0)
    adapters.base++;
  *ret_adapters = adapters;
  return TRUE;
}

void
psi_adapters_describe (const PsiAdapters *adapters, GString *out)
{
  const char *before = " on ";
  guint left = adapters->targets;

  if (adapters->rank == 0)
    return;
  g_string_append_printf (out, ", LoRA of rank %" G_GINT64_FORMAT, adapters->rank);
  /* The widest word first: "attention", not "q,k,v,o". */
  for (guint n = 0; n < G_N_ELEMENTS (words); n++)
    {
      guint i = n < N_GROUPS ? (guint) G_N_ELEMENTS (words) - 1 - n : n - N_GROUPS;

      if ((left & words[i].targets) != words[i].targets)
        continue;
      g_string_append_printf (out, "%s%s", before, words[i].word);
      before = ",";
      left &= ~words[i].targets;
    }
  if (adapters->base != PSI_BASE_WIDE)
    g_string_append_printf (out, " over %s", base_names[adapters->base]);
}

gint64
psi_base_bytes (PsiBaseFormat base, gint64 rows, gint64 columns, guint wide_bytes)
{
  gint64 elements = rows * columns, blocks = (elements + 63) / 64;

  switch (base)
    {
    case PSI_BASE_NF4:
      return (elements + 1) / 2 + 4 * blocks;
    case PSI_BASE_NF4_DQ:
      return (elements + 1) / 2 + blocks + 4 * ((blocks + 255) / 256);
    case PSI_BASE_INT8:
      return elements + 4 * rows;
    case PSI_BASE_WIDE:
    default:
      return elements * wide_bytes;
    }
}
