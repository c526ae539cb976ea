// Saves whose writing is left to a thread (see README.md). One is under way at a time.

#include <exception>
#include <utility>

#include "core/log.hpp"
#include "manager/manager_impl.hpp"
#include "manager/save.hpp"
#include "reprieve/error.hpp"

namespace reprieve {

void CheckpointManager::Impl::save_in_background(const SaveRequest& request) {
  if (options.writer != WriterKind::direct) {
    throw UsageError("only the direct writer saves in the background");
  }
  settle_background_save();
  tell_failure(request.number, [&] {
    auto save = std::make_unique<manager::Save>(*this, request);
    save->prepare();
    if (!state_copy_) {
      state_copy_ = std::make_shared<storage::StateCopy>();
    }
    if (save->write_in_background(state_copy_, options.background_memory_bytes)) {
      background = std::move(save);
      ++background_started;
      return;
    }
    if (comm.is_chief()) {
      core::log::warning("a rank has no room for a copy of its state: checkpoint {} is not written in the background",
                         request.number);
    }
    save->write();
    save->finish();
  });
}

std::uint64_t CheckpointManager::Impl::background_written() const noexcept {
  return background_started - (background && !background->written() ? 1 : 0);
}

std::optional<SaveReport> CheckpointManager::Impl::finish_background_save() {
  if (!background) {
    return std::nullopt;
  }
  const auto save = std::exchange(background, nullptr);
  SaveReport report;
  try {
    tell_failure(save->request().number, [&] { report = save->finish(); });
  } catch (...) {
    if (!save->written()) {
      state_copy_.reset();  // the thread keeps it
    }
    throw;
  }
  return report;
}

void CheckpointManager::Impl::settle_background_save() {
  try {
    finish_background_save();
  } catch (const StorageError&) {
    // It has been told; what comes now does not depend on it.
  }
}

CheckpointManager::Impl::~Impl() {
  // Without the other ranks it cannot be committed.
  if (background && !comm.broken() && std::uncaught_exceptions() == 0) {
    try {
      finish_background_save();
    } catch (const std::exception& error) {
      core::log::error("the save in the background did not end: {}", error.what());
    }
  }
  remove_spare();
}

}  // namespace reprieve
