#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Does what apps/recipes/Dockerfile says without Docker: each of its stages in a new Debian of its own, command by command,
# and then, as the user of the image, what it runs by default and a program under mpirun. As root; needs mmdebstrap and a
# mirror.
#
#   dockerfile.sh [--ccache FOLDER]      FOLDER: of a ccache, which the compilers of the first stage use and fill
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
if [ -z "${REPRIEVE_MOUNTS:-}" ]; then
  REPRIEVE_MOUNTS=1 exec unshare --mount --propagation private "$0" "$@"  # what is mounted here goes with this process
fi
ccache=
[ "${1:-}" != --ccache ] || ccache=$(cd "$2" && pwd)

work=$(mktemp -d "${TMPDIR:-/var/tmp}/reprieve-docker.XXXXXX")
trap 'umount -l "$work"/stages/*/{proc,dev,ccache} 2>/dev/null; rm -rf --one-file-system "$work"' EXIT
mkdir "$work/stages"
root= name= folder=/ user=root

fail() {
  echo "FAILED: $1" >&2
  exit 1
}

# A Debian with nothing but apt in it, as the image debian:12 is.
begin_stage() {
  [ "$1" = debian:12 ] || fail "this script knows debian:12, not $1"
  name=${3:-last} folder=/ user=root root=$work/stages/${3:-last}
  [ -e "$work/debian.tar" ] || mmdebstrap --mode=root --variant=minbase bookworm "$work/debian.tar"
  mkdir "$root"
  tar --extract -C "$root" -f "$work/debian.tar"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir "$root/ccache"
  [ -z "$ccache" ] || mount --bind "$ccache" "$root/ccache"
}

run() {
  local environment=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root) home
  home=$(sed -n "s|^$user:.*:\(/[^:]*\):[^:]*$|\1|p" "$root/etc/passwd")
  [ -z "$home" ] || environment[1]=HOME=$home
  if [ -n "$ccache" ]; then  # for which the language of the messages counts as well
    environment+=(CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_DIR=/ccache
      CCACHE_BASEDIR="$folder" CCACHE_NOHASHDIR=1 ${LANG:+LANG="$LANG"})
  fi
  env -i "${environment[@]}" chroot --userspec="$user" "$root" /bin/sh -c "cd '$folder' && $1" || fail "$name: $1"
}

# copy [--from=STAGE] SOURCE... TARGET
copy() {
  local from=$tree target=${*: -1}
  [[ $1 != --from=* ]] || { from=$work/stages/${1#--from=}; shift; }
  mkdir -p "$root$target"
  if [ "$1" = . ]; then
    git -C "$tree" ls-files -z --cached --others --exclude-standard |
      tar --create --null -C "$tree" --files-from=- | tar --extract --no-same-owner -C "$root$target"
  else
    local sources=("${@:1:$#-1}")
    # shellcheck disable=SC2068
    cp ${sources[@]/#\//$from/} "$root$target"
  fi
}

command=
while read -r word rest; do
  echo "=== $word $rest"
  # shellcheck disable=SC2086
  case $word in
    FROM) begin_stage $rest ;;
    COPY) copy $rest ;;
    WORKDIR) folder=$rest; mkdir -p "$root$rest" ;;
    RUN) run "$rest" ;;
    USER) user=$rest ;;
    CMD) command=$(tr -d '[]",' <<<"$rest") ;;
    LABEL) ;;
    *) fail "an instruction that this script does not know: $word" ;;
  esac
done < <(sed -e '/^#/d' -e '/^$/d' "$tree/apps/recipes/Dockerfile" | sed -e ':a' -e '/\\$/{N;s/\\\n *//;ta' -e '}')

[ "$user" != root ] || fail "the image's user is root, whom mpirun refuses"
[ -n "$command" ] || fail "the image has no command"
run "$command >/dev/null"
run 'mpirun --oversubscribe -n 2 reprieve-heat --grid 16,16,16 --steps 20 --progress 0'
run 'mpirun --oversubscribe -n 2 python3 -c "from mpi4py import MPI
import reprieve
with reprieve.Handler(MPI.COMM_WORLD, \"python\", {\"n\": 0}) as h: h.request_checkpoint(); h.boundary()" && reprieve verify python'
echo "Dockerfile: built and run in Debians of its own"
