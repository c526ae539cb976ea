// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Which node-local copy may be taken, and how it becomes a checkpoint file. The start of a run, `reprieve drain`, and
/// the start after an emergency save use the same code. local_finish.cpp states the steps. No MPI.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/values.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/directory_lock.hpp"
#include "manager/node_directory.hpp"
#include "reprieve/error.hpp"
#include "storage/local/part_file.hpp"

namespace reprieve::manager {

// Which copies may be taken, by the parts that were found. Pure: no files are touched.

/// All that was found of one copy.
struct ListedCopy {
  storage::LocalCopy copy;
  std::vector<std::vector<FoundPart>> parts;  ///< by rank; a part can lie in several directories

  [[nodiscard]] bool is_complete() const { return missing().empty(); }
  /// The ranks whose parts were not found.
  [[nodiscard]] std::vector<int> missing() const;
  /// "the node-local copy at step 7 of 2 ranks is not complete: parts of ranks 1 were not found here"
  [[nodiscard]] std::string incomplete_text() const;
};

/// What a copy must fit to.
struct LocalTarget {
  std::string directory_id;
  std::uint64_t directory_key = 0;
  std::string prefix;
  std::string own_launch{};                   ///< that of the process that asks: its own copies are not for it
  LaunchRecord last{};                        ///< what the directory remembers
  storage::SaveIdentity newest_checkpoint{};  ///< that is there and can be read; all zero: there is none
  bool has_gone_back = false;                 ///< the newest commit that the directory remembers is gone
};

/// The copies that may be taken, the newest first, whether complete or not. The rule:
///
/// 1. The newest commit that was ever made is still there, valid or corrupt. Otherwise the user has removed it to go
///    back: no copy is taken. That is logged.
/// 2. The copy knew that commit as the newest, or the launch of the copy made that commit, and took the copy after it.
/// 3. The copy is of the last launch, or it is the very copy from which the last launch started.
/// 4. It lies on a node for this very directory, or in the directory itself.
///
/// Numbers and clocks decide nothing: a directory that was put back to a backup hands them out again.
[[nodiscard]] std::vector<ListedCopy> wanted_copies(const std::vector<FoundPart>& parts, const LocalTarget& target);

// A checkpoint file of a copy.

/// The processes that take a copy together: one process, as it stands here, or the ranks of a program.
class Team {
 public:
  explicit Team(std::string host) : host_(std::move(host)) {}
  virtual ~Team() = default;
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] virtual int rank() const { return 0; }
  [[nodiscard]] virtual int size() const { return 1; }
  [[nodiscard]] virtual const std::string& host_of(int /*rank*/) const { return host_; }
  /// Throws the failure of one rank on all of them.
  virtual void agree(const core::Outcome& mine);
  [[nodiscard]] virtual core::Bytes broadcast(core::Bytes bytes, int /*root*/) { return bytes; }
  /// All ranks' bytes on rank 0, by rank.
  [[nodiscard]] virtual std::vector<core::Bytes> gather(const core::Bytes& mine) { return {mine}; }

 private:
  std::string host_;
};

/// The parts of the copy that is taken, by rank. Empty: there is none.
using ChosenParts = std::vector<FoundPart>;

/// What the file says about itself, without checksums.
struct CopyStructure {
  storage::StructureImage image;
  storage::FileIndex index;
};

/// Members are collective over the team unless they say otherwise.
class LocalFinisher {
 public:
  struct Options {
    std::string directory_id{};
    std::string prefix{};
    std::string own_launch{};
    bool durable = true;
    // On rank 0: the lock of the directory is still held; the file will be committed; it is; a part is corrupt.
    std::function<void()> check_lock = [] {};
    std::function<void(const storage::FileMetadata& metadata)> committing = [](const auto&) {};
    std::function<void(const storage::FileMetadata& metadata)> committed = [](const auto&) {};
    std::function<void(const std::string& part, const std::string& why)> corrupt = [](const auto&, const auto&) {};
  };

  /// Keeps references. @param node_directory  of this host's parts; nothing: only flushed parts count
  LocalFinisher(Team& team, CheckpointDirectory& checkpoints, std::optional<NodeDirectory> node_directory,
                Options options);

