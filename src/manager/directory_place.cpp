// SPDX-License-Identifier: BSD-3-Clause
#include "manager/directory_place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/file_rights.hpp"
#include "core/log.hpp"
#include "reprieve/error.hpp"

namespace reprieve::manager {

namespace {

namespace fs = std::filesystem;

constexpr const char* kProbeName = ".reprieve.owner";

core::Directory make_below(const core::Directory& place, const std::string& name, bool durable) {
  auto made = place.make_directory_if_free(name, core::kOwnDirectory);
  if (!made) {
    return place.open_directory(name);  // another job was faster
  }
  if (durable) {
    place.sync();
  }
  return std::move(*made);
}

/// Whether the file system gives everything in a directory to the owner of that, as some do that know no users.
bool gives_all_to_its_owner(const core::Directory& directory, uid_t owner) {
  static_cast<void>(directory.remove_file(kProbeName));
  const core::Descriptor probe = directory.open_file(kProbeName, O_WRONLY | O_CREAT | O_EXCL, core::kOwnFile);
  struct stat status = {};
  const bool is_its = ::fstat(probe.get(), &status) == 0 && status.st_uid == owner;
  static_cast<void>(directory.remove_file(kProbeName));
  return is_its;
}

void check_owner(const core::Directory& directory, const fs::path& path, uid_t owner) {
  if (owner == ::geteuid() || owner == 0) {
    return;
  }
  if (::geteuid() == 0) {
    core::log::warning("the checkpoint directory {} belongs to user {}, who decides what is restored from it",
                       path.string(), owner);
  } else if (!gives_all_to_its_owner(directory, owner)) {
    throw StorageError(ErrorCode::permission,
                       "the checkpoint directory " + path.string() + " belongs to user " + std::to_string(owner) +
                           ", who could replace what this program restores: choose a directory of your own, and copy "
                           "the checkpoints there if you trust them");
  }
}

}  // namespace

core::Directory make_directories(const fs::path& path, bool durable) {
  try {
    std::vector<std::string> missing;
    std::error_code ignored;
    fs::path there = path;
    for (; !fs::exists(there, ignored) && there.has_relative_path(); there = there.parent_path()) {
      missing.push_back(there.filename().string());
    }
    core::Directory place = core::Directory::open(there);
    std::for_each(missing.rbegin(), missing.rend(),
                  [&](const std::string& name) { place = make_below(place, name, durable); });
    return place;
  } catch (const StorageError& error) {
    throw StorageError(error.code(), "cannot make the checkpoint directory " + path.string() + ": " + error.what() +
                                         "; choose one that this user can write, on a file system that all nodes "
                                         "share");
  }
}

void check_who_may_write(const core::Directory& directory, const fs::path& path) {
  const struct stat status = directory.status();
  check_owner(directory, path, status.st_uid);
  if ((status.st_mode & S_IWOTH) != 0) {
    core::log::warning("everybody may write in {}: who does can make this program read and remove files of its user",
                       path.string());
  } else if ((status.st_mode & S_IWGRP) != 0 && status.st_gid != status.st_uid) {  // a group of its own is the user
    core::log::warning(
        "the group {} may write in {}: who is in it decides what this program restores; `chmod g-w` if that is not "
        "meant",
        status.st_gid, path.string());
  }
}

}  // namespace reprieve::manager
