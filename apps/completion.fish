# SPDX-License-Identifier: BSD-3-Clause
# Completion in fish for reprieve and the other programs: asks the program itself, by --help.

function __reprieve_words
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l program $words[1]
    if contains -- -- $words  # behind the -- stands another program
        __fish_complete_subcommand --commandline (string join ' ' -- $words[(math (contains -i -- -- $words) + 1)..-1] $word)
        return
    end
    set -l help ($program --help 2>/dev/null)
    set -l subcommands (printf '%s\n' $help | sed -n '/^Subcommands:/,/^[^ ]*$/s/^  \([a-z][a-z-]*\) .*/\1/p')
    if test (count $subcommands) -gt 0
        if test (count $words) -gt 1; and contains -- $words[2] $subcommands
            set help ($program $words[2] --help 2>/dev/null)
        else if not string match -q -- '-*' $word
            printf '%s\n' $subcommands
            return
        end
    end
    # An option with a fixed set of values says so: "--boundary dirichlet|periodic=dirichlet".
    set -l previous $words[-1]
    if string match -q -- '--*' $previous
        set -l values (printf '%s\n' $help | sed -n "s/^ *\(-[a-zA-Z],\)\{0,1\}$previous \([a-z_-]*|[a-z_|-]*\).*/\2/p")
        if test (count $values) -gt 0
            string split '|' -- $values[1]
            return
        end
    end
    if string match -q -- '-*' $word
        printf '%s\n' $help | grep -oE '^ +(-[a-zA-Z],)?--[a-z][a-z-]*' | grep -oE -- '--.*'
    else  # a word without a folder may also be a checkpoint in the folder where the tool looks by itself
        __fish_complete_path $word
        if test (count $subcommands) -gt 0; and not string match -q '*/*' -- $word
            for file in checkpoints/$word*.h5
                echo $file
            end
        end
    end
end

for program in reprieve reprieve-trainer reprieve-bench reprieve-recovery reprieve-heat
    complete -c $program -f -a '(__reprieve_words)'
end
