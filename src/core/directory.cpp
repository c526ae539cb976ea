// SPDX-License-Identifier: BSD-3-Clause
#include "core/directory.hpp"

#include <dirent.h>
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <random>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "reprieve/error.hpp"

// The system calls below have variable arguments in C.
// NOLINTBEGIN(cppcoreguidelines-pro-type-vararg)

namespace reprieve::core {

namespace {

namespace fs = std::filesystem;

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// Deeper trees are nobody's checkpoints, and each level keeps a descriptor open.
constexpr int kDeepestTree = 64;

EntryKind kind_of(mode_t mode) noexcept {
  if (S_ISREG(mode)) {
    return EntryKind::file;
  }
  if (S_ISDIR(mode)) {
    return EntryKind::directory;
  }
  return S_ISLNK(mode) ? EntryKind::link : EntryKind::other;
}

/// @throws StorageError unless @p name is a single name: a path could lead out of the directory.
void check_name(const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    throw StorageError(ErrorCode::io, "\"" + name + "\" is not a name in a directory");
  }
}

/// Some file systems make names durable in their own way, and refuse to be asked. Says so once.
bool has_no_directory_sync(int error_number, const fs::path& directory) {
  if (error_number != EINVAL && error_number != EOPNOTSUPP && error_number != ENOSYS) {
    return false;
  }
  static std::atomic_flag warned;
  if (!warned.test_and_set()) {
    log::warning(
        "the file system of {} cannot make the names in a directory durable ({}): after a power cut the newest "
        "checkpoint may be missing there",
        directory.string(), std::generic_category().message(error_number));
  }
  return true;
}

void write_all(int descriptor, const std::string& text, const fs::path& path) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t result = uninterrupted([&] { return ::write(descriptor, text.data() + done, text.size() - done); });
    if (result < 0) {
      throw storage_error("write", path, errno);
    }
    done += static_cast<std::size_t>(result);
  }
}

int flags_for(int flags, Links links) noexcept {
  return flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | (links == Links::refused ? O_NOFOLLOW : 0);
}

/// Gives a file that was made just now the rights that the umask took away. Not to files of others or with content:
/// their rights are for their users to choose. @return an error number if the file cannot be examined, or 0
int give_rights(int descriptor, mode_t mode) noexcept {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) {
    return errno;
  }
  if (!S_ISREG(status.st_mode) || status.st_size != 0 || status.st_uid != ::geteuid() ||
      (mode & ~status.st_mode) == 0) {
    return 0;
  }
  if (::fchmod(descriptor, mode) != 0) {
    static_cast<void>(has_no_rights(errno));  // missing rights are reported when the file is read
  }
  return 0;
}

