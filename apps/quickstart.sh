#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Shows what Reprieve is for: a run that is preempted and resumed ends bitwise equal to one that was left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: apps/quickstart.sh [--ranks N] [--no-install] [--keep]

Installs the packages that are missing (as root or with sudo), builds into build/release, and then trains a neural
network three times: undisturbed; preempted in the middle by SIGTERM to one rank; and resumed after that.
Says OK, and exits with 0, if the resumed run ends in the same state as the undisturbed one.
Takes about 3 minutes on two free cores, besides the download of 130 MB of packages.
  --ranks N      MPI ranks (default: 4); more than there are cores is fine
  --no-install   leave the packages alone
  --keep         keep checkpoints, summaries and logs, and say where they are
END
}

ranks=4
install=yes
keep=no
while [ $# -gt 0 ]; do
  case $1 in
    --ranks) ranks=${2:?--ranks needs a number}; shift ;;
    --no-install) install=no ;;
    --keep) keep=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
[[ $ranks =~ ^[1-9][0-9]*$ ]] || { echo "--ranks needs a number of 1 or more, not $ranks" >&2; exit 2; }

work=$(mktemp -d "${TMPDIR:-/tmp}/reprieve-quickstart.XXXXXX")
launcher=
progress=
cleanup() {
  end_progress
  # Only a run that was broken off is still there.
  [ -z "$launcher" ] || kill -TERM "$launcher" 2>/dev/null || true
  [ -z "$launcher" ] || wait "$launcher" 2>/dev/null || true
  if [ $keep = yes ]; then echo "Kept: $work"; else rm -rf "$work"; fi
}
trap cleanup EXIT

fail() {
  printf '\nFAILED: %s\n' "$1" >&2
  [ -z "${2:-}" ] || { echo "The end of its output:" >&2; tail -n 25 "$2" >&2; }
  exit 1
}

# Runs a command with its output in a log, which is shown if the command fails.
quietly() {
  local what=$1 log="$work/$2.log" start=$SECONDS
  shift 2
  printf '%s ... ' "$what"
  "$@" >"$log" 2>&1 || fail "$what" "$log"
  echo "done in $((SECONDS - start)) s"
}

# How far a build is, by its log $1: a line that is written again on a terminal, a line every 10 s elsewhere.
show_progress() {
  local start=$SECONDS pause=10 before='   ' behind=$'\n' text='looks at this machine' done all passed
  if [ -t 1 ]; then pause=1 before=$'\r   ' behind='     '; fi
  while sleep "$pause" >/dev/null 2>&1; do
    passed=$((SECONDS - start))
    IFS=/ read -r done all < <(grep -o '^\[[0-9]*/[0-9]*\]' "$1" | tail -n 1 | tr -d '[]') || done=0
    if [ "${done:-0}" -gt 0 ]; then
      text="$((100 * done / all)) % done, about $((passed * (all - done) / done)) s left"
    fi
    printf '%s%s%s' "$before" "$text, after $passed s" "$behind"
  done
}

end_progress() {
  [ -n "$progress" ] || return 0
  kill "$progress" 2>/dev/null || true
  wait "$progress" 2>/dev/null || true
  progress=
}

# Only what this script shows.
build() {
  local log="$work/build.log" start=$SECONDS
  echo "Build, in build/release: the library and one program"
  show_progress "$log" &
  progress=$!
  { cmake --preset release -D REPRIEVE_BUILD_TESTS=OFF &&
    cmake --build --preset release --parallel "$(nproc)" --target reprieve-trainer; } >"$log" 2>&1 || {
    end_progress
    fail "Build" "$log"
  }
  end_progress
  [ ! -t 1 ] || printf '\r'
  echo "   done in $((SECONDS - start)) s            "
}

if [ "$(id -u)" -eq 0 ]; then
  # Open MPI 4 reads the first two, Open MPI 5 the others.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
trainer=(build/release/bin/reprieve-trainer --epochs 20)
mpi=(mpirun --oversubscribe --timeout 600 -n "$ranks")

# A value of a summary, which has one key per line.
value_of() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$work/$1.json"; }

# Waits until a run has written $2, a pattern, to its log $1.
wait_for_output() {
  for _ in $(seq 600); do
    ! grep -q "$2" "$1" || return 0
    kill -0 "$launcher" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

# Starts a run in steps slow enough to be met in the middle, and sends SIGTERM to its last rank in epoch 4.
preempt() {
  local log="$work/preempted.log" victim
  "${mpi[@]}" "${trainer[@]}" --step-delay-ms 10 --checkpoint-dir "$work/checkpoints" \
    --summary "$work/preempted.json" >"$log" 2>&1 &
  launcher=$!
  wait_for_output "$log" '^epoch  *3/' || fail "the run did not get to epoch 3" "$log"
  victim=$(pgrep -P "$launcher" -f reprieve-trainer | tail -n 1)
  kill -TERM "$victim"
  code=0
  wait "$launcher" || code=$?
  launcher=
}

[ $install = no ] || quietly "Packages" packages apps/install-packages.sh build
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
  export CCACHE_BASEDIR=${CCACHE_BASEDIR-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR-1}
fi
build

echo
quietly "1. Train on $ranks ranks, undisturbed" reference "${mpi[@]}" "${trainer[@]}" \
  --checkpoint-dir "$work/reference" --summary "$work/reference.json"
grep '^finished:' "$work/reference.log" | sed 's/^/   /'

echo "2. The same again, with SIGTERM to one rank in the middle"
preempt
grep -E '^(preempted:|saved)' "$work/preempted.log" | sed 's/^/   /'
[ "$code" -eq 42 ] || fail "the preempted run ended with code $code instead of 42" "$work/preempted.log"
echo "   exit code of mpirun: 42, \"saved, start me again\""

quietly "3. Resume" resumed "${mpi[@]}" "${trainer[@]}" \
  --checkpoint-dir "$work/checkpoints" --summary "$work/resumed.json"
grep -E '^(resumed from|finished:)' "$work/resumed.log" | sed 's/^/   /'

expected=$(value_of reference state_digest)
found=$(value_of resumed state_digest)
echo
echo "state of all ranks (XXH3), undisturbed:           $expected"
echo "state of all ranks (XXH3), preempted and resumed: $found"
[ -n "$expected" ] && [ "$expected" = "$found" ] || fail "the two states differ"
[ "$(value_of resumed restored_from)" != null ] || fail "the resumed run began again"
echo "OK: bitwise equal"
