// SPDX-License-Identifier: BSD-3-Clause
#include "manager/node_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <span>
#include <system_error>
#include <utility>

#include "core/log.hpp"
#include "reprieve/error.hpp"
#include "storage/bytes/checksum.hpp"

namespace reprieve::manager {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartSuffix = ".part";

std::string user_folder() { return fmt::format("reprieve-{}", ::geteuid()); }

/// Everybody may write in /dev/shm: what is restored must be this user's own.
bool is_own(const core::Directory& directory) {
  const struct stat status = directory.status();
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/// The user named it: an error says by which setting.
core::Directory open_local_directory(const fs::path& path) {
  try {
    return core::Directory::open(path);
  } catch (const StorageError& error) {
    throw StorageError(error.code(), fmt::format("local_directory cannot be used: {}", error.what()));
  }
}

bool is_base_name(const std::string& name) { return name == user_folder() || name.starts_with(user_folder() + '-'); }

/// Those of this user below the node-local directory, whatever they are called: anybody may have taken the plain name.
/// What is not this user's own can hold no copy of this user.
std::vector<core::Directory> own_bases(const core::Directory& above) {
  std::vector<core::Directory> bases;
  for (const core::DirectoryEntry& entry : above.list()) {
    if (!is_base_name(entry.name)) {
      continue;
    }
    auto base = entry.kind == core::EntryKind::directory ? above.find_directory(entry.name) : std::nullopt;
    if (base && is_own(*base)) {
      bases.push_back(std::move(*base));
    } else if (static std::atomic<bool> is_said{false}; !is_said.exchange(true)) {
      core::log::warning(
          "{} is passed over: it belongs to another user, or others may look into it; node-local copies lie beside it",
          (above.path() / entry.name).string());
    }
  }
  return bases;
}

core::Directory make_base(const core::Directory& above) {
  if (auto base = above.make_directory_if_free(user_folder(), core::kOwnDirectory)) {
    return std::move(*base);
  }
  // Another process of this user may have made it since it was looked for.
  if (auto base = above.find_directory(user_folder()); base && is_own(*base)) {
    return std::move(*base);
  }
  return above.make_directory_if_free(user_folder() + '-' + make_random_id(), core::kOwnDirectory).value();
}

bool is_part_name(const std::string& file) { return file.ends_with(kPartSuffix); }
bool is_part(const core::DirectoryEntry& entry) {
  return entry.kind == core::EntryKind::file && is_part_name(entry.name);
}

storage::PosixFile open_part(const core::Directory& directory, const std::string& file, int flags, mode_t mode = 0) {
  return {core::FileAddress(directory.path() / file), directory.open_file(file, flags, mode)};
}

bool is_of_launch(const std::string& file, const std::string& launch) { return file.starts_with(launch + '-'); }

/// Whether no living process has the file. Also true if the file was removed since it was listed: its run may end at
/// any moment. A lock that is had is given back with the descriptor.
bool is_left(const core::Directory& directory, const std::string& file) {
  try {
    const core::Descriptor opened = directory.open_file(file, O_RDWR);
    return ::flock(opened.get(), LOCK_EX | LOCK_NB) == 0;
  } catch (const StorageError&) {
    if (directory.contains(file)) {
      throw;
    }
    return true;
  }
}

/// @param corrupt  if not null, gets what is wrong with a part that nobody has made void
std::optional<FoundPart> find_part(const core::Directory& directory, const std::string& file,
                                   std::vector<std::string>* corrupt = nullptr) {
  try {
    const storage::PosixFile part = open_part(directory, file, O_RDONLY);
    try {
      return FoundPart{file, storage::read_part_name(part), part.size(), {}};
    } catch (const CorruptError& error) {
      if (corrupt != nullptr && !storage::is_void(storage::commit_record_bytes(part))) {
        corrupt->emplace_back(error.what());
      }
      throw;
    }
  } catch (const Error& error) {
    core::log::debug("passed over: {}", error.what());
    return std::nullopt;
  }
}

bool is_in_use(const core::Directory& directory) {
  return std::ranges::any_of(directory.list(), [&](const core::DirectoryEntry& entry) {
    return is_part(entry) && !is_left(directory, entry.name);
  });
}

constexpr const char* kLeft = "parts of node-local copies are left behind";

}  // namespace

std::uint64_t directory_key(const core::Directory& checkpoints) {
  struct statx found = {};
  if (::statx(checkpoints.descriptor(), "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &found) != 0) {
    throw StorageError(ErrorCode::io,
                       fmt::format("{}: {}", checkpoints.path().string(), std::generic_category().message(errno)));
  }
  const bool has_birth = (found.stx_mask & STATX_BTIME) != 0;
  const std::array<std::uint64_t, 3> words{found.stx_ino,
                                           has_birth ? static_cast<std::uint64_t>(found.stx_btime.tv_sec) : 0,
                                           has_birth ? found.stx_btime.tv_nsec : 0};
  return storage::xxh3(std::as_bytes(std::span(words)));
}

std::vector<FoundPart> parts_in(const core::Directory& directory, const std::string& host,
                                std::vector<std::string>* corrupt) {
  std::vector<FoundPart> found;
  for (const core::DirectoryEntry& entry : directory.list()) {
    if (is_part(entry)) {
      if (auto part = find_part(directory, entry.name, corrupt)) {
        found.push_back(std::move(*part));
        found.back().host = host;
      }
    }
  }
  return found;
}

NodeDirectory::NodeDirectory(const fs::path& local_directory, const std::string& directory_id, std::uint64_t key,
                             const std::string& prefix)
    : above_(local_directory), folder_(fmt::format("{}-{:x}-{}", directory_id, key, prefix)) {}

std::string NodeDirectory::part_name(const std::string& launch, int rank, int slot) {
  return fmt::format("{}-{}.{}{}", launch, rank, slot, kPartSuffix);
}

std::string NodeDirectory::partner_part_name(const std::string& launch, int rank, int slot) {
  return fmt::format("{}-{}.{}.partner{}", launch, rank, slot, kPartSuffix);
}

bool NodeDirectory::is_of_partner(const std::string& file) { return file.find(".partner.") != std::string::npos; }

int NodeDirectory::slot_of(const std::string& file) {
  for (int slot = 1; slot < kLocalSlots; ++slot) {
    if (file.find(fmt::format(".{}.", slot)) != std::string::npos) {
      return slot;
    }
  }
  return 0;
}

/// Another run that ends removes what is empty at that moment: then once more.
core::Directory NodeDirectory::make() const {
  constexpr int kMostTries = 20;
  const core::Directory above = open_local_directory(above_);
  for (int tries = 1;; ++tries) {
    try {
      if (auto directory = find(); directory && directory->is_at_its_path()) {
        return std::move(*directory);
      }
      std::vector<core::Directory> bases = own_bases(above);
      const core::Directory base = bases.empty() ? make_base(above) : std::move(bases.front());
      if (auto directory = base.make_directory_if_free(folder_, core::kOwnDirectory);
          directory && directory->is_at_its_path()) {
        return std::move(*directory);
      }
    } catch (const StorageError&) {
      if (tries >= kMostTries) {
        throw;
      }
    }
    if (tries >= kMostTries) {
      throw StorageError(ErrorCode::io, (above_ / folder_).string() + ": it is removed again and again");
    }
  }
}

std::optional<core::Directory> NodeDirectory::find() const {
  for (const core::Directory& base : own_bases(open_local_directory(above_))) {
    if (auto directory = base.find_directory(folder_)) {
      return directory;
    }
  }
  return std::nullopt;
}

std::vector<FoundPart> NodeDirectory::list(const std::string& host, std::vector<std::string>* corrupt) const {
  const auto directory = find();
  return directory ? parts_in(*directory, host, corrupt) : std::vector<FoundPart>();
}

void NodeDirectory::remove_if(
    const std::function<bool(const core::Directory& directory, const std::string& file)>& is_unwanted) const noexcept {
  core::log::or_warn(kLeft, [&] {
    const auto directory = find();
    if (!directory) {
      return;
    }
    for (const core::DirectoryEntry& entry : directory->list()) {
      if (is_part(entry) && is_unwanted(*directory, entry.name) && is_left(*directory, entry.name)) {
        directory->remove_file(entry.name);
      }
    }
    remove_empty();
  });
}

void NodeDirectory::remove_up_to(const storage::SaveIdentity& newest, const LaunchRecord& last) const noexcept {
  remove_if([&](const core::Directory& there, const std::string& file) {
    std::vector<std::string> corrupt;
    const auto part = find_part(there, file, &corrupt);
    if (!part) {
      return corrupt.empty();  // a part that is corrupt stays for whoever looks into it
    }
    const storage::LocalCopy& copy = part->name.copy;
    return (newest.save > 0 && !is_newer(copy.save, newest)) ||
           (copy.launch != last.launch && copy.launch != last.from_launch);
  });
}

void NodeDirectory::remove_left_overs(const std::string& launch) const noexcept {
  remove_if([&](const auto&, const std::string& file) { return !is_of_launch(file, launch); });
}

std::uint64_t NodeDirectory::left_over_bytes(const std::string& launch) const {
  std::uint64_t bytes = 0;
  const auto directory = find();
  for (const core::DirectoryEntry& entry : directory ? directory->list() : std::vector<core::DirectoryEntry>()) {
    const auto status =
        is_part_name(entry.name) && !is_of_launch(entry.name, launch) ? directory->status_of(entry.name) : std::nullopt;
    bytes += status ? static_cast<std::uint64_t>(status->st_size) : 0;
  }
  return bytes;
}

void NodeDirectory::remove_parts(const std::string& launch, int rank, const std::vector<int>& kept) const noexcept {
  core::log::or_warn(kLeft, [&] {
    if (const auto directory = find()) {
      for (int slot = 0; slot < kLocalSlots; ++slot) {
        directory->remove_file(part_name(launch, rank, slot));
        for (const int other : kept) {
          directory->remove_file(partner_part_name(launch, other, slot));
        }
      }
      remove_empty();
    }
  });
}

bool NodeDirectory::flush(const FoundPart& part, const core::Directory& checkpoints,
                          const std::function<bool()>& may_continue) const {
  const auto directory = find();
  if (!directory || !may_continue()) {
    return false;
  }
  try {
    return flush_part(open_part(*directory, part.file, O_RDONLY), part, checkpoints, may_continue);
  } catch (const StorageError&) {
    if (directory->contains(part.file)) {
      throw;
    }
    return false;
  }
}

void NodeDirectory::make_partner_parts_void(const std::string& launch, const std::vector<int>& kept,
                                            std::uint64_t save) const {
  const auto directory = find();
  if (!directory) {
    return;
  }
  for (const int rank : kept) {
    for (int slot = 0; slot < kLocalSlots; ++slot) {
      const std::string name = partner_part_name(launch, rank, slot);
      const auto part = directory->contains(name) ? find_part(*directory, name) : std::nullopt;
      if (part && part->name.copy.save.save < save) {
        storage::void_commit_record(open_part(*directory, name, O_RDWR));
      }
    }
  }
}

/// Other ranks may be at the same.
void NodeDirectory::remove_empty() const {
  const core::Directory above = core::Directory::open(above_);
  for (const core::Directory& base : own_bases(above)) {
    if (base.remove_empty_directory(folder_)) {
      above.remove_empty_directory(base.path().filename().string());
    }
  }
}

std::vector<LocalFolder> local_folders(const fs::path& local_directory) {
  std::vector<LocalFolder> folders;
  for (const core::Directory& base : own_bases(open_local_directory(local_directory))) {
    for (const core::DirectoryEntry& entry : base.list()) {
      const auto folder = entry.kind == core::EntryKind::directory ? base.find_directory(entry.name) : std::nullopt;
      if (folder) {  // else its run has just ended
        LocalFolder found{.path = folder->path(), .in_use = is_in_use(*folder)};
        found.parts = parts_in(*folder, {}, &found.corrupt);
        folders.push_back(std::move(found));
      }
    }
  }
  return folders;
}

std::uint64_t remove_local_folder(const fs::path& named, bool dry_run) {
  const fs::path path = fs::absolute(named.has_filename() ? named : named.parent_path());
  const core::Directory base = core::Directory::open(path.parent_path());
  const std::string name = path.filename().string();
  const auto folder = base.find_directory(name);
  if (!is_base_name(base.path().filename().string()) || !folder || !is_own(base)) {
    throw UsageError(path.string() + " is no directory of node-local copies: `reprieve ls --all-local` lists yours");
  }
  if (is_in_use(*folder)) {
    throw StorageError(ErrorCode::locked, path.string() + ": a living process uses these node-local copies");
  }
  std::uint64_t bytes = 0;
  for (const core::DirectoryEntry& entry : folder->list()) {
    const auto status = is_part_name(entry.name) ? folder->status_of(entry.name) : std::nullopt;
    if (status) {
      bytes += static_cast<std::uint64_t>(status->st_size);
      if (!dry_run) {
        folder->remove_file(entry.name);
      }
    }
  }
  if (!dry_run) {
    base.remove_empty_directory(name);
  }
  return bytes;
}

bool is_newer(const storage::SaveIdentity& a, const storage::SaveIdentity& b) {
  return std::tie(a.run, a.save) > std::tie(b.run, b.save);
}

namespace {

constexpr std::string_view kUnfinishedSuffix = ".new";
constexpr std::uint64_t kCopiedAtOnce = std::uint64_t{1} << 20U;

/// False if it must stop.
bool copy_content(const storage::PosixFile& from, const storage::PosixFile& to,
                  const std::function<bool()>& may_continue) {
  const std::uint64_t size = from.size();
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(size, kCopiedAtOnce)));
  for (std::uint64_t done = 0; done < size;) {
    if (!may_continue()) {
      return false;
    }
    const auto now = std::span(piece).first(static_cast<std::size_t>(std::min(size - done, kCopiedAtOnce)));
    from.read_all(now, done);
    to.write_all(now, done);
    done += now.size();
  }
  return may_continue();
}

/// Nobody is still at it: a node may flush its part at any time.
bool is_abandoned(const core::Directory& directory, const std::string& name) {
  constexpr std::time_t kOneDay = std::time_t{24} * 60 * 60;
  const auto status = directory.status_of(name);
  return status && std::time(nullptr) - status->st_mtim.tv_sec > kOneDay;
}

/// A part that is written again loses its commit record before anything else of it changes. So what was read before
/// this was called is all of one copy.
bool is_still(const storage::PosixFile& part, const storage::PartName& name) {
  try {
    return storage::read_part_name(part) == name;
  } catch (const CorruptError&) {
    return false;
  }
}

/// Makes a file in the directory of flushed parts. Another node that made a checkpoint removes it, empty, at any
/// moment: then once more.
std::pair<core::Directory, storage::PosixFile> begin_part(const core::Directory& checkpoints, const std::string& name) {
  constexpr int kMostTries = 20;
  for (int tries = 1;; ++tries) {
    const auto made = checkpoints.make_directory_if_free(kFlushedName, core::kOwnDirectory);
    auto directory = checkpoints.find_directory(kFlushedName);
    if (!directory && tries == kMostTries) {
      directory = checkpoints.open_directory(kFlushedName);
    }
    if (!directory) {
      continue;
    }
    try {
      storage::PosixFile file = open_part(*directory, name, O_WRONLY | O_CREAT | O_TRUNC, core::kOwnFile);
      if (made) {
        checkpoints.sync();
      }
      return {std::move(*directory), std::move(file)};
    } catch (const StorageError&) {
      if (tries == kMostTries || directory->is_at_its_path()) {
        throw;
      }
    }
  }
}

/// Removes the files for which @p is_unwanted(directory, name) is true, and the directory if it is empty then.
template <class Unwanted>
void remove_from_flushed(const core::Directory& checkpoints, const Unwanted& is_unwanted) noexcept {
  core::log::or_warn(kLeft, [&] {
    if (const auto directory = checkpoints.find_directory(kFlushedName)) {
      for (const core::DirectoryEntry& entry : directory->list()) {
        if (is_unwanted(*directory, entry)) {
          directory->remove_file(entry.name);
        }
      }
      checkpoints.remove_empty_directory(kFlushedName);
    }
  });
}

}  // namespace

