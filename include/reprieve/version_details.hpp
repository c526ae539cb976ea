// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which library is running: what belongs into the report of a problem, and into the record of a run.

#include <string>

#include "reprieve/export.h"

namespace reprieve {

/// What the library that is running was made of.
struct VersionDetails {
  std::string version;  ///< "major.minor.patch"; REPRIEVE_VERSION is that of the headers
  std::string commit;   ///< of the source tree when it was configured, "-dirty" behind it if files were changed since;
                        ///< "unknown" if the source tree is no clone
  std::string mpi;      ///< the MPI library that is running, as it names itself
  std::string hdf5;     ///< the HDF5 that the library was built with, "1.10.8"
  std::string options;  ///< build type and options, "Release"
};

/// Reports which library is running. Before MPI_Init, too. Not collective; on any thread. Reads no file, uses no
/// network.
/// @throws std::bad_alloc
REPRIEVE_EXPORT VersionDetails version_details();

/// The same as text, as the programs print it for `--version`: five lines, each with a line feed at its end.
/// @throws std::bad_alloc
REPRIEVE_EXPORT std::string to_text(const VersionDetails& details);

}  // namespace reprieve
