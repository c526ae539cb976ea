#include "manager/checkpoint_directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <system_error>
#include <utility>

#include "core/file_rights.hpp"
#include "core/kill_point.hpp"
#include "core/log.hpp"
#include "manager/file_operations.hpp"
#include "storage/posix_file.hpp"
#include "storage/seal.hpp"

namespace reprieve::manager {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWorkerPrefix = "workertemp_";
/// Another job with the same parent may remove `workertemp_<rank>` between its making and that of what lies in it.
constexpr int kMakeAttempts = 100;

/// Calls @p visit for everything in a directory.
void for_each_entry(const fs::path& directory, const std::function<void(const fs::directory_entry&)>& visit) {
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    visit(*entries);
  }
  if (error) {
    throw storage::storage_error("list", directory, error.value());
  }
}

/// What a name stands for, links not followed. @throws StorageError if that cannot be told: not to know is not to be
/// taken for "not there", where something would be removed for it.
fs::file_type type_of(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::none) {
    throw storage::storage_error("look at", path, error.value());
  }
  return type;
}

bool is_real_directory(const fs::path& path) { return type_of(path) == fs::file_type::directory; }
bool is_real_file(const fs::path& path) { return type_of(path) == fs::file_type::regular; }
/// A directory of that name that is nobody else's: else whoever could write above it may have put a link there, or put
/// one there later, to have things removed elsewhere.
bool is_own_directory(const struct stat& status) { return S_ISDIR(status.st_mode) && status.st_uid == ::geteuid(); }

bool is_own_directory(const fs::path& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0 && is_own_directory(status);
}

bool is_there(const fs::path& path) { return type_of(path) != fs::file_type::not_found; }

/// @p path with the suffix `.corrupt`, or `.corrupt.2` and so on: the first that is free.
fs::path free_corrupt_name(const fs::path& path) {
  const std::string first = path.string() + ".corrupt";
  fs::path name = first;
  for (int count = 2; is_there(name); ++count) {
    name = first + "." + std::to_string(count);
  }
  return name;
}

}  // namespace

CheckpointInfo make_info(const fs::path& file, std::uint64_t number, const storage::FileMetadata& metadata) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error) {
    throw storage::storage_error("look at", file, error.value());
  }
  CheckpointInfo info;
  info.path = file;
  info.number = number;
  info.run_calls = metadata.run_calls;
  info.world_size = metadata.world_size;
  info.time = std::chrono::system_clock::time_point(std::chrono::microseconds(metadata.time_us));
  info.size_bytes = size;
  info.reason = metadata.reason;
  if (metadata.has_files) {
    info.files_directory = fs::path(file).replace_extension(kFilesSuffix);
  }
  return info;
}

CheckpointDirectory::CheckpointDirectory(fs::path path, std::string prefix, bool durable)
    : path_(std::move(path)), prefix_(std::move(prefix)), durable_(durable) {}

fs::path CheckpointDirectory::file(std::uint64_t number) const {
  return path_ / format_name(prefix_, number, kCheckpointSuffix);
}

fs::path CheckpointDirectory::files_directory(std::uint64_t number) const {
  return path_ / format_name(prefix_, number, kFilesSuffix);
}

fs::path CheckpointDirectory::staged_file(StagedName staged) const {
  return staging() / format_staged_name(prefix_, staged, kCheckpointSuffix);
}

fs::path CheckpointDirectory::staged_files_directory(StagedName staged) const {
  return staging() / format_staged_name(prefix_, staged, kFilesSuffix);
}

std::vector<std::uint64_t> CheckpointDirectory::numbers() {
  std::vector<std::uint64_t> numbers;
  for_each_entry(path_, [&](const fs::directory_entry& entry) {
    const auto number = parse_name(prefix_, entry.path().filename().string(), kCheckpointSuffix);
    std::error_code ignored;
    if (number && entry.is_regular_file(ignored)) {
      numbers.push_back(*number);
    } else if (number && told_.insert(*number).second) {
      core::log::warning("{} has the name of a checkpoint, but is not a file: passed over", entry.path().string());
    }
  });
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<CheckpointInfo> CheckpointDirectory::info(std::uint64_t number) {
  const fs::path path = file(number);
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    core::log::warning("{} left out: {}", path.string(), std::generic_category().message(errno));
    return std::nullopt;
  }
  const auto known = known_.find(number);
  if (known != known_.end() && known->second.inode == status.st_ino && known->second.size == status.st_size &&
      known->second.modified.tv_sec == status.st_mtim.tv_sec &&
      known->second.modified.tv_nsec == status.st_mtim.tv_nsec) {
    return known->second.info;
  }
  Known read{status.st_ino, status.st_size, status.st_mtim, std::nullopt};
  try {
    read.info = make_info(path, number, storage::read_metadata(path));
  } catch (const StorageError& error) {  // may pass, so it is not remembered
    core::log::warning("{} left out: {}", path.string(), error.what());
    return std::nullopt;
  } catch (const Error& error) {
    core::log::warning("{} left out: {}", path.string(), error.what());
  }
  return known_.insert_or_assign(number, std::move(read)).first->second.info;
}

