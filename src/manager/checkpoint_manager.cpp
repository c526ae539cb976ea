// SPDX-License-Identifier: BSD-3-Clause
#include "reprieve/checkpoint_manager.hpp"

#include "manager/background_save.hpp"
#include "manager/manager_impl.hpp"

namespace reprieve {

CheckpointManager::CheckpointManager(MPI_Comm comm, Checkpoint& checkpoint, std::filesystem::path directory,
                                     ManagerOptions options)
    : impl_(Impl::open(comm, checkpoint, directory, std::move(options))) {}

/// A forked child has neither the threads nor the MPI that an orderly end needs, and the lock is not its own.
CheckpointManager::~CheckpointManager() {
  if (impl_ && !impl_->owner.is_here()) {
    static_cast<void>(impl_.release());
  }
}
CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&&) noexcept = default;

SaveReport CheckpointManager::save(std::uint64_t number, const SaveReason& reason) {
  SaveRequest request;
  request.number = number;
  request.reason = reason;
  return save(request);
}

SaveReport CheckpointManager::save() { return save(SaveRequest{}); }

SaveReport CheckpointManager::save(const SaveRequest& request) { return impl_->save(request); }

void CheckpointManager::save_in_background(const SaveRequest& request) { impl_->save_in_background(request); }

bool CheckpointManager::background_save_pending() const noexcept { return impl_->background->pending(); }

bool CheckpointManager::background_save_written() const noexcept {
  return impl_->background->written() == impl_->background->begun();
}

std::optional<SaveReport> CheckpointManager::finish_background_save() { return impl_->finish_background_save(); }

bool CheckpointManager::near_copy() {
  impl_->check_numbers_are_chosen();
  return impl_->near_copy_alone({});
}

bool CheckpointManager::near_copy(std::uint64_t number) { return impl_->near_copy_alone(number); }

std::optional<CheckpointInfo> CheckpointManager::restore_or_initialize(const std::function<void()>& initialize) {
  impl_->settle_background_save();
  return impl_->restore_or_initialize(initialize);
}

CheckpointInfo CheckpointManager::restore(const std::filesystem::path& file) {
  impl_->settle_background_save();
  return impl_->restore(file);
}

std::optional<CheckpointInfo> CheckpointManager::latest() const { return impl_->latest(); }

std::vector<CheckpointInfo> CheckpointManager::checkpoints() const { return impl_->checkpoints(); }

const std::filesystem::path& CheckpointManager::directory() const noexcept { return impl_->directory.path(); }

const ManagerOptions& CheckpointManager::options() const noexcept { return impl_->options; }

}  // namespace reprieve
