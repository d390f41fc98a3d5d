/* SPDX-License-Identifier: MIT */
/* The table of scenario keys and the bag of their values. Parser, flags, help, man pages, completion and error texts
 * all read this one table. */
#pragma once

#include "nearest.h"

#include <glib.h>

typedef enum
{
  PSI_KEY_KIND_COUNT, /* whole number; suffixes k M B */
  PSI_KEY_KIND_BYTES, /* size; suffixes KiB MiB GiB kB MB GB; bare = bytes */
  PSI_KEY_KIND_TIME,  /* ns us ms s; bare = seconds */
  PSI_KEY_KIND_RATE,  /* GB/s Gb/s (and k, M); bare = bytes per second */
  PSI_KEY_KIND_REAL,
  PSI_KEY_KIND_BOOL,             /* yes no */
  PSI_KEY_KIND_CHOICE,           /* one of `choices` */
  PSI_KEY_KIND_CHOICE_OR_PATH,   /* one of `choices`, or a file */
  PSI_KEY_KIND_COUNTS,           /* list of whole numbers: 6,2,2,2 */
  PSI_KEY_KIND_CHOICE_OR_COUNTS, /* one of `choices`, or a list of whole numbers */
  PSI_KEY_KIND_TEXT
} PsiKeyKind;

typedef enum
{
  PSI_KEY_GROUP_MODEL,
  PSI_KEY_GROUP_MACHINE,
  PSI_KEY_GROUP_PLAN,
  PSI_N_KEY_GROUPS
} PsiKeyGroup;

typedef enum
{
  /* [model] */
  PSI_KEY_MODEL,
  PSI_KEY_SEQUENCE,
  PSI_KEY_DECODER_SEQUENCE,
  PSI_KEY_DROPOUT,
  PSI_KEY_FAMILY,
  PSI_KEY_LAYERS,
  PSI_KEY_HIDDEN,
  PSI_KEY_HEADS,
  PSI_KEY_KV_HEADS,
  PSI_KEY_HEAD_DIM,
  PSI_KEY_FFN,
  PSI_KEY_ACTIVATION,
  PSI_KEY_NORM,
  PSI_KEY_VOCAB,
  PSI_KEY_TIED,
  PSI_KEY_EXPERTS,
  PSI_KEY_EXPERTS_PER_TOKEN,
  PSI_KEY_SHARED_FFN,
  PSI_KEY_DENSE_LAYERS,
  PSI_KEY_DENSE_FFN,
  PSI_KEY_FROZEN,
  PSI_KEY_LORA_RANK,
  PSI_KEY_LORA_TARGETS,
  PSI_KEY_LORA_BASE,
  PSI_KEY_PSI_P,
  PSI_KEY_PSI_A,
  PSI_KEY_PSI_INT,
  PSI_KEY_FORWARD,
  PSI_KEY_BACKWARD,
  PSI_KEY_BACKWARD_WEIGHT,
  /* [machine] */
  PSI_KEY_MACHINE,
  PSI_KEY_GPUS,
  PSI_KEY_GPUS_PER_NODE,
  PSI_KEY_CONTEXT,
  PSI_KEY_NETWORK,
  PSI_KEY_INTERNODE,
  PSI_KEY_DETAIL,
  PSI_KEY_GROUP_ORDER,
  PSI_KEY_SLOW_RANK,
  PSI_KEY_SLOW_LINK,
  PSI_KEY_JITTER,
  PSI_KEY_SEED,
  PSI_KEY_TRIALS,
  PSI_KEY_COLLAPSE,
  PSI_KEY_JUMP,
  /* [plan] */
  PSI_KEY_PLAN,
  PSI_KEY_DP,
  PSI_KEY_TP,
  PSI_KEY_CP,
  PSI_KEY_PP,
  PSI_KEY_VPP,
  PSI_KEY_EP,
  PSI_KEY_EXPERT_TP,
  PSI_KEY_WORKERS,
  PSI_KEY_STAGES,
  PSI_KEY_SEQUENCE_PARALLEL,
  PSI_KEY_ZERO,
  PSI_KEY_SHARD_GROUP,
  PSI_KEY_SCHEDULE,
  PSI_KEY_IN_FLIGHT,
  PSI_KEY_VOCAB_PARALLEL,
  PSI_KEY_UPDATE,
  PSI_KEY_DELAY,
  PSI_KEY_PLACEMENT,
  PSI_KEY_GRADIENTS,
  PSI_KEY_PARTITION,
  PSI_KEY_MICRO_BATCH,
  PSI_KEY_GLOBAL_BATCH,
  PSI_KEY_MICRO_BATCHES,
  PSI_KEY_WORKER_BATCHES,
  PSI_KEY_RECOMPUTE,
  PSI_KEY_RECOMPUTE_EVERY,
  PSI_KEY_ATTENTION,
  PSI_KEY_PRECISION,
  PSI_KEY_GRAD_DTYPE,
  PSI_KEY_OPTIMIZER,
  PSI_KEY_GRAD_CLIP,
  PSI_KEY_OVERLAP_GRADS,
  PSI_KEY_BUCKET,
  PSI_KEY_PREFETCH,
  PSI_KEY_REDUCE_EVERY,
  PSI_KEY_COMPRESSION,
  PSI_KEY_OFFLOAD,
  PSI_KEY_OFFLOAD_LAYERS,
  PSI_KEY_LOSS_CHUNKS,
  PSI_KEY_COMPILE,
  PSI_KEY_CUDA_GRAPHS,
  PSI_KEY_CHANNELS_LAST,
  PSI_KEY_EXPERT_GEMM,
  PSI_KEY_EXPERT_IMBALANCE,
  PSI_KEY_DETERMINISTIC,
  PSI_KEY_COLLECTIVE_CHECKS,
  PSI_KEY_FUSED_LOSS,
  PSI_KEY_FRAMEWORK,
  PSI_N_KEYS
} PsiKeyId;

