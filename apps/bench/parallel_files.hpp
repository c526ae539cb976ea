// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The same state through plain parallel HDF5 and MPI-IO, as textbooks have it.

#include <mpi.h>

#include <filesystem>

#include "workload.hpp"

namespace reprieve::bench {

enum class Transfer { collective, independent };

/// Writes one dataset per variable into a new file, and returns when it is durable. Collective.
void save_hdf5(MPI_Comm comm, Workload& workload, const std::filesystem::path& file, Transfer transfer);

/// Reads it back into the workload. Collective.
void restore_hdf5(MPI_Comm comm, Workload& workload, const std::filesystem::path& file, Transfer transfer);

/// MPI_File_write_at_all of each rank's whole part, then MPI_File_sync. Collective.
void save_mpi_io(MPI_Comm comm, Workload& workload, const std::filesystem::path& file);

}  // namespace reprieve::bench
