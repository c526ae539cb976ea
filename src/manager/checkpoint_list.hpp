// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// What is known of the checkpoints of a directory: their names, their order, their list.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/directory.hpp"
#include "core/json_fields.hpp"
#include "reprieve/checkpoint_manager.hpp"
#include "storage/format/file_index.hpp"

namespace reprieve::manager {

// Names of checkpoint files. Pure: no files are touched.

inline constexpr std::string_view kCheckpointSuffix = ".h5";
inline constexpr std::string_view kFilesSuffix = ".files";
/// Behind the name of a checkpoint that was quarantined as corrupt; `.2` and so on may follow.
inline constexpr std::string_view kCorruptSuffix = ".corrupt";
/// The same of one that is newer than the step to which `reprieve rewind` went back.
inline constexpr std::string_view kRewoundSuffix = ".rewound";

/// `<prefix>-<number><suffix>`
std::string format_name(std::string_view prefix, std::uint64_t number, std::string_view suffix);

/// The number in a name that `format_name` makes; nothing for every other name, such as one with leading zeros.
std::optional<std::uint64_t> parse_name(std::string_view prefix, std::string_view name, std::string_view suffix);

/// Behind the name of a checkpoint: the file that pins it, so that nothing removes it but its owner.
inline constexpr std::string_view kPinnedSuffix = ".pinned";

/// Where checkpoints are written, until they are committed.
inline constexpr const char* kStagingName = ".chieftemp";

/// A checkpoint that is not committed yet. The time of its save makes the name its own: a rank of a dead run that still
/// lives, and opens the file of its save, never finds that of another run.
struct StagedName {
  std::uint64_t number = 0;
  std::int64_t time_us = 0;  ///< as in the metadata of the checkpoint

  friend bool operator==(const StagedName&, const StagedName&) = default;
};

/// `<prefix>-<number>.<time_us><suffix>`
std::string format_staged_name(std::string_view prefix, StagedName staged, std::string_view suffix);
std::optional<StagedName> parse_staged_name(std::string_view prefix, std::string_view name, std::string_view suffix);

/// Whether a program with another prefix has staged something under that name. @p name  in the staging directory
bool is_staged_under_another_prefix(std::string_view prefix, std::string_view name);

/// The name of a checkpoint that was quarantined: `<prefix>-<number>.h5.corrupt`, or `.corrupt.2` and so on; or of one
/// that was rewound.
struct QuarantinedName {
  std::string file;
  std::string prefix;
  std::uint64_t number = 0;
  std::string suffix;       ///< from `.corrupt` on
  std::uint64_t count = 1;  ///< at its end
};
std::optional<QuarantinedName> parse_quarantined_name(std::string_view name, std::string_view with = kCorruptSuffix);

// Which of the checkpoints of one prefix is newer. Pure: no files are touched.
//
// The newest is the one with the greatest run counter, then the greatest save counter (`storage::SaveIdentity`).
// Neither names nor clocks decide: a program may number its checkpoints as it likes, and count back.

enum class Origin {
  foreign,    ///< saved in another directory, and copied here: older than all others, unless it is named
  uncounted,  ///< by a version that did not count: older than those that have counters, by number
  own,
  unreadable,  ///< as new as its number allows, so that a restore comes to it and says that it is corrupt
};

/// The sort key of one checkpoint.
struct OrderEntry {
  std::uint64_t number = 0;
  Origin origin = Origin::unreadable;
  std::uint64_t run = 0;
  std::uint64_t save = 0;
  std::string directory_id{};

  friend bool operator==(const OrderEntry&, const OrderEntry&) = default;
};

/// The entry of a checkpoint that can be read.
/// @param here  the id of the directory that it lies in; empty if that is not known: then nothing is foreign
OrderEntry order_entry(std::uint64_t number, const std::optional<storage::SaveIdentity>& identity,
                       const std::string& here);

OrderEntry order_entry(const CheckpointInfo& info, const std::string& here);

/// Sorts, with the newest at the end.
void sort_oldest_first(std::vector<OrderEntry>& entries);

/// Takes out those that only a restore by name reads: the foreign ones, if there are others. @pre sorted
void drop_foreign(std::vector<OrderEntry>& entries);

// Which checkpoints to remove. Pure: no files, no clock.

struct RetentionPolicy {
  std::uint64_t max_to_keep = 0;       ///< newest checkpoints to keep; 0 keeps all
  std::chrono::seconds keep_every{0};  ///< beyond these, keep one for every such span; zero: off
};

struct RetentionEntry {
  std::uint64_t number = 0;
  std::chrono::system_clock::time_point time;  ///< of the save
};

/// The numbers of the checkpoints that @p policy gives up, oldest first.
///
/// Beyond the newest, `keep_every` keeps the oldest checkpoint, and then each that was saved
/// at least one span after the one kept before it: the answer stays the same when it is asked again after every save.
/// @param checkpoints  oldest first, as `sort_oldest_first` has them
/// @param committed  the checkpoint that has just been saved: never given up, whatever its number
std::vector<std::uint64_t> to_retire(std::vector<RetentionEntry> checkpoints, const RetentionPolicy& policy,
                                     std::uint64_t committed);

// `.reprieve.directory`: what a checkpoint directory remembers besides its checkpoints. No MPI.

inline constexpr const char* kRecordName = ".reprieve.directory";

/// A run that said that it is finished.
struct FinishedRun {
  std::uint64_t run_calls = 0;
  /// The newest checkpoint at that moment; 0 if there was none. When another one is the newest, something was saved or
  /// removed since, and the run is no longer finished.
  std::uint64_t run = 0;
  std::uint64_t save = 0;
  REPRIEVE_FIELDS(run_calls, run, save)

