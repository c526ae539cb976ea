#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes the Debian packages of the commit that is checked out, and tries them. For each release of Debian it builds the
# packages in a bare system and examines them with lintian. Then it installs them in another bare system, uses them as a
# user would (apps/recipes/debian/tests/programs), and removes them. As root; needs mmdebstrap, git and a mirror of Debian.
#
#   apps/make-packages.sh [--cache FOLDER] RELEASE...      RELEASE: 12, 13
#
# The packages lie in build/packages/RELEASE, with a log of each step. FOLDER (/var/cache/reprieve) keeps for the next run
# what takes long to get: systems, the packages of Debian and a ccache. Remove it to begin with a newer Debian.
set -euo pipefail
cd "$(dirname "$0")/.."
declare -A code_names=([12]=bookworm [13]=trixie)

usage() {
  sed -n '3,10s/^# \?//p' apps/make-packages.sh >&2
  exit 2
}

arguments=("$@")
cache=/var/cache/reprieve
if [ "${1:-}" = --cache ] && [ $# -gt 1 ]; then
  cache=$2
  shift 2
fi
[ $# -gt 0 ] || usage
for release in "$@"; do
  [[ -v code_names[$release] ]] || usage
done
if [ -z "${REPRIEVE_MOUNTS:-}" ]; then
  REPRIEVE_MOUNTS=1 exec unshare --mount --propagation private apps/make-packages.sh "${arguments[@]}"  # mounts go with it
fi

mkdir -p "$cache/ccache"
cache=$(cd "$cache" && pwd)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/reprieve-packages.XXXXXX")
root='' log=''
exec 3>&2

finish() {
  if [ $? -ne 0 ] && [ -n "$log" ]; then
    { tail -n 40 "$log"; echo "FAILED: $log"; } >&3
  fi
  umount -l "$work"/*/{proc,sys,dev,var/cache/apt/archives,ccache} 2>/dev/null
  rm -rf --one-file-system "$work"
}
trap finish EXIT

# new_system RELEASE-NAME TAR: a system in a folder, $root, from a tar of the cache.
new_system() {
  local archives=$cache/archives${1%%-*}
  root=$work/$1
  mkdir -p "$root" "$archives/partial"
  tar --extract --directory "$root" --file "$cache/$2"
  mkdir -p "$root/ccache" "$root/packages" "$root/var/cache/apt/archives"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"  # Open MPI counts the cores there
  mount --rbind /dev "$root/dev"
  mount --bind "$archives" "$root/var/cache/apt/archives"
  mount --bind "$cache/ccache" "$root/ccache"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/fast"  # the system lives for minutes
}

# bare_system RELEASE NAME: one with nothing but apt.
bare_system() {
  local tar=bare$1.tar
  if [ ! -e "$cache/$tar" ]; then
    mmdebstrap --mode=root --variant=apt "${code_names[$1]}" "$cache/new-$tar"
    mv "$cache/new-$tar" "$cache/$tar"
  fi
  new_system "$1-$2" "$tar"
  inside apt-get update -q
}

# build_system RELEASE: one with what debian/control asks for, and nothing else but lintian and ccache.
build_system() {
  local tar
  tar=build$1-$(sha256sum apps/recipes/debian/control | cut -c 1-12).tar
  if [ ! -e "$cache/$tar" ]; then
    rm -f "$cache/build$1-"*
    bare_system "$1" prepare
    unpack_source "$root/packages"
    install_packages ccache lintian
    inside apt-get build-dep -q -y --no-install-recommends "./reprieve-$version"
    tar --create --one-file-system --exclude=./ccache --exclude=./packages --exclude=./var/cache/apt/archives \
      --directory "$root" --file "$cache/new-$tar" .
    mv "$cache/new-$tar" "$cache/$tar"
  fi
  new_system "$1-build" "$tar"
}

# inside COMMAND...: in that system, in /packages, with none of the variables around it.
inside() {
  chroot "$root" /usr/bin/env -i -C /packages PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "$@"
}

install_packages() {
  inside apt-get install -q -y --no-install-recommends "$@"
}

unpack_source() {
  tar --extract --no-same-owner --directory "$1" --file "$tarball"
  cp -r "$1/reprieve-$version/apps/recipes/debian" "$1/reprieve-$version/debian"
}

# version_for RELEASE FILE: a version of this release of Debian, so that an upgrade to the next one takes its packages.
version_for() {
  local entries
  entries=$(cat "$2")
  {
    sed -n "1s/)/~deb$1u1)/p" <<<"$entries"
    printf '\n  * Built for Debian %s.\n\n' "$1"
    sed -n '/^ -- /{p;q}' <<<"$entries"
    printf '\n%s\n' "$entries"
  } >"$2"
}

build() {
  build_system "$1"
  unpack_source "$root/packages"
  cp "$tarball" "$root/packages/reprieve_$version.orig.tar.gz"
  version_for "$1" "$root/packages/reprieve-$version/debian/changelog"
  inside CCACHE_DIR=/ccache CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache \
    sh -c 'cd "$1" && dpkg-buildpackage --unsigned-source --unsigned-changes' sh "reprieve-$version"
  find "$root/packages" -maxdepth 1 -type f -exec cp -t "$folder" {} +
}

examine() {
  inside sh -c 'lintian --allow-root --fail-on error --tag-display-limit 0 *.changes'
}

use() {
  bare_system "$1" use
  find "$folder" -name '*.deb' ! -name '*-dbgsym_*' -exec cp -t "$root/packages" {} +
  local found names depends
  mapfile -t names < <(inside sh -c 'for file in *.deb; do dpkg-deb --field "$file" Package; done')

  inside sh -c 'apt-get install -q -y --no-install-recommends ./reprieve-tools_*.deb'
  inside reprieve --version
  found=$(inside dpkg-query --show --showformat '${Package}\n' | grep -E 'mpi|hdf5' || true)
  [ -z "$found" ] || { echo "reprieve-tools brings along $found"; return 1; }

  unpack_source "$root/packages"
  read -ra depends < <(sed -n 's/^Depends: @, //p' "$root/packages/reprieve-$version/debian/tests/control" | tr -d ,)
  inside sh -c 'apt-get install -q -y --no-install-recommends "$@" ./*.deb' sh "${depends[@]}"
  inside useradd --create-home user
  inside runuser -u user -- sh -c 'mkdir /home/user/work && cd "$1" &&
    HOME=/home/user AUTOPKGTEST_TMP=/home/user/work debian/tests/programs' sh "reprieve-$version"

  inside apt-get purge -q -y "${names[@]}"
  rm -r "$root/packages" "$root/home/user"
  found=$(find "$root" -xdev -name '*reprieve*')
  [ -z "$found" ] || { echo "These files are left: $found"; return 1; }
}

# step RELEASE NAME: calls the function NAME, whose output goes to a log.
step() {
  local start=$SECONDS
  log=$folder/$2.log
  "$2" "$1" >"$log" 2>&1
  log=''
  printf 'Debian %s, %s: %d s\n' "$1" "$2" $((SECONDS - start))
}

apps/release.sh "$work"
tarball=$(echo "$work"/reprieve-*.tar.gz)
version=$(basename "$tarball" .tar.gz)
version=${version#reprieve-}
for release in "$@"; do
  folder=$PWD/build/packages/$release
  rm -rf "$folder"
  mkdir -p "$folder"
  for name in build examine use; do
    step "$release" $name
  done
  echo "$(sed -n '/^W:/p' "$folder/examine.log" | wc -l) warnings of lintian, packages in $folder"
done