typedef struct
{
  const char *name; /* "micro_batch"; the flag is --micro-batch */
  PsiKeyGroup group;
  PsiKeyKind kind;
  double minimum, maximum; /* allowed range of numbers, in base units */
  const char *choices;     /* "none selective full", or NULL */
  const char *fallback;    /* value when not written, as text; NULL: follows from other keys, the help says how */
  const char *help;        /* one line, for --help, man page and `list keys` */
  gboolean of_many;        /* says how many GPUs work together: means nothing to one by itself */
} PsiKey;

extern const PsiKey psi_keys[PSI_N_KEYS];
extern const char *const psi_key_group_names[PSI_N_KEY_GROUPS]; /* "model", "machine", "plan" */

/* The values for one plan: what was written, with the place it was written in, and the fallbacks of the table. */
typedef struct _PsiSettings PsiSettings;

PsiSettings *psi_settings_new (void);
PsiSettings *psi_settings_copy (const PsiSettings *settings);
/* Write what `from` has for a key that was written there. */
void psi_settings_copy_key (PsiSettings *settings, const PsiSettings *from, PsiKeyId key);
void psi_settings_free (PsiSettings *settings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiSettings, psi_settings_free)

/* Parse `text` as the value of a key. `where` is the prefix of messages: "gpt.scn: [plan] micro_batch" or
 * "--micro-batch". On failure *settings is unchanged and *error says "WHERE: 'two' is not a whole number".
 * The stored value remembers `where`, so that later messages about it can say where it stands. */
gboolean psi_settings_set (PsiSettings *settings, PsiKeyId key, const char *text, const char *where, GError **error);

gboolean psi_settings_has (const PsiSettings *settings, PsiKeyId key); /* was it written? */
const char *psi_settings_where (const PsiSettings *settings,
                                PsiKeyId key); /* "gpt.scn: [plan] tp"; "[plan] tp" if not written */

/* Values: written, else the fallback. Asking a key for the wrong kind, or one with neither, is a program error. */
gint64 psi_settings_count (const PsiSettings *settings, PsiKeyId key); /* COUNT, BYTES */
double psi_settings_real (const PsiSettings *settings, PsiKeyId key); /* any number; TIME in seconds, RATE in bytes/s */
gint64 psi_settings_time_ps (const PsiSettings *settings, PsiKeyId key); /* TIME */
gboolean psi_settings_bool (const PsiSettings *settings, PsiKeyId key);
const char *psi_settings_text (const PsiSettings *settings,
                               PsiKeyId key); /* TEXT, CHOICE*; NULL if neither written nor fallback */
const gint64 *psi_settings_counts (const PsiSettings *settings, PsiKeyId key,
                                   guint *ret_n); /* NULL, 0 if it is a choice word */

/* Errors about what a user wrote. */
#define PSI_SETTINGS_ERROR (psi_settings_error_quark ())
typedef enum
{
  PSI_SETTINGS_ERROR_VALUE /* not a number, out of range, not one of the choices */
} PsiSettingsError;
GQuark psi_settings_error_quark (void);

/* The key of that name ('-' counts as '_'), or -1. */
int psi_key_find (const char *name);
