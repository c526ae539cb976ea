#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The tarball of a release, which apps/release.sh makes in a repository with the files of this tree: it has the same bytes
# twice, a right checksum, and a tree that CMake configures and that knows its commit. A tag is made only if it is asked
# for, and nothing is made where files are changed or versions differ.
#
#   release.sh SOURCE FOLDER [OPTIONS FOR CMAKE...]     SOURCE: the tree of Reprieve; FOLDER: to work in, emptied first
#
# Code 77: the tree is no clone.
set -euo pipefail
source=$1 folder=$2
if ! git -C "$source" rev-parse 2>/dev/null; then
  echo "skipped: $source is no clone"
  exit 77
fi

fail() {
  echo "FAILED: $1" >&2
  exit 1
}

rm -rf "$folder"
mkdir -p "$folder/clone"
cd "$folder/clone"
git init --quiet
git config user.name "A test"
git config user.email "test@reprieve.invalid"
git -C "$source" ls-files -z --cached --others --exclude-standard |
  tar --create --null --directory "$source" --files-from=- | tar --extract
git add --all
git commit --quiet --message "The files of the tree"

apps/release.sh ../first
apps/release.sh ../second
tarball=$(basename ../first/reprieve-*.tar.gz)
version=${tarball#reprieve-}
version=${version%.tar.gz}
cmp "../first/$tarball" "../second/$tarball"
(cd ../first && sha256sum --check --quiet "$tarball.sha256")
[ -z "$(git tag)" ] || fail "a tag was made that nobody asked for"

tree=$folder/${tarball%.tar.gz}
tar --extract --directory "$folder" --file "../first/$tarball"
cmake -S "$tree" -B "$folder/build" -D REPRIEVE_BUILD_TESTS=OFF "${@:3}" >/dev/null
commit=$(git rev-parse HEAD)
grep -q "REPRIEVE_BUILT_COMMIT=[^ ]*${commit:0:12}" "$folder/build/compile_commands.json" || fail "the tarball does not know its commit"

apps/release.sh --tag ../tagged
[ "$(git cat-file -t "v$version")" = tag ] || fail "no annotated tag was made"

# refuses WORDS: the script fails and says so.
refuses() {
  if apps/release.sh ../refused 2>../refused.log; then
    fail "a tarball was made in spite of: $1"
  fi
  grep -q "$1" ../refused.log || fail "it is not said that $1: $(cat ../refused.log)"
}
for file in include/reprieve/version.hpp CHANGELOG.md apps/recipes/debian/changelog; do
  sed -i "0,/$version/s//98.7.6/" "$file"
  refuses 'files are changed'
  git commit --quiet --all --message "Another version"
  refuses '98.7.6'
  git reset --quiet --hard HEAD^
done
[ ! -e ../refused ] || fail "a folder was made for a tarball that was refused"
echo "$tarball: the same bytes twice, configured, tagged, and refused where something did not fit"
