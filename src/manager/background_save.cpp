// SPDX-License-Identifier: BSD-3-Clause
#include "manager/background_save.hpp"

#include <exception>
#include <utility>

#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::manager {

/// Where its thread still writes, that keeps the copy.
void BackgroundSave::note_failure(const Save& save) noexcept {
  if (!save.written()) {
    copy_.reset();
  }
}

void BackgroundSave::begin(const CheckpointManager::SaveRequest& request) {
  std::unique_ptr<Save> save;
  try {
    // On all ranks, or on none.
    if (manager_.comm.together([&] { return start(save, request); }, "saving in the background")) {
      save_ = std::move(save);
      ++begun_;
    }
  } catch (const Error& error) {
    if (save) {
      note_failure(*save);
    }
    manager_.tell_failure(request.number, error);
    throw;
  }
}

/// @param save  becomes the save that is under way, or that has failed
/// @return false if there was no room for a copy and the save is done
bool BackgroundSave::start(std::unique_ptr<Save>& save, const CheckpointManager::SaveRequest& request) {
  save = std::make_unique<Save>(manager_, request);
  save->prepare();
  if (!copy_) {
    copy_ = std::make_shared<storage::StateCopy>();
  }
  if (save->write_in_background(copy_, manager_.options.background_memory_bytes)) {
    return true;
  }
  if (manager_.comm.is_chief()) {
    core::log::warning("a rank has no room for a copy of its state: checkpoint {} is not written in the background",
                       *save->request().number);
  }
  save->write();
  save->finish();
  return false;
}

std::optional<SaveReport> BackgroundSave::finish() {
  if (!save_) {
    return std::nullopt;
  }
  const auto save = std::exchange(save_, nullptr);
  try {
    return manager_.comm.together([&] { return save->finish(); }, "committing a save of the background");
  } catch (const Error& error) {
    note_failure(*save);
    manager_.tell_failure(save->request().number, error);
    throw;
  }
}

void BackgroundSave::settle() {
  try {
    finish();
  } catch (const Error& error) {
    // A file that could not be written, or memory that was not there, has been told; what comes now does not depend on
    // it.
    if (dynamic_cast<const StorageError*>(&error) == nullptr && error.code() != ErrorCode::no_memory) {
      throw;
    }
  }
}

/// Without the other ranks it cannot be committed.
void BackgroundSave::end() noexcept {
  if (save_ && !manager_.comm.broken() && std::uncaught_exceptions() == 0) {
    try {
      finish();
    } catch (const std::exception& error) {
      core::log::error("the save in the background did not end: {}", error.what());
    }
  }
}

}  // namespace reprieve::manager