/// What has just been opened, if it is a regular file.
Descriptor checked_file(Descriptor opened, const fs::path& path, int flags, mode_t mode) {
  if (!opened.is_open()) {
    throw storage_error("open", path, errno);
  }
  struct stat status = {};
  if (::fstat(opened.get(), &status) != 0) {
    throw storage_error("look at", path, errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw StorageError(ErrorCode::io, "cannot open " + path.string() + ": not a regular file");
  }
  if (const int error_number = (flags & O_CREAT) != 0 ? give_rights(opened.get(), mode) : 0; error_number != 0) {
    throw storage_error("look at", path, error_number);
  }
  // Only the open was not to wait: some file systems take the flag to mean "refuse instead of waiting".
  if (const int held = ::fcntl(opened.get(), F_GETFL);
      held < 0 || ::fcntl(opened.get(), F_SETFL, held & ~O_NONBLOCK) != 0) {
    throw storage_error("open", path, errno);
  }
  return opened;
}

/// A server of network files may have lent the file to a client, and takes a moment to ask for it back: that alone is
/// waited for. @param status_of  0 if the status is known
template <class Open, class Status>
Descriptor open_without_waiting(int flags, Open&& open, Status&& status_of) {
  constexpr int kMostTries = 6'000;  // a minute: the kernel gives a client three quarters of it
  Descriptor opened(uninterrupted([&] { return open(flags); }));
  for (int tries = 0; !opened.is_open() && errno == EWOULDBLOCK && tries < kMostTries; ++tries) {
    struct stat status = {};
    if (status_of(status) != 0 || !S_ISREG(status.st_mode)) {
      errno = EWOULDBLOCK;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    opened = Descriptor(uninterrupted([&] { return open(flags); }));
  }
  return opened;
}

void remove_tree_below(const Directory& directory, const std::string& name, int depth) {
  if (::unlinkat(directory.descriptor(), name.c_str(), 0) == 0 || errno == ENOENT) {
    return;
  }
  const int refused = errno;  // Linux says EISDIR of directories, POSIX EPERM
  const bool may_be_directory = refused == EISDIR || refused == EPERM;
  if (const auto below = may_be_directory ? directory.find_directory(name) : std::nullopt) {
    if (depth == 0) {
      throw StorageError(ErrorCode::io, "cannot remove " + below->path().string() + ": it is too deep");
    }
    for (const DirectoryEntry& entry : below->list()) {
      remove_tree_below(*below, entry.name, depth - 1);
    }
  } else if (!may_be_directory || directory.contains(name)) {
    throw storage_error("remove", directory.path() / name, refused);
  }
  if (!directory.remove_empty_directory(name) && directory.contains(name)) {
    throw storage_error("remove", directory.path() / name, ENOTEMPTY);
  }
}

/// What has just been made. Nothing if somebody has removed it in this moment.
std::optional<Directory> open_made(const Directory& above, const std::string& name, mode_t mode) {
  // The umask may have taken rights away, also the owner's own. Without them the directory cannot be opened, so this
  // one call goes by the name: it was made a moment ago, and a link that was put there since is not followed.
  if (const auto made = above.status_of(name);
      made && S_ISDIR(made->st_mode) && (made->st_mode & 0700U) != (mode & 0700U) &&
      ::fchmodat(above.descriptor(), name.c_str(), mode | (made->st_mode & S_ISGID), AT_SYMLINK_NOFOLLOW) != 0 &&
      errno != ENOENT && !has_no_rights(errno)) {
    throw storage_error("set the rights of", above.path() / name, errno);
  }
  std::optional<Directory> directory = above.find_directory(name);
  if (!directory) {
    return std::nullopt;
  }
  const struct stat made = directory->status();
  // Some file systems give everything in a directory to the owner of that.
  if (made.st_uid != ::geteuid() && made.st_uid != above.status().st_uid) {
    throw StorageError(ErrorCode::permission, "cannot use " + directory->path().string() +
                                                  ": somebody else has put a directory there in this moment");
  }
  // What lies in a directory with S_ISGID has its group: the bit comes from the one above, and stays.
  if ((made.st_mode & 0777U) != mode && ::fchmod(directory->descriptor(), mode | (made.st_mode & S_ISGID)) != 0) {
    static_cast<void>(has_no_rights(errno));  // missing rights are reported when they are needed
  }
  return directory;
}

Descriptor open_below(const Directory& directory, std::filesystem::path::const_iterator name,
                      std::filesystem::path::const_iterator last, int flags, mode_t mode, Links links) {
  if (name == last) {
    return directory.open_file(name->string(), flags, mode, links);
  }
  const Directory next = directory.open_directory(name->string());
  return open_below(next, std::next(name), last, flags, mode, links);
}

constexpr std::string_view kWorkerPrefix = "workertemp_";
/// Another job with the same parent may remove `workertemp_<rank>` between its making and that of what lies in it, and
/// on a busy machine the two can do so in step many times. Pauses of random length separate them.
constexpr std::chrono::seconds kMostTimeToMake{10};
constexpr std::chrono::microseconds kLongestPause{1000};
/// A name that is taken but cannot be used may have been removed and made again in between: asked this often.
constexpr int kMostRefusals = 3;
/// Names inside of the checkpoint directory that are tried; whoever may write there need not take names to do harm.
constexpr int kMostNames = 100;

std::string outer_name(int rank) { return std::string(kWorkerPrefix) + std::to_string(rank); }

/// `workertemp_<number>`, or with @p may_be_counted also `workertemp_<number>.<number>`.
bool is_outer_name(const std::string& name, bool may_be_counted) {
  if (!name.starts_with(kWorkerPrefix)) {
    return false;
  }
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const std::string_view rest = std::string_view(name).substr(kWorkerPrefix.size());
  const auto dot = rest.find('.');
  return is_number(rest.substr(0, dot)) &&
         (dot == std::string_view::npos || (may_be_counted && is_number(rest.substr(dot + 1))));
}

bool others_may_write(const struct stat& status) { return (status.st_mode & (S_IWGRP | S_IWOTH)) != 0; }

/// Some file systems give everything in a directory to the owner of that.
bool is_own(const Directory& directory, const Directory& parent) {
  const uid_t owner = directory.status().st_uid;
  const struct stat above = parent.status();
  return owner == ::geteuid() || (owner == above.st_uid && !others_may_write(above));
}

bool is_this_users_alone(const Directory& directory) {
  const struct stat status = directory.status();
  return status.st_uid == ::geteuid() && !others_may_write(status);
}

/// `workertemp_<rank>` in @p parent if it is there and nobody else's.
std::optional<Directory> find_outer(const Directory& parent, const std::string& outer) {
  try {
    std::optional<Directory> found = parent.find_directory(outer);
    return found && is_own(*found, parent) ? std::move(found) : std::nullopt;
  } catch (const StorageError& error) {
    if (error.code() != ErrorCode::permission) {
      throw;
    }
    return std::nullopt;  // somebody else's
  }
}

/// Makes `<outer>/<base>`, empty. False if the name is somebody else's, or no directory.
bool make_write_directory(const Directory& parent, const std::string& outer, const std::string& base) {
  const auto deadline = std::chrono::steady_clock::now() + kMostTimeToMake;
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(deadline.time_since_epoch().count()));
  std::uniform_int_distribution<std::chrono::microseconds::rep> pause_us(0, kLongestPause.count());
  for (int refusals = 0; std::chrono::steady_clock::now() < deadline;) {
    parent.make_directory_if_free(outer, kOwnDirectory);  // or it is there
    if (const auto above = find_outer(parent, outer)) {
      if (above->make_directory_if_free(base, kOwnDirectory)) {
        return true;
      }
      // Of a run that died; only now, so that another job has little time to remove the parent.
      above->remove_tree(base);
      if (above->make_directory_if_free(base, kOwnDirectory)) {
        return true;
      }
    } else if (parent.contains(outer) && ++refusals == kMostRefusals) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(pause_us(random)));  // removed by another job in this moment
  }
  throw storage_error("make directory", parent.path() / outer / base, ENOENT);
}

