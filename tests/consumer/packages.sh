#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes the Debian packages and tries them in a Debian of their own, with nothing else in it: installs them by apt, starts
# the programs, reads a man page, and builds the programs here by CMake and by pkg-config. As root; needs mmdebstrap and
# a mirror.
#
#   packages.sh [OPTIONS FOR CMAKE...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

cmake --preset package "$@"
cmake --build --preset package
rm -f build/package/packages/*.deb
cpack --preset package

root=$(mktemp -d "${TMPDIR:-/tmp}/reprieve-packages.XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT
# shellcheck disable=SC1091
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
packages=(build/package/packages/*.deb)

# What a user installs besides: compilers, CMake and make. All else has to come with the packages.
mmdebstrap --mode=root --variant=apt --include=g++,gfortran,cmake,make,pkg-config,man-db \
  --customize-hook='mkdir "$1/packages" "$1/consumer"' \
  --customize-hook="copy-in ${packages[*]} /packages" \
  --customize-hook="copy-in tests/consumer/try.sh tests/consumer/CMakeLists.txt tests/consumer/Makefile $(
    ls tests/consumer/consumer.* | tr '\n' ' ') /consumer" \
  --customize-hook="copy-in tests/consumer/in_a_new_debian.sh /" \
  --customize-hook='chroot "$1" bash /in_a_new_debian.sh' \
  "$release" "$root/debian"
