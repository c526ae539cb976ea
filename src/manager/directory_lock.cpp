// SPDX-License-Identifier: BSD-3-Clause
#include "manager/directory_lock.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/directory.hpp"
#include "core/file_rights.hpp"
#include "core/interrupted.hpp"
#include "core/log.hpp"
#include "storage/bytes/codec.hpp"
#include "storage/bytes/posix_file.hpp"

namespace reprieve::manager {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstRetry = 5ms;
constexpr std::chrono::milliseconds kLongestRetry = 250ms;
constexpr std::uint64_t kMostMarkBytes = std::uint64_t{1} << 16U;

std::string mark_of(const LockHolder& holder) {
  const nlohmann::json json{
      {"host", holder.host}, {"pid", holder.pid}, {"started", holder.started}, {"world_size", holder.world_size}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

/// The holder for messages. The file may be empty or half written: the lock is what counts, not its text.
std::string describe_holder(const std::filesystem::path& file, const LockHolder& self) {
  try {
    const nlohmann::json json = nlohmann::json::parse(read_lock_mark(file));
    const int pid = json.at("pid").get<int>();
    const auto host = json.at("host").get<std::string>();
    return fmt::format("the run of process {} on {}{} (started {}, {} ranks), or a reprieve command after it", pid,
                       host, pid == self.pid && host == self.host ? " (this very process)" : "",
                       json.at("started").get<std::string>(), json.at("world_size").get<int>());
  } catch (const std::exception&) {
    return "another run";
  }
}

}  // namespace

LockHolder LockHolder::self(std::string host, int world_size) {
  const auto now = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  const auto since_epoch = now.time_since_epoch().count();
  return {std::move(host), ::getpid(),
          fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                      since_epoch % 1'000'000),
          world_size};
}

DirectoryLock::DirectoryLock(std::filesystem::path file, const LockHolder& self, std::chrono::milliseconds timeout,
                             Mark mark)
    : directory_(core::Directory::open(file.parent_path())),
      name_(file.filename().string()),
      file_(std::move(file)),
      mark_(mark_of(self)) {
  try {
    acquire(self, timeout);
    if (mark == Mark::written) {
      write_mark();
    }
  } catch (...) {
    close_file();
    throw;
  }
}

DirectoryLock::~DirectoryLock() {
  if (!owner_.is_here()) {
    return;  // the fork has closed it
  }
  if (::flock(descriptor_, LOCK_UN) != 0 && errno != ENOSYS && errno != EOPNOTSUPP && errno != ENOLCK) {
    core::log::warning("releasing the lock {} failed: {}", file_.string(), std::generic_category().message(errno));
  }
  close_file();
}

void DirectoryLock::acquire(const LockHolder& self, std::chrono::milliseconds timeout) {
  const auto start = Clock::now();
  bool told = false;
  for (auto pause = kFirstRetry;; pause = std::min(pause * 2, kLongestRetry)) {
    open_file();
    if (try_lock() && is_the_file_at_its_path()) {
      return;
    }
    close_file();
    const std::string holder = describe_holder(file_, self);
    const auto waited = Clock::now() - start;
    if (waited >= timeout) {
      throw StorageError(
          ErrorCode::locked,
          fmt::format("the checkpoint directory {} is in use by {}; waited {:.1f} s for it. Wait until that run has "
                      "ended, end it, or use another directory; lock_timeout sets how long to wait",
                      file_.parent_path().string(), holder, std::chrono::duration<double>(waited).count()));
    }
    if (!told) {
      told = true;
      core::log::warning("waiting up to {:.1f} s for the checkpoint directory {}, which is in use by {}",
                         std::chrono::duration<double>(timeout).count(), file_.parent_path().string(), holder);
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, timeout - waited));
  }
}

/// The file is this user's alone, whoever may read the directory: a lock can be taken by all who can open the file.
void DirectoryLock::open_file() {
  descriptor_ = directory_.open_file(name_, O_RDWR | O_CREAT, core::kOwnFile).release();
  closed_on_fork_ = core::ClosedOnFork(descriptor_);
  struct stat status = {};
  if (::fstat(descriptor_, &status) == 0 && (status.st_mode & 0777U) != core::kOwnFile &&
      ::fchmod(descriptor_, core::kOwnFile) != 0) {
    core::log::warning("the rights of {} cannot be set: who may read it can keep this program out of its directory: {}",
                       file_.string(), std::generic_category().message(errno));
  }
}

void DirectoryLock::close_file() noexcept {
  closed_on_fork_ = {};
  if (descriptor_ >= 0 && ::close(descriptor_) != 0) {
    core::log::warning("closing {} failed: {}", file_.string(), std::generic_category().message(errno));
  }
  descriptor_ = -1;
}

bool DirectoryLock::try_lock() {
  if (core::uninterrupted([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0) {
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
      return true;
    default:
      throw storage::storage_error("lock", file_, errno);
  }
}

bool DirectoryLock::is_the_file_at_its_path() const {
  struct stat held = {};
  if (::fstat(descriptor_, &held) != 0) {
    throw storage::storage_error("look at", file_, errno);
  }
  const auto named = directory_.look(name_);
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
    done += check(core::uninterrupted(
        [&] { return ::pwrite(descriptor_, mark_.data() + done, mark_.size() - done, static_cast<off_t>(done)); }));
  }
  check(core::uninterrupted([&] { return ::ftruncate(descriptor_, static_cast<off_t>(mark_.size())); }));
  check(core::uninterrupted([&] { return ::fsync(descriptor_); }));
}

/// A purge of old files takes the lock file too. The lock is still held then, by the handle, and nobody else has one as
/// long as there is no file of its name: whoever makes it first has the lock.
void DirectoryLock::make_anew() {
  core::Descriptor made = directory_.open_file(name_, O_RDWR | O_CREAT | O_EXCL, core::kOwnFile);
  close_file();
  descriptor_ = made.release();
  closed_on_fork_ = core::ClosedOnFork(descriptor_);
  if (!try_lock()) {
    throw StorageError(ErrorCode::locked, "another run has taken over the checkpoint directory " +
                                              file_.parent_path().string() + " while its lock file was gone");
  }
  write_mark();
  core::log::warning("the lock file {} was removed while in use, and is made anew", file_.string());
}

void DirectoryLock::check_held() {
  if (!directory_.is_at_its_path()) {
    throw StorageError(ErrorCode::io, "the checkpoint directory " + file_.parent_path().string() +
                                          " was removed or replaced while in use; nothing can be saved there until the "
                                          "job is started again");
  }
  if (!directory_.contains(name_)) {
    make_anew();
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
