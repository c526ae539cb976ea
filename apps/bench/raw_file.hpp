#pragma once

/// @file
/// The physical limit: the state's bytes written and read with nothing around them.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace reprieve::bench {

enum class RawMethod { buffered, direct_threads, io_uring };

/// False if this build or this file system cannot do it.
[[nodiscard]] bool is_available(RawMethod method, const std::filesystem::path& directory);

/// A file descriptor that closes itself. Every failure is a std::system_error with the path.
class RawFile {
 public:
  /// @param flags  for open(2)
  RawFile(std::filesystem::path path, int flags);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  void allocate(std::uint64_t size) const;
  /// Offset, size and memory are multiples of the page size unless the method is `buffered`.
  void write(std::span<const std::byte> bytes, std::uint64_t offset, RawMethod method) const;
  void read(std::span<std::byte> bytes, std::uint64_t offset) const;
  void sync() const;
  /// Removes the file's pages from the page cache; the file must be durable.
  void drop_from_cache() const;

 private:
  void write_buffered(std::span<const std::byte> bytes, std::uint64_t offset) const;
  void write_by_threads(std::span<const std::byte> bytes, std::uint64_t offset) const;
  void write_by_ring(std::span<const std::byte> bytes, std::uint64_t offset) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// The flags with which a file is opened for a method, besides O_CREAT and the like.
[[nodiscard]] int open_flags(RawMethod method);

/// Writes back everything that waits in the page cache of a directory's file system, so that the next candidate does
/// not pay for the one before.
void settle(const std::filesystem::path& directory);

}  // namespace reprieve::bench
