// SPDX-License-Identifier: BSD-3-Clause
// The spare file: that of a retired checkpoint, kept as the place for the next one. save.cpp states the protocol.

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "core/file_rights.hpp"
#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "manager/checkpoint_directory.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/seal.hpp"

namespace reprieve::manager {

/// The order matters: the file must have lost its name for good before it loses its seal, else a power cut would leave
/// a checkpoint that looks damaged; and it must have lost its seal for good before anything else in it changes.
bool CheckpointDirectory::make_spare(std::uint64_t number) {
  const auto retired = place().look(file_name(number));
  if (place().contains(kSpareName) || !retired || !S_ISREG(retired->st_mode)) {
    return false;
  }
  const auto committed = committed_.extract(number);
  const bool is_as_committed = !committed.empty() && committed.mapped().is(*retired);
  spare_left_.reset();
  place().rename(file_name(number), place(), kSpareName);
  core::kill_point(core::KillPoint::retire_spare_renamed);
  make_durable();
  try {
    const storage::PosixFile opened = storage::PosixFile::open_to_write(spare());
    if (!opened.is_shared()) {
      storage::void_seal(opened);
      core::kill_point(core::KillPoint::retire_spare_void);
      if (is_as_committed) {
        note_spare(committed.mapped().save);
      }
      return true;
    }
  } catch (const StorageError& error) {
    core::log::debug("{} is not recycled: {}", spare().string(), error.what());
  }
  place().remove_tree(kSpareName);
  return true;
}

bool CheckpointDirectory::Left::is(const struct stat& status) const {
  return inode == status.st_ino && modified.tv_sec == status.st_mtim.tv_sec &&
         modified.tv_nsec == status.st_mtim.tv_nsec;
}

/// Its data are those of that save. To be called after all that changes the file.
void CheckpointDirectory::note_spare(std::uint64_t save) {
  const auto status = place().look(kSpareName);
  spare_left_ = status ? std::optional(Left::as(*status, save)) : std::nullopt;
}

/// The save whose data the spare file holds; 0: not known.
std::uint64_t CheckpointDirectory::spare_left_by() const {
  const auto status = place().look(kSpareName);
  return status && spare_left_ && spare_left_->is(*status) ? spare_left_->save : 0;
}

std::optional<CheckpointDirectory::SpareFile> CheckpointDirectory::take_spare(StagedName staged) {
  if (!place().contains(kSpareName)) {
    return std::nullopt;
  }
  try {
    const SpareFile spare_file{spare_left_by()};
    const storage::PosixFile opened = storage::PosixFile::open_to_write(spare());
    if (!opened.is_shared()) {
      storage::void_seal(opened);
      place().rename(kSpareName, open_staging(), staged_name(staged, kCheckpointSuffix));
      core::kill_point(core::KillPoint::save_spare_taken);
      return spare_file;
    }
  } catch (const StorageError& error) {
    core::log::warning("{} cannot be used: {}", spare().string(), error.what());
  }
  remove_spare();
  return std::nullopt;
}

void CheckpointDirectory::reserve(std::uint64_t size) {
  keeps_staging_ = true;
  place().make_directory_if_free(kStagingName, core::kOwnDirectory);
  const std::uint64_t left_by = spare_left_by();
  storage::PosixFile file =
      place().contains(kSpareName) ? storage::PosixFile::open_to_write(spare()) : storage::PosixFile::create(spare());
  file.allocate(std::max(size, file.size()));
  file.close();
  note_spare(left_by);
}

void CheckpointDirectory::remove_spare() noexcept { remove_or_log(kSpareName); }

void CheckpointDirectory::release_reserve() noexcept {
  remove_spare();
  if (std::exchange(keeps_staging_, false)) {
    try {
      recover();
    } catch (const std::exception& error) {
      core::log::warning("left behind: {}", error.what());
    }
  }
}

}  // namespace reprieve::manager