/// Removes `<outer>/<base>`, and `<outer>` if it is empty then.
void remove_write_directory(const Directory& parent, const std::string& outer, const std::string& base) {
  if (const auto above = find_outer(parent, outer)) {
    above->remove_tree(base);
    static_cast<void>(parent.remove_empty_directory(outer));
  }
}

/// The directory above the checkpoint directory; nothing if this user may not list it.
std::optional<Directory> open_parent(const fs::path& checkpoints) {
  try {
    return Directory::open(checkpoints.parent_path());
  } catch (const StorageError& error) {
    if (error.code() != ErrorCode::permission) {
      throw;
    }
    log::debug("{}", error.what());
    return std::nullopt;
  }
}

void remove_write_directories_in(const Directory& parent, const std::string& base, bool is_inside) {
  for (const DirectoryEntry& entry : parent.list()) {
    if (entry.kind != EntryKind::directory || !is_outer_name(entry.name, is_inside)) {
      continue;
    }
    if (const auto outer = find_outer(parent, entry.name); outer && outer->contains(base)) {
      log::info("removing {}, left behind by an earlier run", (outer->path() / base).string());
    }
    remove_write_directory(parent, entry.name, base);  // that of a run which died before it made ours is empty
  }
}

}  // namespace

Descriptor::Descriptor(int number) noexcept : number_(number) {
  if (number >= 0 && number <= STDERR_FILENO) {
    number_ = ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int refused = errno;
    ::close(number);
    errno = refused;
  }
}

Descriptor::~Descriptor() {
  if (number_ >= 0 && ::close(number_) != 0) {
    log::warning("closing a file failed: {}", std::generic_category().message(errno));
  }
}

StandardDescriptors::StandardDescriptors() noexcept {
  for (std::size_t number = 0; number < filled_.size(); ++number) {
    const int wanted = static_cast<int>(number);
    if (::fcntl(wanted, F_GETFD) < 0 && errno == EBADF) {
      const int got = ::open("/dev/null", O_RDONLY | O_CLOEXEC);  // the lowest that is free; a write fails as before
      filled_.at(number) = got == wanted;
      if (got >= 0 && got != wanted) {
        ::close(got);
      }
    }
  }
}

