#include "storage/posix_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "core/file_rights.hpp"
#include "core/interrupted.hpp"
#include "core/log.hpp"

namespace reprieve::storage {

namespace {

/// Linux transfers at most 2 GiB less a page per call; more would only be cut short.
constexpr std::size_t kMaxTransferBytes = std::size_t{1} << 30;

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return ErrorCode::no_space;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::permission;
    default:
      return ErrorCode::io;
  }
}

off_t file_offset(std::uint64_t offset) { return static_cast<off_t>(offset); }

/// " (12 bytes and 3 inodes available)" for messages; empty if that cannot be told.
std::string available_space(const std::filesystem::path& path) {
  struct statvfs status = {};
  if (::statvfs(path.c_str(), &status) != 0 && ::statvfs(path.parent_path().c_str(), &status) != 0) {
    return "";
  }
  return " (" + std::to_string(std::uint64_t{status.f_bavail} * status.f_frsize) + " bytes and " +
         std::to_string(status.f_favail) + " inodes available)";
}

}  // namespace

StorageError storage_error(const std::string& action, const std::filesystem::path& path, int error_number) {
  const bool is_full = code_of(error_number) == ErrorCode::no_space;
  return {code_of(error_number), "cannot " + action + " " + path.string() + ": " +
                                     std::generic_category().message(error_number) +
                                     (is_full ? available_space(path) : "")};
}

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

PosixFile PosixFile::open(const std::filesystem::path& path, int flags, const char* action) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  const int descriptor = core::uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, core::kOwnFile); });
  if (descriptor < 0) {
    throw storage_error(action, path, errno);
  }
  return {path, descriptor};
}

