/* SPDX-License-Identifier: MIT */
/* Named strategies: each a row of key presets, as the contract's table lists them. */
#pragma once

#include <glib.h>

typedef struct
{
  const char *name;
  const char *alias_of; /* the row it repeats, NULL for a row of its own */
  const char *summary;  /* one line for `list plans` */
  gboolean dp_is_n;     /* the dp column is N; else 1 */
  gboolean pp_is_k;     /* the pp column is K (or K/vpp); else 1 */
  gboolean tp_is_k;     /* tp defaults to K */
  guint zero, vpp;      /* vpp: model parts per pipeline rank */
  const char *schedule, *update, *placement, *gradients;
  gboolean keeps_all; /* `single`: all micro-batches are kept at once */
} PsiNamedPlan;

extern const PsiNamedPlan psi_named_plans[]; /* ends with name NULL */

/* The row of that name, aliases resolved; NULL if there is none. */
const PsiNamedPlan *psi_named_plan_find (const char *name);
