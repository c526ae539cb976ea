// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Several writes to one file under way at a time. No MPI, no HDF5.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "storage/bytes/posix_file.hpp"

namespace reprieve::storage {

/// Memory on its way to the file; it must stay as it is until `wait` has returned its tag.
struct PendingWrite {
  std::span<const std::byte> bytes;
  std::uint64_t offset = 0;
  std::size_t tag = 0;
};

class WriteQueue {
 public:
  virtual ~WriteQueue() = default;
  /// Begins a write. At most `kMaxPendingWrites` may be under way.
  virtual void submit(const PendingWrite& write) = 0;
  /// Waits until one of the writes under way is done, and returns its tag. @throws StorageError if it failed
  virtual std::size_t wait() = 0;

 protected:
  WriteQueue() = default;
  WriteQueue(const WriteQueue&) = default;
  WriteQueue& operator=(const WriteQueue&) = default;
};

inline constexpr std::size_t kMaxPendingWrites = 5;

/// Writes by threads that call pwrite: by four, or as many as the system has left (ulimit -u, the pids limit of a
/// control group); nothing if there is none. Keeps a reference to @p file. The destructor waits for what is under way.
[[nodiscard]] std::unique_ptr<WriteQueue> make_thread_queue(const PosixFile& file);

/// Writes by io_uring; nothing if this build or this system does not have it. Otherwise the same.
[[nodiscard]] std::unique_ptr<WriteQueue> make_ring_queue(const PosixFile& file);

}  // namespace reprieve::storage