StandardDescriptors::~StandardDescriptors() {
  for (std::size_t number = 0; number < filled_.size(); ++number) {
    if (filled_.at(number)) {
      ::close(static_cast<int>(number));
    }
  }
}

fs::path without_dots(const fs::path& path) {
  fs::path result;
  for (const fs::path& name : path) {
    if (name.empty() || name == ".") {
      continue;
    }
    if (name != ".." || result.empty() || result.filename() == "..") {
      result /= name;
      continue;
    }
    std::error_code error;
    const fs::path above = fs::canonical(result / name, error);
    std::error_code ignored;
    if (error && fs::symlink_status(result, ignored).type() != fs::file_type::not_found) {
      throw storage_error("look at", result / name, error.value());
    }
    result = error ? result.parent_path() : above;
  }
  return result.empty() && !path.empty() ? "." : result;
}

Descriptor open_file_by_path(const fs::path& path, int flags, mode_t mode, Links links) {
  Descriptor opened = open_without_waiting(
      flags_for(flags, links), [&](int all_flags) { return ::open(path.c_str(), all_flags, mode); },
      [&](struct stat& status) { return ::stat(path.c_str(), &status); });
  return checked_file(std::move(opened), path, flags, mode);
}

Directory Directory::open(const fs::path& path) {
  std::error_code error;
  fs::path resolved = fs::canonical(path, error);
  if (error) {
    throw storage_error("open the directory", path, error.value());
  }
  Descriptor descriptor(uninterrupted([&] { return ::open(resolved.c_str(), kDirectoryFlags); }));
  if (!descriptor.is_open()) {
    throw storage_error("open the directory", path, errno);
  }
  return {std::move(resolved), std::move(descriptor)};
}

struct stat Directory::status() const {
  struct stat status = {};
  if (::fstat(descriptor(), &status) != 0) {
    throw storage_error("look at", path_, errno);
  }
  return status;
}

mode_t Directory::file_mode() const { return kOwnFile | (status().st_mode & (S_IRGRP | S_IROTH)); }

mode_t Directory::directory_mode() const {
  return kOwnDirectory | (status().st_mode & (S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH));
}

bool Directory::is_in_memory() const {
  struct statfs status = {};
  if (::fstatfs(descriptor(), &status) != 0) {
    throw storage_error("look at the file system of", path_, errno);
  }
  return status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC;
}

std::optional<std::uint64_t> Directory::available_bytes() const noexcept {
  struct statvfs disk = {};
  return ::fstatvfs(descriptor(), &disk) == 0 ? std::optional(std::uint64_t{disk.f_bavail} * disk.f_frsize)
                                              : std::nullopt;
}

bool Directory::is(const Directory& other) const {
  const struct stat mine = status();
  const struct stat its = other.status();
  return mine.st_ino == its.st_ino && mine.st_dev == its.st_dev;
}

bool Directory::is_at_its_path() const {
  struct stat named = {};
  if (::lstat(path_.c_str(), &named) != 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ESTALE) {
      return false;
    }
    throw storage_error("look at", path_, errno);
  }
  const struct stat held = status();
  return held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