void CheckpointDirectory::remember(std::uint64_t number, const storage::FileMetadata& metadata) {
  struct stat status = {};
  if (::stat(file(number).c_str(), &status) == 0) {
    known_[number] = {status.st_ino, status.st_size, status.st_mtim, make_info(file(number), number, metadata)};
  }
}

void CheckpointDirectory::prepare_staging(std::uint64_t number) {
  const fs::path target = file(number);
  std::error_code ignored;
  if (is_there(target) && !fs::is_regular_file(target, ignored)) {
    throw StorageError(ErrorCode::io, "cannot save checkpoint " + std::to_string(number) + ": " + target.string() +
                                          " exists and is not a file; move it away");
  }
  recover();
  make_staging();
}

void CheckpointDirectory::make_staging() const {
  if (!is_real_directory(staging())) {
    make_directory(staging(), core::kOwnDirectory);
  }
}

void CheckpointDirectory::commit(StagedName staged, bool has_files) {
  set_mode(staged_file(staged), core::file_mode_in(path_));
  rename_path(staged_file(staged), file(staged.number));
  core::kill_point(core::KillPoint::commit_renamed);
  make_durable();
  core::kill_point(core::KillPoint::commit_durable);
  if (has_files) {
    install_files(staged);
  } else {
    remove_tree_or_log(files_directory(staged.number));  // of the checkpoint that this one has replaced
  }
}

void CheckpointDirectory::install_files(StagedName staged) {
  const fs::path target = files_directory(staged.number);
  remove_tree(target);
  rename_path(staged_files_directory(staged), target);
  make_durable();
}

void CheckpointDirectory::make_durable() const {
  if (durable_) {
    sync_directory(path_);
  }
}

void CheckpointDirectory::recover() {
  const fs::path directory = staging();
  const bool is_directory = is_real_directory(directory);
  std::vector<fs::path> left;
  if (is_directory) {
    for_each_entry(directory, [&](const fs::directory_entry& entry) { left.push_back(entry.path()); });
  }
  std::for_each(left.begin(), left.end(), [this](const fs::path& path) { recover_files(path); });
  if (is_directory && keeps_staging_) {
    std::for_each(left.begin(), left.end(), remove_tree);
  } else {
    remove_tree(directory);
  }
}

void CheckpointDirectory::recover_files(const fs::path& staged_path) {
  const auto staged = parse_staged_name(prefix_, staged_path.filename().string(), kFilesSuffix);
  if (staged && is_there(file(staged->number)) && belong_to_a_checkpoint(*staged)) {
    install_files(*staged);
    core::kill_point(core::KillPoint::open_recovered);
    core::log::info("put the files of checkpoint {} in place, which its run could not do any more", staged->number);
  }
}

/// Whether the committed checkpoint of that number is the one of these files. An error if that cannot be told just now:
/// what is not known to be a left-over must not be removed.
bool CheckpointDirectory::belong_to_a_checkpoint(StagedName staged_files) const {
  try {
    const storage::FileMetadata metadata = storage::read_metadata(file(staged_files.number));
    return metadata.has_files && metadata.time_us == staged_files.time_us;
  } catch (const StorageError&) {
    throw;
  } catch (const Error&) {
    return false;  // damaged
  }
}

void CheckpointDirectory::remove_left_overs() {
  try {
    recover();
    remove_orphaned_files();
    remove_write_directories();
  } catch (const StorageError& error) {
    core::log::warning("left-overs of an earlier run stay behind: {}", error.what());
  }
}

void CheckpointDirectory::remove_orphaned_files() const {
  std::vector<fs::path> orphans;
  for_each_entry(path_, [&](const fs::directory_entry& entry) {
    const auto number = parse_name(prefix_, entry.path().filename().string(), kFilesSuffix);
    if (number && !is_there(file(*number))) {
      orphans.push_back(entry.path());
    }
  });
  for (const fs::path& orphan : orphans) {
    core::log::info("removing {}: its checkpoint is gone", orphan.string());
    remove_tree(orphan);
  }
}

void CheckpointDirectory::remove_write_directories() const {
  std::vector<fs::path> found;
  for_each_entry(path_.parent_path(), [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    const bool is_worker = name.starts_with(kWorkerPrefix) && name.size() > kWorkerPrefix.size() &&
                           name.find_first_not_of("0123456789", kWorkerPrefix.size()) == std::string::npos;
    if (is_worker && is_own_directory(entry.path())) {
      found.push_back(entry.path() / path_.filename());
    }
  });
  for (const fs::path& directory : found) {
    if (is_there(directory)) {
      core::log::info("removing {}, left behind by an earlier run", directory.string());
    }
    remove_worker_directory(directory);  // that of a run which died before it made ours is empty
  }
}

