// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/version_details.hpp"

#include <mpi.h>

#include <array>

#include "core/version_details.hpp"

namespace reprieve {
namespace {

/// The first line of it: MPICH continues with how it was configured.
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
  VersionDetails details = core::built_details();
  details.mpi = running_mpi();
  return details;
}

}  // namespace reprieve
