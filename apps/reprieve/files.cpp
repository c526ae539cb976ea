// SPDX-License-Identifier: BSD-3-Clause
#include "files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/directory.hpp"
#include "core/error.hpp"
#include "core/events.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/run_record.hpp"
#include "manager/node_directory.hpp"
#include "termination/preemption_watcher.hpp"
#include "text.hpp"
#include "timeline.hpp"

namespace reprieve::tool {

namespace fs = std::filesystem;

namespace {

/// Throws UsageError if there is nothing at @p path, or it cannot be read.
fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw MissingError(core::escaped(path.string()) + " does not exist; check the spelling, relative paths start at " +
                       fs::current_path().string());
  }
  if (error) {
    throw UsageError("cannot look at " + core::escaped(path.string()) + ": " + error.message());
  }
  return status;
}

/// One entry for each copy that some of these parts belong to; one without a copy if there are none.
std::vector<LocalListEntry> entries_of(const manager::LocalFolder& folder) {
  std::map<std::string, LocalListEntry> copies;
  std::map<std::string, std::set<int>> ranks;
  for (const manager::FoundPart& part : folder.parts) {
    const std::string name = storage::to_json({part.name.copy, 0}).dump();
    LocalListEntry& entry = copies[name];
    entry.copy = part.name.copy;
    entry.partner_parts += manager::NodeDirectory::is_of_partner(part.file) ? 1U : 0U;
    entry.size_bytes += part.bytes;
    ranks[name].insert(part.name.rank);
    entry.parts = ranks[name].size();
  }
  if (copies.empty()) {
    copies[""] = {};
  }
  std::vector<LocalListEntry> entries;
  for (auto& [name, entry] : copies) {
    entry.folder = folder.path;
    entry.in_use = folder.in_use;
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// Deeper than anybody lays out runs; keeps a wrong start (`/`) from taking for ever.
constexpr int kDepth = 6;

/// A supervisor of this host that no longer lives was killed in the middle of a copy.
void end_dead_copies(std::optional<RunStatus>& status) {
  if (!status) {
    return;
  }
  for (auto& [file, copy] : status->copies) {
    if (copy.state == CopyState::copying && copy.host == core::host_name() && core::start_of_process(copy.pid) == 0) {
      copy.state = CopyState::interrupted;
    }
  }
}

/// Nothing if the log has no run.
std::optional<RunStatus> status_of_run(const fs::path& directory, const Timeline& timeline) {
  termination::RunFollower follower(directory);
  auto status = timeline.status(directory, !follower.living().empty());
  end_dead_copies(status);
  // A run lists its ranks when it has restored. Before that its rank 0 alone is known, and seen on its own node only.
  if (status && status->state == RunState::gone && status->start.host == core::host_name() &&
      core::start_of_process(status->start.pid) != 0) {
    // With a handler the list of its ranks says more: another process may have got the number of an ended rank 0.
    auto alone = timeline.status(directory, true);
    end_dead_copies(alone);
    return alone->has_handler ? status : alone;
  }
  return status;
}

/// A directory that is removed meanwhile, or that cannot be read, ends no other one's list.
void search_below(const fs::path& directory, int depth, std::set<fs::path>& found) {
  std::error_code error;
  if (fs::is_regular_file(directory / manager::kEventLogName, error)) {
    found.insert(directory);
  }
  if (depth == 0) {
    return;
  }
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored) &&
        !entry->path().filename().string().starts_with('.')) {
      search_below(entry->path(), depth - 1, found);
    }
  }
}

}  // namespace

void require_file(const fs::path& file) {
  const fs::file_status status = status_of(file);
  if (fs::is_directory(status)) {
    throw UsageError(core::escaped(file.string()) + " is a directory; name one of its checkpoints (`reprieve ls " +
                     core::escaped(file.string()) + "` lists them)");
  }
  if (!fs::is_regular_file(status)) {
    throw UsageError(core::escaped(file.string()) + " is not a regular file, so it cannot be a checkpoint");
  }
}

bool is_foreign(const fs::path& file) noexcept {
  try {
    return storage::is_foreign(storage::PosixFile::open_to_read(file));
  } catch (const std::exception&) {
    return false;  // who reads it says why
  }
}

