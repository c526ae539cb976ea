#include "reprieve/checkpoint_manager.hpp"

#include "manager/manager_impl.hpp"

namespace reprieve {

CheckpointManager::CheckpointManager(MPI_Comm comm, Checkpoint& checkpoint, std::filesystem::path directory,
                                     ManagerOptions options)
    : impl_(std::make_unique<Impl>(comm, checkpoint, directory, std::move(options))) {}

CheckpointManager::~CheckpointManager() = default;
CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;
CheckpointManager& CheckpointManager::operator=(CheckpointManager&&) noexcept = default;

SaveReport CheckpointManager::save(std::uint64_t number, const SaveReason& reason) {
  SaveRequest request;
  request.number = number;
  request.reason = reason;
  return save(request);
}

SaveReport CheckpointManager::save(const SaveRequest& request) { return impl_->save(request); }

std::optional<CheckpointInfo> CheckpointManager::restore_or_initialize(const std::function<void()>& initialize) {
  return impl_->restore_or_initialize(initialize);
}

CheckpointInfo CheckpointManager::restore(const std::filesystem::path& file) { return impl_->restore(file); }

std::optional<CheckpointInfo> CheckpointManager::latest() const { return impl_->latest(); }

std::vector<CheckpointInfo> CheckpointManager::checkpoints() const { return impl_->checkpoints(); }

const std::filesystem::path& CheckpointManager::directory() const noexcept { return impl_->directory.path(); }

const ManagerOptions& CheckpointManager::options() const noexcept { return impl_->options; }

}  // namespace reprieve
