#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# man-page.sh PAGE VERSION PROGRAM [SUBCOMMAND]: writes a man page made of what the program says to --help.
set -euo pipefail
page=$1 version=$2
shift 2
# Programs of MPI start it even for --help; mpirun is not needed for that, but root has to be confirmed.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_ess_singleton_isolated=1

name=$(basename "$page" .1)
help=$("$@" --help)
summary=$(sed 's/[,.:].*//; q' <<<"$help")

# Each command with what it is for, which two blanks part in the help, so that nobody copies both.
examples=$(awk '
  function shown(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); return (text ~ /^[.'\'']/ ? "\\&" : "") text }
  /^Examples:/ { inside = 1; next }
  inside && /^$/ { exit }
  inside && /^  [^ ]/ {
    line = substr($0, 3)
    gap = match(line, /  +/)
    print ".TP\n\\fB" shown(gap ? substr(line, 1, gap - 1) : line) "\\fR\n" (gap ? shown(substr(line, gap + RLENGTH)) : "\\&")
    next
  }
  inside { sub(/^ +/, ""); print shown($0) }
' <<<"$help")

# help2man takes "reprieve verify" for the page reprieve, and its examples are commands and comments in one.
help2man --no-info --section=1 --manual=Reprieve --source="Reprieve $version" --version-string="$version" \
  --name="$summary" "$*" |
  examples=$examples awk -v name="$name" '
    /^\.TH/ { sub(/^\.TH [^"]*/, ".TH " toupper(name) " ") }
    name_is_next { sub(/^.* \\- /, name " \\- "); name_is_next = 0 }
    /^\.SH NAME/ { name_is_next = 1 }
    /^\.(SH|PP)/ { in_examples = 0 }
    !in_examples { print }
    /^\.SH EXAMPLES/ { in_examples = 1; print ENVIRON["examples"] }
  ' >"$page.new"
mv "$page.new" "$page"
