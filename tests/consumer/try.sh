#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# As a user would: builds the programs here against an installed Reprieve, runs each on 2 ranks, preempts it by a signal
# to one rank, and resumes it on 3.
#
#   try.sh cmake|pkg-config PREFIX FOLDER [static]      PREFIX: where Reprieve is installed; FOLDER: to work in, emptied first;
#                                                       static: with the static library
#
# MPIEXEC names the launcher (mpirun). CMAKE_ARGUMENTS are given to cmake.
set -euo pipefail
way=$1 prefix=$2 folder=$3 kind=${4:-}
source=$(cd "$(dirname "$0")" && pwd)
read -ra mpirun <<<"${MPIEXEC:-mpirun}"
read -ra cmake_arguments <<<"${CMAKE_ARGUMENTS:-}"
[ -z "$kind" ] || cmake_arguments+=(-D LIBRARY=reprieve::static -D FORTRAN_LIBRARY=reprieve::fortran_static)

launcher=
cleanup() {
  [ -z "$launcher" ] || kill -KILL "$launcher" 2>/dev/null || true
}
trap cleanup EXIT

fail() {
  echo "FAILED: $1" >&2
  [ -z "${2:-}" ] || sed 's/^/  | /' "$2" >&2
  exit 1
}

build() {
  case $way in
    cmake)
      cmake -S "$source" -B . -D CMAKE_PREFIX_PATH="$prefix" "${cmake_arguments[@]}"
      cmake --build .
      ;;
    pkg-config)
      PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name reprieve.pc | head -n 1)") make -f "$source/Makefile" SOURCE="$source" \
        ${kind:+KIND=-static}
      ;;
    *) fail "cmake or pkg-config?" ;;
  esac
}

# The programs that make has built do not know where the library is.
library_path() {
  dirname "$(find "$prefix" -name 'libreprieve.*' | head -n 1)"
}

# Until a line of the file matches; a minute at most.
wait_for() {
  local pattern=$1 file=$2
  for _ in $(seq 600); do
    ! grep -q "$pattern" "$file" || return 0
    kill -0 "$launcher" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

preempt_and_resume() {
  local program=$1 log=$1.log code=0 victim
  rm -rf checkpoints
  timeout -k 3 120 "${mpirun[@]}" -n 2 "./$program" 2000 >"$log" 2>&1 &
  launcher=$!
  wait_for 'did step' "$log" || fail "$program does not run" "$log"
  victim=$(sed -n 's/^process \([0-9]*\) did step.*/\1/p' "$log" | head -n 1)
  kill -TERM "$victim"
  wait "$launcher" || code=$?
  launcher=
  [ "$code" -eq 42 ] || fail "$program ended with code $code instead of 42" "$log"

  local saved
  saved=$(ls checkpoints | sed -n 's/^ckpt-\([0-9]*\)\.h5$/\1/p')
  [ -n "$saved" ] || fail "$program left no checkpoint" "$log"
  timeout -k 3 120 "${mpirun[@]}" -n 3 "./$program" $((saved + 20)) >"$log" 2>&1 || fail "$program does not resume" "$log"
  grep -q "^begins at step $saved$" "$log" || fail "$program did not begin at step $saved" "$log"
  grep -q '^finished, and right$' "$log" || fail "$program came to a wrong end" "$log"
  echo "$program ($way): preempted on 2 ranks at step $saved, resumed on 3, right"
}

rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
build
LD_LIBRARY_PATH=$(library_path)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
programs=(consumer_*)
for program in "${programs[@]}"; do
  [ -z "$kind" ] || ! ldd "$program" | grep libreprieve || fail "$program is linked with the shared library"
  [ ! -x "$program" ] || preempt_and_resume "$program"
done
