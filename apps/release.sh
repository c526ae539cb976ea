#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes the tarball of the commit that is checked out, reprieve-VERSION.tar.gz, with its checksum. The same commit gives the
# same bytes. Before that it checks that nothing is changed, and that the header, CHANGELOG.md and Debian's changelog name
# the same version.
#
#   apps/release.sh [--tag] [FOLDER]      FOLDER: where the tarball goes (build/release)
#
# --tag: makes the annotated tag vVERSION of this commit as well. Nothing is sent anywhere.
set -euo pipefail
cd "$(dirname "$0")/.."
tag=no
if [ "${1:-}" = --tag ]; then
  tag=yes
  shift
fi
if [ $# -gt 1 ] || [[ ${1:-} == -* ]]; then
  sed -n '3,9s/^# \?//p' apps/release.sh >&2
  exit 2
fi
folder=${1:-build/release}

fail() {
  echo "FAILED: $1" >&2
  exit 1
}

[ "$(git rev-parse --show-toplevel)" = "$(pwd -P)" ] || fail "this folder is not a clone of the repository"
changed=$(git status --porcelain)
[ -z "$changed" ] || fail "files are changed and not committed:
$changed"

version=$(sed -n 's/^#define REPRIEVE_VERSION "\(.*\)"$/\1/p' include/reprieve/version.hpp)
numbers=$(sed -n 's/^#define REPRIEVE_VERSION_[A-Z]* \([0-9]*\)$/\1/p' include/reprieve/version.hpp | paste -s -d .)
of_changelog=$(sed -n '/^## /{s/^## \[\(.*\)\].*/\1/p;q}' CHANGELOG.md)
of_debian=$(sed -n '1s/^reprieve (\(.*\)-[^-]*) .*/\1/p' apps/recipes/debian/changelog)
[ "$numbers" = "$version" ] || fail "version.hpp has the text $version and the numbers $numbers"
[ "$of_changelog" = "$version" ] || fail "version.hpp has $version, and CHANGELOG.md begins with $of_changelog"
[ "$of_debian" = "$version" ] || fail "version.hpp has $version, and apps/recipes/debian/changelog begins with $of_debian"

mkdir -p "$folder"
tarball=reprieve-$version.tar.gz
git archive --prefix="reprieve-$version/" HEAD | gzip -9n >"$folder/$tarball"
(cd "$folder" && sha256sum "$tarball" >"$tarball.sha256")
echo "$folder/$tarball: $(cut -d ' ' -f 1 "$folder/$tarball.sha256")"

if [ "$tag" = yes ]; then
  git tag --annotate --message "Reprieve $version" "v$version"
  echo "tag v$version: $(git rev-parse --short=12 HEAD)"
fi
