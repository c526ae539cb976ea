#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# As a user would who takes the source tree into a project: configures the project in `embedding`, builds its program, runs
# it on 2 ranks, and installs it.
#
#   embed.sh subdirectory|fetch SOURCE FOLDER [OPTIONS FOR CMAKE...]     SOURCE: the tree of Reprieve; FOLDER: to build in
#
# With fetch the project is configured only. MPIEXEC names the launcher (mpirun).
set -euo pipefail
way=$1 source=$2 folder=$3
project=$(cd "$(dirname "$0")" && pwd)/embedding
read -ra mpirun <<<"${MPIEXEC:-mpirun}"

fail() {
  echo "FAILED: $1" >&2
  exit 1
}

rm -rf "$folder"
cmake -S "$project" -B "$folder" -D WAY="$way" -D REPRIEVE_TREE="$source" "${@:4}"
[ "$way" = subdirectory ] || exit 0

cmake --build "$folder" --parallel "$(nproc)"
cd "$folder"
# Where a project that sets nothing of its own has its programs.
[ -x consumer_cpp ] || fail "consumer_cpp is not at its place"
timeout -k 3 120 "${mpirun[@]}" -n 2 ./consumer_cpp 5 | tee run.log
grep -q '^finished, and right$' run.log || fail "consumer_cpp came to a wrong end"

cmake --install . --prefix "$folder/installed" >/dev/null
[ "$(find installed -type f)" = installed/bin/consumer_cpp ] || fail "more is installed than the program: $(find installed -type f)"
echo "consumer_cpp ($way): built within another project, run on 2 ranks, right"
