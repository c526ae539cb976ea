#compdef reprieve reprieve-trainer reprieve-bench reprieve-recovery reprieve-heat
# SPDX-License-Identifier: BSD-3-Clause
# Completion in zsh for reprieve and the other programs: asks the program itself, by --help.

local program=$words[1] word=$words[CURRENT] previous=$words[CURRENT-1] help subcommand
local -a subcommands values
integer dashes=${words[(i)--]}
if (( dashes < CURRENT )); then  # behind the -- stands another program
  if (( dashes == CURRENT - 1 )); then _command_names -e; else _files; fi
  return
fi
help=$($program --help 2>/dev/null)
subcommands=(${(f)"$(sed -n '/^Subcommands:/,/^[^ ]*$/s/^  \([a-z][a-z-]*\) .*/\1/p' <<<$help)"})
if (( $#subcommands )); then
  if (( CURRENT > 2 && ${subcommands[(I)$words[2]]} )); then
    help=$($program $words[2] --help 2>/dev/null)
  elif [[ $word != -* ]]; then
    compadd -a subcommands
    return
  fi
fi
# An option with a fixed set of values says so: "--boundary dirichlet|periodic=dirichlet".
if [[ $previous == --* ]]; then
  values=(${(s:|:)"$(sed -n "s/^ *\(-[a-zA-Z],\)\{0,1\}$previous \([a-z_-]*|[a-z_|-]*\).*/\2/p" <<<$help | head -n 1)"})
fi
if (( $#values )); then
  compadd -a values
elif [[ $word == -* ]]; then
  compadd -- ${(f)"$(grep -oE '^ +(-[a-zA-Z],)?--[a-z][a-z-]*' <<<$help | grep -oE -- '--.*')"}
else  # a word without a folder may also be a checkpoint in the folder where the tool looks by itself
  [[ $word == */* || $#subcommands -eq 0 ]] || compadd -U -- checkpoints/$word*.h5(N)
  _files
fi
