// SPDX-License-Identifier: BSD-3-Clause
#include "storage/write/versions.hpp"

#include <mpi.h>

#include <array>

#include "cluster/communicator.hpp"
#include "reprieve/version.hpp"
#include "storage/hdf5/hdf5_handle.hpp"

namespace reprieve::storage {

namespace {

/// "Open MPI v4.1.4" of a text that goes on with the package, the date and more.
std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  cluster::check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string version(text.data(), static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

std::string hdf5_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  check_hdf5(H5get_libversion(&major, &minor, &release), "ask HDF5 for its version");
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

}  // namespace

void fill_versions(FileMetadata& metadata) {
  metadata.library_version = REPRIEVE_VERSION;
  metadata.mpi_version = mpi_version();
  metadata.hdf5_version = hdf5_version();
}

}  // namespace reprieve::storage
