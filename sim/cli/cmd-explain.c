/* SPDX-License-Identifier: MIT */
#include "commands.h"

int
psi_cmd_explain (const PsiArguments *arguments)
{
  return 1;
}
