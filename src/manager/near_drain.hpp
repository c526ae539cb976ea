// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// A near copy becomes a checkpoint, without an MPI program: after a crash, by hand or in a batch script. No MPI.
/// near_drain.cpp states how the nodes work together.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/directory.hpp"
#include "core/threads.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/directory_lock.hpp"
#include "manager/near_place.hpp"
#include "storage/near/part_file.hpp"

namespace reprieve::manager {

/// What a near copy must fit to. The chief's, under the lock. @throws StorageError
[[nodiscard]] NearTarget near_target(CheckpointDirectory& checkpoints, const std::string& directory_id,
                                     const std::string& prefix);

/// A checkpoint that cannot be read at this moment, as the file system does not answer or refuses it, cannot be judged:
/// it may be newer than the copy. @throws StorageError if there is one; not for damaged ones
void check_none_may_be_newer(CheckpointDirectory& checkpoints, const std::string& directory_id,
                             const storage::NearCopy& copy);

/// What became of it.
struct DrainResult {
  enum class Kind { nothing, completed, incomplete };
  Kind kind = Kind::nothing;
  std::optional<storage::NearCopy> copy{};  ///< the one that was completed, or the newest that is not complete
  std::filesystem::path file{};             ///< the checkpoint
  std::vector<int> missing{};               ///< ranks whose parts nobody has brought yet
  std::string why_incomplete{};
  std::size_t brought = 0;  ///< parts that this call has brought
};

class NearDrain {
 public:
  struct Options {
    std::filesystem::path near_directory{};
    std::string prefix{};
    LockHolder self{};
    std::chrono::milliseconds lock_timeout{};
    bool dry_run = false;  ///< only say what would be done
  };

  /// @param checkpoints  lives as long as this
  NearDrain(CheckpointDirectory& checkpoints, Options options);

  /// @throws StorageError (locked) while a run uses the directory; StorageError, CorruptError
  DrainResult run();

 private:
  [[nodiscard]] std::vector<ListedPart> list() const;
  [[nodiscard]] std::vector<ListedCopy> wanted();
  [[nodiscard]] DrainResult complete_newest(DirectoryLock& lock);
  void make_checkpoint(const ListedCopy& copy, DirectoryLock& lock);
  [[nodiscard]] storage::Part open(const ListedPart& part) const;
  void give_back(const storage::SaveIdentity& newest);
  [[nodiscard]] std::size_t bring(const std::vector<ListedCopy>& copies) const;
  [[nodiscard]] bool bring(const core::Directory& directory, const ListedPart& part) const;
  [[nodiscard]] DirectoryLock take_lock() const;

  CheckpointDirectory& checkpoints_;
  Options options_;
  std::string directory_id_;
  NearPlace place_;
  std::set<std::string> damaged_;  ///< "<host>/<file>"
};

/// The prefixes of which this node, or the checkpoint directory, has parts. @throws StorageError
[[nodiscard]] std::set<std::string> drainable_prefixes(const CheckpointDirectory& checkpoints,
                                                       const std::filesystem::path& near_directory);

// The save that needs nobody: each rank brings its near copy into the checkpoint directory by itself.
// near_drain.cpp states the protocol. No MPI.

/// All members can be called by any thread. Not collective.
class NearRescue {
 public:
  struct Rank {
    std::uint64_t run = 0;
    int rank = 0;
    int ranks = 0;
  };

  /// @param checkpoints  where the parts are brought to
  /// @param place  where the parts of this host lie
  NearRescue(const core::Directory& checkpoints, const NearPlace& place, Rank rank);
  /// As `end`, but what was brought stays.
  ~NearRescue();
  NearRescue(const NearRescue&) = delete;
  NearRescue& operator=(const NearRescue&) = delete;

  /// Begins, on a thread, unless it is at work already. Returns at once.
  void begin();
  /// For so long nothing is written: a checkpoint of all ranks is, and needs the file system. 0: it goes on.
  void hold_for(std::chrono::milliseconds time) noexcept;
  /// The parts must stay as they are.
  [[nodiscard]] bool is_at_work() const noexcept;

  /// Stops it, and removes what it has brought: a checkpoint is newer.
  void end() noexcept;

 private:
  struct Work;

  void stop() noexcept;

  std::shared_ptr<Work> work_;
  mutable std::mutex mutex_;
  std::optional<core::BackgroundTask> task_;
};

}  // namespace reprieve::manager
