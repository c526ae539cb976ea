#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# As a reader of the tutorial would: takes the commands out of its text and runs them, in an empty folder with nothing but
# the program, against an installed Reprieve. The only liberty: where the text says "sleep 1", the test waits until
# the program runs, however long that takes.
#
#   tutorial.sh LANGUAGE README SOURCE PREFIX FOLDER     LANGUAGE: C++, C or Fortran; SOURCE: heat.cpp, heat.c, heat.f90
set -euo pipefail
language=$1 readme=$2 source=$3 prefix=$4 folder=$5

fail() {
  echo "FAILED: $1" >&2
  [ ! -f log ] || sed 's/^/  | /' log >&2
  exit 1
}

# The n-th block of commands below a heading.
commands_of() {
  awk -v heading="## $1" '$0 ~ "^" heading {here = 1; next} /^## / {here = 0}
    here && /^```bash/ {inside = 1; next} /^```/ {inside = 0} inside' "$readme"
}

# Stands in for the command of this name.
sleep() {
  local tries=0
  until grep -qs '"ready"' checkpoints/events.jsonl; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "it does not start"
    command sleep 0.1
  done
}

rm -rf "$folder"
mkdir -p "$folder"
cp "$source" "$folder"
cd "$folder"
libraries=$(dirname "$(find "$prefix" -name reprieve.pc | head -n 1)")
export PKG_CONFIG_PATH=$libraries LD_LIBRARY_PATH=$libraries/..${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

build=$(commands_of "4. Build" | grep -E "# ${language//+/\\+}\$")
[ -n "$build" ] || fail "the text does not say how to build it"
eval "$build"

run=$(commands_of "5. Start it")
[ "$(grep -c mpirun <<<"$run")" -ge 2 ] || fail "the text does not say how to run it"
set +e  # as in a shell that people type into
eval "$run" >log 2>&1
set -e
grep -q '^code 42$' log || fail "the first run did not end with code 42"
resumed=$(grep '^sum ' log) || fail "the second run printed no sum"
[ "$(grep -c '^sum ' log)" -eq 1 ] || fail "it was not preempted"

undisturbed=$(sed -n 's/.*to the last digit: `\(.*\)`.*/\1/p' "$readme")
[ -n "$undisturbed" ] || fail "the text does not say how to compare"
whole=$(eval "$undisturbed" 2>&1 | grep '^sum ') || fail "the undisturbed run printed no sum"
[ "$resumed" = "$whole" ] || fail "$resumed after the restart, but $whole without one"
echo "$language: preempted on 2 ranks, resumed on 3: $resumed, as without a preemption"
