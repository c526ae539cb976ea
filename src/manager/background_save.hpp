// SPDX-License-Identifier: BSD-3-Clause
#pragma once

/// @file
/// Saves whose writing is left to a thread (see README.md). One is under way at a time.

#include <cstdint>
#include <memory>
#include <optional>

#include "manager/manager_impl.hpp"
#include "manager/save.hpp"

namespace reprieve::manager {

/// Collective but where it says otherwise.
class BackgroundSave {
 public:
  explicit BackgroundSave(CheckpointManager::Impl& manager) : manager_(manager) {}

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
  bool start(std::unique_ptr<Save>& save, const CheckpointManager::SaveRequest& request);
  void note_failure(const Save& save) noexcept;

  CheckpointManager::Impl& manager_;
  std::unique_ptr<Save> save_;
  std::uint64_t begun_ = 0;
  std::shared_ptr<storage::StateCopy> copy_;
};

}  // namespace reprieve::manager
