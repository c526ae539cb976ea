# SPDX-License-Identifier: BSD-3-Clause
# Completion in bash for reprieve and the other programs: asks the program itself, by --help.

_reprieve() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
  local subcommands subcommand='' help i
  COMPREPLY=()
  # Behind the -- stands another program.
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]]; then
      mapfile -t COMPREPLY < <(if ((i == COMP_CWORD - 1)); then compgen -c -- "$word"; else compgen -f -- "$word"; fi)
      return
    fi
  done
  help=$("$program" --help 2>/dev/null)
  subcommands=$(sed -n '/^Subcommands:/,/^[^ ]*$/s/^  \([a-z][a-z-]*\) .*/\1/p' <<<"$help")
  if [[ -n $subcommands ]]; then
    if ((COMP_CWORD > 1)) && [[ " "${subcommands//$'\n'/ }" " == *" ${COMP_WORDS[1]} "* ]]; then
      subcommand=${COMP_WORDS[1]}
      help=$("$program" "$subcommand" --help 2>/dev/null)
    elif [[ $word != -* ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$word")
      return
    fi
  fi
  # An option with a fixed set of values says so: "--boundary dirichlet|periodic=dirichlet".
  local values
  values=$(sed -n "s/^ *\(-[a-zA-Z],\)\?$previous \([a-z_-]*|[a-z_|-]*\).*/\2/p" <<<"$help" | head -n 1)
  if [[ $previous == --* && -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${values//|/ }" -- "$word")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(grep -oE '^ +(-[a-zA-Z],)?--[a-z][a-z-]*' <<<"$help" | grep -oE '\-\-.*')" -- "$word")
  else  # a word without a folder may also be a checkpoint in the folder where the tool looks by itself
    mapfile -t COMPREPLY < <(compgen -f -- "$word"; [[ -z $subcommand || $word == */* ]] || compgen -G "checkpoints/$word*.h5")
  fi
}

complete -o filenames -F _reprieve reprieve reprieve-trainer reprieve-bench reprieve-recovery reprieve-heat
