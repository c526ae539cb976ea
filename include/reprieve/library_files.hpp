// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// State of a library that the program reaches only as files: those that the library writes and reads together on all
/// ranks, as deal.II and p4est do.

#include <mpi.h>

#include <filesystem>
#include <functional>
#include <string>

#include "reprieve/checkpoint.hpp"
#include "reprieve/export.h"

namespace reprieve {

/// The two calls of the library. Each runs on all ranks at the same time, on the thread that saves or restores. The
/// paths of all files begin with @p prefix; files, but no folders.
struct FileFunctions {
  std::function<void(const std::string& prefix)> write = {};
  std::function<void(const std::string& prefix)> read = {};
};

/// Registers what @p functions write: a per-rank variable, of which each rank has an even share of the bytes of all
/// files. It is restored on any number of ranks on which the library itself can read its files.
///
///     reprieve::add_files(state, "mesh", MPI_COMM_WORLD, "/scratch/me",
///                         {.write = [&](const std::string& prefix) { mesh.save(prefix); },
///                          .read = [&](const std::string& prefix) { mesh.load(prefix); }});
///
/// A save lets the library write into a new folder of @p directory, and moves the content into the checkpoint. A
/// restore writes the files again, and `read` runs where functions of `when_values_restored` do. In the end the folder
/// is removed; a job that is killed meanwhile leaves it there. All ranks must throw where one of them throws in `write`
/// or `read`: the others would wait in the library.
///
/// Not collective, but saves and restores use MPI on @p comm, which has the ranks of the manager, in the same order.
/// @param directory  that all ranks see, with room for the files; it is there already. Other jobs may use it as well
/// @throws UsageError if the name is not allowed, or a function is missing; StorageError without the directory. In a
///         save or a restore all ranks throw: StorageError with the file; UsageError if the library wrote no file, or a
///         folder
/// Cost: the library's own calls; each byte is written and read once more; a rank's share in memory, for a moment
/// twice.
REPRIEVE_EXPORT void add_files(Checkpoint& state, const std::string& name, MPI_Comm comm,
                               const std::filesystem::path& directory, FileFunctions functions);

}  // namespace reprieve
