// SPDX-License-Identifier: BSD-3-Clause
#include "manager/directory_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "core/events.hpp"
#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::manager {

namespace {

namespace fs = std::filesystem;

constexpr const char* kProbeName = ".reprieve.owner";

core::Directory make_below(const core::Directory& parent, const std::string& name, bool durable) {
  auto made = parent.make_directory_if_free(name, core::kOwnDirectory);
  if (!made) {
    return parent.open_directory(name);  // another job was faster
  }
  if (durable) {
    parent.sync();
  }
  return std::move(*made);
}

/// Whether the file system gives everything in a directory to the owner of that, as some do that know no users.
bool gives_all_to_its_owner(const core::Directory& directory, uid_t owner) {
  static_cast<void>(directory.remove_file(kProbeName));
  const core::Descriptor probe = directory.open_file(kProbeName, O_WRONLY | O_CREAT | O_EXCL, core::kOwnFile);
  struct stat status = {};
  const bool is_its = ::fstat(probe.get(), &status) == 0 && status.st_uid == owner;
  static_cast<void>(directory.remove_file(kProbeName));
  return is_its;
}

void check_owner(const core::Directory& directory, const fs::path& path, uid_t owner) {
  if (owner == ::geteuid() || owner == 0) {
    return;
  }
  if (::geteuid() == 0) {
    core::log::warning("the checkpoint directory {} belongs to user {}, who decides what is restored from it",
                       path.string(), owner);
  } else if (!gives_all_to_its_owner(directory, owner)) {
    throw StorageError(ErrorCode::permission,
                       "the checkpoint directory " + path.string() + " belongs to user " + std::to_string(owner) +
                           ", who could replace what this program restores: choose a directory of your own, and copy "
                           "the checkpoints there if you trust them");
  }
}

}  // namespace

core::Directory make_directories(const fs::path& path, bool durable, std::size_t most) {
  std::vector<std::string> missing;
  std::error_code ignored;
  fs::path there = path;
  for (; !fs::exists(there, ignored) && there.has_relative_path(); there = there.parent_path()) {
    missing.push_back(there.filename().string());
  }
  if (missing.size() > most) {
    throw ConfigError(fmt::format(
        "the folder {} for the checkpoint directory {} is not there: correct the path, or make the folder (mkdir -p)",
        path.parent_path().string(), path.string()));
  }
  try {
    core::Directory deepest = core::Directory::open(there);
    std::for_each(missing.rbegin(), missing.rend(),
                  [&](const std::string& name) { deepest = make_below(deepest, name, durable); });
    return deepest;
  } catch (const StorageError& error) {
    throw StorageError(error.code(), "cannot make the checkpoint directory " + path.string() + ": " + error.what() +
                                         "; choose one that this user can write, on a file system that all nodes "
                                         "share");
  }
}

void check_who_may_write(const core::Directory& directory, const fs::path& path) {
  const struct stat status = directory.status();
  check_owner(directory, path, status.st_uid);
  if ((status.st_mode & S_IWOTH) != 0) {
    core::log::warning("everybody may write in {}: who does can make this program read and remove files of its user",
                       path.string());
  } else if ((status.st_mode & S_IWGRP) != 0 && status.st_gid != status.st_uid) {  // a group of its own is the user
    core::log::warning(
        "the group {} may write in {}: who is in it decides what this program restores; `chmod g-w` if that is not "
        "meant",
        status.st_gid, path.string());
  }
}

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstRetry = 5ms;
constexpr std::chrono::milliseconds kLongestRetry = 250ms;
constexpr std::uint64_t kMostMarkBytes = std::uint64_t{1} << 16U;

std::string mark_of(const LockHolder& holder) {
  return core::Json(core::json_of(holder)).dump(-1, ' ', false, core::Json::error_handler_t::replace) + '\n';
}

