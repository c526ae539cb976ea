// Saves whose writing is left to a thread (see README.md). One is under way at a time.

#include <exception>
#include <utility>

#include "core/log.hpp"
#include "manager/manager_impl.hpp"
#include "manager/save.hpp"
#include "reprieve/error.hpp"

namespace reprieve {

void CheckpointManager::Impl::save_in_background(const SaveRequest& request) {
  check_not_in_save_fn("save_in_background");
  if (options.writer != WriterKind::direct) {
    throw UsageError("only the direct writer saves in the background");
  }
  get_ready_to_save();
  std::unique_ptr<manager::Save> save;
  try {
    // On all ranks, or on none.
    if (comm.together([&] { return start_background_save(save, request); }, "saving in the background")) {
      background = std::move(save);
      ++background_started;
    }
  } catch (const Error& error) {
    if (save && !save->written()) {
      state_copy_.reset();  // the thread keeps it
    }
    tell_failure(request.number, error);
    throw;
  }
}

/// @param save  becomes the save that is under way, or that has failed
/// @return false if there was no room for a copy and the save is done
bool CheckpointManager::Impl::start_background_save(std::unique_ptr<manager::Save>& save, const SaveRequest& request) {
  save = std::make_unique<manager::Save>(*this, request);
  save->prepare();
  if (!state_copy_) {
    state_copy_ = std::make_shared<storage::StateCopy>();
  }
  if (save->write_in_background(state_copy_, options.background_memory_bytes)) {
    return true;
  }
  if (comm.is_chief()) {
    core::log::warning("a rank has no room for a copy of its state: checkpoint {} is not written in the background",
                       *save->request().number);
  }
  save->write();
  save->finish();
  return false;
}

std::uint64_t CheckpointManager::Impl::background_written() const noexcept {
  return background_started - (background && !background->written() ? 1 : 0);
}

std::optional<SaveReport> CheckpointManager::Impl::finish_background_save() {
  check_not_in_save_fn("a member");
  if (!background) {
    return std::nullopt;
  }
  const auto save = std::exchange(background, nullptr);
  try {
    return comm.together([&] { return save->finish(); }, "committing a save of the background");
  } catch (const Error& error) {
    if (!save->written()) {
      state_copy_.reset();  // the thread keeps it
    }
    tell_failure(save->request().number, error);
    throw;
  }
}

void CheckpointManager::Impl::settle_background_save() {
  try {
    finish_background_save();
  } catch (const Error& error) {
    // A file that could not be written, or memory that was not there, has been told; what comes now does not depend on
    // it.
    if (dynamic_cast<const StorageError*>(&error) == nullptr && error.code() != ErrorCode::no_memory) {
      throw;
    }
  }
}

/// Without the other ranks it cannot be committed.
void CheckpointManager::Impl::end_background_save() noexcept {
  if (background && !comm.broken() && std::uncaught_exceptions() == 0) {
    try {
      finish_background_save();
    } catch (const std::exception& error) {
      core::log::error("the save in the background did not end: {}", error.what());
    }
  }
}

CheckpointManager::Impl::~Impl() {
  end_background_save();
  remove_spare();
}

void CheckpointManager::Impl::at_finalize() noexcept {
  if (owner.is_here()) {
    end_background_save();
    comm.leave_mpi();
  }
}

}  // namespace reprieve
