// SPDX-License-Identifier: BSD-3-Clause
// The build says the rest by REPRIEVE_BUILT_... (package/version_details.cmake).

#include "reprieve/version_details.hpp"

#include <mpi.h>

#include <array>

#include "reprieve/version.hpp"

namespace reprieve {
namespace {

/// The first line of it: MPICH goes on with how it was configured.
std::string running_mpi() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) {
    return "unknown";
  }
  const std::string whole(text.data());  // Open MPI counts the zero at its end in the length
  return whole.substr(0, whole.find_first_of("\r\n"));
}

}  // namespace

VersionDetails version_details() {
  return {REPRIEVE_VERSION, REPRIEVE_BUILT_COMMIT, running_mpi(), REPRIEVE_BUILT_HDF5, REPRIEVE_BUILT_OPTIONS};
}

std::string to_text(const VersionDetails& details) {
  return "reprieve " + details.version + "\ncommit   " + details.commit + "\nMPI      " + details.mpi + "\nHDF5     " +
         details.hdf5 + "\noptions  " + details.options + "\n";
}

}  // namespace reprieve