std::optional<struct stat> Directory::status_of(const std::string& name) const {
  check_name(name);
  struct stat status = {};
  if (::fstatat(descriptor(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    return status;
  }
  if (errno == ENOENT) {
    return std::nullopt;
  }
  throw storage_error("look at", path_ / name, errno);  // not to know is not to be taken for "not there"
}

int Directory::target_status(const std::string& name, struct stat& status) const {
  check_name(name);
  return ::fstatat(descriptor(), name.c_str(), &status, 0) == 0 ? 0 : errno;
}

std::vector<DirectoryEntry> Directory::list() const {
  // A descriptor of its own: the position in the list is part of it.
  Descriptor copy(uninterrupted([&] { return ::openat(descriptor(), ".", kDirectoryFlags); }));
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(copy.is_open() ? ::fdopendir(copy.get()) : nullptr, ::closedir);
  if (!stream) {
    throw storage_error("list", path_, errno);
  }
  static_cast<void>(copy.release());  // the stream closes it
  std::vector<DirectoryEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* const found = ::readdir(stream.get());
    if (found == nullptr) {
      break;
    }
    const std::string name = &found->d_name[0];
    if (name == "." || name == "..") {
      continue;
    }
    if (found->d_type != DT_UNKNOWN) {
      entries.push_back({name, kind_of(static_cast<mode_t>(DTTOIF(found->d_type)))});
    } else if (const auto status = status_of(name)) {  // else it was removed in this moment
      entries.push_back({name, kind_of(status->st_mode)});
    }
  }
  if (errno != 0) {
    throw storage_error("list", path_, errno);
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

Directory Directory::open_directory(const std::string& name) const {
  if (auto found = find_directory(name)) {
    return std::move(*found);
  }
  throw storage_error("open the directory", path_ / name, contains(name) ? ENOTDIR : ENOENT);
}

std::optional<Directory> Directory::find_directory(const std::string& name) const {
  check_name(name);
  Descriptor opened(uninterrupted([&] { return ::openat(descriptor(), name.c_str(), kDirectoryFlags); }));
  if (opened.is_open()) {
    return Directory{path_ / name, std::move(opened)};
  }
  if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) {
    return std::nullopt;
  }
  throw storage_error("open the directory", path_ / name, errno);
}

Directory Directory::make_directory(const std::string& name, mode_t mode) const {
  if (auto made = make_directory_if_free(name, mode)) {
    return std::move(*made);
  }
  throw storage_error("make directory", path_ / name, contains(name) ? EEXIST : ENOENT);
}

std::optional<Directory> Directory::make_directory_if_free(const std::string& name, mode_t mode) const {
  check_name(name);
  if (::mkdirat(descriptor(), name.c_str(), mode) == 0) {
    return open_made(*this, name, mode);
  }
  if (errno == EEXIST || errno == ENOENT) {
    return std::nullopt;
  }
  throw storage_error("make directory", path_ / name, errno);
}

Descriptor Directory::open_file(const std::string& name, int flags, mode_t mode, Links links) const {
  check_name(name);
  Descriptor opened = open_without_waiting(
      flags_for(flags, links), [&](int all_flags) { return ::openat(descriptor(), name.c_str(), all_flags, mode); },
      [&](struct stat& status) { return target_status(name, status); });
  return checked_file(std::move(opened), path_ / name, flags, mode);
}

void Directory::set_file_mode(const std::string& name, mode_t mode) const {
  const auto found = status_of(name);
  if (found && (found->st_mode & 07777U) == mode) {
    return;
  }
  const Descriptor file = open_file(name, O_RDONLY);
  if (::fchmod(file.get(), mode) != 0 && !has_no_rights(errno)) {
    throw storage_error("set the rights of", path_ / name, errno);
  }
}

std::string Directory::read_text(const std::string& name, std::size_t most_bytes) const {
  const Descriptor file = open_file(name, O_RDONLY);
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = uninterrupted([&] { return ::read(file.get(), piece.data(), piece.size()); });
    if (got < 0) {
      throw storage_error("read", path_ / name, errno);
    }
    if (got == 0) {
      return text;
    }
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > most_bytes) {
      throw StorageError(ErrorCode::io, "cannot read " + (path_ / name).string() + ": it is larger than " +
                                            std::to_string(most_bytes) + " bytes");
    }
  }
}

void Directory::write_text(const std::string& name, const std::string& text, mode_t mode, bool durable) const {
  const std::string temporary = name + ".new";
  remove_tree(temporary);
  try {
    const Descriptor file = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL, mode);
    write_all(file.get(), text, path_ / temporary);
    if (::fchmod(file.get(), mode) != 0) {
      static_cast<void>(has_no_rights(errno));  // missing rights are reported when the file is read
    }
    if (durable && uninterrupted([&] { return ::fsync(file.get()); }) != 0) {
      throw storage_error("make durable", path_ / temporary, errno);
    }
    rename(temporary, *this, name);
  } catch (...) {
    static_cast<void>(::unlinkat(descriptor(), temporary.c_str(), 0));  // the first error is reported
    throw;
  }
  if (durable) {
    sync();
  }
}

void Directory::rename(const std::string& from, const Directory& target, const std::string& to) const {
  check_name(from);
  check_name(to);
  if (::renameat(descriptor(), from.c_str(), target.descriptor(), to.c_str()) != 0) {
    throw storage_error("rename " + (path_ / from).string() + " to", target.path_ / to, errno);
  }
}

bool Directory::remove_file(const std::string& name) const {
  check_name(name);
  if (::unlinkat(descriptor(), name.c_str(), 0) == 0) {
    return true;
  }
  if (errno == ENOENT) {
    return false;
  }
  throw storage_error("remove", path_ / name, errno);
}

