/* SPDX-License-Identifier: MIT */
/* psisim run [FILE]: one plan, its verdict, where its step and its memory go. */
#include "commands.h"
#include "results.h"
#include "table-report.h"

static char *
page (const PsiReport *report, const PsiTerminal *terminal, gboolean verbose)
{
  return psi_table_run (report, report->plans->pdata[0], terminal, verbose);
}

int
psi_cmd_run (const PsiArguments *arguments)
{
  return psi_results_run (arguments, TRUE, page);
}
