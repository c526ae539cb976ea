// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A side file with which ParaView, VisIt and other programs that read XDMF open checkpoints directly.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "reprieve/export.h"

namespace reprieve {

/// How the arrays of a checkpoint lie in space and time. Lists are in the order of the dimensions of the dataset,
/// slowest-varying first (z, y, x), and apply to the arrays with as many dimensions.
struct XdmfOptions {
  /// A replicated number in the state: the time that a checkpoint stands for. Empty: its number.
  std::string time_variable{};
  std::vector<double> origin{};   ///< position of the first element; empty: 0
  std::vector<double> spacing{};  ///< distance of neighbours; empty: 1
};

/// What `write_xdmf` described.
struct XdmfReport {
  std::size_t checkpoints = 0;
  std::size_t arrays = 0;  ///< in all of them together
};

/// Writes @p file: an XDMF description of the committed checkpoints in @p directory, which names their datasets and
/// copies no data. It shows the distributed arrays of one to three dimensions, of integers and of float and double,
/// as values at the points of regular grids, one temporal collection for each shape. An existing file is replaced
/// atomically. The checkpoints are named relative to the file, so that the directory may be moved with it.
///
/// Describe the directory again after every save: retention removes files. Checkpoints that cannot be read are left
/// out, with a line in the log. Not collective: call it on one rank. Needs no lock, and MPI need not be initialised.
/// @throws StorageError; UsageError if no checkpoint has the time variable as a number
/// Cost: reads the tables of each checkpoint, some kilobytes, and no data.
REPRIEVE_EXPORT XdmfReport write_xdmf(const std::filesystem::path& directory, const std::filesystem::path& file,
                                      const XdmfOptions& options = {});

}  // namespace reprieve
