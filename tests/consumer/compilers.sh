#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Compiles the public headers, and programs that use them, with each of Debian's compilers that is installed, with warnings as
# errors. Nothing is linked. (That each header compiles alone is looked at once, by the build.)
#
#   compilers.sh [COMPILER...]      default: the oldest and newest of Debian 12 that can C++20, and those that are the default
#
# MPI_FLAGS are the options that say where mpi.h is; without them those of mpicxx.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Werror)
read -ra mpi <<<"${MPI_FLAGS:-$(mpicxx --showme:compile 2>/dev/null || mpicxx -show | grep -o ' -I[^ ]*' | tr '\n' ' ')}"
mpi=("${mpi[@]/#-I/-isystem}")  # what is wrong in mpi.h is not for us to say
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- g++-11 g++-12 g++ clang++-14 clang++-15 clang++-16 clang++

# compile COMPILER SOURCE OPTIONS...
compile() {
  local compiler=$1 source=$2
  shift 2
  if ! "$compiler" -fsyntax-only "${warnings[@]}" -I include "${mpi[@]}" "$@" "$source"; then
    echo "FAILED: $compiler $source" >&2
    return 1
  fi
}

# That the warnings are on: each compiler must refuse these.
refuses() {
  ! "$1" -fsyntax-only "${warnings[@]}" "${@:3}" "$2" 2>/dev/null || { echo "FAILED: $1 warns of nothing" >&2; return 1; }
}
echo 'int narrowed(double x) { return x; }' | tee "$work/bad.cpp" >"$work/bad.c"

# Those for Eigen, Kokkos, PETSc and Tpetra need these libraries; the tests of their own compile them.
headers() {
  find include/reprieve -name "*.h$1" ! -name eigen.hpp ! -name kokkos.hpp ! -name petsc.hpp \
    ! -name tpetra.hpp -printf '#include "reprieve/%f"\n' | sort
}
{ headers pp; headers ''; echo 'extern int not_empty;'; } >"$work/all.cpp"
{ headers ''; echo 'extern int not_empty;'; } >"$work/all.c"
more=(-Wshadow -Wsign-conversion)  # of a header, since it is compiled with the flags of others

with_compiler() {
  local cxx=$1 cc failed=0 standard source
  cc=${cxx/clang++/clang}
  cc=${cc/g++/gcc}
  refuses "$cxx" "$work/bad.cpp" -std=c++20 || failed=1
  refuses "$cc" "$work/bad.c" -std=c99 || failed=1
  for standard in c++20 c++2b; do
    compile "$cxx" "$work/all.cpp" -std=$standard "${more[@]}" || failed=1
  done
  for source in tests/consumer/consumer.cpp apps/guide/tutorial/heat.cpp; do
    compile "$cxx" "$source" -std=c++20 || failed=1
  done
  for standard in c99 c17; do
    compile "$cc" "$work/all.c" -std=$standard "${more[@]}" || failed=1
    for source in tests/consumer/consumer.c apps/guide/tutorial/heat.c; do
      compile "$cc" "$source" -std=$standard -D_POSIX_C_SOURCE=200809L || failed=1
    done
  done
  return $failed
}

result=0
tried=()
binaries=()
for compiler in "$@"; do
  binary=$(readlink -f "$(command -v "$compiler")")
  [ -n "$binary" ] || continue
  [[ " ${binaries[*]} " != *" $binary "* ]] || continue  # the default is one of the others
  echo "== $("$compiler" --version | head -n 1)"
  with_compiler "$compiler" || result=1
  tried+=("$compiler")
  binaries+=("$binary")
done
[ ${#tried[@]} -gt 0 ] || { echo "FAILED: none of these compilers is installed: $*" >&2; exit 1; }
echo "compilers: ${tried[*]}"
exit $result
