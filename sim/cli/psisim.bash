# SPDX-License-Identifier: MIT
# Completion for psisim. It holds no words of its own: the program is asked for them.
_psisim ()
{
  local IFS=$'\n'
  # shellcheck disable=SC2207
  COMPREPLY=( $("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) )
}
complete -o default -F _psisim psisim
