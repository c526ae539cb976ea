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
/// paths of all files begin with @p prefix; files, but no directories.
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
/// A save lets the library write into a new directory in @p directory, and moves the content into the checkpoint. A
/// restore writes the files again, and `read` runs where functions of `when_values_restored` do. In the end that
/// directory is removed; a job that is killed meanwhile leaves it there. All ranks must throw where one of them throws
/// in `write` or `read`: the others would wait in the library.
///
/// Collective over @p comm, which has the ranks of the manager, in the same order. Saves and restores use MPI on it.
/// @param directory  that all ranks see, with room for the files; it is there already. Other jobs may use it as well
/// @throws UsageError if the name is not allowed, or a function is missing. On all ranks: StorageError if one does not
///         see the directory; UsageError if the ranks call it in different orders. In a save or a restore, on all
///         ranks: StorageError with the file; UsageError if the library wrote no file, or a directory
/// Cost: the library's own calls; each byte is written and read once more; a rank's share in memory, for a moment
/// twice.
REPRIEVE_EXPORT void add_files(Checkpoint& state, const std::string& name, MPI_Comm comm,
                               const std::filesystem::path& directory, FileFunctions functions);

}  // namespace reprieve
