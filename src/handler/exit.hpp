// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The error file that a job leaves, the processes of its host, and leaving by oneself. The public ways to leave are
/// in termination_config.hpp.

#include <mpi.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/directory.hpp"

namespace reprieve::handler {

// The error file beside the checkpoints: what a supervisor or a person finds when a job ended with an error.

struct ErrorReport {
  int rank = 0;
  std::string host;
  std::uint64_t run_calls = 0;
  std::string message;
};

/// Writes `<directory>/error.json` (rank, host, run_calls, message, time). Failing ranks race for it and the last one
/// wins; each writes a whole file. A failure to write is logged, since the error itself matters more.
void write_error_report(const core::Directory& directory, const ErrorReport& report) noexcept;

/// Removes the file of an earlier run.
void remove_error_report(const core::Directory& directory) noexcept;

/// A process of another rank on this host. Its start distinguishes it from a later process with the same number.
struct Neighbour {
  pid_t pid = 0;
  std::uint64_t start = 0;  ///< see core::ProcessStat
};
/// All of them; none if they cannot be learned in 10 s. Collective.
[[nodiscard]] std::vector<Neighbour> neighbours(MPI_Comm comm);

/// Ends this process with @p exit_code after a save, and waits for no other rank. Not collective.
[[noreturn]] void leave_alone(int exit_code) noexcept;

}  // namespace reprieve::handler
