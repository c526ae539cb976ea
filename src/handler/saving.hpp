// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// The saves of a handler: at once or in the background, by the manager or by the program's save function.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "cluster/agreement_vector.hpp"
#include "cluster/communicator.hpp"
#include "manager/manager_impl.hpp"
#include "reprieve/checkpoint_manager.hpp"

namespace reprieve::handler {

/// Where the program stands.
struct SaveMoment {
  std::uint64_t step = 0;  ///< the program's own count, or the calls of run
  cluster::BoundaryIndex boundary = 0;
};

/// All calls are collective but those that are `const`.
class Saver {
 public:
  using Clock = std::chrono::steady_clock;
  using Request = CheckpointManager::SaveRequest;

  /// @param replaces_save  the program's save function makes the whole checkpoint
  /// @param on_commit  called with every checkpoint that is committed
  Saver(cluster::Communicator& comm, CheckpointManager& manager, bool replaces_save,
        std::function<void(const SaveReport&)> on_commit)
      : comm_(comm), manager_(manager), replaces_save_(replaces_save), on_commit_(std::move(on_commit)) {}

  /// Saves, and returns when the checkpoint is committed.
  void save(const Request& request, SaveMoment moment);
  /// Begins a save in the background. The one before is committed.
  void save_in_background(const Request& request, SaveMoment moment);
  [[nodiscard]] bool works_in_background() const { return manager_.options().background && !replaces_save_; }
  /// Why the one that is begun was made.
  [[nodiscard]] SaveReason::Kind background_reason() const noexcept { return background_reason_; }
  /// The save before is still being written, and the options say that the next one is left out then.
  [[nodiscard]] bool is_busy() const;
  /// Commits what is written in the background, if anything is. Waits for the threads of all ranks if they are not
  /// done. @throws what went wrong in one of them
  void commit();
  /// The same before a save that counts: that of an earlier step, if it cannot be committed, must not hinder it.
  void settle();

  /// The state of that boundary is saved, or is being written.
  [[nodiscard]] bool has_saved(cluster::BoundaryIndex boundary) const noexcept { return boundary == boundary_; }
  [[nodiscard]] Clock::time_point last_time() const noexcept { return time_; }
  /// The step that the state holds, where that follows all checkpoints that are there; else the manager takes the next
  /// number. A second save at the same step replaces the first.
  [[nodiscard]] manager::HandlerLink::NextNumber next_number(std::uint64_t step) const noexcept;

  /// The state is that of a checkpoint that was restored.
  void resume_from(std::uint64_t number, std::uint64_t step) noexcept;
  /// From here on the time without a save counts.
  void start_clock() noexcept { time_ = Clock::now(); }

 private:
  SaveReport save_by_function(const Request& request);

  cluster::Communicator& comm_;
  CheckpointManager& manager_;
  bool replaces_save_;
  std::function<void(const SaveReport&)> on_commit_;
  SaveReason::Kind background_reason_ = SaveReason::Kind::user;

  // Of the last state that is saved, is being written, or was restored.
  cluster::BoundaryIndex boundary_ = -1;
  std::optional<std::uint64_t> number_;
  std::uint64_t step_ = 0;
  Clock::time_point time_;
};

}  // namespace reprieve::handler
