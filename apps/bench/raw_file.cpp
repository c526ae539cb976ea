// SPDX-License-Identifier: BSD-3-Clause
#include "raw_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "core/directory.hpp"

namespace reprieve::bench {

namespace {

constexpr std::size_t kChunk = std::size_t{4} << 20U;
constexpr unsigned kThreads = 4;
constexpr int kDontCache = 0x80;  ///< RWF_DONTCACHE, which older headers do not name

[[noreturn]] void fail(const std::string& action, const std::filesystem::path& path, int error_number) {
  throw std::system_error(error_number, std::generic_category(), "cannot " + action + " " + path.string());
}

off_t at(std::uint64_t offset) { return static_cast<off_t>(offset); }

/// Without a name; below 0 if there cannot be one.
core::Descriptor temporary_file(const std::filesystem::path& directory, int flags) {
  return core::Descriptor(  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
      ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
}

ssize_t write_with(int descriptor, std::span<const std::byte> bytes, std::uint64_t offset, int flags) {
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: pwritev2 only reads it
  return ::pwritev2(descriptor, &piece, 1, at(offset), flags);
}

bool uncached_works(const std::filesystem::path& directory) {
  const core::Descriptor file = temporary_file(directory, 0);
  const std::array<std::byte, 1> byte{};
  return file.get() >= 0 && write_with(file.get(), byte, 0, kDontCache) == 1;
}

}  // namespace

bool goes_past_cache(RawMethod method) { return method == RawMethod::direct_threads; }

int open_flags(RawMethod method) { return goes_past_cache(method) ? O_RDWR | O_DIRECT : O_RDWR; }

int open_flags(RawRead method) { return method == RawRead::direct_threads ? O_RDONLY | O_DIRECT : O_RDONLY; }

bool is_available(RawMethod method, const std::filesystem::path& directory) {
  switch (method) {
    case RawMethod::buffered:
    case RawMethod::started:
      return true;
    case RawMethod::uncached:
      return uncached_works(directory);
    case RawMethod::direct_threads:
      return temporary_file(directory, O_DIRECT).get() >= 0;
  }
  return false;
}

bool is_available(RawRead method, const std::filesystem::path& directory) {
  switch (method) {
    case RawRead::buffered:
    case RawRead::mapped:
      return true;
    case RawRead::direct_threads:
      return is_available(RawMethod::direct_threads, directory);
  }
  return false;
}

RawFile::RawFile(std::filesystem::path path, int flags)
    : path_(std::move(path)),
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
      descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, 0600)) {
  if (descriptor_ < 0) {
    fail("open", path_, errno);
  }
}

RawFile::~RawFile() { ::close(descriptor_); }

void RawFile::allocate(std::uint64_t size) const {
  if (::fallocate(descriptor_, 0, 0, at(size)) != 0 && ::ftruncate(descriptor_, at(size)) != 0) {
    fail("allocate", path_, errno);
  }
}

void RawFile::write(std::span<const std::byte> bytes, std::uint64_t offset, RawMethod method) const {
  switch (method) {
    case RawMethod::buffered:
    case RawMethod::started:
    case RawMethod::uncached:
      return write_buffered(bytes, offset, method);
    case RawMethod::direct_threads:
      return by_threads(bytes.size(), "write", [&](std::size_t begin, std::size_t size) {
        return ::pwrite(descriptor_, &bytes[begin], size, at(offset + begin));
      });
  }
}

void RawFile::read(std::span<std::byte> bytes, std::uint64_t offset, RawRead method) const {
  switch (method) {
    case RawRead::buffered:
      return read_buffered(bytes, offset);
    case RawRead::mapped:
      return read_mapped(bytes, offset);
    case RawRead::direct_threads:
      return by_threads(bytes.size(), "read", [&](std::size_t begin, std::size_t size) {
        return ::pread(descriptor_, &bytes[begin], size, at(offset + begin));
      });
  }
}

void RawFile::write_buffered(std::span<const std::byte> bytes, std::uint64_t offset, RawMethod method) const {
  const int flags = method == RawMethod::uncached ? kDontCache : 0;
  while (!bytes.empty()) {
    const ssize_t written = write_with(descriptor_, bytes.first(std::min(bytes.size(), kChunk)), offset, flags);
    if (written <= 0) {
      fail("write", path_, written < 0 ? errno : EIO);
    }
    if (method == RawMethod::started &&
        ::sync_file_range(descriptor_, at(offset), at(static_cast<std::uint64_t>(written)), SYNC_FILE_RANGE_WRITE) !=
            0) {
      fail("begin to write", path_, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void RawFile::read_buffered(std::span<std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(descriptor_, bytes.data(), std::min(bytes.size(), kChunk), at(offset));
    if (got <= 0) {
      fail("read", path_, got < 0 ? errno : EIO);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void RawFile::read_mapped(std::span<std::byte> bytes, std::uint64_t offset) const {
  if (bytes.empty()) {
    return;
  }
  void* const place = ::mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, descriptor_, at(offset));
  if (place == MAP_FAILED) {
    fail("map", path_, errno);
  }
  std::memcpy(bytes.data(), place, bytes.size());
  ::munmap(place, bytes.size());
}

template <class Transfer>
void RawFile::by_threads(std::size_t bytes, const char* action, Transfer&& transfer) const {
  std::atomic<std::size_t> next{0};
  std::atomic<int> error{0};
  const auto work = [&] {
    for (std::size_t begin = next.fetch_add(kChunk); begin < bytes && error == 0; begin = next.fetch_add(kChunk)) {
      const std::size_t size = std::min(kChunk, bytes - begin);
      errno = 0;
      if (transfer(begin, size) != static_cast<ssize_t>(size)) {
        error = errno == 0 ? EIO : errno;
      }
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back(work);
  }
  threads.clear();
  if (error != 0) {
    fail(action, path_, error);
  }
}

void RawFile::sync() const {
  if (::fsync(descriptor_) != 0) {
    fail("make durable", path_, errno);
  }
}

void RawFile::drop_from_cache() const {
  if (const int error = ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED); error != 0) {
    fail("drop from the page cache", path_, error);
  }
}

void settle(const std::filesystem::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);  // NOLINT
  if (descriptor < 0) {
    fail("open", directory, errno);
  }
  const int result = ::syncfs(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (result != 0) {
    fail("sync", directory, error);
  }
}

}  // namespace reprieve::bench