  friend bool operator==(const FinishedRun&, const FinishedRun&) = default;
};

/// A checkpoint that was committed.
struct Commit {
  std::uint64_t run = 0;
  std::uint64_t save = 0;  ///< 0: there was none
  std::uint64_t number = 0;
  REPRIEVE_FIELDS(run, save, number)

  friend bool operator==(const Commit&, const Commit&) = default;
};

/// What decides which node-local copies may be taken (local_finish.hpp). Of the last launch that took a copy or
/// committed a checkpoint.
struct LaunchRecord {
  std::string launch{};       ///< its random mark; empty: there was none
  std::string from_launch{};  ///< it started from a copy of that launch; empty: it did not
  std::uint64_t from_save = 0;
  Commit newest{};               ///< of all that were ever made; in a launch without node-local copies, the first one
  std::optional<Commit> next{};  ///< written just before its commit: it is committed if its staged file is gone
  std::optional<std::int64_t> next_time_us{};  ///< names that file
  REPRIEVE_FIELDS(launch, from_launch, from_save, newest, next, next_time_us)

  friend bool operator==(const LaunchRecord&, const LaunchRecord&) = default;
};

struct DirectoryRecord {
  std::string id{};         ///< unlike that of any other directory; a copy of the whole directory keeps it
  std::uint64_t run = 0;    ///< the starts so far
  std::uint64_t saves = 0;  ///< save counters up to this one may have been given out
  std::map<std::string, FinishedRun> finished{};   ///< by prefix
  std::map<std::string, LaunchRecord> launches{};  ///< by prefix
  REPRIEVE_FIELDS(id, run, saves, finished, launches)

  friend bool operator==(const DirectoryRecord&, const DirectoryRecord&) = default;
};

/// Unlike any other: 32 hexadecimal digits. For a directory, and for a launch.
std::string make_random_id();

/// Nothing if there is none. One that makes no sense counts as none, with a warning. A launch that ended in the middle
/// of a commit is looked after: `next` is empty, and the newest commit is the right one.
/// @throws StorageError if it cannot be read
std::optional<DirectoryRecord> read_directory_record(const core::Directory& directory);

/// Replaces it atomically. @throws StorageError
void write_directory_record(const core::Directory& directory, const DirectoryRecord& record, bool durable);

/// Writes what reading has decided on a launch that ended in the middle of a commit, before its staged file is removed.
/// A full disk is no reason not to start: then a warning says that it is not written.
void complete_commits(const core::Directory& directory, bool durable) noexcept;

// The checkpoints in a directory, for those who only look: without the lock, and without ranks.

/// A file with the name of a checkpoint: `<prefix>-<number>.h5`.
struct CheckpointFile {
  std::filesystem::path path;
  std::string prefix;
  std::uint64_t number = 0;
  bool is_foreign =
      false;  ///< saved in another directory: a restore takes it only if it is named, or there is no other
};

/// The committed checkpoints in a directory, whatever their prefix and whether valid or not, sorted by prefix, then as
/// a restore sees them, with the newest at the end. Cost: one small read per file.
/// @throws StorageError if the directory cannot be read
std::vector<CheckpointFile> checkpoint_files(const std::filesystem::path& directory);

/// Whether a file has the name of a checkpoint, or of one that was quarantined, of any prefix.
[[nodiscard]] bool is_checkpoint_name(const std::filesystem::path& path);
[[nodiscard]] bool is_quarantined_name(const std::filesystem::path& path);

/// The regular files in a directory, in any order. @throws StorageError
std::vector<std::filesystem::path> regular_files(const std::filesystem::path& directory);

}  // namespace reprieve::manager

// And for messages from rank 0 to the other ranks.

namespace reprieve {

constexpr auto fields_of(const SaveReason*) {
  using T = SaveReason;
  return std::tuple(&T::kind, &T::rank, &T::host, &T::source, &T::message);
}
constexpr auto fields_of(const CheckpointInfo*) {
  using T = CheckpointInfo;
  return std::tuple(&T::path, &T::number, &T::run_calls, &T::run, &T::save, &T::directory_id, &T::world_size, &T::time,
                    &T::size_bytes, &T::reason, &T::files_directory);
}

}  // namespace reprieve