std::vector<FoundPart> flushed_parts(const core::Directory& checkpoints) {
  const auto directory = checkpoints.find_directory(kFlushedName);
  return directory ? parts_in(*directory) : std::vector<FoundPart>();
}

std::set<std::string> names_of_flushed_parts(const core::Directory& checkpoints) {
  std::set<std::string> names;
  if (const auto directory = checkpoints.find_directory(kFlushedName)) {
    for (const core::DirectoryEntry& entry : directory->list()) {
      names.insert(entry.name);
    }
  }
  return names;
}

bool flush_part(const storage::PosixFile& part, const FoundPart& found, const core::Directory& checkpoints,
                const std::function<bool()>& may_continue) {
  // Of this process alone: two of a host may flush the same part.
  const std::string unfinished = fmt::format("{}.{}{}", found.file, ::getpid(), kUnfinishedSuffix);
  auto [directory, copy] = begin_part(checkpoints, unfinished);
  try {
    if (!copy_content(part, copy, may_continue) || !is_still(part, found.name)) {
      directory.remove_file(unfinished);
      return false;
    }
    copy.sync();
    copy.close();
    directory.rename(unfinished, directory, found.file);
  } catch (...) {
    directory.remove_file(unfinished);
    throw;
  }
  directory.sync();
  return true;
}

void remove_flushed_parts(const core::Directory& checkpoints, const std::string& prefix,
                          const storage::SaveIdentity& newest) noexcept {
  remove_from_flushed(checkpoints, [&](const core::Directory& directory, const core::DirectoryEntry& entry) {
    if (entry.name.ends_with(kUnfinishedSuffix)) {
      return is_abandoned(directory, entry.name);
    }
    const auto part = is_part(entry) ? find_part(directory, entry.name) : std::nullopt;
    return part && part->name.copy.prefix == prefix && !is_newer(part->name.copy.save, newest);
  });
}

void remove_flushed_parts(const core::Directory& checkpoints, const std::set<std::string>& names) noexcept {
  remove_from_flushed(checkpoints,
                      [&](const auto&, const core::DirectoryEntry& entry) { return names.contains(entry.name); });
}

}  // namespace reprieve::manager