  /// The newest copy whose parts all lie somewhere, if it is newer than all checkpoints.
  [[nodiscard]] ChosenParts choose();
  /// What the last `choose` has found: the newest first. Rank 0's. Not collective.
  [[nodiscard]] const std::vector<ListedCopy>& wanted() const noexcept { return wanted_; }
  /// What the last `choose` compared them with. Rank 0's. Not collective.
  [[nodiscard]] const LocalTarget& target() const noexcept { return target_; }
  /// @throws StorageError if a checkpoint that may be newer cannot be read at this moment
  void check_none_may_be_newer(const ChosenParts& parts);

  /// Writes the parts into one checkpoint file, verifies them, and commits it. False if a part is corrupt: then the
  /// choice must be made again. @throws StorageError
  [[nodiscard]] bool finish(const ChosenParts& parts);

  // The steps that others use.

  /// Not collective. @throws CorruptError if it is another part than was listed; StorageError
  [[nodiscard]] std::shared_ptr<const storage::Part> open(const FoundPart& part) const;
  /// Does @p work with a part. An error of the class @p Caught makes the part corrupt. Not collective.
  template <class Caught = Error, class Work>
  void try_part(const FoundPart& part, Work&& work) {
    try {
      work();
    } catch (const Caught& error) {
      corrupt_here_[name_of(part)] = error.what();
    }
  }
  /// Whether no rank has found a corrupt part since the last call. Corrupt ones are not chosen again.
  [[nodiscard]] bool all_are_valid();
  /// From the part of rank 0. Nothing if that is corrupt.
  [[nodiscard]] std::optional<CopyStructure> structure_of(const ChosenParts& parts);

 private:
  [[nodiscard]] static std::string name_of(const FoundPart& part) { return part.host + '/' + part.file; }
  template <class Work>
  void on_root(Work&& work);
  /// The rank that has this part opened, verified and written: its own rank if that is on the part's host.
  [[nodiscard]] int holder_of(const FoundPart& part) const;
  [[nodiscard]] std::vector<FoundPart> list() const;
  [[nodiscard]] ChosenParts choose_from(const std::vector<core::Bytes>& lists);
  [[nodiscard]] FoundPart best_of(const std::vector<FoundPart>& parts) const;
  [[nodiscard]] LocalTarget find_target();
  [[nodiscard]] bool write(const ChosenParts& parts, CopyStructure& structure);
  [[nodiscard]] core::Bytes write_own(const ChosenParts& parts, const CopyStructure& structure,
                                      const core::FileAddress& file);

  Team& team_;
  CheckpointDirectory& checkpoints_;
  std::optional<NodeDirectory> node_directory_;
  Options options_;
  std::set<std::string> corrupt_;                    ///< "<host>/<file>"; rank 0's
  std::map<std::string, std::string> corrupt_here_;  ///< why, by part
  std::vector<ListedCopy> wanted_;
  LocalTarget target_;
};

// The finisher for one process: `reprieve drain`.

struct DrainOptions {
  std::filesystem::path local_directory{};
  std::string prefix{};
  LockHolder self{};
  std::chrono::milliseconds lock_timeout{};
  bool dry_run = false;  ///< only say what would be done
};

/// What became of it.
struct DrainResult {
  enum class Kind { nothing, completed, incomplete };
  Kind kind = Kind::nothing;
  std::optional<storage::LocalCopy> copy{};  ///< the one that was completed, or the newest that is not complete
  std::filesystem::path file{};              ///< the checkpoint
  std::vector<int> missing{};                ///< ranks whose parts nobody has flushed yet
  std::string why_incomplete{};
  std::size_t flushed = 0;             ///< parts that this call has flushed
  std::vector<std::string> corrupt{};  ///< a sentence for each corrupt part that was found
};

/// @throws StorageError (locked) while a run uses the directory; StorageError, CorruptError
[[nodiscard]] DrainResult drain(CheckpointDirectory& checkpoints, const DrainOptions& options);

/// The prefixes with parts on this node or in the checkpoint directory. @throws StorageError
[[nodiscard]] std::set<std::string> drainable_prefixes(const CheckpointDirectory& checkpoints,
                                                       const std::filesystem::path& local_directory);

}  // namespace reprieve::manager
