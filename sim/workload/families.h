/* SPDX-License-Identifier: MIT */
/* Inside sim/workload: the rows of psi_families[] and the two sources that are no family. */
#pragma once

#include "workload.h"

extern const PsiFamily psi_family_gpt;
extern const PsiFamily psi_family_llama;
extern const PsiFamily psi_family_moe;
extern const PsiFamily psi_family_bert;
extern const PsiFamily psi_family_t5;
extern const PsiFamily psi_family_vit;
extern const PsiFamily psi_family_mlp;

/* The paper's K equal stages: keys psi_p psi_a psi_int forward backward backward_weight. (transfer full) */
PsiModel *psi_uniform_expand (const PsiSettings *settings, const PsiLowering *lowering, guint stages, GError **error);

/* Layers of a traced network. (transfer full); tp, cp, ep other than 1 are errors. */
PsiModel *psi_trace_expand (const PsiWorkloadTrace *trace, const PsiLowering *lowering, GError **error);
