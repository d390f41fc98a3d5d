/* SPDX-License-Identifier: MIT */
/* A lesson: one text file in sim/lessons, sections of lines.
 *
 *   [text]          paragraphs; {measure}, {plan.measure}, {measure%}, {=formula} become numbers
 *   [case]          scenario keys of the small case that is simulated, "key = value"
 *   [show]          rows = stages gpus; steps = 1; beside = other strategies whose numbers stand beside this one's
 *   [closed forms]  "measure = formula" in N K m p v t f b w
 *   [question] [answer] [try]
 *
 * A paragraph ends at an empty line; lines that begin with two blanks stay as they are, "- " begins an item. Numbers
 * that a simulation or a formula gives are not typed. */
#pragma once

#include "formula.h"
#include "report.h"
#include "step.h"
#include "table-text.h"

typedef struct
{
  char *name;
  GHashTable *sections; /* title -> text (char*) */
} PsiLesson;

/* The lesson of that name; an empty one if there is no file. NULL if the file cannot be read. (transfer full) */
PsiLesson *psi_lesson_load (const char *name, GError **error);
void psi_lesson_free (PsiLesson *lesson);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiLesson, psi_lesson_free)

/* The text of a section, "" if there is none. */
const char *psi_lesson_section (const PsiLesson *lesson, const char *title);
/* The value of "key = value" in a section, NULL if it is not there. (transfer full) */
char *psi_lesson_value (const PsiLesson *lesson, const char *title, const char *key);

/* One strategy, simulated on a lesson's case. */
typedef struct
{
  PsiSettings *settings;
  PsiMachine *machine;
  PsiModelSource *source;
  PsiPlan *plan;
  PsiStep *step;
  PsiRun *run;
  PsiPlanReport *report; /* with curves */
} PsiTrial;

PsiTrial *psi_trial_new (const PsiLesson *lesson, const char *plan, GError **error);
void psi_trial_free (PsiTrial *trial);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PsiTrial, psi_trial_free)

/* The names a closed form may use, with this trial's values. (transfer full) array ending with a NULL name. */
PsiFormulaVariable *psi_trial_variables (const PsiTrial *trial);

/* What a trial is measured by, one row each; ends with a NULL id. */
typedef struct
{
  const char *id;    /* in lesson files */
  const char *title; /* in the table */
  const char *unit;  /* "Ψ_A", or "" */
  double (*value) (const PsiTrial *trial);
} PsiMeasure;
extern const PsiMeasure psi_measures[];

/* `text` with every {...} replaced, as paragraphs of at most 80 columns, indented by two. */
gboolean psi_lesson_append_text (const PsiLesson *lesson, const PsiTrial *trial, const char *text, GString *out,
                                 const PsiTerminal *terminal, GError **error);

/* Greek letters by their names where the screen has none: "Ψ_A" -> "Psi_A". (transfer full) */
char *psi_spell_greek (const char *text, const PsiTerminal *terminal);

#define PSI_LESSON_ERROR (psi_lesson_error_quark ())
typedef enum
{
  PSI_LESSON_ERROR_FORM /* a lesson file is not well written */
} PsiLessonError;
GQuark psi_lesson_error_quark (void);