/// The holder for messages. The file may be empty or half written: the lock is what counts, not its text.
std::string describe_holder(const std::filesystem::path& file, const LockHolder& self) {
  try {
    const auto json = core::Json::parse(read_lock_mark(file), nullptr, false);
    if (const auto holder = core::whole_from_json<LockHolder>(json)) {
      return fmt::format("the run of process {} on {}{} (started {}, {}), or a reprieve command after it", holder->pid,
                         holder->host,
                         holder->pid == self.pid && holder->host == self.host ? " (this very process)" : "",
                         holder->started, core::count_text(holder->world_size, "rank"));
    }
  } catch (const Error& error) {
    core::log::debug("{}", error.what());
  }
  return "another run";
}

}  // namespace

LockHolder LockHolder::self(std::string host, int world_size) {
  return {std::move(host), ::getpid(), core::event_time(std::chrono::system_clock::now()), world_size};
}

DirectoryLock::DirectoryLock(std::filesystem::path file, const LockHolder& self, std::chrono::milliseconds timeout,
                             Mark mark)
    : directory_(core::Directory::open(file.parent_path())),
      name_(file.filename().string()),
      file_(std::move(file)),
      mark_(mark_of(self)) {
  acquire(self, timeout);
  if (mark == Mark::written) {
    write_mark();
  }
}

DirectoryLock::~DirectoryLock() {
  if (!owner_.is_here()) {
    static_cast<void>(descriptor_.release());  // the fork has closed it
    return;
  }
  if (::flock(descriptor_.get(), LOCK_UN) != 0 && errno != ENOSYS && errno != EOPNOTSUPP && errno != ENOLCK) {
    core::log::warning("releasing the lock {} failed: {}", file_.string(), std::generic_category().message(errno));
  }
}

void DirectoryLock::acquire(const LockHolder& self, std::chrono::milliseconds timeout) {
  const auto start = Clock::now();
  bool warned = false;
  for (auto pause = kFirstRetry;; pause = std::min(pause * 2, kLongestRetry)) {
    open_file();
    if (try_lock() && is_the_file_at_its_path()) {
      return;
    }
    closed_on_fork_ = {};  // before the number is free for others
    descriptor_ = core::Descriptor();
    const std::string holder = describe_holder(file_, self);
    const auto waited = Clock::now() - start;
    if (waited >= timeout) {
      throw StorageError(
          ErrorCode::locked,
          fmt::format("the checkpoint directory {} is in use by {}; waited {:.1f} s for it. Wait until that run has "
                      "ended, end it, or use another directory; lock_timeout sets how long to wait",
                      file_.parent_path().string(), holder, std::chrono::duration<double>(waited).count()));
    }
    if (!warned) {
      warned = true;
      core::log::warning("waiting up to {:.1f} s for the checkpoint directory {}, which is in use by {}",
                         std::chrono::duration<double>(timeout).count(), file_.parent_path().string(), holder);
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, timeout - waited));
  }
}

/// The file is this user's alone, whoever may read the directory: a lock can be taken by all who can open the file.
void DirectoryLock::open_file() {
  descriptor_ = directory_.open_file(name_, O_RDWR | O_CREAT, core::kOwnFile);
  closed_on_fork_ = core::ClosedOnFork(descriptor_.get());
  struct stat status = {};
  if (::fstat(descriptor_.get(), &status) == 0 && (status.st_mode & 0777U) != core::kOwnFile &&
      ::fchmod(descriptor_.get(), core::kOwnFile) != 0) {
    core::log::warning("the rights of {} cannot be set: who may read it can keep this program out of its directory: {}",
                       file_.string(), std::generic_category().message(errno));
  }
}

bool DirectoryLock::try_lock() {
  if (core::uninterrupted([&] { return ::flock(descriptor_.get(), LOCK_EX | LOCK_NB); }) == 0) {
    return true;
  }
  switch (errno) {
    case EWOULDBLOCK:
      return false;
    case ENOSYS:
    case EOPNOTSUPP:
    case ENOLCK:
      core::log::warning("the file system of {} has no locks ({}): nothing keeps a second run out of the directory",
                         file_.string(), std::generic_category().message(errno));
      only_mark_tells_ = true;
      return true;
    default:
      throw storage::storage_error("lock", file_, errno);
  }
}

