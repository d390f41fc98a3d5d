/* SPDX-License-Identifier: MIT */
/* One walk over a report, several ways to write it down: JSON and CSV take their keys from the same place. */
#pragma once

#include "report.h"

/* Where the walk delivers. `key` is NULL inside a list. Every call is one value. */
typedef struct _PsiReportSink PsiReportSink;
struct _PsiReportSink
{
  void (*begin) (PsiReportSink *sink, const char *key, char bracket); /* '{' or '[' */
  void (*end) (PsiReportSink *sink, char bracket);                    /* '}' or ']' */
  void (*null) (PsiReportSink *sink, const char *key);
  void (*integer) (PsiReportSink *sink, const char *key, gint64 value);
  void (*seconds) (PsiReportSink *sink, const char *key, gint64 time_ps);
  void (*real) (PsiReportSink *sink, const char *key, double value); /* finite */
  void (*text) (PsiReportSink *sink, const char *key, const char *text);
};

/* Every value of one plan, in the order of the contract; no bracket around them. */
void psi_plan_report_walk (const PsiPlanReport *plan, PsiReportSink *sink);

/* Picoseconds as decimal seconds, exact, without trailing zeros: 1500000000000 -> "1.5". */
void psi_append_seconds (GString *out, gint64 time_ps);
/* The shortest of 15, 16 or 17 digits that reads back as the same double. */
void psi_append_real (GString *out, double value);
