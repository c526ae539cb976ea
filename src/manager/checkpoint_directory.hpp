#pragma once

/// @file
/// The content of a checkpoint directory, as the chief sees and changes it. No MPI.

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/event_log.hpp"
#include "manager/file_names.hpp"
#include "manager/retention.hpp"
#include "reprieve/checkpoint_manager.hpp"
#include "storage/checkpoint_file.hpp"

namespace reprieve::manager {

/// Name of the directory for what is not committed yet, inside the checkpoint directory.
inline constexpr const char* kStagingName = ".chieftemp";
/// The file of a retired checkpoint, kept as the place for the next one.
inline constexpr const char* kSpareName = ".reprieve.spare";
inline constexpr const char* kLockName = ".reprieve.lock";
using core::kEventLogName;

/// The information about one checkpoint, from its metadata and its file.
/// @throws StorageError if the file cannot be looked at
CheckpointInfo make_info(const std::filesystem::path& file, std::uint64_t number,
                         const storage::FileMetadata& metadata);

/// Paths are valid on every rank; the members that read or change the directory are for the chief, under the lock.
class CheckpointDirectory {
 public:
  CheckpointDirectory(std::filesystem::path path, std::string prefix, bool durable);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path file(std::uint64_t number) const;
  [[nodiscard]] std::filesystem::path files_directory(std::uint64_t number) const;
  [[nodiscard]] std::filesystem::path staging() const { return path_ / kStagingName; }
  [[nodiscard]] std::filesystem::path staged_file(StagedName staged) const;
  [[nodiscard]] std::filesystem::path staged_files_directory(StagedName staged) const;

  /// Numbers of the committed checkpoints, ascending, whether they are sound or not. Directories and broken links that
  /// have the name of one are passed over, with one warning each.
  [[nodiscard]] std::vector<std::uint64_t> numbers();

  /// What is known about a checkpoint; nothing, with a warning, if it cannot be read. Read once, then remembered for as
  /// long as the file stays the same.
  [[nodiscard]] std::optional<CheckpointInfo> info(std::uint64_t number);

  /// Notes what `info` would read from the file of a checkpoint that has just been committed.
  void remember(std::uint64_t number, const storage::FileMetadata& metadata);

  /// Makes the staging directory, empty, after `recover`. @throws StorageError, also if something stands in the way of
  /// checkpoint @p number
  void prepare_staging(std::uint64_t number);

  [[nodiscard]] std::filesystem::path spare() const { return path_ / kSpareName; }
  /// Makes the spare file, if there is one that can be used, the staged file of a save. False if there is none.
  /// @throws StorageError if it cannot be told apart from a checkpoint
  bool take_spare(StagedName staged);
  /// Makes a spare file of that size, with its space taken. One that is there is made larger if need be. The staging
  /// directory, which takes space too, is there from now on, up to `release_reserve`.
  /// @throws StorageError
  void reserve(std::uint64_t size);
  /// Removes the spare file, and what `reserve` has made besides. Logs what cannot be removed.
  void release_reserve() noexcept;
  /// Logs what cannot be removed.
  void remove_spare() noexcept;

  /// Steps 4 and 5 of the commit protocol (save.cpp): the rename that makes the staged checkpoint exist, and then its
  /// files.
  void commit(StagedName staged, bool has_files);

  /// Finishes what a commit that was cut short still has to do, and removes the rest of the staging directory.
  void recover();

  /// `recover`, and removes what else dead runs left: files of checkpoints that were half retired, and the write
  /// directories of their ranks. Only logs what cannot be removed.
  void remove_left_overs();

  /// Gives a damaged checkpoint, and its files, the suffix `.corrupt`. Returns the new name of the file.
  std::filesystem::path set_aside(std::uint64_t number);

  /// Removes a checkpoint and its files. @throws StorageError
  void remove(std::uint64_t number);

  /// Removes checkpoints by the policy, and returns their numbers. With @p recycle, the file of one of them becomes the
  /// spare file, if there is none yet. @throws StorageError
  std::vector<std::uint64_t> retire(const RetentionPolicy& policy, std::uint64_t committed, bool recycle);

 private:
  struct Known {
    ino_t inode = 0;
    off_t size = 0;
    timespec modified = {};
    std::optional<CheckpointInfo> info;  ///< nothing if the file is damaged
  };

  [[nodiscard]] bool make_spare(std::uint64_t number);
  void make_staging() const;
  void remove_files(std::uint64_t number);
  void install_files(StagedName staged);
  void recover_files(const std::filesystem::path& staged_path);
  [[nodiscard]] bool belong_to_a_checkpoint(StagedName staged_files) const;
  void remove_orphaned_files() const;
  void remove_write_directories() const;
  void make_durable() const;

  std::filesystem::path path_;
  std::string prefix_;
  bool durable_;
  bool keeps_staging_ = false;  ///< empty, between two saves
  std::map<std::uint64_t, Known> known_;
  std::set<std::uint64_t> told_;  ///< numbers of which a warning was given that they are no files
};

/// Where a rank other than the chief may write during a save: `<parent>/workertemp_<rank>/<base>`.
std::filesystem::path worker_directory(const std::filesystem::path& directory, int rank);

/// Makes such a directory, empty. @throws StorageError
void make_worker_directory(const std::filesystem::path& worker);

/// Removes it, and its `workertemp_<rank>` if nothing else is in there. Logs failures.
void remove_worker_directory(const std::filesystem::path& worker) noexcept;

}  // namespace reprieve::manager