void require_checkpoint(const fs::path& file) {
  if (is_foreign(file)) {
    throw UsageError(core::escaped(file.string()) + " is not a checkpoint: " + kForeign);
  }
}

void require_directory(const fs::path& directory) {
  if (!fs::is_directory(status_of(directory))) {
    throw UsageError(core::escaped(directory.string()) +
                     " is not a directory; give the one that holds the checkpoints");
  }
}

void for_each_checkpoint(const fs::path& directory, const std::function<bool(const CheckpointFile&)>& visit) {
  constexpr int kMostTries = 20;
  for (int tries = 0; tries < kMostTries; ++tries) {
    const std::vector<CheckpointFile> files = checkpoint_files(directory);
    bool is_done = files.empty();
    for (const CheckpointFile& file : files) {
      is_done = visit(file) || is_done;
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

std::unique_ptr<manager::DirectoryLock> lock_for_a_moment(const fs::path& directory) {
  return std::make_unique<manager::DirectoryLock>(directory / manager::kLockName, this_process(),
                                                  std::chrono::milliseconds(0), manager::DirectoryLock::Mark::kept);
}

void require_free(const ChangeOptions& options) {
  if (!options.dry_run) {
    static_cast<void>(lock_for_a_moment(options.directory));
  }
}

std::unique_ptr<manager::DirectoryLock> lock_if_free(const fs::path& directory) {
  try {
    return lock_for_a_moment(directory);
  } catch (const StorageError& error) {
    if (error.code() == ErrorCode::locked) {
      return nullptr;
    }
    throw;
  }
}

std::unique_ptr<manager::DirectoryLock> lock_soon(const fs::path& directory, const std::function<void()>& meanwhile) {
  constexpr std::chrono::seconds kMostWait{120};
  constexpr std::chrono::milliseconds kPause{100};
  const auto end = std::chrono::steady_clock::now() + kMostWait;
  auto lock = lock_if_free(directory);
  while (!lock && std::chrono::steady_clock::now() < end) {
    meanwhile();
    std::this_thread::sleep_for(kPause);
    lock = lock_if_free(directory);
  }
  return lock;
}

bool is_gone(const fs::path& file) noexcept {
  std::error_code error;
  // To open the directory makes a network file system ask its server, instead of using its older answer.
  static_cast<void>(fs::directory_iterator(file.has_parent_path() ? file.parent_path() : ".", error));
  return fs::symlink_status(file, error).type() == fs::file_type::not_found;
}

void replace_file(const fs::path& file, const std::function<void(std::ostream&)>& write) {
  const fs::path beside = file.string() + fmt::format(".{}.part", ::getpid());
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  if (!core::Descriptor(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)).is_open()) {
    throw core::storage_error("write", file, errno);
  }
  try {
    std::ofstream out(beside, std::ios::binary);
    write(out);
    out.close();
    if (!out || ::rename(beside.c_str(), file.c_str()) != 0) {
      throw core::storage_error("write", file, errno);
    }
  } catch (...) {
    static_cast<void>(::unlink(beside.c_str()));
    throw;
  }
}

manager::LockHolder this_process() {
  const std::string host = core::host_name();
  return manager::LockHolder::self(host.empty() ? "?" : host, 1);
}

std::vector<fs::path> quarantined_files(const fs::path& directory, std::string_view suffix) {
  std::vector<fs::path> found = manager::regular_files(directory);
  const std::string ending = std::string(manager::kCheckpointSuffix) + std::string(suffix);
  std::erase_if(found,
                [&](const fs::path& path) { return path.filename().string().find(ending) == std::string::npos; });
  std::ranges::sort(found);
  return found;
}

std::vector<manager::QuarantinedName> quarantined_names(const fs::path& directory, const std::string& prefix,
                                                        std::string_view suffix) {
  std::vector<manager::QuarantinedName> names;
  for (const fs::path& file : quarantined_files(directory, suffix)) {
    const auto name = manager::parse_quarantined_name(file.filename().string(), suffix);
    if (name && (prefix.empty() || prefix == name->prefix)) {
      names.push_back(*name);
    }
  }
  return names;
}

std::vector<CheckpointFile> checkpoints_meant(const fs::path& directory, const std::string& prefix) {
  std::vector<CheckpointFile> files = checkpoint_files(directory);
  if (!prefix.empty()) {
    std::erase_if(files, [&](const CheckpointFile& file) { return file.prefix != prefix; });
  }
  if (files.empty()) {
    throw MissingError(fmt::format("there is no checkpoint {}-<number>.h5 in {}", prefix.empty() ? "<prefix>" : prefix,
                                   directory.string()));
  }
  std::set<std::string> prefixes;
  for (const CheckpointFile& file : files) {
    prefixes.insert(file.prefix);
  }
  if (prefixes.size() > 1) {
    throw UsageError(fmt::format("there are checkpoints of several kinds in {}; choose one with --prefix: {}",
                                 directory.string(), fmt::join(prefixes, ", ")));
  }
  return files;
}

bool is_pinned(const fs::path& file) {
  std::error_code error;
  return fs::exists(fs::symlink_status(file.string() + std::string(manager::kPinnedSuffix), error));
}

std::vector<storage::Corruption> verify_with_progress(const fs::path& file, std::string name) {
  Progress progress("verifying " + (name.empty() ? file.filename().string() : std::move(name)));
  return storage::verify_file(file, [&](auto done, auto total) { progress.update(done, total); });
}

std::string corruption_text(const storage::Corruption& corruption) {
  const bool has_both = !corruption.variable.empty() && !corruption.region.empty();
  return printable(corruption.variable + (has_both ? ", " : "") + corruption.region + ": " + corruption.problem);
}

std::vector<LocalListEntry> list_local(const std::filesystem::path& local, const std::filesystem::path& directory) {
  std::vector<LocalListEntry> entries;
  for (const manager::LocalFolder& folder :
       local.empty() ? std::vector<manager::LocalFolder>() : manager::local_folders(local)) {
    std::ranges::move(entries_of(folder), std::back_inserter(entries));
  }
  if (directory.empty()) {
    return entries;
  }
  const core::Directory checkpoints = core::Directory::open(directory);
  const auto record = manager::read_directory_record(checkpoints);
  for (LocalListEntry& entry : entries) {
    entry.is_of_directory = entry.copy && record && entry.copy->save.directory_id == record->id &&
                            entry.copy->directory_key == manager::directory_key(checkpoints);
  }
  if (auto flushed = manager::flushed_parts(checkpoints); !flushed.empty()) {
    for (LocalListEntry& entry : entries_of({directory / manager::kFlushedName, std::move(flushed), false})) {
      entry.is_of_directory = entry.is_flushed = true;
      entries.push_back(std::move(entry));
    }
  }
  std::ranges::stable_sort(entries, std::greater(), &LocalListEntry::is_of_directory);
  return entries;
}

std::optional<RunStatus> logged_status(const fs::path& directory) {
  auto status =
      Timeline(core::read_events(directory / manager::kEventLogName, core::kLongestLog)).status(directory, false);
  end_dead_copies(status);
  return status;
}

std::optional<fs::path> local_directory_of(const std::optional<RunStatus>& status) {
  std::error_code ignored;
  return status && fs::is_directory(status->local_directory, ignored) ? std::optional(status->local_directory)
                                                                      : std::nullopt;
}

std::set<fs::path> run_directories(const fs::path& top) {
  std::set<fs::path> found;
  search_below(top, kDepth, found);
  return found;
}

void for_each_run(const std::vector<fs::path>& tops, const std::function<void(const Timeline&, RunStatus)>& take) {
  std::set<fs::path> seen;
  for (const fs::path& top : tops) {
    require_directory(top);
    for (const fs::path& found : run_directories(top)) {
      const fs::path directory = core::without_dots(found);
      if (!seen.insert(directory).second) {
        continue;
      }
      const Timeline timeline(core::read_events(directory / manager::kEventLogName, core::kLongestLog));
      if (auto status = status_of_run(directory, timeline)) {
        take(timeline, *std::move(status));
      }
    }
  }
}

}  // namespace reprieve::tool