fs::path CheckpointDirectory::set_aside(std::uint64_t number) {
  const fs::path path = file(number);
  fs::path name = free_corrupt_name(path);
  // The files first: without their checkpoint they would count as a left-over.
  if (const fs::path files = files_directory(number); is_there(files)) {
    rename_path(files, free_corrupt_name(files));
  }
  rename_path(path, name);
  make_durable();
  known_.erase(number);
  return name;
}

void CheckpointDirectory::remove(std::uint64_t number) {
  remove_tree(file(number));
  core::kill_point(core::KillPoint::retire_file_removed);
  remove_files(number);
}

void CheckpointDirectory::remove_files(std::uint64_t number) {
  known_.erase(number);
  if (const fs::path files = files_directory(number); is_there(files)) {
    make_durable();  // the checkpoint must not come back without its files
    remove_tree(files);
  }
}

/// The order matters: the file must have lost its name for good before it loses its seal, else a power cut would leave
/// a checkpoint that looks damaged; and it must have lost its seal for good before anything else in it changes.
bool CheckpointDirectory::make_spare(std::uint64_t number) {
  if (is_there(spare()) || !is_real_file(file(number))) {
    return false;
  }
  rename_path(file(number), spare());
  core::kill_point(core::KillPoint::retire_spare_renamed);
  make_durable();
  try {
    const storage::PosixFile opened = storage::PosixFile::open_to_write(spare());
    if (!opened.is_shared()) {
      storage::void_seal(opened);
      core::kill_point(core::KillPoint::retire_spare_void);
      return true;
    }
  } catch (const StorageError& error) {
    core::log::debug("{} is not recycled: {}", spare().string(), error.what());
  }
  remove_tree(spare());
  return true;
}

bool CheckpointDirectory::take_spare(StagedName staged) {
  if (!is_there(spare())) {
    return false;
  }
  try {
    const storage::PosixFile opened = storage::PosixFile::open_to_write(spare());
    if (is_real_file(spare()) && !opened.is_shared()) {
      storage::void_seal(opened);
      rename_path(spare(), staged_file(staged));
      core::kill_point(core::KillPoint::save_spare_taken);
      return true;
    }
  } catch (const StorageError& error) {
    core::log::warning("{} cannot be used: {}", spare().string(), error.what());
  }
  remove_spare();
  return false;
}

void CheckpointDirectory::reserve(std::uint64_t size) {
  keeps_staging_ = true;
  make_staging();
  const storage::PosixFile file =
      is_there(spare()) ? storage::PosixFile::open_to_write(spare()) : storage::PosixFile::create(spare());
  file.allocate(std::max(size, file.size()));
}

void CheckpointDirectory::remove_spare() noexcept { remove_tree_or_log(spare()); }

void CheckpointDirectory::release_reserve() noexcept {
  remove_spare();
  if (std::exchange(keeps_staging_, false)) {
    remove_tree_or_log(staging());
  }
}

std::vector<std::uint64_t> CheckpointDirectory::retire(const RetentionPolicy& policy, std::uint64_t committed,
                                                       bool recycle) {
  if (policy.max_to_keep == 0) {
    return {};
  }
  std::vector<RetentionEntry> entries;
  for (const std::uint64_t number : numbers()) {
    if (const auto known = info(number)) {
      entries.push_back({number, known->time});
    }
  }
  std::vector<std::uint64_t> retired = to_retire(std::move(entries), policy, committed);
  for (const std::uint64_t number : retired) {
    if (recycle && make_spare(number)) {
      remove_files(number);
    } else {
      remove(number);
    }
  }
  return retired;
}

fs::path worker_directory(const fs::path& directory, int rank) {
  return directory.parent_path() / (std::string(kWorkerPrefix) + std::to_string(rank)) / directory.filename();
}

void make_worker_directory(const fs::path& worker) {
  for (int attempt = 0; attempt < kMakeAttempts; ++attempt) {
    if (::mkdir(worker.parent_path().c_str(), core::kOwnDirectory) != 0 && errno != EEXIST) {
      throw storage::storage_error("make directory", worker.parent_path(), errno);
    }
    struct stat status = {};
    if (::lstat(worker.parent_path().c_str(), &status) != 0) {
      continue;  // removed by another job in this moment
    }
    if (!is_own_directory(status)) {
      throw StorageError(ErrorCode::permission, "cannot use " + worker.parent_path().string() +
                                                    ": it is not a directory of this user; move it away");
    }
    if (::mkdir(worker.c_str(), core::kOwnDirectory) == 0) {
      return;
    }
    if (errno == EEXIST) {
      remove_tree(worker);  // of a run that died; only now, so that another job has little time to remove the parent
    } else if (errno != ENOENT) {
      break;
    }
  }
  throw storage::storage_error("make directory", worker, errno);
}

void remove_worker_directory(const fs::path& worker) noexcept {
  const fs::path parent = worker.parent_path();
  if (!is_own_directory(parent)) {
    return;  // gone already, or a link to somewhere else
  }
  remove_tree_or_log(worker);
  if (::rmdir(parent.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT) {
    core::log::warning("cannot remove {}: {}", parent.string(), std::generic_category().message(errno));
  }
}

}  // namespace reprieve::manager
