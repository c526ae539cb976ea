// SPDX-License-Identifier: BSD-3-Clause
// What a manager does about near copies.

#include "manager/manager_impl.hpp"
#include "manager/near_copies.hpp"
#include "reprieve/error.hpp"

namespace reprieve {

bool CheckpointManager::Impl::near_copy(const SaveRequest& request) {
  check_not_in_save_fn("near_copy");
  if (options.near_directory.empty()) {
    throw UsageError("near_copy needs ManagerOptions::near_directory (checkpoints.near_directory), such as /dev/shm");
  }
  // A handler knows whether its saves have one. Alone, the manager goes by those that it has seen.
  if (request.save_fn || (uses_save_fn && !handler)) {
    throw UsageError("a near copy holds the registered state alone: it cannot hold what a save function writes");
  }
  comm.together([this] { check_state_is_whole(); }, "taking a near copy");
  if (!near) {
    near = manager::NearCopies::make(*this);
  }
  return near && near->take(request);
}

bool CheckpointManager::Impl::near_copy_alone(std::optional<std::uint64_t> number) {
  if (near && near->is_under_way()) {
    near->wait();
  }
  SaveRequest request;
  request.number = number;
  return near_copy(request);
}

void CheckpointManager::Impl::check_numbers_are_chosen() const {
  if (gives_numbers && !handler) {
    throw UsageError(
        "the saves of this manager have numbers of the program: near_copy needs one too, or what is restored from the "
        "copy would have a number that says nothing");
  }
}

void CheckpointManager::Impl::remove_near_left_overs() noexcept {
  if (!near && near_owner && manager::is_first_of_host(comm)) {
    tell([this] { near_owner->place(options).remove_left_overs(near_owner->run); });
  }
}

void CheckpointManager::Impl::give_back_near_copies() noexcept {
  if (near) {
    near->give_back();
    near.reset();
  }
}

/// Near copies must be of the same kind.
void CheckpointManager::Impl::note_kind_of(const SaveRequest& request) noexcept {
  gives_numbers = gives_numbers || request.number.has_value();
  uses_save_fn = uses_save_fn || request.save_fn != nullptr;
}

}  // namespace reprieve
