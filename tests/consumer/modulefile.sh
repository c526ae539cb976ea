#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The module files, of an installed tree: loaded by environment-modules or by Lmod, whichever is there, a program built and
# run with nothing but what the module has set, and unloaded. Code 77: neither is installed (apps/install-packages.sh packages).
#
#   modulefile.sh PREFIX FOLDER      PREFIX: where Reprieve is installed; FOLDER: to build in, emptied first
#
# MPIEXEC names the launcher (mpirun). CMAKE_ARGUMENTS are given to cmake.
set -euo pipefail
folder=$(cd "$1" && pwd) work=$2
consumer=$(cd "$(dirname "$0")" && pwd)
read -ra mpirun <<<"${MPIEXEC:-mpirun}"
read -ra cmake_arguments <<<"${CMAKE_ARGUMENTS:-}"
start=
for each in /usr/share/lmod/lmod/init/bash /usr/share/modules/init/bash; do
  [ -n "$start" ] || [ ! -r "$each" ] || start=$each
done
if [ -z "$start" ]; then
  echo "neither environment-modules nor Lmod is installed: the module files are not tried"
  exit 77
fi

[ -s "$(ls "$folder"/share/reprieve/modulefiles/reprieve/*.lua)" ] || { echo "FAILED: no module file for Lmod" >&2; exit 1; }
! grep -rn '@[a-z]*@' "$folder/share/reprieve/modulefiles" || { echo "FAILED: a name was not replaced" >&2; exit 1; }

set +eu  # not made for these
# shellcheck disable=SC1090
. "$start"
module use "$folder/share/reprieve/modulefiles"
module load reprieve || { echo "FAILED: it cannot be loaded" >&2; exit 1; }
for variable in PATH LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH PYTHONPATH; do
  [[ ${!variable} == "$folder"* ]] || { echo "FAILED: $variable is ${!variable}" >&2; exit 1; }
done

# Each step must do its work: `set -e` is off here.
use() {
  "$@" || { echo "FAILED: $*" >&2; exit 1; }
}
rm -rf "$work"
use cmake -S "$consumer" -B "$work" "${cmake_arguments[@]}"
use cmake --build "$work" --target consumer_cpp
[[ $(realpath "$(pkg-config --variable=prefix reprieve)") == $(realpath "$folder") ]] || { echo "FAILED: pkg-config finds another one" >&2; exit 1; }
cd "$work" || exit 1
use timeout -k 3 120 "${mpirun[@]}" -n 2 ./consumer_cpp 5 >run.log
use grep -q '^finished, and right$' run.log
use reprieve --version

module unload reprieve
for variable in PATH LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH PYTHONPATH; do
  [[ ${!variable} != *"$folder"* ]] || { echo "FAILED: $variable is still ${!variable}" >&2; exit 1; }
done
echo "module file: loaded by $start, a program built and run, unloaded"