bool Directory::remove_empty_directory(const std::string& name) const {
  check_name(name);
  if (::unlinkat(descriptor(), name.c_str(), AT_REMOVEDIR) == 0) {
    return true;
  }
  if (errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST) {
    return false;
  }
  throw storage_error("remove", path_ / name, errno);
}

void Directory::remove_tree(const std::string& name) const {
  check_name(name);
  remove_tree_below(*this, name, kDeepestTree);
}

void Directory::sync() const {
  if (uninterrupted([&] { return ::fsync(descriptor()); }) == 0) {
    return;
  }
  if (!has_no_directory_sync(errno, path_)) {
    throw storage_error("make durable", path_, errno);
  }
}

void Directory::sync_tree() const {
  for (const DirectoryEntry& entry : list()) {
    if (entry.kind == EntryKind::directory) {
      open_directory(entry.name).sync_tree();
    } else if (entry.kind == EntryKind::file) {
      const Descriptor file = open_file(entry.name, O_RDONLY);
      if (uninterrupted([&] { return ::fsync(file.get()); }) != 0) {
        throw storage_error("make durable", path_ / entry.name, errno);
      }
    }
  }
  sync();
}

// NOLINTEND(cppcoreguidelines-pro-type-vararg)

Descriptor FileAddress::open_in_place(int flags, mode_t mode, Links links) const {
  return directory_ ? open_below(*directory_, below_.begin(), std::prev(below_.end()), flags, mode, links)
                    : open_file_by_path(path_, flags, mode, links);
}

Descriptor FileAddress::open(int flags, mode_t mode) const { return open_in_place(flags, mode, Links::refused); }

Descriptor FileAddress::open_to_read() const { return open_in_place(O_RDONLY, 0, Links::followed); }

bool has_no_rights(int error_number) noexcept {
  if (error_number != EPERM && error_number != EOPNOTSUPP && error_number != ENOSYS && error_number != EINVAL) {
    return false;
  }
  static std::atomic_flag warned;
  if (!warned.test_and_set()) {
    log::warning(
        "the file system does not let the rights of files be changed (error {}): who may read checkpoints is for the "
        "file system to say",
        error_number);
  }
  return true;
}

WriteDirectory::WriteDirectory(const fs::path& checkpoints, int rank)
    : base_(checkpoints.filename().string()), parent_(Directory::open(checkpoints)) {
  if (make_beside(checkpoints, rank)) {
    return;
  }
  for (int count = 1; count <= kMostNames; ++count) {
    outer_ = outer_name(rank) + (count == 1 ? "" : "." + std::to_string(count));
    if (make_write_directory(parent_, outer_, base_)) {
      path_ = checkpoints / outer_ / base_;
      return;
    }
  }
  throw storage_error("make directory", checkpoints / outer_name(rank), EEXIST);
}

/// Makes it where everybody looks for it. False if that parent or name is not this user's.
bool WriteDirectory::make_beside(const fs::path& checkpoints, int rank) {
  auto parent = open_parent(checkpoints);
  if (!parent || !is_this_users_alone(*parent)) {
    return false;
  }
  outer_ = outer_name(rank);
  try {
    if (!make_write_directory(*parent, outer_, base_)) {
      log::info("{} is not a directory of this user: the save function writes inside of {}",
                (parent->path() / outer_).string(), checkpoints.string());
      return false;
    }
  } catch (const StorageError& error) {
    if (error.code() != ErrorCode::permission) {
      throw;
    }
    log::debug("{}", error.what());  // the parent cannot be written
    return false;
  }
  parent_ = std::move(*parent);
  path_ = checkpoints.parent_path() / outer_ / base_;
  return true;
}

WriteDirectory::~WriteDirectory() {
  log::or_warn("left behind", [this] { remove_write_directory(parent_, outer_, base_); });
}

void remove_write_directories(const fs::path& checkpoints) {
  const std::string base = checkpoints.filename().string();
  remove_write_directories_in(Directory::open(checkpoints), base, true);
  if (const auto parent = open_parent(checkpoints)) {
    remove_write_directories_beside(*parent, base);
  }
}

void remove_write_directories_beside(const Directory& parent, const std::string& base) {
  remove_write_directories_in(parent, base, false);
}

}  // namespace reprieve::core
