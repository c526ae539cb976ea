#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: tests/run.sh [--preset NAME] [--label REGEX] [--exclude REGEX] [--targets LIST] [--jobs N] [--no-install]

Installs the packages that are missing (as root or with sudo), builds into build/NAME and runs the tests.
  --preset NAME   dev (default), release, asan (AddressSanitizer and UndefinedBehaviorSanitizer), tsan (ThreadSanitizer)
                  or fuzz (the fuzz targets, with clang)
  --label REGEX   only tests with such a label: unit, mpi, e2e, ... ("unit|mpi")
  --exclude REGEX  leave out tests with such a name
  --targets LIST  build only these ("unit_tests mpi_tests"), for a label that needs no more
  --jobs N        compilers and tests at a time (default: the number of cores); each rank of a test counts as one
  --no-install    leave the packages alone
END
}

preset=dev
jobs=$(nproc)
install=yes
selection=()
excluded=()
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --preset) preset=${2:?--preset needs a name}; shift ;;
    --label) selection=(--label-regex "${2:?--label needs a label}"); shift ;;
    --exclude) excluded=(--exclude-regex "${2:?--exclude needs a name}"); shift ;;
    --targets) read -ra targets <<<"${2:?--targets needs names}"; targets=(--target "${targets[@]}"); shift ;;
    --jobs) jobs=${2:?--jobs needs a number}; shift ;;
    --no-install) install=no ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

[ $install = no ] || apps/install-packages.sh build tests

if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
fi
if [ "$preset" = asan ]; then
  # The fast unwinder loses its way in MPI, and then no suppression matches.
  export ASAN_OPTIONS=${ASAN_OPTIONS-fast_unwind_on_malloc=0}
  export LSAN_OPTIONS=${LSAN_OPTIONS-suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0}
  export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
  export MPI_TEST_TIMEOUT_S=${MPI_TEST_TIMEOUT_S-180}
fi

if [ "$preset" = tsan ]; then
  export TSAN_OPTIONS=${TSAN_OPTIONS-suppressions=$PWD/tests/support/tsan.supp:ignore_noninstrumented_modules=1}
  export MPI_TEST_TIMEOUT_S=${MPI_TEST_TIMEOUT_S-300}
fi

cmake --preset "$preset" -D REPRIEVE_BUILD_TESTS=ON
cmake --build --preset "$preset" --parallel "$jobs" "${targets[@]}"
ctest --preset "$preset" --parallel "$jobs" "${selection[@]}" "${excluded[@]}"
