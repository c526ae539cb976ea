// SPDX-License-Identifier: BSD-3-Clause
#include "supervisor/run_directory.hpp"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#include <random>
#include <string>
#include <system_error>
#include <utility>

#include "core/drill_orders.hpp"
#include "core/environment.hpp"
#include "core/file_rights.hpp"
#include "core/log.hpp"
#include "core/run_record.hpp"
#include "core/storage_error.hpp"
#include "reprieve/error.hpp"
#include "supervisor/launcher.hpp"

namespace reprieve::supervisor {

namespace {

namespace fs = std::filesystem;

fs::path outer_directory() {
  const auto named = core::environment_variable(core::kRunDirectoryVariable);
  std::error_code ignored;
  return named && fs::is_directory(*named, ignored) ? *named : "";
}

fs::path default_parent(const std::vector<std::string>& command) {
  return spans_nodes(command, core::environment_variable) ? fs::current_path() : fs::temp_directory_path();
}

constexpr std::size_t kRandomDigits = 16;
/// A supervisor locks its directory just after it has made it.
constexpr std::chrono::seconds kTimeToLock{60};
/// Some thousand events.
constexpr std::size_t kRoom = std::size_t{1} << 18;

/// Directories have no locks across the nodes of NFS and Lustre, so that each host knows of its own supervisors only.
std::string name_prefix() { return fmt::format(".reprieve-run-{}-", core::host_name()); }

/// @param prefix  of this host's; that of `n1` begins as that of `n1-x` does
bool is_of_this_host(const std::string& name, const std::string& prefix) {
  return name.starts_with(prefix) && name.size() == prefix.size() + kRandomDigits;
}

/// A directory of this user that no supervisor holds, locked as long as it is open; nothing if it is not one.
std::optional<core::Directory> locked(std::optional<core::Directory> directory) {
  const bool is_locked = directory && directory->status().st_uid == ::geteuid() &&
                         ::flock(directory->descriptor(), LOCK_EX | LOCK_NB) == 0;
  return is_locked ? std::move(directory) : std::nullopt;
}

bool is_older_than(const struct stat& status, std::chrono::seconds age) {
  return ::time(nullptr) - status.st_mtime > age.count();
}

/// The kernel gives the locks of killed supervisors back.
void remove_left_overs(const core::Directory& place) {
  const std::string prefix = name_prefix();
  for (const core::DirectoryEntry& entry : place.list()) {
    if (!is_of_this_host(entry.name, prefix) || entry.kind != core::EntryKind::directory) {
      continue;
    }
    const auto found = place.look(entry.name);
    if (!found || found->st_uid != ::geteuid() || !is_older_than(*found, kTimeToLock)) {
      continue;
    }
    if (const auto left = locked(place.find_directory(entry.name))) {
      place.remove_tree(entry.name);
      core::log::debug("removed {}, left by a supervisor that was killed", (place.path() / entry.name).string());
    }
  }
}

[[noreturn]] void fail(const fs::path& path, const StorageError& error) {
  throw StorageError(error.code(), fmt::format("cannot make the directory {} for the record of the run: {}; choose a "
                                               "place with --run-dir",
                                               path.string(), error.what()));
}

/// A new directory with a name that nobody can foresee, for this user alone.
core::Directory make_directory(const core::Directory& place) {
  const std::string prefix = name_prefix();
  std::random_device random;
  for (;;) {
    const std::string name = fmt::format("{}{:08x}{:08x}", prefix, random(), random());
    if (auto made = place.make_directory_if_free(name, core::kOwnDirectory)) {
      return std::move(*made);
    }
    if (!place.contains(name) && !place.is_at_its_path()) {
      throw core::storage_error("make directory", place.path() / name, ENOENT);
    }
  }
}

core::Directory open_place(const fs::path& path) {
  try {
    return core::Directory::open(fs::absolute(path));
  } catch (const StorageError& error) {
    fail(path, error);
  }
}

}  // namespace

RunDirectory::RunDirectory(const std::optional<fs::path>& parent, const std::vector<std::string>& command)
    : outer_(outer_directory()),
      place_(open_place(!outer_.empty() ? outer_
                        : parent        ? *parent
                                        : default_parent(command))) {
  try {
    if (outer_.empty()) {
      remove_left_overs(place_);
    }
  } catch (const StorageError& error) {
    core::log::debug("{}", error.what());
  }
  try {
    own_.emplace(make_directory(place_));
    if (::flock(own_->descriptor(), LOCK_EX | LOCK_NB) != 0) {
      core::log::debug("{} cannot be locked", own_->path().string());  // a file system without locks
    }
  } catch (const StorageError& error) {
    fail(place_.path(), error);
  }
}

RunDirectory::~RunDirectory() {
  if (!outer_.empty()) {
    return;
  }
  try {
    place_.remove_tree(own_->path().filename().string());
  } catch (const std::exception& error) {
    core::log::warning("{}", error.what());
  }
}

bool RunDirectory::has_room() const {
  constexpr const char* name = "room";
  try {
    own_->write_text(name, std::string(kRoom, ' '), core::kOwnFile, false);
    own_->remove_file(name);
    return true;
  } catch (const StorageError&) {
    return false;
  }
}

bool RunDirectory::is_rehearsal() const {
  std::error_code ignored;
  return !outer_.empty() && fs::exists(outer_ / core::kDrillOrdersName, ignored);
}

fs::path RunDirectory::make(int start) const {
  try {
    const core::Directory made = own_->make_directory(std::to_string(start), core::kOwnDirectory);
    if (is_rehearsal()) {
      const std::string orders = core::Directory::open(outer_).read_text(core::kDrillOrdersName, kRoom);
      made.write_text(core::kDrillOrdersName, orders, core::kOwnFile, false);
    }
    return made.path();
  } catch (const StorageError& error) {
    fail(own_->path(), error);
  }
}

}  // namespace reprieve::supervisor
