// SPDX-License-Identifier: BSD-3-Clause
#include "core/worker_directories.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/file_rights.hpp"
#include "core/log.hpp"
#include "core/storage_error.hpp"
#include "reprieve/error.hpp"

namespace reprieve::core {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWorkerPrefix = "workertemp_";
/// Another job with the same parent may remove `workertemp_<rank>` between its making and that of what lies in it, and
/// on a busy machine the two can do so in step many times. Pauses of random length bring them apart.
constexpr std::chrono::seconds kMostTimeToMake{10};
constexpr std::chrono::microseconds kLongestPause{1000};
/// A name that is taken but cannot be used may have been removed and made anew in between: asked this often.
constexpr int kMostRefusals = 3;
/// Names inside of the checkpoint directory that are tried; whoever may write there need not take names to do harm.
constexpr int kMostNames = 100;

std::string outer_name(int rank) { return std::string(kWorkerPrefix) + std::to_string(rank); }

/// `workertemp_<number>`, or with @p may_be_counted also `workertemp_<number>.<number>`.
bool is_outer_name(const std::string& name, bool may_be_counted) {
  if (!name.starts_with(kWorkerPrefix)) {
    return false;
  }
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const std::string_view rest = std::string_view(name).substr(kWorkerPrefix.size());
  const auto dot = rest.find('.');
  return is_number(rest.substr(0, dot)) &&
         (dot == std::string_view::npos || (may_be_counted && is_number(rest.substr(dot + 1))));
}

bool others_may_write(const struct stat& status) { return (status.st_mode & (S_IWGRP | S_IWOTH)) != 0; }

/// Some file systems give everything in a directory to the owner of that.
bool is_own(const Directory& directory, const Directory& place) {
  const uid_t owner = directory.status().st_uid;
  const struct stat above = place.status();
  return owner == ::geteuid() || (owner == above.st_uid && !others_may_write(above));
}

bool is_this_users_alone(const Directory& directory) {
  const struct stat status = directory.status();
  return status.st_uid == ::geteuid() && !others_may_write(status);
}

/// `workertemp_<rank>` in @p place if it is there and nobody else's.
std::optional<Directory> find_outer(const Directory& place, const std::string& outer) {
  try {
    std::optional<Directory> found = place.find_directory(outer);
    return found && is_own(*found, place) ? std::move(found) : std::nullopt;
  } catch (const StorageError& error) {
    if (error.code() != ErrorCode::permission) {
      throw;
    }
    return std::nullopt;  // somebody else's
  }
}

/// Makes `<outer>/<base>`, empty. False if the name is somebody else's, or no directory.
bool make_write_directory(const Directory& place, const std::string& outer, const std::string& base) {
  const auto deadline = std::chrono::steady_clock::now() + kMostTimeToMake;
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(deadline.time_since_epoch().count()));
  std::uniform_int_distribution<std::chrono::microseconds::rep> pause_us(0, kLongestPause.count());
  for (int refusals = 0; std::chrono::steady_clock::now() < deadline;) {
    place.make_directory_if_free(outer, kOwnDirectory);  // or it is there
    if (const auto above = find_outer(place, outer)) {
      if (above->make_directory_if_free(base, kOwnDirectory)) {
        return true;
      }
      // Of a run that died; only now, so that another job has little time to remove the parent.
      above->remove_tree(base);
      if (above->make_directory_if_free(base, kOwnDirectory)) {
        return true;
      }
    } else if (place.contains(outer) && ++refusals == kMostRefusals) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(pause_us(random)));  // removed by another job in this moment
  }
  throw storage_error("make directory", place.path() / outer / base, ENOENT);
}

/// Removes `<outer>/<base>`, and `<outer>` if it is empty then.
void remove_write_directory(const Directory& place, const std::string& outer, const std::string& base) {
  if (const auto above = find_outer(place, outer)) {
    above->remove_tree(base);
    static_cast<void>(place.remove_empty_directory(outer));
  }
}

/// The directory above the checkpoint directory; nothing if this user may not list it.
std::optional<Directory> open_parent(const fs::path& checkpoints) {
  try {
    return Directory::open(checkpoints.parent_path());
  } catch (const StorageError& error) {
    if (error.code() != ErrorCode::permission) {
      throw;
    }
    log::debug("{}", error.what());
    return std::nullopt;
  }
}

void remove_write_directories_in(const Directory& place, const std::string& base, bool is_inside) {
  for (const DirectoryEntry& entry : place.list()) {
    if (entry.kind != EntryKind::directory || !is_outer_name(entry.name, is_inside)) {
      continue;
    }
    if (const auto outer = find_outer(place, entry.name); outer && outer->contains(base)) {
      log::info("removing {}, left behind by an earlier run", (outer->path() / base).string());
    }
    remove_write_directory(place, entry.name, base);  // that of a run which died before it made ours is empty
  }
}

}  // namespace

WriteDirectory::WriteDirectory(const fs::path& checkpoints, int rank)
    : base_(checkpoints.filename().string()), place_(Directory::open(checkpoints)) {
  if (make_beside(checkpoints, rank)) {
    return;
  }
  for (int count = 1; count <= kMostNames; ++count) {
    outer_ = outer_name(rank) + (count == 1 ? "" : "." + std::to_string(count));
    if (make_write_directory(place_, outer_, base_)) {
      path_ = checkpoints / outer_ / base_;
      return;
    }
  }
  throw storage_error("make directory", checkpoints / outer_name(rank), EEXIST);
}

/// Makes it where everybody looks for it. False if that place or name is not this user's.
bool WriteDirectory::make_beside(const fs::path& checkpoints, int rank) {
  auto parent = open_parent(checkpoints);
  if (!parent || !is_this_users_alone(*parent)) {
    return false;
  }
  outer_ = outer_name(rank);
  try {
    if (!make_write_directory(*parent, outer_, base_)) {
      log::info("{} is not a directory of this user: the save function writes inside of {}",
                (parent->path() / outer_).string(), checkpoints.string());
      return false;
    }
  } catch (const StorageError& error) {
    if (error.code() != ErrorCode::permission) {
      throw;
    }
    log::debug("{}", error.what());  // the parent cannot be written
    return false;
  }
  place_ = std::move(*parent);
  path_ = checkpoints.parent_path() / outer_ / base_;
  return true;
}

WriteDirectory::~WriteDirectory() {
  try {
    remove_write_directory(place_, outer_, base_);
  } catch (const std::exception& error) {
    log::warning("left behind: {}", error.what());
  }
}

void remove_write_directories(const fs::path& checkpoints) {
  const std::string base = checkpoints.filename().string();
  remove_write_directories_in(Directory::open(checkpoints), base, true);
  if (const auto parent = open_parent(checkpoints)) {
    remove_write_directories_beside(*parent, base);
  }
}

void remove_write_directories_beside(const Directory& parent, const std::string& base) {
  remove_write_directories_in(parent, base, false);
}

}  // namespace reprieve::core
