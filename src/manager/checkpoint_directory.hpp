// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The content of a checkpoint directory, as rank 0 sees and changes it. No MPI.

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/directory.hpp"
#include "core/events.hpp"
#include "core/run_record.hpp"
#include "core/threads.hpp"
#include "manager/checkpoint_list.hpp"
#include "reprieve/checkpoint_manager.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::manager {

/// The file of a retired checkpoint, kept for the next one.
inline constexpr const char* kRecycledName = ".reprieve.recycled";
using core::kEventLogName;
using core::kLockName;

/// The information about one checkpoint, from its metadata and its file.
/// @param size_bytes  nothing: that of the file, looked at now
/// @throws StorageError if the file cannot be read
CheckpointInfo make_info(const std::filesystem::path& file, std::uint64_t number, const storage::FileMetadata& metadata,
                         std::optional<std::uint64_t> size_bytes = {});

/// Paths are valid on every rank, and are for messages and for the program; all work is done below the directory that
/// was opened. The members that read or change the directory are for rank 0, under the lock.
class CheckpointDirectory {
 public:
  CheckpointDirectory(std::filesystem::path path, std::string prefix, bool durable);
  /// Waits for the thread that frees a file: nothing continues when a run is over.
  ~CheckpointDirectory();
  CheckpointDirectory(const CheckpointDirectory&) = delete;
  CheckpointDirectory& operator=(const CheckpointDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path files_directory(std::uint64_t number) const;
  [[nodiscard]] std::filesystem::path staging() const { return path_ / kStagingName; }
  [[nodiscard]] std::filesystem::path staged_files_directory(StagedName staged) const;

  /// The directory, opened at the first call, and the same from then on. For every rank. @throws StorageError
  [[nodiscard]] const core::Directory& opened() const { return *shared_opened(); }
  /// What was opened may be another directory than rank 0's: forgets it.
  void close() noexcept { opened_.reset(); }
  /// Makes the directory if it is not there, and so many above it less one, for this user alone, and opens it.
  /// @throws StorageError, ConfigError
  void make(std::size_t most);

  /// For every rank: addresses below `opened()`.
  [[nodiscard]] core::FileAddress file(std::uint64_t number) const;
  [[nodiscard]] core::FileAddress staged_file(StagedName staged) const;
  [[nodiscard]] core::FileAddress lock_file() const { return address(kLockName); }

  /// Numbers of the committed checkpoints, ascending, whether they are valid or not. Directories and broken links that
  /// have the name of one are passed over, with one warning each.
  [[nodiscard]] std::vector<std::uint64_t> numbers();

  /// @throws StorageError if something has the name of a checkpoint and is no file, or is unknown (a link into an
  /// archive that is not mounted): it may be the newest one
  void check_checkpoints_are_files() const;
  /// @throws CorruptError if checkpoints were quarantined: a directory with no others is not a new one
  void check_nothing_is_quarantined() const;
  /// Whether a checkpoint of this number was quarantined.
  [[nodiscard]] bool is_quarantined(std::uint64_t number) const;

  /// Whether `reprieve pin` has marked the checkpoint of this number: it is neither retired nor replaced.
  [[nodiscard]] bool is_pinned(std::uint64_t number) const;

  /// What is known about a checkpoint; nothing, with a warning, if it cannot be read. Read once, then remembered for as
  /// long as the file stays the same.
  [[nodiscard]] std::optional<CheckpointInfo> info(std::uint64_t number);

  /// The committed checkpoints, oldest first (checkpoint_list.hpp). @p id  of this directory
  [[nodiscard]] std::vector<OrderEntry> in_order(const std::string& id);

  /// A number for the next checkpoint: @p wanted if it is above all that are there, corrupt ones that were quarantined
  /// included; with @p may_replace also if it is the highest; else the next one.
  /// @throws UsageError if there is none
  [[nodiscard]] std::uint64_t free_number(std::uint64_t wanted, bool may_replace) const;

  /// Notes what `info` would read from the file of a checkpoint that has just been committed.
  void remember(std::uint64_t number, const storage::FileMetadata& metadata);

  /// Makes the staging directory, empty, after `recover`. @throws StorageError, also if something stands in the way of
  /// checkpoint @p number
  void prepare_staging(std::uint64_t number);

  /// Makes the staged directory for the files of a save, empty. @throws StorageError
  void make_staged_files(StagedName staged) const;
  /// Whether there is anything in it; if so, makes it durable. @throws StorageError
  [[nodiscard]] bool keep_staged_files(StagedName staged) const;

  [[nodiscard]] core::FileAddress recycled() const;
  /// Makes the recycled file, if there is one that can be used, the staged file of a save. Nothing if there is none.
  /// Returns the save whose data it still holds, if this object has seen its commit and nobody has written to the file
  /// since; 0: not known. @throws StorageError if it may be a checkpoint
  std::optional<std::uint64_t> take_recycled(StagedName staged);
  /// Makes a recycled file of that size, with its space taken. One that is there is made larger if need be. The staging
  /// directory, which takes space too, is there from now on, up to `release_reserve`.
  /// @throws StorageError
  void reserve(std::uint64_t size);
  /// Removes the recycled file, and what `reserve` has made besides. Logs what cannot be removed.
  void release_reserve() noexcept;
  /// Logs what cannot be removed.
  void remove_recycled() noexcept;

  /// Steps 4 and 5 of the commit protocol (save.cpp): the rename that makes the staged checkpoint exist, and then its
  /// files.
  void commit(StagedName staged, bool has_files);

  /// Finishes what a commit of this prefix that was cut short still has to do, and removes the rest of the staging
  /// directory, but for what programs with other prefixes have left there: their next start does this for them.
  void recover();

  /// `recover`, and removes what else dead runs left: files of checkpoints that were half retired, and the write
  /// directories of their ranks. Only logs what cannot be removed.
  void remove_left_overs();

  /// Gives a corrupt checkpoint, and its files, the suffix `.corrupt`. Returns the new path of the file.
  std::filesystem::path quarantine(std::uint64_t number);
  /// The same with another suffix, which must be free.
  std::filesystem::path quarantine_as(std::uint64_t number, const std::string& suffix);

  /// Gives a quarantined checkpoint, and its files, their names back. @throws StorageError, also if there is a
  /// checkpoint of that number, or its files are gone
  void take_back(const QuarantinedName& name);

  /// Removes a checkpoint and its files. To free the space of a large file can take longer than to write it: that is
  /// left to a thread, and is not done when this returns. @throws StorageError
  void remove(std::uint64_t number);

  /// What becomes of checkpoints that are retired.
  struct Retirement {
    bool recycle;  ///< the file of one of them becomes the recycled file, if there is none yet
    bool remove;   ///< the others are removed; else they stay until the next time, since the process is about to end
  };

  /// Retires checkpoints by the policy, and returns the numbers of those that are gone. @throws StorageError
  /// Foreign ones (checkpoint_list.hpp) neither count nor go; pinned ones stay. @p id  of this directory
  std::vector<std::uint64_t> retire(const RetentionPolicy& policy, std::uint64_t committed, const std::string& id,
                                    Retirement retirement);

 private:
  /// A file as it was when it was looked at.
  struct Stamp {
    struct stat status = {};

    [[nodiscard]] bool is(const struct stat& other) const;
  };
  struct Known : Stamp {
    std::optional<CheckpointInfo> info{};  ///< nothing if the file is corrupt
  };
  /// A file as this object left it, and what it holds.
  struct Left : Stamp {
    std::uint64_t save = 0;
  };

  [[nodiscard]] const std::shared_ptr<const core::Directory>& shared_opened() const;
  [[nodiscard]] core::FileAddress address(const std::filesystem::path& below) const;
  [[nodiscard]] std::vector<core::DirectoryEntry> listed() const;
  [[nodiscard]] std::string file_name(std::uint64_t number) const;
  [[nodiscard]] std::string files_name(std::uint64_t number) const;
  [[nodiscard]] std::string pin_name(std::uint64_t number) const;
  [[nodiscard]] std::string staged_name(StagedName staged, std::string_view suffix) const;
  struct Recycling;
  [[nodiscard]] bool make_recycled(std::uint64_t number, bool in_background);
  bool await_recycled();
  void note_recycled(std::uint64_t save);
  [[nodiscard]] std::uint64_t recycled_left_by() const;
  [[nodiscard]] core::Directory open_staging() const;
  [[nodiscard]] bool lacks_room() const;
  [[nodiscard]] std::shared_ptr<core::Descriptor> held_open(const std::string& name) const;
  void remove_files(std::uint64_t number);
  void install_files(StagedName staged);
  void recover_files(const std::string& staged_name);
  [[nodiscard]] bool belong_to_a_checkpoint(StagedName staged_files) const;
  void remove_orphans() const;
  void remove_or_log(const std::string& name) const noexcept;
  void make_durable() const;

  std::filesystem::path path_;
  std::string prefix_;
  bool durable_;
  mutable std::shared_ptr<const core::Directory> opened_;  ///< null before the first use
  bool keeps_staging_ = false;                             ///< empty, between two saves
  std::optional<core::BackgroundTask> freeing_;            ///< closes a removed file
  std::map<std::uint64_t, Known> known_;
  std::map<std::uint64_t, Left> committed_;  ///< by number
  std::shared_ptr<Recycling> recycling_;     ///< of the file that was retired last
  std::optional<core::BackgroundTask> recycling_task_;
  std::optional<Left> recycled_left_;
  std::set<std::uint64_t> warned_;  ///< numbers with a warning that they are no files
};

}  // namespace reprieve::manager
