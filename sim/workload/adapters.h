/* SPDX-License-Identifier: MIT */
/* Low-rank adapters (LoRA) beside frozen weights, and the formats frozen weights are stored in (QLoRA). */
#pragma once

#include "keys.h"

/* Products of a block that may have an adapter. */
typedef enum
{
  PSI_TARGET_Q = 1 << 0,
  PSI_TARGET_K = 1 << 1,
  PSI_TARGET_V = 1 << 2,
  PSI_TARGET_O = 1 << 3,
  PSI_TARGET_GATE = 1 << 4, /* of a gated feed-forward */
  PSI_TARGET_UP = 1 << 5,
  PSI_TARGET_DOWN = 1 << 6,
  PSI_TARGETS_ALL = (1 << 7) - 1
} PsiTarget;

typedef enum
{
  PSI_BASE_WIDE, /* as the plan's precision says */
  PSI_BASE_NF4,
  PSI_BASE_NF4_DQ,
  PSI_BASE_INT8
} PsiBaseFormat;

typedef struct
{
  gint64 rank;   /* 0: no adapters, everything is trained */
  guint targets; /* of PsiTarget */
  PsiBaseFormat base;
} PsiAdapters;

/* From lora_rank, lora_targets and lora_base. Errors: a word that names no product or one that is named before, keys
 * without lora_rank, frozen beside it. *ret_adapters is untouched on failure. */
gboolean psi_adapters_read (const PsiSettings *settings, PsiAdapters *ret_adapters, GError **error);

/* Append ", LoRA of rank 8 on q,v" or, beside narrow weights, ", LoRA of rank 8 on q,v over nf4"; nothing without
 * adapters. */
void psi_adapters_describe (const PsiAdapters *adapters, GString *out);

/* Bytes of a frozen matrix of `rows` x `columns` elements stored in a narrow format; rows x columns x wide_bytes if it
 * is not. */
gint64 psi_base_bytes (PsiBaseFormat base, gint64 rows, gint64 columns, guint wide_bytes);
