#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs of a user's with much beside Reprieve (everything.cpp), with two shared libraries that use it (parts.cpp), in C and
# in Fortran: built by pkg-config with each compiler that is there, with the shared and with the static library, and run on
# one rank. The output is a table of what was built how. All with a copy of the installed tree at another place.
#
#   matrix.sh PREFIX FOLDER      PREFIX: where Reprieve is installed; FOLDER: to work in, emptied first
#
# HDF5_CFLAGS and HDF5_LIBS are the options for HDF5 (default: those of pkg-config for hdf5-openmpi). CMAKE_ARGUMENTS are given
# to cmake.
set -uo pipefail
prefix=$(cd "$1" && pwd) folder=$2
source=$(cd "$(dirname "$0")" && pwd)
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder" || exit
folder=$PWD

cp -a "$prefix" moved
libraries=$(dirname "$(find "$folder/moved" -name libreprieve.a)")
export PKG_CONFIG_PATH=$libraries/pkgconfig LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export ASAN_OPTIONS=detect_leaks=0  # those of MPI
export CCACHE_BASEDIR=$folder CCACHE_NOHASHDIR=1
ccache=$(command -v ccache)
read -ra cmake_arguments <<<"${CMAKE_ARGUMENTS:-}"
read -ra cflags <<<"$(pkg-config --cflags reprieve eigen3) ${HDF5_CFLAGS-$(pkg-config --cflags hdf5-openmpi)}"
read -ra hdf5_libs <<<"${HDF5_LIBS-$(pkg-config --libs hdf5-openmpi)}"
read -ra shared_libs <<<"$(pkg-config --libs reprieve)"
read -ra static_libs <<<"$(pkg-config --libs reprieve-static)"
mpi_libs=()
for word in "${shared_libs[@]}"; do
  [[ $word == -L* || $word == -lreprieve ]] || mpi_libs+=("$word")
done

line='%-10s %-11s %-9s %-22s %-7s %-9s %s\n'
failed=0

# row PROGRAM COMPILER STANDARD FLAGS LIBRARY COMMAND...: one of the table. The command makes the file PROGRAM.
row() {
  local program=$1 words=("${@:1:5}") result=right size=-
  shift 5
  rm -rf checkpoints "$program"
  if ! "$@" >row.log 2>&1; then
    result="NO BUILD"
  elif ! timeout -k 3 120 "./$program" 5 >>row.log 2>&1 || ! grep -q '^ *finished, and right$' row.log; then
    result="WRONG"
  elif [ "${words[4]}" = static ] && ldd "$program" | grep -q libreprieve; then
    result="SHARED"
  fi
  [ ! -e "$program" ] || size=$(($(stat -c %s "$program") / 1000))
  [ "$result" = right ] || { failed=1; sed 's/^/  | /' row.log >&2; }
  # shellcheck disable=SC2059
  printf "$line" "${words[@]}" "$result" "$size"
}

