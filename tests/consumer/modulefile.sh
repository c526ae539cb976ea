#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The module file for environment-modules: installed below another prefix than that of configure, loaded, and unloaded.
# Code 77: environment-modules is not installed (apps/install-packages.sh packages).
#
#   modulefile.sh BUILD FOLDER      BUILD: a build folder; FOLDER: to install the module files in, emptied first
set -euo pipefail
build=$1 folder=$2
start=/usr/share/modules/init/bash
if [ ! -r "$start" ]; then
  echo "environment-modules is not installed: the module file is not tried"
  exit 77
fi

rm -rf "$folder"
cmake -D CMAKE_INSTALL_COMPONENT=tools -D CMAKE_INSTALL_PREFIX="$folder" -P "$build/apps/recipes/cmake_install.cmake"
[ -s "$(ls "$folder"/share/reprieve/modulefiles/reprieve/*.lua)" ] || { echo "FAILED: no module file for Lmod" >&2; exit 1; }
! grep -rn '@[a-z]*@' "$folder/share" || { echo "FAILED: a name was not replaced" >&2; exit 1; }

set +eu  # not made for these
# shellcheck disable=SC1090
. "$start"
module use "$folder/share/reprieve/modulefiles"
module load reprieve || { echo "FAILED: it cannot be loaded" >&2; exit 1; }
for variable in PATH LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH PYTHONPATH; do
  [[ ${!variable} == "$folder"* ]] || { echo "FAILED: $variable is ${!variable}" >&2; exit 1; }
done
module unload reprieve
for variable in PATH LD_LIBRARY_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH PYTHONPATH; do
  [[ ${!variable} != *"$folder"* ]] || { echo "FAILED: $variable is still ${!variable}" >&2; exit 1; }
done
echo "module file: loaded and unloaded"
