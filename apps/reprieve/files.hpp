// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What the tool reads: the files that subcommands get, node-local copies on this node, and runs.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "manager/checkpoint_directory.hpp"
#include "manager/checkpoint_list.hpp"
#include "manager/directory_lock.hpp"
#include "reprieve/error.hpp"
#include "status.hpp"
#include "storage/local/part_file.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::tool {

class Timeline;

/// What a command was to look at is not there.
struct MissingError : UsageError {
  using UsageError::UsageError;
};

/// Throws UsageError, with what to do, unless @p file is a file.
void require_file(const std::filesystem::path& file);

/// Whether nothing shows that the file was ever a checkpoint: it is no corrupt one then. False if it cannot be read.
bool is_foreign(const std::filesystem::path& file) noexcept;
/// Why that is so.
inline constexpr const char* kForeign = "it is empty, or another program has written it";
/// Throws UsageError if it is.
void require_checkpoint(const std::filesystem::path& file);

/// Throws UsageError, with what to do, unless @p directory is a directory.
void require_directory(const std::filesystem::path& directory);

using manager::checkpoint_files;
using manager::CheckpointFile;

/// Calls @p look for each checkpoint of a directory, oldest first. A run that lives may retire any of them before its
/// turn comes: then @p look gives false. Where all that were listed have gone so, they are listed again.
void for_each_checkpoint(const std::filesystem::path& directory,
                         const std::function<bool(const CheckpointFile&)>& visit);

/// What stands for a file, to see whether another one has taken its name, or its content was changed: its inode, and
/// when it was modified, in nanoseconds.
using FileState = std::pair<std::uint64_t, std::int64_t>;
/// Nothing if there is none of that name, or it cannot be read.
std::optional<FileState> state_of(const std::filesystem::path& file);
/// Those of all checkpoints in a directory.
std::map<std::filesystem::path, std::optional<FileState>> states_in(const std::filesystem::path& directory);

/// Takes the lock of a directory for a short look or change, without waiting. @throws StorageError (locked)
std::unique_ptr<manager::DirectoryLock> lock_for_a_moment(const std::filesystem::path& directory);
/// The same; null if a run has it.
std::unique_ptr<manager::DirectoryLock> lock_if_free(const std::filesystem::path& directory);
/// The same, but it waits for as long as a server of network files keeps the locks of a dead node.
std::unique_ptr<manager::DirectoryLock> lock_soon(const std::filesystem::path& directory,
                                                  const std::function<void()>& meanwhile);

/// What commands that change a directory of checkpoints have in common.
struct ChangeOptions {
  std::filesystem::path directory;
  std::string prefix;  ///< of the checkpoints that are meant; empty: the only one there is
  bool dry_run = false;
  bool json = false;
};
inline constexpr const char* kPrefixMeaning = "Only checkpoints whose names begin so, if there are several kinds";
/// Before anything is read for a change that is to be made. @throws StorageError (locked) if a run uses the directory
void require_free(const ChangeOptions& options);

/// Whether there is nothing of that name now. False where that cannot be seen.
bool is_gone(const std::filesystem::path& file) noexcept;

/// Writes a new file beside @p file, which replaces it at once: a reader sees the old one or the whole new one.
/// @throws StorageError
void replace_file(const std::filesystem::path& file, const std::function<void(std::ostream&)>& write);

/// Who stands in the lock file while this tool makes a checkpoint.
manager::LockHolder this_process();

/// The checkpoints that a restart has quarantined, or that were rewound, sorted by name.
std::vector<std::filesystem::path> quarantined_files(const std::filesystem::path& directory,
                                                     std::string_view suffix = manager::kCorruptSuffix);
/// Those with a name that can be given back. @param prefix  empty: any
std::vector<manager::QuarantinedName> quarantined_names(const std::filesystem::path& directory,
                                                        const std::string& prefix,
                                                        std::string_view suffix = manager::kCorruptSuffix);

/// The checkpoints of the one prefix that is meant, oldest first. @param prefix  empty: the only one there is
/// @throws UsageError if there are none, or several kinds
std::vector<CheckpointFile> checkpoints_meant(const std::filesystem::path& directory, const std::string& prefix);

/// When a checkpoint was saved, or a node-local copy was taken.
std::chrono::system_clock::time_point time_of(const auto& written) {
  return std::chrono::system_clock::time_point(std::chrono::microseconds(written.time_us));
}

/// Whether `reprieve pin` has marked a checkpoint.
[[nodiscard]] bool is_pinned(const std::filesystem::path& file);

/// Verifies a checkpoint, and shows under its file name, or under @p name, how far that is. @throws StorageError
std::vector<storage::Corruption> verify_with_progress(const std::filesystem::path& file, std::string name = {});

/// "optimizer/momentum, elements [0:512] written by rank 3: checksum does not match".
std::string corruption_text(const storage::Corruption& corruption);

// The node-local copies with parts on this node.

/// What this node has of one copy.
struct LocalListEntry {
  std::optional<storage::LocalCopy> copy;  ///< nothing: files that are no complete part
  std::filesystem::path folder;
  std::size_t parts = 0;          ///< of so many ranks, wherever they ran
  std::size_t partner_parts = 0;  ///< parts that are kept for ranks of other hosts
  std::uint64_t size_bytes = 0;
  bool is_of_directory = false;  ///< of the one that was asked for
  bool in_use = false;           ///< by a process that lives
  bool is_flushed = false;       ///< it was flushed into the checkpoint directory

  [[nodiscard]] bool is_complete() const { return copy && parts == static_cast<std::size_t>(copy->ranks); }
  [[nodiscard]] std::uint64_t step() const { return copy->run_calls.value_or(copy->number); }
  [[nodiscard]] std::chrono::system_clock::time_point time() const { return time_of(*copy); }
};

/// Those of this user in @p local (empty: nowhere), and those that nodes have flushed into @p directory (empty: none);
/// those of @p directory first.
/// @throws StorageError
[[nodiscard]] std::vector<LocalListEntry> list_local(const std::filesystem::path& local,
                                                     const std::filesystem::path& directory);

/// Where the last run of a directory took node-local copies. Nothing if it took none, or if that directory is not on
/// this node. @param status  as `logged_status` says
[[nodiscard]] std::optional<std::filesystem::path> local_directory_of(const std::optional<RunStatus>& status);

// The runs that have left an event log, and how they stand.

/// Those with an event log, at @p top and below it.
std::set<std::filesystem::path> run_directories(const std::filesystem::path& top);

/// What the log of a directory says of its last run, whether that lives or not. Nothing without a log of a run.
[[nodiscard]] std::optional<RunStatus> logged_status(const std::filesystem::path& directory);

/// Calls @p take with the log of each run at the directories and below, each once, and with how it stands: by its log,
/// and by whether its processes live, as far as can be seen from here. @throws UsageError, StorageError
void for_each_run(const std::vector<std::filesystem::path>& tops,
                  const std::function<void(const Timeline&, RunStatus)>& take);

}  // namespace reprieve::tool
