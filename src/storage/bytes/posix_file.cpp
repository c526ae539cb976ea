// SPDX-License-Identifier: BSD-3-Clause
#include "storage/bytes/posix_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>

#include "core/log.hpp"
#include "core/process.hpp"

namespace reprieve::storage {

namespace {

/// Linux transfers at most 2 GiB less a page per call; more would only be cut short.
constexpr std::size_t kMaxTransferBytes = std::size_t{1} << 30;

off_t file_offset(std::uint64_t offset) { return static_cast<off_t>(offset); }

}  // namespace

void check_file_size_limit(const std::filesystem::path& path, std::uint64_t size) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) {
    throw storage_error("tell the limit for the size of", path, errno);
  }
  if (limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur) {
    throw StorageError(ErrorCode::no_space, "cannot create " + path.string() + ": it needs " + std::to_string(size) +
                                                " bytes, but the limit for files (ulimit -f) is " +
                                                std::to_string(limit.rlim_cur) + " bytes");
  }
}

PosixFile PosixFile::open_to_read(const core::FileAddress& file) { return {file, file.open_to_read()}; }

PosixFile PosixFile::open_to_write(const core::FileAddress& file) { return {file, file.open(O_RDWR)}; }

PosixFile PosixFile::create(const core::FileAddress& file) {
  return {file, file.open(O_RDWR | O_CREAT | O_TRUNC, core::kOwnFile)};
}

std::optional<PosixFile> PosixFile::open_direct(const core::FileAddress& file) {
  PosixFile opened = open_to_write(file);
  // NOLINTBEGIN(cppcoreguidelines-pro-type-vararg)
  const int flags = ::fcntl(opened.descriptor(), F_GETFL);
  if (flags >= 0 && ::fcntl(opened.descriptor(), F_SETFL, flags | O_DIRECT) == 0) {
    return opened;
  }
  // NOLINTEND(cppcoreguidelines-pro-type-vararg)
  if (errno == EINVAL || errno == EOPNOTSUPP) {
    return std::nullopt;
  }
  throw storage_error("open for direct writing", file.path(), errno);
}

bool PosixFile::is_in_memory() const {
  struct statfs status = {};
  if (::fstatfs(descriptor(), &status) != 0) {
    throw storage_error("look at the file system of", path(), errno);
  }
  return status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC;
}

bool PosixFile::is(const PosixFile& other) const {
  const struct stat mine = status();
  const struct stat its = other.status();
  return mine.st_ino == its.st_ino && mine.st_dev == its.st_dev;
}

bool PosixFile::leave_direct_mode() const {
  const int flags = ::fcntl(descriptor(), F_GETFL);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  return flags >= 0 && (flags & O_DIRECT) != 0 &&
         ::fcntl(descriptor(), F_SETFL, flags & ~O_DIRECT) == 0;  // NOLINT(cppcoreguidelines-pro-type-vararg)
}

PosixFile PosixFile::create_in_memory() {
  core::Descriptor made(::memfd_create("reprieve-layout", MFD_CLOEXEC));
  if (!made.is_open()) {
    throw storage_error("create", "a file in memory", errno);
  }
  const std::string path = "/proc/self/fd/" + std::to_string(made.get());
  return {path, std::move(made)};
}

PosixFile::~PosixFile() {
  if (descriptor_.is_open() && ::close(descriptor_.release()) != 0) {
    core::log::error("closing {} failed: {}", path().string(), std::generic_category().message(errno));
  }
}

