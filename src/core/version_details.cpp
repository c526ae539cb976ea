// SPDX-License-Identifier: BSD-3-Clause
// The build says it by REPRIEVE_BUILT_... (package/version_details.cmake).

#include "core/process.hpp"
#include "reprieve/version.hpp"

namespace reprieve {

VersionDetails core::built_details() {
  return {REPRIEVE_VERSION, REPRIEVE_BUILT_COMMIT, "not used", REPRIEVE_BUILT_HDF5, REPRIEVE_BUILT_OPTIONS};
}

std::string to_text(const VersionDetails& details) {
  return "reprieve " + details.version + "\ncommit   " + details.commit + "\nMPI      " + details.mpi + "\nHDF5     " +
         details.hdf5 + "\noptions  " + details.options + "\n";
}

}  // namespace reprieve
