#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# installed.sh PREFIX: what an installed tree has for people besides the library: programs, man pages, completion, docs.
set -euo pipefail
prefix=$1
share=$prefix/share
export PATH=$prefix/bin:$PATH

fail() {
  echo "FAILED: $1" >&2
  exit 1
}

[ "$(command -v reprieve)" = "$prefix/bin/reprieve" ] || fail "no reprieve in $prefix/bin"
subcommands=$(reprieve --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p')
[ "$(wc -w <<<"$subcommands")" -ge 9 ] || fail "reprieve --help shows no subcommands"

# Man pages. The second is that the page has a name and a summary.
if command -v help2man >/dev/null; then
  for page in reprieve reprieve-trainer reprieve-heat reprieve-bench reprieve-recovery ${subcommands//[^a-z-]/ }; do
    case $page in reprieve*) ;; *) page=reprieve-$page ;; esac
    file=$share/man/man1/$page.1
    [ -f "$file" ] || fail "no man page $page"
    grep -q "^$page .- [A-Z]" "$file" || fail "$file has no summary"
  done
  if command -v man >/dev/null; then
    MANWIDTH=80 man -l "$share/man/man1/reprieve-verify.1" | grep -q 'reprieve verify \[OPTIONS\]' || fail "man does not show it"
  fi
fi

# Completion, by the tabulator key in a real shell: the words become a command that runs.
for keys in 'reprieve verif\t --he\t' 'reprieve-heat --vers\t'; do
  shown=$(printf "source $share/bash-completion/completions/reprieve\n$keys\nexit\n" |
    script -qec 'bash --norc --noprofile -i' /dev/null | tr -d '\r')
  case $keys in
    *verif*) grep -q 'Verify every checksum' <<<"$shown" || fail "not completed: $shown" ;;
    *) grep -q 'reprieve-heat of reprieve [0-9]' <<<"$shown" || fail "not completed: $shown" ;;
  esac
done

# A checkpoint needs no folder where the tool looks by itself.
mkdir -p completed/checkpoints
: >completed/checkpoints/ckpt-120.h5
shown=$(cd completed && printf "source $share/bash-completion/completions/reprieve\nreprieve show ckp\t\nexit 0\n" |
  script -qec 'bash --norc --noprofile -i' /dev/null | tr -d '\r')
grep -q 'checkpoints/ckpt-120.h5 is not a checkpoint' <<<"$shown" || fail "no checkpoint is completed: $shown"
rm -r completed

if command -v zsh >/dev/null; then
  shown=$(printf "fpath=($share/zsh/site-functions \$fpath); autoload -U compinit; compinit -u -D\nreprieve verif\t --he\t\nexit\n" |
    script -qec 'zsh -f -i' /dev/null | tr -d '\r')
  grep -q 'Reads every byte' <<<"$shown" || fail "not completed in zsh: $shown"
else
  [ -s "$share/zsh/site-functions/_reprieve" ] || fail "no completion for zsh"
fi
if command -v fish >/dev/null; then
  shown=$(fish -c "source $share/fish/vendor_completions.d/reprieve.fish; complete -C 'reprieve verif'; complete -C 'reprieve drill --as '")
  grep -qx verify <<<"$shown" && grep -qx time-limit <<<"$shown" || fail "not completed in fish: $shown"
else
  [ -s "$share/fish/vendor_completions.d/reprieve-heat.fish" ] || fail "no completion for fish"
fi

# Docs, whose links lead somewhere; the settings and the batch scripts.
docs=$share/doc/reprieve
[ -s "$docs/LICENSE" ] || fail "no licence"
for page in README architecture checkpoints tutorial/README; do
  [ -s "$docs/apps/guide/$page.md" ] || fail "no page $page"
done
while read -r page; do
  while read -r link; do
    [ -e "$(dirname "$page")/$link" ] || fail "$page links to $link, which is not installed"
  done < <(grep -oE '\]\([^)#: ]+[)#]' "$page" | sed 's/^](//; s/.$//' | grep -E '\.md$|^heat')
done < <(find "$docs" -name '*.md')
[ -s "$share/reprieve/configs/reprieve.schema.json" ] || fail "no settings"
[ -s "$share/reprieve/slurm/mpirun.sbatch" ] || fail "no batch scripts"
echo "programs, man pages, completion, docs: all there"