PosixFile PosixFile::open_to_read(const std::filesystem::path& path) {
  PosixFile file = open(path, O_RDONLY | O_NONBLOCK, "open");  // a FIFO must not make the open wait
  struct stat status = {};
  if (::fstat(file.descriptor_, &status) != 0) {
    throw storage_error("look at", path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw StorageError(ErrorCode::io, "cannot read " + path.string() + ": not a regular file");
  }
  return file;
}

PosixFile PosixFile::open_to_write(const std::filesystem::path& path) {
  return open(path, O_RDWR | O_NOFOLLOW, "open for writing");
}

std::optional<PosixFile> PosixFile::open_direct(const std::filesystem::path& path) {
  constexpr int flags = O_RDWR | O_DIRECT | O_CLOEXEC | O_NOFOLLOW;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  const int descriptor = core::uninterrupted([&] { return ::open(path.c_str(), flags); });
  if (descriptor >= 0) {
    return PosixFile(path, descriptor);
  }
  if (errno == EINVAL || errno == EOPNOTSUPP) {
    return std::nullopt;
  }
  throw storage_error("open for direct writing", path, errno);
}

bool PosixFile::is_in_memory() const {
  struct statfs status = {};
  if (::fstatfs(descriptor_, &status) != 0) {
    throw storage_error("look at the file system of", path_, errno);
  }
  return status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC;
}

bool PosixFile::leave_direct_mode() const {
  const int flags = ::fcntl(descriptor_, F_GETFL);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  return flags >= 0 && (flags & O_DIRECT) != 0 &&
         ::fcntl(descriptor_, F_SETFL, flags & ~O_DIRECT) == 0;  // NOLINT(cppcoreguidelines-pro-type-vararg)
}

PosixFile PosixFile::create(const std::filesystem::path& path) {
  return open(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, "create");
}

PosixFile PosixFile::create_in_memory() {
  const int descriptor = ::memfd_create("reprieve-layout", MFD_CLOEXEC);
  if (descriptor < 0) {
    throw storage_error("create", "a file in memory", errno);
  }
  return {"/proc/self/fd/" + std::to_string(descriptor), descriptor};
}

PosixFile::PosixFile(PosixFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

PosixFile& PosixFile::operator=(PosixFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

PosixFile::~PosixFile() {
  if (descriptor_ >= 0 && ::close(descriptor_) != 0) {
    core::log::error("closing {} failed: {}", path_.string(), std::generic_category().message(errno));
  }
}

void PosixFile::write_all(std::span<const std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransferBytes), file_offset(offset));
    if (written < 0) {
      const int error_number = errno;
      if (error_number == EINTR || (error_number == EINVAL && leave_direct_mode())) {
        continue;
      }
      throw storage_error("write", path_, error_number);
    }
    if (written == 0) {
      throw StorageError(ErrorCode::io, "cannot write " + path_.string() + ": the system accepts no bytes");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void PosixFile::read_all(std::span<std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data(), std::min(bytes.size(), kMaxTransferBytes), file_offset(offset));
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw storage_error("read", path_, errno);
    }
    if (got == 0) {
      throw CorruptError(path_.string() + " ends at byte " + std::to_string(offset) + ", before its data does");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::uint64_t PosixFile::size() const {
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) {
    throw storage_error("look at", path_, errno);
  }
  return static_cast<std::uint64_t>(status.st_size);
}

void PosixFile::allocate(std::uint64_t size) const {
  if (core::uninterrupted([&] { return ::fallocate(descriptor_, 0, 0, file_offset(size)); }) == 0) {
    return;
  }
  const int error_number = errno;
  if (error_number == ENOSPC && owns(size)) {
    return;  // XFS asks for free space even where nothing is missing
  }
  if (error_number != EOPNOTSUPP && error_number != ENOSYS) {
    const StorageError cause = storage_error("allocate", path_, error_number);
    throw StorageError(cause.code(), std::string(cause.what()) + "; " + std::to_string(size) + " bytes needed");
  }
  if (core::uninterrupted([&] { return ::ftruncate(descriptor_, file_offset(size)); }) != 0) {
    throw storage_error("set the length of", path_, errno);
  }
}

/// Whether the file has that length, and all the blocks for it.
bool PosixFile::owns(std::uint64_t size) const {
  constexpr std::uint64_t block = 512;  // the unit of st_blocks
  struct stat status = {};
  return ::fstat(descriptor_, &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= size &&
         static_cast<std::uint64_t>(status.st_blocks) * block >= size;
}

void PosixFile::shorten(std::uint64_t size) const {
  if (core::uninterrupted([&] { return ::ftruncate(descriptor_, file_offset(size)); }) != 0) {
    throw storage_error("shorten", path_, errno);
  }
}

bool PosixFile::is_shared() const {
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) {
    throw storage_error("look at", path_, errno);
  }
  // A lease for writing is given only if nobody else has the file open. Who opens it just then makes the kernel send a
  // signal, which must be one that does nothing.
  // NOLINTBEGIN(cppcoreguidelines-pro-type-vararg)
  if (::fcntl(descriptor_, F_SETSIG, SIGWINCH) != 0 || ::fcntl(descriptor_, F_SETLEASE, F_WRLCK) != 0) {
    return status.st_nlink != 1 || errno == EAGAIN || errno == EBUSY;
  }
  return ::fcntl(descriptor_, F_SETLEASE, F_UNLCK) != 0 || status.st_nlink != 1;
  // NOLINTEND(cppcoreguidelines-pro-type-vararg)
}

void PosixFile::start_writeback() const noexcept {
  // A hint: file systems that do not know it lose nothing, and fsync reports each failed write.
  static_cast<void>(::sync_file_range(descriptor_, 0, 0, SYNC_FILE_RANGE_WRITE));
}

void PosixFile::sync() const {
  // Not repeated after a failure, unless a signal came: the kernel may have dropped the pages that it could not write.
  if (core::uninterrupted([&] { return ::fsync(descriptor_); }) != 0) {
    throw storage_error("make durable", path_, errno);
  }
}

void PosixFile::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0 && errno != EINTR) {  // interrupted: closed all the same
    throw storage_error("close", path_, errno);
  }
}

}  // namespace reprieve::storage
