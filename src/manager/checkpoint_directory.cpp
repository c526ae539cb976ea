// SPDX-License-Identifier: BSD-3-Clause
#include "manager/checkpoint_directory.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "core/failpoint.hpp"
#include "core/log.hpp"
#include "manager/directory_lock.hpp"
#include "storage/bytes/posix_file.hpp"
#include "storage/format/commit_record.hpp"
#include "storage/read/inspect_file.hpp"

namespace reprieve::manager {

namespace {

namespace fs = std::filesystem;

/// `.corrupt`, or `.corrupt.2` and so on: the first that is free for both.
std::string free_corrupt_suffix(const core::Directory& directory, const std::string& file, const std::string& files) {
  const std::string first(kCorruptSuffix);
  std::string suffix = first;
  for (int count = 2; directory.contains(file + suffix) || directory.contains(files + suffix); ++count) {
    suffix = first + "." + std::to_string(count);
  }
  return suffix;
}

/// Whether a name stands for a file, or for a link to one. @p error  why it is none, if it is a link to nothing
bool is_file(const core::Directory& directory, const core::DirectoryEntry& entry, int& error) {
  error = 0;
  if (entry.kind != core::EntryKind::link) {
    return entry.kind == core::EntryKind::file;
  }
  struct stat status = {};
  error = directory.target_status(entry.name, status);
  return error == 0 && S_ISREG(status.st_mode);
}

}  // namespace

CheckpointInfo make_info(const fs::path& file, std::uint64_t number, const storage::FileMetadata& metadata,
                         std::optional<std::uint64_t> size_bytes) {
  std::error_code error;
  const auto size = size_bytes ? *size_bytes : fs::file_size(file, error);
  if (error) {
    throw storage::storage_error("look at", file, error.value());
  }
  CheckpointInfo info;
  info.path = file;
  info.number = number;
  info.run_calls = metadata.run_calls;
  if (metadata.identity) {
    info.run = metadata.identity->run;
    info.save = metadata.identity->save;
    info.directory_id = metadata.identity->directory_id;
  }
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

CheckpointDirectory::~CheckpointDirectory() {
  constexpr std::chrono::seconds longest{30};  // a file system that does not answer is left behind
  if (freeing_) {
    static_cast<void>(freeing_->wait_for(longest));
  }
  static_cast<void>(await_recycled());
}

const std::shared_ptr<const core::Directory>& CheckpointDirectory::shared_opened() const {
  if (!opened_) {
    opened_ = std::make_shared<const core::Directory>(core::Directory::open(path_));
  }
  return opened_;
}

void CheckpointDirectory::make(std::size_t most) {
  opened_ = std::make_shared<const core::Directory>(make_directories(path_, durable_, most));
}

core::FileAddress CheckpointDirectory::address(const fs::path& below) const {
  return {shared_opened(), below, path_ / below};
}

std::vector<core::DirectoryEntry> CheckpointDirectory::listed() const {
  std::vector<core::DirectoryEntry> found = opened().list();
  if (!opened().is_at_its_path()) {  // a directory that was removed is empty, and must not be taken for a new one
    throw StorageError(ErrorCode::io,
                       "the checkpoint directory " + path_.string() + " was removed or replaced while in use");
  }
  return found;
}

std::string CheckpointDirectory::file_name(std::uint64_t number) const {
  return format_name(prefix_, number, kCheckpointSuffix);
}

std::string CheckpointDirectory::files_name(std::uint64_t number) const {
  return format_name(prefix_, number, kFilesSuffix);
}

std::string CheckpointDirectory::pin_name(std::uint64_t number) const {
  return file_name(number) + std::string(kPinnedSuffix);
}

std::string CheckpointDirectory::staged_name(StagedName staged, std::string_view suffix) const {
  return format_staged_name(prefix_, staged, suffix);
}

core::FileAddress CheckpointDirectory::file(std::uint64_t number) const { return address(file_name(number)); }

core::FileAddress CheckpointDirectory::recycled() const { return address(kRecycledName); }

core::FileAddress CheckpointDirectory::staged_file(StagedName staged) const {
  return address(fs::path(kStagingName) / staged_name(staged, kCheckpointSuffix));
}

fs::path CheckpointDirectory::files_directory(std::uint64_t number) const { return path_ / files_name(number); }

fs::path CheckpointDirectory::staged_files_directory(StagedName staged) const {
  return staging() / staged_name(staged, kFilesSuffix);
}

std::vector<std::uint64_t> CheckpointDirectory::numbers() {
  std::vector<std::uint64_t> numbers;
  for (const core::DirectoryEntry& entry : listed()) {
    const auto number = parse_name(prefix_, entry.name, kCheckpointSuffix);
    int ignored = 0;
    if (number && is_file(opened(), entry, ignored)) {
      numbers.push_back(*number);
    } else if (number && warned_.insert(*number).second) {
      core::log::warning("{} has the name of a checkpoint, but is not a file: passed over",
                         (path_ / entry.name).string());
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void CheckpointDirectory::check_checkpoints_are_files() const {
  for (const core::DirectoryEntry& entry : listed()) {
    int error = 0;
    if (!parse_name(prefix_, entry.name, kCheckpointSuffix) || is_file(opened(), entry, error)) {
      continue;
    }
    throw StorageError(
        error == EACCES ? ErrorCode::permission : ErrorCode::io,
        (path_ / entry.name).string() + " has the name of a checkpoint, but " +
            (error == 0
                 ? "is not a file"
                 : "what it stands for cannot be reached: " +
                       (error == ENOENT ? std::string("a link to nothing") : std::generic_category().message(error))) +
            "; nothing is restored and nothing is initialised before that is put right: make it reachable (is a file "
            "system not mounted?), or move it away if it is not wanted");
  }
}

void CheckpointDirectory::check_nothing_is_quarantined() const {
  std::string names;
  for (const core::DirectoryEntry& entry : listed()) {
    const auto name = parse_quarantined_name(entry.name);
    if (name && name->prefix == prefix_) {
      names += (names.empty() ? "" : ", ") + name->file;
    }
  }
  if (!names.empty()) {
    throw CorruptError("there is no checkpoint in " + path_.string() + " but those that were quarantined as corrupt (" +
                       names + "): this is not a new run. `reprieve unquarantine " + path_.string() +
                       "` takes back those that are valid; to start from the beginning, move them away");
  }
}

bool CheckpointDirectory::is_quarantined(std::uint64_t number) const {
  return std::ranges::any_of(listed(), [&](const core::DirectoryEntry& entry) {
    const auto name = parse_quarantined_name(entry.name);
    return name && name->prefix == prefix_ && name->number == number;
  });
}

bool CheckpointDirectory::is_pinned(std::uint64_t number) const { return opened().contains(pin_name(number)); }

std::optional<CheckpointInfo> CheckpointDirectory::info(std::uint64_t number) {
  const core::FileAddress path = file(number);
  struct stat status = {};
  if (const int error = opened().target_status(file_name(number), status); error != 0) {
    core::log::warning("{} left out: {}", path.string(), std::generic_category().message(error));
    return std::nullopt;
  }
  const auto known = known_.find(number);
  if (known != known_.end() && known->second.is(status)) {
    return known->second.info;
  }
  Known read{{status}};
  try {
    read.info = make_info(path, number, storage::read_metadata(path));
  } catch (const Error& error) {
    core::log::warning("{} left out: {}", path.string(), error.what());
    if (dynamic_cast<const StorageError*>(&error) != nullptr) {
      return std::nullopt;  // may pass, so it is not remembered
    }
  }
  return known_.insert_or_assign(number, std::move(read)).first->second.info;
}

std::vector<OrderEntry> CheckpointDirectory::in_order(const std::string& id) {
  std::vector<OrderEntry> entries;
  for (const std::uint64_t number : numbers()) {
    const auto known = info(number);
    entries.push_back(known ? order_entry(*known, id) : OrderEntry{number});
  }
  sort_oldest_first(entries);
  return entries;
}

std::uint64_t CheckpointDirectory::free_number(std::uint64_t wanted, bool may_replace) const {
  std::uint64_t highest = 0;
  bool is_empty = true;
  for (const core::DirectoryEntry& entry : listed()) {
    const auto number = parse_name(prefix_, entry.name, kCheckpointSuffix);
    const auto aside = parse_quarantined_name(entry.name);
    if (number || (aside && aside->prefix == prefix_)) {
      highest = std::max(highest, number ? *number : aside->number);
      is_empty = false;
    }
  }
  if (is_empty || wanted > highest ||
      (wanted == highest && may_replace && opened().contains(file_name(wanted)) && !is_pinned(wanted))) {
    return wanted;
  }
  if (highest == std::numeric_limits<std::uint64_t>::max()) {
    throw UsageError("no number is left for a checkpoint after " + file(highest).string() + "; move that away");
  }
  return highest + 1;
}

void CheckpointDirectory::remember(std::uint64_t number, const storage::FileMetadata& metadata) {
  struct stat status = {};
  if (opened().target_status(file_name(number), status) == 0) {
    known_[number] = {{status}, make_info(file(number), number, metadata)};
    committed_[number] = {{status}, metadata.identity ? metadata.identity->save : 0};
  }
}

/// For one more like those that are known.
bool CheckpointDirectory::lacks_room() const {
  off_t largest = 0;
  for (const auto& [number, known] : known_) {
    largest = std::max(largest, known.status.st_size);
  }
  return opened().available_bytes().value_or(UINT64_MAX) < static_cast<std::uint64_t>(largest);
}

void CheckpointDirectory::prepare_staging(std::uint64_t number) {
  if (freeing_ && lacks_room()) {
    constexpr std::chrono::seconds longest{2};
    static_cast<void>(freeing_->wait_for(longest));
  }
  struct stat target = {};
  if (opened().contains(file_name(number)) &&
      (opened().target_status(file_name(number), target) != 0 || !S_ISREG(target.st_mode))) {
    throw StorageError(ErrorCode::io, "cannot save checkpoint " + std::to_string(number) + ": " +
                                          file(number).string() + " exists and is not a file; move it away");
  }
  recover();
  opened().make_directory_if_free(kStagingName, core::kOwnDirectory);
}

core::Directory CheckpointDirectory::open_staging() const { return opened().open_directory(kStagingName); }

void CheckpointDirectory::make_staged_files(StagedName staged) const {
  open_staging().make_directory(staged_name(staged, kFilesSuffix), opened().directory_mode());
}

bool CheckpointDirectory::keep_staged_files(StagedName staged) const {
  const core::Directory staging = open_staging();
  const core::Directory files = staging.open_directory(staged_name(staged, kFilesSuffix));
  if (files.list().empty()) {
    return false;
  }
  if (durable_) {
    files.sync_tree();
    // After a power cut, step 5 must find them by their names.
    staging.sync();
    opened().sync();
  }
  return true;
}

void CheckpointDirectory::commit(StagedName staged, bool has_files) {
  const core::Directory staging = open_staging();
  const std::string name = staged_name(staged, kCheckpointSuffix);
  staging.set_file_mode(name, opened().file_mode());
  staging.rename(name, opened(), file_name(staged.number));
  core::failpoint("commit.renamed");
  make_durable();
  core::failpoint("commit.durable");
  if (has_files) {
    install_files(staged);
  } else {
    remove_or_log(files_name(staged.number));  // of the checkpoint that this one has replaced
  }
}

void CheckpointDirectory::install_files(StagedName staged) {
  const std::string target = files_name(staged.number);
  opened().remove_tree(target);
  open_staging().rename(staged_name(staged, kFilesSuffix), opened(), target);
  make_durable();
}

void CheckpointDirectory::make_durable() const {
  if (durable_) {
    opened().sync();
  }
}

void CheckpointDirectory::remove_or_log(const std::string& name) const noexcept {
  core::log::or_warn("left behind", [&] { opened().remove_tree(name); });
}

void CheckpointDirectory::recover() {
  const auto staging = opened().find_directory(kStagingName);
  if (!staging) {
    opened().remove_tree(kStagingName);  // a link, or a file
    return;
  }
  std::vector<std::string> left;
  bool is_shared = false;
  for (const core::DirectoryEntry& entry : staging->list()) {
    if (is_staged_under_another_prefix(prefix_, entry.name)) {
      is_shared = true;
    } else {
      left.push_back(entry.name);
    }
  }
  std::for_each(left.begin(), left.end(), [this](const std::string& name) { recover_files(name); });
  if (is_shared || keeps_staging_) {
    std::for_each(left.begin(), left.end(), [&](const std::string& name) { staging->remove_tree(name); });
  } else {
    opened().remove_tree(kStagingName);
  }
}

void CheckpointDirectory::recover_files(const std::string& staged_name) {
  const auto staged = parse_staged_name(prefix_, staged_name, kFilesSuffix);
  if (staged && opened().contains(file_name(staged->number)) && belong_to_a_checkpoint(*staged)) {
    install_files(*staged);
    core::failpoint("open.recovered");
    core::log::info("put the files of checkpoint {} in place: its run ended before it could", staged->number);
  }
}

/// Whether the committed checkpoint of that number is the one of these files. An error if that is unknown just now:
/// only what is known to be a left-over may be removed.
bool CheckpointDirectory::belong_to_a_checkpoint(StagedName staged_files) const {
  try {
    const storage::FileMetadata metadata = storage::read_metadata(file(staged_files.number));
    return metadata.has_files && metadata.time_us == staged_files.time_us;
  } catch (const StorageError&) {
    throw;
  } catch (const Error&) {
    return false;  // corrupt
  }
}

void CheckpointDirectory::remove_left_overs() {
  try {
    recover();
    remove_orphans();
    core::remove_write_directories(path_);
  } catch (const StorageError& error) {
    core::log::warning("left-overs of an earlier run stay behind: {}", error.what());
  }
}

void CheckpointDirectory::remove_orphans() const {
  const std::string pin = std::string(kCheckpointSuffix) + std::string(kPinnedSuffix);
  for (const core::DirectoryEntry& entry : listed()) {
    const auto files_of = parse_name(prefix_, entry.name, kFilesSuffix);
    const auto number = files_of ? files_of : parse_name(prefix_, entry.name, pin);
    if (number && !opened().contains(file_name(*number))) {
      core::log::info("removing {}: its checkpoint is gone", (path_ / entry.name).string());
      opened().remove_tree(entry.name);
    }
  }
}

fs::path CheckpointDirectory::quarantine(std::uint64_t number) {
  return quarantine_as(number, free_corrupt_suffix(opened(), file_name(number), files_name(number)));
}

fs::path CheckpointDirectory::quarantine_as(std::uint64_t number, const std::string& suffix) {
  const std::string name = file_name(number);
  const std::string files = files_name(number);
  // The files first: without their checkpoint they would count as a left-over.
  if (opened().contains(files)) {
    opened().rename(files, opened(), files + suffix);
  }
  opened().rename(name, opened(), name + suffix);
  if (is_pinned(number)) {  // the next checkpoint of this number is another one
    opened().rename(pin_name(number), opened(), pin_name(number) + suffix);
  }
  make_durable();
  known_.erase(number);
  return path_ / (name + suffix);
}

void CheckpointDirectory::take_back(const QuarantinedName& name) {
  const std::string file = file_name(name.number);
  const std::string files = files_name(name.number);
  const core::FileAddress aside = address(file + name.suffix);
  if (opened().contains(file) || opened().contains(files)) {
    throw StorageError(ErrorCode::io, "cannot take back " + aside.string() + ": " +
                                          (path_ / (opened().contains(file) ? file : files)).string() +
                                          " is there; move it away");
  }
  const bool has_files = opened().contains(files + name.suffix);
  if (storage::read_metadata(aside).has_files && !has_files) {
    throw StorageError(ErrorCode::io,
                       "cannot take back " + aside.string() + ": the files of its save function are gone");
  }
  if (const std::string pin = pin_name(name.number); opened().contains(pin + name.suffix)) {
    opened().rename(pin + name.suffix, opened(), pin);
  }
  opened().rename(file + name.suffix, opened(), file);  // first, as files without their checkpoint would be a left-over
  if (has_files) {
    opened().rename(files + name.suffix, opened(), files);
  }
  make_durable();
}

/// The space of a file is freed when it has no name and is closed for the last time. Null while a thread still frees
/// another file: then the removal of the name frees the space in the calling thread.
std::shared_ptr<core::Descriptor> CheckpointDirectory::held_open(const std::string& name) const {
  if (freeing_ && !freeing_->done()) {
    return nullptr;
  }
  try {
    return std::make_shared<core::Descriptor>(opened().open_file(name, O_RDONLY));
  } catch (const StorageError&) {  // what cannot be opened can be removed all the same
    return nullptr;
  }
}

void CheckpointDirectory::remove(std::uint64_t number) {
  std::shared_ptr<core::Descriptor> content = held_open(file_name(number));
  opened().remove_tree(file_name(number));
  core::failpoint("retire.file_removed");
  if (content) {
    freeing_.emplace([owned = std::move(content)] {});  // it goes with the task
  }
  remove_files(number);
}

void CheckpointDirectory::remove_files(std::uint64_t number) {
  known_.erase(number);
  if (opened().contains(files_name(number))) {
    make_durable();  // the checkpoint must not come back without its files
    opened().remove_tree(files_name(number));
  }
}

std::vector<std::uint64_t> CheckpointDirectory::retire(const RetentionPolicy& policy, std::uint64_t committed,
                                                       const std::string& id, Retirement retirement) {
  if (policy.max_to_keep == 0) {
    return {};
  }
  std::vector<RetentionEntry> entries;
  for (const OrderEntry& entry : in_order(id)) {
    if (const auto known = info(entry.number); known && entry.origin != Origin::foreign) {
      entries.push_back({entry.number, known->time});
    }
  }
  std::vector<std::uint64_t> gone;
  for (const std::uint64_t number : to_retire(std::move(entries), policy, committed)) {
    if (is_pinned(number)) {
      continue;
    }
    if (retirement.recycle && make_recycled(number, retirement.remove)) {
      remove_files(number);
    } else if (retirement.remove) {
      remove(number);
    } else {
      continue;
    }
    gone.push_back(number);
  }
  return gone;
}

// The recycled file: that of a retired checkpoint, kept for the next one. save.cpp states the protocol.

/// A file that becomes the recycled one, and what a thread needs for that.
struct CheckpointDirectory::Recycling {
  std::shared_ptr<const core::Directory> directory;
  core::FileAddress file;
  bool durable;
  std::optional<Left> committed;  ///< as this object committed it, if it did
  std::optional<Left> left{};     ///< as it can be written over, if nobody has touched it since

  void run();
};

/// The order matters: the file must have lost its name for good before it loses its commit record, else a power cut
/// would leave a checkpoint that looks corrupt; and it must have lost its commit record for good before anything else
/// in it changes.
void CheckpointDirectory::Recycling::run() {
  try {
    if (durable) {
      directory->sync();
    }
    const storage::PosixFile opened = storage::PosixFile::open_to_write(file);
    if (!opened.is_shared()) {
      const bool is_as_committed = committed && committed->is(opened.status());
      const struct stat status = storage::void_commit_record(opened);
      core::failpoint("retire.recycled_void");
      if (is_as_committed) {
        left = Left{{status}, committed->save};
      }
      return;
    }
  } catch (const StorageError& error) {
    core::log::debug("{} is not recycled: {}", file.string(), error.what());
  }
  directory->remove_tree(kRecycledName);
}

/// The name is gone when this returns. The rest is left to a thread, unless the process is about to end.
bool CheckpointDirectory::make_recycled(std::uint64_t number, bool in_background) {
  const bool is_free = await_recycled() && !opened().contains(kRecycledName);
  const auto retired = opened().status_of(file_name(number));
  if (!is_free || !retired || !S_ISREG(retired->st_mode)) {
    return false;
  }
  const auto committed = committed_.extract(number);
  recycled_left_.reset();
  opened().rename(file_name(number), opened(), kRecycledName);
  core::failpoint("retire.recycled_renamed");
  recycling_ = std::make_shared<Recycling>(Recycling{
      shared_opened(), recycled(), durable_, committed.empty() ? std::nullopt : std::optional(committed.mapped())});
  recycling_task_.emplace([recycling = recycling_] { recycling->run(); });
  return in_background || await_recycled();
}

/// False if the file system does not answer.
bool CheckpointDirectory::await_recycled() {
  constexpr std::chrono::seconds longest{30};
  if (recycling_task_) {
    if (!recycling_task_->wait_for(longest)) {
      return false;
    }
    if (const core::Outcome failure = recycling_task_->outcome()) {
      core::log::warning("left behind: {}", failure->message);
    }
    recycled_left_ = recycling_->left;
    recycling_task_.reset();
  }
  return true;
}

bool CheckpointDirectory::Stamp::is(const struct stat& other) const {
  return status.st_ino == other.st_ino && status.st_size == other.st_size &&
         status.st_mtim.tv_sec == other.st_mtim.tv_sec && status.st_mtim.tv_nsec == other.st_mtim.tv_nsec;
}

/// Its data are those of that save. To be called after all that changes the file.
void CheckpointDirectory::note_recycled(std::uint64_t save) {
  const auto status = opened().status_of(kRecycledName);
  recycled_left_ = status ? std::optional(Left{{*status}, save}) : std::nullopt;
}

/// The save whose data the recycled file holds; 0: not known.
std::uint64_t CheckpointDirectory::recycled_left_by() const {
  const auto status = opened().status_of(kRecycledName);
  return status && recycled_left_ && recycled_left_->is(*status) ? recycled_left_->save : 0;
}

std::optional<std::uint64_t> CheckpointDirectory::take_recycled(StagedName staged) {
  if (!await_recycled() || !opened().contains(kRecycledName)) {
    return std::nullopt;
  }
  try {
    const std::uint64_t left_by = recycled_left_by();
    const storage::PosixFile file = storage::PosixFile::open_to_write(recycled());
    if (!file.is_shared()) {
      storage::void_commit_record(file);
      opened().rename(kRecycledName, open_staging(), staged_name(staged, kCheckpointSuffix));
      core::failpoint("save.recycled_taken");
      return left_by;
    }
  } catch (const StorageError& error) {
    core::log::warning("{} cannot be used: {}", recycled().string(), error.what());
  }
  remove_recycled();
  return std::nullopt;
}

void CheckpointDirectory::reserve(std::uint64_t size) {
  keeps_staging_ = true;
  opened().make_directory_if_free(kStagingName, core::kOwnDirectory);
  static_cast<void>(await_recycled());
  const std::uint64_t left_by = recycled_left_by();
  storage::PosixFile file = opened().contains(kRecycledName) ? storage::PosixFile::open_to_write(recycled())
                                                             : storage::PosixFile::create(recycled());
  file.allocate(std::max(size, file.size()));
  file.close();
  note_recycled(left_by);
}

void CheckpointDirectory::remove_recycled() noexcept {
  static_cast<void>(await_recycled());
  remove_or_log(kRecycledName);
}

void CheckpointDirectory::release_reserve() noexcept {
  remove_recycled();
  if (std::exchange(keeps_staging_, false)) {
    core::log::or_warn("left behind", [this] { recover(); });
  }
}

}  // namespace reprieve::manager