void PosixFile::write_all(std::span<const std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor(), bytes.data(), std::min(bytes.size(), kMaxTransferBytes), file_offset(offset));
    if (written < 0) {
      const int error_number = errno;
      if (error_number == EINTR || (error_number == EINVAL && leave_direct_mode())) {
        continue;
      }
      throw storage_error("write", path(), error_number);
    }
    if (written == 0) {
      throw StorageError(ErrorCode::io, "cannot write " + path().string() + ": the system accepts no bytes");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void PosixFile::read_all(std::span<std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(descriptor(), bytes.data(), std::min(bytes.size(), kMaxTransferBytes), file_offset(offset));
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw storage_error("read", path(), errno);
    }
    if (got == 0) {
      throw CorruptError(path().string() + " ends at byte " + std::to_string(offset) + ", before its data does");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

bool PosixFile::seems_cached(std::uint64_t offset, std::uint64_t size) const noexcept {
  for (const std::uint64_t at : {offset, offset + size / 2, offset + size - 1}) {
    std::byte byte{};
    const iovec room{&byte, 1};
    if (::preadv2(descriptor(), &room, 1, file_offset(at), RWF_NOWAIT) != 1) {
      return false;
    }
  }
  return true;
}

void PosixFile::read_and_digest(std::span<std::byte> bytes, std::uint64_t offset, Xxh3Stream* digest) const {
  while (!bytes.empty()) {
    const auto piece = bytes.first(digest == nullptr ? bytes.size() : std::min(bytes.size(), kCachedBytes));
    read_all(piece, offset);
    if (digest != nullptr) {
      digest->update(piece);
    }
    bytes = bytes.subspan(piece.size());
    offset += piece.size();
  }
}

void PosixFile::read_all_again(std::span<std::byte> bytes, std::uint64_t offset) const {
  // A hint: what is not dropped is read past by the direct way.
  static_cast<void>(::posix_fadvise(descriptor(), file_offset(offset), file_offset(bytes.size()), POSIX_FADV_DONTNEED));
  if (!read_from_device(bytes, offset)) {
    read_all(bytes, offset);
  }
}

core::Descriptor PosixFile::opened_again(int flags) const {
  const std::string self = "/proc/self/fd/" + std::to_string(descriptor());
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  return core::Descriptor(core::uninterrupted([&] { return ::open(self.c_str(), O_RDONLY | O_CLOEXEC | flags); }));
}

/// Reads past the page cache, in whole pages. False if the file system cannot do that, or the file ends too early.
bool PosixFile::read_from_device(std::span<std::byte> bytes, std::uint64_t offset) const {
  constexpr std::uint64_t page = 4096;
  constexpr std::uint64_t window = std::uint64_t{1} << 20U;
  core::Descriptor direct = opened_again(O_DIRECT);
  if (!direct.is_open()) {
    return false;
  }
  const PosixFile opened(address_, std::move(direct));
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(page, window), &std::free);
  if (!memory) {
    return false;
  }
  while (!bytes.empty()) {
    const std::uint64_t skipped = offset % page;
    const ssize_t got = core::uninterrupted(
        [&] { return ::pread(opened.descriptor(), memory.get(), window, file_offset(offset - skipped)); });
    if (got <= static_cast<ssize_t>(skipped)) {
      return false;
    }
    const std::size_t part = std::min(bytes.size(), static_cast<std::size_t>(got) - static_cast<std::size_t>(skipped));
    std::memcpy(bytes.data(), static_cast<const std::byte*>(memory.get()) + skipped, part);
    bytes = bytes.subspan(part);
    offset += part;
  }
  return true;
}

struct stat PosixFile::status() const {
  struct stat found = {};
  if (::fstat(descriptor(), &found) != 0) {
    throw storage_error("look at", path(), errno);
  }
  return found;
}

void PosixFile::allocate(std::uint64_t size) const {
  if (core::uninterrupted([&] { return ::fallocate(descriptor(), 0, 0, file_offset(size)); }) == 0) {
    return;
  }
  const int error_number = errno;
  if (error_number == ENOSPC && owns(size)) {
    return;  // XFS asks for free space even where nothing is missing
  }
  if (error_number != EOPNOTSUPP && error_number != ENOSYS) {
    const StorageError cause = storage_error("allocate", path(), error_number);
    throw StorageError(cause.code(), std::string(cause.what()) + "; " + std::to_string(size) + " bytes needed");
  }
  if (core::uninterrupted([&] { return ::ftruncate(descriptor(), file_offset(size)); }) != 0) {
    throw storage_error("set the length of", path(), errno);
  }
}

/// Whether the file has that length, and all the blocks for it.
bool PosixFile::owns(std::uint64_t size) const {
  constexpr std::uint64_t block = 512;  // the unit of st_blocks
  struct stat found = {};
  return ::fstat(descriptor(), &found) == 0 && static_cast<std::uint64_t>(found.st_size) >= size &&
         static_cast<std::uint64_t>(found.st_blocks) * block >= size;
}

void PosixFile::set_size(std::uint64_t size) const {
  if (core::uninterrupted([&] { return ::ftruncate(descriptor(), file_offset(size)); }) != 0) {
    throw storage_error("set the size of", path(), errno);
  }
}

bool PosixFile::is_shared() const {
  const nlink_t names = status().st_nlink;
  // A lease for writing is given only if nobody else has the file open. Who opens it just then makes the kernel send a
  // signal, which must be one that does nothing.
  // NOLINTBEGIN(cppcoreguidelines-pro-type-vararg)
  if (::fcntl(descriptor(), F_SETSIG, SIGWINCH) != 0 || ::fcntl(descriptor(), F_SETLEASE, F_WRLCK) != 0) {
    return names != 1 || errno == EAGAIN || errno == EBUSY;
  }
  return ::fcntl(descriptor(), F_SETLEASE, F_UNLCK) != 0 || names != 1;
  // NOLINTEND(cppcoreguidelines-pro-type-vararg)
}

void PosixFile::start_writeback() const noexcept {
  // A hint: file systems that do not know it lose nothing, and fsync reports each failed write.
  static_cast<void>(::sync_file_range(descriptor(), 0, 0, SYNC_FILE_RANGE_WRITE));
}

void PosixFile::sync() const {
  // Not repeated after a failure, unless a signal came: the kernel may have dropped the pages that it could not write.
  if (core::uninterrupted([&] { return ::fdatasync(descriptor()); }) != 0) {
    throw storage_error("make durable", path(), errno);
  }
}

void PosixFile::close() {
  if (descriptor_.is_open() && ::close(descriptor_.release()) != 0 &&
      errno != EINTR) {  // interrupted: closed all the same
    throw storage_error("close", path(), errno);
  }
}

void ProgressLogger::add(std::uint64_t bytes) noexcept {
  done_ += bytes;
  const auto now = Clock::now();
  if (now < next_) {
    return;
  }
  next_ = now + kInterval;
  try {
    core::log::info("{}: {}", what_, core::transfer_text(done_, total_, now - begin_));
  } catch (const std::bad_alloc&) {
    // The transfer itself must not fail for it.
  }
}

}  // namespace reprieve::storage
