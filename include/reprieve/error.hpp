// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The exceptions of the library. A collective call throws the same exception (type, message, origin rank) on every
/// rank, whichever rank met the problem.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprieve/export.h"

namespace reprieve {

/// What went wrong, as a number that can travel between ranks and into an exit code or an event log.
enum class ErrorCode : std::int32_t {
  config = 1,      ///< a setting is unknown, of the wrong type or out of range
  usage = 2,       ///< the interface was used against its rules
  io = 3,          ///< a file system call failed, or a device
  no_space = 4,    ///< disk full or over quota
  permission = 5,  ///< missing rights, or a read-only file system
  locked = 6,      ///< another living run uses the checkpoint directory
  corrupt = 7,     ///< a checkpoint file is corrupt
  mismatch = 8,    ///< a valid checkpoint does not fit the registered state
  mpi = 9,         ///< an MPI call failed
  cluster = 10,    ///< the application failed on some rank
  // 11 is not used: it was the end of a grace period, which nothing ever reported.
  unresponsive = 12,  ///< ranks did not come to a collective call in time
  internal = 13,      ///< a promise inside the library was broken: please report it
  no_memory = 14,     ///< a rank could not get the memory that the library asked for
};

/// Lower-case name of a code, for logs ("no_space").
REPRIEVE_EXPORT const char* to_string(ErrorCode code) noexcept;

/// Base of all exceptions that the library throws.
class REPRIEVE_EXPORT Error : public std::runtime_error {
 public:
  /// @param message  gets the code of its entry on the page Troubleshooting, " [RPV-0101]", at the end of its first
  ///     line, unless it has one or the page has no entry
  Error(ErrorCode code, const std::string& message, int origin_rank = -1);

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

  /// Rank (of the communicator in use) that met the problem, or -1 if it is not tied to one.
  [[nodiscard]] int origin_rank() const noexcept { return origin_rank_; }

 private:
  ErrorCode code_;
  int origin_rank_;
};

/// A setting is wrong; the message names the key and what is allowed.
class REPRIEVE_EXPORT ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message, int origin_rank = -1)
      : Error(ErrorCode::config, message, origin_rank) {}
};

/// The interface was used against its rules, for example when ranks call a different number of times.
class REPRIEVE_EXPORT UsageError : public Error {
 public:
  explicit UsageError(const std::string& message, int origin_rank = -1)
      : Error(ErrorCode::usage, message, origin_rank) {}
};

/// A file system operation failed, or a copy from or to a device. The code names the cause: io, no_space, permission or
/// locked.
class REPRIEVE_EXPORT StorageError : public Error {
 public:
  StorageError(ErrorCode code, const std::string& message, int origin_rank = -1) : Error(code, message, origin_rank) {}
};

/// A checkpoint file is corrupt or not a checkpoint; the message names the file and the position.
class REPRIEVE_EXPORT CorruptError : public Error {
 public:
  explicit CorruptError(const std::string& message, int origin_rank = -1)
      : Error(ErrorCode::corrupt, message, origin_rank) {}
};

/// A valid checkpoint does not fit the registered state; the message lists every difference, a line each.
class REPRIEVE_EXPORT MismatchError : public Error {
 public:
  explicit MismatchError(const std::string& message, int origin_rank = -1)
      : Error(ErrorCode::mismatch, message, origin_rank) {}
};

/// An MPI call failed.
class REPRIEVE_EXPORT MpiError : public Error {
 public:
  explicit MpiError(const std::string& message, int origin_rank = -1) : Error(ErrorCode::mpi, message, origin_rank) {}
};

/// The application threw on one rank; every rank gets that rank's message.
class REPRIEVE_EXPORT ClusterError : public Error {
 public:
  explicit ClusterError(const std::string& message, int origin_rank = -1)
      : Error(ErrorCode::cluster, message, origin_rank) {}
};

/// Ranks did not come to a collective call within its time limit. After it the communicator cannot be used any more:
/// the process should end (without MPI_Finalize, which would wait for the missing ranks as well).
class REPRIEVE_EXPORT UnresponsiveError : public Error {
 public:
  UnresponsiveError(const std::string& message, std::vector<int> missing_ranks, int origin_rank = -1)
      : Error(ErrorCode::unresponsive, message, origin_rank), missing_ranks_(std::move(missing_ranks)) {}

  /// The ranks that did not come, in ascending order; empty if it is this rank that came too late.
  [[nodiscard]] const std::vector<int>& missing_ranks() const noexcept { return missing_ranks_; }

 private:
  std::vector<int> missing_ranks_;
};

/// Throws the exception type that belongs to @p code.
[[noreturn]] REPRIEVE_EXPORT void throw_error(ErrorCode code, const std::string& message, int origin_rank);

}  // namespace reprieve
