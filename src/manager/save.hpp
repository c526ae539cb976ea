// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// One save of a CheckpointManager; save.cpp states the commit protocol.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/communicator.hpp"
#include "core/directory.hpp"
#include "core/memory.hpp"
#include "core/threads.hpp"
#include "manager/checkpoint_directory.hpp"
#include "manager/checkpoint_list.hpp"
#include "manager/manager_impl.hpp"
#include "reprieve/manager_options.hpp"
#include "state/registry.hpp"
#include "storage/write/checkpoint_writer.hpp"

namespace reprieve::manager {

/// From the call to the commit and the clean-up. Nothing is left behind, however it ends. Members are collective unless
/// they say otherwise, and throw the same on every rank.
class [[gnu::visibility("hidden")]] Save {
 public:
  Save(CheckpointManager::Impl & manager, CheckpointManager::SaveRequest request);
  ~Save();
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;

  /// Steps 1 and 2, and the layout of the file.
  void prepare();

  /// Step 3, before it returns.
  void write();

  /// Copies the state and lets a thread do step 3, unless a rank has no room for a copy: then nothing has happened.
  /// @param copy  the memory for it, which the thread shares
  /// @param limit_bytes  the greatest copy that a rank may make; 0: any
  bool write_in_background(const std::shared_ptr<storage::StateCopy>& copy);

  /// Whether this rank's part is written, or has failed; before that the copy is in use. Not collective. Cost: one
  /// load.
  [[nodiscard]] bool written() const noexcept { return !task_ || task_->done(); }

  /// Waits until all ranks have written, then steps 4 to 6.
  SaveReport finish();

  [[nodiscard]] const CheckpointManager::SaveRequest& request() const noexcept { return request_; }

 private:
  using Clock = std::chrono::steady_clock;

  void begin();
  void run_save_fn();
  void lay_out();
  void await_written();
  void commit();
  void retire_left_over();
  void retire();
  void record_finished(const SaveReport& report);
  [[nodiscard]] SaveReport report(Clock::duration mine);

  [[nodiscard]] std::string step(const char* name) const { return what_ + ": " + name; }
  [[nodiscard]] std::filesystem::path write_directory() const;
  void make_write_directory();

  CheckpointManager::Impl& manager_;
  CheckpointManager::SaveRequest request_;
  std::string what_;
  Clock::time_point start_ = Clock::now();
  StagedName staged_{};
  bool began_ = false;                           ///< rank 0: the staging directory is there
  std::optional<core::WriteDirectory> scratch_;  ///< for the save function, on ranks other than rank 0
  bool has_files_ = false;
  std::uint64_t save_ = 0;  ///< counted over all runs of the directory
  storage::FileMetadata metadata_;
  /// Shared with the thread, which may outlive the save.
  std::shared_ptr<storage::CheckpointWriter> writer_;
  std::optional<core::BackgroundTask> task_;
  Clock::duration blocked_{};  ///< background: until the thread took over
};

/// Runs the program's save function as all of a save: on every rank, with a directory to write to. Collective. Throws
/// what it threw on any rank, on all of them. Returns the number that was proposed to it.
std::uint64_t save_by_function(CheckpointManager::Impl& manager, const CheckpointManager::SaveRequest& request);

// Saves whose writing is left to a thread (see README.md). One is under way at a time.

/// Collective but where it says otherwise.
class [[gnu::visibility("hidden")]] BackgroundSave {
 public:
  explicit BackgroundSave(CheckpointManager::Impl & manager) : manager_(manager) {}

  /// Begins one, or makes the whole save if a rank has no room for a copy of its state.
  void begin(const CheckpointManager::SaveRequest& request);
  /// Commits the one that is under way, if one is. Waits for it.
  std::optional<SaveReport> finish();
  /// The same for the sake of something else, which its failure does not hinder.
  void settle();
  /// The same at the end of the manager, if the other ranks are there. Never throws.
  void end() noexcept;

  // Not collective.
  /// Begun, not yet committed.
  [[nodiscard]] bool pending() const noexcept { return save_ != nullptr; }
  /// How many have been begun; the same on every rank.
  [[nodiscard]] std::uint64_t begun() const noexcept { return begun_; }
  /// How many this rank has written, or failed to write.
  [[nodiscard]] std::uint64_t written() const noexcept { return begun_ - (save_ && !save_->written() ? 1 : 0); }

 private:
  bool start(std::unique_ptr<Save> & save, const CheckpointManager::SaveRequest& request);
  void note_failure(const Save& save) noexcept;

  CheckpointManager::Impl& manager_;
  std::unique_ptr<Save> save_;
  std::uint64_t begun_ = 0;
  std::shared_ptr<storage::StateCopy> copy_;
};

// Whether there is memory for the copies of the state that a save in the background needs.

/// What one rank needs for its copy, and has.
struct CopyDemand {
  std::string host;
  std::uint64_t bytes = 0;
  core::AvailableMemory available;
};
constexpr auto fields_of(const CopyDemand*) {
  return std::tuple(&CopyDemand::host, &CopyDemand::bytes, &CopyDemand::available);
}

/// Why the copies of all ranks do not fit together; empty if they do. Ranks of a host share its memory, ranks of a
/// control group its limit; a part is left free for what else continues.
[[nodiscard]] std::string why_copies_do_not_fit(std::span<const CopyDemand> demands);

/// The same for all ranks of a communicator: asked before a byte is copied, since a system that runs out of memory
/// kills a rank instead of returning an error. Collective. @param bytes  that this rank must get from the system
/// @param tells  log the reason
/// @param find_available  what there is for them; asked only if a rank needs more than it has
/// @return the same on every rank
[[nodiscard]] bool copies_fit(
    cluster::Communicator& comm, std::uint64_t bytes, const std::string& what, bool tells = true,
    const std::function<core::AvailableMemory()>& find_available = [] { return core::available_memory(); });

// The space for the next checkpoint, taken in advance.

/// Takes the space for a checkpoint of @p state. Collective. @throws StorageError, on all ranks
void reserve_space(cluster::Communicator& comm, const Checkpoint::Registry& state, CheckpointDirectory& directory,
                   const ManagerOptions& options);

}  // namespace reprieve::manager
