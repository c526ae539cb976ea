// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// One save of a CheckpointManager; save.cpp states the commit protocol.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cluster/communicator.hpp"
#include "core/memory.hpp"
#include "manager/manager_impl.hpp"
#include "reprieve/manager_options.hpp"
#include "state/registry.hpp"
#include "storage/write/checkpoint_writer.hpp"

namespace reprieve::manager {

/// The time of a save or a copy: microseconds since 1970.
[[nodiscard]] std::int64_t wall_clock_us();

class Save;

/// Runs the program's save function as all of a save: on every rank, with a directory to write to; the manager may be
/// called in it. Collective. Throws what it threw on any rank, on all of them. Returns the number that was proposed to
/// it.
std::uint64_t save_by_function(CheckpointManager::Impl& manager, const CheckpointManager::SaveRequest& request);

// Saves whose writing is left to a thread (see README.md). One is under way at a time.

/// Collective but where it says otherwise.
class [[gnu::visibility("hidden")]] BackgroundSave {
 public:
  explicit BackgroundSave(CheckpointManager::Impl & manager);
  ~BackgroundSave();

  /// Begins one, or makes the whole save if a rank has no room for a copy of its state.
  void begin(const CheckpointManager::SaveRequest& request);
  /// Commits the one that is under way, if one is. Waits for it.
  std::optional<SaveReport> finish();
  /// The same for the sake of something else, which its failure does not hinder.
  void wait();
  /// The same at the end of the manager, if the other ranks are there. Never throws.
  void end() noexcept;

  // Not collective.
  /// Begun, not yet committed.
  [[nodiscard]] bool pending() const noexcept { return save_ != nullptr; }
  /// How many have been begun; the same on every rank.
  [[nodiscard]] std::uint64_t begun() const noexcept { return begun_; }
  /// How many this rank has written, or failed to write.
  [[nodiscard]] std::uint64_t written() const noexcept;

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
/// @param logs_reason  false: the caller only asks
/// @param find_available  what there is for them; asked only if a rank needs more than it has
/// @return the same on every rank
[[nodiscard]] bool copies_fit(
    cluster::Communicator& comm, std::uint64_t bytes, const std::string& what, bool logs_reason = true,
    const std::function<core::AvailableMemory()>& find_available = [] { return core::available_memory(); });

// The space for the next checkpoint, taken in advance.

/// Takes the space for a checkpoint of @p state. Collective. @throws StorageError, on all ranks
void reserve_space(cluster::Communicator& comm, const Checkpoint::Registry& state, CheckpointDirectory& directory,
                   const ManagerOptions& options);

}  // namespace reprieve::manager