bool DirectoryLock::is_the_file_at_its_path() const {
  struct stat held = {};
  if (::fstat(descriptor_.get(), &held) != 0) {
    throw storage::storage_error("look at", file_, errno);
  }
  const auto named = directory_.status_of(name_);
  return named && held.st_ino == named->st_ino && held.st_dev == named->st_dev;
}

void DirectoryLock::write_mark() {
  const auto check = [this](ssize_t result) {
    if (result < 0) {
      throw storage::storage_error("write the lock file", file_, errno);
    }
    return static_cast<std::size_t>(result);
  };
  // Over the old content, then cut: on a full disk the block that the file has is enough.
  for (std::size_t done = 0; done < mark_.size();) {
    done += check(core::uninterrupted([&] {
      return ::pwrite(descriptor_.get(), mark_.data() + done, mark_.size() - done, static_cast<off_t>(done));
    }));
  }
  check(core::uninterrupted([&] { return ::ftruncate(descriptor_.get(), static_cast<off_t>(mark_.size())); }));
  if (only_mark_tells_) {
    flush_mark();
  }
}

void DirectoryLock::flush_mark() const {
  if (core::uninterrupted([&] { return ::fsync(descriptor_.get()); }) != 0) {
    throw storage::storage_error("write the lock file", file_, errno);
  }
}

/// A purge of old files takes the lock file too. The lock is still held then, by the handle, and nobody else has one as
/// long as there is no file of its name: whoever makes it first has the lock.
void DirectoryLock::make_again() {
  core::Descriptor made = directory_.open_file(name_, O_RDWR | O_CREAT | O_EXCL, core::kOwnFile);
  closed_on_fork_ = {};
  std::swap(descriptor_, made);
  closed_on_fork_ = core::ClosedOnFork(descriptor_.get());
  if (!try_lock()) {
    throw StorageError(ErrorCode::locked, "another run has taken over the checkpoint directory " +
                                              file_.parent_path().string() + " while its lock file was gone");
  }
  write_mark();
  core::log::warning("the lock file {} was removed while in use, and is made again", file_.string());
}

void DirectoryLock::check_held() {
  if (!directory_.is_at_its_path()) {
    throw StorageError(ErrorCode::io, "the checkpoint directory " + file_.parent_path().string() +
                                          " was removed or replaced while in use; nothing can be saved there until the "
                                          "job is started again");
  }
  if (!directory_.contains(name_)) {
    make_again();
  }
  if (!is_the_file_at_its_path()) {
    throw StorageError(ErrorCode::locked, "another run has taken over the checkpoint directory " +
                                              file_.parent_path().string() + ": its lock file was replaced");
  }
  if (const std::string found = read_lock_mark(file_); found != mark_) {
    throw StorageError(ErrorCode::locked, "another run has taken over the checkpoint directory " +
                                              file_.parent_path().string() + ": its lock file now says " + found);
  }
}

bool is_open_in_this_process(const std::filesystem::path& file) {
  struct stat wanted = {};
  if (::lstat(file.c_str(), &wanted) != 0) {
    return false;
  }
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    struct stat status = {};
    if (::fstat(std::atoi(entry->path().filename().c_str()), &status) == 0 && status.st_ino == wanted.st_ino &&
        status.st_dev == wanted.st_dev) {
      return true;
    }
  }
  return false;
}

std::string read_lock_mark(const core::FileAddress& file) {
  const auto opened = storage::PosixFile::open_to_read(file);
  storage::Bytes bytes(static_cast<std::size_t>(std::min<std::uint64_t>(opened.size(), kMostMarkBytes)));
  opened.read_all(bytes, 0);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace reprieve::manager
