// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The lock that keeps a second living run out of a checkpoint directory.

#include <chrono>
#include <filesystem>
#include <string>

#include "core/directory.hpp"
#include "core/json_fields.hpp"
#include "core/process.hpp"

namespace reprieve::manager {

// The checkpoint directory itself: made if it is missing. Its owner, and who may write in it, are checked. No MPI.

/// Opens a directory. Makes it if it is not there, for this user alone; not those above it, since the path may be
/// misspelt. @param durable  what was made survives a power cut @param most  how many may be missing
/// @throws StorageError; ConfigError if more are
core::Directory make_directories(const std::filesystem::path& path, bool durable, std::size_t most = 1);

/// Who may write in a checkpoint directory decides what a program restores. One of another user is refused (root is
/// warned only, who may work for others); one in which others may write is warned of.
/// @throws StorageError
void check_who_may_write(const core::Directory& directory, const std::filesystem::path& path);

/// Who holds a lock; written into the lock file for the messages of those who wait.
struct LockHolder {
  std::string host{};
  int pid = 0;
  std::string started{};  ///< UTC, ISO 8601
  int world_size = 0;
  REPRIEVE_FIELDS(host, pid, started, world_size)

  /// This process, from now on.
  static LockHolder self(std::string host, int world_size);
};

/// An exclusive flock(2) on a file, held from construction to destruction by rank 0 alone.
///
/// The kernel releases it when the process ends, however it ends. It belongs to the open file description, not to the
/// process: two managers of one process exclude each other, closing another descriptor of the file does not release
/// it. Neither programs that are started (O_CLOEXEC) nor children that are forked (ClosedOnFork) keep it: else a child
/// that outlives its rank would lock the next start out.
///
/// On NFS, Linux maps it to a lock of the whole file on the server: it works between nodes (unless mounted with
/// `local_lock=flock`), but after the crash of a node the server keeps it until the lease runs out (some 90 s). File
/// systems without locks (Lustre mounted without `-o flock`) get a warning; there `check_held` alone notices a second
/// run.
///
/// The library never removes the file: removing a lock file lets two waiters lock two different files of one name.
class DirectoryLock {
 public:
  /// Whether the name of the holder goes into the lock file.
  enum class Mark {
    written,
    kept,  ///< for a short look or change: where locks do not reach other nodes, a run that lives there continues
  };

  /// Waits up to @p timeout for another holder; logs once that it waits, and for whom. With a mark that is kept,
  /// `check_held` must not be called.
  /// @throws StorageError (locked) naming the holder; others if the file cannot be made
  DirectoryLock(std::filesystem::path file, const LockHolder& self, std::chrono::milliseconds timeout,
                Mark mark = Mark::written);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// The content of the lock file, unlike that of any other run: who reads it sees the same directory.
  [[nodiscard]] const std::string& mark() const noexcept { return mark_; }
  /// Other hosts see the mark from now on: NFS sends what is in a file at its fsync. @throws StorageError
  void flush_mark() const;

  /// Whether the file lies in that directory.
  [[nodiscard]] bool is_in(const core::Directory& directory) const { return directory_.is(directory); }

  /// Throws StorageError if the directory was removed or replaced, or another run has taken over since the locks of the
  /// file system failed. A lock file that somebody has removed is made again. To be called before a commit.
  void check_held();

 private:
  void acquire(const LockHolder& self, std::chrono::milliseconds timeout);
  [[nodiscard]] bool try_lock();
  [[nodiscard]] bool is_the_file_at_its_path() const;
  void open_file();
  void make_again();
  void write_mark();

  core::Directory directory_;
  std::string name_;
  std::filesystem::path file_;
  std::string mark_;
  bool only_mark_tells_ = false;  ///< the file system has no locks
  core::Descriptor descriptor_;
  core::OwnerProcess owner_;
  core::ClosedOnFork closed_on_fork_;
};

/// Whether this process has the file open already: it would wait for itself. The mark in the file does not show that: a
/// container may have the host name and the process number of one that still runs elsewhere.
[[nodiscard]] bool is_open_in_this_process(const std::filesystem::path& file);

/// The content of a lock file as another rank sees it. @throws StorageError, CorruptError if it cannot be read
std::string read_lock_mark(const core::FileAddress& file);

}  // namespace reprieve::manager
