// SPDX-License-Identifier: BSD-3-Clause
#include "files.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "core/environment.hpp"
#include "manager/checkpoint_directory.hpp"
#include "reprieve/error.hpp"
#include "text.hpp"

namespace reprieve::tool {

namespace fs = std::filesystem;

namespace {

/// Throws UsageError if there is nothing at @p path, or it cannot be looked at.
fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw UsageError(path.string() + " does not exist; check the spelling, relative paths start at " +
                     fs::current_path().string());
  }
  if (error) {
    throw UsageError("cannot look at " + path.string() + ": " + error.message());
  }
  return status;
}

}  // namespace

void require_file(const fs::path& file) {
  const fs::file_status status = status_of(file);
  if (fs::is_directory(status)) {
    throw UsageError(file.string() + " is a directory; name one of its checkpoints (`reprieve ls " + file.string() +
                     "` lists them)");
  }
  if (!fs::is_regular_file(status)) {
    throw UsageError(file.string() + " is not a regular file, so it cannot be a checkpoint");
  }
}

void require_directory(const fs::path& directory) {
  if (!fs::is_directory(status_of(directory))) {
    throw UsageError(directory.string() + " is not a directory; give the one that holds the checkpoints");
  }
}

void look_at_each(const fs::path& directory, const std::function<bool(const CheckpointFile&)>& look) {
  constexpr int kMostTries = 20;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::vector<CheckpointFile> files = checkpoint_files(directory);
    bool is_done = files.empty();
    for (const CheckpointFile& file : files) {
      is_done = look(file) || is_done;
    }
    if (is_done) {
      return;
    }
  }
}

std::optional<FileState> state_of(const fs::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0) {
    return std::nullopt;
  }
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return FileState{status.st_ino, status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
}

std::map<fs::path, std::optional<FileState>> states_in(const fs::path& directory) {
  std::map<fs::path, std::optional<FileState>> states;
  for (const CheckpointFile& file : checkpoint_files(directory)) {
    states[file.path] = state_of(file.path);
  }
  return states;
}

manager::DirectoryLock lock_for_a_moment(const fs::path& directory) {
  return {directory / manager::kLockName, this_process(), std::chrono::milliseconds(0),
          manager::DirectoryLock::Mark::kept};
}

bool is_gone(const fs::path& file) noexcept {
  std::error_code error;
  // To open the directory makes a network file system ask its server, instead of telling what it knew some time ago.
  static_cast<void>(fs::directory_iterator(file.has_parent_path() ? file.parent_path() : ".", error));
  return fs::symlink_status(file, error).type() == fs::file_type::not_found;
}

manager::LockHolder this_process() {
  const std::string host = core::host_name();
  return manager::LockHolder::self(host.empty() ? "?" : host, 1);
}

std::vector<fs::path> set_aside_files(const fs::path& directory) {
  std::vector<fs::path> found = manager::regular_files(directory);
  std::erase_if(found,
                [](const fs::path& path) { return path.filename().string().find(".h5.corrupt") == std::string::npos; });
  std::ranges::sort(found);
  return found;
}

std::chrono::system_clock::time_point time_of(const storage::FileMetadata& metadata) {
  return std::chrono::system_clock::time_point(std::chrono::microseconds(metadata.time_us));
}

std::string damage_text(const storage::Damage& damage) {
  std::string place = damage.variable.empty() ? "the file as a whole" : damage.variable;
  if (!damage.region.empty()) {
    place += ", " + damage.region;
  }
  return printable(place + ": " + damage.problem);
}

}  // namespace reprieve::tool
