/* SPDX-License-Identifier: MIT */
/* The report for people: what `run` and `compare` print. */
#pragma once

#include "report.h"
#include "table-text.h"

/* "fits: 41.3 of 79.1 GiB on the fullest GPU (rank 0), 47.8 % free". (transfer full), one line without line feed. */
char *psi_verdict_line (const PsiPlanReport *plan);

/* The whole page of `run`. `verbose` lists every assumption and every rank class. (transfer full) */
char *psi_table_run (const PsiReport *report, const PsiPlanReport *plan, const PsiTerminal *terminal, gboolean verbose);

/* One row for each plan, and notes. (transfer full) */
char *psi_table_compare (const PsiReport *report, const PsiTerminal *terminal, gboolean verbose);

/* The critical path below a heading: what it is made of and whose it is; then its rows, `verbose`: all of them. */
void psi_append_critical_summary (GString *out, const PsiCriticalPath *path, const PsiTerminal *terminal);
void psi_append_critical_rows (GString *out, const PsiCriticalPath *path, const PsiTerminal *terminal,
                               gboolean verbose);

/* What would help, with its headings. */
void psi_append_what_helps (GString *out, const PsiPlanReport *plan, const PsiTerminal *terminal);

/* Shared by the two: model, machine and title; the colours and letters of the parts of a step. */
void psi_append_source (GString *out, const PsiReport *report, const PsiTerminal *terminal);
PsiStyle psi_verdict_style (PsiVerdict verdict);
const PsiRankReport *psi_plan_main_rank (const PsiPlanReport *plan);
/* The class whose device_bytes is largest. */
const PsiRankReport *psi_plan_fullest_rank (const PsiPlanReport *plan);
extern const PsiBarPart psi_time_bar_parts[PSI_N_TIME]; /* sizes 0, to be filled in */
extern const char *const psi_time_part_titles[PSI_N_TIME];
