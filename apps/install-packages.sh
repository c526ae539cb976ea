#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the Debian packages that Reprieve needs, as far as they are missing. The lists below are the only ones.
set -euo pipefail

usage() {
  cat <<'END'
usage: apps/install-packages.sh [GROUP...]

Installs the packages of the groups that are missing; does nothing, and needs no rights, if there are none.
Groups: build (the library and the programs; the default), tests, lint (clang-format, clang-tidy, sanitizers), mpich (MPICH beside
Open MPI, which stays the default of this machine), packages (to make and try Debian packages, and module files), docs (the site of the documentation),
torch and petsc (PyTorch; PETSc, petsc4py, DOLFINx, Trilinos; for the tests with them), rclone (for the tests with a server that keeps copies),
debian13 (to make a Debian 13, for .ci/debian13.sh), gridengine (Grid Engine, for the test with it; Debian 12).
Made for Debian 12 and 13. Elsewhere it names the packages, and leaves finding their like to you.
END
}

build_packages=(
  git g++ cmake ninja-build pkgconf ccache
  gfortran                                    # optional: the Fortran module
  openmpi-bin libopenmpi-dev openssh-client   # mpirun looks for ssh, on one machine too
  libhdf5-openmpi-dev hdf5-tools
  nlohmann-json3-dev libfmt-dev libxxhash-dev
  libblosc-dev                                # optional: compressed arrays
  libcurl4-openssl-dev                        # headers of what is loaded where a metadata server is asked
  libcli11-dev zlib1g-dev                     # the programs
  procps                                      # ps and pgrep, for the scripts
  help2man                                    # optional: man pages
)
tests_packages=(
  libgtest-dev libgmock-dev
  libeigen3-dev libtrilinos-kokkos-dev        # optional: the headers for programs that use these
  libtinyxml2-dev                             # reads what is written for ParaView
  python3-mpi4py python3-numpy                # the Python module
  python3-yaml                                # reads the recipes (apps/recipes)
  python3-venv python3-setuptools python3-wheel  # pip, from a build tree
  python3-h5py python3-h5netcdf python3-netcdf4 python3-xarray  # other programs that read checkpoints
  slurm-wlm                                   # the tests with Slurm start one of their own
  make libspdlog-dev                          # a user's program: its build, and a library of its own beside ours
  iproute2                                    # hosts of their own, as network namespaces
  mount e2fsprogs xfsprogs btrfs-progs        # file systems for the tests of faults
  libfuse3-dev fuse3                          # a disk that loses power
)
lint_packages=(
  clang-format clang-tidy
  clang libclang-rt-dev                       # the sanitizers: clang compiles for them much faster than gcc
)
mpich_packages=(mpich libmpich-dev libhdf5-mpich-dev)
packages_packages=(
  mmdebstrap                                  # bare systems, in which the packages are made (apps/make-packages.sh)
  environment-modules                         # the module file; takes the place of Lmod
)
docs_packages=(doxygen python3-sphinx furo python3-myst-parser python3-sphinx-copybutton python3-numpy)
debian13_packages=(mmdebstrap)
petsc_packages=(
  libpetsc-real-dev                           # 210 MB: the tests of reprieve/petsc.hpp
  python3-petsc4py python3-dolfinx            # 370 MB: those of vectors and functions in Python
  libtrilinos-tpetra-dev libtrilinos-teuchos-dev libtrilinos-kokkos-kernels-dev  # that of reprieve/tpetra.hpp
)
rclone_packages=(rclone)                      # 50 MB
gridengine_packages=(gridengine-master gridengine-exec gridengine-client)
torch_packages=(python3-torch)                # 600 MB with what it needs: the tests of apps/guide/pytorch

is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

wanted=()
[ $# -gt 0 ] || set -- build
for group in "$@"; do
  case $group in
    build | tests | lint | mpich | packages | docs | gridengine | debian13 | petsc | rclone | torch)
      declare -n packages=${group}_packages
      wanted+=("${packages[@]}")
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "This is not a Debian: the packages there are called ${wanted[*]}" >&2
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Missing, and this is neither root nor is there sudo. As root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
