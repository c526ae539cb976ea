// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The physical limit: the state's bytes written and read with nothing around them.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "core/directory.hpp"
#include "workload.hpp"

namespace reprieve::bench {

/// All but the last go through the page cache. To write: until fsync, with the writing begun after each piece
/// (sync_file_range), or leaving nothing there (RWF_DONTCACHE of Linux 6.14). To read: `mapped` copies from a mapping
/// of the file.
enum class RawMethod { buffered, started, uncached, mapped, direct_threads };

/// False if this kernel or this file system cannot do it.
[[nodiscard]] bool is_available(RawMethod method, const std::filesystem::path& directory);

/// An open file. Every failure is a std::system_error with the path.
class RawFile {
 public:
  /// @param flags  for open(2)
  RawFile(std::filesystem::path path, int flags);

  void allocate(std::uint64_t size) const;
  /// Offset, size and memory are multiples of the page size unless the method goes through the page cache.
  void write(std::span<const std::byte> bytes, std::uint64_t offset, RawMethod method) const;
  /// The same, and also if the method is `mapped`.
  void read(std::span<std::byte> bytes, std::uint64_t offset, RawMethod method) const;
  void sync() const;
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }

 private:
  std::filesystem::path path_;
  core::Descriptor descriptor_;
};

/// True for those that need whole pages.
[[nodiscard]] bool goes_past_cache(RawMethod method);

/// The flags with which a file is opened for a method, besides O_CREAT and the like.
[[nodiscard]] int open_flags(RawMethod method);

/// Makes the file durable and removes its pages from the page cache.
void drop_from_cache(const std::filesystem::path& file);
/// Reads the whole file through the page cache.
void read_into_cache(const std::filesystem::path& file);

/// Writes back everything that waits in the page cache of a directory's file system, so that the next candidate does
/// not pay for the one before.
void sync_file_system(const std::filesystem::path& directory);

// The same state through plain parallel HDF5, as textbooks have it, by collective transfers.

/// Writes one dataset per variable into a new file, and returns when it is durable. Collective.
void save_hdf5(MPI_Comm comm, Workload& workload, const std::filesystem::path& file);

/// Reads it back into the workload. Collective.
void restore_hdf5(MPI_Comm comm, Workload& workload, const std::filesystem::path& file);

}  // namespace reprieve::bench
