#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes the Debian source package: the tree of this repository in a folder of its own, with apps/recipes/debian as debian/
# at its top, where Debian's tools want it. lintian, where it is installed, must find no error.
#
#   source_package.sh FOLDER [--binary]     FOLDER: to work in, emptied first. --binary: builds the packages as well
#
# Needs dpkg-dev and debhelper; --binary also what debian/control asks for (apps/install-packages.sh build packages).
set -euo pipefail
folder=${1:?usage: source_package.sh FOLDER [--binary]} binary=${2:-}
tree=$(cd "$(dirname "$0")/../.." && pwd)

rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
version=$(sed -n 's/^#define REPRIEVE_VERSION "\(.*\)"$/\1/p' "$tree/include/reprieve/version.hpp")
source=$folder/reprieve-$version
mkdir "$source"
cd "$tree"
# The tree as it is, with what is not committed yet; without folders of builds.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract -C "$source"
else
  tar --create --exclude=./build --exclude=./.git . | tar --extract -C "$source"
fi
tar --create --xz --sort=name --owner=0 --group=0 -f "$folder/reprieve_$version.orig.tar.xz" -C "$folder" "reprieve-$version"
cp -r "$source/apps/recipes/debian" "$source/debian"

# lintian's errors count; its warnings and notes are printed.
examine() {
  if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error --tag-display-limit 0 "$@"
  else
    echo "lintian is not installed: the packages are not examined" >&2
  fi
}

cd "$folder"
dpkg-source --build "reprieve-$version"
examine ./*.dsc
if [ "$binary" = --binary ]; then
  (cd "$source" && dpkg-buildpackage --unsigned-source --unsigned-changes --build=binary)
  examine ./*.deb
fi
