#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# clang-tidy.sh BUILD FILE [OPTION...]: clang-tidy on one file, by the compile_commands.json of the folder BUILD.
#
# A file that was found clean is not looked at again while nothing changes that clang-tidy sees: the file and all that it
# includes (with comments, NOLINT is one, and macros), the checks, and clang-tidy itself. The names of clean states are kept
# outside of the clone, in REPRIEVE_TIDY_CACHE; without that folder everything is looked at.
# With REPRIEVE_TIDY_UNTIL=TIME (seconds since 1970) a file is left out, and named, when its turn comes after that.
set -euo pipefail
build=$1
file=$(realpath "$2")
options=("${@:3}")
cache=${REPRIEVE_TIDY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/reprieve-clang-tidy}

if [ "$(date +%s)" -ge "${REPRIEVE_TIDY_UNTIL:-9999999999}" ]; then
  echo "no time for $file"
  exit 0
fi

command=$(awk -v file="\"$file\"" '/^ *"command": /{command = $0} /^ *"file": / && index($0, file) {print command; exit}' \
  "$build/compile_commands.json" | sed 's/^ *"command": "//; s/",$//; s/\\\(["\\]\)/\1/g')
[ -n "$command" ] || { echo "$file is not compiled in $build" >&2; exit 1; }

state=$({ clang-tidy --version && cat .clang-tidy && echo "${options[@]}" && eval "${command%% -o *} -E -C -dD -P '$file'"; } |
  sha256sum | cut -d ' ' -f 1)
[ ! -e "$cache/$state" ] || exit 0
timeout 600 clang-tidy --quiet "${options[@]}" -p "$build" "$file"
mkdir -p "$cache"
touch "$cache/$state"
