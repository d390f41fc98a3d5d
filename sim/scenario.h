/* SPDX-License-Identifier: MIT */
/* A scenario: one model, one machine, one or more plans, from a file, flags, or both. */
#pragma once

#include "keys.h"

typedef struct
{
  char *name;            /* the group's NAME, or the plan's name; unique within the scenario */
  PsiSettings *settings; /* model, machine and plan keys of this plan, flags applied */
} PsiPlanRequest;

typedef struct
{
  char *file;          /* as given, NULL when only flags were used */
  char *title;         /* first comment line of the file without '#', or NULL */
  GPtrArray *plans;    /* of PsiPlanRequest*, in file order */
  GPtrArray *warnings; /* of char*: what was accepted but is perhaps not what was meant */
} PsiScenario;

/* One flag of the command line that is a scenario key. */
typedef struct
{
  PsiKeyId key;
  const char *text;
} PsiKeyFlag;

/* Read `file` (NULL: no file), apply `flags`, and replace the plan groups by `plan_names` when it is not NULL
 * (names of strategies; keys of an unnamed [plan] and the flags apply to each).
 * Text is scanned before parsing: unknown or doubled keys and groups are errors with line numbers; a key in the wrong
 * group names the right one. `#` begins a comment on its own line or after a space.
 * An unnamed [plan] beside named ones holds what they share and cannot name a strategy. A flag `plan` picks the plan
 * of that name out of several; where the file has one or none, it overrides the key `plan`.
 * A model, machine or schedule file named in the scenario is looked for beside the scenario first.
 * Returns (transfer full) NULL on any fault; the message is one line. Faults of form carry a line number,
 * "gpt.scn:12: [plan] unknown key 'mico_batch' (did you mean 'micro_batch'?)", faults of value the place,
 * "gpt.scn: [plan] micro_batch: 'two' is not a whole number" or "--micro-batch: ...". */
PsiScenario *psi_scenario_load (const char *file, const PsiKeyFlag *flags, guint n_flags, const char *const *plan_names,
                                GError **error);
void psi_scenario_free (PsiScenario *scenario);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiScenario, psi_scenario_free)

#define PSI_SCENARIO_ERROR (psi_scenario_error_quark ())
typedef enum
{
  PSI_SCENARIO_ERROR_READ,   /* missing, a directory, binary, empty */
  PSI_SCENARIO_ERROR_SYNTAX, /* no group, doubled key or group, unknown key or group */
  PSI_SCENARIO_ERROR_PLAN    /* no such plan in the file */
} PsiScenarioError;
GQuark psi_scenario_error_quark (void);
