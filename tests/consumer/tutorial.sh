#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The commands of the tutorial (page.sh says how they are run), with fewer steps: three ranks on two cores are slow.
#
#   tutorial.sh LANGUAGE README SOURCE PREFIX FOLDER     LANGUAGE: C++, C or Fortran; SOURCE: heat.cpp, heat.c, heat.f90
set -euo pipefail
language=$1 page=$2 source=$3 prefix=$4
. "$(dirname "$0")/page.sh"
enter "$5"
cp "$source" .

build=$(blocks_of "4. Build" bash | grep -E "# ${language//+/\\+}\$")
[ -n "$build" ] || fail "the text does not say how to build it"
eval "$build"

run=$(blocks_of "5. Start it" bash | sed 's/ 20000/ 8000/')
[ "$(grep -c mpirun <<<"$run")" -ge 2 ] || fail "the text does not say how to run it"
set +e  # as in a shell that people type into
eval "$run" >log 2>&1
set -e
grep -q '^code 42$' log || fail "the first run did not end with code 42"
resumed=$(grep '^sum ' log) || fail "the second run printed no sum"
[ "$(grep -c '^sum ' log)" -eq 1 ] || fail "it was not preempted"

undisturbed=$(sed -n 's/.*to the last digit: `\(.*\)`.*/\1/p' "$page")
[ -n "$undisturbed" ] || fail "the text does not say how to compare"
whole=$(eval "${undisturbed/ 20000/ 8000}" 2>&1 | grep '^sum ') || fail "the undisturbed run printed no sum"
[ "$resumed" = "$whole" ] || fail "$resumed after the restart, but $whole without one"
echo "$language: preempted on 2 ranks, resumed on 3: $resumed, as without a preemption"
