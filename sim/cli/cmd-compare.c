/* SPDX-License-Identifier: MIT */
/* psisim compare [FILE]: every plan of the file, or of --plans, side by side. */
#include "commands.h"
#include "results.h"
#include "table-report.h"

int
psi_cmd_compare (const PsiArguments *arguments)
{
  return psi_results_run (arguments, FALSE, psi_table_compare);
}
