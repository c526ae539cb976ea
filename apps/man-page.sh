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

# help2man takes "reprieve verify" for the page reprieve, and fills the lines of examples like a text.
help2man --no-info --section=1 --manual=Reprieve --source="Reprieve $version" --version-string="$version" \
  --name="$summary" "$*" |
  awk -v name="$name" '
    /^\.TH/ { sub(/^\.TH [^"]*/, ".TH " toupper(name) " ") }
    name_is_next { sub(/^.* \\- /, name " \\- "); name_is_next = 0 }
    /^\.SH NAME/ { name_is_next = 1 }
    as_it_is && /^\./ { print ".fi"; as_it_is = 0 }
    { print }
    /^\.SH/ { in_examples = /EXAMPLES/ }
    in_examples && /^\.IP/ { print ".nf"; as_it_is = 1 }
    END { if (as_it_is) print ".fi" }
  ' >"$page.new"
mv "$page.new" "$page"
