#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds and tests this tree in a Debian 13, which is made once and kept below /var/cache/reprieve. As root; needs a mirror.
#
#   debian13.sh          the tests with the labels unit and few, and what they need, compiled without optimisation
#   debian13.sh --all    all targets and tests
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
  echo "Skipped: only root can make a Debian."
  exit 0
fi
if [ -z "${REPRIEVE_MOUNTS:-}" ]; then
  REPRIEVE_MOUNTS=1 exec unshare --mount --propagation private "$PWD/.ci/debian13.sh" "$@"  # what is mounted here goes with this process
fi

# The name tells which packages are in it: another list of packages makes another Debian in its place.
cache=/var/cache/reprieve
# A tree that was mounted into an old one by hand is unmounted for this process: the removal would empty the tree.
{ findmnt -rno TARGET | grep "^$cache/" || true; } | sort -r | xargs -r umount --lazy
debian=$cache/debian13-$(sha256sum apps/install-packages.sh | cut -c 1-12)
if [ ! -e "$debian" ]; then
  apps/install-packages.sh debian13
  rm -rf --one-file-system "$cache"/debian13-*
  mkdir -p "$cache"
  mmdebstrap --mode=root --variant=minbase --dpkgopt=force-unsafe-io \
    --customize-hook='copy-in apps/install-packages.sh /' --customize-hook='chroot "$1" /install-packages.sh build tests' \
    trixie "$debian.new"
  mv "$debian.new" "$debian"
fi

# The tree has the same path there, so that messages name files of this one; its builds are of this system alone.
mkdir -p build "$debian$PWD" "$debian/build$PWD"
mount --bind "$debian" "$debian"  # so that / is a mount there too: tests change how theirs are passed on
mount --bind . "$debian$PWD"
mount --bind "$debian/build$PWD" "$debian$PWD/build"
mount -t proc proc "$debian/proc"
mount --rbind /sys "$debian/sys"
mount --rbind /dev "$debian/dev"
what=(--preset unoptimised --label 'unit|few'
  --targets 'unit_tests mpi_tests c_interface_tests fortran_tests fake_cuda python_module e2e_tests e2e_resilient reprieve_tool reprieve-trainer')
[ "${1:-}" != --all ] || what=(--all)
env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
  chroot "$debian" "$PWD/tests/run.sh" --no-install "${what[@]}"