# The other versions of fmt and nlohmann/json (neighbours.cpp).
make_other_versions() {
  local name header
  mkdir other
  for name in nlohmann/json.hpp fmt/format.h; do
    header=$(echo "#include <$name>" | g++ -E -x c++ - | sed -n "s|^# 1 \"\(/.*/$name\)\".*|\1|p" | head -n 1)
    cp -rL "$(dirname "$header")" other || return
  done
  sed -i -E 's/(define NLOHMANN_JSON_VERSION_PATCH) [0-9]+/\1 99/' other/nlohmann/detail/abi_macros.hpp
  sed -i -E 's/^ *value_t m_type = value_t::null;/unsigned long long other_layout = 7;\n&/' other/nlohmann/json.hpp
  sed -i -E 's/inline namespace v[0-9]+/&0/; s/^  T\* ptr_;/  long other_layout = 7;\n&/' other/fmt/*.h
}

# compile OBJECT SOURCE COMPILER OPTIONS...
compile() {
  # shellcheck disable=SC2086
  $ccache "${@:3}" "${cflags[@]}" -c "$source/$2" -o "$1" || rm -f "$1"
}

# everything COMPILER STANDARD FLAGS LIBRARY...: compiled once, linked with each. neighbours.cpp, which takes longest, is compiled
# once for each kind of compiler.
everything() {
  local compiler=$1 standard=$2 flags library
  command -v "$compiler" >/dev/null || return 0
  read -ra flags <<<"$3"
  compile everything.o everything.cpp "$compiler" -std="$standard" "${flags[@]}"
  for library in "${@:4}"; do
    local -n libs=${library}_libs
    row everything "$compiler" "$standard" "$3" "$library" "$compiler" "${flags[@]}" -pthread everything.o \
      "neighbours_${compiler%%++*}.o" -o everything "${libs[@]}" "${hdf5_libs[@]}"
  done
}

# link_parts LIBRARY [FLAG]: two shared libraries, each linked with the library.
link_parts() {
  local -n libs=$1_libs
  local part
  for part in first second; do
    g++ -shared $part.o ${2:+"$2"} -o lib$part.so "${libs[@]}" || return
  done
  g++ parts.o -o parts -L . -lfirst -lsecond -Wl,-rpath,"\$ORIGIN" "${mpi_libs[@]}"
}
parts() {
  local part
  for part in first second; do
    compile $part.o part.cpp g++ -std=c++20 -O0 -fPIC -D PART=$part
  done
  compile parts.o parts.cpp g++ -std=c++20
  row parts g++ c++20 "" shared link_parts shared
  row parts g++ c++20 "" static link_parts static
  row parts g++ c++20 -Wl,--exclude-libs static link_parts static -Wl,--exclude-libs,ALL
}

# C by clang, and by CMake in a project without C++. By the usual compilers: ../try.sh.
in_c() {
  if command -v clang >/dev/null; then
    row in_c clang c99 -O2 shared clang -std=c99 -O2 "$source/../consumer.c" -o in_c "${cflags[@]}" "${shared_libs[@]}"
    row in_c clang c99 -O2 static clang -std=c99 -O2 "$source/../consumer.c" -o in_c "${cflags[@]}" "${static_libs[@]}"
  fi
  mkdir c
  cat >c/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(in_c LANGUAGES C)
find_package(reprieve CONFIG REQUIRED)
add_executable(in_c consumer.c)
target_link_libraries(in_c PRIVATE reprieve::${LIBRARY})
END
  cp "$source/../consumer.c" c
  local library
  for library in reprieve static; do
    row in_c cmake c99 "" ${library/reprieve/shared} make_in_c $library
  done
}
make_in_c() {
  cmake -S c -B c/build -D CMAKE_PREFIX_PATH="$folder/moved" -D LIBRARY="$1" "${cmake_arguments[@]}" &&
    cmake --build c/build && cp c/build/in_c .
}

in_fortran() {
  local library package words
  [ -e "$PKG_CONFIG_PATH/reprieve-fortran.pc" ] && command -v gfortran >/dev/null || return 0
  for library in shared static; do
    package=reprieve-fortran-$library
    read -ra words <<<"$(pkg-config --cflags --libs "${package%-shared}")"
    row in_fortran gfortran f2018 -O2 $library gfortran -O2 "$source/../consumer.f90" -o in_fortran "${words[@]}"
  done
}

# As a place that has the static library alone has it: the usual words of pkg-config lead to it.
static_alone() {
  local words
  rm "$libraries"/libreprieve.so*
  read -ra words <<<"$(pkg-config --static --cflags --libs reprieve)"
  row alone gcc c99 "pkg-config --static" static gcc "$source/../consumer.c" -o alone "${words[@]}"
}

# A library that has a symbol of the standard library as its own must not go unnoticed. Of a symbol that all share, `u`.
must_fail() {
  local symbol
  symbol=$(nm everything.o | sed -n 's/.* u \(_Z[ZN].*\)$/\1/p' | head -n 1)
  echo "const char digits[201] asm(\"$symbol\") = {};" >digits.c
  gcc -c digits.c
  if [ -z "$symbol" ] || g++ -pthread everything.o neighbours_g.o digits.o -o clash "${static_libs[@]}" "${hdf5_libs[@]}" 2>clash.log ||
    ! grep -q 'multiple definition' clash.log; then
    echo "FAILED: a symbol that is there twice goes unnoticed" >&2
    failed=1
  fi
}

make_other_versions || exit
compile neighbours_g.o neighbours.cpp g++ -std=c++20 -O0 -I other -D FMT_HEADER_ONLY
# shellcheck disable=SC2059
printf "$line" program compiler standard flags library result kB
everything g++ c++20 -O0 static shared
must_fail
parts
in_c
in_fortran
everything g++ c++20 "-O0 -fsanitize=address" static shared
everything g++ c++2b "-O3 -flto" static shared
for compiler in g++-11 g++-13 g++-14; do
  everything $compiler c++20 -O0 static
done
if command -v clang++ >/dev/null; then
  compile neighbours_clang.o neighbours.cpp clang++ -std=c++2b -O3 -I other -D FMT_HEADER_ONLY
  everything clang++ c++2b -O3 static shared
  for compiler in clang++-15 clang++-16 clang++-19; do
    everything $compiler c++20 -O0 static
  done
fi
static_alone
exit $failed
