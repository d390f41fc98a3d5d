/* SPDX-License-Identifier: MIT */
/* Help and man pages, made from the tables of commands, options and keys. All texts are (transfer full). */
#pragma once

#include "commands.h"

char *psi_help_overview (void);                     /* `psisim help` */
char *psi_help_command (const PsiCommand *command); /* `psisim help run` */
char *psi_help_half (const char *word);             /* `psisim help schedule`; NULL if no command begins so */
char *psi_man_program (void);                       /* psisim.1, mdoc */
char *psi_man_scenario (void);                      /* psisim-scenario.5, mdoc */

/* What stands for the value of a key in help: "N", "SIZE", "yes|no". (transfer none) */
const char *psi_key_placeholder (PsiKeyId key);

/* The words a key accepts in this version; NULL-ended, empty if it takes no words. */
char **psi_key_words (PsiKeyId key);

/* help, the words and the fallback in one text: "order of work (one of: ...; default none)". */
char *psi_key_describe (PsiKeyId key);
