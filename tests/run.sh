#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs what is missing, builds, and runs the tests that matter most, or all of them.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tests/run.sh [--all] [--preset NAME] [--label REGEX] [--exclude REGEX] [--targets LIST] [--build-only] [--jobs N]
                    [--no-install]

Installs the packages that are missing (as root or with sudo), builds into build/NAME what is needed and runs the tests
that matter most (labels unit and quick): in less than 15 minutes on two cores.
  --all           all tests: also with many ranks, with all faults, in Slurm, and of the installed library
  --preset NAME   dev (default), release, asan (AddressSanitizer and UndefinedBehaviorSanitizer), tsan (ThreadSanitizer)
                  or fuzz (the fuzz targets, with clang)
  --label REGEX   only tests with such a label: unit, mpi, e2e, ... ("unit|mpi")
  --exclude REGEX  leave out tests with such a name
  --targets LIST  build only these ("unit_tests mpi_tests"), for a label that needs no more
  --build-only    build, and run no test
  --jobs N        compilers at a time (default: the number of cores). Twice as many tests, which mostly wait; two ranks
                  of a test count as one test
  --no-install    leave the packages alone
END
}

preset=dev
jobs=$(nproc)
install=yes
selection=(--label-regex "unit|quick")
excluded=()
targets=()
every_target=no
test=yes
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=${2:?--preset needs a name}; shift ;;
    --all) selection=() every_target=yes ;;
    --label) selection=(--label-regex "${2:?--label needs a label}") every_target=yes; shift ;;
    --exclude) excluded=(--exclude-regex "${2:?--exclude needs a name}"); shift ;;
    --targets) read -ra targets <<<"${2:?--targets needs names}"; targets=(--target "${targets[@]}"); shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --build-only) test=no ;;
    --no-install) install=no ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

[ ${#targets[@]} -gt 0 ] || [ $every_target = yes ] || targets=(--target quick_tests)

packages=(build tests)
case $preset in asan | fuzz | mpich-few) packages+=(lint) ;; esac  # clang
[ $install = no ] || apps/install-packages.sh "${packages[@]}"

if command -v ccache >/dev/null; then
  # A clone in another folder finds what this one compiled.
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
  export CCACHE_BASEDIR=${CCACHE_BASEDIR-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR-1}
fi
# Most tests start MPI, some dozens of times. With these variables a start on 2 ranks takes 0.2 s instead of 0.5 s: no search
# for networks, graphics and PCI devices, a known number of cores, and no shared memory for what PMIx passes on.
export OMPI_MCA_pml=${OMPI_MCA_pml-ob1} PMIX_MCA_gds=hash
export HWLOC_PLUGINS_BLACKLIST=hwloc_gl.so,hwloc_opencl.so,hwloc_pci.so,hwloc_xml_libxml.so
export HWLOC_THISSYSTEM=1 HWLOC_SYNTHETIC="core:$(nproc) pu:1"
if [ "$preset" = asan ]; then
  # The fast unwinder loses its way in MPI, and then no suppression matches; 12 frames are too few to reach MPI's libraries.
  # Where MPI's plugins have variables of a thread, the interceptor takes what it finds there for a size: the search for
  # leaks crashed.
  export ASAN_OPTIONS=${ASAN_OPTIONS-fast_unwind_on_malloc=0:malloc_context_size=20:intercept_tls_get_addr=0}
  export LSAN_OPTIONS=${LSAN_OPTIONS-suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0}
  export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
  export MPI_TEST_TIMEOUT_S=${MPI_TEST_TIMEOUT_S-300}
fi

if [ "$preset" = tsan ]; then
  export TSAN_OPTIONS=${TSAN_OPTIONS-suppressions=$PWD/tests/support/tsan.supp:ignore_noninstrumented_modules=1}
  export MPI_TEST_TIMEOUT_S=${MPI_TEST_TIMEOUT_S-300}
fi

# Where helpers of two files that are compiled as one collide, these files are compiled one by one (src/package/unity.cmake).
build() {
  local log=build/$preset/build.log units
  cmake --preset "$preset" -D REPRIEVE_BUILD_TESTS=ON
  if cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}" -- -k 0 2>&1 | tee "$log"; then
    return
  fi
  units=$(sed -n 's|^FAILED: .*/Unity/unity_\(.*\)_cxx\.cxx\.o.*|\1|p' "$log" | sort -u | paste -sd ';')
  [ -n "$units" ] || return 1
  echo "=== Not compiled: $units. Once more, with the files of these one by one."
  cmake --preset "$preset" -D "REPRIEVE_SEPARATE=$(sed -n 's/^REPRIEVE_SEPARATE:.*=//p' "build/$preset/CMakeCache.txt");$units"
  cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}"
  echo "=== Built, but the helpers of files in $units have the same names: rename one of each (tests/README.md)."
}

build
[ $test = yes ] || exit 0
ctest --preset "$preset" --parallel $((2 * jobs)) "${selection[@]}" "${excluded[@]}"
